"""Every registered world on the same means, and some with parameters of their own."""

from croupier.simulation import WORLDS, Beta, ClippedGaussian, Ratings, World, world
from croupier.simulation.levelled import Levelled

MEANS = [0.3, 0.5, 0.72]
REGISTERED: dict[str, World] = {name: world(name, MEANS) for name in WORLDS.own}
STEADY: dict[str, World] = {name: one for name, one in REGISTERED.items() if not one.changes} | {
    "narrow gaussian": ClippedGaussian([0.0, 0.501, 0.97], std=0.05),
    "flat beta": Beta([0.5, 0.25], concentration=2.0),
    "ratings": Ratings([[0, 0.25, 0.25, 1], [0.1, 0.7, 0.77, 1 / 3], [1.0]]),
}
LEVELLED: dict[str, Levelled] = {name: one for name, one in STEADY.items() if isinstance(one, Levelled)}
