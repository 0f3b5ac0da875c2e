"""The commands around the service, without one: what they explain, how keys are given, and what is shown."""

import re
import subprocess
import sys
import time
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from croupier.checks import CroupierError
from croupier.cli import main
from croupier.cli.crowd import WHOSE_KEYS
from croupier.cli.experiment_table import standing
from croupier.cli.serve import SETTINGS
from croupier.cli.up import waits
from croupier.messages.admittance import Door, NotAdmitted
from croupier.messages.blind_tokens import challenge, request
from croupier.service import crowd as crowds
from croupier.service import verifying
from croupier.service.experiment import plan
from croupier.service.keys import KeyProblem, make_token_issuer, public_key, token_issuer
from croupier.service.settings import AnalyzerSettings, FrontSettings, admission_of
from croupier.service.tickets import check

DOCUMENT = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", DOCUMENT, re.DOTALL) for kind in ("toml", "python")}
NAMES = {field.name for kind in (FrontSettings, AnalyzerSettings) for field in fields(kind)}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_every_setting_is_explained_by_the_command_and_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "serve", "--help")
    assert status == 0
    assert SETTINGS.keys() == NAMES
    flat = " ".join(out.split())
    for name, meaning in SETTINGS.items():
        assert f"--{name.replace('_', '-')} " in flat
        assert meaning in flat, name
        assert re.search(rf"`{name}`|^{name} = ", DOCUMENT, re.MULTILINE), name


@pytest.mark.parametrize("arguments", [("up", "--json"), ("serve", "keys", "keys", "--json")])
def test_commands_without_a_result_do_not_pretend_to_print_it_as_json(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, *arguments)
    assert (status, out) == (2, "")
    assert "unrecognized arguments: --json" in err


@pytest.mark.parametrize("given", [("--data", "nosuch.csv"), ("--means", "9,9,9"), ("--silent", "0.1")])
def test_what_simulated_users_are_like_is_refused_where_none_come(
    given: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, "up", "--scratch", *given)
    assert (status, out) == (2, "")
    assert err == f"croupier up: {given[0]} goes with --crowd: it says what simulated users are like\n"


def test_a_file_is_read_before_any_server_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.toml").write_text('name = "colours"\n[program]\nkind = "countr"\n')
    status, out, err = said(capsys, "up", "--scratch", str(tmp_path / "a.toml"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"croupier up: {tmp_path / 'a.toml'}: program.kind = 'countr' is not allowed")


@pytest.mark.parametrize(
    ("outcomes", "status", "line"),
    [
        ({"experiment-finished": 1, "not-sent": 4}, 1, "colours has ended: start another name, or another --home\n"),
        ({"experiment-finished": 1, "not-sent": 3, "accepted": 1}, 0, ""),
    ],
)
def test_a_crowd_after_the_end_is_told(
    outcomes: dict[str, int],
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = {"arms": ["red", "green"], "finished": True}
    monkeypatch.setattr(crowds, "wait_finished", lambda *_: state)
    monkeypatch.setattr(crowds, "run", lambda *_: outcomes)
    found = said(capsys, "crowd", "--users", "5", "--experiment", "colours", "--json")
    assert (found[0], found[2]) == (status, line)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["--front-key", "A" * 43], f"one key of two is not enough: {WHOSE_KEYS}"),
        (
            ["--front-key", "A" * 43, "--analyzer-key", "A"],
            "analyzer-key = 'A' is not allowed: it must be a public key",
        ),
    ],
)
def test_a_crowd_has_both_servers_keys_or_none(given: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, "crowd", "--users", "1", *given)
    assert (status, out) == (2, "")
    assert err.startswith(f"croupier crowd: {line}")
    assert err.count("\n") == 1


