"""An arm that an operator retired is in the next configuration, so that devices who saw it draw anew."""

import asyncio

import pytest

from cases.service.both import Both
from croupier.messages.configuration import Configuration

THREE = {
    "name": "colours",
    "arms": ["red", "green", "blue"],
    "program": {"policy": "vb-sdp-ae", "horizon": 4000},
    "privacy": {"epsilon": 4.0},
    "reports": {"report_within": 600, "report_at": [0, 0]},
    "batches": {"smallest": 4, "deadline": 50},
}


@pytest.mark.slow
def test_a_retired_arm_is_in_the_next_revision(tmp_path):
    both = Both(tmp_path, experiment=THREE)

    async def work():
        async with both.running():
            assert (await both.operate(operation="retire", arm=2)).status_code == 200
            await both.users(16)
            await both.until(lambda: Configuration.from_text(both.live.configured.text).retired == (2,))
            return Configuration.from_text(both.live.configured.text)

    found = asyncio.run(work())
    assert (found.revision, found.arms) == (1, ("red", "green", "blue"))
