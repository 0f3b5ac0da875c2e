"""An experiment as its owner writes it down: a TOML file, read into a plan that everything else follows from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from croupier.bandits import POLICIES
from croupier.checks import CroupierError, InvalidParameter, unknown
from croupier.messages.admission import Admission
from croupier.messages.configuration import NAME, Configuration, Privacy, Reports, ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.shares import upload_length
from croupier.messages.validity import NOT_PROVED, Validity
from croupier.messages.wire import LONGEST_UPLOAD
from croupier.privacy import Loss
from croupier.programs import KINDS, Program, program
from croupier.programs.sections import SECTIONS, Section, checked, text
from croupier.protocols import ROWS, Mechanism
from croupier.protocols.padding import CAP_SHARE
from croupier.service.settings import read_toml
from croupier.texts import check_words

UNIT = "one installation of the app"
PERIOD = 86_400
DEADLINE = 3600.0
REPORT_WITHIN = 86_400
REPORT_AT = (300.0, 600.0)
NO_PROOFS = {
    "devices": "a report holds noise, which a proof of its range would have to cut, and with it privacy without a δ",
    "shuffler": "messages are opened one by one, and nobody knows which of them are one report",
    "nobody": "a report holds noise, which a proof of its range would have to cut, and with it privacy without a δ",
}
"""Why reports under these trusts prove nothing."""


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
    validity: str
    reports: Reports
    privacy: Privacy
    deadline: float | None
    public: bool = True
    """Whether everybody may see how it stands; else operators alone."""
    source: dict[str, Any] = field(default_factory=dict)
    """What it was made from: the same contents give the same plan."""

    def program(self) -> Program:
        """A fresh run of the program."""
        return program(self.parameters)

    def configuration(
        self,
        revision: int,
        arms: tuple[str, ...],
        site: Site,
        retired: tuple[int, ...] = (),
        proof_key: bytes | None = None,
        chosen: int | None = None,
    ) -> Configuration:
        """The public configuration, to be signed; `retired` arms are shown to nobody any more, a `chosen` one to all.

        `proof_key` is what the servers check proofs with, where reports come with any.
        """
        validity = NOT_PROVED
        if self.validity == "prio3":
            assert proof_key is not None
            validity = Validity.checked_with(proof_key)
        promise = (self.parameters, self.recipe, self.trust, self.reports, self.privacy, site.admission, validity)
        servers = (site.suite, site.keys, site.urls)
        rarely = (retired, chosen, self.public)
        return Configuration(self.name, revision, self.title, arms, *promise, *servers, *rarely)


def read_plan(path: str) -> Plan:
    """Read an experiment's file; whatever is wrong with it is said in one line that names the file."""
    body = read_toml(path)
    try:
        admit(body)
        return plan(body)
    except CroupierError as error:
        raise CroupierError(f"{path}: {error}") from None


def admit(body: dict[str, Any]) -> None:
    """Import what the owner of a file on this machine names as `module:name`."""
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
        return replace(_plan(dict(body)), source=body)
    except (ArithmeticError, MemoryError) as error:
        raise CroupierError(f"no mechanism can be planned with numbers this extreme ({error})") from None


def _kind(given: object) -> str:
    """The kind of program that a file asks for: as it says, or as its policy is run."""
    if not isinstance(given, dict):
        return "bandit"
    kind = given.get("kind")
    if kind is not None and "policy" not in KINDS.find(kind, "program.kind").schema:
        return str(kind)
    # A misspelt policy is said before anything that would follow from it.
    asked = POLICIES.find(given.get("policy", "dp-klucb"), "program.policy")
    return str(kind or ("comparison" if asked.in_blocks else "bandit"))


def _name(given: object) -> str:
    if given is None:
        raise CroupierError('name is missing: an experiment begins with its name, as name = "onboarding"')
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise InvalidParameter("name", given, "1 to 63 small letters, digits and hyphens")
    return given


