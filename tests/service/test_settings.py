"""Settings, keys and experiments: every wrong one stops at the door with one line."""

import asyncio
import base64
import os
import socket
import stat
from itertools import takewhile

import pytest

from cases.blind_tokens import ISSUERS
from croupier.checks import CroupierError
from croupier.cli import main
from croupier.messages.signing import to_text
from croupier.service import keys as key_files
from croupier.service.experiment import plan, read_plan
from croupier.service.front_app import FrontApp
from croupier.service.settings import AnalyzerSettings, FrontSettings, admission_of, read

GIVEN = {"keys": "k", "store": "s.db", "analyzer": "a", "admission": "everybody"}


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path):
    path = tmp_path / "front.toml"
    path.write_text(
        'keys = "file"\nstore = "file.db"\nanalyzer = "file"\nadmission = "everybody"\nworkers = 3\nahead = 2\n'
    )
    environment = {"CROUPIER_FRONT_STORE": "environment.db", "CROUPIER_FRONT_WORKERS": "4"}
    found = read(FrontSettings, "FRONT", str(path), {"workers": 5, "keys": None}, environment)
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
        ({"largest_epsilon": 0.0}, "largest_epsilon"),
        ({"store": ""}, "store"),
        ({"suite": "rot13"}, "suite"),
        ({"certificate": "c.pem"}, "certificate_key"),
        ({"certificate": "c.pem", "certificate_key": "k.pem"}, "certificate"),
        ({"group_seconds": 2.0}, "group_seconds"),
        ({"origins": "shop.example"}, "origins"),
        ({"origins": "https://shop.example/"}, "origins"),
        ({"origins": "https://one.example,https://two.example/"}, "origins"),
    ],
)
def test_a_wrong_setting_is_named(changes, word):
    with pytest.raises(CroupierError, match=word) as refusal:
        read(FrontSettings, "FRONT", None, GIVEN | changes, {})
    assert "\n" not in str(refusal.value)


def test_missing_and_unknown_settings_are_named(tmp_path):
    with pytest.raises(CroupierError, match="missing: keys, store, bearer, admin, front"):
        read(AnalyzerSettings, "ANALYZER", None, {}, {})
    path = tmp_path / "s.toml"
    path.write_text('colour = "red"\n')
    with pytest.raises(CroupierError, match="colour"):
        read(FrontSettings, "FRONT", str(path), GIVEN, {})
    path.write_text("= no toml")
    with pytest.raises(CroupierError, match="is not TOML"):
        read(FrontSettings, "FRONT", str(path), GIVEN, {})
    with pytest.raises(CroupierError, match="CROUPIER_FRONT_WORKERS"):
        read(FrontSettings, "FRONT", None, GIVEN, {"CROUPIER_FRONT_WORKERS": "many"})


