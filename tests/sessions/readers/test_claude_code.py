"""Claude Code's logs: hand-written ones of each shape that it has written, and the real ones where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.sessions.readers.logs import cuts
from warmstart.errors import LogError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.readers.registry import judge
from warmstart.sessions.values import Message, Session, ToolCall, Usage, session_id

READER = ClaudeCodeReader()
OWN = "aaaaaaaa-0000-4000-8000-00000000000a"
OLD = "bbbbbbbb-0000-4000-8000-00000000000b"

Record = dict[str, Any]
Pairs = list[tuple[Session, Message | None]]


def at(second: float) -> str:
    return datetime.fromtimestamp(1_790_000_000 + second, UTC).isoformat().replace("+00:00", "Z")


def line(kind: str, uuid: str, second: float = 0, **fields: Any) -> Record:
    common = {"parentUuid": None, "isSidechain": False, "cwd": "/nowhere/app", "sessionId": OWN, "version": "2.1.9"}
    return {**common, "gitBranch": "main", "type": kind, "uuid": uuid, "timestamp": at(second), **fields}


def user(uuid: str, content: object, second: float = 0, **fields: Any) -> Record:
    return line("user", uuid, second, message={"role": "user", "content": content}, **fields)


def says(uuid: str, *blocks: Record, id: str = "msg_1", second: float = 0, **fields: Any) -> Record:
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 40}
    message = {"id": id, "role": "assistant", "model": "claude-opus-4-8", "content": list(blocks), "usage": usage}
    message |= {key: fields.pop(key) for key in ("model", "usage") if key in fields}
    return line("assistant", uuid, second, **{"requestId": f"req_{id}", **fields}, message=message)


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def call(number: int, **given: Any) -> Record:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": given or {"command": "ls"}}


def result(number: int, content: object = "fine", **flags: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **flags}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "project" / f"{OWN}.jsonl"


def write(path: Path, *records: Record | bytes | str) -> bytes:
    raw = [record if isinstance(record, bytes | str) else json.dumps(record) for record in records]
    data = b"".join(part if isinstance(part, bytes) else part.encode() + b"\n" for part in raw)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def read(path: Path, reading: Reading | None = None) -> Pairs:
    return list(READER.read(path, reading or Reading(path)))


def messages(path: Path) -> list[Message]:
    return [message for _, message in latest(read(path)).values()]


def latest(pairs: Iterable[tuple[Session, Message | None]]) -> dict[str, tuple[str, Message]]:
    """What a store keeps: the last word on each message, in the order of the first."""
    return {message.native_id: (session.native_id, message) for session, message in pairs if message}


def continued(path: Path, reading: Reading) -> Reading:
    """A reading that another process takes up."""
    state = msgspec.json.decode(msgspec.json.encode(reading.state))
    return Reading(path, offset=reading.offset, line=reading.line, state=state)


def outcome(log: Path, content: object, **flags: Any) -> str:
    write(log, says("a1", call(1)), user("u1", [result(1, content, **flags)]))
    return messages(log)[1].tool_results[0].outcome


# One API message on several lines


def test_lines_of_one_api_message_become_one_message(log: Path) -> None:
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
    write(log, says("a1", thought, second=1), says("a2", text("Looking."), second=2), says("a3", call(1), second=3))
    (message,) = messages(log)
    assert (message.native_id, message.role, message.text, message.reasoning) == (
        "a1",
        "assistant",
        "Looking.",
        "Let me see.",
    )
    assert message.tool_calls == (ToolCall(id="toolu_1", name="Bash", arguments='{"command": "ls"}'),)
    assert message.timestamp == datetime.fromisoformat(at(1))


def test_results_may_come_between_the_lines_of_one_message(log: Path) -> None:
    write(log, says("a1", call(1)), user("u1", [result(1)]), says("a2", call(2)), user("u2", [result(2)]))
    assert [(message.native_id, message.role) for message in messages(log)] == [
        ("a1", "assistant"),
        ("u1", "tool"),
        ("u2", "tool"),
    ]
    assert [one.id for one in messages(log)[0].tool_calls] == ["toolu_1", "toolu_2"]


def test_a_persons_words_end_a_message(log: Path) -> None:
    write(log, says("a1", text("One.")), user("u1", "stop"), says("a2", text("Two.")))
    assert [(message.native_id, message.text) for message in messages(log)] == [
        ("a1", "One."),
        ("u1", "stop"),
        ("a2", "Two."),
    ]


def test_without_a_request_id_results_end_a_message(log: Path) -> None:
    first, second = says("a1", call(1), requestId=None), says("a2", text("Done."), requestId=None)
    write(log, first, says("a1b", call(2), requestId=None), user("u1", [result(1), result(2)]), second)
    assert [(message.native_id, len(message.tool_calls)) for message in messages(log)] == [
        ("a1", 2),
        ("u1", 0),
        ("a2", 0),
    ]


def test_the_same_id_in_another_request_is_another_message(log: Path) -> None:
    write(log, says("a1", text("One."), requestId="r1"), says("a2", text("Two."), requestId="r2"))
    assert [message.text for message in messages(log)] == ["One.", "Two."]


def test_answers_without_an_id_stay_apart(log: Path) -> None:
    write(log, says("a1", text("One."), id=""), says("a2", text("Two."), id=""))
    assert [message.native_id for message in messages(log)] == ["a1", "a2"]


def test_usage_and_model_are_those_of_the_last_line(log: Path) -> None:
    begun = {"input_tokens": 10, "output_tokens": 1}
    write(log, says("a1", text("a"), usage=begun), says("a2", text("b")), says("a3", text("c"), usage=None))
    session, message = read(log)[-1]
    assert message is not None
    assert message.usage == Usage(input=10, output=5, cache_read=300, cache_write=40)
    assert (message.model, session.model) == ("claude-opus-4-8", "claude-opus-4-8")


def test_what_claude_code_says_itself_has_no_model(log: Path) -> None:
    nothing = {"input_tokens": 0, "output_tokens": 0}
    write(
        log,
        says("a1", text("a")),
        says("a2", text("API Error: overloaded"), id="x", model="<synthetic>", usage=nothing, isApiErrorMessage=True),
    )
    session, message = read(log)[-1]
    assert message is not None
    assert (message.text, message.model, message.usage) == ("API Error: overloaded", "", None)
    assert session.model == "claude-opus-4-8"


def test_a_filler_is_no_answer(log: Path) -> None:
    filler = text("No response requested.")
    write(
        log,
        user("u1", "go", 1),
        says("f1", filler, id="x", model="<synthetic>", second=2, isApiErrorMessage=False, requestId=None),
        user("u2", "Continue from where you left off.", 3, isMeta=True),
        says("f2", filler, id="y", model="<synthetic>", second=4, requestId=None),
        user("u3", "No response requested.", 5),
        says("a1", filler, second=6),
    )
    reading = Reading(log)
    said = [(message.native_id, message.injected) for _, message in latest(read(log, reading)).values()]
    assert said == [("u1", False), ("u2", True), ("u3", False), ("a1", False)]
    assert reading.skipped["assistant/filler"] == 2


# Results


def test_a_result_without_a_flag_went_well(log: Path) -> None:
    write(log, says("a1", call(1)), user("u1", [result(1, "3 files")]))
    (found,) = messages(log)[1].tool_results
    assert (found.call_id, found.outcome, found.text, found.flag, found.exit_code) == (
        "toolu_1",
        "ok",
        "3 files",
        None,
        None,
    )


REFUSALS = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, …",
    "The user doesn't want to take this action right now. STOP what you are doing and wait for the user …",
    "[Request interrupted by user for tool use]",
    "[Request interrupted by user]",
    "Permission to use Bash with command rm -rf / has been denied.",
    "Permission to read /etc/shadow has been denied.",
    "Permission for this tool use was denied. The tool use was rejected (eg. if it was a file edit, …",
    "Permission for this action was denied by the Claude Code auto mode classifier. Reason: …",
    "Claude requested permissions to write to /etc/hosts, but you haven't granted it yet.",
    "This command requires approval",
    "touch in '/a/b' was blocked. For security, Claude Code may only create or modify files in the allowed …",
    "Output redirection to '/a/b' was blocked by a deny rule.",
    "Current permission mode (Plan) requires approval for this Bash command",
    "rm in '/a/b' needs approval. The path is outside the working directories for this session ('/a').",
]


def test_a_refusal_is_no_failure_of_the_tool(log: Path, subtests: pytest.Subtests) -> None:
    for words in REFUSALS:
        with subtests.test(words=words):
            assert outcome(log, words, is_error=True) == "rejected"
            assert outcome(log, [text(words)], is_error=True) == "rejected"
            assert outcome(log, words) == "ok"


ERRORS = [
    "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
    "File does not exist. Note: your current working directory is /nowhere/app.",
    "Exit code 1\nPermission to use the printer has been denied.",
    "Exit code 3\nthis deployment requires approval",
    "",
]


def test_a_flagged_result_is_an_error(log: Path, subtests: pytest.Subtests) -> None:
    for words in ERRORS:
        with subtests.test(words=words):
            assert outcome(log, words, is_error=True) == "error"


ACCEPTED: Record = {"permissionDecision": {"decision": "accept", "source": "config", "reasonType": "rule"}}


def denied(kind: str | None, source: str = "config") -> Record:
    decision = {"permissionDecision": {"decision": "reject", "source": source, "reasonCode": "unknown"}}
    return {**decision, "toolDenialKind": kind} if kind else decision


ENDED = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown.]"


DENIALS = [
    ("The path is out of bounds.", denied("user-rejected"), "rejected"),
    ("No, do the tests first.", denied("user-rejected", "user_reject"), "rejected"),
    ("No, do the tests first.", denied(None, "user_reject"), "rejected"),
    ("Stopped before it ran.", denied("user-rejected", "user_abort"), "rejected"),
    ("The rules forbid it.", denied("permission-rule"), "rejected"),
    ("PreToolUse:Bash hook error: not on Fridays", denied("permission-rule", "hook"), "rejected"),
    ("PreToolUse:Bash hook error: not on Fridays", denied(None, "hook"), "rejected"),
    ("Looks dangerous.", {"toolDenialKind": "automode-blocked"}, "rejected"),
    ("<tool_use_error>Not allowed here</tool_use_error>", {"toolDenialKind": "permission-rule"}, "rejected"),
    ("[Request interrupted by user for tool use]", {"toolDenialKind": "interrupted"}, "rejected"),
    ("[Request interrupted by user for tool use]", {"toolDenialKind": "interrupted", **ACCEPTED}, "rejected"),
    ("The user doesn't want to take this action right now.", {"toolDenialKind": "cancelled"}, "rejected"),
    ("Exit code 137\npartial", {"toolDenialKind": "interrupted", **ACCEPTED}, "error"),
    (ENDED, {"toolDenialKind": "interrupted"}, "unknown"),
    ("File does not exist.", ACCEPTED, "error"),
    ("Permission to push to main was denied by the server", ACCEPTED, "error"),
    ("This command requires approval", ACCEPTED, "error"),
    ("Exit code 1\nno", ACCEPTED, "error"),
    ("File does not exist.", {"permissionDecision": None, "toolDenialKind": None}, "error"),
    ("This command requires approval", {"permissionDecision": "unknown form"}, "rejected"),
]


def test_a_refusal_is_recognised_by_its_field(log: Path, subtests: pytest.Subtests) -> None:
    for words, fields, expected in DENIALS:
        with subtests.test(words=words, fields=fields):
            write(log, says("a1", call(1)), user("u1", [result(1, words, is_error=True)], **fields))
            (found,) = messages(log)[1].tool_results
            assert found.outcome == expected
            if expected == "rejected":
                assert judge("claude-code", "Bash", found) == "rejected"


def test_an_accepted_call_went_well(log: Path) -> None:
    write(
        log, says("a1", call(1)), user("u1", [result(1, "This command requires approval", is_error=False)], **ACCEPTED)
    )
    assert messages(log)[1].tool_results[0].outcome == "ok"


def test_a_call_takes_the_time_between_its_line_and_that_of_its_result(log: Path) -> None:
    write(
        log,
        says("a1", text("Both."), second=1),
        says("a2", call(1), second=2),
        says("a3", call(2), second=3.5),
        user("u1", [result(1)], 4.25),
        user("u2", [result(2)], 6),
        says("a4", call(3), second=7, id="msg_2"),
        user("u3", [result(3, ENDED, is_error=True)], 5000, toolDenialKind="interrupted"),
        user("u4", [result(9)], 5001),
    )
    found = [each.duration for message in messages(log) for each in message.tool_results]
    assert found == [2.25, 2.5, None, None]


def test_a_tool_use_error_needs_no_flag(log: Path) -> None:
    assert outcome(log, "<tool_use_error>Path does not exist</tool_use_error>") == "error"


def test_an_exit_code_is_read_from_the_head_of_a_result(log: Path) -> None:
    write(log, user("u1", [result(1, "Exit code 127\nbash: nope: not found", is_error=True), result(2, "Exit codes")]))
    failed, fine = messages(log)[0].tool_results
    assert (failed.outcome, failed.exit_code, failed.flag) == ("error", 127, True)
    assert (fine.outcome, fine.exit_code) == ("ok", None)


def test_pictures_become_a_word_and_their_bytes_are_dropped(log: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * 40}}
    paper = {"type": "document", "source": {"type": "base64", "data": "JVBERi0xLjQK" * 40}}
    write(
        log,
        user("u1", [picture, text("what is this?"), paper]),
        says("a1", call(1)),
        user("u2", [result(1, [picture, text("a chart")]), result(2, picture)]),
    )
    said, _, answered = messages(log)
    assert said.text == "[image]\n\nwhat is this?\n\n[document]"
    assert [one.text for one in answered.tool_results] == ["[image]\na chart", "[image]"]
    assert "iVBOR" not in repr(read(log))
    assert "JVBER" not in repr(read(log))


# Who speaks


def test_words_beside_a_result_are_a_message_of_their_own(log: Path) -> None:
    write(log, says("a1", call(1)), user("u1", [result(1), text("and hurry")]))
    _, answered, said = messages(log)
    assert (answered.role, answered.text, len(answered.tool_results)) == ("tool", "", 1)
    assert (said.role, said.text, said.injected, said.tool_results) == ("user", "and hurry", False, ())
    assert answered.native_id != said.native_id


MACHINE_TEXTS = [
    "<local-command-stdout>Bye!</local-command-stdout>",
    "<command-name>/clear</command-name>\n<command-message>clear</command-message>",
    "<command-message>review</command-message>",
    "<bash-input>git status</bash-input>",
    "<bash-stdout>clean</bash-stdout>",
    "<system-reminder>\nThe file changed.\n</system-reminder>",
    "<ide_opened_file>The user opened app.py</ide_opened_file>",
    "<local-command-caveat>Caveat: The messages below were generated by the user…</local-command-caveat>",
    "Caveat: The messages below were generated by the user while running local commands.",
    "<user-prompt-submit-hook>context</user-prompt-submit-hook>",
    "<task-notification>done</task-notification>",
    "[Request interrupted by user]",
]


def test_machine_text_in_a_user_message_is_injected_and_separate(log: Path, subtests: pytest.Subtests) -> None:
    for words in MACHINE_TEXTS:
        with subtests.test(words=words):
            write(log, user("u1", words), user("u2", [text(words), text("fix it"), text("please")]))
            alone, machine, person = messages(log)
            assert (alone.native_id, alone.text, alone.injected) == ("u1", words, True)
            assert (machine.text, machine.injected) == (words, True)
            assert (person.text, person.injected) == ("fix it\n\nplease", False)


def test_meta_lines_are_injected(log: Path) -> None:
    write(log, user("u1", "Continue from where you left off.", isMeta=True), user("u2", "yes"))
    assert [message.injected for message in messages(log)] == [True, False]


def test_the_summary_of_a_compaction_is_flagged(log: Path) -> None:
    boundary = line("system", "s1", subtype="compact_boundary", content="Conversation compacted")
    told = "This session is being continued from a previous conversation that ran out of context. …"
    write(log, user("u1", "go"), boundary, user("u2", told, isCompactSummary=True, isVisibleInTranscriptOnly=True))
    assert [(message.text, message.compaction_summary) for message in messages(log)] == [("go", False), (told, True)]


def test_words_typed_while_the_agent_works_are_the_persons(log: Path) -> None:
    typed = {"type": "queued_command", "prompt": "also the docs", "commandMode": "prompt"}
    pasted = {"type": "queued_command", "prompt": [text("like this"), {"type": "image", "source": {"data": "iVBO"}}]}
    news = {"type": "queued_command", "prompt": "Build finished", "commandMode": "task-notification"}
    hint = {"type": "queued_command", "prompt": "You may go on", "isMeta": True}
    write(
        log,
        says("a1", text("Working.")),
        *(line("attachment", f"q{number}", attachment=one) for number, one in enumerate((typed, pasted, news, hint))),
        line("attachment", "q9", attachment={"type": "queued_command", "prompt": ""}),
        says("a2", text("Yes.")),
    )
    assert [(message.role, message.text, message.injected) for message in messages(log)] == [
        ("assistant", "Working.", False),
        ("user", "also the docs", False),
        ("user", "like this\n[image]", False),
        ("user", "Build finished", True),
        ("user", "You may go on", True),
        ("assistant", "Yes.", False),
    ]


# What is not understood


def test_unknown_lines_are_skipped_and_counted(log: Path) -> None:
    reading = Reading(log)
    write(
        log,
        line("system", "s1", subtype="turn_duration"),
        line("hologram", "h1"),
        line("hologram", "h2"),
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        {"type": ["odd"], "subtype": 3},
        user("u1", "hello"),
        line("attachment", "x1", attachment={"type": "skill_listing"}),
        line("progress", "p1", data={"type": "bash_progress", "output": "…"}),
    )
    assert len(read(log, reading)) == 1
    assert reading.malformed == 0
    assert reading.skipped["hologram"] == 2
    assert reading.skipped["system/turn_duration"] == 1
    assert reading.skipped["attachment"] == reading.skipped["progress"] == 1


def test_malformed_lines_are_reported_by_number_and_passed_over(log: Path) -> None:
    reading = Reading(log)
    wrong = json.dumps(line("user", "u2", message="words"))
    write(log, user("u1", "one"), "{nonsense", "", wrong, "[1, 2]", b"\x00\x00\n", user("u3", "two"))
    assert [message.text for _, message in read(log, reading) if message] == ["one", "two"]
    assert (reading.malformed, [problem.line for problem in reading.problems]) == (4, [2, 4, 5, 6])
    assert all(problem.path == str(log) and problem.reason for problem in reading.problems)


def test_two_objects_on_one_line_are_both_read(log: Path) -> None:
    glued = json.dumps(says("a1", call(1))) + json.dumps(user("u1", [result(1)]))
    reading = Reading(log)
    write(log, user("u0", "go"), glued, user("u2", "next"))
    assert [message.native_id for _, message in read(log, reading) if message] == ["u0", "a1", "u1", "u2"]
    assert (reading.malformed, reading.line) == (0, 3)


def test_a_half_written_last_line_is_read_next_time(log: Path) -> None:
    data = write(log, user("u1", "one"), user("u2", "two é"))
    for cut in range(data.index(b"\n") + 1, len(data) - 1):
        log.write_bytes(data[:cut])
        reading = Reading(log)
        assert [message.native_id for _, message in read(log, reading) if message] == ["u1"]
        assert reading.malformed == 0
        log.write_bytes(data)
        assert [message.text for _, message in read(log, continued(log, reading)) if message] == ["two é"]


def test_a_whole_last_line_without_its_line_feed_is_read_now(log: Path) -> None:
    data = write(log, user("u1", "one"), user("u2", "two"))
    log.write_bytes(data[:-1])
    reading = Reading(log)
    assert len(read(log, reading)) == 2
    log.write_bytes(data + json.dumps(user("u3", "three")).encode())
    again = continued(log, reading)
    assert [message.text for _, message in read(log, again) if message] == ["three"]
    assert again.malformed == 0


def test_a_lone_surrogate_is_replaced(log: Path) -> None:
    nested = {"type": "user", "uuid": "n1", "message": {"content": "half \ud83d"}}
    wrapped = line("progress", "p1", data={"type": "agent_progress", "agentId": "a7", "message": nested})
    write(log, user("u1", "cut \ud83d"), user("u2", [result(1, "whole \ud83d\ude00")]), wrapped)
    first, second, third = messages(log)
    assert (first.text, second.tool_results[0].text, third.text) == ("cut \ufffd", "whole 😀", "half \ufffd")


def test_a_log_that_cannot_be_opened_is_one_error(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(LogError, match="cannot read"):
            read(path)


# Subagents


def beside(agent: str = "a7", **fields: Any) -> list[Record]:
    """The lines of a subagent as they stand in a file of its own."""
    common = {"isSidechain": True, "agentId": agent, **fields}
    return [
        user("s1", "Look around.", 1, **common),
        says("s2", text("Looking."), id="msg_s", second=2, **common),
        says("s3", call(8), id="msg_s", second=3, **common),
        user("s4", [result(8, "nothing")], 4, **common),
        says("s5", text("Nothing here."), id="msg_t", second=5, **common),
    ]


def wrapped(records: Sequence[Record], agent: str = "a7") -> list[Record]:
    """The same lines, wrapped in `progress` lines of their parent; only the API's names are the same."""
    found = []
    for number, record in enumerate(records):
        nested = {key: record[key] for key in ("type", "timestamp", "message", "requestId") if key in record}
        if isinstance(nested["message"]["content"], str):
            nested["message"] = {"role": "user", "content": [text(nested["message"]["content"])]}
        data = {"type": "agent_progress", "agentId": agent, "message": {**nested, "uuid": f"other{number}"}}
        found.append(line("progress", f"p{number}", data=data))
    return found


