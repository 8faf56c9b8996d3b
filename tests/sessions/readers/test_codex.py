"""Codex rollouts: hand-written logs of each shape that Codex has written, and the real ones where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.readers.logs import continued, cuts, latest, write
from warmstart.errors import LogError, WarmstartError
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.codex import CodexReader, result_of
from warmstart.sessions.readers.registry import judge
from warmstart.sessions.values import Message, Session, session_id, steps

OWN = "01a00000-0000-7000-8000-00000000000b"
PARENT = "019f0000-0000-7000-8000-00000000000a"
CORPUS = Path(__file__).parents[4] / "shared" / "data" / "sessions" / "codex"

Record = dict[str, Any]


def line(kind: str, payload: object, second: int = 0) -> Record:
    return {"timestamp": f"2026-07-01T10:00:{second:02d}.000Z", "type": kind, "payload": payload}


def item(second: int = 0, **payload: object) -> Record:
    return line("response_item", payload, second)


def text(role: str, content: str, second: int = 0, **more: object) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(second, type="message", role=role, content=[{"type": kind, "text": content}], **more)


def call(number: int, second: int = 0) -> Record:
    given = {"name": "exec_command", "arguments": '{"cmd": "ls"}', "call_id": f"call_{number}"}
    return item(second, type="function_call", **given)


def output(number: int, content: object, second: int = 0) -> Record:
    return item(second, type="function_call_output", call_id=f"call_{number}", output=content)


def tokens(total: int, second: int = 0, **last: int) -> Record:
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last}
    return line("event_msg", {"type": "token_count", "info": info}, second)


def meta(native_id: str = OWN, **more: object) -> Record:
    facts = {"id": native_id, "timestamp": "2026-07-01T09:59:59Z", "cwd": "/nowhere/app", "cli_version": "0.142.4"}
    return line("session_meta", {**facts, "git": {"branch": "main"}, **more})


WHOLE = [
    meta(),
    line("event_msg", {"type": "task_started", "turn_id": "01a00000-1000-7000-8000-000000000001"}, 1),
    text("developer", "<permissions instructions> ask first", 2),
    text("user", "# AGENTS.md instructions for /nowhere/app", 3),
    line(
        "turn_context", {"turn_id": "01a00000-1000-7000-8000-000000000001", "model": "gpt-5.5", "cwd": "/nowhere/app"}
    ),
    text("user", "fix the bug é", 5),
    line("event_msg", {"type": "user_message", "message": "fix the bug é"}, 5),
    item(6, type="reasoning", summary=[{"type": "summary_text", "text": "**Plan**"}], encrypted_content="gAAA"),
    line("event_msg", {"type": "agent_message", "message": "Looking."}, 7),
    text("assistant", "Looking.", 7),
    call(1, 8),
    call(2, 8),
    text("developer", "a hook's context", 8),
    output(1, "Chunk ID: ab12cd\nWall time: 1.5000 seconds\nProcess exited with code 2\nOutput:\nno\n", 9),
    output(2, "Chunk ID: ab12ce\nWall time: 0.1000 seconds\nProcess exited with code 0\nOutput:\nyes\n", 9),
    tokens(120, 10, input_tokens=100, cached_input_tokens=40, output_tokens=20, reasoning_output_tokens=5),
    call(3, 11),
    output(3, "Chunk ID: ab12cf\nWall time: 9.0 seconds\nProcess running with session ID 7\nOutput:\n", 12),
    text("assistant", "Done.", 13),
    tokens(300, 14, input_tokens=150, output_tokens=30),
    line("event_msg", {"type": "task_complete", "last_agent_message": "Done."}, 15),
    line("compacted", {"message": "What happened so far", "replacement_history": [{"type": "message"}]}, 16),
    line("world_state", {"full": True, "state": {}}, 17),
]


def completed(number: int, second: int = 0, kind: str = "CommandExecution", **more: object) -> Record:
    done = {"type": kind, "id": f"call_{number}", "duration": {"secs": 2, "nanos": 500_000_000}, **more}
    return line("event_msg", {"type": "item_completed", "turn_id": "t", "item": done}, second)


def mcp_end(number: int, result: object, second: int = 0) -> Record:
    more = {"invocation": {"server": "wiki", "tool": "ask"}, "duration": {"secs": 1, "nanos": 250_000_000}}
    return line(
        "event_msg", {"type": "mcp_tool_call_end", "call_id": f"call_{number}", "result": result, **more}, second
    )


SUMMARY = "<summary>The pump is fixed; the valve is next.</summary>"
# The ends of calls before and behind their outputs, and a compaction, each with counts in between.
ENDED = [
    meta(),
    line("event_msg", {"type": "task_started", "turn_id": "01a00000-1000-7000-8000-000000000001"}, 1),
    text("user", "fix the pump", 2),
    call(1, 3),
    call(2, 3),
    mcp_end(1, {"Ok": {"content": [], "isError": True}}, 4),
    output(1, "Wall time: 9.0 seconds\nOutput:\nno such page", 5),
    output(2, "Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n", 5),
    completed(2, 6, exit_code=4, status="failed"),
    tokens(120, 7, input_tokens=100, output_tokens=20),
    call(3, 8),
    line("token_usage_record", {"usage": {"input_tokens": 9, "output_tokens": 3}}, 9),
    completed(3, 10, exit_code=0, status="completed"),
    output(3, "fine", 11),
    text("assistant", SUMMARY, 12),
    tokens(300, 13, input_tokens=150, output_tokens=30),
    line("compacted", {"message": f"Another language model started to solve this problem:\n{SUMMARY}"}, 14),
    text("assistant", "Now the valve.", 15),
    tokens(400, 16, input_tokens=60, output_tokens=40),
    line("event_msg", {"type": "task_complete"}, 17),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / f"rollout-2026-07-01T10-00-00-{OWN}.jsonl"


def read(path: Path, reading: Reading | None = None) -> list[tuple[Session, Message | None]]:
    return list(CodexReader().read(path, reading or Reading(path)))


def messages(path: Path) -> list[Message]:
    return [message for _, message in read(path) if message]


def test_a_response_is_one_message_with_its_calls_and_cost(log: Path) -> None:
    write(log, WHOLE)
    first = next(message for message in messages(log) if message.role == "assistant")
    assert (first.text, first.reasoning, first.model) == ("Looking.", "**Plan**", "gpt-5.5")
    assert [made.id for made in first.tool_calls] == ["call_1", "call_2"]
    assert first.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.usage.output, first.usage.reasoning) == (60, 40, 20, 5)


def test_messages_come_in_order_and_events_are_not_counted_twice(log: Path) -> None:
    write(log, WHOLE)
    roles = [message.role for message in messages(log)]
    assert " ".join(roles) == "system user user assistant system tool tool assistant tool assistant user"
    assert sum("fix the bug" in message.text for message in messages(log)) == 1
    assert sum(message.text == "Looking." for message in messages(log)) == 1


def test_the_session_is_known_from_meta_and_turn_context(log: Path) -> None:
    write(log, WHOLE)
    session = read(log)[-1][0]
    assert (session.native_id, session.project, session.branch) == (OWN, "/nowhere/app", "main")
    assert (session.model, session.version, session.source, session.title) == ("gpt-5.5", "0.142.4", str(log), "")
    assert session.started_at is not None
    assert session.started_at.isoformat() == "2026-07-01T09:59:59+00:00"


def test_outcomes_and_durations_are_read_from_outputs(log: Path) -> None:
    write(log, WHOLE)
    made = {step.call.id: step for step in steps(messages(log))}
    assert {call: step.outcome for call, step in made.items()} == {"call_1": "error", "call_2": "ok", "call_3": "ok"}
    assert made["call_1"].result is not None
    assert (made["call_1"].result.exit_code, made["call_1"].seconds) == (2, 1.5)


def test_injected_text_and_summaries_are_marked(log: Path) -> None:
    both = [{"type": "input_text", "text": "hello"}, {"type": "input_text", "text": "\n<environment_context>x"}]
    write(
        log,
        [
            meta(),
            item(1, type="message", role="user", content=both),
            text("user", '<hook_prompt hook_run_id="1">go on</hook_prompt>', 2),
            text("user", "<skill>\n<name>x</name>", 3),
            text("user", "Another language model started to solve this problem and left this", 4),
            text("user", "an ordinary question about <skill>", 5),
            line("compacted", {"message": "so far"}, 6),
        ],
    )
    found = [(message.injected, message.compaction_summary) for message in messages(log)]
    assert found == [(True, False), (True, False), (True, False), (False, True), (False, False), (False, True)]


def test_a_count_that_repeats_the_last_total_is_of_an_older_response(log: Path) -> None:
    write(log, [meta(), text("assistant", "a"), tokens(10, output_tokens=4), text("assistant", "b", 1), tokens(10)])
    assert [message.usage and message.usage.output for message in messages(log)] == [4, None]


def test_a_usage_record_before_the_outputs_closes_the_response(log: Path) -> None:
    cost = {"input_tokens": 9, "output_tokens": 3}
    write(
        log,
        [meta(), call(1), line("token_usage_record", {"usage": cost}), output(1, "ok"), tokens(12, output_tokens=8)],
    )
    assert [message.role for message in messages(log)] == ["assistant", "tool"]
    usage = messages(log)[0].usage
    assert usage is not None
    assert usage.output == 3


def test_events_show_how_calls_ended(log: Path) -> None:
    write(log, ENDED)
    results = [step.result for step in steps(messages(log)) if step.result]
    assert [(one.outcome, one.exit_code, one.duration, one.flag) for one in results] == [
        ("error", None, 1.25, False),
        ("error", 4, 2.5, False),
        ("ok", 0, 2.5, True),
    ]


ENDS = [
    (mcp_end(1, {"Ok": {"content": [{"type": "text", "text": "x"}], "isError": True}}), "x", "error", None),
    (mcp_end(1, {"Ok": {"content": [], "isError": False}}), "x", "ok", None),
    (mcp_end(1, {"Ok": {"content": []}}), "x", "ok", None),
    (mcp_end(1, {"Ok": {"content": [], "isError": None}}), "Error: no such page", "error", None),
    (mcp_end(1, {"Err": "the server went away"}), "x", "error", None),
    (mcp_end(1, {"Err": "user rejected MCP tool call"}), "x", "rejected", None),
    (completed(1, kind="McpToolCall", status="failed", error={"message": "gone"}), "x", "error", None),
    (
        completed(1, kind="McpToolCall", status="completed", result={"content": [], "isError": True}),
        "x",
        "error",
        None,
    ),
    (completed(1, kind="McpToolCall", status="completed", result={"content": []}), "x", "ok", None),
    (completed(1, exit_code=0, status="completed"), "x", "ok", 0),
    (completed(1, exit_code=7, status="failed"), "x", "error", 7),
    (completed(1, exit_code=-1, status="declined"), "x", "rejected", None),
    (completed(1, kind="FileChange", status="failed"), "x", "error", None),
    (completed(1, kind="DynamicToolCall", status="completed", success=False), "x", "error", None),
    (completed(2, exit_code=7, status="failed"), "x", "ok", None),
    (line("event_msg", {"type": "exec_command_end", "call_id": "call_1", "exit_code": 3}), "x", "error", 3),
    (line("event_msg", {"type": "patch_apply_end", "call_id": "call_1", "success": False}), "x", "error", None),
]


def test_the_end_event_counts_before_and_after_the_output(log: Path, subtests: pytest.Subtests) -> None:
    for behind, counted, (end, said, outcome, code) in product([False, True], [False, True], ENDS):
        with subtests.test(behind=behind, counted=counted):
            cost = [line("token_usage_record", {"usage": {"input_tokens": 9, "output_tokens": 3}})] if counted else []
            last = [output(1, said), end] if behind else [end, output(1, said)]
            write(log, [meta(), call(1), *cost, *last, text("assistant", "Well.", 9)])
            (step,) = steps(messages(log))
            assert step.result is not None
            assert (step.outcome, step.result.exit_code, step.result.text) == (outcome, code, said)
            assert judge("codex", "exec_command", step.result) == outcome


def verdict(output: str) -> tuple[str, int | None, float | None]:
    result = result_of("c", output)
    return result.outcome, result.exit_code, result.duration


def test_a_patch_that_was_sent_to_a_shell_has_two_headers() -> None:
    inner = "Exit code: 1\nWall time: 0.4 seconds\nOutput:\nno such line"
    assert verdict(f"Wall time: 0.0000 seconds\nOutput:\n{inner}") == ("error", 1, 0.4)
    passed = inner.replace("1", "0", 1)
    assert verdict(f"Chunk ID: a\nWall time: 0.0000 seconds\nOutput:\n{passed}") == ("ok", 0, 0.4)
    # What a command prints is not its exit code.
    printed = f"Wall time: 2.0 seconds\nProcess exited with code 0\nOutput:\n{inner}"
    assert verdict(printed) == ("ok", 0, 2.0)


def test_the_summary_of_a_compaction_is_no_answer(log: Path, subtests: pytest.Subtests) -> None:
    for counted, prefix in product(
        range(3), ["", "Another language model started to solve this problem and left this:\n"]
    ):
        with subtests.test(counted=counted, prefix=prefix):
            usage = {"input_tokens": 5, "output_tokens": 4}
            cost = [line("token_usage_record", {"usage": usage}, 3), tokens(9, 3, **usage)][2 - counted :]
            compacted = line("compacted", {"message": prefix + SUMMARY}, 4)
            write(
                log,
                [
                    meta(),
                    text("assistant", "Done.", 1),
                    tokens(4, 1, output_tokens=2),
                    text("assistant", SUMMARY, 2),
                    *cost,
                    compacted,
                ],
            )
            found = [(message.text, message.compaction_summary) for message in messages(log)]
            assert found == [("Done.", False), (SUMMARY, True), (prefix + SUMMARY, True)]
            assert [bool(message.usage) for message in messages(log)] == [True, bool(counted), False]


def test_an_answer_before_a_compaction_is_still_an_answer(log: Path) -> None:
    write(log, [meta(), text("assistant", "Done.", 1), line("compacted", {"message": "All is Done. Go on."}, 2)])
    assert [message.compaction_summary for message in messages(log)] == [False, True]


def test_a_call_after_an_output_starts_a_new_response(log: Path) -> None:
    write(log, [meta(), call(1), output(1, "one"), call(2, 1), output(2, "two", 2)])
    assert [message.role for message in messages(log)] == ["assistant", "tool", "assistant", "tool"]


def test_every_kind_of_call_is_read(log: Path) -> None:
    write(
        log,
        [
            meta(),
            item(type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c1"),
            item(type="local_shell_call", action={"type": "exec", "command": ["ls"]}, call_id="c2", status="completed"),
            item(
                type="web_search_call", action={"type": "search", "query": "x"}, status="completed", id="ws_" + "1" * 40
            ),
            item(type="tool_search_call", arguments={"query": "y"}, call_id="c4", execution="client"),
            item(type="function_call", namespace="mcp__wiki", name="_ask", arguments="{}", call_id="c5"),
            item(type="tool_search_output", call_id="c4", tools=[{"name": "t"}], status="completed"),
            item(
                type="custom_tool_call_output", call_id="c1", output="Exit code: 0\nWall time: 0 seconds\nOutput:\nok"
            ),
        ],
    )
    made = {step.call.name: (step.call.arguments, step.outcome) for step in steps(messages(log))}
    assert made == {
        "apply_patch": ("*** Begin Patch", "ok"),
        "local_shell": ('{"type":"exec","command":["ls"]}', "unknown"),
        "web_search": ('{"type":"search","query":"x"}', "ok"),
        "tool_search": ('{"query":"y"}', "ok"),
        "mcp__wiki__ask": ("{}", "unknown"),
    }


OUTPUTS = [
    ("Plan updated", "ok"),
    ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nerror: only in the text", "ok"),
    ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\n", "error"),
    ("Exit code: 124\nWall time: 10 seconds\nOutput:\ncommand timed out after 10000 milliseconds\n", "error"),
    ("Wall time: 3.1 seconds\naborted by user", "rejected"),
    ("aborted by user after 29.7s", "rejected"),
    ("exec command rejected by user", "rejected"),
    ('exec_command failed for `ls`: CreateProcess { message: "Rejected(\\"rejected by user\\")" }', "rejected"),
    ("Wall time: 0.1 seconds\nOutput:\nuser cancelled MCP tool call", "rejected"),
    ("MCP tool call requires approval, but approval policy is never", "rejected"),
    ("approval policy is Never; reject command — you cannot ask for escalated permissions", "rejected"),
    ("apply_patch verification failed: Failed to find expected lines in a.py", "error"),
    ("unsupported call: nope", "error"),
    ("unsupported custom tool call: apply_patch", "error"),
    ("failed to parse function arguments: key must be a string", "error"),
    ("execution error: Io(NotFound)", "error"),
    ("write_stdin failed: Unknown process id 77", "error"),
    ("Wall time: 0.1 seconds\nOutput:\ntool call error: timed out awaiting tools/call after 60s", "error"),
    ('Wall time: 0.1 seconds\nOutput:\n{"content":[],"isError":true}', "error"),
    ('Wall time: 0.1 seconds\nOutput:\n{"result":"the build failed and this explains why"}', "ok"),
    ('{"content":[{"text":"' + "x" * 3000 + '"}],"isError":true}', "error"),
    ("Wall time: 0.1 seconds\nOutput:\nTwo of the files were not found to differ", "ok"),
    ("Wall time: 0.1 seconds\nOutput:\nError: no such issue", "error"),
    ("`rm -rf x` rejected: blocked by policy", "rejected"),
    ("unable to locate image at `x.png`: No such file or directory", "error"),
]


def test_the_header_of_an_output_shows_the_outcome(subtests: pytest.Subtests) -> None:
    for said, outcome in OUTPUTS:
        with subtests.test(said=said, outcome=outcome):
            assert verdict(said)[0] == outcome


def test_older_outputs_carry_the_exit_code_or_a_flag_in_an_object() -> None:
    wrapped = json.dumps({"output": "boom", "metadata": {"exit_code": 3, "duration_seconds": 0.5}})
    result = result_of("c", wrapped)
    assert (result.outcome, result.text, result.exit_code, result.duration) == ("error", "boom", 3, 0.5)
    flagged = result_of("c", {"content": "no luck", "success": False})
    assert (flagged.outcome, flagged.text, flagged.flag) == ("error", "no luck", False)
    blocks = result_of("c", [{"type": "input_text", "text": "Wall time: 1 seconds\nOutput:"}, {"type": "input_image"}])
    assert (blocks.outcome, blocks.text) == ("ok", "Wall time: 1 seconds\nOutput:\n[image]")


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    assert result_of("c", '{"output": "x\\ud800", "metadata": {"exit_code": 0}}').text == "x?"
    path = tmp_path / "odd-\udcff.jsonl"
    data = write(path, [{**text("user", "x"), "timestamp": None}])
    assert CodexReader().claims(path, data)
    assert read(path)[0][0].native_id == "odd-?"


def test_a_fork_names_its_parent_and_the_origin_of_its_copies(log: Path) -> None:
    write(
        log,
        [
            meta(OWN, forked_from_id=PARENT),
            meta(PARENT),
            line("event_msg", {"type": "task_started", "turn_id": "019f0000-1000-7000-8000-000000000001"}),
            text("user", "asked before the fork", 1),
            line("event_msg", {"type": "task_started", "turn_id": "01a00000-1000-7000-8000-000000000001"}),
            text("user", "asked after the fork", 2),
        ],
    )
    pairs = read(log)
    assert {session.native_id for session, _ in pairs} == {OWN}
    assert {(session.parent_id, session.parent_kind) for session, _ in pairs} == {
        (session_id("codex", PARENT), "branch")
    }
    assert [message.origin for _, message in pairs if message] == [PARENT, ""]


PARENTS = [
    ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}}, PARENT, "subagent"),
    ({"source": {"subagent": "review"}, "session_id": PARENT}, PARENT, "subagent"),
    ({"parent_thread_id": PARENT, "source": "cli"}, PARENT, "subagent"),
    ({"source": "cli", "session_id": OWN}, None, None),
]


def test_a_subagent_names_its_parent(log: Path, subtests: pytest.Subtests) -> None:
    for facts, parent, kind in PARENTS:
        with subtests.test(facts=facts, parent=parent):
            write(log, [meta(**facts), text("user", "x")])
            session, message = read(log)[0]
            assert (session.parent_id, session.parent_kind) == (parent and session_id("codex", parent), kind)
            assert message
            assert message.sidechain == (kind == "subagent")


def test_ids_are_the_log_s_own_if_long_enough_and_otherwise_made_of_time_and_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    long = "msg_" + "0" * 48
    write(first, [text("user", "x", id=long), text("user", "y", id="msg_1"), text("user", "z")])
    write(second, [text("user", "y", 9, id="msg_1"), text("user", "z")])
    ours, theirs = [[message.native_id for message in messages(path)] for path in (first, second)]
    assert ours[0] == long
    assert ours[1] != theirs[0]
    assert ours[2] == theirs[1]


def test_a_session_without_meta_is_named_by_its_file(log: Path, tmp_path: Path) -> None:
    write(log, [text("user", "x")])
    assert read(log)[0][0].native_id == OWN
    other = tmp_path / "notes.jsonl"
    write(other, [text("user", "x")])
    assert read(other)[0][0].native_id == "notes"


BARE = [{"id": OWN, "timestamp": "2025-06-01T10:00:00Z", "instructions": ""}, text("user", "a")["payload"]] * 2


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("records", [WHOLE, ENDED, BARE], ids=["whole", "ended", "bare"])
def test_reading_on_after_a_cut_at_any_byte_gives_the_same_messages(
    log: Path, records: list[Record], step: int
) -> None:
    data = write(log, records)
    expected = latest(read(log))
    for cut in cuts(data, step):
        log.write_bytes(data[:cut])
        reading = Reading(log)
        pairs = read(log, reading)
        assert reading.malformed == 0
        log.write_bytes(data)
        assert latest(pairs + read(log, continued(log, reading))) == expected


def test_reading_on_after_a_crash_at_any_message_loses_none(log: Path, subtests: pytest.Subtests) -> None:
    for records in [WHOLE, ENDED]:
        with subtests.test(records=records):
            write(log, records)
            expected = latest(read(log))
            for stop in range(1, len(expected) + 1):
                reading = Reading(log)
                source = CodexReader().read(log, reading)
                pairs = [next(source) for _ in range(stop)]
                assert latest(pairs + read(log, continued(log, reading))) == expected


def test_two_objects_on_one_line_survive_a_crash_between_them(log: Path) -> None:
    write(log, [meta(), text("user", "first", 1), text("user", "second", 2)])
    log.write_bytes(log.read_bytes().replace(b"\n{", b"{").replace(b"}{", b"}\n{", 1))
    reading = Reading(log)
    next(CodexReader().read(log, reading))
    assert [message.text for _, message in read(log, continued(log, reading)) if message] == ["second"]


def test_a_finished_log_is_read_to_its_end(log: Path) -> None:
    data = write(log, WHOLE)
    reading = Reading(log)
    read(log, reading)
    assert (reading.offset, reading.line) == (len(data), len(WHOLE))
    assert read(log, continued(log, reading)) == []


def test_unknown_records_are_skipped_and_broken_ones_reported(log: Path) -> None:
    write(log, [meta(), line("novelty", {}), line("response_item", [1]), item(type="odd"), text("user", "still here")])
    log.write_bytes(log.read_bytes() + b"not json\n[1]\n\xff\xfe\n")
    reading = Reading(log)
    assert [message.text for _, message in read(log, reading) if message] == ["still here"]
    assert (reading.skipped["novelty"], reading.skipped["odd"], reading.malformed) == (1, 1, 4)


def test_a_missing_file_is_a_log_error(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        read(tmp_path / "gone.jsonl")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["user", "message", OWN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 9), VALUES), max_size=12))
def test_fields_of_any_type_never_break_the_reader(tmp_path: Path, changes: list[tuple[int, int, Any]]) -> None:
    records = json.loads(json.dumps(WHOLE))
    for place, field, value in changes:
        payload = records[place]["payload"]
        if field == 9 or not isinstance(payload, dict) or not payload:
            records[place] = {**records[place], ("payload", "type", "timestamp")[field % 3]: value}
        else:
            payload[sorted(payload)[field % len(payload)]] = value
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    messages(path)


@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_never_break_the_reader(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "damaged.jsonl"
    data = bytearray(write(path, random.sample(WHOLE, len(WHOLE))))
    for _ in range(random.randint(1, 30)):
        data[random.randrange(len(data))] = random.randrange(256)
    data += b'{"type": "event_msg", "payload": ' + b"[" * 9000 + b"\n"
    path.write_bytes(bytes(data))
    with suppress(WarmstartError):
        messages(path)


def test_roots_follow_codex_home(tmp_path: Path) -> None:
    reader = CodexReader()
    assert reader.roots({}, tmp_path) == [tmp_path / ".codex/sessions", tmp_path / ".codex/archived_sessions"]
    assert reader.roots({"CODEX_HOME": "/x"}, tmp_path)[0] == Path("/x/sessions")


def test_logs_are_found_by_name_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path / "2026" / "07"
    deep.mkdir(parents=True)
    wanted = [deep / "rollout-1.jsonl", tmp_path / f"{OWN}.jsonl"]
    for path in (*wanted, deep / "notes.jsonl", deep / "rollout-1.txt"):
        path.touch()
    assert set(CodexReader().find(tmp_path)) == set(wanted)
    assert list(CodexReader().find(wanted[0])) == wanted[:1]
    assert list(CodexReader().find(tmp_path / "gone")) == []


def test_only_its_own_logs_are_claimed(log: Path) -> None:
    claims = CodexReader().claims
    assert claims(log, write(log, WHOLE))
    assert claims(log, json.dumps(meta(base_instructions="x" * 70_000)).encode()[:65_536])
    assert claims(log, json.dumps(meta(), sort_keys=True).encode())
    assert claims(log, b"\xef\xbb\xbf" + write(log, WHOLE))
    assert not claims(log, b'{"type":"user","uuid":"1","message":{"role":"user","content":"session_meta payload"}}\n')
    assert not claims(log, b'{"type":"session.start","data":{},"id":"1","parentId":null}\n')
    assert not claims(log, b"")
    assert not claims(log, b"\xff\xfe{}")


def corpus() -> list[Path]:
    paths = sorted(CORPUS.glob("*/*.jsonl"))
    if not paths:
        pytest.skip("no benchmark data beside the checkout")
    return paths


def spoken(payload: Record) -> str:
    return "".join("".join(block["text"] for block in payload["content"]).split())


@pytest.mark.corpus
def test_real_logs_hold_what_plain_counting_finds() -> None:
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for path in corpus():
        for record in map(json.loads, path.read_text().splitlines()):
            kind, payload = record["type"], record["payload"]
            if kind == "response_item":
                role = payload.get("role")
                wanted["people"] += role == "user"
                wanted["system"] += role == "developer"
                wanted["letters"] += len(spoken(payload)) if role == "assistant" else 0
                wanted["calls"] += payload["type"].endswith("_call")
                wanted["outputs"] += payload["type"].endswith("_output")
                wanted["searches"] += payload["type"] == "web_search_call"
            wanted["counts"] += payload.get("type") == "token_count"
        reading = Reading(path)
        heard = [message for _, message in read(path, reading) if message]
        assert (reading.malformed, len({message.native_id for message in heard})) == (0, len(heard))
        for message in heard:
            found["people"] += message.role == "user"
            found["system"] += message.role == "system"
            found["letters"] += len("".join(message.text.split())) if message.role == "assistant" else 0
            found["calls"] += len(message.tool_calls)
            found["outputs"] += message.role == "tool"
            found["counts"] += message.usage is not None
    assert wanted["calls"] > 800
    searches = wanted.pop("searches")
    assert found == wanted + Counter(outputs=searches)


@pytest.mark.corpus
def test_real_calls_fail_as_their_exit_codes_say() -> None:
    outcomes: Counter[str] = Counter()
    failed = 0
    for path in corpus():
        for record in map(json.loads, path.read_text().splitlines()):
            head = str(record["payload"].get("output"))[:160]
            codes = [
                row.rsplit(" ", 1)[1] for row in head.split("\n") if row.startswith(("Process exited", "Exit code"))
            ]
            failed += codes not in ([], ["0"]) or head.startswith("apply_patch verification failed")
        outcomes.update(step.outcome for step in steps(messages(path)))
    assert outcomes == {"ok": 812, "error": failed, "rejected": 1, "unknown": 4}


@pytest.mark.corpus
def test_real_logs_continue_after_any_cut(tmp_path: Path) -> None:
    random = Random(7)
    for path in corpus():
        data, copy = path.read_bytes(), tmp_path / path.name
        copy.write_bytes(data)
        expected = latest(read(copy))
        for cut in random.sample(range(len(data)), 12):
            copy.write_bytes(data[:cut])
            reading = Reading(copy)
            pairs = read(copy, reading)
            copy.write_bytes(data)
            assert latest(pairs + read(copy, continued(copy, reading))) == expected
