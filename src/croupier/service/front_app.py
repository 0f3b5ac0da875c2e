"""The front over HTTP: handlers parse, call the front, and answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier.messages.configuration import NAME
from croupier.noise import Source
from croupier.service import http_operations, openapi
from croupier.service.front_for_analyzer import ForAnalyzer
from croupier.service.front_for_devices import ForDevices
from croupier.service.settings import FrontSettings, origins_of
from croupier.service.web import ShortWay, add_handlers, admit_pages, fixed, healthz, readyz

DESCRIBED = fixed(openapi.document("front", http_operations.FRONT))


class FrontApp(ForDevices, ForAnalyzer):
    """The routes, and what runs beside them."""

    def __init__(
        self, settings: FrontSettings, *, clock: Callable[[], float] = time.time, source: Source | None = None
    ) -> None:
        super().__init__(settings, clock=clock, source=source)
        self.app = self._app()

    def _app(self) -> Starlette:
        routes = [
            *self._for_devices(),
            *self._for_analyzer(),
            Route("/healthz", healthz),
            Route("/readyz", readyz(self._trouble)),
            Route("/metrics", self.metrics),
            Route("/openapi.json", DESCRIBED),
        ]
        app = ShortWay(routes=routes, lifespan=self._lifespan)
        app.shorten(f"/experiments/({NAME.pattern})/reports", self.taken, self.meters)
        add_handlers(app, self.meters)
        admit_pages(app, origins_of(self.settings.origins))
        return app

    async def metrics(self, _: Request) -> Response:
        await self._look()
        return self.meters.answer()
