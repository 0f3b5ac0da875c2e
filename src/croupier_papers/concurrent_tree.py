"""Who is in which batch, and when: the trees of [TKMS23] as its server really opens and closes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.continual import Counter, CounterPlan, counter
from croupier_papers.experiment import Body, Figure, Task
from croupier_papers.style import explain, sheet

SUMMED, OPEN, OTHER = "#1F5A8A", "#F2C48D", "#DCE6EE"
"""Dark, middle and light: told apart in grey too."""


@dataclass(frozen=True)
class Setting:
    """Few users, and the moment that is looked at."""

    users: int = 54
    moment: int = 47
    shufflers: tuple[int | None, ...] = (1, 2, 3, None)
    epsilon: float = 0.9

    def plan(self, shufflers: int | None) -> CounterPlan:
        budget: dict[str, Any] = {"epsilon": self.epsilon, "constants": "published", "over": "shuffled-bits"}
        return counter(self.users, shufflers, binary=True, **budget)


def compute(setting: Setting, task: Task) -> Body:
    """Every batch of every tree, and what the server knows at one moment."""
    trees = {}
    for shufflers in setting.shufflers:
        plan = setting.plan(shufflers)
        found = batches(plan)
        summed = estimate_of(found, setting.moment)
        trees["binary tree" if shufflers is None else f"k = {shufflers}"] = {
            "shufflers": plan.shufflers,
            "sizes": list(plan.tree.sizes),
            "batches": found,
            "summed": summed,
            "open": [batch for batch in found if batch["first"] <= setting.moment < batch["last"]],
            "waiting": setting.moment - max((found[number]["last"] for number in summed), default=0),
        }
        task.progress(1.0 / len(setting.shufflers))
    configuration = {
        "users": setting.users,
        "moment": setting.moment,
        "batches": "in the order in which they are opened; a batch that cannot fill any more is never opened",
        "summed": "numbers of the batches that make up the sum so far ([TKMS23] Definition 3.1)",
        "waiting": "users who are not in that sum yet",
    }
    return {"configuration": configuration, "results": trees}


def batches(plan: CounterPlan) -> list[Body]:
    """First and last user and shuffler of every batch, as the server opens them, users coming one by one."""
    server = Counter(plan)
    seen: dict[int, Body] = {}
    for user in range(1, plan.users + 1):
        for batch in server.open:
            mine = seen.setdefault(batch.number, {"shuffler": batch.shuffler + 1, "first": user})
            mine["last"] = user
        if not server.open:
            break
        server.arrive(1)
        for batch in list(server.shufflers.full):
            server.release(batch.number, 0)
    return [seen[number] for number in sorted(seen)]


def estimate_of(found: list[Body], moment: int) -> list[int]:
    """Which batches make up the sum: finished, and inside no larger finished one ([TKMS23] Definition 3.1)."""
    finished = [number for number, batch in enumerate(found) if batch["last"] <= moment]
    return [
        number
        for number in finished
        if not any(
            found[other]["first"] <= found[number]["first"]
            and found[number]["last"] <= found[other]["last"]
            and found[other]["shuffler"] > found[number]["shuffler"]
            for other in finished
        )
    ]


def draw(body: Body) -> Any:
    """A panel for each tree: users from left to right, a row for each shuffler, a bar for each batch."""
    from matplotlib.patches import Patch

    setup, trees = body["configuration"], body["results"]
    title = f"Who is in which batch when: {setup['users']} users, after user {setup['moment']}"
    heights = [0.9 + tree["shufflers"] for tree in trees.values()]
    size = {"width": 7.6, "height": 0.36 * sum(heights), "strip": 0.75}
    figure, axes, strip = sheet(1, title=title, share_y=False, rows=heights, **size)
    for panel, (label, tree) in zip(axes, trees.items(), strict=True):
        opened = [(batch["first"], batch["shuffler"]) for batch in tree["open"]]
        for number, batch in enumerate(tree["batches"]):
            active = (batch["first"], batch["shuffler"]) in opened
            colour = SUMMED if number in tree["summed"] else OPEN if active else OTHER
            length = batch["last"] - batch["first"] + 1
            panel.barh(
                batch["shuffler"],
                length,
                left=batch["first"] - 0.5,
                height=0.72,
                color=colour,
                edgecolor="white",
                hatch="////" if active else None,
                linewidth=1.0,
            )
            if length >= 4:
                # The line of the moment goes through open batches: their words stand left of it.
                end = setup["moment"] if active else batch["last"]
                middle = (batch["first"] + end) / 2
                ink = "white" if colour == SUMMED else "black"
                words = f"{batch['first']}–{batch['last']}"
                panel.text(middle, batch["shuffler"], words, ha="center", va="center", fontsize=6, color=ink)
        panel.axvline(setup["moment"] + 0.5, color="black", linewidth=1.0)
        noises, waiting = len(tree["summed"]), tree["waiting"]
        late = f"{waiting} user{'s' if waiting != 1 else ''} not in it yet"
        panel.set_title(f"{label}: the sum is made of {noises} batches, {late}", fontsize=8.5, loc="left")
        panel.set_yticks(range(1, tree["shufflers"] + 1))
        panel.set(xlim=(0.3, setup["users"] + 0.7), ylim=(0.4, tree["shufflers"] + 0.6))
        panel.grid(visible=False)
        panel.set_xticks([1, *range(6, setup["users"] + 1, 6)])
        panel.tick_params(labelbottom=panel is axes[-1], length=2)
        panel.set_ylabel("shuffler", fontsize=7.5)
    axes[-1].set_xlabel("users, in the order in which they come", fontsize=9)
    handles = [
        Patch(facecolor=SUMMED, edgecolor="white", label="in the sum now"),
        Patch(facecolor=OPEN, edgecolor="white", hatch="////", label="open: the next user joins it"),
        Patch(facecolor=OTHER, edgecolor="white", label="another: replaced by a larger one, or still to come"),
    ]
    caption = (
        "Every user is in one batch of each shuffler, unless it could not fill before the end, and pays for all. "
        "More shufflers: fewer noises in the sum, fewer users waiting, but less budget for each batch."
    )
    explain(strip, handles, caption, columns=3)
    return figure


def table(body: Body) -> tuple[list[str], list[list[str]]]:
    """The trees in numbers."""
    rows = []
    for label, tree in body["results"].items():
        counts = (len(tree["batches"]), len(tree["summed"]), tree["waiting"])
        rows.append([label, ", ".join(map(str, tree["sizes"])), *map(str, counts)])
    return ["tree", "batch sizes", "batches", "in the sum", "users waiting"], rows


FIGURES = (
    Figure(
        "tkms23-tree",
        "after [TKMS23] Fig. 2",
        "the trees of 1, 2, 3 shufflers and the binary tree: who is in which batch when",
        1,
        Setting(),
        Setting(),
        compute,
        draw,
        table,
    ),
)
