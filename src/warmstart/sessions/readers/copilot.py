"""GitHub Copilot CLI: `$COPILOT_HOME/session-state/<id>/events.jsonl`, one `{type, data, id, timestamp}` per line.

Quirks of the format:

- A subagent's events are interleaved with those of its parent, and have an `agentId` (older: `data.parentToolCallId`).
  Each subagent becomes a separate session, a child of the one that wrote the log.
- `success` is true for a shell command that fails: the exit code is in the last line of its text, in newer logs also in
  `shellExecution`.
- `permission.completed`, before the call's result, says that the user or a rule refused a call.
- Input tokens are in `session.usage_record`, before their message; older logs count only the output.
- `user.message` also carries text of skills and of other agents, named in `source`. The first one of a subagent is its
  prompt, whatever the source. `transformedContent` repeats the text with machine-written additions.
- A hook's output is appended to the call's result, after a line that says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from warmstart.sessions.readers.base import Pair, Reader, Reading
from warmstart.sessions.readers.content import as_text, joined
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import UUID, Line, Transcript, id_in_name, remember
from warmstart.sessions.values import CallOutcome, Message, ToolCall, ToolResult

MAX_ENTRIES = 200
_EXIT = re.compile(
    r"^<[^<>\n]*\b(?:exited|completed) with exit code (-?\d{1,10})>[ \t]*(?:\n<[^\n]*>[ \t]*)*\s*\Z", re.MULTILINE
)
_HOOK_OUTPUT = re.compile(
    r'^(?:Tool(?: "[^"\n]*")? [^\n]{0,40}\. )?Additional guidance from postToolUse\w* hooks?:', re.MULTILINE
)
_COUNTS = ("apiCallId", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


class Event(msgspec.Struct, rename="camel"):
    """One line. `data` stays raw, because most kinds of events are skipped without reading it."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    agent_id: str | None = None
    data: msgspec.Raw = msgspec.Raw()


