"""The exact law of all that an analyzer holds, against everybody else in the batch: within what is claimed.

First the numbers: the law of one batch, of several turns in it, and of the batches of one turn, enumerated from the
definitions (`view_laws`) and compared with what a device believes (`capped_loss`, `Offer.delta`). Then the bytes: on a
real front nothing but that multiset is in the view, whatever was revised, retried, copied or begun again.
"""

import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest

import croupier.messages.configuration as configuration_module
import croupier.protocols.padding as padding
from cases.service import view_laws as laws
from cases.service.world import GENEROUS, SIGN, SUITE, URLS, World, keys_of, signed, witness
from croupier.client.account import Account
from croupier.client.device import Device, Request, Response
from croupier.messages import signing
from croupier.messages.admission import EVERYBODY
from croupier.messages.configuration import ServerKeys
from croupier.messages.offer import Batch, Offer
from croupier.messages.sealing import SUITES
from croupier.messages.signing import Statement
from croupier.messages.wire import Envelope, Report, message_info, report_info
from croupier.noise import Polya, secure
from croupier.privacy import Guarantee
from croupier.programs import program
from croupier.protocols import histogram, protocol
from croupier.service import keys as key_files
from croupier.service import shuffling
from croupier.service.decryption import open_all
from croupier.service.experiment import Site, plan
from croupier.service.experiment_log import Live
from croupier.service.problems import Problem
from croupier.service.store import FrontStore
from croupier.service.store import outbox as store_module

ATTACKS = {"fakes": laws.among_fakes, "no front": laws.without_front, "nobody": laws.all_honest}
"""Whom the adversary knows: all other users; the front's noise and the users not counted on; nobody."""

HAIR = 1.0 + 1e-9


def sums(name, users=3, honest_fraction=0.7, **options):
    return protocol(name, front_noise=True, honest_fraction=honest_fraction, **options).plan(users)


def items(size, users=3, share=None, **options):
    names = [str(item) for item in range(size)]
    target = {"epsilon": 1.0, "delta": 1e-2, "front_noise": True, "honest_fraction": 0.7} | options
    found = histogram(universe=names, **target).plan(users)
    return found if share is None else replace(found, oracle=replace(found.oracle, share=share))


MECHANISMS = {
    "bits": lambda: sums("shuffled-bits", 4, epsilon=1.0, delta=1e-2),
    "bits-default": lambda: sums("shuffled-bits", 2, epsilon=2.0),
    "bits-published": lambda: sums("shuffled-bits", 4, epsilon=0.9, delta=1e-2, constants="published"),
    "levels": lambda: sums("shuffled-levels", 4, epsilon=1.0, delta=1e-2, precision=3),
    "levels-default": lambda: sums("shuffled-levels", 3, epsilon=1.0, precision=2),
    "counted": lambda: sums("counted-messages", 3, epsilon=1.0, delta=1e-2),
    "counted-default": lambda: sums("counted-messages", 4, epsilon=1.0),
    "counted-under": lambda: sums("counted-messages", 2, epsilon=0.5, side="under"),
    "counted-published": lambda: sums("counted-messages", 3, epsilon=0.9, constants="published"),
    "items": lambda: items(2),
    "items-under": lambda: items(2, side="under", delta=1e-4),
    "items-three": lambda: items(3, 2, epsilon=2.0, delta=5e-2),
    "items-polya": lambda: items(2, 4, Polya(Fraction(3, 2), 0.5), delta=0.1),
}


def check_view(mechanism, view):
    """δ of the exact law at several ε, in all directions, against what the code says of the mechanism as it is sent."""
    claim, views = mechanism.guarantee, [view(mechanism, value) for value in laws.levels(mechanism)]
    assert all(abs(law.sum() - 1.0) < 1e-9 for law in views)
    loss = mechanism.sent_loss
    for epsilon in (0.0, claim.epsilon / 2, claim.epsilon, 1.5 * claim.epsilon):
        assert laws.delta(views, epsilon) <= loss.delta(epsilon) * HAIR + 1e-12
    return laws.delta(views, claim.epsilon)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_whole_view_of_a_batch_is_within_the_claim(kind, attack):
    mechanism = MECHANISMS[kind]()
    found = check_view(mechanism, ATTACKS[attack])
    if kind != "items-polya":
        assert found <= mechanism.guarantee.delta * (1.0 + padding.CAP_SHARE) * HAIR


