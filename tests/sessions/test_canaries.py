"""A secret in any field of any log is never stored, and identities based on that field still work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from functools import partial
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from typing import Any

import pytest

from tests.sessions.readers.test_all import (
    CHAT,
    CLAUDE,
    CODEX,
    COPILOT,
    FACTS,
    GEMINI_LINES,
    HERMES_ROWS,
    ID,
    SEEDS,
    T0,
    Seed,
    line,
    places,
    said,
    write,
)
from warmstart.cli import main
from warmstart.redact.redactor import Redactor
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.redaction import redacted_name
from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore
from warmstart.sessions.sync import Source, SyncReport, sync
from warmstart.sessions.values import session_id, steps

# By these a format is known: a secret in them may make a line unreadable. A time that is none is no time.
STRUCTURE = {"type", "subtype", "role", "kind", "status", "timestamp", "startTime", "lastUpdated"}


class Canaries:
    """Different secrets, in the formats of two vendors."""

    def __init__(self) -> None:
        self._random = Random(14)
        self.bodies: list[str] = []

    def make(self) -> str:
        prefix, length = (("ghp_", 36), ("sk-ant-api03-", 95))[len(self.bodies) % 2]
        self.bodies.append("".join(self._random.choices(ascii_letters + digits, k=length)))
        return prefix + self.bodies[-1]

    def found_in(self, data: bytes, last: int = 0) -> list[str]:
        """The secrets whose beginning or end is in the data, ignoring case, because an index has lower-case words."""
        data = data.lower()
        ends = [(body, body[:16].lower().encode(), body[-16:].lower().encode()) for body in self.bodies[-last:]]
        return [body for body, first, last in ends if first in data or last in data]


def strings(files: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The paths of all strings in a log; in a database row the first one is the table's name."""
    tables = ("session", "sessions", "message", "messages", "part")
    for holder, key in places(files):
        if isinstance(holder[key], str) and not (key == 0 and holder[key] in tables):
            yield holder, key


def one_at_a_time(seed: Seed, canaries: Canaries) -> Iterator[dict[str, Any]]:
    """The log with a secret at the end of one string, for every string and every name of a field."""
    for number in range(len(list(strings(seed.files)))):
        files = deepcopy(seed.files)
        holder, key = list(strings(files))[number]
        holder[key] += f"-{canaries.make()}"
        yield files
    for number in range(len(list(places(seed.files)))):
        files = deepcopy(seed.files)
        holder, key = list(places(files))[number]
        if isinstance(key, str) and holder is not files:
            holder[f"{key}-{canaries.make()}"] = holder.pop(key)
            yield files


def everywhere(seed: Seed, canaries: Canaries) -> dict[str, Any]:
    """The log with secrets in all strings; equal strings get equal secrets, so that results still match their calls."""
    files = deepcopy(seed.files)
    known: dict[str, str] = {}
    for holder, key in list(strings(files)):
        value = holder[key]
        if key not in STRUCTURE and value not in ("", T0, "user", "assistant", "tool", "cli", "compression", "hidden"):
            holder[key] = known.setdefault(value, f"{value}-{canaries.make()}")
    return files


def imported(store: SQLSessionStore, seed: Seed, path: Path, *, redact: bool = True) -> SyncReport:
    return sync(store, [Source(path, readers()[seed.agent])], redact=redact)


def dump(store: SQLSessionStore) -> bytes:
    """The content of all session tables."""
    run = store.database.connection.execute
    tables = ("texts", "sessions", "messages", "tool_calls", "tool_results", "positions", "deleted_sessions")
    return repr([run(f"SELECT * FROM {name}").fetchall() for name in tables]).encode()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLSessionStore]:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLSessionStore]:
    if request.param == "sqlite":
        made: SQLSessionStore = SQLiteSessionStore(tmp_path / "either.db")
    else:
        made = PostgresSessionStore(request.getfixturevalue("postgres_url"))
    with closing(made):
        yield made


def empty(store: SQLSessionStore) -> None:
    for summary in store.list():
        store.delete(summary.session.id)
    with store.transaction() as connection:
        for table in ("positions", "deleted_sessions", "deleted_messages"):
            connection.execute(f"DELETE FROM {table}")


