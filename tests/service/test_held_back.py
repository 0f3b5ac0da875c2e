"""A batch that was pulled before a crash, and not logged, is taken before all others: nothing waits for good."""

import pytest

from cases.service.checks import Checked
from cases.service.machine import FRONT


@pytest.mark.slow
@pytest.mark.parametrize("pulled", [0, -1])
def test_whichever_batch_left_before_a_crash_all_are_taken_in_the_next_round(pulled):
    service = Checked()
    try:
        service.pull("colours")
        service.pull("fruit")
        service.everything_is_as_the_model_says()
        while any(batch.state == "open" for (name, _), batch in service.batches.items() if name == "colours"):
            service.serve("colours", 1)
        # The log is countersigned, and the analyzer dies with what it has pulled.
        service.dies("analyzer", False, 1)
        service.pull("colours", sure=False)
        service.beside("close", service.servers.front.front.close_full)
        service.everything_is_as_the_model_says()
        live = service.servers.analyzer.analyzer.live["colours"]
        service.servers.run(service.servers.analyzer.analyzer._witnessed(live))
        ready = sorted(number for (name, number), batch in service.batches.items() if batch.state == "ready")
        assert len(ready) == 2
        url = f"{FRONT}/experiments/colours/batches/{ready[pulled]}/messages/0"
        assert service.servers.ask("GET", url, service.servers.bearer).status_code == 200
        service.pull("colours")
        service.everything_is_as_the_model_says()
        assert all(service.logged("colours", number) for number in ready)
    finally:
        service.close()
