"""What every policy keeps: the horizon to the user, determinism, the same run alone or among many."""

import math

import numpy as np
import pytest

from cases.policies import EVERY, NAMES, make
from croupier.bandits import POLICIES, Ladder, policy
from croupier.checks import InvalidParameter
from croupier.simulation import ALL_POLICIES, Bernoulli, simulate, simulated_policy


@pytest.mark.parametrize(("name", "constants"), EVERY)
def test_pulls_add_up_to_the_horizon_and_cut_batches_are_never_released(name: str, constants: str) -> None:
    chosen = make(name, constants)
    released_users = np.zeros((5, 3), dtype=np.int64)
    observe = chosen.observe

    def watched(sums, assigned, released, *odds, **more):  # type: ignore[no-untyped-def]
        wanted = chosen.wanted()
        assert np.all(assigned[released] == wanted[released])
        np.add(released_users, np.where(released, assigned, 0), out=released_users)
        observe(sums, assigned, released, *odds, **more)

    chosen.observe = watched
    run = simulate(chosen, Bernoulli([0.3, 0.5, 0.7]), seed=1)
    assert np.all(chosen.users == 20_000)
    assert np.all(chosen.pulls.sum(axis=1) == 20_000)
    assert np.all(released_users <= chosen.pulls)
    assert np.allclose(run.regret, (chosen.pulls * np.asarray([0.4, 0.2, 0.0])).sum(axis=1))
    assert np.allclose(run.curve[:, -1], run.regret)
    assert np.all(np.diff(run.curve, axis=1) >= -1e-9)


@pytest.mark.parametrize(("name", "constants"), EVERY)
def test_a_seed_repeats_a_simulation(name: str, constants: str) -> None:
    few = {"horizon": 4_000, "runs": 3}
    first, second = (simulate(make(name, constants, **few), Bernoulli([0.3, 0.5, 0.7]), seed=4) for _ in range(2))
    assert np.array_equal(first.curve, second.curve)
    assert np.array_equal(first.policy.batches, second.policy.batches)


