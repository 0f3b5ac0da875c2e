"""Worlds from files: relevance ratings in LETOR layout, click logs in Open Bandit layout, and synthetic ones of both.

Files are streamed and may be packed (.gz); a bad line is refused by file, line and what was found there.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from statistics import NormalDist
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from croupier.checks import CroupierError, InvalidParameter, did_you_mean, integer
from croupier.simulation.levelled import Ratings

Features = NDArray[np.float32]
Floats = NDArray[np.float64]
Anywhere = str | os.PathLike[str]
Progress = Callable[[float], None]

ROWS_AT_ONCE = 4096
# Rows are held dense, so one absurd feature number must not ask for all memory.
MOST_FEATURES = 10_000
READING_SHARE = 0.9
ROW = "a row must be like '2 qid:10 1:0.03 2:0.5': a label >= 0, then rising feature numbers with finite values"

TOPICS = 64
RELEVANCE = (0.52, 0.32, 0.13, 0.02, 0.01)
TOPIC_WEIGHT = 0.5


def ratings(path: Anywhere, *, arms: int | None = None, seed: int = 0, progress: Progress | None = None) -> Ratings:
    """The world that a file holds: a click log where its name ends in .csv or .csv.gz, else ratings in LETOR layout.

    `arms` is the number of clusters that ratings are made into (50 unless told); a log has the arms that it has.
    """
    if not Path(path).name.removesuffix(".gz").endswith(".csv"):
        return ratings_from_letor(path, arms=50 if arms is None else arms, seed=seed, progress=progress)
    log = ratings_from_open_bandit(path, progress=progress)
    if arms not in (None, log.arms):
        raise InvalidParameter("arms", arms, f"left out, or {log.arms}, as many as {path} has items")
    return log


def file_hash(path: Anywhere) -> str:
    """The SHA-256 of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CroupierError(f"cannot read {path}: {error.strerror}") from None


def ratings_from_letor(
    path: Anywhere, *, arms: int = 50, seed: int = 0, max_rows: int | None = None, progress: Progress | None = None
) -> Ratings:
    """Cluster rated items by k-means into arms that replay their clusters' ratings ([CZ23] section 7).

    A line is `2 qid:10 1:0.03 2:0.5 # comment`: a relevance label, features from number 1 up, absent ones zero. Labels
    are divided by the largest one read; features are standardised. `progress` is told which part more is done.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_synthetic_letor(f"{folder}/web.txt", rows=200, features=5, seed=1)
    ...     ratings_from_letor(f"{folder}/web.txt", arms=4).arms
    4
    """
    integer("arms", arms, 2)
    integer("seed", seed, 0, 2**32 - 1)
    if max_rows is not None:
        integer("max_rows", max_rows, 1)
    path, told = Path(path), _Told(progress)
    features, labels, header = _letor_rows(path, max_rows, told)
    if len(labels) < arms:
        raise CroupierError(f"{path}: {len(labels):,} rows cannot make {arms} clusters")
    if not labels.any():
        raise CroupierError(f"{path}: every relevance label is zero")
    cluster = _clusters(features, arms, seed)
    ratings = labels / labels.max()
    tables = [ratings[cluster == filled] for filled in np.unique(cluster)]
    if len(tables) < 2:
        raise CroupierError(f"{path}: all rows have the same features, so they cannot be told apart as arms")
    told.up_to(1.0)
    source = f"{path.name}: {len(labels):,} rows of {features.shape[1]} features in {arms} clusters (seed {seed})"
    if len(tables) < arms:
        source += f", {arms - len(tables)} empty ones dropped"
    return Ratings(tables, source + (f"; the file says: {header}" if header else ""))


def ratings_from_open_bandit(path: Anywhere, *, policy: str | None = None, progress: Progress | None = None) -> Ratings:
    """Make each item_id of a click log an arm, in rising order, that replays the clicks logged for it.

    Clicks are *not* weighted by the inverse propensity: an arm's mean is the click rate among the users whom the
    logging policy showed that item. That is the item's own rate when the policy chose at random.

    The Open Bandit Dataset keeps one file for each logging policy. Where a file joins several under a column `policy`,
    `policy` keeps the rows of one.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_synthetic_open_bandit(f"{folder}/log.csv", rows=200, items=3, seed=1)
    ...     ratings_from_open_bandit(f"{folder}/log.csv").arms
    3
    """
    path, told = Path(path), _Told(progress)
    counts: dict[int, list[int]] = {}
    for item, click in _clicks(path, policy, told):
        counts.setdefault(item, [0, 0])[click] += 1
    rows = sum(map(sum, counts.values()))
    kept = "" if policy is None else f" of policy {policy!r}"
    if len(counts) < 2:
        raise CroupierError(f"{path}: {rows:,} rows{kept} with {len(counts)} different item_id; two arms are needed")
    tables = [np.repeat((0.0, 1.0), counts[item]) for item in sorted(counts)]
    told.up_to(1.0)
    return Ratings(tables, f"{path.name}: {rows:,} logged rows{kept}, clicks replayed without propensity weights")


