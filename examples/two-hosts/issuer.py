"""An issuer of tickets or blind tokens: signs one for each known person, and remembers who got one.

An app puts this into its own login server. Whoever runs it must not be the analyzer's operator, who could admit a crowd
of its own around one person. It is told nothing of turns and reports, and keeps neither tickets nor times. A ticket
that is shown to the front tells who got it, if issuer and front compare notes; a token tells nobody.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier.checks import CroupierError, InvalidParameter
from croupier.messages.blind_tokens import REQUEST, RESPONSE_TYPE
from croupier.service import keys
from croupier.service.issuing import TokenIssuer, Unprocessable
from croupier.service.settings import address
from croupier.service.tickets import DAY, issue

VALID = 3 * DAY
"""How long a ticket is valid, before its last day is rounded up: less than the front remembers spent ones."""


def person_of(request: Request, people: Mapping[str, str]) -> str:
    """Who asks. HERE GOES THE APP'S OWN LOGIN: this stand-in knows people by a bearer token each.

    Two accounts of one person get two tickets: one ticket a person is as good as this function is.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    person = people.get(keys.bearer_hash(token.strip()))
    if scheme.lower() != "bearer" or person is None:
        raise HTTPException(401, "log in first", {"www-authenticate": "Bearer"})
    return person


class Issued:
    """Who got a ticket for which experiment, or a token; on disk before it is sent, and in no order that tells when."""

    def __init__(self, path: str) -> None:
        self.path = path
        columns = "experiment text, person text, primary key (experiment, person)"
        self._write(f"create table if not exists issued ({columns}) without rowid")
        columns = "key text, person text, request blob, primary key (key, person)"
        self._write(f"create table if not exists tokens ({columns}) without rowid")

    def take(self, experiment: str, person: str) -> bool:
        """Whether this is the person's first ticket for the experiment; the next one is not."""
        return self._write("insert or ignore into issued values (?, ?)", experiment, person) == 1

    def take_token(self, key: bytes, person: str, request: bytes) -> bool:
        """Whether this is the person's first request for a token of this key, or the same one again.

        A request that is remembered tells nothing of its token: any request may have become any token.
        """
        row = (hashlib.sha256(key).hexdigest(), person, hashlib.sha256(request).digest())
        self._write("insert or ignore into tokens values (?, ?, ?)", *row)
        with closing(sqlite3.connect(self.path, timeout=10)) as store:
            found = store.execute("select 1 from tokens where key = ? and person = ? and request = ?", row)
            return found.fetchone() is not None

    def _write(self, statement: str, *values: str | bytes) -> int:
        with closing(sqlite3.connect(self.path, timeout=10)) as store, store:
            store.execute("pragma synchronous = full")
            return store.execute(statement, values).rowcount


def application(
    key: Ed25519PrivateKey,
    experiments: Collection[str],
    people: Mapping[str, str],
    issued: Issued,
    clock: Callable[[], float] = time.time,
    tokens: TokenIssuer | None = None,
) -> Starlette:
    """`POST /tickets/EXPERIMENT` answers with the 88 bytes of a ticket, once for each person.

    `POST /tokens` signs one blind token for each person, and cannot tell for which experiment.
    """

    def ticket(request: Request) -> Response:
        person, experiment = person_of(request, people), request.path_params["experiment"]
        if experiment not in experiments:
            raise HTTPException(404, "no tickets are issued for this experiment")
        if not issued.take(experiment, person):
            raise HTTPException(409, "you have had your ticket for this experiment")
        made = issue(key, experiment, int(clock()) + VALID)
        return Response(made, media_type="application/octet-stream", headers={"cache-control": "no-store"})

    async def token(request: Request) -> Response:
        person, body = person_of(request, people), await body_of(request)
        answer = await run_in_threadpool(signed, person, body)
        return Response(answer, media_type=RESPONSE_TYPE, headers={"cache-control": "no-store"})

    def signed(person: str, body: bytes) -> bytes:
        try:
            # First, so that a request that is refused uses up nothing.
            answer = tokens.answer(body)
        except Unprocessable as refusal:
            raise HTTPException(422, str(refusal)) from None
        if not issued.take_token(tokens.public, person, body):
            raise HTTPException(409, "you have had your token")
        return answer

    routes = [Route("/tickets/{experiment}", ticket, methods=["POST"])]
    return Starlette(routes=routes + ([Route("/tokens", token, methods=["POST"])] if tokens else []))


async def body_of(request: Request) -> bytes:
    """What was sent, as far as it is no longer than a token request."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > REQUEST.size:
            raise HTTPException(422, f"a token request has {REQUEST.size} bytes")
    return body


def read_people(path: str) -> dict[str, str]:
    """Names by the SHA-256 of their tokens, from lines of a name and 64 hexadecimal digits."""
    try:
        lines = filter(str.strip, Path(path).read_text(encoding="utf-8").splitlines())
        return {digest.lower(): name for name, digest in (line.rsplit(maxsplit=1) for line in lines)}
    except (OSError, ValueError) as error:
        raise InvalidParameter("people", path, f"a file of names and hashes ({error})") from None


def check_private(listen: str, certificate: str | None) -> tuple[str, int]:
    """Host and port; refused where logins and tickets would travel in the open."""
    host, port = address(listen)
    try:
        here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here and not certificate:
        raise InvalidParameter("listen", listen, "an address of this machine only, or with a certificate")
    return host, port


def main() -> int:
    """Issue tickets and tokens until stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="tickets are issued for these")
    parser.add_argument("--tokens", action="store_true", help="blind tokens are issued: one for each person")
    parser.add_argument("--keys", default="issuer/keys", help="made by `croupier serve keys`, with --tokens for tokens")
    parser.add_argument("--people", default="issuer/people.txt", help="names, and the SHA-256 of their tokens")
    parser.add_argument("--store", default="issuer/issued.db", help="an SQLite file of who got a ticket or token")
    parser.add_argument("--listen", default="127.0.0.1:8402")
    parser.add_argument("--certificate", help="a PEM file, needed beyond this machine")
    parser.add_argument("--certificate-key")
    options = parser.parse_args()
    try:
        host, port = check_private(options.listen, options.certificate)
        key = keys.load(Path(options.keys)).sign
        tokens = keys.token_issuer(Path(options.keys)) if options.tokens else None
        people, issued = read_people(options.people), Issued(options.store)
        app = application(key, options.experiments, people, issued, tokens=tokens)
    except (CroupierError, sqlite3.Error) as error:
        print(f"issuer: {error}", file=sys.stderr)
        return 1
    # An access log would tell when each person came.
    tls = {"ssl_certfile": options.certificate, "ssl_keyfile": options.certificate_key}
    uvicorn.run(app, host=host, port=port, access_log=False, server_header=False, **tls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
