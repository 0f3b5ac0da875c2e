"""Forged transcripts are refused although both keys are pinned: numbers, order, ends, a history that is rewritten."""

import asyncio
import json
import shutil
import sqlite3

import pytest

from cases.service.both import PLAN, Both
from cases.service.forgery import parsed, resigned
from cases.service.long_logs import long_log
from cases.service.world import World, keys_of
from croupier.cli import main
from croupier.messages.signing import BadSignature, Statement, to_text
from croupier.noise import secure
from croupier.programs.records import Head
from croupier.service.keys import make
from croupier.service.problems import Problem
from croupier.service.store import FrontStore
from croupier.service.verifying import BadTranscript, verify

TRUST = {server: keys_of(server).verify for server in ("analyzer", "front")}


@pytest.fixture(scope="module")
def lines():
    """A log with several releases."""
    return list(long_log("bandit", 13))


def text(lines):
    return "".join(line + "\n" for line in lines)


def head_of(lines, number, server="front"):
    """A head that the front has countersigned."""
    head = Head()
    for line in lines[: number + 1]:
        head = head.after(line)
    return head.statement("bandit").signed(server, keys_of(server).sign)


def places(lines, event):
    return [number for number, record in enumerate(parsed(text(lines))) if record["event"] == event]


def forgeries(lines):
    """Transcripts that nobody wrote so, and the line that gives each away."""
    releases, opened = places(lines, "released"), places(lines, "opened")
    at = releases[1]
    lying = json.loads(lines[at])
    lying["decoded"] += 1
    stranger = make_stranger()
    yield "a number", [*lines[:at], _written(lying), *lines[at + 1 :]], at + 1
    yield (
        "a number in the last record",
        [*lines[: releases[-1]], _written(_more(lines[releases[-1]]))],
        releases[-1] + 1,
    )
    yield "a number, signed by a stranger", resigned([*parsed(text(lines[:at])), lying], stranger).splitlines(), 1
    one = resigned([lying], stranger, _head(lines, at)).splitlines()
    yield "one record, signed by a stranger", [*lines[:at], *one], at + 1
    yield "two records swapped", [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]], at + 1
    yield "a record dropped", [*lines[:at], *lines[at + 1 :]], at + 1
    yield "a record twice", [*lines[: at + 1], *lines[at:]], at + 2
    yield "the beginning dropped", lines[1:], 1
    yield "an offer of another place", [*lines[: opened[1]], lines[opened[2]]], opened[1] + 1
    yield "other words, same meaning", [*lines[:at], lines[at].replace(",", ", ", 1), *lines[at + 1 :]], at + 1
    yield "another time", [*lines[:at], lines[at].replace("2026", "2025", 1), *lines[at + 1 :]], at + 1


def make_stranger():
    import tempfile
    from pathlib import Path

    return make(Path(tempfile.mkdtemp(prefix="croupier-stranger-"))).sign


def _written(record):
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _more(line):
    record = json.loads(line)
    record["decoded"] += 1
    return record


def _head(lines, number):
    head = Head()
    for line in lines[:number]:
        head = head.after(line)
    return head


def test_a_true_transcript_says_where_it_ends_and_how_far_it_was_countersigned(lines):
    verdict = verify(text(lines), TRUST)
    releases = places(lines, "released")
    assert (verdict.records, verdict.released) == (len(lines), len(releases))
    assert verdict.countersigned == releases[-1]
    assert verdict.head == to_text(_head(lines, len(lines)).hash)


def test_forged_transcripts_are_refused_though_both_keys_are_pinned(lines):
    for what, forged, at in forgeries(lines):
        with pytest.raises(BadTranscript, match=f"line {at} ") as refusal:
            verify(text(forged), TRUST)
        assert "\n" not in str(refusal.value), what


def test_an_analyzer_that_rewrites_what_it_released_is_found_out_by_the_shufflers_word(lines):
    """It can sign all of it again; the heads that were countersigned then are those of another log."""
    first, *_, last = places(lines, "released")
    rewritten = [_more(line) if number == first else json.loads(line) for number, line in enumerate(lines)]
    with pytest.raises(BadTranscript, match="countersigned another record"):
        verify(resigned(rewritten, keys_of("analyzer").sign), TRUST)
    # After the last release nothing was countersigned that a transcript holds; the front's newest head tells.
    rewritten = [_more(line) if number == last else json.loads(line) for number, line in enumerate(lines)]
    verdict = verify(resigned(rewritten, keys_of("analyzer").sign), TRUST)
    with pytest.raises(BadTranscript, match=f"another record {len(lines) - 1}"):
        verdict.check_head(head_of(lines, len(lines) - 1))


def test_an_analyzer_cannot_show_an_old_head_again_and_again(lines):
    releases = places(lines, "released")
    stale = [json.loads(line) for line in lines[: releases[1] + 1]]
    stale[-1]["witness"] = stale[releases[0]]["witness"]
    with pytest.raises(BadTranscript, match="was shown record"):
        verify(resigned(stale, keys_of("analyzer").sign), TRUST)


def test_a_witness_is_the_shufflers_and_of_this_experiment(lines):
    at = places(lines, "released")[0]
    records = [json.loads(line) for line in lines[: at + 1]]
    other = Head(at - 1, _head(lines, at).hash).statement("another").signed("front", keys_of("front").sign)
    for witness in (head_of(lines, at - 1, "analyzer"), other):
        changed = [*records[:-1], records[-1] | {"witness": witness.to_dict()}]
        with pytest.raises(BadTranscript, match=f"line {at + 1} "):
            verify(resigned(changed, keys_of("analyzer").sign), TRUST)


