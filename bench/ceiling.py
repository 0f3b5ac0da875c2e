"""What no front can beat: a bare Starlette route that reads the body and opens it, once, and keeps nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier.messages.sealing import DEFAULT_SUITE, unseal
from croupier.messages.wire import Envelope, report_info
from croupier.service import keys as key_files
from croupier.service.pool import spare_collector


def main() -> None:
    """Serve on the port and with the keys that were named."""
    port, directory, name, opening = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "open"
    private = key_files.load(directory).newest(DEFAULT_SUITE).private

    async def report(request: Request) -> Response:
        envelope = Envelope.from_bytes(await request.body())
        if opening:
            unseal(DEFAULT_SUITE, private, envelope.sealed, report_info(name, envelope.configuration))
        return Response(b'{"status":"accepted"}', 201, media_type="application/json")

    app = Starlette(routes=[Route("/experiments/{name}/reports", report, methods=["POST"]), Route("/healthz", _alive)])
    # As the servers do it: what no front can beat must not be slower by what every front can leave out.
    spare_collector()
    uvicorn.run(app, port=port, log_level="error", access_log=False, server_header=False, date_header=False)


async def _alive(_: Request) -> Response:
    return Response(b"{}")


if __name__ == "__main__":
    main()
