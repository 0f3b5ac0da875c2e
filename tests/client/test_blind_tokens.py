"""Blind tokens: the RFCs' own vectors, what is refused, and that a request does not tell which token came of it."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from cases.blind_tokens import FRONT, ISSUERS, asked, token_of
from cases.client import Server, both_signed, configuration
from croupier.checks import InvalidParameter
from croupier.client import Admission, BadSignature, BeyondLimits, Joined, Limits, TokenRequest, token_request
from croupier.messages import blind_rsa
from croupier.messages.admittance import NotAdmitted
from croupier.messages.blind_rsa import BlindingProblem, PublicKey, blind, encode, finalize, verify
from croupier.messages.blind_tokens import challenge, challenge_of, check, key_bytes, key_id, read_key, request
from croupier.messages.signing import to_text
from croupier.service.issuing import TokenIssuer, Unprocessable, blind_sign

VECTORS = Path(__file__).parent / "rfc_tokens.json"


@pytest.fixture(scope="module")
def rfc():
    """The vectors of RFC 9474 (appendix A), RFC 9577 (appendix A.1) and RFC 9578 (appendix B.2), where they are here."""
    if not VECTORS.exists():
        pytest.skip(f"{VECTORS.name} is not part of this repository: docs/testing.md says what it holds")
    return json.loads(VECTORS.read_text())


# The RFCs' vectors


@pytest.mark.parametrize("at", range(4))
def test_signatures_are_those_of_rfc_9474(at, rfc):
    numbers = {name: int(value, 16) for name, value in rfc["rfc9474"]["key"].items()}
    vector = rfc["rfc9474"]["vectors"][at]
    p, q, d = (numbers[name] for name in "pqd")
    private = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(numbers["e"], numbers["n"])
    )
    key, inverse = PublicKey(numbers["n"], numbers["e"]), int(vector["inverse"], 16)
    message, salt = bytes.fromhex(vector["message"]), bytes.fromhex(vector["salt"])
    blinded, undone = blind(key, message, salt, pow(inverse, -1, key.modulus))
    assert (blinded.hex(), undone) == (vector["blinded"], inverse)
    signed = blind_sign(private, int.from_bytes(blinded, "big")).to_bytes(key.size, "big")
    assert signed.hex() == vector["blind_signature"]
    assert finalize(key, message, signed, inverse, len(salt)).hex() == vector["signature"]


def test_challenges_are_those_of_rfc_9577(rfc):
    assert len(rfc["rfc9577"]) == 5
    for vector in rfc["rfc9577"]:
        parts = [bytes.fromhex(vector[name]) for name in ("issuer_name", "redemption_context", "origin_info")]
        said = b"\0\2" + bytes.fromhex(vector["nonce"]) + hashlib.sha256(challenge_of(*parts)).digest()
        assert (said + bytes.fromhex(vector["token_key_id"])).hex() == vector["token_authenticator_input"]


@pytest.mark.parametrize("at", range(5))
def test_requests_answers_and_tokens_are_those_of_rfc_9578(at, rfc):
    issuer = TokenIssuer(load_pem_private_key(bytes.fromhex(rfc["rfc9578"]["skS"]), None))
    assert issuer.public.hex() == rfc["rfc9578"]["pkS"]
    vector = {name: bytes.fromhex(value) for name, value in rfc["rfc9578"]["vectors"][at].items()}
    made = request(
        issuer.public,
        vector["token_challenge"],
        nonce=vector["nonce"],
        salt=vector["salt"],
        factor=int.from_bytes(vector["blind"], "big"),
    )
    assert made.body == vector["token_request"]
    assert issuer.answer(made.body) == vector["token_response"]
    assert made.finish(vector["token_response"]) == vector["token"]
    assert check(issuer.public, vector["token"], vector["token_challenge"])


# Who cannot tell


def test_every_request_may_have_become_every_token():
    """For each token and each request there is one factor that leads from one to the other, answer and all."""
    issuer = ISSUERS[0]
    key = read_key(issuer.public)
    drawn = [(bytes([at]) * 32, bytes([at]) * 48) for at in range(4)]
    requests = [request(issuer.public, asked(), nonce=nonce, salt=salt) for nonce, salt in drawn]
    answers = [issuer.answer(one.body) for one in requests]
    tokens = [one.finish(answer) for one, answer in zip(requests, answers, strict=True)]
    for (nonce, salt), token in zip(drawn, tokens, strict=True):
        signature = int.from_bytes(token[-256:], "big")
        for sent, answer in zip(requests, answers, strict=True):
            factor = int.from_bytes(answer, "big") * pow(signature, -1, key.modulus) % key.modulus
            other = request(issuer.public, asked(), nonce=nonce, salt=salt, factor=factor)
            assert (other.body, other.finish(answer)) == (sent.body, token)


@pytest.mark.parametrize("message", [1, 2, 1234, 3232])
def test_a_blinded_message_is_uniform_whatever_the_message(message, monkeypatch):
    """With a key of twelve bits all factors can be tried: every unit comes out exactly once."""
    key = PublicKey(61 * 53, 17)
    monkeypatch.setattr(blind_rsa, "encode", lambda *_: message.to_bytes(2, "big"))
    units = [x for x in range(key.modulus) if math.gcd(x, key.modulus) == 1]
    assert sorted(int.from_bytes(blind(key, b"", b"", factor)[0], "big") for factor in units) == units


def test_factors_have_an_inverse_and_may_be_any():
    assert {blind_rsa.unit(15) for _ in range(1000)} == {1, 2, 4, 7, 8, 11, 13, 14}


def test_two_requests_share_nothing_and_do_not_show_what_stays_on_the_device():
    first, second = (request(ISSUERS[0].public, asked()) for _ in range(2))
    assert first.body[:3] == second.body[:3]
    assert first.body[3:] != second.body[3:]
    assert first.said[2:34] != second.said[2:34]
    assert repr(first) == f"TokenRequest(body={first.body!r})"


def test_all_who_take_part_answer_one_challenge_whatever_else_changes():
    """It follows from what both servers signed and no revision changes; nothing of it is a server's to choose."""
    analyzer, front = Server.make(), Server.make()
    admission = Admission("tokens", ISSUERS[0].public)
    found = [
        configuration(analyzer, front, admission=admission, **changes)
        for changes in ({}, {"revision": 7, "title": "x", "urls": dict.fromkeys(("analyzer", "front"), "https://y")})
    ]
    digests = {token_request(joined(one, analyzer, front)).said[34:66] for one in found}
    expected = challenge(ISSUERS[0].public, "colours", front.public.verify)
    assert digests == {hashlib.sha256(expected).digest()}
    others = [
        challenge(ISSUERS[1].public, "colours", front.public.verify),
        challenge(ISSUERS[0].public, "colour", front.public.verify),
        challenge(ISSUERS[0].public, "colours", analyzer.public.verify),
    ]
    assert len({expected, *others}) == 4


