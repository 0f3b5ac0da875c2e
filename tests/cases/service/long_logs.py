"""Long logs, written as both servers would write them, but without users: every number is one that a batch may give."""

from collections.abc import Iterator

from cases.linear_users import summed
from cases.service.world import SUITE, URLS, keys_of
from croupier.messages.admission import Admission
from croupier.messages.sealing import SUITES
from croupier.messages.signing import Statement, to_text
from croupier.programs import records
from croupier.programs.linear import LinearProgram
from croupier.protocols import SumMechanism
from croupier.service.experiment import Site, plan
from croupier.service.experiment_log import Live, Run

AT = "2026-01-01T00:00:00+00:00"
PLANS = {
    "bandit": {
        "name": "bandit",
        "arms": ["red", "green"],
        "program": {"policy": "dp-klucb", "horizon": 10**8, "growth": 1.0},
        "reward": {"protocol": "shuffled-bits"},
        "privacy": {"epsilon": 4.0},
    },
    "counter": {
        "name": "counter",
        "program": {"kind": "counter", "users": 2 * 10**7, "shufflers": 3},
        "reward": {"protocol": "shuffled-bits"},
        "privacy": {"epsilon": 4.0},
    },
    "histogram": {
        "name": "histogram",
        "program": {"kind": "histogram", "users": 60, "rounds": 10**6, "items": ["apple", "pear", "plum"]},
        "privacy": {"epsilon": 4.0},
    },
    "linear": {
        "name": "linear",
        "arms": ["red", "green", "blue"],
        "program": {
            "kind": "linear",
            "users": 10**6,
            "largest": 400,
            "control": 0.1,
            "features": {"age": [18, 80], "visits": [0, 30]},
        },
        "privacy": {"epsilon": 4.0},
    },
}


def long_log(kind: str, length: int) -> Iterator[str]:
    """The lines of a log of so many records."""
    found = plan(PLANS[kind])
    run = Run(found)
    state = run.state
    keys = {server: keys_of(server).public(SUITE) for server in ("analyzer", "front")}
    site = Site(SUITE, keys, URLS, Admission("everybody"))
    configuration = found.configuration(0, found.arms, site, proof_key=bytes(32))
    signed = configuration.statement()
    for server in ("analyzer", "front"):
        signed = signed.signed(server, keys_of(server).sign)
    yield _line(run, "configured", configuration=signed.to_dict())
    overhead = SUITES[configuration.suite].overhead
    while run.head.number + 1 < length:
        for turn in state.program.wanted:
            if turn.number not in state.signed:
                live = type("Begun", (), {"configured": state.configured, "name": found.name, "open": state.open})
                offer = Live.offer_of(live, turn).statement()  # type: ignore[arg-type]
                told = {} if turn.rule is None else {"rule": turn.rule}
                yield _line(run, "opened", offer=offer.signed("analyzer", keys_of("analyzer").sign).to_dict(), **told)
        full = min((offer.number for offer in state.offers.values()), default=None)
        batches = list(state.open.values()) if full is None else state.offers[full].batches
        for batch in batches:
            # Upper levels of a counter are full when the program says so.
            upper = full is not None and batch is not batches[0]
            if upper and batch.number not in state.program.unwanted:
                continue
            witness = run.head.statement(found.name).signed("front", keys_of("front").sign)
            yield _line(
                run,
                "released",
                batch=batch.number,
                decoded=_decoded(state.program, batch),
                damaged=0,
                receipt=_receipt(batch, found.name, overhead).to_dict(),
                witness=witness.to_dict(),
            )


def _line(run: Run, event: str, **body) -> str:
    line = records.make(run.head, {"event": event, "at": AT} | body, keys_of("analyzer").sign)
    run.read(line)
    return line


def _decoded(program, batch):
    mechanism = batch.mechanism
    if isinstance(program, LinearProgram):
        return summed(program, mechanism, batch.number)
    low, high = mechanism.possible
    middle = (low + high) // 2
    return middle if isinstance(mechanism, SumMechanism) else [middle] * mechanism.size


def _receipt(batch, name: str, overhead: int) -> Statement:
    users, shape = batch.mechanism.users, batch.shape
    body = {
        "version": 2,
        "experiment": name,
        "configuration": to_text(batch.pin),
        "batch": batch.number,
        "batch_hash": to_text(batch.hash),
        "reports": users,
    }
    if batch.mechanism.ring is None:
        body |= {
            "messages": users * shape.slots + shape.front,
            "length": shape.length + overhead,
            "parts": 1,
            "sha256": to_text(bytes(32)),
        }
    else:
        share = batch.mechanism.ring.encode([0] * (batch.mechanism.outputs or 1))
        body |= {"refused": {}, "set": to_text(bytes(32)), "share": to_text(share)}
    return Statement.of("release", body).signed("front", keys_of("front").sign)
