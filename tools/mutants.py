"""Mutants: a seeded sample of small changes to the mathematics, each of which some fast test must notice.

`make mutants` changes one place of `noise`, `privacy` or `protocols` at a time (Cosmic Ray makes the changes), runs the
room's examples and fast tests until one fails, those that run the changed line first, and counts who noticed. Whatever
survives must be explained in `tests/survivors.toml`. What is known is written down after every mutant: `--resume` goes
on from there, and tries again only those that lived.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from witnesses import mark_of, marked

ROOT = Path(__file__).resolve().parent.parent
TESTED_BY = {"noise": ("noise", "privacy"), "privacy": ("privacy",), "protocols": ("protocols",)}
"""The rooms that are changed, and whose tests are asked: a noise answers for its own privacy."""

LIKELY = 3
"""Test files that are asked before all others."""

MOST_MEMORY = 6 * 2**30
"""Bytes that a test may take: a sum that became a power must not take the machine."""

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

    @property
    def place(self) -> tuple[str, str, str, str, int]:
        """What a result is known by in a later run."""
        return *self.key, self.operator, self.occurrence


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


def places(seed: int) -> Iterator[tuple[bytes, str, str, int]]:
    """Every place that an operator can change: its lot, the module, the operator, and which of its places there.

    A lot depends on the line alone, so a change elsewhere leaves the sample as it was.
    """
    for path in sorted(path for room in TESTED_BY for path in (ROOT / "src" / "croupier" / room).rglob("*.py")):
        code, module = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        nodes, lines = list(ast_nodes(get_ast(code))), code.splitlines()
        for name in OPERATORS:
            operator = cosmic_ray.plugins.get_operator(name)
            if operator.arguments():
                continue
            positions = (start for node in nodes for start, _ in operator().mutation_positions(node))
            before: Counter[tuple[str, int]] = Counter()
            for occurrence, (line, column) in enumerate(positions):
                where = lines[line - 1], column
                before[where] += 1
                lot = hashlib.sha256(repr((seed, module, name, where, before[where])).encode()).digest()
                yield lot, module, name, occurrence


def mutants(count: int, seed: int) -> Iterator[tuple[Mutant, str]]:
    """So many mutants drawn at random, each with the module's changed text; what changes nothing is no mutant."""
    for _, module, name, occurrence in sorted(places(seed)):
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


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def outcome(tree: Path, paths: Iterable[str], seconds: float, **environment: str) -> str:
    """How the fast tests of these paths end in this tree: they "passed", one "failed", or they "hung".

    It is pytest without what these rooms have no use for.
    """
    quiet = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OPENBLAS_NUM_THREADS": "1"}
    seen = {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT / "tools")))}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "witnesses"),
            *("-o", "addopts=--doctest-modules --strict-markers --import-mode=importlib"),
            *("-m", "not slow and not evidence", *paths),
        ],
        cwd=tree,
        env=os.environ | quiet | seen | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=limited,
    )
    try:
        code = process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "hung"
    # 5 is a module without any test.
    return "passed" if code in (0, 5) else "hung" if code == -signal.SIGPROF else "failed"


@dataclass(frozen=True)
class Test:
    """A fast test: how long it takes, and which lines it runs."""

    nodeid: str
    seconds: float
    hits: dict[str, list[int]]

    @property
    def file(self) -> str:
        return self.nodeid.partition("::")[0]

    @property
    def function(self) -> str:
        return self.nodeid.partition("[")[0]

    @property
    def limit(self) -> float:
        """Seconds of computing after which it hangs."""
        return 10.0 + 10.0 * self.seconds


def survey(tree: Path, room: str) -> list[Test]:
    """A room's fast tests and examples in a tree whose modules say what they pass; all must pass without any change."""
    path = tree / f"{room}.json"
    begun = time.monotonic()
    if outcome(tree, (f"src/croupier/{room}", f"tests/{room}"), 1800, WITNESSES=str(path)) != "passed":
        raise SystemExit(f"the fast tests of {room} do not pass without any change")
    tests = [Test(nodeid, **told) for nodeid, told in json.loads(path.read_text(encoding="utf-8")).items()]
    print(f"{room}: {len(tests)} tests in {time.monotonic() - begun:.0f} s", flush=True)
    return tests


def quickest_first(tests: list[Test]) -> list[Test]:
    """The quickest case of each test before all others: they seldom see more."""
    quickest: dict[str, Test] = {}
    for test in sorted(tests, key=lambda one: one.seconds):
        quickest.setdefault(test.function, test)
    return sorted(tests, key=lambda one: (quickest[one.function] is not one, one.seconds))


def with_marks(tree: Path) -> Path:
    """A copy of the tree whose modules say what they pass."""
    copy = Path(shutil.copytree(tree, tree.with_name("marked")))
    for path in (path for room in TESTED_BY for path in (copy / "src" / "croupier" / room).rglob("*.py")):
        module = str(path.relative_to(copy))
        path.write_text(marked(module, path.read_text(encoding="utf-8")), encoding="utf-8")
    return copy


