"""The papers' constants, written out once more: a factor that slips changes no law of a mechanism, only the truth."""

from math import ceil, log, pi, sqrt

import numpy as np
import pytest

from croupier.bandits import policy
from croupier.bandits.chernoff import lower_bound, upper_bound
from croupier.simulation import simulated_policy

EPSILON, DELTA, ARMS, HORIZON, P = 0.5, 1e-6, 3, 10**6, 0.1
TAU = 96 * log(2 / DELTA) / EPSILON**2


def after(name, phases, **options):
    """A policy after so many phases in which all arms did equally well, and the batch sizes of each."""
    settings = {"arms": ARMS, "horizon": HORIZON, "epsilon": EPSILON, "constants": "published", "binary": True}
    chosen = simulated_policy(name, **settings | options)
    sizes = []
    for _ in range(phases):
        assigned, released = chosen.assign(chosen.wanted())
        assert released.all()
        sizes.append(int(assigned[0, 0]))
        chosen.observe(assigned / 2.0, assigned, released)
    return chosen, sizes


def radii(chosen):
    """The radius of each arm: half the distance between its bounds."""
    lower, upper = chosen.bounds()
    return (upper - lower)[0] / 2.0


def test_tkms21_variable_batches_and_radius():
    chosen, sizes = after("vb-sdp-ae", 4, delta=DELTA)
    assert sizes == [2, 4, 8, 16]
    sigma, n = sqrt(3 * TAU / 2), 2 + 4 + 8 + 16
    expected = (2 * sqrt(4) * sigma / n + 1 / sqrt(n)) * sqrt(2 * log(HORIZON))
    assert radii(chosen) == pytest.approx(ARMS * [expected], rel=1e-12)


def test_tkms21_fixed_batches_and_radius():
    chosen, sizes = after("sdp-ae", 3, delta=DELTA)
    batch = ceil(3 * TAU / 2)
    assert sizes == 3 * [batch]
    sigma, n = sqrt(3 * TAU / 2), 3 * batch
    expected = (2 * sqrt(3) * sigma / n + 1 / sqrt(n)) * sqrt(2 * log(HORIZON))
    assert radii(chosen) == pytest.approx(ARMS * [expected], rel=1e-12)


SPREADS = {
    "dist-dp-se": (sqrt(2) / EPSILON, 1 / EPSILON),
    "central-dp-se": (sqrt(2) / EPSILON, 1 / EPSILON),
    "shuffle-dp-se": (2 * sqrt(2) / EPSILON, 2 / EPSILON),
    "dist-rdp-se": (2 / EPSILON + sqrt(2) / (10 * EPSILON), sqrt(2) / (10 * EPSILON)),
    "dist-zcdp-se": (sqrt(2) / EPSILON + sqrt(2) / (10 * EPSILON), 0.0),
}
"""σ and h of [CZ23]'s Lemma 2, with s = 10; shuffled Laplace is planned at ε/2."""


@pytest.mark.parametrize("name", list(SPREADS))
@pytest.mark.parametrize("out", [0, 1])
def test_cz23_batches_and_radius(name, out):
    chosen, sizes = after(name, 5, failure=P)
    first = 19 if name == "shuffle-dp-se" else 2
    assert sizes == [first * 2**b for b in range(5)]
    if out:
        chosen.retire(0)
    (sigma, h), b, l, v = SPREADS[name], 5, sizes[-1], ARMS - out  # noqa: E741
    log4, log2 = log(4 * v * b**2 / P), log(2 * v * b**2 / P)
    expected = sqrt(log4 / (2 * l)) + sigma * sqrt(log2) / l + h * log2 / l
    assert radii(chosen) == pytest.approx(ARMS * [expected], rel=1e-12)


def test_cz23_local_radius_grows_with_the_batch_and_small_batches_decide_nothing():
    chosen, sizes = after("local-dp-se", 6, failure=P)
    assert sizes[0] == ceil(2 * log(2 / P))
    l, log4, log2 = sizes[-1], log(4 * ARMS * 36 / P), log(2 * ARMS * 36 / P)  # noqa: E741
    sigma = 1.6 * sqrt(2 * l) / EPSILON + sqrt(2) / EPSILON
    assert radii(chosen) == pytest.approx(ARMS * [sqrt(log4 / (2 * l)) + sigma * sqrt(log2) / l], rel=1e-12)
    chosen.counts[:] = sizes[0] - 1
    assert np.isinf(radii(chosen)).all()


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.001])
def test_dp_se_batches_and_radius(epsilon):
    """At the first ε noise decides the first sizes and rewards the last, at the others one of the two decides all."""
    chosen, sizes = after("dp-se", 3, constants=None, epsilon=epsilon, failure=P, horizon=10**8)
    for e, size in enumerate(sizes, start=1):
        log8, log4, gap = log(8 * ARMS * e**2 / P), log(4 * ARMS * e**2 / P), 2.0**-e
        assert size == ceil(max(32 * log8 / gap**2, 8 * log4 / (epsilon * gap)) + 1)
    expected = sqrt(log8 / (2 * size)) + log4 / (size * epsilon)
    assert radii(chosen) == pytest.approx(ARMS * [expected], rel=1e-12)


@pytest.mark.parametrize("name", ["vb-sdp-ae", "dist-dp-se"])
def test_tight_bounds_share_p_among_all_arms_where_sums_accumulate(name):
    chosen, _ = after(name, 3, constants="tight", failure=P)
    chosen.retire(0)
    count, b = ARMS if chosen.accumulate else ARMS - 1, 3
    level = np.asarray(log(2 * count * (pi * b) ** 2 / (6 * P)))
    noise = chosen.noises.tails
    own = chosen.totals[0, 1], chosen.counts[0, 1]
    lower, upper = chosen.bounds()
    assert upper[0, 1] == pytest.approx(float(upper_bound(*own, noise.low_side[chosen.noise[0, 1]], level)), rel=1e-12)
    assert lower[0, 1] == pytest.approx(float(lower_bound(*own, noise.high_side[chosen.noise[0, 1]], level)), rel=1e-12)


def test_flagship_level_and_growth():
    """Tuned, not published, and every measured figure rests on them."""
    chosen = policy("dp-klucb", arms=2, horizon=HORIZON, epsilon=1.0)
    assert chosen.level == pytest.approx(0.6 * log(HORIZON))
    assert (chosen.ladder.first, chosen.ladder.growth) == (32, 1.3)
