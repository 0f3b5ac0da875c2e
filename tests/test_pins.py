"""Everything that a set-up installs is pinned: one version, known by hashes, from no registry in particular."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETS = ("run", "test", "bench", "mutants")


def pins(name):
    """Version and hashes of every package of a set; whatever is neither is left over."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([\w.-]+)==(\S+)(?: ; ([^-]+?))?((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*", line)
        assert match is not None, line
        found[match[1]] = (match[2], match[4].split())
    return found


@pytest.mark.parametrize("name", SETS)
def test_every_package_is_one_version_with_hashes_and_no_address_is_given(name):
    assert all(hashes for _, hashes in pins(name).values())


def test_each_set_is_a_part_of_the_next():
    for small, large in (("run", "test"), ("test", "bench"), ("test", "mutants")):
        assert pins(small).items() <= pins(large).items()


def test_nothing_is_installed_but_what_is_pinned():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(PIP) install" in line]
    ways = ("--require-hashes -r $<", "--no-build-isolation --no-deps -e .")
    assert [line.split("install ")[1] for line in installs] == list(ways)
    assert "hatchling" in pins("run")


def test_whatever_the_project_asks_for_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name, asked in extras.items() if name != "ray" for one in asked)]
    names = {re.match(r"[\w.-]+", one)[0].lower().replace("_", "-") for one in wanted} - {"croupier"}
    assert names <= {*pins("bench"), *pins("mutants")}
