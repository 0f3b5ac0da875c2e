"""What is signed, by whom, and what an offer may not go beyond."""

import json
from dataclasses import replace

import pytest

from cases.client import MECHANISM, OURS, Server, both_signed, configuration, offer
from croupier.checks import CroupierError, InvalidParameter
from croupier.client import BadSignature, Configuration, NotCovered, Offer, Privacy, Statement
from croupier.messages.signing import from_text, to_text
from croupier.noise import DiscreteLaplace
from croupier.protocols import Mechanism, central_laplace, counted_messages, histogram, shuffled_bits, shuffled_laplace
from croupier.protocols.mechanism import canonical

ANALYZER, FRONT = Server.make(), Server.make()
FOUND = configuration(ANALYZER, FRONT)
SIGNED = both_signed(FOUND.statement(), ANALYZER, FRONT)


def test_a_configuration_is_read_back_as_it_was_written():
    assert Configuration.from_text(SIGNED.text) == FOUND
    travelled = Statement.from_dict("configuration", json.loads(json.dumps(SIGNED.to_dict())))
    assert travelled.hash == SIGNED.hash
    travelled.check_both(FOUND.verify_keys)


def test_both_signatures_are_needed_and_over_exactly_this_text():
    with pytest.raises(BadSignature, match="not signed by the front"):
        FOUND.statement().signed("analyzer", ANALYZER.sign).check_both(FOUND.verify_keys)
    forged = both_signed(FOUND.statement(), ANALYZER, Server.make())
    with pytest.raises(BadSignature, match="front's signature does not fit"):
        forged.check_both(FOUND.verify_keys)
    changed = Statement("configuration", SIGNED.text.replace('"epsilon":1.0', '"epsilon":9.0'), SIGNED.signatures)
    with pytest.raises(BadSignature):
        changed.check_both(FOUND.verify_keys)
    other_kind = Statement("offer", SIGNED.text, SIGNED.signatures)
    with pytest.raises(BadSignature):
        other_kind.check_both(FOUND.verify_keys)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "nonsense", "{}", '{"version":2}', '{"version":1}', SIGNED.text.replace('"bandit"', '"a bandit"')],
)
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(InvalidParameter):
        Configuration.from_text(text)
    with pytest.raises(InvalidParameter):
        Offer.from_text(text)


@pytest.mark.parametrize("sign", ["\n", "\x1b", "\x9b", "\u2028", "\u202e", "\u2066", "\ud800", "x" * 1000])
@pytest.mark.parametrize("where", ["title", "arms", "unit", "analyzer url"])
def test_words_that_would_change_what_is_around_them_are_refused(where, sign):
    words = f"https://tour{sign}"
    change = {
        "title": {"title": words},
        "arms": {"arms": ("plain", words)},
        "unit": {"privacy": FOUND.privacy.__dict__ | {"unit": words}},
        "analyzer url": {"urls": FOUND.urls | {"analyzer": words}},
    }[where]
    with pytest.raises(InvalidParameter, match=f"{where} = "):
        replace(FOUND, **{key: Privacy(**value) if key == "privacy" else value for key, value in change.items()})


@pytest.mark.parametrize("part", ["validity", "admission", "privacy", "reports", "keys", "program", "recipe", "urls"])
@pytest.mark.parametrize("value", ["no object", 7, None, [], [[1]], {"kind": []}, 1e999])
def test_parts_of_a_configuration_of_any_other_kind_are_refused_in_one_line(part, value):
    """An analyzer alone, without a signature, must not make an app's `play` raise anything else."""
    body = json.loads(SIGNED.text) | {part: value}
    with pytest.raises(InvalidParameter):
        Configuration.from_text(json.dumps(body))


