"""Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, one `{timestamp, type, payload}` per line.

Quirks of the format:

- One model response spans several lines (reasoning, text, calls). They become one message, which is open until its
  token count, the next response or the end of the turn. Until then, reading would resume at its first line.
- The token count follows the outputs of the calls, or precedes them in newer logs, so outputs wait for the open
  message. A count that repeats the last total belongs to an older response and is ignored.
- No output says that its call failed. Shells put an exit code into a header before the text, older ones into an object
  around it; Codex itself answers in fixed phrases, MCP servers with a flag. The event that ends a call overrides them.
  It comes before the output, or after it if the shell continues in the background.
- A compaction's summary is first logged as an answer, and only the `compacted` line says so: a text without calls stays
  open after its count.
- `event_msg` repeats the texts of `response_item`.
- A fork copies its parent's log after its own `session_meta`. The first meta names the session, others its ancestors. A
  copied turn belongs to the youngest ancestor that is older than the turn: all these ids are UUIDv7.
- Ids from OpenAI are unique, but a local model server may count from one, so short ids are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import msgspec

from warmstart.sessions.readers.base import Pair, Reader, Reading
from warmstart.sessions.readers.content import as_json, as_text, from_json, joined
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import UUID, Line, OpenMessage, Transcript
from warmstart.sessions.values import CallOutcome, Message, ParentKind, ToolCall, ToolResult, Usage

MIN_ID = 24  # characters of an id that is unique
MAX_OPEN = 500  # ends of calls, ancestors

_TOKENS = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens"),
    "reasoning_output_tokens",
)
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
# The output of a patch sent to a shell has its own header after the shell's.
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
# If Codex answers instead of running a tool, there is no header.
_NOT_RUN = re.compile(
    r"(?:unknown|invalid|missing)\b|[^\n]{0,160}?\b(?:failed|timed out|denied by sandbox|not found|is not a file"
    r"|is not supported|is unavailable|handler received|stdin is closed)\b",
    re.IGNORECASE,
)
_IS_ERROR = re.compile(r'"is_?error"\s*:\s*true', re.IGNORECASE)
_ENDS = ("item_completed", "mcp_tool_call_end", "exec_command_end", "patch_apply_end", "dynamic_tool_call_response")
_TOOL_SEARCH = "tool_search"


class Record(msgspec.Struct):
    """One line. The payload stays raw: most kinds are skipped unread, and its hash is the id of an item without one."""

    type: str = ""
    timestamp: str = ""
    payload: msgspec.Raw = msgspec.Raw()


class _Response(OpenMessage, kw_only=True):
    """`later` are the messages that came before the response was complete."""

    later: list[Message] = msgspec.field(default_factory=list)
    summary: bool = False
    answered: bool = False


class _Rollout(Transcript[Record]):
    """One rollout. A line of the type `a` is handled by `on_a`."""

    agent = "codex"
    decoder = msgspec.json.Decoder(Record)

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.open: _Response | None = None
        # They are written to the state when the position to resume from moves past them.
        self.total: int | None = self.state.get("total")
        self.ends = msgspec.convert(self.state.get("ends", {}), dict[str, ToolResult])

    def take(self, record: Record, line: Line) -> Iterator[Pair]:
        handler = getattr(self, f"on_{record.type}", None)
        if not handler:
            self.reading.skip(record.type or "?")
            return
        item = self.decode_payload(record.payload, line)
        if item is None:
            return
        self.native_id, self.time = as_str(item.get("id")), as_time(record.timestamp)
        if len(self.native_id) < MIN_ID:
            moment = record.timestamp or f"{self.session.native_id}:{line.start}"
            content = moment.encode() + b"\0" + bytes(record.payload)
            self.native_id = blake2b(content, digest_size=16).hexdigest()
        yield from handler(item)
        self.unfinished = self.open is not None
        if not self.open:
            self.state["total"], self.state["ends"] = self.total, self.ends

    def pair(self, message: Message) -> Pair:
        return super().pair(replace(message, origin=self.state.get("origin", "")))

    def on_session_meta(self, item: Fields) -> Iterator[Pair]:
        yield from self.finish()
        state, native_id = self.state, as_str(item.get("id"))
        if native_id and state.setdefault("named", native_id) != native_id:
            if native_id not in state.setdefault("ancestors", []):
                state["ancestors"] = [*state["ancestors"], native_id][-MAX_OPEN:]
            if "parent" not in state:
                self.set_parent(native_id, "branch")
            return
        state.setdefault("started", as_str(item.get("timestamp")) or (self.time.isoformat() if self.time else ""))
        self.learn(id=native_id, cwd=item.get("cwd"), version=item.get("cli_version"))
        self.learn(branch=as_dict(item.get("git")).get("branch"))
        if parent := _parent(item):
            self.set_parent(*parent)

    def on_turn_context(self, item: Fields) -> Iterator[Pair]:
        yield from self.finish()
        self.find_origin(item.get("turn_id"))
        self.learn(cwd=item.get("cwd"), model=item.get("model"))

    def find_origin(self, turn_id: object) -> None:
        """Record who wrote the turn that begins: this session, or the youngest ancestor that is older than the turn."""
        turn, own = as_str(turn_id), self.session.native_id
        if turn[14:15] == own[14:15] == "7" and self.state.get("ancestors"):
            older = [one for one in (own, *self.state["ancestors"]) if one[14:15] == "7" and one <= turn]
            writer = max(older, default=self.state["ancestors"][-1])
            self.state["origin"] = "" if writer == own else writer

    def on_compacted(self, item: Fields) -> Iterator[Pair]:
        text = as_text(item.get("message"))
        if self.open and (answer := self.open.message().text.strip()):
            self.open.summary = answer == text.strip() or (text.startswith(_SUMMARY) and answer in text)
        yield from self.finish()
        yield self.pair(self.message("user", text, compaction_summary=True))

    def on_event_msg(self, item: Fields) -> Iterator[Pair]:
        kind = as_str(item.get("type"))
        if kind == "token_count":
            yield from self.on_token_usage_record(item)
        elif kind in ("task_started", "task_complete", "turn_aborted"):
            yield from self.finish()
            self.ends = {}
            if kind == "task_started":
                self.find_origin(item.get("turn_id"))
            self.reading.skip(kind)
        else:
            if end := _end(item):
                self.ends = dict(list({**self.ends, end.call_id: end}.items())[-MAX_OPEN:])
            self.reading.skip(kind or "event_msg")

    def on_token_usage_record(self, item: Fields) -> Iterator[Pair]:
        """Close the open response with its token usage."""
        info = as_dict(item.get("info"))
        total = as_int(as_dict(info.get("total_token_usage")).get("total_tokens"))
        if total is not None and total == self.total:
            self.reading.skip("token_count")
            return
        counts = as_dict(item.get("usage")) or as_dict(info.get("last_token_usage"))
        usage = usage_of(counts, *_TOKENS, all_input=True)
        if usage and self.open and any(self.open.texts) and not self.open.calls:
            self.open.usage, self.open.answered = self.open.usage or usage, True  # newer logs count it twice
        elif usage:
            yield from self.finish(usage)
        self.total = self.total if total is None else total

    def on_response_item(self, item: Fields) -> Iterator[Pair]:
        kind, role = as_str(item.get("type")), as_str(item.get("role"))
        if kind == "reasoning" or (kind == "message" and role == "assistant") or kind.endswith("_call"):
            yield from self.respond(item)
        elif kind.endswith("_output"):
            self.add_result(item)
        elif kind == "message" and role in ("developer", "system"):
            message = self.message("system", joined(item.get("content")))
            if self.open:
                self.open.later.append(message)
            else:
                yield self.pair(message)
        elif kind in ("message", "agent_message"):
            yield from self.finish()
            text, blocks = joined(item.get("content")), map(as_dict, as_list(item.get("content")))
            injected = kind == "agent_message" or any(_INJECTED.match(as_str(block.get("text"))) for block in blocks)
            summary = text.lstrip().startswith(_SUMMARY)
            yield self.pair(self.message("user", text, injected=injected, compaction_summary=summary))
        else:
            self.reading.skip(kind or "response_item")

    def respond(self, item: Fields) -> Iterator[Pair]:
        if self.open and self.open.answered:
            yield from self.finish()
        self.open = response = self.open or _Response(native_id=self.native_id, timestamp=self.time)
        kind, status = item.get("type"), as_str(item.get("status"))
        if kind == "reasoning":
            response.reasoning += (joined(item.get("summary")), joined(item.get("content")))
        elif kind == "message":
            response.texts.append(joined(item.get("content")))
        else:
            call = _call(item, self.native_id)
            response.calls.append(call)
            if status and kind in ("web_search_call", "image_generation_call"):
                # The model's provider ran the call and logged only a status.
                outcome: CallOutcome = "ok" if status == "completed" else "error" if status == "failed" else "unknown"
                result = self.message("tool", tool_results=(ToolResult(call_id=call.id, outcome=outcome),))
                response.later.append(replace(result, native_id=f"{self.native_id}:result"))

    def add_result(self, item: Fields) -> None:
        call, output = as_str(item.get("call_id")), item.get("output")
        if output is None and item.get("tools") is not None:
            # A search for tools: its result is a list of tools, whose text says nothing about the search.
            flag = False if item.get("status") == "failed" else None
            outcome: CallOutcome = "ok" if flag is None else "error"
            result = ToolResult(call_id=call, outcome=outcome, text=as_json(item.get("tools")), flag=flag)
        else:
            result = result_of(call, output)
        self.open = self.open or _Response(native_id=self.native_id, timestamp=self.time)
        self.open.answered = True
        self.open.later.append(self.message("tool", tool_results=(result,)))

    def finish(self, usage: Usage | None = None) -> Iterator[Pair]:
        """Close the open response."""
        response = self.open
        if not response:
            return
        response.model = self.session.model
        response.usage = response.usage or usage
        message = response.message(compaction_summary=response.summary)
        # Encrypted reasoning alone is not a message.
        if message.text or message.reasoning or message.tool_calls:
            yield self.pair(message)
        for later in response.later:
            results = (self.with_end(result) for result in later.tool_results)
            yield self.pair(replace(later, tool_results=tuple(results)))
        self.open = None

    def with_end(self, result: ToolResult) -> ToolResult:
        """The result, updated from the event that ended its call."""
        if result.call_id not in self.ends:
            return result
        end = self.ends[result.call_id]
        duration = result.duration if end.duration is None else end.duration
        if end.outcome == "rejected":
            return replace(result, outcome="rejected", exit_code=None, duration=duration, flag=end.flag)
        exit_code = result.exit_code if end.exit_code is None else end.exit_code
        return judge(replace(result, exit_code=exit_code, duration=duration, flag=end.flag))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means success. Two outcomes are final: a refusal by event, and a status without text or exit code."""
        if result.flag is False and result.outcome == "rejected":
            return "rejected"
        if (tool == _TOOL_SEARCH or not result.text) and result.exit_code is None:
            return result.outcome if result.flag is None else "ok" if result.flag else "error"
        return judge(result).outcome


