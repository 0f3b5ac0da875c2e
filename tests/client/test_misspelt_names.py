"""An app with a default shows something whatever goes wrong: names that nobody knows are logged, once each."""

import asyncio
import logging

import pytest

from cases.client import SHARED, Server, answer, both_signed, configuration, offer
from croupier.client import AsyncClient, Client, NoTurn, Turn
from croupier.messages.signing import to_text

ANALYZER, FRONT = Server.make(), Server.make()
KEYS = {"analyzer": ANALYZER.public.verify, "front": FRONT.public.verify}
URL = "https://analyzer.test"
UNKNOWN = answer(404, {"type": "urn:croupier:error:unknown-experiment", "title": "There is no such experiment"})


class Wire:
    """Servers without a network that know one experiment."""

    def __init__(self):
        signed = both_signed(configuration(ANALYZER, FRONT, SHARED).statement(), ANALYZER, FRONT)
        given = both_signed(offer(signed, SHARED).statement(), ANALYZER, FRONT)
        self.answers = {
            "experiments/colours": answer(200, signed.to_dict()),
            "assignments": answer(201, {"offer": given.to_dict(), "token": to_text(bytes(56)), "expires": 2**40}),
        }

    def exchange(self, request):
        return next((found for name, found in self.answers.items() if request.url.endswith(name)), UNKNOWN)

    def wait(self, seconds):
        raise AssertionError("nothing is worth waiting for")


class AsyncWire(Wire):
    async def exchange(self, request):
        return super().exchange(request)


def played(kind, *plays):
    """What a client of this kind is given, one after the other."""
    if kind is Client:
        with Client(URL, http=Wire(), keys=KEYS, background=False) as client:
            return [client.play(name, default=default) for name, default in plays]

    async def work():
        async with AsyncClient(URL, http=AsyncWire(), keys=KEYS, background=False) as client:
            return [await client.play(name, default=default) for name, default in plays]

    return asyncio.run(work())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_experiment_that_the_analyzer_does_not_know_is_logged_once(kind, caplog):
    found = played(kind, ("colors", "red"), ("colors", "red"))
    assert all(one.is_default and "unknown-experiment" in str(one.why) for one in found)
    assert [(one.name, one.levelno, one.getMessage()) for one in caplog.records] == [
        ("croupier.client", logging.WARNING, f"the analyzer at {URL} knows no experiment called 'colors'")
    ]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_default_that_is_no_arm_is_logged_even_while_turns_are_taken(kind, caplog):
    found = played(kind, ("colours", "rde"), ("colours", "rde"))
    assert all(isinstance(one, Turn) for one in found)
    assert [one.getMessage() for one in caplog.records] == ["default = 'rde' is no arm of colours: it has red, green"]


def test_nothing_is_logged_of_names_that_are_known_or_where_the_reason_is_raised(caplog):
    assert isinstance(played(Client, ("colours", "red"))[0], Turn)
    with pytest.raises(NoTurn, match="unknown-experiment"):
        played(Client, ("colors", None))
    assert caplog.records == []
