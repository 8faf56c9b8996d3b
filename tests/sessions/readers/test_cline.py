"""The reader of Cline's sessions, on documents written here."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.cline import ClineReader
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, Usage, session_id, steps

READER = ClineReader()
MS = 1_780_000_000_000
OWN, FORK = "1780000000000_own", "1780000005000_frk"
T0 = "2026-05-28T20:26:40.000Z"
Record = dict[str, Any]


def user(key: str, text: str, second: int) -> Record:
    wrapped = f'<user_input mode="act">{text}</user_input>'
    return {"id": key, "role": "user", "content": [{"type": "text", "text": wrapped}], "ts": MS + 1000 * second}


def says(key: str, second: int, *blocks: Record, **fields: Any) -> Record:
    return {"id": key, "role": "assistant", "content": list(blocks), "ts": MS + 1000 * second, **fields}


def result(key: str, second: int, content: object, **fields: Any) -> Record:
    block = {"type": "tool_result", "tool_use_id": "c1", "name": "run_commands", "content": content, **fields}
    return {"id": key, "role": "user", "content": [block], "ts": MS + 1000 * second}


CALL = {"type": "tool_use", "id": "c1", "name": "run_commands", "input": {"commands": ["make"]}}


def write(home: Path, session: str, *messages: Record, name: str = "", origin: Record | None = None) -> Path:
    folder = home / (session if not name else OWN)
    folder.mkdir(parents=True, exist_ok=True)
    head = {"version": 1, "updated_at": T0, "agent": "lead", "sessionId": session}
    path = folder / f"{name or session}.messages.json"
    path.write_text(json.dumps({**head, "origin": {"version": "3.0.65", **(origin or {})}, "messages": messages}))
    return path


def write_facts(home: Path, session: str, **metadata: Any) -> None:
    facts = {"session_id": session, "started_at": T0, "model": "m-1", "cwd": "/nowhere/app/src"}
    folder = home / session
    folder.mkdir(parents=True, exist_ok=True)
    about = {**facts, "workspace_root": "/nowhere/app", "metadata": metadata}
    (folder / f"{session}.json").write_text(json.dumps(about))


def read(path: Path) -> tuple[Session, list[Message]]:
    reading = Reading(path)
    pairs = list(READER.read(path, reading))
    assert reading.malformed == 0
    assert READER.claims(path, path.read_bytes())
    return pairs[-1][0], [message for _, message in pairs if message]


def test_a_session_has_its_messages_facts_and_usage(tmp_path: Path) -> None:
    metrics = {"inputTokens": 1300, "outputTokens": 20, "cacheReadTokens": 300, "cacheWriteTokens": 0}
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}, CALL]
    write_facts(tmp_path, OWN, title="Work")
    path = write(
        tmp_path,
        OWN,
        user("m1", "please work", 1),
        says("m2", 2, *blocks, modelInfo={"id": "m-1", "provider": "x"}, metrics=metrics),
        result("m3", 5, [{"query": "make", "result": "fine\n", "success": True}]),
        says("m4", 6, {"type": "text", "text": "Done."}),
    )
    session, messages = read(path)
    assert [(each.role, each.text) for each in messages] == [
        ("user", "please work"),
        ("assistant", "Yes."),
        ("tool", ""),
        ("assistant", "Done."),
    ]
    assert (messages[1].reasoning, messages[1].model) == ("Hm.", "m-1")
    assert messages[1].usage == Usage(input=1000, output=20, cache_read=300)
    (step,) = steps(messages)
    assert (step.outcome, step.seconds, step.result and step.result.text) == ("ok", 3.0, "fine\n")
    assert (session.native_id, session.project, session.model) == (OWN, "/nowhere/app", "m-1")
    assert (session.title, session.version, session.parent_id) == ("Work", "3.0.65", None)


FAILED = {"query": "exit 5", "result": "[Command exited with code 5]", "error": "Command exited with code 5"}
OUTCOMES: list[tuple[object, dict[str, Any], str, int | None]] = [
    ([{"query": "a", "result": "fine", "success": True}], {}, "ok", None),
    ([{"query": "a", "result": "a", "success": True}, {**FAILED, "success": False}], {}, "error", 5),
    (json.dumps({"query": "edit:a", "result": "", "error": "text not found", "success": False}), {}, "error", None),
    (json.dumps({"text": "Nothing here.", "iterations": 2}), {}, "ok", None),
    ('{"error":"Model tried to call unavailable tool"}', {"is_error": True}, "error", None),
    (
        '{"error":"Refused. -- NOT a tool or system failure. Clarify with user before proceeding."}',
        {"is_error": True},
        "rejected",
        None,
    ),
    ("plain", {}, "ok", None),
]


@pytest.mark.parametrize(("content", "fields", "outcome", "code"), OUTCOMES)
def test_a_result_has_its_outcome(
    tmp_path: Path, content: object, fields: dict[str, Any], outcome: str, code: int | None
) -> None:
    path = write(tmp_path, OWN, says("m1", 1, CALL), result("m2", 2, content, **fields))
    (found,) = read(path)[1][1].tool_results
    assert (found.outcome, found.exit_code) == (outcome, code)
    assert found.text
    assert READER.outcome_of("run_commands", found) == outcome


def test_a_subagent_is_a_child(tmp_path: Path) -> None:
    write_facts(tmp_path, OWN)
    prompt = {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Look around."}], "ts": MS}
    child = f"{OWN}__agent_1"
    path = write(tmp_path, child, prompt, name="agent_1", origin={"mode": "subagent", "parentThreadId": OWN})
    session, messages = read(path)
    assert [(each.text, each.sidechain, each.injected) for each in messages] == [("Look around.", True, False)]
    assert (session.native_id, session.project) == (child, "/nowhere/app")
    assert (session.parent_id, session.parent_kind) == (session_id("cline", OWN), "subagent")


def test_a_compaction_leaves_its_summary_among_all_messages(tmp_path: Path) -> None:
    write_facts(tmp_path, OWN)
    asked = user("m1", "count", 1)
    path = write(tmp_path, OWN, asked, user("m2", "go on", 12))
    about = {"kind": "compaction_summary", "displayRole": "system", "generatedAt": MS + 9000}
    summary = {"role": "user", "content": [{"type": "text", "text": "They counted."}], "metadata": about}
    head = {"version": 1, "updated_at": T0, "conversation_id": OWN, "source_message_count": 1}
    (tmp_path / OWN / f"{OWN}.compaction.json").write_text(json.dumps({**head, "messages": [summary, asked]}))
    assert [(each.text, each.compaction_summary, each.injected) for each in read(path)[1]] == [
        ("count", False, False),
        ("They counted.", True, True),
        ("go on", False, False),
    ]
    assert list(READER.find(tmp_path)) == [path]


def test_a_fork_is_a_branch_and_keeps_only_its_own(tmp_path: Path) -> None:
    told = [user("m1", "first", 1), says("m2", 2, {"type": "text", "text": "One."})]
    write_facts(tmp_path, OWN)
    write_facts(tmp_path, FORK, fork={"forkedFromSessionId": OWN, "forkedAt": "2026-05-28T20:26:45.000Z"})
    origin = write(tmp_path, OWN, *told, user("m9", "go on", 9))
    fork = write(tmp_path, FORK, *told, user("m3", "aside", 7))
    session, messages = read(fork)
    assert [(each.text, each.origin) for each in messages] == [("first", OWN), ("One.", OWN), ("aside", "")]
    assert (session.parent_id, session.parent_kind) == (session_id("cline", OWN), "branch")
    for number, order in enumerate(([origin, fork], [fork, origin])):
        with closing(SQLiteSessionStore(tmp_path / f"{number}.db")) as store:
            for path in order:
                sync(store, path_sources([path]))
            assert [each.text for each in store.messages(store.get(OWN).id)] == ["first", "One.", "go on"]
            assert [each.text for each in store.messages(store.get(FORK).id)] == ["aside"]


def test_its_folder_can_be_moved() -> None:
    home = Path("/home/ada")
    assert READER.roots({}, home) == [home / ".cline" / "data" / "sessions"]
    assert READER.roots({"CLINE_DATA_DIR": "/c"}, home) == [Path("/c/sessions")]
    assert READER.roots({"CLINE_SESSION_DATA_DIR": "/s"}, home) == [Path("/s")]
