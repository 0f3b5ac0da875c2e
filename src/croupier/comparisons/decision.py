"""A decision in words: what may be said of an experiment now, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NOTHING = "no decision"
IF_ANY = ("waits", "harms", "more")
"""What is told only where there is any."""
KINDS = ("better", "no difference", "leading", "no decision", "harmful")


@dataclass(frozen=True)
class Decision:
    """What may be said now. Differences are in units of a reward: 0.041 is 4.1 points.

    Parameters
    ----------
    kind : "better", "no difference" (larger than the margin), "leading" (not certain), "no decision", or "harmful":
        the control stays, since every other arm harms a guardrail.
    leader, reference : the two arms that are compared: the reference is the control, unless that leads. What was
        decided stays of the same two arms.
    difference, lower, upper : the leader's average difference to the reference, and its interval: until now, or until
        a decision that ended the comparison. Where a control stays beside the winner they go on with every block:
        where rates change, a difference that was shown may be gone.
    lift : the same three as shares of the reference's mean; None where that cannot be told.
    margin : the least difference worth finding.
    alike : the arms between which no difference is larger than that.
    confidence : of the interval, and of the decision.
    silent : whether the arms' reporting rates differ: then nothing is decided.
    tipping : how much worse, with the leader, the silent would have to be than with the reference for the sign of the
        lower bound to turn; None where it is not known who is silent.
    waits : the leader's guardrails that are not known to be safe, where nothing else is left to show.
    harms : the arms that were taken out because they harm a guardrail, and which.
    more : about how many more reports would decide it, if what was found so far stays: none where all is shown and only
        the minimum run is not over. None where that cannot be told.

    Examples
    --------
    >>> decision = Decision("better", 1, 0, 0.041, 0.012, 0.07)
    >>> decision.sentence(["A", "B"], "finishes")
    'B finishes more than A by 4.1 points (1.2 to 7.0; 95 % interval, valid at every look), among those who reported'
    """

    kind: str
    leader: int | None = None
    reference: int | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None
    lift: tuple[float, ...] | None = None
    margin: float | None = None
    alike: tuple[int, ...] = ()
    confidence: float = 0.95
    silent: bool = False
    tipping: float | None = None
    waits: tuple[str, ...] = ()
    harms: tuple[tuple[int, str], ...] = ()
    more: int | None = None

    def sentence(
        self, names: Sequence[str], verb: str = "scores", unit: str = "points", scale: float = 100.0, metric: str = ""
    ) -> str:
        """What to show. The `verb` is as in "B finishes more than A"; `scale` turns rewards into `unit`.

        Where the experiment names the `metric` that decides, so does the sentence.

        >>> Decision("no difference", 1, 0, 0.01, -0.02, 0.03, margin=0.05).sentence(["A", "B"], metric="finished")
        'finished: no difference larger than 5 points, among those who reported'
        """
        if self.silent:
            return "no decision: the arms do not report alike, so those who reported cannot be compared"
        said = self._said(names, verb, unit, scale)
        if metric and said != NOTHING and self.kind != "harmful":
            said = f"{metric}: {said}"
        if self.kind == "harmful" or not self.harms:
            return said
        return f"{said}; {_listed([f'{names[arm]} is out, since it harms {harmed}' for arm, harmed in self.harms])}"

    def _said(self, names: Sequence[str], verb: str, unit: str, scale: float) -> str:
        if self.kind == "harmful":
            harms = _listed([f"{names[arm]} harms {harmed}" for arm, harmed in self.harms])
            return f"{names[self.leader or 0]} stays: {harms}, among those who reported"
        if self.kind == "no decision" or self.leader is None or self.reference is None:
            return NOTHING
        if self.kind == "no difference":
            among = f" between {_listed([names[arm] for arm in self.alike])}" if self.alike else ""
            assert self.margin is not None
            margin = _short(scale * self.margin)
            one = unit.removesuffix("s") if margin == "1" else unit
            return f"no difference larger than {margin} {one}{among}, among those who reported"
        leader, reference = names[self.leader], names[self.reference]
        assert self.difference is not None
        assert self.lower is not None
        assert self.upper is not None
        ends = f"{scale * self.lower:.1f} to {scale * self.upper:.1f}"
        interval = f"({ends}; {100 * self.confidence:.4g} % interval, valid at every look)"
        by = f"{scale * self.difference:.1f} {unit} {interval}, among those who reported"
        if self.waits:
            known = f"it is not known yet that {leader} is safe in {_listed(self.waits)}"
            return f"not decided: {leader} {verb} more than {reference} by {by}, and {known}"
        if self.kind == "leading":
            return f"leading, not certain: {leader} before {reference} by {by}; {self._missing()}"
        if self.lower <= 0:
            return f"{leader} was chosen over {reference}, and until now the difference is {by}"
        # Who wins has shown that against every arm, and not only against what it is compared with.
        best = "; no other arm is better" if self.kind == "better" and len(names) > 2 and not self.harms else ""
        return f"{leader} {verb} more than {reference} by {by}{best}"

    def _missing(self) -> str:
        """What a leader lacks."""
        assert self.lower is not None
        if self.more == 0:
            return "all is shown that it takes, and it has not run for as long as it must"
        if self.more is not None:
            other = "another arm may as well be better; " if self.lower > 0 else ""
            return f"{other}about {_about(self.more)} more reports would decide it, if this stays so"
        open_ = "it may as well be worse" if self.lower < 0 else "another arm may as well be better"
        return f"{open_}, and too little is known to say how many more reports would decide it"

    def tipping_sentence(self, names: Sequence[str], unit: str = "points", scale: float = 100.0) -> str:
        """How different the silent would have to be; empty where nothing is decided or nobody is silent."""
        if self.tipping is None or self.kind != "better" or self.silent:
            return ""
        assert self.leader is not None
        assert self.reference is not None
        if self.tipping >= 1.0:
            return "whatever the silent did, the sign stays: no difference between them could be large enough"
        leader, reference = names[self.leader], names[self.reference]
        return (
            f"tipping point: the sign would flip if, among people who did not report, {leader} were at least "
            f"{scale * self.tipping:.1f} {unit} worse than {reference}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for pages and tables; of guardrails only what there is to say."""
        told = asdict(self) | {"alike": list(self.alike), "lift": self.lift and list(self.lift)}
        told |= {"waits": list(self.waits), "harms": [list(harm) for harm in self.harms]}
        return {key: value for key, value in told.items() if key not in IF_ANY or value not in (None, [])}


def _about(count: int) -> str:
    """Two digits: no more is known.

    >>> _about(3456), _about(87), _about(123456)
    ('3,500', '87', '120,000')
    """
    return f"{float(f'{count:.2g}'):,.0f}"


def _short(value: float) -> str:
    return f"{value:.4g}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(([", ".join(names[:-1])] if len(names) > 1 else []) + [names[-1]])
