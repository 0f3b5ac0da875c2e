"""The command where not all is installed that it needs."""

import subprocess
import sys

import pytest

RUN = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {missing!r}:
            raise ImportError("not here", name=name)

sys.meta_path.insert(0, Block())
from croupier.command import main
sys.argv = ["croupier", "audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "60"]
sys.exit(main())
"""


def run(missing):
    return subprocess.run([sys.executable, "-c", RUN.format(missing=missing)], capture_output=True, text=True)


@pytest.mark.slow
def test_without_the_library_the_command_says_in_one_line_what_to_install():
    for missing in ("numpy", "scipy", "flint", "rich"):
        done = run(missing)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"croupier: {missing} is missing: install croupier[library]\n"


@pytest.mark.slow
def test_with_it_the_command_runs():
    done = run("nothing")
    assert (done.returncode, done.stderr) == (0, "")
    assert "laplace" in done.stdout


@pytest.mark.slow
def test_a_server_waits_for_no_import_that_it_does_not_need():
    code = (
        "import sys; from croupier import cli; cli.parser(['serve']); import croupier.service.front_app, "
        "croupier.service.analyzer_app; print(*(name for name in sys.modules if name in "
        "{'scipy', 'matplotlib', 'pandas', 'croupier_papers', *(f'croupier.cli.{name}' for name in cli.COMMANDS)}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["croupier.cli.serve"]


def test_it_runs_as_a_module_too():
    done = subprocess.run([sys.executable, "-m", "croupier", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("croupier ")