def test_a_subagent_is_the_same_child_in_each_of_its_three_places(log: Path) -> None:
    newer = log.parent / OWN / "subagents" / "agent-a7.jsonl"
    older = log.parent / "agent-a7.jsonl"
    write(newer, *beside())
    write(older, *beside())
    expected = [
        ("user", "Look around."),
        ("assistant", "Looking."),
        ("tool", ""),
        ("assistant", "Nothing here."),
    ]
    found = []
    for path, records in ((newer, beside()), (older, beside()), (log, [user("u1", "go"), *wrapped(beside())])):
        write(path, *records)
        pairs = [(session, message) for session, message in read(path) if message and message.sidechain]
        assert [(message.role, message.text) for _, message in pairs] == expected
        assert {(session.native_id, session.parent_id, session.parent_kind) for session, _ in pairs} == {
            (f"{OWN}/a7", session_id("claude-code", OWN), "subagent")
        }
        found.append([(message.native_id, message.tool_calls, message.tool_results) for _, message in pairs])
    assert found[0] == found[1] == found[2]


def test_a_subagent_behind_a_proxy_that_counts_from_one_keeps_all_it_said(log: Path) -> None:
    common = {"isSidechain": True, "agentId": "a7", "requestId": None, "id": "chat-1"}
    records = [
        says("s1", text("One."), **common),
        user("s2", [result(1)], isSidechain=True, agentId="a7"),
        says("s3", text("Two."), **common),
    ]
    write(log, *records)
    expected = ["One.", "", "Two."]
    assert [message.text for message in messages(log)] == expected
    ids = [message.native_id for message in messages(log)]
    write(log, *wrapped(records))
    assert [message.native_id for message in messages(log)] == ids


