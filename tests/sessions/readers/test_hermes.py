"""Databases as Hermes writes them: its columns, its transactions, its compaction, with the write-ahead log in use."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unprivileged import as_nobody, let_in
from warmstart.errors import LogError
from warmstart.preflight.prompt import block
from warmstart.profile.profiler import profile_of
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.hermes import HermesReader
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, Usage, session_id

TOKENS = """input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0"""
SESSIONS_22 = f"""CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT, git_repo_root TEXT, title TEXT, {TOKENS},
    archived INTEGER NOT NULL DEFAULT 0, FOREIGN KEY (parent_session_id) REFERENCES sessions(id))"""
MESSAGES_22 = """CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT,
    timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT,
    reasoning_details TEXT, platform_message_id TEXT, observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT)"""
SESSIONS_30 = f"""CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, created_source TEXT, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, system_prompt_hash TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
    end_reason TEXT, cwd TEXT, git_branch TEXT, git_repo_root TEXT, git_metadata_generation INTEGER NOT NULL DEFAULT 0,
    title TEXT, {TOKENS}, title_source TEXT, last_activity_at REAL, pinned INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER NOT NULL DEFAULT 0, tool_names TEXT)"""
MESSAGES_30 = """CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, observed INTEGER DEFAULT 0,
    _compressed_summary INTEGER NOT NULL DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT, display_kind TEXT, display_metadata TEXT,
    display_identity BLOB, display_order INTEGER)"""
SCHEMAS = {
    22: [SESSIONS_22, MESSAGES_22],
    30: [SESSIONS_30, MESSAGES_30, "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL)"],
}
START = 1_790_000_000.25
SUMMARY = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.\nGoal: build"
PRIOR = "[PRIOR CONTEXT — for reference only; not a new message]\n"
BELOW = "\n\n[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n\n"
END = "\n\n--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"

Record = dict[str, Any]


class Hermes:
    """Writes a database the way Hermes does, and stays connected."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version
        self.clock = START
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA wal_autocheckpoint = 0")
        for statement in SCHEMAS[version]:
            self.db.execute(statement)
        self.db.execute("CREATE INDEX idx_messages_session ON messages(session_id, timestamp)")

    def session(self, name: str = "s1", **fields: Any) -> str:
        self._insert("sessions", {"source": "cli", "started_at": self.clock, "id": name, **fields})
        return name

    def say(self, role: str, content: Any, session: str = "s1", **fields: Any) -> Record:
        """A message as it happens: a transaction of its own, some time after the one before."""
        self.clock += 1.5
        record = {"role": role, "content": content, **fields}
        self._insert("messages", {"timestamp": self.clock, "session_id": session, **record})
        return record

    def call(self, number: int, output: str = '{"output": "", "exit_code": 0}', session: str = "s1") -> list[Record]:
        calls = [{"id": f"call_{number}", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}]
        asked = self.say("assistant", "", session, tool_calls=json.dumps(calls))
        return [asked, self.say("tool", output, session, tool_call_id=f"call_{number}", tool_name="terminal")]

    def compact(self, kept: list[Record], session: str = "s1") -> None:
        """Archive what is live and write `kept`: those with a time of their own keep it, the rest follow the clock."""
        self.clock += 1.5
        now = self.clock
        with self.db:
            self.db.execute("BEGIN")
            flags = "SET active = 0, compacted = 1"
            self.db.execute(f"UPDATE messages {flags} WHERE session_id = ? AND active = 1", (session,))
            for record in kept:
                moment = record.get("timestamp", now)
                self._insert("messages", {**record, "session_id": session, "timestamp": moment})
                now = max(now + 1e-6, moment + 1e-6)

    def loaded(self, session: str = "s1") -> list[Record]:
        """What Hermes holds after it was started again: the live rows with their times."""
        names = ("role", "content", "tool_calls", "tool_call_id", "timestamp")
        query = f"SELECT {', '.join(names)} FROM messages WHERE session_id = ? AND active = 1 ORDER BY id"
        return [dict(zip(names, cells, strict=True)) for cells in self.db.execute(query, (session,))]

    def _insert(self, table: str, fields: Record) -> None:
        marks = ", ".join("?" * len(fields))
        self.db.execute(f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))


