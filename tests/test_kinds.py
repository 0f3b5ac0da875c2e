"""Kinds answer for themselves: hardly anybody asks of which kind a thing is, or what it is called."""

import ast
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

from croupier.noise import FAMILIES
from croupier.protocols import ROWS

SOURCE = Path(__file__).parents[1] / "src"
MOST = 14
"""Questions that are honest: equality and arithmetic with strangers, and what a user hands in at a door."""

REGISTERED = {*ROWS.own, *FAMILIES.own}
"""What a protocol or a family of noise is called."""
ASKED_BY_NAME = {
    "croupier/messages/asked.py": 1,  # the one noise that a device without NumPy can read and draw by itself
}
"""Where names are asked for, or chosen by, outside their own rooms and the figures; how often at most, and why."""


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def own_kinds() -> set[str]:
    """Every class of the project, and every name for a choice of them."""
    own = {name for tree in trees().values() for name in classes(tree)}
    return own | {name for tree in trees().values() for name in unions(tree, own)}


def unions(tree: ast.Module, own: Set[str]) -> Iterator[str]:
    """Names such as `Universe = Items | Buckets`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and named(node.value) <= own:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def classes(tree: ast.AST) -> Iterator[str]:
    """Most of a tree is expressions, which hold none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from classes(node)


def questions(tree: ast.AST, own: Set[str]) -> Iterator[str]:
    """Where code asks of which of the project's `own` kinds something is, in whatever form, line by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield f"{node.lineno}: match {ast.unparse(node.subject)}"
        elif asks_instance(node, own) or asks_type(node):
            yield f"{node.lineno}: {ast.unparse(node)}"


def asks_instance(node: ast.AST, own: Set[str]) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and node.func.id in ("isinstance", "issubclass") and bool(named(node.args[1]) & own)


def asks_type(node: ast.AST) -> bool:
    """By comparing, or by looking up in a table of kinds."""
    if isinstance(node, ast.Compare):
        return any(map(is_type, (node.left, *node.comparators)))
    looked_up = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    return (isinstance(node, ast.Subscript) and is_type(node.slice)) or (looked_up and any(map(is_type, node.args)))


def is_type(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
    return called or (isinstance(node, ast.Attribute) and node.attr == "__class__")


def named(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


@pytest.mark.slow
def test_fewer_than_fifteen_questions_are_asked_outside_noise():
    own = own_kinds()
    assert "Policy" in own
    found = [
        f"{path.relative_to(SOURCE)}:{one}"
        for path, tree in trees().items()
        if "noise" not in path.relative_to(SOURCE).parts
        for one in questions(tree, own)
    ]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(x, Policy)",
        "issubclass(x, bandits.Policy)",
        "isinstance(x, int | Policy)",
        "type(x) is Policy",
        "Policy == type(x)",
        "x.__class__ is Policy",
        "TABLE[type(x)]",
        "TABLE.get(type(x))",
        "match x:\n    case Policy(): pass",
    ],
)
def test_every_form_of_the_question_is_seen(code):
    assert len(list(questions(ast.parse(code), {"Policy"}))) == 1
    assert not list(questions(ast.parse("isinstance(x, int)"), {"Policy"}))


def by_name(tree: ast.Module) -> Iterator[str]:
    """Where code compares with a registered name, looks one up in a table of its own, hands one on, or imports one."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (constants.get(getattr(side, "id", None), side) for side in (node.left, *node.comparators))
            if any(map(says_name, sides)):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Dict):
            chosen = (value for key, value in pairs(node) if says_name(key) or says_name(value))
            yield from (f"{value.lineno}: {ast.unparse(value)}" for value in chosen)
        elif hands_on(node) or imports_protocol(node):
            yield f"{node.lineno}: {ast.unparse(node)}"


def pairs(table: ast.Dict) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Keys and values; options that are passed on, as in {"over": "laplace"}, are no choice."""
    for key, value in zip(table.keys, table.values, strict=True):
        if key is not None and ast.unparse(key) not in ("'over'", "'protocol_name'"):
            yield key, value


def hands_on(node: ast.AST) -> bool:
    """Whether it calls something with a registered name; the catalogue's `Entry` says which protocol a policy has."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) != "Entry" and any(map(says_name, node.args))


def imports_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and any(one.name.replace("_", "-") in ROWS.own for one in node.names)


def says_name(node: ast.AST) -> bool:
    """Whether it is a registered name, or a few of them."""
    said = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return any(isinstance(one, ast.Constant) and one.value in REGISTERED for one in said)


def outside_their_rooms() -> Iterator[tuple[str, ast.AST]]:
    for path, tree in trees().items():
        within = path.relative_to(SOURCE)
        if within.parts[0] == "croupier" and within.parts[1] not in ("protocols", "noise"):
            yield str(within), tree


@pytest.mark.slow
def test_hardly_anybody_chooses_by_the_name_of_a_protocol_or_of_a_noise():
    found = {where: lines for where, tree in outside_their_rooms() if (lines := list(by_name(tree)))}
    more = {where: lines for where, lines in found.items() if len(lines) > ASKED_BY_NAME.get(where, 0)}
    assert not more, more


@pytest.mark.parametrize(
    "code",
    [
        "name == 'laplace'",
        "'DiscreteLaplace' != family",
        "name in ('skellam', other)",
        "LOCAL = 'local-laplace'\nname == LOCAL",
        "TRUSTS = {'nobody': 'local-laplace'}",
        "NOISES = {'shuffler': ('shuffled-vectors',)}",
        "BUILD = {'laplace': build}",
        "protocol('laplace', epsilon=1.0)",
        "from croupier.protocols import shuffled_bits",
    ],
)
def test_every_form_of_choosing_by_name_is_seen(code):
    assert len(list(by_name(ast.parse(code)))) == 1
    harmless = "name == 'two-servers'\ncounter(over='laplace')\n{'over': 'laplace'}\nEntry('mine', 'laplace')"
    assert not list(by_name(ast.parse(harmless)))
