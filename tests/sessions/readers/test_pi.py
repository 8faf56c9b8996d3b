"""The reader of pi's sessions, on logs written here."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.pi import PiReader
from warmstart.sessions.readers.registry import GROUP, readers
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, Usage, session_id, steps

READER = PiReader()
IDS = [f"01a1ea41-0980-7645-bc2c-00000000000{number}" for number in range(3)]
Record = dict[str, Any]


def at(second: int) -> str:
    return f"2026-03-01T10:00:{second:02}.000Z"


def header(number: int, second: int, parent: Path | None = None) -> Record:
    start = {"type": "session", "version": 3, "id": IDS[number], "timestamp": at(second), "cwd": "/nowhere/app"}
    return {**start, **({"parentSession": str(parent)} if parent else {})}


def entry(kind: str, key: str, second: int, **fields: Any) -> Record:
    return {"type": kind, "id": key, "parentId": None, "timestamp": at(second), **fields}


def user(key: str, text: str, second: int) -> Record:
    return entry("message", key, second, message={"role": "user", "content": [{"type": "text", "text": text}]})


def says(key: str, second: int, *blocks: Record, **fields: Any) -> Record:
    message = {"role": "assistant", "content": list(blocks), "provider": "x", "model": "m-1", **fields}
    return entry("message", key, second, message=message)


def result(key: str, text: str, second: int, *, failed: bool = False) -> Record:
    content = [{"type": "text", "text": text}]
    said = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": content, "isError": failed}
    return entry("message", key, second, message=said)


CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}}


def write(folder: Path, number: int, *entries: Record) -> Path:
    path = folder / f"2026-03-01T10-00-0{number}-000Z_{IDS[number]}.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in entries))
    return path


def read(path: Path) -> tuple[Session, list[Message]]:
    reading = Reading(path)
    pairs = list(READER.read(path, reading))
    assert reading.malformed == 0
    assert READER.claims(path, path.read_bytes())
    return pairs[-1][0], [message for _, message in pairs if message]


def test_a_session_has_its_messages_facts_and_usage(tmp_path: Path) -> None:
    usage = {"input": 1000, "output": 20, "cacheRead": 300, "cacheWrite": 40, "totalTokens": 1360}
    path = write(
        tmp_path,
        0,
        header(0, 0),
        entry("model_change", "e1", 0, provider="x", modelId="m-1"),
        user("e2", "please work", 1),
        says("e3", 2, {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}, CALL, usage=usage),
        result("e4", "fine\n", 5),
        says("e5", 6, {"type": "text", "text": "Done."}),
        entry("session_info", "e6", 7, name="Work"),
    )
    session, messages = read(path)
    assert [(each.role, each.text) for each in messages] == [
        ("user", "please work"),
        ("assistant", "Yes."),
        ("tool", ""),
        ("assistant", "Done."),
    ]
    assert (messages[1].reasoning, messages[1].model) == ("Hm.", "m-1")
    assert messages[1].usage == Usage(input=1000, output=20, cache_read=300, cache_write=40)
    (step,) = steps(messages)
    assert (step.outcome, step.seconds) == ("ok", 3.0)
    assert (session.native_id, session.project, session.model) == (IDS[0], "/nowhere/app", "m-1")
    assert (session.title, str(session.started_at)) == ("Work", "2026-03-01 10:00:00+00:00")


OUTCOMES = [
    ("fine", False, "ok", None),
    ("I saw: Command exited with code 3", False, "ok", None),
    ("bad\n\n\nCommand exited with code 3", True, "error", 3),
    ("Tool nosuch not found", True, "error", None),
    ("partial\n\nCommand aborted", True, "rejected", None),
    ("Tool execution was blocked", True, "rejected", None),
]


@pytest.mark.parametrize(("text", "failed", "outcome", "code"), OUTCOMES)
def test_a_result_has_its_outcome(tmp_path: Path, text: str, failed: bool, outcome: str, code: int | None) -> None:
    path = write(tmp_path, 0, header(0, 0), says("e1", 1, CALL), result("e2", text, 2, failed=failed))
    (found,) = read(path)[1][1].tool_results
    assert (found.outcome, found.exit_code) == (outcome, code)
    assert READER.outcome_of("bash", found) == outcome


def test_summaries_and_additions_are_not_the_persons(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        0,
        header(0, 0),
        user("e1", "count", 1),
        entry("compaction", "e2", 2, summary="They counted.", firstKeptEntryId="e1"),
        entry("branch_summary", "e3", 3, summary="They left.", fromId="e1"),
        entry("custom_message", "e4", 4, customType="x", content="added", display=True),
        entry("message", "e5", 5, message={"role": "bashExecution", "command": "ls", "output": "a.txt"}),
        entry("custom", "e6", 6, customType="x", data={}),
    )
    assert [(each.text, each.compaction_summary, each.injected) for each in read(path)[1]] == [
        ("count", False, False),
        ("They counted.", True, True),
        ("They left.", True, True),
        ("added", False, True),
        ("$ ls\na.txt", False, True),
    ]


def test_a_fork_of_a_fork_keeps_only_its_own(tmp_path: Path) -> None:
    first, second, third = user("e1", "first", 1), user("e2", "second", 3), user("e3", "third", 5)
    grand = write(tmp_path, 0, header(0, 0), first, user("e9", "last of all", 9))
    parent = write(tmp_path, 1, header(1, 2, grand), first, second)
    child = write(tmp_path, 2, header(2, 4, parent), first, second, third)
    session, messages = read(child)
    assert [each.origin for each in messages] == [IDS[0], IDS[1], ""]
    assert (session.parent_id, session.parent_kind) == (session_id("pi", IDS[1]), "branch")
    for number, order in enumerate(([grand, parent, child], [child, parent, grand])):
        with closing(SQLiteSessionStore(tmp_path / f"{number}.db")) as store:
            for path in order:
                sync(store, path_sources([path]))
            found = [[each.text for each in store.messages(store.get(native_id).id)] for native_id in IDS]
            assert found == [["first", "last of all"], ["second"], ["third"]]


def test_a_fork_names_its_parent_even_if_that_is_missing(tmp_path: Path) -> None:
    gone = tmp_path / f"2026-03-01T10-00-00-000Z_{IDS[0]}.jsonl"
    session, messages = read(write(tmp_path, 1, header(1, 2, gone), user("e1", "first", 1), user("e2", "aside", 3)))
    assert [each.origin for each in messages] == [IDS[0], ""]
    assert session.parent_id == session_id("pi", IDS[0])


def test_its_folder_can_be_moved() -> None:
    home = Path("/home/ada")
    assert READER.roots({}, home) == [home / ".pi" / "agent" / "sessions"]
    assert READER.roots({"PI_CODING_AGENT_DIR": "/p"}, home) == [Path("/p/sessions")]
    assert READER.roots({"PI_CODING_AGENT_SESSION_DIR": "/s"}, home) == [Path("/s")]


def test_it_is_registered_like_a_reader_of_another_package() -> None:
    (point,) = entry_points(group=GROUP, name="pi")
    assert point.load() is PiReader
    assert isinstance(readers()["pi"], PiReader)
    assert list(readers())[-1] == "openai"
