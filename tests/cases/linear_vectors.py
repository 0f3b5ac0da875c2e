"""Write `linear_vectors.json`: what a device computes by itself in a personalised experiment, for other languages.

Run it from the project's directory: `PYTHONPATH=tests python -m cases.linear_vectors`. Rules are real ones, of an
experiment after some batches. Vectors must come out bit for bit; scores add up products in any order, so a part in 10¹²
is left open.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from croupier.checks import InvalidParameter
from croupier.client.choosing import Choice
from croupier.linear import LinearServer, growing_bandit
from croupier.messages.offer import Batch, Offer
from croupier.noise import seeded
from croupier.personal import Context, Feature, Personal, Rule, blocks, with_constant
from croupier.protocols import Moments, protocol

PATH = Path(__file__).parents[1] / "client" / "linear_vectors.json"
Entry = dict[str, Any]

PERSON = [{"name": "age", "low": 0, "high": 100}, {"name": "visits", "low": 0, "high": 20}]
ODD = [Entry(name="x", low=-0.3, high=0.1), Entry(name="y", low=1e-3, high=7.7), Entry(name="z", low=0, high=3)]
CONTEXTS = [
    (PERSON, False, {"age": 75, "visits": 10}),
    (PERSON, False, {"visits": 20, "age": 0}),
    (PERSON, True, {"age": 130, "visits": -4.5}),
    (ODD, False, {"x": -0.1, "y": 3.3, "z": 0.7}),
    (ODD, False, {"x": 0.1, "y": 7.7, "z": 3}),
    (ODD, False, {"x": -0.3, "y": 0.001, "z": 2.9999999999999996}),
    ([], False, {}),
]
BAD_CONTEXTS = [
    (PERSON, False, {"age": 75}),
    (PERSON, False, {"age": 75, "visits": None}),
    (PERSON, False, {"age": 75, "visits": "10"}),
    (PERSON, False, {"age": 75, "visits": True}),
    (PERSON, False, {"age": 75, "visits": [10]}),
    (PERSON, False, {"age": 101, "visits": 10}),
    (PERSON, False, {"age": -0.5, "visits": 10}),
    (PERSON, False, {"age": "nan", "visits": 10}),
    (PERSON, False, {"age": "inf", "visits": 10}),
    (PERSON, True, {"age": "nan", "visits": 10}),
    (PERSON, True, {"age": "-inf", "visits": 10}),
    (PERSON, False, {"age": 75, "visits": 10, "height": 2}),
    ([{"name": "age", "low": 1, "high": 1}], False, {"age": 1}),
    ([{"name": "", "low": 0, "high": 1}], False, {"": 1}),
    ([{"name": "age", "low": -1.5e308, "high": 1.5e308}], False, {"age": 1}),
    ([{"name": "age", "low": 0, "high": 5e-324}], True, {"age": 1}),
    ([{"name": "(level)", "low": 0, "high": 1}], False, {"(level)": 1}),
    (PERSON + PERSON[:1], False, {"age": 75, "visits": 10}),
]
"""The texts nan, inf and -inf stand for these numbers, which JSON has not."""


def given(values: Entry) -> Entry:
    """A user's numbers, with those that JSON has not."""
    return {name: float(value) if value in ("nan", "inf", "-inf") else value for name, value in values.items()}


def context_of(features: list[Entry], clip: bool) -> Context:
    return Context(tuple(Feature(**feature) for feature in features), clip)


def refusal(make: Callable[[], object]) -> tuple[str, str]:
    """What a refusal names, and what it allows."""
    try:
        make()
    except InvalidParameter as error:
        return error.name, error.allowed
    raise AssertionError("this is to be refused")


def contexts() -> list[Entry]:
    return [
        {"features": features, "clip": clip, "context": values}
        | {"vector": context_of(features, clip).vector(given(values)).tolist()}
        for features, clip, values in CONTEXTS
    ]


def bad_contexts() -> list[Entry]:
    found = []
    for features, clip, values in BAD_CONTEXTS:
        name, _ = refusal(lambda f=features, c=clip, v=values: context_of(f, c).vector(given(v)))
        found.append({"features": features, "clip": clip, "context": values, "names": name})
    return found