def test_a_secret_in_any_one_field_is_neither_kept_nor_shown(
    store: SQLSessionStore, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name, seed in SEEDS.items():
        with subtests.test(name):
            canaries = Canaries()
            for files in one_at_a_time(seed, canaries):
                report = imported(store, seed, write(seed, files, tmp_path / name))
                assert canaries.found_in(dump(store) + repr(report).encode(), last=1) == [], files
                empty(store)


@pytest.mark.parametrize("name", SEEDS)
def test_no_byte_of_a_secret_is_stored_and_ids_still_match(
    name: str, home: Path, store: SQLSessionStore, tmp_path: Path
) -> None:
    seed, canaries = SEEDS[name], Canaries()
    imported(store, seed, write(seed, seed.files, tmp_path / "plain"))
    folder = tmp_path / canaries.make()
    path = write(seed, everywhere(seed, canaries), folder)
    for _ in range(2):
        main(["sync", "--path", str(path), "--format", seed.agent])
        main(["profile"])
        kept = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
        assert [found for data in kept.values() for found in canaries.found_in(data)] == []
        with closing(SQLiteSessionStore(home / ".warmstart" / "warmstart.db")) as own:
            assert shape(own) == shape(store)
            assert len(own.positions()) == 1
        path.touch()  # and once more


def shape(store: SQLSessionStore) -> list[tuple[Any, ...]]:
    """The messages of all sessions and which calls have a result, without any ids."""
    found = [
        (
            (summary.messages, summary.tool_calls),
            bool(summary.session.parent_id),
            [message.role for message in store.messages(summary.session.id)],
            [step.result is not None for step in steps(store.messages(summary.session.id))],
        )
        for summary in store.list()
    ]
    return sorted(found, key=repr)


GROWING = {name: seed for name, seed in SEEDS.items() if seed.lines}


def test_a_log_that_grows_is_recognised(either: SQLSessionStore, store: SQLSessionStore, tmp_path: Path) -> None:
    canaries = Canaries()
    for name, seed in GROWING.items():
        imported(store, seed, write(seed, seed.files, tmp_path / "plain"))
        ((file, lines),) = everywhere(seed, canaries).items()
        folder = tmp_path / f"{name}-{canaries.make()}"
        for end in range(1, len(lines) + 1):
            imported(either, seed, write(seed, {file: lines[:end]}, folder))
            assert canaries.found_in(dump(either)) == []
        again = imported(either, seed, folder / file)
        assert (again.changed, again.tallies[seed.agent].unchanged) == (0, 1)
    assert shape(either) == shape(store)


def test_ids_that_differ_only_in_secrets_stay_different(either: SQLSessionStore, tmp_path: Path) -> None:
    """Even if their short fingerprints are equal."""
    canaries, shown = Canaries(), dict[str, str]()
    while True:
        one = canaries.make()
        other = shown.setdefault(Redactor().clean(one), one)
        if other != one:
            break
    seed = SEEDS["openai-record"]
    for secret in (one, other):
        record = {"id": f"conversation-{secret}", "messages": CHAT}
        path = write(seed, {"chat.json": record}, tmp_path / secret)
        imported(either, seed, path)
    assert [row.messages for row in either.list()] == [len(CHAT), len(CHAT)]
    assert len(either.positions()) == 2
    for row in either.list():
        assert either.get(row.session.id) == row.session == either.get(row.session.native_id)
        assert len(list(either.messages(row.session.id))) == len(CHAT)


def test_a_store_is_redacted_later_as_if_it_had_been_at_once(either: SQLSessionStore, tmp_path: Path) -> None:
    canaries, redactor = Canaries(), Redactor()
    rename = partial(redacted_name, redactor=redactor)
    paths = {
        name: write(seed, everywhere(seed, canaries), tmp_path / f"{name}-{canaries.make()}")
        for name, seed in SEEDS.items()
    }
    for name, path in paths.items():
        imported(either, SEEDS[name], path, redact=False)
    before = shape(either)
    assert canaries.found_in(dump(either))
    assert either.rewrite(redactor.clean, rename)
    assert canaries.found_in(dump(either)) == []
    assert either.rewrite(redactor.clean, rename) == 0
    for name, path in paths.items():
        assert imported(either, SEEDS[name], path).tallies[SEEDS[name].agent].unchanged == 1
        path.touch()
        assert imported(either, SEEDS[name], path).changed == 0
    assert shape(either) == before


# Secrets that are cut in two


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def tool_line(*blocks: dict[str, Any]) -> dict[str, Any]:
    return line("user", "u9", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [*blocks]}]})


def codex(**payload: Any) -> dict[str, Any]:
    return {"timestamp": T0, "type": "response_item", "payload": payload}


def parts(one: str, two: str, kind: str = "text") -> list[dict[str, Any]]:
    return [{"type": kind, "text": one}, {"type": kind, "text": two}]


