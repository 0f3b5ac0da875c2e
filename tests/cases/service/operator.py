"""An operator's browser: it keeps the cookie, and shows where it comes from and what it has read, or something else."""

from http.cookies import SimpleCookie

from croupier.service import operators
from croupier.service.operators import new_account

HOME = "http://analyzer.test"
PASSWORD = "correct horse battery"


def quick(monkeypatch):
    """Passwords that take no time to check, where how long that takes is not the point."""
    for name, little in (("MEMORY", 64), ("PASSES", 1), ("LANES", 1)):
        monkeypatch.setattr(operators, name, little)


def known(both, name="anna", password=PASSWORD):
    """Somebody who may operate; returns their text token."""
    account, token = new_account(name, password)
    both.analyzer.store.put_operator(account)
    return token


class Browser:
    """What a browser with a page of the analyzer does, without the page."""

    def __init__(self, both, origin=HOME):
        self.both, self.origin = both, origin
        self.cookie, self.csrf, self.set_cookie = "", "", ""

    async def log_in(self, name="anna", secret=PASSWORD):
        answer = await self.ask("POST", "/session", json={"name": name, "secret": secret})
        if answer.status_code == 200:
            self.set_cookie = answer.headers["set-cookie"]
            ((name, morsel),) = SimpleCookie(self.set_cookie).items()
            self.cookie, self.csrf = f"{name}={morsel.value}", answer.json()["csrf"]
        return answer

    async def ask(self, method, path, **more):
        """A request as the page sends it; headers that are given as None are left out."""
        headers = {"cookie": self.cookie or None, "croupier-csrf": self.csrf or None}
        headers |= {"origin": self.origin if method != "GET" else None} | more.pop("headers", {})
        sent = {name: value for name, value in headers.items() if value is not None}
        # What a browser keeps is this one's business: the client would show the cookie whatever the test leaves out.
        self.both.http.cookies.clear()
        return await self.both.http.request(method, HOME + path, headers=sent, **more)

    async def operate(self, name="colours", headers=None, **body):
        return await self.ask("POST", f"/experiments/{name}/operations", json=body, headers=headers or {})
