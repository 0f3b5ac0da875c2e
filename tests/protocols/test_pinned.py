"""Formulas of the protocols once more, by counting: what a slip would change without breaking a promise."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, dlaplace

from cases.protocols import make
from croupier import protocols
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import DiscreteLaplace, Poisson, seeded
from croupier.privacy import Guarantee
from croupier.protocols import ROWS, Mechanism, histogram
from croupier.protocols.histograms.central import NoisyCounts
from croupier.protocols.histograms.choice import ExponentialMechanism
from croupier.protocols.histograms.coins import Coins, least_coins
from croupier.protocols.histograms.local import ProjectiveResponse, largest_keep
from croupier.protocols.histograms.oracles import FrequencyOracle
from croupier.protocols.histograms.target import oracle_from_dict
from croupier.protocols.mechanism import Certificate
from croupier.protocols.padding import TamperedMessage, capped
from croupier.protocols.sums.carriers import SecureAggregation
from croupier.protocols.sums.carriers.modular import sum_modulo


def membership(oracle: ProjectiveResponse) -> np.ndarray:
    """Which responses lie on which item's hyperplane: a row for each response, a column for each item."""
    every = np.eye(oracle.labels, dtype=np.int64)
    return np.asarray([oracle.space.on_hyperplanes(one, oracle.size) for one in every])


@pytest.mark.parametrize(("field", "size"), [(2, 7), (2, 15), (3, 13), (5, 31)])
def test_moments_of_a_difference_of_responses_are_sums_over_all_responses(field: int, size: int) -> None:
    """E e^{t(on j - on i)} for whoever holds i, j, or another item, which is largest for one not on their line."""
    oracle = ProjectiveResponse(size, 50, field, largest_keep(1.0, field, size))
    on = membership(oracle).astype(bool)
    keep = float(oracle.keep)
    law = np.where(on, keep / on.sum(axis=0), (1.0 - keep) / (~on).sum(axis=0))
    assert law.sum(axis=0) == pytest.approx(np.ones(size))
    for tilt in (0.05, 0.7):
        weight = np.exp(tilt * (on[:, 1].astype(float) - on[:, 0]))
        moments = np.log(weight @ law)
        best, worse, neither = oracle._log_moments(np.asarray([tilt]))
        assert best[0] == pytest.approx(moments[0], rel=1e-9)
        assert worse[0] == pytest.approx(moments[1], rel=1e-9)
        assert neither[0] == pytest.approx(moments[2:].max(), rel=1e-9)


def test_a_space_too_large_to_transform_is_refused_with_its_size() -> None:
    with pytest.raises(InvalidParameter, match=f"^transform = {997**3} "):
        ProjectiveResponse(1000, 50, 997, Fraction(9, 10))


@pytest.mark.parametrize("name", ["shuffled-levels", "shuffled-bits"])
def test_too_few_messages_are_refused_with_the_number_that_each_sends(name: str) -> None:
    mechanism = make(name, "tight").plan(40)
    share = mechanism.share.bits
    least, most = (mechanism.carrier.value_messages + noise for noise in (share.fewest, share.most))
    if name == "shuffled-levels":
        assert least == most == math.floor(mechanism.messages_per_user) > 2
    with pytest.raises(TamperedMessage, match=f"each sends {least}" + (f" to {most}$" if most > least else "$")):
        mechanism.analyze([1, 2])


def least(passes: Callable[[int], bool]) -> int:
    return next(error for error in itertools.count() if passes(error))


@pytest.mark.parametrize("size", [2, 5, 300])
@pytest.mark.parametrize(("scale", "failure"), [(3, 0.05), (40, 0.3)])
def test_the_exponential_mechanism_chooses_by_weights(size: int, scale: int, failure: float) -> None:
    """The best item against all others that lie one more than the error behind: e^{count/scale} of the sum of all."""

    def lost(error: int) -> float:
        weights = np.exp(-(error + 1) * (np.arange(size) > 0) / scale)
        return float(weights[1:].sum() / weights.sum())

    oracle = ExponentialMechanism(size, 5000, Fraction(scale))
    assert oracle.winner_error(failure) == least(lambda error: lost(error) <= failure)


