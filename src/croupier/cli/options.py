"""Arguments that several commands share, and the protocol they describe."""

from __future__ import annotations

import argparse
import json
from typing import Any

from croupier.protocols import ROWS, Protocol, protocol
from croupier.protocols.sums.protocol import CONSTANTS


def add_target(command: argparse.ArgumentParser, *, protocol_required: bool) -> None:
    """The protocol, its privacy target and the batch."""
    names = ", ".join(ROWS)
    command.add_argument(
        "protocol", metavar="PROTOCOL", nargs=None if protocol_required else "?", help=f"one of {names}"
    )
    command.add_argument("--users", type=int, required=True, metavar="N", help="users in a batch")
    command.add_argument("--epsilon", type=float, required=True, metavar="E", help="the privacy parameter ε")
    command.add_argument("--delta", type=float, metavar="D", help="δ (default: 1e-6 where a protocol needs one)")
    command.add_argument("--constants", choices=CONSTANTS, help="exact calibration, or a paper's own (default: tight)")
    command.add_argument(
        "--honest-fraction", type=float, default=1.0, metavar="G", help="share of users counted on (default: 1)"
    )
    command.add_argument(
        "--front-noise",
        action="store_true",
        default=None,
        help="with the whole noise that a service's front adds",
    )
    command.add_argument("--low", type=float, help="least value a user can report (default: 0)")
    command.add_argument("--high", type=float, help="largest value (default: 1)")
    command.add_argument(
        "--binary", action="store_true", default=None, help="values are the least or the largest, nothing between"
    )
    command.add_argument("--dimension", type=int, metavar="D", help="of vectors (default: 10)")


GIVEN = ("low", "high", "binary", "dimension", "front_noise")
"""Flags that some protocols read."""

DIMENSION = 10


def protocol_from(options: argparse.Namespace, name: str, constants: str, *, all_read: bool = True) -> Protocol:
    """The protocol that the options describe; without `all_read`, as far as it reads them."""
    row = ROWS.get(name)
    given = {flag: getattr(options, flag) for flag in GIVEN if getattr(options, flag) is not None}
    if row is not None:
        given = {flag: given[flag] for flag in given if all_read or flag in row.options}
        given = ({"dimension": DIMENSION} if row.vectors else {}) | given
    return protocol(
        name,
        epsilon=options.epsilon,
        delta=options.delta,
        constants=constants,
        honest_fraction=options.honest_fraction,
        **given,
    )


def print_json(body: object) -> None:
    """Machine-readable output; infinities become null, which JSON can hold."""
    print(json.dumps(_finite(body), indent=2, ensure_ascii=False))


def _finite(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _finite(value) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_finite(value) for value in body]
    if isinstance(body, float) and body in (float("inf"), float("-inf")):
        return None
    return body
