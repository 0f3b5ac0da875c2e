"""Tables that people read: nothing of them is cut, however narrow the page is."""

from croupier.cli.tables import NARROW, WIDTH, _widths, table

LONG = "my_long_company_package.policies"
NUMBERS = ("1", "tight", "20,000", "1,000", "1,731", "25.3", "1,654", "8,822", "100.0 %")
HEADINGS = ("policy", "ε", "constants", "horizon", "runs", "regret", "±", "median", "worst run", "best arm found")


def printed(capsys, names):
    table(HEADINGS, [(name, *NUMBERS) for name in names], right={*range(1, 10)} - {2})
    return capsys.readouterr().out


def test_names_that_differ_at_their_ends_are_told_apart(capsys):
    names = [f"{LONG}:{end}" for end in ("ENTRY", "OTHER", "a_third_one_that_is_longer_still")]
    shown = printed(capsys, names)
    assert "…" not in shown
    assert all(len(line) <= WIDTH for line in shown.splitlines())
    first_column = "".join(line[: line.find("  ")] if line[0] != " " else "" for line in shown.splitlines())
    assert all(name in first_column for name in names), shown


def test_a_name_gives_way_before_a_wider_number():
    number = "123,456,789,012"
    assert _widths(["name", "value"], [["dp-klucb-x", number]], {1}, room=26) == [9, len(number)]
    assert _widths(["name", "value"], [["dp-klucb-x", number]], {1}, room=20) == [NARROW, 10]
