"""One odd or damaged session never stops a batch: the others are used, and what is skipped is named in one line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.templates import SessionExtractor

BATCHES = (
    ("profile",),
    ("templates", "auto"),
    ("dataset", "export", "dataset"),
    ("templates", "extract", "good0", "odd", "--name", "x", "--explain"),
    ("templates", "compress", "good0", "odd"),
)
ALL = (*BATCHES, ("recall", "index", "--rebuild"), ("recall", "rounding", "--all-projects"), ("templates", "list"))
GOOD = [
    ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, "done"),
    *(("Bash", {"command": f"python -m pytest -q tests/t{each}.py"}, "4 passed in 0.1s") for each in range(5)),
    ("Bash", {"command": "git commit -m 'Round the totals'"}, "[main 1234567] Round the totals"),
]


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


ODD = {
    "an empty name of a tool": [("", {"name": ""}, "ok")],
    "an empty name of a person": [("get_user", {"name": "", "email": "mia@example.com"}, "ok")] * 2,
    "an empty name in a result": [("get_user", {"id": 1}, '{"name": "", "phone": "1"}')] * 2,
    "no arguments": [("Bash", None, "ok"), ("get_user", None, None)],
    "arguments of other kinds": [("Bash", [1], "ok"), ("Bash", "ls", {"a": 1}), ("Edit", 5, [])],
    "names of other kinds": [(None, {}, "ok"), (3, {}, "ok"), ({"a": 1}, {}, "ok")],
    "a command of other kinds": [("Bash", {"command": each}, "ok") for each in (None, 3, [], [1], {}, "")],
    "characters that are none": [("Bash", {"command": "\ud800"}, "\ud800\x00"), ("\ud800", {"\x00": "\udfff"}, "ok")],
    "deep nesting": [("get_user", {"a": deep(300)}, json.dumps(deep(300)))],
    "large": [("Bash", {"command": "x" * 500_000}, "y" * 500_000), ("get_user", {"q": "a." * 100_000}, "")],
}


def log(folder, name: str, calls, *, day: int = 1) -> None:
    """Write the log of a session of Claude Code in which these calls were made."""
    common = {"sessionId": name, "cwd": "/home/mara/shop", "version": "2.1.0", "isSidechain": False}
    common["timestamp"] = f"2026-03-{day:02}T09:00:00Z"
    asked = {"role": "user", "content": f"Fix the rounding of the invoice totals in {name}"}
    rows = [{"type": "user", "uuid": f"{name}-0", "parentUuid": None, "message": asked, **common}]
    for number, (tool, arguments, result) in enumerate(calls, 1):
        use = {"type": "tool_use", "id": f"tu{number}", "name": tool, "input": arguments}
        said = {"role": "assistant", "model": "m", "id": f"{name}-a{number}", "content": [use]}
        came = {"type": "tool_result", "tool_use_id": f"tu{number}", "content": result}
        before, middle, after = f"{name}-{2 * number - 2}", f"{name}-{2 * number - 1}", f"{name}-{2 * number}"
        rows.append({"type": "assistant", "uuid": middle, "parentUuid": before, "message": said, **common})
        answer = {"role": "user", "content": [came]}
        rows.append({"type": "user", "uuid": after, "parentUuid": middle, "message": answer, **common})
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture
def logs(home, monkeypatch):
    monkeypatch.chdir(home)
    folder = home / "logs"
    folder.mkdir()
    for number in range(2):
        log(folder, f"good{number}", GOOD)
    return folder


def test_odd_sessions_are_read_and_stop_no_batch(run, logs):
    for number, calls in enumerate(ODD.values()):
        log(logs, f"odd{number}" if number else "odd", [*GOOD, *calls], day=number + 2)
    assert run("sync", "--path", logs).code == 0
    for command in ALL:
        ran = run(*command)
        assert ran.code == 0, (command, ran.err[-500:])
        assert "skipped" not in ran.err, command
    groups = json.loads(run("templates", "auto", "--json").out)["groups"]
    assert not [group for group in groups if "cannot" in group["why"]]
    assert sum(len(group["session_ids"]) for group in groups) >= len(ODD)


@pytest.mark.parametrize(
    "arguments", ['{"command": "\\ud800"}', '{"a": ' * 5000 + "1" + "}" * 5000, '{"a": ' + "9" * 5000 + "}", "[" * 5000]
)
def test_arguments_that_only_look_like_json_stop_nothing(run, logs, arguments):
    call = {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": arguments}}
    asked, made = {"role": "user", "content": "Fix it"}, {"role": "assistant", "content": None, "tool_calls": [call]}
    (logs / "odd.json").write_text(json.dumps([asked, made, {"role": "tool", "tool_call_id": "c", "content": "ok"}]))
    assert run("sync", "--path", logs / "odd.json", "--format", "openai").err == ""
    (session,) = json.loads(run("sessions", "list", "--json").out)
    for command in (
        *ALL[-3:],
        ("sessions", "show", session["session_id"]),
        ("sessions", "show", session["session_id"], "--json"),
    ):
        ran = run(*command)
        assert (ran.code, "skipped" in ran.err) == (0, False), (command, ran.err[-500:])


@pytest.mark.parametrize("command", BATCHES)
def test_a_damaged_session_is_named_and_skipped(run, logs, home, command):
    log(logs, "odd", GOOD)
    assert run("sync", "--path", logs).code == 0
    with closing(sqlite3.connect(home / ".warmstart" / "warmstart.db")) as database, database:
        bad, pk = database.execute("SELECT id, pk FROM sessions WHERE native_id = 'odd'").fetchone()
        database.execute("UPDATE messages SET at = 1e300 WHERE session = ?", (pk,))
        database.execute("UPDATE sessions SET revision = revision + 1 WHERE pk = ?", (pk,))  # as if it had grown
    ran = run(*command)
    assert ran.code == 0, ran
    lines = [line for line in ran.err.splitlines() if f"skipped session {bad}: " in line]
    assert len(lines) == 1, ran.err
    assert "Traceback" not in ran.err


_WORDS = ("name", "email", "phone", "user_id", "first_name", "address", "date", "path", "command", "query", "items", "")
_VALUES = st.recursive(
    st.sampled_from(("", " ", "x", "Mia Li", "mia@example.com", "#W123", "/", "..", "{{", "{{name}}", "[", "\\"))
    | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip
_ARGUMENTS = st.dictionaries(st.sampled_from(_WORDS), _VALUES, max_size=4).map(json.dumps) | st.sampled_from(
    ("", "null", "[]", "1", '"x"', "{broken", "[" * 2000, '{"a":' * 900, "\ud800", '{"\\ud800": 1}', "x" * 50_000)
)
_CALLS = st.tuples(
    st.sampled_from(("", " ", "Bash", "Edit", "get_user", "apply_patch", "\ud800", "\x00", "__", "a" * 500)),
    _ARGUMENTS,
    st.sampled_from(("ok", "error", "unknown")),
    st.sampled_from(("", "ok", "4 passed", "Error: no", '{"name": "", "email": ""}', "\ud800", "[" * 2000, "\n" * 500)),
)


@given(st.lists(_CALLS, max_size=5), st.sampled_from(("", "/", "/home/mara/shop", "C:\\x", "/home/\ud800/x")))
def test_anything_that_a_session_holds_can_be_extracted_from(calls, project):
    at = datetime(2026, 3, 1, tzinfo=UTC)
    messages = [Message(native_id="u", role="user", text="Fix the rounding of the invoice totals", timestamp=at)]
    for number, (tool, arguments, outcome, text) in enumerate([*calls, *calls]):
        call = ToolCall(id=f"c{number}", name=tool, arguments=arguments)
        result = ToolResult(call_id=call.id, outcome=outcome, text=text)
        messages.append(Message(native_id=f"a{number}", role="assistant", tool_calls=(call,), timestamp=at))
        messages.append(Message(native_id=f"t{number}", role="tool", tool_results=(result,), timestamp=at))
    session = Session(
        agent="claude-code", native_id="s", project=project, outcome="success", judge="log", evidence="said so"
    )
    SessionExtractor().extract(session, messages)
