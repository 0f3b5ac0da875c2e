"""What both servers leave on a disk, read byte by byte: tables, a database's log, dead rows, the programs' logs."""

from itertools import pairwise

import httpx2
import pytest
from scipy.stats import chi2

from cases.service.processes import home_of
from cases.service.stores import KINDS, bytes_of, new_store
from cases.service.world import SUITE, World, keys_of
from croupier.client import Client, Limits
from croupier.messages.sealing import unseal
from croupier.messages.wire import Envelope, Report, message_info, report_info
from croupier.noise import secure
from croupier.service import keys as key_files
from croupier.service.processes import both
from croupier.service.store import FrontStore
from croupier.service.store.vault import Vault

WINDOW = 16
"""So many random bytes are found by chance in a gigabyte with probability 1e-29."""


def secrets_of(turn, body, server_keys, analyzer_keys):
    """Everything of a report that may lie in no file: whole, as the two servers see it, and opened."""
    envelope, key = Envelope.from_bytes(body), server_keys.newest(SUITE)
    info = report_info(turn.joined.configuration.experiment, turn.offer.configuration)
    report = Report.from_bytes(unseal(SUITE, key.private, envelope.sealed, info))
    (part,), (batch,) = report.parts, turn.offer.batches
    info = message_info(turn.joined.configuration.experiment, turn.offer.configuration, batch.hash)
    private = analyzer_keys.newest(SUITE).private
    plain = [unseal(SUITE, private, sealed, info) for sealed in part.messages]
    return {
        "upload": [envelope.sealed[:WINDOW]],
        "token": [turn.token[:WINDOW], turn.token[-WINDOW:]],
        "report id": [report.report],
        "sealed": [sealed[:WINDOW] for sealed in part.messages],
        # Plain messages are small numbers with zeros before them: eight in a row are no chance.
        "plain": [b"".join(plain[i : i + 8]) for i in range(0, len(plain) - 7, 8)],
    }


def found(stored, secrets):
    """The kinds of secrets that are in the files."""
    return {kind for kind, things in secrets.items() if any(thing in stored for thing in things)}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def world(kind, tmp_path):
    made = World(FrontStore(new_store(kind, tmp_path), secure(), bytes(range(32))))
    made.open()
    yield made
    made.front.store.close()


def reported(world):
    turn = world.turn()
    body = world.report(turn, 1.0)
    assert world.upload(body) == ["accepted"]
    return secrets_of(turn, body, keys_of("front"), keys_of("analyzer"))


@pytest.mark.slow
def test_the_shufflers_files_hold_no_message_token_or_report_id_at_any_time(kind, world, tmp_path):
    """One report a transaction, which is when a database's log would tell most."""
    reports = [reported(world) for _ in range(6)]
    stored = bytes_of(kind, tmp_path)
    assert b"colours" in stored
    assert [found(stored, one) for one in reports] == [set()] * 6
    world.fill()
    assert world.front.close_full() == 2
    stored = bytes_of(kind, tmp_path)
    assert [found(stored, one) for one in reports] == [set()] * 6
    for offer in world.offers():
        world.front.acknowledge(world.plan.name, offer.batches[0].number)
    stored = bytes_of(kind, tmp_path)
    assert [found(stored, one) for one in reports] == [set()] * 6


@pytest.mark.slow
def test_this_way_of_reading_finds_what_is_not_hidden(kind, world, tmp_path, monkeypatch):
    monkeypatch.setattr(Vault, "hide", lambda self, experiment, batch, place, payload: payload)
    monkeypatch.setattr(Vault, "mark", lambda self, kind, thing: thing)
    reports = [reported(world) for _ in range(3)]
    stored = bytes_of(kind, tmp_path)
    assert [found(stored, one) for one in reports] == [{"report id", "sealed"}] * 3