BASE = {"name": "a", "arms": ["x", "y"], "program": {"horizon": 1000}}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "Big Name"}, "name = 'Big Name'"),
        ({"name": None}, "name is missing"),
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
        ({"reward": {"protocol": "central-laplace"}}, "one that the servers carry"),
        ({"reward": {"protocol": "shuffled-vectors"}}, "one that the servers carry"),
        ({"reward": {"protocol": "shared-vectors"}}, "one that the servers carry"),
        ({"privacy": {"trust": "everybody"}}, "privacy.trust = 'everybody'"),
        ({"privacy": {"trust": "two-servers"}, "reward": {"protocol": "shuffled-bits"}}, "one of shuffler"),
        ({"privacy": {"trust": "nobody"}, "reward": {"protocol": "laplace"}}, "one of devices, two-servers"),
        ({"privacy": {"honest_fraction": 0.9}}, "left out where the trust is two-servers"),
        ({"privacy": {"trust": "devices", "front_noise": True}}, "left out where the trust is devices"),
        ({"reports": {"report_within": 0}}, "report_within = 0"),
        ({"reports": {"report_at": [5]}}, "report_at"),
        ({"reports": {"report_at": [50, 5]}}, "report_at"),
        ({"reports": {"report_within": 10, "report_at": [5, 50]}}, r"report_at = 50 .* in \[0, 10\]"),
        ({"reports": {"default": 7}}, "value = 7"),
        ({"reward": {"protocol": "nothing"}}, "protocol"),
        ({"batches": {"deadline": 0}}, "deadline"),
        ({"arms": [], "program": {"kind": "counter", "users": 100}, "batches": {"deadline": 5}}, "deadline"),
        ({"program": {"kind": "counter", "users": 100}}, "arms"),
        ({"arms": [], "program": {"kind": "histogram", "users": 9}}, "items"),
        # Keys that would shadow, or be shadowed by, what stands elsewhere in the file.
        *(
            ({"program": {"horizon": 1000, key: value}}, f"program.{key} is unknown here")
            for key, value in {
                "name": "sdp-ae",
                "arms": 5,
                "protocol_name": "shuffled-bits",
                "epsilon": 0.1,
                "delta": 1e-9,
                "honest_fraction": 0.5,
                "smallest": 64,
                "horizont": 5,
            }.items()
        ),
        *(
            ({"program": {"horizon": 1000, "failure": bad}}, r"program.failure = .* in \(0, 1\)")
            for bad in (3, -1, "x")
        ),
        ({"program": {"horizon": 1000, "failure": 0.1}}, "program.failure = 0.1 .* dp-klucb does not read it"),
        (
            {"program": {"horizon": 9000, "policy": "sdp-ae", "exploration": 1.0}},
            "program.exploration = 1.0 .* sdp-ae does not read it",
        ),
        ({"program": {"horizon": 1000, "exploration": 0}}, "program.exploration = 0"),
        ({"program": {"horizon": 1000, "growth": 0}}, "program.growth = 0"),
        # Numbers beyond what anybody can plan with.
        ({"program": {"horizon": 10**30}}, r"program.horizon = 10* is not allowed: .* in \[1, 10*\]"),
        ({"batches": {"smallest": 10**30}}, "batches.smallest = 10"),
        ({"batches": {"smallest": 32.5}}, "batches.smallest = 32.5"),
        (
            {"batches": {"smallest": 5}, "privacy": {"trust": "shuffler"}},
            "batches.smallest = 5 .* >= 21, the smallest batch of shuffled-laplace",
        ),
        ({"batches": {"smallest": 0}}, "batches.smallest = 0"),
        ({"batches": {"deadline": 1e300}}, "batches.deadline"),
        ({"batches": {"deadline": 0.001}}, "batches.deadline = 0.001"),
        ({"privacy": {"epsilon": 1e-300}}, "privacy.epsilon = 1e-300"),
        ({"privacy": {"epsilon": 50}}, r"privacy.epsilon = 50 is not allowed: it must be a number in \[0.01, 20\]"),
        ({"privacy": {"delta": 1e-300}}, "privacy.delta = 1e-300"),
        ({"privacy": {"unit": 3}}, "privacy.unit = 3"),
        ({"privacy": {"period": 10**30}}, "privacy.period"),
        ({"reward": {"binary": "yes"}}, "reward.binary = 'yes' is not allowed: it must be true or false"),
        ({"reward": {"binary": False, "protocol": "shuffled-bits"}}, "reward.binary = False .* two values"),
        ({"arms": [], "program": {"kind": "counter"}}, "program.users"),
        ({"arms": [], "program": {"kind": "counter", "users": 100}, "reward": {"low": 5}}, "low = 5"),
        (
            {
                "arms": [],
                "program": {"kind": "counter", "users": 100},
                "batches": {"smallest": 5},
                "privacy": {"trust": "shuffler"},
            },
            "batches.smallest = 5 .* >= 21",
        ),
        ({"arms": [], "program": {"kind": "histogram", "items": ["a", "b"]}}, "program.users"),
        ({"arms": [], "program": {"kind": "histogram", "users": 9, "universe": "words.txt"}}, "universe .* a table"),
        (
            {"arms": [], "program": {"kind": "histogram", "users": 9, "universe": {"kind": "x"}}},
            "items, buckets, numbers",
        ),
        (
            {"arms": [], "program": {"kind": "histogram", "users": 9, "items": ["a", "b"]}, "batches": {"smallest": 5}},
            "batches.smallest = 5 .* left out",
        ),
    ],
)
def test_a_wrong_experiment_is_one_line_that_names_what_is_wrong(changes, word):
    with pytest.raises(CroupierError, match=word) as refusal:
        plan(BASE | changes)
    assert "\n" not in str(refusal.value)


