"""Settings, keys and experiments: every wrong one stops at the door with one line."""

import os
import stat

import pytest

from croupier.checks import CroupierError
from croupier.cli import main
from croupier.service import keys as key_files
from croupier.service import openapi
from croupier.service.experiment import plan, read_plan
from croupier.service.settings import AnalyzerSettings, ShufflerSettings, read

GIVEN = {"keys": "k", "store": "s.db", "analyzer": "a"}


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path):
    path = tmp_path / "shuffler.toml"
    path.write_text('keys = "file"\nstore = "file.db"\nanalyzer = "file"\nworkers = 3\nahead = 2\n')
    environment = {"CROUPIER_SHUFFLER_STORE": "environment.db", "CROUPIER_SHUFFLER_WORKERS": "4"}
    found = read(ShufflerSettings, "SHUFFLER", str(path), {"workers": 5, "keys": None}, environment)
    assert (found.keys, found.store, found.workers, found.ahead) == ("file", "environment.db", 5, 2.0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"listen": "nowhere"}, "listen"),
        ({"listen": "host:99999"}, "listen"),
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"ahead": 0.5}, "ahead"),
        ({"due_within": 0}, "due_within"),
        ({"report_within": 10}, "report_within"),
        ({"largest_epsilon": 0.0}, "largest_epsilon"),
        ({"store": ""}, "store"),
        ({"suite": "rot13"}, "suite"),
        ({"certificate": "c.pem"}, "certificate_key"),
        ({"certificate": "c.pem", "certificate_key": "k.pem"}, "certificate"),
        ({"group_seconds": 2.0}, "group_seconds"),
    ],
)
def test_a_wrong_setting_is_named(changes, word):
    with pytest.raises(CroupierError, match=word) as refusal:
        read(ShufflerSettings, "SHUFFLER", None, GIVEN | changes, {})
    assert "\n" not in str(refusal.value)


def test_missing_and_unknown_settings_are_named(tmp_path):
    with pytest.raises(CroupierError, match="missing: keys, store, bearer, admin, shuffler"):
        read(AnalyzerSettings, "ANALYZER", None, {}, {})
    path = tmp_path / "s.toml"
    path.write_text('colour = "red"\n')
    with pytest.raises(CroupierError, match="colour"):
        read(ShufflerSettings, "SHUFFLER", str(path), GIVEN, {})
    path.write_text("= no toml")
    with pytest.raises(CroupierError, match="is not TOML"):
        read(ShufflerSettings, "SHUFFLER", str(path), GIVEN, {})
    with pytest.raises(CroupierError, match="CROUPIER_SHUFFLER_WORKERS"):
        read(ShufflerSettings, "SHUFFLER", None, GIVEN, {"CROUPIER_SHUFFLER_WORKERS": "many"})


BASE = {"name": "a", "arms": ["x", "y"], "program": {"horizon": 1000}}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "Big Name"}, "experiment"),
        ({"name": None}, "experiment"),
        ({"arms": ["x"]}, "arms"),
        ({"arms": ["x", "x"]}, "arms"),
        ({"arms": "xy"}, "arms"),
        ({"colour": 1}, "colour"),
        ({"program": {}}, "horizon"),
        ({"program": 3}, "program"),
        ({"program": {"horizon": 1000, "policy": "nope"}}, "policy"),
        ({"program": {"horizon": 1000, "policy": "kl-ucb"}}, "policy"),
        ({"program": {"horizon": 20}}, "horizon"),
        ({"program": {"kind": "lottery"}}, "kind"),
        ({"program": {"horizon": 1000, "nonsense": 1}}, "nonsense"),
        ({"privacy": {"epsilon": 0}}, "epsilon"),
        ({"privacy": {"epsilon": -1.0}}, "epsilon"),
        ({"privacy": {"honest_fraction": 0.0}}, "honest_fraction"),
        ({"privacy": {"colour": 1}}, "privacy.colour"),
        ({"reward": {"protocol": "laplace"}}, "one that a shuffler carries"),
        ({"reward": {"protocol": "local-laplace"}}, "one that a shuffler carries"),
        ({"reward": {"protocol": "shuffled-vectors"}}, "one that a shuffler carries"),
        ({"reward": {"protocol": "nothing"}}, "protocol"),
        ({"batches": {"deadline": 0}}, "deadline"),
        ({"arms": [], "program": {"kind": "counter", "users": 100}, "batches": {"deadline": 5}}, "deadline"),
        ({"program": {"kind": "counter", "users": 100}}, "arms"),
        ({"arms": [], "program": {"kind": "histogram", "users": 9}}, "items"),
    ],
)
def test_a_wrong_experiment_is_one_line_that_names_what_is_wrong(changes, word):
    with pytest.raises(CroupierError, match=word) as refusal:
        plan(BASE | changes)
    assert "\n" not in str(refusal.value)


