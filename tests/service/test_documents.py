"""What the documents of operations say is what the code does: tables, arithmetic, metrics, settings and commands."""

import asyncio
import contextlib
import io
import math
import re
import shlex
import shutil
from pathlib import Path

import httpx2
import pytest
from scipy import optimize, stats

from cases.service import stores
from cases.service.tls import make_certificate
from cases.service.two_hosts import issuer
from cases.service.world import Clock
from croupier import protocols
from croupier.cli import main, parser
from croupier.cli.serve import _options
from croupier.client import AsyncClient, Limits, Refused
from croupier.messages.wire import upload_bytes
from croupier.service.analyzer_app import AnalyzerApp
from croupier.service.experiment import plan, read_plan
from croupier.service.front_app import FrontApp
from croupier.service.keys import bearer_hash, load
from croupier.service.settings import AnalyzerSettings, FrontSettings, read

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two-hosts"
SIZES = (100, 1_000, 10_000)


def _histogram(users, honest_fraction):
    privacy = {"trust": "shuffler", "epsilon": 1.0, "delta": 1e-6, "honest_fraction": honest_fraction}
    program = {"kind": "histogram", "users": users, "items": list("abcde")}
    ((_, mechanism),) = plan({"name": "h", "program": program, "privacy": privacy}).program().wanted[0].batches
    return mechanism


def _sum(name, **options):
    def made(users, honest_fraction):
        return protocols.protocol(name, epsilon=1.0, honest_fraction=honest_fraction, **options).plan(users=users)

    return made


ROWS = {
    "`shuffled-laplace`, binary": _sum("shuffled-laplace", binary=True),
    "`shuffled-laplace`, values in [0, 1]": _sum("shuffled-laplace"),
    "`skellam`": _sum("skellam"),
    "`discrete-gaussian`": _sum("discrete-gaussian"),
    "`shuffled-bits`": _sum("shuffled-bits"),
    "`shuffled-levels`": _sum("shuffled-levels"),
    "`counted-messages`": _sum("counted-messages"),
    "histogram of five items": _histogram,
}


def tables(text):
    """Every table of a document, as rows of cells, without its header."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in one.splitlines()[2:]] for one in found]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def promised(header):
    """The table of promises.md whose cells look as `header` says, by the protocol's name."""
    (table,) = [
        one for one in tables((ROOT / "docs/promises.md").read_text()) if all(re.fullmatch(header, r[1]) for r in one)
    ]
    return {row[0]: row[1:] for row in table}


@pytest.mark.slow
def test_the_residual_epsilons_of_the_promises_are_those_of_the_code():
    table = promised(r"\S+ \(.*\)")
    assert set(table) == set(ROWS)
    for name, cells in table.items():
        for users, cell in zip(SIZES, cells, strict=True):
            found = ROWS[name](users, 1.0).residual
            epsilon = "∞" if found.hides_nothing else f"{found.epsilon:.2f}"
            assert cell == f"{epsilon} ({found.advantage:.3f})", (name, users)


def test_the_chance_of_a_larger_ratio_in_the_promises_is_what_gaussian_noise_gives():
    said = re.search(r"it is (\d+) δ at ε = 1, and (\d+) δ at ε = 0.1", (ROOT / "docs/promises.md").read_text())
    for epsilon, times in zip((1.0, 0.1), said.groups(), strict=True):

        def excess(sigma, epsilon=epsilon):
            above = stats.norm.sf(epsilon * sigma - 1 / (2 * sigma))
            return above - math.exp(epsilon) * stats.norm.sf(epsilon * sigma + 1 / (2 * sigma)) - 1e-6

        sigma = optimize.brentq(excess, 0.3, 200.0)
        assert times == f"{stats.norm.sf(epsilon * sigma - 1 / (2 * sigma)) / 1e-6:.0f}"


def test_the_bias_of_missing_noise_in_the_promises_is_that_of_the_code():
    table = promised(r"\d+\.\d\d")
    assert set(table) == {name for name in ROWS if "histogram" not in name and "[0, 1]" not in name}
    for name, cells in table.items():
        assert cells == [f"{ROWS[name](users, 0.9).omission_bias:.2f}" for users in SIZES], name


def test_the_arithmetic_of_operations_gives_what_is_printed_there():
    text = (ROOT / "docs/operations.md").read_text()
    (program,), printed = blocks(text, "python"), io.StringIO()
    names = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "operations.md", "exec"), names)
    assert blocks(text, "text") == [printed.getvalue()]
    form = ROWS["`shuffled-laplace`, binary"](1_000, 0.9).shape
    assert (names["messages"], names["sealed"]) == (form.slots, form.length + 48)
    assert names["upload"] == upload_bytes([(form.slots, form.length + 48)], 48)


def test_links_between_the_documents_lead_somewhere():
    for path in (ROOT / "SECURITY.md", ROOT / "docs/promises.md", ROOT / "docs/operations.md", EXAMPLE / "README.md"):
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
            file, _, heading = target.partition("#")
            found = (path.parent / file).resolve()
            assert found.is_file(), (path.name, target)
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert not heading or heading in {one.lower().replace(" ", "-") for one in headings}, target


