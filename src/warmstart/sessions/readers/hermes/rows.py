"""One row of Hermes' `messages` table, and the messages in it.

- `content` is text, or a NUL byte, `json:` and a list of parts. `api_content` also has what plugins injected, so it is
  not read.
- A summary of compaction is an ordinary row of the user or the assistant. Its opening words show it (or the column
  `_compressed_summary` of later versions). It may share its row with an older message, before or after it, whose tool
  calls are then still in the row. Such a row becomes two messages.
- No column says that a tool failed. Results are JSON objects with `error`, `success` or `exit_code`, where a failing
  command has `"error": null`, or plain text with known openings. Hermes explains exit codes that are not errors (grep
  that finds nothing) in `exit_code_meaning`.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, NamedTuple

from warmstart.sessions.readers.fields import (
    as_dict,
    as_int,
    as_list,
    as_str,
    as_text,
    as_time,
    from_json,
    joined,
    usage_of,
)
from warmstart.sessions.readers.openai import FAILED
from warmstart.sessions.values import CallOutcome, Message, Role, ToolCall, ToolResult

SUMMARY_OPENINGS = ("[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:")
# Hermes appends the open tasks as a message of the user when it compacts.
TASKS_OPENING = "[Your active task list was preserved across context compression]"

_PARTS = "\0json:"
_BEFORE = "[PRIOR CONTEXT — for reference only; not a new message]"
_BELOW = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
_END = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"

_REFUSED = re.compile(
    r"BLOCKED: User denied|denied by user|NOT consented|explicitly rejected it"
    r"|Tool execution cancelled|was skipped due to user interrupt",
    re.IGNORECASE,
)
# Hermes also explains exit codes that are errors (curl's) or may be (git's).
_HARMLESS = re.compile(r"not an error|partial results", re.IGNORECASE)


class Row(NamedTuple):
    """A row from SQLite: any column may be missing (`None`) or of any type."""

    id: int
    session_id: Any
    role: Any
    content: Any
    tool_call_id: Any
    tool_calls: Any
    timestamp: Any
    token_count: Any
    reasoning: Any
    reasoning_content: Any
    active: Any
    compacted: Any
    compressed_summary: Any
    display_kind: Any

    @property
    def undone(self) -> bool:
        """Undone by the user: neither active nor summarised."""
        return self.active == 0 and not self.compacted


# A named tuple cannot have a field that begins with an underscore.
COLUMNS = tuple("_compressed_summary" if name == "compressed_summary" else name for name in Row._fields[1:])


class Body(NamedTuple):
    """A row's own text, its calls, and a summary that shares the row; `leading` means that the summary comes first."""

    text: str
    calls: tuple[ToolCall, ...]
    summary: str
    leading: bool = False

    @property
    def empty(self) -> bool:
        return not self.text and not self.calls


def body_of(row: Row) -> Body:
    """The parts of a row's content."""
    text = text_of(row.content)
    calls = calls_of(row.tool_calls)
    if row.role == "tool":
        return Body(text, (), "")
    if _BELOW in text:
        own, _, rest = text.partition(_BELOW)
        if row.compressed_summary or rest.lstrip().startswith(SUMMARY_OPENINGS):
            return Body(own.strip().removeprefix(_BEFORE).strip(), calls, rest.strip())
    if text.lstrip().startswith(SUMMARY_OPENINGS):
        summary, _, own = text.partition(_END)
        return Body(own.strip(), calls, summary.strip(), leading=True)
    if row.compressed_summary:
        return Body("", calls, text)
    return Body(text, calls, "")


