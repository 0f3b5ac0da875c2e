"""The pages in a real Chromium, with real servers and real users: what moves, what is drawn, and how it looks."""

import json
import os
import threading
from pathlib import Path

import httpx2
import pytest

from cases.service.browser_world import BOXES, LOWEST_CONTRAST, OUTSIDE, OVERFLOW, VIEWS, Watched, chromium, launched
from cases.service.processes import COUNTER, HISTOGRAM, SELDOM, TIPS, home_of, written
from croupier.cli import main
from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.keys import bearer
from croupier.service.processes import Child, both

pytestmark = pytest.mark.slow

BANDIT = """
name = "{name}"
title = "Which <i>colour</i> do people press?"
arms = ["red", "<b>green</b>", "blue, the name of which is a little longer"]
[program]
policy = "vb-sdp-ae"
horizon = {horizon}
[reports]
report_within = 600
report_at = [0, 0]
[privacy]
epsilon = 8.0
[reward]
protocol = "shuffled-bits"
"""
SCREENS = """
name = "screens"
title = "Which screen do people finish?"
public = false
arms = ["plain", "tour"]
control = "plain"
[program]
policy = "split"
[reports]
report_within = 600
report_at = [0, 0]
validity = "none"
[batches]
deadline = 20
[decision]
smallest_effect = 0.4
minimum_run = 0
"""
# The screens differ by more than the smallest effect: else "no difference" may come first, and be right.
FINISHED = {"colours": (0.0, 0.5, 1.0), "steps": (0.7,), "fruit": (1.0,), "screens": (0.2, 0.9), "tips": (0.5,) * 3}
PAGES = ("/#colours", "/#steps", "/#fruit", "/#screens", "/#tips")
PAGES += ("/participate/colours", "/participate/steps", "/participate/tips")


class World:
    """Both servers, with experiments that have ended, one of them private, and one that waits for users."""

    def __init__(self, directory: Path) -> None:
        self.home = home_of(directory)
        texts = {
            "colours": BANDIT.format(name="colours", horizon=400),
            "steps": COUNTER,
            "fruit": HISTOGRAM,
            "screens": SCREENS,
            "tips": TIPS,
            "waiting": BANDIT.format(name="waiting", horizon=200),
        }
        self.files = [written(directory, text, f"{name}.toml") for name, text in texts.items()]

    @property
    def url(self):
        return self.home.analyzer_url

    def crowd(self, name, users, means):
        """Users in a thread of their own: Playwright has this one's event loop."""
        coming = Crowd(self.url, name, users, means, seed=5, at_once=8, keys=self.home.verify_keys)
        thread = threading.Thread(target=run, args=(coming,))
        thread.start()
        return thread

    @property
    def token(self):
        return bearer(self.home.admin)

    def state(self, name):
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx2.get(f"{self.url}/experiments/{name}/state", headers=headers, timeout=10).json()

    def log_in(self, context):
        """Somebody who has logged in with this browser before."""
        assert context.request.post(f"{self.url}/session", data={"name": "", "secret": self.token}).ok

    def restart_analyzer(self, children):
        command = self.home.command("analyzer", self.files, **SELDOM["analyzer"])
        children["analyzer"] = Child(command, self.url, children["analyzer"].log)
        children["analyzer"].wait_answering(path="/readyz")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    chromium()
    world = World(tmp_path_factory.mktemp("browser"))
    with both(world.home, world.files, **SELDOM) as world.children:
        threads = [world.crowd(name, 1000, means) for name, means in FINISHED.items()]
        for thread in threads:
            thread.join()
        for name in FINISHED:
            assert wait_finished(world.url, name, 30, world.token)["finished"]
        yield world


@pytest.fixture(scope="module")
def browser(world):
    with launched() as browser:
        yield browser


