"""Run every benchmark and print its lines."""

from bench import bandits, calibration, composition, sampling

for module in (sampling, calibration, composition, bandits):
    module.main()
