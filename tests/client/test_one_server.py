"""One server that plays both: it holds both keys, so it would read what a device splits between two."""

import pytest

from cases.client import SHARED, Server, answer, both_signed, configuration, device, drive, offer, value_read
from croupier.client import BadSignature, BeyondLimits, NotPinned
from croupier.client.device import Device
from croupier.messages.signing import to_text

HONEST = configuration(Server.make(), Server.make(), SHARED).verify_keys
ANALYZER, FRONT = Server.make(), Server.make()
"""Both of one server, with an address for each."""
SIGNED = both_signed(configuration(ANALYZER, FRONT, SHARED).statement(), ANALYZER, FRONT)
OFFER = offer(SIGNED, SHARED)
JOINED = answer(200, SIGNED.to_dict())
TURN = answer(
    201,
    {"offer": both_signed(OFFER.statement(), ANALYZER, FRONT).to_dict(), "token": to_text(bytes(56)), "expires": 2**40},
)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_device_that_did_not_insist_on_pinned_keys_would_hand_one_server_both_shares(monkeypatch, value):
    """The guard removed: keys that are seen first are believed, and the value is read."""
    monkeypatch.setattr(Device, "_check_pinned", lambda self, configuration: None)
    own = device()
    found, _ = drive(own.play("colours"), JOINED, TURN)
    assert own.record(found, value)
    own.clock = lambda: found.report_at
    _, (request,) = drive(own.send_due(), answer(201, {"status": "accepted"}))
    assert request.url == "https://front.test/experiments/colours/reports"
    assert value_read(request.content, ANALYZER, FRONT, SIGNED, OFFER) == value


@pytest.mark.parametrize(
    "keys", [HONEST, HONEST | {"analyzer": ANALYZER.public.verify}, HONEST | {"front": FRONT.public.verify}]
)
def test_a_device_with_pinned_keys_joins_no_server_that_plays_the_other_too(keys):
    own = device(keys=keys)
    with pytest.raises(BadSignature):
        drive(own.play("colours"), JOINED)
    assert (own.account.turns, own.account.taken) == ([], {})


def test_a_device_without_pinned_keys_takes_no_turn():
    own = device()
    with pytest.raises(NotPinned):
        drive(own.play("colours"), JOINED)
    assert (own.account.turns, own.account.taken) == ([], {})


def test_one_key_for_both_roles_is_refused_even_if_it_is_pinned():
    signed = both_signed(configuration(ANALYZER, ANALYZER, SHARED).statement(), ANALYZER, ANALYZER)
    own = device(keys={"analyzer": ANALYZER.public.verify, "front": ANALYZER.public.verify})
    with pytest.raises(BeyondLimits, match="both servers have one key"):
        drive(own.play("colours"), answer(200, signed.to_dict()))
