"""Integer noise with exact laws: pmf, cdf, quantiles, shares that add up, exact secure samples and seeded ones."""

from croupier.noise.base import Noise, one_party
from croupier.noise.binomial import Binomial
from croupier.noise.bits import Bits
from croupier.noise.bounded import BoundedLaplace
from croupier.noise.gaussian import DiscreteGaussian, DiscreteGaussianSum
from croupier.noise.laplace import DiscreteLaplace, PolyaDifference
from croupier.noise.poisson import Poisson, Skellam
from croupier.noise.polya import Polya
from croupier.noise.source import SecureSource, SeededSource, Source, secure, seeded
from croupier.noise.sparse import SparseBits
from croupier.noise.table import Table
from croupier.noise.window import Window
from croupier.registry import Registry, subclasses

_OWN: dict[str, type[Noise]] = {
    family.__name__: family
    for family in (
        Binomial,
        SparseBits,
        DiscreteLaplace,
        BoundedLaplace,
        Polya,
        PolyaDifference,
        Poisson,
        Skellam,
        DiscreteGaussian,
        DiscreteGaussianSum,
        Table,
    )
}

FAMILIES: Registry[type[Noise]] = Registry(
    "family", "croupier.noises", _OWN, subclasses(Noise, "a kind of Noise by the name of its class", "__name__")
)
"""Every family by name, for whoever reads a stored noise back."""

__all__ = [
    "FAMILIES",
    "Binomial",
    "Bits",
    "BoundedLaplace",
    "DiscreteGaussian",
    "DiscreteGaussianSum",
    "DiscreteLaplace",
    "Noise",
    "Poisson",
    "Polya",
    "PolyaDifference",
    "SecureSource",
    "SeededSource",
    "Skellam",
    "Source",
    "SparseBits",
    "Table",
    "Window",
    "one_party",
    "secure",
    "seeded",
]