def test_the_last_words_of_many_subagents_are_all_kept(log: Path) -> None:
    records = [says("a1", text("Sending many.")), says("a2", call(1))]
    for number in range(100):
        records += wrapped([says("s", text(f"Report {number}."), id=f"msg_s{number}")], f"a{number}")
    write(log, *records, says("a3", call(2)))
    found = messages(log)
    assert {message.text for message in found if message.sidechain} == {f"Report {number}." for number in range(100)}
    assert [len(message.tool_calls) for message in found if not message.sidechain] == [2]


# The session


def test_a_session_is_named_by_its_file_and_knows_its_facts(log: Path, tmp_path: Path) -> None:
    project = tmp_path / "app"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    write(
        log,
        user("u1", "go", cwd=str(project / "src"), version="2.1.9"),
        says("a1", text("Yes."), cwd="/elsewhere", version="2.1.10", gitBranch="fix"),
    )
    session, _ = read(log)[-1]
    assert (session.agent, session.native_id, session.source) == ("claude-code", OWN, str(log))
    assert (session.project, session.branch, session.version) == (str(project), "fix", "2.1.10")
    dated = write_to(log.with_name(f"2026-01-13-{OWN}.jsonl"), user("u1", "go"))
    assert read(dated)[0][0].native_id == OWN
    plain = write_to(log.with_name("notes.jsonl"), user("u1", "go", sessionId=OLD))
    assert read(plain)[0][0].native_id == OLD


