"""Codex rollouts: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, one `{timestamp, type, payload}` a line.

What the format hides, and what is done about it:

- One model response is spread over several lines (reasoning, text, calls). They become one message, open until its
  token count, the next response or the end of the turn; meanwhile the place to go on from stays at its first line.
- The token count follows the outputs of the calls, in newer logs it precedes them: outputs wait for the open message. A
  count that repeats the last total is about an older response and is not used.
- `event_msg` repeats what `response_item` says. Its texts count only as long as a log has shown no `response_item`.
- A fork copies the log of its parent behind its own `session_meta`. The first meta names the session; others name its
  ancestors, and a copied turn belongs to the youngest of them that is older than the turn: all these ids are UUIDv7.
- Nothing says that a call failed: exit codes and phrases at the head of its output do (`codex_items`).
- Ids are unique where OpenAI gives them, but a local model server may count from one, so short ids are not trusted.
- Until 0.30 a line was the bare payload, the first one a header without a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers.base import Line, Pair, Reading, decoded
from warmstart.sessions.readers.codex_items import (
    ITEM,
    Item,
    call_of,
    parent_of,
    ran_remotely,
    result_of,
    tools_found,
    usage_from,
)
from warmstart.sessions.readers.decoding import DECODE_ERRORS
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_text, as_time, joined
from warmstart.sessions.readers.remembered import remembered_session
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import Message, Session, ToolCall, Usage

AGENT = "codex"

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TRUSTED_ID = 24
MAX_OPEN = 500
RECORDS = {"session_meta", "response_item", "turn_context", "event_msg", "compacted", "world_state"}
SUMMARY = "Another language model started to solve this problem"
INJECTED = re.compile(
    r"\s*(?:# AGENTS\.md instructions|<(?:INSTRUCTIONS>|codex_internal_context|collaboration_mode>|environment_context>"
    r"|external_|goal_context>|hook_prompt|model_switch>|permissions instructions>|recommended_plugins>|skill>"
    r"|skills_instructions>|subagent_notification>|turn_aborted>|user_action>|user_instructions>|user_shell_command>)"
    r"|Warning: (?:The maximum number of unified exec processes|apply_patch was requested via|Your account was flagged)"
    r"|You are performing a CONTEXT CHECKPOINT COMPACTION)"
)


class Record(msgspec.Struct):
    """One line. The payload stays raw: most kinds are skipped unread, and its bytes make the id of what has none."""

    type: Any = None
    timestamp: Any = None
    id: Any = None
    payload: msgspec.Raw = msgspec.Raw()


RECORD = msgspec.json.Decoder(Record)


@dataclass(slots=True)
class Response:
    """A model response that is not known to be complete, and what came in between."""

    native_id: str
    timestamp: datetime | None
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    later: list[Message] = field(default_factory=list)
    answered: bool = False
    items: int = 0


class Rollout:
    """One pass over a log."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.state = reading.state
        self.open: Response | None = None
        self.handlers = {
            "session_meta": self.meta,
            "turn_context": self.turn,
            "compacted": self.compacted,
            "event_msg": self.event,
            "token_usage_record": self.counted,
            "response_item": self.item,
        }
        if "id" not in self.state:
            name = path.stem.encode("utf-8", "replace").decode()
            found = UUID.findall(name)
            self.state["id"] = found[-1] if found else name
        self.session = self.known()

    def pairs(self) -> Iterator[Pair]:
        end, number = self.reading.offset, self.reading.line
        for line, record in decoded(self.path, self.reading, RECORD):
            if not self.open:
                # Not past the line: it may hold a second object.
                self.reading.offset, self.reading.line = line.start, line.number - 1
            yield from self.record(line, record)
            end, number = line.end, line.number
        if self.open:
            yield from self.close()
        else:
            self.reading.offset, self.reading.line = end, number

    def record(self, line: Line, record: Record) -> Iterator[Pair]:
        raw, kind = bytes(record.payload), as_str(record.type)
        if not raw:
            raw = line.data.strip()
            kind = "response_item" if kind else "session_meta" if as_str(record.id) else ""
        handler = self.handlers.get(kind)
        if not handler:
            self.reading.skip(kind or "?")
            return
        try:
            item = ITEM.decode(raw)
        except DECODE_ERRORS as error:
            self.reading.fault(line.number, error)
            return
        moment = as_str(record.timestamp) or f"{self.state['id']}:{line.start}"
        native_id = as_str(item.id)
        if len(native_id) < TRUSTED_ID:
            native_id = blake2b(moment.encode() + b"\0" + raw, digest_size=16).hexdigest()
        yield from handler(item, native_id, as_time(record.timestamp))

    def meta(self, item: Item, _: str, time: datetime | None) -> Iterator[Pair]:
        yield from self.close()
        state, native_id = self.state, as_str(item.id)
        if native_id and state.setdefault("named", native_id) != native_id:
            if native_id not in state.setdefault("ancestors", []):
                state["ancestors"] = [*state["ancestors"], native_id][-MAX_OPEN:]
            state.setdefault("parent", [native_id, "branch"])
        else:
            state["id"] = native_id or state["id"]
            state.setdefault("started", as_str(item.timestamp) or (time.isoformat() if time else ""))
            facts = {"cwd": item.cwd, "version": item.cli_version, "branch": as_dict(item.git).get("branch")}
            state.update({key: value for key, value in facts.items() if as_str(value)})
            if parent := parent_of(item):
                state["parent"] = list(parent)
        self.session = self.known()

    def turn(self, item: Item, _: str, time: datetime | None) -> Iterator[Pair]:
        yield from self.close()
        self.belongs(item.turn_id)
        facts = {"cwd": item.cwd, "model": item.model}
        self.state.update({key: value for key, value in facts.items() if as_str(value)})
        self.session = self.known()

    def belongs(self, turn_id: object) -> None:
        """Note whose turn begins: ours, or that of the youngest ancestor that is older than the turn."""
        turn, own = as_str(turn_id), self.state["id"]
        if turn[14:15] == own[14:15] == "7" and self.state.get("ancestors"):
            older = [one for one in (own, *self.state["ancestors"]) if one[14:15] == "7" and one <= turn]
            writer = max(older, default=self.state["ancestors"][-1])
            self.state["origin"] = "" if writer == own else writer

    def compacted(self, item: Item, native_id: str, time: datetime | None) -> Iterator[Pair]:
        yield from self.close()
        text = as_text(item.message)
        yield self.pair(Message(native_id=native_id, role="user", text=text, timestamp=time, compaction_summary=True))

    def event(self, item: Item, native_id: str, time: datetime | None) -> Iterator[Pair]:
        kind = as_str(item.type)
        if kind == "token_count":
            yield from self.counted(item, native_id, time)
        elif kind in ("task_started", "task_complete", "turn_aborted"):
            yield from self.close()
            if kind == "task_started":
                self.belongs(item.turn_id)
            self.reading.skip(kind)
        elif kind == "user_message" and not self.state.get("items"):
            yield self.pair(self.said(as_text(item.message), native_id, time))
        elif kind == "agent_message" and not self.state.get("items"):
            text, model = as_text(item.message), self.session.model
            yield self.pair(Message(native_id=native_id, role="assistant", text=text, timestamp=time, model=model))
        else:
            self.reading.skip(kind or "event_msg")

    def counted(self, item: Item, _: str, time: datetime | None) -> Iterator[Pair]:
        """Close the open response with what it cost."""
        info = as_dict(item.info)
        total = as_int(as_dict(info.get("total_token_usage")).get("total_tokens"))
        if total is not None and total == self.state.get("total"):
            self.reading.skip("token_count")
            return
        if usage := usage_from(as_dict(item.usage) or as_dict(info.get("last_token_usage"))):
            yield from self.close(usage)
        # After the messages: whoever goes on from them has to see this count as new.
        if total is not None:
            self.state["total"] = total

    def item(self, item: Item, native_id: str, time: datetime | None) -> Iterator[Pair]:
        self.state["items"] = True
        kind, role = as_str(item.type), as_str(item.role)
        if kind == "reasoning" or (kind == "message" and role == "assistant") or kind.endswith("_call"):
            yield from self.respond(item, native_id, time)
        elif kind.endswith("_output"):
            yield from self.answer(item, native_id, time)
        elif kind == "message" and role in ("developer", "system"):
            text = joined(item.content)
            yield from self.after(Message(native_id=native_id, role="system", text=text, timestamp=time))
        elif kind == "message":
            yield from self.close()
            yield self.pair(self.said(item.content, native_id, time))
        elif kind == "agent_message":
            yield from self.close()
            text = joined(item.content)
            yield self.pair(Message(native_id=native_id, role="user", text=text, timestamp=time, injected=True))
        else:
            self.reading.skip(kind or "response_item")

    def respond(self, item: Item, native_id: str, time: datetime | None) -> Iterator[Pair]:
        if self.open and (self.open.answered or self.open.items >= MAX_OPEN):
            yield from self.close()
        self.open = self.open or Response(native_id, time)
        response = self.open
        response.items += 1
        if item.type == "reasoning":
            response.reasoning += [text for text in (joined(item.summary), joined(item.content)) if text]
        elif item.type == "message":
            response.texts.append(joined(item.content))
        elif call := call_of(item, native_id):
            response.calls.append(call)
            if item.type in ("web_search_call", "image_generation_call") and as_str(item.status):
                response.later.append(ran_remotely(call, as_str(item.status), native_id, time))

    def answer(self, item: Item, native_id: str, time: datetime | None) -> Iterator[Pair]:
        if item.output is None and item.tools is not None:
            result = tools_found(item)
        else:
            result = result_of(as_str(item.call_id), item.output)
        if self.open:
            self.open.answered = True
        yield from self.after(Message(native_id=native_id, role="tool", tool_results=(result,), timestamp=time))

    def after(self, message: Message) -> Iterator[Pair]:
        """Yield a message that does not end the open response, behind it."""
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
            text="\n\n".join(text for text in response.texts if text),
            reasoning="\n\n".join(response.reasoning),
            tool_calls=tuple(response.calls),
            timestamp=response.timestamp,
            model=self.session.model,
            usage=usage,
        )
        # An encrypted thought on its own says nothing.
        if message.text or message.reasoning or message.tool_calls:
            yield self.pair(message)
        for later in response.later:
            yield self.pair(later)
        self.open = None

    def said(self, content: object, native_id: str, time: datetime | None) -> Message:
        text = joined(content)
        blocks = [content] if isinstance(content, str) else [as_dict(block).get("text") for block in as_list(content)]
        injected = any(INJECTED.match(as_str(block)) for block in blocks)
        summary = text.lstrip().startswith(SUMMARY)
        return Message(
            native_id=native_id, role="user", text=text, timestamp=time, injected=injected, compaction_summary=summary
        )

    def pair(self, message: Message) -> Pair:
        if origin := self.state.get("origin"):
            message = replace(message, origin=origin)
        return replace(self.session, ended_at=message.timestamp), message

    def known(self) -> Session:
        return remembered_session(AGENT, self.path, self.state)


class CodexReader:
    """Reads the rollouts of Codex."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        base = Path(env["CODEX_HOME"]) if env.get("CODEX_HOME") else home / ".codex"
        return [base / "sessions", base / "archived_sessions"]

    def find(self, root: Path) -> Iterable[Path]:
        return files_below(root, _is_rollout)

    def claims(self, path: Path, head: bytes) -> bool:
        first, whole, _ = head.lstrip().partition(b"\n")
        try:
            record = RECORD.decode(first)
        except DECODE_ERRORS:
            start = first[:400]
            return not whole and b'"session_meta"' in start and b'"payload"' in start
        if bytes(record.payload):
            return bytes(record.payload).startswith(b"{") and as_str(record.type) in RECORDS
        return record.type is None and bool(UUID.fullmatch(as_str(record.id))) and b'"instructions"' in first

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            yield from Rollout(path, reading).pairs()
        except OSError as error:
            raise LogError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _is_rollout(name: str) -> bool:
    return name.endswith(".jsonl") and (name.startswith("rollout-") or UUID.fullmatch(name[:-6]) is not None)
