"""Reports as bytes: one shape whatever the value, exact parsing, and the noise limit's price."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.made import Made
from croupier.checks import CroupierError
from croupier.messages.wire import Envelope, Malformed, Part, Report, message_info, report_info, upload_bytes
from croupier.noise import seeded
from croupier.protocols import (
    TamperedMessage,
    central_laplace,
    counted_messages,
    histogram,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
)
from croupier.protocols.padding import CAP_SHARE

ITEMS = ("red", "green", "blue")
CARRIED = Made(
    {
        "laplace": lambda: (shuffled_laplace(epsilon=1.0, binary=True).plan(users=40), (0.0, 1.0)),
        "laplace-real": lambda: (shuffled_laplace(epsilon=1.0).plan(users=40), (0.0, 0.37, 1.0)),
        "bits": lambda: (shuffled_bits(epsilon=1.0).plan(users=200), (0.0, 1.0)),
        "bits-published": lambda: (shuffled_bits(epsilon=0.9, constants="published").plan(users=2000), (0.0, 1.0)),
        "levels": lambda: (shuffled_levels(epsilon=1.0).plan(users=100), (0.0, 0.5, 1.0)),
        "counted": lambda: (counted_messages(epsilon=1.0).plan(users=100), (0.0, 1.0)),
        "counted-under": lambda: (counted_messages(epsilon=1.0, side="under").plan(users=100), (0.0, 1.0)),
        "histogram": lambda: (histogram(epsilon=1.0, delta=1e-6, universe=ITEMS).plan(users=100), ITEMS),
        "histogram-under": lambda: (
            histogram(epsilon=1.0, delta=1e-6, universe=ITEMS, side="under").plan(users=100),
            ITEMS,
        ),
    }
)


@pytest.fixture(params=CARRIED, ids=str)
def carried(request):
    return CARRIED[request.param]


def test_every_report_has_the_same_number_of_slots_of_the_same_length(carried):
    mechanism, values = carried
    form = mechanism.shape
    source = seeded(1)
    for value in values:
        for _ in range(50):
            report = mechanism.slots(value, source)
            assert len(report) == form.slots
            assert {len(slot) for slot in report} == {form.length}


def test_a_batch_of_reports_decodes_to_the_sum_plus_noise(carried):
    mechanism, values = carried
    source = seeded(2)
    held = [values[user % len(values)] for user in range(mechanism.users)]
    found = mechanism.read([slot for value in held for slot in mechanism.slots(value, source)])
    assert found.damaged == 0
    if isinstance(found.decoded, tuple):
        truth = np.array([held.count(item) for item in ITEMS])
        assert np.abs(np.maximum(np.array(found.decoded), 0) - truth).max() < mechanism.radius(1e-9) + 60
    else:
        # The error bound fails with probability 1e-12 each.
        assert abs(float(mechanism.estimate(found.decoded)) - sum(held)) <= mechanism.radius(1e-12)


def test_dummies_and_messages_are_told_apart_after_opening_only(carried):
    mechanism, values = carried
    opened = [mechanism.shape.message(slot) for value in values for slot in mechanism.slots(value, seeded(3))]
    assert any(message is not None for message in opened)
    assert {len(message) for message in opened if message is not None} == {mechanism.shape.length - 1}
    with pytest.raises(TamperedMessage):
        mechanism.shape.message(b"\x02" + bytes(mechanism.shape.length - 1))
    with pytest.raises(TamperedMessage):
        mechanism.shape.message(b"\x00" + b"\x01" * (mechanism.shape.length - 1))
    with pytest.raises(TamperedMessage):
        mechanism.shape.message(bytes(mechanism.shape.length + 1))


@pytest.mark.parametrize("name", ["counted", "counted-under", "histogram", "histogram-under"])
def test_the_limit_on_noise_is_paid_for_within_its_share_of_delta(name):
    mechanism, _ = CARRIED[name]
    form, claim = mechanism.shape, mechanism.guarantee
    share = mechanism.share if name.startswith("counted") else mechanism.oracle.share.times(3)
    # n·P(Z > cap), summed directly.
    beyond = 1.0 - math.fsum(float(share.pmf(x)) for x in range(form.cap + 1))
    assert form.distance >= mechanism.users * max(beyond, 0.0) * 0.999
    assert form.distance * (1.0 + math.exp(claim.epsilon)) <= CAP_SHARE * claim.delta * (1 + 1e-6)
    assert mechanism.sent_loss.delta(claim.epsilon) <= claim.delta * (1.0 + CAP_SHARE)
    # One less would cost more than its share.
    assert mechanism.users * float(share.tail(form.cap - 1)) * (1 + math.exp(claim.epsilon)) > CAP_SHARE * claim.delta


class _Script:
    """A source that says the same word for a while: the largest first, so that noise is as large as it can be."""

    def __init__(self, wild):
        self.wild, self.calm = wild, seeded(4)

    def words(self, count):
        if self.wild > 0:
            self.wild -= 1
            return np.full(count, 2**64 - 1, dtype=np.uint64)
        return self.calm.words(count)


def test_noise_beyond_the_limit_is_drawn_again_and_the_value_stays():
    mechanism, _ = CARRIED["counted"]
    for value in (0.0, 1.0):
        report = mechanism.slots(value, _Script(1))
        ones = sum(mechanism.shape.message(slot) is not None for slot in report)
        assert len(report) == mechanism.shape.slots
        assert ones <= mechanism.shape.cap + value


def test_what_no_front_carries_is_refused():
    with pytest.raises(CroupierError, match="has its noise from the analyzer"):
        _ = central_laplace(epsilon=1.0).plan(users=40).shape


messages = st.integers(1, 40).flatmap(
    lambda length: st.lists(st.binary(min_size=length, max_size=length), min_size=1, max_size=5)
)
reports = st.builds(
    lambda report, token, offer, parts: Report(
        report, token, offer, tuple(Part(batch, tuple(listed)) for batch, listed in parts)
    ),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=56, max_size=56),
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 2**32 - 1), messages), min_size=1, max_size=4),
)


@given(reports)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_report_is_read_back_as_it_was_written(report):
    assert Report.from_bytes(report.to_bytes()) == report


@given(st.binary(max_size=300))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_bytes_crash_the_reader(data):
    for read in (Report.from_bytes, Envelope.from_bytes):
        try:
            found = read(data)
        except Malformed:
            continue
        assert found.to_bytes() == data


@given(reports, st.data())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_cut_or_longer_report_is_refused(report, data):
    body = report.to_bytes()
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Malformed):
        Report.from_bytes(body[:cut])
    with pytest.raises(Malformed):
        Report.from_bytes(body + b"\0")


def test_an_upload_is_as_long_as_announced():
    mechanism, _ = CARRIED["laplace"]
    form = mechanism.shape
    inner = Part(1, tuple(bytes(form.length + 48) for _ in range(form.slots)))
    bundle = Report(bytes(16), bytes(56), 1, (inner, inner)).to_bytes()
    assert len(Envelope(1, bytes(8), bytes(32), bundle + bytes(48)).to_bytes()) == upload_bytes(
        [(form.slots, form.length + 48)] * 2, 48
    )


def test_contexts_differ_in_experiment_configuration_batch_and_layer():
    one, two = b"1" * 32, b"2" * 32
    contexts = [
        message_info("a", one, one),
        message_info("b", one, one),
        message_info("a", two, one),
        message_info("a", one, two),
        report_info("a", one),
        report_info("b", one),
        report_info("a", two),
    ]
    assert len(set(contexts)) == len(contexts)
