"""An experiment as its owner writes it down: a TOML file, read into a plan that everything else follows from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.bandits import POLICIES
from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.admission import Admission
from croupier.messages.configuration import NAME, Configuration, Privacy, Reports, ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.shares import upload_length
from croupier.messages.wire import LONGEST_UPLOAD
from croupier.privacy import Loss
from croupier.programs import KINDS, Program, program
from croupier.programs.sections import SECTIONS, Section, checked, text
from croupier.protocols import ROWS, Mechanism
from croupier.protocols.padding import CAP_SHARE
from croupier.service.settings import read_toml

UNIT = "one installation of the app"
PERIOD = 86_400
DEADLINE = 3600.0
REPORT_WITHIN = 86_400
REPORT_AT = (300.0, 600.0)


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
    trust: str
    reports: Reports
    privacy: Privacy
    deadline: float | None

    def program(self) -> Program:
        """A fresh run of the program."""
        return program(self.parameters)

    def configuration(
        self, revision: int, arms: tuple[str, ...], site: Site, retired: tuple[int, ...] = ()
    ) -> Configuration:
        """The public configuration, to be signed; `retired` arms are shown to nobody any more."""
        promise = (self.parameters, self.recipe, self.trust, self.reports, self.privacy, site.admission)
        servers = (site.suite, site.keys, site.urls)
        return Configuration(self.name, revision, self.title, arms, *promise, *servers, retired=retired)


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
    for section, key, registry in (
        ("reward", "protocol", ROWS),
        ("program", "policy", POLICIES),
        ("program", "kind", KINDS),
    ):
        given = body.get(section)
        if isinstance(given, dict):
            registry.admit(given.get(key))


def plan(body: dict[str, Any]) -> Plan:
    """Make a plan of a file's contents.

    >>> five = plan({"name": "colours", "arms": ["red", "green"], "program": {"horizon": 1000}})
    >>> five.recipe["protocol"], five.recipe["smallest"], five.privacy.epsilon
    ('laplace', 32, 1.0)
    """
    try:
        return _plan(dict(body))
    except (ArithmeticError, MemoryError) as error:
        raise CroupierError(f"no mechanism can be planned with numbers this extreme ({error})") from None


def _plan(body: dict[str, Any]) -> Plan:
    given = body.pop("program", {})
    kind = given.get("kind", "bandit") if isinstance(given, dict) else "bandit"
    chosen = KINDS.find(kind)
    sections = {name: checked(name, body.pop(name, {}), checks) for name, checks in SECTIONS.items()}
    sections["program"] = checked("program", given, {"kind": text} | chosen.schema)
    if chosen.needed not in sections["program"]:
        raise InvalidParameter(f"program.{chosen.needed}", None, "given: how many users there are at most")
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
    parameters = {"kind": kind} | chosen.parameters(sections, arms)
    running = program(parameters)
    running.check_read(asked)
    mechanisms = [mechanism for turn in running.wanted for _, mechanism in turn.batches]
    if not mechanisms:
        raise CroupierError("the program wants no batch at all: is the horizon shorter than the smallest batch?")
    recipe = mechanisms[0].recipe | {"smallest": min(mechanism.users for mechanism in mechanisms)}
    deadline = sections["batches"].get("deadline", DEADLINE if chosen.expires else None)
    if deadline is not None and not chosen.expires:
        raise InvalidParameter("batches.deadline", deadline, f"left out: a {kind}'s levels must have the same users")
    privacy = _privacy(sections["privacy"], parameters, running)
    reports = _reports(sections["reports"], mechanisms[0])
    trust = mechanisms[0].trust
    return Plan(name, title or name, tuple(arms), parameters, recipe, trust, reports, privacy, deadline)


def check_length(plan: Plan, suite: str) -> None:
    """Refuse an experiment whose uploads would be longer than a front takes."""
    for turn in plan.program().wanted:
        batches = tuple(Batch.of(number, bytes(32), mechanism) for number, mechanism in turn.batches)
        length = upload_length(Offer(plan.name, bytes(32), turn.number, turn.arm, batches), suite)
        if length > LONGEST_UPLOAD:
            raise CroupierError(f"{plan.name}: an upload would have {length:,} bytes, at most {LONGEST_UPLOAD:,}")


def _reports(given: Section, mechanism: Mechanism) -> Reports:
    """When devices report, and what where nothing came of a turn: the lowest value, unless the experiment says."""
    within = given.get("report_within", REPORT_WITHIN)
    at = given.get("report_at", [min(end, within) for end in REPORT_AT])
    default = given.get("default", mechanism.extremes[0])
    mechanism.check_value(default)
    return Reports(within, tuple(at), default)


def _privacy(given: Section, parameters: Section, running: Program) -> Privacy:
    """The promise for one turn, checked against what the mechanisms, as they are sent, really cost."""
    epsilon, delta = running.epsilon, running.delta
    mechanisms = [mechanism for _, mechanism in running.wanted[0].batches]
    loss = Loss.total(mechanism.sent_loss for mechanism in mechanisms)
    if any(mechanism.shape.cap is not None for mechanism in mechanisms):
        # The share that was kept back for the limit on the noise.
        delta *= 1.0 + CAP_SHARE
    cost = loss.delta(epsilon)
    if cost > delta * (1.0 + 1e-8):
        raise CroupierError(f"a turn costs δ = {cost:.3g} at ε = {epsilon:g}, and {delta:.3g} can be promised")
    return Privacy(
        epsilon,
        float(delta),
        float(parameters.get("honest_fraction", 0.0)),
        given.get("unit", UNIT),
        given.get("period", PERIOD),
    )
