"""Which tests run which lines: a pytest plugin for `tools/mutants.py`, and the marks that it counts.

`marked` writes a mark before every statement of a module and into every lambda. With WITNESSES=FILE the plugin writes
down for each test how long it took and which marks it passed. With ASKED=FILE it runs the tests listed there, in
that order, and none longer than is said there. Only the standard library is needed: every run imports it.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import signal
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any

HITS: set[tuple[str, int]] = set()
"""Marks passed since the last test, as a module and a line."""


class _Marks(ast.NodeTransformer):
    """Every statement is preceded by a mark of its line, and every lambda begins with one."""

    def __init__(self, module: str) -> None:
        self.module = module

    def mark(self, line: int) -> ast.Call:
        call = ast.parse(f"__hit__(({self.module!r}, {line}))", mode="eval").body
        assert isinstance(call, ast.Call)
        return call

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        both = ast.Tuple([self.mark(node.lineno), node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                setattr(node, field, [new for old in body for new in self.preceded(node, old)])
        return node

    def preceded(self, parent: ast.AST, node: ast.AST) -> list[ast.AST]:
        apart = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if apart or not isinstance(node, ast.stmt) or _docstring(parent) is node:
            return [node]
        return [ast.Expr(self.mark(first_line(node))), node]


def _docstring(parent: ast.AST) -> ast.AST | None:
    if not isinstance(parent, ast.Module | ast.ClassDef | ast.FunctionDef) or not parent.body:
        return None
    first = parent.body[0]
    return first if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None


def first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def marked(module: str, code: str) -> str:
    """The same module, which says what it passes."""
    tree = _Marks(module).visit(ast.parse(code))
    place = 1 + max((i for i, node in enumerate(tree.body) if _opening(node, i)), default=-1)
    tree.body.insert(place, ast.parse("from witnesses import HITS; __hit__ = HITS.add").body[1])
    tree.body.insert(place, ast.parse("from witnesses import HITS").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _opening(node: ast.stmt, place: int) -> bool:
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return future or (place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def mark_of(code: str, line: int) -> int:
    """The line of the mark that is passed before this line: that of the smallest statement or lambda around it."""
    spans = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.stmt | ast.Lambda):
            first = first_line(node) if isinstance(node, ast.stmt) else node.lineno
            if first <= line <= (node.end_lineno or first):
                spans.append(((node.end_lineno or first) - first, first))
    return min(spans)[1]


class Witnesses:
    """Writes down what each test passed; what is computed once is computed again for each, or only one would see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, Any]] = {}
        self.caches: list[Any] = []

    def pytest_collection_finish(self) -> None:
        found = (one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper))
        self.caches = [one for one in found if (one.__module__ or "").startswith("croupier.")]

    def pytest_runtest_logstart(self) -> None:
        for cache in self.caches:
            cache.cache_clear()
        HITS.clear()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            hits: dict[str, list[int]] = {}
            for module, line in sorted(HITS):
                hits.setdefault(module, []).append(line)
            self.tests[report.nodeid] = {"seconds": report.duration, "hits": hits}

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.tests), encoding="utf-8")


class Asked:
    """Runs the tests of a list in its order, each for so many seconds of computing at most."""

    def __init__(self, path: Path) -> None:
        self.limits: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        # A module that pytest imports by its path before its package hides a function of the same name there.
        for package in ("noise", "privacy", "protocols"):
            import_module(f"croupier.{package}")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        order = {nodeid: place for place, nodeid in enumerate(self.limits)}
        items[:] = sorted((one for one in items if one.nodeid in order), key=lambda one: order[one.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # The signal ends the process, wherever it is.
        signal.setitimer(signal.ITIMER_PROF, self.limits[nodeid])


def pytest_configure(config: Any) -> None:
    for name, plugin in (("WITNESSES", Witnesses), ("ASKED", Asked)):
        if name in os.environ:
            config.pluginmanager.register(plugin(Path(os.environ[name])))
