"""What privacy costs a batch: one mechanism's price as a row, and all protocols side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from croupier.checks import CroupierError
from croupier.frames import Rows
from croupier.noise.serial import noise_to_dict
from croupier.protocols import ROWS, SumMechanism, protocol

DIMENSION = 10
"""Of vectors, where nobody says."""


def price(mechanism: SumMechanism, epsilon: float | None = None) -> dict[str, Any]:
    """A mechanism's price as plain data; variance and radius are of the sum, in the values' own units.

    Parameters
    ----------
    mechanism : a planned sum.
    epsilon : what was asked for, where that is not what is promised (Rényi and concentrated privacy).

    Examples
    --------
    >>> from croupier.protocols import laplace
    >>> row = price(laplace(epsilon=1.0).plan(users=100))
    >>> row["exact_epsilon"], round(row["standard_deviation"], 2)
    (1.0, 1.41)
    """
    certificate = mechanism.certificate()
    return {
        "protocol": mechanism.protocol,
        "users": mechanism.users,
        "epsilon": mechanism.guarantee.epsilon if epsilon is None else epsilon,
        "delta": mechanism.guarantee.delta,
        "notion": mechanism.guarantee.notion,
        "constants": mechanism.constants,
        "noise": noise_to_dict(mechanism.noise),
        "share": noise_to_dict(mechanism.share),
        "honest_users": mechanism.honest,
        "precision": mechanism.precision,
        "claimed_epsilon": mechanism.guarantee.epsilon,
        "exact_epsilon": certificate.epsilon,
        "exact_delta": certificate.delta,
        "rho": mechanism.guarantee.rho,
        "variance": mechanism.variance,
        "rounding_variance": mechanism.rounding_variance,
        "standard_deviation": math.sqrt(mechanism.variance),
        "radius_95": mechanism.radius(0.05),
        "omission_bias": mechanism.omission_bias,
        "messages_per_user": mechanism.messages_per_user,
        "bits_per_user": mechanism.bits_per_user,
    } | ({"front_messages": mechanism.shape.front} if mechanism.front_shares else {})


def prices(
    users: int,
    *,
    epsilon: float,
    delta: float | None = None,
    constants: Sequence[str] = ("published", "tight"),
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Rows:
    """All protocols for one batch, each with those of the options that it reads.

    What a protocol cannot do is a row that says why it is `refused`.

    >>> found = prices(100, epsilon=0.5, constants=["tight"])
    >>> [row["protocol"] for row in found if row["standard_deviation"] < 2.9]
    ['laplace', 'skellam', 'discrete-gaussian', 'central-laplace', 'shuffled-laplace']
    """
    priced, refused = Rows(), Rows()
    for name, row in ROWS.usable().items():
        read = ({"dimension": DIMENSION} if row.vectors else {}) | options
        read = {key: value for key, value in read.items() if key in row.options}
        own = None if row.notion == "pure" else delta
        for kind in constants:
            try:
                planned = protocol(name, epsilon=epsilon, delta=own, constants=kind, **read).plan(users)
                priced.append(price(planned, epsilon))
            except CroupierError as error:
                refused.append({"protocol": name, "constants": kind, "refused": str(error)})
            if progress is not None:
                progress(1)
    return Rows([*priced, *refused])
