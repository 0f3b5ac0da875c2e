"""Several sums of one report: one budget exactly, one proof for all, and every sum what it would be alone."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.folded import folded, largest_ratio
from croupier.bandits import Metrics
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import DiscreteLaplace, secure, seeded
from croupier.privacy import Guarantee
from croupier.protocols import Mechanism, SeveralSums, audit, laplace, local_laplace, shared_vectors

ASKED = {
    "finished": {"role": "primary"},
    "crashes": {"role": "guardrail", "high": 5, "cap": True, "better": "lower", "margin": 0.5},
    "minutes": {"low": -10, "high": 60, "share": 0.2},
}
FULL = {"finished": 1, "crashes": 3, "minutes": 12.5}


def small(*epsilons: float, precision: int = 2, users: int = 3) -> SeveralSums:
    plans = [laplace(epsilon=e, precision=precision, trust="two-servers").plan(users) for e in epsilons]
    return SeveralSums.of({f"m{place}": plan for place, plan in enumerate(plans)})


@pytest.mark.parametrize("epsilons", [(0.5, 0.5), (0.75, 0.25), (1.0, 0.25, 0.25)])
def test_a_release_is_exactly_as_private_as_its_budget_over_all_values_and_outcomes(
    epsilons: tuple[float, ...],
) -> None:
    """Direct summation over a window of totals: what one server's noise alone leaves of one report."""
    several = small(*epsilons)
    window = np.arange(-12, 17)
    laws = {
        value: [
            np.log([one.share.pmf(int(x) - level) for x in window])
            for one, level in zip(several.sums, value, strict=True)
        ]
        for value in itertools.product(range(3), repeat=len(epsilons))
    }
    worst = 0.0
    for one, other in itertools.combinations(laws.values(), 2):
        # The noises are independent, so log ratios of the whole vector are sums: all of them, by outer addition.
        ratio = np.zeros(1)
        for mine, theirs in zip(one, other, strict=True):
            ratio = np.add.outer(ratio, mine - theirs).ravel()
        worst = max(worst, float(np.abs(ratio).max()))
    assert worst == pytest.approx(sum(epsilons), rel=1e-9)
    assert several.loss.pure == sum(epsilons)
    assert several.certificate().holds


MODULUS, GRAIN = 7, 2


def seen_by_the_analyzer(value: tuple[int, int], others: tuple[int, int], laws: list[np.ndarray]) -> np.ndarray:
    """The joint law of both numbers' (s0, Σs1 + N1), for whoever is the analyzer and every other user."""
    joint = np.zeros((MODULUS,) * 4)
    for one, two in itertools.product(range(MODULUS), repeat=2):
        for (n, p), (m, q) in itertools.product(enumerate(laws[0]), enumerate(laws[1])):
            place = (value[0] - one, one + others[0] + n, value[1] - two, two + others[1] + m)
            joint[tuple(number % MODULUS for number in place)] += p * q / MODULUS**2
    return joint


def seen_by_the_front(value: tuple[int, int], others: tuple[int, int], laws: list[np.ndarray]) -> np.ndarray:
    """The same of (s1, total - N1) for whoever is the front: it knows its own noise, and shares are uniform."""
    joint = np.zeros((MODULUS,) * 4)
    for one, two in itertools.product(range(MODULUS), repeat=2):
        for (n, p), (m, q) in itertools.product(enumerate(laws[0]), enumerate(laws[1])):
            place = (one, value[0] + others[0] + n, two, value[1] + others[1] + m)
            joint[tuple(number % MODULUS for number in place)] += p * q / MODULUS**2
    return joint


