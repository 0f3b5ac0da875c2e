"""The front deals turns by the odds that the policy gives the arms that are open together."""

import asyncio
import json
import math
from collections import Counter

import pytest
from scipy.stats import chisquare

from cases.service.both import PLAN, Both
from cases.service.world import World, signed
from croupier.messages.offer import Offer
from croupier.noise import secure, seeded
from croupier.service.dealing import ByDeals, deal, fresh_deal
from croupier.service.store import FrontStore
from croupier.service.verifying import verify

FALSE_ALARM = 1e-6
"""The chance that a chi-square test of what is dealt right fails all the same."""


def assert_follows(dealt, odds):
    """What was dealt follows these odds, up to chance."""
    assert set(dealt) <= set(odds)
    total = sum(odds.values())
    expected = [dealt.total() * share / total for share in odds.values()]
    if len(odds) > 1:
        assert chisquare([dealt[turn] for turn in odds], expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "odds",
    [
        {0: 1.0},
        {3: 0.5, 4: 0.5},
        {3: 1 / 3, 9: 1 / 3, 5: 1 / 3},
        {7: 0.25, 8: 0.75},
        {1: 0.9, 2: 0.09, 3: 0.01},
        # What is left when others are over: the odds no longer add up to one.
        {1: 0.125, 2: 0.25},
    ],
)
def test_turns_are_dealt_by_their_odds(odds):
    source = seeded(11)
    assert_follows(Counter(deal(odds, source) for _ in range(20_000)), odds)


def test_other_odds_would_be_seen():
    source = seeded(12)
    dealt = Counter(deal({0: 0.5, 1: 0.5}, source) for _ in range(20_000))
    with pytest.raises(AssertionError):
        assert_follows(dealt, {0: 0.55, 1: 0.45})


def test_nothing_is_dealt_where_there_is_nothing_and_the_least_odds_count():
    assert deal({}, secure()) is None
    assert deal({5: 1e-300}, secure()) == 5
    many = dict.fromkeys(range(5000), 1.0)
    assert deal(many, secure()) in many


# In deals


@pytest.mark.parametrize(
    ("odds", "size"),
    [
        ({0: 0.5, 1: 0.5}, 16),
        ({0: 1 / 3, 1: 1 / 3, 2: 1 / 3}, 18),
        ({0: 0.1, 1: 0.9}, 20),
        ({0: 0.25, 1: 0.75}, 16),
        (dict.fromkeys(range(10), 0.1), 20),
        ({0: 1.0}, 16),
        (dict.fromkeys(range(40), 1 / 40), 40),
    ],
)
def test_a_deal_has_exactly_the_odds_where_whole_numbers_allow(odds, size):
    for _ in range(5):
        found = fresh_deal(odds, secure())
        assert found == {arm: round(size * share) for arm, share in odds.items()}


@pytest.mark.parametrize("odds", [{0: 0.317, 1: 0.683}, {0: 0.9973, 1: 0.0027}, {0: 0.6, 1: 0.2, 2: 0.15, 3: 0.05}])
def test_elsewhere_counts_are_next_to_the_odds_and_exact_on_average(odds):
    source, total = seeded(3), Counter()
    for _ in range(4000):
        found = fresh_deal(odds, source)
        size = found.total()
        assert size >= 16
        assert all(abs(found[arm] - size * share) < 1 for arm, share in odds.items())
        total += found
    for arm, share in odds.items():
        spread = math.sqrt(0.25 / 4000) / size
        assert abs(total[arm] / total.total() - share) < 5 * spread


@pytest.mark.slow
def test_the_order_within_a_deal_is_any_and_none_of_it_is_known_before():
    """Each place of a deal has either arm as likely, and pairs of places are as the drawing of lots has them."""
    source, first, both = seeded(4), Counter(), Counter()
    for _ in range(4000):
        hand = ByDeals({7: Turns(0.5), 8: Turns(0.5)}, {0: 7, 1: 8}, Counter(), 10**6, 0)
        dealt = [hand.next(source) for _ in range(16)]
        assert Counter(dealt) == {7: 8, 8: 8}
        first[dealt[5]] += 1
        both[dealt[2], dealt[9]] += 1
    assert_follows(first, {7: 0.5, 8: 0.5})
    assert_follows(both, {(7, 7): 7 / 30, (8, 8): 7 / 30, (7, 8): 8 / 30, (8, 7): 8 / 30})


