"""Configurations and offers that a client must refuse, and some beside them that it must not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.vector_reports import COLOURS, OURS, SIGN, configuration_of, fixed, signed
from cases.vector_shares import LINEAR, MOMENTS, PROVED, of_vectors
from croupier.client.limits import Limits
from croupier.messages.configuration import Privacy
from croupier.messages.signing import Statement, to_text
from croupier.messages.validity import Validity
from croupier.noise import Poisson
from croupier.noise.serial import noise_to_dict
from croupier.protocols import Mechanism, counted_messages, histogram, laplace, shuffled_bits, shuffled_laplace

ALONE = {"epsilon": 1.0, "binary": True, "honest_fraction": 0.9}


class Cases:
    """Turns that a client must take or refuse, each under a configuration that is named."""

    def __init__(self) -> None:
        self.configurations: dict[str, Any] = {}
        self.cases: list[dict[str, Any]] = []
        self.statements: dict[str, Statement] = {}

    def configuration(self, name: str, statement: Statement) -> str:
        self.configurations[name], self.statements[name] = statement.to_dict(), statement
        return name

    def add(self, why: str, name: str, *mechanisms: Any, refused: str | None = "offer", **more: Any) -> None:
        """A case: `refused` says what is refused, the configuration or the offer; None: nothing is."""
        before, pin, changes = more.pop("before", None), more.pop("pin", name), more
        pinned = to_text(self.statements[pin].hash)
        texts = [m if isinstance(m, str) else json.dumps(m, sort_keys=True) for m in mechanisms]
        body = {
            "version": 2,
            "experiment": "colours",
            "configuration": to_text(self.statements[name].hash),
            "offer": 7,
            "arm": 0,
            "odds": 0.25,
            "batches": [{"number": 3 + i, "configuration": pinned, "mechanism": text} for i, text in enumerate(texts)],
        } | changes
        body = {key: value for key, value in body.items() if value is not ...}
        offer = None if refused == "configuration" else signed(Statement.of("offer", body)).to_dict()
        self.cases.append({"why": why, "refused": refused, "before": before, "configuration": name, "offer": offer})


def changed(mechanism: Mechanism, **changes: Any) -> dict[str, Any]:
    """A mechanism as data, with some of it replaced, parts of parts as `carrier__pieces`."""
    body = mechanism.to_dict()
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = body
        for key in outer:
            place = place[key]
        place[last] = value
    return body


def refusals() -> dict[str, Any]:
    """Offers and configurations that differ in one thing from one that is accepted."""
    cases = Cases()
    mixed = shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=40)
    whole = Privacy(1.0, mixed.guarantee.delta, 0.9, "a device", 86_400)
    plain = configuration_of(mixed, privacy=whole)
    cases.configuration("laplace", signed(plain.statement()))
    cases.add("as promised", "laplace", mixed.to_json(), refused=None)
    cases.add("almost no pieces", "laplace", changed(mixed, carrier__pieces=2))
    fewest = mixed.carrier.pieces
    cases.add("one piece too few", "laplace", changed(mixed, carrier__pieces=fewest - 1))
    cases.add("pieces for less security", "laplace", changed(mixed, carrier__security=30))
    few = changed(mixed, honest=18, front_shares=18, share__r="1/18", carrier__pieces=99)
    cases.add("fewer than 19 honest users", "laplace", few)
    cases.add("half of the noise", "laplace", changed(mixed, share__r="1/72"))
    cases.add("no noise of the front", "laplace", shuffled_laplace(**ALONE).plan(40).to_json())
    cases.add("a part of a noise of the front", "laplace", changed(mixed, front_shares=35))
    cases.add("noise of half the scale", "laplace", changed(mixed, share__scale="1/2"))
    cases.add("a modulus that does not hold the sum", "laplace", changed(mixed, carrier__modulus=40))
    cases.add("no noise on the device", "laplace", changed(mixed, noise_from="analyzer"))
    cases.add("another carrier", "laplace", changed(mixed, carrier={"kind": "plain", "modulus": 200, "slack": 20}))
    vectors = {"kind": "ball", "dimension": 1, "diameter": 2.0, "clip": False}
    cases.add("vectors", "laplace", changed(mixed, values=vectors))
    cases.add("other values than signed", "laplace", changed(mixed, values__clip=True))
    cases.add(
        "a batch below the smallest", "laplace", shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(39).to_json()
    )
    cases.add("no arm", "laplace", mixed.to_json(), arm=None)
    cases.add("an arm that there is not", "laplace", mixed.to_json(), arm=2)
    cases.add("an offer of another experiment", "laplace", mixed.to_json(), experiment="sounds")
    cases.add("odds that are left out", "laplace", mixed.to_json(), odds=...)
    cases.add("odds of zero", "laplace", mixed.to_json(), odds=0)
    cases.add("odds above one", "laplace", mixed.to_json(), odds=1.25)
    cases.add("odds that nobody is told, of public results", "laplace", mixed.to_json(), odds=None)
    cases.configuration("private", signed(replace(plain, public=False).statement()))
    cases.add("odds that the front alone is told", "private", mixed.to_json(), refused=None, odds=None)
    cases.add("odds that everybody is told, of private results", "private", mixed.to_json())
    block = {"number": 5, "epoch": 2, "batches": [3, 4], "users": 80}
    cases.add("in a block", "laplace", mixed.to_json(), refused=None, block=block)
    cases.add("in a block near the end", "laplace", mixed.to_json(), refused=None, block=block | {"left": 80})
    for why, change in {
        "a block without the offer's batch": {"batches": [4, 5]},
        "a block with a batch twice": {"batches": [3, 4, 4]},
        "a block of nobody": {"users": 0},
        "a block whose epoch is no number": {"epoch": "2"},
        "a block with something unknown": {"odds": 1},
    }.items():
        cases.add(why, "laplace", mixed.to_json(), block=block | change)
    cases.add("a block that is nothing", "laplace", mixed.to_json(), block=None)
    cases.add("no batch", "laplace")
    cases.add("two batches where one was promised", "laplace", mixed.to_json(), mixed.to_json())
    pin = to_text(cases.statements["laplace"].hash)
    twice = [{"number": 3, "configuration": pin, "mechanism": mixed.to_json()}] * 2
    cases.add("one batch twice", "laplace", mixed.to_json(), batches=twice)

    partly = shuffled_laplace(epsilon=1.0, binary=True, honest_fraction=0.55, front_noise=True).plan(users=100)
    half = configuration_of(partly, privacy=replace(whole, honest_fraction=0.55))
    cases.configuration("partly", signed(half.statement()))
    cases.add("55 honest users of 100 at 0.55", "partly", partly.to_json(), refused=None)
    cases.add("56 honest users of 100 at 0.55", "partly", changed(partly, honest=56, front_shares=56, share__r="1/56"))

    counted = counted_messages(epsilon=1.0, delta=1e-6, **OURS).plan(users=100)
    cases.configuration("counted", signed(configuration_of(counted).statement()))
    cases.add("counts as promised", "counted", counted.to_json(), refused=None)
    thin = noise_to_dict(Poisson(counted.share.rate / 2))
    cases.add("half of the counted noise", "counted", changed(counted, share=thin))
    cases.add("a limit on the noise that costs too much", "counted", changed(counted, guarantee__delta=1e-3))

    uncounted = configuration_of(counted)
    uncounted = replace(
        uncounted, recipe=uncounted.recipe | {"values": changed(counted, values__binary=False)["values"]}
    )
    cases.configuration("uncounted", signed(uncounted.statement()))
    cases.add("counts of values that are not binary", "uncounted", changed(counted, values__binary=False))
    cases.add("a claim without a number for e^ε", "counted", changed(counted, guarantee__epsilon=1000.0))

    bits = shuffled_bits(epsilon=1.0, delta=1e-6, **OURS).plan(users=100)
    cases.configuration("bits", signed(configuration_of(bits).statement()))
    cases.add("bits as promised", "bits", bits.to_json(), refused=None)
    cases.add("a value told by the number of its bits", "bits", changed(bits, carrier__value_messages=0))
    cases.add("bits that err to one side", "bits", changed(bits, side="over"))
    for count, refused in ((4095, None), (4096, "offer")):
        many = changed(bits, share={"family": "SparseBits", "slots": count, "rate": 1})
        cases.add(f"a report of {count + 1} slots", "bits", many, refused=refused)

    names = histogram(epsilon=1.0, delta=1e-6, universe=COLOURS, **OURS).plan(users=100)
    counting = configuration_of(names, arms=(), program={"kind": "histogram"})
    cases.configuration("histogram", signed(counting.statement()))
    cases.add("a histogram as promised", "histogram", names.to_json(), refused=None, arm=None)
    thin = noise_to_dict(Poisson(names.oracle.share.rate / 2))
    cases.add("half of a histogram's noise", "histogram", changed(names, ballot__share=thin), arm=None)
    other = changed(names, universe__names=["red", "green", "grey"])
    cases.add("another universe", "histogram", other, arm=None)

    _validity(cases)
    _vectors(cases)
    limits = Limits()
    for why, change in {
        "ε above the device's": {"epsilon": 1.01 * limits.epsilon},
        "δ above the device's": {"delta": 1.01 * limits.delta},
        "a period longer than the device's": {"period": limits.longest_period + 1},
    }.items():
        cases.configuration(why, signed(replace(plain, privacy=replace(whole, **change)).statement()))
        cases.add(why, why, refused="configuration")
    small = shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=limits.users - 1)
    cases.configuration("small", signed(configuration_of(small, privacy=whole).statement()))
    cases.add("batches smaller than the device's", "small", refused="configuration")
    for revision in (1, 2):
        cases.configuration(f"revision {revision}", signed(replace(plain, revision=revision).statement()))
    cases.add("a newer revision", "revision 2", mixed.to_json(), refused=None, before="laplace")
    cases.add("the revision before the newest", "revision 1", mixed.to_json(), refused=None, before="revision 2")
    cases.add("a stale revision", "laplace", refused="configuration", before="revision 2")
    cases.add("a batch opened under an earlier revision", "revision 2", mixed.to_json(), refused=None, pin="laplace")
    cases.add("a batch opened under a later revision", "revision 1", mixed.to_json(), pin="revision 2")
    weaker = replace(plain, revision=1, privacy=replace(whole, epsilon=2.0))
    cases.configuration("weaker", signed(weaker.statement()))
    cases.add("a revision that promises less", "weaker", refused="configuration", before="laplace")
    cases.add("a batch opened under another promise", "revision 2", mixed.to_json(), pin="weaker")
    half_signed = replace(plain, title="?").statement().signed("analyzer", SIGN["analyzer"])
    cases.configuration("half signed", half_signed)
    cases.add("a batch opened under what one server signed", "revision 2", mixed.to_json(), pin="half signed")
    cases.configuration("one", plain.statement().signed("analyzer", SIGN["analyzer"]))
    cases.add("one signature is missing", "one", refused="configuration")
    text = plain.statement()
    swapped = {"analyzer": signed(text).signatures["front"], "front": signed(text).signatures["analyzer"]}
    cases.configuration("swapped", Statement("configuration", text.text, swapped))
    cases.add("signatures under each other's names", "swapped", refused="configuration")
    kept = signed(text).signatures
    cases.configuration("edited", Statement("configuration", text.text.replace("Which", "What"), kept))
    cases.add("words that were not signed", "edited", refused="configuration")
    rogue = Ed25519PrivateKey.from_private_bytes(fixed("rogue sign", 32))
    keys = plain.keys | {"front": replace(plain.keys["front"], verify=rogue.public_key().public_bytes_raw())}
    foreign = replace(plain, keys=keys).statement().signed("analyzer", SIGN["analyzer"]).signed("front", rogue)
    cases.configuration("other keys", foreign)
    cases.add("other keys than those seen first", "other keys", refused="configuration", before="laplace")
    return {"configurations": cases.configurations, "cases": cases.cases}


def _validity(cases: Cases) -> None:
    """Proofs that are signed, that change, or that nobody could check."""
    number = laplace(epsilon=1.0, binary=True, trust="two-servers").plan(users=100)
    by_servers = Privacy(1.0, 0.0, 0.0, "a device", 86_400)
    bare = configuration_of(number, privacy=by_servers)
    proved = replace(bare, validity=Validity.checked_with(fixed("proof key", 32)))
    cases.configuration("without proofs", signed(bare.statement()))
    cases.configuration("with proofs", signed(proved.statement()))
    cases.add("a number without a proof", "without proofs", number.to_json(), refused=None)
    cases.add("a number with a proof", "with proofs", number.to_json(), refused=None)
    other = replace(proved, revision=1, validity=Validity.checked_with(fixed("another proof key", 32)))
    cases.configuration("another key of proofs", signed(other.statement()))
    cases.add("another key of proofs", "another key of proofs", number.to_json(), refused=None, before="with proofs")
    cases.configuration("no proofs any more", signed(replace(bare, revision=1).statement()))
    cases.add("no proofs any more", "no proofs any more", refused="configuration", before="with proofs")
    shuffled = configuration_of(shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=40)).to_dict()
    for why, body, validity in (
        ("nothing said of validity", proved.to_dict(), None),
        ("proofs that nobody knows", proved.to_dict(), {"kind": "prio9"}),
        ("proofs without a key", proved.to_dict(), {"kind": "prio3"}),
        ("proofs with a key that is no hash", proved.to_dict(), {"kind": "prio3", "key": "AAAA"}),
        ("no proofs and a key", proved.to_dict(), proved.validity.to_dict() | {"kind": "none"}),
        ("proofs where a shuffler is trusted", shuffled, proved.validity.to_dict()),
    ):
        said = {key: value for key, value in body.items() if key != "validity"}
        said |= {} if validity is None else {"validity": validity}
        cases.configuration(why, signed(Statement.of("configuration", said)))
        cases.add(why, why, refused="configuration")


def _vectors(cases: Cases) -> None:
    """Vectors of which a device knows by itself how far two users' can be apart."""
    summed = {
        "skellam": of_vectors("shared-vectors", MOMENTS, delta=1e-6),
        "laplace": of_vectors("laplace-vectors", MOMENTS),
    }
    for noise, one in summed.items():
        name = f"vectors with {noise} noise"
        cases.configuration(name, signed(configuration_of(one, **LINEAR | PROVED).statement()))
        cases.add(name, name, one.to_json(), refused=None, arm=None)
        cases.add(f"{name} of another weight", name, changed(one, values__weight=1.4), arm=None)
        cases.add(f"{name} of more places", name, changed(one, values__places=3), arm=None)
        cases.add(f"{name} on a finer scale", name, changed(one, precision=1026), arm=None)
        cases.add(f"{name} in a small field", name, changed(one, carrier__field="Field64"), arm=None)
        ball = {"kind": "ball", "dimension": MOMENTS.dimension, "diameter": 0.1, "clip": False}
        cases.add(f"{name} that no device can check", name, changed(one, values=ball), arm=None)
    skellam, laplace = summed["skellam"], summed["laplace"]
    less = changed(skellam, share__sigma2=0.999 * skellam.share.sigma2)
    cases.add("a little less Skellam noise", "vectors with skellam noise", less, arm=None)
    less = changed(laplace, share__scale=laplace.share.scale - 1)
    cases.add("a little less Laplace noise", "vectors with laplace noise", less, arm=None)
