"""The names that a newcomer meets: what they take, an example that runs, and the paper they come from."""

import importlib
import inspect
import re
from typing import get_type_hints

import pytest

from croupier.references import KEY, REFERENCES

FRONT = {
    "noise": "Binomial DiscreteLaplace DiscreteGaussian Skellam Polya Table one_party secure seeded",
    "privacy": "privacy_loss calibrate Guarantee Ledger Loss",
    "protocols": "protocol laplace skellam discrete_gaussian shuffled_bits shuffled_levels shuffled_laplace "
    "counted_messages shuffled_vectors central_laplace local_laplace histogram selection audit "
    "Protocol Mechanism Release Values Ball Row HistogramRelease default_protocol",
    "bandits": "policy Entry Ladder",
    "continual": "counter best_counter Counter",
    "linear": "growing_bandit linear_bandit LinearServer",
    "personal": "Context Rule",
    "learning": "PrivateClassifier Thresholds",
    "simulation": "simulate world Bernoulli ClippedGaussian Beta Drifting Run World checked_means price",
    "client": "Client Limits",
}
NAMES = [f"croupier.{room}:{name}" for room, names in FRONT.items() for name in names.split()]

SHOWN = [*NAMES, "croupier.simulation:simulated_policy", "croupier.client:AsyncClient"]
"""With those that take what another name takes."""

VALUES = (
    "secure seeded Table Protocol Mechanism Release Values Ball Guarantee Ledger Loss Entry Ladder Limits Thresholds "
    "Row Run HistogramRelease"
)
DOORS = (
    "privacy_loss calibrate protocol default_protocol one_party simulate world checked_means World Bernoulli Beta "
    "Drifting price Client LinearServer Counter Context"
)
OWN = {*VALUES.split(), *DOORS.split()}
"""What no paper proposes: plain values, a door to several algorithms, and croupier's own."""


def _found(where: str) -> object:
    room, _, name = where.partition(":")
    return getattr(importlib.import_module(room), name)


def _said(thing: object) -> str:
    """A name's documentation; a dataclass has one of its own only if somebody wrote it."""
    return inspect.cleandoc(thing.__doc__ or "")


def _section(text: str) -> str:
    match = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.DOTALL | re.MULTILINE)
    return match[1] if match else ""


def _parameters(thing: object) -> list[inspect.Parameter]:
    if inspect.isclass(thing) and inspect.isabstract(thing):
        return []
    return [each for each in inspect.signature(thing).parameters.values() if not each.name.startswith("_")]


def test_there_are_forty_or_more() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 40


@pytest.mark.parametrize("where", NAMES)
def test_every_parameter_is_described(where: str) -> None:
    thing = _found(where)
    heads = " ".join(line.partition(" : ")[0] for line in _section(_said(thing)).splitlines() if line[:1] != " ")
    described = set(re.findall(r"\w+", heads))
    missing = [each.name for each in _parameters(thing) if each.name not in described]
    assert not missing
    assert described <= {each.name for each in _parameters(thing)}


@pytest.mark.parametrize("where", NAMES)
def test_no_parameter_hides_others_from_an_editor(where: str) -> None:
    """Where options are passed on, their type lists them, and so does the documentation."""
    thing = _found(where)
    for each in _parameters(thing):
        assert each.kind is not each.VAR_POSITIONAL
        if each.kind is each.VAR_KEYWORD:
            kinds = get_type_hints(thing)[each.name].__args__[0].__annotations__
            assert all(f"`{name}`" in _section(_said(thing)) for name in kinds)


@pytest.mark.parametrize("where", SHOWN)
def test_there_is_an_example_that_runs(where: str) -> None:
    """The doctests of the package run it; `croupier.client` is shown at work in docs/service.md."""
    assert ">>> " in _said(_found(where))


@pytest.mark.parametrize("where", [where for where in NAMES if where.partition(":")[2] not in OWN])
def test_its_paper_is_cited(where: str) -> None:
    keys = KEY.findall(_said(_found(where)))
    assert keys
    assert set(keys) <= set(REFERENCES)
