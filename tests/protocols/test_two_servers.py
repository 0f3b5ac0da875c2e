"""Shares between two servers: what either of them holds, summed over all outcomes, and what comes of both together."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cases.folded import Law, folded, largest_ratio
from cases.protocols import SHARED, make
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import DiscreteGaussian, DiscreteLaplace, Noise, Skellam, secure, seeded
from croupier.noise.target import RESOLUTION
from croupier.privacy import calibrate, privacy_loss
from croupier.protocols import (
    Mechanism,
    audit,
    central_laplace,
    histogram,
    laplace,
    local_laplace,
    shared_vectors,
    shuffled_laplace,
    skellam,
)
from croupier.protocols.histograms.least_noise import move
from croupier.protocols.sums.two_servers import PRECISION
from croupier.validity.shares import Ring


def seen_by_the_analyzer(value: int, others: int, modulus: int, front: Law) -> Law:
    """The joint law of (s0, Σs1 + N1), for whoever is the analyzer and every other user: they know the others' values
    and seeds, so that of Σs1 only the victim's share is unknown. It is uniform, and s0 = v - s1.
    """
    joint = np.zeros((modulus, modulus))
    for share in range(modulus):
        for noise, chance in enumerate(front):
            joint[(value - share) % modulus, (share + others + noise) % modulus] += chance / modulus
    return joint


def seen_by_the_front(value: int, others: int, modulus: int, front: Law, analyzer: Law) -> Law:
    """The joint law of (s1, N1, total) for whoever is the front and every other user."""
    joint = np.zeros((modulus, modulus, modulus))
    for share in range(modulus):
        for own, drawn in enumerate(front):
            for noise, chance in enumerate(analyzer):
                total = (value - share) + others + share + own + noise
                joint[share, own, total % modulus] += drawn * chance / modulus
    return joint


MODULUS, GRAIN, OTHERS = 17, 3, 5


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_an_analyzer_with_all_other_users_learns_no_more_than_the_fronts_noise_lets_through(epsilon: float) -> None:
    front, left_out = folded(DiscreteLaplace(GRAIN / epsilon), MODULUS)
    views = [seen_by_the_analyzer(value, OTHERS, MODULUS, front) for value in range(GRAIN + 1)]
    for one, other in itertools.combinations(views, 2):
        # What the summation leaves out could change each of the sums by its least chance at most.
        assert largest_ratio(one, other) <= epsilon + 2.0 * left_out / front.min()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_a_front_with_all_other_users_learns_no_more_than_the_analyzers_noise_lets_through(epsilon: float) -> None:
    noise, left_out = folded(DiscreteLaplace(GRAIN / epsilon), MODULUS)
    views = [seen_by_the_front(value, OTHERS, MODULUS, noise, noise) for value in range(GRAIN + 1)]
    for one, other in itertools.combinations(views, 2):
        assert largest_ratio(one, other) <= epsilon + 2.0 * left_out / noise.min()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_each_servers_noise_is_needed_against_the_other(epsilon: float) -> None:
    """Where one noise is left out, whoever is the other server reads the value, though the total is as private."""
    whole, _ = folded(DiscreteLaplace(GRAIN / epsilon), MODULUS)
    none, _ = folded(None, MODULUS)
    without_front = [seen_by_the_analyzer(value, OTHERS, MODULUS, none) for value in (0, 1)]
    assert largest_ratio(*without_front) == math.inf
    without_analyzer = [seen_by_the_front(value, OTHERS, MODULUS, whole, none) for value in (0, 1)]
    assert largest_ratio(*without_analyzer) == math.inf
    # A server that leaves its own out harms nobody: the other one's suffices.
    honest = [seen_by_the_front(value, OTHERS, MODULUS, none, whole) for value in (0, GRAIN)]
    assert largest_ratio(*honest) <= epsilon + 1e-6


@pytest.mark.parametrize("part", [2, 4])
def test_a_part_of_the_noise_at_each_server_is_not_enough(part: int) -> None:
    """What devices may share out, servers may not: together they would have a whole noise, and alone they have not."""
    part_of, _ = folded(DiscreteLaplace(GRAIN).share(part), 101)
    views = [seen_by_the_analyzer(value, 0, 101, part_of) for value in (0, GRAIN)]
    assert largest_ratio(*views) > 1.2


@pytest.mark.parametrize("noise", [Skellam(9), DiscreteGaussian(9)])
def test_noise_with_a_delta_gives_either_server_what_its_loss_says(noise: Noise) -> None:
    """δ at ε is Σ max(0, P - e^ε Q): summed over both servers' views, it is that of the noise alone."""
    modulus, epsilon, grain = 101, 1.0, 2
    law, left_out = folded(noise, modulus)
    due = privacy_loss(noise, grain).delta(epsilon)
    joint = [seen_by_the_analyzer(value, 40, modulus, law) for value in (0, grain)]
    delta = float(np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0.0).sum())
    assert delta == pytest.approx(due, rel=1e-6, abs=4.0 * left_out)


