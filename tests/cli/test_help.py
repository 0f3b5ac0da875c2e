"""Help that fits a small terminal, examples that a person can paste, and outputs that end with what they cite."""

import json
import re
import shlex

import pytest

from croupier import cli
from croupier.cli import main, operate, parser
from croupier.references import KEY, cited

COMMANDS = {name: cli.command(name) for name in cli.COMMANDS}


def _help(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_explains_every_option(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = _help(capsys, *filter(None, [command]))
    assert [line for line in text.splitlines() if len(line) > 80] == []
    # An option that stands alone on a line, with nothing behind it or under it, is not explained.
    assert re.findall(r"^  --?[a-z-]+(?: [^ ]+)?$(?!\n {10,})", text, re.MULTILINE) == []
    assert KEY.findall(text) == []


def test_every_command_has_the_name_that_it_is_found_by() -> None:
    assert [module.NAME for module in COMMANDS.values()] == [*COMMANDS]
    assert tuple(wish.NAME for wish in operate.WISHES) == cli.OPERATIONS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_description_is_made_of_sentences(command: str) -> None:
    about = COMMANDS[command].ABOUT
    assert about[0].isupper()
    assert about.endswith(".")
    assert len(COMMANDS[command].SUMMARY) <= 66


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_are_commands(command: str) -> None:
    lines = "\n".join(COMMANDS[command].EXAMPLES).replace("\\\n", "").splitlines()
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "croupier"
        options, rest = parser([command]).parse_known_args(arguments)
        assert (options.command, [word for word in rest if word[0] == "-"]) == (command, [])


CITING = [
    ["policies"],
    ["protocols"],
    ["reproduce"],
    ["price", "--users", "20", "--epsilon", "2"],
    ["price", "--users", "100", "--epsilon", "1", "--items", "5"],
    ["price", "shuffled-bits", "--users", "100", "--epsilon", "2", "--constants", "published"],
    ["simulate", "--policy", "sdp-ae", "--means", ".4,.6", "--horizon", "1000", "--constants", "published"],
    ["count", "--users", "500", "--epsilon", "1", "--runs", "2", "--references"],
]
"""Commands that cite a paper, in their result or in what they refuse."""

OTHERS = [
    ["price", "laplace", "--users", "100", "--epsilon", "1"],
    ["simulate", "--policy", "dp-klucb", "--means", ".4,.6", "--horizon", "1000", "--runs", "2"],
    ["plan", "--arms", "2", "--lift", ".4", "--epsilon", "1", "--runs", "20"],
    ["audit", "laplace", "--users", "10", "--epsilon", "1", "--trials", "200", "--seed", "1"],
    ["histogram", "examples/fruit.txt", "--universe", "examples/fruits.txt", "--epsilon", "1"],
]


def _ends_with_its_papers(text: str) -> bool:
    """Whether a text that cites papers ends with all of them, however its lines are folded."""
    plain = " ".join(text.split())
    return plain.endswith(" ".join(map(str, cited(plain))))


@pytest.mark.parametrize("arguments", [*CITING, *OTHERS], ids=" ".join)
def test_an_output_that_cites_a_paper_ends_with_author_and_title(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments)
    captured = capsys.readouterr()
    said = captured.out or captured.err
    assert bool(KEY.findall(said)) == (arguments in CITING)
    assert _ends_with_its_papers(said)


REFUSING = "price --users 100 --epsilon 1 --constants published"
"""Some protocols of it say which paper's constants do not exist for so few users."""


@pytest.mark.parametrize("command", ["policies", "protocols", "reproduce", REFUSING])
def test_a_row_of_json_ends_with_author_and_title(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*command.split(), "--json"])
    rows = json.loads(capsys.readouterr().out)
    for row in rows:
        assert list(row)[-1] == "reference"
        reference = row.pop("reference")
        assert reference == " ".join(map(str, cited(str(row))))
    assert any(KEY.findall(str(row)) for row in rows)
