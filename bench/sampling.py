"""Exact bulk sampling against OpenDP's exact samplers and NumPy's inexact ones; a client's first draw."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import opendp.prelude as dp

from bench.measure import heading, line, megabytes, seconds
from croupier.noise import DiscreteGaussian, DiscreteLaplace, secure
from croupier.noise.inversion import inverter

OURS, PEER = 4_000_000, 20_000


def opendp_sampler(kind: str, scale: float):  # type: ignore[no-untyped-def]
    """OpenDP's exact vector sampler at a scale."""
    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.l1_distance(T="i64") if kind == "Laplace" else dp.l2_distance(T="f64"),
    )
    make = dp.m.make_laplace if kind == "Laplace" else dp.m.make_gaussian
    measurement = make(*space, scale=float(scale))
    zeros = [0] * PEER
    return lambda: measurement(zeros)


def numpy_sampler(kind: str, scale: float):  # type: ignore[no-untyped-def]
    """NumPy's generator with doubles: fast and not exact."""
    generator = np.random.default_rng(1)
    if kind == "Laplace":
        p = -np.expm1(-1.0 / scale)
        return lambda: generator.geometric(p, OURS) - generator.geometric(p, OURS)
    return lambda: np.rint(scale * generator.standard_normal(OURS)).astype(np.int64)


def main() -> None:
    """Print the lines."""
    heading("Exact bulk sampling from a cryptographic source (aims: 100 × OpenDP, 0.3 × NumPy)")
    for kind, family in (("Laplace", DiscreteLaplace), ("Gaussian", DiscreteGaussian)):
        for scale in (1, 10, 100):
            noise = family(scale if kind == "Laplace" else scale * scale)
            noise.sample(4096, secure())
            ours = OURS / seconds(lambda n=noise: n.sample(OURS, secure()))
            peer = PEER / seconds(opendp_sampler(kind, scale), 3)
            inexact = OURS / seconds(numpy_sampler(kind, scale))
            line(
                f"discrete {kind}, scale {scale}",
                f"{ours / 1e6:.1f} M draws/s",
                f"{ours / peer:.0f} × OpenDP",
                f"{ours / inexact:.2f} × NumPy",
            )
    heading("Growth of exact bulk sampling")
    noise = DiscreteLaplace(20)
    for count in (10**4, 10**5, 10**6, 10**7):
        took, peak = (
            seconds(lambda n=count: noise.sample(n, secure()), 3),
            megabytes(lambda n=count: noise.sample(n, secure())),
        )
        line(f"{count:,} draws of discrete Laplace, scale 20", f"{took / count * 1e9:.1f} ns/draw", f"{peak:.1f} MB")
    for scale in (1, 10, 100, 1000):
        inverter.cache_clear()
        built = seconds(lambda s=scale: inverter(DiscreteLaplace(s)).sample(4096, secure()), 1)
        line(f"building the table of discrete Laplace, scale {scale}", f"{built * 1e3:.1f} ms")
    heading("A single exact draw on a client, first use after import (aim: below 5 ms)")
    for share in ("DiscreteLaplace(20).share(1000)", "Skellam(400).share(1000)", "DiscreteGaussian(400).share(100)"):
        program = (
            "from croupier.noise import *; import time; "
            f"noise = {share}; t = time.perf_counter(); noise.sample(1, secure()); print(time.perf_counter() - t)"
        )
        runs = [
            float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
            for _ in range(5)
        ]
        line(share, f"{min(runs) * 1e3:.2f} ms")
