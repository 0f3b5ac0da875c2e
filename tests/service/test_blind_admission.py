"""A front that admits by blind tokens: each is one report, for good, and what does not fit is refused by name."""

import contextlib
import subprocess
import sys
import time

import httpx2
import pytest

from cases.blind_tokens import ISSUERS, token_of
from cases.service.processes import QUICK, home_of, written
from cases.service.two_hosts import PATH
from cases.service.world import World, keys_of
from croupier.client import Client, Refused, TokenRequest, token_request
from croupier.messages.admission import Admission
from croupier.messages.signing import to_text
from croupier.noise import secure
from croupier.service import keys as key_files
from croupier.service.crowd import GENEROUS, Crowd, run, wait_finished
from croupier.service.front import Front
from croupier.service.notary import Rules
from croupier.service.problems import Problem
from croupier.service.processes import both, free_port
from croupier.service.store import FrontStore

YEAR = 366 * 86_400
TOKENS = Admission("tokens", ISSUERS[0].public)


def token(issuer=ISSUERS[0], experiment="colours", front="front"):
    return token_of(issuer, experiment, keys_of(front).verify)


def opened(url, admission=TOKENS):
    world = World(FrontStore(url, secure(), bytes(32)), Rules(admission=admission))
    world.open()
    return world


def refused(world, shown):
    """Why a token admits nobody."""
    with pytest.raises(Problem) as found:
        world.turn(shown)
    assert found.value.token == "not-admitted"
    return found.value.detail


def test_a_token_is_one_report_however_often_it_is_shown(store_url):
    world = opened(store_url)
    shown = token()
    first, second = world.turn(shown), world.turn(shown)
    assert first.offer.number == second.offer.number
    assert world.front.store.plays("colours")[0] == 1
    assert world.upload(world.report(first, 1.0)) == ["accepted"]
    assert world.upload(world.report(second, 0.0)) == ["token-spent"]
    assert "was used" in refused(world, shown)
    assert world.upload(world.report(world.turn(token()), 1.0)) == ["accepted"]
    world.front.store.close()


def test_a_spent_token_stays_spent_after_a_restart_for_other_workers_and_for_years(store_url):
    """A token has no date: if spent ones were forgotten after `remember`, an old one could be spent again."""
    world = opened(store_url)
    shown = token()
    other = Front(FrontStore(store_url, secure(), bytes(32)), world.front.keys, world.front.rules, world.clock)
    late = world.report(world.turn(shown), 0.0)
    assert world.upload(world.report(world.turn(shown), 1.0)) == ["accepted"]
    assert other.take([("colours", late)]) == ["token-spent"]
    other.store.close()
    world.clock.now += 10 * YEAR
    world.front.sweep()
    world.front.store.close()
    store = FrontStore(store_url, secure(), bytes(32))
    world.front = Front(store, world.front.keys, world.front.rules, world.clock)
    assert "was used" in refused(world, shown)
    store.close()


def test_a_spent_ticket_is_forgotten_when_it_can_be_valid_no_more(sqlite_url):
    """Which is why tickets have a date, and what tokens cost: a row for good."""
    from croupier.service import tickets

    issuer = keys_of("issuer").sign
    world = opened(sqlite_url, Admission("tickets", issuer.public_key().public_bytes_raw()))
    ticket = tickets.issue(issuer, "colours", int(world.clock.now) + 500)
    assert world.upload(world.report(world.turn(ticket), 1.0)) == ["accepted"]
    world.clock.now += YEAR
    world.front.sweep()
    assert "expired" in refused(world, ticket)
    world.front.store.close()


def test_what_does_not_fit_is_refused_by_name(sqlite_url):
    world = opened(sqlite_url)
    good = token()
    for shown, why in (
        (b"", "354 bytes"),
        (good[:-1], "354 bytes"),
        (token(ISSUERS[1]), "another issuer's key"),
        (token(experiment="sounds"), "another experiment or front"),
        (token(front="analyzer"), "another experiment or front"),
        (good[:-1] + bytes([good[-1] ^ 1]), "did not sign"),
        (good[:20] + bytes(32) + good[52:], "another experiment or front"),
    ):
        assert why in refused(world, shown)
    # None of them has taken a turn, and the good one still has its own.
    assert world.front.store.plays("colours")[0] == 0
    world.turn(good)
    world.front.store.close()


