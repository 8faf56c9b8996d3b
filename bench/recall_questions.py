"""Sets of questions for recall: each loader stores the sessions and returns the questions about them.

- LoCoMo: conversations over months; every conversation is a project, and the answer is a session. Without dates it
  shows what dates are worth.
- long sessions: the same conversations, each joined into one session; the answer is a message.
- commits: subjects of real commits; the answer is the session that made the commit. Some subjects are in the session
  word for word, the others are not.
- BEAM: long conversations between a user and an assistant, in sessions of twenty messages; the answer is a message.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BEAM_SESSION = 20  # messages

_EVIDENCE = re.compile(r"D(\d+):0*(\d+)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Unit = Literal["session", "message"]


class Question(NamedTuple):
    """A query, its project, and the native ids of the sessions or messages that answer it."""

    text: str
    project: str | None
    gold: frozenset[str]
    kind: str = ""
    unit: Unit = "session"


def load_conversations(path: Path) -> list[Any]:
    """The conversations in a JSON file, in all of a folder, or in all that a pattern matches."""
    pattern = path / "*.json" if path.is_dir() else path
    conversations: list[Any] = []
    for file in sorted(glob.glob(str(pattern))):  # noqa: PTH207 - the pattern may be absolute
        value = json.loads(Path(file).read_text(encoding="utf-8"))
        conversations += value if isinstance(value, list) else [value]
    return conversations


# -- LoCoMo


def locomo(store: SQLiteSessionStore, path: Path, *, dated: bool = True) -> list[Question]:
    """Every conversation as a project, and each of its sessions as a session."""
    questions = []
    for number, sample in enumerate(load_conversations(path)):
        talk = sample["conversation"]
        project = f"/locomo/{number}"
        sessions = _locomo_sessions(talk)
        for session in sessions:
            prefix = f"{number}/session_{session}"
            messages = list(_locomo_messages(talk, session, prefix, dated=dated))
            began = messages[0].timestamp
            store.append(
                Session(agent="locomo", native_id=f"{number}/{session}", project=project, started_at=began), messages
            )
        for asked in sample["qa"]:
            gold = set()
            for session, _ in _locomo_evidence(asked):
                if session in sessions:
                    gold.add(f"{number}/{session}")
            if gold:
                questions.append(Question(asked["question"], project, frozenset(gold), "LoCoMo"))
    return questions


def long_sessions(store: SQLiteSessionStore, path: Path) -> list[Question]:
    """Every conversation as one session; the answer to a question is a message."""
    questions = []
    for number, sample in enumerate(load_conversations(path)):
        talk = sample["conversation"]
        project = f"/long/{number}"
        messages: list[Message] = []
        for session in _locomo_sessions(talk):
            messages += _locomo_messages(talk, session, str(number))
        began = messages[0].timestamp
        store.append(Session(agent="locomo", native_id=str(number), project=project, started_at=began), messages)
        known = {message.native_id for message in messages}
        for asked in sample["qa"]:
            named = {f"{number}/D{session}:{turn}" for session, turn in _locomo_evidence(asked)}
            gold = frozenset(named & known)
            if gold:
                questions.append(Question(asked["question"], project, gold, "long sessions", "message"))
    return questions


def _locomo_sessions(talk: dict[str, Any]) -> list[int]:
    """The numbers of a conversation's sessions, in order."""
    keys = [re.fullmatch(r"session_(\d+)", key) for key in talk]
    return sorted(int(key[1]) for key in keys if key)


def _locomo_messages(talk: dict[str, Any], session: int, prefix: str, *, dated: bool = True) -> Iterator[Message]:
    began = _locomo_date(talk[f"session_{session}_date_time"])
    for place, turn in enumerate(talk[f"session_{session}"]):
        yield Message(
            native_id=f"{prefix}/{turn['dia_id']}",
            role="assistant" if turn["speaker"] == talk["speaker_b"] else "user",
            text=turn["text"],
            timestamp=began + timedelta(minutes=place) if dated else None,
        )


def _locomo_date(text: str) -> datetime:
    return datetime.strptime(text.split(" on ")[1], "%d %B, %Y").replace(tzinfo=UTC, hour=12)


def _locomo_evidence(asked: dict[str, Any]) -> list[tuple[int, int]]:
    """The sessions and turns that hold the answer."""
    named = []
    for text in asked.get("evidence") or ():
        for session, turn in _EVIDENCE.findall(text):
            named.append((int(session), int(turn)))
    return named


# -- commits


def commits(store: SQLiteSessionStore, folder: Path) -> list[Question]:
    """Commit subjects, and the sessions that made the commits."""
    sync(store, path_sources([folder]))
    by_log = _sessions_by_log(store)
    questions = []
    for line in (folder / "commit_to_session_queries.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        gold: set[str] = set()
        for name in asked["gold_sessions"]:
            gold |= by_log.get(_log_name(name, name), set())
        kind = "verbatim" if asked["subject_verbatim_in_session"] else "other words"
        questions.append(Question(asked["query"], None, frozenset(gold), kind))
    return questions


def _sessions_by_log(store: SQLiteSessionStore) -> dict[str, set[str]]:
    """The native ids of sessions, by native id and by the id in the name of their log."""
    by_log: dict[str, set[str]] = {}
    for row in store.list():
        session = row.session
        if session.agent != "openai":
            log = _log_name(Path(session.source).name, session.native_id)
            for name in (session.native_id, log):
                by_log.setdefault(name, set()).add(session.native_id)
    return by_log


def _log_name(text: str, default: str) -> str:
    found = _UUID.search(text)
    return found[0] if found else default


# -- BEAM


def beam(store: SQLiteSessionStore, path: Path) -> list[Question]:
    """Every conversation as a project. The messages next to a source count too: they are the rest of its turn."""
    questions = []
    for number, conversation in enumerate(load_conversations(path)):
        project = f"/beam/{number}"
        messages = list(_beam_messages(conversation["chat"]))
        _store_beam(store, messages, number, project)
        for ability, asked in conversation["probing_questions"].items():
            if ability == "abstention":
                continue
            for question in asked:
                gold = _beam_gold(question.get("source_chat_ids"), number)
                if gold:
                    questions.append(Question(question["question"], project, gold, "BEAM", "message"))
    return questions


def _store_beam(store: SQLiteSessionStore, messages: list[dict[str, Any]], number: int, project: str) -> None:
    for first in range(0, len(messages), BEAM_SESSION):
        began = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=first)
        rows = []
        for place, message in enumerate(messages[first : first + BEAM_SESSION]):
            rows.append(
                Message(
                    native_id=f"{number}/{message['id']}",
                    role=message["role"],
                    text=message["content"],
                    timestamp=began + timedelta(minutes=place),
                )
            )
        store.append(Session(agent="beam", native_id=f"{number}/from {first}", project=project, started_at=began), rows)


def _beam_messages(value: Any) -> Iterator[dict[str, Any]]:
    """The messages in nested batches and turns."""
    if isinstance(value, dict) and "content" in value and "role" in value:
        yield value
        return
    for part in _parts(value):
        yield from _beam_messages(part)


def _beam_gold(sources: Any, number: int) -> frozenset[str]:
    gold = set()
    for source in _integers(sources):
        for neighbour in (source - 1, source, source + 1):
            gold.add(f"{number}/{neighbour}")
    return frozenset(gold)


def _integers(value: Any) -> Iterator[int]:
    """The integers in nested lists and dictionaries."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    for part in _parts(value):
        yield from _integers(part)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
