"""Operators log in: what lets them in, what keeps others out, and what ends a session."""

import asyncio
import io
import json
from dataclasses import replace

import pytest

from cases.service.both import Both, check_problem
from cases.service.operator import HOME, PASSWORD, Browser, known, quick
from croupier.checks import InvalidParameter
from croupier.cli import main
from croupier.service.gate import FREE, Gate
from croupier.service.operators import Operators, new_account
from croupier.service.store import AnalyzerStore


@pytest.fixture
def both(tmp_path, monkeypatch):
    quick(monkeypatch)
    return Both(tmp_path)


def running(both, work):
    async def run():
        async with both.running():
            await work(Browser(both))

    asyncio.run(run())


def audit_of(both):
    return [(line["who"], line["event"]) for line in both.analyzer.desk.register.newest]


def test_a_password_opens_a_session_that_operates_and_ends(both):
    known(both)

    async def work(browser):
        assert (await browser.ask("GET", "/session")).json() == {"operator": None, "csrf": None, "expires": None}
        said = (await browser.log_in()).json()
        assert (said["operator"], said["expires"]) == ("anna", int(both.clock.now) + 43_200)
        assert (await browser.ask("GET", "/session")).json() == said
        assert (await browser.operate(operation="pause", arm="green")).status_code == 200
        assert (await browser.ask("DELETE", "/session")).status_code == 204
        assert (await browser.ask("GET", "/session")).json()["operator"] is None
        check_problem(await browser.operate(operation="stop"), "unauthorized")

    running(both, work)
    assert audit_of(both)[2:] == [("anna", "entered"), ("anna", "operated"), ("anna", "left")]


def test_the_cookie_goes_to_this_server_alone_and_no_script_reads_it(both, tmp_path):
    known(both)

    async def work(browser):
        await browser.log_in()
        assert browser.set_cookie.startswith("croupier-80=")
        for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
            assert part in browser.set_cookie, part
        assert "Secure" not in browser.set_cookie

    running(both, work)
    operators = both.analyzer.gate.operators
    over_tls = Gate(operators, both.analyzer.desk.register, "https://analyzer.example/there")
    assert (over_tls.cookie, over_tls.secure) == ("__Host-croupier", True)
    assert over_tls.origin == "https://analyzer.example"


def test_operators_endpoints_refuse_without_login_with_a_wrong_origin_and_with_a_stale_session(both):
    known(both)
    before = None

    async def refused(ask):
        """Each way in which a browser may be made to ask, or somebody else may."""
        check_problem(await ask(headers={"cookie": None, "croupier-csrf": None}), "unauthorized")
        check_problem(await ask(headers={"cookie": "croupier-80=AAAA"}), "unauthorized")
        check_problem(await ask(headers={"authorization": "Bearer AAAA"}), "unauthorized")
        for headers in ({"origin": "http://evil.test"}, {"origin": None}, {"origin": "null"}, {"croupier-csrf": None}):
            check_problem(await ask(headers=headers), "cross-site")
        check_problem(await ask(headers={"croupier-csrf": "A" * 43}), "cross-site")
        check_problem(await ask(headers={"origin": "https://analyzer.test"}), "cross-site")

    async def work(browser):
        nonlocal before
        await browser.log_in()
        before = both.live.count, len(audit_of(both))
        await refused(lambda headers: browser.operate(operation="stop", headers=headers))
        await refused(lambda headers: browser.ask("POST", "/experiments", json={"text": ""}, headers=headers))
        for path in ("/audit",):
            check_problem(await browser.ask("GET", path, headers={"cookie": None}), "unauthorized")
        for headers in ({"origin": "http://evil.test"}, {"croupier-csrf": None}):
            check_problem(await browser.ask("DELETE", "/session", headers=headers), "cross-site")
        assert (both.live.count, len(audit_of(both))) == before
        both.clock.now += 43_200
        for answer in (await browser.operate(operation="stop"), await browser.ask("GET", "/audit")):
            check_problem(answer, "unauthorized")
        assert not both.live.program.finished

    running(both, work)


def test_another_web_site_cannot_log_a_browser_in(both):
    known(both)

    async def work(browser):
        browser.origin = "http://evil.test"
        check_problem(await browser.log_in(), "cross-site")
        # A command shows no origin, and keeps no cookie.
        browser.origin = None
        assert (await browser.log_in()).status_code == 200

    running(both, work)


def test_who_is_removed_or_gets_new_secrets_is_logged_out_everywhere(both):
    token = known(both)
    store = both.analyzer.store

    async def work(browser):
        for change in (lambda: known(both), lambda: store.remove_operator("anna")):
            await browser.log_in()
            assert (await browser.ask("GET", "/audit")).status_code == 200
            change()
            check_problem(await browser.ask("GET", "/audit"), "unauthorized")
        check_problem(await browser.log_in(), "unauthorized")
        headers = {"authorization": f"Bearer {token}"}
        check_problem(await both.http.get(HOME + "/audit", headers=headers), "unauthorized")

    running(both, work)


