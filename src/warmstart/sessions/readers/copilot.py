"""GitHub Copilot CLI: `$COPILOT_HOME/session-state/<id>/events.jsonl`, one `{type, data, id, timestamp}` a line.

What the format hides, and what is done about it:

- Events of a sub-agent stand between those of its parent. `agentId` (older: `data.parentToolCallId`) tells them apart;
  each sub-agent becomes a session of its own, a child of the one that wrote the log.
- `success` is true for a shell command that exits with an error: the exit code is in the last line of its text, in
  newer logs also in `shellExecution`.
- Whether a person or a rule refused a call is said by `permission.completed`, before the call's own result.
- Input tokens are in `session.usage_record`, before the message that they belong to; older logs count only the output.
- `user.message` also carries text of skills and of other agents, named in `source`. `transformedContent` is that text
  with the machine's additions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers.base import Pair, Reading, decoded
from warmstart.sessions.readers.decoding import DECODE_ERRORS
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_text, as_time, joined, usage_of
from warmstart.sessions.readers.remembered import remembered_session
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage

AGENT = "copilot-cli"

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
EXIT = re.compile(
    r"^<[^<>\n]*\b(?:exited|completed) with exit code (-?\d{1,10})>[ \t]*(?:\n<[^\n]*>[ \t]*)*\s*\Z", re.MULTILINE
)
FAMILIES = ("session.", "user.", "assistant.", "tool.", "system.", "hook.", "permission.", "subagent.")
MAX_HELD = 200


class Event(msgspec.Struct):
    """One line. The data stay raw, because most kinds of events are skipped unread."""

    type: Any = None
    id: Any = None
    timestamp: Any = None
    agentId: Any = None  # noqa: N815
    data: msgspec.Raw = msgspec.Raw()


EVENT = msgspec.json.Decoder(Event)
DATA = msgspec.json.Decoder(dict[str, Any])


class Events:
    """One pass over a log."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.state = reading.state
        self.agent = ""
        self.handlers = {
            "session.start": self.start,
            "session.resume": self.start,
            "session.context_changed": self.moved,
            "session.model_change": self.chosen,
            "session.title_changed": self.titled,
            "session.handoff": self.handed,
            "session.usage_record": self.cost,
            "session.compaction_complete": self.compacted,
            "permission.completed": self.decided,
            "system.message": self.instructed,
            "system.notification": self.notified,
            "user.message": self.asked,
            "assistant.message": self.replied,
            "tool.execution_complete": self.ran,
        }
        if "id" not in self.state:
            name = (path.parent.name if path.stem == "events" else path.stem).encode("utf-8", "replace").decode()
            found = UUID.findall(name)
            self.state["id"] = found[-1] if found else name
        self.session = self.known()

    def pairs(self) -> Iterator[Pair]:
        reading = self.reading
        end, number = reading.offset, reading.line
        for line, event in decoded(self.path, reading, EVENT):
            # Not past the line: it may hold a second object.
            reading.offset, reading.line = line.start, line.number - 1
            end, number = line.end, line.number
            handler = self.handlers.get(as_str(event.type))
            if not handler:
                reading.skip(event.type)
                continue
            try:
                data = DATA.decode(event.data)
            except DECODE_ERRORS as error:
                reading.fault(number, error)
                continue
            self.agent = as_str(event.agentId) or as_str(data.get("parentToolCallId"))
            native_id = as_str(event.id) or f"{self.state['id']}:{line.start}"
            if message := handler(data, native_id, as_time(event.timestamp)):
                yield self.pair(message)
            self.settle(as_str(event.type), data)
        reading.offset, reading.line = end, number

    def settle(self, kind: str, data: dict[str, Any]) -> None:
        """Forget what the message just yielded has used up: not sooner, or going on from it would miss it."""
        if kind == "assistant.message":
            as_dict(self.state.get("costs")).pop(self.agent, None)
        elif kind == "tool.execution_complete" and data.get("toolCallId") in self.state.get("refused", ()):
            self.state["refused"] = [one for one in self.state["refused"] if one != data["toolCallId"]]

    def start(self, data: dict[str, Any], native_id: str, time: datetime | None) -> None:
        self.state["id"] = self.state.setdefault("named", as_str(data.get("sessionId")) or self.state["id"])
        if began := as_str(data.get("startTime")) or (time.isoformat() if time else ""):
            self.state.setdefault("started", began)
        if parent := as_str(data.get("detachedFromSpawningParentSessionId")):
            self.state["parent"] = [parent, "subagent"]
        self.note(version=data.get("copilotVersion"), model=data.get("selectedModel"))
        self.moved(as_dict(data.get("context")), native_id, time)

    def moved(self, data: dict[str, Any], _: str, time: datetime | None) -> None:
        self.note(cwd=data.get("gitRoot") or data.get("cwd"), branch=data.get("branch"))

    def chosen(self, data: dict[str, Any], _: str, time: datetime | None) -> None:
        if not self.agent:
            self.note(model=data.get("newModel"))

    def titled(self, data: dict[str, Any], _: str, time: datetime | None) -> None:
        self.note(title=data.get("title"))

    def note(self, **facts: object) -> None:
        self.state.update({key: value for key, value in facts.items() if as_str(value)})
        self.session = self.known()

    def handed(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message | None:
        if remote := as_str(data.get("remoteSessionId")):
            self.state["parent"] = [remote, "handoff"]
            self.session = self.known()
        text = as_text(data.get("summary"))
        return Message(native_id=native_id, role="user", text=text, timestamp=time, injected=True) if text else None

    def cost(self, data: dict[str, Any], _: str, time: datetime | None) -> None:
        costs = as_dict(self.state.get("costs"))
        costs[self.agent] = {key: value for key, value in as_dict(data.get("usage")).items() if key in COUNTS}
        self.state["costs"] = dict(list(costs.items())[-MAX_HELD:])

    def decided(self, data: dict[str, Any], _: str, time: datetime | None) -> None:
        call = as_str(data.get("toolCallId"))
        if call and as_str(as_dict(data.get("result")).get("kind")).startswith("denied"):
            self.state["refused"] = [*self.state.get("refused", []), call][-MAX_HELD:]

    def compacted(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message | None:
        text = as_text(data.get("summaryContent"))
        if not text:
            self.reading.skip("session.compaction_complete")
            return None
        return Message(native_id=native_id, role="user", text=text, timestamp=time, compaction_summary=True)

    def instructed(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message:
        return Message(native_id=native_id, role="system", text=joined(data.get("content")), timestamp=time)

    def notified(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message:
        text = joined(data.get("content"))
        return Message(native_id=native_id, role="user", text=text, timestamp=time, injected=True)

    def asked(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message:
        injected = as_str(data.get("source")) not in ("", "user") or data.get("isAutopilotContinuation") is True
        text = joined(data.get("content"))
        return Message(native_id=native_id, role="user", text=text, timestamp=time, injected=injected)

    def replied(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message:
        requests = [as_dict(request) for request in as_list(data.get("toolRequests"))]
        return Message(
            native_id=native_id,
            role="assistant",
            text=joined(data.get("content")),
            reasoning=as_text(data.get("reasoningText")),
            tool_calls=tuple(call_of(request) for request in requests if as_str(request.get("toolCallId"))),
            timestamp=time,
            model=as_str(data.get("model")) or self.session.model,
            usage=usage_from(data, as_dict(as_dict(self.state.get("costs")).get(self.agent))),
        )

    def ran(self, data: dict[str, Any], native_id: str, time: datetime | None) -> Message:
        refused = data.get("toolCallId") in self.state.get("refused", ())
        return Message(native_id=native_id, role="tool", tool_results=(result_of(data, refused),), timestamp=time)

    def pair(self, message: Message) -> Pair:
        if not self.agent:
            return replace(self.session, ended_at=message.timestamp), message
        child = replace(
            self.session,
            native_id=f"{self.state['id']}/{self.agent}",
            title="",
            model=message.model,
            started_at=None,
            ended_at=message.timestamp,
            parent_id=self.session.id,
            parent_kind="subagent",
        )
        return child, message

    def known(self) -> Session:
        return remembered_session(AGENT, self.path, self.state)


COUNTS = ("apiCallId", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


def call_of(request: dict[str, Any]) -> ToolCall:
    """The call in a tool request; MCP tools already carry the name of their server."""
    name = as_str(request.get("name")) or "?"
    given = request.get("arguments")
    return ToolCall(id=request["toolCallId"], name=name, arguments="{}" if given is None else as_text(given))


def usage_from(data: dict[str, Any], cost: dict[str, Any]) -> Usage | None:
    """What a message cost: its usage record if that is of the same call, otherwise the message's own output tokens."""
    if cost.get("apiCallId") != data.get("apiCallId"):
        cost = {}
    read, written = as_int(cost.get("cacheReadTokens")) or 0, as_int(cost.get("cacheWriteTokens")) or 0
    return usage_of(
        # The input includes what came from and went to the cache.
        input=(as_int(cost.get("inputTokens")) or 0) - read - written,
        output=data.get("outputTokens") or cost.get("outputTokens"),
        cache_read=read,
        cache_write=written,
        reasoning=cost.get("reasoningTokens"),
    )


def result_of(data: dict[str, Any], refused: bool) -> ToolResult:
    """The result of a call: refused, failed by flag or exit code, or fine."""
    result, error = as_dict(data.get("result")), as_dict(data.get("error"))
    text = as_text(result.get("content")) or as_text(error.get("message")) or as_text(data.get("error"))
    flag = data["success"] if isinstance(data.get("success"), bool) else None
    exit_code = as_int(as_dict(data.get("shellExecution")).get("exitCode"))
    if exit_code is None and (found := EXIT.search(text[-1000:])):
        exit_code = int(found.group(1))
    refused = refused or error.get("code") in ("denied", "rejected")
    return ToolResult(
        call_id=as_str(data.get("toolCallId")),
        outcome=_outcome(flag, exit_code, refused=refused),
        text=text,
        flag=flag,
        exit_code=exit_code,
    )


def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
    """What a result comes to; `flag` says that it is a success. Who refused a call is not kept: a refusal stands."""
    return _outcome(result.flag, result.exit_code, refused=result.outcome == "rejected")


def _outcome(flag: bool | None, exit_code: int | None, *, refused: bool) -> CallOutcome:
    if flag is False or exit_code:
        return "rejected" if refused else "error"
    return "unknown" if flag is None and exit_code is None else "ok"


class CopilotReader:
    """Reads the event logs of GitHub Copilot CLI."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        base = Path(env["COPILOT_HOME"]) if env.get("COPILOT_HOME") else home / ".copilot"
        return [base / "session-state"]

    def find(self, root: Path) -> Iterable[Path]:
        return files_below(root, _is_log)

    def claims(self, path: Path, head: bytes) -> bool:
        first, whole, _ = head.lstrip().partition(b"\n")
        try:
            event = EVENT.decode(first)
        except DECODE_ERRORS:
            return not whole and b'"type":"session.start"' in first and b'"copilotVersion"' in first
        named = as_str(event.type).startswith(FAMILIES) and bool(as_str(event.id)) and b'"parentId"' in first
        return named and bytes(event.data).startswith(b"{")

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            yield from Events(path, reading).pairs()
        except OSError as error:
            raise LogError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _is_log(name: str) -> bool:
    return name == "events.jsonl" or (name.endswith(".jsonl") and UUID.fullmatch(name[:-6]) is not None)
