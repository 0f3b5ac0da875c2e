"""What a policy does not read is refused by name: in the library, on the command line and in an experiment's file."""

import json
from typing import Any

import pytest

from cases.policies import NAMES, PRIVATE, privacy
from croupier.bandits import POLICIES, policy
from croupier.checks import CroupierError, InvalidParameter
from croupier.cli import main
from croupier.protocols import ROWS
from croupier.protocols.sums.protocol import CONSTANTS
from croupier.service.experiment import plan
from croupier.simulation import ALL_POLICIES, simulated_policy

OWN = {"failure": 0.2, "exploration": 2.0, "seed": 3, "decision": {"rate": 0.5}}
"""What some policies read, each with a value."""
OF_PROTOCOLS = {
    "low": -1.0,
    "honest_fraction": 0.5,
    "precision": 30,
    "scaling": 20.0,
    "side": "under",
    "wrap_failure": 1e-9,
    "front_noise": True,
    "participations": 5,
    "trust": "two-servers",
    "delta": 1e-3,
}
"""What some of their protocols read."""


def made(name: str, **options: Any) -> Any:
    """A small policy."""
    return simulated_policy(name, arms=2, horizon=5_000, **privacy(name, **options))


def refused(key: str, value: object, **found: Any) -> None:
    """Check that the option is refused, by its own name."""
    with pytest.raises(InvalidParameter) as refusal:
        made(**found, **{key: value})
    assert (refusal.value.name, refusal.value.value) == (key, value)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_refuses_what_only_others_read(name: str) -> None:
    reads = made(name).reads
    for key, value in OWN.items():
        if key in reads:
            made(name, **{key: value})
        else:
            refused(key, value, name=name)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_refuses_what_its_protocol_does_not_read(name: str) -> None:
    kind = ALL_POLICIES[name].protocol
    for key, value in OF_PROTOCOLS.items():
        if kind is None or key not in ROWS[kind].takes:
            refused(key, value, name=name)


@pytest.mark.parametrize("name", [name for name in NAMES if ALL_POLICIES[name].protocol is None])
@pytest.mark.parametrize("constants", CONSTANTS)
def test_constants_are_refused_where_no_protocol_has_noise(name: str, constants: str) -> None:
    refused("constants", constants, name=name)


@pytest.mark.parametrize(("flag", "value"), [("--epsilon", "1"), ("--constants", "published"), ("--delta", "1e-6")])
def test_a_comparison_refuses_a_promise_that_none_of_its_policies_makes(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = ["simulate", "--policy", "kl-ucb", "--means", ".2,.8", "--horizon", "500", "--runs", "2"]
    assert main([*alone, flag, value]) == 2
    assert f"{flag.removeprefix('--')} = " in capsys.readouterr().err
    assert main([*alone, "--policy", "dist-rdp-se", flag, value, "--json"]) == 0
    plain, private = json.loads(capsys.readouterr().out)
    assert (plain["epsilon"], plain["constants"], private["epsilon"]) == (None, None, 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_refuses_what_nobody_knows_and_says_what_was_meant(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^bogus = 7 .* left out: {name} does not read it$"):
        made(name, bogus=7)
    with pytest.raises(InvalidParameter, match=r"^honest_fracton = .*; did you mean honest_fraction\?$"):
        made(name, honest_fracton=0.5)
    with pytest.raises(InvalidParameter, match=r"^explorration = .*; did you mean exploration\?$"):
        made(name, explorration=2)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PRIVATE])
def test_a_policy_without_privacy_refuses_an_epsilon(name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^epsilon = 1.0 .* left out: {name} is without privacy"):
        policy(name, arms=2, horizon=100, epsilon=1.0)


@pytest.mark.parametrize("key", ["smallest", "growth", "protocol_name"])
def test_what_is_asked_of_a_ladder_that_a_policy_does_not_have_is_refused(key: str) -> None:
    value = {"smallest": 40, "growth": 3.0, "protocol_name": "laplace"}[key]
    refused(key, value, name="dp-se")
    if key == "protocol_name":
        refused(key, value, name="kl-ucb", epsilon=1.0)


def test_noise_of_its_own_trusts_whom_it_trusts() -> None:
    made("dp-se", trust="analyzer", delta=0.0)
    refused("trust", "devices", name="dp-se")
    refused("delta", 1e-3, name="dp-se")


def test_shares_are_for_a_split() -> None:
    made("split", decision={"shares": [1, 2]})
    with pytest.raises(InvalidParameter, match="^shares = .* left out: dp-top-two does not read it"):
        made("dp-top-two", decision={"shares": [1, 2]})
    with pytest.raises(InvalidParameter, match=r"^decision.shars = .* did you mean shares\?$"):
        made("split", decision={"shars": [1, 2]})


@pytest.mark.parametrize(("key", "zero"), [("smallest", 0), ("growth", 0), ("failure", 0.0), ("exploration", 0.0)])
def test_a_zero_is_not_taken_for_nothing(key: str, zero: float) -> None:
    with pytest.raises(InvalidParameter, match=f"^{key} = 0"):
        made("dist-dp-se", **{key: zero})


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_refuses_a_flag_that_its_only_policy_does_not_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = ALL_POLICIES[name]
    takes = () if entry.protocol is None else ROWS[entry.protocol].takes
    unread = {key: value for key, value in {"delta": "1e-3", "scaling": "20"}.items() if key not in takes}
    unread |= {} if entry.in_blocks else {"smallest-effect": "0.1", "delay": "10", "reporting": "0.5"}
    unread |= {"epsilon": "2", "protocol": "laplace"} if entry.notion == "none" else {}
    assert unread
    for flag, value in unread.items():
        given = ["simulate", "--policy", name, "--means", "0.2,0.8", "--horizon", "500", "--runs", "1"]
        assert main([*given, f"--{flag}", value]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"croupier simulate: {flag.replace('-', '_')} = ")
        assert f"left out: {name} does not read it" in said


@pytest.mark.parametrize("name", [name for name in POLICIES if POLICIES[name].protocol == "laplace"])
def test_an_experiments_file_refuses_what_its_policy_does_not_read(name: str) -> None:
    def planned(**more: object) -> None:
        plan({"name": "one", "arms": ["a", "b"], "program": {"policy": name, "horizon": 5_000} | more})

    # A file of the one kind has no key for what only the other kind's policies read.
    for key, value in {"failure": 0.5, "exploration": 0.5, "seed": 1, "shares": [1, 2]}.items():
        if key not in made(name).reads:
            with pytest.raises(CroupierError, match=rf"^program\.{key} (= .*{name} does not read it|is unknown here)"):
                planned(**{key: value})
    with pytest.raises(CroupierError, match=r"^program\.growht is unknown here: .*; did you mean growth\?$"):
        planned(growht=2.0)
