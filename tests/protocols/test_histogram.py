"""What every histogram must keep, in every model: its privacy, its error, its form."""

import json
import math

import numpy as np
import pytest

from cases.histograms import EVERY, SENDABLE, UNBIASED, make, some_items
from croupier.checks import InvalidParameter
from croupier.noise import Poisson, Polya, secure, seeded
from croupier.protocols import (
    HistogramMechanism,
    HistogramRelease,
    ItemOutside,
    Items,
    Numbers,
    TamperedMessage,
    counted_messages,
    histogram,
)

TIGHT = ["over", "over, few messages", "under", "coins", "local", "central, pure"]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("users", [1, 300, 10**6])
def test_the_claim_is_what_the_noise_gives_for_every_batch_size(name: str, users: int) -> None:
    if (name, users) == ("coins", 1):
        with pytest.raises(InvalidParameter, match="users = 1 .* each coin of a bucket is another user's"):
            make(name, users=users, size=50)
        return
    mechanism = make(name, users=users, size=50)
    certificate = mechanism.certificate()
    assert certificate.holds
    assert mechanism.loss.delta(0.9) <= mechanism.guarantee.delta
    if name in TIGHT:
        assert certificate.epsilon > 0.995 * 0.9, "tight constants spend what was promised"


@pytest.mark.parametrize("name", SENDABLE)
@pytest.mark.parametrize(("trials", "drawn"), [(150, 1_000), pytest.param(400, 400, marks=pytest.mark.evidence)])
def test_devices_shuffler_and_analyzer_agree_with_the_whole_way_and_its_law(name: str, trials: int, drawn: int) -> None:
    users, size = 250, 4
    mechanism = make(name, users=users, size=size)
    items = some_items(users, size)
    truth = np.bincount(items, minlength=size)
    source = seeded(5)

    def step_by_step() -> HistogramRelease:
        return mechanism.analyze(mechanism.collect(mechanism.randomize_all(items, source)), source)

    law = np.asarray([mechanism.simulate(truth, source).decoded for _ in range(drawn)])
    # Kolmogorov-Smirnov: a false alarm with probability 2e-11 in each of the 96 comparisons.
    furthest = math.sqrt(math.log(1e11) * (1 / trials + 1 / drawn) / 2)
    for road in (step_by_step, lambda: mechanism.run(items, source)):
        sample = np.asarray([road().decoded for _ in range(trials)])
        for item in range(size):
            both = np.unique(np.concatenate((sample[:, item], law[:, item])))
            cdfs = [np.searchsorted(np.sort(s[:, item]), both, side="right") / len(s) for s in (sample, law)]
            assert np.abs(cdfs[0] - cdfs[1]).max() < furthest


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("trials", "most"), [(300, 48), pytest.param(600, 75, marks=pytest.mark.evidence)])
def test_counts_are_unbiased_and_every_bound_holds(name: str, trials: int, most: int) -> None:
    users, size = 600, 6
    mechanism = make(name, users=users, size=size)
    truth = np.bincount(some_items(users, size), minlength=size)
    source = seeded(6)
    releases = [mechanism.simulate(truth, source) for _ in range(trials)]
    counts = np.asarray([release.counts for release in releases])
    if name in UNBIASED:
        spread = counts.std(axis=0) / math.sqrt(trials)
        # Seven standard errors in 60 comparisons: below 2e-10.
        assert np.all(np.abs(counts.mean(axis=0) - truth) < 7 * spread + 1e-9)
        assert counts[:, 5].var() == pytest.approx(mechanism.variance, rel=0.5)
    radius = mechanism.radius(0.05)
    off = (np.abs(np.clip(counts, 0, users) - truth) > radius * (1 + 1e-9)).any(axis=1).sum()
    outside = sum(bool((r.lower(0.05) > truth).any() or (truth > r.upper(0.05)).any()) for r in releases)
    # Each fails with probability 0.05 at most: more than 48 of 300, or 75 of 600, have probability below 1e-12.
    assert off <= most
    assert outside <= most
    for release in releases[:50]:
        assert np.all(release.lower(0.0) <= truth)
        assert np.all(truth <= release.upper(0.0))


