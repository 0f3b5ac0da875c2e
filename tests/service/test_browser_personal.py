"""Pages take part in a personalised experiment on real servers: what they choose, what is released, what is refused."""

import hashlib
import json
import time

import numpy as np
import pytest

from cases.service.browser_pages import NO_OTHER_CHANCE, Asked, site
from cases.service.browser_world import launched
from cases.service.processes import SELDOM, TIPS, home_of, transcript_of, written
from croupier.messages.configuration import Configuration
from croupier.messages.offer import Offer
from croupier.messages.signing import to_text
from croupier.personal import Personal, Rule
from croupier.service import keys
from croupier.service.processes import both
from croupier.service.verifying import verify

pytestmark = pytest.mark.slow

USERS = 80


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Both servers, and a page of another site."""
    directory = tmp_path_factory.mktemp("browser-personal")
    home, file = home_of(directory), written(directory, TIPS)
    with site(directory / "site") as origin, launched() as browser:
        allowed = {server: {**settings, "origins": origin} for server, settings in SELDOM.items()}
        with both(home, [file], **allowed):
            context = browser.new_context()
            context.add_init_script(NO_OTHER_CHANCE)
            yield home, Asked(context, origin)


def given(home, **more):
    signing = {one: to_text(keys.load(home.directory / one / "keys").verify) for one in ("analyzer", "front")}
    return {"analyzer": home.analyzer_url, "name": "tips", "keys": signing} | more


def people(count, seed):
    draw = np.random.default_rng(seed)
    return [{"age": draw.uniform(18, 80), "evening": float(draw.integers(0, 101))} for _ in range(count)]


def records(home, event):
    found = [json.loads(line) for line in transcript_of(home, "tips").splitlines()]
    return [one for one in found if one["event"] == event]


def released(home, batches):
    """Wait until so many batches are released."""
    deadline = time.monotonic() + 30
    while len(records(home, "released")) < batches:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return records(home, "released")[-1]


def test_a_page_that_is_wrong_about_its_user_sends_nothing(world):
    home, ask = world
    bad = [
        {"age": 17.9, "evening": 0},
        {"age": 30},
        {"age": "nan", "evening": 0},
        {"age": 30, "evening": 0, "x": 1},
        None,
    ]
    for one in ask("wrongPeople", given(home, people=bad)):
        assert one["refused"].startswith("unusable: ")
        assert one["sent"] == ["GET tips"]


def test_pages_choose_by_the_published_rule_and_the_released_totals_are_theirs(world):
    """Every number of a total is off by noise and rounding: one false alarm in 10⁹ a batch."""
    home, ask = world
    personal = None
    for batch in range(2):
        [*_, opened] = records(home, "opened")
        offer, rule = Offer.from_text(opened["offer"]["body"]), Rule.from_json(opened["rule"])
        assert offer.rule == hashlib.sha256(opened["rule"].encode()).digest()
        assert rule.blank == (batch == 0)
        [configured] = records(home, "configured")
        personal = Personal.read(Configuration.from_text(configured["configuration"]["body"]).program)
        mechanism = offer.batches[0].mechanism
        contexts = people(mechanism.users, batch)
        found = ask("personalCrowd", given(home, people=contexts))
        assert [one["sent"] for one in found] == [SENT] * len(contexts)
        truth = np.zeros(mechanism.dimension)
        for context, one in zip(contexts, found, strict=True):
            x = personal.vectors(context)
            assert one["choice"]["vector"] == x.tolist()
            allowed = range(3) if rule.blank else [rule.scores(x, hopeful).argmax() for hopeful in (True, False)]
            single = one["choice"]["control"] and not rule.blank
            assert one["choice"]["action"] in ([rule.single] if single else allowed)
            truth += mechanism.values.of(x, one["reward"], one["choice"]["action"], one["choice"]["control"])
        assert any(one["choice"]["control"] for one in found)
        told = released(home, batch + 1)
        assert told["users"] == mechanism.users
        assert np.abs(mechanism.estimate(told["decoded"]) - truth).max() <= mechanism.radius(1e-9)
        assert len({one["bytes"] for one in found}) == 1
    verdict = verify(transcript_of(home, "tips"))
    assert verdict.finished
    assert verdict.reports == USERS


SENT = ["GET tips", "POST assignments", "GET rule", "POST reports"]
