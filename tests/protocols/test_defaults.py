"""What sums where nobody names a protocol can be planned to trust whom it stands for."""

import pytest

from croupier.checks import InvalidParameter
from croupier.messages.configuration import TRUSTS as SERVED
from croupier.protocols import ROWS, default_protocol
from croupier.protocols.mechanism import TRUSTS
from croupier.protocols.sums.defaults import DEFAULTS


@pytest.mark.parametrize(
    ("reports", "trust"), [(reports, trust) for reports in DEFAULTS for trust in DEFAULTS[reports]]
)
def test_a_default_trusts_whom_it_stands_for_and_sums_what_is_reported(reports, trust):
    row = ROWS[default_protocol(trust, reports=reports)]
    assert trust in row.trusts
    assert row.vectors == (reports == "vectors")
    assert not row.binary_only or reports == "bits"


def test_every_trust_has_one():
    assert [*DEFAULTS["numbers"]] == [*DEFAULTS["bits"]] == [*TRUSTS]
    assert TRUSTS[:-1] == SERVED, "a service is run with every trust but in the analyzer"


@pytest.mark.parametrize(("trust", "reports"), [("somebody", "numbers"), ("nobody", "vectors"), ("nobody", "words")])
def test_what_has_none_is_refused_by_name(trust, reports):
    with pytest.raises(InvalidParameter, match="reports = 'words'" if reports == "words" else f"trust = '{trust}'"):
        default_protocol(trust, reports=reports)
