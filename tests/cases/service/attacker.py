"""An attacker with an honest client's code, and an experiment whose sums show every report."""

from __future__ import annotations

from dataclasses import replace

from cases.service.both import Both, check_problem
from cases.service.world import GENEROUS
from croupier.client import AsyncClient
from croupier.client.device import REPORT_TYPE
from croupier.messages.configuration import Configuration
from croupier.messages.sealing import SUITES, key_id, seal
from croupier.messages.signing import from_text
from croupier.messages.wire import Envelope, Report, message_info, report_info

# With this ε a batch's noise is zero but for once in 10⁸: so the sum shows each report.
EXACT = {
    "name": "colours",
    "arms": ["red", "green"],
    "program": {"policy": "dp-klucb", "horizon": 2000},
    "reward": {"protocol": "shuffled-laplace", "binary": True},
    "privacy": {"epsilon": 20.0, "honest_fraction": 1.0},
    "reports": {"report_within": 600, "report_at": [0, 0]},
    "batches": {"smallest": 20, "deadline": 10_000},
}
USERS = 20
BASE = "http://front.test/experiments/colours"
ADDRESS = f"{BASE}/reports"


class Attacker:
    """Somebody with an honest client's code, who changes what it sends."""

    def __init__(self, both: Both) -> None:
        self.both = both
        self.configured = both.live.configured
        self.configuration = Configuration.from_text(self.configured.text)
        self.trusted = {"authorization": f"Bearer {both.bearer}"}

    async def turn(self):
        self.client = AsyncClient("http://analyzer.test", http=self.both.http, limits=GENEROUS, background=False)
        return await self.client.play("colours", patience=2.0)

    def report(self, turn, value=1.0):
        return from_text("body", self.client.device.sealed(turn, value).body)

    def opened(self, turn) -> Report:
        sealed = Envelope.from_bytes(self.report(turn)).sealed
        key = self.both.front.front.keys.newest(self.configuration.suite)
        suite = SUITES[key.suite]
        info = report_info("colours", turn.offer.configuration)
        return Report.from_bytes(suite.hpke.decrypt(sealed, suite.read_private(key.private), info))

    def rebuilt(self, turn, key=None, configuration=None, **changes):
        """An upload that is right but for the changes."""
        key = key or self.configuration.keys["front"].seal
        configuration = configuration or turn.offer.configuration
        plain = replace(self.opened(turn), **changes).to_bytes()
        sealed = seal(self.configuration.suite, key, plain, report_info("colours", configuration))
        number = SUITES[self.configuration.suite].number
        return Envelope(number, key_id(key), configuration, sealed).to_bytes()

    def with_messages(self, turn, make):
        """A well-formed report whose messages to the analyzer are whatever `make` makes of a slot's number and size."""
        (part,) = self.opened(turn).parts
        length = len(part.messages[0])
        return self.rebuilt(
            turn, parts=(replace(part, messages=tuple(make(i, length) for i in range(len(part.messages)))),)
        )

    def sealed_slot(self, turn, slot, key=None):
        (batch,) = turn.offer.batches
        info = message_info("colours", turn.offer.configuration, batch.hash)
        return seal(self.configuration.suite, key or self.configuration.keys["analyzer"].seal, slot, info)

    async def send(self, body):
        return await self.both.http.post(ADDRESS, content=body, headers={"content-type": REPORT_TYPE})

    async def refused(self, token, body):
        check_problem(await self.send(body), token)

    async def put(self, token, path, body):
        check_problem(await self.both.http.put(BASE + path, json=body, headers=self.trusted), token)

    def signed(self, statement):
        return statement.signed("analyzer", self.both.analyzer.analyzer.keys.sign).to_dict()