def test_a_cut_transcript_says_so_and_is_refused_by_who_knows_a_later_head(lines, tmp_path, capsys):
    for length in (1, 4, len(lines) - 1):
        assert verify(text(lines[:length]), TRUST).records == length
    cut, whole = verify(text(lines[:5]), TRUST), verify(text(lines), TRUST)
    newest = head_of(lines, 8)
    with pytest.raises(BadTranscript, match="record 8 was countersigned, and this transcript has 5 records"):
        cut.check_head(newest)
    assert whole.check_head(newest) == 8
    with pytest.raises(BadSignature):
        whole.check_head(Statement("head", newest.text, {"front": bytes(64)}))
    path = tmp_path / "cut.jsonl"
    path.write_text(text(lines[:5]))
    for head, status in ((cut.head, 0), (whole.head, 2)):
        assert main(["verify", str(path), f"--head={head}"]) == status
    out = capsys.readouterr().out
    assert f"head         {cut.head} (record 4)" in out
    assert "not compared: --analyzer KEY" in out


def test_the_front_countersigns_what_extends_the_last_head_and_nothing_else(sqlite_url):
    world = World(FrontStore(sqlite_url, secure(), bytes(32)))
    name, sign = world.plan.name, keys_of("analyzer").sign

    digests = [bytes([number]) * 32 for number in range(10)]
    heads = [Head()]
    for digest in digests:
        heads.append(heads[-1].then(digest))

    def shown(head, lines, key=sign):
        return world.front.countersign(name, head.statement(name).signed("analyzer", key), lines)

    with pytest.raises(Problem, match="no log of it"):
        world.front.head(name)
    for begin, end in ((0, 4), (4, 4), (4, 8)):
        assert set(shown(heads[end], digests[begin:end]).signatures) == {"analyzer", "front"}
    # Said again after its answer was lost.
    assert shown(heads[8], digests[4:8])
    other = heads[8].then(bytes(32))
    wrong = [(heads[7], []), (heads[4], digests[:4]), (Head(7, bytes(32)), []), (heads[9], []), (heads[9], digests[:9])]
    for head, lines in [*wrong, (other, digests[8:9]), (Head(20, bytes(32)), [])]:
        with pytest.raises(Problem, match="head-conflict"):
            shown(head, lines)
    with pytest.raises(Problem, match="bad-signature"):
        shown(heads[9], digests[8:9], key=make_stranger())
    assert Head.from_statement(Statement.from_dict("head", world.front.head(name)), name).number == 7


def copied(path, to):
    with sqlite3.connect(path) as now, sqlite3.connect(to) as then:
        now.backup(then)


def restored(directory, server):
    for leftover in directory.glob(f"{server}.db*"):
        leftover.unlink()
    shutil.move(directory / "backup.db", directory / f"{server}.db")


@pytest.mark.slow
def test_the_public_head_is_that_of_the_log_when_an_experiment_has_ended(tmp_path):
    both = Both(tmp_path)

    async def work():
        async with both.running():
            assert set(await both.users(32)) == {"accepted"}
            await both.until(lambda: 1 in both.live.open)
            assert (await both.operate(operation="stop")).status_code == 200
            await both.until(lambda: both.live.standings.get("finished"))
            answer = await both.http.get("http://front.test/experiments/colours/head")
            return Statement.from_dict("head", answer.json())

    shown = asyncio.run(work())
    verdict = verify(both.live.transcript())
    assert verdict.check_head(shown) == verdict.records - 1


@pytest.mark.slow
def test_an_analyzer_whose_log_was_cut_by_a_backup_says_what_to_do(tmp_path):
    """It has forgotten releases that others may have seen: it does not write another history in silence."""
    first = Both(tmp_path)

    async def begin():
        async with first.running():
            copied(tmp_path / "analyzer.db", tmp_path / "backup.db")
            for number in (1, 2):
                assert set(await first.users(32)) == {"accepted"}
                await first.until(lambda number=number: number in first.live.open)

    asyncio.run(begin())
    before = first.live.count
    restored(tmp_path, "analyzer")
    again = Both(tmp_path)

    async def end():
        async with again.running():
            await again.until(lambda: "head-conflict" in again.live.trouble, 30)
            assert "restore its newest copy, or begin under a new name" in again.live.trouble
            assert (await again.http.get("http://analyzer.test/readyz")).status_code == 503
            assert again.live.count < before

    asyncio.run(end())


COUNTER = PLAN | {"program": {"kind": "counter", "users": 96, "shufflers": 2}, "arms": [], "batches": {}}


@pytest.mark.slow
def test_a_counter_goes_on_when_the_front_was_restored_from_a_backup(tmp_path):
    """Its upper batch has lost some users for good: it is given up instead of waited for."""
    first = Both(tmp_path, experiment=COUNTER)

    async def begin():
        async with first.running():
            assert set(await first.users(5)) == {"accepted"}
            copied(tmp_path / "front.db", tmp_path / "backup.db")
            assert set(await first.users(27)) == {"accepted"}
            await first.until(lambda: 1 in first.live.offers)

    asyncio.run(begin())
    restored(tmp_path, "front")
    again = Both(tmp_path, experiment=COUNTER)

    async def end():
        async with again.running():
            await again.until(lambda: again.live.standings.get("batches"))
            assert set(await again.users(32)) == {"accepted"}
            await again.until(lambda: 2 in again.live.offers)
            assert again.live.trouble == ""
            assert [r["batch"] for r in again.live.records if r["event"] == "expired"] == [1]

    asyncio.run(end())
    verify(again.live.transcript())
