"""Users who return: as many batches as are allowed keep the promise together, and no noise is spent beyond that."""

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from cases.protocols import SENDABLE, make, slow
from croupier.checks import CroupierError, InvalidParameter
from croupier.cli import parser
from croupier.continual import counter
from croupier.noise import Skellam, seeded
from croupier.privacy import advanced_composition, calibrate, privacy_loss, renyi_to_approximate, skellam_divergence
from croupier.protocols import (
    Items,
    Mechanism,
    SumMechanism,
    audit,
    histogram,
    laplace,
    protocol,
    shuffled_bits,
    skellam,
)
from croupier.service.experiment import plan

EPSILON, DELTA, COUNT = 0.9, 1e-6, 20

Floats = np.ndarray[Any, np.dtype[np.float64]]


@pytest.mark.parametrize(("name", "constants"), slow(SENDABLE, ("counted-messages", "tight")))
def test_all_batches_of_a_user_keep_the_promise(name: str, constants: str) -> None:
    # What each batch is asked for is searched for once, for batches of every size.
    for users in (40, 1000):
        mechanism = make(name, constants, participations=3).plan(users)
        claim, together = mechanism.guarantee, 3 * mechanism.loss
        assert claim.participations == 3
        assert mechanism.certificate().holds
        if claim.notion == "pure":
            assert together.pure <= claim.epsilon == 0.5
        else:
            assert together.delta(claim.epsilon) <= claim.delta
        assert make(name, constants).plan(users).variance < mechanism.variance


@pytest.mark.parametrize("name", ["shuffled-bits", "shuffled-levels", "shuffled-laplace", "laplace"])
def test_tight_noise_is_no_more_than_the_batches_need(name: str) -> None:
    mechanism = make(name, "tight", participations=4, **({} if name == "laplace" else {"delta": 1e-6})).plan(100)
    claim = mechanism.guarantee
    assert (4 * mechanism.loss).epsilon(claim.delta) > 0.97 * claim.epsilon
    assert (5 * mechanism.loss).epsilon(claim.delta) > claim.epsilon


@pytest.mark.parametrize("name", [pytest.param("counted-messages", marks=pytest.mark.slow), "skellam"])
def test_two_batches_summed_over_all_outcomes(name: str) -> None:
    """δ of two batches is Σ max(0, P(x)P(y) - e^ε Q(x)Q(y)), the value rising or falling in each."""
    mechanism = make(name, "tight", epsilon=0.9, participations=2).plan(30)
    claim, shift = mechanism.guarantee, mechanism.precision
    noise = mechanism.guard
    reach = noise.tail_quantile(1e-12)
    low = 0 if name == "counted-messages" else -reach
    # Every probability once: a moved law is the same list, read further up or down.
    listed = np.array([noise.pmf(value) for value in range(low - 2 * shift, reach + 2 * shift + 1)])
    law = listed[shift:-shift]
    worst = 0.0
    for ways in itertools.product((1, -1), repeat=2):
        moved = [listed[: -2 * shift] if way == 1 else listed[2 * shift :] for way in ways]
        excess = np.multiply.outer(law, law) - math.exp(claim.epsilon) * np.multiply.outer(*moved)
        worst = max(worst, float(np.maximum(excess, 0.0).sum()))
    assert worst <= claim.delta
    assert worst > 0.5 * claim.delta, "numerical composition gives little away"


def test_twenty_batches_as_in_the_papers_appendix() -> None:
    """[CZ23] (14) asks for a variance of B log(1/δ) log(B/δ)/ε² with a constant; exact composition for B Gaussians'."""
    part = EPSILON / (2.0 * math.sqrt(2.0 * COUNT * math.log(2.0 / DELTA)))
    assert advanced_composition(EPSILON, DELTA / 2.0, COUNT) == pytest.approx(part)
    tau = 96.0 * math.log(2.0 / (DELTA / (2.0 * COUNT))) / part**2
    asked = {"epsilon": EPSILON, "delta": DELTA, "participations": COUNT}
    published = shuffled_bits(constants="published", **asked).plan(1000)
    assert tau / 4.0 <= published.variance <= tau / 4.0 + 1000 / 4.0
    assert shuffled_bits(constants="published", **asked).plan(10**6).variance == 1.5e6
    composed = calibrate(Skellam, epsilon=EPSILON, delta=DELTA, loss=lambda noise: COUNT * privacy_loss(noise))
    assert 433.0 < composed.variance < 434.5
    assert shuffled_bits(**asked).plan(1000).variance == pytest.approx(434.3, rel=5e-3)


def on_a_grid(first: Floats, second: Floats, epsilon: float, way: Callable[[Floats], Floats]) -> float:
    """δ of COUNT batches, their losses put on a grid by rounding and added up by a Fourier transform."""
    step, seen = 1e-5, (first > 0) & (second > 0)
    losses = way(np.log(first[seen] / second[seen]) / step).astype(np.int64)
    least = int(losses.min())
    width = (int(losses.max()) - least) * COUNT + 1
    points = 1 << width.bit_length()
    masses = np.bincount(losses - least, weights=first[seen], minlength=points)
    together = np.fft.irfft(np.fft.rfft(masses) ** COUNT, points)[:width]
    sums = (np.arange(width) + least * COUNT) * step
    certain = 1.0 - (1.0 - first[second <= 0].sum()) ** COUNT
    return float(certain + np.sum(np.where(sums > epsilon, together * -np.expm1(epsilon - sums), 0.0)))


