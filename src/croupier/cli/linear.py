"""`croupier linear`: personalised experiments on simulated users, every model beside the others, and a plan."""

from __future__ import annotations

import argparse
import math
from typing import Any

from croupier.checks import CroupierError, InvalidParameter, ignored, one_of
from croupier.cli.options import WHO, few_enough, leave_out, picture, print_json, typed
from croupier.cli.progress import progress
from croupier.cli.samples_file import ranges
from croupier.cli.tables import STANDARD_ERROR, number, say, spread, table
from croupier.linear.growing import NOISES, TUNED
from croupier.simulation.linear_compare import ENTRIES, GROWING, Entry, Worlds, compare, users_to_gain
from croupier.simulation.linear_data import labelled_world, logged_world
from croupier.simulation.linear_worlds import SPHERE, TABLE, TABLES, LinearWorld, linear_world
from croupier.texts import plural

NAME = "linear"
SUMMARY = "personalise: devices choose by their context; compare all models"
ABOUT = (
    "Runs linear contextual bandits on simulated users and compares their regret in every trust model. A user's "
    "context, action and reward stay on the device; noisy sums are all that anybody sees. With --plan it says from how "
    "many users on personalisation is shown to gain."
)
EXAMPLES = (
    "croupier linear --world sphere --users 20000 --runs 2",
    "croupier linear --data examples/tips.csv --action-column tip \\",
    "  --reward-column finished --users 50000 --control 0.1 --model growing-tuned",
)

CONTROL = 0.1
"""The control share of a plan, unless told."""
PLANNED = 40
"""Runs of a plan at each number of users, unless told more: with ten, trusts changed places by chance."""


def add(command: argparse.ArgumentParser) -> None:
    """The world, the models, the budget."""
    known = ", ".join((SPHERE, *(TABLE + name for name in TABLES)))
    command.add_argument("--world", metavar="NAME", help=f"{known} (default: {SPHERE})")
    command.add_argument("--data", metavar="FILE", help="CSV of users: features that are numbers, and columns below")
    command.add_argument("--action-column", metavar="NAME", help="of a log: the column with the action that was given")
    command.add_argument("--reward-column", metavar="NAME", help="of a log: the column that says how it went, 0 to 1")
    command.add_argument("--label-column", metavar="NAME", help="instead of those two: the column of right answers")
    command.add_argument("--features", metavar="A,B,...", help="columns that describe a user (default: all others)")
    command.add_argument(
        "--range", action="append", default=[], metavar="NAME=LOW:HIGH", help="public range of a feature"
    )
    command.add_argument("--users", type=int, default=100_000, metavar="N", help="users in a run (default: 100,000)")
    command.add_argument(
        "--model", action="append", metavar="NAME", help=f"{', '.join(ENTRIES)}; repeat it (default: all)"
    )
    command.add_argument("--dimension", type=int, default=5, metavar="D", help="numbers of a feature (default: 5)")
    command.add_argument("--actions", type=int, default=20, metavar="K", help="actions of a user (default: 20)")
    command.add_argument("--epsilon", type=float, default=1.0, metavar="E", help="a user's ε (default: 1)")
    command.add_argument("--delta", type=float, default=1e-6, metavar="D", help="its δ (default: 1e-6)")
    command.add_argument(
        "--trust", default="two-servers", metavar="WHO", help=f"{', '.join(NOISES)}: of growing (default: two-servers)"
    )
    command.add_argument(
        "--control", type=float, default=None, metavar="P", help="share of users given the best single action (tables)"
    )
    command.add_argument("--largest", type=int, metavar="N", help="most users of a growing batch (default: any)")
    command.add_argument(
        "--norm", type=float, metavar="S", help="largest norm of a parameter, of growing (default: as rewards allow)"
    )
    command.add_argument("--runs", type=int, default=3, metavar="R", help="how many runs (default: 3)")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="the same seed gives the same result (default: 0)"
    )
    command.add_argument("--plot", type=picture, metavar="FILE", help="write regret over users as a picture")
    command.add_argument("--plan", action="store_true", help="say how many users it takes to show a gain (tables)")


