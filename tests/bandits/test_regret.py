"""How well the policies do, on instances that nothing was tuned on."""

import numpy as np
import pytest

from croupier.simulation import Bernoulli, Run, simulate, simulated_policy, uniform_means

HORIZON = 10**6
INSTANCES = uniform_means(10, 50, 0.25, 0.75, np.random.default_rng(20_261_115))


def run(name: str, epsilon: float | None, repeats: int, constants: str | None = None, **options: object) -> Run:
    """Fifty instances of ten arms, each played `repeats` times."""
    world = Bernoulli(np.repeat(INSTANCES, repeats, axis=0))
    settings = {"epsilon": epsilon} if epsilon is not None else {}
    chosen = simulated_policy(
        name, arms=10, horizon=HORIZON, runs=50 * repeats, binary=True, constants=constants, **settings | options
    )
    return simulate(chosen, world, seed=77, checkpoints=2)


MANY = pytest.mark.parametrize("repeats", [5, pytest.param(20, marks=pytest.mark.evidence)])
"""How often the flagship plays each instance."""


@pytest.mark.slow
@MANY
def test_the_flagship_beats_what_was_published(repeats: int) -> None:
    flagship = run("dp-klucb", 0.5, repeats).regret
    shuffled = run("vb-sdp-ae", 0.5, 2, "published", delta=1e-6).regret
    batched = run("dist-dp-se", 0.5, 2, "published").regret
    assert flagship.mean() <= shuffled.mean() / 80
    assert flagship.mean() <= batched.mean() / 5
    assert flagship.max() <= 10 * np.median(flagship), "no bad luck"


@pytest.mark.slow
@MANY
def test_at_epsilon_one_privacy_is_nearly_free(repeats: int) -> None:
    flagship, free = run("dp-klucb", 1.0, repeats).regret, run("kl-ucb", None, 1 + repeats // 5).regret
    assert flagship.mean() <= 1.2 * free.mean()
    assert flagship.max() <= 10 * np.median(flagship)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "sdp-ae",
        "vb-sdp-ae",
        "dist-dp-se",
        "dist-rdp-se",
        "dist-zcdp-se",
        "shuffle-dp-se",
        "central-dp-se",
        "local-dp-se",
    ],
)
def test_tight_beats_published_at_the_same_privacy(name: str) -> None:
    published, tight = run(name, 0.5, 1, "published").regret, run(name, 0.5, 1).regret
    assert tight.mean() < published.mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dist-dp-se", "vb-sdp-ae", "sdp-ae", "dist-rdp-se", "shuffle-dp-se", "elimination"])
def test_the_best_arm_is_lost_no_more_often_than_allowed(name: str) -> None:
    world = Bernoulli([0.5, 0.48, 0.45, 0.5 - 1e-6])
    settings = {} if name == "elimination" else {"epsilon": 0.8}
    chosen = simulated_policy(name, arms=4, horizon=60_000, runs=2_000, binary=True, failure=0.1, **settings)
    lost = simulate(chosen, world, seed=5, checkpoints=1).lost_best_rate
    # Ten per cent allowed; 290 of 2,000 would have probability below 1e-9.
    assert lost <= 290 / 2_000
