"""What an experiment in blocks may claim, and what follows when it has."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.checks import between, integer, one_of, positive

THEN = ("stop", "exploit")


@dataclass(frozen=True)
class Terms:
    """What may be claimed, and what follows.

    Parameters
    ----------
    control : the arm that the others are compared with.
    confidence : how sure every claim is, all looks and all pairs of arms together.
    smallest_effect : the least difference worth finding, in units of a reward (0.05 is five points). It is planned
        for, and it is the margin of "no difference larger than". None: no margin, and nothing is planned.
    rate : what the control's mean is expected to be; None: anything.
    most_arms : how many arms there will ever be, if some are to come later: claims are for so many from the start.
    shares : how users are split, one number an arm; None: evenly. Only `split` reads it.
    then : "stop", or "exploit": once it is decided, everybody gets the winner.
    control_share : of those who come when the winner is exploited, so many stay with the control.

    Examples
    --------
    >>> Terms(smallest_effect=0.05, then="exploit", control_share=0.1).confidence
    0.95
    """

    control: int = 0
    confidence: float = 0.95
    smallest_effect: float | None = None
    rate: float | None = None
    most_arms: int = 2
    shares: tuple[float, ...] | None = None
    then: str = "stop"
    control_share: float = 0.0

    def __post_init__(self) -> None:
        integer("control", self.control, 0)
        between("confidence", self.confidence, 0, 1)
        if self.smallest_effect is not None:
            between("smallest_effect", self.smallest_effect, 0, 1)
        if self.rate is not None:
            between("rate", self.rate, 0, 1)
        integer("most_arms", self.most_arms, 2)
        if self.shares is not None:
            object.__setattr__(self, "shares", tuple(float(positive("shares", share)) for share in self.shares))
        one_of("then", self.then, THEN)
        between("control_share", self.control_share, 0, 1, "[)")