MOMENTS = [
    (Moments(2), [0.6, math.sqrt(0.5)], 1.0, 0, False),
    (Moments(3, places=4, weight=0.7), [0.1, -0.3, math.sqrt(0.5)], 0.25, 2, False),
    (Moments(3, places=2, weight=1.3, control=0.4), [0.0, 0.5, math.sqrt(0.5)], 0.0, 1, True),
    (Moments(3, places=2, weight=1.3, control=0.4), [0.0, 0.5, math.sqrt(0.5)], 1.0, 0, False),
    (Moments(4, weight=0.9, centred=False), [0.5, 0.5, 0.5, 0.5], 0.3, 0, False),
    (Moments(1, places=3), [math.sqrt(0.5)], 0.75, 0, False),
    (Moments(7, places=12, weight=2.0, control=1.0), [*([0.2] * 6), math.sqrt(0.5)], 0.9, 11, True),
]
BAD_MOMENTS = [
    (Moments(2), [0.8, math.sqrt(0.5)], 1.0, 0),
    (Moments(2), [0.6, 0.6], 1.0, 0),
    (Moments(2), [0.6], 1.0, 0),
    (Moments(2), [0.1, 0.6, math.sqrt(0.5)], 1.0, 0),
    (Moments(2), ["nan", math.sqrt(0.5)], 1.0, 0),
    (Moments(2), [0.6, math.sqrt(0.5)], 1.5, 0),
    (Moments(2), [0.6, math.sqrt(0.5)], -0.1, 0),
    (Moments(2), [0.6, math.sqrt(0.5)], "nan", 0),
    (Moments(2), [0.6, math.sqrt(0.5)], 1.0, 1),
    (Moments(2, places=3), [0.6, math.sqrt(0.5)], 1.0, -1),
    (Moments(2, places=3), [0.6, math.sqrt(0.5)], 1.0, 0.5),
]
PRECISIONS = [1024, 127, 1]


def moments() -> list[Entry]:
    """A user's vector before rounding, on its scale 0..g, and how far two users can be apart, with and without it."""
    found = []
    for values, x, reward, place, control in MOMENTS:
        vector = values.of(x, reward, place, control)
        entry = {"values": asdict(values), "x": x, "reward": reward, "place": place, "control": control}
        apart = {"diameter": values.diameter, "taxicab": values.taxicab}
        reach = [list(values.reach(precision)) for precision in PRECISIONS]
        scaled = values.unit(vector) * PRECISIONS[0]
        found.append(entry | apart | {"reach": reach, "vector": vector.tolist(), "scaled": scaled.tolist()})
    return found


def bad_moments() -> list[Entry]:
    found = []
    for values, x, reward, place in BAD_MOMENTS:
        features, own = [float(number) for number in x], float(reward)
        name, _ = refusal(lambda v=values, f=features, y=own, p=place: v.of(f, y, p))
        found.append({"values": asdict(values), "x": x, "reward": reward, "place": place, "names": name})
    return found


def learnt(features: int, places: int, control: float, users: int = 60_000) -> Rule:
    """The rule after some batches of users whose last feature is the constant, with the sets of the batch before."""
    plan = growing_bandit(users, features, places=places, epsilon=2.0, control=control, single=0, first=4_000)
    server, source, known = LinearServer(plan), seeded(features), list[Rule]()
    for _ in range(3):
        [batch], count = server.open, server.room
        x = directions(count, features, spread=0.1)
        actions = np.minimum(*source.generator.integers(0, places, (2, count)))
        rewards = (source.generator.random(count) < 0.5 + 0.4 * x[:, 0] * (-1.0) ** actions).astype(float)
        server.arrive(count)
        vectors = plan.moments.of(x, rewards, actions, source.generator.random(count) < control)
        server.release(batch.number, batch.mechanism.simulate(vectors, source).decoded)
        known.append(server.rule)
    both = zip(known[-1].beliefs, known[-2].beliefs, strict=True)
    return replace(known[-1], beliefs=tuple((newest[0], before[0]) for newest, before in both))


