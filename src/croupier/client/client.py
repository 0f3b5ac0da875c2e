"""The client that an app embeds: join an experiment, play an arm, and say what came of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Self

from croupier.checks import CroupierError
from croupier.client.base import LONGEST_SLEEP, Base, check_play
from croupier.client.exchange import Exchange
from croupier.client.steps import Lost, Response, Steps, TimedOut
from croupier.client.turns import Joined, Shown, Turn
from croupier.messages.no_turn import NoTurn


class Client(Base):
    """A device's client: calls that need an answer wait for it.

    Parameters
    ----------
    analyzer : the analyzer's address.
    account : the file that keeps the personal ledger, and turns until they are reported. Without it they last as long
        as the object.
    limits : how much this device gives.
    keys : the two servers' signing keys, as bytes or as text. Experiments of trust "two-servers" need them; under other
        trusts the keys first seen are kept without them.
    background : whether a thread of the client's own sends reports when they are due. Without it call `send_due`.
    http : an httpx2 client of the app's own, with its proxies or certificates.
    source : where noise comes from. None: a cryptographic source.
    clock : what tells the time, in seconds.

    Examples
    --------
    >>> with Client("https://analyzer.example", account="croupier.json", keys=KEYS) as client:  # doctest: +SKIP
    ...     turn = client.play("homepage", timeout=0.5, default="plain")
    ...     client.report(turn, outcome=show(turn.arm_name))
    """

    _exchange = Exchange

    def _ready(self) -> None:
        self._wake, self._starting = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self, experiment: str) -> Joined:
        """Fetch an experiment and check that both servers signed it and that it is within the device's limits."""
        joined: Joined = self._run(self.device.join(experiment))
        return joined

    def play(
        self,
        experiment: str,
        *,
        timeout: float | None = None,
        default: str | None = None,
        sticky: bool = True,
        patience: float = 0.0,
        ticket: bytes | None = None,
        context: Mapping[str, object] | None = None,
    ) -> Turn | Shown:
        """Take a turn. It is charged and kept at once, and reported at its `report_at`, whatever comes of it.

        Parameters
        ----------
        experiment : its name.
        timeout : after so many seconds at most there is an arm to show, whatever servers do.
        default : the arm that the app shows where there is no turn: it is returned then, as `Shown`. Without it the
            reason is raised, a `NoTurn`.
        sticky : whether a user who returns sees the same arm again, which takes no new turn. It is kept on the device;
            no server learns of it. An arm that was retired is drawn anew.
        patience : for how many seconds to wait where nothing is open.
        ticket : what a front wants to see that admits only those whom an issuer knows.
        context : what describes the user, by name, where devices choose by themselves. It never leaves the device.
        """
        patience = check_play(patience, timeout, default)
        given_up, claimed = threading.Event(), list[str]()

        def wanted(turn: str) -> bool:
            # In this order: what is wanted is known to whoever gives up after.
            claimed.append(turn)
            return not given_up.is_set()

        steps = self.device.play(experiment, patience, ticket, sticky, wanted, context)
        try:
            turn: Turn | Shown
            turn = self._run(steps) if timeout is None else self._in_time(steps, timeout, given_up, claimed)
        except NoTurn as reason:
            turn = self._instead(experiment, default, sticky, reason, claimed)
        self._warn(experiment, default, turn)
        self._begin()
        return turn

    def report(self, turn: Turn | Shown, outcome: object) -> bool:
        """Record what came of a turn; again, as often as it changes, until it is sent. Nothing is sent by this.

        False where nothing of it will be reported: an arm shown without a turn, or a report that is on its way already.
        """
        return self.device.record(turn, outcome)

    def send_due(self) -> float | None:
        """Send the reports that are due; returns the seconds until the next one is, None where there is none.

        The background does this. An app without it calls this when it starts, and when the time has come: never
        because of an outcome.
        """
        due: float | None = self._run(self.device.send_due())
        return due

    def close(self) -> None:
        """Stop the background, close the connection and give the account's file back."""
        self._closed = True
        self._wake.set()
        self.device.account.close()
        if not self._brought:
            self._wire.close()

    def _begin(self) -> None:
        """Have the background look at what is due next."""
        if self._background and self.device.next_due() is not None:
            with self._starting:
                self._wake.set()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._send_when_due, name="croupier reports", daemon=True)
                    self._thread.start()

    def _send_when_due(self) -> None:
        # A connection of its own: what takes long here keeps no play waiting.
        wire = self._new_wire()
        while not self._closed:
            self._wake.clear()
            try:
                due = self._run(self.device.send_due(), wire)
            except CroupierError:
                due = LONGEST_SLEEP
            with self._starting:
                if due is None and not self._wake.is_set():
                    self._thread = None
                    break
            self._wake.wait(LONGEST_SLEEP if due is None else min(due, LONGEST_SLEEP))
        if not self._brought:
            wire.close()

    def _in_time(self, steps: Steps, timeout: float, given_up: threading.Event, claimed: list[str]) -> Any:
        """Run steps in a thread of their own, with a connection of its own; after `timeout` seconds nobody waits."""
        found: Future[Any] = Future()

        def work() -> None:
            wire = self._new_wire()
            try:
                found.set_result(self._run(steps, wire, given_up))
            except BaseException as error:
                found.set_exception(error)
            finally:
                if not self._brought:
                    wire.close()

        threading.Thread(target=work, name="croupier play", daemon=True).start()
        try:
            return found.result(timeout)
        except TimeoutError:
            if found.done():
                raise
        given_up.set()
        found.add_done_callback(lambda _: self._forget(claimed))
        raise TimedOut(f"there was no turn within {timeout:g} s")

    def _run(self, steps: Steps, wire: Any = None, given_up: threading.Event | None = None) -> Any:
        answer: Response | Lost | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            if given_up is not None and given_up.is_set():
                steps.close()
                raise TimedOut("nobody waits for this turn any longer")
            answer = step.taken(wire or self._wire)
