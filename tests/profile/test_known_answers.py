"""What is known of real sessions must be what their profiles say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from warmstart.profile.corpus import Report, summarize
from warmstart.profile.profiler import Profiler, profiled, update
from warmstart.profile.store import SQLProfileStore
from warmstart.profile.values import Profiled
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def store(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteSessionStore]:
    """The real sessions, imported and profiled once."""
    with closing(SQLiteSessionStore(tmp_path_factory.mktemp("real") / "store.db")) as fresh:
        sync(fresh, path_sources([corpus / "sessions"]))
        update(fresh, SQLProfileStore(fresh), Profiler())
        yield fresh


@pytest.fixture(scope="module")
def found(store: SQLiteSessionStore) -> list[Profiled]:
    return list(profiled(store))


@pytest.fixture(scope="module")
def real(found: list[Profiled]) -> Report:
    return summarize(found)


def test_every_session_has_a_profile(store: SQLiteSessionStore, found: list[Profiled]) -> None:
    listed = [row.session.id for row in store.list()]
    assert len(listed) > 100
    assert [each.session.id for each in found] == listed


def test_most_errors_are_followed_by_success_at_the_next_call_of_the_tool(found: list[Profiled]) -> None:
    claude = summarize([each for each in found if each.session.agent == "claude-code"])
    assert claude.recovery.errors > 200
    assert claude.recovery.next_call is not None
    assert claude.recovery.within_three is not None
    assert 2 / 3 < claude.recovery.next_call <= claude.recovery.within_three <= 1


def test_next_calls_counted_another_way(found: list[Profiled], real: Report) -> None:
    followed = failed = 0
    for each in found:
        waiting: dict[str, int] = {}
        for call in each.profile.calls:
            followed += waiting.pop(call.tool, 0) if call.outcome == "ok" else 0 * waiting.pop(call.tool, 0)
            if call.outcome == "error":
                waiting[call.tool] = 1
                failed += 1
    assert real.recovery.next_call == pytest.approx(followed / failed)


def test_no_rejection_is_an_error(store: SQLiteSessionStore, found: list[Profiled]) -> None:
    refused = store.database.connection.execute(
        "SELECT count(*) FROM tool_results r JOIN texts t ON t.id = r.text WHERE r.outcome = 'error' "
        "AND (decompress(t.body) LIKE 'The user doesn''t want to proceed with this tool use%' "
        "OR decompress(t.body) LIKE 'The user doesn''t want to take this action%')"
    ).fetchone()[0]
    assert refused == 0
    outcomes = Counter(call.outcome for each in found for call in each.profile.calls if call.signature)
    assert set(outcomes) == {"error"}
    assert sum(each.profile.markers.rejected for each in found) > 50


def test_the_explanation_says_that_length_bins_alone_mislead(real: Report) -> None:
    assert any(sentence.startswith("Rates by length alone mislead") for sentence in real.diagnostics.explanation)
    assert real.diagnostics.reading != "not enough data"


def test_totals_are_those_of_the_store(store: SQLiteSessionStore, found: list[Profiled], real: Report) -> None:
    results, errors, rejected = store.database.connection.execute(
        "SELECT count(*), sum(outcome = 'error'), sum(outcome = 'rejected') FROM tool_results"
    ).fetchone()
    assert (real.results, real.errors, real.rejected) == (results, errors, rejected)
    markers = {each.session.id: each.profile.markers for each in found}
    rows = store.list()
    assert {row.id for row in rows} == markers.keys()
    for row in rows:
        own = markers[row.id]
        assert (own.messages, own.errors, own.rejected) == (row.messages, row.errors, row.rejected)
    assert sum(rate.calls for rate in real.by_tool) == real.calls
    main = [each.profile.markers for each in found if each.session.parent_kind != "subagent"]
    assert sum(rate.errors for rate in real.by_length) == sum(markers.errors for markers in main)


def test_every_profile_comes_back_as_it_was_made(store: SQLiteSessionStore, found: list[Profiled]) -> None:
    profiler = Profiler()
    for each in found:
        made = profiler.profile(store.get(each.session.id), list(store.messages(each.session.id)))
        assert each.profile == made, each.session.native_id


def test_profiling_again_makes_nothing(store: SQLiteSessionStore, corpus: Path) -> None:
    kept = SQLProfileStore(store)
    assert update(store, kept, Profiler()) == 0
    sync(store, path_sources([corpus / "sessions"]))
    assert update(store, kept, Profiler()) == 0


def test_the_largest_signatures_can_be_read(real: Report) -> None:
    largest = real.signatures[:30]
    assert len(largest) == 30
    assert [each.signature for each in largest if not each.signature.strip() or len(each.signature) > 160] == []
    assert sum(each.count for each in largest) > real.errors / 2


def test_markers_are_within_their_bounds(found: list[Profiled]) -> None:
    for each in found:
        markers = each.profile.markers
        for share in (markers.error_rate, markers.early_error_rate, markers.recovery_rate, markers.context_share):
            assert share is None or 0 <= share <= 1
        assert markers.calls == len(each.profile.calls)
        assert (markers.diversity is None) == (markers.calls < 10)
        assert markers.diversity is None or 1 <= markers.diversity <= 10
        assert markers.seconds is None or markers.seconds >= 0
        assert all(0 < recovery.tries <= 3 for recovery in each.profile.recoveries)
        assert all(0 <= place <= markers.calls for place in each.profile.compactions)
