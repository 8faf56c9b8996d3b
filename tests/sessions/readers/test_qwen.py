"""The reader of Qwen Code's chats, on logs written here."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.qwen import QwenReader
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, Usage, session_id, steps

READER = QwenReader()
OWN, FORK = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
Record = dict[str, Any]


def at(second: int) -> str:
    return f"2026-03-01T10:00:{second:02}.000Z"


def record(kind: str, uuid: str, second: int, *parts: Record, session: str = OWN, **fields: Any) -> Record:
    common = {"uuid": uuid, "parentUuid": None, "sessionId": session, "timestamp": at(second), "type": kind}
    common |= {"cwd": "/nowhere/app", "version": "0.24.4", "gitBranch": "main"}
    return {**common, **({"message": {"role": "user", "parts": list(parts)}} if parts else {}), **fields}


def user(uuid: str, text: str, second: int, **fields: Any) -> Record:
    return record("user", uuid, second, {"text": text}, provenance="real_user", **fields)


def call(number: int, name: str = "run_shell_command") -> Record:
    return {"functionCall": {"id": f"c{number}", "name": name, "args": {"command": "make"}}}


def result(number: int, field: str, text: str, second: int, name: str = "run_shell_command", **about: Any) -> Record:
    response = {"id": f"c{number}", "name": name, "response": {field: text}}
    return record("tool_result", f"r{number}", second, {"functionResponse": response}, toolCallResult=about)


def write(path: Path, *records: Record) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def read(path: Path) -> tuple[Session, list[Message]]:
    """The session and its messages; of several with the same id the last counts."""
    reading = Reading(path)
    pairs = list(READER.read(path, reading))
    assert reading.malformed == 0
    assert READER.claims(path, path.read_bytes())
    return pairs[-1][0], list({message.native_id: message for _, message in pairs if message}.values())


def test_a_chat_has_its_messages_facts_and_usage(tmp_path: Path) -> None:
    counts = {"promptTokenCount": 1300, "totalTokenCount": 1320, "cachedContentTokenCount": 300}
    counts |= {"candidatesTokenCount": 20, "thoughtsTokenCount": 5}
    answer = [{"text": "Let me see.", "thought": True}, {"text": "Running."}, call(1)]
    path = write(
        tmp_path / f"{OWN}.jsonl",
        user("u1", "please work", 1),
        record("assistant", "a1", 2, *answer, model="qwen3-coder", usageMetadata=counts),
        result(1, "output", "Output: fine\nExit Code: 0\nSignal: (none)", 5),
        record("system", "s1", 6, subtype="custom_title", systemPayload={"customTitle": "Work"}),
        record("assistant", "a2", 7, {"text": "Done."}, model="qwen3-coder"),
    )
    session, messages = read(path)
    assert [(each.role, each.text) for each in messages] == [
        ("user", "please work"),
        ("assistant", "Running."),
        ("tool", ""),
        ("assistant", "Done."),
    ]
    assert messages[1].reasoning == "Let me see."
    assert messages[1].usage == Usage(input=1000, output=20, cache_read=300, reasoning=5)
    (step,) = steps(messages)
    assert (step.outcome, step.result and step.result.exit_code, step.seconds) == ("ok", 0, 3.0)
    assert (session.native_id, session.project, session.branch) == (OWN, "/nowhere/app", "main")
    assert (session.model, session.title, session.version) == ("qwen3-coder", "Work", "0.24.4")
    assert (session.parent_id, str(session.started_at)) == (None, "2026-03-01 10:00:01+00:00")


OUTCOMES = [
    ("error", "no\nExit Code: 3\nSignal: (none)", {"status": "error"}, "error", 3),
    ("output", "no\nExit Code: 4\nSignal: (none)", {"status": "success"}, "error", 4),
    ("output", "no", {"status": "success", "resultDisplay": {"exitCode": 5}}, "error", 5),
    ("error", "that permission was declined.", {"errorType": "execution_denied"}, "rejected", None),
    ("error", "[Operation Cancelled]", {"status": "cancelled"}, "rejected", None),
    ("output", "fine", {}, "ok", None),
    ("error", "File not found", {"status": "error", "errorType": "file_not_found"}, "error", None),
]


@pytest.mark.parametrize(("field", "text", "about", "outcome", "code"), OUTCOMES)
def test_a_result_has_its_outcome(
    tmp_path: Path, field: str, text: str, about: Record, outcome: str, code: int | None
) -> None:
    path = write(tmp_path / "chat.jsonl", record("assistant", "a1", 1, call(1)), result(1, field, text, 2, **about))
    (found,) = read(path)[1][1].tool_results
    assert (found.outcome, found.exit_code) == (outcome, code)
    assert READER.outcome_of("run_shell_command", found) == outcome


def test_a_call_takes_as_long_as_the_log_says(tmp_path: Path) -> None:
    event = {"uiEvent": {"call_id": "c1", "duration_ms": 250}}
    path = write(
        tmp_path / "chat.jsonl",
        record("assistant", "a1", 1, call(1), call(2)),
        record("system", "s1", 2, subtype="ui_telemetry", systemPayload=event),
        result(1, "output", "one", 9),
        result(2, "output", "two", 9, durationMs=1500),
    )
    assert [each.tool_results[0].duration for each in read(path)[1][1:]] == [0.25, 1.5]


def test_what_the_machine_adds_is_not_the_persons(tmp_path: Path) -> None:
    reminder = {"text": "<system-reminder>\nA day.\n</system-reminder>\n\n"}
    news = {"text": "<task-notification>done</task-notification>"}
    path = write(
        tmp_path / "chat.jsonl",
        record("user", "u1", 1, reminder, {"text": "go"}, provenance="real_user"),
        record("user", "u2", 2, news, provenance="system", subtype="notification"),
        record("user", "u3", 3, reminder, provenance="real_user"),
    )
    assert [(each.text[:6], each.injected) for each in read(path)[1]] == [
        ("go", False),
        ("<task-", True),
        ("<syste", True),
    ]


def test_a_compression_leaves_its_summary(tmp_path: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "<state_snapshot>They counted.</state_snapshot>\n\nResume."}]},
        {"role": "model", "parts": [{"text": "Two."}]},
    ]
    payload = {"compressedHistory": history}
    path = write(
        tmp_path / "chat.jsonl",
        user("u1", "count", 1),
        record("system", "s1", 2, subtype="chat_compression", systemPayload=payload),
    )
    asked, summary = read(path)[1]
    assert (asked.compaction_summary, summary.compaction_summary, summary.injected) == (False, True, True)
    assert "They counted." in summary.text


def test_a_fork_is_a_branch_and_keeps_only_its_own(tmp_path: Path) -> None:
    told = [user("u1", "first", 1), record("assistant", "a1", 2, {"text": "One."})]
    copies = [
        {**each, "sessionId": FORK, "forkedFrom": {"sessionId": OWN, "messageUuid": each["uuid"]}} for each in told
    ]
    origin = write(tmp_path / f"{OWN}.jsonl", *told, user("u9", "go on", 9))
    fork = write(tmp_path / f"{FORK}.jsonl", *copies, user("u2", "aside", 5, session=FORK))
    session, messages = read(fork)
    assert [(each.text, each.origin) for each in messages] == [("first", OWN), ("One.", OWN), ("aside", "")]
    assert (session.parent_id, session.parent_kind) == (session_id("qwen-code", OWN), "branch")
    assert str(session.started_at) == "2026-03-01 10:00:05+00:00"
    for number, order in enumerate(([origin, fork], [fork, origin])):
        with closing(SQLiteSessionStore(tmp_path / f"{number}.db")) as store:
            for path in order:
                sync(store, path_sources([path]))
            assert [each.text for each in store.messages(store.get(OWN).id)] == ["first", "One.", "go on"]
            assert [each.text for each in store.messages(store.get(FORK).id)] == ["aside"]


def test_a_reply_of_a_subagent_is_one_message(tmp_path: Path) -> None:
    def by_agent(kind: str, uuid: str, second: int, *parts: Record, **fields: Any) -> Record:
        return record(kind, uuid, second, *parts, agentId="look-1", isSidechain=True, **fields)

    answered = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "fine"}}}
    records = [
        by_agent("user", "u1", 1, {"text": "Look around."}),
        by_agent("assistant", "a1", 2, {"text": "Looking."}, agentRound=1),
        by_agent("assistant", "a2", 2, call(1)),
        by_agent("assistant", "a3", 2, call(2)),
        by_agent("tool_result", "r1", 3, answered),
        by_agent("assistant", "a4", 4, {"text": "Nothing."}, agentRound=2),
    ]
    path = write(tmp_path / "subagents" / OWN / "agent-look-1.jsonl", *records)
    session, messages = read(path)
    assert [(each.role, each.text, len(each.tool_calls)) for each in messages] == [
        ("user", "Look around.", 0),
        ("assistant", "Looking.", 2),
        ("tool", "", 0),
        ("assistant", "Nothing.", 0),
    ]
    assert all(each.sidechain and not each.injected for each in messages)
    assert session.native_id == f"{OWN}/look-1"
    assert (session.parent_id, session.parent_kind) == (session_id("qwen-code", OWN), "subagent")
    # It may be left and taken up again anywhere.
    lines = path.read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:cut]))
        reading = Reading(path)
        found = [message for _, message in READER.read(path, reading) if message]
        path.write_bytes(b"".join(lines))
        reading = Reading(path, reading.offset, reading.line, json.loads(json.dumps(reading.state)))
        found += [message for _, message in READER.read(path, reading) if message]
        assert list({each.native_id: each for each in found}.values()) == messages


def test_a_subagent_in_a_fork_is_a_subagent(tmp_path: Path) -> None:
    fork = {"sessionId": OWN, "messageUuid": "u1"}
    path = tmp_path / "subagents" / FORK / "agent-look-1.jsonl"
    write(path, {**user("u2", "Look around.", 1), "sessionId": FORK, "agentId": "look-1", "forkedFrom": fork})
    session, (message,) = read(path)
    assert (session.parent_id, session.parent_kind) == (session_id("qwen-code", FORK), "subagent")
    assert (message.sidechain, message.origin) == (True, OWN)


def test_a_log_whose_state_is_of_an_earlier_version_is_read_from_its_start(tmp_path: Path) -> None:
    path = write(tmp_path / f"{OWN}.jsonl", user("u1", "go", 1), user("u2", "on", 2))
    state = {"format": 2, "id": OWN, "open": {"native_id": "a1", "role": "assistant", "text": "Half"}}
    reading = Reading(path, offset=len(path.read_bytes().splitlines(keepends=True)[0]), line=1, state=state)
    assert [message.text for _, message in READER.read(path, reading) if message] == ["go", "on"]


def test_its_folder_can_be_moved() -> None:
    home = Path("/home/ada")
    assert READER.roots({}, home) == [home / ".qwen" / "projects"]
    assert READER.roots({"QWEN_HOME": "/q"}, home) == [Path("/q/projects")]
    assert READER.roots({"QWEN_HOME": "/q", "QWEN_RUNTIME_DIR": "/r"}, home) == [Path("/r/projects")]
