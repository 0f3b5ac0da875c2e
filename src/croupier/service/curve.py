"""How an experiment went: a few points of its past, evenly spread, however long its log is."""

from __future__ import annotations

from typing import Any

MOST = 128
SHOWN = ("mean", "lower", "upper", "users", "odds", "lift", "lift_lower", "lift_upper")
"""What a point holds of an arm, as far as its program shows it."""

Point = dict[str, Any]


class Curve:
    """At most so many points; when there are too many, every second goes. Those that would not stay are not made.

    >>> curve = Curve(4)
    >>> for number in range(9):
    ...     if curve.due():
    ...         curve.add({"record": number})
    >>> [point["record"] for point in curve.points]
    [0, 4, 8]
    """

    def __init__(self, most: int = MOST) -> None:
        self.most, self.points = most, list[Point]()
        self._stride, self._count = 1, -1

    def due(self) -> bool:
        """Whether the next moment is one to be remembered."""
        self._count += 1
        return self._count % self._stride == 0

    def add(self, point: Point) -> None:
        self.points.append(point)
        if len(self.points) == self.most:
            self.points, self._stride = self.points[::2], 2 * self._stride


def point(when: Point, shown: dict[str, Any]) -> Point:
    """A moment of an experiment whose program shows this: for each arm what is known of it, as short lists.

    >>> point({"record": 7}, {"arms": [{"arm": 0, "mean": 0.5, "lower": 0.4, "upper": 0.6, "batches": 1}]})
    {'record': 7, 'mean': [0.5], 'lower': [0.4], 'upper': [0.6]}
    """
    arms = shown.get("arms", [])
    known = [key for key in SHOWN if arms and key in arms[0]]
    # An arm that nobody has reported on has no mean.
    return when | {key: [arm.get(key) if arm.get("batches", 1) else None for arm in arms] for key in known}