@pytest.mark.parametrize(
    ("law", "reach", "oracle"),
    [
        (binom(40, 0.75), 40, lambda size: Coins(size, 5000, 5000, 40, 40, Fraction(3, 4))),
        (dlaplace(1 / 3), 200, lambda size: NoisyCounts(size, 5000, DiscreteLaplace(3))),
    ],
    ids=["coins", "noisy counts"],
)
@pytest.mark.parametrize("size", [2, 4, 1000])
@pytest.mark.parametrize("failure", [1e-6, 0.05, 0.6])
def test_a_winner_errs_as_the_sum_over_its_own_noise_says(
    law: Any, reach: int, oracle: Callable[[int], FrequencyOracle], size: int, failure: float
) -> None:
    """Whatever noise the best item has, each of the others may have more; and no chance is above one."""
    noise = np.arange(-reach, reach + 1)
    masses, tails = law.pmf(noise), law.sf(np.arange(-reach, 2 * reach + 1))

    def lost(error: int) -> float:
        return sum(masses[i] * min(1.0, (size - 1) * tails[i + error]) for i in range(len(noise)))

    assert oracle(size).winner_error(failure) == least(lambda error: lost(error) <= failure)


@pytest.mark.parametrize(("size", "users"), [(2, 60), (2, 400), (3, 90)])
@pytest.mark.parametrize("failure", [1e-4, 0.05])
def test_the_radius_of_responses_covers_every_way_to_spread_the_users(size: int, users: int, failure: float) -> None:
    """Bernstein's bound on each item, added up, for all counts of the items: the radius is no less than the worst."""
    oracle = ProjectiveResponse(size, users, 2, largest_keep(1.0, 2, size))
    keep, outside = float(oracle.keep), float(oracle._outside)

    def beyond(count: int, error: int) -> float:
        far = error * (keep - outside)
        variance = count * keep * (1 - keep) + (users - count) * outside * (1 - outside)
        # One that nobody holds cannot come out below its count.
        return (2.0 if count else 1.0) * math.exp(-(far**2) / (2.0 * (variance + far / 3.0)))

    def worst(error: int) -> float:
        each = [beyond(count, error) for count in range(users + 1)]
        spreads = itertools.product(range(users + 1), repeat=size - 1)
        whole = ((*spread, users - sum(spread)) for spread in spreads if sum(spread) <= users)
        return max(sum(each[count] for count in spread) for spread in whole)

    found = oracle.radius(failure)
    exact = least(lambda error: worst(error) <= failure)
    assert exact <= found <= 1.05 * exact + 2


def test_an_oracle_of_no_known_kind_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidParameter, match="^kind = 'oracle' .* one of .*coins, "):
        oracle_from_dict({"kind": "oracle"})


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        (Guarantee("concentrated", 2.0, 1e-6, rho=0.125), {"rho": 0.125}),
        (Guarantee("renyi", 2.0, 1e-6, order=11, divergence=1.5), {"divergence": 1.5}),
    ],
    ids=["rho", "divergence"],
)
def test_a_certificate_holds_only_if_every_number_of_its_claim_does(claim: Guarantee, number: dict[str, float]) -> None:
    more = {name: value * (1 + 1e-6) for name, value in number.items()}
    assert Certificate(claim, 1.9, 1e-7, **number).holds
    assert not Certificate(claim, 1.9, 1e-7, **more).holds
    assert not Certificate(claim, 2.1, 2e-6, **number).holds
    assert Certificate(claim, 2.1, 1e-6, **number).holds
    assert Certificate(claim, 2.0, 2e-6, **number).holds


@pytest.mark.parametrize("honest", [0, 41, -1])
def test_a_plan_counts_on_somebody_and_on_no_more_than_there_are(honest: int) -> None:
    body = json.loads(make("laplace", "tight").plan(40).to_json())
    assert body["honest"] == 40
    with pytest.raises(InvalidParameter, match=rf"^honest = {honest} .* in \[1, 40\]"):
        Mechanism.from_json(json.dumps(body | {"honest": honest}))