class _Events(Transcript[Event]):
    """The events of a log. An event of the kind `a.b_c` is handled by `on_a_b_c`."""

    agent = "copilot-cli"
    decoder = msgspec.json.Decoder(Event)

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        if "id" not in self.state:
            self.learn(id=id_in_name(path.parent.name if path.stem == "events" else path.stem))
        self.subagent = ""

    def take(self, event: Event, line: Line) -> list[Pair]:
        handler = getattr(self, f"on_{event.type.replace('.', '_')}", None)
        if not handler:
            self.reading.skip(event.type)
            return []
        data = self.decode_payload(event.data, line)
        if data is None:
            return []
        self.subagent = event.agent_id or as_str(data.get("parentToolCallId"))
        self.native_id = event.id or f"{self.state['id']}:{line.start}"
        self.time = as_time(event.timestamp)
        message = handler(data)
        return [self.pair(message)] if message else []

    def pair(self, message: Message) -> Pair:
        if not self.subagent:
            return super().pair(message)
        own, parent = f"{self.state['id']}/{self.subagent}", (self.state["id"], "subagent")
        facts = {**self.state, "id": own, "title": "", "model": message.model, "started": "", "parent": parent}
        return replace(self.session_from(facts), ended_at=message.timestamp), message

    def on_session_start(self, data: Fields) -> None:
        self.state["id"] = self.state.setdefault("named", as_str(data.get("sessionId")) or self.state["id"])
        if "started" not in self.state:
            self.learn(started=as_str(data.get("startTime")) or (self.time and self.time.isoformat()))
        if parent := as_str(data.get("detachedFromSpawningParentSessionId")):
            self.set_parent(parent, "subagent")
        self.learn(version=data.get("copilotVersion"), model=data.get("selectedModel"))
        self.on_session_context_changed(as_dict(data.get("context")))

    on_session_resume = on_session_start

    def on_session_context_changed(self, data: Fields) -> None:
        self.learn(cwd=data.get("gitRoot") or data.get("cwd"), branch=data.get("branch"))

    def on_session_title_changed(self, data: Fields) -> None:
        self.learn(title=data.get("title"), model="" if self.subagent else data.get("newModel"))

    on_session_model_change = on_session_title_changed

    def on_session_usage_record(self, data: Fields) -> None:
        counts = {key: value for key, value in as_dict(data.get("usage")).items() if key in _COUNTS}
        remember(self.state, "costs", self.subagent, counts, MAX_ENTRIES)

    def on_permission_completed(self, data: Fields) -> None:
        call = as_str(data.get("toolCallId"))
        if call and as_str(as_dict(data.get("result")).get("kind")).startswith("denied"):
            remember(self.state, "refused", call, True, MAX_ENTRIES)

    def on_tool_execution_start(self, data: Fields) -> None:
        self.start_call(as_str(data.get("toolCallId")))

    def on_session_compaction_complete(self, data: Fields) -> Message | None:
        text = as_text(data.get("summaryContent"))
        if not text:
            self.reading.skip("session.compaction_complete")
            return None
        return self.message("user", text, compaction_summary=True)

    def on_system_message(self, data: Fields) -> Message:
        return self.message("system", joined(data.get("content")))

    def on_system_notification(self, data: Fields) -> Message:
        return self.message("user", joined(data.get("content")), injected=True)

    def on_user_message(self, data: Fields) -> Message:
        added = as_str(data.get("source")) not in ("", "user") or data.get("isAutopilotContinuation") is True
        return self.message("user", joined(data.get("content")), injected=not self.is_prompt(data) and added)

    def is_prompt(self, data: Fields) -> bool:
        """Whether a message is a subagent's prompt: its first message that is not the text of a skill."""
        if not self.subagent or as_str(data.get("source")).startswith("skill"):
            return False
        first = {self.subagent: self.native_id, **as_dict(self.state.get("prompts"))}
        self.state["prompts"] = dict(list(first.items())[:MAX_ENTRIES])
        return bool(first[self.subagent] == self.native_id)

    def on_assistant_message(self, data: Fields) -> Message:
        # Use the usage record if it is for the same API call, otherwise the message's own output tokens.
        cost = as_dict(as_dict(self.state.get("costs")).pop(self.subagent, None))
        counts = cost if cost.get("apiCallId") == data.get("apiCallId") else {}
        counts["outputTokens"] = data.get("outputTokens") or counts.get("outputTokens")
        calls = [
            ToolCall(id=call, name=as_str(request.get("name")) or "?", arguments=as_text(request.get("arguments", {})))
            for request in map(as_dict, as_list(data.get("toolRequests")))
            if (call := as_str(request.get("toolCallId")))
        ]
        return self.message(
            "assistant",
            joined(data.get("content")),
            reasoning=as_text(data.get("reasoningText")),
            tool_calls=tuple(calls),
            model=as_str(data.get("model")) or self.session.model,
            usage=usage_of(counts, *_COUNTS[1:], all_input=True),
        )

    def on_tool_execution_complete(self, data: Fields) -> Message:
        call_id, result, error = as_str(data.get("toolCallId")), as_dict(data.get("result")), as_dict(data.get("error"))
        refused = as_dict(self.state.get("refused")).pop(call_id, False) or error.get("code") in ("denied", "rejected")
        text = as_text(result.get("content")) or as_text(error.get("message")) or as_text(data.get("error"))
        text = _without_hooks(text)
        is_known = isinstance(data.get("success"), bool) and error.get("code") != "interrupted"  # after a crash
        flag = data["success"] if is_known else None
        exit_code = as_int(as_dict(data.get("shellExecution")).get("exitCode"))
        exit_code = _exit_code(text) if exit_code is None else exit_code
        outcome = self.result(call_id, text, refused=refused, flag=flag, exit_code=exit_code)
        return self.message("tool", tool_results=(outcome,))

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means success. Only the log says that a call was refused, so a refusal stays a refusal."""
        exit_code = _exit_code(_without_hooks(result.text)) if result.exit_code is None else result.exit_code
        if result.flag is False or exit_code:
            return "rejected" if result.outcome == "rejected" else "error"
        return "unknown" if result.flag is None and exit_code is None else "ok"


class CopilotReader(Reader):
    """Reads the event logs of GitHub Copilot CLI."""

    log = _Events
    head = re.compile(
        rb'\s*\{(?=[^{}\n]{0,400}"data"\s*:\s*\{)(?=[^\n]*"(?:parentId|copilotVersion)")'
        rb'[^\n]*?"type"\s*:\s*"(?:session|user|assistant|tool|system|hook|permission|subagent)\.'
    )

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("COPILOT_HOME") or home / ".copilot") / "session-state"]

    def is_log(self, name: str) -> bool:
        return name == "events.jsonl" or (name.endswith(".jsonl") and UUID.fullmatch(name[:-6]) is not None)


def _without_hooks(text: str) -> str:
    added = _HOOK_OUTPUT.search(text)
    return text[: added.start()].rstrip() if added else text


def _exit_code(text: str) -> int | None:
    found = _EXIT.search(text[-1000:])
    return int(found.group(1)) if found else None
