"""Bad input is refused where it enters, with the parameter's name, its value and what is allowed."""

from __future__ import annotations

import math

import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import Binomial, DiscreteGaussian, DiscreteGaussianSum, DiscreteLaplace, Skellam, SparseBits
from croupier.privacy import (
    Guarantee,
    Loss,
    advanced_composition,
    concentrated_to_approximate,
    gaussian_sum_concentrated,
    privacy_loss,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    skellam_divergence,
    vector_loss,
)

LOSS = privacy_loss(DiscreteLaplace(2))
BITS = Binomial(100, 0.5)


@pytest.mark.parametrize(
    ("call", "name", "allowed"),
    [
        (lambda: privacy_loss("Laplace"), "noise", "a noise"),
        (lambda: privacy_loss(BITS, 0), "sensitivity", ">= 1"),
        (lambda: privacy_loss(BITS, -1), "sensitivity", ">= 1"),
        (lambda: privacy_loss(BITS, 1.0), "sensitivity", "whole"),
        (lambda: privacy_loss(BITS, True), "sensitivity", "whole"),
        (lambda: privacy_loss(BITS, direction="sideways"), "direction", "up"),
        (lambda: privacy_loss(SparseBits(100, 0.5), 1).delta(1.0), "sensitivity", "even"),
        (lambda: LOSS.delta(-0.1), "epsilon", ">= 0"),
        (lambda: LOSS.delta(math.nan), "epsilon", "finite"),
        (lambda: LOSS.delta("1"), "epsilon", "finite"),
        (lambda: LOSS.epsilon(1.0), "delta", "[0, 1)"),
        (lambda: LOSS.epsilon(-1e-9), "delta", "[0, 1)"),
        (lambda: LOSS.epsilon(math.nan), "delta", "[0, 1)"),
        (lambda: LOSS.bounds(1.0), "delta", "[0, 1)"),
        (lambda: LOSS.rdp(1), "order", "> 1"),
        (lambda: LOSS.rdp(math.inf), "order", "finite"),
        (lambda: LOSS * 0, "count", ">= 1"),
        (lambda: 1.5 * LOSS, "count", "whole"),
        (lambda: Loss.total([]), "losses", "at least one"),
        (lambda: vector_loss(Skellam(4), l2=0, l1=1), "l2", "> 0"),
        (lambda: vector_loss(Skellam(4), l2=1, l1=math.inf), "l1", "> 0"),
        (lambda: vector_loss(DiscreteGaussian(4), l2=1, l1=1), "noise", "Skellam"),
        (lambda: Guarantee("vague", 1.0), "notion", "pure"),
        (lambda: Guarantee("pure", -1), "epsilon", ">= 0"),
        (lambda: Guarantee("pure", math.nan), "epsilon", ">= 0"),
        (lambda: Guarantee("pure", 1.0, 1e-6), "delta", "0 for notion"),
        (lambda: Guarantee("approximate", 1.0, 2.0), "delta", "[0, 1)"),
        (lambda: Guarantee("concentrated", 0.5), "rho", "concentrated"),
        (lambda: Guarantee("renyi", 0.5, 1e-6, order=8), "divergence", "renyi"),
        (lambda: Guarantee("renyi", 0.5, 1e-6, divergence=0.1), "order", "renyi"),
        (lambda: Guarantee("renyi", 0.5, 1e-6, order=1, divergence=0.1), "order", "> 1"),
        (lambda: renyi_to_approximate(lambda order: order, 0), "delta", "(0, 1)"),
        (lambda: concentrated_to_approximate(0, 1e-6), "rho", "> 0"),
        (lambda: concentrated_to_approximate(1, 1), "delta", "(0, 1)"),
        (lambda: pure_to_concentrated(-1), "epsilon", "> 0"),
        (lambda: pure_to_renyi(1.0, 1), "order", "> 1"),
        (lambda: pure_to_renyi(0, 2), "epsilon", "> 0"),
        (lambda: advanced_composition(1.0, 1e-6, 3), "epsilon", "(0, 1)"),
        (lambda: advanced_composition(0.5, 0, 3), "delta", "(0, 1)"),
        (lambda: advanced_composition(0.5, 1e-6, 0), "count", ">= 1"),
        (lambda: skellam_divergence(4, 1, 1.0), "order", "> 1"),
        (lambda: skellam_divergence(0, 2, 1.0), "sigma2", "> 0"),
        (lambda: gaussian_sum_concentrated(DiscreteGaussianSum(0.2, 3), 1), "sigma2", "[0.25, inf)"),
    ],
)
def test_bad_input_is_refused_with_its_name_and_range(call, name, allowed):
    with pytest.raises(InvalidParameter) as refusal:
        call()
    assert refusal.value.name == name
    assert allowed in refusal.value.allowed
    assert name in str(refusal.value)
    assert isinstance(refusal.value, CroupierError)


def test_a_loss_adds_to_losses_only():
    with pytest.raises(TypeError):
        LOSS + 1
    assert LOSS != 1


def test_guarantees_print_what_they_promise():
    whom = " when one report is replaced"
    assert str(Guarantee("pure", 0.5)) == "0.5-DP" + whom
    assert str(Guarantee("approximate", 0.5, 1e-6)) == "(0.5, 1e-6)-DP" + whom
    assert str(Guarantee("concentrated", 0.5, 1e-6, rho=0.01)) == "0.01-zCDP, so (0.5, 1e-6)-DP" + whom
    assert str(Guarantee("renyi", 0.5, 1e-6, order=8, divergence=0.1)) == "(8, 0.1)-RDP, so (0.5, 1e-6)-DP" + whom
    assert str(Guarantee("pure", 0.5, unit="user")) == "0.5-DP when one user is replaced"
    assert repr(Guarantee("pure", math.inf)) == "Guarantee(inf-DP when one report is replaced)"


@pytest.mark.parametrize(
    "claim",
    [Guarantee("pure", 0.5), Guarantee("concentrated", 0.5, 1e-6, rho=0.01), Guarantee("pure", 2.0, unit="user")],
    ids=str,
)
def test_a_stored_guarantee_says_whom_it_is_for_and_reads_back(claim):
    data = claim.to_dict()
    assert (data["neighbours"], data["unit"]) == ("replace", claim.unit)
    assert Guarantee.from_dict(data) == claim
    for name in ("neighbours", "unit"):
        with pytest.raises(InvalidParameter, match=name):
            Guarantee.from_dict({key: value for key, value in data.items() if key != name})
        with pytest.raises(InvalidParameter, match=name):
            Guarantee.from_dict(data | {name: "whatever"})
