"""Asking an analyzer what its operators may ask: where it is, by which token, and what it refused."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from croupier.checks import CroupierError

TOKEN = "CROUPIER_TOKEN"
"""The variable of the environment that may hold the token."""
SECONDS = 30.0
LONGEST_DOWNLOAD = 2**32
"""No file that is downloaded has more bytes."""


def add_analyzer(command: argparse.ArgumentParser) -> None:
    """Where the analyzer is, and who asks."""
    command.add_argument("url", metavar="URL", help="the analyzer, as https://analyzer.example")
    add_token(command)


def add_token(command: argparse.ArgumentParser) -> None:
    """Who asks."""
    command.add_argument("--token", metavar="TEXT", help=f"your token (default: {TOKEN} in the environment)")
    command.add_argument("--token-file", metavar="FILE", help="a file that holds it, as the analyzer's own `admin`")


class Refused(CroupierError):
    """What the analyzer refuses, with the status of its answer."""

    def __init__(self, status: int, content: bytes, shown: bool) -> None:
        super().__init__(_refusal(status, content, shown))
        self.status = status


class Analyzer:
    """An analyzer's address and an operator's token, if there is one."""

    def __init__(self, url: str, token: str) -> None:
        from croupier.client.limits import on_this_machine

        if not url.startswith(("http://", "https://")):
            raise CroupierError(f"{url!r} is no address: give the analyzer's, as https://analyzer.example")
        if token and not url.startswith("https://") and not on_this_machine(url):
            raise CroupierError(f"{url} is not encrypted: the token would be read on its way")
        self.url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str) -> Any:
        return self._json("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._json("POST", path, json=body)

    def download(self, path: str, file: IO[bytes]) -> int:
        """Write what is there into a file as it comes; how many bytes."""
        import httpx2

        from croupier.client.exchange import Unfit, begun, extend

        size = 0
        with self._reached(), httpx2.stream("GET", self.url + path, **self._how) as answer:
            refusal = begun(answer.headers, LONGEST_DOWNLOAD)
            for part in answer.iter_bytes():
                size += len(part)
                if answer.status_code >= 400:
                    extend(refusal, part)
                elif size > LONGEST_DOWNLOAD:
                    raise Unfit(f"the answer has more than {LONGEST_DOWNLOAD:,} bytes")
                else:
                    file.write(part)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, bytes(refusal), bool(self._headers))
        return size

    def _json(self, method: str, path: str, **more: Any) -> Any:
        import httpx2

        from croupier.client.exchange import LONGEST_STATE, read

        with self._reached():
            answer = read(httpx2, LONGEST_STATE, method=method, url=self.url + path, **self._how, **more)
        if answer.status >= 400:
            raise Refused(answer.status, answer.content, bool(self._headers))
        return answer.json()

    @property
    def _how(self) -> dict[str, Any]:
        from croupier.client.exchange import UNCOMPRESSED

        return {"headers": self._headers | UNCOMPRESSED, "timeout": SECONDS}

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """One line about what keeps an answer from here."""
        import httpx2

        from croupier.client.exchange import Unfit

        try:
            yield
        except Unfit as error:
            raise CroupierError(f"{self.url}: {error}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise CroupierError(f"{self.url} does not answer: {error or type(error).__name__}") from None


def analyzer_of(options: argparse.Namespace) -> Analyzer:
    """The analyzer that a command names."""
    return Analyzer(options.url, token_of(options))


def token_of(options: argparse.Namespace) -> str:
    """The token that was given, in one of three ways, or none."""
    if options.token is not None and options.token_file is not None:
        raise CroupierError("give --token or --token-file, not both")
    if options.token_file is None:
        return str(options.token or os.environ.get(TOKEN, ""))
    try:
        held = Path(options.token_file).read_bytes()
    except OSError as error:
        raise CroupierError(f"{options.token_file} cannot be read: {error.strerror}") from None
    if len(held) == 32:
        from croupier.service.keys import bearer

        return bearer(Path(options.token_file))
    try:
        return held.decode("ascii").strip()
    except UnicodeDecodeError:
        raise CroupierError(f"{options.token_file} holds no token") from None


def _refusal(status: int, content: bytes, shown: bool) -> str:
    """One line about a refusal."""
    if status == 401:
        remedy = "the token is nobody's" if shown else f"show a token: --token, --token-file or {TOKEN}"
        return f"the analyzer refused: {remedy}"
    try:
        problem = json.loads(content)
        kind, detail, said = str(problem["type"]), str(problem.get("detail", "")), str(problem["title"])
    except (ValueError, KeyError, AttributeError, TypeError):
        kind, detail, said = "", "", f"status {status}"
    # An analyzer knows every path that is asked for here, and says what it is that it does not have.
    if status in (404, 405) and not detail and kind.rpartition(":")[2] in ("", "not-found", "method-not-allowed"):
        return f"this is no analyzer ({said}): is it the front's port? `croupier up` prints both"
    return f"the analyzer refused: {detail or said}"