@pytest.mark.parametrize("kind", ["bits", "levels", "counted", "items"])
def test_against_fakes_the_front_hides_what_little_else_would(kind):
    """Without its noise the view of a user among fakes is far from the claim, and with it near: the noise is needed."""
    mechanism = MECHANISMS[kind]()
    claim = mechanism.guarantee
    alone = laws.delta([laws.user_law(mechanism, value) for value in laws.levels(mechanism)], claim.epsilon)
    assert alone > 5 * claim.delta
    found = check_view(mechanism, laws.among_fakes)
    assert found > claim.delta / 100


def test_a_value_between_two_levels_tells_no_more_than_the_ends():
    mechanism = MECHANISMS["levels"]()
    claim = mechanism.guarantee
    ends = laws.alike([laws.among_fakes(mechanism, level) for level in laws.levels(mechanism)])
    between = [weight * low + (1 - weight) * high for low, high in permutations(ends, 2) for weight in (0.3, 0.5)]
    assert laws.delta([*ends, *between[:6]], claim.epsilon) <= laws.delta(ends, claim.epsilon) * HAIR


def test_one_front_share_less_is_noticed():
    """The laws are sharp enough: with half of the front's noise, and the user's own left out, claims are exceeded."""
    for kind in ("bits", "levels", "counted", "items"):
        mechanism = MECHANISMS[kind]()
        most = mechanism.shape.front
        views = [
            laws.moved(laws.noise_law(mechanism, mechanism.honest // 2, most), laws.own_messages(mechanism, value))
            for value in laws.levels(mechanism)
        ]
        assert laws.delta(views, mechanism.guarantee.epsilon) > 1.5 * mechanism.sent_loss.delta(
            mechanism.guarantee.epsilon
        )


# Limits on the noise


@pytest.fixture
def deep_limits(monkeypatch):
    """Limits that cut deep into the noise: they cost as much as the δ that a mechanism names."""
    monkeypatch.setattr(padding, "CAP_SHARE", 1.0)


def check_limits(mechanism):
    """Both limits are charged: the distance of each party's law from that without a limit, and so every view."""
    form, users = mechanism.shape, mechanism.users
    share = mechanism.oracle.share if hasattr(mechanism, "oracle") else mechanism.share
    size = mechanism.size if hasattr(mechanism, "oracle") else 1
    far = 4000

    def beyond(parties, most):
        return math.fsum(laws.counts(share, parties * size, far)[most + 1 :])

    due = users * beyond(1, form.cap) + beyond(mechanism.honest, form.front)
    assert due <= form.distance <= due * (1.0 + 1e-6)
    for view in ATTACKS.values():
        check_view(mechanism, view)


def limited(kind):
    mechanism = MECHANISMS[kind]()
    return replace(mechanism, guarantee=Guarantee("approximate", mechanism.guarantee.epsilon, 0.9))


@pytest.mark.parametrize("kind", ["counted", "counted-under", "items", "items-under", "items-polya"])
def test_limits_on_the_noise_are_charged_however_deep_they_cut(kind, deep_limits):
    mechanism = limited(kind)
    assert mechanism.shape.distance > 0.1
    check_limits(mechanism)


def test_a_limit_of_the_front_that_is_not_charged_is_noticed(monkeypatch, deep_limits):
    def uncharged(noise, own, length, *, users, **more):
        form = padding.capped(noise, own, length, users=users, **more)
        return replace(form, distance=users * float(noise.tail(form.cap)) * (1.0 + 1e-9))

    for room in ("sums.carriers.messages", "histograms.labelled"):
        monkeypatch.setattr(f"croupier.protocols.{room}.capped", uncharged)
    for kind in ("counted", "items"):
        with pytest.raises(AssertionError):
            check_limits(limited(kind))


# Several turns


@pytest.mark.parametrize("kind", ["bits", "counted", "counted-under", "items"])
@pytest.mark.parametrize("turns", [2, 3])
def test_turns_of_one_device_in_one_batch_cost_what_its_ledger_takes(kind, turns):
    """k turns against the front's noise alone: (kε, δ(1 + e^ε + … + e^((k-1)ε)))."""
    mechanism = MECHANISMS[kind]()
    epsilon = mechanism.guarantee.epsilon
    step = mechanism.sent_loss.delta(epsilon)
    values = list(laws.levels(mechanism))
    views = [laws.turns_in_a_row(mechanism, [value] * turns) for value in values]
    views.append(laws.turns_in_a_row(mechanism, [values[0], *[values[1]] * (turns - 1)]))
    paid = step * sum(math.exp(k * epsilon) for k in range(turns))
    assert laws.delta(views, turns * epsilon) <= paid * HAIR
    # Such turns are not one turn: at its ε they cost more than its δ.
    assert laws.delta(views, epsilon) > step


def joint(views):
    """The joint law of independent views, as one long list."""
    found = np.ones(1)
    for law in views:
        found = np.multiply.outer(found, law).ravel()
    return found


def turn_delta(mechanisms, epsilon, view=laws.among_fakes):
    """The exact δ of one turn in several batches: the same value in all, every batch with noise of its own."""
    values = range(2)
    parts = [laws.alike([view(mechanism, value) for value in values]) for mechanism in mechanisms]
    return laws.delta([joint(part[value] for part in parts) for value in values], epsilon)


def offer_of(mechanisms):
    return Offer("colours", bytes(32), 0, None, tuple(Batch.of(i, bytes(32), one) for i, one in enumerate(mechanisms)))


COUNTERS = {
    "bits": {"over": "shuffled-bits", "delta": 2e-2, "epsilon": 2.0},
    "levels": {"over": "shuffled-levels", "delta": 1e-4, "epsilon": 1.0, "binary": True},
    "published": {"over": "shuffled-bits", "delta": 0.3, "epsilon": 0.9, "constants": "published"},
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["fakes", "no front"])
@pytest.mark.parametrize("kind", COUNTERS)
def test_a_turn_of_a_counter_is_within_the_claim_over_both_levels(kind, attack):
    """The joint law over a tree of two levels; the node above holds users of two turns, all the adversary's but one."""
    options = {"users": 8, "shufflers": 2, "smallest": 2, "front_noise": True, "honest_fraction": 0.5} | COUNTERS[kind]
    running = program({"kind": "counter", **options})
    (turn,) = running.wanted
    mechanisms = [mechanism for _, mechanism in turn.batches]
    assert len(mechanisms) == 2
    assert mechanisms[0].users < mechanisms[1].users
    offer = offer_of(mechanisms)
    for epsilon in (options["epsilon"] / 2, options["epsilon"]):
        found = turn_delta(mechanisms, epsilon, ATTACKS[attack])
        assert found <= offer.delta(epsilon) * HAIR
    assert found <= options["delta"] * (1.0 + padding.CAP_SHARE) * HAIR
    # The levels together tell more than either of them: composing is not for nothing.
    assert found > max(turn_delta([one], epsilon, ATTACKS[attack]) for one in mechanisms)


@pytest.mark.parametrize("side", ["unbiased", "over"])
def test_two_turns_of_one_device_below_one_node_cost_what_its_ledger_takes(side):
    """Two batches of their own and one that they share: the exact joint law at 2ε against δ(1 + e^ε)."""
    options = {"epsilon": 2.0, "delta": 2e-2, "honest_fraction": 0.5}
    if side == "unbiased":
        leaf, upper = (sums("shuffled-levels", users, binary=True, **options) for users in (2, 4))
    else:
        leaf, upper = (sums("counted-messages", users, **options) for users in (2, 4))
    step = offer_of([leaf, upper]).delta(2.0)
    below = laws.alike([laws.among_fakes(leaf, value) for value in range(2)])
    above = laws.alike([laws.turns_in_a_row(upper, [value] * 2) for value in range(2)])
    views = [joint([below[value], below[value], above[value]]) for value in range(2)]
    assert laws.delta(views, 4.0) <= step * (1.0 + math.exp(2.0)) * HAIR


def test_a_turn_of_a_laplace_counter_is_within_the_claim_over_both_levels():
    """Its sums by their exact laws, and its pieces by their distance from a function of the sum alone."""
    options = {"users": 80, "shufflers": 2, "smallest": 20, "front_noise": True, "epsilon": 1.0, "binary": True}
    running = program({"kind": "counter", "over": "shuffled-laplace", "delta": 1e-6, **options})
    mechanisms = [mechanism for _, mechanism in running.wanted[0].batches]
    offer = offer_of(mechanisms)

    def view(mechanism, value):
        reach = 40 * math.ceil(float(mechanism.share.scale))
        law = laws.difference(mechanism.share, mechanism.front_shares + 1, reach)
        return laws.moved(law, (value * mechanism.precision,))

    found = turn_delta(mechanisms, 1.0, view)
    assert found <= offer.delta(1.0) * HAIR
    assert float(offer.loss.distance) == sum(2.0**-one.carrier.security for one in mechanisms)
    for one in mechanisms:
        assert one.front_shares == one.honest
        bound = laws.mixing_bound(one.carrier.modulus, one.carrier.pieces, one.front_shares)
        assert bound <= 2.0**-one.carrier.security


@pytest.mark.parametrize("protocol_name", ["shuffled-bits", "counted-messages", "shuffled-levels"])
def test_a_turn_of_a_bandit_is_within_the_claim(protocol_name):
    running = program(
        {
            "kind": "bandit",
            "name": "dp-klucb",
            "arms": 2,
            "horizon": 100,
            "epsilon": 2.0,
            "delta": 1e-3,
            "front_noise": True,
            "honest_fraction": 0.7,
            "smallest": 4,
            "protocol_name": protocol_name,
        }
        | ({"binary": True} if protocol_name == "shuffled-levels" else {})
    )
    for turn in running.wanted:
        ((_, mechanism),) = turn.batches
        found = turn_delta([mechanism], 2.0)
        assert found <= offer_of([mechanism]).delta(2.0) * HAIR
        assert found <= 1e-3 * (1.0 + padding.CAP_SHARE) * HAIR


def test_rounds_of_a_histogram_add_up():
    """Who takes part in two rounds pays for both; the exact joint law costs no more."""
    universe = {"kind": "items", "names": ["a", "b"]}
    target = {"epsilon": 1.0, "delta": 5e-2, "front_noise": True, "honest_fraction": 0.7}
    running = program({"kind": "histogram", "universe": universe, "users": 3, "rounds": 2, **target})
    ((_, mechanism),) = running.wanted[0].batches
    step = mechanism.sent_loss.delta(1.0)
    assert turn_delta([mechanism], 1.0) <= step * HAIR
    views = laws.alike([laws.among_fakes(mechanism, value) for value in range(2)])
    # Views that hardly ever come up are pooled, and charged, since that hides.
    kept = np.maximum(*views) > 1e-7
    small = [np.append(law[kept], law[~kept].sum()) for law in views]
    cut = 2 * max(float(law[~kept].sum()) for law in views)
    found = laws.delta([joint([law, law]) for law in small], 2.0, cut)
    assert found <= 2.0 * step * HAIR
    running.released(0, [3, 2])
    assert running.wanted[0].batches[0][0] == 1, "a new round is a new batch, with noise of its own"


# The bytes: nothing but the multiset is in the view


@cache
def counting_plan():
    """Two levels: every turn fills a batch of two users, and half of a batch of four."""
    return plan(
        {
            "name": "steps",
            "program": {"kind": "counter", "users": 8, "shufflers": 2},
            "reward": {"protocol": "shuffled-bits"},
            "privacy": {"epsilon": 2.0, "delta": 1e-2, "honest_fraction": 0.5},
            "reports": {"report_within": 600, "report_at": [0, 0]},
            "batches": {"smallest": 2},
        }
    )


class Service(World):
    """A front, an analyzer's program and its keys, and devices that reach both without a network."""

    def __init__(self, store, found=None):
        super().__init__(store, None, found)
        self.program, self.opened, self.outcomes = self.plan.program(), {}, []
        self.private = {self.signed.hash: keys_of("analyzer").newest(SUITE)}
        self.configurations = {self.signed.hash: self.configured}

    def revise(self, suite=SUITE, **changes):
        """A new revision: a new sealing key of the analyzer, maybe of another suite."""
        keys = dict(self.configured.keys)
        fresh = key_files.SealingKey(99 + self.configured.revision, suite, SUITES[suite].generate())
        keys["analyzer"] = ServerKeys(fresh.public, keys["analyzer"].verify)
        if suite != self.configured.suite:
            own = key_files.SealingKey(99, suite, SUITES[suite].generate())
            self.front.keys = replace(self.front.keys, sealing=(*self.front.keys.sealing, own))
            keys["front"] = ServerKeys(own.public, keys["front"].verify)
        number = self.configured.revision + 1
        revised = replace(self.configured, revision=number, suite=suite, keys=keys, **changes)
        self.signed = self.front.register(self.plan.name, revised.statement().signed("analyzer", SIGN()))
        self.configured = revised
        self.private[self.signed.hash], self.configurations[self.signed.hash] = fresh, revised

    def wanted(self):
        live = type("Begun", (), {"configured": self.signed, "name": self.plan.name, "open": self.opened})
        return [Live.offer_of(live, turn) for turn in self.program.wanted]

    def open(self, deadline=None):
        found = self.wanted()
        for offer in found:
            self.front.open_offer(self.plan.name, offer.number, signed(offer), deadline or self.plan.deadline)
            self.opened |= {batch.number: batch for batch in offer.batches}
        return found

    def answer(self, request):
        """What the two servers answer to a device."""
        *_, kind, last = request.url.split("/")
        if kind == "configurations":
            return _answered(self.front.configuration(self.plan.name, from_hash(last)))
        if last == "assignments":
            (given,) = self.front.assign([(self.plan.name, None)])
            if isinstance(given, Problem):
                raise given
            return Response(200, {}, given.to_json())
        if last == "reports":
            (outcome,) = self.upload(request.content)
            self.outcomes.append(outcome)
            return _answered({"status": outcome})
        return _answered(self.signed.to_dict())

    def device(self):
        return Device(URLS["analyzer"], Account(None, GENEROUS), GENEROUS, secure(), clock=self.clock)

    def drive(self, steps):
        reply = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = self.answer(request) if isinstance(request, Request) else None

    def released(self, number):
        """A batch's messages, as the analyzer gets them."""
        name = self.plan.name
        body = Statement.from_dict("release", self.front.receipt(name, number)).body
        witness(self.front, name)
        payload = b"".join(self.front.part(name, number, part) for part in range(body["parts"]))
        length = body["length"]
        return body, [payload[at : at + length] for at in range(0, len(payload), length)]

    def openings(self, number, messages):
        """Which messages open under which key and which of all contexts that there are."""
        batch = self.opened[number]
        found = {}
        for pin, key in self.private.items():
            for about, other in product(self.private, self.opened.values()):
                info = message_info(self.plan.name, about, other.hash)
                opened = open_all([(key.suite, key.private, info, message) for message in messages])
                found[pin, about, other.number] = sum(one is not None for one in opened)
        assert found.pop((batch.pin, batch.pin, number)) == len(messages), "all under what the batch is pinned to"
        return found


@pytest.fixture
def store(sqlite_url):
    found = FrontStore(sqlite_url, secure(), bytes(32))
    yield found
    found.close()


def refused(token, work, *arguments):
    with pytest.raises(Problem) as problem:
        work(*arguments)
    assert problem.value.token == token


@pytest.mark.parametrize("suite", [SUITE, "mlkem768-x25519-aes128gcm"])
def test_a_batch_that_spans_revisions_opens_under_one_key_and_has_one_length(store, suite):
    """Two users of the upper batch came before the analyzer's key was replaced, two after: nothing tells them apart."""
    service = Service(store, counting_plan())
    (first,) = service.open()
    leaf = first.batches[0].number
    begun = [service.device() for _ in range(2)]
    for device in begun:
        service.drive(device.send_now(service.drive(device.play("steps")), 1.0))
    assert service.front.close_full() == 1
    check_release(service, leaf)
    service.program.released(leaf, 2)
    service.revise(suite)
    (second,) = service.wanted()
    # An analyzer that opens the upper batch anew, under its new key, is refused.
    renewed = tuple(replace(batch, pin=second.configuration) for batch in second.batches)
    assert renewed != second.batches
    refused(
        "not-covered",
        service.front.open_offer,
        "steps",
        second.number,
        signed(replace(second, batches=renewed)),
        None,
    )
    service.open()
    for device in (begun[0], service.device()):
        turn = service.drive(device.play("steps"))
        assert turn.offer.configuration == service.signed.hash
        pending = device.sealed(turn, 0.0)
        service.drive(device._send(pending))
        # Retries are the same bytes, and are taken once.
        service.drive(device._send(pending))
        assert service.outcomes[-2:] == ["accepted", "repeated"]
    assert service.front.close_full() == 2
    for batch in second.batches:
        check_release(service, batch.number)


def check_release(service, number):
    """The analyzer gets exactly the slots that are due, of one length, each under one key and context and no other."""
    batch = service.opened[number]
    body, messages = service.released(number)
    form, overhead = batch.shape, SUITES[service.configurations[batch.pin].suite].overhead
    assert {len(message) for message in messages} == {body["length"]} == {form.length + overhead}
    assert len(messages) == len(set(messages)) == batch.mechanism.users * form.slots + form.front
    assert not any(service.openings(number, messages).values())
    key = service.private[batch.pin]
    info = message_info(service.plan.name, batch.pin, batch.hash)
    opened = open_all([(key.suite, key.private, info, message) for message in messages])
    assert batch.mechanism.read(opened).damaged == 0


def test_a_batch_that_was_released_or_refused_is_not_begun_again(store):
    """Its number is spent: a second mixture of the same reports, with other noise, would tell more."""
    service = Service(store)
    offers = service.open()
    service.fill()
    assert service.front.close_full() == 2
    number = offers[0].batches[0].number
    _, messages = service.released(number)
    assert service.front.close_full() == 0
    assert service.released(number)[1] == messages, "asked again, it is the same order of the same messages"
    again = replace(offers[0], number=50)
    refused("offer-conflict", service.front.open_offer, "colours", 50, signed(again), None)
    service.front.acknowledge("colours", number)
    refused("offer-conflict", service.front.open_offer, "colours", 51, signed(replace(again, number=51)), None)
    refused("already-released", service.front.part, "colours", number, 0)


def test_a_batch_that_expired_leaves_nothing_and_reporting_again_is_paid_for(store):
    service = Service(store)
    service.open(deadline=10.0)
    device = service.device()
    before = device.account.left
    turn = service.drive(device.play("colours", sticky=False))
    service.drive(device.send_now(turn, 1.0))
    once = before - device.account.left
    assert once > 0
    service.clock.now += 11.0
    assert service.front.sweep() == 2
    number = turn.offer.batches[0].number
    for work in (service.front.receipt, lambda name, batch: service.front.part(name, batch, 0)):
        refused("batch-expired", work, "colours", number)
    for batch in list(service.opened):
        service.program.expired(batch)
        del service.opened[batch]
    service.open()
    second = service.drive(device.play("colours", sticky=False))
    assert second.offer.batches[0].number != number
    service.drive(device.send_now(second, 1.0))
    assert before - device.account.left == pytest.approx(2 * once)
    assert service.front.store.full() == []


# The order


class Recording:
    """A cryptographic source that remembers what it gave."""

    def __init__(self):
        self.given = []

    def words(self, count):
        found = secure().words(count)
        self.given.append(found.copy())
        return found

    def renew(self):
        secure().renew()


def check_order(url):
    """All that leaves, the front's own too, is in the order of one list of random words."""
    source = Recording()
    store = FrontStore(url, source, bytes(32))
    service, own = Service(store), {}
    service.open()
    service.fill()
    noise = service.front._noise

    def kept(name, number):
        own[number] = noise(name, number)
        return own[number]

    service.front._noise = kept
    source.given.clear()
    service.front.close_full()
    lists = [words for words in source.given if len(words) > 1]
    for number in own:
        _, messages = service.released(number)
        due = service.opened[number].shape.front
        assert len(own[number]) == due > 0
        words = next(words for words in lists if len(words) == len(messages))
        lists = [one for one in lists if one is not words]
        # The front's own come last before the mixing, and by rank of their words afterwards.
        ranks = np.argsort(np.argsort(words))[len(messages) - due :]
        assert [messages.index(one) for one in own[number]] == ranks.tolist()
    store.close()


@pytest.mark.slow
def test_the_front_mixes_its_own_messages_with_all_others(sqlite_url):
    check_order(sqlite_url)


@pytest.mark.slow
def test_a_front_that_puts_its_own_messages_last_is_noticed(sqlite_url, monkeypatch):
    own, close = [], FrontStore.close_batch

    def closed(store, experiment, number, receipt, added):
        own.append(len(added))
        return close(store, experiment, number, receipt, added)

    def users_only(count, source):
        order, users = shuffling.random_order(count, source), count - own[-1]
        return np.concatenate((order[order < users], np.arange(users, count)))

    monkeypatch.setattr(FrontStore, "close_batch", closed)
    monkeypatch.setattr(store_module, "random_order", users_only)
    with pytest.raises(AssertionError):
        check_order(sqlite_url)


def test_every_order_is_equally_likely_exactly():
    class Words:
        def __init__(self, *lists):
            self.lists = [np.array(one, dtype=np.uint64) for one in lists]

        def words(self, count):
            return self.lists.pop(0)

    drawn = Counter(
        tuple(shuffling.random_order(4, Words(one)).tolist()) for one in permutations((3, 2**63, 5, 2**64 - 1))
    )
    assert len(drawn) == 24
    assert set(drawn.values()) == {1}
    # Words that are equal order nothing: all are drawn again.
    assert shuffling.random_order(3, Words((7, 7, 1), (9, 1, 5))).tolist() == [1, 2, 0]


# Copies


def parts_of(service, body):
    """A report as the front reads it."""
    envelope = Envelope.from_bytes(body)
    key = service.front.keys.by_id(envelope.key)
    (plain,) = open_all(
        [(key.suite, key.private, report_info(service.plan.name, envelope.configuration), envelope.sealed)]
    )
    return envelope, Report.from_bytes(plain)


def copied(service, turn, stolen):
    """An upload whose first messages are somebody else's, as whoever has seen those could make it."""
    envelope, report = parts_of(service, service.report(turn, 1.0))
    (part,) = report.parts
    part = replace(part, messages=(*stolen, *part.messages[len(stolen) :]))
    key = service.front.keys.by_id(envelope.key)
    info = report_info(service.plan.name, envelope.configuration)
    sealed = configuration_module.seal(key.suite, key.public, replace(report, parts=(part,)).to_bytes(), info)
    return replace(envelope, sealed=sealed).to_bytes()


def test_copies_of_a_ciphertext_tell_that_somebody_copied_and_nothing_else(store):
    """The front gives no word about copies; the analyzer sees random bytes instead, and all others as they were."""
    service = Service(store)
    service.open()
    turn = service.turn()
    number = turn.offer.batches[0].number
    victim = service.report(turn, 1.0)
    assert service.upload(victim) == ["accepted"]
    (own,) = parts_of(service, victim)[1].parts
    assert not any(message in victim for message in own.messages), "on its way nobody but the front sees a message"
    thieves = 0
    while thieves < 2:
        other = service.turn()
        if other.offer.number == turn.offer.number:
            thieves += 1
            assert service.upload(copied(service, other, own.messages[:1])) == ["accepted"]
    service.fill()
    service.front.close_full()
    _, messages = service.released(number)
    assert Counter(messages)[own.messages[0]] == 1
    assert len(messages) == len(set(messages))
    batch, key = service.opened[number], service.private[service.opened[number].pin]
    info = message_info("colours", batch.pin, batch.hash)
    opened = open_all([(key.suite, key.private, info, message) for message in messages])
    assert sum(one is None for one in opened) == 2
    assert batch.mechanism.read(opened).damaged == 2


def test_a_message_of_one_batch_opens_in_no_other(store):
    """An analyzer that has a fake client send a released message to another batch learns nothing of it there."""
    service = Service(store)
    offers = service.open()
    turns = [service.turn() for _ in range(40)]
    red, green = (next(turn for turn in turns if turn.offer.number == offer.number) for offer in (offers[0], offers[1]))
    victim = service.report(red, 1.0)
    (own,) = parts_of(service, victim)[1].parts
    assert service.upload(victim, copied(service, green, own.messages[:3])) == ["accepted", "accepted"]
    there = green.offer.batches[0]
    key, info = service.private[there.pin], message_info("colours", there.pin, there.hash)
    assert open_all([(key.suite, key.private, info, message) for message in own.messages]) == [None] * len(own.messages)


# What a message is bound to


def check_binding():
    """A batch's number under another configuration, of the very same keys, is another batch."""
    keys = {server: keys_of(server).public(SUITE) for server in ("analyzer", "front")}
    site = Site(SUITE, keys, URLS, EVERYBODY)
    found = counting_plan()
    first = found.configuration(0, (), site)
    second = replace(first, revision=1, title="another title")
    mechanism = found.program().wanted[0].batches[0][1]
    batches = [Batch.of(3, one.statement().hash, mechanism) for one in (first, second)]
    sealed = configuration_module.seal_slots("steps", batches[0], first, (b"slot",))
    private = keys_of("analyzer").newest(SUITE).private
    opened = [
        open_all([(SUITE, private, message_info("steps", batch.pin, batch.hash), sealed[0])])[0] for batch in batches
    ]
    assert opened == [b"slot", None]


def test_a_message_is_bound_to_the_configuration_that_its_batch_is_pinned_to():
    check_binding()


def test_a_message_that_is_not_bound_to_its_pin_is_noticed(monkeypatch):
    def unpinned(experiment, pin, batch):
        return b"croupier/2 message\0" + experiment.encode() + b"\0" + batch

    monkeypatch.setattr(configuration_module, "message_info", unpinned)
    monkeypatch.setitem(globals(), "message_info", unpinned)
    monkeypatch.setattr(Batch, "hash", property(lambda batch: batch.number.to_bytes(4, "big") + batch.text.encode()))
    with pytest.raises(AssertionError):
        check_binding()


def from_hash(text):
    return signing.from_text("configuration", text)


def _answered(body):
    return Response(200, {}, json.dumps(body).encode())
