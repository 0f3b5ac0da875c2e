"""Worlds from files are what the files say, and a bad file is refused by line."""

import csv
import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from croupier.checks import CroupierError, InvalidParameter
from croupier.simulation import data
from croupier.simulation.data import (
    ratings_from_letor,
    ratings_from_open_bandit,
    write_synthetic_letor,
    write_synthetic_open_bandit,
)

TWO_HEAPS = """\
0 qid:1 1:0.1 2:0.0 # a page
1 qid:1 1:0.2
4 qid:2 1:9.1 3:5

2 qid:2 1:9.0 2:0.1 3:5.5 # another: page
# a line of its own
1 1:0.15 2:0.05
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("web") / "web.txt"
    write_synthetic_letor(path, rows=6_000, features=12, queries=50, seed=3)
    return path


def written(folder: Path, text: str | bytes, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def tables(world: data.Ratings) -> list[list[float]]:
    return sorted(sorted(table.tolist()) for table in world.tables)


def test_each_cluster_of_a_letor_file_is_an_arm_with_its_scaled_labels(tmp_path: Path) -> None:
    world = ratings_from_letor(written(tmp_path, TWO_HEAPS), arms=2)
    assert tables(world) == [[0.0, 0.25, 0.25], [0.5, 1.0]]
    assert world.source == "file.txt: 5 rows of 3 features in 2 clusters (seed 0)"


def test_rows_are_read_the_same_in_small_chunks_and_packed(
    web: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = written(tmp_path, gzip.compress(web.read_bytes()), "web.txt.gz")
    told = data._Told(None)
    features, labels, _ = data._letor_rows(web, None, told)
    monkeypatch.setattr(data, "ROWS_AT_ONCE", 7)
    again, same_labels, _ = data._letor_rows(packed, 100, told)
    assert features.dtype == np.float32
    assert features.shape == (6_000, 12)
    assert np.array_equal(again, features[:100])
    assert np.array_equal(same_labels, labels[:100])


def test_a_sparse_tail_widens_the_rows_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "ROWS_AT_ONCE", 1)
    features, labels, _ = data._letor_rows(written(tmp_path, "0 1:2\n3 3:0.5"), None, data._Told(None))
    assert features.tolist() == [[2, 0, 0], [0, 0, 0.5]]
    assert labels.tolist() == [0, 3]


def test_the_seed_fixes_the_clusters(web: Path) -> None:
    first, second = (ratings_from_letor(web, arms=8, seed=5) for _ in range(2))
    assert first.tables[0].tolist() == second.tables[0].tolist()
    assert first.means.tolist() == second.means.tolist()
    assert first.means.tolist() != ratings_from_letor(web, arms=8, seed=6).means.tolist()


def test_a_feature_counts_the_same_whatever_its_unit(web: Path, tmp_path: Path) -> None:
    rows = web.read_text().splitlines()[1:400]
    longer = [" ".join(f"{t}e3" if t.startswith("2:") else t for t in row.split()) for row in rows]
    here = ratings_from_letor(written(tmp_path, "\n".join(rows), "a"), arms=5)
    there = ratings_from_letor(written(tmp_path, "\n".join(longer), "b"), arms=5)
    assert tables(here) == tables(there)


def test_empty_clusters_are_dropped_and_said(tmp_path: Path) -> None:
    world = ratings_from_letor(written(tmp_path, "0 1:0\n1 1:5\n" * 10), arms=4)
    assert tables(world) == [[0.0] * 10, [1.0] * 10]
    assert "4 clusters (seed 0), 2 empty ones dropped" in world.source


def test_a_world_from_a_synthetic_file_says_so(web: Path) -> None:
    assert web.read_text().startswith("# Synthetic rows in the layout of MSLR-WEB10K")
    assert "the file says: Synthetic rows" in ratings_from_letor(web, arms=3).source


def test_synthetic_relevance_is_skewed_like_web_relevance(tmp_path: Path) -> None:
    path = tmp_path / "web.txt"
    write_synthetic_letor(path, rows=20_000, features=1, seed=1)
    labels = [int(line.split()[0]) for line in path.read_text().splitlines()[1:]]
    shares = np.bincount(labels, minlength=5) / 20_000
    # The law itself is within 0.005 of the target; seven standard errors are below 0.025.
    assert shares == pytest.approx(data.RELEVANCE, abs=0.03)


def test_synthetic_rows_have_the_layout_of_mslr(tmp_path: Path) -> None:
    path = tmp_path / "web.txt"
    write_synthetic_letor(path, rows=240, seed=1)
    rows = [line.split() for line in path.read_text().splitlines()[1:]]
    assert len(rows) == 240
    assert {tuple(t.split(":")[0] for t in row[2:]) for row in rows} == {tuple(map(str, range(1, 137)))}
    assert [row[1] for row in rows] == ["qid:1"] * 120 + ["qid:2"] * 120


def test_arms_of_a_synthetic_file_differ_in_mean(web: Path) -> None:
    world = ratings_from_letor(web, arms=10)
    # Were labels and clusters independent, means would lie within 0.05 of each other (six standard errors).
    assert np.ptp(world.means) > 0.1


def test_progress_adds_up_to_one(web: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "ROWS_AT_ONCE", 500)
    log = tmp_path / "log.csv"
    write_synthetic_open_bandit(log, rows=2_000, items=2, seed=1)
    packed = written(tmp_path, gzip.compress(web.read_bytes()), "web.txt.gz")
    for read, path, limits in (
        (ratings_from_letor, web, {"arms": 2}),
        (ratings_from_letor, packed, {"arms": 2, "max_rows": 1_000}),
        (ratings_from_open_bandit, log, {}),
    ):
        told: list[float] = []
        read(path, progress=told.append, **limits)
        assert len(told) > 2
        assert min(told) > 0
        assert sum(told) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "bad",
    [
        "two qid:1 1:3",
        "2 qid:1 1:x",
        "2 qid:1 1",
        "2 qid:1 0:3",
        "2 qid:1 2:1 1:1",
        "2 qid:1 1:nan",
        "2 qid:1 1:1e39",
        "2 qid:1 99999999999:1",
        "2 qid:1 10001:1",
        "-1 qid:1 1:1",
        "inf qid:1 1:1",
        "\xff\x00",
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(bad: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"# head\n1 qid:1 1:2\n\n{bad}\n0 qid:1 1:2\n".encode("latin-1"))
    with pytest.raises(CroupierError, match=r"file\.txt, line 4: a row must be like .*; found '[^\n]*$"):
        ratings_from_letor(path, arms=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rated rows"),
        ("# only a comment\n\n", "no rated rows"),
        ("1 1:2\n", "1 rows cannot make 2 clusters"),
        ("0 1:2\n0 1:3\n", "every relevance label is zero"),
        ("1 1:2\n2 1:2\n", "all rows have the same features"),
    ],
)
def test_a_file_that_makes_no_arms_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CroupierError, match=f"file.txt: {said}"):
        ratings_from_letor(written(tmp_path, text), arms=2)


@pytest.mark.parametrize("options", [{"arms": 1}, {"seed": -1}, {"seed": 2**32}, {"max_rows": 0}])
def test_bad_options_are_refused_by_name(options: dict[str, int], web: Path) -> None:
    with pytest.raises(InvalidParameter, match=f"^{next(iter(options))} = "):
        ratings_from_letor(web, **options)


@pytest.mark.parametrize(
    ("read", "text"),
    [(ratings_from_letor, "1 1:2\n2 1:3\n"), (ratings_from_open_bandit, "item_id,click\n1,0\n2,1\n")],
)
def test_an_unreadable_file_is_refused(read: Callable[[Path], data.Ratings], text: str, tmp_path: Path) -> None:
    whole = gzip.compress(text.encode())
    for path, said in (
        (tmp_path / "absent.txt", "No such file"),
        (tmp_path, "Is a directory"),
        (written(tmp_path, text, "plain.gz"), "Not a gzipped file"),
        (written(tmp_path, whole[:-12], "cut.gz"), "Compressed file ended"),
        (written(tmp_path, whole[:-8] + bytes(8), "spoiled.gz"), "CRC check failed"),
        (written(tmp_path, whole[:10] + b"\xff" * 20, "broken.gz"), "Error -3"),
    ):
        with pytest.raises(CroupierError, match=f"cannot read .*{path.name}: {said}"):
            read(path)


def test_an_unwritable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CroupierError, match="cannot write .*web.txt: No such file"):
        write_synthetic_letor(tmp_path / "absent" / "web.txt", rows=1, seed=1)


def test_the_missing_extra_is_named(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(CroupierError, match=r"needs scikit-learn: install croupier\[learning\]"):
        ratings_from_letor(web)


HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"


def test_items_are_arms_in_rising_order_that_replay_their_clicks(tmp_path: Path) -> None:
    rows = "0,t,10,1,1,0.5,a\n1,t,9,2,0,0.1,a\n2,t,10,3,0,0.5,a\n\n3,t,9,1,0,0.9,a\n4,t,30,1,1,0.001,a\n"
    world = ratings_from_open_bandit(written(tmp_path, HEADER + rows))
    assert [sorted(table.tolist()) for table in world.tables] == [[0, 0], [0, 1], [1]]
    assert world.binary
    assert world.source == "file.txt: 5 logged rows, clicks replayed without propensity weights"


def test_rows_of_one_logging_policy_can_be_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "item_id,click,policy\n1,1,random\n1,0,bts\n2,0,random\n3,1,bts\n")
    assert ratings_from_open_bandit(path, policy="random").means.tolist() == [1, 0]
    assert ratings_from_open_bandit(path, policy="bts").means.tolist() == [0, 1]
    assert ratings_from_open_bandit(path).arms == 3
    with pytest.raises(CroupierError, match="0 rows of policy 'greedy' with 0 different item_id"):
        ratings_from_open_bandit(path, policy="greedy")


def test_a_synthetic_log_comes_back_as_it_was_written(tmp_path: Path) -> None:
    plain, packed = tmp_path / "log.csv", tmp_path / "log.csv.gz"
    for path in (plain, packed):
        write_synthetic_open_bandit(path, rows=3_000, items=4, seed=2)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    with plain.open() as text:
        rows = list(csv.DictReader(text))
    assert list(rows[0])[:6] == ["", "timestamp", "item_id", "position", "click", "propensity_score"]
    assert {row["user_feature_0"] for row in rows} == {"synthetic"}
    clicks = [[int(row["click"]) for row in rows if row["item_id"] == str(item)] for item in range(4)]
    world = ratings_from_open_bandit(packed)
    assert [sum(mine) / len(mine) for mine in clicks] == pytest.approx(world.means, abs=1e-15)
    assert [len(mine) for mine in clicks] == [table.size for table in world.tables]


def test_a_missing_column_is_refused_with_the_columns_there_are(tmp_path: Path) -> None:
    path = written(tmp_path, ",timestamp,item_id,reward\n0,t,1,1\n")
    with pytest.raises(CroupierError, match="file.txt: no column click; its columns are timestamp, item_id, reward$"):
        ratings_from_open_bandit(path)
    with pytest.raises(CroupierError, match="no column item_id; its columns are none"):
        ratings_from_open_bandit(written(tmp_path, ""))
    with pytest.raises(CroupierError, match="no column policy; its columns are timestamp"):
        ratings_from_open_bandit(written(tmp_path, HEADER), policy="random")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1,t,x,1,0,0.5,a", "column item_id: 'x' is not a whole number"),
        ("1,t,-3,1,0,0.5,a", "column item_id: '-3' is not"),
        (f"1,t,{'9' * 5000},1,0,0.5,a", "column item_id"),
        ("1,t,3,1,2,0.5,a", r"column click: '2' is not a whole number in \[0, 1\]"),
        ("1,t,3,1,,0.5,a", "column click: '' is not"),
        ("1,t,3", "3 cells under 7 columns"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_column(row: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CroupierError, match=f"file.txt, line 3[:,] ?{said}"):
        ratings_from_open_bandit(written(tmp_path, f"{HEADER}0,t,3,1,0,0.5,a\n{row}\n"))


def test_what_is_no_text_or_holds_one_item_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CroupierError, match="file.txt, after line .*: not CSV text"):
        ratings_from_open_bandit(written(tmp_path, HEADER.encode() + b"0,t,\xff,1,0,0.5,a\n"))
    with pytest.raises(CroupierError, match="file.txt, after line .*: not CSV text"):
        ratings_from_open_bandit(written(tmp_path, HEADER + "a" * 200_000))
    with pytest.raises(CroupierError, match="1 rows with 1 different item_id; two arms are needed"):
        ratings_from_open_bandit(written(tmp_path, HEADER + "0,t,3,1,0,0.5,a\n"))
