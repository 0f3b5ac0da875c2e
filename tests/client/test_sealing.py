"""Sealing: what one server opens and nobody else, in one context and no other."""

import pytest

from croupier.checks import InvalidParameter
from croupier.messages.sealing import SUITES, Unopenable, check_public, key_id, seal, suite, unseal


@pytest.fixture(params=SUITES, ids=str)
def pair(request):
    private = SUITES[request.param].generate()
    return request.param, private, SUITES[request.param].public_of(private)


def test_what_is_sealed_is_opened_by_the_key_it_was_sealed_to(pair):
    name, private, public = pair
    sealed = seal(name, public, b"one", b"context")
    assert unseal(name, private, sealed, b"context") == b"one"
    assert len(sealed) == 3 + SUITES[name].overhead


def test_another_context_another_key_or_a_changed_byte_does_not_open(pair):
    name, private, public = pair
    sealed = seal(name, public, b"one", b"context")
    other = SUITES[name].generate()
    changed = bytearray(sealed)
    changed[-1] ^= 1
    for key, ciphertext, info in (
        (private, sealed, b"contexT"),
        (other, sealed, b"context"),
        (private, bytes(changed), b"context"),
        (private, sealed[:-1], b"context"),
        (private, b"", b"context"),
        (private, sealed[: SUITES[name].encapsulation], b"context"),
    ):
        with pytest.raises(Unopenable):
            unseal(name, key, ciphertext, info)


def test_equal_messages_are_sealed_differently_each_time(pair):
    name, _, public = pair
    sealed = {seal(name, public, b"one", b"context") for _ in range(20)}
    # A fresh encapsulation each: no two share even their first block.
    assert len({one[:16] for one in sealed}) == 20


def test_keys_of_the_wrong_kind_are_refused(pair):
    name, _, public = pair
    check_public(name, public)
    with pytest.raises(InvalidParameter):
        check_public(name, public + b"\0")
    with pytest.raises(InvalidParameter):
        suite("rot13")


def test_keys_have_short_names_that_differ(pair):
    name, _, public = pair
    other = SUITES[name].public_of(SUITES[name].generate())
    assert len(key_id(public)) == 8
    assert key_id(public) != key_id(other)
