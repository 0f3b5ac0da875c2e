"""Run every benchmark and print its lines."""

from bench import bandits, calibration, composition, continual, histograms, learning, linear, sampling, service

for module in (sampling, calibration, composition, bandits, continual, linear, histograms, learning, service):
    module.main()
