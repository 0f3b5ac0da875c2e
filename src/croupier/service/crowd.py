"""A simulated population: every user is a real client over HTTP, and some never report, report late, or lie."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from croupier.checks import CroupierError, InvalidParameter, between, integer
from croupier.client import AsyncClient, Joined, Limits, Refused, Turn, Unreachable, token_request
from croupier.client.exchange import LONGEST_STATE, UNCOMPRESSED, Unfit, read
from croupier.client.steps import Unusable
from croupier.protocols.histograms.universe import universe_from_dict
from croupier.service import keys
from croupier.service.crowd_people import people
from croupier.service.crowd_wire import CrowdWire
from croupier.service.tickets import issue

if TYPE_CHECKING:
    import httpx2

OVER = ("experiment-finished",)
UNSENT = "not-sent"
"""What became of those for whom the experiment had ended before they came."""
PATIENCE = 60.0
ADDED = 0.5
"""What an arm is worth to a crowd that came before it was added."""
USUAL = 0.2
"""What a metric beside the primary one is, unless the crowd says otherwise: the same with every arm."""
TICKET_SECONDS = 120
MOST_ITEMS = 1000
"""So many items of a histogram have simulated holders."""

GENEROUS = Limits(
    epsilon=500.0,
    delta=0.5,
    users=2,
    honest_fraction=1.0,
    epsilon_per_period=1e6,
    delta_per_period=0.99,
    front_noise=False,
    shared_keys=True,
    plain_http=True,
)
"""Simulated users refuse nothing that a real experiment may ask."""


@dataclass(frozen=True)
class Crowd:
    """Who they are: what each arm is worth to them, and how many behave how.

    `silent` take a turn and never report; `late` report only after `late_seconds`; `lying` report the opposite.
    `issuer` is the directory of the issuer's keys, where a front admits only holders of a ticket or token.
    """

    analyzer: str
    experiment: str
    users: int
    means: tuple[float, ...]
    silent: float = 0.0
    late: float = 0.0
    lying: float = 0.0
    late_seconds: float = 2.0
    at_once: int = 32
    seed: int = 0
    issuer: str = ""
    data: str = ""
    """A table of who they are, where devices choose by themselves; see `croupier.service.crowd_people`."""
    beside: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """What the other metrics' means are with each arm, on the scale from 0 to 1, where a report has several."""
    keys: Mapping[str, bytes | str] | None = None
    """Both servers' signing keys, as an app pins them: where one of two servers must be honest nobody goes without."""

    def __post_init__(self) -> None:
        integer("users", self.users, 1)
        integer("at_once", self.at_once, 1, 10_000)
        integer("seed", self.seed, 0)
        between("late_seconds", self.late_seconds, 0, 86_400, "[]")
        for name in ("silent", "late", "lying"):
            between(name, getattr(self, name), 0, 1, "[]")
        if self.silent + self.late + self.lying > 1:
            raise InvalidParameter("silent", self.silent, "such that silent, late and lying users are not over all")
        for mean in (*self.means, *(mean for _, means in self.beside for mean in means)):
            between("mean", mean, 0, 1, "[]")


def run(crowd: Crowd, processes: int = 1, progress: Callable[[int], None] | None = None) -> dict[str, int]:
    """Let all users take their turn; returns how many ended how."""
    if integer("processes", processes, 1, 256) == 1:
        return dict(asyncio.run(_play(crowd, progress)))
    parts = [
        replace(crowd, users=len(range(i, crowd.users, processes)), seed=crowd.seed * 1000 + i)
        for i in range(processes)
        if range(i, crowd.users, processes)
    ]
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(len(parts), mp_context=get_context("spawn")) as pool:
        for outcomes in pool.map(run, parts):
            total.update(outcomes)
            if progress is not None:
                progress(sum(outcomes.values()))
    return dict(total)


