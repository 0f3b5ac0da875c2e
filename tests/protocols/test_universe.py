"""A universe is public and fixed: what is outside is refused, and a bucket is read back honestly."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.checks import InvalidParameter
from croupier.protocols import Buckets, ItemOutside, Items, Numbers
from croupier.protocols.histograms.universe import universe_from_dict

TEXTS = st.text(min_size=1, max_size=8)


def test_an_item_outside_is_refused_with_its_place() -> None:
    with pytest.raises(ItemOutside, match="item = 'mauve' .* one of the universe's 2 items") as refused:
        Items(("red", "green")).indices(["green", "mauve", "puce"])
    assert refused.value.place == 1
    with pytest.raises(ItemOutside, match="item = 3"):
        Items(("red", "green")).indices(["red", 3])
    with pytest.raises(ItemOutside, match="item = 7") as refused:
        Numbers(5).indices(np.array([0, 7, 9]))
    assert refused.value.place == 1
    with pytest.raises(ItemOutside, match="text"):
        Buckets(4).indices(["red", 3])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Items(("red",)), "size"),
        (lambda: Items(("red", "green", "red")), "names"),
        (lambda: Items("red"), "names"),
        (lambda: Items((1, 2)), "names"),
        (lambda: Buckets(0), "bits"),
        (lambda: Buckets(27), "bits"),
        (lambda: Buckets(4, salt="a\0b"), "salt"),
        (lambda: Numbers(1), "size"),
        (lambda: universe_from_dict({"kind": "all"}), "universe"),
        (lambda: universe_from_dict({"kind": "numbers", "most": 3}), "universe"),
    ],
)
def test_a_universe_that_is_none_is_refused_by_name(make, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        make()


def test_numbers_refuse_what_is_not_whole() -> None:
    with pytest.raises(ItemOutside, match="float64"):
        Numbers(5).indices([0.5, 1.0])


def test_the_bucket_is_the_leading_bits_of_the_stated_hash() -> None:
    # sha256(b"2024\x00caf\xc3\xa9") begins with these four octets.
    assert hashlib.sha256("2024\0café".encode()).hexdigest()[:8] == "f350ebe3"
    for bits in (1, 7, 16, 26):
        assert Buckets(bits, "2024").bucket("café") == 0xF350EBE3 >> (32 - bits)


def test_items_that_share_a_bucket_are_named_together() -> None:
    names = tuple(f"item {i}" for i in range(200))
    buckets = Buckets(bits=6, salt="s", candidates=names)
    assert sorted(item for items in buckets.members.values() for item in items) == sorted(names)
    assert buckets.collisions, "200 items in 64 buckets must collide"
    for bucket, items in buckets.collisions.items():
        assert {buckets.bucket(item) for item in items} == {bucket}
        assert buckets.name(bucket) == " + ".join(items)
    empty = next(b for b in range(64) if b not in Buckets(6, "s", names[:3]).members)
    assert "no candidate" in Buckets(6, "s", names[:3]).name(empty)


def test_the_salt_moves_the_buckets() -> None:
    names = [f"item {i}" for i in range(100)]
    assert (Buckets(16, "a").indices(names) != Buckets(16, "b").indices(names)).sum() > 90


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(TEXTS, min_size=2, max_size=20, unique=True))
def test_every_universe_reads_back_and_finds_its_own_items(names: list[str]) -> None:
    items, buckets = Items(tuple(names)), Buckets(5, "x", tuple(names))
    for universe in (items, buckets, Numbers(len(names))):
        assert universe_from_dict(universe.to_dict()) == universe
    assert [items.name(i) for i in items.indices(names)] == names
    assert all(name in buckets.name(b) for name, b in zip(names, buckets.indices(names).tolist(), strict=True))
