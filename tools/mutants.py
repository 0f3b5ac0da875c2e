"""Mutants: a seeded sample of small changes to the mathematics, each of which some fast test must notice.

`make mutants` changes one place of `noise`, `privacy` or `protocols` at a time (Cosmic Ray makes the changes), runs the
changed module's examples and the room's fast tests until one fails, and counts who noticed. Whatever survives must be
explained in `tests/survivors.toml`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent
TESTED_BY = {"noise": ("noise", "privacy"), "privacy": ("privacy",), "protocols": ("protocols",)}
"""The rooms that are changed, and whose tests are asked: a noise answers for its own privacy."""

LIKELY = 3
"""Test files that are asked before all others."""

EXPLAINED = ROOT / "tests" / "survivors.toml"
LEAST_KILLED = 0.95
COPIED = ("src", "tests", "docs", "pyproject.toml")
OPERATORS = [name for name in cosmic_ray.plugins.operator_names() if "no_op" not in name]


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, and both lines."""

    module: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def room(self) -> str:
        return Path(self.module).parts[2]

    @property
    def key(self) -> tuple[str, str, str]:
        """What an explanation names: it holds wherever the line moves to."""
        return self.module, self.before, self.after


class _Bare(ast.NodeTransformer):
    """Code without annotations: they are never evaluated, so to change one changes nothing."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def bare(code: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(code)))


def differs(code: str, changed: str) -> bool:
    """Whether a change is Python, and does anything."""
    try:
        return bare(changed) != bare(code)
    except SyntaxError:
        return False


def places() -> list[tuple[str, str, int]]:
    """Every place that an operator can change: the module, the operator, and which of its places there."""
    found = []
    for room in TESTED_BY:
        for path in sorted((ROOT / "src" / "croupier" / room).rglob("*.py")):
            nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))
            for name in OPERATORS:
                operator = cosmic_ray.plugins.get_operator(name)
                if operator.arguments():
                    continue
                count = sum(1 for node in nodes for _ in operator().mutation_positions(node))
                found += [(str(path.relative_to(ROOT)), name, index) for index in range(count)]
    return found


def mutants(count: int, seed: int) -> Iterator[tuple[Mutant, str]]:
    """So many mutants drawn at random, each with the module's changed text; what changes nothing is no mutant."""
    drawn = places()
    random.Random(seed).shuffle(drawn)
    for module, name, occurrence in drawn:
        code = (ROOT / module).read_text(encoding="utf-8")
        changed = mutate_code(code, cosmic_ray.plugins.get_operator(name)(), occurrence)
        if changed is None or not differs(code, changed):
            continue
        lines = zip(code.splitlines(), changed.splitlines(), strict=False)
        line, (before, after) = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
        yield Mutant(module, name, occurrence, line, before.strip(), after.strip()), changed
        count -= 1
        if not count:
            return


@contextmanager
def a_copy() -> Iterator[Path]:
    """A tree to change, somewhere else."""
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "0"
        tree.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        yield tree


def one_each(tree: Path, workers: int) -> Queue[Path]:
    """A tree for every worker, compiled as this one is, so that no two change the same file."""
    ready: Queue[Path] = Queue()
    for number in range(workers):
        ready.put(tree if number == 0 else shutil.copytree(tree, tree.with_name(str(number))))
    return ready


def command(*paths: str) -> list[str]:
    """Fast tests of these paths until the first failure; pytest without what these rooms have no use for."""
    return [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"),
        *("-o", "addopts=--doctest-modules --strict-markers --import-mode=importlib"),
        *("-m", "not slow and not evidence", *paths),
    ]


def stages(tree: Path, module: str) -> list[list[str]]:
    """Which tests to ask, in order: those that speak most of a module and its own examples, then all others."""
    room, names = Path(module).parts[2], public_names(tree / module)
    files = [path for tested in TESTED_BY[room] for path in sorted((tree / "tests" / tested).glob("test_*.py"))]

    def mentions(path: Path) -> tuple[bool, int]:
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        return Path(module).stem in path.stem, len(words & names)

    ranked = [str(path.relative_to(tree)) for path in sorted(files, key=mentions, reverse=True)]
    return [[module, *ranked[:LIKELY]], ranked[LIKELY:]]


def public_names(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {path.stem} | {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def fails(tree: Path, paths: list[str], seconds: float, **environment: str) -> bool:
    """Whether a test fails in this tree; to hang is to fail."""
    quiet = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(tree / "src")}
    process = subprocess.Popen(
        command(*paths),
        cwd=tree,
        env=os.environ | quiet | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # 5 is a module without any test.
        return process.wait(seconds) not in (0, 5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def tried(mutant: Mutant, changed: str, trees: Queue[Path], seconds: float) -> bool:
    tree = trees.get()
    path = tree / mutant.module
    code = path.read_text(encoding="utf-8")
    asked = stages(tree, mutant.module)
    try:
        path.write_text(changed, encoding="utf-8")
        # What was compiled before the change is used and nothing is added: two changes within a second look alike.
        return any(fails(tree, paths, seconds, PYTHONDONTWRITEBYTECODE="1") for paths in asked)
    finally:
        path.write_text(code, encoding="utf-8")
        trees.put(tree)


def unharmed(tree: Path) -> float:
    """The longest that a room's fast tests take without any change; they must pass."""
    longest = 0.0
    for room, tested in TESTED_BY.items():
        begun = time.monotonic()
        if fails(tree, [f"src/croupier/{room}", *(f"tests/{one}" for one in tested)], 1800):
            raise SystemExit(f"the fast tests of {room} fail without any change")
        longest = max(longest, time.monotonic() - begun)
        print(f"{room}: {time.monotonic() - begun:.0f} s", flush=True)
    return longest


def explained() -> dict[tuple[str, str, str], str]:
    body = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {(one["module"], one["before"], one["after"]): one["why"] for one in body.get("survivor", [])}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--minutes", type=float, default=60.0, help="after this no mutant is begun")
    options.add_argument("--out", type=Path, default=Path("mutants.json"))
    given = options.parse_args()
    end = time.monotonic() + 60 * given.minutes
    drawn = list(mutants(given.count, given.seed))
    survivors, done = [], 0
    with a_copy() as tree, ThreadPoolExecutor(given.workers) as pool:
        seconds = 3 * unharmed(tree) + 20
        trees = one_each(tree, given.workers)

        def attempt(pair: tuple[Mutant, str]) -> tuple[Mutant, bool | None]:
            return pair[0], tried(*pair, trees, seconds) if time.monotonic() < end else None

        for mutant, killed in pool.map(attempt, drawn):
            done += killed is not None
            if killed is False:
                survivors.append(mutant)
                where = f"{mutant.module}:{mutant.line}"
                print(f"{where} survived ({done} tried)\n  - {mutant.before}\n  + {mutant.after}", flush=True)
    reasons = explained()
    body = {
        "seed": given.seed,
        "asked": given.count,
        "tried": done,
        "killed": done - len(survivors),
        "survivors": [vars(one) | {"why": reasons.get(one.key)} for one in survivors],
    }
    given.out.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    unexplained = [one for one in survivors if one.key not in reasons]
    print(f"{done} of {given.count} tried, {done - len(survivors)} killed, {len(unexplained)} survivors unexplained")
    return int(done < given.count or len(survivors) > (1 - LEAST_KILLED) * done or bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())
