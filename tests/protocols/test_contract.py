"""What every protocol must keep, in every trust model: its privacy, its error, its form."""

import math
import re
from typing import Any

import numpy as np
import pytest

from cases.protocols import COUNTED_ON, EVERY, SENDABLE, SHARED, make, slow
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import secure, seeded
from croupier.privacy import privacy_loss
from croupier.protocols import ROWS, Mechanism, Release, TamperedMessage
from croupier.protocols.sums.carriers import SplitAndMix
from croupier.protocols.sums.values import Ball


def some_values(mechanism: Mechanism, batches: int, pattern: str, seed: int = 3) -> np.ndarray:
    """Batches of values: all at one end, all at the other, or mixed."""
    rng = np.random.default_rng(seed)
    low, high = mechanism.values.low, mechanism.values.high
    if isinstance(mechanism.values, Ball):
        vectors = rng.normal(size=(batches, mechanism.users, mechanism.dimension))
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        if pattern != "mixed":
            vectors[...] = 0.0
            vectors[..., 0] = low if pattern == "low" else high
        return vectors
    if pattern == "mixed":
        unit = (
            rng.integers(0, 2, (batches, mechanism.users))
            if mechanism.values.binary
            else rng.random((batches, mechanism.users))
        )
        return low + (high - low) * unit
    return np.full((batches, mechanism.users), low if pattern == "low" else high)


SLOW = ("shuffled-vectors", "published")
"""Its noise is so wide that a plan takes seconds."""
EVERY_SIZE, FEW_SIZES = (1, 19, 100, 1000, 30_000, 10**6), (1, 19, 1000, 10**6)


def _marks(case: tuple[str, str], users: int) -> Any:
    if case == SLOW:
        return pytest.mark.slow if users <= 19 else pytest.mark.evidence
    return () if users in FEW_SIZES else pytest.mark.evidence


SIZES = [pytest.param(*case, users, marks=_marks(case, users)) for case in EVERY for users in EVERY_SIZE]


@pytest.mark.parametrize(("name", "constants", "users"), SIZES)
def test_the_claim_is_what_the_noise_gives_for_every_batch_size(name: str, constants: str, users: int) -> None:
    asked = make(name, constants)
    if users < asked.smallest:
        with pytest.raises(InvalidParameter, match=f"users = {users} .* smallest batch of {name}"):
            asked.plan(users)
        return
    mechanism = asked.plan(users)
    certificate = mechanism.certificate()
    assert certificate.holds
    assert mechanism.loss.delta(mechanism.guarantee.epsilon) <= mechanism.guarantee.delta
    if constants == "tight" and mechanism.guarantee.notion == "approximate" and name != "shuffled-levels":
        assert certificate.epsilon > 0.995 * 0.5, "tight constants spend what was promised"


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
@pytest.mark.parametrize("pattern", ["low", "high", "mixed"])
@pytest.mark.parametrize(("trials", "most"), [(1_000, 108), pytest.param(2_000, 180, marks=pytest.mark.evidence)])
def test_error_stays_within_the_radius_and_has_no_bias(
    name: str, constants: str, pattern: str, trials: int, most: int
) -> None:
    mechanism = make(name, constants).plan(32)
    values = some_values(mechanism, trials, pattern)
    decoded = mechanism.analyze_many(mechanism.collect(mechanism.randomize(values, seeded(11))), seeded(12))
    error = mechanism.estimate(decoded) - values.sum(axis=1)
    failures = np.abs(error) > mechanism.radius(0.05) * (1 + 1e-9)
    failed = int((failures.any(axis=-1) if mechanism.coordinates else failures).sum())
    # A batch fails with probability 0.05 at most; more than 108 of 1,000, or 180 of 2,000, has probability below 1e-13.
    assert failed <= most, f"{failed} of {trials} errors exceeded radius(0.05)"
    if mechanism.side == "unbiased":
        spread = math.sqrt((mechanism.variance + mechanism.rounding_variance) / trials)
        # Seven standard errors: a false alarm once in 10^11.
        assert np.all(np.abs(error.mean(axis=0)) < 7 * spread + 1e-9)
        ratio = error.var(axis=0) / mechanism.variance
        assert np.all(ratio > 0.6)
        assert np.all(ratio < 1.6 * (1 + mechanism.rounding_variance / mechanism.variance))
    else:
        assert np.all(error >= 0)


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
@pytest.mark.parametrize(("trials", "drawn"), [(2_000, 600), pytest.param(1_500, 1_500, marks=pytest.mark.evidence)])
def test_batch_law_agrees_with_the_way_of_every_user(name: str, constants: str, trials: int, drawn: int) -> None:
    mechanism = make(name, constants).plan(32)
    values = some_values(mechanism, 1, "mixed")[0]
    real = mechanism.analyze_many(
        mechanism.collect(mechanism.randomize(np.broadcast_to(values, (trials, *values.shape)), seeded(5))), seeded(6)
    )
    law = np.asarray([mechanism.simulate(values, source).decoded for source in [seeded(7)] for _ in range(drawn)])
    if mechanism.coordinates:
        real, law = real[:, 0], law[:, 0]
    # Kolmogorov-Smirnov: a false alarm with probability 1e-9.
    grid = np.unique(np.concatenate((real, law)))
    shares = [np.searchsorted(np.sort(seen), grid, side="right") / len(seen) for seen in (real, law)]
    assert np.abs(shares[0] - shares[1]).max() < math.sqrt(math.log(2e9) * (1 / trials + 1 / drawn) / 2)


