"""GitHub Copilot CLI: `$COPILOT_HOME/session-state/<id>/events.jsonl`, one `{type, data, id, timestamp}` per line.

Traps of the format:

- Events of a subagent stand between those of its parent; `agentId` (older: `data.parentToolCallId`) tells them apart.
  Each subagent becomes a session of its own, a child of the one that wrote the log.
- `success` is true for a shell command that fails: the exit code is in the last line of its text, in newer logs also in
  `shellExecution`.
- `permission.completed`, before the call's result, says that a person or a rule refused a call.
- Input tokens are in `session.usage_record`, before their message; older logs count only the output.
- `user.message` also carries text of skills and of other agents, named in `source`. The first one of a subagent is its
  prompt, whatever the source. `transformedContent` repeats the text with additions of the machine.
- A hook's output is appended to the call's result, behind a line that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.readers.base import LogReader, Pair, Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str, as_text, as_time, joined, usage_of
from warmstart.sessions.readers.transcript import UUID, Transcript, id_in_name, remember
from warmstart.sessions.values import CallOutcome, Message, ToolCall, ToolResult, Usage

AGENT = "copilot-cli"
FAMILIES = ("session.", "user.", "assistant.", "tool.", "system.", "hook.", "permission.", "subagent.")
MAX_ENTRIES = 200
_EXIT = re.compile(
    r"^<[^<>\n]*\b(?:exited|completed) with exit code (-?\d{1,10})>[ \t]*(?:\n<[^\n]*>[ \t]*)*\s*\Z", re.MULTILINE
)
_HOOK_OUTPUT = re.compile(
    r'^(?:Tool(?: "[^"\n]*")? [^\n]{0,40}\. )?Additional guidance from postToolUse\w* hooks?:', re.MULTILINE
)
_COUNTS = ("apiCallId", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


class Event(msgspec.Struct):
    """One line. `data` stays raw, because most kinds of events are skipped without reading it."""

    type: Any = None
    id: Any = None
    timestamp: Any = None
    agentId: Any = None  # noqa: N815
    data: msgspec.Raw = msgspec.Raw()


_EVENT = msgspec.json.Decoder(Event)
_DATA = msgspec.json.Decoder(dict[str, Any])


class CopilotReader(LogReader):
    """Reads the event logs of GitHub Copilot CLI."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("COPILOT_HOME") or home / ".copilot") / "session-state"]

    def is_log(self, name: str) -> bool:
        return name == "events.jsonl" or (name.endswith(".jsonl") and UUID.fullmatch(name[:-6]) is not None)

    def claims(self, path: Path, head: bytes) -> bool:
        first, whole, _ = head.lstrip().partition(b"\n")
        try:
            event = _EVENT.decode(first)
        except DECODE_ERRORS:
            return not whole and b'"type":"session.start"' in first and b'"copilotVersion"' in first
        named = as_str(event.type).startswith(FAMILIES) and bool(as_str(event.id)) and b'"parentId"' in first
        return named and bytes(event.data).startswith(b"{")

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        return _Events(path, reading).pairs()

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means success. The log alone knows who refused a call, so a refusal stays one."""
        exit_code = _exit_code(_without_hooks(result.text)) if result.exit_code is None else result.exit_code
        return _outcome(result.flag, exit_code, refused=result.outcome == "rejected")


class _Events(Transcript[Event]):
    agent = AGENT
    decoder = _EVENT

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.handlers = {
            "session.start": self.start,
            "session.resume": self.start,
            "session.context_changed": self.change_context,
            "session.model_change": self.change_model_or_title,
            "session.title_changed": self.change_model_or_title,
            "session.handoff": self.hand_off,
            "session.usage_record": self.count,
            "session.compaction_complete": self.compact,
            "permission.completed": self.decide,
            "system.message": self.system_message,
            "system.notification": self.notify,
            "user.message": self.user_message,
            "assistant.message": self.assistant_message,
            "tool.execution_start": self.start_tool,
            "tool.execution_complete": self.complete_tool,
        }
        if "id" not in self.state:
            self.learn(id=id_in_name(path.parent.name if path.stem == "events" else path.stem))
        self.subagent = ""

    def take(self, event: Event, line: Line) -> list[Pair]:
        handler = self.handlers.get(as_str(event.type))
        if not handler:
            self.reading.skip(event.type)
            return []
        try:
            data = _DATA.decode(event.data)
        except DECODE_ERRORS as error:
            self.reading.report(line.number, error, start=line.start)
            return []
        self.subagent = as_str(event.agentId) or as_str(data.get("parentToolCallId"))
        self.native_id = as_str(event.id) or f"{self.state['id']}:{line.start}"
        self.time = as_time(event.timestamp)
        message = handler(data)
        return [self.pair(message)] if message else []

    def pair(self, message: Message) -> Pair:
        if not self.subagent:
            return super().pair(message)
        child = replace(
            self.session,
            native_id=f"{self.state['id']}/{self.subagent}",
            title="",
            model=message.model,
            started_at=None,
            ended_at=message.timestamp,
            parent_id=self.session.id,
            parent_kind="subagent",
        )
        return child, message

    # Facts

    def start(self, data: dict[str, Any]) -> None:
        self.state["id"] = self.state.setdefault("named", as_str(data.get("sessionId")) or self.state["id"])
        if "started" not in self.state:
            self.learn(started=as_str(data.get("startTime")) or (self.time and self.time.isoformat()))
        if parent := as_str(data.get("detachedFromSpawningParentSessionId")):
            self.set_parent(parent, "subagent")
        self.learn(version=data.get("copilotVersion"), model=data.get("selectedModel"))
        self.change_context(as_dict(data.get("context")))

    def change_context(self, data: dict[str, Any]) -> None:
        self.learn(cwd=data.get("gitRoot") or data.get("cwd"), branch=data.get("branch"))

    def change_model_or_title(self, data: dict[str, Any]) -> None:
        self.learn(title=data.get("title"), model="" if self.subagent else data.get("newModel"))

    def count(self, data: dict[str, Any]) -> None:
        counts = {key: value for key, value in as_dict(data.get("usage")).items() if key in _COUNTS}
        remember(self.state, "costs", self.subagent, counts, MAX_ENTRIES)

    def decide(self, data: dict[str, Any]) -> None:
        call = as_str(data.get("toolCallId"))
        if call and as_str(as_dict(data.get("result")).get("kind")).startswith("denied"):
            self.state["refused"] = [*self.state.get("refused", []), call][-MAX_ENTRIES:]

    def start_tool(self, data: dict[str, Any]) -> None:
        self.start_call(as_str(data.get("toolCallId")))

    # Messages

    def hand_off(self, data: dict[str, Any]) -> Message | None:
        if remote := as_str(data.get("remoteSessionId")):
            self.set_parent(remote, "handoff")
        text = as_text(data.get("summary"))
        return self.message("user", text, injected=True) if text else None

    def compact(self, data: dict[str, Any]) -> Message | None:
        text = as_text(data.get("summaryContent"))
        if not text:
            self.reading.skip("session.compaction_complete")
            return None
        return self.message("user", text, compaction_summary=True)

    def system_message(self, data: dict[str, Any]) -> Message:
        return self.message("system", joined(data.get("content")))

    def notify(self, data: dict[str, Any]) -> Message:
        return self.message("user", joined(data.get("content")), injected=True)

    def user_message(self, data: dict[str, Any]) -> Message:
        added = as_str(data.get("source")) not in ("", "user") or data.get("isAutopilotContinuation") is True
        return self.message("user", joined(data.get("content")), injected=not self.is_prompt(data) and added)

    def is_prompt(self, data: dict[str, Any]) -> bool:
        """Whether a message is a subagent's task: its first message that is not the text of a skill."""
        if not self.subagent or as_str(data.get("source")).startswith("skill"):
            return False
        first = {self.subagent: self.native_id, **as_dict(self.state.get("prompts"))}
        self.state["prompts"] = dict(list(first.items())[:MAX_ENTRIES])
        return bool(first[self.subagent] == self.native_id)

    def assistant_message(self, data: dict[str, Any]) -> Message:
        requests = [as_dict(request) for request in as_list(data.get("toolRequests"))]
        return self.message(
            "assistant",
            joined(data.get("content")),
            reasoning=as_text(data.get("reasoningText")),
            tool_calls=tuple(_call(request) for request in requests if as_str(request.get("toolCallId"))),
            model=as_str(data.get("model")) or self.session.model,
            usage=_usage(data, as_dict(as_dict(self.state.get("costs")).pop(self.subagent, None))),
        )

    def complete_tool(self, data: dict[str, Any]) -> Message:
        call, refused = as_str(data.get("toolCallId")), self.state.get("refused", ())
        result = self.with_duration(result_of(data, call in refused))
        if call in refused:
            self.state["refused"] = [one for one in refused if one != call]
        return self.message("tool", tool_results=(result,))


