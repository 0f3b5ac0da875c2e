"""A histogram as a program between two servers: the default, in rounds that may have fewer users than asked for."""

from typing import Any

import pytest

from croupier.checks import InvalidParameter
from croupier.programs.histogram import MODELS, HistogramProgram


def sections(**privacy: Any) -> dict[str, dict[str, Any]]:
    given = {"users": 50, "rounds": 2, "items": ["tea", "coffee", "water"]}
    return {"program": given, "privacy": privacy, "reward": {}, "batches": {}, "reports": {}}


def test_two_servers_are_trusted_unless_told_otherwise() -> None:
    assert next(iter(MODELS)) == "two-servers"
    parameters = HistogramProgram.parameters(sections(epsilon=0.5), [])
    assert parameters["model"] == "two-servers"
    mechanism = HistogramProgram(parameters).mechanism
    assert (mechanism.trust, mechanism.guarantee.delta, mechanism.honest) == ("two-servers", 0.0, 0)
    assert HistogramProgram.parameters(sections(trust="shuffler"), [])["model"] == "shuffle"


@pytest.mark.parametrize("privacy", [{"honest_fraction": 0.9}, {"front_noise": True}, {"trust": "devices"}])
def test_what_two_servers_do_not_read_is_refused(privacy: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=f"^privacy.{next(iter(privacy))} = "):
        HistogramProgram.parameters(sections(**privacy), [])


def test_rounds_of_any_size_add_up() -> None:
    program = HistogramProgram(HistogramProgram.parameters(sections(epsilon=1.0), []))
    program.released(0, (30, 20, 1), 50)
    program.released(1, (5, -2, 3), 12)
    shown = program.show()
    assert (shown["users"], shown["planned"]) == (62, 100)
    assert shown["top"][0] == {"item": "tea", "count": 35.0}
    assert program.finished