@pytest.mark.slow
@pytest.mark.parametrize("trials", [200_000, pytest.param(10**6, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("side", ["over", "under"])
def test_counted_messages_err_to_one_side_in_every_one_of_many_trials(side: str, trials: int) -> None:
    mechanism = counted_messages(epsilon=0.9, side=side).plan(4)
    assert mechanism.noise.support[0] == 0, "certain, not likely: the noise itself has a side"
    rng, source = np.random.default_rng(1), seeded(2)
    for _ in range(trials // 200_000):
        values = rng.integers(0, 2, (200_000, 4))
        decoded = mechanism.analyze_many(mechanism.collect(mechanism.randomize(values, source)))
        error = mechanism.estimate(decoded) - values.sum(axis=1)
        assert error.min() >= 0 if side == "over" else error.max() <= 0


@pytest.mark.parametrize(("name", "sign"), [("over", 1), ("under", -1), ("coins", 1)])
def test_a_million_buckets_all_err_to_their_side_and_empty_ones_are_exactly_zero(name: str, sign: int) -> None:
    size, users = 10**6, 300
    mechanism = make(name, users=users, size=size, epsilon=4.0)
    items = some_items(users, size)
    truth = np.bincount(items, minlength=size)
    release = mechanism.run(items, secure())
    assert np.all(sign * (release.decoded - truth) >= 0)
    assert np.all(release.lower(0.0) <= truth)
    assert np.all(release.upper(0.0) >= truth)
    if name != "over":
        assert np.all(release.lower(0.0)[truth == 0] == 0), "[GKM21] Lemma 37: an item that nobody holds"


def test_published_noise_is_theorem_39_at_half_the_budget_and_proof_is_corollary_40() -> None:
    mechanism = make("under, published", users=100, size=20, epsilon=0.8, delta=1e-5)
    noise = mechanism.oracle.noise
    assert isinstance(noise, Polya)
    assert float(noise.r) == pytest.approx(3 * (1 + math.log(2e5)))
    assert noise.mean == pytest.approx(float(noise.r) / math.expm1(0.2 * 0.4))
    assert mechanism.oracle.side == "under"
    proof = make("under, proof", users=100, size=20, epsilon=0.8, delta=1e-5, failure=0.1).oracle.noise
    assert proof.r == math.ceil(1000 * (1 + math.log(2e5 * 100 / 0.1)))
    assert proof.mean == pytest.approx(float(proof.r) / math.expm1(0.2 * 0.4))
    counted = counted_messages(epsilon=0.8, delta=1e-5, constants="proof", failure=0.1).plan(100).noise
    assert counted.r == math.ceil(1000 * (1 + math.log(1e5 / 0.1)))
    assert counted.mean == pytest.approx(float(counted.r) / math.expm1(0.2 * 0.8))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.99])
def test_published_noise_has_more_than_ten_times_the_variance(epsilon: float) -> None:
    published, tight = (
        make(name, users=1000, size=100, epsilon=epsilon).variance for name in ("over, published", "over")
    )
    assert published > 60 * tight


def test_each_side_minimises_what_it_says() -> None:
    over, few, under = (
        make(name, users=10**4, size=10**4, epsilon=0.25).oracle for name in ("over", "over, few messages", "under")
    )
    assert isinstance(over.noise, Poisson)
    assert over.noise.std < few.noise.std, "least variance"
    assert over.radius(0.05) < few.radius(0.05)
    assert few.messages_per_user < over.messages_per_user / 2, "fewest messages"
    assert under.noise.tail_quantile(1e-6) < over.noise.tail_quantile(1e-6) / 1.5, "least one-sided error"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("users", [10**3, 10**4, 10**6])
def test_error_is_flat_in_the_universe_and_within_four_times_the_stable_central_one(epsilon: float, users: int) -> None:
    under = [make("under", users=users, size=size, epsilon=epsilon).oracle for size in (10**2, 10**4, 10**6)]
    raw = [t.noise.tail_quantile(0.05 / min(t.users, t.size)) for t in under]
    assert raw[-1] <= 1.35 * raw[0]
    stable = make("central", users=users, size=10**6, epsilon=epsilon).radius(0.05)
    assert raw[-1] <= 4 * stable
    assert make("over", users=users, size=10**6, epsilon=epsilon).radius(0.05) <= 4 * stable


def test_the_local_error_grows_as_the_root_of_the_users() -> None:
    radii = [make("local", users=users, size=1000).radius(0.05) for users in (10**4, 10**6, 10**8)]
    assert radii[1] / radii[0] == pytest.approx(10, rel=0.1)
    assert radii[2] / radii[1] == pytest.approx(10, rel=0.1)


def test_messages_grow_with_the_universe_and_counting_under_is_for_simulation_only() -> None:
    small, large = (make("over", users=1000, size=size) for size in (10**2, 10**6))
    assert (large.messages_per_user - 1) / (small.messages_per_user - 1) == pytest.approx(10**4)
    assert make("under", users=1000, size=10**6).messages_per_user > 10**6 - 1
    assert make("under", users=1000, size=10**6).simulation_only
    assert not small.simulation_only
    coins = make("coins", users=10**5, size=10**6)
    assert coins.messages_per_user < make("under", users=10**5, size=10**6).messages_per_user / 400


@pytest.mark.parametrize("name", [n for n in SENDABLE if "published" not in n])
def test_a_users_messages_are_as_many_as_stated(name: str) -> None:
    mechanism = make(name, users=300, size=8)
    sent = [mechanism.randomize_all(some_items(300, 8), seeded(seed)).lengths.mean() for seed in range(40)]
    shares = 2 if mechanism.ring else 1
    assert shares * np.mean(sent) == pytest.approx(mechanism.messages_per_user, rel=0.02)
    assert mechanism.bits_per_user == mechanism.messages_per_user * mechanism.message_bits


@pytest.mark.parametrize("name", SENDABLE)
def test_one_device_at_a_time_makes_a_batch(name: str) -> None:
    users, size = 260, 3
    mechanism = make(name, users=users, size=size)
    items = some_items(users, size)
    reports = [mechanism.randomize(int(item), secure(), seat=seat) for seat, item in enumerate(items)]
    assert all(np.array_equal(report, np.sort(report)) for report in reports), "the order must say nothing"
    view = mechanism.collect(reports)
    release = mechanism.analyze(view, secure())
    assert np.abs(release.counts - np.bincount(items, minlength=size)).max() <= mechanism.radius(1e-9) * (1 + 1e-9)
    messages = [message for report in reports for message in mechanism.pack(report)]
    assert np.array_equal(mechanism.unpack(messages), view)


def test_messages_have_one_length_and_strangers_are_refused() -> None:
    mechanism = make("over", users=10, size=300)
    messages = mechanism.pack(mechanism.randomize(299, secure()))
    assert {len(message) for message in messages} == {2}
    for bad in (b"\x00", b"\xff\xff"):
        with pytest.raises(TamperedMessage):
            mechanism.unpack([*messages, bad])


@pytest.mark.parametrize("name", EVERY)
def test_the_device_refuses_an_item_outside_the_universe(name: str) -> None:
    mechanism = histogram(epsilon=0.9, universe=("red", "green"), **EVERY[name]).plan(300)
    with pytest.raises(ItemOutside, match="item = 'mauve'"):
        mechanism.randomize("mauve", secure(), seat=0)
    with pytest.raises(ItemOutside, match="item = 'mauve'") as refused:
        mechanism.run(["red"] * 299 + ["mauve"], secure())
    assert refused.value.place == 299


@pytest.mark.parametrize("name", EVERY)
def test_serial_form_is_complete_and_canonical(name: str) -> None:
    counted = {"honest_fraction": 0.8} if EVERY[name].get("model", "shuffle") == "shuffle" else {}
    mechanism = histogram(epsilon=0.9, universe=Items(("red", "grün")), **EVERY[name] | counted).plan(900)
    text = mechanism.to_json()
    again = HistogramMechanism.from_json(text)
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.to_json() == text
    release = mechanism.run(["red"] * 500 + ["grün"] * 400, secure())
    back = HistogramRelease.from_json(release.to_json())
    assert back == release
    assert hash(back) == hash(release)
    assert np.array_equal(back.upper(0.01), release.upper(0.01))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("kind",), "SelectionMechanism"),
        (("model",), "trusted"),
        (("constants",), "loose"),
        (("ballot", "kind"), "votes"),
        (("ballot", "share", "rate"), "1/1000"),
        (("ballot", "users"), 0),
        (("ballot", "size"), 3),
        (("ballot", "side"), "both"),
        (("ballot", "counted_on"), 101),
        (("ballot", "colour"), "red"),
        (("guarantee", "epsilon"), 0.5),
        (("guarantee", "delta"), 1e-9),
        (("guarantee", "notion"), "pure"),
        (("universe", "names"), ["red"]),
        (("universe", "kind"), "everything"),
    ],
)
def test_a_mechanism_that_does_not_hold_together_is_refused(path: tuple[str, ...], value: object) -> None:
    body = json.loads(histogram(epsilon=0.9, universe=("red", "green")).plan(100).to_json())
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InvalidParameter):
        HistogramMechanism.from_json(json.dumps(body))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":1}', "null"])
