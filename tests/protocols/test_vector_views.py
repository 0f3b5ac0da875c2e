"""What either server sees of a whole personalised experiment, summed exactly in small cases.

A user is in one batch, as one vector. The server may be malicious and know everybody else's values and draws. Of all
that it sees, the victim's share and one noisy sum depend on the victim; the next rule, and whatever users of later
batches do by it, follow from that sum. So the law of the whole view is a kernel after that of the batch, and no ratio
of chances can grow. Numbers are small: those of a ring of 17.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from cases.folded import Law, folded, largest_ratio
from croupier.noise import Noise
from croupier.protocols import Moments, SumMechanism, laplace_vectors, shared_vectors

RING, OTHERS = 17, 5
EPSILON = 1.5
MOMENTS = Moments(1, weight=0.7, centred=False)
"""One feature: two numbers, w·xy and x²."""
USERS = [MOMENTS.of([x], y) for x in (0.0, 0.4, 1.0, -1.0) for y in (0.0, 1.0)]


def encoded_law(value: Any, mechanism: SumMechanism, coordinate: int) -> Law:
    """How a number of a vector is rounded: the chances of its levels."""
    level = float(mechanism.values.unit(value)[coordinate]) * mechanism.precision
    law = np.zeros(RING)
    law[math.floor(level)] += 1.0 - (level - math.floor(level))
    law[math.floor(level) + 1] += level - math.floor(level)
    return law


def analyzer_view(value: Any, mechanism: SumMechanism, coordinate: int, noise: Law) -> Law:
    """The law of (s0, Σs1 + N1) of one number: the analyzer's share, and what the front answers."""
    joint = np.zeros((RING, RING))
    levels = encoded_law(value, mechanism, coordinate)
    for level, share, drawn in itertools.product(range(RING), repeat=3):
        joint[(level - share) % RING, (share + OTHERS + drawn) % RING] += levels[level] * noise[drawn] / RING
    return joint


def front_view(value: Any, mechanism: SumMechanism, coordinate: int, noise: Law) -> Law:
    """The law of (s1, total less N1) of one number: the front knows its own noise."""
    levels = encoded_law(value, mechanism, coordinate)
    total = np.array([sum(levels[k] * noise[(t - OTHERS - k) % RING] for k in range(RING)) for t in range(RING)])
    return np.broadcast_to(total / RING, (RING, RING)).copy()


VIEWS = {"analyzer": analyzer_view, "front": front_view}


def views(server: str, mechanism: SumMechanism, noise: Noise) -> tuple[list[Law], float]:
    """For every user the law of the server's view of a batch, both numbers together, and what folding left out."""
    law, left_out = folded(noise, RING)
    # Numbers are rounded, shared and noised apart from each other, so the law of both is a product.
    alone = [[VIEWS[server](user, mechanism, place, law).ravel() for place in range(2)] for user in USERS]
    return [np.multiply.outer(*both).ravel() for both in alone], left_out / law.min()


@pytest.mark.parametrize("server", VIEWS)
def test_a_vector_with_laplace_noise_is_purely_private_against_either_server(server: str) -> None:
    mechanism = laplace_vectors(epsilon=EPSILON, dimension=2, precision=2).about(MOMENTS).plan(3)
    assert (mechanism.guarantee.epsilon, mechanism.guarantee.delta) == (EPSILON, 0.0)
    laws, left_out = views(server, mechanism, mechanism.share)
    assert math.isclose(laws[0].sum(), 1.0, abs_tol=1e-9)
    worst = max(largest_ratio(one, two) for one, two in itertools.combinations(laws, 2))
    assert worst <= EPSILON + 4.0 * left_out
    # A third of the noise would be noticed.
    thin, _ = views(server, mechanism, type(mechanism.share)(mechanism.share.scale / 3))
    assert max(largest_ratio(one, two) for one, two in itertools.combinations(thin, 2)) > EPSILON


@pytest.mark.parametrize("server", VIEWS)
def test_a_vector_with_skellam_noise_has_at_most_the_delta_that_is_promised(server: str) -> None:
    mechanism = shared_vectors(epsilon=EPSILON, delta=1e-2, dimension=2, precision=2).about(MOMENTS).plan(3)
    laws, left_out = views(server, mechanism, mechanism.share)
    for one, two in itertools.permutations(laws, 2):
        assert float(np.maximum(one - math.exp(EPSILON) * two, 0.0).sum()) <= 1e-2 + 4.0 * left_out


def later(total: int, noise: Law) -> Law:
    """What a later batch tells: its user plays by a rule that follows from the total before, and reports a level."""
    level = 2 if total > RING // 2 else 0
    return np.roll(noise, level)


@pytest.mark.parametrize("server", VIEWS)
def test_what_follows_from_a_sum_tells_no_more_than_the_sum(server: str) -> None:
    """The batch, the rule that it leads to, and the next batch of users who choose by it: their joint law."""
    mechanism = laplace_vectors(epsilon=EPSILON, dimension=2, precision=2).about(MOMENTS).plan(3)
    noise, left_out = folded(mechanism.share, RING)
    kernel = np.stack([later(total, noise) for total in range(RING)])
    whole = []
    for user in USERS:
        batch = VIEWS[server](user, mechanism, 0, noise)
        if server == "analyzer":
            # It adds its own share, and its own noise, which it knows, to what the front answers.
            totals = (np.arange(RING)[:, None] + np.arange(RING)[None, :]) % RING
            whole.append((batch[..., None] * kernel[totals]).ravel())
        else:
            whole.append((batch[..., None] * kernel[None]).ravel())
    batches = [VIEWS[server](user, mechanism, 0, noise).ravel() for user in USERS]
    for (one, two), (first, second) in zip(
        itertools.combinations(whole, 2), itertools.combinations(batches, 2), strict=True
    ):
        assert math.isclose(one.sum(), 1.0, abs_tol=1e-9)
        assert largest_ratio(one, two) <= largest_ratio(first, second) + 1e-9 <= EPSILON + 4.0 * left_out / noise.min()
