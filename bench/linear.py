"""Linear bandits: growing batches and concurrent trees against drawing the users, a device's choice, and growth."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bench.measure import heading, line, seconds
from croupier.linear import GrowingPlan, LinearPlan, LinearServer, growing_bandit, linear_bandit, statistics
from croupier.noise import secure, seeded
from croupier.personal import Rule, with_constant
from croupier.simulation.counting import TreeSum
from croupier.simulation.linear_runner import CHUNK, simulate_linear
from croupier.simulation.linear_worlds import Sphere

USERS, DIMENSION, ACTIONS = 10**5, 10, 20
CLIENT = Path(__file__).parents[1] / "clients" / "javascript"
IN_A_PAGE = """async ({ text, x, values, times }) => {
  const { Moments, Rule } = await import("/croupier.js");
  const median = (work) => {
    const took = Array.from({ length: times }, () => {
      const began = performance.now();
      for (let again = 0; again < 10; again += 1) work();
      return (performance.now() - began) / 10;
    });
    return took.slice(1).sort((a, b) => a - b)[times >> 1];
  };
  const [rule, moments] = [Rule.fromJSON(text), new Moments(values)];
  const vector = () => moments.unit(moments.of(x[0], 1));
  return [() => rule.play(x), () => Rule.fromJSON(text), vector].map(median);
}"""


def blocks(
    model: str, users: int = USERS, dimension: int = DIMENSION, actions: int = ACTIONS, shufflers: int | None = None
) -> float:
    """Seconds of a simulation, many of an open batch at once; planned before."""
    world = Sphere(dimension, actions, 1)
    return seconds(lambda: simulate_linear(model, world, users, seed=1, shufflers=shufflers), 2)


def one_by_one(plan: LinearPlan, users: int) -> float:
    """Seconds of the same algorithm when users come one by one, as in a live system."""
    world, source = Sphere(plan.dimension, ACTIONS, 1), seeded(1)
    running = TreeSum(plan.counter, source)
    rule = plan.confidence.rule(np.zeros(plan.counter.dimension), 0)
    start = time.perf_counter()
    for user in range(1, users + 1):
        offer = world.offer(1, source.generator)
        chosen = int(rule.choose(offer.features[0]))
        reward = float(source.generator.random() < offer.means[0, chosen])
        estimate = running.update(statistics(offer.features[0, chosen], reward))
        if user % plan.counter.tree.smallest == 0:
            rule = plan.confidence.rule(np.asarray(estimate), user)
    return time.perf_counter() - start


def drawing(users: int, dimension: int = DIMENSION, actions: int = ACTIONS, block: int = CHUNK) -> float:
    """Seconds in which the users of a simulation are drawn, whatever is done with them."""
    world, source = Sphere(dimension, actions, 1), seeded(1)

    def draw() -> None:
        for start in range(0, users, block):
            world.offer(min(block, users - start), source.generator)

    return seconds(draw, 2)


def named(shufflers: int | None) -> str:
    return "binary tree" if shufflers is None else f"k = {shufflers}"


def directions(count: int, dimension: int) -> np.ndarray:
    """Features along random directions."""
    raw = np.random.default_rng(1).normal(size=(count, dimension - 1))
    return with_constant(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def published(dimension: int) -> Rule:
    """A rule as a device reads it: after one batch, back from its JSON."""
    plan = growing_bandit(4_000, dimension, epsilon=1.0, trust="devices", first=2_000)
    server, source = LinearServer(plan), seeded(1)
    batch = server.open[0]
    server.arrive(2_000)
    vectors = plan.moments.of(directions(2_000, dimension), np.ones(2_000))
    server.release(batch.number, batch.mechanism.simulate(vectors, source).decoded)
    return Rule.from_json(server.rule.to_json())


class Turn:
    """What a device does in its turn."""

    def __init__(self, rule: Rule, features: np.ndarray, plan: GrowingPlan) -> None:
        self.rule, self.features, self.moments = rule, features, plan.moments
        self.text, self.mechanism = rule.to_json(), plan.mechanism(1_000)

    def choose(self) -> None:
        self.rule.play(self.features, secure())

    def read(self) -> None:
        Rule.from_json(self.text)

    def encode(self) -> None:
        self.mechanism.secret(self.moments.of(self.features[0], 1.0), secure())


def device() -> None:
    """Read the rule, choose, make the vector, encode it."""
    heading("A device chooses by itself (aim: 1 ms among 100 actions with d = 20, after the first call)")
    for dimension, actions in ((5, 20), (20, 100), (20, 1000)):
        rule = published(dimension)
        features = directions(actions, dimension)
        turn = Turn(rule, features, growing_bandit(4_000, dimension, epsilon=1.0))
        line(
            f"d = {dimension}, {actions} actions",
            f"{seconds(turn.choose, 50) * 1e3:.3f} ms to choose",
            f"{seconds(turn.read, 20) * 1e3:.2f} ms to read",
            f"{len(turn.text) / 1e3:.1f} kB rule",
            f"{seconds(turn.encode, 20) * 1e3:.2f} ms to encode",
        )


def in_a_page(browser: str, rule: Rule, features: np.ndarray, plan: GrowingPlan) -> list[float]:
    """Milliseconds in Chromium after the first call: to choose, to read the rule, and to make the vector."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.route("**/*.js", lambda route: route.fulfill(path=CLIENT / route.request.url.rsplit("/", 1)[1]))
        page.route("**/empty", lambda route: route.fulfill(body="", content_type="text/html"))
        page.goto("http://localhost/empty")
        given = {"text": rule.to_json(), "x": features.tolist(), "values": asdict(plan.moments), "times": 40}
        took: list[float] = page.evaluate(IN_A_PAGE, given)
        return took