class Trial:
    """Trees to change, one for each worker, so that no two change the same file; and the tests to ask."""

    def __init__(self, tree: Path, workers: int, tests: dict[str, list[Test]], end: float) -> None:
        self.tests, self.end = tests, end
        # Compiled once, and not for every mutant.
        outcome(tree, ["--collect-only", *(f"tests/{room}" for room in tests)], 600)
        self.trees: Queue[Path] = Queue()
        for number in range(workers):
            self.trees.put(tree if number == 0 else Path(shutil.copytree(tree, tree.with_name(str(number)))))

    def control(self, room: str) -> None:
        """Asked as for a mutant, but with nothing changed, the tests of a room pass: else nobody is killed by them."""
        tree = self.trees.get()
        if self._asked(tree, quickest_first(self.tests[room])) != "passed":
            raise SystemExit(f"the fast tests of {room} notice a change where there is none")
        self.trees.put(tree)
        print(f"{room}: nothing is noticed where nothing is changed", flush=True)

    def stages(self, mutant: Mutant) -> list[list[Test]]:
        """Whom to ask, in order: those that run the changed line, files that do little else first; then the room."""
        room = [test for tested in TESTED_BY[mutant.room] for test in self.tests[tested]]
        mark = mark_of((ROOT / mutant.module).read_text(encoding="utf-8"), mutant.line)
        saw = [one for one in room if mark in one.hits.get(mutant.module, ())]
        every, these = (Counter(one.file for one in tests) for tests in (room, saw))
        near = sorted(these, key=lambda file: these[file] / every[file], reverse=True)[:LIKELY]
        chosen = set(map(id, saw))
        parts = (
            [one for one in saw if one.file in near],
            [one for one in saw if one.file not in near],
            [one for one in room if id(one) not in chosen],
        )
        return [quickest_first(part) for part in parts if part]

    def of(self, mutant: Mutant, changed: str) -> str | None:
        """How a mutant ended: a test "failed", one "hung", or it "survived"; none if there was no time to know."""
        tree = self.trees.get()
        path = tree / mutant.module
        code = path.read_text(encoding="utf-8")
        try:
            path.write_text(changed, encoding="utf-8")
            for asked in self.stages(mutant):
                ended = self._asked(tree, asked)
                if ended != "passed":
                    return ended
            return "survived"
        finally:
            path.write_text(code, encoding="utf-8")
            self.trees.put(tree)

    def _asked(self, tree: Path, asked: list[Test]) -> str | None:
        known = tree / "asked.json"
        known.write_text(json.dumps({one.nodeid: one.limit for one in asked}), encoding="utf-8")
        files = sorted({one.file for one in asked})
        enough = 60.0 + 10.0 * sum(one.seconds for one in asked)
        left = self.end - time.monotonic()
        # What was compiled before the change is used and nothing is added: two changes within a second look alike.
        ended = outcome(tree, files, min(enough, left), ASKED=str(known), PYTHONDONTWRITEBYTECODE="1")
        return None if ended == "hung" and left < enough else ended


def explained() -> dict[tuple[str, str, str], str]:
    body = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {(one["module"], one["before"], one["after"]): one["why"] for one in body.get("survivor", [])}


class Results:
    """What became of every mutant, kept in a file after each."""

    def __init__(self, path: Path, seed: int, drawn: list[Mutant], resume: bool) -> None:
        self.path, self.seed, self.drawn = path, seed, drawn
        self.reasons = explained()
        self.outcomes: dict[Mutant, str] = {}
        if resume and path.exists():
            known = json.loads(path.read_text(encoding="utf-8"))["killed"]
            killed = {tuple(one[:-1]): one[-1] for one in known}
            self.outcomes = {one: killed[one.place] for one in drawn if one.place in killed}

    @property
    def survivors(self) -> list[Mutant]:
        return [one for one in self.drawn if self.outcomes.get(one) == "survived"]

    @property
    def unexplained(self) -> list[Mutant]:
        return [one for one in self.survivors if one.key not in self.reasons]

    def add(self, mutant: Mutant, ended: str) -> None:
        self.outcomes[mutant] = ended
        body = {
            "seed": self.seed,
            "asked": len(self.drawn),
            "tried": len(self.outcomes),
            "survivors": [vars(one) | {"why": self.reasons.get(one.key)} for one in self.survivors],
            "killed": [[*one.place, ended] for one, ended in self.outcomes.items() if ended != "survived"],
        }
        self.path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(self.outcomes)} of {len(self.drawn)}: {mutant.module}:{mutant.line} {ended}", flush=True)
        if ended == "survived":
            print(f"  - {mutant.before}\n  + {mutant.after}", flush=True)

    @property
    def passed(self) -> bool:
        tried, alive = len(self.outcomes), len(self.survivors)
        return tried == len(self.drawn) and alive <= (1 - LEAST_KILLED) * tried and not self.unexplained


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--minutes", type=float, default=60.0, help="what is not known by then is not tried")
    options.add_argument("--out", type=Path, default=Path("mutants.json"))
    options.add_argument("--resume", action="store_true", help="go on from --out: whoever was killed stays so")
    given = options.parse_args()
    end = time.monotonic() + 60 * given.minutes
    drawn = dict(mutants(given.count, given.seed))
    results = Results(given.out, given.seed, list(drawn), given.resume)
    waiting = [mutant for mutant in drawn if mutant not in results.outcomes]
    with a_copy() as tree, ThreadPoolExecutor(given.workers) as pool:
        copy = with_marks(tree)
        tests = dict(zip(TESTED_BY, pool.map(lambda room: survey(copy, room), TESTED_BY), strict=True))
        trial = Trial(tree, given.workers, tests, end)
        list(pool.map(trial.control, TESTED_BY))
        begun = {pool.submit(trial.of, mutant, drawn[mutant]): mutant for mutant in waiting}
        for future in as_completed(begun):
            ended = future.result()
            if ended:
                results.add(begun[future], ended)
    tried, alive = len(results.outcomes), len(results.survivors)
    killed = f"{tried - alive} killed ({(tried - alive) / max(tried, 1):.1%})"
    print(f"{tried} of {len(drawn)} tried, {killed}, {len(results.unexplained)} survivors unexplained")
    return int(not results.passed)


if __name__ == "__main__":
    raise SystemExit(main())