def write_to(path: Path, *records: Record) -> Path:
    write(path, *records)
    return path


def titles(path: Path) -> list[str]:
    return [session.title for session, _ in read(path) if session.title]


def test_titles_are_those_of_this_conversation(log: Path) -> None:
    other = {"type": "summary", "summary": "Somebody else's", "leafUuid": "zzzzzzzz-1"}
    own = {"type": "summary", "summary": "Mending the fence", "leafUuid": "cccccccc-1"}
    foreign = {"type": "ai-title", "aiTitle": "Not mine", "sessionId": OLD}
    write(log, other, user("cccccccc-1", "go"), other, own, foreign)
    assert titles(log) == ["Mending the fence"]
    write(log, user("u1", "go"), {"type": "ai-title", "aiTitle": "Fence", "sessionId": OWN})
    assert titles(log) == ["Fence"]


def test_a_title_that_a_person_gave_is_not_overwritten(log: Path) -> None:
    write(
        log,
        user("u1", "go"),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": OWN},
        {"type": "ai-title", "aiTitle": "A guess", "sessionId": OWN},
        {"type": "custom-title", "customTitle": "Mine again", "sessionId": OWN},
    )
    assert titles(log) == ["Mine", "Mine again"]


def test_lines_that_name_another_session_have_it_as_their_origin(log: Path) -> None:
    write(
        log,
        user("o1", "from before", sessionId=OLD),
        says("o2", text("Yes."), sessionId=OLD),
        user("u1", "and now"),
    )
    assert [(message.native_id, message.origin) for message in messages(log)] == [("o1", OLD), ("o2", OLD), ("u1", "")]
    assert {session.native_id for session, _ in read(log)} == {OWN}
    assert parents(log) == {(None, None)}


