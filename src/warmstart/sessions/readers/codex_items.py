"""The items of a Codex log: what a payload says of a call, its end, its cost and its session's parent.

Nothing in an output says that its call failed. Shells state an exit code in a header before the text, older ones in an
object around it. Codex itself answers in set phrases, MCP servers with a flag. `judged` reads these; what shows none of
them went well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from warmstart.sessions.readers.fields import as_dict, as_int, as_json, as_str, as_text, from_json, joined, usage_of
from warmstart.sessions.values import CallOutcome, Message, ParentKind, ToolCall, ToolResult, Usage

HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Total output lines|Original token count|Process exited with code"
    r"|Process running with session ID)\b[^\n]*\n?)*(?:Output:\n?)?"
)
EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})", re.MULTILINE)
WALL = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds", re.MULTILINE)
REJECTED = re.compile(
    r"(?:rejected|denied|aborted|declined) by (?:the )?(?:user|configuration)|(?:`|patch) rejected: |; reject command"
    r"|user (?:rejected|cancelled|denied|declined)|requires approval, but|approval review denied"
    r"|cancelled before receiving",
    re.IGNORECASE,
)
FAILED = re.compile(
    r"err(?:or)?:|(?:error (?:calling|executing|while)|tool call error|execution error|failed to|unable to|unsupported"
    r"|timed out|command timed out)\b",
    re.IGNORECASE,
)
# What Codex itself says instead of running a tool has no header.
REFUSED = re.compile(
    r"(?:unknown|invalid|missing)\b|[^\n]{0,160}?\b(?:failed|timed out|denied by sandbox|not found|is not a file"
    r"|is not supported|is unavailable|handler received|stdin is closed)\b",
    re.IGNORECASE,
)
TOOL_SEARCH = "tool_search"
FLAGGED = re.compile(r'"is_?error"\s*:\s*true', re.IGNORECASE)


class Item(msgspec.Struct):
    """Every field of a payload that says something; encrypted reasoning and base instructions are never decoded."""

    type: Any = None
    id: Any = None
    role: Any = None
    content: Any = None
    summary: Any = None
    name: Any = None
    namespace: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    call_id: Any = None
    status: Any = None
    output: Any = None
    tools: Any = None
    message: Any = None
    info: Any = None
    usage: Any = None
    turn_id: Any = None
    model: Any = None
    cwd: Any = None
    git: Any = None
    source: Any = None
    timestamp: Any = None
    cli_version: Any = None
    session_id: Any = None
    forked_from_id: Any = None
    parent_thread_id: Any = None


ITEM = msgspec.json.Decoder(Item)


class Verdict(NamedTuple):
    """What an output says about its call."""

    outcome: CallOutcome
    exit_code: int | None = None
    duration: float | None = None


def judged(text: str, exit_code: int | None = None, flag: bool | None = None) -> Verdict:
    """Tell how a call ended from its output, and from the exit code and the flag for success that stood beside it."""
    header = HEAD.match(text)
    head = header.group() if header else ""
    wall = WALL.search(head)
    duration = float(wall.group(1)) if wall else None
    if exit_code is None and (code := EXIT.search(head)):
        exit_code = int(code.group(1))
    outcome = _outcome_by_words(text, head) if exit_code is None else "error" if exit_code else "ok"
    if flag is False and outcome == "ok":
        outcome = "error"
    return Verdict(outcome, exit_code, duration)


def _outcome_by_words(text: str, head: str) -> CallOutcome:
    if "Process running with session ID" in head:
        return "ok"
    body = text[len(head) : len(head) + 500].lstrip()
    if body[:1] in ("{", "["):
        return "error" if FLAGGED.search(body) or FLAGGED.search(text[-200:]) else "ok"
    if REJECTED.search(body):
        return "rejected"
    return "error" if FAILED.match(body) or (not head and REFUSED.match(body)) else "ok"


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is a success.

    Of what a provider ran itself only a status was logged, which is not kept: there the outcome stands.
    """
    wordless = tool == TOOL_SEARCH or not result.text
    if wordless and result.exit_code is None:
        return result.outcome if result.flag is None else "ok" if result.flag else "error"
    return judged(result.text, result.exit_code, result.flag).outcome


