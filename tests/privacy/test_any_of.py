"""A release that may be any of several is covered by their envelope, however it is chosen."""

import itertools

import pytest

from croupier.checks import InvalidParameter
from croupier.noise import Binomial, DiscreteLaplace, Poisson, Skellam
from croupier.privacy import Loss, any_of, privacy_loss, vector_loss

KINDS = {
    "laplace": privacy_loss(DiscreteLaplace(5)),
    "bits": privacy_loss(Binomial(500, 0.5)),
    "counts": privacy_loss(Poisson(150)),
    "skellam": privacy_loss(Skellam(400), 2),
}


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("names", list(itertools.combinations(KINDS, 2)), ids=str)
def test_one_of_two_costs_what_the_worse_costs(names, epsilon):
    first, second = (KINDS[name] for name in names)
    worse = max(first.delta(epsilon), second.delta(epsilon))
    assert any_of((first, second)).delta(epsilon) == pytest.approx(worse, rel=1e-6, abs=1e-15)
    assert any_of((first, second)).delta(epsilon) >= worse * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("split", range(5))
@pytest.mark.parametrize("names", list(itertools.combinations(KINDS, 2)), ids=str)
def test_every_sequence_of_four_is_covered(names, split):
    chosen = [KINDS[name] for name in names]
    sequence = Loss.total([chosen[0]] * split + [chosen[1]] * (4 - split))
    for epsilon in (0.2, 0.6, 1.0):
        # Each side is rounded up by the grid, which moves ε by less than 0.004.
        assert sequence.delta(epsilon + 0.004) <= (4 * any_of(chosen)).delta(epsilon) * (1 + 1e-6) + 1e-15


def test_equal_losses_stay_what_they_are_and_others_take_the_larger_numbers():
    bits, laplace = KINDS["bits"], KINDS["laplace"]
    assert any_of([bits, bits]) == bits
    assert any_of([laplace, privacy_loss(DiscreteLaplace(4))]).pure == pytest.approx(0.25)
    skellam = any_of([KINDS["skellam"], privacy_loss(Skellam(100))])
    assert skellam.rdp(3) == max(KINDS["skellam"].rdp(3), privacy_loss(Skellam(100)).rdp(3))
    assert skellam.zcdp >= KINDS["skellam"].zcdp


def test_what_is_not_one_release_is_refused():
    for losses in ([], [2 * KINDS["bits"]], [vector_loss(Skellam(100), l2=1.0, l1=1.0)]):
        with pytest.raises(InvalidParameter, match="^losses = "):
            any_of(losses)


@pytest.mark.parametrize("count", [1, 3, 30])
def test_randomized_response_dominates_whatever_is_as_purely_private(count):
    """log P/Q of Laplace noise at sensitivity four lies between the two values of randomized response."""
    loss = privacy_loss(DiscreteLaplace(20), 4)
    response = loss.dominating
    assert response.pure == loss.pure == pytest.approx(0.2)
    for epsilon in (0.05, 0.1, 0.19 * count):
        assert (count * loss).delta(epsilon + 0.004) <= (count * response).delta(epsilon) + 1e-12
    assert KINDS["bits"].dominating == KINDS["bits"]