def parents(path: Path) -> set[tuple[str | None, str | None]]:
    return {(session.parent_id, session.parent_kind) for session, _ in read(path)}


def test_a_branch_has_the_identity_of_what_it_copies(log: Path) -> None:
    def fork(uuid: str) -> Record:
        return {"forkedFrom": {"sessionId": OLD, "messageUuid": uuid}}

    write(
        log,
        user("new1", "from before", **fork("o1")),
        says("new2", call(1), **fork("o2")),
        says("new3", call(2), **fork("o3")),
        user("new4", [result(1), result(2)], **fork("o4")),
        user("u1", "and now"),
    )
    found = [(message.native_id, message.origin) for message in messages(log)]
    assert found == [("o1", OLD), ("o2", OLD), ("o4", OLD), ("u1", "")]
    assert parents(log) == {(session_id("claude-code", OLD), "branch")}


@pytest.mark.parametrize("opening", ["queue-operation", "file-history-snapshot"])
def test_a_fork_that_does_not_say_so_is_known_by_its_age(log: Path, opening: str) -> None:
    def opened(second: float) -> Record:
        if opening == "queue-operation":
            return {"type": opening, "operation": "enqueue", "timestamp": at(second), "sessionId": OWN}
        return {"type": opening, "messageId": "x", "snapshot": {"timestamp": at(second)}}

    history = [user("o1", "go", 10), says("o2", text("Yes."), second=20)]
    first = [{**record, "sessionId": OLD} for record in history]
    write(log.with_name(f"{OLD}.jsonl"), opened(9.9), *first)
    write(log.with_name("cccccccc-0000-4000-8000-00000000000c.jsonl"), opened(500), *history, user("c1", "aside", 600))
    title = {"type": "custom-title", "customTitle": "Aside", "sessionId": OWN}
    write(log, opened(999), *history, user("u1", "and now", 1000), title)
    assert parents(log) == {(session_id("claude-code", OLD), "branch")}
    assert parents(log.with_name(f"{OLD}.jsonl")) == {(None, None)}
    assert [(message.native_id, message.origin) for message in messages(log)] == [("o1", OLD), ("o2", OLD), ("u1", "")]
    assert {message.origin for message in messages(log.with_name(f"{OLD}.jsonl"))} == {""}
    log.with_name(f"{OLD}.jsonl").unlink()
    log.with_name("cccccccc-0000-4000-8000-00000000000c.jsonl").unlink()
    assert {message.origin for message in messages(log)} == {""}


