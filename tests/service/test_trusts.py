"""Experiments of every trust that does without a shuffler, on real servers, with real clients: they end, find the best
arm, verify, and say whom they trust.
"""

import json

import pytest

from cases.service.processes import check_decisions, home_of, transcript_of, written
from croupier.messages.configuration import Configuration
from croupier.messages.signing import Statement, to_text
from croupier.service import keys as key_files
from croupier.service.crowd import Crowd, run, wait_finished
from croupier.service.processes import both
from croupier.service.verifying import verify

USERS, HORIZON, SMALLEST = 300, 200, 32
EXPERIMENT = f"""
name = "{{name}}"
arms = ["red", "green"]
[program]
policy = "vb-sdp-ae"
horizon = {HORIZON}
[privacy]
trust = "{{trust}}"
epsilon = 4.0
[reward]
binary = true
[reports]
report_within = 600
report_at = [0, 0]
[batches]
smallest = {SMALLEST}
deadline = 60
"""
TRUSTS = {"two-servers": "laplace", "devices": "laplace", "nobody": "local-laplace"}


@pytest.mark.slow
def test_experiments_of_every_trust_run_end_to_end_on_real_servers(tmp_path):
    home = home_of(tmp_path)
    files = [written(tmp_path, EXPERIMENT.format(name=trust, trust=trust), f"{trust}.toml") for trust in TRUSTS]
    outcomes, states, transcripts = {}, {}, {}
    # Where devices hide each other a front that admits everybody signs nothing: strangers could be all but one.
    issuer = key_files.make(tmp_path / "issuer")
    admitted = {"admission": "tickets", "issuer": to_text(issuer.verify)}
    with both(home, files, front={"due_within": 1, "openers": 0} | admitted, analyzer={"openers": 0}):
        for trust in TRUSTS:
            users = {"silent": 0.1, "at_once": 64, "seed": 2, "issuer": str(tmp_path / "issuer")}
            crowd = Crowd(home.analyzer_url, trust, 2 * USERS, (0.1, 0.9), **users, keys=home.verify_keys)
            outcomes[trust] = run(crowd)
            states[trust] = wait_finished(home.analyzer_url, trust, 60)
            transcripts[trust] = transcript_of(home, trust)
    for trust, recipe in TRUSTS.items():
        assert states[trust]["finished"], states[trust]
        assert states[trust]["program"]["best_arm"] == 1
        begun = json.loads(transcripts[trust].splitlines()[0])["configuration"]
        configuration = Configuration.from_text(Statement.from_dict("configuration", begun).text)
        assert (configuration.trust, configuration.recipe["protocol"]) == (trust, recipe)
        verdict = verify(transcripts[trust])
        assert verdict.finished
        assert (verdict.damaged, verdict.refused) == (0, 0)
        assert verdict.worst_delta <= verdict.claimed_delta * (1 + 1e-8)
        assert verdict.reports <= outcomes[trust]["accepted"]
        if trust != "two-servers":
            # Batches are full or give nothing out.
            check_decisions(transcripts[trust])
