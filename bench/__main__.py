"""Run every benchmark and print its lines."""

from bench import (
    bandits,
    calibration,
    composition,
    continual,
    histograms,
    learning,
    linear,
    sampling,
    service,
    shares,
    timing,
    validity,
)

for module in (
    sampling,
    timing,
    calibration,
    composition,
    bandits,
    continual,
    linear,
    histograms,
    learning,
    validity,
    service,
    shares,
):
    module.main()
