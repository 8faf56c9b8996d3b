"""Both databases return the same passages in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.recall.stores import NOW, SUBJECTS, content_of_index, fill, keep
from warmstart import Evidence, Message, ToolCall, ToolResult
from warmstart.recall import search
from warmstart.recall.index import Index
from warmstart.recall.recall import Recall
from warmstart.recall.search import Found, Scope, find_turns, project_term
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore

Stores = tuple[SQLSessionStore, SQLSessionStore]

SESSIONS, QUERIES = 250, 150
COMMON = ("the", "is", "wrong", "please", "fix", "of", "and", "test", "yesterday", "März", "数据库", "連接")
PROJECTS = ("/src/tides", "/src/tides/web", "/src/harbour", "/home/mara/buoys")
AGENTS = ("tester", "claude-code", "codex")


@pytest.fixture
def stores(tmp_path: Path, postgres_url: str) -> Iterator[Stores]:
    with (
        closing(SQLiteSessionStore(tmp_path / "store.db")) as file,
        closing(PostgresSessionStore(postgres_url)) as server,
    ):
        yield file, server


class Generator:
    """Sessions and queries of few words, so that many turns have the same score."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, longest: int = 30) -> str:
        words = []
        for _ in range(self.random.randint(1, longest)):
            kind = self.random.random()
            if kind < 0.5:
                words.append(self.random.choice(COMMON))
            elif kind < 0.8:
                words.append(self.random.choice(SUBJECTS))
            elif kind < 0.9:
                words.append(f"word{int(self.random.paretovariate(0.5)) % 5000}")
            else:
                words.append(f"src/gauge_{self.random.randrange(30)}.py")
        return " ".join(words)

    def messages(self, native_id: str) -> list[Message]:
        messages = [Message(native_id=f"{native_id}/0", role="user", text=self.text())]
        for place in range(1, self.random.randint(1, 12)):
            name = f"{native_id}/{place}"
            kind = self.random.choice(("user", "assistant", "call", "result"))
            if kind == "call":
                # Some calls are so long that one database compresses them, and that they are not shown.
                command = self.text() + " padding" * self.random.choice((0, 0, 500, 2000))
                call = ToolCall(id=name, name="Bash", arguments=f'{{"command": "{command}"}}')
                messages.append(Message(native_id=name, role="assistant", reasoning=self.text(5), tool_calls=(call,)))
            elif kind == "result":
                output = ToolResult(call_id=name, outcome="ok", text=f"output{place} {self.text()}")
                messages.append(Message(native_id=name, role="tool", tool_results=(output,)))
            else:
                messages.append(Message(native_id=name, role=kind, text=self.text()))
        return messages

    def keep_session(self, stores: Stores, number: int) -> None:
        native_id = f"s{number}"
        texts = self.messages(native_id)
        options: dict[str, Any] = {
            "project": self.random.choice(PROJECTS),
            "agent": self.random.choice(AGENTS),
            "days": self.random.randrange(200),
            "title": self.text(4) if self.random.random() < 0.3 else "",
            "branch": f"fix/{self.random.choice(SUBJECTS)}",
        }
        for store in stores:
            keep(store, native_id, *texts, **options)

    def query(self) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = {"limit": self.random.choice((1, 5, 10))}
        if self.random.random() < 0.5:
            options["project"] = self.random.choice((*PROJECTS, "tides", "/src/none"))
        if self.random.random() < 0.2:
            options["since"] = NOW - timedelta(days=self.random.randrange(200))
        if self.random.random() < 0.2:
            options["agents"] = self.random.sample(AGENTS, 2)
        if self.random.random() < 0.2:
            options["exclude_session"] = f"s{self.random.randrange(SESSIONS)}"
        return self.text(8), options