def test_one_share_is_uniform_whatever_the_value() -> None:
    ring = Ring(5)
    shares = {value: [ring.split([value], bytes([k]) * 32, b"x")[0] for k in range(250)] for value in (0, 3)}
    for found in shares.values():
        counts = np.bincount(found, minlength=5)
        # Chi-square with four degrees of freedom above 50: probability below 1e-9.
        assert ((counts - 50.0) ** 2 / 50.0).sum() < 50.0


@pytest.mark.parametrize(("name", "setting"), SHARED)
def test_the_way_through_two_servers_is_what_run_and_simulate_say(name: str, setting: str) -> None:
    """Devices split, each server adds up its shares and its noise, both together are told: the law of `run`."""
    mechanism = make(name, setting, epsilon=2.0).plan(4)
    length, ring = mechanism.dimension, mechanism.ring
    values = [[1.0, 0.0, 0.0]] * 4 if mechanism.coordinates else [0.0, 1.0, 0.25, 1.0]
    assert ring is not None
    source, told = seeded(3), []
    for batch in range(300):
        sums = [[0] * length, [0] * length]
        for user, value in enumerate(values):
            seed, context = bytes([user, batch % 256, batch // 256]) + bytes(29), b"arm"
            other = ring.split(mechanism.secret(value, source), seed, context)
            sums[0] = ring.add(sums[0], ring.decode(other, length))
            sums[1] = ring.add(sums[1], ring.expand(seed, context, length))
        parts = [ring.add(part, mechanism.server_noise(source)) for part in sums]
        told.append(np.atleast_1d(mechanism.told(ring.add(*parts)))[0])
    law = [np.atleast_1d(mechanism.run(values, source).decoded)[0] for _ in range(300)]
    grid = np.unique(np.concatenate((told, law)))
    ranks = [np.searchsorted(np.sort(drawn), grid, side="right") / 300 for drawn in (told, law)]
    # Kolmogorov-Smirnov with 300 against 300 above 0.27: probability below 1e-9.
    assert np.abs(ranks[0] - ranks[1]).max() < 0.27


@pytest.mark.parametrize(("name", "setting"), SHARED)
def test_nothing_in_a_report_depends_on_its_batch(name: str, setting: str) -> None:
    small, large = (make(name, setting).plan(users) for users in (1, 50_000))
    assert small.fits_any_batch
    assert small.recipe == large.recipe
    assert (small.precision, small.share, small.guarantee) == (large.precision, large.share, large.guarantee)
    assert (small.honest, small.omission_bias, small.trust) == (0, 0.0, "two-servers")
    assert small.precision == PRECISION
    assert small.for_users(50_000) == large


@pytest.mark.parametrize(("name", "setting"), SHARED)
def test_a_user_is_hidden_by_one_noise_and_the_error_is_that_of_both(name: str, setting: str) -> None:
    mechanism = make(name, setting).plan(100)
    assert mechanism.noise == mechanism.share.times(2)
    assert mechanism.guard == mechanism.share
    assert mechanism.noise.variance == pytest.approx(2.0 * mechanism.share.variance)
    assert mechanism.loss.releases == mechanism.values.loss(mechanism.share, mechanism.precision).releases
    assert mechanism.residual.hides_nothing


def test_two_noises_of_a_binary_sum_at_epsilon_one() -> None:
    shared, devices = (laplace(epsilon=1.0, binary=True, trust=trust).plan(32) for trust in ("two-servers", "devices"))
    assert shared.variance == pytest.approx(3.68, abs=0.005)
    assert devices.variance == pytest.approx(1.84, abs=0.005)


def test_vectors_get_the_least_skellam_noise_that_meets_their_target() -> None:
    mechanism = shared_vectors(epsilon=1.0, dimension=3, delta=1e-6).plan(100)
    assert 0.97e-6 < mechanism.loss.delta(1.0) <= 1e-6
    less = Skellam(mechanism.share.sigma2 * (1.0 - 20 * RESOLUTION))  # type: ignore[attr-defined]
    assert mechanism.values.loss(less, mechanism.precision).delta(1.0) > 1e-6


@pytest.mark.parametrize("mutant", ["one noise", "none"])
def test_an_audit_notices_a_server_without_enough_noise(mutant: str) -> None:
    mechanism = laplace(epsilon=1.0, binary=True, trust="two-servers").plan(10)
    weak = replace(mechanism)
    object.__setattr__(weak, "share", DiscreteLaplace(0.5) if mutant == "one noise" else DiscreteLaplace(0.02))
    assert audit(mechanism, 20_000, seeded(1), failure=1e-6).passed
    assert not audit(weak, 20_000, seeded(1), failure=1e-3).passed


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"honest_fraction": 0.9}, "honest_fraction"),
        ({"constants": "published"}, "constants"),
        ({"wrap_failure": 1e-9}, "wrap_failure"),
        ({"trust": "shuffler"}, "trust"),
        ({"trust": "nobody"}, "trust"),
    ],
)
def test_what_two_servers_do_not_read_is_refused_by_name(options: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        laplace(epsilon=0.5, **{"trust": "two-servers"} | options)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="^trust = 'two-servers' .* left out"):
        shuffled_laplace(epsilon=0.5, trust="two-servers")  # type: ignore[call-arg]


