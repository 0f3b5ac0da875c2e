"""The OpenAPI documents of both servers are complete and true: schemathesis asks each server what its own says."""

import json

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from cases.service.held import held
from croupier.client.device import REPORT_TYPE
from croupier.messages.signing import to_text
from croupier.service import http_operations, openapi
from croupier.service.problems import PROBLEMS, URN

SERVERS = {"front": http_operations.FRONT, "analyzer": http_operations.ANALYZER}
SCHEMAS = {
    server: schemathesis.openapi.from_dict(openapi.document(server, operations))
    for server, operations in SERVERS.items()
}
ENDLESS = "/experiments/{name}/live"
CASES = [
    pytest.param(server, one, id=f"{server}-{one.method}-{one.path}")
    for server, operations in SERVERS.items()
    for one in operations
    if one.path != ENDLESS
]
TRUSTED = [case for case in CASES if case.values[1].bearer or case.values[1].operator]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

schemathesis.openapi.media_type(REPORT_TYPE, st.binary(max_size=300))


@schemathesis.serializer(REPORT_TYPE)
def _as_it_is(_, value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def bounded(examples):
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def send(servers, server, case, bearer):
    """One generated request to the real application; the right bearer token, or the one that was generated, or none."""
    said = case.as_transport_kwargs(base_url=f"http://{server}.test")
    headers = httpx2.Headers(dict(said["headers"]), encoding="utf-8")
    if bearer:
        headers["authorization"] = f"Bearer {bearer}"
    content = said.get("data") if "json" not in said else json.dumps(said["json"]).encode()
    return servers.ask(said["method"], said["url"], params=said.get("params"), content=content, headers=headers)


def aim(case, servers):
    """Send the same at what exists: the experiment, its first batch, its configuration."""
    there = {
        "name": "colours",
        "batch": 0,
        "offer": 0,
        "hash": to_text(servers.both.live.configured.hash),
    }
    case.path_parameters = {name: there.get(name, value) for name, value in case.path_parameters.items()}


def ask_all(servers, server, operation, examples, bearer=None):
    """What the document allows, as generated and at what exists; and what it does not, where anything can be wrong."""
    found = SCHEMAS[server][operation.path][operation.method.upper()]

    @bounded(examples)
    @given(found.as_strategy(GenerationMode.POSITIVE))
    def allowed(case):
        case.validate_response(send(servers, server, case, bearer), checks=CHECKS)
        if case.path_parameters:
            aim(case, servers)
            case.validate_response(send(servers, server, case, bearer), checks=CHECKS)

    @bounded(examples)
    @given(found.as_strategy(GenerationMode.NEGATIVE))
    def wrong(case):
        case.validate_response(send(servers, server, case, bearer), checks=CHECKS)

    allowed()
    if "{" in operation.path or operation.parameters or operation.body:
        wrong()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with held(tmp_path_factory.mktemp("described"), users=3) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("examples", [2, pytest.param(8, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(("server", "operation"), CASES)
def test_what_anybody_asks_is_answered_as_described_and_changes_nothing_but_turns(servers, server, operation, examples):
    before = servers.rows()
    ask_all(servers, server, operation, examples)
    after = servers.rows()
    if operation.path.endswith("/assignments"):
        for table in ("front.issued", "front.offers"):
            before.pop(table), after.pop(table)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("examples", [2, pytest.param(15, marks=pytest.mark.evidence)])
@pytest.mark.parametrize(("server", "operation"), TRUSTED)
def test_what_the_trusted_ask_is_answered_as_described(tmp_path, server, operation, examples):
    with held(tmp_path, users=3) as servers:
        bearer = servers.both.bearer if server == "front" else servers.both.admin
        ask_all(servers, server, operation, examples, bearer=bearer)


def test_every_route_is_described_and_every_description_is_a_route(servers):
    for server, operations in SERVERS.items():
        routes = {
            (method.lower(), route.path_format)
            for route in getattr(servers.both, server).app.routes
            if isinstance(route, Route)
            for method in route.methods - {"HEAD"}
        }
        assert routes == {(one.method, one.path) for one in operations}
        served = servers.ask("GET", f"http://{server}.test/openapi.json").json()
        assert served == json.loads(json.dumps(openapi.document(server, operations)))


def test_another_method_is_refused_and_told_which_there_are(servers):
    for server, operations in SERVERS.items():
        for path in {one.path for one in operations}:
            known = {one.method.upper() for one in operations if one.path == path}
            there = path.replace("{name}", "colours").replace("{hash}", "AAAA").replace("{page}", "pages.js")
            there = there.replace("{table}", "result").replace("{format}", "csv")
            for number in ("{batch}", "{offer}", "{part}"):
                there = there.replace(number, "0")
            for method in sorted({"GET", "PUT", "POST", "DELETE", "PATCH"} - known):
                answer = servers.ask(method, f"http://{server}.test{there}")
                assert answer.json()["type"] == URN + "method-not-allowed", (method, there)
                assert set(answer.headers["allow"].split(", ")) - {"HEAD"} == known, (method, there)


def test_every_problem_is_described_somewhere_but_for_a_wrong_method():
    described = {token for operations in SERVERS.values() for one in operations for token in one.problems}
    assert described == set(PROBLEMS) - {"method-not-allowed"}
