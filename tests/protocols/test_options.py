"""Options are declared by their row: what it does not read is refused by name, with those that it takes."""

from collections.abc import Callable
from functools import cache

import pytest

from cases.protocols import SENDABLE, make
from croupier import protocols
from croupier.bandits import policy
from croupier.checks import CroupierError, InvalidParameter
from croupier.continual import counter
from croupier.linear import growing_bandit, linear_bandit
from croupier.protocols import ROWS, Protocol, histogram, laplace, protocol, selection
from croupier.service.experiment import plan
from croupier.simulation import world

VALUES = {
    "low": -1.0,
    "high": 3.0,
    "binary": True,
    "clip": True,
    "dimension": 2,
    "diameter": 1.5,
    "precision": 30,
    "scaling": 20.0,
    "side": "under",
    "failure": 0.01,
    "wrap_failure": 1e-9,
    "front_noise": True,
    "honest_fraction": 0.9,
    "participations": 2,
    "constants": "published",
    "trust": "two-servers",
}
"""For every option a value that is not the default."""

SLOW = ("counted-messages", "shuffled-vectors")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ROWS]
)
def test_an_option_is_read_or_refused(name: str) -> None:
    """What a row takes changes what is planned, under some constants; what it does not take is refused by name."""
    row = ROWS[name]
    assert set(row.options) <= set(VALUES)
    # Binary values need no levels, and a row of binary values is that already.
    common = {"dimension": 3} if row.vectors else {}
    usual = cache(lambda constants, *given: planned(name, constants, common | dict(given)))
    for option, value in VALUES.items():
        if option not in row.options:
            with pytest.raises(InvalidParameter, match=f"^{option} = .* left out: {name} takes epsilon, [^;]*$"):
                protocol(name, epsilon=0.5, **common | {option: value})
        elif not (option == "binary" and row.binary_only) and (option, row.constants) != ("constants", ("tight",)):
            # Some are read only where users are counted on, and whom a row trusts by itself is nothing new.
            counted = option in ("honest_fraction", "wrap_failure") and row.trust == "two-servers"
            under = (("trust", "devices"),) if counted else ()
            given = common | dict(under) | {option: "devices" if value == row.trust else value}
            # Tight constants of several batches take a search, so others come first where they are quick.
            slow = "tight" if (name, "published") in SENDABLE else "published"
            tried = ("tight",) if option == "trust" else sorted(row.constants, key=slow.__eq__)
            assert any(usual(constants, *under) != planned(name, constants, given) for constants in tried)


def planned(name: str, constants: str, options: dict[str, object]) -> str:
    recipe = protocol(name, epsilon=0.5, **{"constants": constants} | options)  # type: ignore[arg-type]
    return recipe.plan(60).to_json()


def test_a_misspelt_option_is_refused_like_any_other() -> None:
    with pytest.raises(
        InvalidParameter, match=r"^scalling = 500 .* left out: skellam takes .*; did you mean scaling\?$"
    ):
        protocol("skellam", epsilon=0.5, scalling=500)
    with pytest.raises(InvalidParameter, match=r"^epsilno = 1 .* laplace takes epsilon, .*; did you mean epsilon\?$"):
        laplace(epsilno=1)
    with pytest.raises(InvalidParameter, match="^side = 'over' "):
        laplace(epsilon=0.5, side="over")


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.notion == "pure"])
def test_a_recipe_without_a_delta_says_so(name: str) -> None:
    recipe = getattr(protocols, name.replace("-", "_"))
    given = {"epsilon": 0.5} | ({"dimension": 2} if ROWS[name].vectors else {})
    assert recipe(**given, delta=0) == recipe(**given, delta=None) == recipe(**given)
    with pytest.raises(InvalidParameter, match=f"^delta = 1e-06 .* 0 or left out: {name} is purely private"):
        recipe(**given, delta=1e-6)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: histogram(epsilon=1.0, universe=["a", "b"], modell="local"), "modell = 'local' .* did you mean model"),
        (
            lambda: histogram(epsilon=1.0, universe=["a", "b"], bogus=2),
            "bogus = 2 .* left out: histogram takes epsilon, ",
        ),
        (lambda: selection(epsilon=1.0, sise=3), "sise = 3 .* did you mean size"),
        (lambda: world("bernoulli", [0.5, 0.6], sigma=3), "sigma = 3 .* left out: world takes name, means"),
        (lambda: linear_bandit(1000, 3, epsilon=1.0, bogus=3), "bogus = 3 .* left out: linear_bandit takes users, "),
        (lambda: growing_bandit(1000, 3, epsilon=1.0, trusst="devices"), "trusst = 'devices' .* did you mean trust"),
    ],
)
def test_an_option_that_nothing_takes_is_no_type_error(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{said}"):
        call()


@pytest.mark.parametrize("model", ["two-servers", "local", "central", "central-pure"])
def test_users_are_counted_on_only_by_a_shuffler(model: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^honest_fraction = 0.5 .* left out: in the {model} model"):
        histogram(epsilon=0.5, universe=["a", "b"], model=model, honest_fraction=0.5)


def test_a_protocol_that_is_made_by_hand_is_refused_too() -> None:
    with pytest.raises(InvalidParameter, match="^scaling = 500"):
        Protocol(ROWS["laplace"], 0.5, 0.0, scaling=500)


def test_values_that_are_not_binary_are_refused_where_only_those_are_summed() -> None:
    with pytest.raises(InvalidParameter, match="^binary = False"):
        make("shuffled-bits", "tight", binary=False)


def test_who_passes_options_on_has_them_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="^side = 'under'"):
        policy("dp-klucb", arms=2, horizon=1000, epsilon=1.0, side="under")
    with pytest.raises(InvalidParameter, match="^scalling = 3"):
        counter(1000, 2, epsilon=1.0, scalling=3)


def test_an_experiment_refuses_an_option_that_its_protocol_does_not_read() -> None:
    body = {"name": "one", "arms": ["a", "b"], "program": {"horizon": 1000}, "reward": {"side": "under"}}
    with pytest.raises(CroupierError, match="side = 'under' .* left out: laplace takes epsilon, "):
        plan(body)
