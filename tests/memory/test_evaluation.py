"""The evaluation: every point is earned, every claim is measured, and nothing is left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from tests.memory.dictionary import DictBackend
from warmstart.memory import MemoryEntry, NullBackend
from warmstart.memory.evaluation import evaluate_backend, evaluate_backends
from warmstart.memory.evaluation.hooks import Hooks, Sent, hooks_of
from warmstart.memory.evaluation.labelled import labelled
from warmstart.memory.evaluation.latency import percentile
from warmstart.memory.evaluation.reliability import reliability
from warmstart.memory.evaluation.score import score
from warmstart.memory.evaluation.table import rows
from warmstart.memory.evaluation.values import verdict_of
from warmstart.memory.evaluation.visitors import Visitors
from warmstart.memory.local import LocalBackend
from warmstart.memory.postgres import PostgresBackend
from warmstart.stats import wilson

SMALL = (10, 50)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What is still there after deletion is not waited for as long as usual."""
    monkeypatch.setattr("warmstart.memory.evaluation.forgetting._PATIENCE", 0.05)


def evaluated(backend, **options):
    return evaluate_backend(backend, sizes=SMALL, **options)


def kinds(evaluation):
    return {kind.kind: kind for kind in evaluation.relevance.kinds}


# -- the score


def test_a_backend_that_does_everything_locally_and_fast_has_all_points():
    found = evaluated(DictBackend())
    assert (found.score, found.verdict) == (100, "recommended")
    assert found.points.total == 100


def test_a_backend_that_keeps_nothing_gets_nothing_for_it():
    found = evaluate_backend(NullBackend())
    assert (found.points.store, found.points.retrieve, found.points.query, found.points.latency) == (0, 0, 0, 0)
    assert (found.score, found.verdict) == (40, "marginal")
    assert "keeps nothing" in found.notes[0]
    assert found.relevance is None


def test_a_backend_that_is_not_there_gets_nothing_at_all():
    backend = DictBackend()
    backend.away = True
    found = evaluated(backend)
    assert (found.score, found.is_available, found.notes[0]) == (0, False, "not available")


