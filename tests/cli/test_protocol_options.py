"""--scaling and --participations, wherever a command takes a protocol or a policy that has one."""

import json

import pytest

from croupier.cli import main

TARGET = ("--users", "50", "--epsilon", "0.5", "--json")
WORLD = ("--means", "0.2,0.8", "--horizon", "3000", "--runs", "4", "--json")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    """The rows that a command prints."""
    assert main(arguments) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line with which it refuses."""
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(main(arguments))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_price_and_audit_encode_as_finely_as_they_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """g = ⌈sε√n⌉."""
    for scaling, levels in (("2", 8), ("100", 354)):
        (row,) = told(capsys, "price", "skellam", *TARGET, "--scaling", scaling)
        assert row["precision"] == levels
    (row,) = told(capsys, "audit", "skellam", *TARGET, "--scaling", "2", "--trials", "100", "--seed", "1")
    assert row["passed"]
    assert "scaling = 2.0 is not allowed: it must be left out: laplace takes" in refusal(
        capsys, "price", "laplace", *TARGET, "--scaling", "2"
    )


@pytest.mark.slow
@pytest.mark.parametrize("constants", ["tight", pytest.param("published", marks=pytest.mark.evidence)])
def test_price_of_all_protocols_gives_each_what_it_reads(capsys: pytest.CaptureFixture[str], constants: str) -> None:
    """Its table says what it compares, in 80 columns."""
    given = ("--scaling", "2", "--participations", "2", "--constants", constants)
    rows = [row for row in told(capsys, "price", *TARGET, *given) if "refused" not in row]
    fine = {row["protocol"]: row["precision"] for row in rows if row["trust"] == "devices"}
    assert fine["skellam"] == fine["discrete-gaussian"] == 5  # ⌈2 (0.5/√2) √50⌉
    assert {row["participations"] for row in rows} == {2}
    assert {row["constants"] for row in rows} == {constants}
    assert main(("price", *TARGET[:-1], *given)) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "Privacy is for a user in at most 2 batches" in printed
    for word in ("pure 0.5", "-RDP", "-zCDP", "≤", "ε at δ"):
        assert word in printed


def test_simulate_hands_them_to_the_policies_that_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    both = ("simulate", "--policy", "dist-dp-se", "--policy", "dist-rdp-se", *WORLD)
    pure, renyi = told(capsys, *both, "--scaling", "50", "--participations", "2")
    assert renyi["scaling"] == 50
    assert pure["participations"] == renyi["participations"] == 2
    error = refusal(capsys, "simulate", "--policy", "dist-dp-se", *WORLD, "--scaling", "50")
    assert "scaling = 50.0 is not allowed: it must be left out: dist-dp-se does not read it" in error
    error = refusal(capsys, "simulate", "--policy", "dp-se", "--policy", "dp-klucb", *WORLD, "--participations", "2")
    assert "participations = 2 is not allowed: it must be 1: dp-se has noise of its own" in error


@pytest.mark.slow
def test_plan_needs_more_users_when_they_return(capsys: pytest.CaptureFixture[str]) -> None:
    what = ("plan", "--arms", "2", "--lift", "0.3", "--epsilon", "0.5", "--runs", "50", "--json")
    once, often = (told(capsys, *what, "--protocol", "laplace", "--participations", b) for b in ("1", "8"))
    for before, after in zip(once, often, strict=True):
        assert after["users_median"] > 2 * before["users_median"]  # type: ignore[operator]
    asked = (*what, "--policy", "dp-klucb")
    once, often = told(capsys, *asked), told(capsys, *asked, "--participations", "8")
    assert once[0] == often[0], "without privacy nothing changes"
    for before, after in zip(once[1:], often[1:], strict=True):
        assert after["users"] > 2 * before["users"]  # type: ignore[operator]


MODELS = {
    "vb-sdp-ae": [("no privacy", "kl-ucb"), ("vb-sdp-ae", "vb-sdp-ae"), ("the same in the local model", "vb-sdp-ae")],
    "kl-ucb": [("no privacy", "kl-ucb"), ("dp-klucb in the local model", "dp-klucb")],
    "dp-se": [("no privacy", "kl-ucb"), ("dp-se", "dp-se"), ("dp-klucb in the local model", "dp-klucb")],
    "local-dp-se": [("no privacy", "kl-ucb"), ("local-dp-se", "local-dp-se")],
}


@pytest.mark.parametrize("name", MODELS)
def test_every_row_of_a_plan_is_of_the_policy_it_names(capsys: pytest.CaptureFixture[str], name: str) -> None:
    rows = told(capsys, "plan", "--means", ".1,.9", "--epsilon", "2", "--runs", "10", "--policy", name, "--json")
    assert [(row["model"], row["policy"]) for row in rows] == MODELS[name]


def test_a_sweep_keeps_them_in_its_rows(capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]
    from croupier.simulation.sweep import read_sweep

    out = tmp_path / "rows.parquet"
    names = ("--policy", "dist-rdp-se", "--policy", "kl-ucb", "--epsilon", "1")
    size = ("--arms", "2", "--horizon", "1000", "--instances", "1", "--runs", "2", "--jobs", "1")
    told(capsys, "sweep", *names, *size, "--scaling", "50", "--participations", "2", "--out", str(out), "--json")
    sweep, table = read_sweep(str(out))
    assert {cell.policy: (cell.scaling, cell.participations) for cell in sweep.cells} == {
        "dist-rdp-se": (50.0, 2),
        "kl-ucb": (None, None),
    }
    assert set(table["scaling"].to_pylist()) == {50.0, None}
    assert "participations = 2 is not allowed" in refusal(
        capsys, "sweep", "--policy", "kl-ucb", *size, "--participations", "2", "--out", str(out)
    )