SPLIT = BASE | {"program": {"policy": "split"}}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"control": "pink"}, "control = 'pink' is not allowed: it must be one of the arms"),
        ({"program": {"policy": "dp-klucb", "horizon": 900}, "control": "red"}, "nothing is decided here"),
        ({"program": {"policy": "dp-klucb", "horizon": 900}, "decision": {"confidence": 0.9}}, "policies that decide"),
        ({"program": {"policy": "split", "kind": "bandit", "horizon": 900}}, "it is a comparison"),
        ({"program": {"policy": "dp-klucb", "kind": "comparison"}}, "one in blocks"),
        ({"program": {"policy": "split", "shares": [1, 2, 3, 4]}}, "one an arm"),
        ({"program": {"policy": "dp-top-two", "shares": [1, 2]}}, "program.shares = .* dp-top-two does not read it"),
        ({"decision": {"then": "celebrate"}}, "then = 'celebrate'"),
        ({"decision": {"confidence": 1.0}}, "decision.confidence = 1.0"),
        ({"decision": {"certainty": 0.9}}, "decision.certainty is unknown here"),
        ({"decision": {"minimum_run": -1}}, "decision.minimum_run = -1"),
        ({"reports": {"repeat": "never"}}, "reports.repeat = 'never'"),
    ],
)
def test_a_wrong_comparison_is_one_line_that_names_what_is_wrong(changes, word):
    with pytest.raises(CroupierError, match=word) as refusal:
        plan(SPLIT | changes)
    assert "\n" not in str(refusal.value)


def test_what_a_comparison_is_unless_it_says_otherwise():
    found = plan(SPLIT)
    assert (found.parameters["decision"], found.parameters["minimum_run"]) == ({"control": 0}, 7 * 86_400.0)
    assert not found.reports.repeat
    assert "horizon" not in found.parameters
    assert plan(SPLIT | {"reports": {"repeat": True}}).reports.repeat
    assert plan(SPLIT | {"control": BASE["arms"][1]}).parameters["decision"] == {"control": 1}


def test_the_default_experiment_decides_between_two_servers():
    from croupier.cli.up import default_experiment

    found = read_plan(default_experiment())
    assert (found.parameters["kind"], found.parameters["name"]) == ("comparison", "concurrent-elimination")
    assert (found.recipe["protocol"], found.trust, found.reports.repeat) == ("laplace", "two-servers", False)
    assert len(found.arms) == 5
    assert found.recipe["values"]["binary"]


@pytest.mark.parametrize(
    "protocol",
    ["laplace", "discrete-gaussian", "local-laplace", "shuffled-bits", "shuffled-levels", "shuffled-laplace"],
)
@pytest.mark.parametrize("policy", ["dp-klucb", "dp-imed", "vb-sdp-ae", "sdp-ae", "shuffle-dp-se"])
def test_any_policy_runs_over_any_protocol_that_a_front_carries(policy, protocol):
    found = plan(BASE | {"program": {"horizon": 2_000_000, "policy": policy}, "reward": {"protocol": protocol}})
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


