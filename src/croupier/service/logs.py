"""Structured logs: one JSON object a line, with counts and names of experiments, and never anything about a person.

No address, token, report id or header is ever passed to a logger, and the web server's own access log is off. What
others log, and what nobody caught, is told by its kind and its place alone: its text might quote what a request held.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from croupier.service.problems import kind_of

OWN = "croupier"
SERVER = "uvicorn.error"
"""The web server's log, whose lines without an exception are its own words."""

TRACKER = "ignore:resource_tracker:UserWarning"

log = logging.getLogger(OWN)


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what a caller adds is under `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        body: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
        }
        error = record.exc_info[1] if record.exc_info else None
        if record.name == OWN or (record.name == SERVER and error is None):
            body["event"] = record.getMessage().partition("\n")[0]
        else:
            body |= {"event": "internal", "logger": record.name}
        if error is not None:
            body |= _about(error)
        return json.dumps(body | getattr(record, "fields", {}), ensure_ascii=False)


def set_up(level: str = "INFO") -> None:
    """Send our own log to stderr as JSON lines; of the web server only what is an error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(level)
    for name in ("uvicorn", SERVER, "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "uvicorn.access"
        logger.setLevel(logging.ERROR)
    logging.getLogger(SERVER).addFilter(_is_news)
    # The process that cleans up after multiprocessing would say on stderr what the others left behind.
    if TRACKER not in sys.warnoptions:
        sys.warnoptions.append(TRACKER)


def catch_all() -> None:
    """Let what nobody caught in this process be lines of the log too."""
    logging.raiseExceptions = False
    sys.excepthook = lambda _, error, __: _uncaught(error)
    sys.unraisablehook = lambda raised: _uncaught(raised.exc_value)
    threading.excepthook = lambda raised: _uncaught(raised.exc_value)
    warnings.showwarning = _warned


def failed(error: BaseException) -> None:
    """A failure that nobody foresaw, as one line; the web server is told of it too, and repeats nothing."""
    error.told = True  # type: ignore[attr-defined]
    log.error("internal", extra={"fields": _about(error)})


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and getattr(record.exc_info[1], "told", False))


def _uncaught(error: BaseException | None) -> None:
    if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
        log.critical("internal", extra={"fields": _about(error)})


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    log.warning("warning", extra={"fields": {"kind": category.__name__, "where": f"{Path(filename).name}:{lineno}"}})


def _about(error: BaseException) -> dict[str, str]:
    """What kind of failure, and where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = "" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
    return {"error": kind_of(error), "where": where}