async def _play(crowd: Crowd, progress: Callable[[int], None] | None) -> Counter[str]:
    rng = random.Random(crowd.seed)
    outcomes: Counter[str] = Counter()
    left = crowd.users
    over = asyncio.Event()
    late: set[asyncio.Task[None]] = set()
    async with CrowdWire() as http:
        # All devices are the same here, so what the first one checked of the experiment is shared.
        first = AsyncClient(crowd.analyzer, http=http, limits=GENEROUS, keys=crowd.keys)
        joined = await first.join(crowd.experiment)
        arms = len(joined.configuration.arms)
        personal = joined.configuration.personal
        if arms and not personal and arms != len(crowd.means):
            raise InvalidParameter("means", crowd.means, f"{arms} of them, one an arm")

        if crowd.data and not personal:
            raise InvalidParameter("data", crowd.data, f"left out: nobody chooses in {crowd.experiment}")
        comes = people(joined.configuration, crowd.data) if personal else None
        for name, means in crowd.beside:
            known = [one["name"] for one in joined.configuration.recipe.get("sums", ())][1:]
            if name not in known:
                allowed = f"one of {', '.join(known)}" if known else f"left out: {crowd.experiment} has one metric"
                raise InvalidParameter("metric", name, allowed)
            if len(means) != arms:
                raise InvalidParameter(f"metric {name}", list(means), f"{arms} means, one an arm")
        items = _items(joined)
        admitted = _issuer(crowd.issuer, joined)

        async def take_turn() -> None:
            client = AsyncClient(crowd.analyzer, http=http, limits=GENEROUS, background=False, keys=first.device.keys)
            client.device.joined = {crowd.experiment: joined}
            client.device.account.trusted = dict(first.device.account.trusted)
            client.device.rules = first.device.rules
            kind = rng.random()
            context, worth = (None, crowd.means) if comes is None else comes(rng)
            try:
                steps = client.device.play(crowd.experiment, PATIENCE, admitted(), sticky=False, context=context)
                turn: Turn = await client._run(steps)
                first.device.rules = client.device.rules
            except Refused as refusal:
                outcomes[refusal.problem] += 1
                if refusal.problem in OVER:
                    over.set()
                return
            arm = turn.arm or 0
            mean = worth[arm] if arm < len(worth) else ADDED
            others = {name: means[arm] if arm < len(means) else USUAL for name, means in crowd.beside}
            reward, opposite = _outcomes(joined, items, mean, others, rng)
            if kind < crowd.silent:
                outcomes["silent"] += 1
                return
            if kind < crowd.silent + crowd.late:
                task = asyncio.create_task(delayed(client, turn, reward))
                late.add(task)
                task.add_done_callback(late.discard)
                return
            if kind < crowd.silent + crowd.late + crowd.lying:
                reward = opposite
            await reported(client, turn, reward)

        async def reported(client: AsyncClient, turn: Turn, reward: object) -> None:
            try:
                await client._run(client.device.send_now(turn, reward))
                outcomes["accepted"] += 1
            except Refused as refusal:
                outcomes[refusal.problem] += 1

        async def delayed(client: AsyncClient, turn: Turn, reward: object) -> None:
            await asyncio.sleep(crowd.late_seconds)
            await reported(client, turn, reward)

        async def worker() -> None:
            nonlocal left
            while left > 0 and not over.is_set():
                left -= 1
                try:
                    await take_turn()
                except Unreachable:
                    outcomes["unreachable"] += 1
                if progress is not None:
                    progress(1)

        await asyncio.gather(*(worker() for _ in range(min(crowd.at_once, crowd.users))))
        if left > 0:
            outcomes[UNSENT] += left
        if late:
            await asyncio.gather(*late)
    return outcomes


def _issuer(directory: str, joined: Joined) -> Callable[[], bytes | None]:
    """What gives each user something to show, as the experiment admits them."""
    kind = joined.configuration.admission.kind
    if not directory or kind not in ISSUERS:
        return lambda: None
    return ISSUERS[kind](Path(directory), joined)


def _tickets(directory: Path, joined: Joined) -> Callable[[], bytes]:
    key = keys.load(directory).sign
    return lambda: issue(key, joined.name, int(time.time()) + TICKET_SECONDS)


