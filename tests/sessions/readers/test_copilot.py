"""Copilot CLI's event logs: hand-written ones, and the real ones where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.readers.logs import continued, cuts, imported, latest, write
from warmstart.errors import LogError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.copilot import CopilotReader
from warmstart.sessions.values import Message, Session, ToolResult, session_id, steps

OWN = "11111111-2222-4333-8444-555555555555"
HELPER = "99999999-2222-4333-8444-555555555555"
CORPUS = Path(__file__).parents[4] / "shared" / "data" / "sessions" / "copilot_cli"

Event = dict[str, Any]


def event(kind: str, number: int, agent: str = "", **data: object) -> Event:
    made = {"type": kind, "data": data, "id": f"event-{number}", "timestamp": f"2026-07-01T10:00:{number:02d}.000Z"}
    return {**made, "parentId": None, **({"agentId": agent} if agent else {})}


def requested(call: str, name: str = "bash") -> Event:
    return {"toolCallId": call, "name": name, "arguments": {"command": "ls é"}, "type": "function"}


CONTEXT = {"cwd": "/nowhere/app/sub", "gitRoot": "/nowhere/app", "branch": "main"}
WHOLE = [
    event(
        "session.start", 0, sessionId=OWN, copilotVersion="1.0.64", startTime="2026-07-01T09:59:59Z", context=CONTEXT
    ),
    event("session.model_change", 1, newModel="claude-sonnet-4.6"),
    event("hook.start", 2, hookType="userPromptSubmitted", input={"prompt": "hello"}),
    event("user.message", 3, content="hello", transformedContent="<current_datetime/>hello"),
    event("system.message", 4, role="system", content="You are a terminal assistant"),
    event("session.usage_record", 5, usage={"apiCallId": "a1", "inputTokens": 90, "cacheReadTokens": 30, "cost": 1}),
    event(
        "assistant.message",
        6,
        content="Looking.",
        reasoningText="I should look",
        model="claude-sonnet-4.6",
        outputTokens=12,
        apiCallId="a1",
        toolRequests=[requested("t1"), requested("t2"), requested("t3", "task")],
    ),
    event("tool.execution_start", 7, toolCallId="t1", toolName="bash"),
    event("permission.completed", 7, toolCallId="t2", result={"kind": "denied-interactively-by-user"}),
    event(
        "tool.execution_complete", 8, toolCallId="t1", success=True, result={"content": "x\n<exited with exit code 1>"}
    ),
    event("tool.execution_complete", 9, toolCallId="t2", success=False, error={"message": "no", "code": "denied"}),
    event("subagent.started", 10, HELPER, toolCallId="t3", agentName="explore"),
    event("user.message", 11, HELPER, content="look around", source=f"agent-{OWN}"),
    event("session.model_change", 12, HELPER, newModel="small"),
    event("assistant.message", 13, HELPER, content="", model="small", toolRequests=[requested("s1", "view")]),
    event("tool.execution_complete", 14, HELPER, toolCallId="s1", success=True, result={"content": "seen"}),
    event("assistant.message", 15, HELPER, content="Found it.", model="small", parentToolCallId="t3"),
    event("tool.execution_complete", 16, toolCallId="t3", success=True, result={"content": "Found it."}),
    event("system.notification", 17, content="<system_notification>done</system_notification>"),
    event("session.compaction_complete", 18, success=True, summaryContent="So far so good"),
    event("session.compaction_complete", 19, success=False, error="no"),
    event("assistant.message", 20, content="Done.", outputTokens=3),
    event("session.resume", 21, resumeTime="2026-07-02T10:00:00Z", context={"cwd": "/nowhere/app", "branch": "next"}),
    event("user.message", 22, content="again"),
    event("abort", 23, reason="user_initiated"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "session-state" / OWN / "events.jsonl"
    path.parent.mkdir(parents=True)
    return path


def read(path: Path, reading: Reading | None = None) -> list[tuple[Session, Message | None]]:
    return list(CopilotReader().read(path, reading or Reading(path)))


def messages(path: Path) -> list[Message]:
    return [message for _, message in read(path) if message]


def test_a_reply_carries_its_reasoning_calls_and_cost(log: Path) -> None:
    write(log, WHOLE)
    reply = next(message for message in messages(log) if message.role == "assistant")
    assert (reply.native_id, reply.text, reply.reasoning) == ("event-6", "Looking.", "I should look")
    assert [call.id for call in reply.tool_calls] == ["t1", "t2", "t3"]
    assert (reply.tool_calls[0].name, reply.tool_calls[0].arguments) == ("bash", '{"command":"ls é"}')
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (60, 30, 12)


def test_a_usage_record_of_another_call_is_not_used(log: Path) -> None:
    cost = event("session.usage_record", 1, usage={"apiCallId": "a1", "inputTokens": 90})
    write(log, [cost, event("assistant.message", 2, content="x", apiCallId="a2", outputTokens=5)])
    usage = messages(log)[0].usage
    assert usage is not None
    assert (usage.input, usage.output) == (0, 5)


def test_the_session_is_known_from_its_start_and_follows_a_resume(log: Path) -> None:
    write(log, WHOLE)
    pairs = read(log)
    first, last = pairs[0][0], pairs[-1][0]
    assert (first.native_id, first.project, first.branch) == (OWN, "/nowhere/app", "main")
    assert (first.model, first.version, first.source) == ("claude-sonnet-4.6", "1.0.64", str(log))
    assert first.started_at is not None
    assert first.started_at.isoformat() == "2026-07-01T09:59:59+00:00"
    assert (last.native_id, last.branch, last.started_at) == (OWN, "next", first.started_at)


def test_outcomes_follow_flags_exit_codes_and_permissions(log: Path) -> None:
    write(log, WHOLE)
    outcomes = {step.call.id: step.outcome for step in steps(messages(log))}
    assert outcomes == {"t1": "error", "t2": "rejected", "t3": "ok", "s1": "ok"}


RESULTS = [
    ({"success": True, "result": {"content": "a\n<shellId: 50 completed with exit code 1>"}}, "error", 1),
    (
        {"success": True, "result": {"content": "a\n<shellId: 50 completed with exit code 0>\n<sandbox is on>"}},
        "ok",
        0,
    ),
    ({"success": True, "result": {"content": "cut"}, "shellExecution": {"exitCode": 3}}, "error", 3),
    ({"success": True, "result": {"content": "<exited with exit code 1>\nand more"}}, "ok", None),
    ({"success": False, "error": {"message": "Path does not exist", "code": "failure"}}, "error", None),
    ({"success": False, "error": {"message": "no", "code": "denied"}}, "rejected", None),
    ({"success": False, "error": "plain"}, "error", None),
    ({"success": False, "error": {"message": "no result was recorded", "code": "interrupted"}}, "unknown", None),
    ({}, "unknown", None),
]


def result_of(log: Path, **data: object) -> ToolResult:
    write(log, [event("tool.execution_complete", 1, **data)])
    return messages(log)[0].tool_results[0]


def test_a_result_shows_its_outcome(log: Path, subtests: pytest.Subtests) -> None:
    for data, outcome, code in RESULTS:
        with subtests.test(data=data, outcome=outcome):
            result = result_of(log, **data)
            assert (result.outcome, result.exit_code) == (outcome, code)


def test_a_sub_agent_is_a_child_session(log: Path) -> None:
    write(log, WHOLE)
    child = [(session, message) for session, message in read(log) if session.native_id != OWN]
    assert {session.native_id for session, _ in child} == {f"{OWN}/{HELPER}"}
    assert {(session.parent_id, session.parent_kind) for session, _ in child} == {
        (session_id("copilot-cli", OWN), "subagent")
    }
    assert [message.role for _, message in child if message] == ["user", "assistant", "tool", "assistant"]
    assert all(message.sidechain == (session.native_id != OWN) for session, message in read(log) if message)
    assert {session.model for session, message in child if message and message.role == "assistant"} == {"small"}
    assert read(log)[-1][0].model == "claude-sonnet-4.6"


def test_the_prompt_of_a_sub_agent_is_its_title(log: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for source in [f"agent-{OWN}", "system", "", None]:
        with subtests.test(source=source):
            more = {} if source is None else {"source": source}
            write(
                log,
                [
                    WHOLE[0],
                    event("user.message", 1, content="the person's words"),
                    event("user.message", 2, HELPER, content="how to read tides", source="skill-tides"),
                    event("user.message", 3, HELPER, content="look around", **more),
                    event("user.message", 4, HELPER, content="how to read maps", source="skill-maps"),
                    event("user.message", 5, HELPER, content="a notice", source="system"),
                    event("user.message", 6, content="look there", parentToolCallId="t7", source=f"agent-{OWN}"),
                ],
            )
            injected = [message.text for message in messages(log) if message.injected]
            assert injected == ["how to read tides", "how to read maps", "a notice"]
            with imported(tmp_path / "store.db", log) as store:
                assert {row.session.title for row in store.list()} == {
                    "the person's words",
                    "look around",
                    "look there",
                }


def test_a_call_takes_from_its_start_to_its_end(log: Path) -> None:
    write(
        log,
        [
            WHOLE[0],
            event("assistant.message", 1, content="", toolRequests=[requested("t1"), requested("t2")]),
            event("tool.execution_start", 3, toolCallId="t1"),
            event("tool.execution_start", 4, toolCallId="t2"),
            event("tool.execution_complete", 6, toolCallId="t2", success=True, result={"content": "b"}),
            event("tool.execution_complete", 9, toolCallId="t1", success=True, result={"content": "a"}),
            event("tool.execution_complete", 9, toolCallId="t3", success=True, result={"content": "unknown start"}),
        ],
    )
    results = [result for message in messages(log) for result in message.tool_results]
    assert [(result.call_id, result.duration) for result in results] == [("t2", 2.0), ("t1", 6.0), ("t3", None)]


HOOK_HEADERS = [
    'Tool "bash" succeeded. Additional guidance from postToolUse hooks:\n',
    "Tool succeeded. Additional guidance from postToolUse hooks:\n",
    'Tool "bash" failed. Additional guidance from postToolUseFailure hooks:\n',
    "Additional guidance from postToolUse hooks: ",
]


def test_what_hooks_add_to_a_result_is_left_out(log: Path, subtests: pytest.Subtests) -> None:
    for header in HOOK_HEADERS:
        with subtests.test(header=header):
            shell = "no\n<shellId: 0 completed with exit code 3>"
            result = result_of(log, success=True, result={"content": f"{shell}\n\n{header}recalled\n\nwords"})
            assert (result.text, result.outcome, result.exit_code) == (shell, "error", 3)
            failed = result_of(log, success=False, error={"message": f"no match\n{header}recalled"})
            assert (failed.text, failed.outcome) == ("no match", "error")
            quoted = "it says: 'Additional guidance from postToolUse hooks:'\n<exited with exit code 0>"
            assert result_of(log, success=True, result={"content": quoted}).text == quoted


def test_older_logs_identify_a_subagent_by_the_call_that_started_it(log: Path) -> None:
    write(log, [WHOLE[0], event("assistant.message", 1, content="inner", parentToolCallId="t9")])
    assert read(log)[0][0].native_id == f"{OWN}/t9"


def test_machine_text_and_summaries_are_marked(log: Path) -> None:
    write(log, WHOLE)
    marked = {message.native_id: (message.injected, message.compaction_summary) for message in messages(log)}
    assert marked["event-3"] == (False, False)
    assert marked["event-11"] == (False, False)
    assert marked["event-17"] == (True, False)
    assert marked["event-18"] == (False, True)
    assert "event-19" not in marked


def test_a_session_without_a_start_is_named_by_its_place(log: Path, tmp_path: Path) -> None:
    write(log, [event("user.message", 1, content="x")])
    assert read(log)[0][0].native_id == OWN
    single = tmp_path / f"{HELPER}.jsonl"
    write(single, [event("user.message", 1, content="x")])
    assert read(single)[0][0].native_id == HELPER


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_reading_on_after_a_cut_at_any_byte_gives_the_same_messages(log: Path, step: int) -> None:
    data = write(log, WHOLE)
    expected = latest(read(log))
    for cut in cuts(data, step):
        log.write_bytes(data[:cut])
        reading = Reading(log)
        pairs = read(log, reading)
        assert reading.malformed == 0
        log.write_bytes(data)
        assert latest(pairs + read(log, continued(log, reading))) == expected


def test_reading_on_after_a_crash_at_any_message_loses_none(log: Path) -> None:
    write(log, WHOLE)
    expected = latest(read(log))
    for stop in range(1, len(expected) + 1):
        reading = Reading(log)
        source = CopilotReader().read(log, reading)
        pairs = [next(source) for _ in range(stop)]
        assert latest(pairs + read(log, continued(log, reading))) == expected


def test_a_log_is_read_to_its_end(log: Path) -> None:
    data = write(log, WHOLE)
    reading = Reading(log)
    read(log, reading)
    assert (reading.offset, reading.line) == (len(data), len(WHOLE))
    assert read(log, continued(log, reading)) == []


def test_unknown_events_are_skipped_and_broken_ones_reported(log: Path) -> None:
    write(
        log, [event("novelty", 1), {**event("user.message", 2), "data": [1]}, event("user.message", 3, content="here")]
    )
    log.write_bytes(log.read_bytes() + b"not json\n[1]\n\xff\n")
    reading = Reading(log)
    assert [message.text for _, message in read(log, reading) if message] == ["here"]
    assert (reading.skipped["novelty"], reading.malformed) == (1, 4)


def test_a_missing_file_is_a_log_error(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        read(tmp_path / "gone.jsonl")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["denied", OWN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 12), VALUES), max_size=12))
def test_fields_of_any_type_never_break_the_reader(tmp_path: Path, changes: list[tuple[int, int, Any]]) -> None:
    events = json.loads(json.dumps(WHOLE))
    for place, field, value in changes:
        data = events[place]["data"]
        if field > 9 or not isinstance(data, dict) or not data:
            events[place] = {**events[place], ("data", "id", "agentId")[field % 3]: value}
        else:
            data[sorted(data)[field % len(data)]] = value
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    messages(path)


@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_never_break_the_reader(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "damaged.jsonl"
    data = bytearray(write(path, random.sample(WHOLE, len(WHOLE))))
    for _ in range(random.randint(1, 30)):
        data[random.randrange(len(data))] = random.randrange(256)
    data += b'{"type": "user.message", "data": ' + b"[" * 9000 + b"\n"
    path.write_bytes(bytes(data))
    messages(path)


def test_roots_follow_copilot_home(tmp_path: Path) -> None:
    assert CopilotReader().roots({}, tmp_path) == [tmp_path / ".copilot/session-state"]
    assert CopilotReader().roots({"COPILOT_HOME": "/x"}, tmp_path) == [Path("/x/session-state")]


def test_logs_are_found_by_name(log: Path, tmp_path: Path) -> None:
    single = tmp_path / f"{HELPER}.jsonl"
    for path in (log, single, tmp_path / "notes.jsonl", log.parent / "workspace.yaml"):
        path.touch()
    assert set(CopilotReader().find(tmp_path)) == {log, single}
    assert list(CopilotReader().find(log)) == [log]
    assert list(CopilotReader().find(tmp_path / "gone")) == []


def test_only_its_own_logs_are_claimed(log: Path) -> None:
    claims = CopilotReader().claims
    assert claims(log, write(log, WHOLE))
    assert claims(log, json.dumps(WHOLE[0], sort_keys=True).encode())
    start = event("session.start", 1, sessionId=OWN, copilotVersion="1", context={"long": "x" * 70_000})
    assert claims(log, json.dumps(start).encode()[:65_536])
    assert not claims(log, b'{"type":"session.created","data":{"id":"1"}}\n')  # no event of a chain
    assert not claims(log, b'{"timestamp":"2026","type":"session_meta","payload":{"id":"1"}}\n')
    assert not claims(log, b'{"type":"user","uuid":"1","message":{}}\n')
    assert not claims(log, b'{"type":"session.start"')
    assert not claims(log, b"")


def corpus() -> list[Path]:
    paths = sorted(CORPUS.glob("*/*.jsonl"))
    if not paths:
        pytest.skip("no benchmark data beside the checkout")
    return paths


@pytest.mark.corpus
def test_real_logs_hold_what_plain_counting_finds() -> None:
    roles = {
        "system.message": "system",
        "system.notification": "user",
        "user.message": "user",
        "assistant.message": "assistant",
        "tool.execution_complete": "tool",
    }
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for path in corpus():
        for one in map(json.loads, path.read_text().splitlines()):
            if one["type"] in roles:
                wanted[roles[one["type"]]] += 1
                wanted["calls"] += len(one["data"].get("toolRequests", []))
                wanted["tokens"] += one["data"].get("outputTokens", 0)
        reading = Reading(path)
        pairs = read(path, reading)
        assert (reading.malformed, reading.offset) == (0, path.stat().st_size)
        assert {session.native_id for session, _ in pairs} == {path.stem}
        for _, message in pairs:
            assert message is not None
            found[message.role] += 1
            found["calls"] += len(message.tool_calls)
            found["tokens"] += message.usage.output if message.usage else 0
    assert found == wanted


@pytest.mark.corpus
def test_real_shells_that_exit_with_an_error_fail() -> None:
    outcomes = Counter(step.outcome for path in corpus() for step in steps(messages(path)))
    # One call is flagged; two more succeeded by their flag, but ended with exit codes 1 and 128.
    assert outcomes == {"ok": 65, "error": 3}


@pytest.mark.corpus
def test_real_logs_continue_after_any_cut(tmp_path: Path) -> None:
    random = Random(7)
    for path in corpus():
        data, copy = path.read_bytes(), tmp_path / path.name
        copy.write_bytes(data)
        expected = latest(read(copy))
        for cut in random.sample(range(len(data)), 20):
            copy.write_bytes(data[:cut])
            reading = Reading(copy)
            pairs = read(copy, reading)
            copy.write_bytes(data)
            assert latest(pairs + read(copy, continued(copy, reading))) == expected
