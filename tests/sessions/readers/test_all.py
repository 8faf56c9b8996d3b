"""What holds for every reader: it knows its own logs and no others, and whatever a log holds, it does not fall over.

A small log of each format is changed at random: fields of wrong types or gone, lines in another order, cut, glued or
repeated, bytes that are no text, numbers that no machine holds, brackets without end. What a reader makes of it has the
types that it says, and a store takes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from warmstart.errors import WarmstartError
from warmstart.sessions.readers.base import Reader, Reading
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import Message, Session

SAMPLES = Path(warmstart.__file__).parent / "samples"
READERS = readers()
HEAD = 64 * 1024
ID = "aaaaaaaa-0000-4000-8000-00000000000a"
T0 = "2026-07-01T10:00:00.000Z"
MS = 1_780_000_000_000


# A small log of each format


def line(kind: str, uuid: str, **fields: Any) -> dict[str, Any]:
    common = {"parentUuid": None, "isSidechain": False, "cwd": "/nowhere/app", "sessionId": ID, "version": "2.1.0"}
    return {**common, "gitBranch": "main", "type": kind, "uuid": uuid, "timestamp": T0, **fields}


def said(uuid: str, *blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7}
    message = {"id": f"msg_{uuid[0]}", "model": "claude-x", "content": list(blocks), "usage": usage}
    return line("assistant", uuid, requestId="req_1", message=message, **fields)


NESTED = {"type": "user", "uuid": "n1", "timestamp": T0, "message": {"content": "look"}}
CLAUDE = [
    {"type": "queue-operation", "operation": "enqueue", "timestamp": T0, "sessionId": ID},
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"timestamp": T0}},
    line("user", "u1", message={"content": "go"}, forkedFrom={"sessionId": "old", "messageUuid": "o1"}),
    said("a1", {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}),
    said("a2", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}),
    line(
        "user",
        "u2",
        message={
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "Exit code 2\nno"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "image", "source": {}}]},
                {"type": "text", "text": "<system-reminder>hm</system-reminder>"},
                {"type": "text", "text": "please"},
            ]
        },
    ),
    line("progress", "p1", data={"type": "agent_progress", "agentId": "a7", "message": NESTED}),
    said("s1", {"type": "text", "text": "side"}, isSidechain=True, agentId="a7"),
    line("user", "s2", message={"content": "side"}, isSidechain=True),
    line("attachment", "q1", attachment={"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}),
    line("user", "u3", message={"content": "summary"}, isCompactSummary=True, isMeta=True),
    {"type": "summary", "summary": "A title", "leafUuid": "u3"},
    {"type": "custom-title", "customTitle": "Mine", "sessionId": ID},
]

META = {"id": ID, "timestamp": T0, "cwd": "/nowhere/app", "cli_version": "0.142.4", "git": {"branch": "main"}}
SPAWNED = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
COUNTED = {"total_token_usage": {"total_tokens": 9}, "last_token_usage": {"input_tokens": 9, "cached_input_tokens": 3}}
CODEX = [
    {"timestamp": T0, "type": kind, "payload": payload}
    for kind, payload in (
        ("session_meta", {**META, "source": SPAWNED, "forked_from_id": "old"}),
        ("turn_context", {"turn_id": "t", "model": "gpt-5", "cwd": "/nowhere/app"}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}),
        ("event_msg", {"type": "user_message", "message": "go"}),
        ("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        (
            "response_item",
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
        ),
        ("response_item", {"type": "function_call", "name": "sh", "arguments": '{"cmd": "ls"}', "call_id": "c1"}),
        ("response_item", {"type": "web_search_call", "status": "completed", "action": {"query": "x"}}),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "Exit code: 2\nOutput:\nno"}),
        (
            "response_item",
            {"type": "function_call_output", "call_id": "c2", "output": {"content": "x", "success": True}},
        ),
        ("event_msg", {"type": "token_count", "info": COUNTED}),
        ("compacted", {"message": "so far"}),
    )
]

ANSWER = {"functionResponse": {"id": "c1", "name": "sh", "response": {"output": "no\nExit Code: 2"}}}
CALLED = {"id": "c1", "name": "run_shell_command", "args": {"a": 1}, "status": "success", "timestamp": T0}
GEMINI_HEAD = {"sessionId": "s-1", "projectHash": "ab" * 32, "startTime": T0, "lastUpdated": T0, "kind": "main"}
GEMINI_TALK: list[dict[str, Any]] = [
    {"id": "g1", "timestamp": T0, "type": "user", "content": [{"text": "<hook_context>x</hook_context>go"}]},
    {
        "id": "g2",
        "timestamp": T0,
        "type": "gemini",
        "content": "Yes",
        "thoughts": [{"subject": "Plan", "description": "look"}],
        "tokens": {"input": 50, "output": 5, "cached": 7, "thoughts": 2},
        "model": "gemini-x",
        "toolCalls": [{**CALLED, "result": [ANSWER]}],
    },
    {"id": "g3", "timestamp": T0, "type": "user", "content": [ANSWER, {"inlineData": {"mimeType": "image/png"}}]},
]
GEMINI_LINES = [
    GEMINI_HEAD,
    *GEMINI_TALK,
    {"$set": {"summary": "A title", "lastUpdated": T0, "messages": GEMINI_TALK[:1]}},
    {"$rewindTo": "g1"},
]

FOUND = {"content": "x\n<exited with exit code 1>"}
COPILOT = [
    {"type": kind, "data": data, "id": f"e{number}", "timestamp": T0, "parentId": None, "agentId": agent}
    for number, (kind, agent, data) in enumerate(
        (
            ("session.start", None, {"sessionId": ID, "copilotVersion": "1", "context": {"cwd": "/nowhere"}}),
            ("session.model_change", None, {"newModel": "m"}),
            ("user.message", None, {"content": "go", "source": "user"}),
            ("session.usage_record", None, {"usage": {"apiCallId": "a1", "inputTokens": 90, "cacheReadTokens": 30}}),
            (
                "assistant.message",
                None,
                {
                    "content": "Yes",
                    "reasoningText": "hm",
                    "apiCallId": "a1",
                    "outputTokens": 5,
                    "toolRequests": [{"toolCallId": "t1", "name": "bash", "arguments": {"command": "ls"}}],
                },
            ),
            ("permission.completed", None, {"toolCallId": "t2", "result": {"kind": "denied-by-rules"}}),
            ("tool.execution_complete", None, {"toolCallId": "t1", "success": True, "result": FOUND}),
            ("tool.execution_complete", None, {"toolCallId": "t2", "success": False, "error": {"code": "denied"}}),
            ("user.message", "helper", {"content": "look"}),
            ("session.compaction_complete", None, {"summaryContent": "so far"}),
            ("session.title_changed", None, {"title": "A title"}),
        )
    )
]

FACTS = {"id": "ses_1", "directory": "/nowhere", "title": "A title", "version": "1.18", "time": {"created": MS}}
TOKENS = {"input": 60, "output": 10, "reasoning": 3, "cache": {"read": 40, "write": 5}}
STATE = {"status": "completed", "input": {"command": "make"}, "output": "no", "metadata": {"exit": 2}}
OPENCODE_TALK = [
    ({"id": "msg_1", "role": "user", "time": {"created": MS}}, [{"type": "text", "text": "go"}]),
    (
        {"id": "msg_2", "role": "assistant", "modelID": "m", "tokens": TOKENS, "time": {"created": MS + 1}},
        [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "Yes"},
            {"type": "tool", "tool": "bash", "callID": "c1", "state": {**STATE, "time": {"start": MS, "end": MS + 9}}},
            {"type": "file", "mime": "image/png", "filename": "x"},
            {"type": "step-finish", "tokens": TOKENS},
        ],
    ),
    ({"id": "msg_3", "role": "user"}, [{"type": "text", "text": "added", "synthetic": True}]),
]
OPENCODE_EXPORT = {"info": FACTS, "messages": [{"info": info, "parts": parts} for info, parts in OPENCODE_TALK]}
OPENCODE_SCHEMA = """
CREATE TABLE `session` (id, project_id, parent_id, directory, title, version, model, time_created, time_updated);
CREATE TABLE `message` (id, session_id, time_created, time_updated, data);
CREATE TABLE `part` (id, message_id, session_id, time_created, time_updated, data);
"""
OPENCODE_ROWS = [
    ["session", "ses_1", "p1", None, "/nowhere", "A title", "1.18", {"id": "m"}, MS, MS + 9],
    ["session", "ses_2", "p1", "ses_1", "/nowhere", "", "1.18", {"id": "m"}, MS, MS + 9],
    *(["message", info["id"], "ses_1", MS, MS + 5, info] for info, _ in OPENCODE_TALK),
    *(
        ["part", f"prt_{info['id']}_{number}", info["id"], "ses_1", MS, MS + 5, part]
        for info, parts in OPENCODE_TALK
        for number, part in enumerate(parts)
    ),
]

HERMES_SCHEMA = """
CREATE TABLE sessions (id, source, model, model_config, system_prompt, title, parent_session_id, started_at, ended_at,
    end_reason, cwd, git_branch, git_repo_root);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id, role, content, tool_call_id, tool_calls,
    timestamp, token_count, reasoning, active, compacted, _compressed_summary, display_kind);
