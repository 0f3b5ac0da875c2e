"""For which ε and δ the papers' theorems hold, and below which ε no policy is planned: row by row, as printed."""

import math
import re
from fractions import Fraction

import pytest

from croupier.checks import InvalidParameter
from croupier.protocols import ROWS, protocol
from croupier.protocols.histograms.local import ProjectiveResponse

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
    "shared-vectors": (math.inf, 1.0, 0.0),
    "laplace-vectors": (math.inf, 1.0, 0.0),
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


@pytest.mark.parametrize(("epsilon", "users"), [(0.5, 1000), (0.3, 200)])
def test_published_local_sums_leave_the_papers_room_for_noise(epsilon: float, users: int) -> None:
    """[CZ23] Thm 6: g = ⌈ε√n⌉, τ = c(g/ε)√(2n log(2/p)) with c = 1.6 and p = 10⁻⁶, m = ng + 2τ + 1."""
    mechanism = protocol("local-laplace", epsilon=epsilon, constants="published").plan(users)
    precision = math.ceil(epsilon * math.sqrt(users))
    slack = math.ceil(1.6 * precision / epsilon * math.sqrt(2.0 * users * math.log(2e6)))
    assert mechanism.precision == precision
    assert mechanism.carrier.to_dict() == {
        "kind": "plain",
        "modulus": users * precision + 2 * slack + 1,
        "slack": slack,
    }


def test_a_local_response_that_says_nothing_is_refused_with_the_least_that_says_something() -> None:
    space = ProjectiveResponse(5, 10, 2, Fraction(9, 10)).space
    least = space.hyperplane / space.size
    with pytest.raises(InvalidParameter, match=re.escape(f"above {least:.6g},")):
        ProjectiveResponse(5, 10, 2, Fraction(space.hyperplane, space.size))