@pytest.mark.parametrize(("name", "constants"), slow(EVERY, ("shuffled-vectors", "published")))
def test_serial_form_is_complete_and_canonical(name: str, constants: str) -> None:
    honest = {} if (name, constants) in SHARED else {"honest_fraction": 0.9}
    mechanism = make(name, constants, **honest).plan(32)
    text = mechanism.to_json()
    again = Mechanism.from_json(text)
    assert again == mechanism
    assert again.to_json() == text
    assert hash(again) == hash(mechanism)


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
def test_release_travels_with_its_mechanism(name: str, constants: str) -> None:
    mechanism = make(name, constants).plan(32)
    release = mechanism.run(some_values(mechanism, 1, "mixed")[0], secure())
    again = Release.from_json(release.to_json())
    assert again == release
    assert np.all(again.sum == release.sum)
    assert again.radius(0.01) == release.radius(0.01)
    low, high = release.interval(0.05)
    assert np.all(low <= high)
    assert release.privacy is mechanism.guarantee


@pytest.mark.parametrize(("name", "constants"), COUNTED_ON)
def test_fewer_honest_users_cost_variance_and_never_privacy(name: str, constants: str) -> None:
    full, half = make(name, constants).plan(100), make(name, constants, honest_fraction=0.5).plan(100)
    assert half.honest == 50
    assert half.certificate().holds
    if full.noise_from == "batch":
        assert half.variance >= full.variance
        # The guarantee rests on the honest users' noise alone.
        if not half.coordinates:
            guard = half.share.times(50)
            assert half.loss.releases == privacy_loss(guard, half.precision * half.weight).releases


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
def test_wrong_batches_and_tampered_reports_are_refused(name: str, constants: str) -> None:
    mechanism = make(name, constants).plan(32)
    reports = mechanism.randomize(some_values(mechanism, 1, "mixed")[0], secure())
    with pytest.raises(InvalidParameter, match="reports = 31 .* exactly 32"):
        mechanism.collect(reports[:-1])
    bent = reports.copy()
    bent.flat[0] = -1
    with pytest.raises(TamperedMessage):
        mechanism.collect(bent)
    with pytest.raises(TamperedMessage):
        mechanism.collect(reports.astype(float))
    if hasattr(mechanism.carrier, "modulus"):
        bent.flat[0] = mechanism.carrier.modulus
        with pytest.raises(TamperedMessage):
            mechanism.collect(bent)
    view = mechanism.collect(reports)
    if isinstance(mechanism.carrier, SplitAndMix) or mechanism.carrier.kind == "plain":
        with pytest.raises(TamperedMessage):
            mechanism.analyze(view[1:], secure())