def directions(count: int, features: int, spread: float = 1.0) -> np.ndarray:
    """Random features; with a small spread they differ in the first one most, and others stay unknown."""
    raw = np.random.default_rng(count).normal(size=(count, features - 1))
    raw[:, 1:] *= spread
    return with_constant(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def scored(rule: Rule, x: np.ndarray) -> Entry:
    hopeful, fearful = rule.scores(x), rule.scores(x, hopeful=False)
    return {
        "x": x.tolist(),
        "estimates": rule.estimates(x).tolist(),
        "scores": hopeful.tolist(),
        "lowest": fearful.tolist(),
        "choices": [int(np.argmax(hopeful)), int(np.argmax(fearful))],
    }


def rules() -> list[Entry]:
    """Rules as they are published, and what they make of users: one vector each, or one for each of four actions."""
    found = []
    for features, places, control in ((4, 3, 0.1), (3, 1, 0.0), (6, 1, 0.25)):
        rule = learnt(features, places, control)
        several = directions(6, features) if places > 1 else directions(24, features).reshape(6, 4, features)
        found.append({"rule": rule.to_json(), "users": [scored(rule, x) for x in several]})
    return found


def bad_rules() -> list[str]:
    """Texts that are no rules."""
    body = json.loads(learnt(2, 2, 0.1).to_json())
    first = body["beliefs"][0][0]
    changes: list[Entry] = [
        {"version": 2},
        {"beliefs": []},
        {"beliefs": [[], []]},
        {"beliefs": [[first | {"theta": [0.0]}]]},
        {"beliefs": [[first | {"values": [1.0, 0.0]}]]},
        {"beliefs": [[first | {"values": [1.0, -1.0]}]]},
        {"beliefs": [[first | {"axes": [[1.0, 0.0]]}]]},
        {"beliefs": [[first | {"radius": -1.0}]]},
        {"beliefs": [[first | {"push": -1.0}]]},
        {"beliefs": [[first | {"colour": 1.0}]]},
        {"exploration": 0.0},
        {"optimists": 0.0},
        {"optimists": 1.5},
        {"control": 1.0},
        {"control": -0.1},
        {"single": None},
        {"single": 2},
        {"single": 0.5},
        {"blank": "no"},
        {"colour": "red"},
    ]
    texts = [json.dumps(body | change) for change in changes]
    return [*texts, "{", "[]", "null", json.dumps({"version": 1})]


def maps() -> list[Entry]:
    """Features of actions, from vectors of norm at most one."""
    x = [[0.6, 0.8], [0.1, -0.3], [1.0, 0.0]]
    return [{"x": x, "with_constant": with_constant(x).tolist(), "blocks": blocks(x[1], actions=3).tolist()}]


def deltas() -> list[Entry]:
    """What one report costs: from the mechanism's text alone, at several ε."""
    found = []
    for name, features, places, control, more in (
        ("shared-vectors", 4, 3, 0.5, {"delta": 1e-6}),
        ("shared-vectors", 20, 1, 0.0, {"delta": 1e-8}),
        ("laplace-vectors", 2, 2, 0.5, {}),
    ):
        values = Moments(features, places, control=control)
        asked = protocol(name, epsilon=1.0, dimension=values.dimension, precision=1024, **more).about(values)
        text = asked.plan(users=100).to_json()
        offer = Offer("x", bytes(32), 0, None, (Batch(0, bytes(32), text),))
        costs = [[epsilon, offer.delta(epsilon)] for epsilon in (0.5, 0.999, 1.0, 2.0)]
        found.append({"mechanism": text, "costs": costs})
    return found


PROGRAM: Entry = {
    "kind": "linear",
    "features": PERSON,
    "actions": ["video", "mail", "call"],
    "reward": {"low": 0.0, "high": 5.0, "binary": False, "clip": False},
    "control": 0.25,
}
DESCRIBED = PROGRAM | {"described": [[1.0, 0.0], [-0.25, 0.5], [0.0, -1.0]], "clip": True}
CHOICES = [
    (PROGRAM, {"age": 30, "visits": 2}, 2, False, 4.5),
    (PROGRAM, {"age": 100, "visits": 20}, 0, True, 0.0),
    (DESCRIBED, {"age": 30, "visits": 2}, 1, False, 1.25),
    (DESCRIBED, {"age": 130, "visits": 20}, 2, True, 5.0),
]


def choices() -> list[Entry]:
    """A signed program, a user's context, the vectors to choose by, and what is reported of a choice."""
    found = []
    for program, context, action, control, reward in CHOICES:
        personal = Personal.read(program)
        values, vectors = Moments(personal.dimension, personal.places, 0.8, control=0.5), personal.vectors(context)
        own = vectors[action] if personal.described else vectors
        choice = {"action": action, "control": control, "vector": own.tolist()}
        made = personal.report(Choice(action, control, tuple(own.tolist())), reward, values)
        entry = {"program": program, "context": context, "vectors": vectors.tolist(), "choice": choice}
        found.append(entry | {"reward": reward, "values": asdict(values), "report": made})
    return found


def bad_choices() -> list[Entry]:
    """What is about something else than the signed program: rules, sums, rewards."""
    belief = {"theta": [0.0] * 3, "axes": np.eye(3).tolist(), "values": [1.0] * 3, "radius": 1.0}
    rule = {"version": 1, "beliefs": [[belief]] * 3, "control": 0.25, "single": 2}
    smaller = belief | {"theta": [0.0] * 2, "axes": np.eye(2).tolist(), "values": [1.0] * 2}
    values = asdict(Moments(3, 3))
    good: Entry = {"program": PROGRAM, "rule": rule, "values": values, "reward": 5.0, "refused": False}
    changed: list[Entry] = [
        {"rule": rule | {"beliefs": [[belief]] * 2}},
        {"rule": rule | {"beliefs": [[smaller]] * 3}},
        {"rule": rule | {"control": 0.26}},
        {"values": values | {"features": 4}},
        {"values": values | {"places": 2}},
        {"values": values | {"centred": False}},
        {"reward": 5.1},
        {"reward": -0.1},
        {"reward": "nan"},
        {"reward": None},
        {"reward": [1.0]},
        {"program": PROGRAM | {"actions": ["video"]}},
        {"program": PROGRAM | {"described": [[1.0], [0.0]]}},
        {"program": PROGRAM | {"described": [[1.0], [0.0], [1.5]]}},
    ]
    return [good, *(good | change | {"refused": True} for change in changed)]


GROUPS = {
    "choices": choices,
    "bad-choices": bad_choices,
    "deltas": deltas,
    "contexts": contexts,
    "bad-contexts": bad_contexts,
    "moments": moments,
    "bad-moments": bad_moments,
    "rules": rules,
    "bad-rules": bad_rules,
    "maps": maps,
}


def main() -> None:
    found = {name: group() for name, group in GROUPS.items()} | {"precisions": PRECISIONS}
    PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