EXPERIMENT = 'name = "a"\narms = ["x", "y"]\n[program]\nhorizon = 1000\n'
HASH = "sha256:" + "0" * 64
WRONG = {
    # What is wrong: the command, and a word of the line that it ends with.
    "an unknown policy": ("analyzer policy.toml", "policy = 'nope'"),
    "an epsilon of zero": ("analyzer epsilon.toml", "epsilon = 0"),
    "an epsilon below zero": ("analyzer negative.toml", "epsilon = -1.0"),
    "a protocol that no server carries": ("analyzer protocol.toml", "one that the servers carry"),
    "a horizon too small": ("analyzer horizon.toml", "is the horizon shorter than the smallest batch?"),
    "an unknown key of an experiment": ("analyzer colour.toml", "'colour'"),
    "an experiment that is no TOML": ("analyzer torn.toml", "is not TOML"),
    "an experiment that is not there": ("analyzer none.toml", "cannot be read"),
    "two experiments of one name": ("analyzer good.toml twin.toml", "good.toml and twin.toml have the same name, 'a'"),
    "a universe that is a file": ("analyzer universe.toml", "universe.toml: program.universe = 'words.txt'"),
    "an experiment for the front": ("front good.toml", "takes no experiments"),
    "an operator's hash that is none": ("analyzer good.toml --admin sha256:garbage", "admin"),
    "an analyzer's hash that is none": ("front --analyzer sha256:garbage", "analyzer"),
    "an analyzer's secret that is not there": ("front --analyzer none", "is missing"),
    "a missing bearer secret": ("analyzer good.toml --bearer none", "is missing"),
    "missing keys": ("front --keys none", "there are no keys"),
    "keys without their token": ("front --keys torn", "is missing"),
    "a store in no directory": ("front --store good.toml/s.db", "cannot be reached"),
    "a store that may not be written": ("front --store /proc/none/s.db", "cannot be reached"),
    "a store that is a directory": ("analyzer good.toml --store keys", "cannot be reached"),
    "a store that is another file": ("front --store good.toml", "not a database"),
    "a refused PostgreSQL": ("front --store postgresql://nobody@127.0.0.1:9/none", "cannot be reached"),
    "another database": ("front --store mysql://host/base", "sqlite or postgresql"),
    "a port in use": ("front --listen IN_USE", "cannot be listened on"),
    "a port in use, with workers": ("front --listen IN_USE --workers 2", "cannot be listened on"),
    "the analyzer's port in use": ("analyzer good.toml --listen IN_USE", "cannot be listened on"),
    "no port": ("front --listen nowhere", "listen"),
    "settings that are no TOML": ("front --settings torn.toml", "is not TOML"),
    "settings that are no text": ("front --settings bytes.toml", "is not TOML"),
    "settings that are a directory": ("front --settings keys", "cannot be read"),
    "an unknown setting in the file": ("front --settings colour.toml", "setting = 'colour'"),
    "an unknown option": ("front --colour red", "--colour"),
    "the other server's setting": ("front --poll 3", "setting = 'poll'"),
    "a setting of the wrong type": ("front --workers many", "workers"),
    "a certificate that is none": ("front --certificate good.toml --certificate-key good.toml", "certificate"),
    "an issuer's key that is none": ("front --admission tickets --issuer AAAA", "issuer"),
    "tickets of nobody": ("front --admission tickets", "issuer"),
    "tokens of nobody": ("front --admission tokens", "issuer"),
    "tokens of a key for tickets": ("front --admission tokens --issuer " + "A" * 43, "issuer"),
    "tokens of a key that is none": ("front --admission tokens --issuer " + "A" * 456, "issuer"),
    "a memory that would refuse good tickets": (
        "front --admission tickets --remember 3600 --issuer " + "A" * 43,
        "remember",
    ),
    "an issuer whom nobody asks": ("front --issuer " + "A" * 43, "issuer"),
    "an admission that is none": ("front --admission some", "everybody, tickets"),
    "plain http for everybody": ("front --listen 0.0.0.0:0", "plain_http = true"),
    "plain http for everybody, by the analyzer": ("analyzer good.toml --listen [::]:0", "plain_http = true"),
    "a secret over plain http": ("analyzer good.toml --front http://front.test", "an https address"),
    "a secret over plain http inside": ("analyzer good.toml --front-internal http://10.0.0.2", "an https address"),
    "a flag that is none": ("front --plain-http maybe", "--plain-http"),
}
FILES = {
    "good.toml": EXPERIMENT,
    "twin.toml": EXPERIMENT,
    "universe.toml": 'name = "a"\n[program]\nkind = "histogram"\nusers = 100\nuniverse = "words.txt"\n',
    "policy.toml": EXPERIMENT + 'policy = "nope"\n',
    "epsilon.toml": EXPERIMENT + "[privacy]\nepsilon = 0\n",
    "negative.toml": EXPERIMENT + "[privacy]\nepsilon = -1.0\n",
    "protocol.toml": EXPERIMENT + '[reward]\nprotocol = "central-laplace"\n',
    "horizon.toml": EXPERIMENT.replace("1000", "20"),
    "colour.toml": "colour = 1\n" + EXPERIMENT,
    "torn.toml": "= no toml",
}


