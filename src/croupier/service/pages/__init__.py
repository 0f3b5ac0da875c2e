"""The pages that the analyzer serves: plain HTML and JavaScript, driven by its JSON alone."""

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from croupier.service.problems import Problem

PAGES = {
    "dashboard.html": "text/html",
    "participate.html": "text/html",
    "pages.js": "text/javascript",
    "pictures.js": "text/javascript",
    "curves.js": "text/javascript",
    "personal.js": "text/javascript",
    "results.js": "text/javascript",
    "privacy.js": "text/javascript",
    "events.js": "text/javascript",
    "operator.js": "text/javascript",
    "dashboard.js": "text/javascript",
    "participate.js": "text/javascript",
    "pages.css": "text/css",
}
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Nothing but what this server serves, and no text that becomes code."""


async def page(request: Request) -> Response:
    """The dashboard, a participant's page, and what they are made of."""
    name = request.path_params.get("page")
    if name is None:
        name = "participate.html" if "name" in request.path_params else "dashboard.html"
    if name not in PAGES:
        raise Problem("not-found")
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=PAGES[name], headers=HEADERS)