"""
ASKED = [{"id": "c1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
SUMMED = "[CONTEXT COMPACTION — REFERENCE ONLY] so far"
HERMES_ROWS = [
    [
        "sessions",
        "s1",
        "cli",
        "m",
        {},
        "Be kind.",
        "A title",
        None,
        1.79e9,
        1.79e9,
        "compression",
        "/nowhere",
        "x",
        None,
    ],
    ["sessions", "s2", "cli", "m", {"_branched_from": "s1"}, None, "", "s1", 1.79e9, None, None, None, None, None],
    ["messages", 1, "s1", "user", "go", None, None, 1.79e9, None, None, 1, 0, 0, None],
    ["messages", 2, "s1", "assistant", "Yes", None, ASKED, 1.79e9 + 1, 5, "hm", 1, 0, 0, None],
    ["messages", 3, "s1", "tool", {"output": "no", "exit_code": 2}, "c1", None, 1.79e9 + 2, None, None, 1, 0, 0, None],
    ["messages", 4, "s2", "user", "go", None, None, 1.79e9 + 3, None, None, 1, 0, 0, None],
    ["messages", 5, "s2", "user", SUMMED, None, None, 1.79e9 + 4, None, None, 1, 0, 1, "hidden"],
    ["messages", 6, "s2", "user", "more", None, None, 1.79e9 + 9, None, None, 0, 1, 0, None],
]


def chatted(kind: str, uuid: str, **fields: Any) -> dict[str, Any]:
    common = {"uuid": uuid, "parentUuid": None, "sessionId": ID, "timestamp": T0, "type": kind, "provenance": "system"}
    return {**common, "cwd": "/nowhere/app", "version": "0.24.4", **fields}


RAN = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}}}
HAD = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"error": "no\nExit Code: 2"}}}
SHELL = {"callId": "c1", "status": "error", "resultDisplay": {"type": "shell_result", "exitCode": 2}, "durationMs": 7}
COUNTS = {"promptTokenCount": 90, "totalTokenCount": 99, "cachedContentTokenCount": 30}
SHORTER = [{"role": "user", "parts": [{"text": "<state_snapshot>so far</state_snapshot>"}]}]
QWEN = [
    chatted("user", "q1", provenance="real_user", message={"parts": [{"text": "go"}]}, forkedFrom={"sessionId": "old"}),
    chatted("assistant", "q2", model="m", message={"parts": [{"text": "hm", "thought": True}, RAN]}),
    chatted("system", "q3", subtype="ui_telemetry", systemPayload={"uiEvent": {"call_id": "c1", "duration_ms": 5}}),
    chatted("tool_result", "q4", message={"parts": [HAD]}, toolCallResult=SHELL),
    chatted("system", "q5", subtype="chat_compression", systemPayload={"compressedHistory": SHORTER}),
    chatted("system", "q6", subtype="custom_title", systemPayload={"customTitle": "A title"}),
    chatted("assistant", "q7", agentId="a1", agentRound=1, message={"parts": [{"text": "Yes"}]}, usageMetadata=COUNTS),
    chatted("assistant", "q8", agentId="a1", message={"parts": [deepcopy(RAN)]}),
]


def entered(kind: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": key, "parentId": None, "timestamp": T0, **fields}


PI = [
    {
        "type": "session",
        "version": 3,
        "id": ID,
        "timestamp": T0,
        "cwd": "/nowhere/app",
        "parentSession": "/gone/x.jsonl",
    },
    entered("model_change", "p1", provider="x", modelId="m"),
    entered("message", "p2", message={"role": "user", "content": [{"type": "text", "text": "go"}]}),
    entered(
        "message",
        "p3",
        message={
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "Yes"},
                {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
            ],
            "model": "m",
            "usage": {"input": 9, "output": 2, "cacheRead": 4},
        },
    ),
    entered("message", "p4", message={"role": "toolResult", "toolCallId": "c1", "content": "no", "isError": True}),
    entered("message", "p5", message={"role": "bashExecution", "command": "ls", "output": "x"}),
    entered("custom_message", "p6", customType="x", content="added"),
    entered("compaction", "p7", summary="so far", firstKeptEntryId="p2"),
    entered("session_info", "p8", name="A title"),
]

CLINE_RESULT = {
    "type": "tool_result",
    "tool_use_id": "c1",
    "content": [{"query": "ls", "result": "x", "success": True}],
}
CLINE = {
    "version": 1,
    "updated_at": T0,
    "agent": "lead",
    "sessionId": "1_a",
    "origin": {"version": "3.0.65", "parentThreadId": "0_a"},
    "messages": [
        {"id": "m1", "role": "user", "content": [{"text": '<user_input mode="act">go</user_input>'}], "ts": MS},
        {
            "id": "m2",
            "role": "assistant",
            "content": [
                {"thinking": "hm"},
                {"text": "Yes"},
                {"type": "tool_use", "id": "c1", "name": "x", "input": {}},
            ],
            "modelInfo": {"id": "m"},
            "metrics": {"inputTokens": 9, "cacheReadTokens": 4},
            "ts": MS + 1,
        },
        {"id": "m3", "role": "user", "content": [CLINE_RESULT, {"type": "text", "text": "more"}], "ts": MS + 2},
        {"role": "user", "content": "so far", "metadata": {"kind": "compaction_summary", "generatedAt": MS}},
    ],
}
CLINE_FACTS = {"workspace_root": "/nowhere", "model": "m", "metadata": {"fork": {"forkedFromSessionId": "0_a"}}}

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "image_url"}], "timestamp": 1.79e9},
    {
        "role": "assistant",
        "content": None,
        "reasoning": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"exit_code": 1, "error": "no"}', "error": True},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c2", "name": "ls", "arguments": {}}]},
    {"role": "tool", "id": "c2", "content": "Error: no"},
]
RECORD = {"id": "chat-1", "title": "A title", "model": "m", "created": 1.79e9, "messages": CHAT}
TAU = [{"task_id": 3, "trial": 0, "reward": 1.0, "info": {}, "traj": CHAT}]
PARTIES = {"agent_info": {"llm": "m"}, "user_info": {}}
TAU2 = {
    "info": PARTIES,
    "tasks": [{"id": "t"}],
    "simulations": [{"id": "sim-1", "task_id": "t", "reward_info": {"reward": 0.0}, "messages": CHAT}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A small log: its files, of which the first is the one to read. `schema` makes it a database of these rows."""

    agent: str
    files: dict[str, Any]
    lines: bool = False
    schema: str = ""