def run(options: argparse.Namespace) -> int:
    """Compare, or plan."""
    one_of("trust", options.trust, tuple(NOISES))
    worlds = worlds_from(options)
    if options.plan:
        leave_out(options, ("users", "model", "plot"), "a plan finds the users of growing-tuned")
        return _plan(worlds(options.seed), options)
    few_enough(options)
    entries = [ENTRIES[one_of("model", name, tuple(ENTRIES))] for name in options.model or ENTRIES]
    _check_read(options, entries)
    control = options.control or 0.0
    if control and worlds(options.seed).single is None:
        raise InvalidParameter("control", control, "left out: on a sphere no single action is the best for everybody")
    with progress("simulating", 1000) as advance:
        found = compare(
            worlds,
            options.users,
            entries=entries,
            runs=options.runs,
            seed=options.seed,
            epsilon=options.epsilon,
            delta=options.delta,
            trust=options.trust,
            control=control,
            largest=options.largest,
            norm=options.norm,
            progress=_thousandths(advance),
        )
    path = None
    if options.plot:
        from croupier.simulation.plots import plot_curves

        title = f"{_named(options)}, {plural(options.users, 'user')}, ε = {options.epsilon:g}"
        path = plot_curves({one.entry.label: one.curve() for one in found}, options.plot, title)
    rows = [one.row() | _budget(one.entry, options) for one in found]
    if options.json:
        print_json(rows)
        return 0
    if path is not None:
        print(f"figure: {path}")
    _show(rows, worlds(options.seed), options)
    return 0


def _check_read(options: argparse.Namespace, entries: list[Entry]) -> None:
    """Refuse what none of these models reads."""
    models = {entry.model for entry in entries}
    unread = [] if "growing" in models else ["trust"]
    unread += [] if models & {*GROWING} else ["control", "largest", "norm"]
    unread += ["epsilon", "delta"] if models == {"linucb"} else []
    for flag, value in typed(options, *unread).items():
        raise ignored(flag, value, [entry.label for entry in entries])


def worlds_from(options: argparse.Namespace) -> Worlds:
    """The world of each run: one and the same table, or a sphere with another hidden parameter each time."""
    if options.data is None:
        columns = ("action_column", "reward_column", "label_column", "features", "range")
        leave_out(options, columns, "there are no columns without --data")
        text = options.world or SPHERE
        if text == SPHERE:
            size = {"dimension": options.dimension, "actions": options.actions}
            return lambda seed: linear_world(text, seed=seed, **size)
        leave_out(options, ("dimension", "actions"), f"they are those of {text}")
        named = linear_world(text, dimension=options.dimension, actions=options.actions, seed=options.seed)
        return lambda seed: named
    leave_out(options, ("world", "dimension", "actions"), "the world is a file")
    wanted = None if options.features is None else options.features.split(",")
    given = {text.rpartition("=")[0]: text for text in options.range}
    own = {name: tuple(ranges([text], [name], 0.0, 1.0)[0].tolist()) for name, text in given.items()}
    more: dict[str, Any] = {"features": wanted, "ranges": own}
    if options.label_column is not None:
        if options.action_column is not None or options.reward_column is not None:
            raise CroupierError("only one of --label-column and --action-column with --reward-column may be given")
        made = labelled_world(options.data, label=options.label_column, **more)
    elif options.action_column is None or options.reward_column is None:
        raise InvalidParameter("action_column", options.action_column, "given with --reward-column, or --label-column")
    else:
        made = logged_world(options.data, action=options.action_column, reward=options.reward_column, **more)
    return lambda seed: made


def _named(options: argparse.Namespace) -> str:
    return str(options.data or options.world or SPHERE)


def _thousandths(advance: Any) -> Any:
    """Progress in shares as whole thousandths."""
    done = [0.0, 0]

    def tell(share: float) -> None:
        done[0] += share
        step = round(1000 * done[0]) - int(done[1])
        done[1] += step
        advance(step)

    return tell


def _show(rows: list[dict[str, Any]], world: LinearWorld, options: argparse.Namespace) -> None:
    gains, known = any("gain" in row for row in rows), any(row["held"] is not None for row in rows)
    headings = ["model", "trust", "mean regret", "±", "worst run", "reward a user"]
    headings += ["exponent", "θ* held"] if known else ["gain (95 %)"] if gains else ["exponent"]
    table(
        headings,
        [
            [
                row["model"] + ("" if row["proven"] else " †"),
                row["trust"],
                number(row["regret_mean"]),
                "-" if row["runs"] == 1 else spread(row["regret_sem"], row["regret_mean"]),
                number(row["regret_max"]),
                f"{row['reward_mean']:.4f}",
                *([_gain(row)] if gains else [f"{row['exponent']:.2f}" + (" ‡" if row["before_learning"] else "")]),
                *([f"{100 * row['held']:.0f} %"] if known else []),
            ]
            for row in rows
        ],
        right=set(range(2, len(headings))),
        title=f"{_named(options)}, {plural(options.users, 'user')}, {plural(options.runs, 'run')}, "
        f"ε = {options.epsilon:g}, δ = {number(options.delta)}, seed {options.seed}",
        notes=_notes(rows, world, options),
    )


