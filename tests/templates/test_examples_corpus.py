"""The examples in the templates of real sessions: enough of them, the telling ones, and nobody's words or values.

`example_checks` says what is looked for; run as a script it lists what is wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import warmstart
from tests.templates import example_checks

pytestmark = pytest.mark.corpus

# The largest share of sessions in which these may be wrong: what is left are commands of programs that nobody knows, of
# which only the form may be shown. Everything else, above all whose words and values they are, has no exception.
ALLOWED = {"number": 0.01, "looks": 0.05, "recoveries": 0.03, "empty": 0.05}


@pytest.mark.parametrize("sample", [pytest.param(12, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_templates_of_real_sessions(sample: int, corpus: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    found: dict[str, list[str]] = {name: [] for name in example_checks.NAMES}
    corpora = set()
    sessions = 0
    with warmstart.open(tmp_path / "store.db", home=tmp_path) as ws:
        example_checks.import_data(ws, corpus)
        customers = example_checks.everyone(ws, corpus)
        for case in example_checks.read_cases(ws, corpus, sample=sample):
            corpora.add(case.corpus)
            sessions += 1
            for offence in example_checks.offences(case, customers):
                found[offence.check].append(f"{offence.session}: {offence.detail}")

    assert corpora == set(example_checks.CORPORA)
    assert len(customers) > 500
    for name, offences in found.items():
        with subtests.test(name):
            wrong = {offence.partition(":")[0] for offence in offences}
            assert len(wrong) <= ALLOWED.get(name, 0.0) * sessions, offences