class Newest(DictBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return super().query(user_id, "", limit)


def test_a_query_that_gives_another_entry_earns_nothing():
    found = evaluated(Newest())
    assert (found.points.store, found.points.retrieve, found.points.query) == (15, 15, 0)


class Amnesiac(DictBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        return MemoryEntry(key, "something", user_id)


def test_a_retrieved_entry_has_to_be_the_one_that_was_stored():
    assert evaluated(Amnesiac()).points.retrieve == 0


class Listing(DictBackend):
    """Keeps the keys, but no values."""

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        return super().store(user_id, key, "", metadata)


def test_a_key_without_its_value_is_not_stored():
    assert evaluated(Listing()).points.store == 0


class Prepared(DictBackend):
    """Knows what it was asked the last time, and keeps nothing."""

    known: ClassVar[dict[str, tuple[str, str]]] = {}

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        self.known.setdefault(key, (user_id, value))
        return True

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        said = self.known.get(key)
        return MemoryEntry(key, said[1], user_id) if said and said[0] != user_id else None


def test_what_is_stored_cannot_be_known_beforehand():
    for _ in range(2):
        found = evaluated(Prepared())
        assert (found.points.store, found.points.retrieve) == (0, 0)


class Cloud(DictBackend):
    backend_name = "cloud (test)"
    is_cloud = True

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        self.calls = getattr(self, "calls", 0) + 1
        return super().store(user_id, key, value, metadata)

    def sent(self) -> Sent:
        return Sent(getattr(self, "calls", 0), getattr(self, "calls", 0) * 100)


def test_a_cloud_has_five_points_for_privacy():
    assert evaluated(Cloud()).points.privacy == 5


class Clock:
    """In place of the module `time`: it stands still until it is put forward."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class Slow(DictBackend):
    """Takes its time to store, by a clock of its own."""

    def __init__(self, clock: Clock, pause: float) -> None:
        super().__init__()
        self.clock, self.pause = clock, pause

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        self.clock.now += self.pause
        return super().store(user_id, key, value, metadata)


def test_latency_is_the_mean_of_what_worked(monkeypatch, subtests):
    clock = Clock()
    monkeypatch.setattr("warmstart.memory.evaluation.score.time", clock)
    for pause, points in [(0.05, 15), (0.25, 10), (0.65, 5)]:  # of a third of the operations
        with subtests.test(pause=pause, points=points):
            backend = Slow(clock, pause)
            with Visitors(backend, hooks_of(backend), "eval_user") as visitors:
                assert score(backend, visitors, hooks_of(backend), seconds=10).points.latency == points


def test_verdicts(subtests):
    cases = [
        (100, "recommended"),
        (80, "recommended"),
        (79, "acceptable"),
        (60, "acceptable"),
        (59, "marginal"),
        (40, "marginal"),
        (39, "not recommended"),
        (0, "not recommended"),
    ]
    for points, verdict in cases:
        with subtests.test(points=points, verdict=verdict):
            assert verdict_of(points) == verdict


class Raising(DictBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        raise RuntimeError("no index")


def test_a_backend_that_raises_is_a_finding_and_is_cleaned_up():
    backend = Raising()
    found = evaluated(backend)
    assert (found.points.store, found.points.retrieve, found.points.query) == (15, 15, 0)
    assert found.notes[0] == "raised RuntimeError: no index"
    assert not found.is_working
    assert backend.data == {}


class Deaf(DictBackend):
    def list_keys(self, user_id: str) -> list[str]:
        raise RuntimeError("no list")


def test_what_can_be_read_is_stored_even_where_it_is_not_listed():
    found = evaluated(Deaf())
    assert (found.points.store, found.points.retrieve) == (15, 15)


# -- beside the score


def test_relevance_is_counted_by_kind():
    found = evaluated(DictBackend())
    assert list(kinds(found)) == [
        "exact",
        "paraphrased",
        "paraphrased, in other words",
        "superseded",
        "other",
        "unanswerable",
    ]
    assert kinds(found)["exact"].hit_at_1 > 0.7
    assert kinds(found)["exact"].hit_at_5 >= kinds(found)["exact"].hit_at_1
    assert kinds(found)["paraphrased, in other words"].hit_at_5 < 0.4
    assert kinds(found)["unanswerable"].hit_at_1 is None
    assert kinds(found)["superseded"].wrong == 0
    assert (found.relevance.memories, found.relevance.questions, found.relevance.leaked) == (500, 200, 0)


class Perfect(DictBackend):
    """Knows the answers."""

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        for question in labelled().questions:
            if question.text == query_text and user_id.endswith(f"-{question.user}"):
                entry = self.retrieve(user_id, question.key)
                return [entry] if entry else []
        return super().query(user_id, query_text, limit)


def test_whoever_knows_all_answers_has_all_of_them_right():
    found = evaluated(Perfect()).relevance
    assert (found.hit_at_1, found.hit_at_5) == (1.0, 1.0)
    assert {kind.wrong for kind in found.kinds} == {0.0}


class Nostalgic(DictBackend):
    """Gives former values as if they still held."""

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit)
        return [
            MemoryEntry(entry.key, str(self.data[user_id][entry.key][0].value), user_id)
            if "relevance" in user_id
            else entry
            for entry in found
        ]


def test_a_former_value_is_no_hit_and_is_wrong():
    found = kinds(evaluated(Nostalgic()))["superseded"]
    assert found.hit_at_5 == 0
    assert found.wrong > 0.8


class Leaky(DictBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = [entry for user in list(self.data) for entry in super(Leaky, self).query(user, query_text, limit)]
        return [MemoryEntry(entry.key, entry.value, user_id) for entry in found][:limit]


def test_entries_of_others_are_counted_also_where_they_are_passed_off_as_ones_own():
    report = evaluate_backends([Leaky()], sizes=SMALL)
    assert report.evaluations[0].relevance.leaked > 30
    assert "of another user came back" in report.warnings[0]


def test_what_takes_too_long_is_stopped_and_says_so(monkeypatch):
    clock = Clock()
    for module in ("latency", "relevance"):
        monkeypatch.setattr(f"warmstart.memory.evaluation.{module}.time", clock)
    backend = Slow(clock, 0.01)
    found = evaluate_backend(backend, sizes=(10, 1000), seconds=0.3)
    assert found.relevance is None
    assert any("relevance was not measured" in note for note in found.notes)
    assert found.latency[-1].wanted == 1000
    assert found.latency[-1].entries < 100
    assert "stopped at" in found.latency[-1].note
    assert backend.data == {}


def test_latency_is_measured_at_each_size():
    found = evaluated(DictBackend())
    assert [(at.wanted, at.entries) for at in found.latency] == [(10, 10), (50, 50)]
    for at in found.latency:
        assert 0 < at.query.p50 <= at.query.p95
        assert at.query.count == 100


def test_a_cloud_is_not_filled_with_a_hundred_thousand_entries():
    found = evaluate_backend(Cloud(), sizes=(10, 100_000))
    assert found.latency[-1].entries == 10
    assert "cloud" in found.latency[-1].note


def test_percentiles(subtests):
    cases = [([1.0], 0.5, 1.0), ([1.0], 0.95, 1.0), (list(range(1, 101)), 0.5, 50), (list(range(1, 101)), 0.95, 95)]
    for values, share, expected in cases:
        with subtests.test(values=values, share=share, expected=expected):
            assert percentile(values, share) == expected


def test_cost_is_nothing_locally_counted_where_it_is_and_unknown_otherwise():
    local = evaluated(DictBackend()).cost
    assert (local.calls, local.bytes, local.tokens, local.source) == (0, 0, 0, "nothing leaves the machine")
    counted = evaluated(Cloud()).cost
    assert (counted.operations, counted.calls, counted.bytes, counted.tokens) == (700, 500, 50_000, 12_500)

    class Silent(DictBackend):
        is_cloud = True

    unknown = evaluated(Silent())
    assert unknown.cost is None
    assert any("not known" in note for note in unknown.notes)


def test_concurrent_writers_lose_nothing_in_a_sound_backend():
    trial, *others = evaluated(DictBackend()).reliability
    assert (trial.name, trial.writes) == ("concurrent writers", 400)
    assert [(each.name, each.tried, each.writes) for each in others] == [
        ("restart", False, 0),
        ("server gone", False, 0),
    ]
    assert (trial.refused, trial.lost, trial.doubled, trial.stale) == (0, 0, 0, 0)


def test_lost_doubled_and_stale_writes_are_found():
    class Loses(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            return key == "writer3_3" or super().store(user_id, key, value, metadata)

    class Doubles(DictBackend):
        def list_keys(self, user_id: str) -> list[str]:
            keys = super().list_keys(user_id)
            return [*keys, *[key for key in keys if key == "writer3_3"]]

    class Stales(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            return value == "value 1 of writer3 3" or super().store(user_id, key, value, metadata)

    assert evaluated(Loses()).reliability[0].lost == 1
    assert evaluated(Doubles()).reliability[0].doubled == 1
    assert evaluated(Stales()).reliability[0].stale == 2  # right after, and in the end


def test_a_server_that_goes_away_and_a_restart_are_tried_where_there_is_a_hook():
    backend = DictBackend()

    def reopen():
        return DictBackend(backend.data)

    hooks = Hooks(outage=backend.outage, reopen=reopen)
    found = evaluated(backend, hooks=hooks)
    gone = found.reliability[2]
    assert [trial.name for trial in found.reliability] == ["concurrent writers", "restart", "server gone"]
    assert (gone.tried, gone.refused, gone.lost, gone.doubled, gone.stale) == (True, 50, 0, 0, 0)
    assert found.reliability[1].lost == 0

    # One that starts empty has lost all that it was given.
    forgetful = evaluated(DictBackend(), hooks=Hooks(reopen=DictBackend)).reliability
    assert [trial.lost for trial in forgetful] == [200, 200, 0]


def test_a_refused_write_that_was_done_all_the_same_is_not_stale():
    class Unsure(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            return super().store(user_id, key, value, metadata) and value != "value 1 of writer3 3"

    trial = evaluated(Unsure()).reliability[0]
    assert (trial.refused, trial.lost, trial.doubled, trial.stale) == (1, 0, 0, 0)


def test_a_server_that_is_really_gone_loses_nothing_that_was_acknowledged(postgres, postgres_url):
    with closing(PostgresBackend(postgres_url)) as backend:
        hooks = replace(hooks_of(backend), outage=postgres.stopped)
        with Visitors(backend, hooks, "eval_user") as visitors:
            writers, restart, gone = reliability(backend, visitors, hooks, seconds=60)
    with closing(PostgresBackend(postgres_url)) as fresh:
        assert fresh.users() == []
    for trial in (writers, restart, gone):
        assert trial.tried
        assert (trial.lost, trial.doubled, trial.stale) == (0, 0, 0)
    assert (writers.writes, writers.refused, gone.writes) == (400, 0, 150)
    assert gone.refused >= 50


def test_forgetting_is_looked_for_everywhere():
    found = evaluated(DictBackend()).forgetting
    assert found.is_gone
    assert (found.entries, found.in_history) == (5, 5)

    class Keeps(DictBackend):
        def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
            if not user_id.endswith("-forgetting"):
                return super().query(user_id, query_text, limit)
            return [MemoryEntry(key, str(values[0].value), user_id) for key, values in self.data[user_id].items()]

    report = evaluate_backends([Keeps()], sizes=(1,))
    kept = report.evaluations[0].forgetting
    assert (kept.retrieve_ms is None, kept.query_ms is None, kept.list_ms is None) == (False, True, False)
    assert any("could still be found" in warning for warning in report.warnings)


def test_what_is_deleted_is_looked_for_in_the_files(tmp_path):
    path = tmp_path / "notes"

    class Diary(DictBackend):
        def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
            with path.open("a") as file:
                file.write(value)
            return super().store(user_id, key, value, metadata)

        def files(self):
            return [path, tmp_path / "never"]

    found = evaluate_backend(Diary(), sizes=(1,))
    assert found.forgetting.in_files == 5
    cells = {row.name: row.cells for row in rows([found, evaluate_backend(DictBackend(), sizes=(1,))])}
    assert cells["readable in its files"] == ["5 of 5", "not tried"]
    path.write_text("")
    Diary.files = lambda self: []
    assert evaluate_backend(Diary(), sizes=(1,)).forgetting.in_files == 0


def test_intervals(subtests):
    cases = [(5, 10, 0.2366, 0.7634), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (1, 1, 0.2065, 1)]
    for hits, number, low, high in cases:
        with subtests.test(hits=hits, number=number, low=low, high=high):
            assert wilson(hits, number) == pytest.approx((low, high), abs=1e-4)
            assert wilson(0, 0) is None


def test_every_share_has_its_interval():
    found = evaluated(DictBackend())
    for kind in found.relevance.kinds:
        if kind.hit_at_1 is not None:
            assert kind.hit_at_1_interval.low <= kind.hit_at_1 <= kind.hit_at_1_interval.high
            assert kind.hit_at_5_interval.low <= kind.hit_at_5 <= kind.hit_at_5_interval.high
        assert kind.wrong_interval.low <= kind.wrong <= kind.wrong_interval.high
    assert found.relevance.hit_at_5_interval.low < found.relevance.hit_at_5
    exact = next(row for row in rows([found]) if row.name == "exact")
    assert re.fullmatch(r"\d+% \(\d+–\d+%\) first, \d+% \(\d+–\d+%\) in five", exact.cells[0])


# -- the report


def test_the_report_has_its_fields_and_is_json():
    report = evaluate_backends([DictBackend(), NullBackend(), Cloud()], sizes=SMALL)
    data = json.loads(json.dumps(report.to_dict()))
    assert list(data)[:4] == ["timestamp", "backends_evaluated", "evaluations", "recommendation"]
    assert data["backends_evaluated"] == ["dictionary (test)", "null (disabled)", "cloud (test)"]
    assert report.recommendation.startswith("Use dictionary (test): 100 of 100 (recommended)")
    assert report.warnings == ["cloud (test): what is stored there leaves this machine."]


def test_all_that_can_be_opened_is_evaluated_and_closed_with_nothing_left(home):
    report = evaluate_backends(sizes=(1,))
    found = dict(zip(report.backends_evaluated, report.evaluations, strict=True))
    assert {"null (disabled)", "local (SQLite)"} <= set(found)
    local = found["local (SQLite)"]
    assert local.score == 100
    assert [trial.name for trial in local.reliability if trial.tried] == ["concurrent writers", "restart"]
    assert all((trial.lost, trial.doubled, trial.stale, trial.refused) == (0, 0, 0, 0) for trial in local.reliability)
    with closing(LocalBackend(home / ".warmstart" / "warmstart.db")) as kept:
        assert kept.users() == []


def test_nothing_is_recommended_that_does_not_work():
    report = evaluate_backends([NullBackend()])
    assert report.recommendation.startswith("No backend can be recommended")


def test_who_finds_more_is_named_even_with_fewer_points():
    class Wise(Perfect):
        backend_name = "wise (test)"
        is_cloud = True

    report = evaluate_backends([DictBackend(), Wise()], sizes=(1,))
    assert report.recommendation.startswith("Use dictionary")
    assert "wise (test) finds more (100%), but it is not on this machine." in report.recommendation


def test_progress_is_reported():
    told = []
    evaluate_backends(
        [DictBackend(), DictBackend()], sizes=(1,), progress=lambda done, total: told.append((done, total))
    )
    assert told[-1] == (10, 10)
    assert told == sorted(told)
