"""How one arm of an experiment stands, in a word or two: the same on the page, in a terminal and in a file of rows."""

from __future__ import annotations

from typing import Any

from croupier.programs import Program

CHOSEN = {"better": "winner", "harmful": "stays"}
"""What the arm is called that a decision is for."""


def with_standing(program: Program) -> dict[str, Any]:
    """What a program shows, each of its arms with a word for how it stands."""
    shown = program.show()
    for row in shown.get("arms", ()):
        row["standing"] = arm_standing(row, shown, finished=program.finished, retired=row["arm"] in program.retired)
    return shown


def arm_standing(row: dict[str, Any], shown: dict[str, Any], *, finished: bool, retired: bool) -> str:
    """A word or two for one row of `shown["arms"]`.

    >>> rows = [{"arm": arm, "active": True, "paused": False, "batches": 3} for arm in range(2)]
    >>> shown = {"arms": rows, "best_arm": 1}
    >>> [arm_standing(row, shown, finished=True, retired=False) for row in rows]
    ['not chosen', 'best']
    """
    if not row["active"]:
        return "retired" if retired else "out"
    if row["paused"] and not finished:
        return "paused"
    if "decision" not in shown:
        if row["batches"] and row["arm"] == shown["best_arm"]:
            return "best" if finished else "best so far"
        return "not chosen" if finished else "in play"
    return _compared(row["arm"], shown, finished)


def _compared(arm: int, shown: dict[str, Any], finished: bool) -> str:
    """Where arms are compared: what was decided, or how it ended without that."""
    decision, odds = shown["decision"], shown["odds"]
    chosen = CHOSEN.get(decision["kind"])
    if chosen is not None and decision["leader"] == arm:
        return chosen
    if decision["kind"] == "no difference" and arm in decision["alike"]:
        return "no difference"
    # An arm that was added waits for its first odds.
    if arm < len(odds) and not odds[arm]:
        return "set aside"
    if not finished:
        return "in play"
    return "undecided" if chosen is None else "not chosen"