def test_an_offer_whose_promise_is_for_several_batches_is_refused_by_name():
    """An experiment promises by the turn: a device counts its turns, and knows nothing of batches under one promise."""
    asked = replace(MECHANISM.guarantee, unit="user", participations=2)
    with pytest.raises(NotCovered, match="^participations: an experiment promises by the turn"):
        FOUND.check(offer(SIGNED, replace(MECHANISM, guarantee=asked)))


def test_an_offer_is_read_back_with_its_mechanisms():
    found = offer(SIGNED)
    again = Offer.from_text(found.statement().text)
    assert again == found
    assert again.batches[0].hash == found.batches[0].hash
    FOUND.check(again)


def test_batches_differ_in_what_messages_are_bound_to():
    one, two = offer(SIGNED).batches[0], offer(SIGNED, replace(MECHANISM, side="unbiased")).batches[0]
    assert one.hash == two.hash
    other = offer(SIGNED, shuffled_laplace(epsilon=1.0, binary=True).plan(users=41)).batches[0]
    assert other.hash != one.hash
    assert replace(one, number=11).hash != one.hash


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (shuffled_laplace(epsilon=2.0, binary=True, **OURS).plan(users=40), "would cost"),
        (shuffled_laplace(epsilon=1.0, binary=True, **OURS).plan(users=39), "the smallest is 40"),
        (shuffled_laplace(epsilon=1.0, binary=True, honest_fraction=0.9).plan(users=40), "front_noise of the batch"),
        (shuffled_laplace(epsilon=1.0).plan(users=40), "values of the batch"),
        (shuffled_bits(epsilon=1.0).plan(users=40), "protocol of the batch"),
        # Less noise than claimed: the claim is recomputed, not believed.
        (replace(MECHANISM, share=DiscreteLaplace(scale=1).share(4000)), "would cost"),
    ],
)
def test_an_offer_beyond_the_configuration_is_refused(mechanism, reason):
    with pytest.raises(NotCovered, match=reason):
        FOUND.check(offer(SIGNED, mechanism))


def test_an_offer_that_relies_on_more_honest_users_is_refused():
    careful = configuration(ANALYZER, FRONT, privacy=replace(FOUND.privacy, honest_fraction=0.8))
    with pytest.raises(NotCovered, match="rest on 36 honest users of 40"):
        careful.check(offer(careful.statement()))
    half = shuffled_laplace(epsilon=1.0, binary=True, honest_fraction=0.8, front_noise=True).plan(users=40)
    careful.check(offer(careful.statement(), half))


def test_two_batches_cost_what_both_cost_together():
    with pytest.raises(NotCovered, match="would cost"):
        FOUND.check(offer(SIGNED, MECHANISM, MECHANISM))


def test_an_arm_that_does_not_exist_is_refused():
    for arm in (2, None):
        with pytest.raises(NotCovered, match="is not one of the 2 arms"):
            FOUND.check(offer(SIGNED, arm=arm))
    for arm in (-1, "0", 0.0):
        with pytest.raises(InvalidParameter, match="arm"):
            offer(SIGNED, arm=arm)


def test_an_offer_names_no_batch_twice():
    found = offer(SIGNED)
    with pytest.raises(InvalidParameter, match="different ones"):
        replace(found, batches=found.batches * 2)


def test_a_mechanism_without_the_devices_own_noise_is_refused_whoever_signed_it():
    """The analyzer says that it will add the noise: then the sum that it sees has none."""
    split = shuffled_laplace(epsilon=1.0, binary=True).plan(users=40)
    alone = central_laplace(epsilon=1.0, binary=True).plan(users=40)
    trusting = replace(alone, carrier=split.carrier)
    whole = replace(FOUND.privacy, honest_fraction=1.0)
    signed = configuration(ANALYZER, FRONT, recipe=trusting.recipe | {"smallest": 40}, privacy=whole)
    with pytest.raises(CroupierError, match="trusts analyzer, and shuffler was signed"):
        signed.check(offer(signed.statement(), trusting))


