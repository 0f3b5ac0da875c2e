"""The command line as a person meets it: tables, JSON, one clear line for bad input."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module

import pytest

import croupier
from croupier.cli import main
from croupier.protocols import ROWS
from croupier.references import REFERENCES
from croupier.simulation import ALL_POLICIES

PRICE_KEYS = {
    "protocol",
    "users",
    "epsilon",
    "delta",
    "notion",
    "constants",
    "noise",
    "variance",
    "radius_95",
    "messages_per_user",
    "bits_per_user",
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """One command: its status and what it printed."""
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_groups_commands_by_what_a_person_wants(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert "plan an experiment:" in out
    assert "check the privacy:" in out


def test_protocols_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "protocols", "--json")
    assert status == 0
    rows = json.loads(out)
    assert [row["name"] for row in rows] == list(ROWS)
    assert {row["smallest_batch"] for row in rows} == {1, 19}
    assert run(capsys, "protocols")[1].count("\n") > len(ROWS)


@pytest.mark.parametrize("name", list(ROWS))
def test_price_json_has_its_keys(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, _ = run(capsys, "price", name, "--users", "100", "--epsilon", "0.5", "--json")
    assert status == 0
    [price] = json.loads(out)
    assert price.keys() >= PRICE_KEYS
    assert price["protocol"] == name
    assert price["users"] == 100
    assert price["radius_95"] > 0
    assert price["noise"]["family"]


def test_a_price_says_which_sums_are_of_two_values_only_where_others_take_all_between(capsys) -> None:
    every = ("price", "--users", "100", "--epsilon", "0.5", "--constants", "tight", "--trust", "shuffler")
    out = run(capsys, *every)[1]
    names = {line.split()[0] for line in out.splitlines() if line.startswith(("shuffled", "counted"))}
    assert {"shuffled-bits*", "counted-messages*", "shuffled-levels", "shuffled-laplace"} <= names
    assert "* Only for values that are 0 or 1, and nothing between." in out
    rows = {row["protocol"]: row["binary"] for row in json.loads(run(capsys, *every, "--json")[1])}
    assert (rows["shuffled-bits"], rows["shuffled-laplace"]) == (True, False)
    alone = run(capsys, "price", "--users", "100", "--epsilon", "0.5", "--constants", "tight", "--trust", "analyzer")[1]
    assert "*" not in alone


def test_price_scales_with_the_values_own_units(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("price", "laplace", "--users", "100", "--epsilon", "1", "--json")
    [unit] = json.loads(run(capsys, *common)[1])
    [wide] = json.loads(run(capsys, *common, "--low", "-5", "--high", "5")[1])
    assert wide["variance"] == pytest.approx(100 * unit["variance"])
    assert wide["radius_95"] == pytest.approx(10 * unit["radius_95"])


@pytest.mark.slow
def test_a_price_of_all_protocols_says_which_are_refused_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "price", "--users", "100", "--epsilon", "16", "--json", "--constants", "published")
    assert status == 0
    assert any("published" in entry.get("refused", "") for entry in json.loads(out))


def test_honest_fraction_is_charged(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "price", "shuffled-bits", "--users", "100", "--epsilon", "0.5", "--honest-fraction", "0.5"
    )
    assert status == 0
    assert "50 of 100" in out


def test_audit_passes_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "5000", "--seed", "1")
    status, out, _ = run(capsys, *arguments, "--json")
    [found] = json.loads(out)
    assert status == 0
    assert found["passed"] is True
    assert found["epsilon_lower_bound"] < found["claimed_epsilon"]
    assert "consistent with the claim" in run(capsys, *arguments)[1]


def test_audit_of_a_broken_mechanism_exits_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from croupier.noise import Noise

    monkeypatch.setattr(Noise, "sample", lambda self, size, source: np.zeros(size, dtype=np.int64))
    status, out, _ = run(capsys, "audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "5000")
    assert status == 1
    assert "BROKEN" in out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("price", "laplace", "--users", "10", "--epsilon", "0"), "epsilon"),
        (("price", "laplace", "--users", "10", "--epsilon", "nan"), "epsilon"),
        (("price", "--users", "10", "--epsilon", "-1"), "epsilon"),
        (("price", "laplace", "--users", "0", "--epsilon", "1"), "users"),
        (("price", "laplace", "--users", "ten", "--epsilon", "1"), "--users"),
        (("price", "laplce", "--users", "10", "--epsilon", "1"), "protocol"),
        (("price", "shuffled-bits", "--users", "10", "--epsilon", "1", "--delta", "1"), "delta"),
        (("price", "shuffled-bits", "--users", "10", "--epsilon", "2", "--constants", "published"), "epsilon"),
        (("price", "shuffled-laplace", "--users", "18", "--epsilon", "1"), "users"),
        (("price", "laplace", "--users", "10", "--epsilon", "1", "--low", "2"), "high"),
        (("audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "0"), "trials"),
        (("audit", "laplace", "--users", "10", "--epsilon", "1"), "--trials"),
        (("deal",), "deal"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err


@pytest.mark.parametrize("module", ["croupier", "croupier.noise", "croupier.privacy", "croupier.protocols"])
def test_importing_stays_light(module: str) -> None:
    heavy = ["scipy.stats", "scipy", "dp_accounting", "matplotlib", "rich", "sklearn", "starlette", "croupier.cli"]
    program = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert found.stdout.strip() == "[]"


def test_a_value_may_begin_with_a_minus_however_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("price", "laplace", "--users", "100", "--epsilon", "1", "--json")
    assert run(capsys, *common, "--low", "-1e3") == run(capsys, *common, "--low=-1000")
    assert "means = -0.1 is not" in run(capsys, "simulate", "--means", "-.1,.5", "--horizon", "9")[2]


def test_what_there_is_no_memory_for_is_said_in_the_words_of_who_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(import_module("croupier.cli.simulate"), "simulate", full)
    asked = ("simulate", "--means", ".3,.5", "--horizon", "1000", "--runs", "10000000000")
    why = "runs = 10,000,000,000, horizon = 1,000 takes more memory than there is"
    assert run(capsys, *asked) == (2, "", f"croupier simulate: {why}\n")


def test_a_missing_extra_is_one_line_that_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the package is put back too, and not the one that is imported meanwhile.
    monkeypatch.setattr(croupier, "service", import_module("croupier.service"))
    for name in [name for name in sys.modules if name.startswith(("httpx2", "croupier.service"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    status, out, err = run(capsys, "crowd", "--users", "3")
    assert (status, out) == (2, "")
    assert err == "croupier crowd: httpx2 is missing: install croupier[service]\n"


def test_files_may_come_before_or_after_options(capsys):
    for arguments in (["nowhere.toml", "--keys", "k"], ["--keys", "k", "nowhere.toml"]):
        missing = ["--store", "s.db", "--bearer", "b", "--admin", "a", "--front", "http://127.0.0.1:1"]
        assert main(["serve", "analyzer", *arguments, *missing]) == 2
        assert "nowhere.toml cannot be read" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", "analyzer", "--nonsense"])
    with pytest.raises(SystemExit):
        main(["policies", "extra"])
    assert "unrecognized arguments: extra" in capsys.readouterr().err


def test_what_is_no_number_is_said_in_words_and_a_round_one_may_be_short(capsys: pytest.CaptureFixture[str]) -> None:
    rest = ("simulate", "--policy", "kl-ucb", "--means", ".3,.7", "--runs", "2", "--json")
    assert run(capsys, *rest, "--horizon", "1e3") == run(capsys, *rest, "--horizon", "1000")
    for wrong in ("1e3.5", "0.5", "1e40", "inf", "many"):
        status, out, err = run(capsys, *rest, "--horizon", wrong)
        assert (status, out) == (2, "")
        assert err == f"croupier simulate: argument --horizon: {wrong!r} is no whole number such as 100000 or 1e5\n"
    plan = ("plan", "--control", ".5", "--arms", "2", "--epsilon", "1")
    assert run(capsys, *plan, "--lift", "8%")[2] == "croupier plan: argument --lift: '8%' is no number such as 0.08\n"


WORDS = [
    (("polcies",), "policies"),
    (("price", "laplce", "--users", "10", "--epsilon", "1"), "laplace"),
    (("audit", "skelam", "--users", "10", "--epsilon", "1", "--trials", "9"), "skellam"),
    (("simulate", "--policy", "dp-kulcb", "--means", ".3,.5", "--horizon", "9"), "dp-klucb"),
    (("simulate", "--world", "bernouli", "--means", ".3,.5", "--horizon", "9"), "bernoulli"),
    (("simulate", "--protocol", "laplas", "--means", ".3,.5", "--horizon", "9"), "laplace"),
    (("simulate", "--polcy", "dp-klucb", "--means", ".3,.5", "--horizon", "9"), "--policy"),
    (("simulate", "--polcy", "dp-klucb"), "--policy"),
    (("simulat", "--policy", "dp-klucb"), "simulate"),
    (("audit", "--trails=9"), "--trials"),
    (("--versoin",), "--version"),
    (("simulate", "--means", ".3,.5", "--horizon", "9", "--constants", "tigt"), "tight"),
    (("plan", "--arms", "2", "--lift", ".1", "--epsilon", "1", "--policy", "kl-ubc"), "kl-ucb"),
    (("sweep", "--policy", "kl-ubc", "--out", "x.parquet"), "kl-ucb"),
    (("sweep", "--policy", "kl-ucb", "--world", "betta", "--out", "x.parquet"), "beta"),
    (("sweep", "--policy", "kl-ucb", "--engine", "locl", "--out", "x.parquet"), "local"),
    (("reproduce", "flagshp"), "flagship"),
    (("count", "--users", "9", "--epsilon", "1", "--stream", "bernouli:.5"), "bernoulli"),
    (("count", "--users", "9", "--epsilon", "1", "--shufflers", "bst"), "best"),
    (("price", "histogrm", "--items", "4", "--users", "9", "--epsilon", "1"), "histogram"),
]


@pytest.mark.parametrize(("arguments", "meant"), WORDS)
def test_a_misspelt_word_gets_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], meant: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"did you mean {meant}?" in err


REFUSED = [
    (("simulate", "--means", ".3,.5", "--horizon", "9", "--reporting-zeros", "0"), "reporting_zeros = 0.0"),
    (
        ("simulate", "--world", "beta", "--means", ".3,.5", "--horizon", "9", "--reporting-zeros", ".5"),
        "reporting_zeros",
    ),
    (("simulate", "--means", ".3", "--horizon", "9"), "means = [0.3] is not allowed"),
    (("simulate", "--means", ".3,.5", "--arms", "3", "--horizon", "9"), "only one of --means and --arms"),
    (("simulate", "--means", ".3,.5", "--horizon", "9", "--plot", "nowhere/a.png"), "there is no folder nowhere"),
    (("plan", "--means", ".3,.5", "--epsilon", "1", "--plot", "nowhere/a.png"), "there is no folder nowhere"),
    (("price", "--users", "0", "--epsilon", "1"), "users = 0 is not allowed"),
    (("sweep", "--policy", "kl-ucb", "--out", "a.csv"), "ends in .parquet"),
    (("price", "laplace", "--users", "100", "--epsilon", "1", "--high", "1e160"), "high = 1e+160 is not allowed"),
    (("price", "--users", "100", "--epsilon", "1", "--high", "1e200"), "a number in [-1e+100, 1e+100]"),
    (("count", "--users", "100", "--epsilon", "1", "--low", "-1e300"), "low = -1e+300 is not allowed"),
    (("audit", "laplace", "--users", "1e12", "--epsilon", "1", "--trials", "10"), "at most 10,000,000: every one"),
    (("audit", "laplace", "--users", "1000", "--epsilon", "1", "--trials", "1e12"), "at most 1,000,000 where a batch"),
    (("linear", "--users", "1e12", "--runs", "1", "--model", "growing"), "at most 10,000,000: every one of them"),
    (("price", "laplace", "--users", "1e12", "--epsilon", "1"), "users = 1,000,000,000,000, epsilon = 1 leads to"),
    (("price", "laplace", "--users", "1e12", "--epsilon", "1"), "is the most; --binary, for values that are one of"),
    (("histogram", "items.txt", "--buckets", "64", "--epsilon", "1"), "buckets = 64 is not allowed: it must be"),
    (
        ("price", "laplace", "--users", "9", "--epsilon", "1", "--scaling", "3"),
        "laplace takes epsilon, constants, honest_fraction, participations, low, high, binary, trust\n",
    ),
    (("simulate", "--horizon", "9"), "means is missing: it must be given, or else --arms"),
    (("plan", "--epsilon", "1"), "arms is missing: it must be given, or else --means"),
    (("serve",), "required: {front,analyzer,keys,operator,restored}\n"),
    (
        ("simulate", "--means", ".3,.5", "--horizon", "9", "--protocol", "shuffled-vectors"),
        "protocol = 'shuffled-vectors' is not allowed: it must be one that sums numbers",
    ),
    (("export", "http://127.0.0.1:1", "--table", "curve"), "table = 'curve' is not allowed"),
    (("export", "http://127.0.0.1:1", "screens", "--json"), "json = True is not allowed"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_a_refusal_names_what_was_wrong(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], why: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert why in err
    assert not os.path.exists("nowhere")


def test_an_epsilon_of_another_notion_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("simulate", "--means", ".3,.7", "--horizon", "500", "--runs", "2", "--epsilon", "0.5")
    names = ("--policy", "dist-rdp-se", "--policy", "dist-zcdp-se")
    said = "ε = 0.5 of Rényi and concentrated rows is (2.25, 1e-6)-DP"
    assert said in " ".join(run(capsys, *asked, *names)[1].split())
    assert "rows is" not in run(capsys, *asked)[1]


def test_those_whose_outcome_is_zero_may_report_less_often(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("simulate", "--policy", "split", "--means", ".3,.3", "--horizon", "500", "--runs", "2")
    assert "reporting=[1.0, 1.0], zeros=0.5)" in " ".join(run(capsys, *asked, "--reporting-zeros", "0.5")[1].split())
    both = run(capsys, *asked, "--reporting", "0.8,0.6", "--reporting-zeros", "0.5")[1]
    assert "reporting=[0.8, 0.6], zeros=0.5)" in " ".join(both.split())


def test_too_few_trials_tell_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("audit", "laplace", "--users", "5", "--epsilon", "1", "--trials", "5", "--seed", "1")
    status, out, _ = run(capsys, *few)
    assert status == 0
    assert re.search(r"^verdict +too few trials to tell *$", out, re.MULTILINE)
    assert "consistent" not in out
    assert json.loads(run(capsys, *few, "--json")[1])[0]["verdict"] == "too few trials to tell"


def test_without_privacy_nobody_is_trusted_nor_not(capsys: pytest.CaptureFixture[str]) -> None:
    line = next(line for line in run(capsys, "policies")[1].splitlines() if line.startswith("kl-ucb"))
    assert line.split()[1:3] == ["none", "-"]
    models = {row["name"]: row["model"] for row in json.loads(run(capsys, "policies", "--json")[1])}
    assert models["kl-ucb"] == "none"


def test_no_command_is_a_wish_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)
    assert (status, err) == (0, "")
    assert "plan an experiment:" in out


TABLES = [
    (("protocols",), ROWS),
    (("policies",), ALL_POLICIES),
    (("price", "--users", "20", "--epsilon", "0.9", "--delta", "1e-3"), ROWS),
    (("price", "skellam", "--users", "100", "--epsilon", "0.5"), ["Skellam(sigma2="]),
    (("price", "--users", "500", "--epsilon", "0.5", "--items", "9"), ["central-pure", "never"]),
    (
        ("audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "500", "--seed", "1"),
        ["too few trials to tell"],
    ),
    (("reproduce",), ["tkms23-shufflers-tradeoff"]),
    (("count", "--users", "300", "--epsilon", "1", "--runs", "1", "--references"), ["shufflers"]),
    (("plan", "--means", ".3,.7", "--epsilon", "1", "--runs", "20", "--policy", "dp-klucb"), ["dp-klucb"]),
    (("plan", "--means", ".3,.7", "--epsilon", "1", "--runs", "20", "--users-per-day", "9"), ["two-servers", "nobody"]),
    (
        ("simulate", "--policy", "dist-zcdp-se", "--policy", "dp-klucb", "--means", ".3,.7", "--horizon", "99999"),
        ["dist-zcdp-se", "± is one standard error of the mean."],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "whole"), TABLES)
def test_tables_fit_80_columns_and_break_no_name(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], whole: Iterable[str]
) -> None:
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert [name for name in whole if name not in out] == []
    assert "\u00a0" not in out


@pytest.mark.parametrize("command", ["protocols", "policies", "reproduce"])
def test_what_a_table_cites_stands_beneath_it(capsys: pytest.CaptureFixture[str], command: str) -> None:
    _, out, _ = run(capsys, command)
    plain = " ".join(out.split())
    for key in set(re.findall(r"\[([A-Z]+[0-9]{2})\]", out)):
        assert REFERENCES[key].title in plain


def test_no_policy_is_credited_to_authors_who_have_another(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody has published over these sums is after a paper; what carries sums is cited as its protocol is."""
    unpublished = [entry for entry in ALL_POLICIES.values() if entry.tight_only and "[" in entry.paper]
    assert {"dp-klucb", "dp-imed"} < {entry.name for entry in unpublished}
    assert [entry.name for entry in unpublished if not entry.paper.startswith("after [")] == []
    assert ALL_POLICIES["shuffle-dp-se"].paper == ROWS["shuffled-laplace"].paper
    plain = " ".join(run(capsys, "policies")[1].split())
    assert '"after" a paper' in plain
    assert '"for" a theorem' in plain


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("protocols",),
        ("policies",),
        ("reproduce",),
        ("price", "laplace", "--users", "50", "--epsilon", "1"),
        ("price", "--users", "50", "--epsilon", "1", "--constants", "tight"),
        ("audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "50", "--seed", "1"),
        ("count", "--users", "300", "--epsilon", "1", "--runs", "1"),
        ("plan", "--arms", "2", "--lift", ".4", "--epsilon", "1", "--runs", "20"),
        ("simulate", "--means", ".3,.7", "--horizon", "99", "--runs", "2"),
    ],
)
def test_json_is_always_a_list_of_rows(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    status, out, _ = run(capsys, *arguments, "--json")
    rows = json.loads(out)
    assert status == 0
    assert isinstance(rows, list)
    assert all(isinstance(row, dict) for row in rows)


def test_one_run_is_one_and_has_no_spread(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "simulate", "--policy", "kl-ucb", "--means", ".3,.7", "--horizon", "99", "--runs", "1")[1]
    assert ", 99 users, 1 run, seed 0" in out
    assert re.search(r"^kl-ucb +none +- +\S+ +- ", out, re.MULTILINE)


GUARDED = ["simulate", "--policy", "split", "--means", "0.3,0.6", "--horizon", "6000", "--epsilon", "4", "--json"]


@pytest.mark.parametrize(("guardrail", "decided"), [("0.5:0.2", True), ("0.8,0.3:0.1", True), ("0.8,0.7:0.1", False)])
def test_a_guardrail_decides_with_or_keeps_a_winner_from_being_declared(capsys, guardrail, decided):
    assert main([*GUARDED, "--runs", "40", "--smallest-effect", "0.2", "--guardrail", guardrail]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["wrong_rate"] <= 0.2, "at the margin at most one in twenty; nine of 40 come once in 10^4"
    assert (row["decided_rate"] > 0.9) == decided


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--guardrail", "0.5"], "guardrail = '0.5'"),
        (["--guardrail", "0.5,0.5,0.5:0.1"], "or 2, one an arm"),
        (["--guardrail", "1.5:0.1"], "guardrail = "),
        (["--guardrail", "0.5:0.1", "--trust", "devices"], "two-servers where there are several"),
        (["--guardrail", "0.5:0.1", "--policy", "dp-klucb"], "unless every policy claims comparisons"),
    ],
)
def test_a_guardrail_that_cannot_be_is_refused(capsys, options, words):
    assert main([*GUARDED, *options]) == 2
    assert words in capsys.readouterr().err
