"""The bytes: fixed vectors that any other client must reproduce, and refusals of all else."""

import json
from pathlib import Path

import numpy as np
import pytest

from cases.protocols import SENDABLE, make
from croupier.checks import CroupierError, InvalidParameter
from croupier.noise import secure
from croupier.protocols import Mechanism, Release, TamperedMessage

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_vectors_hold(vector: dict[str, object]) -> None:
    mechanism = Mechanism.from_json(str(vector["mechanism"]))
    assert mechanism.to_json() == vector["mechanism"]
    reports = np.asarray(vector["reports"])
    messages = [mechanism.pack(report) for report in reports]
    assert [[m.hex() for m in ms] for ms in messages] == vector["messages"]
    view = mechanism.collect(reports)
    assert view.tolist() == vector["view"]
    release = mechanism.analyze(view, secure())
    if mechanism.noise_from not in ("analyzer", "servers"):
        assert release.to_json() == vector["release"]
        assert Release.from_json(str(vector["release"])).sum == pytest.approx(vector["sum"])


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
def test_messages_of_a_batch_make_the_view_in_any_order(name: str, constants: str) -> None:
    mechanism = make(name, constants).plan(40)
    values = np.zeros((40, 3)) if mechanism.coordinates else np.ones(40)
    reports = mechanism.randomize(values, secure())
    view = mechanism.collect(reports)
    if mechanism.carrier.kind == "shared":
        assert {len(mechanism.pack(report)[0]) for report in reports} == {mechanism.message_bytes}
        total = mechanism.ring.encode([int(number) for number in np.atleast_1d(view)])
        assert np.array_equal(mechanism.unpack([total]), view)
        return
    if mechanism.carrier.kind == "secure-aggregation":
        assert np.array_equal(mechanism.unpack(mechanism.pack(view)), view)
        return
    messages = [message for report in reports for message in mechanism.pack(report)]
    assert {len(message) for message in messages} == {mechanism.message_bytes}
    if mechanism.carrier.kind != "plain":
        np.random.default_rng(1).shuffle(messages)
    read = mechanism.unpack(messages)
    assert np.array_equal(mechanism.analyze(read).decoded, mechanism.analyze(view).decoded)


@pytest.mark.parametrize(("name", "constants"), SENDABLE)
@pytest.mark.parametrize("bad", [b"", b"\x02", b"\xff" * 8, b"\x00" * 30])
def test_malformed_messages_are_refused(name: str, constants: str, bad: bytes) -> None:
    mechanism = make(name, constants).plan(40)
    with pytest.raises(TamperedMessage):
        mechanism.unpack([bad])


def test_a_billion_messages_are_refused() -> None:
    mechanism = make("shuffled-levels", "published").plan(40)
    with pytest.raises(InvalidParameter, match="simulation only"):
        mechanism.pack([mechanism.share.trials, mechanism.precision])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"version":2}',
        make("laplace", "tight").plan(40).to_json().replace('"users":40', '"users":0'),
        make("laplace", "tight").plan(40).to_json().replace('"version":1', '"version":9'),
        make("laplace", "tight").plan(40).to_json().replace('"laplace"', '"laplace","extra":1'),
        make("laplace", "tight").plan(40).to_json().replace("PolyaDifference", "Cauchy"),
        make("laplace", "tight").plan(40).to_json().replace("1/40", "many"),
        make("laplace", "tight").plan(40).to_json().replace('"secure-aggregation"', '"pigeon"'),
    ],
)
def test_a_bent_mechanism_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Mechanism.from_json(text)


LAPLACE, MIXED, BITS = (make(n, "tight").plan(40).to_json() for n in ("laplace", "shuffled-laplace", "shuffled-bits"))


@pytest.mark.parametrize(
    ("text", "old", "new", "parameter"),
    [
        (MIXED, f'"pieces":{json.loads(MIXED)["carrier"]["pieces"]}', '"pieces":2', "pieces"),
        (LAPLACE, '"secure-aggregation"', '"plain"', "noise_from"),
        (LAPLACE, '"noise_from":"batch"', '"noise_from":"user"', "noise_from"),
        (LAPLACE, f'"modulus":{json.loads(LAPLACE)["carrier"]["modulus"]}', '"modulus":50', "modulus|slack"),
        (LAPLACE, '"delta":0.0', '"delta":0.9', "delta"),
        (LAPLACE, '"binary":false', '"binary":"no"', "binary"),
        (LAPLACE, '"1/40"', '"1e3000000"', "noise"),
        (BITS, '"value_messages":1', '"value_messages":0', "share"),
        (BITS, '"protocol":"shuffled-bits"', '"protocol":["x"]', "protocol"),
    ],
)
def test_a_mechanism_that_would_not_hide_its_users_is_refused(text: str, old: str, new: str, parameter: str) -> None:
    assert old in text
    with pytest.raises(InvalidParameter, match=f"^({parameter}) = "):
        Mechanism.from_json(text.replace(old, new))


@pytest.mark.parametrize("text", [LAPLACE, MIXED, BITS])
def test_no_device_sends_a_value_to_which_the_analyzer_is_to_add_the_noise(text: str) -> None:
    changed = text.replace('"noise_from":"batch"', '"noise_from":"analyzer"')
    with pytest.raises(CroupierError):
        Mechanism.from_json(changed).slots(1.0, secure())


def test_a_claim_that_the_noise_does_not_give_fails_its_certificate() -> None:
    bold = Mechanism.from_json(LAPLACE.replace('"epsilon":0.5', '"epsilon":0.4'))
    assert not bold.certificate().holds
    skellam = json.loads(make("skellam", "tight").plan(40).to_json())
    skellam["guarantee"]["divergence"] = 1e-9
    assert not Mechanism.from_json(json.dumps(skellam)).certificate().holds


def test_users_who_tie_in_one_coordinate_stay_hidden() -> None:
    mechanism = make("shuffled-vectors", "tight").plan(40)
    reports = mechanism.randomize(np.zeros((40, 3)), secure())
    reports[:, :, 0] = 5
    assert np.array_equal(mechanism.collect(reports), mechanism.collect(reports[::-1]))