@pytest.mark.parametrize("view", [seen_by_the_analyzer, seen_by_the_front])
def test_either_server_with_all_other_users_learns_no_more_than_the_others_noise_lets_through(
    view: Callable[..., np.ndarray],
) -> None:
    several = small(1.5, 0.5)
    found = [folded(one.share, MODULUS) for one in several.sums]
    laws, left_out = [law for law, _ in found], sum(2.0 * out / law.min() for law, out in found)
    views = [view(value, (3, 1), laws) for value in itertools.product(range(GRAIN + 1), repeat=2)]
    for one, other in itertools.combinations(views, 2):
        assert largest_ratio(one, other) <= 2.0 + left_out
    bare = [view(value, (3, 1), [laws[0], folded(None, MODULUS)[0]]) for value in ((0, 0), (0, 1))]
    assert largest_ratio(*bare) == math.inf, "a metric without noise would show its value"


@given(
    st.floats(0.01, 20.0),
    st.lists(st.integers(1, 40), min_size=1, max_size=7),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_parts_of_the_budget_never_add_up_to_more_and_hardly_to_less(
    epsilon: float, parts: list[int], said: bool
) -> None:
    weights = [f"{part / (2.5 * sum(parts)):.6f}" for part in parts]
    tables: dict[str, dict[str, object]] = {"a": {"role": "primary"}}
    tables |= {f"b{k}": {"share": float(weight)} if said else {} for k, weight in enumerate(weights)}
    several = Metrics.of(tables, epsilon).plan(users=40)
    spent = sum((one.precision / Fraction(one.share.scale) for one in several.sums), Fraction(0))  # type: ignore[attr-defined]
    assert spent <= Fraction(epsilon)
    assert spent >= Fraction(epsilon) * (1 - Fraction(1, 10**14))
    assert several.loss.pure <= epsilon
    assert several.guarantee.epsilon == epsilon
    assert several.certificate().holds


def test_shares_are_told_exactly_and_the_primary_metric_has_at_least_half() -> None:
    assert Metrics.of(ASKED, 1.0).shares == (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
    said = {"finished": {"role": "primary"}, "crashes": {"share": 0.1}}
    assert Metrics.of(said, 1.0).shares == (Fraction(9, 10), Fraction(1, 10))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"finished": {"role": "primary", "share": 0.4}}, "metrics.finished.share = 0.4 .* at least one half"),
        ({"finished": {"role": "primary", "share": 0.9}}, "share = .* add up to 1"),
        ({"finished": {"role": "secondary"}}, "metrics = .* exactly one is primary"),
        ({"minutes": {"role": "primary"}}, "metrics = .* exactly one is primary"),
        ({"minutes": {"role": "guardrail"}}, "metrics.minutes.margin = None .* a number in"),
        ({"minutes": {"role": "guardrail", "high": 60, "margin": 61}}, "metrics.minutes.margin = 61"),
        ({"minutes": {"margin": 1}}, "metrics.minutes.margin = 1 .* left out"),
        ({"minutes": {"high": -1}}, "metrics.minutes.high = -1 .* above low"),
        ({"minutes": {"colour": 1}}, "metrics.minutes.colour = 1 .* takes role, low, high"),
        ({"minutes": {"better": "more"}}, "metrics.minutes.better = 'more'"),
        ({"finished": {"role": "primary", "better": "lower"}}, "metrics.finished.better = 'lower'"),
        ({"minutes": {"cap": 1}}, "metrics.minutes.cap = 1 .* true or false"),
        ({"Minutes": {}}, "metric = 'Minutes'"),
        ({f"more{k}": {} for k in range(6)}, "metrics = 9 .* two to 8"),
    ],
)
def test_a_bad_metric_is_refused_by_name(change: dict[str, dict[str, object]], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Metrics.of(ASKED | change, 1.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.0, "value = 1.0 .* several numbers by name: finished, crashes and minutes"),
        (FULL | {"clicks": 1}, "clicks = 1 .* left out"),
        ({"finished": 1, "crashes": 0}, "minutes is missing: .* given"),
        (FULL | {"minutes": 61}, r"minutes = 61.0 .* a number in \[-10, 60\]"),
        (FULL | {"minutes": math.nan}, "minutes = nan"),
        (FULL | {"minutes": [1, 2]}, r"minutes = \[1, 2\] .* a number"),
        (FULL | {"finished": 0.5}, "finished = 0.5 .* 0 or 1"),
    ],
)
def test_a_bad_report_is_refused_by_the_name_of_its_metric(value: object, words: str) -> None:
    several = Metrics.of(ASKED, 1.0).plan(40)
    with pytest.raises(InvalidParameter, match=words):
        several.check_value(value)
    with pytest.raises(InvalidParameter, match=words):
        several.secret(value, secure())