class CodexReader(Reader):
    """Reads the rollouts of Codex."""

    log = _Rollout
    head = re.compile(
        rb'\s*\{(?=[^{}\n]{0,400}"payload"\s*:\s*\{)'
        rb'[^\n]*?"type"\s*:\s*"(?:session_meta|response_item|turn_context|event_msg|compacted|world_state)"'
    )

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        base = Path(env.get("CODEX_HOME") or home / ".codex")
        return [base / "sessions", base / "archived_sessions"]

    def is_log(self, name: str) -> bool:
        return name.endswith(".jsonl") and (name.startswith("rollout-") or UUID.fullmatch(name[:-6]) is not None)


def _parent(item: Fields) -> tuple[str, ParentKind] | None:
    """The parent that a `session_meta` names. A subagent that names none belongs to the enclosing session."""
    spawn, fork = as_dict(item.get("source")).get("subagent"), as_str(item.get("forked_from_id"))
    thread = as_dict(as_dict(spawn).get("thread_spawn")).get("parent_thread_id") or item.get("parent_thread_id")
    if spawn is not None or as_str(thread):
        enclosing = item.get("session_id") if item.get("session_id") != item.get("id") else None
        parent = as_str(thread) or fork or as_str(enclosing)
        return (parent, "subagent") if parent else None
    return (fork, "branch") if fork else None


