"""Tables that people read: nothing of them is cut, however narrow the page is."""

from croupier.cli.tables import WIDTH, _fitted, table

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


def test_a_name_gives_way_before_a_number_and_a_number_is_written_shorter_before_a_name_is_broken_inside():
    cells = [["dp-klucb-x", "123,456,789,012"]]
    assert _fitted(["name", "value"], cells, {1}, room=26) == (cells, [9, 15])
    assert _fitted(["name", "value"], cells, {1}, room=20) == ([["dp-klucb-x", "1.235e11"]], [10, 8])
    assert _fitted(["name", "value"], [["klucbklucbx", "1,234"]], {1}, room=16) == ([["klucbklucbx", "1,234"]], [9, 5])


def test_words_are_broken_at_hyphens_and_in_names_where_they_are_joined(capsys):
    shown = printed(capsys, ["thompson:ENTRY", "concurrent-elimination"])
    assert [line.split()[0] for line in shown.splitlines()[-4:]] == ["thompson:", "ENTRY", "concurrent-", "elimination"]


def test_no_number_is_broken_even_where_a_table_must_be_wider(capsys):
    numbers = [f"{7 * 10**9 + place:,}.5" for place in range(9)]
    table(["trust", *"abcdefghi"], [["two-servers", *numbers]], right={*range(1, 10)}, title="wide")
    shown = capsys.readouterr().out
    assert [number for number in numbers if number not in shown] == []
    assert max(map(len, shown.splitlines())) > WIDTH


def test_numbers_of_users_that_do_not_fit_are_written_in_fewer_digits(capsys):
    wide = ["6,353,724,956", "1,419,878", "9,856,713,334", "17,701,241,756", "13,208,938,896"]
    headings = ["trust", "batch", "median", "±", "80 %", "95 %", "alike, 80 %"]
    table(headings, [["two-servers", "752", *wide]], right={*range(1, 7)})
    line = capsys.readouterr().out.splitlines()[-1]
    assert len(line) <= WIDTH
    assert line.split() == ["two-servers", "752", "6.354e9", "1,419,878", "9.857e9", "1.77e10", "1.321e10"]