def test_logs_are_found_below_the_folder_of_projects(tmp_path: Path) -> None:
    (root,) = READER.roots({}, tmp_path)
    assert root == tmp_path / ".claude" / "projects"
    assert READER.roots({"CLAUDE_CONFIG_DIR": "/elsewhere"}, tmp_path) == [Path("/elsewhere/projects")]
    own, agent = root / "-app" / f"{OWN}.jsonl", root / "-app" / OWN / "subagents" / "agent-a7.jsonl"
    write(own, user("u1", "go"))
    write(agent, *beside())
    (agent.parent / "agent-a7.meta.json").write_text("{}")
    assert sorted(READER.find(root)) == sorted([own, agent])
    assert list(READER.find(own)) == [own]


OPENINGS = [
    [user("u1", "go")],
    [{"type": "mode", "mode": "normal", "sessionId": OWN}, {"type": "queue-operation", "sessionId": OWN}],
    [{"type": "permission-mode", "sessionId": OWN}, {"type": "file-history-snapshot", "messageId": "u1"}],
    [{"type": "summary", "summary": "x", "leafUuid": "u9"}],
    [user("u1", "long " * 20_000)],
    [dict(sorted(user("u1", "long " * 20_000).items(), key=lambda item: item[0] == "message"))],
]


def test_its_logs_are_recognised_by_how_they_begin(log: Path, subtests: pytest.Subtests) -> None:
    for opening in OPENINGS:
        with subtests.test(opening=opening):
            assert READER.claims(log, write(log, *opening)[:65536])


