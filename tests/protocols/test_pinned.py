"""Formulas of the protocols once more, by counting: what a slip would change without breaking a promise."""

import math
from fractions import Fraction

import numpy as np
import pytest

from cases.protocols import make
from croupier.checks import InvalidParameter
from croupier.protocols.histograms.local import ProjectiveResponse, largest_keep
from croupier.protocols.padding import TamperedMessage


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
