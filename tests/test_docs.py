"""What the documents point to is there: links, headings, and names of the library."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from croupier.cli import COMMANDS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("examples/**/*.md"),
    *ROOT.glob("clients/**/*.md"),
]


def anchors(path: Path) -> set[str]:
    """The headings of a document, as links name them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"https?://", target):
            continue
        file, _, heading = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), target
        assert not heading or heading in anchors(found), target


def exists(name: str) -> bool:
    """Whether there is a module by this name, or something in one."""
    module, things = name, []
    while True:
        try:
            found = import_module(module)
            break
        except ImportError:
            module, _, thing = module.rpartition(".")
            things.insert(0, thing)
    return reduce(lambda found, thing: getattr(found, thing, None), things, found) is not None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_exist(path: Path) -> None:
    names = re.findall(r"`(croupier(?:\.\w+)+)(?=[`(])", path.read_text(encoding="utf-8"))
    assert [name for name in names if not name.endswith((".js", ".json")) and not exists(name)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_is_told_to_install_from_an_index(path: Path) -> None:
    assert not re.search(r"pip install '?\"?croupier", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(path: Path) -> None:
    code = re.findall(r"```.*?```|`[^`\n]+`", path.read_text(encoding="utf-8"), re.DOTALL)
    named = re.findall(r"(?:`|^|/)croupier ([a-z]+)\b", "\n".join(code), re.MULTILINE)
    assert set(named) <= set(COMMANDS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_exist(path: Path) -> None:
    """In the folder that is named, or in any."""
    for folder, file, name in re.findall(
        r"`(tests/[\w/]*)?(test_\w+\.py)(?:::(\w+))?`", path.read_text(encoding="utf-8")
    ):
        places = [ROOT / folder / file] if folder else list((ROOT / "tests").rglob(file))
        texts = [place.read_text(encoding="utf-8") for place in places if place.exists()]
        assert texts, file
        assert not name or any(f"def {name}(" in text for text in texts), name
