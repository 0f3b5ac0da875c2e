"""Policies whose users return: radii of the paper follow the noise of one batch, and all sizes together are covered."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from croupier.bandits import policy
from croupier.bandits.batch_sizes import Ladder
from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace
from croupier.privacy import Loss, calibrate, privacy_loss
from croupier.protocols import shuffled_bits


@pytest.mark.parametrize(
    ("name", "factor"),
    [("dist-dp-se", 9.0), ("central-dp-se", 9.0), ("local-dp-se", 9.0), ("dist-rdp-se", 3.0), ("dist-zcdp-se", 3.0)],
)
def test_published_radii_have_the_sigma_of_one_batch(name: str, factor: float) -> None:
    """σ and h go as 1/ε, and one of nine batches has ε/9 (pure) or ε/3 (Rényi, concentrated)."""
    asked = {"arms": 2, "horizon": 10**5, "epsilon": 0.9, "constants": "published"}
    once, often = policy(name, **asked), policy(name, **asked, participations=9)
    assert often.radius.sigma == pytest.approx(factor * once.radius.sigma)
    assert often.radius.h == pytest.approx(factor * once.radius.h)
    assert often.radius.local == pytest.approx(factor * once.radius.local)


def test_published_bits_follow_advanced_composition() -> None:
    made = policy("vb-sdp-ae", arms=2, horizon=10**5, epsilon=0.9, constants="published", participations=20)
    part = 0.9 / (2.0 * math.sqrt(40.0 * math.log(2e6)))
    assert made.radius.sigma == pytest.approx(math.sqrt(1.5 * 96.0 * math.log(2.0 / 2.5e-8)) / part)


@pytest.mark.slow
def test_batches_of_all_sizes_together_keep_the_promise() -> None:
    """Checked when the policy is made; here also for one user's batches of given sizes, composed one by one."""
    made = policy("vb-sdp-ae", arms=2, horizon=20_000, epsilon=0.9, participations=4)
    losses = [made.ladder.protocol.plan(made.ladder.size(step)).loss for step in (0, 3, 5, 8)]
    assert Loss.total(losses).delta(0.9) <= 1e-6
    with pytest.raises(InvalidParameter, match="^participations = 4 .* horizon is not known"):
        policy("vb-sdp-ae", arms=2, horizon=None, epsilon=0.9, participations=4)


class TwoKinds:
    """Batches of two sizes with noises of different kinds; two batches of either kind keep the promise."""

    name, epsilon, delta, participations = "two-kinds", 1.0, 1e-6, 2
    published, smallest, row = False, 1, SimpleNamespace(notion="approximate")

    def plan(self, users: int) -> SimpleNamespace:
        if users == 1:
            return SimpleNamespace(loss=privacy_loss(DiscreteLaplace(2)))
        bits = calibrate(Binomial, epsilon=1.0, delta=1e-6, loss=lambda noise: 2 * privacy_loss(noise))
        return SimpleNamespace(loss=privacy_loss(bits))


def test_sizes_that_keep_the_promise_only_among_themselves_are_refused() -> None:
    kinds = TwoKinds()
    one, other = (kinds.plan(users).loss for users in (1, 2))
    assert (2 * one).delta(1.0) <= 1e-6
    assert (2 * other).delta(1.0) <= 1e-6
    assert (one + other).delta(1.0) > 1e-5
    assert Ladder(kinds, 1, 2.0).excess(2) > 10.0
    assert Ladder(kinds, 1, 1.0).excess(2) <= 1.0
    assert Ladder(shuffled_bits(epsilon=1.0), 1, 2.0).excess(None) == 0.0


@pytest.mark.parametrize(("name", "epsilon", "participations"), [("vb-sdp-ae", 1.0, 3), ("dp-klucb", 3.0, 2)])
def test_a_mix_of_sizes_that_would_cost_more_than_each_is_given_more_noise(
    name: str, epsilon: float, participations: int
) -> None:
    """As planned for each size alone, the mix costs up to a fifth more than the δ that is promised."""
    options = {"epsilon": epsilon, "participations": participations, "binary": True, "protocol_name": "shuffled-bits"}
    made = policy(name, arms=2, horizon=6000, **options)
    given = made.ladder.protocol
    assert Ladder(replace(given, room=1.0), made.ladder.first, made.ladder.growth).excess(6000) > 1.0
    assert 0.9 < made.ladder.excess(6000) <= 1.0
    assert (given.delta, given.plan(100).guarantee.delta) == (1e-6, 1e-6)
    assert given.plan(100).certificate().holds
