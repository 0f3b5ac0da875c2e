"""Structured logs: one JSON object a line, with counts and names of experiments, and never anything about a person.

No address, token, report id or header is ever passed to a logger; the web server's own access log is off.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what a caller adds is under `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        return json.dumps(body | getattr(record, "fields", {}), ensure_ascii=False)


def set_up(level: str = "INFO") -> None:
    """Send our own log to stderr as JSON lines; of the web server only what is an error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("croupier").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], name != "uvicorn.access"
        logger.setLevel(logging.ERROR)
    # A traceback may quote what a request held.
    logging.getLogger("uvicorn.error").addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True
