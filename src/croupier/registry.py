"""Registries: things by name, from the package, from installed packages, and from a module that a person names.

An installed package offers things as entry points, in the groups `croupier.noises`, `croupier.protocols`,
`croupier.policies`, `croupier.worlds` and `croupier.programs`. They are read when a name is asked for that the package
itself does not have, and loaded when they are used.

Looking a name up never imports what the name says: a transcript or a server may hold any name. Only `admit` does, which
is for names that the person at this machine wrote, on a command line or in a file of their own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import is_dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from croupier.checks import CroupierError, InvalidParameter, did_you_mean
from croupier.frames import Rows

T = TypeVar("T")

OUTSIDE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""A name such as `my_module:my_policy`."""

Check = Callable[[Any, str], str | None]
"""What a thing of this name should have been, in a few words, or None if it is."""


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name; the package's own come first, and no other can take their names.

    >>> from croupier.bandits import POLICIES
    >>> POLICIES.find("dp-klucb").model
    'devices'
    >>> POLICIES.find("dp-klcub")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    croupier.checks.InvalidParameter: policy = 'dp-klcub' is not allowed: it must be one of ...; did you mean dp-klucb?
    >>> POLICIES  # doctest: +ELLIPSIS
    Registry(policy: dp-klucb, dp-imed, ...
    """

    def __init__(self, noun: str, group: str, own: Mapping[str, T], check: Check, base: Registry[T] | None = None):
        self.noun, self.group = noun, group
        self._own, self._check, self._base = dict(own), check, base
        self._added: dict[str, T] = {}
        self._offers: dict[str, list[EntryPoint]] | None = None

    def extended(self, more: Mapping[str, T]) -> Registry[T]:
        """This registry and more things, which it does not learn about."""
        return Registry(self.noun, self.group, more, self._check, self)

    def __repr__(self) -> str:
        """Every name, without loading what installed packages offer."""
        return f"{type(self).__name__}({self.noun}: {', '.join(self)})"

    def _repr_html_(self) -> str:
        return Rows({self.noun: name, "from": self._origin(name)} for name in self)._repr_html_()

    def _origin(self, name: str) -> str:
        """Whose it is, in words."""
        if name in self.own:
            return "croupier"
        if self._base is not None:
            return self._base._origin(name)
        return " and ".join(map(_owner, self._installed().get(name, []))) or "this process"

    def __getitem__(self, name: str) -> T:
        for known in (self._own, self._added):
            if name in known:
                return known[name]
        if self._base is not None:
            return self._base[name]
        offers = self._installed().get(name, []) if ":" not in name else []
        if not offers:
            raise KeyError(name)
        self._added[name] = self._checked(self._loaded(name, offers), name)
        return self._added[name]

    def __iter__(self) -> Iterator[str]:
        below = [] if self._base is None else list(self._base)
        offers = self._installed() if self._base is None else {}
        yield from dict.fromkeys([*below, *self._own, *offers, *self._added])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        below: Container[str] = self._installed() if self._base is None else self._base
        return name in self._own or name in self._added or name in below

    @property
    def own(self) -> tuple[str, ...]:
        """The names of what comes with the package."""
        return (*(() if self._base is None else self._base.own), *self._own)

    def find(self, name: object, parameter: str | None = None) -> T:
        """What a name stands for, or one line that says which name was meant."""
        if isinstance(name, str):
            try:
                return self[name]
            except KeyError:
                pass
        hint = "; module:name is imported only where you write it yourself" if ":" in str(name) else ""
        raise InvalidParameter(
            parameter or self.noun, name, "one of " + ", ".join(self) + did_you_mean(name, self) + hint
        )

    def add(self, name: str, thing: T) -> T:
        """Make a thing known by a name in this process.

        >>> from croupier.bandits import POLICIES
        >>> POLICIES.add("kl-ucb", POLICIES["dp-klucb"])
        Traceback (most recent call last):
        croupier.checks.CroupierError: policy 'kl-ucb': there is one by this name already
        """
        if name in self:
            raise CroupierError(f"{self.noun} {name!r}: there is one by this name already")
        if self._base is not None:
            return self._base.add(name, thing)
        self._added[name] = self._checked(thing, name)
        return self._added[name]

    def admit(self, name: Any) -> Any:
        """Import a thing that the person at this machine names as `module:name`; any other name stays as it is.

        The module may lie in the folder where the command runs. Worker processes admit again what they are given.
        """
        if not isinstance(name, str) or not OUTSIDE.fullmatch(name) or name in self._known():
            return name
        if os.getcwd() not in sys.path:
            # Last, so that a file there cannot stand in for a module of anybody else.
            sys.path.append(os.getcwd())
        module, _, path = name.partition(":")
        try:
            thing = import_module(module)
            for part in path.split("."):
                thing = getattr(thing, part)
        except (Exception, SystemExit) as error:
            raise CroupierError(f"{self.noun} {name!r} cannot be imported: {described(error)}") from error
        self._known()[name] = self._checked(cast(T, thing), name)
        return name

    def refused(self) -> list[str]:
        """What installed packages offer and cannot be used, a line each."""
        lines = [] if self._base is None else self._base.refused()
        for name, offers in self._installed().items() if self._base is None else ():
            if name in self._own:
                lines.append(f"{self.noun} {name!r} of {_owner(offers[0])} is left out: croupier's own has this name")
                continue
            try:
                self[name]
            except CroupierError as error:
                lines.append(str(error))
        return lines

    def usable(self) -> dict[str, T]:
        """Everything that can be used, by name."""
        usable = {}
        for name in self:
            try:
                usable[name] = self[name]
            except CroupierError:
                continue
        return usable

    def _known(self) -> dict[str, T]:
        return self._added if self._base is None else self._base._known()

    def _installed(self) -> dict[str, list[EntryPoint]]:
        if self._offers is None:
            self._offers = {}
            for offer in entry_points(group=self.group):
                self._offers.setdefault(offer.name, []).append(offer)
        return self._offers

    def _loaded(self, name: str, offers: list[EntryPoint]) -> T:
        if len({offer.value for offer in offers}) > 1:
            owners = " and ".join(_owner(offer) for offer in offers)
            raise CroupierError(f"{self.noun} {name!r} is offered by {owners}: uninstall one of them")
        try:
            return cast(T, offers[0].load())
        except (Exception, SystemExit) as error:
            raise CroupierError(f"{self.noun} {name!r} of {_owner(offers[0])} is broken: {described(error)}") from error

    def _checked(self, thing: T, name: str) -> T:
        wrong = self._check(thing, name)
        if wrong is not None:
            raise CroupierError(f"{self.noun} {name!r} is {type(thing).__name__} {_short(thing)}, not {wrong}")
        if is_dataclass(thing) and not isinstance(thing, type) and getattr(thing, "name", name) != name:
            # What it is asked for by is what results, transcripts and tables call it.
            return cast(T, replace(thing, name=name))
        return thing


def instances(kind: type, words: str) -> Check:
    """Things that are of a kind; `words` say which."""
    return lambda thing, _: None if isinstance(thing, kind) else words


def subclasses(kind: type, words: str, stored_by: str | None = None) -> Check:
    """Classes below a kind; where the attribute `stored_by` is what they are read back by, under that name only."""

    def check(thing: Any, name: str) -> str | None:
        fits = isinstance(thing, type) and issubclass(thing, kind)
        return None if fits and (stored_by is None or getattr(thing, stored_by) == name) else words

    return check


def _owner(offer: EntryPoint) -> str:
    return f"{offer.dist.name if offer.dist else 'an unnamed package'} ({offer.value})"


def described(error: BaseException) -> str:
    """What went wrong in somebody else's code, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _short(thing: object) -> str:
    text = " ".join(repr(thing).split())
    return text if len(text) <= 60 else text[:60] + "..."
