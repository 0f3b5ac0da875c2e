"""Run every benchmark and print its lines."""

from bench import (
    bandits,
    calibration,
    composition,
    continual,
    dashboard,
    decisions,
    histograms,
    learning,
    linear,
    logs,
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
    decisions,
    continual,
    linear,
    histograms,
    learning,
    validity,
    service,
    shares,
    logs,
    dashboard,
):
    module.main()
