"""One chat message in the OpenAI shape, whatever program wrote it: roles, calls, results and how a failure shows.

The traps:

- A result says nowhere in the standard whether the call failed. tau2 adds `error`, tau-bench begins the text with
  `Error:`, tools that answer in JSON put `error`, `success` or `exit_code` into it, and programs that run agents have
  phrases of their own for a tool that is not there. A flag outweighs words, and an exit code outweighs both.
- Calls come as `{id, function: {name, arguments: text}}`, as `{id, name, arguments: object}` (tau2), and in the old
  shape as one `function_call` without an id, answered by role `function`: the answer goes to the call that waits.
- tau2 notes the token usage of the simulated user on the user's messages: only the assistant's count. Where that user
  calls tools of its own, the calls stay on the user's message, so that they are not taken for the agent's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from warmstart.sessions.readers.base import Reading
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
from warmstart.sessions.values import CallOutcome, Message, Role, ToolCall, ToolResult, Usage

Fields = dict[str, Any]

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

_REJECTED = re.compile(
    r"\s*(?:error:\s*)?(?:the )?user (?:has )?(?:denied|rejected|declined|(?:does not|doesn.t|did not|didn.t) want)\b",
    re.IGNORECASE,
)
FAILED = re.compile(
    r"\s*(?:Error:|Error executing\b|Traceback \(most recent call last\)|<tool_use_error>"
    r"|Tool '[^'\n]{0,200}' (?:does not exist|not found)\b|Unknown tool:)"
)
_EXIT = re.compile(r"\s*(?:Error: )?Exit code:? (-?\d{1,9})\b", re.IGNORECASE)


class Verdict(NamedTuple):
    """What a result came to, and what the log itself said of it."""

    outcome: CallOutcome
    flag: bool | None = None
    exit_code: int | None = None


@dataclass(slots=True)
class Thread:
    """The messages of one session in the making: the next place, and the calls that wait for a result."""

    native_id: str
    model: str = ""
    position: int = 0
    waiting: list[list[str]] = field(default_factory=list)

    def message(self, item: object, reading: Reading) -> Message | None:
        """The next message, or `None` when the item is none; it takes a place either way."""
        native_id = f"{self.native_id}#{self.position}"
        self.position += 1
        fields = as_dict(item)
        role = ROLES.get(as_str(fields.get("role")).lower())
        if role is None:
            reading.skip(as_str(fields.get("role")) or "no role")
            return None
        if role == "tool":
            result = self._result(fields, native_id)
            return Message(native_id=native_id, role=role, tool_results=(result,), timestamp=moment(fields))
        calls = _calls(fields, native_id)
        if calls:
            self.waiting = [[call.id, call.name] for call in calls]
        text = _content(fields.get("content"))
        is_model = role == "assistant"
        return Message(
            native_id=native_id,
            role=role,
            text=text or as_str(fields.get("refusal")),
            reasoning=joined(fields.get("reasoning") or fields.get("reasoning_content")),
            tool_calls=calls,
            timestamp=moment(fields),
            model=(as_str(fields.get("model")) or self.model) if is_model else "",
            usage=usage(fields.get("usage")) if is_model else None,
        )

    def _result(self, fields: Fields, native_id: str) -> ToolResult:
        call_id = named(fields.get("tool_call_id")) or self._answered(fields) or f"{native_id}.0"
        self.waiting = [call for call in self.waiting if call[0] != call_id]
        text = _content(fields.get("content"))
        verdict = verdict_of(fields, text)
        return ToolResult(
            call_id=call_id, outcome=verdict.outcome, text=text, flag=verdict.flag, exit_code=verdict.exit_code
        )

    def _answered(self, fields: Fields) -> str:
        """The call that a result without `tool_call_id` answers: the one it names, else the first that waits."""
        own, name = named(fields.get("id")), as_str(fields.get("name"))
        waiting = [call_id for call_id, _ in self.waiting]
        if own and (own in waiting or not waiting):
            return own
        by_name = [call_id for call_id, called in self.waiting if name and called == name]
        return next(iter(by_name or waiting), "")


def named(value: object) -> str:
    """An id as text, whether it was written as text or as a number."""
    number = as_int(value)
    return as_str(value) if number is None else str(number)


def moment(fields: Fields) -> datetime | None:
    """When a message was written, under any of the names in use."""
    for key in ("timestamp", "created_at", "created"):
        if found := as_time(fields.get(key)):
            return found
    return None


def usage(value: object) -> Usage | None:
    """The token counts of a response; the API counts what was read from the cache as input too."""
    counts = as_dict(value)
    read = as_int(as_dict(counts.get("prompt_tokens_details")).get("cached_tokens")) or 0
    return usage_of(
        input=(as_int(counts.get("prompt_tokens")) or 0) - read,
        output=counts.get("completion_tokens"),
        cache_read=read,
        reasoning=as_dict(counts.get("completion_tokens_details")).get("reasoning_tokens"),
    )


def _content(value: object) -> str:
    return joined(value) if isinstance(value, list) else as_text(value)


def _calls(fields: Fields, native_id: str) -> tuple[ToolCall, ...]:
    found = as_list(fields.get("tool_calls"))
    if legacy := as_dict(fields.get("function_call")):
        found = [*found, legacy]
    return tuple(_call(as_dict(item), f"{native_id}.{index}") for index, item in enumerate(found) if as_dict(item))


def _call(item: Fields, fallback: str) -> ToolCall:
    body = as_dict(item.get("function")) or as_dict(item.get("custom")) or item
    arguments = as_text(body.get("arguments", body.get("input")))
    return ToolCall(id=named(item.get("id")) or fallback, name=as_str(body.get("name")), arguments=arguments or "{}")


def verdict_of(fields: Fields, text: str) -> Verdict:
    """How a call ended, from the flags beside its result and from the result's own words."""
    body = _body(text)
    flag, exit_code = _flag(fields), _exit_code(body, text)
    return Verdict(_outcome(body, text, flag, exit_code), flag, exit_code)


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is an error."""
    return _outcome(_body(result.text), result.text, result.flag, result.exit_code)


def _body(text: str) -> Fields:
    return as_dict(from_json(text)) if text.lstrip()[:1] == "{" else {}


def _outcome(body: Fields, text: str, flag: bool | None, exit_code: int | None) -> CallOutcome:
    complaint = body.get("error")
    if _REJECTED.match(text) or _REJECTED.match(as_str(complaint)):
        return "rejected"
    if exit_code:
        return "error"
    if flag is not None:
        return "error" if flag else "ok"
    failed = bool(complaint) or body.get("success") is False or FAILED.match(text) is not None
    return "error" if failed else "ok"


def _flag(fields: Fields) -> bool | None:
    for key in ("error", "is_error"):
        value = fields.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value:
            return True
    return True if fields.get("status") == "error" else None


def _exit_code(body: Fields, text: str) -> int | None:
    for key in ("exit_code", "exitCode", "returncode"):
        if (code := as_int(body.get(key))) is not None:
            return code
    found = _EXIT.match(text)
    return int(found[1]) if found else None