def test_a_text_token_is_a_way_in_without_a_cookie_and_at_the_page(both):
    token = known(both, "ben", "")

    async def work(browser):
        headers = {"authorization": f"bearer {token}"}
        assert (await both.http.get(HOME + "/audit", headers=headers)).status_code == 200
        check_problem(await browser.log_in("ben", ""), "unauthorized")
        assert (await browser.log_in("", token)).json()["operator"] == "ben"
        assert (await browser.log_in("", both.admin)).json()["operator"] == "admin"
        basic = {"authorization": f"Basic {token}"}
        check_problem(await both.http.get(HOME + "/experiments/colours/state", headers=basic), "unauthorized")

    running(both, work)


def test_guessing_passwords_is_slow_and_slower_for_a_name_that_was_guessed_at(both):
    known(both)

    async def work(browser):
        for name in ("anna", "nobody", "no name!"):
            answer = await browser.log_in(name, "wrong")
            check_problem(answer, "unauthorized")
            assert answer.json()["detail"] == "the name or the password is wrong"
        for _ in range(FREE - 1):
            check_problem(await browser.log_in(secret="wrong"), "unauthorized")
        answer = await browser.log_in()
        check_problem(answer, "too-busy")
        assert answer.json()["retry_after"] == 1.0
        both.clock.now += 1.0
        check_problem(await browser.log_in(secret="wrong"), "unauthorized")
        assert (await browser.log_in()).json()["retry_after"] == 2.0
        assert (await browser.log_in("ben", both.admin)).status_code == 200
        both.clock.now += 2.0
        assert (await browser.log_in()).status_code == 200
        # Forgotten with the first right one.
        check_problem(await browser.log_in(secret="wrong"), "unauthorized")
        assert (await browser.log_in()).status_code == 200
        for body in ({"secret": 3}, {"name": [], "secret": "x"}, {}):
            check_problem(await browser.ask("POST", "/session", json=body), "bad-request")

    running(both, work)


@pytest.mark.slow
def test_nothing_that_is_kept_lets_anybody_in(sqlite_url):
    """Who reads the store has hashes: of a password one that is slow to guess, of tokens and cookies of 32 bytes."""
    store = AnalyzerStore(sqlite_url)
    operators = Operators(store, "0" * 64, 60.0, lambda: 1000.0)
    account, token = new_account("anna", PASSWORD)
    store.put_operator(account)
    session = operators.begin("anna")
    assert operators.of_password("anna", PASSWORD) == operators.of_token(token) == "anna"
    assert operators.session(session.cookie) == session
    with store.database.engine.connect() as connection:
        rows = [
            row for table in ("operators", "sessions") for row in connection.exec_driver_sql(f"SELECT * FROM {table}")
        ]
    kept = json.dumps([list(row) for row in rows])
    for secret in (PASSWORD, token, session.cookie, session.csrf):
        assert secret not in kept
    assert "$argon2id$v=19$m=65536,t=3,p=4$" in kept
    for shown in (account.password, account.token, rows[1][0]):
        assert operators.of_password("anna", shown) is None
        assert operators.of_token(shown) is None
        assert operators.session(shown) is None
    store.end_sessions()
    assert operators.session(session.cookie) is None
    store.close()


WRONG = [("admin", ""), ("", ""), ("a b", ""), ("x" * 64, ""), ("anna", "short")]


@pytest.mark.parametrize(("name", "password"), WRONG)
def test_names_and_passwords_that_cannot_be_are_refused(name, password):
    with pytest.raises(InvalidParameter):
        new_account(name, password)


def test_operators_are_admitted_and_removed_by_a_command_while_the_server_runs(both, tmp_path, monkeypatch, capsys):
    settings = both.analyzer.settings
    names = ("keys", "store", "bearer", "admin", "front")
    given = [part for name in names for part in (f"--{name}", getattr(settings, name))] + ["--plain-http", "true"]

    def command(*more, password=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
        status = main(["serve", "operator", *more, *given])
        return status, capsys.readouterr()

    async def work(browser):
        status, said = await asyncio.to_thread(command, "anna", password=PASSWORD)
        assert status == 0
        token = said.out.rpartition(" ")[2].strip()
        assert (await browser.log_in()).json()["operator"] == "anna"
        headers = {"authorization": f"Bearer {token}"}
        listed = (await both.http.get(HOME + "/audit", headers=headers)).json()["audit"]
        assert [line["event"] for line in listed[-2:]] == ["admitted", "entered"]
        assert "the old ones are void" in (await asyncio.to_thread(command, "anna", password=PASSWORD))[1].out
        assert (await asyncio.to_thread(command, "anna", "--remove"))[0] == 0
        check_problem(await browser.ask("GET", "/audit"), "unauthorized")
        status, said = await asyncio.to_thread(command, "anna", "--remove")
        assert (status, "there is no operator 'anna'" in said.err) == (2, True)
        assert (await asyncio.to_thread(command, "admin"))[0] == 2

    running(both, work)


@pytest.mark.slow
def test_sessions_outlive_a_restart(both, tmp_path):
    known(both)
    first, again = Browser(both), None

    async def begin():
        async with both.running():
            await first.log_in()

    asyncio.run(begin())
    again = Both(tmp_path)
    first.both = again

    async def goes_on():
        async with again.running():
            assert (await first.ask("GET", "/session")).json()["operator"] == "anna"
            assert (await first.operate(operation="stop")).status_code == 200

    asyncio.run(goes_on())


def test_the_lifetime_of_a_session_is_a_setting(both):
    settings = replace(both.analyzer.settings, session=60)
    with pytest.raises(InvalidParameter, match="session"):
        replace(settings, session=5)
