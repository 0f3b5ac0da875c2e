"""For which ε and δ the papers' theorems hold, and below which ε no policy is planned: row by row, as printed."""

import math

import pytest

from croupier.checks import InvalidParameter
from croupier.protocols import ROWS, protocol

RANGES = {
    "shuffled-bits": (1.0, 1.0, 0.01),
    "shuffled-levels": (15.0, 0.5, 0.001),
    "laplace": (math.inf, 1.0, 0.0),
    "skellam": (math.inf, 1.0, 0.001),
    "discrete-gaussian": (1.0, 1.0, 0.001),
    "central-laplace": (1.0, 1.0, 0.0),
    "local-laplace": (1.0, 1.0, 0.0),
    "shuffled-laplace": (math.inf, 1.0, 0.001),
    "counted-messages": (1.0, 1.0, 0.01),
    "shuffled-vectors": (15.0, 0.5, 0.0),
}
"""Of every row: the ε and the δ that its theorem stays below, and the least ε that is calibrated for a policy."""


def test_every_row_has_the_range_of_its_theorem() -> None:
    stated = {name: ROWS[name] for name in ROWS.own}
    assert {name: (row.epsilon_below, row.delta_below, row.least_epsilon) for name, row in stated.items()} == RANGES


@pytest.mark.parametrize("name", [name for name, (below, *_) in RANGES.items() if below < math.inf])
def test_published_constants_end_where_their_theorem_does(name: str) -> None:
    more = {"dimension": 3} if "vectors" in name else {}
    below = RANGES[name][0]
    assert protocol(name, epsilon=below * (1 - 1e-9), constants="published", **more).published
    with pytest.raises(InvalidParameter, match=rf"epsilon = {below}.*\(0, {below:g}\)"):
        protocol(name, epsilon=below, constants="published", **more)