@pytest.mark.slow
def test_twenty_batches_composed_by_another_road() -> None:
    """Shuffled bits of variance 434: given that M noise bits were sent, the noise is binomial, and M is seen."""
    mechanism = shuffled_bits(epsilon=EPSILON, delta=DELTA, participations=COUNT).plan(1000)
    noise = mechanism.noise
    sent = np.arange(noise.slots + 1)
    chances = binom.pmf(sent, noise.slots, float(noise.rate))
    likely = chances > 1e-14
    pairs = [
        chances[m] * np.array([binom.pmf(np.arange(m + 2), m, 0.5), binom.pmf(np.arange(m + 2) - 1, m, 0.5)])
        for m in sent[likely]
    ]
    joint = np.concatenate(pairs, axis=1)
    first, second = joint[:, joint.max(axis=0) > 1e-20]
    both = [(first, second), (second, first)]
    low, high = (max(on_a_grid(*pair, EPSILON, way) for pair in both) for way in (np.floor, np.ceil))
    assert 0.98 * DELTA < low < high < DELTA
    assert mechanism.variance == pytest.approx(434.4, abs=0.05)


@pytest.mark.parametrize("count", [2, 16, 400])
def test_renyi_privacy_adds_up(count: int) -> None:
    """The noise of each batch has B times the variance, and [CZ23] Lemma 3 adds up to what one batch had, nearly."""
    one = skellam(epsilon=0.5, scaling=100, constants="published").plan(1000)
    many = skellam(epsilon=0.5, scaling=100, constants="published", participations=count).plan(1000)
    assert many.variance == pytest.approx(count * one.variance, rel=0.01)
    sigma2, g = many.guard.variance, many.precision
    bound, _ = renyi_to_approximate(lambda order: count * skellam_divergence(sigma2, order, g), 1e-6)
    assert many.guarantee.epsilon == pytest.approx(bound, rel=1e-3)
    assert many.guarantee.epsilon == pytest.approx(one.guarantee.epsilon, rel=0.02)
    exact = skellam(epsilon=0.5, scaling=100, participations=count).plan(1000).guarantee.epsilon
    assert exact < many.guarantee.epsilon


def test_pure_privacy_costs_as_many_times() -> None:
    mechanism = laplace(epsilon=0.7, participations=7).plan(200)
    assert mechanism.promised.pure == pytest.approx(0.7)
    assert mechanism.promised.pure <= 0.7
    assert mechanism.share == laplace(epsilon=0.7 / 7, precision=mechanism.precision).plan(200).share


def test_advanced_composition_is_for_epsilon_below_one() -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon = 2.0 .* participations \(\[CZ23\] Theorem 7\)"):
        protocol("shuffled-laplace", epsilon=2.0, constants="published", participations=3).plan(100)
    with pytest.raises(InvalidParameter, match="^participations = 0 "):
        laplace(epsilon=1.0, participations=0)


@pytest.mark.parametrize("constants", ["tight", "published"])
def test_the_promise_is_said_and_kept_in_its_form(constants: str) -> None:
    mechanism = shuffled_bits(epsilon=0.9, delta=1e-6, participations=5, constants=constants).plan(100)
    assert str(mechanism.guarantee).startswith("(0.9, 1e-6)-DP for a user in at most 5 batches")
    again = SumMechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert again.certificate().holds
    assert "for a user in at most 5 batches" in repr(mechanism.run([0] * 100, seeded(1)))
    body = json.loads(mechanism.to_json())
    body["guarantee"]["participations"] = 40
    assert not SumMechanism.from_json(json.dumps(body)).certificate().holds or constants == "published"
    assert "participations" not in shuffled_bits(epsilon=0.9).plan(100).to_json()


def test_who_composes_otherwise_refuses_it_by_name() -> None:
    with pytest.raises(InvalidParameter, match="^participations = 2 .* left out: a counter composes"):
        counter(1000, 2, epsilon=1.0, participations=2)
    with pytest.raises(InvalidParameter, match="^participations = 2 .* an audit samples one batch"):
        audit(laplace(epsilon=1.0, participations=2).plan(20), 10, seeded(1))
    with pytest.raises(CroupierError, match=r"privacy\.participations is unknown here"):
        plan({"name": "one", "arms": ["a", "b"], "program": {"horizon": 1000}, "privacy": {"participations": 2}})
    body = json.loads(histogram(universe=Items(("a", "b")), epsilon=1.0).plan(50).to_json())
    body["guarantee"] |= {"participations": 2, "unit": "user"}
    with pytest.raises(InvalidParameter, match="^participations = 2 "):
        Mechanism.from_json(json.dumps(body))


TEXT = (Path(__file__).parents[2] / "docs" / "returning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["shuffled-bits", pytest.param("counted-messages", marks=pytest.mark.slow), "laplace"])
def test_the_documents_table_is_what_is_planned(name: str) -> None:
    (row,) = re.findall(rf"^\| {name}.*\|$", TEXT, re.MULTILINE)
    written = [float(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")[1:]]
    asked = {"epsilon": EPSILON} | ({} if name == "laplace" else {"delta": DELTA})
    planned = [
        protocol(name, **asked, constants="published", participations=COUNT),
        protocol(name, **asked, participations=COUNT),
        protocol(name, **asked),
    ]
    for number, each in zip(written, planned, strict=True):
        assert each.plan(1000).variance == pytest.approx(number, rel=2e-3)


def test_the_documents_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(block, {})
    guarantee, holds, variance = capsys.readouterr().out.splitlines()
    assert guarantee.endswith("for a user in at most 20 batches of this size, when all their reports are replaced")
    assert holds == "True"
    assert float(variance) == pytest.approx(433.9, abs=0.05)
    for command in re.findall(r"^croupier (.*)$", TEXT, re.MULTILINE):
        parser().parse_args(command.split())