def write_synthetic_letor(
    path: Anywhere, *, rows: int, features: int = 136, queries: int | None = None, seed: int
) -> None:
    """Write random rows in the layout of MSLR-WEB10K; the first line says that they are synthetic.

    A row belongs to one of 64 topics, which centres its features and shifts its relevance; labels 0 to 4 come with
    about 52, 32, 13, 2 and 1 per cent. `queries` is a query for each 120 rows unless told.
    """
    integer("rows", rows, 1)
    integer("features", features, 1, MOST_FEATURES)
    queries = max(1, rows // 120) if queries is None else integer("queries", queries, 1, rows)
    generator = np.random.default_rng(integer("seed", seed, 0))
    normal = NormalDist()
    cuts = [normal.inv_cdf(share) for share in np.cumsum(RELEVANCE[:-1]).tolist()]
    quality = np.array([normal.inv_cdf((rank + 0.5) / TOPICS) for rank in generator.permutation(TOPICS)])
    quality /= quality.std()
    centres = generator.gamma(2.0, 1.0, (TOPICS, features))
    scale = 10.0 ** generator.integers(-1, 4, features)
    line = "%d qid:%d " + " ".join(f"{feature}:%.6g" for feature in range(1, features + 1)) + "\n"
    with _written(Path(path)) as text:
        text.write(f"# Synthetic rows in the layout of MSLR-WEB10K, seed {seed}: no query or page was ever judged.\n")
        for start in range(0, rows, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, rows - start)
            topic = generator.integers(0, TOPICS, size)
            score = TOPIC_WEIGHT * quality[topic] + np.sqrt(1.0 - TOPIC_WEIGHT**2) * generator.normal(size=size)
            values = scale * np.maximum(centres[topic] + 0.5 * generator.normal(size=(size, features)), 0.0)
            query = 1 + (start + np.arange(size)) * queries // rows
            table = np.column_stack((np.searchsorted(cuts, score), query, values))
            text.writelines(line % tuple(row) for row in table.tolist())


def write_synthetic_open_bandit(path: Anywhere, *, rows: int, items: int, seed: int) -> None:
    """Write a random click log in the layout of the Open Bandit Dataset, without its affinity columns.

    Items are shown at random and clicked at rates of 0.5 to 5 per cent; every user feature says that it is synthetic.
    """
    integer("rows", rows, 1)
    integer("items", items, 2)
    generator = np.random.default_rng(integer("seed", seed, 0))
    rates = generator.uniform(0.005, 0.05, items)
    now = datetime(2020, 1, 1, tzinfo=UTC)
    features = [f"user_feature_{number}" for number in range(4)]
    with _written(Path(path)) as text:
        log = csv.writer(text, lineterminator="\n")
        log.writerow(["", "timestamp", "item_id", "position", "click", "propensity_score", *features])
        for row in range(rows):
            item, position = int(generator.integers(items)), int(generator.integers(1, 4))
            click = int(generator.random() < rates[item])
            log.writerow([row, now + timedelta(seconds=row), item, position, click, 1 / items, *["synthetic"] * 4])


class _Told:
    """Turns how far we are into how much more was done."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.done = progress, 0.0

    def up_to(self, part: float) -> None:
        if self.progress is not None and part > self.done:
            self.progress(part - self.done)
            self.done = part


@contextmanager
def _read(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], float]]]:
    """The unpacked bytes of a file, and a function that says what part of it was read."""
    try:
        with path.open("rb") as raw:
            size = max(1, os.fstat(raw.fileno()).st_size)
            stream: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            yield stream, lambda: raw.tell() / size
    except (OSError, EOFError, zlib.error) as error:
        raise CroupierError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def _written(path: Path) -> Iterator[IO[str]]:
    """A text file to write, packed when its name says so; the same text makes the same bytes."""
    try:
        with path.open("wb") as raw:
            packed: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
            with TextIOWrapper(packed, "utf-8", newline="\n") as text:
                yield text
    except OSError as error:
        raise CroupierError(f"cannot write {path}: {error.strerror or error}") from error


def _scikit_learn(module: str) -> Any:
    """A module of scikit-learn, or of what comes with it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise CroupierError("reading LETOR files needs scikit-learn: install croupier[learning]") from error


def _letor_rows(path: Path, max_rows: int | None, told: _Told) -> tuple[Features, Floats, str]:
    """All features and labels, and the comment that opens the file."""
    load = _scikit_learn("sklearn.datasets").load_svmlight_file
    blocks: list[Features] = []
    labels: list[Floats] = []
    rows, most = 0, float("inf") if max_rows is None else max_rows
    with _read(path) as (stream, part):
        first = stream.readline()
        numbered = enumerate(chain([first], stream), start=1)
        rated = ((number, line) for number, line in numbered if line.split(b"#")[0].strip())
        while chunk := list(islice(rated, int(min(ROWS_AT_ONCE, most - rows)))):
            block, label = _parsed_chunk(path, chunk, load)
            blocks.append(block)
            labels.append(label)
            rows += len(label)
            told.up_to(READING_SHARE * max(part(), rows / most))
    if not rows:
        raise CroupierError(f"{path}: no rated rows")
    header = first.decode(errors="replace").strip("# \r\n") if first.startswith(b"#") else ""
    return _stacked(blocks), np.concatenate(labels), header


def _parsed_chunk(path: Path, chunk: list[tuple[int, bytes]], load: Any) -> tuple[Features, Floats]:
    try:
        return _parsed(b"".join(line for _, line in chunk), load)
    except (ValueError, OverflowError):
        # Only now is it worth the time to look at lines one by one.
        for number, line in chunk:
            try:
                _parsed(line, load)
            except (ValueError, OverflowError) as error:
                shown = line.decode(errors="replace").strip()
                shown = shown if len(shown) <= 60 else shown[:60] + "..."
                raise CroupierError(f"{path}, line {number}: {ROW}; found {shown!r}") from error
        raise


def _parsed(text: bytes, load: Any) -> tuple[Features, Floats]:
    sparse, labels = load(BytesIO(text), dtype=np.float32, zero_based=False)
    sound = np.isfinite(sparse.data).all() and np.isfinite(labels).all() and (labels >= 0).all()
    if sparse.shape[1] > MOST_FEATURES or not sound:
        raise ValueError("a number out of range")
    return sparse.toarray(), labels.astype(np.float64)


def _stacked(blocks: list[Features]) -> Features:
    """One array of all blocks, as wide as the widest; each block is let go once it is copied."""
    whole = np.zeros((sum(map(len, blocks)), max(block.shape[1] for block in blocks)), dtype=np.float32)
    end = len(whole)
    while blocks:
        block = blocks.pop()
        whole[end - len(block) : end, : block.shape[1]] = block
        end -= len(block)
    return whole


def _clusters(features: Features, arms: int, seed: int) -> NDArray[np.int32]:
    """Each row's cluster by k-means; `features` are standardised in place, column by column to spare memory."""
    for column in features.T:
        spread = column.std(dtype=np.float64)
        column[:] = (column - column.mean(dtype=np.float64)) / (spread if spread > 0 else 1.0)
    kind = _scikit_learn("sklearn.cluster").MiniBatchKMeans
    kmeans = kind(arms, random_state=seed, batch_size=ROWS_AT_ONCE, n_init=3)
    # Threads would add up in an order of their own, and the seed would no longer fix the clusters.
    with _scikit_learn("threadpoolctl").threadpool_limits(1):
        return np.asarray(kmeans.fit_predict(features))


def _clicks(path: Path, policy: str | None, told: _Told) -> Iterator[tuple[int, int]]:
    """The item and the click of every row that is kept."""
    with _read(path) as (stream, part):
        rows = csv.reader(TextIOWrapper(stream, "utf-8-sig", newline=""))
        try:
            header = next(rows, [])
            item, click = _column(path, header, "item_id"), _column(path, header, "click")
            logged_by = None if policy is None else _column(path, header, "policy")
            for row in filter(None, rows):
                if len(row) != len(header):
                    raise CroupierError(f"{path}, line {rows.line_num}: {len(row)} cells under {len(header)} columns")
                if logged_by is None or row[logged_by] == policy:
                    line = rows.line_num
                    yield _whole(path, line, "item_id", row[item], 10**9), _whole(path, line, "click", row[click], 1)
                if rows.line_num % ROWS_AT_ONCE == 0:
                    told.up_to(part())
        except (csv.Error, UnicodeDecodeError) as error:
            raise CroupierError(f"{path}, after line {rows.line_num}: not CSV text: {error}") from error


def _column(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        known = ", ".join(filter(None, header)) or "none"
        raise CroupierError(f"{path}: no column {name}; its columns are {known}{did_you_mean(name, header)}")
    return header.index(name)


def _whole(path: Path, line: int, column: str, cell: str, most: int) -> int:
    if not (cell.isascii() and cell.isdigit() and len(cell) <= len(str(most)) and int(cell) <= most):
        raise CroupierError(f"{path}, line {line}, column {column}: {cell!r} is not a whole number in [0, {most}]")
    return int(cell)