def test_what_is_missing_or_is_no_source_is_refused_by_name():
    mechanism = make("laplace", "tight").plan(32)
    with pytest.raises(InvalidParameter, match="^value = None .* a number in"):
        mechanism.randomize(None, seeded(1))
    with pytest.raises(InvalidParameter, match="^reports = 0 .* exactly 32 reports"):
        mechanism.collect([])
    for draw in (mechanism.randomize, mechanism.simulate, mechanism.run):
        with pytest.raises(InvalidParameter, match=r"^source = .* secure\(\), or seeded"):
            draw(np.zeros(32), np.random.default_rng(1))


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
@pytest.mark.parametrize("view", ["seven", None, 2.5, [1, 2.0], [[1], [2, 3]], {}, 10**30, b"1"], ids=repr)
def test_what_is_no_view_is_refused_by_name(name: str, constants: str, view: object) -> None:
    mechanism = make(name, constants).plan(32)
    with pytest.raises(InvalidParameter, match=f"^view = {re.escape(repr(view))} .* whole numbers"):
        mechanism.analyze(view, secure())


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
def test_the_views_of_several_batches_are_not_taken_for_one(name: str, constants: str) -> None:
    mechanism = make(name, constants).plan(32)
    views = mechanism.collect(mechanism.randomize(some_values(mechanism, 2, "mixed"), seeded(1)))
    assert mechanism.analyze_many(views, seeded(2)).shape[0] == 2
    with pytest.raises(InvalidParameter, match=r"(?s)^view = .* of one batch.* analyze_many"):
        mechanism.analyze(views, seeded(2))
    with pytest.raises((InvalidParameter, TamperedMessage)):
        mechanism.analyze([1, 2], seeded(2))
    if mechanism.carrier.lists_reports:
        with pytest.raises(TamperedMessage, match="0 messages came through"):
            mechanism.analyze(7, seeded(2))


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.001, 1.001])
def test_values_outside_the_range_are_refused_not_clipped(name: str, constants: str, bad: float) -> None:
    mechanism = make(name, constants).plan(32)
    value = [bad, 1.0, 0.0] if mechanism.coordinates else bad
    with pytest.raises(InvalidParameter, match="value"):
        mechanism.randomize(value, secure())


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": -0.1}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"honest_fraction": 0.0}, "honest_fraction"),
        ({"honest_fraction": 1.1}, "honest_fraction"),
        ({"setting": "loose"}, "constants"),
    ],
)
def test_bad_targets_are_refused_by_name(name: str, options: dict[str, float], parameter: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{parameter} = "):
        make(name, **{"setting": "tight"} | options)  # type: ignore[arg-type]


@pytest.mark.parametrize("users", [0, -5, 2.5, True, None, "many"])
def test_batch_size_must_be_a_whole_number(users: object) -> None:
    with pytest.raises(InvalidParameter, match="users = "):
        make("laplace", "tight").plan(users)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        ("shuffled-bits", 1.0),
        ("counted-messages", 1.5),
        ("discrete-gaussian", 1.0),
        ("central-laplace", 2.0),
        ("local-laplace", 1.0),
        ("shuffled-levels", 15.0),
        ("shuffled-vectors", 20.0),
    ],
)
def test_published_constants_keep_to_the_papers_ranges(name: str, epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="epsilon = .* published"):
        make(name, "published", epsilon=epsilon)
    assert make(name, "tight", epsilon=epsilon).epsilon == epsilon


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
def test_a_front_sends_as_many_messages_of_its_own_as_the_shape_says(name: str, constants: str) -> None:
    plans = [make(name, constants, 0.9)]
    if "front_noise" in ROWS[name].options and constants not in ROWS[name].instead:
        plans.append(make(name, constants, 0.9, front_noise=True))
    for recipe in plans:
        mechanism = recipe.plan(32)
        if mechanism.noise_from == "analyzer":
            with pytest.raises(CroupierError, match="noise from the analyzer"):
                assert mechanism.shape
            continue
        assert len(mechanism.front_slots(seeded(1))) == mechanism.shape.front
        assert (mechanism.shape.front > 0) == (mechanism.front_shares > 0)