def test_privacy_that_makes_no_sense_is_refused():
    for bad in ({"epsilon": 0.0}, {"delta": 1.0}, {"honest_fraction": -0.1}, {"period": 0}):
        with pytest.raises(InvalidParameter):
            Privacy(**{"epsilon": 1.0, "delta": 0.0, "honest_fraction": 1.0, "unit": "x", "period": 1} | bad)


def test_bytes_in_text_have_one_form_only():
    assert from_text("x", to_text(b"\xff\xfe")) == b"\xff\xfe"
    for bad in ("_", "__4=", "//4", "_/4", "é", 3, None):
        with pytest.raises(InvalidParameter):
            from_text("x", bad)
    # The unused bits of the last letter must be zero, or one value would have several texts.
    with pytest.raises(InvalidParameter):
        from_text("x", "__5")


def test_statements_are_canonical_json():
    assert SIGNED.text == canonical(json.loads(SIGNED.text))


def test_vectors_are_refused_since_no_device_can_check_their_diameter():
    """A mechanism that says that all vectors are close to each other needs next to no noise."""
    near = Mechanism.from_json(
        json.dumps(
            {
                "version": 1,
                "protocol": "skellam",
                "constants": "tight",
                "users": 40,
                "honest": 40,
                "values": {"kind": "ball", "dimension": 2, "diameter": 1e-9, "clip": False},
                "precision": 1000,
                "share": {"family": "Skellam", "sigma2": 700.0},
                "noise_from": "batch",
                "carrier": {
                    "kind": "split-and-mix",
                    "modulus": 2**40,
                    "slack": 2**20,
                    "pieces": 60,
                    "security": 40,
                },
                "side": "unbiased",
                "guarantee": {
                    "notion": "approximate",
                    "epsilon": 1.0,
                    "delta": 1e-6,
                    "neighbours": "replace",
                    "unit": "report",
                },
            }
        )
    )
    found = configuration(ANALYZER, FRONT, near)
    with pytest.raises(NotCovered, match="kind ball"):
        found.check(offer(found.statement(), near))


def test_counted_messages_of_values_that_are_not_binary_are_refused():
    body = json.loads(counted_messages(epsilon=1.0).plan(40).to_json())
    body["values"]["binary"] = False
    with pytest.raises(CroupierError, match="binary"):
        _ = Mechanism.from_json(json.dumps(body)).shape


def test_an_arm_is_refused_where_there_are_none():
    fruit = histogram(epsilon=1.0, delta=1e-6, universe=("apple", "pear")).plan(users=100)
    privacy = Privacy(1.0, 1.02e-6, 1.0, "a device", 86_400)
    found = configuration(ANALYZER, FRONT, fruit, arms=(), program={"kind": "histogram"}, privacy=privacy)
    found.check(offer(found.statement(), fruit, arm=None))
    with pytest.raises(NotCovered, match="arm 3"):
        found.check(offer(found.statement(), fruit, arm=3))


def test_one_signature_covers_one_encoding():
    """Else a report on one offer could be counted in a batch of the other, under its noise."""
    signed = FOUND
    other = histogram(universe=["a", "b"], epsilon=0.5, model="two-servers").plan(100).recipe
    union = replace(signed, recipe=other | signed.recipe)
    signed.check(offer(signed.statement()))
    with pytest.raises(NotCovered, match="was signed, and the batch has none"):
        union.check(offer(union.statement()))


@pytest.mark.parametrize("changes", [{"arms": ("red",)}, {"arms": ("green", "red")}, {"retired": (1,)}])
def test_where_devices_choose_no_arm_is_left_out_or_retired(changes):
    """Else whether a device comes, or comes again, would tell what it chose."""
    program = {"kind": "linear", "features": [], "actions": ["red", "green"]}
    personal = configuration(ANALYZER, FRONT, program=program)
    with pytest.raises(InvalidParameter, match="the actions of the program"):
        replace(personal, **changes)