def result_of(call_id: str, output: object) -> ToolResult:
    """The result in an output: text, blocks, or (older) an object with the exit code or a flag beside the text."""
    fields = as_dict(output)
    if isinstance(output, str) and output.startswith('{"output"'):
        fields = as_dict(from_json(output))
    if "output" in fields:
        # JSON inside a string can spell half a character, which no store takes.
        text = as_text(fields["output"]).encode("utf-8", "replace").decode()
        facts = as_dict(fields.get("metadata"))
        code, seconds = as_int(facts.get("exit_code")), as_int(facts.get("duration_seconds"))
        if code is not None:
            outcome = judged(text, code).outcome
            duration = float(facts["duration_seconds"]) if seconds is not None else None
            return ToolResult(call_id=call_id, outcome=outcome, text=text, exit_code=code, duration=duration)
    elif "content" in fields:
        text = joined(fields["content"]) or as_text(fields["content"])
    else:
        text = joined(output) if isinstance(output, str | list) else as_text(output)
    flag = fields["success"] if isinstance(fields.get("success"), bool) else None
    outcome, exit_code, duration = judged(text, flag=flag)
    return ToolResult(call_id=call_id, outcome=outcome, text=text, exit_code=exit_code, duration=duration, flag=flag)


def tools_found(item: Item) -> ToolResult:
    """The result of a search for tools, which lists them; their descriptions say nothing about the search."""
    flag = False if item.status == "failed" else None
    result = ToolResult(call_id=as_str(item.call_id), outcome="ok", text=as_json(item.tools), flag=flag)
    return replace(result, outcome=outcome_of(TOOL_SEARCH, result))


def call_of(item: Item, native_id: str) -> ToolCall | None:
    """The call that an item makes, whichever of the kinds of calls it is."""
    call_id = as_str(item.call_id) or native_id
    kind = as_str(item.type)
    if kind in ("function_call", "custom_tool_call"):
        name, space = as_str(item.name), as_str(item.namespace)
        name = f"{space.rstrip('_')}__{name.lstrip('_')}" if space else name
        given = item.arguments if kind == "function_call" else item.input
        return ToolCall(id=call_id, name=name or kind, arguments=as_text(given))
    if kind == "tool_search_call":
        return ToolCall(id=call_id, name=TOOL_SEARCH, arguments=as_text(item.arguments))
    if kind in ("local_shell_call", "web_search_call", "image_generation_call"):
        return ToolCall(id=call_id, name=kind.removesuffix("_call"), arguments=as_json(item.action or {}))
    return None


def ran_remotely(call: ToolCall, status: str, native_id: str, time: datetime | None) -> Message:
    """The result of a call that the model's provider ran itself: all that is logged is its status."""
    outcome: CallOutcome = "ok" if status == "completed" else "error" if status == "failed" else "unknown"
    result = ToolResult(call_id=call.id, outcome=outcome)
    return Message(native_id=f"{native_id}:result", role="tool", tool_results=(result,), timestamp=time)


def usage_from(counts: Mapping[str, Any]) -> Usage | None:
    """Token counts with the cached ones taken out of the input, where Codex includes them."""
    cached, written = (
        as_int(counts.get("cached_input_tokens")) or 0,
        as_int(counts.get("cache_write_input_tokens")) or 0,
    )
    return usage_of(
        input=(as_int(counts.get("input_tokens")) or 0) - cached - written,
        output=counts.get("output_tokens"),
        cache_read=cached,
        cache_write=written,
        reasoning=counts.get("reasoning_output_tokens"),
    )


def parent_of(item: Item) -> tuple[str, ParentKind] | None:
    """The session that a meta names as its parent. A subagent without one belongs to the session around it."""
    spawn = as_dict(item.source).get("subagent")
    if spawn is not None:
        named = as_dict(as_dict(spawn).get("thread_spawn")).get("parent_thread_id")
        around = item.session_id if item.session_id != item.id else None
        parent = as_str(named) or as_str(item.parent_thread_id) or as_str(item.forked_from_id) or as_str(around)
        return (parent, "subagent") if parent else None
    if parent := as_str(item.parent_thread_id):
        return parent, "subagent"
    return (as_str(item.forked_from_id), "branch") if as_str(item.forked_from_id) else None
