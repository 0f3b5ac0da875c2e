"""The audit on the real path of histograms and selections: right ones pass, broken ones are caught."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from croupier.noise import BoundedLaplace, DiscreteLaplace, Noise, Poisson, seeded
from croupier.protocols import Numbers, audit, histogram, selection
from croupier.protocols.histograms.central import BoundedStable, NoisyCounts
from croupier.protocols.histograms.choice import PermuteAndFlip
from croupier.protocols.histograms.coins import Coins
from croupier.protocols.histograms.labelled import LabelledMessages
from croupier.protocols.histograms.local import ProjectiveResponse
from croupier.protocols.histograms.planned import Planned

# Some twenty audits of right mechanisms, each with this false-alarm rate: below 1e-9 in all.
FAILURE = 1e-11
# To catch a mutant a bolder audit will do.
BOLD = 1e-3


def large(*case: Any) -> Any:
    """The same with more trials."""
    return pytest.param(*case, marks=pytest.mark.evidence)


RIGHT: list[Any] = [
    ({"side": "over"}, 20, 3_000),
    ({"side": "under"}, 20, 3_000),
    large({"side": "over"}, 20, 40_000),
    large({"side": "under"}, 20, 40_000),
    ({"side": "both"}, 300, 1_000),
    large({"side": "both"}, 300, 3_000),
    ({"model": "local"}, 5, 40_000),
    ({"model": "central"}, 201, 3_000),
    large({"model": "central"}, 201, 10_000),
    ({"model": "central-pure"}, 21, 3_000),
    large({"model": "central-pure"}, 21, 10_000),
]


def planned(kind: str, options: dict[str, Any], users: int) -> Planned:
    """A histogram or a selection of three items at ε = 1."""
    if kind == "histogram":
        return histogram(epsilon=1.0, universe=Numbers(3), **options).plan(users)
    return selection(epsilon=1.0, size=3, **options).plan(users)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["histogram", "selection"])
@pytest.mark.parametrize(("options", "users", "trials"), RIGHT)
def test_a_right_mechanism_passes(kind: str, options: dict[str, Any], users: int, trials: int) -> None:
    found = audit(planned(kind, options, users), trials, seeded(1), failure=FAILURE)
    assert found.passed
    assert found.lower_bound <= found.exact_epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "users", "trials", "least"),
    [
        ("histogram", {"model": "local"}, 5, 20_000, 0.9),
        ("histogram", {"model": "central"}, 201, 5_000, 0.7),
        large("histogram", {"model": "central"}, 201, 20_000, 0.8),
        ("histogram", {"model": "central-pure"}, 21, 5_000, 0.7),
        large("histogram", {"model": "central-pure"}, 21, 20_000, 0.8),
        ("selection", {"model": "central-pure"}, 21, 5_000, 0.6),
        large("selection", {"model": "central-pure"}, 21, 20_000, 0.7),
    ],
)
def test_it_has_power_where_noise_is_tight(
    kind: str, options: dict[str, Any], users: int, trials: int, least: float
) -> None:
    found = audit(planned(kind, options, users), trials, seeded(2), failure=BOLD)
    assert found.lower_bound > least * found.exact_epsilon


def broken(mechanism: Planned, oracle: Any) -> Planned:
    """The same claim over another oracle."""
    mutant = type(mechanism)(**vars(mechanism))
    object.__setattr__(mutant, "oracle", oracle)
    return mutant


def fraction_of_the_noise(oracle: Any) -> Any:
    """An oracle of the same kind with far too little noise."""
    if isinstance(oracle, LabelledMessages):
        return LabelledMessages(3, oracle.users, oracle.users, oracle.share.share(6), oracle.side)
    if isinstance(oracle, Coins):
        return Coins(3, oracle.users, oracle.users, 20, 20)
    if isinstance(oracle, ProjectiveResponse):
        return ProjectiveResponse(3, oracle.users, oracle.field, (1 + oracle.keep) / 2)
    if isinstance(oracle, BoundedStable):
        return BoundedStable(3, oracle.users, BoundedLaplace(Fraction(oracle.noise.scale) / 2, oracle.noise.bound))
    if isinstance(oracle, NoisyCounts):
        return NoisyCounts(3, oracle.users, DiscreteLaplace(Fraction(oracle.noise.scale) / 2))
    return PermuteAndFlip(3, oracle.users, Fraction(oracle.scale) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "users", "trials"),
    [
        ("histogram", {"side": "over"}, 20, 100_000),
        ("selection", {"side": "under"}, 20, 100_000),
        ("histogram", {"side": "both"}, 300, 25_000),
        ("histogram", {"model": "local"}, 5, 5_000),
        ("histogram", {"model": "central"}, 201, 3_000),
        ("histogram", {"model": "central-pure"}, 21, 3_000),
        ("selection", {"model": "central-pure"}, 21, 6_000),
    ],
)
def test_too_little_noise_is_caught(kind: str, options: dict[str, Any], users: int, trials: int) -> None:
    mechanism = planned(kind, options, users)
    mutant = broken(mechanism, fraction_of_the_noise(mechanism.oracle))
    assert not mutant.certificate().holds, "the sum says so"
    found = audit(mutant, trials, seeded(3), failure=BOLD)
    assert not found.passed, f"the audit saw only {found.lower_bound}"


def test_noise_that_all_users_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, sample = planned("histogram", {"side": "over"}, 20), Noise.sample

    def shared(self: Noise, size: int, source: Any) -> np.ndarray:
        return np.repeat(sample(self, size // 20, source), 20)

    monkeypatch.setattr(Noise, "sample", shared)
    inside = Poisson.spread.__globals__
    monkeypatch.setitem(inside, "residues", lambda bound, shape, source: np.zeros(shape, int))
    assert not audit(mechanism, 4_000, seeded(4), failure=BOLD).passed


def test_a_device_that_sends_no_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = planned("histogram", {"side": "over"}, 20)
    monkeypatch.setattr(Noise, "sample", lambda self, size, source: np.zeros(size, dtype=np.int64))
    assert not audit(mechanism, 1_000, seeded(5)).passed
