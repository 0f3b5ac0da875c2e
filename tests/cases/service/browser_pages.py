"""The browser's client on a web site of its own, and what the tests ask of it there, in JavaScript."""

from __future__ import annotations

import json
import shutil
import threading
import zlib
from contextlib import contextmanager, suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cases.service.browser_world import launched

CLIENT = Path(__file__).parents[3] / "clients" / "javascript"


@cache
def bomb() -> bytes:
    """What unpacks to 64 MiB. It is made once, and before it is asked for: a client does not wait for long."""
    return zlib.compress(b" " * 64 * 2**20)


class _Site(SimpleHTTPRequestHandler):
    """Serves the client's files, what tests ask of them, an empty page, and servers as no honest one is."""

    def do_GET(self) -> None:
        made = {"/empty.html": ("text/html", "<!doctype html><title>empty</title>")}
        if self.path.startswith("/hostile/"):
            with suppress(ConnectionError):
                HOSTILE[self.path.split("/")[2]](self)
        elif self.path in made:
            kind, text = made[self.path]
            self._begin(200, {"content-type": kind})
            self.wfile.write(text.encode())
        else:
            super().do_GET()

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def endless(self) -> None:
        """More than a device needs; it does end, for a client that would read on."""
        self._begin(200, {})
        for _ in range(256):
            self.wfile.write(b" " * 2**20)
        REACHED.add("endless")

    def bomb(self) -> None:
        """Little that unpacks to much."""
        self._begin(200, {"content-encoding": "deflate"})
        self.wfile.write(bomb())

    def stalled(self) -> None:
        """A head, and then nothing until the client has gone."""
        self._begin(200, {"content-length": "2"})
        self.rfile.read(1)

    def elsewhere(self) -> None:
        self._begin(307, {"location": "/hostile/moved"})

    def moved(self) -> None:
        REACHED.add("moved")
        self._begin(200, {})

    def log_message(self, *_: object) -> None:
        pass


HOSTILE = {name: getattr(_Site, name) for name in ("endless", "bomb", "stalled", "elsewhere", "moved")}
REACHED: set[str] = set()
"""Where no client should get: the end of what is endless, and where a redirection leads."""


@contextmanager
def site(directory: Path):
    """A web site that is neither server's, with the client's files: pages of it are clients of another origin."""
    shutil.copytree(CLIENT, directory)
    for checks in Path(__file__).parent.glob("*.js"):
        shutil.copy(checks, directory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Site, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_demo(directory: Path, name: str, analyzer: str, front: str, experiment: str, keys: dict[str, str]):
    """A copy of the demo's page with its own settings, written into its files as its author would."""
    shutil.copytree(CLIENT / "demo", directory / name)
    settings = {"ANALYZER": analyzer, "EXPERIMENT": experiment, "KEYS": keys}
    code = "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in settings.items())
    (directory / name / "settings.js").write_text(code)
    page = directory / name / "index.html"
    text = page.read_text()
    for shipped, here in {"http://127.0.0.1:8400": analyzer, "http://127.0.0.1:8401": front}.items():
        assert text.count(shipped) == 1
        text = text.replace(shipped, here)
    page.write_text(text)


NO_OTHER_CHANCE = "Math.random = () => { throw new Error('Math.random is no source of noise'); };"
"""All chance comes from the system's own source."""
SEEDED = """
let state = 88172645463325252n;
crypto.getRandomValues = (bytes) => bytes.map(() => {
  state ^= (state << 13n) & 0xffffffffffffffffn; state ^= state >> 7n; state ^= (state << 17n) & 0xffffffffffffffffn;
  return Number((state >> 32n) & 255n);
});
"""
"""For laws: a source that can be repeated."""


CHECKS = json.dumps([f"/{path.name}" for path in sorted(Path(__file__).parent.glob("*checks.js"))])


@contextmanager
def browsing(directory: Path):
    """A browser without servers, and the site."""
    with site(directory) as origin, launched() as browser:
        context = browser.new_context()
        context.add_init_script(NO_OTHER_CHANCE)
        yield context, origin


class Asked:
    """A page of the site that runs the checks, in JavaScript, one by one."""

    def __init__(self, context, origin):
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.goto(f"{origin}/empty.html")

    def __call__(self, name, given=None):
        code = "async ([name, given]) => {"
        code += f" const modules = await Promise.all({CHECKS}.map((one) => import(one)));"
        code += " const found = Object.assign({}, ...modules)[name];"
        code += " return typeof found === 'function' ? found(given) : found; }"
        return self.page.evaluate(code, [name, given])