@pytest.mark.parametrize("users", [40, 900])
def test_limits_of_responses_are_those_of_clopper_and_pearson(users: int) -> None:
    """Of every number of responses, half of the failure on each side of each item, at least one response away."""
    oracle = ProjectiveResponse(3, users, 2, largest_keep(1.0, 2, 3))
    keep, outside = float(oracle.keep), float(oracle._outside)
    for seen in range(0, users + 1, users // 20):
        low, high = oracle.bounds(np.full(3, seen), 0.06)
        rates = beta.ppf(0.01, seen, users - seen + 1), beta.ppf(0.99, seen + 1, users - seen)
        least = min(0.0 if seen == 0 else rates[0], (seen - 1) / users)
        most = max(1.0 if seen == users else rates[1], (seen + 1) / users)
        turned = [users * (rate - outside) / (keep - outside) for rate in (least, most)]
        assert low == pytest.approx(np.clip(turned[0], 0.0, users), abs=1e-6)
        assert high == pytest.approx(np.clip(turned[1], 0.0, users), abs=1e-6)


def test_progress_of_coins_adds_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("croupier.protocols.histograms.coins.CHUNK", 100)
    parts: list[float] = []
    Coins(17, 5000, 5000, 40, 40).gather(np.zeros(5000, dtype=np.int64), seeded(1), parts.append)
    assert len(parts) == 9
    assert math.fsum(parts) == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.9, 1e-6), (0.5, 1e-4)])
def test_coins_in_dishonest_hands_cost_no_more_than_half_of_delta(epsilon: float, delta: float) -> None:
    """2(1 + e^ε) P(Binomial(coins, honest share) < sure) <= δ/2, and with one coin less it is not."""
    coins, sure = least_coins(epsilon, delta, Fraction(3, 4), 4000, 5000)
    alone = least_coins(epsilon, delta / 2, Fraction(3, 4), 5000, 5000)
    assert alone == (sure, sure)

    def charged(tossed: int) -> float:
        return 2 * (1 + math.exp(epsilon)) * float(binom.cdf(sure - 1, tossed, 0.8))

    assert charged(coins) <= delta / 2 < charged(coins - 1)


@pytest.mark.parametrize("name", ["shuffled-levels", "shuffled-bits"])
def test_bits_that_never_came_are_replaced_by_bits_that_add_up_to_nothing(name: str) -> None:
    mechanism = make(name, "tight").plan(40)
    bits = mechanism.share.bits
    due = 40 * (mechanism.carrier.value_messages + bits.fewest)
    view, damaged = mechanism.carrier.repaired(mechanism, [None] * due)
    zeros, ones = view.tolist()
    assert damaged == zeros + ones == due
    assert abs(ones + bits.zero * zeros) <= 1


@pytest.mark.parametrize("side", ["over", "under"])
@pytest.mark.parametrize(("users", "size"), [(6, 2), (20, 5)])
def test_a_unanimous_vote_is_lost_when_noise_overtakes_it(side: str, users: int, size: int) -> None:
    """Σ P(x) (1 - (1 - P(another item comes out no lower))^(size - 1)), the best item last, where ties are lost."""
    oracle = histogram(epsilon=0.9, delta=0.01, universe=[str(i) for i in range(size)], side=side).plan(users).oracle
    x = np.arange(int(oracle.noise.mean + 40 * oracle.noise.std) + 10)
    law = oracle.noise.pmf(x)
    # Counting under, noise is taken away: another item with no holder must have lost so much less.
    enough = [law[x >= own + users].sum() if side == "over" else law[x <= own - users].sum() for own in x]
    lost = law @ (1.0 - (1.0 - np.asarray(enough)) ** (size - 1))
    assert oracle.unanimous_failure == pytest.approx(float(lost), rel=1e-6)
    assert 0.0 < lost < 1.0


RECIPES = {name: getattr(protocols, name.replace("-", "_")) for name in ROWS.own}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_by_its_own_name_has_the_defaults_of_the_row(name: str) -> None:
    """Values from 0 to 1, all users honest, once each, and what is said nowhere else."""
    more = {"dimension": 2} if ROWS[name].vectors else {}
    by_name, by_row = RECIPES[name](epsilon=0.5, **more), protocols.protocol(name, epsilon=0.5, **more)
    assert by_name == by_row
    if not ROWS[name].vectors:
        assert (by_name.values.low, by_name.values.high) == (0.0, 1.0)
    assert (by_name.honest_fraction, by_name.participations) == (1.0, 1)