SEEDS = {
    "claude-code": Seed(agent="claude-code", files={f"{ID}.jsonl": CLAUDE}, lines=True),
    "codex": Seed(agent="codex", files={f"rollout-2026-07-01T10-00-00-{ID}.jsonl": CODEX}, lines=True),
    "gemini": Seed(agent="gemini-cli", files={"session-1.json": {**GEMINI_HEAD, "messages": GEMINI_TALK}}),
    "gemini-lines": Seed(agent="gemini-cli", files={"chats/session-1.jsonl": GEMINI_LINES}, lines=True),
    "copilot": Seed(agent="copilot-cli", files={f"{ID}/events.jsonl": COPILOT}, lines=True),
    "opencode": Seed(agent="opencode", files={"export.json": OPENCODE_EXPORT}),
    "opencode-database": Seed(agent="opencode", files={"opencode.db": OPENCODE_ROWS}, schema=OPENCODE_SCHEMA),
    "hermes": Seed(agent="hermes", files={"state.db": HERMES_ROWS}, schema=HERMES_SCHEMA),
    "qwen": Seed(agent="qwen-code", files={f"{ID}.jsonl": QWEN}, lines=True),
    "pi": Seed(agent="pi", files={f"2026-07-01T10-00-00-000Z_{ID}.jsonl": PI}, lines=True),
    "cline": Seed(agent="cline", files={"1_a/1_a.messages.json": CLINE, "1_a/1_a.json": CLINE_FACTS}),
    "openai": Seed(agent="openai", files={"chat.json": CHAT}),
    "openai-lines": Seed(agent="openai", files={"chat.jsonl": [*CHAT, RECORD]}, lines=True),
    "openai-record": Seed(agent="openai", files={"chat.json": RECORD}),
    "tau-bench": Seed(agent="openai", files={"tau.json": TAU}),
    "tau2": Seed(agent="openai", files={"tau2.json": TAU2}),
}


