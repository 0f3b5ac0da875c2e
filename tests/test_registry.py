"""Names of strangers' things: found where they are installed, imported where a person names them, and nowhere else."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from croupier.bandits import POLICIES, Entry, policy
from croupier.checks import CroupierError, InvalidParameter
from croupier.cli import main
from croupier.noise import FAMILIES
from croupier.noise.serial import noise_from_dict
from croupier.programs import program
from croupier.programs.kinds import KINDS
from croupier.protocols import ROWS, Mechanism, laplace, protocol
from croupier.registry import Registry, instances
from croupier.service.experiment import plan, read_plan
from croupier.simulation import ALL_POLICIES, WORLDS, simulated_policy, world
from croupier.simulation.cell import Cell, repeat
from croupier.simulation.sweep import Sweep

POLICY = """
import dataclasses
from croupier.bandits import POLICIES
ENTRY = dataclasses.replace(POLICIES["kl-ucb"], name="theirs", paper_name="Theirs")
NUMBER = 7
"""

BOMB = """
from pathlib import Path
Path(__file__).with_name("went off").touch()
ENTRY = None
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of one module; registries forget again afterwards what they learnt."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def put(package: str, source: str, **offers: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        groups = "".join(f"[croupier.{group}]\n{lines}\n" for group, lines in offers.items())
        (about / "entry_points.txt").write_text(groups)
        importlib.invalidate_caches()

    for registry in (POLICIES, ROWS, WORLDS):
        monkeypatch.setattr(registry, "_offers", None)
        monkeypatch.setattr(registry, "_added", {})
    yield put  # type: ignore[misc]
    for name in ("theirs", "others", "bomb"):
        sys.modules.pop(name, None)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_an_installed_policy_works_by_its_name_everywhere(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install("theirs", POLICY, policies="their-ucb = theirs:ENTRY")
    assert "theirs" not in sys.modules
    assert "their-ucb" in POLICIES
    assert "theirs" not in sys.modules, "a name is known before its module is imported"
    assert simulated_policy("their-ucb", arms=2, horizon=100).name == "their-ucb"
    common = ("--policy", "their-ucb", "--horizon", "200", "--json")
    status, out, _ = run(capsys, "simulate", *common, "--means", ".3,.6", "--runs", "3")
    assert (status, json.loads(out)[0]["policy"]) == (0, "their-ucb")
    status, out, _ = run(
        capsys, "sweep", *common, "--runs", "2", "--instances", "2", "--jobs", "2", "--out", "a.parquet"
    )
    assert (status, json.loads(out)[0]["policy"]) == (0, "their-ucb")
    assert "their-ucb" in run(capsys, "policies")[1]


@pytest.mark.slow
def test_a_person_may_name_a_module_and_worker_processes_know_it_too(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install("theirs", POLICY)
    name = "theirs:ENTRY"
    status, out, _ = run(capsys, "simulate", "--policy", name, "--horizon", "200", "--means", ".3,.6", "--json")
    assert (status, json.loads(out)[0]["policy"]) == (0, name)
    options = ("--policy", name, "--horizon", "200", "--horizon", "300", "--runs", "2", "--instances", "2")
    status, out, _ = run(capsys, "sweep", *options, "--jobs", "2", "--out", "rows.parquet", "--json")
    assert (status, [row["policy"] for row in json.loads(out)]) == (0, [name, name])
    Path("theirs.toml").write_text(f'policy = "{name}"\nhorizon = 100\nruns = 1\ninstances = 1\njobs = 1\n')
    assert run(capsys, "sweep", "theirs.toml", "--out", "more.parquet")[0] == 0
    arguments = ("plan", "--arms", "2", "--lift", ".4", "--epsilon", "1", "--runs", "20")
    assert run(capsys, *arguments, "--policy", name)[0] == 0


@pytest.mark.parametrize(
    ("source", "offer", "words"),
    [
        (POLICY, "x = theirs:NUMBER", ["policy 'x' is int 7, not an Entry"]),
        (POLICY, "x = theirs:MISSING", ["policy 'x' of theirs (theirs:MISSING) is broken", "AttributeError"]),
        ("1 / 0", "x = theirs:ENTRY", ["policy 'x' of theirs", "ZeroDivisionError"]),
        ("import no_such_module", "x = theirs:ENTRY", ["policy 'x' of theirs", "no_such_module"]),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(
    install: Install, capsys: pytest.CaptureFixture[str], source: str, offer: str, words: list[str]
) -> None:
    install("theirs", source, policies=offer)
    status, out, err = run(capsys, "simulate", "--policy", "x", "--means", ".3,.6", "--horizon", "100")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert [word for word in words if word not in err] == []
    status, out, _ = run(capsys, "policies")
    assert status == 0, "a broken package does not hide the others"
    assert "dp-klucb" in out
    assert words[0] in " ".join(out.split())


def test_two_packages_with_one_name_are_refused_and_ours_cannot_be_taken(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("theirs", POLICY, policies="x = theirs:ENTRY\ndp-klucb = theirs:ENTRY")
    install("others", POLICY, policies="x = others:ENTRY")
    with pytest.raises(CroupierError, match=r"'x' is offered by .*: uninstall one of them"):
        POLICIES.find("x")
    assert POLICIES["dp-klucb"].paper_name != "Theirs"
    assert "policy 'dp-klucb' of theirs (theirs:ENTRY) is left out" in " ".join(run(capsys, "policies")[1].split())
    with pytest.raises(CroupierError, match="'kl-ucb': there is one by this name already"):
        ALL_POLICIES.add("kl-ucb", POLICIES["dp-klucb"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "--policy", "no_such_module:X", "--means", ".3,.6", "--horizon", "9"), "no_such_module"),
        (("simulate", "--policy", "json:nothing", "--means", ".3,.6", "--horizon", "9"), "nothing"),
        (("simulate", "--policy", "json:dumps", "--means", ".3,.6", "--horizon", "9"), "not an Entry"),
        (("simulate", "--world", "json:decoder", "--means", ".3,.6", "--horizon", "9"), "not a World"),
        (("simulate", "--world", "json:dumps", "--means", ".3,.6", "--horizon", "9"), "makes str, not a World"),
        (("price", "json:dumps", "--users", "9", "--epsilon", "1"), "not a Row"),
        (("audit", "json:dumps", "--users", "9", "--epsilon", "1", "--trials", "4"), "not a Row"),
    ],
)
def test_a_module_of_the_wrong_kind_is_one_clear_line(
    install: Install, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


NAME = "bomb:ENTRY"
ROW = {
    "policy": "kl-ucb",
    "epsilon": None,
    "delta": None,
    "constants": "tight",
    "horizon": 100,
    "world": "bernoulli",
    "arms": 2,
    "low": 0.2,
    "high": 0.8,
    "means": None,
    "instances": 1,
    "runs": 1,
    "seed": 0,
    "instance": 0,
    "run": 0,
}


def _told_mechanism() -> object:
    body: dict[str, Any] = json.loads(laplace(epsilon=1.0).plan(30).to_json())
    return Mechanism.from_json(json.dumps(body | {"share": {"family": NAME, "scale": 1}}))


@pytest.mark.parametrize(
    "read",
    [
        _told_mechanism,
        lambda: noise_from_dict({"family": NAME}),
        lambda: policy(NAME, arms=2, horizon=100),
        lambda: simulated_policy(NAME, arms=2, horizon=100),
        lambda: protocol(NAME, epsilon=1.0),
        lambda: world(NAME, [0.2, 0.3]),
        lambda: program({"kind": NAME}),
        lambda: program({"kind": "bandit", "name": NAME, "arms": 2, "horizon": 100, "epsilon": 1.0}),
        lambda: plan({"name": "x", "arms": ["a", "b"], "program": {"horizon": 1000, "policy": NAME}}),
        lambda: Sweep.of({"policy": NAME}),
        lambda: repeat(ROW | {"policy": NAME}),
        lambda: repeat(ROW | {"world": NAME}),
    ],
)
def test_a_name_that_was_read_is_never_imported(install: Install, read: Callable[[], object], tmp_path: Path) -> None:
    install("bomb", BOMB)
    with pytest.raises((CroupierError, KeyError)):
        read()
    assert "bomb" not in sys.modules
    assert not (tmp_path / "went off").exists()


def test_the_bomb_goes_off_where_its_owner_names_it(install: Install, tmp_path: Path) -> None:
    """Else the test before would pass whatever the code does."""
    install("bomb", BOMB)
    (tmp_path / "mine.toml").write_text(
        f'name = "x"\narms = ["a", "b"]\n[program]\nhorizon = 1000\npolicy = "{NAME}"\n'
    )
    with pytest.raises(CroupierError, match=r"mine.toml: policy 'bomb:ENTRY' is NoneType None, not an Entry"):
        read_plan(str(tmp_path / "mine.toml"))
    assert (tmp_path / "went off").exists()


def test_a_row_of_a_sweep_repeats() -> None:
    assert repeat(ROW) == repeat(repeat(ROW))
    assert Cell.of(ROW).protocol is None


def test_a_misspelt_name_gets_the_one_that_was_meant() -> None:
    for registry, wrong, right in ((ALL_POLICIES, "dp-kulcb", "dp-klucb"), (ROWS, "laplce", "laplace")):
        with pytest.raises(InvalidParameter, match=f"did you mean {right}\\?"):
            registry.find(wrong)
    with pytest.raises(InvalidParameter) as refused:
        ROWS.find("zzz")
    assert "did you mean" not in str(refused.value)


def test_a_thing_is_known_by_the_name_it_was_asked_for() -> None:
    registry: Registry[Entry] = Registry("policy", "croupier.none", {}, instances(Entry, "an Entry"))
    assert registry.add("mine", POLICIES["dp-klucb"]).name == "mine"
    assert list(registry) == ["mine"]
    assert (7 in registry, "mine" in registry, len(registry)) == (False, True, 1)


@pytest.mark.parametrize(
    "registry", [POLICIES, ALL_POLICIES, ROWS, WORLDS, FAMILIES, KINDS], ids=lambda known: known.noun
)
def test_a_registry_shows_its_names_and_no_address(registry: Registry[Any]) -> None:
    for shown in (repr(registry), registry._repr_html_()):
        assert registry.noun in shown
        assert [name for name in registry if name not in shown] == []
        assert "0x" not in shown


def test_a_registry_shows_whose_a_thing_is_without_importing_it(install: Install, tmp_path: Path) -> None:
    install("bomb", BOMB, policies="theirs = bomb:ENTRY")
    POLICIES.add("mine", POLICIES["kl-ucb"])
    assert repr(ALL_POLICIES).endswith("theirs, mine, dp-se)")
    shown = ALL_POLICIES._repr_html_()
    for name, owner in (("kl-ucb", "croupier"), ("theirs", "bomb (bomb:ENTRY)"), ("mine", "this process")):
        assert f"<td>{name}</td><td>{owner}</td>" in shown
    assert not (tmp_path / "went off").exists()
