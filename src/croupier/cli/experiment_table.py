"""How an experiment stands, in a terminal: as one table, or live while users take their turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from croupier.cli.tables import build, console, number, table
from croupier.texts import plural

if TYPE_CHECKING:
    from rich.console import Group

LOOK_SECONDS = 0.5
SAY_SECONDS = 5.0


def print_standing(state: dict[str, Any]) -> None:
    """Print what is known so far."""
    console().print(standing(state))


def print_outcomes(experiment: str, outcomes: dict[str, int]) -> None:
    """Print what became of simulated users."""
    rows = [[what, f"{count:,}"] for what, count in sorted(outcomes.items())]
    table(["users", "how many"], rows, right={1}, title=f"what became of the users of {experiment}")


def standing(state: dict[str, Any]) -> Group | str:
    """An experiment's arms, or its estimate."""
    program = state["program"]
    if "control" in program:
        return _compared(state)
    if "coefficients" in program:
        return _learnt(state)
    if "arms" not in program:
        estimate = program.get("estimate")
        told = "" if estimate is None else f", estimate {estimate:.1f}"
        return f"{plural(program['users'], 'user')} so far{told}"
    rows = [
        [
            state["arms"][arm["arm"]],
            f"{arm['users']:,}",
            number(arm["mean"], 3) if arm["batches"] else "–",
            f"[{arm['lower']:.3f}, {arm['upper']:.3f}]",
            arm["standing"],
        ]
        for arm in program["arms"]
    ]
    return build(["arm", "users", "mean", "95 % at all times", "standing"], rows, right={1, 2}, title=_title(state))


def _learnt(state: dict[str, Any]) -> Group | str:
    """Who chooses what in a personalised experiment, what each action depends on, and what is gained."""
    from rich.console import Group
    from rich.text import Text

    program = state["program"]
    if not program["choices"]:
        return f"{_title(state)}: nothing is known yet, and devices choose at random"
    chosen = [
        [row.get("action", "all"), f"{row['share']:.0%}", f"[{row['lower']:.0%}, {row['upper']:.0%}]"]
        + [f"{row[f'mean_{name}']:.4g}" for name in program["features"]]
        for row in program["choices"]
    ]
    headings = ["action", "users", "95 %", *(f"mean {name}" for name in program["features"])]
    known = [[row.get("action", "all"), row["coefficient"], *_effect(row)] for row in program["coefficients"]]
    parts: list[Any] = [build(headings, chosen, right={*range(1, len(headings))}, title=_title(state))]
    if any(row["known"] for row in program["coefficients"]):
        parts += [build(["action", "coefficient", "one more changes", "95 % at all times"], known, right={2, 3})]
    else:
        parts += [Text("Nothing is known of the coefficients yet: every interval is as wide as rewards allow.")]
    gain = program["gain"]
    said = gain["sentence"] if gain else "what is gained is known after two batches"
    parts += [Text(said[0].upper() + said[1:] + ".")]
    return Group(*parts, *([Text(program["caveat"])] if program["caveat"] else []))


def _effect(row: dict[str, Any]) -> list[str]:
    """What one more of a feature changes, and its interval."""
    if not row["known"]:
        return ["–", "nothing is known yet"]
    return [f"{row['value']:+.4g}", f"[{row['lower']:+.4g}, {row['upper']:+.4g}]"]


def _title(state: dict[str, Any]) -> str:
    ended = "finished" if state["finished"] else "standing still" if state.get("stalled") else "running"
    return f"{state['title']} ({state.get('standing', ended)}, {said(state)})"


def _compared(state: dict[str, Any]) -> Group:
    """Arms beside their control, and what may be said."""
    from rich.console import Group
    from rich.text import Text

    program, curve, control = state["program"], state["curve"], state["program"]["control"]
    low, high = state["values"]["low"], state["values"]["high"]
    scale, unit = (100.0, "points") if (low, high) == (0, 1) else (high - low, "")

    def odds(arm: int) -> str:
        return f"{state['odds'][arm] if arm < len(state['odds']) else 0.0:.0%}"

    def difference(arm: int) -> list[str]:
        if arm == control:
            return ["control", ""]
        # An arm that was added since has no place in the last point.
        if not curve or arm >= len(curve[-1]["difference"]) or curve[-1]["difference"][arm] is None:
            return ["–", ""]
        ends = [curve[-1][key][arm] for key in ("lower", "upper")]
        shown = [f"{scale * end:+.1f}" if end is not None else "?" for end in ends]
        return [f"{scale * curve[-1]['difference'][arm]:+.1f}", f"[{shown[0]}, {shown[1]}]"]

    rows = [
        [state["arms"][arm["arm"]], arm["standing"], f"{arm['users']:,}", odds(arm["arm"]), *difference(arm["arm"])]
        for arm in program["arms"]
    ]
    interval = f"{state['decision']['confidence']:.0%} at every look"
    headings = ["arm", "standing", "reports", "odds", f"{unit} to control".strip(), interval]
    table = build(headings, rows, right={2, 3, 4}, title=_title(state))
    said = [state["decision"]["sentence"], state["decision"]["tipping_sentence"]]
    return Group(table, *_metrics(state), *(Text(sentence) for sentence in said if sentence))


def _metrics(state: dict[str, Any]) -> list[Any]:
    """Every metric with every arm, where a report has several."""
    rows = state["program"].get("metrics", ())
    if not rows:
        return []

    def said(row: dict[str, Any]) -> list[str]:
        if row["difference"] is None:
            return ["–", ""]
        return [f"{row['difference']:+.3g}", f"[{row['lower']:+.3g}, {row['upper']:+.3g}]"]

    cells = [
        [row["metric"], state["arms"][row["arm"]], *said(row), row["state"] or row["role"], f"{row['margin'] or ''}"]
        for row in rows
    ]
    headings = ["metric", "arm", "to control", "at every look", "standing", "margin"]
    return [build(headings, cells, right={2, 5}, title="Metrics, each in its own unit")]


def said(state: dict[str, Any]) -> str:
    """The counts, in a few words; what has come is told in steps, and what counts at the end exactly."""
    reports = state["reports"] if state["finished"] else state["accepted"]
    return f"{plural(reports, 'report')} of {plural(max(state['assigned'], reports), 'turn')}"


def watched(work: Callable[[], dict[str, int]], look: Callable[[], dict[str, Any]]) -> dict[str, int]:
    """Let users take their turns in the background, and show how the experiment stands until they are done."""
    outcomes: dict[str, int] = {}
    failures: list[BaseException] = []

    def background() -> None:
        try:
            outcomes.update(work())
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=background, daemon=True)
    thread.start()
    _watch(thread, look)
    if failures:
        raise failures[0]
    return outcomes


def _watch(thread: Thread, look: Callable[[], dict[str, Any]]) -> None:
    if not sys.stdout.isatty():
        began = time.monotonic()
        while thread.is_alive():
            thread.join(SAY_SECONDS)
            print(f"{time.monotonic() - began:4.0f} s   {said(look())}", flush=True)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(standing(look()), console=Console(), transient=True, refresh_per_second=4) as live:
        while thread.is_alive():
            thread.join(LOOK_SECONDS)
            live.update(standing(look()))