def _call(item: Fields, native_id: str) -> ToolCall:
    kind, name, space = as_str(item.get("type")), as_str(item.get("name")), as_str(item.get("namespace"))
    name = f"{space.rstrip('_')}__{name.lstrip('_')}" if space else name or kind.removesuffix("_call")
    arguments = next((item[key] for key in ("arguments", "input") if key in item), item.get("action") or {})
    return ToolCall(id=as_str(item.get("call_id")) or native_id, name=name, arguments=as_text(arguments))


def result_of(call_id: str, output: object) -> ToolResult:
    """The result in an output: text, blocks, or (older) an object with an exit code or a flag next to the text."""
    is_object = isinstance(output, str) and output.startswith('{"output"')
    fields = as_dict(from_json(output) if is_object else output)
    content = fields.get("output", fields.get("content", output))
    text = joined(content).encode("utf-8", "replace").decode()  # JSON in a string can contain lone surrogates
    facts, flag = as_dict(fields.get("metadata")), fields.get("success")
    seconds = as_int(facts.get("duration_seconds"))
    result = ToolResult(
        call_id=call_id,
        outcome="unknown",
        text=text,
        exit_code=as_int(facts.get("exit_code")),
        duration=None if seconds is None else float(facts["duration_seconds"]),
        flag=flag if isinstance(flag, bool) else None,
    )
    return judge(result)


