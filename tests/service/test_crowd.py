"""Simulated users: they reach what real ones reach, by TLS and with tickets, and check what real ones check."""

import asyncio
import http.server
import ipaddress
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cases.service.both import PLAN, Both
from croupier.checks import CroupierError
from croupier.client.device import Device, NotPinned, Request
from croupier.messages.signing import BadSignature, to_text
from croupier.service import crowd as crowds
from croupier.service import keys as key_files
from croupier.service.crowd import Crowd
from croupier.service.crowd_wire import CrowdWire
from croupier.service.views import participation

ANALYZER = "http://analyzer.test"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"users": 0}, "users = 0"),
        ({"at_once": 0}, "at_once = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"late_seconds": -1.0}, "late_seconds = -1.0"),
        ({"silent": 1.5}, "silent = 1.5"),
        ({"silent": 0.6, "late": 0.6}, "not over all"),
        ({"means": (2.0, 0.5)}, "mean = 2.0"),
    ],
)
def test_a_crowd_that_cannot_be_is_refused(changes, word):
    with pytest.raises(CroupierError, match=word):
        Crowd(**{"analyzer": ANALYZER, "experiment": "colours", "users": 3, "means": (0.5, 0.5)} | changes)


@pytest.mark.parametrize("processes", [0, -1, 10**6])
def test_a_crowd_of_no_processes_is_refused(processes):
    with pytest.raises(CroupierError, match=f"processes = {processes}"):
        crowds.run(Crowd(ANALYZER, "colours", 3, (0.5, 0.5)), processes)


def through(both, monkeypatch, work):
    """Do this while both applications run, with users who reach them without a network."""
    both.clock.now = time.time()

    class InProcess:
        async def __aenter__(self):
            return both.http

        async def __aexit__(self, *_):
            pass

    monkeypatch.setattr(crowds, "CrowdWire", InProcess)

    async def meanwhile():
        async with both.running():
            return await work()

    return asyncio.run(meanwhile())


async def played(both, users=6, **more):
    means = (0.5,) * (len(both.live.arms) or 1)
    return dict(await crowds._play(Crowd(ANALYZER, "colours", users, means, **more), None))


def sent(both, monkeypatch, **more):
    """Send a crowd through both applications; what became of it."""
    return through(both, monkeypatch, lambda: played(both, **more))


def test_users_with_tickets_are_admitted_where_others_are_not(tmp_path, monkeypatch):
    issuer = key_files.make(tmp_path / "issuer")
    both = Both(tmp_path, admission="tickets", issuer=to_text(issuer.verify))
    assert sent(both, monkeypatch) == {"not-admitted": 6}
    both = Both(tmp_path, admission="tickets", issuer=to_text(issuer.verify))
    assert sent(both, monkeypatch, issuer=str(tmp_path / "issuer")) == {"accepted": 6}
    key_files.make(tmp_path / "other")
    both = Both(tmp_path, admission="tickets", issuer=to_text(issuer.verify))
    assert sent(both, monkeypatch, issuer=str(tmp_path / "other")) == {"not-admitted": 6}


def test_those_who_come_after_the_end_are_counted(tmp_path, monkeypatch):
    both = Both(tmp_path)

    async def work():
        await both.operate(operation="stop")
        await both.until(lambda: both.live.standings.get("finished"))
        return await played(both, at_once=1)

    assert through(both, monkeypatch, work) == {"experiment-finished": 1, "not-sent": 5}


@pytest.mark.slow
def test_users_with_blind_tokens_are_admitted_where_others_are_not(tmp_path, monkeypatch):
    issuer = key_files.make_token_issuer(tmp_path / "issuer")
    key_files.make_token_issuer(tmp_path / "other")
    for given, outcome in (({}, "not-admitted"), ({"issuer": "issuer"}, "accepted"), ({"issuer": "other"}, None)):
        both = Both(tmp_path, admission="tokens", issuer=to_text(issuer.public))
        given = {name: str(tmp_path / value) for name, value in given.items()}
        if outcome is None:
            # Its answers are no signatures of the key that both servers signed: the device itself refuses them.
            with pytest.raises(CroupierError, match="another key|no signature"):
                sent(both, monkeypatch, **given)
        else:
            assert sent(both, monkeypatch, **given) == {outcome: 6}
    with pytest.raises(CroupierError, match="--tokens"):
        key_files.token_issuer(tmp_path / "nobody")


