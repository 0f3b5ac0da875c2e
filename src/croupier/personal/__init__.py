"""What a device does by itself in a personalised experiment: describe its user, and choose by the published rule."""

from croupier.personal.belief import Belief
from croupier.personal.context import LEVEL, Context, Feature
from croupier.personal.features import blocks, check_features, with_constant
from croupier.personal.personal import Chosen, Personal
from croupier.personal.rule import Played, Rule

__all__ = [
    "LEVEL",
    "Belief",
    "Chosen",
    "Context",
    "Feature",
    "Personal",
    "Played",
    "Rule",
    "blocks",
    "check_features",
    "with_constant",
]
