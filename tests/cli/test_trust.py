"""`--trust`: whom a command counts on, where there is a choice; what does not fit it is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from croupier.bandits import policy
from croupier.checks import InvalidParameter
from croupier.cli import main
from croupier.protocols import ROWS

SERVERS = ("--trust", "two-servers")


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_both_lists_name_every_trust(capsys: pytest.CaptureFixture[str]) -> None:
    protocols = {row["name"]: row["trusts"] for row in rows(capsys, "protocols")}
    assert protocols == {name: list(row.trusts) for name, row in ROWS.items()}
    assert protocols["laplace"] == ["devices", "two-servers"]
    policies = {row["name"]: row["trusts"] for row in rows(capsys, "policies")}
    assert policies["dp-klucb"] == ["devices", "two-servers"]
    assert (policies["sdp-ae"], policies["kl-ucb"], policies["dp-se"]) == (["shuffler"], ["none"], ["analyzer"])


def test_a_price_is_that_of_the_trust(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("price", "laplace", "--users", "100", "--epsilon", "1", "--binary")
    [shared], [devices] = rows(capsys, *common, *SERVERS), rows(capsys, *common)
    assert (shared["trust"], devices["trust"]) == ("two-servers", "devices")
    assert shared["variance"] == pytest.approx(2 * devices["variance"])
    [vectors] = rows(capsys, "price", "shared-vectors", "--users", "50", "--epsilon", "1", *SERVERS)
    assert vectors["trust"] == "two-servers"


@pytest.mark.slow
@pytest.mark.parametrize("given", [(), ("--constants", "published", "--honest-fraction", "0.9")])
def test_a_price_under_a_protocols_own_trust_says_what_an_experiment_pays(
    given: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("price", "laplace", "--users", "100", "--epsilon", "1")
    [usual] = rows(capsys, *common, *SERVERS)
    assert main([*common, *given]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "100 users, trust: devices" in out
    assert "An experiment trusts two-servers unless it says otherwise" in out
    assert f"standard deviation is {usual['standard_deviation']:.4g} and" in out
    assert f"95 % error radius {usual['radius_95']:.4g} (--trust two-servers)." in out
    assert main([*common[:-1], "1e-3"]) == 0
    assert "There it cannot be priced: Polya" in " ".join(capsys.readouterr().out.split())
    # Those who chose, and protocols without the choice, are told nothing of it.
    for arguments in ((*common, *SERVERS), (*common, "--trust", "devices"), ("price", "local-laplace", *common[2:])):
        assert main(arguments) == 0
        assert "unless it says" not in capsys.readouterr().out


@pytest.mark.slow
def test_all_prices_stand_under_whom_they_trust(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("price", "--users", "100", "--epsilon", "1", "--binary", "--constants", "tight")
    every = {(row["protocol"], row["trust"]) for row in rows(capsys, *common) if "refused" not in row}
    assert every == {(name, trust) for name, row in ROWS.items() for trust in row.trusts}
    assert {row["trust"] for row in rows(capsys, *common, *SERVERS)} == {"two-servers"}
    assert main([*common]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "two-servers: laplace" in out
    assert "variance 3.68 instead of 1.84" in out
    # 25 of coins, and one or two noises: √(28.68/26.84) - 1.
    assert "an error grows by 3.4 %" in out


def test_histograms_are_priced_for_a_trust(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("price", "--users", "100", "--epsilon", "0.5", "--items", "9")
    assert {row["model"] for row in rows(capsys, *common, *SERVERS)} == {"two-servers"}
    analyzers = {row["model"] for row in rows(capsys, *common, "--trust", "analyzer")}
    assert analyzers == {"central", "central-pure"}
    assert main([*common, "--trust", "devices"]) == 2
    assert "trust = 'devices' is not allowed: it must be one of two-servers, shuffler" in capsys.readouterr().err


def test_a_histogram_between_two_servers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "drinks").write_text("tea\n" * 30 + "coffee\n" * 12, encoding="utf-8")
    (tmp_path / "all").write_text("tea\ncoffee\nwater\n", encoding="utf-8")
    common = ("histogram", str(tmp_path / "drinks"), "--universe", str(tmp_path / "all"), "--epsilon", "8")
    every = rows(capsys, *common, *SERVERS, "--seed", "1")
    found = every[0]
    assert (found["model"], found["trusts"], found["delta"]) == ("two-servers", "two-servers", 0.0)
    assert [row["item"] for row in every[:2]] == ["tea", "coffee"]
    assert main([*common, *SERVERS, "--seed", "1"]) == 0
    assert "either of two servers" in " ".join(capsys.readouterr().out.split())
    assert main([*common, *SERVERS, "--model", "local"]) == 2
    assert "trust = 'two-servers' is not allowed: it must be left out: the local model" in capsys.readouterr().err
    assert rows(capsys, *common, "--model", "two-servers", "--seed", "1") == every


def test_simulations_sum_under_the_trust(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("simulate", "--policy", "dp-klucb", "--policy", "kl-ucb", "--means", ".3,.7", "--horizon", "500")
    found = rows(capsys, *common, "--runs", "3", *SERVERS)
    assert [row["trust"] for row in found] == ["two-servers", "none"]
    assert [row["trust"] for row in rows(capsys, *common, "--runs", "3")] == ["devices", "none"]
    assert [row["trust"] for row in rows(capsys, *common, "--runs", "3", "--trust", "devices")] == ["devices", "none"]


def test_a_policy_without_privacy_may_be_said_to_trust_nobody_with_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("simulate", "--policy", "kl-ucb", "--means", ".3,.7", "--horizon", "99", "--runs", "1")
    assert rows(capsys, *common, "--trust", "none") == rows(capsys, *common)
    assert main([*common, "--policy", "dp-klucb", "--trust", "none"]) == 2
    assert "trust = 'none' is not allowed: it must be one of two-servers" in capsys.readouterr().err


def test_a_sweep_has_the_trust_in_its_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "rows.parquet")
    common = ("sweep", "--policy", "dp-klucb", "--epsilon", "1", "--means", ".3,.7", "--horizon", "300", "--runs", "2")
    [found] = rows(capsys, *common, *SERVERS, "--jobs", "1", "--out", out)
    assert found["trust"] == "two-servers"
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out).to_pylist()
    assert {row["trust"] for row in table} == {"two-servers"}


def test_a_plan_compares_with_the_local_model_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--means", ".3,.7", "--epsilon", "1", "--runs", "20", *SERVERS)
    found = rows(capsys, "plan", "--policy", "dp-klucb", *common)
    assert [row["model"] for row in found] == ["no privacy", "dp-klucb", "the same in the local model"]


def test_a_count_is_one_report_a_user(capsys: pytest.CaptureFixture[str]) -> None:
    [found] = rows(capsys, "count", "--users", "2000", "--epsilon", "1", "--runs", "1", *SERVERS)
    assert (found["over"], found["trust"], found["messages_per_user"]) == ("laplace", "two-servers", 2.0)
    assert found["shufflers"] > 2
    assert main(["count", "--users", "300", "--epsilon", "1", "--runs", "1", *SERVERS]) == 0
    assert "the servers form every node" in " ".join(capsys.readouterr().out.split())


def test_an_audit_is_of_the_trust(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("audit", "laplace", "--users", "5", "--epsilon", "1", "--trials", "500", "--seed", "1", "--binary")
    [found] = rows(capsys, *common, *SERVERS)
    assert found["trust"] == "two-servers"
    assert found["passed"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("price", "laplace", "--users", "9", "--epsilon", "1", "--trust", "two-server"), "did you mean two-servers?"),
        (("price", "--users", "9", "--epsilon", "1", "--trust", "shufler"), "did you mean shuffler?"),
        (("price", "shuffled-bits", "--users", "9", "--epsilon", "1", *SERVERS), "shuffler for shuffled-bits"),
        (("audit", "local-laplace", "--users", "9", "--epsilon", "1", "--trials", "9", *SERVERS), "for local-laplace"),
        (("simulate", "--policy", "sdp-ae", "--means", ".3,.7", "--horizon", "99", *SERVERS), "for shuffled-bits"),
        (("simulate", "--policy", "dp-se", "--means", ".3,.7", "--horizon", "99", *SERVERS), "analyzer for dp-se"),
        (("simulate", "--policy", "kl-ucb", "--means", ".3,.7", "--horizon", "99", *SERVERS), "does not read it"),
        (("count", "--users", "99", "--epsilon", "1", "--over", "shuffled-bits", *SERVERS), "for shuffled-bits"),
        (("count", "--users", "99", "--epsilon", "1", "--trust", "server"), "one of two-servers, devices"),
        (("plan", "--means", ".3,.7", "--epsilon", "1", "--policy", "sdp-ae", *SERVERS), "for shuffled-bits"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main([*arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_policy_takes_its_trust_as_an_option() -> None:
    shared = policy("dp-klucb", arms=2, horizon=1000, epsilon=1.0, binary=True, trust="two-servers")
    devices = policy("dp-klucb", arms=2, horizon=1000, epsilon=1.0, binary=True, trust="devices")
    assert shared.ladder.mechanism(32).trust == "two-servers"
    assert shared.ladder.mechanism(32).variance == pytest.approx(2 * devices.ladder.mechanism(32).variance)
    assert devices.ladder.protocol == policy("dp-klucb", arms=2, horizon=1000, epsilon=1.0, binary=True).ladder.protocol
    with pytest.raises(InvalidParameter, match="^trust = 'two-servers' .* shuffler for shuffled-bits"):
        policy("sdp-ae", arms=2, horizon=1000, epsilon=0.5, trust="two-servers")
