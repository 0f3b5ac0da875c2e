"""How silent turns are counted: in the order of dealing, up to the last report that a batch wanted."""

import numpy as np
import pytest
from scipy.stats import nbinom

from croupier.noise import seeded
from croupier.service.store.silent import silent_before


@pytest.mark.parametrize("second", [1, 7, 1000])
def test_silent_turns_have_the_law_of_a_coin_however_many_are_dealt_in_a_second(second):
    """And however many more turns were dealt than it took: 2,000 counts against the negative binomial law."""
    reports, rate, rng, source = 12, 0.7, np.random.default_rng(3), seeded(4)
    counts = []
    for _ in range(2000):
        came = rng.random(60) < rate
        groups = [came[at : at + second] for at in range(0, len(came), second)]
        counts.append(silent_before([(len(group), int((~group).sum())) for group in groups], reports, source))
    found = np.bincount(counts, minlength=30)[:30].cumsum() / 2000
    # A distance above 0.077 has probability below 1e-9 (Dvoretzky, Kiefer, Wolfowitz, Massart).
    assert np.abs(found - nbinom.cdf(np.arange(30), reports, rate)).max() < 0.077


def test_turns_that_are_not_known_any_more_are_not_counted():
    assert silent_before([(3, 1)], 5, seeded(1)) == 1
    assert silent_before([], 5, seeded(1)) == 0