def test_lines_that_quote_its_lines_are_not_its_own(log: Path, subtests: pytest.Subtests) -> None:
    for opening in OPENINGS[:-2]:
        with subtests.test(opening=opening):
            assert not READER.claims(
                log, write(log, *({"role": "user", "content": "x", "raw": each} for each in opening))
            )


def qwen(kind: str, uuid: str, **fields: Any) -> Record:
    common = {"uuid": uuid, "parentUuid": None, "sessionId": OLD, "timestamp": at(1), "type": kind}
    return {**common, "cwd": "/nowhere/app", "version": "0.24.4", "gitBranch": "main", **fields}


def qwen_log(prompt: str = "go") -> list[Record]:
    asked = {"role": "user", "parts": [{"text": prompt}]}
    listed = {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "list_directory", "args": {}}}]}
    answered = {"functionResponse": {"id": "c1", "name": "list_directory", "response": {"output": "a.txt"}}}
    return [
        qwen("user", "q1", provenance="real_user", message=asked),
        qwen("assistant", "q2", model="qwen3-coder-plus", message=listed, usageMetadata={"totalTokenCount": 9}),
        qwen("tool_result", "q3", message={"role": "user", "parts": [answered]}),
        qwen("system", "q4", subtype="ui_telemetry", systemPayload={"duration_ms": 3, "status": "success"}),
    ]


def test_the_logs_of_qwen_code_are_not_its_own(log: Path, subtests: pytest.Subtests) -> None:
    for prompt, first in product(["go", "long " * 20_000, '"isSidechain":false'], range(4)):
        with subtests.test(prompt=prompt, first=first):
            data = write(log, *qwen_log(prompt)[first:])
            assert not READER.claims(log, data[:65536])
            assert messages(log) == []


# Left and taken up again anywhere

SMALL = [
    {"type": "queue-operation", "operation": "enqueue", "timestamp": at(0), "sessionId": OWN},
    user("u1", "go é", 1),
    says("a1", {"type": "thinking", "thinking": "Hm."}, second=2),
    says("a2", call(1), second=3),
    user("u2", [result(1, "Exit code 2\nno", is_error=True)], 4),
    says("a3", call(2), second=5),
    *wrapped(beside()[:4]),
    user("x1", "look left", isSidechain=True, parentUuid=None),
    user("y1", "look right", isSidechain=True, parentUuid=None),
    says("x2", text("Left."), id="msg_x", isSidechain=True, parentUuid="x1"),
    json.dumps(user("u3", [result(2), text("and this"), text("<system-reminder>hm</system-reminder>")], 6))
    + json.dumps(says("a4", text("Good."), second=7)),
    says("y2", text("Right."), id="msg_y", isSidechain=True, parentUuid="y1"),
    user("x3", "more", isSidechain=True, parentUuid="x2"),
    line("attachment", "q1", 8, attachment={"type": "queued_command", "prompt": "the docs too"}),
    says("a5", text("One"), id="msg_9", second=9, requestId=None),
    says("a6", call(3), id="msg_9", second=9, requestId=None),
    "{broken",
    user("u4", [result(3)], 10),
    says("a7", text("Two"), id="msg_9", second=11, requestId=None),
    {"type": "custom-title", "customTitle": "Small", "sessionId": OWN},
]


