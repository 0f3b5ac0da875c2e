"""Vectors through the wire: from a device's value to a total in the log, with and without proofs."""

import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cases.service import liars, vectors
from cases.service.reporters import lies
from cases.service.shares import opened
from croupier.messages.configuration import Configuration, NotCovered
from croupier.noise import seeded
from croupier.protocols import Moments

MOMENTS = Moments(2, 2, 1.0, True, 0.5)
KINDS = {
    "laplace": ("laplace-vectors", {}),
    "skellam": ("shared-vectors", {"delta": 1e-6}),
    "devices": ("shared-vectors", {"delta": 1e-6, "trust": "devices", "honest_fraction": 1.0}),
}


@pytest.fixture
def begin(tmp_path):
    """Starts experiments, and ends them."""
    services = []

    def begun(over="laplace-vectors", values=vectors.MOMENTS, validity="prio3", **privacy):
        experiment = vectors.experiment(over, values, **privacy)
        # Where devices hide each other a front knows whom it admits.
        issuer = Ed25519PrivateKey.generate() if privacy.get("trust") == "devices" else None
        place = tmp_path / str(len(services))
        services.append(opened(place, experiment=experiment, validity=validity, issuer=issuer))
        return services[-1]

    yield begun
    for service in services:
        service.close()


def users(count, seed=1):
    """Vectors of users who differ in everything."""
    draw = np.random.default_rng(seed)
    first = draw.uniform(-(0.5**0.5), 0.5**0.5, count)
    x = np.column_stack((first, np.full(count, 0.5**0.5)))
    return MOMENTS.of(x, draw.integers(0, 2, count).astype(float), draw.integers(0, 2, count), draw.random(count) < 0.5)


def reported(service, values):
    people = [service.comes(value=value.tolist()) for value in values]
    assert [service.reports(person) for person in people] == ["accepted"] * len(people)
    service.settled(3)
    return people


@pytest.mark.parametrize("validity", ["prio3", "none"])
@pytest.mark.parametrize("noise", KINDS)
def test_a_round_of_vectors_is_told_as_a_list(noise, validity, begin):
    over, more = KINDS[noise]
    if noise == "devices" and validity == "prio3":
        with pytest.raises(ValueError, match="none where the trust is devices"):
            begin(over, validity=validity, **more)
        return
    service = begin(over, validity=validity, **more)
    values = users(vectors.USERS)
    people = reported(service, values)
    [record] = service.records("released")
    program = service.live.state.program
    assert [type(number) for number in record["decoded"]] == [int] * MOMENTS.dimension
    assert record["users"] == vectors.USERS
    # The sum is off by the noise of both servers and by rounding: one false alarm in a billion.
    assert np.abs(np.array(program.sums[0]) - values.sum(axis=0)).max() <= program.mechanism.radius(1e-9)
    assert len({len(person.body) for person in people}) == 1, "a report's length tells nothing"


@pytest.mark.slow
def test_without_noise_the_total_is_that_of_the_encoded_vectors(begin, noiseless):
    service = begin()
    whole = [MOMENTS.of([0.0, 0.5**0.5], 1.0, place=1), MOMENTS.of([0.5**0.5, 0.5**0.5], 0.0)]
    values = np.array([whole[place % 2] for place in range(vectors.USERS)])
    reported(service, values)
    [record] = service.records("released")
    exact = (values.sum(axis=0) + vectors.USERS) * 63
    # Rounding moves each user's number by less than one.
    assert (np.abs(np.array(record["decoded"]) - exact) < vectors.USERS).all()
    assert all(number == round(sure) for number, sure in zip(record["decoded"], exact, strict=True) if sure % 1 == 0)


def test_vectors_that_no_device_can_check_are_refused_by_name(begin):
    for values, word in ((vectors.MOMENTS, None), (vectors.BALL, "values of kind ball")):
        service = begin(values=values)
        if word is None:
            assert service.turn() is not None
        else:
            # Both servers refuse to open it, and so would a device.
            assert service.turn() is None
            live = service.live
            configuration = Configuration.from_text(live.state.configured.text)
            with pytest.raises(NotCovered, match=word):
                configuration._check_mechanism(live.state.program.mechanism)


@pytest.mark.parametrize("lie", ["far", "long"])
def test_a_vector_that_is_no_users_is_refused_on_the_device(lie, begin):
    service = begin()
    mechanism = service.live.state.program.mechanism
    value = np.full(MOMENTS.dimension + (lie == "long"), 0.9)
    with pytest.raises(ValueError, match="value"):
        mechanism.secret(value, seeded(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", liars.LIES)
def test_a_liar_is_left_out_of_the_sum(name, begin, noiseless):
    service, draw = begin(), random.Random(1)
    lies(service, name, draw)
    service.settled(1)
    values = np.repeat(MOMENTS.of([[0.0, 0.5**0.5]], [0.0]), vectors.USERS, axis=0)
    reported(service, values)
    [record] = service.records("released")
    assert record["users"] == vectors.USERS
    assert (np.abs(np.array(record["decoded"]) - (values.sum(axis=0) + vectors.USERS) * 63) < vectors.USERS).all()
    assert service.servers.front.front.store.refused(service.name) == {liars.LIES[name].reason.name.lower(): 1}
