"""Cases come from the registries: what is registered is tested by every contract, or this file says what is missing."""

import pytest
from hypothesis import Phase, find, settings
from hypothesis.strategies import SearchStrategy

from cases import histograms, noises, policies, programs, protocols, worlds
from croupier.bandits import POLICIES
from croupier.noise import FAMILIES, Noise
from croupier.programs import KINDS
from croupier.protocols import ROWS
from croupier.protocols.histograms.target import CONSTANTS, MODELS, SIDES
from croupier.simulation import WORLDS


def drawn(noise: SearchStrategy[Noise]) -> Noise:
    """Any of them: none is simpler than another here."""
    return find(noise, lambda _: True, settings=settings(phases=[Phase.generate], derandomize=True))


COVERED = {
    "noises": (FAMILIES.own, {type(noise).__name__ for noise in noises.MEMBERS}),
    "drawn noises": (FAMILIES.own, {type(drawn(noise)).__name__ for noise in noises.DRAWN.values()}),
    "protocols": ([(name, c) for name in ROWS.own for c in ROWS[name].constants], set(protocols.EVERY)),
    "trusts": ([(name, t) for name in ROWS.own for t in ROWS[name].trusts[1:]], set(protocols.EVERY)),
    "policies": (POLICIES.own, set(policies.NAMES)),
    "worlds": (WORLDS.own, set(worlds.REGISTERED)),
    "programs": (KINDS.own, {parameters["kind"] for parameters, _ in programs.CASES}),
    "models of histograms": (MODELS, {case.get("model", "shuffle") for case in histograms.EVERY.values()}),
    "sides of histograms": (SIDES, {case.get("side", "under") for case in histograms.EVERY.values()}),
    "constants of histograms": (CONSTANTS, {case.get("constants", "tight") for case in histograms.EVERY.values()}),
}


@pytest.mark.parametrize("kind", COVERED)
def test_every_registered_kind_has_a_case(kind: str) -> None:
    registered, covered = COVERED[kind]
    assert set(registered) <= covered, f"no case for {sorted(set(registered) - covered)}"