@pytest.fixture(scope="module")
def set_up(tmp_path_factory):
    """A directory in which all is right, some wrong files beside it, and a port that somebody listens on."""
    directory = tmp_path_factory.mktemp("set-up")
    for name, contents in FILES.items():
        (directory / name).write_text(contents, encoding="utf-8")
    (directory / "bytes.toml").write_bytes(b"\xff\xfe\0")
    for name in ("keys", "torn"):
        assert main(["serve", "keys", str(directory / name)]) == 0
    (directory / "torn" / "token").unlink()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield directory, f"127.0.0.1:{taken.getsockname()[1]}"


RIGHT = {
    "front": ["--keys", "keys", "--store", "s.db", "--analyzer", HASH, "--admission", "everybody"],
    "analyzer": [
        *("--keys", "keys", "--store", "a.db", "--bearer", "keys/bearer", "--admin", "keys/admin"),
        *("--front", "https://front.test"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_set_up_stops_the_command_with_one_line_and_status_two(wrong, set_up, monkeypatch, capsys):
    directory, in_use = set_up
    monkeypatch.chdir(directory)
    command, word = WRONG[wrong]
    server, *given = command.replace("IN_USE", in_use).split()
    try:
        files = list(takewhile(lambda word: not word.startswith("--"), given))
        status = main(["serve", server, *files, *RIGHT[server], *given[len(files) :]])
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith("croupier")
    assert word in line


def test_a_variable_that_is_no_setting_is_named():
    with pytest.raises(CroupierError, match="admision"):
        read(FrontSettings, "FRONT", None, GIVEN, {"CROUPIER_FRONT_ADMISION": "AAAA"})


OTHERS = {
    # What is wrong with another command: its arguments, and a word of the line that it ends with.
    "no transcript": ("verify none.jsonl", "cannot be read"),
    "a key of another length": (
        "verify good.toml --analyzer AAAA",
        "analyzer = 'AAAA' is not allowed: it must be a public",
    ),
    "no analyzer": ("crowd --users 1 --analyzer http://127.0.0.1:9", "does not answer"),
    "an analyzer without a scheme": ("crowd --users 1 --analyzer nowhere", "http"),
    "an address that is none": ("crowd --users 1 --analyzer http://[::1", "does not answer"),
    "a port beyond all": ("up --port 80000000000000000000", "port = 80000000000000000000"),
    "no port for the front": ("up --port 65535", "port = 65535"),
    "a port that is none": ("up --port -1", "port = -1"),
    "a home that is a file": ("up --port 0 --home good.toml", "good.toml cannot be used as a home"),
    "a home below a file": ("up --port 0 --home good.toml/home", "cannot be used as a home"),
    "keys in a file": ("serve keys good.toml", "good.toml cannot be made"),
    "keys that nobody can make": ("serve keys /proc/none/keys", "cannot be made"),
    "keys in no directory": ("serve keys", "directory"),
}


@pytest.mark.parametrize("wrong", OTHERS)
def test_other_commands_end_the_same_way(wrong, set_up, monkeypatch, capsys):
    monkeypatch.chdir(set_up[0])
    command, word = OTHERS[wrong]
    assert main(command.split()) == 2
    *before, line = capsys.readouterr().err.splitlines()
    assert all(one.startswith("Starting") for one in before)
    assert line.startswith(f"croupier {command.split()[0]}: ")
    assert word in line


def test_a_range_of_ones_own_means_numbers_within_it():
    reward = {"low": 1, "high": 5}
    for given, binary in (({}, True), (reward, False), (reward | {"binary": True}, True)):
        assert plan(BASE | {"reward": given}).recipe["values"]["binary"] is binary
    assert plan(BASE | {"reward": reward | {"protocol": "shuffled-bits"}}).recipe["values"]["binary"]


@pytest.mark.parametrize("low", [0, -5])
def test_a_counter_sums_values_of_a_range_of_ones_own_in_batches_of_a_size_of_ones_own(low):
    counter = {"name": "a", "program": {"kind": "counter", "users": 400, "shufflers": 2}}
    found = plan(counter | {"reward": {"low": low, "high": 5}, "batches": {"smallest": 50}})
    assert (found.recipe["smallest"], found.parameters["smallest"]) == (50, 50)
    assert found.recipe["values"] | {"low": low, "high": 5, "binary": False} == found.recipe["values"]
    assert found.program().plan.middle == (low + 5) / 2


def test_a_public_key_is_read_in_every_form_that_people_paste_and_printed_in_one(tmp_path, capsys):
    found = key_files.make(tmp_path / "keys").verify
    text = to_text(found)
    standard = base64.b64encode(found).decode()
    for form in (text, found.hex(), found.hex().upper(), text + "=", standard, standard.rstrip("=")):
        assert key_files.public_key("analyzer", form) == found
    for wrong in ("", "AAAA", text[:-1], found.hex()[:-2], text + "==x", "ä" * 43):
        with pytest.raises(CroupierError, match="analyzer = .* a public key of 32 bytes"):
            key_files.public_key("analyzer", wrong)
    assert main(["serve", "keys", str(tmp_path / "keys")]) == 0
    said = capsys.readouterr().out
    assert f"signing key {text}\n" in said
    assert found.hex() not in said


def test_a_front_that_admits_everybody_says_so_at_start(tmp_path, caplog):
    issuer = to_text(key_files.make(tmp_path / "keys").verify)

    async def warnings(**admission):
        caplog.clear()
        where = {"keys": str(tmp_path / "keys"), "store": str(tmp_path / "s.db")}
        settings = FrontSettings(analyzer=HASH, openers=0, **where, **admission)
        app = FrontApp(settings).app
        async with app.router.lifespan_context(app):
            return [record.message for record in caplog.records if record.levelname == "WARNING"]

    assert asyncio.run(warnings(admission="everybody")) == ["everybody is admitted"]
    assert asyncio.run(warnings(admission="tickets", issuer=issuer)) == []


def test_a_front_does_not_start_until_it_is_said_whom_it_admits():
    with pytest.raises(CroupierError, match="settings are missing: admission"):
        read(FrontSettings, "FRONT", None, {"keys": "k", "store": "s", "analyzer": "a"}, {})


def test_settings_of_the_wrong_kind_are_called_by_plain_words():
    with pytest.raises(CroupierError, match="workers = 'x' is not allowed: it must be a whole number"):
        read(FrontSettings, "FRONT", None, GIVEN | {"workers": "x"}, {})


@pytest.mark.parametrize("form", ["00" * 32, "A" * 43, "A" * 43 + "="])
def test_an_issuers_key_may_have_any_form_that_people_paste(form):
    found = FrontSettings(**GIVEN | {"admission": "tickets", "issuer": form})
    assert admission_of(found).issuer == bytes(32)


def test_a_token_issuers_key_may_have_any_form_that_people_paste():
    public = ISSUERS[0].public
    padded = base64.b64encode(public).decode()
    for form in (to_text(public), padded, public.hex(), public.hex().upper()):
        assert admission_of(FrontSettings(**GIVEN | {"admission": "tokens", "issuer": form})).issuer == public
    # Spent tokens are remembered for good, so `remember` may be as short as for everybody.
    FrontSettings(**GIVEN | {"admission": "tokens", "issuer": to_text(public), "remember": 3600})