def _plan(body: dict[str, Any]) -> Plan:
    name, given = _name(body.pop("name", None)), body.pop("program", {})
    kind = _kind(given)
    chosen = KINDS.find(kind, "program.kind")
    sections = {name: checked(name, body.pop(name, {}), checks) for name, checks in SECTIONS.items()}
    sections["program"] = checked("program", given, {"kind": text} | chosen.schema)
    if chosen.needed is not None and chosen.needed not in sections["program"]:
        raise InvalidParameter(f"program.{chosen.needed}", None, "given: how many users there are at most")
    sections["metrics"] = body.pop("metrics", {})
    if not isinstance(sections["metrics"], dict):
        raise InvalidParameter("metrics", sections["metrics"], "tables by name, as [metrics.finished]")
    if "control" in body:
        sections["decision"]["control"] = body.pop("control")
    read_by_deciders = sections["decision"] | ({"metrics": sorted(sections["metrics"])} if sections["metrics"] else {})
    if read_by_deciders and not chosen.decides:
        key, value = next(iter(read_by_deciders.items()))
        decided = ", ".join(entry.name for entry in POLICIES.values() if entry.in_blocks)
        raise InvalidParameter(key, value, f"left out: nothing is decided here; policies that decide: {decided}")
    title, arms = body.pop("title", ""), body.pop("arms", [])
    public = body.pop("public", True)
    if body:
        known = ("name", "title", "public", "arms", "control", "program", "metrics", *SECTIONS)
        raise unknown("key", next(iter(body)), known)
    check_words("title", title)
    if not isinstance(public, bool):
        raise InvalidParameter("public", public, "true or false")
    if not isinstance(arms, list) or not all(check_words("arms", arm) for arm in arms) or len({*arms}) < len(arms):
        raise InvalidParameter("arms", arms, "a list of different names")
    sections["program"].pop("kind", None)
    asked = dict(sections["program"])
    parameters = {"kind": kind} | chosen.parameters(sections, arms)
    running = _started(parameters, asked)
    mechanisms = [mechanism for turn in running.wanted for _, mechanism in turn.batches]
    if not mechanisms:
        raise CroupierError("the program wants no batch at all: is the horizon shorter than the smallest batch?")
    recipe = mechanisms[0].recipe | {"smallest": running.smallest}
    deadline = sections["batches"].get("deadline", DEADLINE if chosen.expires else None)
    if deadline is not None and not chosen.expires:
        raise InvalidParameter("batches.deadline", deadline, f"left out: a {kind}'s levels must have the same users")
    privacy = _privacy(sections["privacy"], parameters, running)
    # Whose reports repeat is not one among independent ones, as decisions take them.
    reports = _reports({"repeat": not chosen.decides} | sections["reports"], running)
    trust, validity = mechanisms[0].trust, _validity(sections["reports"], mechanisms[0])
    promised = (parameters, recipe, trust, validity, reports, privacy)
    return Plan(name, title or name, tuple(arms), *promised, deadline, public)


def _started(parameters: dict[str, Any], asked: Section) -> Program:
    """A run of the program; what it refuses of its section of the file is named by its place there."""
    try:
        return program(parameters)
    except InvalidParameter as error:
        if error.name in asked:
            raise InvalidParameter(f"program.{error.name}", error.value, error.allowed) from None
        raise


def check_length(plan: Plan, suite: str) -> None:
    """Refuse an experiment whose uploads would be longer than a front takes."""
    for turn in plan.program().wanted:
        batches = tuple(Batch.of(number, bytes(32), mechanism) for number, mechanism in turn.batches)
        offer = Offer(plan.name, bytes(32), turn.number, turn.arm, batches)
        length = upload_length(offer, suite, proved=plan.validity == "prio3")
        if length > LONGEST_UPLOAD:
            raise CroupierError(f"{plan.name}: an upload would have {length:,} bytes, at most {LONGEST_UPLOAD:,}")


def _reports(given: Section, running: Program) -> Reports:
    """When devices report, and what where nothing came of a turn: the lowest value, unless the experiment says."""
    within = given.get("report_within", REPORT_WITHIN)
    at = given.get("report_at", [min(end, within) for end in REPORT_AT])
    default = given.get("default", running.least_outcome)
    running.check_outcome(default)
    return Reports(within, tuple(at), default, given["repeat"])


def _validity(given: Section, mechanism: Mechanism) -> str:
    """Whether reports prove that they are in range: wherever two servers can check it, unless the experiment says."""
    said = given.get("validity")
    if mechanism.trust != "two-servers":
        if said == "prio3":
            why = NO_PROOFS[mechanism.trust]
            raise InvalidParameter("reports.validity", said, f"none where the trust is {mechanism.trust}: {why}")
        return "none"
    if said != "none" and mechanism.prio3 is None:
        raise InvalidParameter("reports.validity", said, "none: reports of this kind cannot be proved to be in range")
    return said or "prio3"


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
