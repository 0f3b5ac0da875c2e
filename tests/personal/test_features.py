"""Feature maps keep norms at most one and put numbers where they belong."""

import numpy as np
import pytest

from croupier.checks import InvalidParameter
from croupier.personal import blocks, with_constant


def test_a_constant_is_added_and_the_norm_stays_one() -> None:
    actions = np.array([[[0.6, 0.8], [0.0, 1.0]]])
    found = with_constant(actions)
    assert found.shape == (1, 2, 3)
    assert np.allclose(np.linalg.norm(found, axis=-1), 1.0)
    assert np.allclose(found * np.sqrt(2.0), np.concatenate((actions, np.ones((1, 2, 1))), axis=-1))


def test_every_action_has_a_block_of_its_own() -> None:
    contexts = np.random.default_rng(0).normal(size=(5, 3))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    found = blocks(contexts, actions=4)
    assert found.shape == (5, 4, 12)
    theta = np.random.default_rng(1).normal(size=(4, 3))
    assert np.allclose(found @ theta.ravel(), contexts @ theta.T)
    assert np.allclose(np.linalg.norm(found, axis=-1), 1.0)


@pytest.mark.parametrize("make", [lambda x: with_constant(x), lambda x: blocks(x, 2)])
@pytest.mark.parametrize("vector", [[1.0, 1.0], [np.nan, 0.0], 0.5])
def test_what_is_no_vector_of_norm_one_is_refused(make, vector) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match="features"):
        make(vector)


def test_there_must_be_an_action() -> None:
    with pytest.raises(InvalidParameter, match="actions = 0"):
        blocks([1.0], 0)
