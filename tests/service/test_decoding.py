"""From opened messages to a number, whatever some users sent: nobody else's part changes."""

import numpy as np
import pytest

from croupier.noise import seeded
from croupier.protocols import (
    TamperedMessage,
    counted_messages,
    histogram,
    shuffled_bits,
    shuffled_laplace,
    shuffled_levels,
)
from croupier.protocols.padding import REAL

MECHANISMS = {
    "laplace": shuffled_laplace(epsilon=1.0, binary=True).plan(users=40),
    "bits": shuffled_bits(epsilon=1.0).plan(users=200),
    "levels": shuffled_levels(epsilon=1.0).plan(users=100),
    "counted": counted_messages(epsilon=1.0).plan(users=100),
    "histogram": histogram(epsilon=1.0, delta=1e-6, universe=("a", "b", "c")).plan(users=100),
}


@pytest.fixture(params=MECHANISMS, ids=str)
def mechanism(request):
    return MECHANISMS[request.param]


def batch(mechanism, seed=1):
    value = "b" if mechanism is MECHANISMS["histogram"] else 1.0
    source = seeded(seed)
    return [mechanism.slots(value, source) for _ in range(mechanism.users)]


def flat(reports):
    return [slot for report in reports for slot in report]


def total(found):
    return np.asarray(found.decoded)


def test_the_order_of_messages_does_not_matter(mechanism):
    messages = flat(batch(mechanism))
    order = np.random.default_rng(1).permutation(len(messages))
    assert mechanism.read([messages[i] for i in order]) == mechanism.read(messages)


def test_too_few_or_too_many_messages_are_refused(mechanism):
    messages = flat(batch(mechanism))
    for wrong in (messages[:-1], [*messages, messages[0]], []):
        with pytest.raises(TamperedMessage):
            mechanism.read(wrong)


def test_damaged_messages_count_as_harmless_ones_and_are_counted(mechanism):
    reports = batch(mechanism)
    length = mechanism.shape.length
    for junk in (None, b"", bytes(length - 1), b"\x01" + b"\xff" * (length - 1), b"\x07" + bytes(length - 1)):
        spoiled = mechanism.read(flat([(junk,) * len(reports[0]), *reports[1:]]))
        assert spoiled.damaged >= 1
        zeros = 0 if mechanism is not MECHANISMS["histogram"] else "c"
        # As far from the honest batch as one user who sent something else could have brought it, and no further.
        limit = mechanism.carrier.modulus if mechanism is MECHANISMS["laplace"] else len(reports[0])
        honest = mechanism.read(flat(reports))
        assert np.abs(total(spoiled) - total(honest)).max() <= limit, zeros


def test_a_user_who_sends_dummies_only_moves_the_count_by_their_own_part():
    for name in ("bits", "levels", "counted", "histogram"):
        mechanism = MECHANISMS[name]
        reports = batch(mechanism)
        silent = (bytes(mechanism.shape.length),) * len(reports[0])
        without = mechanism.read(flat([silent, *reports[1:]]))
        assert np.abs(total(without) - total(mechanism.read(flat(reports)))).max() <= 2 * len(reports[0])


def test_a_residue_replaced_by_zero_moves_the_sum_by_that_residue_alone():
    mechanism = MECHANISMS["laplace"]
    messages = flat(batch(mechanism))
    lost = int.from_bytes(messages[0][1:], "big")
    honest, spoiled = mechanism.read(messages), mechanism.read([None, *messages[1:]])
    assert spoiled.damaged == 1
    assert (honest.decoded - spoiled.decoded - lost) % mechanism.carrier.modulus == 0


def test_many_users_who_send_dummies_only_leave_a_histogram_of_the_others():
    """Their noise is missing, too: that is what the share of honest users is for."""
    mechanism = MECHANISMS["histogram"]
    form = mechanism.shape
    batch = [slot for user in range(100) for slot in (mechanism.slots("b", seeded(user)) if user < 70 else ())]
    batch += [bytes(form.length)] * (30 * form.slots)
    found = mechanism.read(batch)
    assert found.damaged == max(0, 100 - sum(slot != bytes(form.length) for slot in batch))
    assert found.decoded[1] >= 70


def test_noise_that_is_left_out_moves_unbiased_levels_by_nothing():
    """Half of the users send dummies where noise bits are due: ones minus zeros are those of the bits that came."""
    recipe = shuffled_levels(epsilon=1.0, honest_fraction=0.5, front_noise=True, precision=1, binary=True)
    mechanism, source = recipe.plan(users=100), seeded(3)
    form = mechanism.shape
    assert mechanism.omission_bias == 0
    silent = [REAL + b"\0"] + [bytes(form.length)] * (form.slots - 1)
    sent = [slot for _ in range(mechanism.honest) for slot in mechanism.slots(0.0, source)]
    sent += silent * (mechanism.users - mechanism.honest) + list(mechanism.front_slots(source))
    bits = [slot[-1] for slot in sent if slot[:1] == REAL]
    came = bits.count(1) - bits.count(0) + mechanism.users * mechanism.carrier.value_messages
    missing = (mechanism.users - mechanism.honest) * mechanism.share.slots
    assert mechanism.read(sent).decoded == came - missing % 2
