"""Makes the pictures of docs/first-experiment.md: a real run of its example, as headless Chromium shows the dashboard.

.venv/bin/python tools/pictures.py [DIRECTORY]
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.processes import Home, both, free_port

ROOT = Path(__file__).parent.parent
EXPERIMENT, NAME, MEANS = ROOT / "examples" / "first-experiment.toml", "new-screen", (0.4, 0.48)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEW: dict[str, Any] = {"viewport": {"width": 900, "height": 900}, "color_scheme": "light"}
COLOURS = 64
"""As few as the eye does not miss: pictures stay small."""
MARGIN = 12


def take(page: Page, path: Path, first: str, last: str) -> None:
    """A picture of the page from one of its parts to another."""
    page.locator(last).wait_for()
    page.wait_for_timeout(500)
    above, below = (page.locator(part).bounding_box() for part in (first, last))
    assert above is not None
    assert below is not None
    top, bottom = max(above["y"] - MARGIN, 0.0), below["y"] + below["height"] + MARGIN
    clip = {"x": 0, "y": top, "width": VIEW["viewport"]["width"], "height": bottom - top}
    taken = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))  # type: ignore[arg-type]
    taken.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def crowd(home: Home, users: int, seed: int) -> None:
    """Users in a thread of their own: Playwright has this one's event loop.

    Few at once, so that turns are overdue before it is decided: only then is it known who is silent.
    """
    coming = Crowd(home.analyzer_url, NAME, users, MEANS, silent=0.2, at_once=2, seed=seed, keys=home.verify_keys)
    thread = threading.Thread(target=run, args=(coming,))
    thread.start()
    thread.join()


def pictures(home: Home, directory: Path) -> None:
    """While it runs, and when it is decided."""
    directory.mkdir(exist_ok=True)
    url = home.analyzer_url
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(**VIEW).new_page()
        crowd(home, 1000, seed=1)
        page.goto(f"{url}/#{NAME}", wait_until="commit")
        take(page, directory / "running.png", "h1", "#part-program")
        crowd(home, 8000, seed=2)
        wait_finished(url, NAME, 30)
        take(page, directory / "decided.png", "h1", "#part-program")
        take(page, directory / "over-time.png", "#part-history", "#part-history")
        browser.close()


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch) / "home", free_port(), free_port())
        with both(home, [str(EXPERIMENT)]):
            pictures(home, where)
