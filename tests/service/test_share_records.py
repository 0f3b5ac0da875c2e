"""What a log of totals in shares shows to `verify`, and what an analyzer keeps of a batch however large it is.

The forger is the analyzer: it changes a record and signs the whole log anew. It cannot change what the front signed.
"""

import json

import pytest
from sqlalchemy import func, select

from cases.service.forgery import parsed, resigned
from cases.service.shares import NAME, PLAN, USERS, opened
from croupier.cli.verify import print_verdict
from croupier.messages.signing import Statement, to_text
from croupier.service.store import analyzer as store_module
from croupier.service.verifying import BadTranscript, verify


@pytest.fixture
def log(tmp_path):
    """A transcript with a few totals, and the servers' keys."""
    service = opened(tmp_path)
    for _ in range(4):
        for _ in range(USERS):
            service.reports(service.comes(value=0.5))
        service.step()
        service.step()
    transcript, keys = service.live.transcript(), service.servers.keys
    service.close()
    return parsed(transcript), keys


def signed_anew(record, key, server="front", **changes):
    """The same receipt with another body, signed by this key."""
    body = json.loads(record["receipt"]["body"]) | changes
    return record | {"receipt": Statement.of("release", body).signed(server, key).to_dict()}


def forgeries(records, keys):
    """Lies about a total that the front's signature, or the program, gives away: size, set, share, batch, decision."""
    at = [place for place, record in enumerate(records) if record["event"] == "released"]
    first, second = (records[place] for place in at[:2])
    own = keys["analyzer"].sign
    yield at[0], first | {"users": USERS - 1}, "the front signed for"
    changes = {"set": to_text(bytes(32)), "share": to_text(bytes(8)), "reports": USERS - 1, "batch": 77}
    for key, value in changes.items():
        yield at[0], signed_anew(first, own, **{key: value}), "sign"
    yield at[0], first | {"receipt": second["receipt"]}, "the receipt says"
    yield at[0], first | {"decoded": 10**9}, "came out"
    yield at[1], second | {"witness": first["witness"]}, "was shown record"
    place = next(place for place, record in enumerate(records) if record["event"] == "opened" and place > at[0])
    offer = Statement.from_dict("offer", records[place]["offer"])
    body = offer.body | {"arm": 1 - offer.body["arm"]}
    other = records[place] | {"offer": Statement.of("offer", body).signed("analyzer", own).to_dict()}
    yield place, other, "wants|wanted"


def test_verify_refuses_every_lie_about_a_total_that_can_be_seen(log):
    records, keys = log
    assert verify(resigned(records, keys["analyzer"].sign)).released >= 3
    for place, record, why in forgeries(records, keys):
        forged = resigned([*records[:place], record, *records[place + 1 :]], keys["analyzer"].sign)
        with pytest.raises(BadTranscript, match=f"line {place + 1} does not follow: .*({why})"):
            verify(forged)


def test_verify_cannot_see_another_total_within_reach_and_says_so(log, capsys):
    """Only the servers saw the reports: that a number is what was said is their word."""
    records, keys = log
    last = max(place for place, record in enumerate(records) if record["event"] == "released")
    other = records[last] | {"decoded": records[last]["decoded"] + 1}
    print_verdict(verify(resigned([*records[:last], other], keys["analyzer"].sign)))
    assert "that the released numbers are what users said" in capsys.readouterr().out


def test_what_the_analyzer_keeps_of_a_batch_does_not_grow_but_for_names(tmp_path):
    """One sum of one length, one answer; of a report its name under its key, of an answer its own, and nothing else."""
    large = PLAN | {"batches": {"smallest": 40, "deadline": 60}}
    service = opened(tmp_path, experiment=large)
    store, kept = service.servers.analyzer.store, []
    for _ in range(3):
        for _ in range(12):
            service.reports(service.comes(value=1.0))
        service.step()
        with store.database.read() as connection:
            sums = connection.execute(select(store_module._sums)).all()
            counts = {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in store_module.META.sorted_tables
                if table.name != "lines"
            }
            answers = connection.execute(select(func.length(store_module._settled.c.answer))).scalars().all()
        assert [row.batch for row in sums] == [next(iter(service.live.open))]
        names = counts.pop("names"), counts.pop("answer_names")
        kept.append((names, counts, [len(row.payload) for row in sums], answers))
    assert [names for names, *_ in kept] == [(12, 2), (24, 3), (36, 4)]
    assert kept[0][1:] == kept[1][1:] == kept[2][1:]
    assert service.name == NAME
    service.close()