# From values to files. JSON cannot spell everything, so some strings stand for what is written in their place.

STAND_INS = re.compile(rb'"@([\[{9e])(\d*)"')
DEPTHS = (60, 400, 800, 900, 930, 950, 960, 970, 980, 990, 1_000, 3_000)


def stand_in(found: re.Match[bytes]) -> bytes:
    kind, number = found[1], int(found[2] or 0)
    if kind == b"[":
        return b"[" * number + b"]" * number
    if kind == b"{":
        return b'{"a":' * number + b"1" + b"}" * number
    return b"9" * number if kind == b"9" else b"-1e999"


def rendered(value: object) -> bytes:
    return STAND_INS.sub(stand_in, json.dumps(value).encode())


def encoded(seed: Seed, value: Any) -> bytes:
    if seed.lines and isinstance(value, list):
        return b"".join(rendered(record) + b"\n" for record in value)
    return rendered(value)


def insert(db: sqlite3.Connection, row: Any) -> None:
    """Put a row into its table, whatever has become of it; what no table takes is left out."""
    if not isinstance(row, list) or not row or row[0] not in ("session", "sessions", "message", "messages", "part"):
        return
    cells = [rendered(cell).decode("latin-1") if isinstance(cell, list | dict) else cell for cell in row[1:]]
    # Bytes that are cast to text need not be UTF-8.
    raw = [cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell for cell in cells]
    marks = ", ".join("CAST(? AS TEXT)" if isinstance(cell, bytes) else "?" for cell in raw)
    with suppress(sqlite3.Error, OverflowError):
        db.execute(f"INSERT INTO {row[0]} VALUES ({marks})", raw)


