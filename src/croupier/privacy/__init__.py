"""What a release costs: exact losses, notions and conversions, composition, calibration, ledger and audit."""

from croupier.privacy.bounds import gaussian_sum_concentrated, skellam_divergence
from croupier.privacy.calibration import calibrate
from croupier.privacy.guarantee import (
    Guarantee,
    advanced_composition,
    concentrated_to_approximate,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
)
from croupier.privacy.loss import Loss, Release, privacy_loss

__all__ = [
    "Guarantee",
    "Loss",
    "Release",
    "advanced_composition",
    "calibrate",
    "concentrated_to_approximate",
    "gaussian_sum_concentrated",
    "privacy_loss",
    "pure_to_concentrated",
    "pure_to_renyi",
    "renyi_to_approximate",
    "skellam_divergence",
]