def test_arms_without_turns_are_left_out_and_a_limit_holds_for_all_together():
    source = secure()
    hand = ByDeals({7: Turns(0.5, 3), 8: Turns(0.5)}, {0: 7, 1: 8}, Counter(), 20, 0)
    dealt = [hand.next(source) for _ in range(22)]
    assert dealt.count(7) == 3
    assert dealt[20:] == [None, None]


class Turns:
    """An offer as far as dealing goes."""

    def __init__(self, odds, turns=10**6):
        self.odds, self.turns = odds, turns


@pytest.fixture
def world(store_url):
    found = World(FrontStore(store_url, secure(), bytes(32)))
    yield found
    found.front.store.close()


@pytest.mark.slow
def test_no_turn_is_dealt_before_all_are_there_that_are_open_together(world):
    """Else everybody who waits when a phase begins would get its first arm."""
    first, second = world.offers()
    together = [first.number, second.number]
    wishes = [(world.plan.name, None)] * 8
    world.front.open_offer(world.plan.name, first.number, signed(first), 100, together)
    assert [answer.token for answer in world.front.assign(wishes)] == ["nothing-open"] * 8
    world.front.open_offer(world.plan.name, second.number, signed(second), 100, together)
    assert {json.loads(one.to_json())["expires"] for one in world.front.assign(wishes)}


@pytest.mark.slow
def test_a_turn_is_dealt_when_those_it_was_opened_with_are_over(world):
    first, second = world.offers()
    for offer in (first, second):
        world.front.open_offer(world.plan.name, offer.number, signed(offer), 100, [first.number, second.number])
    world.front.cancel(world.plan.name, first.batches[0].number)
    assert {world.turn().arm for _ in range(8)} == {second.arm}


def test_a_front_that_has_lost_what_is_over_is_told_what_is_open_now(world):
    """As after its restoring from a backup: the offer comes again, and what it waits for is said anew."""
    _, second = world.offers()
    world.front.open_offer(world.plan.name, second.number, signed(second), 100, [7, second.number])
    assert world.front.assign([(world.plan.name, None)])[0].token == "nothing-open"
    world.front.open_offer(world.plan.name, second.number, signed(second), 100, [second.number])
    assert world.turn().arm == second.arm


THOMPSON = PLAN | {
    "arms": ["red", "green", "blue", "white"],
    "program": {"policy": "dp-thompson", "horizon": 20_000, "seed": 5},
}


async def drawn(both, count):
    """So many turns, taken and not reported; how often each arm was dealt."""
    url = "http://front.test/experiments/colours/assignments"
    answers = await asyncio.gather(*(both.http.post(url) for _ in range(count)))
    return Counter(Offer.from_text(answer.json()["offer"]["body"]).arm for answer in answers)


@pytest.mark.slow
def test_assignments_of_a_thompson_sampler_follow_its_odds_and_verify_checks_them(tmp_path):
    """Through both real servers, in two states of the policy, with rooms so wide that no arm runs out of turns."""
    both = Both(tmp_path, experiment=THOMPSON, ahead=60.0)

    async def work():
        seen = []
        async with both.running():
            policy = both.live.program.policy
            for step in range(2):
                await both.until(lambda step=step: policy.step == step and both.live.open)
                odds = {arm: share for arm, share in enumerate(policy.odds()[0].tolist()) if share}
                await both.until(lambda odds=odds: len(both.live.offers) == len(odds))
                assert {offer.arm: offer.odds for offer in both.live.offers.values()} == odds
                await both.until(both_dealt(both))
                assert_follows(await drawn(both, 400), odds)
                seen.append(odds)
                while policy.step == step:
                    await asyncio.gather(*(both.users(1) for _ in range(16)))
            return seen, (await both.http.get("http://analyzer.test/experiments/colours/transcript")).text

    (first, second), text = asyncio.run(work())
    # Uneven odds, or a front that deals evenly would pass: then the p-value is about 1e-9.
    assert first == {0: 0.5, 1: 0.25, 2: 0.25}
    assert first != second
    assert verify(text).offers >= len(first) + len(second)


def both_dealt(both):
    """Whether the front has heard of all that the log has opened."""
    store = both.front.front.store
    return lambda: all(store.offer("colours", number) for number in both.live.offers)