@pytest.fixture(params=sorted(SCHEMAS))
def hermes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hermes]:
    writer = Hermes(tmp_path / "state.db", request.param)
    with closing(writer.db):
        yield writer


def read(hermes: Hermes, reading: Reading | None = None) -> list[tuple[Session, Message | None]]:
    return list(HermesReader().read(hermes.path, reading or Reading(hermes.path)))


def messages(hermes: Hermes, reading: Reading | None = None) -> list[Message]:
    return [message for _, message in read(hermes, reading) if message is not None]


def texts(hermes: Hermes) -> list[str]:
    return [message.text for message in messages(hermes) if message.role == "user" and not message.compaction_summary]


def test_the_databases_of_the_root_and_of_every_profile_are_found(tmp_path: Path) -> None:
    names = ["state.db", "profiles/home/state.db", "profiles/work/state.db", "profiles/work/notes.db"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(HermesReader().find(tmp_path)) == [tmp_path / name for name in names[:3]]
    assert list(HermesReader().find(tmp_path / "state.db")) == [tmp_path / "state.db"]
    assert list(HermesReader().find(tmp_path / "nowhere")) == []


def test_the_environment_moves_the_root(tmp_path: Path) -> None:
    assert HermesReader().roots({}, tmp_path) == [tmp_path / ".hermes"]
    assert HermesReader().roots({"HERMES_HOME": "/srv/hermes"}, tmp_path) == [Path("/srv/hermes")]


def test_what_is_still_in_the_write_ahead_log_is_read(hermes: Hermes, tmp_path: Path) -> None:
    hermes.session()
    hermes.say("user", "hello")
    alone = tmp_path / "alone.db"
    shutil.copyfile(hermes.path, alone)
    with closing(sqlite3.connect(alone)) as copy:
        assert copy.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert texts(hermes) == ["hello"]


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    folder = tmp_path / "a b?mode=rw#%41é"
    folder.mkdir()
    hermes = Hermes(folder / "state.db", 22)
    with closing(hermes.db):
        hermes.session()
        hermes.say("user", "hello")
        assert texts(hermes) == ["hello"]


def test_messages_carry_words_reasoning_calls_and_results(hermes: Hermes) -> None:
    hermes.session(model="hermes-4")
    hermes.say("user", "list the files", api_content="list the files\n<memory-context>secret</memory-context>")
    calls = [
        {"id": "fc_1", "call_id": "call_1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}},
        {"id": "call_2", "function": {"name": "read_file", "arguments": {"path": "a"}}},
    ]
    hermes.say("assistant", "Looking.", tool_calls=json.dumps(calls), reasoning="they want ls", token_count=42)
    hermes.say("tool", '{"output": "a.txt", "exit_code": 0, "error": null}', tool_call_id="call_1")
    user, assistant, tool = messages(hermes)
    assert (user.role, user.text, user.injected) == ("user", "list the files", False)
    assert user.timestamp == datetime.fromtimestamp(START + 1.5, UTC)
    assert (assistant.text, assistant.reasoning) == ("Looking.", "they want ls")
    assert [(call.id, call.name, call.arguments) for call in assistant.tool_calls] == [
        ("call_1", "terminal", '{"command": "ls"}'),
        ("call_2", "read_file", '{"path":"a"}'),
    ]
    assert assistant.usage is not None
    assert assistant.usage.output == 42
    (result,) = tool.tool_results
    assert (result.call_id, result.outcome, result.exit_code, result.flag) == ("call_1", "ok", 0, None)
    assert len({message.native_id for message in (user, assistant, tool)}) == 3


def test_a_list_of_parts_becomes_text_and_a_word_for_each_image(hermes: Hermes) -> None:
    hermes.session()
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:…"}}]
    hermes.say("user", "\0json:" + json.dumps(parts))
    hermes.say("user", "\0json:not json")
    assert texts(hermes) == ["what is this?\n[image]", "\0json:not json"]


def test_a_session_tells_its_facts(hermes: Hermes, tmp_path: Path) -> None:
    facts = {"model": "m", "title": "Build it", "git_branch": "main", "cwd": str(tmp_path / "x"), "ended_at": START + 9}
    hermes.session(**facts)
    hermes.say("user", "hello")
    session = read(hermes)[-1][0]
    assert (session.agent, session.native_id) == ("hermes", "s1")
    assert (session.model, session.title, session.branch) == ("m", "Build it", "main")
    assert session.project == str(tmp_path / "x")
    assert session.started_at == datetime.fromtimestamp(START, UTC)
    assert session.ended_at == datetime.fromtimestamp(START + 9, UTC)
    assert session.parent_id is None


def test_the_repository_is_the_project_where_hermes_knows_it(hermes: Hermes) -> None:
    hermes.session(cwd="/srv/app/deep", git_repo_root="/srv/app")
    hermes.say("user", "hello")
    assert read(hermes)[0][0].project == "/srv/app"


def test_a_subagent_works_in_its_parents_project(hermes: Hermes) -> None:
    hermes.session("before", cwd="/srv/app", end_reason="compression")
    hermes.session("s1", parent_session_id="before")
    hermes.session("sub", source="subagent", parent_session_id="s1", model_config='{"_delegate_from": "s1"}')
    hermes.session("deep", source="subagent", parent_session_id="sub", model_config='{"_delegate_from": "sub"}')
    hermes.session("away", source="subagent", parent_session_id="s1", cwd="/srv/other")
    for name in ("s1", "sub", "deep", "away"):
        hermes.say("user", "hello", name)
    found = {session.native_id: session.project for session, _ in read(hermes)}
    assert found == {"s1": "/srv/app", "sub": "/srv/app", "deep": "/srv/app", "away": "/srv/other"}
    assert len(texts(hermes)) == 4


def test_tokens_are_the_total_of_the_session(hermes: Hermes, tmp_path: Path) -> None:
    hermes.session(input_tokens=1400, output_tokens=40, cache_read_tokens=600)
    hermes.session("unused")
    hermes.say("user", "hello")
    hermes.say("assistant", "Done.")
    hermes.say("user", "hello", "unused")
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        assert sync(store, path_sources([hermes.path])).problems == []
        own = session_id("hermes", "s1")
        assert store.get(own).usage == Usage(input=1400, output=40, cache_read=600)
        assert store.get(session_id("hermes", "unused")).usage is None
        assert {message.usage for message in store.messages(own)} == {None}
        assert profile_of(store, store.get(own)).markers.output_tokens == 40
        hermes.db.execute("UPDATE sessions SET output_tokens = 55, reasoning_tokens = 15 WHERE id = 's1'")
        sync(store, path_sources([hermes.path]))
        assert store.get(own).usage == Usage(input=1400, output=55, cache_read=600, reasoning=15)
        found = profile_of(store, store.get(own)).markers
        assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (1400, 55, 600)


def test_the_block_in_a_system_prompt_is_left_out(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path / "state.db", 22)
    with closing(hermes.db):
        hermes.session(system_prompt=f"You are Hermes.\n\n{block('full')}\n\nUse tools.")
        hermes.say("user", "hello")
        assert messages(hermes)[0].text.split() == ["You", "are", "Hermes.", "Use", "tools."]


def test_the_system_prompt_comes_first_and_once(hermes: Hermes) -> None:
    if hermes.version == 30:
        hermes.db.execute("INSERT INTO system_prompts VALUES ('h', 'You are Hermes.')")
        hermes.session(system_prompt_hash="h")
    else:
        hermes.session(system_prompt="You are Hermes.")
    hermes.say("user", "hello")
    reading = Reading(hermes.path)
    first = messages(hermes, reading)[0]
    assert (first.native_id, first.role, first.text) == ("s1:system", "system", "You are Hermes.")
    hermes.say("user", "again")
    hermes.db.execute("UPDATE sessions SET title = 'Named'")
    assert [message.role for message in messages(hermes, reading)] == ["user"]


def test_columns_are_found_by_name_and_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE messages (timestamp REAL, role TEXT, extra TEXT, session_id TEXT, content TEXT)")
        db.execute("CREATE TABLE sessions (source TEXT, id TEXT)")
        db.execute("INSERT INTO sessions VALUES ('cli', 's1')")
        db.execute("INSERT INTO messages VALUES (?, 'user', 'x', 's1', 'hello')", (START,))
        db.commit()
    pairs = list(HermesReader().read(path, Reading(path)))
    assert [message.text for _, message in pairs if message] == ["hello"]


def test_what_the_user_took_back_is_hidden_and_what_was_summarised_away_is_kept(hermes: Hermes) -> None:
    hermes.session()
    hermes.say("user", "undone", active=0, compacted=0)
    hermes.say("user", "long ago", active=0, compacted=1)
    hermes.say("user", "now")
    reading = Reading(hermes.path)
    assert [message.text for message in messages(hermes, reading)] == ["long ago", "now"]
    assert reading.skipped["undone"] == 1


def test_copies_of_compaction_are_dropped_and_real_repeats_are_kept(hermes: Hermes) -> None:
    hermes.session()
    said = [hermes.say("user", "go"), *hermes.call(1), hermes.say("assistant", "one"), hermes.say("user", "go")]
    said += [*hermes.call(2), *hermes.call(3)]
    hermes.compact([said[0], {"role": "user", "content": SUMMARY}, *said[3:]])
    hermes.say("assistant", "two")
    hermes.say("user", "go")
    hermes.say("assistant", "three")
    reading = Reading(hermes.path)
    found = messages(hermes, reading)
    assert [message.text for message in found if message.role == "user"] == ["go", "go", SUMMARY, "go"]
    assert [call.id for message in found for call in message.tool_calls] == ["call_1", "call_2", "call_3"]
    assert reading.skipped["copy"] == 7
    assert len({message.native_id for message in found}) == len(found)


def test_copies_that_keep_their_time_are_dropped_over_many_compactions(hermes: Hermes) -> None:
    hermes.session()
    for number in range(4):
        hermes.say("user", "go")
        hermes.call(number)
        hermes.say("assistant", "done")
        live = hermes.loaded()
        hermes.compact([*live[:2], {"role": "user", "content": f"{SUMMARY} {number}"}, *live[-3:]])
    found = messages(hermes)
    assert sum(message.text == "go" for message in found) == 4
    assert sum(message.text == "done" for message in found) == 4
    assert sum(message.compaction_summary for message in found) == 4
    assert sum(len(message.tool_calls) for message in found) == 4


def test_a_copy_whose_output_was_cut_is_still_a_copy(hermes: Hermes) -> None:
    hermes.session()
    hermes.say("user", "go")
    asked, answered = hermes.call(1, "x" * 500)
    cut = {**answered, "content": "[terminal] ran `ls` -> exit 0"}
    short = {**asked, "tool_calls": asked["tool_calls"].replace('"{}"', '"{…}"')}
    hermes.compact([{"role": "user", "content": SUMMARY}, short, cut])
    results = [message.tool_results[0].text for message in messages(hermes) if message.tool_results]
    assert results == ["x" * 500]


def test_the_prompt_that_sets_off_compaction_is_kept_once(hermes: Hermes) -> None:
    """It is written first by the compaction itself, and may be written again right after it."""
    hermes.session()
    hermes.say("user", "go")
    hermes.say("assistant", "one")
    for number in range(2):
        live = hermes.loaded()
        hermes.compact(
            [{"role": "user", "content": f"{SUMMARY} {number}"}, *live[-1:], {"role": "user", "content": "go"}]
        )
        live = hermes.loaded()
        merged = {**live[-2], "content": f"{PRIOR}{live[-2]['content']}{BELOW}{SUMMARY} {number}b{END}"}
        hermes.compact([merged])
        hermes.say("user", "go")
        hermes.say("assistant", f"answer {number}")
    found = messages(hermes)
    assert [message.text for message in found if message.text == "go"] == ["go"] * 3
    assert [message.text for message in found if message.role == "assistant" and not message.compaction_summary] == [
        "one",
        "answer 0",
        "answer 1",
    ]


def test_a_rotated_session_does_not_repeat_its_parent(hermes: Hermes) -> None:
    hermes.session(cwd="/srv/app")
    said = [hermes.say("user", "go"), *hermes.call(1), hermes.say("assistant", "one"), hermes.say("user", "more")]
    said += hermes.call(2)
    hermes.db.execute("UPDATE sessions SET end_reason = 'compression', ended_at = ?", (hermes.clock,))
    hermes.session("s2", parent_session_id="s1")
    loaded = hermes.loaded()
    hermes.compact([*loaded[:1], {"role": "user", "content": SUMMARY}, *loaded[3:4], *said[4:]], "s2")
    hermes.say("assistant", "two", "s2")
    hermes.say("user", "go", "s2")
    pairs = [(session, message) for session, message in read(hermes) if message]
    child = [message for session, message in pairs if session.native_id == "s2"]
    assert [message.text for message in child] == [SUMMARY, "two", "go"]
    session = pairs[-1][0]
    assert (session.parent_id, session.parent_kind) == (session_id("hermes", "s1"), "compaction")
    assert session.project == "/srv/app"


def test_a_branch_does_not_repeat_its_parent(hermes: Hermes) -> None:
    hermes.session()
    said = [hermes.say("user", "go"), *hermes.call(1), hermes.say("assistant", "one")]
    hermes.clock += 60
    hermes.session("s2", parent_session_id="s1", model_config='{"_branched_from": "s1"}')
    for record in said:
        hermes.clock -= 1.498
        hermes.say(**record, session="s2")
    hermes.say("user", "go", "s2")
    pairs = [(session, message) for session, message in read(hermes) if message]
    assert [message.text for session, message in pairs if session.native_id == "s2"] == ["go"]
    assert pairs[-1][0].parent_kind == "branch"


def test_a_session_that_follows_another_may_begin_with_the_same_words(hermes: Hermes) -> None:
    hermes.session(end_reason="session_reset")
    hermes.say("user", "go")
    hermes.session("s2", parent_session_id="s1", model_config='{"_reset_from": "s1"}')
    hermes.say("user", "go", "s2")
    assert texts(hermes) == ["go", "go"]


def test_reading_along_gives_the_same_as_reading_once(hermes: Hermes) -> None:
    reading = Reading(hermes.path)
    along: list[Message] = []

    def sync() -> None:
        along.extend(messages(hermes, reading))

    hermes.session(system_prompt="You are Hermes.")
    for number in range(3):
        hermes.say("user", "go")
        sync()
        said = hermes.call(number)
        sync()
        live = hermes.loaded()
        tail = [*live[-3:-2], *said]
        hermes.compact([*live[:1], {"role": "user", "content": f"{SUMMARY} {number}"}, *tail])
        sync()
        hermes.say("assistant", "done")
        sync()
    assert [message.native_id for message in along] == [message.native_id for message in messages(hermes)]
    assert sum(message.text == "go" for message in along) == 3


def test_an_interrupted_read_can_be_resumed_anywhere(hermes: Hermes) -> None:
    for name in ("s1", "s2"):
        hermes.session(name, system_prompt=f"prompt of {name}")
        hermes.say("user", "go", name)
        hermes.call(1, session=name)
    whole = [message.native_id for message in messages(hermes)]
    for stop in range(len(whole) + 1):
        reading = Reading(hermes.path)
        stream = HermesReader().read(hermes.path, reading)
        before = [message for _, (_, message) in zip(range(stop), stream, strict=False)]
        stream.close()  # type: ignore[attr-defined]
        after = messages(hermes, Reading(hermes.path, state=json.loads(json.dumps(reading.state))))
        assert {message.native_id for message in (*before, *after) if message} == set(whole)


def test_nothing_is_yielded_again_until_something_changes(hermes: Hermes) -> None:
    hermes.session()
    hermes.session("empty")
    hermes.say("user", "hello")
    reading = Reading(hermes.path)
    read(hermes, reading)
    assert read(hermes, reading) == []
    hermes.db.execute("UPDATE sessions SET title = 'Named', ended_at = ? WHERE id = 's1'", (START + 60,))
    ((session, message),) = read(hermes, reading)
    assert (session.title, message) == ("Named", None)
    assert read(hermes, reading) == []


def test_another_database_in_the_same_place_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    reading = Reading(path)
    for size in (5, 2, 9):
        path.unlink(missing_ok=True)
        hermes = Hermes(path, 22)
        with closing(hermes.db):
            hermes.clock += 100 * size
            hermes.session()
            for number in range(size):
                hermes.say("user", f"{size} {number}")
            assert len(messages(hermes, reading)) == size


def test_another_database_without_the_last_row_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    reading = Reading(path)
    for size, gone in ((5, 0), (9, 5)):
        path.unlink(missing_ok=True)
        hermes = Hermes(path, 22)
        with closing(hermes.db):
            hermes.clock += 100 * size
            hermes.session()
            for number in range(size):
                hermes.say("user", f"{size} {number}")
            hermes.db.execute("DELETE FROM messages WHERE rowid = ?", (gone,))
            assert len(messages(hermes, reading)) == size - bool(gone)


def test_deleted_rows_do_not_make_the_rest_new(hermes: Hermes) -> None:
    hermes.session()
    for number in range(3):
        hermes.say("user", f"{number}")
    reading = Reading(hermes.path)
    read(hermes, reading)
    hermes.db.execute("DELETE FROM messages WHERE content = '2'")
    assert messages(hermes, reading) == []


@pytest.mark.parametrize("opening", [SUMMARY, "[CONTEXT SUMMARY]: the goal", f"\n{SUMMARY}"])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_summary_is_flagged(hermes: Hermes, opening: str, role: str) -> None:
    hermes.session()
    hermes.say(role, opening + END)
    (message,) = messages(hermes)
    assert (message.role, message.text, message.compaction_summary) == (role, opening.strip(), True)


def test_a_summary_that_shares_a_row_is_a_message_of_its_own(hermes: Hermes) -> None:
    hermes.session()
    calls = json.dumps([{"id": "call_1", "function": {"name": "terminal", "arguments": "{}"}}])
    hermes.say("assistant", f"{PRIOR}I will look.{BELOW}{SUMMARY}{END}", tool_calls=calls)
    hermes.say("user", f"{SUMMARY}{END}\n\nnow the tests")
    own, summary, second, prompt = messages(hermes)
    assert (own.text, own.compaction_summary, len(own.tool_calls)) == ("I will look.", False, 1)
    assert (summary.compaction_summary, summary.tool_calls) == (True, ())
    assert summary.text.startswith(SUMMARY)
    assert (second.text, second.compaction_summary) == (SUMMARY, True)
    assert (prompt.text, prompt.compaction_summary) == ("now the tests", False)


def test_a_summary_is_known_by_its_column(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path / "state.db", 30)
    with closing(hermes.db):
        hermes.session()
        hermes.say("user", "what was done so far", _compressed_summary=1)
        hermes.say("user", "scaffolding", display_kind="hidden")
        summary, hidden = messages(hermes)
    assert summary.compaction_summary
    assert hidden.injected


def test_the_tasks_that_hermes_repeats_are_not_the_users_words(hermes: Hermes) -> None:
    hermes.session()
    hermes.say("user", "[Your active task list was preserved across context compression]\n- [ ] 1. test (pending)")
    assert [message.injected for message in messages(hermes)] == [True]


def test_what_warmstart_wrote_is_not_read(hermes: Hermes) -> None:
    hermes.session()
    hermes.say("user", "[warmstart] Notes from earlier sessions.\n- make test\n[/warmstart]")
    call = {"id": "call_warmstart_abc", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    hermes.say("assistant", "[warmstart] Example: run the tests", tool_calls=json.dumps([call]))
    hermes.say("tool", "ok", tool_call_id="call_warmstart_abc")
    hermes.say("assistant", "[warmstart] End of the examples.")
    hermes.say("user", "run the tests")
    output = '{"output": "no rule", "exit_code": 2, "error": null}'
    hermes.call(1, f"{output}\n\n[warmstart] Last time `make test` worked.\n[/warmstart]")
    found = messages(hermes)
    assert [message.role for message in found] == ["user", "assistant", "tool"]
    assert found[0].text == "run the tests"
    (result,) = found[2].tool_results
    assert (result.text, result.exit_code, result.outcome) == (output, 2, "error")


@pytest.mark.parametrize(
    ("fields", "parent", "kind", "sidechain"),
    [
        ({"source": "subagent"}, None, "subagent", True),
        ({"model_config": '{"_delegate_from": "p"}'}, None, "subagent", True),
        ({"model_config": '{"_delegate_from": "p"}'}, "compression", "subagent", True),
        ({"model_config": '{"_delegate_from": "other"}'}, "compression", "compaction", True),
        ({"model_config": '{"_branched_from": "p"}'}, "branched", "branch", False),
        ({"model_config": '{"_branched_from": "other"}'}, "compression", "compaction", False),
        ({"model_config": "[1"}, "compression", "compaction", False),
        ({}, None, "branch", False),
    ],
)
def test_a_child_says_how_it_is_related_to_its_parent(
    hermes: Hermes, fields: Record, parent: str | None, kind: str, sidechain: bool
) -> None:
    hermes.session("p", end_reason=parent)
    hermes.session("c", parent_session_id="p", **fields)
    hermes.say("user", "hello", "c")
    session, message = read(hermes)[-1]
    assert message is not None
    assert (session.parent_id, session.parent_kind) == (session_id("hermes", "p"), kind)
    assert message.sidechain is sidechain


def test_sessions_that_are_their_own_ancestors_are_read(hermes: Hermes) -> None:
    hermes.session("a", parent_session_id="b", end_reason="compression")
    hermes.session("b", parent_session_id="a", end_reason="compression")
    hermes.say("user", "hello", "a")
    assert texts(hermes) == ["hello"]


OUTCOMES = [
    ('{"output": "x", "exit_code": 0, "error": null}', "ok", 0, None),
    ('{"output": "x", "exit_code": 3, "error": null}', "error", 3, None),
    ('{"output": "", "exit_code": 1, "exit_code_meaning": "No matches found (not an error)"}', "ok", 1, None),
    ('{"output": "", "exit_code": 7, "exit_code_meaning": "Failed to connect to host"}', "error", 7, None),
    ('{"output": "", "exit_code": 1, "exit_code_meaning": "Non-zero exit (often normal)"}', "error", 1, None),
    ('{"content": "", "error": "File not found: /x"}', "error", None, False),
    ('{"success": false}', "error", None, False),
    ('{"success": true, "done": true}', "ok", None, True),
    (
        '{"output": "", "exit_code": -1, "error": "BLOCKED: User denied this command.", "status": "blocked"}',
        "rejected",
        -1,
        False,
    ),
    ('{"error": "BLOCKED: execute_code script denied by user. The user"}', "rejected", None, False),
    ('{"output": "", "exit_code": -1, "error": "bad workdir", "status": "blocked"}', "error", -1, False),
    ('{"error": "BLOCKED: You have read this exact file region 4 times in a row."}', "error", None, False),
    ('{"error": "Tool execution cancelled by user interrupt", "status": "cancelled"}', "rejected", None, False),
    ("[Tool execution cancelled — terminal was skipped due to user interrupt]", "rejected", None, None),
    ('{"output": "", "exit_code": -1, "error": "", "approval_pending": true}', "unknown", -1, None),
    ("Tool 'x' does not exist. Available tools: terminal", "error", None, None),
    ("Error executing tool 'x': boom", "error", None, None),
    ("Unknown tool: x", "error", None, None),
    ("<tool_use_error>no such file</tool_use_error>", "error", None, None),
    ('{"error": "Unknown tool: x"}', "error", None, False),
    ("Error: Invalid JSON arguments.", "error", None, None),
    ("Errors were discussed at length", "ok", None, None),
    ("plain words", "ok", None, None),
    ("[1, 2]", "ok", None, None),
    ('{"cut', "ok", None, None),
]


def test_outcomes(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (text, outcome, code, flag) in enumerate(OUTCOMES):
        with subtests.test(text=text, outcome=outcome):
            hermes = Hermes(tmp_path / f"{number}.db", 22)
            with closing(hermes.db):
                hermes.session()
                hermes.say("tool", text, tool_call_id="call_1")
                ((result,),) = [message.tool_results for message in messages(hermes)]
            assert (result.outcome, result.exit_code, result.flag, result.text) == (outcome, code, flag, text)


def test_rows_that_make_no_sense_are_reported_and_passed_over(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path / "state.db", 22)
    with closing(hermes.db):
        hermes.session()
        hermes.say("assistant", "kept", tool_calls="{not json")
        hermes.say("user", "no such session", "gone")
        hermes.say("user", b"\xff\xfe words", token_count="many")
        hermes.db.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', CAST(? AS TEXT), 1)",
            (b"g\xffo",),
        )
        hermes.db.execute("INSERT INTO messages (session_id, role, timestamp) VALUES (x'00', 'user', 1)")
        hermes.say("session_meta", "{}")
        reading = Reading(hermes.path)
        found = messages(hermes, reading)
    assert [message.text for message in found] == ["kept", "no such session", "�� words", "g�o"]
    assert [problem.line for problem in reading.problems] == [1, 5]
    assert reading.skipped["role session_meta"] == 1


def test_deep_json_and_lone_surrogates_do_no_harm(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path / "state.db", 22)
    with closing(hermes.db):
        hermes.session()
        for depth in (900, 100_000):
            deep = "[" * depth + "]" * depth
            hermes.say(
                "assistant", "x", tool_calls=f'[{{"id": "c", "function": {{"name": "n", "arguments": {deep}}}}}]'
            )
            hermes.say("user", f"\0json:{deep}")
            hermes.say("tool", f'{{"error": {deep}}}', tool_call_id="c")
        hermes.say("user", '\0json:[{"type": "text", "text": "half \\ud83d"}]')
        found = messages(hermes)
    assert found[-1].text == "half ?"


CELLS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=30), st.binary(max_size=30),
    st.sampled_from(["s1", "p", "tool", "assistant", "\0json:[1, {}]", '[{"id": 1}]', "[[]]", SUMMARY, '{"error": 1}']),
)  # fmt: skip


@given(rows=st.lists(st.tuples(*[CELLS] * 8), max_size=6), story=st.tuples(*[CELLS] * 8))
def test_whatever_is_in_the_cells_nothing_but_messages_comes_out(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], story: tuple[Any, ...]
) -> None:
    path = tmp_path_factory.mktemp("cells") / "state.db"
    with closing(sqlite3.connect(path)) as db:
        names = "session_id, role, content, tool_call_id, tool_calls, timestamp, active, compacted"
        db.execute(f"CREATE TABLE messages ({names})")
        facts = "id, source, model_config, parent_session_id, started_at, end_reason, cwd, system_prompt"
        db.execute(f"CREATE TABLE sessions ({facts})")
        db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", story)
        db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        db.commit()
    for session, message in HermesReader().read(path, Reading(path)):
        assert session.native_id
        assert message is None or message.native_id.encode()


