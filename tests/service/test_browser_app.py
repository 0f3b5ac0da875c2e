"""The browser's client as an app uses it: turns that are kept and reported when they are due, whatever came of them."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cases import vector_reports as making
from cases import vector_shares
from cases.service.browser_pages import CLIENT, SEEDED, Asked, browsing
from cases.service.staged import stage, value_of
from croupier.messages.configuration import Configuration, Reports
from croupier.messages.offer import Batch, Offer
from croupier.messages.signing import from_text
from croupier.protocols import laplace
from croupier.service.experiment import read_plan

pytestmark = pytest.mark.slow

WINDOW = (600, 7_200)


@pytest.fixture(scope="module")
def browsed(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser-app") / "site") as found:
        yield found


@pytest.fixture(scope="module")
def context(browsed):
    return browsed[0]


@pytest.fixture(scope="module")
def origin(browsed):
    return browsed[1]


@pytest.fixture(scope="module")
def ask(context, origin):
    return Asked(context, origin)


@pytest.mark.parametrize(
    ("outcomes", "recorded", "value"),
    [
        ([], [], 0),
        ([(0, 1)], [True], 1),
        ([(0, 0)], [True], 0),
        ([(0, True)], [True], 1),
        ([(0, 1), (1, 0), (2, 1)], [True] * 3, 1),
        ([(39, 1)], [False], 0),
    ],
)
def test_a_report_is_sent_once_at_its_moment_whatever_came_of_the_turn(outcomes, recorded, value, ask):
    given = stage()
    found = ask("life", given | {"outcomes": outcomes})
    low, high = WINDOW
    assert low <= found["at"] <= high
    # The clock moves in steps of 200 seconds.
    due = -(-found["at"] // 200) * 200
    sent = [["GET", "configuration", 0], ["POST", "assignments", 0], ["POST", "reports", pytest.approx(due, abs=1e-3)]]
    assert found["requests"] == sent
    assert found["lengths"] == [2 * 294]
    assert found["recorded"] == recorded
    assert (found["left"]["taken"], found["left"]["pending"], found["left"]["left"]) == (0, 0, 3.0)
    assert value_of(given, found["uploads"][0]) == (found["id"], [value])


def seen_of(context, origin, given, outcomes):
    """What anybody sees of a page with a chance of its own, which is the same each time; when its report is due."""
    seeded = context.browser.new_context()
    seeded.add_init_script(SEEDED)
    found = Asked(seeded, origin)("life", given | {"outcomes": outcomes})
    seeded.close()
    return [found[name] for name in ("requests", "lengths", "at", "left")]


OUTCOMES = [[], [(0, 0)], [(0, 1)], [(1, 1), (2, 0), (2, 1)], [(step, step % 2) for step in range(40)]]


def test_when_and_whether_a_report_is_sent_is_the_same_for_every_outcome(context, origin):
    """With the same chance: all requests, at all times, with all lengths, whatever is recorded, how often and when."""
    given = stage() | {"failures": 2, "steps": 60}
    seen = [seen_of(context, origin, given, outcomes) for outcomes in OUTCOMES]
    assert seen == [seen[0]] * len(OUTCOMES)
    # Twice without an answer, then with one.
    assert [what for _, what, _ in seen[0][0]] == ["configuration", "assignments", *["reports"] * 3]


@pytest.mark.parametrize("outcomes", [OUTCOMES[::2], pytest.param(OUTCOMES, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(("opened", "sent"), [(50, 1), (431, 1), (433, 0)])
def test_so_it_is_where_the_page_is_closed_when_the_report_is_due(context, origin, opened, sent, outcomes):
    """It goes when the page is opened again, or never: after a day nobody wants it. Steps are of 200 seconds."""
    given = stage() | {"steps": 440, "closed": [3, opened], "kept": f"closed until {opened}"}
    seen = [seen_of(context, origin, given, one) for one in outcomes]
    assert seen == [seen[0]] * len(outcomes)
    requests, _, due, _ = seen[0]
    assert 3 * 200 <= due <= 36 * 200
    assert [at for _, what, at in requests if what == "reports"] == [pytest.approx(200 * opened, abs=1e-3)] * sent


def test_a_device_of_which_one_report_is_taken_takes_one_turn(ask):
    retired = stage("laplace-block", revision=1, retired=(0,))
    found = ask("once", stage("laplace-block") | {"retired": retired})
    assert (found["second"], found["after"]) == ("reported", "reported")
    assert found["again"]
    assert found["shown"] == ["green", True, "reported"]
    assert (found["assignments"], found["uploads"]) == (1, 1)


def test_everybody_is_shown_the_arm_that_an_experiment_has_ended_with(ask):
    found = ask("ended", stage(revision=1, chosen=1) | {"before": stage()})
    assert found["first"] == "red"
    assert found["shown"] == [[True, "green", False]] * 2
    assert found["assignments"] == 0


def test_names_that_nobody_knows_are_said_on_the_console_once(ask):
    assert ask("misspelt", stage()) == [
        "croupier: default: “rde” is no arm of colours, which has red, green",
        "croupier: https://analyzer.example knows no experiment called “colors”",
    ]


def test_calls_at_the_same_time_are_one_user_with_one_turn(ask):
    found = ask("atOnce", stage())
    assert (found["ids"], found["taken"], found["left"]) == (1, 1, 3.0)


@pytest.mark.parametrize("name", ["histogram", "histogram-proved"])
def test_an_item_is_reported_in_shares_and_the_default_where_nobody_chose_one(name, ask):
    given = stage(name)
    for outcomes, counts in (([(0, "green")], [0, 1, 0]), ([], [1, 0, 0])):
        found = ask("life", given | {"outcomes": outcomes})
        assert value_of(given, found["uploads"][0]) == (found["id"], counts)


@pytest.mark.parametrize("name", ["laplace-range", "number-proved"])
def test_a_number_is_reported_in_shares_with_and_without_a_proof(name, ask):
    given = stage(name)
    for outcomes, wanted in (([(0, 3)], {127}), ([(0, -1)], {0}), ([(0, 0.3)], {41, 42})):
        found = ask("life", given | {"outcomes": outcomes})
        report, (number,) = value_of(given, found["uploads"][0])
        assert (report, number in wanted) == (found["id"], True)


@pytest.mark.parametrize("name", ["vectors", "vectors-proved"])
def test_a_users_vector_is_reported_in_shares_and_the_default_where_nothing_came(name, ask):
    given, moments = stage(name), vector_shares.MOMENTS
    for outcomes, vector in (([(0, vector_shares.VECTOR)], vector_shares.VECTOR), ([], moments.extremes[0])):
        found = ask("life", given | {"outcomes": outcomes, "kept": f"{name} {len(outcomes)}"})
        report, numbers = value_of(given, found["uploads"][0])
        assert report == found["id"]
        assert np.abs(np.array(numbers) - (np.array(vector) + 1) * 512).max() < 1
    far = [0.9] * moments.dimension
    assert ask("unreportable", given | {"outcomes": [far, far[1:], 1, None, "x"]}) == ["RangeError"] * 5


@pytest.mark.parametrize("name", ["several", "several-proved"])
def test_several_metrics_are_reported_by_name_and_the_default_where_nothing_came(name, ask):
    given, whole = stage(name), vector_shares.REPORTED
    for outcomes, wanted in (([(0, whole)], [127, 50.8, 28.106]), ([], [0, 0, 0])):
        found = ask("life", given | {"outcomes": outcomes, "kept": f"{name} {len(outcomes)}"})
        report, numbers = value_of(given, found["uploads"][0])
        assert report == found["id"]
        assert np.abs(np.array(numbers) - np.array(wanted)).max() < 1
    fewer = {key: whole[key] for key in ("finished", "crashes")}
    bad = [1, None, [1, 2, 3], "x", fewer, whole | {"clicks": 1}, whole | {"minutes": 61}, whole | {"finished": 0.5}]
    assert ask("unreportable", given | {"outcomes": bad}) == ["RangeError"] * len(bad)


def test_moments_are_uniform_in_the_window_that_was_signed(ask):
    """Kolmogorov-Smirnov over 300 turns, at a level of 1e-9."""
    found = np.array(ask("moments", stage() | {"turns": 300}))
    low, high = WINDOW
    assert stats.kstest((found - low) / (high - low), "uniform").pvalue > 1e-9


def test_without_pinned_keys_or_servers_there_is_the_default_and_one_error_to_catch(ask):
    found = ask("instead", stage())
    assert found["unpinned"] == "not-pinned"
    default = {"armName": "red", "arm": None, "isDefault": True, "why": "no-answer", "id": ""}
    assert found["unpinnedDefault"] == {"armName": "green", "arm": 1, "isDefault": True, "why": "not-pinned", "id": ""}
    assert (found["configuration"], found["configurationDefault"]) == ("no-answer", default)
    assert (found["assignments"], found["assignmentsDefault"]) == ("no-answer", default | {"arm": 0})
    assert found["configurationReported"] is found["assignmentsReported"] is False
    assert found["errors"] == [True, True]


def test_a_turn_that_comes_too_late_is_not_kept_and_not_reported(ask):
    found = ask("late", stage())
    assert (found["why"], found["armName"]) == ("timed-out", "red")
    assert found["waited"] < 280
    assert (found["taken"], found["pending"], found["seen"], found["left"]) == (0, 0, 0, 4.0)
    # Where only the disk was too slow, it was paid for; even then it is forgotten.
    slow = ask("lateDisk", stage())
    assert (slow["why"], slow["taken"], slow["pending"], slow["seen"]) == ("timed-out", 0, 0, 0)


def test_a_user_who_returns_sees_the_same_arm_until_it_is_retired(ask):
    found = ask("returns", stage() | {"retired": stage(revision=1, retired=(0,))})
    assert found.pop("assignments") == 2
    assert all(found.values()), found


def test_a_turn_is_taken_up_by_another_page_that_is_opened_later(context, origin):
    given = stage()
    taken = Asked(context, origin)("takeTurn", given)
    found = Asked(context, origin)("takeUp", given | taken | {"value": 1})
    assert found["known"] == [taken["id"]]
    assert found["recorded"] is True
    assert found["unsent"] == [0, pytest.approx(1, abs=1e-3)]
    assert (found["gone"], found["lateRecord"]) == (None, False)
    (upload,) = found["uploads"]
    assert value_of(given, upload) == (from_text("id", taken["id"]).hex(), [1])


def test_tabs_that_seal_one_turn_at_once_send_one_report_with_what_was_recorded_last(ask):
    given = stage()
    for first, then in ((0, 1), (1, 0)):
        found = ask("bothSeal", given | {"first": first, "then": then})
        (upload,) = found["uploads"]
        assert value_of(given, upload)[1] == [then]
        assert (found["left"]["taken"], found["left"]["pending"]) == (0, 0)


def test_a_report_without_an_answer_is_sent_again_later_and_later(ask):
    found = ask("patient", stage())
    assert found["waits"] == [pytest.approx(wait, abs=1e-3) for wait in (60, 120, 240, 480)]
    assert "no network" in found["trouble"]
    assert (found["due"], found["after"], found["uploads"], found["sent"]) == (None, None, 1, 5)


def test_the_background_sends_when_it_is_due(ask):
    found = ask("background", stage(reports=Reports(86_400, (0.5, 1.0), 0.0)))
    assert found["early"] == 0
    assert 0.5 <= found["at"] <= 1.0
    assert found["at"] - 0.01 <= found["waited"] < found["at"] + 3.0
    assert found["uploads"] == 1


@pytest.mark.parametrize("default", [None, 2.0, "red"])
def test_a_default_that_nobody_can_report_is_refused(default, ask):
    given = stage(reports=Reports(86_400, WINDOW, default)) | {"before": None, "kept": {}}
    mechanism = making.MECHANISMS["shuffled-laplace"][0]
    configuration = making.configuration_of(mechanism, reports=Reports(86_400, WINDOW, default))
    statement = making.signed(configuration.statement())
    offer = Offer("colours", statement.hash, 7, 0, (Batch.of(3, statement.hash, mechanism),))
    given |= {"configuration": statement.to_dict(), "offer": making.signed(offer.statement()).to_dict()}
    found = ask("turn", given)
    assert (found["where"], found["why"]) == ("offer", "not-covered")


def test_windows_that_are_none_and_unknown_trusts_are_refused(ask):
    plain = json.loads(stage()["configuration"]["body"])
    windows = [{"at": [7, 6]}, {"at": [-1, 6]}, {"at": [0, 86_401]}, {"at": [0]}, {"within": 0}, {"more": 1}]
    bodies = [plain | {"reports": plain["reports"] | window} for window in windows]
    bodies += [plain | {"trust": trust} for trust in ("everybody", None)]
    bodies += [plain | {"retired": retired} for retired in ([2], [1, 0], [0, 0], 1)]
    words = ["a\nb", "a\x1b[2K", "a\u202eb", "a" * 1001]
    bodies += [plain | change for word in words for change in ({"title": word}, {"arms": [word, "blue"]})]
    statements = [making.signed(making.Statement.of("configuration", body)).to_dict() for body in bodies]
    assert ask("joins", {"statements": statements}) == ["malformed"] * len(bodies)
    limits = [{"trust": ["shuffler"]}, {"trust": ["two-servers"], "users": 10**6}]
    found = [ask("joins", {"statements": [stage()["configuration"]], "own": own}) for own in limits]
    assert found == [["beyond-limits"], [None]]


def test_no_later_revision_changes_trust_or_reports(ask):
    plain = Configuration.from_text(stage("laplace")["configuration"]["body"])
    assert plain.trust == "two-servers"
    for change in ({"reports": Reports(86_400, (0, 7_200), 0.0)}, {"trust": "devices"}):
        later = replace(plain, revision=1, **change)
        statements = [making.signed(one.statement()).to_dict() for one in (plain, later)]
        limits = {"own": {"frontNoise": False}}
        assert ask("joins", {"statements": statements} | limits) == [None, "broken-promise"]


def test_devices_that_hide_each_other_want_noise_of_a_server(ask):
    mechanism = laplace(epsilon=1.0, binary=True, honest_fraction=0.9).plan(users=40)
    statement = making.signed(making.configuration_of(mechanism).statement()).to_dict()
    assert ask("joins", {"statements": [statement]}) == ["beyond-limits"]
    assert ask("joins", {"statements": [statement], "own": {"frontNoise": False}}) == [None]


def test_the_package_holds_the_client_and_nothing_else():
    if shutil.which("npm") is None:
        pytest.skip("npm is not on this machine, so nothing can be packed")
    done = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--offline"], cwd=CLIENT, capture_output=True, text=True, check=True
    )
    (packed,) = json.loads(done.stdout)
    said = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert (packed["name"], packed["version"]) == (said["name"], said["version"])
    modules = {path.name for path in CLIENT.glob("*.js")}
    assert {file["path"] for file in packed["files"]} == modules | {
        "croupier.d.ts",
        "package.json",
        "README.md",
        "LICENSE",
    }


def test_the_package_needs_nothing_and_exports_what_it_declares(ask):
    said = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert not {key for key in said if "ependencies" in key or key == "scripts"}
    assert said["type"] == "module"
    assert all((CLIENT / path).exists() for path in said["exports"]["."].values())
    declared = (CLIENT / "croupier.d.ts").read_text(encoding="utf-8")
    for name in ask("exported"):
        assert f" {name}" in declared, name
    assert (CLIENT / "LICENSE").read_text() == (Path(__file__).parents[2] / "LICENSE").read_text()


def test_the_demo_page_asks_for_the_experiment_that_lies_beside_it():
    planned = read_plan(str(CLIENT / "demo" / "screens.toml"))
    assert planned.trust == "two-servers"
    assert f'EXPERIMENT = "{planned.name}"' in (CLIENT / "demo" / "settings.js").read_text(encoding="utf-8")
    # People have time to answer.
    assert planned.reports.at[0] >= 30
