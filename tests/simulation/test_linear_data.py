"""Linear worlds from CSV files: what a log says of each action, and each bad cell refused by file, line and column."""

import gc
import weakref

import numpy as np
import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.simulation import linear_data
from croupier.simulation.linear_data import labelled_world, logged_world

LOG = "age,visits,tip,done\n" + "\n".join(
    f"{20 + i % 40},{i % 7},{'mail' if i % 2 else 'video'},{int((i % 40 < 20) == (i % 2 == 0))}" for i in range(400)
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_a_log_s_actions_are_those_that_were_given_and_its_features_the_rest(log):
    world = logged_world(log, action="tip", reward="done")
    assert world.names == ("mail", "video")
    assert world.context.names == ("age", "visits")
    assert [(f.low, f.high) for f in world.context.features] == [(20.0, 59.0), (0.0, 6.0)]
    assert world.means.shape == (400, 2)
    assert world.dimension == 3
    # The young like the video, the others the mail; the nearest rows tell it for rows that got the other.
    young = world.context.values(world.rows[:, :-1])[:, 0] < 34
    assert world.means[young, 1].min() > 0.8 > 0.2 > world.means[young, 0].max()
    assert world.linear_mean > world.single_mean + 0.3


def test_a_mean_is_that_of_the_nearest_rows_by_a_plain_search(log):
    world = logged_world(log, action="tip", reward="done", neighbours=7)
    rows = [line.split(",") for line in LOG.splitlines()[1:]]
    for action, name in enumerate(world.names):
        given = np.asarray([row[2] == name for row in rows])
        rewards = np.asarray([float(row[3]) for row in rows])[given]
        for place in range(0, 400, 37):
            distances = ((world.rows[given] - world.rows[place]) ** 2).sum(axis=1)
            cut = np.sort(distances)[6]
            # Ties at the edge may go either way.
            least = rewards[distances < cut - 1e-12].sum()
            most = least + 7 - (distances < cut - 1e-12).sum()
            assert least - 1e-9 <= 7 * world.means[place, action] <= most + 1e-9


def test_columns_and_ranges_may_be_named(log):
    world = logged_world(log, action="tip", reward="done", features=["age"], ranges={"age": (0.0, 100.0)})
    assert world.context.names == ("age",)
    assert (world.context.features[0].low, world.context.features[0].high) == (0.0, 100.0)


def test_right_answers_earn_one(log):
    world = labelled_world(log, label="tip", features=["age", "visits"])
    assert (world.means.sum(axis=1) == 1.0).all()
    assert world.names == ("mail", "video")


def test_of_long_files_some_rows_are_drawn_always_the_same_and_no_more_are_held(log, monkeypatch):
    monkeypatch.setattr(linear_data, "MOST_ROWS", 100)
    first, again = (logged_world(log, action="tip", reward="done") for _ in range(2))
    assert len(first.rows) == 100
    assert np.array_equal(first.rows, again.rows)
    assert first.names == ("mail", "video"), "files have their own rhythm, and it is not met"


def test_every_row_of_a_long_file_is_as_likely():
    """Of 60 rows 10 are drawn 600 times: none is 7 deviations off, which chance does once in 10¹⁰."""
    drawn = np.zeros(60)
    for seed in range(600):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear_data, "MOST_ROWS", 10)
            patch.setattr(linear_data, "SEED", seed)
            kept = linear_data._sample((line, []) for line in range(60))
        assert [line for line, _ in kept] == sorted({line for line, _ in kept})
        drawn[[line for line, _ in kept]] += 1
    assert drawn.sum() == 6_000
    assert np.abs(drawn - 100.0).max() < 7.0 * np.sqrt(600 * (1 / 6) * (5 / 6))


@pytest.mark.slow
def test_a_file_is_read_line_by_line(monkeypatch):
    """The rows of a file that would never end: what is held does not grow."""
    monkeypatch.setattr(linear_data, "MOST_ROWS", 50)
    held = []

    def rows():
        for line in range(5_000):
            held.append(weakref.ref(cells := Cells()))
            yield line, cells

    linear_data._sample(rows())
    gc.collect()
    assert sum(one() is not None for one in held) <= 51


class Cells(list):
    """A row that can be watched."""


BAD = {
    "a missing cell": ("20,,mail,1", "line 402, column visits: nothing is there, and not a number"),
    "a word": ("20,many,mail,1", "line 402, column visits: 'many' is there, and not a number"),
    "not a number": ("20,nan,mail,1", "line 402, column visits: 'nan' is there"),
    "an infinite number": ("inf,1,mail,1", "line 402, column age: 'inf' is there"),
    "no action": ("20,1,,1", "line 402, column tip: nothing is there"),
    "a reward above one": ("20,1,mail,2", r"line 402, column done: 2 is not a number in \[0, 1\]"),
    "too few cells": ("20,1,mail", "line 402: 3 cells under 4 columns"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_one_clear_line(case, log):
    line, words = BAD[case]
    log.write_text(f"{LOG}\n{line}\n", encoding="utf-8")
    with pytest.raises(CroupierError, match=words) as refused:
        logged_world(log, action="tip", reward="done")
    assert "\n" not in str(refused.value)


REFUSED = {
    "no such column": ("column", {"action": "tipp"}, "did you mean tip"),
    "no such feature": ("column", {"features": ["size"]}, "one of"),
    "a feature that is the action": ("features", {"features": ["tip"]}, "other columns"),
    "a range of something else": ("range", {"ranges": {"size": (0, 1)}}, "a feature: age, visits"),
    "no neighbours": ("neighbours", {"neighbours": 0}, ">= 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused_by_name(case, log):
    name, change, words = REFUSED[case]
    with pytest.raises(InvalidParameter, match=f"(?s)^{name} = .*{words}"):
        logged_world(log, **{"action": "tip", "reward": "done"} | change)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,tip,done\n30,mail,1\n30,video,0", "column age is 30 throughout"),
        ("age,tip,done\n30,mail,1\n31,mail,0", "holds 'mail' alone; two actions are needed"),
        ("age,tip,done\n30,mail,1", "1 rows; at least two"),
        ("", "none: the file is empty"),
    ],
    ids=["one value", "one action", "one row", "nothing"],
)
def test_files_that_make_no_world_say_why(text, words, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CroupierError, match=words):
        logged_world(path, action="tip", reward="done")


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(CroupierError, match="cannot read"):
        logged_world(tmp_path / "none.csv", action="tip", reward="done")
