"""What privacy costs a batch: one mechanism's price as a row, and all protocols side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from croupier.checks import CroupierError
from croupier.frames import Rows
from croupier.messages.wire import shape
from croupier.noise.serial import noise_to_dict
from croupier.protocols import ROWS, Mechanism, protocol


def price(mechanism: Mechanism, epsilon: float | None = None) -> dict[str, Any]:
    """A mechanism's price as plain data; variance and radius are of the sum, in the values' own units.

    `epsilon` is what was asked for, where that is not what is promised (Rényi and concentrated privacy).

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
    } | ({"front_messages": shape(mechanism).front} if mechanism.front_shares else {})


def prices(
    users: int,
    *,
    epsilon: float,
    delta: float | None = None,
    constants: Sequence[str] = ("published", "tight"),
    dimension: int = 10,
    front_noise: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    binary: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Rows:
    """All protocols for one batch; what a protocol cannot do is a row that says why it is `refused`.

    >>> found = prices(100, epsilon=0.5, constants=["tight"])
    >>> [row["protocol"] for row in found if row["standard_deviation"] < 2.9]
    ['laplace', 'skellam', 'discrete-gaussian', 'central-laplace', 'shuffled-laplace']
    """
    found, refused = Rows(), Rows()
    for name, row in ROWS.usable().items():
        options["delta"] = None if row.notion == "pure" else delta
        options["front_noise"] = front_noise and row.trust == "shuffler"
        ranges = {"dimension": dimension} if row.vectors else {"low": low, "high": high, "binary": binary}
        for kind in constants:
            try:
                planned = protocol(name, epsilon=epsilon, constants=kind, **ranges, **options).plan(users)
                found.append(price(planned, epsilon))
            except CroupierError as error:
                refused.append({"protocol": name, "constants": kind, "refused": str(error)})
            if progress is not None:
                progress(1)
    return Rows([*found, *refused])
