"""Qwen Code: `~/.qwen/projects/<folder>/chats/<session id>.jsonl`, records like Claude Code's with Gemini's parts.

Quirks of the format:

- A fork copies its parent's records; `forkedFrom` names the session and the record that each was copied from.
- A subagent has its own log in `subagents/<session id of its parent>/`. There a reply is split into a record with its
  text and one for each call. Each record yields the whole reply so far, under the id of the first.
- Text that the machine adds to a prompt is a separate part, `<system-reminder>`. `provenance` says who wrote what.
- The duration of a call is in a separate record (`ui_telemetry`), before its result.
- A compression is one record with the new history, which begins with the summary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from warmstart.sessions.readers.base import Pair, Reader
from warmstart.sessions.readers.content import as_text
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, as_time, usage_of
from warmstart.sessions.readers.gemini import parts_of, shell_exit, text_of
from warmstart.sessions.readers.transcript import MAX_CALLS, Line, OpenMessage, Transcript, id_in_name, remember
from warmstart.sessions.values import Message, ToolResult, Usage

_SHELL = "run_shell_command"
_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
_PERSON = ("real_user", "")  # subagents' records have no provenance


class _Record(msgspec.Struct, rename="camel"):
    uuid: str = ""
    session_id: str = ""
    timestamp: str = ""
    type: str = ""
    subtype: str = ""
    provenance: str = ""
    cwd: str = ""
    version: str = ""
    git_branch: str = ""
    model: str = ""
    agent_id: str = ""
    agent_round: int | None = None
    message: Fields = {}  # msgspec copies it, and those below
    usage_metadata: Fields = {}
    tool_call_result: Fields = {}
    system_payload: Fields = {}
    forked_from: Fields = {}


class _Chat(Transcript[_Record]):
    agent = "qwen-code"
    decoder = msgspec.json.Decoder(_Record)

    def take(self, record: _Record, line: Line) -> list[Pair]:
        agent, session = record.agent_id, record.session_id or id_in_name(self.path.stem)
        self.learn(id=f"{session}/{agent}" if agent else session, cwd=record.cwd, branch=record.git_branch)
        self.learn(version=record.version, model=record.model)
        fork = record.forked_from
        self.native_id = as_str(fork.get("messageUuid")) or record.uuid or f"{self.state['id']}:{line.start}"
        self.time, self.origin = as_time(record.timestamp), as_str(fork.get("sessionId"))
        if self.origin:
            self.set_parent(self.origin, "branch")
        elif "started" not in self.state:
            self.learn(started=record.timestamp)
        if agent:  # even in a fork
            self.set_parent(session, "subagent")
        if record.type != "assistant":
            self.state.pop("reply", None)
        handler = getattr(self, f"on_{record.subtype if record.type == 'system' else record.type}", None)
        if handler is None:
            self.reading.skip("/".join(filter(None, (record.type, record.subtype))) or "unknown record")
            return []
        return self.pair_unless_empty(handler(record))

    def on_user(self, record: _Record) -> Message | None:
        parts = parts_of(record.message.get("parts"))
        text = text_of(parts)
        typed = text_of([part for part in parts if not _REMINDER.fullmatch(as_str(part.get("text")))])
        if not text.strip():
            return None
        by_machine = record.provenance not in _PERSON or not typed.strip()
        return self.message("user", typed if typed.strip() else text, injected=by_machine)

    def on_assistant(self, record: _Record) -> Message:
        parts = parts_of(record.message.get("parts"))
        blocks = [{"text": text_of(parts)}, {"thinking": text_of(parts, thought=True)}]
        blocks += ({**as_dict(part["functionCall"]), "type": "call"} for part in parts if "functionCall" in part)
        message = self.answer(blocks, "call", "args", model=record.model, usage=_usage(record.usage_metadata))
        return self.whole_reply(message, starts=record.agent_round is not None) if record.agent_id else message

    def whole_reply(self, message: Message, *, starts: bool) -> Message:
        """A subagent's reply, as far as its records have been read."""
        known = None if starts else self.state.get("reply")
        new = OpenMessage(native_id=self.native_id, timestamp=self.time, origin=self.origin)
        reply = msgspec.convert(known, OpenMessage) if known else new
        reply.texts.append(message.text)
        reply.reasoning.append(message.reasoning)
        reply.calls += message.tool_calls
        reply.model, reply.usage = reply.model or message.model, reply.usage or message.usage
        self.state["reply"] = msgspec.to_builtins(reply)
        return reply.message()

    def on_tool_result(self, record: _Record) -> Message | None:
        about = record.tool_call_result
        display = as_dict(about.get("resultDisplay"))
        results: list[ToolResult] = []
        for part in parts_of(record.message.get("parts")):
            if not (response := as_dict(part.get("functionResponse"))):
                continue
            body = as_dict(response.get("response"))
            text = as_text(next((body[name] for name in ("output", "error") if name in body), body or None))
            refused = about.get("errorType") == "execution_denied" or about.get("status") == "cancelled"
            flag = None if refused else "error" in body or about.get("status") == "error"
            code = as_int(display.get("exitCode"))
            if code is None and response.get("name") == _SHELL:
                code = shell_exit(text)[0]
            call = as_str(response.get("id")) or as_str(about.get("callId"))
            known = as_int(about.get("durationMs")) or self.state.get("durations", {}).get(call)
            results.append(self.result(call, text, refused=refused, flag=flag, exit_code=code, ms=known))
        return self.message("tool", tool_results=tuple(results)) if results else None

    def on_ui_telemetry(self, record: _Record) -> None:
        event = as_dict(record.system_payload.get("uiEvent"))
        call, milliseconds = as_str(event.get("call_id")), as_int(event.get("duration_ms"))
        if call and milliseconds:
            remember(self.state, "durations", call, milliseconds, MAX_CALLS)
        self.reading.skip("ui_telemetry")

    def on_chat_compression(self, record: _Record) -> Message | None:
        history = as_list(record.system_payload.get("compressedHistory"))
        texts = (text_of(as_dict(entry).get("parts")) for entry in history if as_dict(entry).get("role") == "user")
        summary = next((text for text in texts if "<state_snapshot>" in text), "")
        return self.message("user", summary, compaction_summary=True, injected=True) if summary else None

    def on_custom_title(self, record: _Record) -> None:
        self.learn(title=record.system_payload.get("customTitle"))


class QwenReader(Reader):
    """Reads the chats of Qwen Code."""

    log = _Chat
    head = re.compile(
        rb'\s*\{\s*"uuid"\s*:\s*"[^"]+"\s*,\s*"parentUuid"\s*:[^\n]*"(?:provenance"\s*:\s*"|parts"\s*:\s*\[)'
    )

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        folder = env.get("QWEN_RUNTIME_DIR") or env.get("QWEN_HOME") or home / ".qwen"
        return [Path(folder) / "projects"]


def _usage(counts: Fields) -> Usage | None:
    """Providers differ in whether `candidatesTokenCount` includes thoughts; the total always does."""
    total, prompt = (as_int(counts.get(name)) or 0 for name in ("totalTokenCount", "promptTokenCount"))
    names = ("promptTokenCount", "output", "cachedContentTokenCount", "", "thoughtsTokenCount")
    return usage_of({**counts, "output": max(0, total - prompt)}, *names, all_input=True)
