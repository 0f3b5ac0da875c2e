"""An ε from one end of the doubles to the other: a result, or one line that says what is wrong with it."""

import pytest

from cases.policies import PRIVATE, undecided
from croupier.checks import InvalidParameter
from croupier.simulation import Bernoulli, simulate, simulated_policy


def made(name, epsilon):
    """A policy, or the error."""
    try:
        return undecided(simulated_policy(name, arms=3, horizon=5_000, epsilon=epsilon, runs=4, binary=True))
    except InvalidParameter as error:
        return error


@pytest.mark.parametrize("epsilon", [1e-300, 1e-6, 1e-4, 0.01, 500.0])
@pytest.mark.parametrize("name", PRIVATE)
def test_a_simulation_ends_in_a_result_or_in_one_clear_line(name, epsilon):
    chosen = made(name, epsilon)
    if isinstance(chosen, InvalidParameter):
        assert (chosen.name, chosen.value) == ("epsilon", epsilon)
        assert "\n" not in str(chosen)
        assert len(str(chosen)) < 300
        return
    run = simulate(chosen, Bernoulli([0.3, 0.5, 0.55]), seed=3)
    assert (chosen.users == 5_000).all()
    assert (run.regret >= 0).all()
    lower, upper = chosen.intervals()
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()
