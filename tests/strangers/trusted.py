"""A central mechanism that somebody wrote outside of croupier: a trusted analyzer adds Gaussian noise to the sum.

Run it with: croupier price trusted:ROW --users 1000 --epsilon 0.5
and:         croupier audit trusted:ROW --users 20 --epsilon 2 --trials 1000000
"""

from __future__ import annotations

from croupier.noise import DiscreteGaussian
from croupier.privacy import Guarantee, calibrate
from croupier.protocols import NUMBERS, Protocol, Row, SecureAggregation, SumMechanism

STEPS = 100
"""Into how many steps a value's range is divided; zeros and ones need no more than one."""


def plan(recipe: Protocol, users: int) -> SumMechanism:
    """Calibrate for one batch: users send whole numbers of steps, and the analyzer adds the noise once."""
    steps = recipe.precision or (1 if recipe.values.binary else STEPS)
    noise = calibrate(DiscreteGaussian, epsilon=recipe.epsilon, delta=recipe.delta, sensitivity=steps)
    return recipe.mechanism(
        users,
        precision=steps,
        share=noise,
        carrier=SecureAggregation(modulus=users * steps + 1, slack=0),
        notion=Guarantee("approximate", recipe.epsilon, recipe.delta),
        noise_from="analyzer",
    )


ROW = Row(
    name="trusted-gaussian",
    trust="analyzer",
    notion="approximate",
    carrier="secure aggregation",
    paper="mine",
    plan=plan,
    options=(*NUMBERS, "precision"),
    constants=("tight",),
)