def commands():
    """Every `croupier` command of the example, as arguments."""
    lines = [line for block in blocks((EXAMPLE / "README.md").read_text(), "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("croupier ")]


def test_every_command_of_the_example_is_one_that_the_program_takes():
    found = commands()
    assert {one[0] for one in found} == {"serve", "status", "pause"}
    assert {one[1] for one in found if one[0] == "serve"} == {"keys", "front", "analyzer"}
    for arguments in found:
        options = parser().parse_args(arguments)
        if options.command != "serve":
            assert options.experiment == "onboarding"
            continue
        for name in (options.settings, *(options.files if options.role == "analyzer" else [])):
            assert name is None or (EXAMPLE / name).is_file()


def settings(role, environment):
    """The settings that the example's last command for a server gives it, in the current directory."""
    kind = {"front": FrontSettings, "analyzer": AnalyzerSettings}[role]
    options = parser().parse_args([one for one in commands() if one[:2] == ["serve", role]][-1])
    given = {name: getattr(options, f"set_{name}") for name in _options()}
    return read(kind, role.upper(), options.settings, given, environment), options.files


class Hosts(httpx2.AsyncBaseTransport):
    """Sends each request to the application that its host names."""

    def __init__(self):
        self.apps = {}

    async def handle_async_request(self, request):
        app = self.apps[request.url.host]
        return await httpx2.ASGITransport(app, raise_app_exceptions=False).handle_async_request(request)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example as its README sets it up: keys, the hash that travels, certificates; stores by the environment."""
    for path in EXAMPLE.glob("*.toml"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    make_certificate(tmp_path / "tls")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for arguments in [one for one in commands() if one[1] == "keys"]:
            assert main(arguments) == 0
    known = re.search(r"^analyzer/keys/bearer: (sha256:[0-9a-f]{64})$", printed.getvalue(), re.MULTILINE)
    issuer = re.search(r"^issuer/keys: signing key ([\w-]+)$", printed.getvalue(), re.MULTILINE)
    return {"CROUPIER_FRONT_ANALYZER": known[1], "CROUPIER_FRONT_ISSUER": issuer[1]}


def test_the_settings_of_the_example_are_valid_and_its_files_hold_no_secret(example):
    front, _ = settings("front", example)
    analyzer, experiments = settings("analyzer", example)
    assert (front.workers, front.due_within, front.largest_epsilon) == (4, 60, 2.0)
    assert front.admission == "tickets"
    assert front.store.startswith("postgresql://")
    assert analyzer.store.startswith("postgresql://")
    assert analyzer.public_url.startswith("https://")
    for path in filter(Path.is_file, EXAMPLE.iterdir()):
        assert not re.search(r"://[^/\s:@]*:[^/\s@]+@", path.read_text()), f"a password in {path.name}"
    for path in experiments:
        assert read_plan(path).privacy.epsilon <= front.largest_epsilon
        assert read_plan(path).recipe["smallest"] >= front.smallest_batch


@pytest.mark.slow
def test_the_example_runs_on_postgresql_and_its_metrics_are_those_of_the_document(example, tmp_path):
    for server in ("FRONT", "ANALYZER"):
        example[f"CROUPIER_{server}_STORE"] = stores.new_store("postgresql", tmp_path)
        example[f"CROUPIER_{server}_OPENERS"] = "0"
    clock, hosts = Clock(), Hosts()
    http = httpx2.AsyncClient(transport=hosts)
    front = FrontApp(settings("front", example)[0], clock=clock)
    found, experiments = settings("analyzer", example)
    analyzer = AnalyzerApp(found, [read_plan(path) for path in experiments], clock=clock, http=http)
    issued = issuer.Issued(str(tmp_path / "issued.db"))
    people = {bearer_hash("secret"): "ada"}
    tickets = issuer.application(load(Path("issuer/keys")).sign, ["onboarding"], people, issued, clock)
    hosts.apps = {"front.example": front.app, "analyzer.example": analyzer.app, "issuer.example": tickets}
    trust = {"analyzer": analyzer.analyzer.keys.verify, "front": front.front.keys.verify}

    async def get(server, path):
        return await http.get({"front": found.front, "analyzer": found.public_url}[server] + path)

    async def until(condition):
        for _ in range(1000):
            if await condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("it did not come to that")

    async def work():
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(front.app.router.lifespan_context(front.app))
            # The analyzer's last question may still be with the database when the analyzer has gone.
            stack.push_async_callback(asyncio.get_running_loop().shutdown_default_executor)
            await stack.enter_async_context(analyzer.app.router.lifespan_context(analyzer.app))

            async def ready():
                return (await get("analyzer", "/readyz")).status_code == 200

            await until(ready)
            client = AsyncClient(found.public_url, http=http, limits=Limits(epsilon=1.0), keys=trust)
            with pytest.raises(Refused, match="not-admitted"):
                await client.play("onboarding")
            login = {"Authorization": "Bearer secret"}
            ticket = await http.post("https://issuer.example:8402/tickets/onboarding", headers=login)
            turn = await client.play("onboarding", patience=5.0, ticket=ticket.content)
            await client._run(client.device.send_now(turn, 1.0))
            with pytest.raises(Refused):
                await client.play("nothing")
            assert (await get("front", "/nowhere")).status_code == 404
            clock.now += 3601.0

            async def stalled():
                return 'croupier_stalled{experiment="onboarding"} 1.0' in (await get("analyzer", "/metrics")).text

            await until(stalled)
            return {server: (await get(server, "/metrics")).text for server in ("front", "analyzer")}

    exported = {
        server: set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) for server, text in asyncio.run(work()).items()
    }
    rows = [row for one in tables((ROOT / "docs/operations.md").read_text()) for row in one if "`croupier_" in row[0]]
    for server, names in exported.items():
        assert names == {row[0].strip("`") for row in rows if row[1] in (server, "both")}