def write(seed: Seed, files: dict[str, Any], folder: Path, change: Callable[[bytes], bytes] = bytes) -> Path:
    """Write a log, the bytes of its first file changed; returns that file."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if seed.schema:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.executescript("PRAGMA page_size = 512; PRAGMA synchronous = OFF; BEGIN;" + seed.schema)
                for row in value if isinstance(value, list) else ():
                    insert(db, row)
                db.execute("COMMIT")
        else:
            path.write_bytes(encoded(seed, value))
    main = folder / next(iter(seed.files))
    data = main.read_bytes()
    if (changed := change(data)) != data:
        main.write_bytes(changed)
    return main


# What is done to a log


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value: what holds it, and under which key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
    -(10**30),
    1e18,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "half \ud83d of one",
    "\0",
    "-5",
    "user",
    "assistant",
    "tool",
    "x" * 70_000,
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z",
    "Exit code 99999999999999999999",
    [],
    {},
    [[]],
    [None, 1, "a", {}],
    {"type": "text"},
    {"text": 1},
    {"content": [{"type": "image"}]},
    "@9400",
    "@95000",
    "@e",
    *(f"@[{depth}" for depth in DEPTHS),
    *(f"@{{{depth}" for depth in DEPTHS),
]
PIECES = [
    b"",
    b"\n",
    b"\r",
    b"\0",
    b'"',
    b"}",
    b"{",
    b"\\",
    b"\\ud83d",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"9" * 400,
    b"1e999",
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\n" + b"[" * 100_000 + b"]" * 100_000 + b"\n",
]
# Names that readers look for and that the seeds do not show.
MORE = {"isSidechain", "isMeta", "model", "parentToolCallId", "source", "summary", "ignored", "parentID", "is_error"}
NAMES = sorted({key for seed in SEEDS.values() for _, key in places(seed.files) if isinstance(key, str)} | MORE)
WRONG = [7, True, "x", [1, {"a": None}], {"a": [{"b": 1}]}]
PLACE = st.integers(0, 100_000)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PLACE, st.sampled_from(VALUES)),
        st.tuples(st.just("add"), PLACE, st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES))),
        st.tuples(st.sampled_from(["drop", "copy", "swap", "repeat"]), PLACE, PLACE),
    ),
    max_size=6,
)
DAMAGES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), PLACE, st.sampled_from(PIECES)),
        st.tuples(st.just("over"), PLACE, st.binary(min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["cut", "glue"]), PLACE, st.just(b"")),
    ),
    max_size=3,
)


def changed(files: dict[str, Any], changes: list[tuple[str, int, Any]]) -> dict[str, Any]:
    files = deepcopy(files)
    for kind, number, value in changes:
        found = list(places(files))
        if not found:
            break
        holder, key = found[number % len(found)]
        if kind == "put":
            holder[key] = deepcopy(value)
        elif kind == "add" and isinstance(holder, dict) and holder is not files:
            holder[value[0]] = deepcopy(value[1])
        elif kind == "drop" and holder is not files:
            del holder[key]
        elif kind == "copy":
            other, name = found[value % len(found)]
            holder[key] = deepcopy(other[name])
        elif kind in ("swap", "repeat") and isinstance(holder, list):
            other = value % len(holder)
            if kind == "swap":
                holder[key], holder[other] = holder[other], holder[key]
            else:
                holder.insert(other, deepcopy(holder[key]))
    return files


def damaged(damages: list[tuple[str, int, bytes]], data: bytes) -> bytes:
    for kind, number, piece in damages:
        place = number % (len(data) + 1)
        if kind == "insert":
            data = data[:place] + piece + data[place:]
        elif kind == "over":
            data = data[:place] + piece + data[place + len(piece) :]
        elif kind == "cut":
            data = data[:place]
        else:
            data = data[:place] + data[place:].replace(b"\n", b"", 1)
    return data


# What has to hold


def check(pair: tuple[Session, Message | None]) -> None:
    session, message = pair
    for value in (session, message):
        # There and back again succeeds only if every field has the type that it is declared with.
        assert value is None or msgspec.convert(msgspec.to_builtins(value), type(value)) == value
    times: list[datetime | None] = [session.started_at, session.ended_at, message.timestamp if message else None]
    assert all(time is None or time.tzinfo is not None for time in times)


def gathered(reader: Reader, path: Path) -> dict[str, tuple[Session, dict[str, Message]]]:
    """All that a reader makes of a log, as a store gets it; taken up once more at the end, as sync does."""
    reading = Reading(path)
    found: dict[str, tuple[Session, dict[str, Message]]] = {}
    for _ in range(2):
        with suppress(WarmstartError):
            for session, message in reader.read(path, reading):
                check((session, message))
                held = found.get(session.native_id, (session, {}))[1]
                found[session.native_id] = (session, held)
                if message:
                    held[message.native_id] = message
        state = msgspec.json.decode(msgspec.json.encode(reading.state))
        reading = Reading(path, offset=reading.offset, line=reading.line, state=state)
    return found


def stored(store: SQLiteSessionStore, found: dict[str, tuple[Session, dict[str, Message]]]) -> None:
    """Put it all into a store, look at it, and take it out again."""
    try:
        with store.transaction():
            for session, messages in found.values():
                store.append(session, messages.values())
        kept = sum(len(list(store.messages(session.id))) for session, _ in found.values())
        assert kept == sum(summary.messages for summary in store.list())
    finally:
        with store.transaction():
            for session, _ in found.values():
                store.delete(session.id)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteSessionStore]:
    with closing(SQLiteSessionStore(tmp_path_factory.mktemp("store") / "sessions.db")) as store:
        yield store


def claimants(path: Path) -> set[str]:
    head = path.read_bytes()[:HEAD]
    found = {name: reader.claims(path, head) for name, reader in READERS.items()}
    assert set(found.values()) <= {True, False}
    return {name for name, claimed in found.items() if claimed}


def survive(
    name: str,
    changes: list[tuple[str, int, Any]],
    damages: list[tuple[str, int, bytes]],
    other: str,
    folder: Path,
    store: SQLiteSessionStore,
) -> None:
    seed = SEEDS[name]
    path = write(seed, changed(seed.files, changes), folder, partial(damaged, damages))
    claimants(path)
    for reader in (READERS[seed.agent], READERS[other]):
        stored(store, gathered(reader, path))


@pytest.mark.parametrize("name", SEEDS)
@given(changes=CHANGES, damages=DAMAGES, other=st.sampled_from(sorted(READERS)))
def test_no_damaged_log_breaks_a_reader(
    name: str, changes: list[Any], damages: list[Any], other: str, tmp_path: Path, store: SQLiteSessionStore
) -> None:
    survive(name, changes, damages, other, tmp_path / "log", store)


def fill_every_place(name: str, folder: Path, values: Callable[[int], Iterable[Any]]) -> None:
    seed = SEEDS[name]
    for number in range(len(list(places(seed.files)))):
        for value in values(number):
            read_with(seed, changed(seed.files, [("put", number, value)]), folder)


def crowd_every_object(name: str, folder: Path, values: Callable[[int], Iterable[Any]]) -> None:
    """Give an object every name that there is, at a time one object and one value."""
    seed = SEEDS[name]
    for number, (holder, key) in enumerate(places(seed.files)):
        for value in values(number) if isinstance(holder[key], dict) else ():
            files = deepcopy(seed.files)
            found, place = list(places(files))[number]
            found[place] = dict.fromkeys(NAMES, value) | found[place]
            read_with(seed, files, folder)


def read_with(seed: Seed, files: dict[str, Any], folder: Path) -> None:
    path = write(seed, files, folder)
    claimants(path)
    gathered(READERS[seed.agent], path)


def test_a_field_of_a_wrong_type_does_not_get_through(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in SEEDS:
        with subtests.test(name=name):
            fill_every_place(
                name, tmp_path / "log", lambda number: (WRONG[number % len(WRONG)], f"@[{DEPTHS[number % 12]}")
            )
            crowd_every_object(name, tmp_path / "log", lambda number: (WRONG[number % len(WRONG)],))


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_no_field_of_any_wrong_type_gets_through(name: str, tmp_path: Path) -> None:
    fill_every_place(name, tmp_path / "log", lambda _: WRONG)
    crowd_every_object(name, tmp_path / "log", lambda _: WRONG)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_every_value_of_a_log_may_be_nested_very_deeply(name: str, tmp_path: Path) -> None:
    # In a thread of its own the stack is nearly empty, so it is known how deep a value can be decoded at all.
    with ThreadPoolExecutor(1) as pool:
        brink = range(sys.getrecursionlimit() - 22, sys.getrecursionlimit() - 6)
        pool.submit(fill_every_place, name, tmp_path / "log", lambda _: (f"@{{{depth}" for depth in brink)).result()


def test_a_log_is_claimed_by_its_own_reader_only(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in SEEDS:
        with subtests.test(name=name):
            seed = SEEDS[name]
            assert claimants(write(seed, seed.files, tmp_path / "log")) == {seed.agent}


def test_a_whole_log_is_read_without_a_fault(
    tmp_path: Path, store: SQLiteSessionStore, subtests: pytest.Subtests
) -> None:
    for name in SEEDS:
        with subtests.test(name=name):
            seed = SEEDS[name]
            path = write(seed, seed.files, tmp_path / "log")
            reading = Reading(path)
            assert any(message for _, message in READERS[seed.agent].read(path, reading))
            assert reading.malformed == 0
            stored(store, gathered(READERS[seed.agent], path))


SAMPLE_LOGS = sorted(path for path in SAMPLES.rglob("*") if path.suffix in (".json", ".jsonl"))


def test_a_sample_is_claimed_by_its_own_reader_only(subtests: pytest.Subtests) -> None:
    for path in SAMPLE_LOGS:
        with subtests.test(path=path):
            assert claimants(path) == {path.relative_to(SAMPLES).parts[0]}


FOREIGN: dict[str, bytes] = {
    "empty.jsonl": b"",
    "empty.json": b"",
    "blank.jsonl": b"\n\n\n",
    "readme.md": b"# A title\n\nSome words about `sessionId` and `uuid`.\n",
    "object.json": b"{}",
    "list.json": b"[]",
    "null.json": b"null",
    "text.json": b'"messages"',
    "package.json": b'{"name": "app", "version": "1.0.0", "type": "module", "scripts": {"test": "x"}}',
    "notebook.json": b'{"cells": [{"cell_type": "code", "source": ["x"]}], "metadata": {}, "nbformat": 4}',
    "people.json": b'[{"id": 1, "role": "user", "email": "x"}, {"id": 2, "role": "admin", "email": "y"}]',
    "people.jsonl": b'{"id": 1, "role": "user", "email": "x"}\n{"id": 2, "role": "admin", "email": "y"}\n',
    "chat.json": b'{"messages": [{"type": "message", "user": "U1", "text": "hello", "ts": "1.0"}]}',
    "events.jsonl": b'{"type": "click", "id": "1", "timestamp": "2026-07-01T10:00:00Z", "data": {}}\n',
    "web.jsonl": b'{"type": "page.view", "sessionId": "s1", "timestamp": 1, "payload": {"url": "/"}}\n',
    "spans.jsonl": b'{"traceId": "a", "spanId": "b", "name": "x", "attributes": {"sessionId": "s", "type": "y"}}\n',
    "numbers.jsonl": b"1\n2\n3\n",
    "table.csv": b"type,uuid,sessionId\nuser,1,2\n",
    "state.json": b'{"info": {"id": "x"}, "messages": []}',
    "ses_1.json": b'{"id": "other", "time": 1}',
    "session-1.json": b'{"sessionId": "s", "startTime": "now"}',
    "rollout-x.jsonl": b'{"timestamp": "t", "type": "deploy", "payload": {"image": "x"}}\n',
    "noise.bin": bytes(range(256)) * 4,
}


def test_what_is_no_log_is_claimed_by_nobody(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in FOREIGN:
        with subtests.test(name=name):
            (tmp_path / name).write_bytes(FOREIGN[name])
            assert claimants(tmp_path / name) == set()


def test_a_foreign_database_is_claimed_by_nobody(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.executescript("CREATE TABLE sessions (id, user); CREATE TABLE messages (id, body); CREATE TABLE part (id);")
    assert claimants(tmp_path / "app.db") == set()


def test_a_log_may_lie_under_any_name(tmp_path: Path, store: SQLiteSessionStore, subtests: pytest.Subtests) -> None:
    for name in SEEDS:
        with subtests.test(name=name):
            seed = SEEDS[name]
            folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9 #1?%41&\n"))
            try:
                path = write(seed, seed.files, folder)
            except OSError:
                pytest.skip("this file system wants names in UTF-8")
            plain = gathered(READERS[seed.agent], write(seed, seed.files, tmp_path / "plain"))
            found = gathered(READERS[seed.agent], path)
            assert claimants(path) == {seed.agent}
            assert [len(messages) for _, messages in found.values()] == [
                len(messages) for _, messages in plain.values()
            ]
            stored(store, found)


def test_what_is_not_there_or_no_file_is_one_error(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for agent in READERS:
        with subtests.test(agent=agent):
            for path in (tmp_path / "missing.jsonl", tmp_path / "missing.json", tmp_path / "missing.db", tmp_path):
                with pytest.raises(WarmstartError):
                    list(READERS[agent].read(path, Reading(path)))