def test_a_trusted_key_may_be_in_hexadecimal_and_may_begin_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = []

    def verify(text: str, trust: dict[str, bytes]) -> None:
        trusted.append(trust)
        raise CroupierError("it was read")

    monkeypatch.setattr(verifying, "verify", verify)
    (tmp_path / "t.jsonl").touch()
    dashed = "-" + "_" * 41 + "8"
    key = bytes.fromhex("f" + "bf" + "f" * 61)
    for given in (["--analyzer", dashed], ["--analyzer", key.hex()], [f"--analyzer={dashed}"]):
        assert said(capsys, "verify", str(tmp_path / "t.jsonl"), *given)[2] == "croupier verify: it was read\n"
    assert trusted == [{"analyzer": key}] * 3


def test_the_experiments_of_the_document_can_be_planned() -> None:
    (whole,) = [block for block in BLOCKS["toml"] if block.startswith("name = ")]
    assert plan(tomllib.loads(whole)).parameters["horizon"] == 100_000
    (universes,) = [block for block in BLOCKS["toml"] if block.startswith("universe = ")]
    for line in universes.splitlines():
        program = {"kind": "histogram", "users": 1000} | tomllib.loads(line)
        assert plan({"name": "drinks", "program": program}).recipe["universe"]["kind"] in line


def test_the_ticket_of_the_document_is_one_that_its_issuers_front_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = said(capsys, "serve", "keys", "issuer/keys")
    assert status == 0
    printed = re.search(r"signing key ([\w-]+)\n", out)
    assert printed is not None
    (example,) = [block for block in BLOCKS["python"] if "issue(" in block]
    found: dict[str, Any] = {}
    exec(compile(example, "service.md", "exec"), found)
    settings = FrontSettings(keys="k", store="s", analyzer="a", admission="tickets", issuer=printed[1])
    issuer = public_key("issuer", settings.issuer)
    check(issuer, found["ticket"], "onboarding", time.time(), settings.remember)
    with pytest.raises(NotAdmitted, match="not one of the issuer's"):
        check(issuer, found["ticket"], "another", time.time(), settings.remember)


def test_the_issuer_of_the_document_answers_with_tokens_that_its_front_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = said(capsys, "serve", "keys", "issuer/keys", "--tokens")
    assert status == 0
    printed = re.search(r"^issuer/keys/tokens.pem: token key ([\w-]+)$", out, re.MULTILINE)
    assert printed is not None
    assert (tmp_path / "issuer/keys/tokens.pem").stat().st_mode & 0o777 == 0o600
    assert printed[1] in said(capsys, "serve", "keys", "issuer/keys", "--tokens")[1]
    assert "token key" not in said(capsys, "serve", "keys", "issuer/keys")[1]
    (example,) = [block for block in BLOCKS["python"] if "token_issuer(" in block]
    found: dict[str, Any] = {}
    exec(compile(example, "service.md", "exec"), found)
    settings = FrontSettings(keys="k", store="s", analyzer="a", admission="tokens", issuer=printed[1])
    admission, door = admission_of(settings), Door("onboarding", bytes(32))
    assert admission.issuer is not None
    asked = request(admission.issuer, challenge(admission.issuer, "onboarding", bytes(32)))
    assert admission.check(asked.finish(found["answer"](asked.body)), door)


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN PRIVATE KEY-----", None])
def test_a_token_key_that_cannot_be_used_is_said_in_one_line(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "tokens.pem").write_text(text)
        (tmp_path / "tokens.pem").chmod(0o600)
    with pytest.raises(KeyProblem, match="tokens.pem") as found:
        token_issuer(tmp_path)
    assert "\n" not in str(found.value)


def test_a_token_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_token_issuer(tmp_path)
    (tmp_path / "tokens.pem").chmod(0o644)
    with pytest.raises(KeyProblem, match="read by others"):
        token_issuer(tmp_path)


def test_the_exceptions_of_the_document_are_those_of_the_client() -> None:
    rows = re.findall(
        r"^\| `(\w+)`(?: \(`([\w.]+)`\))? \| .* \| .* \|$", DOCUMENT.split("## An experiment")[0], re.MULTILINE
    )
    assert len(rows) == 13
    for name, module in rows:
        assert issubclass(getattr(import_module(module or "croupier.client"), name), CroupierError)


