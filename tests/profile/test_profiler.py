"""From messages to a profile: places, models, times, rules, and odd input."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.profile.talks import asked, bash, did, orphan, talk
from warmstart.errors import ConfigError
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Profile
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.testing.stores import at

SESSION = Session(agent="claude-code", native_id="s")


def profile(*parts: Iterable[Message], **tools: str) -> Profile:
    return Profiler(tools).profile(SESSION, talk(*parts))


def test_every_call_with_its_place() -> None:
    made = profile(
        asked("Go", 0),
        bash("pytest", "error", "boom", minutes=1, took=3, model="claude-opus-4-5"),
        asked("Again", 2),
        did("Read", {"file_path": "a.py"}, minutes=2.5, took=0.25, model="claude-haiku-4-5"),
        did("Grep", {"pattern": "x"}, minutes=3),
    )
    assert [(call.tool, call.outcome, call.kind, call.turn) for call in made.calls] == [
        ("Bash", "error", "code", 1),
        ("Read", "ok", "file", 2),
        ("Grep", "ok", "file", 2),
    ]
    assert [(call.at, call.seconds) for call in made.calls] == [(60.0, 3.0), (150.0, 0.25), (180.0, 0.0)]
    assert [call.model for call in made.calls] == ["claude-opus-4-5", "claude-haiku-4-5", "claude-haiku-4-5"]
    assert [bool(call.signature) for call in made.calls] == [True, False, False]
    assert made.task_type == "file"


def test_the_time_that_a_log_states_goes_before_that_between_messages() -> None:
    call = ToolCall(id="c", name="Bash")
    made = profile(
        [Message(native_id="1", role="assistant", tool_calls=(call,), timestamp=at(0))],
        [
            Message(
                native_id="2",
                role="tool",
                tool_results=(ToolResult(call_id="c", outcome="ok", duration=2.5),),
                timestamp=at(9),
            )
        ],
    )
    assert made.calls[0].seconds == 2.5


def test_a_call_before_the_first_request_is_of_turn_zero() -> None:
    assert [call.turn for call in profile(bash("a"), asked("Go"), bash("b")).calls] == [0, 1]


def test_calls_without_times() -> None:
    made = profile(asked("Go"), bash("a"), bash("b", minutes=3))
    assert [call.at for call in made.calls] == [None, 0.0]
    assert made.calls[0].seconds is None


def test_several_calls_of_one_message_and_results_in_another_order() -> None:
    calls = tuple(ToolCall(id=name, name=f"tool-{name}") for name in "abc")
    results = [ToolResult(call_id=name, outcome=outcome) for name, outcome in (("c", "ok"), ("a", "error"))]  # type: ignore[arg-type]
    made = profile(
        [Message(native_id="1", role="assistant", tool_calls=calls)],
        [Message(native_id="2", role="tool", tool_results=tuple(results))],
    )
    assert [(call.tool, call.outcome) for call in made.calls] == [
        ("tool-a", "error"),
        ("tool-b", "unknown"),
        ("tool-c", "ok"),
    ]


def test_ids_that_are_used_again() -> None:
    def pair(number: int, outcome: str) -> list[Message]:
        return [
            Message(native_id=f"a{number}", role="assistant", tool_calls=(ToolCall(id="call_0", name=f"t{number}"),)),
            Message(native_id=f"r{number}", role="tool", tool_results=(ToolResult(call_id="call_0", outcome=outcome),)),  # type: ignore[arg-type]
        ]

    made = profile(pair(1, "error"), pair(2, "ok"), pair(3, "rejected"))
    assert [(call.tool, call.outcome) for call in made.calls] == [("t1", "error"), ("t2", "ok"), ("t3", "rejected")]


def test_an_unnamed_call_is_placed_at_its_result() -> None:
    made = profile(bash("a"), orphan("error", "boom"), bash("b"))
    assert [call.tool for call in made.calls] == ["Bash", "", "Bash"]


def test_a_rejection_is_no_error_and_has_no_signature() -> None:
    made = profile(bash("a", "rejected", "The user doesn't want to proceed with this tool use."))
    assert made.calls[0].signature == ""
    assert (made.markers.errors, made.markers.rejected, made.markers.error_rate) == (0, 1, 0.0)


def test_the_users_table_is_used() -> None:
    parts = talk(bash("pytest"), bash("pytest"), did("Read", {"file_path": "a"}))
    assert Profiler().profile(SESSION, parts).task_type == "code"
    assert Profiler({"Bash": "other"}).profile(SESSION, parts).task_type == "file"
    with pytest.raises(ConfigError):
        Profiler({"Bash": "coding"})


def test_the_rules_change_with_the_users_table() -> None:
    tables: list[dict[str, str]] = [
        {},
        {"a*": "code"},
        {"a*": "file"},
        {"b*": "code"},
        {"a*": "code", "*": "file"},
        {"*": "file", "a*": "code"},
    ]
    assert len({Profiler(table).rules for table in tables}) == len(tables)
    assert Profiler({}).rules == Profiler(None).rules == Profiler().rules
    assert Profiler({"a*": "code"}).rules == Profiler({"a*": "code"}).rules


def test_the_same_messages_give_the_same_profile() -> None:
    messages = talk(asked("Go", 0), bash("a", "error", "boom", minutes=1), bash("b", minutes=2))
    assert Profiler().profile(SESSION, messages) == Profiler().profile(SESSION, messages)


ODD_ARGUMENTS: list[Any] = [
    "",
    "no json",
    "[1, 2, 3]",
    "null",
    '{"a": ' * 5_000,
    "[" * 5_000,
    '{"command": ["a", 3]}',
    '{"command": {"a": 1}}',
    '{"file_path": 7}',
    '{"a": 1e999, "b": NaN}',
    "\ud800\0",
    "x <<A\n" * 20_000,
    json.dumps({"command": "cat <<EOF\n" + "cout << x << y\n" * 20_000}),
    json.dumps({"command": "$(" * 50_000}),
    json.dumps({"command": "x" * 1_000_000, "file_path": "y" * 1_000_000}),
    json.dumps({"x" * 1_000_000: 1}),
]


ODD_ARGUMENTS_ARE_NO_TROUBLE = ["Bash", "Read", "Edit", "apply_patch", "mcp__a__b", "", "\x1b[31m\n"]


def test_odd_arguments_are_no_trouble(subtests: pytest.Subtests) -> None:
    for tool in ODD_ARGUMENTS_ARE_NO_TROUBLE:
        with subtests.test(tool=tool):
            began = time.process_time()
            for odd in ODD_ARGUMENTS:
                made = profile(
                    did(tool, odd, "error", "boom"), did(tool, {"command": "ls"}), did(tool, odd, "error", odd)
                )
                assert len(made.calls) == 3
                assert all(len(change.what) <= 40 for recovery in made.recoveries for change in recovery.changes)
                assert all(0 < len(call.signature) < 400 for call in made.calls if call.outcome == "error")
            assert time.process_time() - began < 20


def test_odd_numbers_and_times_are_no_trouble() -> None:
    call = ToolCall(id="c", name="Bash")
    result = ToolResult(call_id="c", outcome="ok", duration=float("inf"))
    messages = [
        Message(native_id="1", role="assistant", tool_calls=(call,), timestamp=at(10)),
        Message(native_id="2", role="tool", tool_results=(result,), timestamp=at(-10)),
        Message(native_id="3", role="assistant", tool_calls=(replace(call, id="d"),), timestamp=None),
    ]
    made = Profiler().profile(SESSION, messages)
    assert [call.outcome for call in made.calls] == ["ok", "unknown"]
