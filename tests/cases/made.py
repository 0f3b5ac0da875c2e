"""Cases that take a while to make: each is made when a test first asks for it, and not while tests are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Generic, TypeVar

Case = TypeVar("Case")


class Made(Mapping[str, Case], Generic[Case]):
    """Cases by name, each made once."""

    def __init__(self, makers: Mapping[str, Callable[[], Case]]) -> None:
        self._makers = {name: cache(maker) for name, maker in makers.items()}

    def __getitem__(self, name: str) -> Case:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __or__(self, other: Made[Case]) -> Made[Case]:
        return Made(self._makers | other._makers)