def device_in_a_page() -> None:
    """The same with the client in JavaScript."""
    heading("A device chooses by itself in Chromium (aim: 1 ms among 100 actions with d = 20, after the first call)")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("Not measured: there is no Chromium here.")
        return
    for dimension, actions in ((5, 20), (20, 100), (20, 1000)):
        plan = growing_bandit(4_000, dimension, epsilon=1.0)
        choosing, reading, making = in_a_page(browser, published(dimension), directions(actions, dimension), plan)
        line(
            f"d = {dimension}, {actions} actions",
            f"{choosing:.3f} ms to choose",
            f"{reading:.2f} ms to read",
            f"{making:.3f} ms for the vector",
        )


def main() -> None:
    """Print the lines."""
    device()
    device_in_a_page()
    heading("A whole run, d = 10, 20 actions (aim: 5 s for 10⁶ users)")
    for users in (10**4, 10**5, 10**6):
        drawn = drawing(users)
        for model in ("growing", "concurrent"):
            took = blocks(model, users)
            line(
                f"{model}, n = {users:,}",
                f"{took:.2f} s",
                f"{took / users * 1e6:.1f} µs/user",
                f"{took / drawn:.1f} × drawing users",
            )
    heading("LinUCB over shufflers, 10⁵ users, d = 10, 20 actions (aim: 10 × a loop over users)")
    for shufflers in (1, 3, None):
        start = time.perf_counter()
        plan = linear_bandit(USERS, DIMENSION, shufflers, epsilon=1.0)
        planning = time.perf_counter() - start
        low = plan.counter.tree.smallest
        ours, part = blocks("concurrent", shufflers=shufflers), 2 * low
        loop = one_by_one(plan, part) * USERS / part
        line(
            f"{named(shufflers)}, batches from {low:,}",
            f"{planning:.1f} s to plan",
            f"{ours:.2f} s",
            f"{loop / ours:.0f} × faster than a loop",
        )
    heading("Growth with the dimension, growing batches, 10⁵ users, 20 actions: d² statistics a user")
    for dimension in (2, 5, 10, 20):
        plan = growing_bandit(USERS, dimension, epsilon=1.0)
        took = blocks("growing", dimension=dimension)
        drawn = drawing(USERS, dimension)
        line(
            f"d = {dimension}: {plan.moments.dimension} numbers", f"{took:.2f} s", f"{took / drawn:.1f} × drawing users"
        )
    heading("Growth with the actions, growing batches, 10⁵ users, d = 10")
    for actions in (5, 20, 100):
        took, drawn = blocks("growing", actions=actions), drawing(USERS, actions=actions)
        line(f"{actions} actions", f"{took:.2f} s", f"{took / drawn:.1f} × drawing users")
