"""What privacy costs a batch: one mechanism's price as a row, and all protocols side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from croupier.checks import CroupierError, did_you_mean, ignored, one_of
from croupier.frames import Rows
from croupier.noise.serial import noise_to_dict
from croupier.protocols import ROWS, SumMechanism, protocol
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.protocol import DEFAULT_DELTA, UNREAD_IN_SHARES

DIMENSION = 10
"""Of vectors, where nobody says."""


EXACT = 1e-6
"""A bound on ε that comes as close as this to one from below, relatively, is called exact."""


def price(mechanism: SumMechanism, epsilon: float | None = None, common_delta: float = DEFAULT_DELTA) -> dict[str, Any]:
    """A mechanism's price as plain data; variance and radius are of the sum, in the values' own units.

    Parameters
    ----------
    mechanism : a planned sum.
    epsilon : what was asked for, where that is not what is promised (Rényi and concentrated privacy).
    common_delta : the δ at which promises of different kinds are compared, by their ε. In the row,
        `total_standard_deviation` is that of noise and of rounding at its worst.

    Examples
    --------
    >>> from croupier.protocols import laplace
    >>> row = price(laplace(epsilon=1.0).plan(users=100))
    >>> row["exact_epsilon"], round(row["standard_deviation"], 2)
    (1.0, 1.41)
    """
    certificate = mechanism.certificate()
    rounding = mechanism.rounding_variance
    return {
        "protocol": mechanism.protocol,
        "trust": mechanism.trust,
        "users": mechanism.users,
        "epsilon": mechanism.guarantee.epsilon if epsilon is None else epsilon,
        "delta": mechanism.guarantee.delta,
        "notion": mechanism.guarantee.notion,
        "constants": mechanism.constants,
        "noise": noise_to_dict(mechanism.noise),
        "share": noise_to_dict(mechanism.share),
        "honest_users": mechanism.honest,
        "precision": mechanism.precision,
        "span": mechanism.values.span,
        "binary": mechanism.values.binary,
        "claimed_epsilon": mechanism.guarantee.epsilon,
        "exact_epsilon": certificate.epsilon,
        "exact_delta": certificate.delta,
        "exact": is_exact(mechanism, mechanism.guarantee.delta),
        "common_delta": common_delta,
        "epsilon_at_common_delta": mechanism.promised.epsilon(common_delta),
        "exact_at_common_delta": is_exact(mechanism, common_delta),
        "participations": mechanism.guarantee.participations,
        "rho": mechanism.guarantee.rho,
        "order": mechanism.guarantee.order,
        "divergence": mechanism.guarantee.divergence,
        "variance": mechanism.variance,
        "rounding_variance": rounding,
        "total_standard_deviation": math.sqrt(mechanism.variance + rounding),
        "standard_deviation": math.sqrt(mechanism.variance),
        "radius_95": mechanism.radius(0.05),
        "omission_bias": mechanism.omission_bias,
        "messages_per_user": mechanism.messages_per_user,
        "bits_per_user": mechanism.bits_per_user,
    } | ({"front_messages": mechanism.shape.front} if mechanism.front_shares else {})


def is_exact(mechanism: SumMechanism, delta: float) -> bool:
    """Whether the ε that was recomputed at this δ is the least one that holds, and not a bound on it.

    Several batches are composed numerically, over a carrier's distance or a Rényi curve only a bound is known; pure ε
    adds up exactly. A sum that is seen modulo a number tells a little less than the sum.
    """
    folded = _folded(mechanism)
    if delta == 0.0:
        each = float(mechanism.loss.pure)
        # The ratio at the mode, e^ε, is diluted by what is folded onto it. Within two standard deviations lie three
        # quarters of the law, so the mode is no less likely than this.
        mode = 0.75 / (4.0 * mechanism.guard.std + 1.0)
        return math.isfinite(each) and folded * math.exp(min(each, LARGEST_EXPONENT)) <= EXACT * each * mode
    if mechanism.guarantee.participations > 1:
        return False
    lower, upper = mechanism.loss.bounds(delta)
    # The best event, less what lies outside one period, is as likely modulo the number up to that much.
    told = delta + folded * (1.0 + math.exp(min(upper, LARGEST_EXPONENT)))
    if told >= 1.0:
        return False
    return upper - (mechanism.loss.bounds(told)[0] if folded else lower) <= EXACT * upper


LARGEST_EXPONENT = 700.0


def _folded(mechanism: SumMechanism) -> float:
    """How likely the noise that hides a user is taken for some nearer one on its way to the analyzer."""
    return 0.0 if mechanism.noise_from == "analyzer" else mechanism.carrier.folded(mechanism.guard, mechanism.precision)


def prices(
    users: int,
    *,
    epsilon: float,
    delta: float | None = None,
    constants: Sequence[str] = ("published", "tight"),
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Rows:
    """All protocols for one batch, under every trust that each offers, with those of the options that it reads.

    What a protocol cannot do is a row that says why it is `refused`. `trust` leaves out all but one.

    >>> found = prices(100, epsilon=0.5, constants=["tight"], trust="devices")
    >>> [(row["protocol"], round(row["standard_deviation"], 2)) for row in found][:3]
    [('laplace', 2.83), ('skellam', 2.0), ('discrete-gaussian', 2.0)]
    """
    priced, refused = Rows(), Rows()
    asked_for = priceable(constants, options.pop("trust", None))
    _check_read(asked_for, options)
    for name, trust, kind in asked_for:
        row = ROWS[name]
        read = {key: value for key, value in options.items() if key in _readable(name, trust)}
        read = ({"dimension": DIMENSION} if row.vectors else {}) | read
        own = None if row.notion == "pure" else delta
        try:
            asked = protocol(name, epsilon=epsilon, delta=own, constants=kind, **read | row.trusting(trust))
            priced.append(price(asked.plan(users), epsilon, DEFAULT_DELTA if delta is None else delta))
        except CroupierError as error:
            refused.append({"protocol": name, "trust": trust, "constants": kind, "refused": str(error)})
        if progress is not None:
            progress(1)
    return Rows([*priced, *refused])


def _readable(name: str, trust: str) -> list[str]:
    """The options that a protocol reads under this trust."""
    return [key for key in ROWS[name].options if trust != "two-servers" or key not in IN_SHARES]


def _check_read(rows: Sequence[tuple[str, str, str]], options: Mapping[str, Any]) -> None:
    """Refuse an option that none of these rows reads, unless it says what is usual."""
    read = {key for name, trust, _ in rows for key in _readable(name, trust)}
    for key, value in options.items():
        if key not in read and (key, value) != ("honest_fraction", 1.0):
            known = {option for row in ROWS.usable().values() for option in row.options}
            raise ignored(key, value, [name for name, _, _ in rows], "" if key in known else did_you_mean(key, known))


IN_SHARES = ("honest_fraction", *UNREAD_IN_SHARES)
"""Options that mean nothing where two servers add the noise."""


def priceable(constants: Sequence[str], trust: str | None = None) -> list[tuple[str, str, str]]:
    """Every protocol with every trust and constants that there are for it; nobody has published two servers' noise."""
    if trust is not None:
        one_of("trust", trust, TRUSTS)
    return [
        (name, whom, kind)
        for name, row in ROWS.usable().items()
        for whom in row.trusts
        for kind in constants
        if trust in (None, whom) and (kind == "tight" or whom == row.trust != "two-servers")
    ]