def test_the_default_experiment_is_the_flagship_over_shuffled_laplace():
    from croupier.cli.up import default_experiment

    found = read_plan(default_experiment())
    assert (found.parameters["name"], found.recipe["protocol"]) == ("dp-klucb", "shuffled-laplace")
    assert len(found.arms) == 5
    assert found.recipe["values"]["binary"]


@pytest.mark.parametrize("protocol", ["shuffled-bits", "shuffled-levels", "shuffled-laplace", "counted-messages"])
@pytest.mark.parametrize("policy", ["dp-klucb", "dp-imed", "vb-sdp-ae", "sdp-ae", "shuffle-dp-se"])
def test_any_policy_runs_over_any_protocol_that_a_shuffler_carries(policy, protocol):
    found = plan(BASE | {"program": {"horizon": 200_000, "policy": policy}, "reward": {"protocol": protocol}})
    assert found.recipe["protocol"] == protocol
    assert found.program().wanted


def test_keys_are_made_once_and_only_their_owner_reads_them(tmp_path):
    directory = tmp_path / "keys"
    with pytest.raises(CroupierError, match="there are no keys"):
        key_files.load(directory)
    first, again = key_files.make(directory), key_files.make(directory)
    assert first.verify == again.verify
    assert first.sealing == again.sealing
    for path in directory.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    (directory / "sign").chmod(0o644)
    with pytest.raises(CroupierError, match="may be read by others"):
        key_files.load(directory)
    (directory / "sign").chmod(0o600)
    (directory / "token").unlink()
    with pytest.raises(CroupierError, match="is missing"):
        key_files.load(directory)


def test_a_missing_secret_is_not_made_by_the_server_that_needs_it(tmp_path):
    with pytest.raises(CroupierError, match="is missing"):
        key_files.bearer(tmp_path / "bearer")
    secret = key_files.make_bearer(tmp_path / "bearer")
    assert key_files.bearer(tmp_path / "bearer") == secret
    assert key_files.bearer_matches(secret, key_files.bearer_hash(secret))
    assert not key_files.bearer_matches("other", key_files.bearer_hash(secret))


def test_wrong_set_ups_stop_the_commands_with_one_line_and_status_two(tmp_path, capsys):
    experiment = tmp_path / "e.toml"
    experiment.write_text('name = "a"\narms = ["x", "y"]\n[program]\nhorizon = 1000\npolicy = "nope"\n')
    keys = str(tmp_path / "keys")
    assert main(["serve", "keys", keys]) == 0
    common = ["--keys", keys, "--bearer", f"{keys}/bearer", "--admin", f"{keys}/admin", "--shuffler", "http://x"]
    for arguments in (
        ["serve", "analyzer", str(experiment), "--store", str(tmp_path / "a.db"), *common],
        ["serve", "analyzer", str(tmp_path / "none.toml"), "--store", str(tmp_path / "a.db"), *common],
        ["serve", "analyzer", "--store", str(tmp_path / "a.db"), *common],
        ["serve", "shuffler", "--keys", str(tmp_path / "nothing"), "--store", "x.db", "--analyzer", "sha256:00"],
        ["serve", "shuffler", "--keys", keys, "--store", "/proc/none/x.db", "--analyzer", "sha256:00"],
        ["serve", "shuffler", "--keys", keys, "--store", str(tmp_path / "s.db"), "--analyzer", str(tmp_path / "none")],
        ["verify", str(tmp_path / "none.jsonl")],
        ["crowd", "--users", "1", "--analyzer", "http://127.0.0.1:9"],
    ):
        capsys.readouterr()
        assert main(arguments) == 2
        printed = capsys.readouterr()
        assert len(printed.err.strip().splitlines()) == 1
        assert printed.err.startswith(f"croupier {arguments[0]}: ")


def test_every_operation_that_is_described_exists_and_refuses_by_known_names():
    for operations in (openapi.SHUFFLER, openapi.ANALYZER):
        described = openapi.document("x", operations)
        assert described["openapi"].startswith("3.1")
        for operation in operations:
            assert described["paths"][operation.path][operation.method]["responses"]
