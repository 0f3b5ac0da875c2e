"""Private learners as scikit-learn estimators. This module alone needs scikit-learn (`croupier[learning]`)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from croupier.checks import InvalidParameter, between, one_of
from croupier.learning.doubts import doubts
from croupier.learning.election import PARTS, AnyBallot, Voting
from croupier.learning.samples import Samples
from croupier.learning.seeds import Seed
from croupier.learning.stable import Stable
from croupier.noise import Source, secure, seeded


class TooFewUsers(UserWarning):
    """Fewer users than the accuracy asked for needs. Privacy is not affected."""


class TooFewSamples(UserWarning):
    """So few samples a user that users hardly vote alike. Privacy is not affected."""


class OutsideRange(UserWarning):
    """Features outside the public range of the learner's grid, where it cannot tell them apart."""


class UnverifiedVote(UserWarning):
    """The check bits do not fit the elected hypothesis: users disagreed, or were too few."""


KINDS: dict[str, type[UserWarning]] = {"users": TooFewUsers, "samples": TooFewSamples, "range": OutsideRange}
"""The warning of each kind of doubt."""


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns a yes-or-no rule from users' samples: every user votes for a rule, and a private selection decides.

    This is [GKM21] Alg. 3 and 4. Privacy is for users: all of one user's samples together count as one change. It
    comes from the selection alone, and holds whatever the samples, their number and the seed are. Accuracy does
    not: the error is at most `alpha` with probability 1 - `beta` when there are `users_needed()` users, each of
    whom has the same vote with probability `agreement` at least (which takes enough samples each; docs/learning.md
    has a table).

    Parameters
    ----------
    learner : what is learnt and how users vote: `Stable(family)`, `DecisionListQueries()`, `SeparatorQueries()`.
        None is `Stable(Thresholds())`.
    epsilon, delta, model, constants, honest_fraction : the privacy target and the selection that meets it. Models are
        "two-servers", "shuffle", "local", "central", "central-pure".
    alpha, beta : the error aimed at, and the chance of missing it.
    agreement : the part of the users that is assumed to vote alike, above one half.
    classes : the two labels, no and yes. They are public: labels found in the data would say what the data holds.
    route : "list", "bits" or "auto": how votes are counted (see `Voting`).
    unit : "user", and `fit` must be told the user of each row; or "row", where every row is a user of its own.
    shared_seed : the public seed of all users: a whole number, a text or bytes, chosen independently of the data. None
        draws one, which is then published as `shared_seed_`.
    random_state : where noise comes from. None is a cryptographic source, as any real release needs. A whole number
        makes a simulation repeatable, and is no private release: whoever knows it can take the noise away again.

    `fit` takes `groups`, the user of each row. Without them it is refused unless `unit` is "row": a grid search that
    does not hand the users on must not turn the promise into one for rows. scikit-learn's metadata routing hands them
    on. Every fit is one release: fitting again on the same users (as a grid search does) adds up.

    Warnings look at the data, for whoever holds them. They are no part of the release.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, user = rng.random((100_000, 1)), np.repeat(np.arange(100), 1000)
    >>> model = PrivateClassifier(epsilon=1.0, alpha=0.2, shared_seed=1, random_state=1)
    >>> model.users_needed(columns=1)
    59
    >>> model.fit(x, x[:, 0] > 0.6, groups=user).hypothesis_
    column 0 >= 0.588235
    >>> print(model.privacy_)
    (1, 1e-6)-DP when one user is replaced
    """

    # With metadata routing, scikit-learn's searches and pipelines hand the users on unasked.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        learner: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        model: str = "shuffle",
        alpha: float = 0.1,
        beta: float = 0.1,
        agreement: float = 0.9,
        classes: tuple[Any, Any] = (0, 1),
        route: str = "auto",
        constants: str = "tight",
        honest_fraction: float = 1.0,
        unit: str = "user",
        shared_seed: int | str | bytes | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.alpha = alpha
        self.beta = beta
        self.agreement = agreement
        self.classes = classes
        self.route = route
        self.constants = constants
        self.honest_fraction = honest_fraction
        self.unit = unit
        self.shared_seed = shared_seed
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> PrivateClassifier:
        """Let the users vote, count the votes privately, and keep the winner; nothing else of the data is kept."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_ = self._classes(y)
        self._check_unit(groups)
        source = _source(self.random_state)
        seed = Seed.draw(source) if self.shared_seed is None else Seed.of(self.shared_seed)
        samples = Samples.of(X, np.asarray(y) == self.classes_[1], groups)
        ballot = self._ballot(samples.columns, seed)
        self.users_needed_ = self.users_needed(columns=samples.columns)
        needed = self.users_needed_
        for doubt in doubts(samples, ballot, users_needed=needed, alpha=self.alpha, beta=self.beta):
            warnings.warn(doubt.text, KINDS[doubt.kind], stacklevel=2)
        self.election_ = self._voting().plan(ballot, samples.users, seed)
        decision = self.election_.decide(ballot, samples, source)
        if not decision.verified:
            message = "the check bits do not fit the elected hypothesis: users disagreed, or were too few"
            warnings.warn(message, UnverifiedVote, stacklevel=2)
        self.hypothesis_, self.verified_ = decision.hypothesis, decision.verified
        self.privacy_, self.certificate_ = self.election_.privacy, self.election_.certificate()
        self.shared_seed_, self.users_ = seed, samples.users
        self.unit_ = self.unit
        return self

    def _check_unit(self, groups: ArrayLike | None) -> None:
        """Whose privacy it is must be said: nobody's users become rows in silence."""
        one_of("unit", self.unit, ("user", "row"))
        if groups is None and self.unit == "user":
            raise InvalidParameter(
                "groups", None, 'given: the user of each row. unit="row" makes every row a user of its own'
            )
        if groups is not None and self.unit == "row":
            raise InvalidParameter("groups", "given", 'left out where unit="row"')

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The elected rule's label for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return np.asarray(self.classes_[self.hypothesis_.predict(X).astype(np.int64)])

    def users_needed(self, alpha: float | None = None, beta: float | None = None, *, columns: int | None = None) -> int:
        """How many users suffice for error `alpha` with probability 1 - `beta`, given the assumed agreement.

        `columns` is the number of features; after a fit it is known. A smaller alpha needs more samples of each user
        rather than more users: it makes the votes' weights steeper, and agreement harder to reach.
        """
        if columns is None:
            check_is_fitted(self, "n_features_in_")
            columns = self.n_features_in_
        ballot = self._ballot(columns, Seed.of(0), alpha, beta)
        failure = (self.beta if beta is None else beta) / PARTS
        return self._voting().users_needed(ballot, agreement=self.agreement, failure=failure)

    def _ballot(self, columns: int, seed: Seed, alpha: float | None = None, beta: float | None = None) -> AnyBallot:
        learner = Stable() if self.learner is None else self.learner
        alpha = float(between("alpha", self.alpha if alpha is None else alpha, 0, 1))
        beta = float(between("beta", self.beta if beta is None else beta, 0, 1))
        ballot: AnyBallot = learner.ballot(columns=columns, seed=seed, alpha=alpha, beta=beta / PARTS)
        return ballot

    def _voting(self) -> Voting:
        return Voting(self.epsilon, self.delta, self.model, self.constants, self.honest_fraction, self.route)

    def _classes(self, y: ArrayLike) -> NDArray[Any]:
        """The two public labels; a device would refuse to take part with any other."""
        labels = np.asarray(self.classes)
        if labels.shape != (2,) or labels[0] == labels[1]:
            raise InvalidParameter("classes", self.classes, "two different labels, no and yes")
        strange = ~np.isin(np.asarray(y), labels)
        if strange.any():
            allowed = f"{labels[0].item()!r} or {labels[1].item()!r}, the public classes"
            if (kind := type_of_target(y)) != "binary":
                allowed += f". Only binary classification is supported. The type of the target is {kind}"
            raise InvalidParameter("label", np.asarray(y)[strange][0].item(), allowed)
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # With every row a user and a handful of rows, noise decides.
        tags.classifier_tags.poor_score = True
        return tags


def _source(random_state: Any) -> Source:
    if random_state is None:
        return secure()
    if isinstance(random_state, Source):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return seeded(int(random_state.randint(2**31)))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InvalidParameter("random_state", random_state, "None, a whole number >= 0 or a source")
    return seeded(int(random_state))
