"""Codex rollouts: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, a `{timestamp, type, payload}` a line.

Traps of the format:

- One model response spans several lines (reasoning, text, calls). They become one message, which is open until its
  token count, the next response or the end of the turn; meanwhile the place to continue from stays at its first line.
- The token count follows the outputs of the calls, or precedes them in newer logs, so outputs wait for the open
  message. A count that repeats the last total belongs to an older response and is ignored.
- No output says that its call failed. Shells put an exit code into a header before the text, older ones into an object
  around it; Codex itself answers in fixed phrases, MCP servers with a flag. The event that ends a call counts more. It
  comes before the output, or after it where the shell continues in the background.
- A compaction's summary is first logged as an answer, and only the `compacted` line says so: a text without calls stays
  open after its count.
- `event_msg` repeats `response_item`. Its texts count only until the log shows a `response_item`.
- A fork copies its parent's log behind its own `session_meta`. The first meta names the session, others its ancestors.
  A copied turn belongs to the youngest ancestor that is older than the turn: all these ids are UUIDv7.
- Ids from OpenAI are unique, but a local model server may count from one, so short ids are not used.
- Before 0.30 a line was the bare payload, and the first one a header without a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warmstart.sessions.readers.base import LogReader, Pair, Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line, decode
from warmstart.sessions.readers.fields import (
    as_dict,
    as_int,
    as_json,
    as_list,
    as_str,
    as_text,
    as_time,
    from_json,
    join_blocks,
    joined,
    usage_of,
)
from warmstart.sessions.readers.transcript import UUID, Transcript, id_in_name
from warmstart.sessions.values import CallOutcome, Message, ParentKind, ToolCall, ToolResult, Usage

AGENT = "codex"
MIN_ID = 24  # characters of an id that is unique
MAX_OPEN = 500  # items of an open response, ends of calls, ancestors

_RECORDS = {"session_meta", "response_item", "turn_context", "event_msg", "compacted", "world_state"}
_SUMMARY = "Another language model started to solve this problem"
_INJECTED = re.compile(
    r"\s*(?:# AGENTS\.md instructions|<(?:INSTRUCTIONS>|codex_internal_context|collaboration_mode>|environment_context>"
    r"|external_|goal_context>|hook_prompt|model_switch>|permissions instructions>|recommended_plugins>|skill>"
    r"|skills_instructions>|subagent_notification>|turn_aborted>|user_action>|user_instructions>|user_shell_command>)"
    r"|Warning: (?:The maximum number of unified exec processes|apply_patch was requested via|Your account was flagged)"
    r"|You are performing a CONTEXT CHECKPOINT COMPACTION)"
)
_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Total output lines|Original token count|Process exited with code"
    r"|Process running with session ID)\b[^\n]*\n?)*(?:Output:\n?)?"
)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})", re.MULTILINE)
_WALL = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds", re.MULTILINE)
# A patch that was sent to a shell has its own header behind that of the shell.
_INNER = re.compile(r"\s*Exit code: (-?\d{1,10})\nWall time: (\d{1,9}(?:\.\d{1,9})?) seconds")
_REJECTED = re.compile(
    r"(?:rejected|denied|aborted|declined) by (?:the )?(?:user|configuration)|(?:`|patch) rejected: |; reject command"
    r"|user (?:rejected|cancelled|denied|declined)|requires approval, but|approval review denied"
    r"|cancelled before receiving",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"err(?:or)?:|(?:error (?:calling|executing|while)|tool call error|execution error|failed to|unable to|unsupported"
    r"|timed out|command timed out)\b",
    re.IGNORECASE,
)
# Where Codex answers instead of running a tool, there is no header.
_NOT_RUN = re.compile(
    r"(?:unknown|invalid|missing)\b|[^\n]{0,160}?\b(?:failed|timed out|denied by sandbox|not found|is not a file"
    r"|is not supported|is unavailable|handler received|stdin is closed)\b",
    re.IGNORECASE,
)
_IS_ERROR = re.compile(r'"is_?error"\s*:\s*true', re.IGNORECASE)
_ENDS = ("item_completed", "mcp_tool_call_end", "exec_command_end", "patch_apply_end", "dynamic_tool_call_response")
_TOOL_SEARCH = "tool_search"


class Record(msgspec.Struct):
    """One line. The payload stays raw: most kinds are skipped unread, and its bytes are the id of what has none."""

    type: Any = None
    timestamp: Any = None
    id: Any = None
    payload: msgspec.Raw = msgspec.Raw()


_Item = dict[str, Any]
_RECORD = msgspec.json.Decoder(Record)
_ITEM = msgspec.json.Decoder(dict[str, Any])


class CodexReader(LogReader):
    """Reads the rollouts of Codex."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        base = Path(env.get("CODEX_HOME") or home / ".codex")
        return [base / "sessions", base / "archived_sessions"]

    def is_log(self, name: str) -> bool:
        return name.endswith(".jsonl") and (name.startswith("rollout-") or UUID.fullmatch(name[:-6]) is not None)

    def claims(self, path: Path, head: bytes) -> bool:
        first, whole, _ = head.lstrip().partition(b"\n")
        try:
            record = _RECORD.decode(first)
        except DECODE_ERRORS:
            start = first[:400]
            return not whole and b'"session_meta"' in start and b'"payload"' in start
        if bytes(record.payload):
            return bytes(record.payload).startswith(b"{") and as_str(record.type) in _RECORDS
        return record.type is None and bool(UUID.fullmatch(as_str(record.id))) and b'"instructions"' in first

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        return _Rollout(path, reading).pairs()

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means success. Some outcomes stand: a refusal by event, a status without text or exit code."""
        if result.flag is False and result.outcome == "rejected":
            return "rejected"
        if (tool == _TOOL_SEARCH or not result.text) and result.exit_code is None:
            return result.outcome if result.flag is None else "ok" if result.flag else "error"
        return verdict_of(result.text, result.exit_code, result.flag).outcome


@dataclass(slots=True)
class _Response:
    """A model response that may not be complete yet, and the messages that came in between."""

    native_id: str
    timestamp: datetime | None
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    later: list[Message] = field(default_factory=list)
    usage: Usage | None = None
    summary: bool = False
    answered: bool = False
    items: int = 0

    @property
    def text(self) -> str:
        return join_blocks("\n\n", self.texts)


class _Rollout(Transcript[Record]):
    agent = AGENT
    decoder = _RECORD

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.open: _Response | None = None
        # `move` puts these into the state: before that, the place to continue from is in front of them.
        self.total: int | None = self.state.get("total")
        self.ends = {call: _End(*end) for call, end in as_dict(self.state.get("ends")).items()}
        self.handlers = {
            "session_meta": self.meta,
            "turn_context": self.start_turn,
            "compacted": self.compact,
            "event_msg": self.event,
            "token_usage_record": self.count,
            "response_item": self.item,
        }
        if "id" not in self.state:
            self.learn(id=id_in_name(path.stem))

    def take(self, record: Record, line: Line) -> Iterator[Pair]:
        raw, kind = bytes(record.payload), as_str(record.type)
        if not raw:
            raw = line.data.strip()
            kind = "response_item" if kind else "session_meta" if as_str(record.id) else ""
        handler = self.handlers.get(kind)
        if not handler:
            self.reading.skip(kind or "?")
            return
        try:
            item = decode(raw, _ITEM)
        except DECODE_ERRORS as error:
            self.reading.report(line.number, error, start=line.start)
            return
        native_id = as_str(item.get("id"))
        if len(native_id) < MIN_ID:
            moment = as_str(record.timestamp) or f"{self.state['id']}:{line.start}"
            native_id = blake2b(moment.encode() + b"\0" + raw, digest_size=16).hexdigest()
        self.native_id, self.time = native_id, as_time(record.timestamp)
        yield from handler(item)

    def move(self, line: Line) -> None:
        if not self.open:
            super().move(line)
            self.state["total"], self.state["ends"] = self.total, self.ends

    def finish(self) -> Iterator[Pair]:
        return self.close()

    def pair(self, message: Message) -> Pair:
        return super().pair(replace(message, origin=self.state.get("origin", "")))

    # Facts

    def meta(self, item: _Item) -> Iterator[Pair]:
        yield from self.close()
        state, native_id = self.state, as_str(item.get("id"))
        if native_id and state.setdefault("named", native_id) != native_id:
            if native_id not in state.setdefault("ancestors", []):
                state["ancestors"] = [*state["ancestors"], native_id][-MAX_OPEN:]
            if "parent" not in state:
                self.set_parent(native_id, "branch")
            return
        state.setdefault("started", as_str(item.get("timestamp")) or (self.time.isoformat() if self.time else ""))
        self.learn(
            id=native_id,
            cwd=item.get("cwd"),
            version=item.get("cli_version"),
            branch=as_dict(item.get("git")).get("branch"),
        )
        if parent := _parent(item):
            self.set_parent(*parent)

    def start_turn(self, item: _Item) -> Iterator[Pair]:
        yield from self.close()
        self.find_origin(item.get("turn_id"))
        self.learn(cwd=item.get("cwd"), model=item.get("model"))

    def find_origin(self, turn_id: object) -> None:
        """Note who wrote the turn that begins: this session, or the youngest ancestor that is older than the turn."""
        turn, own = as_str(turn_id), self.state["id"]
        if turn[14:15] == own[14:15] == "7" and self.state.get("ancestors"):
            older = [one for one in (own, *self.state["ancestors"]) if one[14:15] == "7" and one <= turn]
            writer = max(older, default=self.state["ancestors"][-1])
            self.state["origin"] = "" if writer == own else writer

    # Events

    def compact(self, item: _Item) -> Iterator[Pair]:
        text = as_text(item.get("message"))
        if self.open and (answer := self.open.text.strip()):
            self.open.summary = answer == text.strip() or (text.startswith(_SUMMARY) and answer in text)
        yield from self.close()
        yield self.pair(self.message("user", text, compaction_summary=True))

    def event(self, item: _Item) -> Iterator[Pair]:
        kind = as_str(item.get("type"))
        if kind == "token_count":
            yield from self.count(item)
        elif kind in ("task_started", "task_complete", "turn_aborted"):
            yield from self.close()
            self.ends = {}
            if kind == "task_started":
                self.find_origin(item.get("turn_id"))
            self.reading.skip(kind)
        elif kind == "user_message" and not self.state.get("items"):
            yield self.pair(self.user_message(as_text(item.get("message"))))
        elif kind == "agent_message" and not self.state.get("items"):
            yield self.pair(self.message("assistant", as_text(item.get("message")), model=self.session.model))
        else:
            if found := _end(item):
                self.end_call(*found)
            self.reading.skip(kind or "event_msg")

    def end_call(self, call: str, end: _End) -> None:
        """Note how a call ended, also in its result where that came first."""
        self.ends = dict(list({**self.ends, call: end}.items())[-MAX_OPEN:])
        if self.open:
            self.open.later = [self.with_ends(message) for message in self.open.later]

    def with_ends(self, message: Message) -> Message:
        """The message with what is known about the ends of the calls that it answers."""
        results = message.tool_results
        if not any(result.call_id in self.ends for result in results):
            return message
        known = (_with_end(one, self.ends[one.call_id]) if one.call_id in self.ends else one for one in results)
        return replace(message, tool_results=tuple(known))

    def count(self, item: _Item) -> Iterator[Pair]:
        """Close the open response with its token usage."""
        info = as_dict(item.get("info"))
        total = as_int(as_dict(info.get("total_token_usage")).get("total_tokens"))
        if total is not None and total == self.total:
            self.reading.skip("token_count")
            return
        usage = _usage(as_dict(item.get("usage")) or as_dict(info.get("last_token_usage")))
        if usage and self.open and self.open.text and not (self.open.calls or self.open.answered):
            self.open.usage, self.open.answered = usage, True
        elif usage:
            yield from self.close(usage)
        self.total = self.total if total is None else total

    # Responses

    def item(self, item: _Item) -> Iterator[Pair]:
        self.state["items"] = True
        kind, role = as_str(item.get("type")), as_str(item.get("role"))
        if kind == "reasoning" or (kind == "message" and role == "assistant") or kind.endswith("_call"):
            yield from self.respond(item)
        elif kind.endswith("_output"):
            yield from self.answer(item)
        elif kind == "message" and role in ("developer", "system"):
            yield from self.add_later(self.message("system", joined(item.get("content"))))
        elif kind == "message":
            yield from self.close()
            yield self.pair(self.user_message(item.get("content")))
        elif kind == "agent_message":
            yield from self.close()
            yield self.pair(self.message("user", joined(item.get("content")), injected=True))
        else:
            self.reading.skip(kind or "response_item")

    def respond(self, item: _Item) -> Iterator[Pair]:
        if self.open and (self.open.answered or self.open.items >= MAX_OPEN):
            yield from self.close()
        self.open = self.open or _Response(self.native_id, self.time)
        response = self.open
        response.items += 1
        if item.get("type") == "reasoning":
            response.reasoning += (joined(item.get("summary")), joined(item.get("content")))
        elif item.get("type") == "message":
            response.texts.append(joined(item.get("content")))
        elif call := _call(item, self.native_id):
            response.calls.append(call)
            status = as_str(item.get("status"))
            if status and item.get("type") in ("web_search_call", "image_generation_call"):
                # The model's provider ran the call, and logged nothing but a status.
                outcome: CallOutcome = "ok" if status == "completed" else "error" if status == "failed" else "unknown"
                result = self.message("tool", tool_results=(ToolResult(call_id=call.id, outcome=outcome),))
                response.later.append(replace(result, native_id=f"{self.native_id}:result"))

    def answer(self, item: _Item) -> Iterator[Pair]:
        if item.get("output") is None and item.get("tools") is not None:
            # A search for tools: its result is a list of tools, whose words say nothing about the search.
            flag = False if item.get("status") == "failed" else None
            outcome: CallOutcome = "ok" if flag is None else "error"
            text = as_json(item.get("tools"))
            result = ToolResult(call_id=as_str(item.get("call_id")), outcome=outcome, text=text, flag=flag)
        else:
            result = result_of(as_str(item.get("call_id")), item.get("output"))
        self.open = self.open or _Response(self.native_id, self.time)
        self.open.answered = True
        yield from self.add_later(self.with_ends(self.message("tool", tool_results=(result,))))

    def add_later(self, message: Message) -> Iterator[Pair]:
        """Yield a message that does not end the open response behind the response."""
        if self.open and self.open.items < MAX_OPEN:
            self.open.items += 1
            self.open.later.append(message)
            return
        yield from self.close()
        yield self.pair(message)

    def close(self, usage: Usage | None = None) -> Iterator[Pair]:
        response = self.open
        if not response:
            return
        message = Message(
            native_id=response.native_id,
            role="assistant",
            text=response.text,
            reasoning=join_blocks("\n\n", response.reasoning),
            tool_calls=tuple(response.calls),
            timestamp=response.timestamp,
            model=self.session.model,
            usage=response.usage or usage,
            compaction_summary=response.summary,
        )
        # Encrypted reasoning alone is not a message.
        if message.text or message.reasoning or message.tool_calls:
            yield self.pair(message)
        for later in response.later:
            yield self.pair(later)
        self.open = None

    def user_message(self, content: object) -> Message:
        text = joined(content)
        blocks = [content] if isinstance(content, str) else [as_dict(block).get("text") for block in as_list(content)]
        injected = any(_INJECTED.match(as_str(block)) for block in blocks)
        return self.message("user", text, injected=injected, compaction_summary=text.lstrip().startswith(_SUMMARY))


def _parent(item: _Item) -> tuple[str, ParentKind] | None:
    """The parent that a meta names. A subagent that names none belongs to the session around it."""
    spawn = as_dict(item.get("source")).get("subagent")
    if spawn is not None:
        named = as_dict(as_dict(spawn).get("thread_spawn")).get("parent_thread_id")
        around = item.get("session_id") if item.get("session_id") != item.get("id") else None
        parent = (
            as_str(named)
            or as_str(item.get("parent_thread_id"))
            or as_str(item.get("forked_from_id"))
            or as_str(around)
        )
        return (parent, "subagent") if parent else None
    if parent := as_str(item.get("parent_thread_id")):
        return parent, "subagent"
    return (as_str(item.get("forked_from_id")), "branch") if as_str(item.get("forked_from_id")) else None


def _usage(counts: Mapping[str, Any]) -> Usage | None:
    """Codex counts cached tokens as input too."""
    cached = as_int(counts.get("cached_input_tokens")) or 0
    written = as_int(counts.get("cache_write_input_tokens")) or 0
    return usage_of(
        input=(as_int(counts.get("input_tokens")) or 0) - cached - written,
        output=counts.get("output_tokens"),
        cache_read=cached,
        cache_write=written,
        reasoning=counts.get("reasoning_output_tokens"),
    )


def _call(item: _Item, native_id: str) -> ToolCall | None:
    call_id, kind = as_str(item.get("call_id")) or native_id, as_str(item.get("type"))
    if kind in ("function_call", "custom_tool_call"):
        name, space = as_str(item.get("name")), as_str(item.get("namespace"))
        name = f"{space.rstrip('_')}__{name.lstrip('_')}" if space else name
        given = item.get("arguments") if kind == "function_call" else item.get("input")
        return ToolCall(id=call_id, name=name or kind, arguments=as_text(given))
    if kind == "tool_search_call":
        return ToolCall(id=call_id, name=_TOOL_SEARCH, arguments=as_text(item.get("arguments")))
    if kind in ("local_shell_call", "web_search_call", "image_generation_call"):
        return ToolCall(id=call_id, name=kind.removesuffix("_call"), arguments=as_json(item.get("action") or {}))
    return None


# Results


def result_of(call_id: str, output: object) -> ToolResult:
    """The result in an output: text, blocks, or (older) an object with an exit code or a flag beside the text."""
    fields, code, seconds = as_dict(output), None, None
    if isinstance(output, str) and output.startswith('{"output"'):
        fields = as_dict(from_json(output))
    if "output" in fields:
        # JSON inside a string can contain half a surrogate pair.
        text = as_text(fields["output"]).encode("utf-8", "replace").decode()
        facts = as_dict(fields.get("metadata"))
        code, seconds = as_int(facts.get("exit_code")), as_int(facts.get("duration_seconds"))
        if code is not None:
            duration = float(facts["duration_seconds"]) if seconds is not None else None
            outcome = verdict_of(text, code).outcome
            return ToolResult(call_id=call_id, outcome=outcome, text=text, exit_code=code, duration=duration)
    elif "content" in fields:
        text = joined(fields["content"]) or as_text(fields["content"])
    else:
        text = joined(output) if isinstance(output, str | list) else as_text(output)
    flag = fields["success"] if isinstance(fields.get("success"), bool) else None
    outcome, exit_code, duration = verdict_of(text, flag=flag)
    return ToolResult(call_id=call_id, outcome=outcome, text=text, exit_code=exit_code, duration=duration, flag=flag)


class _End(NamedTuple):
    """What an event says about the end of a call; `flag` means success."""

    flag: bool | None
    exit_code: int | None
    duration: float | None
    declined: bool


def _end(item: _Item) -> tuple[str, _End] | None:
    """The call whose end an event reports, and how it ended."""
    if item.get("type") not in _ENDS:
        return None
    fields = as_dict(item.get("item")) if item.get("type") == "item_completed" else item
    call = as_str(fields.get("call_id")) or as_str(fields.get("id"))
    if not call:
        return None
    result, status = as_dict(fields.get("result")), as_str(fields.get("status"))
    answer = as_dict(result.get("Ok", result))
    problem = as_text(result.get("Err")) or as_text(fields.get("error"))
    success = fields.get("success") is not False and answer.get("isError") is not True and not problem
    flag = status not in ("failed", "declined") and success
    declined = status == "declined" or bool(_REJECTED.search(problem))
    time = as_dict(fields.get("duration"))
    seconds, nanos = as_int(time.get("secs")), as_int(time.get("nanos")) or 0
    duration = None if seconds is None else seconds + nanos / 1e9
    return call, _End(flag, as_int(fields.get("exit_code")), duration, declined)


def _with_end(result: ToolResult, end: _End) -> ToolResult:
    exit_code = None if end.declined else result.exit_code if end.exit_code is None else end.exit_code
    outcome = "rejected" if end.declined else verdict_of(result.text, exit_code, end.flag).outcome
    duration = result.duration if end.duration is None else end.duration
    return replace(result, outcome=outcome, exit_code=exit_code, duration=duration, flag=end.flag)


class _Verdict(NamedTuple):
    outcome: CallOutcome
    exit_code: int | None = None
    duration: float | None = None


def verdict_of(text: str, exit_code: int | None = None, flag: bool | None = None) -> _Verdict:
    """How a call ended, by its output and by the exit code and the success flag beside the output."""
    header = _HEAD.match(text)
    head = header.group() if header else ""
    wall = _WALL.search(head)
    duration = float(wall.group(1)) if wall else None
    if exit_code is None and (code := _EXIT.search(head)):
        exit_code = int(code.group(1))
    elif exit_code is None and head and (inner := _INNER.match(text, len(head))):
        exit_code, duration = int(inner.group(1)), float(inner.group(2))
    outcome = _outcome_by_words(text, head) if exit_code is None else "error" if exit_code else "ok"
    if flag is False and outcome == "ok":
        outcome = "error"
    return _Verdict(outcome, exit_code, duration)


def _outcome_by_words(text: str, head: str) -> CallOutcome:
    if "Process running with session ID" in head:
        return "ok"
    body = text[len(head) : len(head) + 500].lstrip()
    if body[:1] in ("{", "["):
        return "error" if _IS_ERROR.search(body) or _IS_ERROR.search(text[-200:]) else "ok"
    if _REJECTED.search(body):
        return "rejected"
    return "error" if _FAILED.match(body) or (not head and _NOT_RUN.match(body)) else "ok"
