"""pi: `~/.pi/agent/sessions/--<folder>--/<time>_<session id>.jsonl`, a tree of entries with `id` and `parentId`.

Quirks of the format:

- A fork begins with copies of its parent's entries, which keep id and time. They are older than the fork, whose header
  names the file of its parent. Ids have eight digits, so a message is identified by id and time.
- Going back to an earlier entry starts another branch in the same file. The abandoned branch happened, so it is kept.
- The summary of a compaction, or of an abandoned branch (`branch_summary`), is a separate entry.
- An exit code is in the last line of the output; a refused or interrupted call is recognisable only by its text.
- The file is not written before the first answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.readers.base import Pair, Reader
from warmstart.sessions.readers.content import join_blocks, joined
from warmstart.sessions.readers.fields import Fields, as_dict, as_str, as_time, usage_of
from warmstart.sessions.readers.transcript import DECODE_ERRORS, Line, Transcript, call_outcome, id_in_name
from warmstart.sessions.values import CallOutcome, Message, ToolResult

_MAX_ANCESTORS = 20
_EXIT = re.compile(r"^Command exited with code (\d{1,10})\s*\Z", re.MULTILINE)
_REFUSED = re.compile(r"^(?:Command aborted|Operation aborted|Tool execution was blocked)\s*\Z", re.MULTILINE)


class _Entry(msgspec.Struct, rename="camel"):
    type: str = ""
    id: str = ""
    timestamp: str = ""
    cwd: str = ""  # in the header, like the next one
    parent_session: str = ""
    model_id: str = ""
    name: str = ""
    summary: str = ""
    content: str | list[Any] = ""
    message: Fields = {}  # msgspec copies it


_ENTRY = msgspec.json.Decoder(_Entry)


class _Tree(Transcript[_Entry]):
    agent = "pi"
    decoder = _ENTRY

    def take(self, entry: _Entry, line: Line) -> list[Pair]:
        self.time = as_time(entry.timestamp)
        if entry.type == "session":
            self.take_header(entry)
            return []
        self.native_id = f"{entry.timestamp}/{entry.id}" if entry.id else f"{self.session.native_id}:{line.start}"
        if entry.type == "session_info":
            self.learn(title=entry.name)
            return [(self.session, None)] if entry.name else []
        self.origin = self.find_origin()
        return self.pair_unless_empty(self.message_of(entry))

    def take_header(self, entry: _Entry) -> None:
        self.learn(id=entry.id, cwd=entry.cwd, started=entry.timestamp)
        if entry.parent_session:
            self.state["ancestors"] = list(_ancestors(Path(entry.parent_session)))
            self.set_parent(self.state["ancestors"][0][0], "branch")

    def find_origin(self) -> str:
        """The session that wrote the current entry, if it is older than this one."""
        started = as_time(self.state.get("started"))
        if self.time is None or started is None or self.time >= started:
            return ""
        older = self.state.get("ancestors", [])
        return next((native_id for native_id, began in older if self.time.timestamp() >= began), "")

    def message_of(self, entry: _Entry) -> Message | None:
        role = as_str(entry.message.get("role"))
        if entry.type == "model_change":
            self.learn(model=entry.model_id)
        elif entry.type in ("compaction", "branch_summary"):
            return self.message("user", entry.summary, compaction_summary=True, injected=True)
        elif entry.type == "custom_message":
            return self.message("user", joined(entry.content), injected=True)
        elif entry.type == "message" and role == "user":
            return self.message("user", joined(entry.message.get("content")))
        elif entry.type == "message" and role == "assistant":
            return self.answer_of(entry.message)
        elif entry.type == "message" and role == "toolResult":
            return self.message("tool", tool_results=(self.result_of(entry.message),))
        elif entry.type == "message" and role == "bashExecution":  # a command that the user typed with `!`
            words = [f"$ {as_str(entry.message.get('command'))}", as_str(entry.message.get("output"))]
            return self.message("user", join_blocks("\n", words), injected=True)
        else:
            self.reading.skip(entry.type if entry.type != "message" else f"message/{role}")
        return None

    def answer_of(self, item: Fields) -> Message:
        usage = usage_of(as_dict(item.get("usage")), "input", "output", "cacheRead", "cacheWrite")
        return self.answer(item.get("content"), "toolCall", "arguments", model=as_str(item.get("model")), usage=usage)

    def result_of(self, item: Fields) -> ToolResult:
        text, flag = joined(item.get("content")), item.get("isError") is True
        code = _EXIT.search(text[-200:]) if flag else None
        return self.result(as_str(item.get("toolCallId")), text, flag=flag, exit_code=int(code[1]) if code else None)

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        return call_outcome(result, bool(result.flag and _REFUSED.search(result.text[-200:])))


class PiReader(Reader):
    """Reads the sessions of pi, and of agents that use its format."""

    log = _Tree
    head = re.compile(rb'\s*\{\s*"type"\s*:\s*"session"\s*,[^\n]{0,200}?"(?:version|cwd)"\s*:')

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        folder = Path(env.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
        return [Path(env.get("PI_CODING_AGENT_SESSION_DIR") or folder / "sessions")]


def _ancestors(path: Path) -> Iterator[tuple[str, float]]:
    """The sessions that a fork descends from, nearest first: id and start. Stops at a file that is missing."""
    for _ in range(_MAX_ANCESTORS):
        header = _Entry()
        with suppress(OSError, *DECODE_ERRORS), path.open("rb") as file:
            header = _ENTRY.decode(file.readline(64 * 1024))
        began = as_time(header.timestamp)
        yield header.id or id_in_name(path.stem), began.timestamp() if began else 0.0
        if not header.parent_session:
            return
        path = Path(header.parent_session)
