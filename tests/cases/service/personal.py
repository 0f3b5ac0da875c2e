"""A personalised experiment on both servers in one process, and clients who play it over that wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases.service.machine import ANALYZER, Servers
from cases.service.shares import PLAN, Shares, opened
from cases.service.world import GENEROUS
from croupier.client import Client
from croupier.client.device import Lost, Request, Response

NAME = "tips"
ARMS = ["video", "mail", "checklist"]
EXPERIMENT: dict[str, Any] = {
    "name": NAME,
    "arms": ARMS,
    "program": {
        "kind": "linear",
        "users": 80,
        "first": 20,
        "ratio": 2.0,
        "control": 0.1,
        "features": {"age": [18, 80], "evening": [0, 100]},
    },
    "privacy": {"epsilon": 8.0},
    "reports": PLAN["reports"],
    "batches": {"deadline": 60},
}
CONTEXT = {"age": 30, "evening": 80}


class Direct:
    """A client's way to both servers without a network; it notes what was sent."""

    def __init__(self, servers: Servers) -> None:
        self.servers, self.sent = servers, list[Request]()

    def exchange(self, request: Request) -> Response | Lost:
        self.sent.append(request)
        answer = self.servers.ask(
            request.method, request.url, content=request.content or None, headers=dict(request.headers)
        )
        if answer is None:
            return Lost("no answer")
        return Response(answer.status_code, dict(answer.headers), answer.content)

    def wait(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass

    @property
    def paths(self) -> list[str]:
        """What was asked for, without what is different each time."""
        return [f"{one.method} {one.url.split('.test')[1].split('/rules/')[0]}" for one in self.sent]


def begun(directory: Path, experiment: dict[str, Any] = EXPERIMENT, **more: Any) -> Shares:
    """Both servers, with the first rule out."""
    return opened(directory, experiment=experiment, **more)


def client_of(service: Shares, account: Path | None = None, **more: Any) -> Client:
    """A device that knows both servers' keys."""
    keys = {server: keys.verify for server, keys in service.servers.keys.items()}
    known = {"limits": GENEROUS, "background": False, "clock": service.servers.clock} | more
    return Client(ANALYZER, account=account, keys=keys, http=Direct(service.servers), **known)