@pytest.mark.parametrize("name", NAMES)
def test_many_runs_at_once_decide_as_each_would_alone(name: str) -> None:
    together = make(name, runs=4)
    seeds = [{"seed": run} if "seed" in together.reads else {} for run in range(4)]
    alone = [make(name, runs=1, **own) for own in seeds]
    rng = np.random.default_rng(6)
    for _ in range(60):
        wanted = together.wanted()
        assert np.array_equal(wanted, np.concatenate([one.wanted() for one in alone]))
        if not wanted.any():
            break
        assigned, released = together.assign(wanted)
        sums = rng.binomial(np.minimum(assigned, 10**6), [0.2, 0.5, 0.8]).astype(float)
        together.observe(sums, assigned, released)
        for run, one in enumerate(alone):
            one.observe(sums[run : run + 1], assigned[run : run + 1], released[run : run + 1])
    assert np.array_equal(together.active, np.concatenate([one.active for one in alone]))
    assert np.array_equal(together.totals, np.concatenate([one.totals for one in alone]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-klucb", "dist-dp-se", "vb-sdp-ae", "local-dp-se", "shuffle-dp-se"])
def test_the_batch_law_is_the_law_of_every_users_way(name: str) -> None:
    world = Bernoulli([0.3, 0.6])
    regrets = [
        simulate(make(name, arms=2, horizon=1_500, runs=200), world, seed=seed, mode=mode).regret
        for seed, mode in ((1, "law"), (2, "users"))
    ]
    # Kolmogorov-Smirnov with 200 against 200: a distance above 0.33 has probability below 1e-9.
    grid = np.unique(np.concatenate(regrets))
    counts = [np.searchsorted(np.sort(r), grid, side="right") / 200 for r in regrets]
    assert np.abs(counts[0] - counts[1]).max() < 0.33


def test_the_distributed_flagship_is_the_central_one_in_law() -> None:
    world = Bernoulli([0.3, 0.5, 0.7])
    runs = [
        simulate(make("dp-klucb", protocol_name=carried, precision=1), world, seed=9)
        for carried in ("laplace", "central-laplace")
    ]
    # The same noise from the same seed: not only in law, but number for number.
    assert np.array_equal(runs[0].curve, runs[1].curve)


@pytest.mark.slow
@pytest.mark.parametrize(
    "carried", ["shuffled-bits", "shuffled-levels", "skellam", "shuffled-laplace", "counted-messages"]
)
def test_the_flagship_runs_over_any_protocol(carried: str) -> None:
    run = simulate(make("dp-klucb", protocol_name=carried, runs=20), Bernoulli([0.2, 0.5, 0.8]), seed=2)
    assert run.best_arm_rate == 1.0
    assert np.all(run.policy.users == 20_000)


def test_unknown_horizon_doubles() -> None:
    for name in ("dp-klucb", "dist-dp-se", "kl-ucb"):
        chosen = make(name, horizon=None, runs=10)
        run = simulate(chosen, Bernoulli([0.2, 0.5, 0.8]), seed=3, users=30_000)
        assert np.all(chosen.users == 30_000)
        assert run.best_arm_rate == 1.0
        assert chosen.span[0] == 2**15


def test_growth_and_smallest_batch_are_respected() -> None:
    chosen = make("dist-dp-se", growth=3.0, smallest=50)
    assert [chosen.ladder.size(j) for j in range(3)] == [50, 150, 450]
    assert Ladder(make("shuffle-dp-se").ladder.protocol, 2, 2.0).size(0) == 19


def test_arms_come_and_go() -> None:
    chosen = policy("dist-dp-se", arms=3, horizon=10**6, epsilon=1.0, binary=True)
    chosen.pause(1)
    assert (chosen.wanted() > 0).tolist() == [[True, False, True]]
    chosen.resume(1)
    chosen.retire(0)
    assert chosen.add_arm() == 3
    assert (chosen.wanted() > 0).tolist() == [[False, True, True, True]]
    index = policy("dp-klucb", arms=2, horizon=10**6, epsilon=1.0, binary=True)
    for total in (30.0, 2.0, 34.0):
        wanted = index.wanted()
        index.observe(np.where(wanted > 0, total, 0.0), *index.assign(wanted))
    fresh = index.add_arm()
    assert index.wanted()[0, fresh] == 32, "a new arm is tried first"
    chosen.stop()
    assert chosen.finished.all()
    assert not chosen.wanted().any()


def test_the_last_arm_cannot_be_retired() -> None:
    chosen = policy("dist-dp-se", arms=2, horizon=1000, epsilon=1.0)
    chosen.retire(0)
    with pytest.raises(InvalidParameter, match="arm = 1"):
        chosen.retire(1)


def test_intervals_hold_at_all_times_together() -> None:
    failures = np.zeros(400, dtype=bool)
    means = np.asarray([0.2, 0.5, 0.55])
    chosen = policy("dp-klucb", arms=3, horizon=20_000, epsilon=0.5, binary=True, runs=400)

    def watch(now) -> None:  # type: ignore[no-untyped-def]
        lower, upper = now.intervals(failure=0.1)
        failures[:] |= ((means < lower) | (means > upper)).any(axis=1)

    simulate(chosen, Bernoulli(means), seed=8, watch=watch)
    # At most 10 %: 75 of 400 has probability below 1e-7; Chernoff bounds make failures far rarer in fact.
    assert failures.sum() < 75


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"arms": 1}, "arms"),
        ({"horizon": 0}, "horizon"),
        ({"epsilon": None}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"growth": 0.5}, "growth"),
        ({"runs": 0}, "runs"),
        ({"failure": 2.0}, "failure"),
        ({"constants": "loose"}, "constants"),
    ],
)
def test_bad_settings_are_refused_by_name(options: dict[str, object], parameter: str) -> None:
    settings = {"arms": 3, "horizon": 1000, "epsilon": 0.5} | options
    with pytest.raises(InvalidParameter, match=f"^{parameter} (= |is missing)"):
        policy("dist-dp-se", **settings)  # type: ignore[arg-type]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="policy = 'ucb9'"):
        policy("ucb9", arms=2, horizon=10)
    with pytest.raises(InvalidParameter, match="policy = 'ucb9'"):
        simulated_policy("ucb9", arms=2, horizon=10)
    assert "dp-klucb" in repr(policy("dp-klucb", arms=2, horizon=100, epsilon=1.0))
    assert set(POLICIES) < set(ALL_POLICIES)


@pytest.mark.parametrize("honest_fraction", [1.0, 0.9, 0.5])
@pytest.mark.parametrize("front_noise", [False, True])
@pytest.mark.parametrize("name", ["vb-sdp-ae", "shuffle-dp-se"])
def test_published_radii_count_all_the_noise_that_is_in_a_batch(name, front_noise, honest_fraction):
    """The papers' sigma is of the noise that suffices: as many shares as users are counted on."""
    plain = policy(name, arms=2, horizon=10**5, epsilon=0.5, constants="published", binary=True)
    options = {"honest_fraction": honest_fraction, "front_noise": front_noise}
    found = policy(name, arms=2, horizon=10**5, epsilon=0.5, constants="published", binary=True, **options)
    for users in (64, 100, 1023):
        mechanism = found.ladder.protocol.plan(users)
        whole = (mechanism.users + mechanism.front_shares) / mechanism.honest
        assert found.radius.sigma >= math.sqrt(whole) * plain.radius.sigma * (1.0 - 1e-12)