@pytest.fixture
def watched(world, browser):
    """A page in which nothing may go wrong: no error on the console, no failed request, nobody else asked."""
    context = browser.new_context(**VIEWS["light"])
    watched = Watched(context, world.url)
    yield watched
    found = list(watched.wrong)
    context.close()
    assert found == []


def told(watched, state):
    """Give the page this state instead of the analyzer's."""
    stream = {"body": f"retry: 60000\n\ndata: {json.dumps(state)}\n\n", "content_type": "text/event-stream"}
    watched.page.route("**/live", lambda route: route.fulfill(**stream))
    watched.page.goto("about:blank")


def test_reports_batches_and_the_end_appear_while_one_watches(world, watched):
    page = watched.show("/#waiting")
    page.evaluate("window.loadedOnce = true")
    assert watched.text("#status") == "running"
    assert "0 of 200" in watched.text("#part-reports")
    assert "nothing yet: nobody has reported" in watched.text("#part-privacy")
    # Totals are told in steps of 32, and how full a batch is in eighths, and no finer than by eight.
    world.crowd("waiting", 32, (0.5, 0.5, 0.5)).join()
    page.wait_for_selector("#part-reports dd:has-text('32 of 200')")
    filled = page.locator("#part-filling progress").evaluate_all("(all) => all.map((one) => [one.value, one.max])")
    steps = [max(8, -(-most // 8)) for _, most in filled]
    assert 32 - sum(steps) < sum(value for value, _ in filled) <= 32
    assert all(value % step == 0 or value == most for (value, most), step in zip(filled, steps, strict=True))
    assert "is closed" not in watched.text("#part-log")
    assert "nobody has reported" not in watched.text("#part-privacy")
    world.crowd("waiting", 400, (0.5, 0.5, 0.5)).join()
    page.wait_for_selector("#status:has-text('finished')")
    state = world.state("waiting")
    count = state["reports"]
    said = f"{count} of 200" if count <= 200 else f"{count}, planned 200"
    page.wait_for_selector(f"#part-reports dd:has-text('{said}')")
    assert state["accepted"] >= count
    assert watched.text("#part-log").count("is closed") >= 3
    assert state["reports"] == sum(event["users"] for event in state["events"] if event["event"] == "released")
    assert "Reports that count" in watched.text("#part-reports")
    assert f"The experiment has ended, after {state['reports']} reports" in watched.text("#part-log")
    assert "The experiment has ended" in watched.text("#announcement")
    assert page.evaluate("window.loadedOnce")


def test_an_arm_that_is_out_says_since_when_and_text_stays_text(world, watched):
    state = world.state("colours")
    gone = [arm for arm in state["program"]["arms"] if not arm["active"]]
    assert gone
    page = watched.show("/#colours")
    rows = page.locator("#part-program tbody tr")
    for arm in gone:
        assert f"out after {arm['out']['reports']:,} reports in all" in rows.nth(arm["arm"]).inner_text()
        event = next(event for event in state["events"] if event["number"] == arm["out"]["record"])
        assert event["event"] == "released"
        assert event["at"] == arm["out"]["at"]
        assert event["out"].count(arm["arm"]) == 1
        released = [one for one in state["events"] if one["event"] == "released" and one["number"] <= event["number"]]
        assert sum(one["users"] for one in released) == arm["out"]["reports"]
    best = rows.nth(state["program"]["best_arm"]).inner_text()
    assert "★ best" in best
    assert watched.text("h1").startswith("Which <i>colour</i> do people press?")
    assert "<b>green</b>" in rows.nth(1).inner_text()
    assert page.locator("main i").count() == 0


def test_a_long_log_is_cut_until_one_asks_for_all(world, watched):
    page = watched.show("/#steps")
    assert page.locator("#part-log li").count() == 12
    assert "Both servers signed" not in watched.text("#part-log")
    page.locator("#more").press("Enter")
    assert page.locator("#part-log li").count() > 12
    assert "Both servers signed" in watched.text("#part-log")
    assert watched.text("#more") == "Show fewer"


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_can_be_read_in_the_light_in_the_dark_and_on_a_phone(view, world, browser):
    """Contrast of at least 4.5, nothing wider than the window, every mark inside it, dark paper in the dark, and no
    serious barrier by axe-core. An operator looks, who sees more than others do.
    """
    shots = os.environ.get("CROUPIER_SCREENSHOTS")
    context = browser.new_context(**VIEWS[view])
    world.log_in(context)
    watched = Watched(context, world.url)
    for path in PAGES:
        watched.page.goto("about:blank")
        page = watched.show(path)
        for summary in page.locator("summary:visible").all():
            summary.click()
        found = page.evaluate(LOWEST_CONTRAST)
        assert found["seen"] > 20, path
        assert found["ratio"] >= 4.5, (path, found)
        assert (found["paper"] < 0.05) == (view == "dark"), (path, found)
        assert page.evaluate(OVERFLOW) <= 0, path
        marks, outside = page.evaluate(OUTSIDE, ".range, .bar, .curve, .figures > div, table, pre, progress")
        assert marks > 0, path
        assert outside == 0, path
        assert watched.barriers() == [], path
        if shots:
            page.screenshot(path=Path(shots) / f"{path.strip('/#').replace('/', '-')}-{view}.png", full_page=True)
    context.close()
    assert watched.wrong == []


def test_intervals_sums_and_counts_are_drawn_where_the_numbers_say(world, watched):
    page = watched.show("/#colours")
    ranges, intervals = page.evaluate(BOXES, [".range", ".interval"])
    for arm, mark, whole in zip(world.state("colours")["program"]["arms"], ranges, intervals, strict=True):
        assert (mark["x"] - whole["x"]) / whole["width"] == pytest.approx(arm["lower"], abs=0.01)
        assert mark["width"] / whole["width"] == pytest.approx(arm["upper"] - arm["lower"], abs=0.01)

    page = watched.show("/#fruit")
    page.wait_for_selector(".bar")
    program = world.state("fruit")["program"]
    bars, rows = page.evaluate(BOXES, [".bar", ".bar-row"])
    most = max(one["count"] for one in program["top"]) + program["radius"]
    assert len(bars) == 3
    for one, mark, whole in zip(program["top"], bars, rows, strict=True):
        assert mark["width"] / whole["width"] == pytest.approx(max(0.0, one["count"]) / most, abs=0.01)

    page = watched.show("/#steps")
    page.wait_for_selector(".curve")
    program = world.state("steps")["program"]
    path = page.locator(".curve").get_attribute("d")
    # A step is two corners, and it begins at nothing.
    assert len(path.split(" ")) == 1 + 2 * len(program["points"])
    band, curve = page.evaluate(BOXES, [".band", ".curve"])
    assert band[0]["height"] > curve[0]["height"]
    assert band[0]["width"] == pytest.approx(curve[0]["width"], abs=3)
    assert f"off by at most {program['bound']:.3g}" in watched.text("#part-program")


def test_a_personalised_experiment_shows_what_it_gains_who_chooses_what_and_what_makes_a_difference(world, watched):
    state = world.state("tips")
    program = state["program"]
    assert len(program["choices"]) == 3
    assert sum(row["share"] for row in program["choices"]) == pytest.approx(1.0)
    # So few users tell little of what makes a difference: the page is given a state where it is known.
    for row in program["coefficients"]:
        row |= {"lower": 0.6 * row["value"] - 1e-4, "upper": 0.6 * row["value"] + 1e-4, "known": True}
        row["value"] *= 0.6
    told(watched, state)
    page = watched.show("/#tips")
    page.wait_for_selector("table[aria-label='What makes a difference']")
    sentence = watched.text("#part-program .sentence").replace("−", "-")
    assert program["gain"]["sentence"][1:] in sentence
    choices, effects = (page.locator(f"table[aria-label='{one}']") for one in SHOWN)
    assert choices.locator("tbody tr").count() == 3
    # Each of two features, and the level, for every action; a feature's name is said once where there is room.
    assert effects.locator("tbody tr").count() == 9
    assert effects.locator(".again").count() == 6
    assert not effects.locator(".again").first.is_visible()
    boxes = page.evaluate(BOXES, [f"table[aria-label='{SHOWN[0]}'] {mark}" for mark in (".range", ".interval")])
    for row, mark, whole in zip(program["choices"], *boxes, strict=True):
        assert (mark["x"] - whole["x"]) / whole["width"] == pytest.approx(row["lower"], abs=0.01)
        assert mark["width"] / whole["width"] == pytest.approx(row["upper"] - row["lower"], abs=0.01)
    points = page.evaluate(
        BOXES, [f"table[aria-label='{SHOWN[1]}'] {mark}" for mark in (".point", ".interval", ".zero")]
    )
    shown = [row for name in ("age", "evening") for row in program["coefficients"] if row["coefficient"] == name]
    for row, point, whole, zero in zip(shown, points[0][:6], points[1][:6], points[2], strict=True):
        middle = point["x"] + point["width"] / 2
        assert zero["x"] == pytest.approx(whole["x"] + whole["width"] / 2, abs=1)
        assert (middle > zero["x"]) == (row["value"] > 0) or abs(middle - zero["x"]) < 1


SHOWN = ("Who chooses what", "What makes a difference")


@pytest.mark.parametrize(
    ("verdict", "kind"), [("gains", "better"), ("loses", "no-difference"), ("open", "leading"), (None, None)]
)
def test_whether_personalisation_gains_is_said_as_it_is(verdict, kind, world, watched):
    state = world.state("tips")
    said = {"gains": (0.05, 0.01, 0.09), "loses": (-0.05, -0.09, -0.01), "open": (0.01, -0.03, 0.05)}
    gain = None
    if verdict is not None:
        numbers = dict(zip(("gain", "lower", "upper"), said[verdict], strict=True))
        gain = state["program"]["gain"] | numbers | {"verdict": verdict, "sentence": f"so it {verdict} by -0.5"}
    state["program"]["gain"] = gain
    told(watched, state)
    watched.show("/#tips")
    text = watched.text("#part-program")
    if verdict is None:
        assert "What is gained is known after two batches." in text
    else:
        assert f"So it {verdict} by −0.5." in text
        assert watched.page.locator(f".decision.{kind}").count() == 1
        low, high = (f"{100 * one:+.1f}".replace("-", "−") for one in said[verdict][1:])
        assert f"{low} to {high} points" in text


def test_a_personalised_experiment_says_what_is_not_known_yet_and_has_units_of_its_own(world, watched):
    state = world.state("tips")
    told(watched, state | {"program": state["program"] | {"choices": [], "coefficients": [], "gain": None}})
    watched.show("/#tips")
    assert "devices choose at random until the first batch is full" in watched.text("#part-program")
    row = {"share": 1.0, "lower": 0.9, "upper": 1.0, "mean_x1": 0.1}
    products = [{"coefficient": "x1", "value": -7.5, "lower": -30.25, "upper": 15.0, "known": True}]
    changed = {"choices": [row], "coefficients": products, "gain": None, "features": [], "caveat": "It explores less."}
    changed["norm"] = 2.5
    told(watched, state | {"program": state["program"] | changed | {"rewards": {"low": 0.0, "high": 5.0}}})
    watched.show("/#tips")
    text = watched.text("#part-program")
    assert "all actions" in text
    assert "It explores less." in text
    assert "no parameter is longer than 2.5, as it says in the signed experiment" in text
    # Rewards from 0 to 5 are said in their own unit, and no range bounds a product.
    assert "−7.50" in text
    assert "−30.25 to +15.00" in text


def test_an_interval_that_is_all_there_can_be_is_not_shown_as_if_it_were_found(world, watched):
    state = world.state("tips")
    rows = state["program"]["coefficients"]
    for row in rows:
        row["known"] = False
    told(watched, state)
    watched.show("/#tips")
    text = watched.text("#part-program")
    assert "Nothing is known of the coefficients yet" in text
    assert "How much the mean changes" not in text
    assert watched.page.locator(f"table[aria-label='{SHOWN[1]}']").count() == 0
    rows[0] |= {"value": 0.001, "lower": -0.002, "upper": 0.004, "known": True}
    told(watched, state)
    page = watched.show("/#tips")
    effects = page.locator(f"table[aria-label='{SHOWN[1]}'] tbody tr").all_inner_texts()
    assert sum("nothing is known yet" in row for row in effects) == 8
    assert page.locator(f"table[aria-label='{SHOWN[1]}'] .interval").count() == 1


def test_a_participant_whose_device_chooses_learns_that_nobody_knows_what(world, watched):
    watched.show("/participate/tips")
    leaves, nobody, servers, _, not_promised = watched.page.locator(".card").all_inner_texts()
    assert "One vector in two shares" in leaves
    assert "age, evening" in leaves
    assert "every number of it is in its range" in leaves
    assert "What describes you: age, evening." in nobody
    assert "which version you were shown" not in servers + not_promised
    assert "they learn your answer, and what describes you" in not_promised


def test_the_transcript_downloaded_from_the_page_verifies(world, watched, tmp_path, capsys):
    page = watched.show("/#colours")
    with page.expect_download() as waited:
        page.get_by_text("Download the transcript").click()
    assert waited.value.suggested_filename == "colours.jsonl"
    transcript = tmp_path / "colours.jsonl"
    waited.value.save_as(transcript)
    assert main(["verify", str(transcript)]) == 0
    assert "every line follows; the run is finished" in capsys.readouterr().out


def test_what_was_promised_and_what_was_spent_is_said(world, watched):
    privacy = world.state("steps")["privacy"]
    assert 0 < privacy["worst_delta"] <= privacy["delta"] * (1 + 1e-8)
    page = watched.show("/#steps")
    said = watched.text("#part-privacy")
    assert "ε = 4, δ = 10⁻⁶" in said
    assert "one installation of the app" in said
    assert "refuses this experiment" in said
    liars = {"prio3": "a liar is worth one report", "none": "a liar may count for more than one report"}
    assert liars[world.state("steps")["validity"]] in said
    page.get_by_text("What a participant sends").click()
    page.wait_for_selector(".cards")
    assert "ε = 4 in one day" in watched.text(".cards")
    page.get_by_text("The results so far").click()
    page.wait_for_selector(".curve")


@pytest.mark.parametrize("name", ["colours", "fruit"])
def test_a_participant_sees_the_epsilon_and_the_exact_bytes(name, world, watched):
    page = watched.page
    with page.expect_response(f"**/experiments/{name}/participation") as waited:
        watched.show(f"/participate/{name}")
    body = waited.value.json()
    (report,) = body["reports"]
    (batch,) = report["batches"]
    assert f"ε = {body['privacy']['epsilon']:g}" in watched.text(".figures")
    assert "∞" not in watched.text("main")
    assert "not hidden" in watched.text(".figures")
    assert batch["hides_nothing_alone"]
    assert f"exactly {report['upload_bytes']:,} bytes" in watched.text("main")
    if batch["residual_advantage"] >= 1:
        assert "They would read your answer" in watched.text("main")
    else:
        assert f"{50 * (1 + batch['residual_advantage']):.3g}\u00a0% of cases" in watched.text("main")
    likelier = "whatever others see, it is at most so many times as likely with your answer as with another"
    assert likelier + (", but for a chance of δ" if body["privacy"]["delta"] else "\n") in watched.text(".figures")
    assert ("and δ = " in watched.text(".figures")) == (body["privacy"]["delta"] > 0)
    upload = page.locator(".upload pre").text_content()
    assert upload == report["sample_upload"]
    assert len(bytes.fromhex(upload)) == report["upload_bytes"]
    samples = page.locator(".messages pre").all_text_contents()
    assert samples == ["\n".join(sample["messages"]) for sample in batch["sample"]]
    assert samples[0] != samples[1]
    headings = ["What leaves your device", "What nobody learns", "What each server learns"]
    headings += ["Who takes part", "What is not promised"]
    assert page.locator(".cards h3").all_inner_texts() == headings
    nobody, servers = page.locator(".card").nth(1).inner_text(), page.locator(".card").nth(2).inner_text()
    assert "Your answer." in nobody
    proof = {"prio3": "A proof that your answer is one of those allowed.", "none": "No proof that your answer"}
    assert proof[body["validity"]] in page.locator(".card").first.inner_text()
    assert "learns" not in nobody.removeprefix("What nobody learns")
    assert "The front: that you reported" in servers


def test_a_participant_of_nothing_is_told_so(world, watched):
    page = watched.page
    page.goto(world.url + "/participate/nothing", wait_until="commit")
    page.wait_for_selector("main:has-text('There is no experiment called “nothing”.')")


def test_a_mean_that_noise_carries_beyond_the_scale_is_explained(world, watched):
    """The page is given a state in which it happened, and one in which it did not."""
    state = world.state("colours")
    arms = state["program"]["arms"]
    for mean, explained in ((1.031, True), (-0.02, True), (1.0, False)):
        for arm in arms:
            arm["mean"] = 0.5
        arms[0]["mean"] = mean
        told(watched, state)
        watched.show("/#colours")
        assert ("noise can carry it beyond the scale" in watched.text("#part-program")) is explained


def test_all_experiments_are_a_click_away(world, watched):
    page = watched.show("/")
    links = page.locator("#experiments a")
    assert links.all_inner_texts() == ["colours", "steps", "fruit", "tips", "waiting"]
    for link in links.all():
        link.click()
        page.wait_for_selector(f"#experiments a[aria-current]:has-text('{link.inner_text()}')")
        page.wait_for_selector(f"main[data-experiment='{link.inner_text()}'] h1")
    page.goto(world.url + "/#nothing", wait_until="commit")
    page.wait_for_selector("main:has-text('There is no experiment called “nothing”.')")


def test_what_may_be_said_is_said_in_words_and_pictures(world, watched):
    world.log_in(watched.page.context)
    state = world.state("screens")
    # However soon it was decided, there was a moment before.
    first = state["curve"][0]
    state["curve"].insert(0, first | {"at": first["at"] - 3600, "reports": 0})
    told(watched, state)
    page = watched.show("/#screens")
    assert watched.text(".sentence").removeprefix("✓ ").startswith("Tour scores more than plain by ")
    assert "valid at every look" in watched.text(".sentence")
    assert "nobody can see it" in watched.text("#part-decision")
    rows = page.locator("#part-program tbody tr").all_inner_texts()
    assert "control" in rows[0]
    assert "not chosen" in rows[0]
    assert "★ winner" in rows[1]
    assert "in play" not in watched.text("#part-program")
    now = state["curve"][-1]
    assert f"+{100 * now['difference'][1]:.1f} points" in rows[1]
    # The interval is drawn where the numbers say, with nothing in the middle.
    (mark,), (whole,), (zero,) = page.evaluate(BOXES, [".range", ".interval", ".interval .zero"])
    reach = 1.05 * max(abs(now["lower"][1]), abs(now["upper"][1]))
    assert (zero["x"] + zero["width"] / 2 - whole["x"]) / whole["width"] == pytest.approx(0.5, abs=0.01)
    assert (mark["x"] - whole["x"]) / whole["width"] == pytest.approx((now["lower"][1] / reach + 1) / 2, abs=0.01)
    assert page.locator("#part-history figure .ribbon").count() == 1
    assert page.locator("#part-history .series").count() == 2, "the difference, and the reports"
    for table in ("batches", "result", "curve"):
        links = page.locator(f"#part-downloads a[href*='/{table}.']").all_inner_texts()
        assert links == ["CSV", "JSON", "PARQUET"]


def test_other_standings_and_decisions_have_words_of_their_own(world, watched):
    """The page is given states that take long to come about."""
    world.log_in(watched.page.context)
    state = world.state("screens")
    for change, said in (
        ({"kind": "leading", "sentence": "leading, not certain: tour"}, "Leading, not certain: tour."),
        ({"kind": "no difference", "sentence": "no difference larger than 2 points"}, "No difference larger than 2"),
        ({"kind": "no decision", "sentence": "no decision", "leader": None}, "No decision."),
    ):
        now = {"standing": "stalled", "finished": False, "stalled": "too few people report", "curve": []}
        told(watched, state | now | {"decision": state["decision"] | change})
        page = watched.show("/#screens")
        assert said in watched.text("#part-decision")
        assert watched.text("#status") == "stalled"
        assert "Stalled: too few people report" in watched.text("#part-title")
        assert watched.text("#part-history") == ""
        assert page.locator("[data-operation]").all_inner_texts() == ["Pause", "Stop", "Ramp"]


def test_more_reports_than_were_planned_are_not_said_to_be_a_part_of_them(world, watched):
    state = world.state("colours")
    planned = state["program"]["planned"]
    told(watched, state | {"reports": planned + 5, "accepted": planned + 5})
    watched.show("/#colours")
    assert f"{planned + 5}, planned {planned}" in watched.text("#part-reports")
    told(watched, state | {"finished": False, "standing": "running", "reports": 5, "accepted": 32})
    watched.show("/#colours")
    assert f"32 of {planned}" in watched.text("#part-reports")
    assert "in released batches: 5." in watched.text("#part-reports")


METRICS = [
    {"metric": "finished", "role": "primary", "difference": 0.3, "lower": 0.1, "upper": 0.5, "margin": None},
    {"metric": "crashes", "role": "guardrail", "difference": 1.5, "lower": 0.5, "upper": 2.5, "margin": 0.25},
    {"metric": "minutes", "role": "guardrail", "difference": None, "lower": None, "upper": None, "margin": 3},
]
STATES = {"finished": None, "crashes": "harmed", "minutes": "not known yet"}


@pytest.mark.parametrize("view", VIEWS)
def test_metrics_are_shown_with_what_is_known_of_each(world, watched, view):
    """A row a metric and arm, in light and dark and on a phone; what is harmed is said in words."""
    watched.page.set_viewport_size(VIEWS[view]["viewport"])
    watched.page.emulate_media(color_scheme=VIEWS[view]["color_scheme"])
    world.log_in(watched.page.context)
    state = world.state("screens")
    assert "metrics" not in state["program"]
    rows = [row | {"arm": 1, "control": 0, "better": "lower", "state": STATES[row["metric"]]} for row in METRICS]
    said = {"kind": "harmful", "leader": 0, "reference": 1, "sentence": "plain stays: tour harms crashes"}
    told(watched, state | {"program": state["program"] | {"metrics": rows}, "decision": state["decision"] | said})
    page = watched.show("/#screens")
    shown = page.get_by_role("table", name="Metrics").locator("tbody tr").all_inner_texts()
    assert [row.split()[0] for row in shown] == ["finished", "crashes", "minutes"]
    assert "✗ harmed: worse by more than 0.25" in shown[1]
    assert "+1.5 (+0.5 to +2.5; lower is better)" in shown[1]
    assert "not known yet whether worse by more than 3" in shown[2]
    assert "no block yet" in shown[2]
    assert "✗ Plain stays: tour harms crashes." in watched.text("#part-decision")
    assert page.locator("#part-downloads a[href*='/metrics.']").count() == 3
    assert page.evaluate(OVERFLOW) <= 0
    assert watched.barriers() == []
    if shots := os.environ.get("CROUPIER_SCREENSHOTS"):
        page.screenshot(path=Path(shots) / f"metrics-{view}.png", full_page=True)


def test_an_operator_does_everything_by_keyboard_alone(world, watched):
    """From the login to the archive; a stranger sees nothing of it."""
    page, press = watched.show("/"), watched.page.keyboard.press

    def reach(selector):
        """Go on with the tab key until it is there."""
        for _ in range(80):
            if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
            press("Tab")
        raise AssertionError(f"{selector} is not reached")

    assert page.locator("#experiments a").all_inner_texts() == ["colours", "steps", "fruit", "tips", "waiting"]
    reach("#log-in")
    press("Enter")
    assert watched.barriers() == []
    reach("#login-secret")
    page.keyboard.type(world.token)
    press("Enter")
    page.wait_for_selector("#experiments a:has-text('screens')")
    reach("#create")
    press("Enter")
    reach("#create-text")
    press("Control+a")
    page.keyboard.insert_text(SCREENS.replace("screens", "later"))
    assert watched.barriers() == []
    reach("button[type=submit]")
    press("Enter")
    page.wait_for_selector("main[data-experiment='later'] #status:has-text('created')")
    for operation, standing in (("start", "running"), ("pause", "paused"), ("resume", "running")):
        reach(f"[data-operation='{operation}']")
        press("Enter")
        page.wait_for_selector(f"#status:has-text('{standing}')")
    reach("[data-operation='stop']")
    press("Enter")
    page.wait_for_selector("dialog")
    press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert watched.text("#status") == "running", "what cannot be taken back is asked twice"
    for operation, standing in (("stop", "finished"), ("archive", "archived")):
        reach(f"[data-operation='{operation}']")
        press("Enter")
        page.wait_for_selector("dialog")
        reach("dialog button[type=submit]")
        page.wait_for_timeout(500 if operation == "archive" else 0)  # the front is being told
        press("Enter")
        page.wait_for_selector(f"#status:has-text('{standing}')")
    page.wait_for_selector("#part-audit:has-text('admin archived “later”')")
    for done in ("created “later”", "asked “later” to pause", "asked “later” to stop", "logged in"):
        assert f"admin {done}" in watched.text("#part-audit")
    reach("#log-out")
    press("Enter")
    page.wait_for_selector("#log-in")
    page.wait_for_selector("main:has-text('There is no experiment called “later”')")


def test_a_wrong_password_is_said_and_nothing_else_happens(world, browser):
    context = browser.new_context(**VIEWS["phone"])
    watched = Watched(context, world.url)
    page = watched.show("/")
    page.tap("#log-in")
    page.fill("#login-name", "anna")
    page.fill("#login-secret", "a wrong password")
    page.tap("dialog button[type=submit]")
    page.wait_for_selector("dialog [role=alert]:has-text('the name or the password is wrong')")
    assert page.locator("#log-out").count() == 0
    context.close()
    # The browser itself reports the refusal; nothing else may have gone wrong.
    assert all("401" in line for line in watched.wrong)


def test_a_lost_connection_is_said_and_found_again_with_the_same_history(world, browser):
    context = browser.new_context(**VIEWS["light"])
    watched = Watched(context, world.url)
    page = watched.show("/#colours")
    before = watched.text("main")
    assert watched.text("#connection") == ""
    world.children["analyzer"].kill()
    page.wait_for_selector("#connection:has-text('connection to the analyzer is lost')")
    assert watched.text("main") == before
    world.restart_analyzer(world.children)
    page.wait_for_function("() => document.getElementById('connection').textContent === ''")
    assert watched.text("main") == before
    context.close()
    # A browser says itself that it could not connect; nothing else may have gone wrong.
    assert all("ERR_CONNECTION" in line or "ERR_INCOMPLETE" in line or "/live" in line for line in watched.wrong)