def text_of(content: object) -> str:
    """The text of a `content` cell."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    if isinstance(content, str) and content.startswith(_PARTS):
        parts = from_json(content[len(_PARTS) :])
        content = content if parts is None else joined(parts) if isinstance(parts, list) else as_text(parts)
    return clean(as_text(content))


def calls_of(cell: object) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant's row; the id that results refer to is `call_id` where there are two."""
    calls: list[ToolCall] = []
    for item in as_list(from_json(cell)):
        fields = as_dict(item)
        function = as_dict(fields.get("function")) or fields
        name = as_str(function.get("name"))
        identity = as_str(fields.get("call_id")) or as_str(fields.get("id"))
        if name or identity:
            arguments = clean(as_text(function.get("arguments")) or "{}")
            calls.append(ToolCall(id=clean(identity), name=clean(name), arguments=arguments))
    return tuple(calls)


def own_message(row: Row, body: Body, root: str, *, sidechain: bool) -> Message:
    """The message of a row, without the summary that may share its row."""
    reasoning = as_str(row.reasoning) or as_str(row.reasoning_content)
    common: dict[str, Any] = {"timestamp": as_time(row.timestamp), "sidechain": sidechain}
    identity = _identity(row, body, root)
    if row.role == "tool":
        result = result_of(as_text(row.tool_call_id), body.text)
        return Message(native_id=identity, role="tool", tool_results=(result,), **common)
    if row.role == "assistant":
        usage = usage_of(output=row.token_count)
        return Message(
            native_id=identity,
            role="assistant",
            text=body.text,
            reasoning=reasoning,
            tool_calls=body.calls,
            usage=usage,
            **common,
        )
    injected = row.display_kind == "hidden" or body.text.startswith(TASKS_OPENING)
    role: Role = "system" if row.role == "system" else "user"
    return Message(native_id=identity, role=role, text=body.text, injected=injected, **common)


def summary_message(row: Row, body: Body, root: str, *, sidechain: bool) -> Message:
    """The summary in a row. Its text is its identity: the next compaction may repeat it unchanged."""
    return Message(
        native_id=digest(root, "summary", body.summary),
        role="assistant" if row.role == "assistant" else "user",
        text=body.summary,
        timestamp=as_time(row.timestamp),
        compaction_summary=True,
        sidechain=sidechain,
    )


def _identity(row: Row, body: Body, root: str) -> str:
    """Ids of calls are unique, so only rows without one need their time."""
    calls = as_text(row.tool_calls) if body.calls else ""
    call = as_text(row.tool_call_id)
    moment = "" if calls or call else repr(row.timestamp)
    return digest(root, as_text(row.role), call, calls, body.text, moment)


def digest(*parts: str) -> str:
    """A short hash of texts."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.hexdigest()


def clean(text: str) -> str:
    """Text without halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def result_of(call_id: str, text: str) -> ToolResult:
    """The result of a call, by the tool's answer."""
    fields = _fields(text)
    code = as_int(fields.get("exit_code"))
    success = fields.get("success")
    flag = success if isinstance(success, bool) else False if fields.get("error") else None
    return ToolResult(call_id=call_id, outcome=_outcome(fields, text, code, flag), text=text, flag=flag, exit_code=code)


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """The outcome of a stored result; `flag` means success."""
    return _outcome(_fields(result.text), result.text, result.exit_code, result.flag)


def _fields(text: str) -> dict[str, Any]:
    return as_dict(from_json(text)) if text.lstrip()[:1] == "{" else {}


def _outcome(fields: dict[str, Any], text: str, code: int | None, flag: bool | None) -> CallOutcome:
    if not fields:
        if _REFUSED.match(text.lstrip("[ \n")):
            return "rejected"
        # The object may be unreadable since redaction; what was read from it before still counts.
        return "error" if code or flag is False or FAILED.match(text) else "ok"
    complaint = as_text(fields.get("error"))
    refused = fields.get("status") == "blocked" and complaint.startswith("BLOCKED")
    if refused or _REFUSED.search(complaint[:2000]):
        return "rejected"
    if fields.get("approval_pending") is True:
        return "unknown"
    if complaint and fields.get("error") not in (False, [], {}):
        return "error"
    if code and not _HARMLESS.search(as_str(fields.get("exit_code_meaning"))):
        return "error"
    return "error" if flag is False else "ok"
