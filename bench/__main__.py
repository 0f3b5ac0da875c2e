"""Run every benchmark and print its lines."""

from bench import (
    bandits,
    calibration,
    composition,
    continual,
    dashboard,
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