def _tokens(directory: Path, joined: Joined) -> Callable[[], bytes]:
    issuer = keys.token_issuer(directory)

    def token() -> bytes:
        asked = token_request(joined)
        return asked.finish(issuer.answer(asked.body))

    return token


ISSUERS: dict[str, Callable[[Path, Joined], Callable[[], bytes]]] = {"tickets": _tickets, "tokens": _tokens}
"""How a crowd's users come by what they show."""


def _items(joined: Joined) -> Sequence[object]:
    """What users of a histogram hold: the items, the candidates for buckets, or the first numbers."""
    if "universe" not in joined.configuration.recipe:
        return ()
    return universe_from_dict(joined.configuration.recipe["universe"]).some(MOST_ITEMS)


def _outcomes(
    joined: Joined, items: Sequence[object], mean: float, others: dict[str, float], rng: random.Random
) -> tuple[object, object]:
    """What came of a turn, and what a liar makes of it: one number, or one for each metric."""
    if items:
        # A few items are held by many, many by few: item k with a chance in proportion to 1/k.
        held = rng.choices(range(len(items)), [1.0 / (place + 1) for place in range(len(items))])[0]
        return items[held], items[-1 - held]
    recipe = joined.configuration.recipe
    if "sums" not in recipe:
        values = joined.configuration.program["reward"] if joined.configuration.personal else recipe["values"]
        return _ends(values, mean, rng)
    truth, lie = {}, {}
    for place, one in enumerate(recipe["sums"]):
        level = others.get(one["name"], USUAL) if place else mean
        truth[one["name"]], lie[one["name"]] = _ends(one["values"], level, rng)
    return truth, lie


def _ends(values: dict[str, Any], mean: float, rng: random.Random) -> tuple[float, float]:
    low, high = float(values["low"]), float(values["high"])
    return (high, low) if rng.random() < mean else (low, high)


def experiments(analyzer: str, token: str = "") -> list[dict[str, Any]]:
    """An analyzer's experiments, in short; private ones to who shows an operator's token."""
    with _asking(token) as http:
        body = _asked(http, analyzer, "/experiments")
    if body is None or not isinstance(body.get("experiments"), list):
        raise CroupierError(f"{analyzer} is no analyzer: it has no list of experiments")
    listed: list[dict[str, Any]] = body["experiments"]
    return listed


def wait_finished(analyzer: str, experiment: str, seconds: float, token: str = "") -> dict[str, Any]:
    """Wait until the experiment has ended or the time is over, and return its state."""
    end = time.monotonic() + seconds
    with _asking(token) as http:
        while True:
            state = _asked(http, analyzer, f"/experiments/{quote(experiment, safe='')}/state")
            if state is None:
                known = ", ".join(entry["name"] for entry in experiments(analyzer, token)) or "none"
                raise CroupierError(f"the analyzer at {analyzer} has no experiment {experiment!r}; it has: {known}")
            if state["finished"] or time.monotonic() > end:
                return state
            time.sleep(0.2)


def _asking(token: str) -> httpx2.Client:
    """Whoever asks again and again reads the certificates once: that takes longer than to ask."""
    import httpx2

    return httpx2.Client(timeout=30.0, headers={"authorization": f"Bearer {token}"} if token else {})


def _asked(http: httpx2.Client, analyzer: str, path: str) -> dict[str, Any] | None:
    """What the analyzer answers; None where there is nothing, and one line about any other trouble."""
    import httpx2

    try:
        answer = read(http, LONGEST_STATE, method="GET", url=analyzer + path, headers=UNCOMPRESSED)
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise CroupierError(f"the analyzer at {analyzer} shows this to operators alone: it needs a token")
        if answer.status != 200:
            raise CroupierError(f"the analyzer at {analyzer} answers {answer.status}")
        return answer.json()
    except Unfit as error:
        raise CroupierError(f"the analyzer at {analyzer}: {error}") from None
    except Unusable:
        raise CroupierError(f"{analyzer} is no analyzer: its answer is no JSON") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise CroupierError(f"the analyzer at {analyzer} does not answer: {why}") from None
