"""What a batch asks of a device, as far as the device needs to know it.

Where both servers add Laplace noise to a number, or to several by name, that is little arithmetic: `LaplaceNumber` and
`LaplaceNumbers` do it without NumPy, so that an app need not install it. All else is read by `croupier.protocols`.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, Self

from croupier.checks import CroupierError, InvalidParameter, finite, integer
from croupier.privacy.guarantee import Guarantee
from croupier.protocols.padding import Shape
from croupier.protocols.sums.named import MOST, each
from croupier.validity import Prio3, prio3_number, prio3_sum_vec
from croupier.validity.fields import FIELD64, FIELD128
from croupier.validity.shares import FIELDS, Ring

if TYPE_CHECKING:
    from croupier.noise import Source

WIDEST = 2**20
"""A larger scale is not read here."""
SAID = {"noise_from": "servers", "side": "unbiased", "carrier": {"kind": "shared", "field": FIELD64.name}}
"""What the text of such a number says, beside its own numbers."""
OWN = {"protocol", "constants", "users", "honest", "values", "precision", "share", "guarantee"}


class Asked(Protocol):
    """What a device must know of a mechanism; `croupier.protocols.Mechanism` says what each of these is."""

    @property
    def trust(self) -> str: ...
    @property
    def users(self) -> int: ...
    @property
    def honest(self) -> int: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def recipe(self) -> dict[str, Any]: ...
    @property
    def checkable(self) -> bool: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def outputs(self) -> int | None: ...
    @property
    def ring(self) -> Ring | None: ...
    @property
    def prio3(self) -> Prio3 | None: ...
    @property
    def fits_any_batch(self) -> bool: ...
    def check_value(self, value: object) -> None: ...
    def secret(self, value: object, source: Any) -> list[int]: ...


class Plain:
    """What a device needs no NumPy for: in shares between two servers, each of which adds enough noise."""

    trust = "two-servers"
    honest = 0
    checkable = fits_any_batch = True

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self | None:
        """What a mechanism's data says; None where it is anything else, or has anything odd about it."""
        try:
            return cls._read(body)
        except (CroupierError, KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
            return None

    @classmethod
    @abstractmethod
    def _read(cls, body: dict[str, Any]) -> Self | None: ...


@dataclass(frozen=True)
class LaplaceNumber(Plain):
    """A number between `low` and `high` in shares, to which each of two servers adds discrete Laplace noise.

    >>> from croupier.protocols import laplace
    >>> number = LaplaceNumber.read(laplace(epsilon=0.5, trust="two-servers").plan(users=100).to_dict())
    >>> number.epsilon
    Fraction(1, 2)
    """

    recipe: dict[str, Any]
    users: int
    guarantee: Guarantee
    low: float
    high: float
    binary: bool
    clip: bool
    precision: int
    scale: Fraction

    outputs = None
    ring = FIELDS[FIELD64.name]
    shape = Shape(1, ring.size, 0)

    @classmethod
    def _read(cls, body: dict[str, Any]) -> Self | None:
        if body.keys() != OWN | SAID.keys() | {"version"} or any(body[key] != said for key, said in SAID.items()):
            return None
        values, share = dict(body["values"]), dict(body["share"])
        ours = values.pop("kind") == "range" and share.pop("family") == "DiscreteLaplace"
        if not ours or body["version"] != 1 or body["constants"] not in ("tight", "published", "proof"):
            return None
        if not isinstance(body["protocol"], str) or not all(
            isinstance(values[key], bool) for key in ("binary", "clip")
        ):
            return None
        low, high = (float(finite(end, values[end])) for end in ("low", "high"))
        users = integer("users", body["users"], 1)
        integer("honest", body["honest"], 0, 0)
        guarantee = Guarantee.from_dict(body["guarantee"])
        odd = not low < high or not math.isfinite(high - low) or guarantee.notion != "pure" or guarantee.delta
        recipe = {key: body[key] for key in ("protocol", "constants", "values", "side", "precision", "carrier")}
        recipe |= {"front_noise": False, "noise_from": "servers"}
        precision = integer("precision", body["precision"], 1, 2**62 // users)
        number = cls(recipe, users, guarantee, precision=precision, scale=_scale(**share), **values | _ends(low, high))
        return None if odd or guarantee.participations > 1 or not 2**-9 <= number.scale <= WIDEST else number

    @property
    def prio3(self) -> Prio3:
        return prio3_number(self.precision)

    @property
    def epsilon(self) -> Fraction:
        """What a report in one batch costs, exactly: either server's noise alone hides a step of g by g/b."""
        return self.precision / self.scale

    def check_value(self, value: object) -> None:
        self._unit(value)

    def secret(self, value: object, source: Source | None) -> list[int]:
        """⌊xg⌋, and one more with exactly the probability of the fraction; `source` None: the system's own."""
        scaled = self._unit(value) * self.precision
        whole = math.floor(scaled)
        return [whole + coin(Fraction(scaled - whole), bits(source))]

    def _unit(self, value: object) -> float:
        """The value as a number in [0, 1], or a refusal."""
        allowed = f"a number in [{self.low:g}, {self.high:g}]"
        # NumPy's own truth values are no numbers to Python.
        if not isinstance(value, Number) and (type(value).__module__, type(value).__name__[:4]) != ("numpy", "bool"):
            raise InvalidParameter("value", value, "a number")
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise InvalidParameter("value", value, allowed) from None
        if math.isnan(number):
            raise InvalidParameter("value", number, allowed)
        if self.clip:
            number = min(max(number, self.low), self.high)
        if self.binary and number not in (self.low, self.high):
            raise InvalidParameter("value", number, f"{self.low:g} or {self.high:g}")
        if not self.low <= number <= self.high:
            raise InvalidParameter("value", number, allowed)
        return min(max((number - self.low) / (self.high - self.low), 0.0), 1.0)


@dataclass(frozen=True)
class LaplaceNumbers(Plain):
    """Several such numbers by name, in one vector of shares: each has a noise of its own, and all have as many levels.

    >>> from croupier.protocols import SeveralSums, laplace
    >>> plans = [laplace(epsilon=e, trust="two-servers").plan(users=100) for e in (0.75, 0.25)]
    >>> numbers = LaplaceNumbers.read(SeveralSums.of({"finished": plans[0], "minutes": plans[1]}).to_dict())
    >>> numbers.epsilon, numbers.outputs
    (Fraction(1, 1), 2)
    """

    names: tuple[str, ...]
    numbers: tuple[LaplaceNumber, ...]
    guarantee: Guarantee
    recipe: dict[str, Any]

    ring = FIELDS[FIELD128.name]

    @classmethod
    def _read(cls, body: dict[str, Any]) -> Self | None:
        ours = body.keys() == {"version", "kind", "names", "sums", "guarantee"}
        if not ours or (body["version"], body["kind"]) != (1, "SeveralSums"):
            return None
        names, read = tuple(body["names"]), [LaplaceNumber.read(one) for one in body["sums"]]
        numbers, guarantee = tuple(one for one in read if one is not None), Guarantee.from_dict(body["guarantee"])
        strings = all(isinstance(name, str) and name for name in names)
        alike = len({(one.users, one.precision) for one in numbers}) == 1
        odd = guarantee.notion != "pure" or guarantee.delta or guarantee.participations > 1
        if odd or not strings or not alike or len({*names}) != len(names) or not 2 <= len(names) <= MOST:
            return None
        parts = zip(names, numbers, strict=True)
        sums = [one.recipe | {"name": name, "epsilon": one.guarantee.epsilon} for name, one in parts]
        first = {key: numbers[0].recipe[key] for key in ("protocol", "values", "front_noise")}
        recipe = {"kind": body["kind"], "sums": sums} | first
        return cls(names, numbers, guarantee, recipe) if len(numbers) == len(read) else None

    @property
    def users(self) -> int:
        return self.numbers[0].users

    @property
    def outputs(self) -> int:
        return len(self.numbers)

    @property
    def shape(self) -> Shape:
        return Shape(1, self.ring.size * self.outputs, 0)

    @property
    def prio3(self) -> Prio3:
        return prio3_sum_vec(self.outputs, self.numbers[0].precision)

    @property
    def epsilon(self) -> Fraction:
        """What a report in one batch costs, exactly: all its numbers together."""
        return sum((one.epsilon for one in self.numbers), Fraction(0))

    def check_value(self, value: object) -> None:
        each(self.names, value, lambda place, number: self.numbers[place].check_value(number))

    def secret(self, value: object, source: Source | None) -> list[int]:
        found = each(self.names, value, lambda place, number: self.numbers[place].secret(number, source))
        return [number for (number,) in found]


def _ends(low: float, high: float) -> dict[str, float]:
    return {"low": low, "high": high}


def _scale(scale: object) -> Fraction:
    """A scale as a mechanism's text has it: a number, or a fraction of two whole ones."""
    if isinstance(scale, str):
        if len(scale) > 1000 or not re.fullmatch(r"[0-9]+(/[0-9]+)?", scale):
            raise ValueError("no fraction of whole numbers")
        return Fraction(scale)
    return Fraction(finite("scale", scale))


def bits(source: Source | None) -> Callable[[int], int]:
    """What draws so many random bits as a whole number: from a source's words, or from the system."""
    if source is None:
        import secrets

        return secrets.randbits

    def drawn(count: int) -> int:
        words = -(-count // 64)
        number = 0
        for word in source.words(words) if words else ():
            number = number << 64 | int(word)
        return number >> (64 * words - count)

    return drawn


def coin(probability: Fraction, draw: Callable[[int], int]) -> int:
    """One with exactly this probability, which has a power of two beneath it, as every double has.

    >>> coin(Fraction(3, 4), lambda count: 2), coin(Fraction(3, 4), lambda count: 3)
    (1, 0)
    """
    size = probability.denominator.bit_length() - 1
    return int(draw(size) < probability.numerator) if size else probability.numerator


def library() -> Any:
    """The module `croupier.protocols`, or one line that says how to get what it needs."""
    try:
        from croupier.protocols import everything
    except ImportError as error:
        raise CroupierError(f"this experiment needs {error.name} on the device: install croupier[library]") from None
    return everything
