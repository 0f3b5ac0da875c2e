"""Kinds answer for themselves: hardly anybody asks of which kind a thing is."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MOST = 14
"""Questions that are honest: equality and arithmetic with strangers, and what a user hands in at a door."""


@cache
def trees() -> dict[Path, ast.AST]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def own() -> set[str]:
    return {node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def questions(tree: ast.AST) -> Iterator[str]:
    """Where code asks of which of the project's own kinds something is, in whatever form, line by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield f"{node.lineno}: match {ast.unparse(node.subject)}"
        elif asks_instance(node) or asks_type(node):
            yield f"{node.lineno}: {ast.unparse(node)}"


def asks_instance(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and node.func.id in ("isinstance", "issubclass") and bool(named(node.args[1]) & own())


def asks_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(map(is_type, (node.left, *node.comparators)))


def is_type(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
    return called or (isinstance(node, ast.Attribute) and node.attr == "__class__")


def named(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def test_fewer_than_fifteen_questions_are_asked_outside_noise():
    found = [
        f"{path.relative_to(SOURCE)}:{one}"
        for path, tree in trees().items()
        if "noise" not in path.relative_to(SOURCE).parts
        for one in questions(tree)
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
        "match x:\n    case Policy(): pass",
    ],
)
def test_every_form_of_the_question_is_seen(code):
    assert len(list(questions(ast.parse(code)))) == 1
    assert not list(questions(ast.parse("isinstance(x, int)")))
