"""The issuer of the example: one ticket for each person and experiment, over TLS or on this machine alone."""

import contextlib
import re
import shlex
import ssl
import subprocess
import sys
import time

import httpx2
import pytest

from cases.service.tls import make_certificate
from cases.service.two_hosts import PATH, issuer
from croupier.checks import InvalidParameter
from croupier.service import keys
from croupier.service.processes import free_port
from croupier.service.tickets import DAY, check

README = (PATH.parent / "README.md").read_text()
(COMMAND,) = re.findall(r"^python issuer.py (.*)$", README, re.MULTILINE)


@pytest.fixture
def home(tmp_path):
    """What the README asks for: a certificate, keys, and people with their tokens."""
    make_certificate(tmp_path / "tls")
    keys.make(tmp_path / "issuer" / "keys")
    people = "".join(f"{name} {keys.bearer_hash(name + ' token')}\n" for name in ("ada", "grace hopper"))
    (tmp_path / "issuer" / "people.txt").write_text(people)
    return tmp_path


@contextlib.contextmanager
def running(home):
    """The README's own command, on a free port of this machine."""
    port = free_port()
    arguments = shlex.split(COMMAND.replace("0.0.0.0:8402", f"127.0.0.1:{port}"))
    process = subprocess.Popen([sys.executable, PATH, *arguments], cwd=home, stderr=subprocess.PIPE, text=True)
    context = ssl.create_default_context(cafile=str(home / "tls" / "certificate.pem"))
    context.check_hostname = False
    try:
        with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as http:
            _until_up(http, process)
            yield lambda person, experiment="onboarding": http.post(
                f"/tickets/{experiment}", headers={"Authorization": f"Bearer {person} token"}
            )
    finally:
        process.terminate()
        said = process.communicate(timeout=30)[1]
    assert "ada" not in said


def _until_up(http, process):
    for _ in range(600):
        with contextlib.suppress(httpx2.TransportError):
            http.get("/")
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("the issuer does not answer")


@pytest.mark.slow
def test_each_person_gets_one_ticket_however_often_they_ask_and_across_restarts(home):
    public = keys.load(home / "issuer" / "keys").verify
    with running(home) as ask:
        found = [ask("ada"), ask("ada"), ask("grace hopper"), ask("eve"), ask("ada", "another")]
    assert [one.status_code for one in found] == [200, 409, 200, 401, 404]
    names = {check(public, one.content, "onboarding", time.time(), 7 * DAY) for one in (found[0], found[2])}
    assert len(names) == 2
    with running(home) as ask:
        assert ask("ada").status_code == 409
    # Neither tickets nor times are kept.
    assert not any(name in (home / "issuer" / "issued.db").read_bytes() for name in names)


def test_logins_and_tickets_do_not_travel_in_the_open(home):
    for listen in ("0.0.0.0:8402", "192.0.2.1:8402", "issuer.example:8402", "[::]:8402"):
        with pytest.raises(InvalidParameter, match="listen"):
            issuer.check_private(listen, None)
        assert issuer.check_private(listen, "certificate.pem")[1] == 8402
    for listen in ("127.0.0.1:8402", "localhost:8402", "[::1]:8402"):
        assert issuer.check_private(listen, None)[1] == 8402
    arguments = [sys.executable, PATH, "onboarding", "--listen", "0.0.0.0:0"]
    refused = subprocess.run(arguments, cwd=home, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("issuer: listen = '0.0.0.0:0'")


@pytest.mark.parametrize("lines", ["ada\n", None])
def test_people_that_cannot_be_read_are_said_in_one_line(lines, tmp_path):
    if lines is not None:
        (tmp_path / "people.txt").write_text(lines)
    with pytest.raises(InvalidParameter, match="people"):
        issuer.read_people(str(tmp_path / "people.txt"))