def bare(record: Record | str) -> bytes:
    """A record without the fields that only make a line longer."""
    if isinstance(record, str):
        return record.encode() + b"\n"
    kept = {key: value for key, value in record.items() if value and key not in ("cwd", "version", "gitBranch")}
    if message := kept.get("message"):
        kept["message"] = {key: value for key, value in message.items() if key in ("id", "content")}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_a_log_cut_at_any_byte_reads_as_if_at_once(log: Path, step: int) -> None:
    data = write(log, *map(bare, SMALL))
    whole = latest(read(log))
    assert len(whole) == 19
    growing = log.parent / "growing" / log.name
    write(growing)
    for cut in cuts(data, step):
        growing.write_bytes(data[:cut])
        reading = Reading(growing)
        pairs = read(growing, reading) + read(log, continued(log, reading))
        assert latest(pairs) == whole, cut


def test_a_reading_given_up_after_any_pair_loses_nothing(log: Path) -> None:
    write(log, *SMALL)
    whole = read(log)
    for stop in range(len(whole)):
        reading = Reading(log)
        stream = READER.read(log, reading)
        pairs = list(islice(stream, stop + 1))
        left = continued(log, reading)
        stream.close()
        assert latest(pairs + read(log, left)) == latest(whole), stop


def test_a_log_that_another_version_left_is_read_from_its_start(log: Path) -> None:
    data = write(log, *SMALL)
    reading = Reading(log, offset=len(data), line=len(SMALL), state={"open": {OWN: {"told": "maybe"}}, "session": OLD})
    assert latest(read(log, reading)) == latest(read(log))
    assert reading.offset == len(data)


# The real ones


@pytest.fixture
def real(corpus: Path) -> list[Path]:
    return sorted((corpus / "sessions" / "claude_code").rglob("*.jsonl"))


def records(path: Path) -> Iterable[Record]:
    """The objects of a log, told by nothing but the standard library."""
    scan = json.JSONDecoder().raw_decode
    for words in path.read_text().split("\n"):
        place = 0
        while words[place:].strip():
            record, place = scan(words, place)
            yield record


def expected_outcome(block: Record) -> str:
    content = block.get("content")
    said = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or [])
    if block.get("is_error"):
        refused = ("The user doesn't want to", "[Request interrupted by user", "Permission to use", "Permission for ")
        return "rejected" if said.startswith(refused) else "error"
    return "error" if said.startswith("<tool_use_error>") else "ok"


@pytest.mark.corpus
def test_the_totals_of_the_real_logs(real: list[Path]) -> None:
    answers, lines, expected, found = 0, 0, Counter(), Counter()
    for path in real:
        api = set()
        for record in records(path):
            if record["type"] == "assistant" and record["message"]["model"] != "<synthetic>":
                api.add(record["message"]["id"])
            elif record["type"] == "user" and isinstance(record["message"]["content"], list):
                blocks = [block for block in record["message"]["content"] if block["type"] == "tool_result"]
                expected.update(expected_outcome(block) for block in blocks)
                lines += bool(blocks)
        answers += len(api)
        main = [message for message in messages(path) if not message.sidechain]
        found.update(message.role for message in main)
        found.update(one.outcome for message in main for one in message.tool_results)
    assert (len(real), answers, lines) == (183, 5_922, 6_451)
    assert (found["assistant"], found["tool"]) == (answers, lines)
    assert {name: found[name] for name in ("ok", "error", "rejected")} == expected


@pytest.mark.corpus
def test_every_real_line_can_be_read(real: list[Path]) -> None:
    for path in real:
        reading = Reading(path)
        assert READER.claims(path, path.read_bytes()[:65536]), path
        assert read(path, reading)
        assert (reading.malformed, reading.offset) == (0, path.stat().st_size), path


@pytest.mark.corpus
def test_real_logs_cut_at_twenty_places_read_as_if_at_once(real: list[Path], tmp_path: Path) -> None:
    random = Random(7)
    for path in random.sample(real, 40):
        data = path.read_bytes()
        grown = tmp_path / path.name
        grown.write_bytes(b"")
        reading, pairs = Reading(grown), []
        for cut in [*sorted(random.randrange(len(data)) for _ in range(20)), len(data)]:
            grown.write_bytes(data[:cut])
            pairs += read(grown, reading)
            reading = continued(grown, reading)
        grown.write_bytes(data)
        assert latest(pairs) == latest(read(grown)), path


@pytest.mark.corpus
def test_real_logs_given_up_at_twenty_places_lose_nothing(real: list[Path]) -> None:
    random = Random(8)
    for path in random.sample(real, 40):
        reading, pairs = Reading(path), []
        for steps in [random.randrange(1, 60) for _ in range(20)]:
            stream = READER.read(path, reading)
            pairs += islice(stream, steps)
            reading = continued(path, reading)
            stream.close()
        pairs += read(path, reading)
        assert latest(pairs) == latest(read(path)), path
