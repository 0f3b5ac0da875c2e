"""`dp-top-two` beside the rule that it comes from: [JA25], Algorithm 1."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from croupier.bandits import TopTwo, policy
from croupier.bandits.in_blocks import DEAL
from croupier.simulation import Bernoulli, simulate


def signed(mean, level, epsilon):
    """[JA25]'s divergence d+ of coins: their Kullback-Leibler divergence, as far as privacy lets one see it."""
    edge = mean * np.exp(epsilon) / (mean * np.expm1(epsilon) + 1.0)
    if level <= mean:
        return 0.0
    if level <= edge:
        return mean * np.log(mean / level) + (1.0 - mean) * np.log((1.0 - mean) / (1.0 - level))
    return -np.log(1.0 - level * -np.expm1(-epsilon)) - epsilon * mean


def transport(means, users, epsilon):
    """What it costs to make the first arm no better than the second, by the closed form of [JA25]."""

    def cost(level):
        return users[0] * signed(1.0 - means[0], 1.0 - level, epsilon) + users[1] * signed(means[1], level, epsilon)

    return float(minimize_scalar(cost, bounds=(means[1], means[0]), method="bounded", options={"xatol": 1e-10}).fun)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize(("mean", "level"), [(0.1, 0.12), (0.3, 0.7), (0.5, 0.55)])
def test_the_private_divergence_is_chernoffs_exponent_with_tilts_up_to_epsilon(mean, level, epsilon):
    """So it is what sums with Laplace noise are worth: their cumulants are finite up to ε."""
    tilts = np.linspace(0.0, epsilon, 200_001)
    exponent = np.max(-tilts * mean - np.log1p(level * np.expm1(-tilts)))
    assert signed(mean, level, epsilon) == pytest.approx(exponent, rel=1e-6)


@pytest.mark.parametrize(
    ("means", "shares", "epsilon", "least"),
    [
        ((0.55, 0.5), (1, 1), 1.0, 0.95),
        ((0.55, 0.5), (3, 1), 1.0, 0.95),
        ((0.024, 0.02), (1, 1), 1.0, 0.95),
        # Here privacy rules, and bets are meant for batches where noise counts.
        ((0.7, 0.3), (1, 1), 0.1, 0.6),
    ],
)
def test_the_evidence_of_large_blocks_is_the_private_transportation_cost(means, shares, epsilon, least):
    chosen = policy(
        "dp-top-two",
        arms=2,
        horizon=None,
        epsilon=epsilon,
        binary=True,
        trust="two-servers",
        decision={"smallest_effect": means[0] - means[1], "rate": means[1]},
    )
    each = np.asarray([shares]) * 500_000
    for _ in range(4):
        chosen.comparison.tell(each * means, each, np.ones((1, 2), dtype=bool))
    found, cost = chosen.comparison.evidence()[0, 0, 1], transport(means, 4 * each[0], epsilon)
    assert least * cost <= found <= cost


def published(self):
    """Shares by [JA25]: half to the leader, the rest to the challenger with the least cost + log n, turn after turn."""
    runs, leader = np.arange(self.runs), self._is(self.claims.leader)
    cost, users = np.maximum(self.claims.evidence[runs, self.claims.leader], 0.0), np.maximum(self.counts, 1.0)
    rivals = self.claims.left & ~leader
    rivals |= self._is(self.claims.reference) & ~rivals.any(axis=1, keepdims=True)
    row = DEAL * -(-self.arms // 4)
    turn = (self.ladder.sizes(self.blocks) * (1 + rivals.sum(axis=1)) / row)[:, None]

    def worth(now):
        return now / (1.0 + now / (now * leader).sum(axis=1, keepdims=True))

    parts = np.where(leader, row / 2.0, np.where(rivals, 1.0, 0.0))
    for _ in range(row // 2 - self.arms + 1):
        now = users + turn * parts
        index = np.where(rivals, cost * worth(now) / worth(users) + np.log(now), np.inf)
        parts += self._is(np.argmin(index, axis=1)) & rivals
    return parts


@pytest.mark.evidence
def test_all_challengers_by_what_they_lack_take_fewer_users_than_one_after_another(monkeypatch, record_property):
    """Why this policy shares a block as it does: with the same evidence the published shares take longer."""

    def median():
        terms = {"smallest_effect": 0.05, "rate": 0.5}
        common = {"arms": 10, "horizon": 400_000, "epsilon": 1.0, "binary": True, "trust": "two-servers", "runs": 400}
        run = simulate(policy("dp-top-two", **common, decision=terms), Bernoulli([0.5] * 9 + [0.55]), seed=3)
        return run.decisions()["users_median"]

    users = {"ours": median()}
    monkeypatch.setattr(TopTwo, "allocation", published)
    users["published"] = median()
    record_property("users", users)
    assert users["ours"] <= 0.75 * users["published"]
