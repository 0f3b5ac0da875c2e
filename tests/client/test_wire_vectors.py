"""The vectors of `docs/wire.md`: a client in another language is right when it reproduces or opens them."""

import json

import make_wire_vectors as making
import pytest

from croupier.client.configuration import Configuration, Offer
from croupier.client.sealing import SUITES, key_id, unseal
from croupier.client.signing import Statement, to_text
from croupier.client.wire import Envelope, Report, message_info, report_info, shape, slots
from croupier.noise import seeded

VECTORS = json.loads(making.PATH.read_text(encoding="utf-8"))


@pytest.fixture(params=VECTORS, ids=str)
def vector(request):
    return VECTORS[request.param]


def test_configuration_and_offer_are_signed_by_both_and_have_these_hashes(vector):
    signed = Statement.from_dict("configuration", vector["configuration"])
    configuration = Configuration.from_text(signed.text)
    signed.check_both(configuration.verify_keys)
    assert to_text(signed.hash) == vector["configuration_hash"]
    offered = Statement.from_dict("offer", vector["offer"])
    offered.check_both(configuration.verify_keys)
    offer = Offer.from_text(offered.text)
    configuration.check(offer)
    assert to_text(offer.batches[0].hash) == vector["batch_hash"]


def test_the_shape_and_the_slots_are_made_again_bit_for_bit(vector):
    mechanism = Offer.from_text(vector["offer"]["body"]).batches[0].mechanism
    form = shape(mechanism)
    assert (form.slots, form.length, form.cap) == (vector["slots"], vector["slot_length"], vector["cap"])
    made = slots(mechanism, vector["value"], seeded(1))
    assert [slot.hex() for slot in made] == vector["opened"]


def test_the_upload_opens_layer_by_layer(vector):
    offer = Offer.from_text(vector["offer"]["body"])
    private = {server: bytes.fromhex(key) for server, key in vector["private_seal"].items()}
    outer = report_info("colours", offer.configuration)
    inner = message_info("colours", offer.configuration, offer.batches[0].hash)
    assert (outer.hex(), inner.hex()) == (vector["report_info"], vector["message_info"])
    envelope = Envelope.from_bytes(bytes.fromhex(vector["upload"]))
    suite = SUITES[vector["suite"]]
    assert envelope.suite == suite.number
    assert envelope.key == key_id(suite.public_of(private["shuffler"]))
    report = Report.from_bytes(unseal(vector["suite"], private["shuffler"], envelope.sealed, outer))
    assert report.to_bytes().hex() == vector["report"]
    assert (report.report.hex(), report.token.hex()) == (vector["report_id"], vector["token"])
    assert [message.hex() for message in report.parts[0].messages] == vector["messages"]
    opened = [unseal(vector["suite"], private["analyzer"], m, inner).hex() for m in report.parts[0].messages]
    assert opened == vector["opened"]


def test_the_vectors_are_those_that_the_script_makes(vector):
    name = next(name for name, found in VECTORS.items() if found is vector)
    fresh = making.vector(*name.split(" "))
    # Sealing is randomized; everything else is the same to the last bit.
    sealed = {"messages", "report", "upload"}
    assert {k: v for k, v in fresh.items() if k not in sealed} == {k: v for k, v in vector.items() if k not in sealed}
    assert len(fresh["upload"]) == len(vector["upload"])