def bent(text: str, change: Callable[[dict[str, object]], object]) -> str:
    body = json.loads(text)
    change(body)
    return json.dumps(body)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(noise_from="batch", honest=40),
        lambda body: body.update(noise_from="analyzer", honest=40),
        lambda body: body.update(noise_from="user", honest=40),
        lambda body: body.update(honest=-1),
        lambda body: body.update(side="over"),
        lambda body: body["carrier"].update(field="Field7"),
        lambda body: body.update(precision=2**61),
        lambda body: body.update(carrier={"kind": "secure-aggregation", "modulus": 2**40, "slack": 100}),
        lambda body: body.update(carrier={"kind": "plain", "modulus": 2**40, "slack": 100}),
        lambda body: body.update(front_shares=3),
    ],
)
def test_a_bent_mechanism_is_refused(change: Callable[[dict[str, object]], object]) -> None:
    mechanism = laplace(epsilon=0.5, trust="two-servers").plan(40)
    assert Mechanism.from_json(mechanism.to_json(), affordable=True) == mechanism
    with pytest.raises(InvalidParameter):
        Mechanism.from_json(bent(mechanism.to_json(), change))


@pytest.mark.parametrize(
    "other",
    [
        shuffled_laplace(epsilon=0.5).plan(40),
        local_laplace(epsilon=0.5).plan(40),
        central_laplace(epsilon=0.5).plan(40),
        histogram(epsilon=0.5, universe=("a", "b")).plan(40),
        histogram(epsilon=0.5, universe=("a", "b"), model="central-pure").plan(40),
    ],
    ids=lambda mechanism: mechanism.trust,
)
def test_what_is_not_in_shares_says_so(other: Mechanism) -> None:
    assert other.ring is None
    assert not other.fits_any_batch
    value = other.extremes[1]
    for asked in (lambda: other.secret(value, secure()), lambda: other.server_noise(secure()), lambda: other.told([1])):
        with pytest.raises(CroupierError, match="not carried in shares"):
            asked()


def test_a_histogram_in_shares_is_one_number_an_item() -> None:
    mechanism = histogram(epsilon=1.0, universe=("tea", "coffee", "water"), model="two-servers").plan(3)
    ring = mechanism.ring
    assert ring is not None
    assert mechanism.secret("coffee", secure()) == [0, 1, 0]
    items, sums = ["tea", "coffee", "coffee"], [[0] * 3, [0] * 3]
    for user, item in enumerate(items):
        seed = bytes([user]) * 32
        sums[0] = ring.add(sums[0], ring.decode(ring.split(mechanism.secret(item, secure()), seed, b""), 3))
        sums[1] = ring.add(sums[1], ring.expand(seed, b"", 3))
    assert mechanism.told(ring.add(*sums)) == (1, 2, 0)
    noise = mechanism.server_noise(seeded(1)), mechanism.server_noise(seeded(2))
    assert mechanism.told(ring.add(*sums, *noise)) == tuple(np.sum([*noise, (1, 2, 0)], axis=0))
    with pytest.raises(CroupierError, match="juice"):
        mechanism.secret("juice", secure())


def test_a_histograms_noise_is_one_whole_noise_for_privacy_and_two_for_the_error() -> None:
    shared = histogram(epsilon=1.0, universe=("tea", "coffee"), model="two-servers").plan(100)
    central = histogram(epsilon=1.0, universe=("tea", "coffee"), model="central-pure").plan(100)
    assert shared.oracle.noise == central.oracle.noise == DiscreteLaplace(2)  # type: ignore[attr-defined]
    assert shared.variance == pytest.approx(2.0 * central.variance)
    assert shared.loss.pure == pytest.approx(1.0)
    assert shared.radius(0.05) > central.radius(0.05)
    assert (shared.trust, shared.honest) == ("two-servers", 0)
    low, high = shared.possible
    assert low < -20
    assert high > 120


