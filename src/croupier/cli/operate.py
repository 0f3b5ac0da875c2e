"""`croupier start | pause | resume | stop | retire | add`: what operators ask of an experiment, or of one arm."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from croupier.checks import InvalidParameter
from croupier.cli.operator import add_analyzer, analyzer_of
from croupier.cli.options import print_json
from croupier.cli.serve import require_service
from croupier.cli.status import print_troubles, state_of

URL = "https://analyzer.example"


@dataclass(frozen=True)
class Wish:
    """A command that asks for one thing; it has what every command's module has."""

    NAME: str
    SUMMARY: str
    ABOUT: str
    arm: str = ""
    """Whether it is about an arm: "" for never, "may", "all", or "new" for one that is not there yet."""
    whole: str = ""
    """What is asked where no arm is named, if it has another name."""

    @property
    def EXAMPLES(self) -> tuple[str, ...]:  # noqa: N802
        whole = f"croupier {self.NAME} {URL} onboarding"
        named = f"croupier {self.NAME} {URL} onboarding video"
        ramped = f"{whole} plain=9 tour=1"
        return {"": (whole,), "may": (whole, named), "all": (ramped,)}.get(self.arm, (named,))

    def add(self, command: argparse.ArgumentParser) -> None:
        """Where, which experiment, and perhaps which arm."""
        add_analyzer(command)
        command.add_argument("experiment", metavar="NAME", help="which experiment")
        if self.arm == "may":
            command.add_argument("arm", metavar="ARM", nargs="?", help="which arm; without one, the whole experiment")
        elif self.arm == "all":
            command.add_argument(
                "shares", metavar="ARM=SHARE", nargs="+", help="a share for each arm, as plain=9 tour=1"
            )
        elif self.arm:
            command.add_argument("arm", metavar="ARM", help="the arm's name")

    def run(self, options: argparse.Namespace) -> int:
        """Ask, and say how the experiment stands."""
        require_service()
        arm = getattr(options, "arm", None)
        operation = self.whole if self.whole and arm is None else self.NAME
        body = {"operation": operation} | ({} if arm is None else {"name" if self.arm == "new" else "arm": arm})
        if self.arm == "all":
            body["shares"] = _shares(options.shares)
        analyzer = analyzer_of(options)
        answer = analyzer.post(f"/experiments/{options.experiment}/operations", body)
        if options.json:
            print_json([{"experiment": options.experiment} | body | answer])
        else:
            about = options.experiment if arm is None else f"{arm} of {options.experiment}"
            print(f"{operation} {about}: done; the experiment is {answer['standing']}")
            if answer["standing"] == "stalled":
                print_troubles(state_of(analyzer, options.experiment))
        return 0


def _shares(given: list[str]) -> dict[str, float]:
    """Arms and their shares, as `plain=9`."""
    shares: dict[str, float] = {}
    for one in given:
        arm, _, share = one.rpartition("=")
        try:
            shares[arm] = float(share)
        except ValueError:
            arm = ""
        if not arm:
            raise InvalidParameter("shares", one, "ARM=SHARE, an arm and a number, as plain=9")
    return shares


WISHES = (
    Wish("start", "start an experiment that was created", "Starts an experiment that was created: users may come."),
    Wish(
        "pause",
        "deal no more turns for now, or show an arm to nobody",
        "Pauses an experiment: nobody is dealt a turn, and reports of turns that were dealt still count. With an arm, "
        "that arm is shown to nobody for now.",
        "may",
    ),
    Wish("resume", "go on after a pause", "Ends the pause of an experiment, or of one arm.", "may"),
    Wish("stop", "end an experiment for good", "Ends an experiment for good. What was learned stays."),
    Wish(
        "retire",
        "take an arm out for good, or put an ended experiment away",
        "Takes an arm out for good. Without an arm it archives the experiment, which must have ended or never been "
        "started. It can still be read.",
        "may",
        "archive",
    ),
    Wish("add", "add an arm to an experiment", "Adds an arm to an experiment that runs.", "new"),
    Wish(
        "ramp",
        "change how users are split from now on",
        "Changes how users are split from now on, as when a new arm is first shown to few. A new epoch begins.",
        "all",
    ),
)