def test_only_databases_of_hermes_are_claimed(hermes: Hermes, tmp_path: Path) -> None:
    head = b"SQLite format 3\0" + bytes(84)
    other = tmp_path / "opencode.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE session (id TEXT)")
        db.execute("CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)")
        db.commit()
    reader = HermesReader()
    assert reader.claims(hermes.path, head)
    assert not reader.claims(other, head)
    assert not reader.claims(hermes.path, b'{"role": "user"}')
    assert not reader.claims(tmp_path / "missing.db", head)
    assert not reader.claims(tmp_path, head)


def test_a_database_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    damaged = tmp_path / "state.db"
    damaged.write_bytes(b"SQLite format 3\0" + b"\x07" * 5000)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE notes (id TEXT)")
        db.commit()
    for path, words in (
        (damaged, "hermes sessions repair"),
        (other, "not a database of Hermes"),
    ):
        with pytest.raises(LogError, match=words) as caught:
            list(HermesReader().read(path, Reading(path)))
        assert "\n" not in str(caught.value)
        assert repr(str(path)) in str(caught.value)


def test_damage_that_would_lead_back_to_the_first_row_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        for statement in SCHEMAS[22]:
            db.execute(statement)
        db.execute("INSERT INTO sessions (id, source, started_at) VALUES ('s1', 'cli', 1)")
        for _ in range(4):
            db.execute("INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', 'hi', 1)")
        db.commit()
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    page = (root - 1) * size
    last = page + int.from_bytes(data[page + 8 + 6 : page + 8 + 8], "big")  # where the fourth row begins
    assert data[last + 1] == 4  # its id, after its length
    data[last + 1] = 0
    path.write_bytes(data)
    with pytest.raises(LogError, match=r"out of order.*hermes sessions repair"):
        list(HermesReader().read(path, Reading(path)))


def test_a_folder_that_cannot_be_written_is_explained(hermes: Hermes, tmp_path: Path) -> None:
    hermes.session()
    let_in(tmp_path)
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("state.db", "state.db-wal"):
        shutil.copyfile(tmp_path / name, folder / name)
    folder.chmod(0o555)
    path = folder / "state.db"
    with pytest.raises(LogError, match=r"state\.db-shm.*folder writable"):
        as_nobody(lambda: list(HermesReader().read(path, Reading(path))))
    folder.chmod(0o755)
