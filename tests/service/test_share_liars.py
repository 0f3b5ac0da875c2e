"""A dishonest client is worth one report, whatever it sends: the rest is refused by name, and the others count."""

import json
import random
from collections import Counter

import pytest

from cases.service import liars
from cases.service.reporters import KINDS, USERS, VALUES, experiment, honest, lies
from cases.service.shares import NAME, opened, sealed
from croupier.messages.sealing import DEFAULT_SUITE, SUITES


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_no_valid_report_is_refused_by_name_and_the_groups_others_count(tmp_path, noiseless, kind):
    service, draw = opened(tmp_path, experiment=experiment(kind)), random.Random(1)
    for name in liars.LIES:
        lies(service, name, draw)
    for _ in range(3):
        honest(service, kind)
    group = service.servers.front.front.group(NAME)
    assert len(group.reports) == len(liars.LIES) + 3
    service.step()
    for _ in range(USERS[kind] - 3):
        honest(service, kind)
    service.settled(3)
    first = service.records("released")[0]
    value = {"count": 14, "number": 1400, "histogram": [0, 0, 14, 0, 0], "counter": 32}[kind]
    assert (first["users"], first["decoded"]) == (USERS[kind], value)
    receipt = json.loads(first["receipt"]["body"])
    assert receipt["refused"] == Counter(lie.reason.word for lie in liars.LIES.values())
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["count", "histogram"])
def test_shares_of_another_length_or_that_do_not_open_are_refused_by_name(tmp_path, kind):
    service, draw = opened(tmp_path, experiment=experiment(kind)), random.Random(2)

    def told(make):
        turn = service.turn()
        shares = liars.honest(turn, liars._lowest(turn), draw)
        return service.reports(service.with_body(turn, make(turn, shares)))

    for change, word in (
        (lambda share: share[:-1], "malformed-report"),
        (lambda share: b"", "malformed-report"),
        (lambda share: share + b"\0", "too-large"),
    ):
        for part in ("front", "analyzer"):

            def changed(turn, shares, part=part, change=change):
                return liars.upload(turn, shares._replace(**{part: change(getattr(shares, part))}))

            assert told(changed) == word
    sealed = SUITES[DEFAULT_SUITE].overhead
    assert told(lambda turn, own: liars.upload(turn, own, draw.randbytes(len(own.analyzer) + sealed))) == "accepted"
    service.step()
    assert service.servers.front.front.store.refused(NAME) == {"unopenable": 1}
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        ("count", 120),
        *(pytest.param(kind, 10_000, marks=pytest.mark.evidence) for kind in ("count", "number", "histogram")),
    ],
)
def test_thousands_of_malformed_reports_are_refused_and_change_no_sum(
    tmp_path, noiseless, kind, tries, record_property
):
    """No answer is a server's failure (the wire of these tests insists on it), and the total is that of the honest."""
    service, draw, turn, told = opened(tmp_path, experiment=experiment(kind)), random.Random(5), None, Counter()
    for number in range(tries):
        if turn is None:
            turn = service.turn()
        if turn is None:
            service.step()
            turn = service.turn()
        lie = liars.LIES[draw.choice(list(liars.LIES))]
        body = liars.upload(turn, lie.make(turn, draw)) if number % 3 == 0 else liars.nonsense(turn, draw)
        outcome = service.reports(service.with_body(turn, body))
        told[outcome] += 1
        # Who is refused at once has not spent the turn.
        turn = None if outcome == "accepted" else turn
    service.step()
    refused = service.servers.front.front.store.refused(NAME)
    assert sum(refused.values()) == told["accepted"]
    assert set(refused) == {"invalid", "malformed", "unopenable"}
    assert not service.records("released")
    if turn is not None:
        assert service.reports(service.with_body(turn, sealed(turn, VALUES[kind]))) == "accepted"
    for _ in range(USERS[kind] - (turn is not None)):
        honest(service, kind)
    service.settled(3)
    first = service.records("released")[0]
    value = {"count": 14, "number": 1400, "histogram": [0, 0, 14, 0, 0]}[kind]
    assert (first["users"], first["decoded"]) == (14, value)
    record_property("told", dict(told))
    record_property("refused", refused)
    service.close()


def learned(directory, lying, batches, size, validity="prio3"):
    """What a bandit knows after so many batches, if every tenth user is no honest one."""
    plan = experiment("count", program={"policy": "dp-klucb", "horizon": 10**6, "growth": 1.0})
    service = opened(directory, experiment=plan | {"batches": {"smallest": size, "deadline": 600}}, validity=validity)
    draw, seen, come = random.Random(1), Counter(), 0
    while len(service.live.done) < batches:
        turn = service.turn()
        if turn is None:
            service.step()
            continue
        come += 1
        if lying is not None and come % 10 == 5:
            body = lying(turn, draw)
        else:
            # Seven of ten like the first arm, three of ten the second, in whatever order they come.
            body = sealed(turn, float(7 * seen[turn.arm] % 10 < (7, 3)[turn.arm]))
            seen[turn.arm] += 1
        assert service.reports(service.with_body(turn, body)) == "accepted"
    shown = service.live.program.show()
    service.close()
    return shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batches", "size"), [(5, 8), pytest.param(40, 100, marks=pytest.mark.evidence)], ids=["few", "many"]
)
def test_with_a_tenth_of_liars_the_decision_and_the_interval_are_those_of_the_honest(
    tmp_path_factory, noiseless, record_property, batches, size
):
    """Who sends nonsense changes nothing at all; who lies about their own value is worth that value."""

    def shown(lying, validity="prio3"):
        return learned(tmp_path_factory.mktemp("shares"), lying, batches, size, validity)

    def nonsense(turn, draw):
        lie = liars.LIES[draw.choice(list(liars.LIES))]
        return liars.upload(turn, lie.make(turn, draw))

    alone = shown(None)
    assert alone["best_arm"] == 0
    assert shown(nonsense) == alone
    opposite = shown(lambda turn, draw: sealed(turn, float(turn.arm == 1)))
    moved = [abs(one["mean"] - two["mean"]) for one, two in zip(alone["arms"], opposite["arms"], strict=True)]
    # One in ten, and one more or less of those who happen to be in an arm's last batch.
    assert max(moved) <= 0.1 + 2.0 / size
    # Without proofs the same liars decide; they stay within what a batch can add up to, so that none is refused.
    spoilt = shown(lambda turn, draw: liars.upload(turn, liars.unproved(turn, (-4, 6)[turn.arm], draw)), "none")
    assert spoilt["best_arm"] == 1
    record_property("honest", alone["arms"])
    record_property("a tenth report the opposite", opposite["arms"])
    record_property("a tenth report anything, without proofs", spoilt["arms"])
