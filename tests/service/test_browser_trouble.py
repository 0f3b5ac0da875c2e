"""What goes wrong around the browser's client: words no honest server says, stores, clocks, turns of old versions."""

import json

import pytest

from cases import vector_reports as making
from cases.service.browser_pages import Asked, browsing
from cases.service.staged import stage
from croupier.messages.signing import Statement

pytestmark = pytest.mark.slow

URN = "urn:croupier:error:"
NO_TEXT = {"toString": 1, "valueOf": 1}
"""What a browser can turn neither into a text nor into a number."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser-trouble") / "site") as (context, origin):
        yield Asked(context, origin)


def test_no_words_of_a_server_are_more_than_words(ask):
    bodies = [
        {"type": f"{URN}nothing-open", "detail": NO_TEXT, "retry_after": NO_TEXT},
        {"type": f"{URN}nothing-open", "detail": [NO_TEXT], "title": "a title", "retry_after": [5]},
        {"type": f"{URN}nothing-open", "detail": "x" * 10**6, "retry_after": "1e999"},
        {"type": f"{URN}{'x' * 10**6}", "detail": ""},
        {"type": NO_TEXT},
        {"type": f"{URN}nothing-open", "detail": "later", "retry_after": 2.5},
        [],
        None,
    ]
    found = ask("documents", bodies)
    assert [one["reason"][:40] for one in found] == [
        *["nothing-open"] * 3,
        "http-409",
        "http-409",
        "nothing-open",
        "http-409",
        "http-409",
    ]
    assert all(one["length"] <= 1100 for one in found)
    assert [one["retryAfter"] for one in found] == [None] * 5 + [2.5, None, None]


@pytest.mark.parametrize("words", [{"type": f"{URN}internal", "detail": NO_TEXT}, {"retry_after": NO_TEXT}])
def test_a_front_that_answers_oddly_keeps_no_other_report_waiting(words, ask):
    assert ask("neighbours", stage() | {"words": words}) == {"refused": None, "uploads": 1, "reports": 3}


def test_a_front_is_not_asked_again_and_again_and_patience_has_an_end(ask):
    cases = [{"retryAfter": 0}, {"retryAfter": 1e-9}, {"retryAfter": 0, "back": 10**6}]
    for found in ask("impatient", [stage() | given for given in cases]):
        assert found["refused"] == "nothing-open"
        assert 2 <= found["asked"] <= 12
        assert found["waited"] < 10


def test_a_time_of_many_days_is_no_time_that_is_over_at_once(ask):
    assert ask("longTimeouts", stage() | {"timeouts": [3e6, 1e7, None]}) == [True] * 3


def test_a_configuration_without_bottom_is_refused(ask):
    body = stage()["configuration"]["body"]
    for key in ("recipe", "program"):
        deep = json.dumps(json.loads(body)[key])[:-1] + ', "deep": ' + "[" * 200_000 + "]" * 200_000 + "}"
        text = body.replace(json.dumps(json.loads(body)[key], sort_keys=True, separators=(",", ":")), deep)
        assert deep in text
        found = ask("joinsSoon", {"statement": making.signed(Statement("configuration", text)).to_dict()})
        assert found["refused"] == "malformed"


def test_a_page_stays_alive_while_it_computes(ask):
    """Four batches take half a second, and nobody who gave a timeout waits for that."""
    bits = making.MECHANISMS["shuffled-bits"][0].to_json()
    found = ask("breathing", {"mechanisms": [bits] * 4, "epsilon": 3.0})
    assert found["ticks"] >= 2
    assert 0 < found["delta"] < 1e-3


@pytest.mark.parametrize("how", ["QuotaExceededError", "InvalidStateError", "null"])
def test_a_store_that_breaks_is_a_reason_and_no_turn_is_taken_that_cannot_be_kept(how, ask):
    reading = ask("broken", stage() | {"step": "read", "how": how})
    assert reading["failures"]
    assert (reading["why"], reading["armName"], reading["sent"]) == ("unusable", "red", ["configuration"])
    assert reading["refused"] == ["unusable", None, "unusable", "unusable", "unusable"]
    writing = ask("broken", stage() | {"step": "change", "how": how})
    assert writing["failures"]
    assert (writing["why"], writing["armName"]) == ("unusable", "red")
    assert {*writing["sent"]} == {"configuration"}
    assert writing["refused"] == ["unusable", "unusable", None, None, None]


def test_a_browser_without_a_database_or_without_room_is_a_reason(ask):
    assert ask("noDatabase", "private") == ["unusable"] * 3
    assert ask("noDatabase", "full") == ["unusable", None, "unusable"]


def test_a_connection_that_ended_is_opened_anew(ask):
    assert ask("lostConnection") == [4.0, 4.0]


@pytest.mark.parametrize("text", ["", "{}", '{"version":0}', "null", "[1]"])
def test_a_turn_that_an_older_version_kept_is_in_nobodys_way(text, ask):
    found = ask("older", stage() | {"text": text})
    assert found.pop("trouble").startswith("malformed")
    assert found == {
        "turns": True,
        "again": True,
        "uploads": 1,
        "waiting": 1,
        "due": None,
        "after": None,
        "left": 0,
    }


def test_a_clock_that_is_set_back_does_not_hold_a_report_for_a_year(ask):
    found = ask("setBack", stage())
    assert found["first"] == pytest.approx(60, abs=1e-3)
    assert (found["due"], found["uploads"]) == (None, 1)