def _call(request: dict[str, Any]) -> ToolCall:
    name, arguments = as_str(request.get("name")) or "?", request.get("arguments")
    return ToolCall(id=request["toolCallId"], name=name, arguments="{}" if arguments is None else as_text(arguments))


def _usage(data: dict[str, Any], counts: dict[str, Any]) -> Usage | None:
    """The counts of a message's usage record if that is about the same API call, otherwise its own output tokens."""
    if counts.get("apiCallId") != data.get("apiCallId"):
        counts = {}
    read, written = as_int(counts.get("cacheReadTokens")) or 0, as_int(counts.get("cacheWriteTokens")) or 0
    return usage_of(
        # The input includes what was read from the cache and written to it.
        input=(as_int(counts.get("inputTokens")) or 0) - read - written,
        output=data.get("outputTokens") or counts.get("outputTokens"),
        cache_read=read,
        cache_write=written,
        reasoning=counts.get("reasoningTokens"),
    )


def result_of(data: dict[str, Any], refused: bool) -> ToolResult:
    result, error = as_dict(data.get("result")), as_dict(data.get("error"))
    text = _without_hooks(as_text(result.get("content")) or as_text(error.get("message")) or as_text(data.get("error")))
    flag = data["success"] if isinstance(data.get("success"), bool) else None
    exit_code = as_int(as_dict(data.get("shellExecution")).get("exitCode"))
    exit_code = _exit_code(text) if exit_code is None else exit_code
    refused = refused or error.get("code") in ("denied", "rejected")
    outcome = _outcome(flag, exit_code, refused=refused)
    return ToolResult(
        call_id=as_str(data.get("toolCallId")), outcome=outcome, text=text, flag=flag, exit_code=exit_code
    )


def _without_hooks(text: str) -> str:
    added = _HOOK_OUTPUT.search(text)
    return text[: added.start()].rstrip() if added else text


def _exit_code(text: str) -> int | None:
    found = _EXIT.search(text[-1000:])
    return int(found.group(1)) if found else None


def _outcome(flag: bool | None, exit_code: int | None, *, refused: bool) -> CallOutcome:
    if flag is False or exit_code:
        return "rejected" if refused else "error"
    return "unknown" if flag is None and exit_code is None else "ok"