def test_a_histograms_recipe_is_the_same_for_every_batch_and_fixes_the_encoding() -> None:
    small, large = (
        histogram(epsilon=1.0, universe=("tea", "coffee"), model="two-servers").plan(users) for users in (1, 10**6)
    )
    assert small.fits_any_batch
    assert small.recipe == large.recipe
    assert small.for_users(10**6) == large
    assert small.recipe["ballot"] == {"kind": "shared-counts", "field": "Field128"}
    assert (small.shape.slots, small.shape.length) == (1, 32)


def test_both_views_of_a_histogram_are_epsilon_close_over_all_outcomes() -> None:
    """A user's move is one count up and one down: laws multiply, as the two counts' noises are independent."""
    epsilon = 1.0
    law, left_out = folded(DiscreteLaplace(2 / epsilon), MODULUS)
    up = [seen_by_the_analyzer(value, OTHERS, MODULUS, law) for value in (0, 1)]
    ratio = largest_ratio(*up) + largest_ratio(*reversed(up))
    assert ratio == pytest.approx(epsilon, abs=1e-3)
    assert ratio <= epsilon + 4.0 * left_out / law.min()


@pytest.mark.parametrize(
    "options", [{"honest_fraction": 0.9}, {"constants": "published"}, {"delta": 1e-6}, {"side": "over"}]
)
def test_a_histogram_in_shares_refuses_what_it_does_not_read(options: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=f"^{next(iter(options))} = "):
        histogram(epsilon=0.5, universe=("a", "b"), model="two-servers", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_no_noise_with_a_delta_is_less_for_a_histogram(epsilon: float) -> None:
    skellam_noise = calibrate(Skellam, epsilon=epsilon, delta=1e-6, loss=move)
    laplace_noise = DiscreteLaplace(2 / epsilon)
    assert skellam_noise.variance > 2.0 * laplace_noise.variance
    far = 0.025 / 10**6
    assert skellam_noise.times(2).tail_quantile(far) > laplace_noise.times(2).tail_quantile(far)


def test_a_universe_too_large_to_send_is_simulated_and_not_sent() -> None:
    mechanism = histogram(epsilon=1.0, universe=[str(k) for k in range(100_001)], model="two-servers").plan(10)
    assert mechanism.simulation_only
    with pytest.raises(InvalidParameter, match="size = 100001 .* simulation only"):
        _ = mechanism.shape


def test_returning_users_keep_their_promise_under_two_servers() -> None:
    pure = laplace(epsilon=0.5, trust="two-servers", participations=5).plan(40)
    assert 5 * pure.loss.pure <= 0.5
    renyi = skellam(epsilon=0.5, trust="two-servers", participations=5).plan(40)
    assert (5 * renyi.loss).delta(renyi.guarantee.epsilon) <= renyi.guarantee.delta


# Reports that nobody needs to be trusted with go one a slot, as shuffled messages do.


def test_a_local_report_is_one_message_of_eight_bytes() -> None:
    mechanism = local_laplace(epsilon=1.0, binary=True).plan(50)
    form = mechanism.shape
    assert (form.slots, form.length, form.front, form.cap) == (1, 9, 0, None)
    assert {len(mechanism.slots(1.0, seeded(user))) for user in range(5)} == {1}
    assert len(mechanism.slots(0.0, seeded(1))[0]) == 9
    assert mechanism.sent_loss.pure == mechanism.loss.pure


def test_a_batch_of_local_reports_is_read_and_what_is_damaged_counts_as_zero() -> None:
    mechanism = local_laplace(epsilon=8.0, binary=True).plan(50)
    slots = [mechanism.slots(float(user % 2), seeded(user))[0] for user in range(50)]
    whole = mechanism.read(slots)
    assert whole.damaged == 0
    reports = mechanism.collect([int.from_bytes(slot[1:], "big") for slot in slots])
    assert whole.decoded == mechanism.analyze(reports).decoded
    beyond = slots[3][:1] + (2**62 - 1).to_bytes(8, "big")
    bad = [None, slots[1][:-1], bytes(9), beyond, *slots[4:]]
    read = mechanism.read(bad)
    assert read.damaged == 4
    kept = [0, 0, 0, 0, *(int.from_bytes(slot[1:], "big") for slot in slots[4:])]
    assert read.decoded == mechanism.analyze(mechanism.collect(kept)).decoded


@pytest.mark.parametrize("size", [2, 3, 50])
def test_bits_are_counted_as_they_are_sent(size: int) -> None:
    """A seed of 32 bytes to one server, and to the other a number for each item or coordinate."""
    items, seed = [f"item {number}" for number in range(size)], bytes(32)
    for mechanism, value in (
        (histogram(epsilon=1.0, universe=items, model="two-servers").plan(20), items[1]),
        (shared_vectors(epsilon=1.0, dimension=size).plan(20), [1.0] + [0.0] * (size - 1)),
    ):
        share = mechanism.ring.split(mechanism.secret(value, secure()), seed, b"context")
        assert mechanism.bits_per_user == 8 * (len(seed) + len(share))