def test_what_is_no_mechanism_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        HistogramMechanism.from_json(text)
    with pytest.raises(InvalidParameter):
        HistogramRelease.from_json(text)


def test_wrong_batches_and_tampered_reports_are_refused() -> None:
    mechanism = make("over", users=50, size=4)
    reports = list(mechanism.randomize_all(some_items(50, 4), secure()))
    with pytest.raises(InvalidParameter, match="reports = 49 .* exactly 50"):
        mechanism.collect(reports[:-1])
    for bad in (np.array([4]), np.array([-1]), np.array([0.0]), np.array([[0]])):
        with pytest.raises(TamperedMessage):
            mechanism.collect([*reports[:-1], bad])
    view = mechanism.collect(reports)
    for bad_view in (view[1:], view.astype(float), -view, np.zeros_like(view)):
        with pytest.raises(TamperedMessage):
            mechanism.analyze(bad_view)
    with pytest.raises(InvalidParameter, match="items = 3 .* exactly 50"):
        mechanism.run([0, 1, 2], secure())
    with pytest.raises(InvalidParameter, match="counts"):
        mechanism.simulate(np.array([50, 0, 0, 1]), secure())
    with pytest.raises(InvalidParameter, match="source"):
        make("central", users=2, size=4).analyze(np.array([1, 1, 0, 0]))
    with pytest.raises(TamperedMessage, match="3 messages came through where 2 were due"):
        make("local", users=2, size=3).analyze(np.array([1, 1, 1]))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 501.0}, "epsilon"),
        ({"epsilon": 1.0, "constants": "published"}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"model": "local", "delta": 1e-6}, "delta"),
        ({"model": "trusted"}, "model"),
        ({"constants": "loose"}, "constants"),
        ({"constants": "proof", "model": "central"}, "constants"),
        ({"constants": "published", "side": "both"}, "constants"),
        ({"side": "left"}, "side"),
        ({"side": "over", "model": "local"}, "side"),
        ({"honest_fraction": 0.0}, "honest_fraction"),
        ({"failure": 1.0}, "failure"),
        ({"minimise": "time"}, "minimise"),
        ({"minimise": "messages", "model": "local"}, "minimise"),
    ],
)
def test_bad_targets_are_refused_by_name(options: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{name} = "):
        histogram(**{"epsilon": 0.5, "universe": Numbers(4)} | options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["over", "under", "coins", "under, published"])
def test_the_guarantee_rests_on_the_honest_users_alone(name: str) -> None:
    full, part = (make(name, users=2000, size=5, honest_fraction=g) for g in (1.0, 0.6))
    assert part.honest == 1200
    assert part.certificate().holds
    assert part.variance >= full.variance
    if name != "coins":
        guard = part.oracle.share.times(1200)
        assert guard == full.oracle.noise


def test_the_top_is_in_order_and_names_its_bounds() -> None:
    mechanism = histogram(epsilon=0.9, universe=("red", "green", "blue")).plan(1000)
    release = mechanism.simulate(np.array([200, 700, 100]), seeded(3))
    top = release.top(2)
    assert [e.name for e in top] == ["green", "red"]
    assert release.winner == "green"
    assert all(e.lower <= e.count <= e.upper for e in top)
    assert len(release.top(10)) == 3
    with pytest.raises(InvalidParameter, match="failure"):
        release.radius(0.0)