@pytest.mark.parametrize(("field", "size"), [(2, 7), (3, 13)])
def test_a_response_tells_two_items_apart_as_far_as_their_laws_lie(field: int, size: int) -> None:
    """The total variation between what the holders of two items respond; the loss is the largest ratio."""
    oracle = ProjectiveResponse(size, 50, field, largest_keep(1.0, field, size))
    on = membership(oracle).astype(bool)
    keep = float(oracle.keep)
    law = np.where(on, keep / on.sum(axis=0), (1.0 - keep) / (~on).sum(axis=0))
    advantage = np.abs(law[:, 0] - law[:, 1]).sum() / 2.0
    assert oracle.residual.advantage == pytest.approx(advantage, rel=1e-9)
    assert oracle.residual.epsilon == pytest.approx(np.log(law.max() / law.min()), rel=1e-9)


def test_of_noise_too_wide_for_a_table_a_report_tells_no_more_than_its_ratio_lets_it() -> None:
    tabled, wide = (protocols.laplace(epsilon=1.0, trust="devices").plan(users).residual for users in (1000, 10**7))
    assert tabled.advantage <= math.tanh(tabled.epsilon / 2.0)
    assert tabled.epsilon < wide.epsilon < math.inf
    assert wide.advantage == math.tanh(wide.epsilon / 2.0) < 1.0


def test_coins_hide_nothing_from_whoever_knows_the_seats() -> None:
    residual = Coins(4, 100, 100, 10, 10).residual
    assert (residual.epsilon, residual.advantage) == (math.inf, 1.0)


def test_a_front_adds_four_million_messages_at_most() -> None:
    """A mean of 2^22 messages; beyond it is refused, and says how many there would be."""
    asked = {"users": 2**13, "claim": Guarantee("approximate", 1.0, 1e-6)}
    assert capped(Poisson(512), 1, 8, front_shares=2**13, **asked).front > 2**22
    with pytest.raises(CroupierError, match=r"the front would add 4\.2e\+06 messages, and 4194304 is the most"):
        capped(Poisson(513), 1, 8, front_shares=2**13, **asked)


@pytest.mark.parametrize("users", [8, 40])
def test_the_mean_of_a_release_is_that_of_values_which_all_users_share(users: int) -> None:
    """Where all users hold the same value that is the mean, but for little noise."""
    mechanism = protocols.central_laplace(epsilon=500.0, low=-3.0, high=5.0).plan(users)
    for value in (-3.0, 1.0, 5.0):
        assert mechanism.run([value] * users, seeded(1)).mean == pytest.approx(value, abs=0.05)


@pytest.mark.parametrize("modulus", [2, 9, 10, 41, 300])
def test_what_a_modular_sum_folds_is_all_noise_that_a_users_move_takes_out_of_a_period(modulus: int) -> None:
    """Whoever stays within (-m/2, m/2) when any user's step is added or taken away is not folded."""
    precision, noise = 3, DiscreteLaplace(5)
    every = np.arange(-400, 401)
    stays = np.all([np.abs(every + step) < modulus // 2 for step in range(-precision, precision + 1)], axis=0)
    folded = 1.0 if not stays.any() else float(noise.pmf(every[~stays]).sum())
    assert SecureAggregation(modulus, 0).folded(noise, precision) == pytest.approx(folded, rel=1e-9)


@pytest.mark.parametrize("modulus", [2, 2**31 - 1, 2**60 + 33, 2**61 - 1, 2**62])
def test_residues_are_added_without_loss_however_large_their_sum(modulus: int) -> None:
    """Eight of 2^60 are the first that 64 bits do not hold."""
    values = [(modulus - 1 - place) % modulus for place in range(16)]
    for count in (1, 7, 8, 9, 16):
        table = np.asarray([values[:count], values[-count:]], dtype=np.int64)
        expected = [sum(row.tolist()) % modulus for row in table]
        assert sum_modulo(table, 1, modulus).tolist() == expected
        assert sum_modulo(table.T, 0, modulus).tolist() == expected
