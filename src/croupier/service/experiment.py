"""An experiment as its owner writes it down: a TOML file, read into a plan that everything else follows from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from croupier.bandits import POLICIES
from croupier.checks import CroupierError, InvalidParameter, one_of
from croupier.messages.configuration import NAME, Admission, Configuration, Privacy, ServerKeys
from croupier.messages.sealing import SUITES
from croupier.messages.wire import LONGEST_UPLOAD, upload_bytes
from croupier.privacy import Loss
from croupier.protocols import ROWS, Mechanism, protocol
from croupier.protocols.padding import CAP_SHARE
from croupier.protocols.sums.protocol import DEFAULT_DELTA
from croupier.service.experiment_schema import NEEDED, PROGRAMS, SECTIONS, TAKEN_BY, Section, checked
from croupier.service.programs import BanditProgram, CounterProgram, Program, program
from croupier.service.settings import read_toml

UNIT = "one installation of the app"
PERIOD = 86_400
HONEST = 0.9
DEADLINE = 3600.0


@dataclass(frozen=True)
class Site:
    """What a configuration says of the servers: the suite, their keys and addresses, and whom the front admits."""

    suite: str
    keys: dict[str, ServerKeys]
    urls: dict[str, str]
    admission: Admission


@dataclass(frozen=True)
class Plan:
    """An experiment that is known to work: its program starts, and a front can carry its reports."""

    name: str
    title: str
    arms: tuple[str, ...]
    parameters: dict[str, Any]
    recipe: dict[str, Any]
    privacy: Privacy
    deadline: float | None

    def program(self) -> Program:
        """A fresh run of the program."""
        return program(self.parameters)

    def configuration(self, revision: int, arms: tuple[str, ...], site: Site) -> Configuration:
        """The public configuration, to be signed."""
        promise = (self.parameters, self.recipe, self.privacy, site.admission)
        return Configuration(self.name, revision, self.title, arms, *promise, site.suite, site.keys, site.urls)


def read_plan(path: str) -> Plan:
    """Read an experiment's file; whatever is wrong with it is said in one line that names the file."""
    body = read_toml(path)
    try:
        _admit(body)
        return plan(body)
    except CroupierError as error:
        raise CroupierError(f"{path}: {error}") from None


def _admit(body: dict[str, Any]) -> None:
    """Import what the owner of the file names as `module:name`."""
    for section, key, registry in (("reward", "protocol", ROWS), ("program", "policy", POLICIES)):
        given = body.get(section)
        if isinstance(given, dict):
            registry.admit(given.get(key))


def plan(body: dict[str, Any]) -> Plan:
    """Make a plan of a file's contents.

    >>> five = plan({"name": "colours", "arms": ["red", "green"], "program": {"horizon": 1000}})
    >>> five.recipe["protocol"], five.recipe["smallest"], five.privacy.epsilon
    ('shuffled-laplace', 32, 1.0)
    """
    try:
        return _plan(dict(body))
    except (ArithmeticError, MemoryError) as error:
        raise CroupierError(f"no mechanism can be planned with numbers this extreme ({error})") from None


def _plan(body: dict[str, Any]) -> Plan:
    given = body.pop("program", {})
    kind = given.get("kind", "bandit") if isinstance(given, dict) else "bandit"
    one_of("program.kind", kind, tuple(PROGRAMS))
    sections = {name: checked(name, body.pop(name, {}), checks) for name, checks in SECTIONS.items()}
    sections["program"] = checked("program", given, PROGRAMS[kind])
    if NEEDED[kind] not in sections["program"]:
        raise InvalidParameter(f"program.{NEEDED[kind]}", None, "given: how many users there are at most")
    name, title, arms = body.pop("name", None), body.pop("title", ""), body.pop("arms", [])
    if name is None:
        raise CroupierError('name is missing: an experiment begins with its name, as name = "onboarding"')
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidParameter("name", name, "1 to 63 small letters, digits and hyphens")
    if body:
        raise InvalidParameter("key", next(iter(body)), "one of name, title, arms, program, " + ", ".join(SECTIONS))
    if not isinstance(title, str):
        raise InvalidParameter("title", title, "a text")
    if not isinstance(arms, list) or not all(isinstance(arm, str) and arm for arm in arms) or len({*arms}) < len(arms):
        raise InvalidParameter("arms", arms, "a list of different names")
    sections["program"].pop("kind", None)
    asked = dict(sections["program"])
    parameters = {"kind": kind} | BUILDERS[kind](sections, arms)
    running = program(parameters)
    _check_taken(running, asked)
    mechanisms = [mechanism for turn in running.wanted for _, mechanism in turn.batches]
    if not mechanisms:
        raise CroupierError("the program wants no batch at all: is the horizon shorter than the smallest batch?")
    recipe = mechanisms[0].recipe | {"smallest": min(mechanism.users for mechanism in mechanisms)}
    deadline = sections["batches"].get("deadline", None if kind == "counter" else DEADLINE)
    if kind == "counter" and deadline is not None:
        raise InvalidParameter("batches.deadline", deadline, "left out: a counter's levels must have the same users")
    privacy = _privacy(sections["privacy"], parameters, running, mechanisms)
    return Plan(name, title or name, tuple(arms), parameters, recipe, privacy, deadline)


def check_length(found: Plan, suite: str) -> None:
    """Refuse an experiment whose uploads would be longer than a front takes."""
    for turn in found.program().wanted:
        overhead = SUITES[suite].overhead
        shapes = (mechanism.shape for _, mechanism in turn.batches)
        length = upload_bytes(((one.slots, one.length + overhead) for one in shapes), overhead)
        if length > LONGEST_UPLOAD:
            raise CroupierError(f"{found.name}: an upload would have {length:,} bytes, at most {LONGEST_UPLOAD:,}")


