"""Any finite list of hypotheses: rules written by hand, or trained on public data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.checks import InvalidParameter
from croupier.learning.representation import Representation
from croupier.learning.samples import Bools, Floats, Samples
from croupier.learning.seeds import Seed

Rule = Callable[[NDArray[Any]], ArrayLike]


@dataclass(frozen=True)
class Listed(Representation):
    """Rules from rows of features to yes or no. They must be public: nothing here hides what they were made from.

    >>> rules = Listed((lambda x: x[:, 0] > 3, lambda x: x[:, 1] > x[:, 0]))
    >>> rules.errors(Samples.of([[1, 2], [5, 0]], [True, False])).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """

    rules: tuple[Rule, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rules:
            raise InvalidParameter("rules", self.rules, "at least one")
        if self.names and len(self.names) != len(self.rules):
            raise InvalidParameter("names", len(self.names), f"{len(self.rules)}, one for each rule")

    def draw(self, columns: int, seed: Seed) -> Listed:
        return self

    @property
    def size(self) -> int:
        return len(self.rules)

    def predict(self, index: int, features: NDArray[Any]) -> Bools:
        answer = np.asarray(self.rules[index](features))
        if answer.shape != features.shape[:1]:
            raise InvalidParameter("rule", index, f"one that answers once for each row, not {answer.shape}")
        return answer.astype(bool)

    def describe(self, index: int) -> str:
        return self.names[index] if self.names else f"rule {index}"

    def mistakes(self, samples: Samples) -> Floats:
        answers = (self.predict(index, samples.features) for index in range(self.size))
        return np.stack([samples.count(answer != samples.labels) for answer in answers], axis=1)