Cut = Callable[[str, str], Any]
CUT: dict[str, tuple[str, Cut]] = {
    "claude-code: blocks of the user": (
        "claude-code",
        lambda a, b: [*CLAUDE, line("user", "u9", message={"content": parts(a, b)})],
    ),
    "claude-code: blocks of the assistant": ("claude-code", lambda a, b: [*CLAUDE, said("b1", text(a), text(b))]),
    "claude-code: lines of one message": (
        "claude-code",
        lambda a, b: [*CLAUDE, said("b1", text(a)), said("b2", text(b))],
    ),
    "claude-code: lines of thought": (
        "claude-code",
        lambda a, b: [
            *CLAUDE,
            *(said(f"b{n}", {"type": "thinking", "thinking": each}) for n, each in enumerate((a, b))),
        ],
    ),
    "claude-code: items of a result": ("claude-code", lambda a, b: [*CLAUDE, tool_line(text(a), text(b))]),
    "codex: parts of the user": (
        "codex",
        lambda a, b: [*CODEX, codex(type="message", role="user", content=parts(a, b, "input_text"))],
    ),
    "codex: items of one response": (
        "codex",
        lambda a, b: [*CODEX, *(codex(type="message", role="assistant", content=[text(each)]) for each in (a, b))],
    ),
    "codex: reasoning": ("codex", lambda a, b: [*CODEX, codex(type="reasoning", summary=parts(a, b, "summary_text"))]),
    "codex: items of a result": (
        "codex",
        lambda a, b: [*CODEX, codex(type="function_call_output", call_id="c1", output=parts(a, b))],
    ),
    "gemini: parts": (
        "gemini-lines",
        lambda a, b: [*GEMINI_LINES, {"id": "g9", "type": "user", "content": [{"text": a}, {"text": b}]}],
    ),
    "gemini: thoughts": (
        "gemini-lines",
        lambda a, b: [
            *GEMINI_LINES,
            {"id": "g9", "type": "gemini", "content": "x", "thoughts": [{"description": a}, {"description": b}]},
        ],
    ),
    "copilot: blocks": (
        "copilot",
        lambda a, b: [
            *COPILOT,
            {"type": "assistant.message", "id": "e99", "timestamp": T0, "data": {"content": parts(a, b)}},
        ],
    ),
    "opencode: parts": (
        "opencode",
        lambda a, b: {
            "info": FACTS,
            "messages": [{"info": {"id": "msg_9", "role": "assistant"}, "parts": parts(a, b)}],
        },
    ),
    "opencode: reasoning": (
        "opencode",
        lambda a, b: {
            "info": FACTS,
            "messages": [{"info": {"id": "msg_9", "role": "assistant"}, "parts": parts(a, b, "reasoning")}],
        },
    ),
    "openai: parts": ("openai", lambda a, b: [*CHAT, {"role": "assistant", "content": parts(a, b)}]),
    "openai: items of a result": (
        "openai",
        lambda a, b: [*CHAT, {"role": "tool", "tool_call_id": "c1", "content": parts(a, b)}],
    ),
    "hermes: parts": (
        "hermes",
        lambda a, b: [
            *HERMES_ROWS,
            [
                "messages",
                9,
                "s2",
                "user",
                "\0json:" + json.dumps(parts(a, b)),
                None,
                None,
                1.8e9,
                None,
                None,
                1,
                0,
                0,
                None,
            ],
        ],
    ),
}


def test_a_secret_that_is_cut_in_two_is_not_kept(
    store: SQLSessionStore, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name, (seed, make) in CUT.items():
        with subtests.test(name):
            check_cut(store, SEEDS[seed], make, tmp_path / name)


def check_cut(store: SQLSessionStore, seed: Seed, make: Cut, folder: Path) -> None:
    canaries = Canaries()
    for cut in (8, 20, 36):
        for secret in (canaries.make(), canaries.make()):
            value = make(f"The key is {secret[:cut]}", f"{secret[cut:]} and goes on.")
            imported(store, seed, write(seed, {next(iter(seed.files)): value}, folder))
            kept = dump(store).decode()
            assert canaries.found_in(kept.encode(), last=1) == []
            assert "The key is [redacted:" in kept
            assert " and goes on." in kept
            empty(store)


@pytest.mark.parametrize("cut", [8, 36])  # the first half alone is known for a secret or not
def test_a_secret_whose_second_half_comes_later_is_not_kept(cut: int, either: SQLSessionStore, tmp_path: Path) -> None:
    seed, canaries = SEEDS["claude-code"], Canaries()
    canaries.make()
    secret = canaries.make()
    lines = [*CLAUDE, said("b1", text(secret[:cut])), said("b2", text(secret[cut:]))]
    for end in (-1, len(lines)):
        imported(either, seed, write(seed, {f"{ID}.jsonl": lines[:end]}, tmp_path / "log"))
    assert canaries.found_in(dump(either)) == []
    assert [message.text[:10] for message in either.messages(session_id("claude-code", ID))][-1] == "[redacted:"
