"""Run every benchmark and print its lines."""

from bench import calibration, composition, sampling

for module in (sampling, calibration, composition):
    module.main()