def _check_taken(running: Program, asked: Section) -> None:
    """Refuse an option that the policy would leave unread."""
    for key, kind in TAKEN_BY.items():
        if isinstance(running, BanditProgram) and key in asked and not isinstance(running.session.policy, kind):
            name = running.session.policy.name
            raise InvalidParameter(f"program.{key}", asked[key], f"left out: {name} does not use it")


def _privacy(given: Section, parameters: Section, running: Program, mechanisms: list[Mechanism]) -> Privacy:
    """The promise for one turn, checked against what the mechanisms, as they are sent, really cost."""
    epsilon = float(parameters["epsilon"])
    if isinstance(running, CounterProgram):
        delta = running.plan.delta
        loss = Loss.total(mechanism.sent_loss for mechanism in mechanisms)
    else:
        delta, loss = max(mechanism.guarantee.delta for mechanism in mechanisms), mechanisms[0].sent_loss
    if any(mechanism.shape.cap is not None for mechanism in mechanisms):
        # The share that was kept back for the limit on the noise.
        delta *= 1.0 + CAP_SHARE
    found = loss.delta(epsilon)
    if found > delta * (1.0 + 1e-8):
        raise CroupierError(f"a turn costs δ = {found:.3g} at ε = {epsilon:g}, and {delta:.3g} can be promised")
    return Privacy(
        epsilon,
        float(delta),
        float(parameters["honest_fraction"]),
        given.get("unit", UNIT),
        given.get("period", PERIOD),
    )


def _target(sections: dict[str, Section], *, counted: bool) -> Section:
    """ε, δ and γ as a program takes them; of a counted message's δ a share is kept back for the limit on its noise."""
    given = sections["privacy"]
    target: Section = {
        "epsilon": given.get("epsilon", 1.0),
        "honest_fraction": given.get("honest_fraction", HONEST),
        "front_noise": given.get("front_noise", True),
    }
    if counted:
        target["delta"] = given.get("delta", DEFAULT_DELTA) / (1.0 + CAP_SHARE)
    elif "delta" in given:
        target["delta"] = given["delta"]
    return target


def _sum(sections: dict[str, Section]) -> tuple[str, Section]:
    """The protocol that sums a batch, and its options."""
    reward = sections["reward"]
    name = reward.pop("protocol", "shuffled-laplace")
    row = ROWS.find(name)
    if row.trust != "shuffler" or row.vectors:
        carried = [one.name for one in ROWS.values() if one.trust == "shuffler" and not one.vectors]
        raise InvalidParameter("protocol", name, "one that a front carries: " + ", ".join(carried))
    # Who gives a range of their own means numbers within it, unless they say otherwise.
    binary = reward.pop("binary", row.binary_only or not {"low", "high"} & reward.keys())
    if row.binary_only and not binary:
        raise InvalidParameter("reward.binary", binary, f"true: {name} sums one of two values")
    return name, _target(sections, counted=row.caps_noise) | reward | ({} if row.binary_only else {"binary": binary})


def _smallest(sections: dict[str, Section], name: str, options: Section, key: str) -> Section:
    """The smallest batch under the name that the program knows it by; one that the protocol cannot hide is refused."""
    given = sections["batches"].get("smallest")
    if given is None:
        return {}
    least, fraction = protocol(name, **options).smallest, options["honest_fraction"]
    if given < least:
        allowed = f"a whole number >= {least}, the smallest batch of {name} at honest_fraction = {fraction:g}"
        raise InvalidParameter("batches.smallest", given, allowed)
    return {key: given}


def _bandit(sections: dict[str, Section], arms: list[str]) -> Section:
    given = sections["program"]
    if len(arms) < 2:
        raise InvalidParameter("arms", arms, "at least two names")
    name, options = _sum(sections)
    chosen = {"name": given.pop("policy", "dp-klucb"), "arms": len(arms), "protocol_name": name}
    return chosen | given | options | _smallest(sections, name, options, "smallest")


def _counter(sections: dict[str, Section], arms: list[str]) -> Section:
    if arms:
        raise InvalidParameter("arms", arms, "left out: a counter has none")
    if sections["reward"].get("low", 0) != 0:
        raise InvalidParameter("reward.low", sections["reward"]["low"], "0 or left out: a counter's values begin there")
    name, options = _sum(sections)
    # A counter knows its smallest batch by this name.
    options.pop("low", None)
    return {"over": name} | sections["program"] | options | _smallest(sections, name, options, "low")


def _histogram(sections: dict[str, Section], arms: list[str]) -> Section:
    if arms or sections["reward"]:
        raise InvalidParameter("arms", arms, "left out, as rewards are: a histogram counts items")
    if "smallest" in sections["batches"]:
        smallest = sections["batches"]["smallest"]
        raise InvalidParameter("batches.smallest", smallest, "left out: the users of a round are its batch")
    given = sections["program"]
    if ("items" in given) == ("universe" in given):
        raise InvalidParameter("program", sorted(given), "users, and either items or a universe")
    universe = given.pop("universe", None) or {"kind": "items", "names": given.pop("items")}
    return {"universe": universe} | given | _target(sections, counted=True)


BUILDERS: dict[str, Callable[[dict[str, Section], list[str]], Section]] = {
    "bandit": _bandit,
    "counter": _counter,
    "histogram": _histogram,
}
"""How each kind of experiment is turned into its program's parameters."""
