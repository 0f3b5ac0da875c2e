"""Both servers in one process, standing still between requests, and every row of their stores."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import inspect

from cases.service.both import Both


class Held:
    """The loop runs while somebody waits for an answer, and not in between: so a plain test can ask both servers."""

    def __init__(self, both: Both) -> None:
        self.both, self._runner, self._stack = both, asyncio.Runner(), contextlib.AsyncExitStack()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    def ask(self, method: str, url: str, **options: Any) -> Any:
        return self.run(self.both.http.request(method, url, **options))

    def rows(self) -> dict[str, list[Any]]:
        """Every row of every table of both stores."""
        found = {}
        for server, store in (("front", self.both.front.front.store), ("analyzer", self.both.analyzer.store)):
            with store.database.engine.connect() as connection:
                for name in sorted(inspect(connection).get_table_names()):
                    rows = connection.exec_driver_sql(f'SELECT * FROM "{name}"')
                    found[f"{server}.{name}"] = sorted(map(repr, rows.all()))
        return found


@contextlib.contextmanager
def held(directory: Path, users: int = 0, poll: float = 0.01) -> Iterator[Held]:
    """Both servers, with a few reports in the first batch; the analyzer looks at the front every `poll` seconds."""
    found = Held(Both(directory))
    found.both.analyzer.settings = replace(found.both.analyzer.settings, poll=poll)
    found.run(found._stack.enter_async_context(found.both.running()))
    try:
        assert found.run(found.both.users(users)) == ["accepted"] * users
        yield found
    finally:
        found.run(found._stack.aclose())
        found._runner.close()