def _budget(entry: Entry, options: argparse.Namespace) -> dict[str, Any]:
    """Whom a row trusts, with what budget; without privacy there is none."""
    trust = str(options.trust) if entry.trust == "as asked" else entry.trust
    private = trust != "none"
    return {
        "trust": trust,
        "epsilon": options.epsilon if private else None,
        "delta": options.delta if private else None,
    }


def _gain(row: dict[str, Any]) -> str:
    if "gain" not in row:
        return "-"
    return f"{row['gain']:+.3f} ± {(row['gain_upper'] - row['gain_lower']) / 2:.3f}"


def _notes(rows: list[dict[str, Any]], world: LinearWorld, options: argparse.Namespace) -> list[str]:
    notes = [STANDARD_ERROR, f"Trust {options.trust}: {WHO[options.trust]}."]
    cited = [f"{row['model']} {ENTRIES[row['model']].paper}" for row in rows if ENTRIES[row["model"]].paper]
    notes += [f"References: {', '.join(cited)}."] if cited else []
    if not all(row["proven"] for row in rows):
        notes.append(f"† Exploration {TUNED:g} instead of 1, tuned on instances since discarded: no guarantee.")
    if any(row["before_learning"] for row in rows) and not any("gain" in row for row in rows):
        notes.append("‡ Fitted before learning begins: every interval is wider than all rewards most of the time.")
    if world.single is not None:
        notes += _prospects(world)
        notes += [_verdict(row) for row in rows if "gain" in row]
    return notes


def _prospects(world: LinearWorld) -> list[str]:
    """What there is to gain."""
    name = world.names[world.single or 0]
    single = f"Best for everybody: {name}, which earns {world.single_mean:.3f} a user."
    gain = world.linear_mean - world.single_mean
    if gain < 1e-9:
        return [f"{single} No linear rule earns more, so there is nothing to gain by personalisation."]
    return [f"{single} A linear rule by least squares on all means earns {world.linear_mean:.3f}: {gain:+.3f}."]


def _verdict(row: dict[str, Any]) -> str:
    shown, runs = round(row["gain_shown"] * row["runs"]), row["runs"]
    word = "shown" if 2 * shown > runs else "not shown"
    return f"{row['model']}: a gain over the best single action is {word} in {shown} of {plural(runs, 'run')}."


def _plan(world: LinearWorld, options: argparse.Namespace) -> int:
    if world.single is None:
        raise InvalidParameter("plan", True, "left out on a sphere: there no single action is the best for everybody")
    control = CONTROL if options.control is None else options.control
    trusts = list(dict.fromkeys((options.trust, "devices")))
    rows = []
    with progress("planning", 1000) as advance:
        for trust in trusts:
            need = users_to_gain(
                world,
                epsilon=options.epsilon,
                delta=options.delta,
                trust=trust,
                control=control,
                runs=max(options.runs, PLANNED),
                seed=options.seed,
                largest=options.largest,
                norm=options.norm,
                progress=_thousandths(lambda step: advance(step // len(trusts))),
            )
            tried = [{"users": users, "shown": shown} for users, shown in need.tried]
            rows.append({"trust": trust, "epsilon": options.epsilon, "control": control, "users": need.users})
            rows[-1] |= {"shown": need.shown, "gain": need.gain, "tried": tried}
    if options.json:
        print_json(rows)
        return 0
    table(
        ["trust", "ε", "users needed", "gain then"],
        [
            [
                row["trust"],
                number(options.epsilon),
                "more than was tried" if row["users"] == math.inf else f"{row['users']:,.0f}",
                "-" if math.isnan(row["gain"]) else f"{row['gain']:+.3f} a user",
            ]
            for row in rows
        ],
        right={1, 2, 3},
        title=f"Users until a gain over the best single action is shown: {_named(options)}",
        notes=[
            f"In doublings, by {max(options.runs, PLANNED)} simulated experiments each, of which 90 % must show it "
            f"(95 % interval, at any look). A share of {control:g} is given the best single action. "
            f"Exploration {TUNED:g}, no guarantee.",
            *_prospects(world),
        ],
    )
    if world.linear_mean - world.single_mean < 1e-9:
        say("Personalisation gains nothing here.")
    return 0