def joined(found, analyzer, front):
    return Joined(found, both_signed(found.statement(), analyzer, front))


# What is refused


def test_a_token_is_asked_for_only_where_tokens_admit():
    analyzer, front = Server.make(), Server.make()
    for admission in (Admission("everybody"), Admission("tickets", bytes(32))):
        with pytest.raises(InvalidParameter, match=f"admits by tokens, and it admits {admission.kind}"):
            token_request(joined(configuration(analyzer, front, admission=admission), analyzer, front))


def test_an_app_that_knows_its_issuer_believes_no_other_key():
    """Both servers and the issuer together could else give each user a key, and know the user by it."""
    analyzer, front = Server.make(), Server.make()
    found = joined(configuration(analyzer, front, admission=Admission("tokens", ISSUERS[0].public)), analyzer, front)
    for known in (ISSUERS[0].public, to_text(ISSUERS[0].public)):
        assert token_request(found, known).body
    for other in (ISSUERS[1].public, to_text(ISSUERS[1].public), b""):
        with pytest.raises(BadSignature, match="another issuer's key"):
            token_request(found, other)


def test_a_device_may_refuse_tokens_or_accept_nothing_else():
    found = configuration(Server.make(), Server.make(), admission=Admission("tokens", ISSUERS[0].public))
    Limits().check(found)
    Limits(admission=("tokens",)).check(found)
    with pytest.raises(BeyondLimits, match="admits tokens, and this device accepts everybody or tickets"):
        Limits(admission=("everybody", "tickets")).check(found)
    with pytest.raises(BeyondLimits, match="admits tickets, and this device accepts tokens"):
        Limits(admission=("tokens",)).check(replace(found, admission=Admission("tickets", bytes(32))))


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_token_that_is_not_one_for_this_door_is_refused_and_the_refusal_says_why():
    issuer, token = ISSUERS[0].public, token_of(ISSUERS[0])
    name = check(issuer, token, asked())
    assert name == check(issuer, token, asked()) != check(issuer, token_of(ISSUERS[0]), asked())
    cases = [
        (b"", "354 bytes"),
        (token[:-1], "354 bytes"),
        (token + b"\0", "354 bytes"),
        (flipped(token, 1), "type 2"),
        (token_of(ISSUERS[1]), "another issuer's key"),
        (token_of(ISSUERS[0], "elsewhere"), "another experiment or front"),
        (token_of(ISSUERS[0], front=bytes(32)), "another experiment or front"),
        (flipped(token, 40), "another experiment or front"),
        (flipped(token, 70), "another issuer's key"),
        (flipped(token, 10), "did not sign"),
        (flipped(token, 98), "did not sign"),
        (flipped(token, 353), "did not sign"),
        (token[:98] + bytes(256), "did not sign"),
        (token[:98] + b"\xff" * 256, "did not sign"),
    ]
    for bad, why in cases:
        with pytest.raises(NotAdmitted, match=why):
            check(issuer, bad, asked())
    for issuer_key, experiment, front in ((ISSUERS[1].public, "colours", FRONT), (issuer, "colours", bytes(32))):
        with pytest.raises(NotAdmitted):
            check(issuer_key, token, challenge(issuer_key, experiment, front))


