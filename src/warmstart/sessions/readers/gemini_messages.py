"""A record of Gemini CLI as messages: what was said, which tools were called, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from warmstart.sessions.readers.fields import as_dict, as_int, as_json, as_list, as_str, as_text, as_time, usage_of
from warmstart.sessions.values import CallOutcome, Message, ToolCall, ToolResult, Usage

SHELL = "run_shell_command"

_INJECTED = re.compile(r"\s*<(session_context|hook_context)>.*?</\1>\s*", re.DOTALL)
_OPENING = ("<session_context>", "<hook_context>", "This is the Gemini CLI. We are setting up the context")
_CANCELLED = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was cancelled by user")
_TIMED_OUT = re.compile(r"\s*(?:<untrusted_context>\s*)?Command was automatically cancelled")
_TRAILER = ("Exit Code", "Signal", "Background PIDs", "Process Group PGID")


class Record(msgspec.Struct):
    """One line, or one message of a document: a message, facts of the session, or a change to them."""

    id: Any = None
    type: Any = None
    timestamp: Any = None
    content: Any = None
    thoughts: Any = None
    tokens: Any = None
    model: Any = None
    toolCalls: Any = None  # noqa: N815
    sessionId: Any = None  # noqa: N815
    projectHash: Any = None  # noqa: N815
    startTime: Any = None  # noqa: N815
    lastUpdated: Any = None  # noqa: N815
    kind: Any = None
    summary: Any = None
    directories: Any = None
    messages: Any = None
    change: Any = msgspec.field(default=None, name="$set")
    rewind: Any = msgspec.field(default=None, name="$rewindTo")


def _parts(content: object) -> list[dict[str, Any]]:
    listed = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else as_dict(part) for part in listed]


def text_of(content: object, *, thought: bool = False) -> str:
    """The text of a message's parts, put together as Gemini CLI does: without anything between them."""
    texts: list[str] = []
    for part in _parts(content):
        if bool(part.get("thought")) is not thought:
            continue
        data = as_dict(part.get("inlineData") or part.get("fileData"))
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif data:
            texts.append("[image]" if as_str(data.get("mimeType")).startswith("image/") else "[file]")
    return "".join(texts)


def is_summary(text: str) -> bool:
    return "<state_snapshot>" in text and "</state_snapshot>" in text


def user_messages(record: Record, native: str) -> list[Message]:
    text = text_of(record.content)
    if not text.strip():
        return []
    said = text
    while match := _INJECTED.match(said):
        said = said[match.end() :]
    summary = is_summary(text)
    injected = summary or not said.strip() or said.lstrip().startswith(_OPENING)
    return [
        Message(
            native_id=native,
            role="user",
            text=text if injected else said,
            timestamp=as_time(as_str(record.timestamp)),
            compaction_summary=summary,
            injected=injected,
        )
    ]


def assistant_messages(record: Record, native: str) -> list[Message]:
    thoughts = [_thought(as_dict(thought)) for thought in as_list(record.thoughts)]
    reasoning = "\n".join(thought for thought in thoughts if thought) or text_of(record.content, thought=True)
    entries = _calls(record)
    calls = tuple(
        ToolCall(id=key, name=as_str(entry.get("name")), arguments=as_json(entry.get("args") or {}))
        for key, entry in entries.items()
    )
    text = text_of(record.content)
    if not (text or reasoning or calls):
        return []
    tokens = as_dict(record.tokens)
    said = Message(
        native_id=native,
        role="assistant",
        text=text,
        reasoning=reasoning,
        tool_calls=calls,
        timestamp=as_time(as_str(record.timestamp)),
        model=as_str(record.model),
        usage=_usage(tokens),
    )
    return [said, *_results(entries, native)]


def _thought(thought: dict[str, Any]) -> str:
    return ": ".join(part for part in (as_str(thought.get("subject")), as_str(thought.get("description"))) if part)


def _calls(record: Record) -> dict[str, dict[str, Any]]:
    """The calls by id: the recorded ones, and those that only stand among the parts."""
    listed = [as_dict(entry) for entry in as_list(record.toolCalls)]
    listed += [as_dict(part["functionCall"]) for part in _parts(record.content) if "functionCall" in part]
    calls: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(listed):
        if entry:
            calls.setdefault(as_str(entry.get("id")) or f"{as_str(record.id)}#{number}", entry)
    return calls


def _results(entries: Mapping[str, dict[str, Any]], native: str) -> Iterator[Message]:
    for key, entry in entries.items():
        result = _result(key, entry)
        if result is not None:
            yield Message(
                native_id=f"{native}:{key}",
                role="tool",
                tool_results=(result,),
                timestamp=as_time(as_str(entry.get("timestamp"))),
            )


def _result(key: str, entry: dict[str, Any]) -> ToolResult | None:
    status = as_str(entry.get("status"))
    answer = entry.get("result")
    if status not in ("success", "error", "cancelled") and (status or answer is None):
        return None
    text, failed = _answer(key, answer)
    tool = as_str(entry.get("name"))
    cancelled = status == "cancelled"
    flag = None if cancelled else True if failed or status == "error" else False if status else None
    return ToolResult(
        call_id=key,
        outcome="rejected" if cancelled else _outcome(tool, text, flag),
        text=text,
        flag=flag,
        exit_code=_exit_code(text) if tool == SHELL else None,
    )


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is an error. Only a call that was cancelled has none, and stands."""
    if result.flag is None and result.outcome == "rejected":
        return "rejected"
    return _outcome(tool, result.text, result.flag)


def _outcome(tool: str, text: str, flag: bool | None) -> CallOutcome:
    if tool == SHELL:
        if _CANCELLED.match(text):
            return "rejected"
        killed = _trailer(text).get("Signal", "0") not in ("0", "(none)", "")
        if _exit_code(text) or killed or _TIMED_OUT.match(text):
            return "error"
    return "error" if flag else "ok"


def _answer(key: str, answer: object) -> tuple[str, bool]:
    """The text of the answer to the call `key`, and whether it is an error."""
    if isinstance(answer, str):
        return answer, False
    responses = [as_dict(part.get("functionResponse")) for part in _parts(answer) if "functionResponse" in part]
    own = [response for response in responses if response.get("id") == key] or responses[:1]
    texts, failed = [text_of(answer)] if answer else [], False
    for response in own:
        body = as_dict(response.get("response"))
        failed = failed or "error" in body
        field = next((body[name] for name in ("output", "error") if name in body), body or None)
        texts.append(as_text(field))
    return "\n".join(text for text in texts if text), failed


def _exit_code(text: str) -> int | None:
    code = _trailer(text).get("Exit Code", "")
    return int(code) if re.fullmatch(r"-?\d{1,10}", code, re.ASCII) else None


def _trailer(text: str) -> dict[str, str]:
    """The lines that Gemini CLI put after a command's output; the output itself may hold lines that look the same."""
    found: dict[str, str] = {}
    for line in reversed(text[-4000:].splitlines()):
        name, _, value = line.partition(": ")
        if name in _TRAILER and name not in found:
            found[name] = value.strip()
        elif line.strip() not in ("", "</untrusted_context>"):
            break
    return found


def _usage(tokens: dict[str, Any]) -> Usage | None:
    """Gemini counts cached tokens as input too, and thoughts apart from output."""
    read, thought = as_int(tokens.get("cached")) or 0, as_int(tokens.get("thoughts")) or 0
    return usage_of(
        input=(as_int(tokens.get("input")) or 0) - read,
        output=(as_int(tokens.get("output")) or 0) + thought,
        cache_read=read,
        reasoning=thought,
    )