def search_both(stores: Stores, text: str, options: dict[str, Any]) -> tuple[list[Evidence], list[Evidence]]:
    ours, theirs = (Recall(store, clock=lambda: NOW).search(text, **options) for store in stores)
    return ours, theirs


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("postings", [search.MAX_POSTINGS, 50])
def test_generated_sessions(
    stores: Stores, seed: int, postings: int, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(search, "MAX_POSTINGS", postings)
    generator = Generator(seed)
    for number in range(SESSIONS):
        generator.keep_session(stores, number)
    found = 0
    for number in range(QUERIES):
        text, options = generator.query()
        with subtests.test(text, **options):
            ours, theirs = search_both(stores, text, options)
            assert ours == theirs
            found += len(ours)
        if number % 10 == 0:  # the stores change between searches
            generator.keep_session(stores, generator.random.randrange(SESSIONS))
        if number % 25 == 0:
            name = f"s{generator.random.randrange(SESSIONS)}"
            for store in stores:
                for session in [summary.session for summary in store.list()]:
                    if session.native_id == name:
                        store.delete(session.id)
        if number == QUERIES // 2:
            for store in stores:
                store.rewrite(lambda body: body.replace("harbour", "[secret]"))
                store.scrub()
    assert found > QUERIES
    ours, theirs = map(content_of_index, stores)
    assert ours == theirs


def test_questions_of_every_kind(stores: Stores, subtests: pytest.Subtests) -> None:
    for store in stores:
        fill(store)
    for question in QUESTIONS:
        for project in (None, "/src/1"):
            with subtests.test(question, project=project):
                ours, theirs = search_both(stores, question, {"project": project, "limit": 8})
                assert ours == theirs
                assert ours


QUESTIONS = (
    "the tide at the harbour",
    "lighthouses and ferries in March",
    "gauge_7.py",
    "why does gauge_3.py fail at harbour 4",
    "moon yesterday",
    "ECONNREFUSED",
    "数据库",
    '"moon 5"',
    "buoys",
    "terraform",
    "flux capacitor",
)


# -- finding turns


def find(store: SQLSessionStore, *stems: str, scope: Scope | None = None) -> Found:
    Recall(store).update()
    return find_turns(store.database.connection, store.database.DIALECT, stems, scope or Scope())


def test_the_rarest_terms_are_looked_up_within_a_budget(store, monkeypatch):
    for number in range(30):
        keep(store, f"s{number}", f"the tide {'drawbridge' if number < 5 else 'moat'} {'moon' * (number == 0)}")
    stems = ("the", "moat", "drawbridg", "moon", "nowher")
    assert find(store, *stems).terms == ["moon", "drawbridg", "moat", "the"]
    for budget, terms in ((31, 3), (10, 2), (2, 1), (0, 1)):
        monkeypatch.setattr(search, "MAX_POSTINGS", budget)
        assert find(store, *stems).terms == ["moon", "drawbridg", "moat", "the"][:terms]


def test_a_turn_has_the_counts_of_its_fields(store):
    call = ToolCall(id="c", name="Bash", arguments='{"command": "make tide tide"}')
    reply = Message(native_id="r", role="assistant", text="tide tide", reasoning="tide", tool_calls=(call,))
    keep(store, "one", "the tide, the tide, the tide", reply, "and the moon", project="/src/tides")
    first, second = sorted(find(store, "tide", "moon").turns, key=lambda turn: turn.number)
    assert list(first.counts.values()) == [bytes((3, 2, 1, 2))]
    assert list(second.counts.values()) == [bytes((1, 0, 0, 0))]
    assert (first.first_seq, first.last_seq, second.first_seq) == (1, 2, 3)
    assert store.fetch("SELECT turns FROM recall_terms WHERE term = ?", (project_term("/src/tides"),)) == [(2,)]


@pytest.mark.parametrize(("limit", "value", "count"), [("MAX_TURNS", 3, 3), ("MAX_PER_TERM", 8, 8)])
def test_the_newest_turns_are_read_if_more_are_as_good(store, monkeypatch, limit, value, count):
    monkeypatch.setattr(search, limit, value)
    for number in range(20):
        keep(store, f"s{number}", "the tide")
    Index(store).rebuild()  # in one update, as after the first sync
    newest = store.fetch("SELECT pk FROM sessions ORDER BY pk DESC LIMIT ?", (count,))
    assert [turn.session for turn in find(store, "tide").turns] == [row[0] for row in newest]