def test_a_second_number_for_a_signature_is_none():
    """A signature plus the modulus is the same residue; were it taken, a token could be written in two ways."""
    key = read_key(ISSUERS[0].public)
    for _ in range(64):
        token = token_of(ISSUERS[0])
        larger = int.from_bytes(token[-256:], "big") + key.modulus
        if larger < 2**2048:
            assert not verify(key, token[:98], larger.to_bytes(256, "big"))
            return


def test_an_issuer_that_answers_with_anything_else_is_refused_by_the_device():
    made = request(ISSUERS[0].public, asked())
    good = ISSUERS[0].answer(made.body)
    assert len(made.finish(good)) == 354
    other = request(ISSUERS[0].public, asked())
    wrong = [b"", good[:-1], good + b"\0", flipped(good, 200), ISSUERS[0].answer(other.body), bytes(256)]
    for answer in wrong:
        with pytest.raises(BlindingProblem):
            made.finish(answer)


def test_a_request_that_an_issuer_cannot_answer_is_refused_by_name():
    issuer = ISSUERS[0]
    body = request(issuer.public, asked()).body
    cases = [
        (b"", "259 bytes"),
        (body[:-1], "259 bytes"),
        (b"\0\1" + body[2:], "not of type 1"),
        (flipped(body, 2), "another key"),
        (body[:3] + b"\xff" * 256, "no number below"),
    ]
    for bad, why in cases:
        with pytest.raises(Unprocessable, match=why):
            issuer.answer(bad)


def test_a_signature_that_came_out_wrong_does_not_leave():
    """A fault in one of the two halves would give the key away."""
    numbers = rsa.generate_private_key(65537, 1024).private_numbers()
    faulty = rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, numbers.d, numbers.dmp1 + 2, numbers.dmq1, numbers.iqmp, numbers.public_numbers
    )
    with pytest.raises(BlindingProblem, match="not sent"):
        blind_sign(faulty, 1234)


def test_a_key_has_one_form_and_any_other_is_refused():
    public = ISSUERS[0].public
    loaded = load_der_public_key(public)
    assert key_bytes(loaded.public_numbers().n) == public
    assert len(public) == 342
    plain = loaded.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    even, short = key_bytes(read_key(public).modulus - 1), key_bytes(2**2047 - 1)
    for bad in (b"", public[:-1], public + b"\0", plain, flipped(public, 50), flipped(public, 341), even, short):
        with pytest.raises(InvalidParameter, match="issuer"):
            read_key(bad)
        with pytest.raises(InvalidParameter, match="issuer"):
            Admission("tokens", bad)
    for kind, issuer in (("tokens", bytes(32)), ("tokens", None), ("tickets", public), ("everybody", public)):
        with pytest.raises(InvalidParameter, match="issuer"):
            Admission(kind, issuer)
    assert Admission.from_dict(Admission("tokens", public).to_dict()).issuer == public
    assert key_id(public) == hashlib.sha256(public).digest()


def test_only_a_key_that_devices_believe_issues_tokens():
    for bits, exponent in ((1024, 65537), (2048, 3)):
        with pytest.raises(InvalidParameter, match="2048 bits with the exponent 65537"):
            TokenIssuer(rsa.generate_private_key(exponent, bits))
    with pytest.raises(InvalidParameter, match="RSA"):
        TokenIssuer(Server.make().sign)


def test_a_salt_must_fit_into_the_modulus():
    with pytest.raises(BlindingProblem, match="too short"):
        encode(b"x", 511, bytes(48))


def test_a_message_that_would_give_a_factor_away_is_not_blinded(monkeypatch):
    monkeypatch.setattr(blind_rsa, "encode", lambda *_: (61).to_bytes(2, "big"))
    with pytest.raises(BlindingProblem, match="shares a factor"):
        blind(PublicKey(61 * 53, 17), b"")


def test_what_an_app_sends_has_its_own_media_type():
    expected = {"content-type": "application/private-token-request", "accept": "application/private-token-response"}
    assert TokenRequest.headers == expected
