"""Programs with one batch at a time, without an arm: the next one is wanted when the one before is over."""

from __future__ import annotations

from croupier.checks import InvalidParameter
from croupier.programs.program import Program


class OneByOne(Program):
    """Counts batches; a batch that did not fill is wanted anew, under the next number."""

    stopped = False
    _batch = 0

    def expired(self, batch: int, received: int | None = None, turns: int | None = None) -> None:
        self._expect(batch)
        self._batch += 1

    def _expect(self, batch: int) -> None:
        if self.finished or batch != self._batch:
            raise InvalidParameter("batch", batch, f"the open one, {self._batch}")

    def stop(self) -> None:
        self.stopped = True
