"""Real clients, a real front and a real analyzer in processes of their own, over HTTP, with real encryption."""

import json
import subprocess

import httpx2
import pytest

from cases.service.processes import (
    COUNTER,
    HISTOGRAM,
    METRICS,
    QUICK,
    check_decisions,
    home_of,
    in_process,
    transcript_of,
    written,
)
from croupier.checks import InvalidParameter
from croupier.cli import main
from croupier.client import Client, Limits, Reported
from croupier.messages.configuration import Configuration
from croupier.messages.signing import to_text
from croupier.service import keys as key_files
from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.processes import COMMAND, both
from croupier.service.verifying import BadTranscript, verify

BANDIT = """
name = "colours"
arms = ["red", "green", "blue"]
[program]
policy = "{policy}"
horizon = {horizon}
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = {epsilon}
[reward]
protocol = "{protocol}"
binary = true
[batches]
smallest = {smallest}
deadline = 60
"""


SIDES = """
name = "sides-{policy}"
arms = ["red", "green", "blue"]
control = "red"
[program]
policy = "{policy}"
[decision]
minimum_run = 0
smallest_effect = 0.2
[reports]
report_within = 5
report_at = [0, 0]
"""


def bandit(policy, horizon, protocol, epsilon=4.0, smallest=32):
    return BANDIT.format(policy=policy, horizon=horizon, protocol=protocol, epsilon=epsilon, smallest=smallest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "horizon", "smallest"),
    [(700, 600, 40), pytest.param(20_000, 16_000, 1000, marks=pytest.mark.evidence)],
)
def test_a_crowd_of_whom_a_third_never_report_finds_the_best_arm(tmp_path, users, horizon, smallest):
    """And every decision is the one that a program makes in one process, told the same."""
    home = home_of(tmp_path)
    text = bandit(policy="dp-klucb", horizon=horizon, protocol="shuffled-bits", epsilon=1.0, smallest=smallest)
    with both(home, [written(tmp_path, text)], front={"due_within": 1, "group_seconds": 0.02}):
        means, people = (0.2, 0.5, 0.7), {"silent": 0.3, "lying": 0.02, "at_once": 128, "seed": 1}
        crowd = Crowd(home.analyzer_url, "colours", 2 * users, means, **people, keys=home.verify_keys)
        outcomes = run(crowd)
        state = wait_finished(home.analyzer_url, "colours", 30)
        transcript = transcript_of(home, "colours")
    assert state["finished"], state
    program = check_decisions(transcript)
    assert program.finished
    assert state["program"]["best_arm"] == int(program.policy.best_arm[0]) == 2
    # Totals are told in steps of 32, unless more than that is released.
    assert state["accepted"] == max(outcomes["accepted"] // 32 * 32, state["reports"])
    assert state["reports"] <= outcomes["accepted"]
    came = {what: count for what, count in outcomes.items() if what not in ("experiment-finished", "not-sent")}
    assert sum(came.values()) > users
    # A share of 30 % never reports, within five standard deviations.
    assert outcomes["silent"] > 0.3 * users - 5 * (0.21 * users) ** 0.5
    verdict = verify(transcript)
    assert verdict.finished
    assert verdict.damaged == 0
    assert verdict.worst_delta <= verdict.claimed_delta * (1 + 1e-8)
    _check_that_changes_are_noticed(transcript, smallest)
    _check_no_person_in_files(home)


def _check_that_changes_are_noticed(transcript, smallest):
    """Whoever changes a line of the transcript, other than a released number's last bit of luck, is found out."""
    lines = transcript.splitlines()
    released = next(i for i, line in enumerate(lines) if '"event":"released"' in line)
    opened = next(i for i, line in enumerate(lines) if '"event":"opened"' in line)
    changes = [
        lines[1:],
        lines[:opened] + lines[opened + 1 :],
        [*lines[: released + 1], lines[released], *lines[released + 1 :]],
        [
            line.replace(f'\\"reports\\":{smallest}', f'\\"reports\\":{smallest - 1}') if i == released else line
            for i, line in enumerate(lines)
        ],
        [line.replace('\\"epsilon\\":1.0', '\\"epsilon\\":0.5') if i == 0 else line for i, line in enumerate(lines)],
        [line.replace('"event":"opened"', '"event":"nothing"') for line in lines],
        ["{", *lines],
        [],
    ]
    for changed in changes:
        assert changed != lines
        with pytest.raises(BadTranscript):
            verify("\n".join(changed))
    last = json.loads(lines[released])
    last["decoded"] += 800 if last["decoded"] < 500 else -800
    with pytest.raises(BadTranscript, match="does not follow"):
        verify("\n".join([*lines[:released], json.dumps(last), *lines[released + 1 :]]))


def _check_no_person_in_files(home):
    """Logs and stores of both servers name no address."""
    for path in (home.directory / "front", home.directory / "analyzer"):
        for file in (path / "log.jsonl", *path.glob("*.db*")):
            assert b"127.0.0.1" not in file.read_bytes().replace(b"http://127.0.0.1", b""), file


@pytest.mark.slow
def test_a_counter_and_a_histogram_run_side_by_side_and_the_sync_client_takes_part(tmp_path):
    home = home_of(tmp_path)
    files = [written(tmp_path, COUNTER, "counter.toml"), written(tmp_path, HISTOGRAM, "histogram.toml")]
    with both(home, files, **QUICK):
        limits = Limits(epsilon=4.0, epsilon_per_period=8.0, honest_fraction=0.9)
        pinned = {server: key_files.load(home.directory / server / "keys").verify for server in ("analyzer", "front")}
        own = {"account": tmp_path / "account.json", "limits": limits, "keys": pinned, "background": False}
        with Client(home.analyzer_url, **own) as client:
            client._run(client.device.send_now(client.play("steps", patience=20), 1.0))
            client._run(client.device.send_now(client.play("fruit", patience=20), "plum"))
            assert client.left == 0.0
        run(Crowd(home.analyzer_url, "steps", 400, (1.0,), seed=3, keys=home.verify_keys))
        run(Crowd(home.analyzer_url, "fruit", 200, (1.0,), seed=4, keys=home.verify_keys))
        found = {name: wait_finished(home.analyzer_url, name, 30) for name in ("steps", "fruit")}
        transcripts = {name: transcript_of(home, name) for name in found}
    steps, fruit = found["steps"], found["fruit"]
    assert steps["finished"]
    assert fruit["finished"]
    assert steps["program"]["users"] == 192
    # The bound on all errors fails with probability 0.05; three times as far is out of the question.
    assert abs(steps["program"]["estimate"] - 192) < 3 * steps["program"]["bound"]
    assert fruit["program"]["top"][0]["item"] == "apple"
    for transcript in transcripts.values():
        assert verify(transcript).finished


@pytest.mark.slow
def test_experiments_in_blocks_end_with_the_decision_that_their_totals_lead_to(tmp_path):
    """Real servers, the real client and a crowd; the same totals told to the policy in this process decide the same."""
    home, policies = home_of(tmp_path), ("split", "concurrent-elimination")
    files = [written(tmp_path, SIDES.format(policy=policy), f"{policy}.toml") for policy in policies]
    with both(home, files, **QUICK):
        found = {policy: _sides(tmp_path, home, f"sides-{policy}") for policy in policies}
    for policy, (outcomes, state, transcript) in found.items():
        verdict = verify(transcript)
        assert state["finished"]
        assert verdict.finished
        assert (verdict.decision["kind"], verdict.decision["leader"]) == ("better", 2), policy
        assert state["decision"]["sentence"].startswith("blue scores more than red by ")
        # Nothing that was accepted is thrown away, unless the last block of all has too few.
        assert verdict.reports >= 0.95 * (outcomes["accepted"] + 1)
        assert in_process(transcript) == verdict.decision


def _sides(tmp_path, home, name):
    """An app's own turn and a crowd; what was answered, how it stands, and the transcript."""
    own = {"account": tmp_path / f"{name}.json", "keys": home.verify_keys, "background": False}
    with Client(home.analyzer_url, limits=Limits(epsilon_per_period=20.0), **own) as client:
        client._run(client.device.send_now(client.play(name, patience=20), 1.0))
        with pytest.raises(Reported):
            client.play(name, sticky=False)
    crowd = Crowd(home.analyzer_url, name, 6000, (0.2, 0.3, 0.8), silent=0.2, seed=3, keys=home.verify_keys)
    return run(crowd), wait_finished(home.analyzer_url, name, 60), transcript_of(home, name)


SEVERAL = """
name = "several-{name}"
arms = ["A", "B"]
control = "A"
[program]
policy = "split"
[privacy]
epsilon = 8.0
[decision]
minimum_run = 0
smallest_effect = 0.6
"""
REPORTED = {"finished": 1, "crashes": 7, "minutes": 12.5}
REFUSED = (
    (1.0, "value = 1.0 is not allowed: it must be several numbers by name: finished, crashes and minutes"),
    ({"finished": 1, "minutes": 3}, "crashes is missing: it must be given"),
    (REPORTED | {"clicks": 2}, "clicks = 2 is not allowed: it must be left out"),
    (REPORTED | {"minutes": 61}, r"minutes = 61.0 is not allowed: it must be a number in \[0, 60\]"),
    (REPORTED | {"finished": 0.5}, "finished = 0.5 is not allowed: it must be 0 or 1"),
)


@pytest.mark.slow
def test_experiments_with_several_metrics_end_as_their_totals_and_guardrails_say(tmp_path):
    """B is better in what decides. Where it crashes no more than A it wins; where it crashes too often A stays."""
    home, crashes = home_of(tmp_path), {"seldom": 0.1, "often": 0.9}
    text = SEVERAL + METRICS + "[reports]\nreport_within = 5\nreport_at = [0, 0]\n"
    files = [written(tmp_path, text.format(name=name), f"{name}.toml") for name in crashes]
    with both(home, files, **QUICK):
        found = {name: _several(tmp_path, home, f"several-{name}", chance) for name, chance in crashes.items()}
    for name, (state, transcript, rows, batches) in found.items():
        verdict = verify(transcript)
        assert state["finished"]
        assert verdict.finished
        assert in_process(transcript) == verdict.decision
        guard = next(row for row in rows if row["metric"] == "crashes")
        assert [row["metric"] for row in rows] == ["finished", "crashes", "minutes"]
        if name == "seldom":
            assert (verdict.decision["kind"], verdict.decision["leader"]) == ("better", 1)
            assert guard["state"] == "safe"
            assert state["decision"]["sentence"].startswith("finished: B scores more than A by ")
        else:
            assert (verdict.decision["kind"], verdict.decision["leader"]) == ("harmful", 0)
            assert guard["state"] == "harmed"
            assert state["decision"]["sentence"] == "A stays: B harms crashes, among those who reported"
        assert guard["lower"] < 5 * (crashes[name] - 0.1) < guard["upper"]
        released = [row for row in batches if row["event"] == "released"]
        assert released[0]["mean_finished"] == released[0]["mean"]
        # Six standard deviations of the noise: sums of crashes are on the scale from 0 to 5.
        assert -60 < released[0]["sum_crashes"] < 5 * released[0]["users"] + 60


def _several(tmp_path, home, name, chance):
    """An app's own turn and a crowd, for which B crashes with this chance; how it stands, and what is shown of it."""
    own = {"account": tmp_path / f"{name}.json", "keys": home.verify_keys, "background": False}
    with Client(home.analyzer_url, limits=Limits(epsilon=8.0, epsilon_per_period=20.0), **own) as client:
        turn = client.play(name, patience=20)
        for value, words in REFUSED:
            with pytest.raises(InvalidParameter, match=words):
                client.report(turn, value)
        assert client.report(turn, REPORTED)
        assert client.send_due() is None
    beside = (("crashes", (0.1, chance)),)
    run(Crowd(home.analyzer_url, name, 3000, (0.2, 0.8), seed=3, beside=beside, keys=home.verify_keys))
    state = wait_finished(home.analyzer_url, name, 60)
    tables = f"{home.analyzer_url}/experiments/{name}/tables"
    rows, batches = (httpx2.get(f"{tables}/{table}.json", timeout=30).json() for table in ("metrics", "batches"))
    return state, transcript_of(home, name), rows, batches


@pytest.mark.slow
def test_up_crowd_and_verify_are_three_commands(tmp_path, capsys):
    """As a person would: start both servers, send users, download the transcript, check it, stop."""
    home = tmp_path / "home"
    text = bandit(policy="dp-klucb", horizon=100, protocol="shuffled-bits")
    command = [*COMMAND, "up", written(tmp_path, text), "--home", str(home), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            url = up.stdout.readline().split()[1].rstrip("/")
            assert main(["crowd", "--users", "400", "--analyzer", url, "--means", "0,0.5,1", "--json"]) == 0
            [found] = json.loads(capsys.readouterr().out)
            assert found["state"]["finished"]
            transcript = tmp_path / "t.jsonl"
            transcript.write_text(httpx2.get(f"{url}/experiments/colours/transcript", timeout=30).text)
            assert main(["verify", str(transcript)]) == 0
            assert "every line follows; the run is finished" in capsys.readouterr().out
            keys = httpx2.get(f"{url}/experiments/colours", timeout=30).json()
            known = Configuration.from_text(keys["body"]).keys["front"].verify
            assert main(["verify", str(transcript), "--front", to_text(known)]) == 0
            assert to_text(known) in capsys.readouterr().out
            assert main(["verify", str(transcript), "--front", to_text(bytes(32))]) == 2
            assert "not the one that is trusted" in capsys.readouterr().err
        finally:
            up.terminate()
            up.wait(40)
    assert up.returncode == 0
    logs = [json.loads(line) for path in home.glob("*/log.jsonl") for line in path.read_text().splitlines()]
    assert {"stopped"} <= {line["event"] for line in logs}
    assert all(set(line) <= LOGGED for line in logs)


LOGGED = {
    "at",
    "level",
    "event",
    "server",
    "experiments",
    "experiment",
    "record",
    "offer",
    "batch",
    "batches",
    "operation",
    "arm",
    "what",
    "why",
    "from",
    "error",
    "setting",
}
