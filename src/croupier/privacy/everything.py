"""Every public name of this room, as its package hands them out."""

from croupier.noise.gaussian import gaussian_sum_concentrated
from croupier.noise.poisson import skellam_divergence
from croupier.privacy.audit import Finding, epsilon_lower_bound
from croupier.privacy.calibration import calibrate, gaussian_scale
from croupier.privacy.envelope import any_of
from croupier.privacy.group import group_loss, group_privacy
from croupier.privacy.guarantee import (
    Guarantee,
    advanced_composition,
    concentrated_to_approximate,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
)
from croupier.privacy.ledger import BudgetExceeded, Charge, Ledger
from croupier.privacy.loss import Loss, privacy_loss, vector_loss
from croupier.privacy.move import Move, move_loss
from croupier.privacy.released import NoisyNumber, NoisyVector
from croupier.privacy.told import Told, told_loss

__all__ = [
    "BudgetExceeded",
    "Charge",
    "Finding",
    "Guarantee",
    "Ledger",
    "Loss",
    "Move",
    "NoisyNumber",
    "NoisyVector",
    "Told",
    "advanced_composition",
    "any_of",
    "calibrate",
    "concentrated_to_approximate",
    "epsilon_lower_bound",
    "gaussian_scale",
    "gaussian_sum_concentrated",
    "group_loss",
    "group_privacy",
    "move_loss",
    "privacy_loss",
    "pure_to_concentrated",
    "pure_to_renyi",
    "renyi_to_approximate",
    "skellam_divergence",
    "told_loss",
    "vector_loss",
]