@pytest.mark.slow
def test_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    program = "import sys; from croupier.cli import main; sys.exit(main(['policies']))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def printed(state: dict[str, Any], width: int = 100) -> str:
    """How an experiment stands, as a terminal shows it."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as captured:
        console.print(standing(state))
    return captured.get()


def test_an_arm_is_shown_with_the_word_for_how_it_stands() -> None:
    arm = {"users": 32, "mean": 0.5, "batches": 1, "lower": 0.0, "upper": 1.0}
    words = ("best so far", "in play")
    arms = [arm | {"arm": place, "standing": word} for place, word in enumerate(words)]
    state = {"kind": "bandit", "title": "Colours", "arms": ["red", "green"], "finished": False}
    state |= {"program": {"arms": arms}, "accepted": 64, "assigned": 64, "reports": 64}
    lines = printed(state).splitlines()
    for name, word in zip(("red", "green"), words, strict=True):
        assert any(name in line and word in line for line in lines)


@pytest.mark.parametrize(
    ("finished", "accepted", "reports", "said"),
    [(False, 64, 32, "64 reports of 96 turns"), (True, 6400, 6405, "6,405 reports of 6,405 turns")],
)
def test_at_the_end_the_reports_are_those_that_count(finished: bool, accepted: int, reports: int, said: str) -> None:
    state = {"title": "Colours", "arms": [], "finished": finished, "program": {"arms": []}}
    assert said in printed(state | {"accepted": accepted, "assigned": 96, "reports": reports})


def test_a_comparison_is_shown_beside_its_control_with_what_may_be_said() -> None:
    from croupier.programs import program
    from croupier.service.arm_standing import with_standing

    made = plan({"name": "a", "arms": ["plain", "tour"], "program": {"policy": "split"}})
    shown = with_standing(program(made.parameters))
    state: dict[str, Any] = {"title": "Screens", "arms": ["plain", "tour"], "finished": False, "standing": "stalled"}
    state |= {"accepted": 64, "assigned": 96, "reports": 0, "values": {"low": 0, "high": 1}, "program": shown}
    state |= {key: shown.pop(key) for key in ("decision", "curve", "odds")}
    state["decision"] |= {"sentence": "no decision", "tipping_sentence": ""}
    assert "stalled, 64 reports of 96 turns" in printed(state)
    assert "control" in printed(state)
    assert "in play" in printed(state)
    assert printed(state).rstrip().endswith("no decision")
    state["curve"] = [{"difference": [0.0, 0.041], "lower": [0.0, 0.012], "upper": [0.0, None]}]
    assert "+4.1" in printed(state)
    assert "[+1.2, ?]" in printed(state)
    state["decision"]["tipping_sentence"] = "tipping point: the sign would flip"
    assert "tipping point" in printed(state).splitlines()[-1]


def test_a_trial_that_will_stand_still_says_so_and_what_helps() -> None:
    """By default devices report five to ten minutes after a turn: nobody watches a crowd for so long."""
    assert "report_at = [0, 0.2]" in waits(600.0, 0.2)
    assert max(map(len, waits(600.0, 0.2).splitlines())) <= 100
    assert waits(600.0, 0.0) == waits(0.2, 0.2) == ""


def test_what_is_learnt_is_shown_with_what_is_not_known_and_not_proven() -> None:
    coefficient = {"action": "video", "coefficient": "age", "value": 0.01, "lower": -0.016, "upper": 0.016}
    program: dict[str, Any] = {"features": [], "gain": None, "caveat": "It explores less.", "coefficients": []}
    program |= {"choices": [{"action": "video", "share": 1.0, "lower": 1.0, "upper": 1.0}]}
    state = {"title": "Tips", "arms": ["video"], "finished": False, "accepted": 64, "assigned": 64, "reports": 64}
    for known, words in (
        ((False, False), "Nothing is known of the coefficients yet"),
        ((True, False), "[-0.016, +0.016]"),
    ):
        program["coefficients"] = [coefficient | {"known": one} for one in known]
        found = printed(state | {"program": program})
        assert words in found
        assert ("nothing is known yet" in found) == known[0]
        assert found.rstrip().endswith("It explores less.")
    assert "It explores less." not in printed(state | {"program": program | {"caveat": ""}})
