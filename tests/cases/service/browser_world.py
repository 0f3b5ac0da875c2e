"""A real Chromium, and somebody who watches what a page does in it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from importlib import resources
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

NO_BROWSER = "the browser tests could not run: no chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox"]
VIEWS = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True, "has_touch": True},
}


def chromium() -> str:
    """Where the machine's browser is; without one the tests fail in CI, and elsewhere it is said at the end."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
    if os.environ.get("CI"):
        pytest.fail(NO_BROWSER, pytrace=False)
    pytest.skip(NO_BROWSER)


@contextmanager
def launched():
    """That browser, without a window."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page, and everything about it that should not have happened."""

    def __init__(self, context, url: str) -> None:
        self.url, self.page = url, context.new_page()
        self.page.set_default_timeout(20_000)
        self.wrong: list[str] = []
        host = urlsplit(url).netloc
        page, wrong = self.page, self.wrong
        page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("response", lambda got: got.status >= 400 and wrong.append(f"{got.status}: {got.url}"))
        page.on("request", lambda asked: self._check_host(urlsplit(asked.url), host))
        page.on("requestfailed", self._failed)

    def _check_host(self, asked, host: str) -> None:
        if asked.scheme not in ("data", "blob") and asked.netloc != host:
            self.wrong.append(f"asked elsewhere: {asked.geturl()}")

    def _failed(self, request) -> None:
        # Whoever leaves a page ends its events, and a download leaves the page's hands.
        ended = request.failure == "net::ERR_ABORTED" and request.url.endswith(("/live", "/transcript"))
        if not ended:
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def show(self, path: str):
        """Open one of the pages and wait until it is drawn; events keep it loading for ever."""
        self.page.goto(self.url + path, wait_until="commit")
        self.page.wait_for_selector("h1")
        return self.page

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def barriers(self) -> list[str]:
        """What keeps people from using what is shown, as axe-core finds it; what is minor or moderate is left out."""
        script = resources.files("axe_playwright_python").joinpath("axe.min.js")
        self.page.evaluate(script.read_text(encoding="utf-8"))
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [
            f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:120]})"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


# The lowest contrast (WCAG 2) of any text that is shown, with the text, against the first opaque background behind it.
LOWEST_CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => channels(colour).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor, parts = channels(colour);
      if (parts.length < 4 || parts[3] === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let lowest = [21, ""], seen = 0;
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data.trim()).join("");
    if (!own || !node.checkVisibility() || node.matches("title, script, noscript")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [luminance(node.namespaceURI.endsWith("svg") ? style.fill : style.color), luminance(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen += 1;
    if (ratio < lowest[0]) lowest = [ratio, own];
  }
  return { ratio: lowest[0], text: lowest[1], seen, paper: luminance(behind(document.body)) };
}"""

# Marks that reach out of the window on the left or right, of all marks of a kind.
OUTSIDE = """(selector) => {
  const least = (node) => (node.matches(".bar") ? 0 : 1);  // a count below zero has no bar
  const marks = [...document.querySelectorAll(selector)].map((node) => [node.getBoundingClientRect(), least(node)]);
  const wrong = ([box, width]) => box.width < width || box.left < 0 || box.right > innerWidth;
  return [marks.length, marks.filter(wrong).length];
}"""

BOXES = """(selectors) => selectors.map((selector) =>
  [...document.querySelectorAll(selector)].map((node) => node.getBoundingClientRect().toJSON()))"""

OVERFLOW = "() => document.scrollingElement.scrollWidth - innerWidth"