def test_a_capped_value_counts_as_the_end_and_others_are_encoded_as_each_sum_would_alone() -> None:
    several = Metrics.of(ASKED, 1.0).plan(40)
    assert several.secret(FULL | {"crashes": 700, "minutes": -10}, seeded(1)) == [127, 127, 0]
    drawn = np.asarray([several.secret(FULL, seeded(seed)) for seed in range(400)])
    assert set(drawn[:, 0]) == {127}
    # 3/5 of 127 is 76.2, and 22.5/70 of it 40.82: one step up with that chance. Seven standard errors.
    assert drawn[:, 1].mean() == pytest.approx(76.2, abs=7 * 0.4 / 20)
    assert drawn[:, 2].mean() == pytest.approx(40.82, abs=7 * 0.39 / 20)


def test_the_way_through_two_servers_has_the_law_of_each_sum_alone() -> None:
    several = Metrics.of(ASKED, 3.0).plan(4)
    ring, length, source, told = several.ring, several.outputs, seeded(3), []
    for batch in range(300):
        sums = [[0] * length, [0] * length]
        for user in range(4):
            seed, context = bytes([user, batch % 256, batch // 256]) + bytes(29), b"arm"
            other = ring.split(several.secret(FULL, source), seed, context)
            sums[0] = ring.add(sums[0], ring.decode(other, length))
            sums[1] = ring.add(sums[1], ring.expand(seed, context, length))
        parts = [ring.add(part, several.server_noise(source)) for part in sums]
        told.append(several.told(ring.add(*parts)))
    for place, (name, one) in enumerate(zip(several.names, several.sums, strict=True)):
        alone = [one.run([FULL[name]] * 4, source).decoded for _ in range(300)]
        mine = [total[place] for total in told]
        grid = np.unique(np.concatenate((mine, alone)))
        ranks = [np.searchsorted(np.sort(drawn), grid, side="right") / 300 for drawn in (mine, alone)]
        # Kolmogorov-Smirnov with 300 against 300 above 0.27: probability below 1e-9.
        assert np.abs(ranks[0] - ranks[1]).max() < 0.27, name
    assert several.unit_sums(told[0])[1] == several.sums[1].unit_sums(told[0][1])
    assert len(several.run([FULL] * 4, source)) == 3


def test_each_sum_has_a_noise_of_its_own_law_from_each_server_and_they_are_independent() -> None:
    several = small(2.0, 0.25)
    drawn = np.asarray([several.server_noise(seeded(seed)) for seed in range(3000)], dtype=float)
    # Seven standard errors of a correlation of none.
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 7 / math.sqrt(3000)
    # A Laplace law's fourth moment is six times its squared variance: seven standard errors of the variance are 29 %.
    for place, one in enumerate(several.sums):
        assert drawn[:, place].var() == pytest.approx(one.share.variance, rel=0.29)


def test_whoever_lies_is_worth_one_report_in_every_metric_and_no_more() -> None:
    several = Metrics.of(ASKED, 1.0).plan(40)
    prio3, context = several.prio3, b"an experiment"
    for measurement in ([127, 127, 127], [0, 0, 0], [5, 127, 0]):
        _, leader, _ = prio3.shard(measurement, nonce=bytes(16), context=context)
        assert len(leader) == prio3.sizes.leader
    for place in range(3):
        with pytest.raises(InvalidParameter, match=rf"measurement\[{place}\] = 128"):
            prio3.shard([128 if at == place else 0 for at in range(3)], nonce=bytes(16), context=context)
    assert [one.precision for one in several.sums] == [127] * 3
    assert [one.precision for one in Metrics.of({"a": {"role": "primary"}, "b": {}}, 1.0).plan(40).sums] == [1, 1]


def test_it_is_read_back_as_it_was_and_fits_any_batch() -> None:
    several, large = (Metrics.of(ASKED, 1.0).plan(users) for users in (40, 50_000))
    assert Mechanism.from_json(several.to_json(), affordable=True) == several
    assert several.fits_any_batch
    assert several.for_users(50_000) == large
    assert several.recipe == large.recipe
    assert [one["name"] for one in several.recipe["sums"]] == ["finished", "crashes", "minutes"]
    assert (several.shape.slots, several.shape.length) == (1, 48)
    assert several.residual.hides_nothing
    low, high = several.possible
    assert all(low <= one.possible[0] and one.possible[1] <= high for one in several.sums[:1])
    assert high == 40 * 127 - low
    assert several.summary((127, 0, 0)).keys() == {"sum", "mean"} | {
        f"{key}_{name}" for key in ("sum", "mean") for name in several.names
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["names"].append("x"),
        lambda body: body["names"].__setitem__(0, "minutes"),
        lambda body: body["names"].__setitem__(0, ""),
        lambda body: body["sums"].pop(),
        lambda body: body.update(names=["finished"], sums=body["sums"][:1]),
        lambda body: body["sums"][0].update(users=41),
        lambda body: body["sums"][0].update(precision=1),
        lambda body: body["sums"][0].update(version=7),
        lambda body: body["sums"].__setitem__(0, json.loads(local_laplace(epsilon=0.5).plan(40).to_json())),
        lambda body: body["sums"].__setitem__(
            0, json.loads(shared_vectors(epsilon=0.5, dimension=2).plan(40).to_json())
        ),
        lambda body: body["guarantee"].update(notion="approximate", delta=1e-6),
        lambda body: body.update(more=1),
        lambda body: body.pop("guarantee"),
    ],
)
def test_a_bent_mechanism_is_refused(change: Callable[[dict[str, object]], object]) -> None:
    body = json.loads(Metrics.of(ASKED, 1.0).plan(40).to_json())
    change(body)
    with pytest.raises(InvalidParameter):
        Mechanism.from_json(json.dumps(body))


@pytest.mark.parametrize(
    "claim",
    [
        Guarantee("pure", 1.0, unit="user", participations=2),
        Guarantee("approximate", 1.0, delta=1e-6),
    ],
)
def test_its_promise_is_pure_and_for_one_report(claim: Guarantee) -> None:
    with pytest.raises(InvalidParameter, match="guarantee = .* a pure one, for one report"):
        replace(small(0.5, 0.5), guarantee=claim)


def test_a_claim_that_its_noise_does_not_keep_is_found() -> None:
    several = Metrics.of(ASKED, 1.0).plan(40)
    bold = replace(several, guarantee=replace(several.guarantee, epsilon=0.9))
    assert several.certificate().holds
    assert not bold.certificate().holds


def test_an_audit_notices_a_metric_without_enough_noise() -> None:
    several = small(0.5, 0.5, precision=1, users=10)
    weak = several.sums[1].for_users(10)
    object.__setattr__(weak, "share", DiscreteLaplace(0.3))
    found = audit(several, 40_000, seeded(1), failure=1e-6)
    assert found.passed
    assert found.lower_bound > 0.7, "both metrics together tell more than either of them"
    assert not audit(replace(several, sums=(several.sums[0], weak)), 40_000, seeded(1), failure=1e-3).passed


def test_messages_of_shufflers_are_none_of_its() -> None:
    several = small(0.5, 0.5)
    assert len(several.slots({"m0": 1, "m1": 0}, seeded(1))) == 1
    assert several.front_slots(seeded(1)) == ()
    with pytest.raises(CroupierError, match="two servers' totals"):
        several.read([None] * 3)
    with pytest.raises(InvalidParameter, match="values = 2"):
        several.run([{"m0": 1, "m1": 0}] * 2, seeded(1))
