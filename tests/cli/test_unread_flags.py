"""A flag that no row of an output reads is refused by name."""

import pytest

from croupier.cli import main

PRICE = "price --users 100 --epsilon 0.5"
PLAN = "plan --arms 2 --lift 0.2 --epsilon 1 --runs 5"
LINEAR = "linear --users 2000 --runs 1"
TIPS = "--data examples/tips.csv --action-column tip --reward-column finished"
LEARN = "learn --data examples/visits.csv --user-column user --label-column again --epsilon 1"
FRUIT = "histogram examples/fruit.txt --universe examples/fruits.txt --epsilon 1"

UNREAD = [
    *(
        (f"{PRICE} --items 10", flag)
        for flag in ("--participations 3", "--scaling 3", "--binary", "--low 1", "--high 2", "--dimension 3")
    ),
    *((f"{PRICE} --items 10 --trust nobody", flag) for flag in ("--front-noise", "--honest-fraction 0.5")),
    *((f"{PRICE} --trust nobody", flag) for flag in ("--scaling 5", "--dimension 3", "--front-noise")),
    (f"{PRICE} --trust two-servers", "--honest-fraction 0.5"),
    (PLAN, "--scaling 5"),
    (f"{PLAN} --protocol laplace", "--delta 1e-5"),
    (f"{PLAN} --policy dp-klucb", "--delta 1e-5"),
    (f"{PLAN} --policy dp-klucb", "--power 0.9"),
    (f"{PLAN} --guardrail 0.1:0.02", "--delta 1e-5"),
    *((f"{LINEAR} --model local", flag) for flag in ("--trust devices", "--largest 99", "--norm 2", "--control 0.1")),
    *((f"{LINEAR} --model no-privacy", flag) for flag in ("--epsilon 2", "--delta 1e-3")),
    *((f"{LINEAR} --world table:shuttle", flag) for flag in ("--dimension 3", "--actions 3", "--range a=0:1")),
    *((f"{LINEAR} {TIPS}", flag) for flag in ("--dimension 3", "--actions 3")),
    *((f"linear --plan {TIPS}", flag) for flag in ("--users 9", "--model growing", "--plot a.png")),
    *((f"{LEARN} --rule parities", flag) for flag in ("--cuts 3", "--low 1", "--range pages=0:9", "--conjunction 2")),
    (f"{LEARN} --range minutes=0:60 --range pages=0:20", "--high 7"),
    (FRUIT, "--salt x"),
    (f"{FRUIT} --model central", "--honest-fraction 0.5"),
    *(("reproduce", flag) for flag in ("--quick", "--seed 3", "--out here", "--data a.txt")),
]


@pytest.mark.parametrize(("command", "flag"), UNREAD)
def test_a_flag_that_nothing_reads_is_refused_by_name(
    command: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"{command} {flag}".split()
    assert main(words) == 2
    key = flag.split()[0][2:].replace("-", "_")
    said = capsys.readouterr().err
    assert said.startswith(f"croupier {words[0]}: {key} = ")
    assert " is not allowed: it must be left out: " in said


def test_a_flag_that_some_row_reads_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    both = "simulate --policy shuffle-dp-se --policy dp-klucb --policy kl-ucb --means 0.2,0.8 --horizon 500 --runs 1"
    assert main([*both.split(), "--delta", "1e-5", "--epsilon", "2"]) == 0
    assert capsys.readouterr().err == ""
