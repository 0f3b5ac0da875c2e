"""User-level private learning: users vote with a shared seed, selection decides ([GKM21])."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from croupier.checks import CroupierError
from croupier.learning.boosted import Boosted
from croupier.learning.boxes import Boxes
from croupier.learning.correlated import Stream, agreement, distance, race, rounding
from croupier.learning.cube import DecisionLists, Parities
from croupier.learning.election import BitElection, Decision, ListElection, Voting
from croupier.learning.listed import Listed
from croupier.learning.lower_bound import least_users, representation_from_learner
from croupier.learning.points import HashedPoints, Points
from croupier.learning.queries import QueryBallot, RandomizedQueries
from croupier.learning.query_lists import DecisionListQueries
from croupier.learning.query_separators import SeparatorQueries
from croupier.learning.representation import Family, Hypothesis, Representation
from croupier.learning.samples import Samples
from croupier.learning.seeds import Seed
from croupier.learning.stable import Ballot, Stable, plurality
from croupier.learning.thresholds import Thresholds

_ESTIMATORS = ("OutsideRange", "PrivateClassifier", "TooFewSamples", "TooFewUsers", "UnverifiedVote")


class MissingScikitLearn(CroupierError, ImportError):
    """The estimator was asked for, and scikit-learn is not installed."""


def __getattr__(name: str) -> Any:
    """The estimator and its warnings, which need scikit-learn, when they are asked for."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from croupier.learning import estimators
    except ImportError as error:
        raise MissingScikitLearn(f"{name} needs scikit-learn: install croupier[learning] ({error})") from None
    return getattr(estimators, name)


__all__ = [
    "Ballot",
    "BitElection",
    "Boosted",
    "Boxes",
    "Decision",
    "DecisionListQueries",
    "DecisionLists",
    "Family",
    "HashedPoints",
    "Hypothesis",
    "ListElection",
    "Listed",
    "Parities",
    "Points",
    "QueryBallot",
    "RandomizedQueries",
    "Representation",
    "Samples",
    "Seed",
    "SeparatorQueries",
    "Stable",
    "Stream",
    "Thresholds",
    "Voting",
    "agreement",
    "distance",
    "least_users",
    "plurality",
    "race",
    "representation_from_learner",
    "rounding",
]

if find_spec("sklearn") is not None:
    # `import *` asks for every name here, also for those that cannot be had.
    __all__ += ["OutsideRange", "PrivateClassifier", "TooFewSamples", "TooFewUsers", "UnverifiedVote"]