def test_tokens_of_a_retired_key_are_void(sqlite_url):
    world = opened(sqlite_url)
    old = token()
    world.turn(old)
    world.front.rules = Rules(admission=Admission("tokens", ISSUERS[1].public))
    assert "another issuer's key" in refused(world, old)
    world.turn(token(ISSUERS[1]))
    world.front.store.close()


def test_a_front_signs_only_its_own_issuers_key(sqlite_url):
    """Else an analyzer could show each user a key of their own, and tell them apart by it."""
    world = opened(sqlite_url)
    rules = Rules(admission=Admission("tokens", ISSUERS[1].public))
    other = Front(world.front.store, world.front.keys, rules, world.clock)
    with pytest.raises(Problem, match="beyond-policy: this front admits who has a token of the key"):
        other.register("colours", world.signed)
    world.front.store.close()


EXPERIMENT = """
name = "onboarding"
[program]
kind = "counter"
users = 64
shufflers = 1
[privacy]
epsilon = 4.0
[reward]
protocol = "shuffled-bits"
"""


@contextlib.contextmanager
def issuing(directory, people):
    """The issuer of the example, with tokens, on this machine."""
    lines = "".join(f"{name} {key_files.bearer_hash(name + ' token')}\n" for name in people)
    (directory / "people.txt").write_text(lines)
    port = free_port()
    files = ["--keys", directory / "issuer", "--people", directory / "people.txt", "--store", directory / "issued.db"]
    command = [sys.executable, PATH, "--tokens", *files, "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(f"http://127.0.0.1:{port}/")
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        yield lambda person, body: httpx2.post(
            f"http://127.0.0.1:{port}/tokens",
            content=body,
            headers=TokenRequest.headers | {"authorization": f"Bearer {person} token"},
        )
    finally:
        process.terminate()
        process.communicate(timeout=30)


def made(directory):
    """An issuer's keys, as `croupier serve keys --tokens` makes them."""
    key_files.make(directory)
    return key_files.make_token_issuer(directory)


@pytest.mark.slow
def test_people_take_part_by_tokens_from_the_issuer_to_the_release(tmp_path):
    """An issuer, both servers and their clients, each a process or a connection of its own."""
    home = home_of(tmp_path)
    issuer = made(tmp_path / "issuer")
    admits = {"admission": "tokens", "issuer": to_text(issuer.public), "workers": 2}
    settings = {"front": QUICK["front"] | admits, "analyzer": QUICK["analyzer"]}
    with both(home, [written(tmp_path, EXPERIMENT)], **settings), issuing(tmp_path, ["ada", "bob"]) as ask:
        client = Client(home.analyzer_url, limits=GENEROUS, background=False)
        joined = client.join("onboarding")
        asked = token_request(joined)
        answer = ask("ada", asked.body)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/private-token-response")
        # The same request is answered again, in case the answer was lost; another one is not, nor is a stranger's.
        assert ask("ada", asked.body).content == answer.content
        others = [("ada", token_request(joined).body), ("eve", asked.body), ("bob", b"x"), ("bob", bytes(2**20))]
        assert [ask(*other).status_code for other in others] == [409, 401, 422, 422]
        shown = asked.finish(answer.content)
        with pytest.raises(Refused, match="not-admitted"):
            client.play("onboarding")
        client._run(client.device.send_now(client.play("onboarding", patience=30.0, ticket=shown), 1.0))
        with pytest.raises(Refused, match="was used"):
            client.play("onboarding", ticket=shown, sticky=False)
        client.close()
        shows = {"issuer": str(tmp_path / "issuer"), "keys": home.verify_keys}
        crowd = Crowd(home.analyzer_url, "onboarding", 200, (1.0,), at_once=4, **shows)
        found = run(crowd)
        assert found["accepted"] == 63
        assert set(found) <= {"accepted", "batch-closed", "experiment-finished", "not-sent"}
        assert wait_finished(home.analyzer_url, "onboarding", 60)["finished"]
