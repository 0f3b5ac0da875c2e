"""What an attacker tries, over HTTP: refused by name, and everybody else's report counts as if nobody had tried."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases.service.attacker import BASE, EXACT, USERS, Attacker
from cases.service.both import Both, check_problem
from cases.service.world import GENEROUS
from croupier.client import AsyncClient, BeyondLimits
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES
from croupier.messages.wire import Envelope
from croupier.noise import seeded
from croupier.protocols import counted_messages, shuffled_laplace
from croupier.protocols.padding import REAL

HERE = Path(__file__).parent


async def replay(attacker):
    body = attacker.report(await attacker.turn())
    answers = [await attacker.send(body) for _ in range(3)]
    assert [(a.status_code, a.json()["status"]) for a in answers] == [
        (201, "accepted"),
        (200, "repeated"),
        (200, "repeated"),
    ]
    return 1, 1


async def two_reports_for_one_token(attacker):
    turn = await attacker.turn()
    assert (await attacker.send(attacker.report(turn, 0.0))).status_code == 201
    await attacker.refused("token-spent", attacker.report(replace(turn, report=bytes(16)), 1.0))
    return 1, 0


async def forged_tokens(attacker):
    turn = await attacker.turn()
    flipped = turn.token[:-1] + bytes([turn.token[-1] ^ 1])
    longer = turn.token[:16] + (2**40).to_bytes(8, "big") + turn.token[24:]
    for token in (flipped, longer, bytes(56), os.urandom(56)):
        await attacker.refused("bad-token", attacker.rebuilt(turn, token=token))


async def an_expired_token(attacker):
    turn = await attacker.turn()
    attacker.both.clock.now = turn.expires
    await attacker.refused("token-expired", attacker.report(turn))


async def another_batch(attacker):
    turn = await attacker.turn()
    parts = tuple(replace(part, batch=part.batch + 1) for part in attacker.opened(turn).parts)
    await attacker.refused("wrong-batch", attacker.rebuilt(turn, parts=parts))
    await attacker.refused("bad-token", attacker.rebuilt(turn, offer=turn.offer.number + 1))


async def oversized_and_truncated_bodies(attacker):
    body = attacker.report(await attacker.turn())
    await attacker.refused("too-large", body + bytes(2**20))
    await attacker.refused("unopenable-report", body[:-1])
    await attacker.refused("malformed-report", body[:20])
    await attacker.refused("malformed-report", b"")


async def garbage_to_the_front(attacker):
    envelope = Envelope.from_bytes(attacker.report(await attacker.turn()))
    garbage = replace(envelope, sealed=os.urandom(len(envelope.sealed)))
    await attacker.refused("unopenable-report", garbage.to_bytes())


async def garbage_to_the_analyzer(attacker):
    """Nobody but the analyzer can tell: it takes each message for a zero, and says how many there were."""
    turn = await attacker.turn()
    body = attacker.with_messages(turn, lambda _, length: os.urandom(length))
    assert (await attacker.send(body)).status_code == 201
    return 1, 0, turn.offer.batches[0].shape.slots


async def messages_out_of_range(attacker):
    """A residue beyond the modulus counts as zero, like any other damage."""
    turn = await attacker.turn()
    form = turn.offer.batches[0].shape
    slot = REAL + (2**62).to_bytes(form.length - 1, "big")
    body = attacker.with_messages(turn, lambda *_: attacker.sealed_slot(turn, slot))
    assert (await attacker.send(body)).status_code == 201
    return 1, 0, form.slots


async def too_many_messages(attacker):
    turn = await attacker.turn()
    (part,) = attacker.opened(turn).parts
    more = (*part.messages, attacker.sealed_slot(turn, bytes(turn.offer.batches[0].shape.length)))
    for token, messages in (
        ("too-large", more),
        ("wrong-shape", part.messages[:-1]),
        ("wrong-shape", (part.messages[0],) * len(part.messages)),
    ):
        await attacker.refused(token, attacker.rebuilt(turn, parts=(replace(part, messages=messages),)))


async def mixed_keys_outside(attacker):
    turn = await attacker.turn()
    other = SUITES[attacker.configuration.suite]
    for key in (attacker.configuration.keys["analyzer"].seal, other.public_of(other.generate())):
        await attacker.refused("unopenable-report", attacker.rebuilt(turn, key=key))


async def mixed_keys_inside(attacker):
    """Sealed to the front's key where the analyzer's is due."""
    turn = await attacker.turn()
    wrong = attacker.configuration.keys["front"].seal
    form = turn.offer.batches[0].shape
    body = attacker.with_messages(turn, lambda *_: attacker.sealed_slot(turn, REAL + bytes(form.length - 1), wrong))
    assert (await attacker.send(body)).status_code == 201
    return 1, 0, form.slots


async def a_stale_configuration(attacker):
    """A new arm makes a new revision: the old one is not served again, and no report can mix the two."""
    turn = await attacker.turn()
    assert (await attacker.both.operate(operation="add", name="blue")).status_code == 200
    await attacker.both.until(lambda: attacker.both.live.configured != attacker.configured)
    stale = replace(attacker.configuration, title="another")
    await attacker.put("configuration-conflict", "", attacker.signed(stale.statement()))
    newer = attacker.both.live.configured.hash
    await attacker.refused("wrong-batch", attacker.rebuilt(turn, configuration=newer))


async def an_unsigned_configuration(attacker):
    await attacker.put("bad-signature", "", attacker.configuration.statement().to_dict())
    offer = next(iter(attacker.both.live.offers.values()))
    await attacker.put("bad-signature", "/offers/0", {"offer": offer.statement().to_dict()})


async def an_offer_beyond_the_promise(attacker):
    weak = shuffled_laplace(epsilon=21.0, binary=True).plan(users=USERS)
    offer = Offer("colours", attacker.configured.hash, 50, 0, (Batch.of(50, attacker.configured.hash, weak),))
    await attacker.put("not-covered", "/offers/50", {"offer": attacker.signed(offer.statement())})


async def more_than_the_device_gives(attacker):
    careful = AsyncClient("http://analyzer.test", http=attacker.both.http, limits=replace(GENEROUS, epsilon=1.0))
    with pytest.raises(BeyondLimits, match="ε = 20 is above"):
        await careful.play("colours")
    assert careful.device.account.ledger.spent == 0


async def a_flood(attacker):
    """More at once than may wait: told when to come back, in whole seconds; afterwards all is as before."""
    turn = await attacker.turn()
    garbage = Envelope.from_bytes(attacker.report(turn))
    garbage = replace(garbage, sealed=os.urandom(len(garbage.sealed))).to_bytes()
    answers = await asyncio.gather(*(attacker.send(garbage) for _ in range(40)))
    busy = [answer for answer in answers if answer.status_code == 429]
    assert len(busy) > 10
    for answer in busy:
        check_problem(answer, "too-busy")
        assert (answer.headers["retry-after"], answer.json()["retry_after"]) == ("1", 1)
    for answer in set(answers) - set(busy):
        check_problem(answer, "unopenable-report")
    asked = await asyncio.gather(*(attacker.both.http.post(f"{BASE}/assignments") for _ in range(40)))
    assert {answer.status_code for answer in asked} <= {201, 409, 429}
    assert 429 in {answer.status_code for answer in asked}
    # Those turns are never used; they are somebody else's when they are overdue.
    attacker.both.clock.now += 10


CARRIED_OUT = {
    "replay": replay,
    "two reports for one token": two_reports_for_one_token,
    "forged tokens": forged_tokens,
    "expired tokens": an_expired_token,
    "wrong batch": another_batch,
    "oversized or truncated bodies": oversized_and_truncated_bodies,
    "garbage ciphertext, outside": garbage_to_the_front,
    "garbage ciphertext, inside": garbage_to_the_analyzer,
    "messages out of range": messages_out_of_range,
    "too many messages": too_many_messages,
    "mixed keys, outside": mixed_keys_outside,
    "mixed keys, inside": mixed_keys_inside,
    "stale configuration": a_stale_configuration,
    "unsigned configuration": an_unsigned_configuration,
    "an offer beyond the promise": an_offer_beyond_the_promise,
    "ε above the client's limit": more_than_the_device_gives,
    "floods": a_flood,
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", CARRIED_OUT)
def test_an_attack_is_refused_by_name_and_changes_nobody_elses_outcome(attack, tmp_path):
    both = Both(tmp_path, experiment=EXACT, largest_epsilon=20.0, queue=4, group_size=2)

    async def work():
        async with both.running():
            assert await both.users(3, 1.0) + await both.users(2, 0.0) == ["accepted"] * 5
            places, own, damaged = (*((await CARRIED_OUT[attack](Attacker(both))) or (0, 0)), 0)[:3]
            rest = USERS - 5 - places
            assert await both.users(rest, 1.0) == ["accepted"] * rest
            await both.until(lambda: 0 in both.live.done)
            (released,) = [record for record in both.live.records if record.get("batch") == 0]
            assert (released["event"], released["decoded"]) == ("released", 3 + rest + own)
            assert released["damaged"] == damaged

    asyncio.run(work())


def test_users_who_add_no_noise_bias_a_sum_as_stated_and_the_others_noise_still_hides_everyone():
    mechanism = counted_messages(epsilon=1.0, honest_fraction=0.5).plan(users=60)
    silent, form = mechanism.users - mechanism.honest, mechanism.shape

    def bare(value):
        messages = [REAL + message for message in mechanism.pack((0, value))]
        return [*messages, *[bytes(form.length)] * (form.slots - len(messages))]

    def error(seed):
        source = seeded(seed)
        honest = [slot for user in range(mechanism.honest) for slot in mechanism.slots(user % 2, source)]
        found = mechanism.read(honest + [slot for user in range(silent) for slot in bare(user % 2)])
        assert found.damaged == 0
        return mechanism.estimate(found.decoded) - (mechanism.honest + silent) // 2

    errors = np.array([error(seed) for seed in range(100)])
    spread = 6 * errors.std() / np.sqrt(len(errors))
    assert mechanism.omission_bias > 2 * spread
    # Six standard errors: a false alarm once in 10⁸. The bound is reached, so a smaller one would be wrong.
    assert abs(abs(errors.mean()) - mechanism.omission_bias) < spread
    # The claim counts on the honest users' noise alone.
    assert mechanism.certificate().holds


# Every attack that is to be expected, and the tests that show what becomes of it.
SHOWN = {
    "replay": ("test_front.py::test_a_report_sent_twice_counts_once",),
    "two reports for one token": (
        "test_front.py::test_two_reports_for_one_token_count_once",
        "test_store_contract.py::test_the_same_token_at_two_workers_counts_once",
        "test_front.py::test_an_issuer_admits_each_ticket_holder_to_one_report",
    ),
    "forged tokens": (
        "test_front.py::test_a_forged_token_is_refused",
        "test_front.py::test_a_token_with_a_later_expiry_is_refused",
    ),
    "expired tokens": ("test_front.py::test_an_expired_token_is_refused",),
    "wrong batch": ("test_front.py::test_a_token_for_one_arm_buys_no_place_in_the_other",),
    "oversized or truncated bodies": (
        "test_apps.py::test_refusals_are_problem_documents",
        "test_malformed.py::test_malformed_requests_are_refused_by_name_and_change_nothing",
        "../client/test_reports.py::test_a_cut_or_longer_report_is_refused",
    ),
    "garbage ciphertext": (
        "test_front.py::test_garbage_is_refused_at_each_layer",
        "test_decoding.py::test_damaged_messages_count_as_harmless_ones_and_are_counted",
    ),
    "messages out of range": (
        "test_decoding.py::test_damaged_messages_count_as_harmless_ones_and_are_counted",
        "../client/test_turns.py::test_an_outcome_that_cannot_be_is_refused_when_it_is_recorded_and_the_one_before_stays",
    ),
    "too many messages": (
        "test_front.py::test_too_many_too_few_longer_or_equal_messages_are_refused",
        "test_decoding.py::test_too_few_or_too_many_messages_are_refused",
    ),
    "mixed keys": (
        "test_apps.py::test_new_keys_are_a_new_revision_and_old_batches_still_open",
        "../client/test_sealing.py::test_another_context_another_key_or_a_changed_byte_does_not_open",
        "../client/test_account.py::test_other_keys_than_the_first_seen_are_refused",
    ),
    "stale configuration": ("../client/test_account.py::test_a_stale_revision_is_refused",),
    "unsigned configuration": (
        "../client/test_client.py::test_an_unsigned_configuration_is_refused",
        "test_front.py::test_a_configuration_must_be_the_analyzers_and_name_this_front",
    ),
    "ε above the client's limit": (
        "../client/test_client.py::test_a_configuration_beyond_the_limits_is_refused",
        "../client/test_client.py::test_an_offer_signed_by_one_server_or_beyond_the_configuration_is_refused",
        "test_front.py::test_an_offer_beyond_the_signed_configuration_is_refused",
    ),
    "floods": ("test_apps.py::test_a_full_queue_says_try_again",),
    "a front that drops or duplicates": (
        "test_apps.py::test_a_front_that_drops_duplicates_or_changes_messages_is_found_out",
    ),
    "clients that add no noise": (
        "test_attacks.py::test_users_who_add_no_noise_bias_a_sum_as_stated_and_the_others_noise_still_hides_everyone",
    ),
}


def test_every_attack_has_a_test_that_exists():
    for attack, tests in SHOWN.items():
        for place, name in (test.split("::") for test in tests):
            assert f"\ndef {name}(" in (HERE / place).read_text(encoding="utf-8"), (attack, name)
    carried_out = {attack.partition(",")[0] for attack in CARRIED_OUT}
    assert carried_out - set(SHOWN) == {"an offer beyond the promise"}
    assert set(SHOWN) - carried_out == {"a front that drops or duplicates", "clients that add no noise"}