@pytest.mark.slow
def test_what_is_released_or_expired_leaves_not_even_its_hidden_bytes_in_sqlite(sqlite_url, tmp_path, monkeypatch):
    """Deleted content is overwritten: seen with a vault that hides nothing."""
    monkeypatch.setattr(Vault, "hide", lambda self, experiment, batch, place, payload: payload)
    monkeypatch.setattr(Vault, "show", lambda self, experiment, batch, place, hidden: hidden)
    world = World(FrontStore(sqlite_url, secure(), bytes(32)))
    world.open()
    reports = [reported(world) for _ in range(6)]
    world.fill()
    world.front.close_full()
    assert all(found(bytes_of("sqlite", tmp_path), one) == {"sealed"} for one in reports)
    first, second = (offer.batches[0].number for offer in world.offers())
    for number in (first, second):
        world.front.acknowledge(world.plan.name, number)
    assert [found(bytes_of("sqlite", tmp_path), one) for one in reports] == [set()] * 6
    world.front.store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rounds"),
    [("sqlite", 99), ("postgresql", 48), pytest.param("postgresql", 99, marks=pytest.mark.evidence)],
)
def test_the_order_of_release_is_uniform_and_independent_of_arrival(kind, rounds, tmp_path):
    """Through the store, group by group: where a report's message ends up says nothing about when it came."""
    from cases.service.arrivals import KEY, arrival, batch, close_all, message, released

    users = 6
    store = FrontStore(new_store(kind, tmp_path), secure(), KEY)
    store.put_configuration("e", 0, b"c" * 32, "{}", None)
    table = [[0] * (2 * users) for _ in range(2 * users)]
    follows = 0
    for number in range(rounds):
        store.put_offer("e", number, "o", [batch(number, users=users)])
        start = number * users
        for group in (range(1), range(1, 3), range(3, users)):
            came = [arrival(start + who, offer=number, batches=(number,)) for who in group]
            assert set(store.accept(came)) == {"accepted"}
        close_all(store)
        leaves = released(store, number)
        for who in range(users):
            for slot in (0, 1):
                table[2 * who + slot][leaves.index(message(start + who, slot, number))] += 1
        follows += sum(one[:4] == other[:4] for one, other in pairwise(leaves))
        store.acknowledge("e", number)
    store.close()
    expected = rounds / (2 * users)
    statistic = sum((count - expected) ** 2 / expected for row in table for count in row)
    assert statistic < chi2.isf(1e-10, (2 * users - 1) ** 2)
    # Of 11 pairs of neighbours one is of the same report, on average; the deviation of the sum is below √rounds.
    assert abs(follows - rounds) < 7 * rounds**0.5


@pytest.mark.slow
def test_neither_servers_files_name_a_person_an_address_or_what_was_said(kind, tmp_path):
    """Real processes, and users who come from an address of their own."""
    address, agent = "127.0.0.77", "a-telephone-of-a-rare-make"
    home = home_of(tmp_path)
    stores = {server: new_store(kind, tmp_path) for server in ("analyzer", "front")}
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(EXPERIMENT)
    settings = {"front": {"store": stores["front"], "openers": 0, "due_within": 1}}
    settings["analyzer"] = {"store": stores["analyzer"], "openers": 0}
    reports, uploads = [], []
    transport = httpx2.HTTPTransport(local_address=address)
    with both(home, [str(experiment)], **settings), httpx2.Client(transport=transport) as http:
        http.headers["user-agent"] = agent
        http.event_hooks["request"] = [lambda request: request.content and uploads.append(request.content)]
        for _ in range(30):
            limits = Limits(epsilon=4.0, users=24, honest_fraction=0.9)
            client = Client(home.analyzer_url, http=http, limits=limits, background=False)
            turn = client.play("colours", patience=20)
            client._run(client.device.send_now(turn, 1.0))
            reports.append((turn, uploads[-1]))
    keys = {server: key_files.load(home.directory / server / "keys") for server in ("analyzer", "front")}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "keys" not in path.parts]
    stored = b"".join(path.read_bytes() for path in files) + bytes_of(kind, tmp_path / "none")
    assert b"colours" in stored
    assert address.encode() not in stored
    assert agent.encode() not in stored
    for turn, body in reports[::6]:
        assert found(stored, secrets_of(turn, body, keys["front"], keys["analyzer"])) == set()


EXPERIMENT = """
name = "colours"
arms = ["red", "green"]
[program]
policy = "dp-klucb"
horizon = 64
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 4.0
[reward]
protocol = "shuffled-laplace"
[batches]
smallest = 24
deadline = 60
"""