def test_every_user_knows_the_revision_that_the_first_one_saw(tmp_path, monkeypatch):
    known = []
    play = Device.play

    def watched(self, *given, **more):
        known.append(self.account.trusted)
        return play(self, *given, **more)

    monkeypatch.setattr(Device, "play", watched)
    assert sent(Both(tmp_path), monkeypatch) == {"accepted": 6}
    assert [one[f"{ANALYZER}/experiments/colours"].revision for one in known] == [0] * 6
    assert len({id(one) for one in known}) == 6


def test_no_user_takes_a_turn_between_two_servers_whose_keys_are_wrong_or_missing(tmp_path, monkeypatch):
    both, asked = Both(tmp_path, experiment=PLAN | {"reward": {}, "privacy": {"epsilon": 4.0}}), []

    async def noted(request):
        asked.append(request.url.path.rpartition("/")[2])

    both.http.event_hooks = {"request": [noted]}
    right = both.verify_keys
    swapped = {"analyzer": right["front"], "front": right["analyzer"]}
    wrong = [right | {"analyzer": bytes(32)}, right | {"front": bytes(32)}, swapped]

    async def work():
        for keys, refusal in [(None, NotPinned), *((keys, BadSignature) for keys in wrong)]:
            with pytest.raises(refusal):
                await played(both, keys=keys)
        assert not {"assignments", "reports"} & {*asked}
        assert await played(both, keys=right) == {"accepted": 6}
        assert (asked.count("assignments"), asked.count("reports")) == (6, 6)

    through(both, monkeypatch, work)


@pytest.mark.parametrize(
    "universe",
    [
        {"kind": "items", "names": ["tea", "coffee"]},
        {"kind": "buckets", "bits": 4, "salt": "2024", "candidates": ["tea", "coffee"]},
        {"kind": "buckets", "bits": 4, "salt": "2024"},
        {"kind": "numbers", "size": 8},
    ],
)
def test_users_hold_items_of_any_universe_and_participants_see_a_sample(universe, tmp_path, monkeypatch):
    experiment = {
        "name": "colours",
        "program": {"kind": "histogram", "users": 60, "universe": universe},
        "privacy": {"epsilon": 4.0},
    }
    both = Both(tmp_path, experiment=experiment)
    assert sent(both, monkeypatch, keys=both.verify_keys) == {"accepted": 6}
    low, high = participation(both.live)["reports"][0]["batches"][0]["sample"]
    assert low["value"] != high["value"]


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that knows these paths only."""

    protocol_version = "HTTP/1.1"
    known: dict[str, bytes]

    def do_GET(self):
        body = self.known.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("content-length", str(len(body or b"{}")))
        self.end_headers()
        self.wfile.write(body or b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def served():
    """Starts servers that know some paths, by TLS if there is a context; ends them all."""
    servers = []

    def start(known, context=None):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Known", (Answers,), {"known": known}))
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({}, "{url} is no analyzer: it has no list of experiments"),
        ({"/experiments": b"<html>"}, "{url} is no analyzer: its answer is no JSON"),
        (
            {"/experiments": b'{"experiments": [{"name": "one"}, {"name": "two"}]}'},
            "the analyzer at {url} has no experiment 'nope'; it has: one, two",
        ),
    ],
)
def test_what_is_no_analyzer_or_no_experiment_is_said_in_one_line(known, line, served):
    url = served(known)
    with pytest.raises(CroupierError) as refusal:
        crowds.wait_finished(url, "nope", 0)
    assert str(refusal.value) == line.format(url=url)


def test_the_last_slash_of_an_address_does_not_matter(served, capsys):
    from croupier.cli import main

    url = served({"/experiments": b'{"experiments": []}'})
    for address in (url, f"{url}/"):
        assert main(["crowd", "--users", "1", "--analyzer", address]) == 2
        assert capsys.readouterr().err == f"croupier crowd: the analyzer at {url} has no experiment\n"


def certified(directory):
    """A context for a server at 127.0.0.1, and the certificate that its users must trust."""
    key, now = Ed25519PrivateKey.generate(), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = directory / "certificate.pem"
    certificate.write_bytes(built.add_extension(names, False).sign(key, None).public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, directory / "key.pem")
    return context, certificate


def test_users_reach_servers_with_tls_and_without_and_trust_no_stranger(served, tmp_path, monkeypatch):
    context, certificate = certified(tmp_path)
    secure, plain = served({"/here": b"sealed"}, context), served({"/here": b"plain"})

    async def asked(*urls):
        async with CrowdWire() as http:
            return [await http.exchange(Request("GET", f"{url}/here")) for url in urls]

    (stranger,) = asyncio.run(asked(secure))
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.why
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    found = asyncio.run(asked(secure, plain, secure))
    assert [answer.content for answer in found] == [b"sealed", b"plain", b"sealed"]
