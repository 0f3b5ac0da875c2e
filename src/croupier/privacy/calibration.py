"""The least noise that meets a privacy target, found from the exact loss; always on the safe side of the root."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from croupier.checks import InvalidParameter, between, integer, positive
from croupier.noise import Noise
from croupier.noise.target import Target
from croupier.privacy.loss import Loss, privacy_loss

Family = TypeVar("Family", bound=Noise)


def calibrate(
    family: type[Family],
    *,
    epsilon: float,
    delta: float = 0.0,
    sensitivity: int = 1,
    users: int | None = None,
    failure: float = 0.05,
    loss: Callable[[Noise], Loss] | None = None,
) -> Family:
    """The least noise of a family under which one release is (epsilon, delta)-DP.

    Least means least variance, and for `Polya`, used for counts that err to one side, the least error quantile.

    Parameters
    ----------
    family : a class of noises. `Binomial` is fair bits, as few as will do. `SparseBits` needs `users`.
    epsilon : the target ε.
    delta : the target δ.
    sensitivity : by how much one user moves the number at most.
    users : how many share the noise, where that matters: the bits of `Binomial` divide among them and their bias is
        chosen too; in `SparseBits` each sends as many fair bits as there are slots, each with one probability.
    failure : how often the error may exceed the one that is minimised, for `Polya`.
    loss : the loss of a larger use of the noise (say, two buckets at once), in the place of one release's.

    Examples
    --------
    >>> from croupier.noise import Binomial, DiscreteLaplace
    >>> calibrate(Binomial, epsilon=0.5, delta=1e-6)
    Binomial(trials=268, p=0.5)
    >>> calibrate(DiscreteLaplace, epsilon=0.5, sensitivity=10)
    DiscreteLaplace(scale=20)
    """
    positive("epsilon", epsilon)
    between("delta", delta, 0, 1, "[)")
    integer("sensitivity", sensitivity, 1)
    between("failure", failure, 0, 1)
    if users is not None:
        integer("users", users, 1)
    if delta == 0.0 and not family.purely_private:
        raise InvalidParameter("delta", delta, f"a number in (0, 1): {family.__name__} noise is never purely private")
    least = sensitivity * math.sqrt(-2.0 * math.log(delta)) / family.widest_search if delta else 0.0
    if epsilon < least:
        where = f"at delta = {delta:g} and sensitivity = {sensitivity}"
        raise InvalidParameter(
            "epsilon", epsilon, f"at least {least:.2g} {where}: less needs noise too wide to tabulate"
        )
    of = loss or (lambda noise: privacy_loss(noise, sensitivity))
    return family.calibrated(Target(float(epsilon), float(delta), sensitivity, users, float(failure), of, privacy_loss))


def gaussian_scale(epsilon: float, delta: float) -> float:
    """σ of the least continuous Gaussian noise with (ε, δ) at sensitivity one: δ = Φ(½/σ - εσ) - e^ε Φ(-½/σ - εσ).

    A yardstick for planning and for references; nothing that is deployed draws continuous noise.

    >>> round(gaussian_scale(1.0, 1e-6), 3)
    4.225
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    epsilon, delta = float(positive("epsilon", epsilon)), float(between("delta", delta, 0, 1))

    def excess(log_scale: float) -> float:
        scale = math.exp(log_scale)
        up, down = log_ndtr(0.5 / scale - epsilon * scale), epsilon + log_ndtr(-0.5 / scale - epsilon * scale)
        return math.exp(up) - math.exp(down) - delta

    return math.exp(float(brentq(excess, math.log(1e-3), math.log(1e9))))