def _end(item: Fields) -> ToolResult | None:
    """How a call ended according to an event. The outcome is set only if it was declined. `flag` means success."""
    fields = as_dict(item.get("item")) if item.get("type") == "item_completed" else item
    call = as_str(fields.get("call_id")) or as_str(fields.get("id"))
    if not call or item.get("type") not in _ENDS:
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
    outcome: CallOutcome = "rejected" if declined else "unknown"
    exit_code = as_int(fields.get("exit_code"))
    return ToolResult(call_id=call, outcome=outcome, flag=flag, exit_code=exit_code, duration=duration)


def judge(result: ToolResult) -> ToolResult:
    """The result with its outcome, from its text, exit code and flag. The text has the exit code and the duration."""
    text, exit_code, duration = result.text, result.exit_code, result.duration
    header = _HEAD.match(text)
    head = header.group() if header else ""
    if duration is None and (wall := _WALL.search(head)):
        duration = float(wall.group(1))
    if exit_code is None and (code := _EXIT.search(head)):
        exit_code = int(code.group(1))
    elif exit_code is None and head and (inner := _INNER.match(text, len(head))):
        exit_code, duration = int(inner.group(1)), float(inner.group(2))
    outcome = _outcome_by_words(text, head) if exit_code is None else "error" if exit_code else "ok"
    if result.flag is False and outcome == "ok":
        outcome = "error"
    return replace(result, outcome=outcome, exit_code=exit_code, duration=duration)


def _outcome_by_words(text: str, head: str) -> CallOutcome:
    if "Process running with session ID" in head:
        return "ok"
    body = text[len(head) : len(head) + 500].lstrip()
    if body[:1] in ("{", "["):
        return "error" if _IS_ERROR.search(body) or _IS_ERROR.search(text[-200:]) else "ok"
    if _REJECTED.search(body):
        return "rejected"
    return "error" if _FAILED.match(body) or (not head and _NOT_RUN.match(body)) else "ok"
