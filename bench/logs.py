"""What reading a long log again costs, against its signatures alone; and what one turn costs to deal."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.load import post
from bench.measure import heading, line, seconds
from bench.service import REPORTS, service
from croupier.messages.signing import Statement
from croupier.noise import secure
from croupier.service.dealing import deal
from croupier.service.verifying import verify

RECORDS = 5_000
TURNS = 5_000


def log(kind: str) -> tuple[list[bytes], dict[str, bytes]]:
    """A log that the tests write, and whose signatures it bears."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from cases.service.long_logs import long_log
    from cases.service.world import keys_of

    return [one.encode() for one in long_log(kind, RECORDS)], {
        server: keys_of(server).verify for server in ("analyzer", "front")
    }


def signatures(lines: list[bytes], trust: dict[str, bytes]) -> int:
    """How many `verify` checks: that of every record, and those of the statements in them."""
    with mock.patch.object(Statement, "check", autospec=True, side_effect=Statement.check) as checked:
        verify(lines, trust)
    return len(lines) + checked.call_count


def one_signature() -> float:
    """Seconds that checking a signature takes."""
    private, said = Ed25519PrivateKey.generate(), bytes(500)
    signature, public = private.sign(said), private.public_key()
    return seconds(lambda: [public.verify(signature, said) for _ in range(1000)]) / 1000


def verified() -> None:
    """Every kind of log, longer and longer; the least is its signatures."""
    heading(f"croupier verify: logs of {RECORDS:,} records")
    for kind in ("bandit", "counter", "histogram"):
        (lines, trust), one = log(kind), one_signature()
        took = seconds(lambda some=lines, keys=trust: verify(some, keys), 2)
        fifth = seconds(lambda some=lines[: RECORDS // 5], keys=trust: verify(some, keys), 2)
        line(
            f"{kind}, {sum(map(len, lines)) / 1e6:.1f} MB",
            f"{len(lines) / took:,.0f} records/s",
            f"{took / (one * signatures(lines, trust)):.1f} × its signatures",
            f"{took / fifth:.1f} × a fifth of it",
        )


def dealt() -> None:
    """One draw by odds, and a whole turn: dealt, kept, signed for and sent."""
    heading("A turn")
    source = secure()
    for arms in (2, 20, 200):
        odds = dict.fromkeys(range(arms), 1.0 / arms)
        drawing = seconds(lambda given=odds: [deal(given, source) for _ in range(TURNS)]) / TURNS
        line(f"drawn by the odds of {arms} arms", f"{1e6 * drawing:.1f} µs")
    with service() as home:
        load = post(home.front_port, "/experiments/load/assignments", [b""] * REPORTS, "text/plain")
    line("asked for over HTTP, and kept", f"{1e6 / load.rate:.0f} µs", f"{load.rate:,.0f} turns/s")


def main() -> None:
    """Print the lines."""
    verified()
    dealt()


if __name__ == "__main__":
    main()
