"""The scikit-learn estimator: it keeps its conventions, its privacy and its promise."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.special import betaincinv
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from cases.learners import WORLDS
from croupier.checks import InvalidParameter
from croupier.learning import (
    Boxes,
    DecisionListQueries,
    HashedPoints,
    OutsideRange,
    Points,
    PrivateClassifier,
    Seed,
    Stable,
    Thresholds,
    TooFewSamples,
    TooFewUsers,
    UnverifiedVote,
)
from croupier.learning import estimators as module
from croupier.noise import secure, seeded

PUBLIC_LABELS = "labels are public parameters: taken from the data they would say what it holds"
NOISE_DECIDES = "ten rows are ten users: noise decides, and must"
EXPECTED = {
    "check_estimators_dtypes": PUBLIC_LABELS,
    "check_classifier_data_not_an_array": PUBLIC_LABELS,
    "check_classifiers_classes": PUBLIC_LABELS,
    "check_fit2d_1feature": PUBLIC_LABELS,
    "check_classifiers_one_label": NOISE_DECIDES,
}
"""The checks of scikit-learn that a private learner cannot pass, and why."""


class TakesLabelsFromTheData(PrivateClassifier):
    """What must not be shipped, to see that nothing but the labels stands in the way of the other checks."""

    def _classes(self, y: Any) -> np.ndarray:
        found = np.unique(y)
        return found if len(found) == 2 else super()._classes(y)


def failed_checks(estimator: PrivateClassifier) -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert sum(result["status"] == "passed" for result in results) >= 45
    return {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}


@pytest.mark.slow
def test_it_passes_the_checks_of_scikit_learn_but_those_that_privacy_forbids() -> None:
    failed = failed_checks(PrivateClassifier(unit="row", shared_seed=0, random_state=0))
    assert set(failed) == set(EXPECTED)
    for name, reason in EXPECTED.items():
        assert ("public classes" in failed[name]) == (reason == PUBLIC_LABELS)


@pytest.mark.slow
def test_public_labels_are_the_only_convention_that_is_broken() -> None:
    failed = failed_checks(TakesLabelsFromTheData(unit="row", shared_seed=0, random_state=0))
    assert {EXPECTED[name] for name in failed} == {NOISE_DECIDES}


def data(users: int = 80, samples: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).random((users * samples, 2))
    return x, (x[:, 1] >= 0.4).astype(int), np.repeat(np.arange(users), samples)


def model(**options: Any) -> PrivateClassifier:
    return PrivateClassifier(**{"alpha": 0.2, "shared_seed": 5, "random_state": 1} | options)


def test_it_learns_from_users() -> None:
    x, y, users = data()
    made = model().fit(x, y, groups=users)
    assert made.score(*data(seed=1)[:2]) >= 0.8
    assert str(made.hypothesis_).startswith("column 1 >= 0.")
    assert (made.users_, made.unit_, made.verified_) == (80, "user", True)
    assert made.certificate_.holds
    assert (made.privacy_.epsilon, made.privacy_.delta) == (1.0, 1e-6)


@pytest.mark.parametrize("private", ["shuffle", "local", "central", "central-pure"])
def test_every_model_and_route_learns(private: str) -> None:
    x, y, users = data(users=700, samples=100)
    for route in ("list", "bits"):
        made = model(learner=Stable(Thresholds(cuts=11)), model=private, route=route, epsilon=3.0)
        assert made.fit(x, y, groups=users).score(x, y) >= 0.8


def test_the_order_of_rows_and_the_names_of_users_do_not_matter() -> None:
    x, y, users = data()
    names = np.asarray([f"user {number:03d}" for number in range(80)])
    order = np.random.default_rng(0).permutation(len(x))
    one = model().fit(x, y, groups=users)
    other = model().fit(x[order], y[order], groups=names[users][order])
    assert one.hypothesis_ == other.hypothesis_


def test_users_may_hold_different_numbers_of_samples() -> None:
    x, y, users = data()
    kept = np.random.default_rng(0).random(len(x)) < (users + 20) / 100
    assert model().fit(x[kept], y[kept], groups=users[kept]).score(x, y) >= 0.8


def test_constructor_parameters_are_stored_as_they_come() -> None:
    learner = Stable(Boxes())
    made = PrivateClassifier(learner, epsilon=-3, classes=("no", "yes"), shared_seed=b"x")
    assert made.learner is learner
    assert made.get_params()["epsilon"] == -3
    assert clone(made).get_params() == made.get_params()
    with pytest.raises(InvalidParameter, match="epsilon = -3"):
        made.fit([[0.1], [0.2]], ["no", "yes"], groups=[0, 1])


def test_it_works_in_a_pipeline_and_survives_pickling() -> None:
    x, y, users = data()
    pipe = make_pipeline(MinMaxScaler(), model())
    pipe.fit(7 * x - 3, y, privateclassifier__groups=users)
    again = pickle.loads(pickle.dumps(pipe))
    assert (again.predict(7 * x - 3) == pipe.predict(7 * x - 3)).all()


def test_a_grid_search_routes_users_to_every_fit() -> None:
    x, y, users = data(users=160)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            model(),
            {"learner": [Stable(Thresholds(cuts=9)), Stable(Points(2))]},
            cv=GroupKFold(2),
            error_score=0.0,
        )
        with warnings.catch_warnings():
            # Points refuses numbers that are no points: its fits fail, and the other learner wins.
            warnings.simplefilter("ignore")
            search.fit(x, y, groups=users)
    assert search.best_params_["learner"] == Stable(Thresholds(cuts=9))
    assert search.best_estimator_.unit_ == "user"


def test_rows_are_users_only_where_that_is_said() -> None:
    x, y, users = data(users=40, samples=10)
    rows = model(learner=Stable(Thresholds(), gamma=20.0), unit="row")
    with pytest.warns(TooFewSamples, match="1 samples or fewer, and with fewer than 20"):
        made = rows.fit(x, y)
    assert (made.users_, made.unit_) == (400, "row")
    with pytest.raises(InvalidParameter, match="groups is missing: .* the user of each row"):
        model().fit(x, y)
    with pytest.raises(InvalidParameter, match="groups = 'given' .* left out"):
        rows.fit(x, y, groups=users)
    with pytest.raises(InvalidParameter, match="unit = 'users'.* did you mean user"):
        model(unit="users").fit(x, y, groups=users)


def test_a_grid_search_that_would_lose_the_users_is_refused() -> None:
    x, y, users = data(users=40)
    search = GridSearchCV(model(), {"alpha": [0.2, 0.3]}, cv=GroupKFold(2), error_score="raise")
    with pytest.raises(InvalidParameter, match="groups is missing"):
        search.fit(x, y, groups=users)


def test_too_few_samples_a_user_are_warned_about() -> None:
    x, y, users = data(samples=20)
    least = model()._ballot(2, Seed.of(0)).samples_needed
    with pytest.warns(TooFewSamples, match=f"20 samples or fewer, and with fewer than {least}"):
        model().fit(x, y, groups=users)
    enough = data(samples=least)
    model().fit(enough[0], enough[1], groups=enough[2])


@pytest.mark.parametrize("learner", [None, Stable(Boxes(cuts=5))])
def test_features_outside_the_public_range_are_warned_about(learner: Any) -> None:
    x, y, users = data(users=100)
    with pytest.warns(OutsideRange, match=r"lie outside \[0, 1\], the learner's public range"):
        model(learner=learner).fit(3 * x, y, groups=users)
    wide = Stable(Thresholds(low=0.0, high=3.0))
    model(learner=wide).fit(3 * x, y, groups=users)


def test_too_few_users_are_warned_about_once_the_need_is_known() -> None:
    x, y, users = data(users=30)
    needed = model().users_needed(columns=2)
    with pytest.warns(TooFewUsers, match=f"30 users, .* needs {needed}"):
        model().fit(x, y, groups=users)
    many = data(users=needed)
    assert model().fit(many[0], many[1], groups=many[2]).users_needed_ == needed


def test_a_vote_that_nobody_cast_is_reported() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (400, 4))
    learner = DecisionListQueries(length=5)
    made = PrivateClassifier(learner, shared_seed=1, random_state=3)
    with pytest.warns(UnverifiedVote), pytest.warns(TooFewUsers):
        made.fit(rows, rng.integers(0, 2, 400), groups=np.arange(400) // 4)
    assert not made.verified_


@pytest.mark.slow
def test_users_needed_follow_from_privacy_and_confidence() -> None:
    asked = model()
    assert asked.users_needed(columns=1) < asked.users_needed(0.2, 0.001, columns=1)
    assert model(epsilon=0.2).users_needed(columns=1) > asked.users_needed(columns=1)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        asked.users_needed()
    x, y, users = data()
    assert asked.fit(x, y, groups=users).users_needed() == asked.users_needed(columns=2)


def test_only_what_is_private_or_public_is_kept() -> None:
    x, y, users = data()
    made = model().fit(x, y, groups=users)
    kept = {name for name in vars(made) if name.endswith("_")}
    assert kept == {
        "classes_",
        "certificate_",
        "election_",
        "hypothesis_",
        "n_features_in_",
        "privacy_",
        "shared_seed_",
        "unit_",
        "users_",
        "users_needed_",
        "verified_",
    }
    # The same public things and another private result give the same object, byte for byte, but for the result.
    other = model(random_state=2).fit(x[::-1] * 0.5, y, groups=users)
    for name in kept - {"hypothesis_", "verified_"}:
        assert pickle.dumps(getattr(made, name)) == pickle.dumps(getattr(other, name)), name


def test_noise_is_secure_unless_a_simulation_asks_otherwise() -> None:
    assert module._source(None) is secure()
    source = seeded(3)
    assert module._source(source) is source
    assert module._source(4).words(1) == seeded(4).words(1)
    with pytest.raises(InvalidParameter, match="random_state"):
        module._source(-1)
    with pytest.raises(InvalidParameter, match="random_state"):
        module._source("random")


def test_the_shared_seed_is_drawn_afresh_and_published() -> None:
    x, y, users = data()
    seeds = {model(shared_seed=None, random_state=None).fit(x, y, groups=users).shared_seed_ for _ in range(2)}
    assert len(seeds) == 2
    assert model().fit(x, y, groups=users).shared_seed_ == Seed.of(5)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"beta": 1.0}, "beta"),
        ({"agreement": 0.5}, "agreement"),
        ({"model": "trusted"}, "model"),
        ({"classes": (1, 1)}, "classes"),
        ({"classes": (0, 2)}, "label"),
        ({"shared_seed": 0.5}, "seed"),
        ({"route": "post"}, "route"),
        ({"learner": Stable(HashedPoints(slack=0.3))}, "alpha"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, Any], name: str) -> None:
    x, y, users = data(users=5, samples=4)
    with pytest.raises(InvalidParameter, match=name):
        model(**options).fit(x, y, groups=users)


def test_user_ids_must_fit_the_rows() -> None:
    x, y, users = data()
    with pytest.raises(InvalidParameter, match="groups"):
        model().fit(x, y, groups=users[:-1])


RUNS, CONFIDENCE = 100, 0.999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "private"),
    [
        ("thresholds", "shuffle"),
        pytest.param("thresholds", "central", marks=pytest.mark.evidence),
        pytest.param("thresholds", "local", marks=pytest.mark.evidence),
        ("decision lists", "shuffle"),
        ("decision lists", "central-pure"),
    ],
)
def test_the_error_is_as_promised_with_as_many_users_as_needed(name: str, private: str) -> None:
    # Fresh users, seed and noise in every run. With k failures of 100 the rate is below the Clopper-Pearson limit with
    # confidence 99.9 %, and that must be below β = 0.1.
    world = WORLDS[name]
    asked = PrivateClassifier(world.learner, model=private, alpha=world.alpha, beta=world.beta)
    users = asked.users_needed(columns=world.columns)
    rng, failures = np.random.default_rng(20_261_116), 0
    for run in range(RUNS):
        samples = world.users(rng, users)
        made = clone(asked).set_params(random_state=run, shared_seed=run)
        made.fit(samples.features, samples.labels, groups=samples.owner)
        failures += world.error(made.hypothesis_) > world.alpha
    assert betaincinv(failures + 1, RUNS - failures, CONFIDENCE) <= world.beta
