"""Claude Code: one JSONL file a session, in `~/.claude/projects/<folder>/`.

What the format hides, and what is made of it:

- One API message is written as several lines, a block each, that share `message.id`, and results of earlier blocks may
  stand between them. The lines are joined into one message; the message still open is kept in the reading's state, so
  that a log can be left and taken up again anywhere.
- A resumed session may copy the history it continues. The copies keep their `uuid`, which is the message's identity,
  and often their old `sessionId`, which becomes the message's `origin`.
- The file is the session, even where a line names another one: after `/clear` both ids appear in one conversation.
- Subagents run in sidechains: in files of their own, as marked lines, or wrapped in `progress` lines. All three become
  the same child session, so their messages are identified by what the API named, not by `uuid`.
- An absent `is_error` means success. A person's refusal comes as an error and is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Line, Pair, Reading, decoded
from warmstart.sessions.readers.fields import as_dict, as_str, as_text, as_time, joined, usage_of
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

AGENT = "claude-code"

_UUID_AT_END = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_REJECTIONS = (
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
    "[Request interrupted by user",
    "Permission to use ",
    "Claude requested permissions",
    "User rejected",
)
_MACHINE_TEXT = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|ide_|user-prompt-submit-hook|task-notification)"
    r"|\[Request interrupted by user|Caveat: The messages below were generated)"
)
_OPEN_CHILDREN = 32
_RECENT = 256


class _Block(msgspec.Struct):
    type: Any = None
    text: Any = None
    thinking: Any = None
    id: Any = None
    name: Any = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: Any = None
    content: Any = None
    is_error: Any = None


class _Body(msgspec.Struct):
    id: Any = None
    model: Any = None
    content: str | list[_Block] | None = None
    usage: Any = None


class _Nested(msgspec.Struct):
    """A subagent's line, wrapped in a `progress` line of its parent."""

    type: Any = None
    uuid: Any = None
    timestamp: Any = None
    requestId: Any = None  # noqa: N815 - the log's own names
    message: _Body | None = None


class _Data(msgspec.Struct):
    type: Any = None
    agentId: Any = None  # noqa: N815
    message: _Nested | None = None


class _Record(msgspec.Struct):
    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parentUuid: Any = None  # noqa: N815
    sessionId: Any = None  # noqa: N815
    timestamp: Any = None
    requestId: Any = None  # noqa: N815
    cwd: Any = None
    gitBranch: Any = None  # noqa: N815
    version: Any = None
    agentId: Any = None  # noqa: N815
    isSidechain: Any = None  # noqa: N815
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: _Body | None = None
    summary: Any = None
    leafUuid: Any = None  # noqa: N815
    customTitle: Any = None  # noqa: N815
    aiTitle: Any = None  # noqa: N815
    attachment: Any = None
    data: msgspec.Raw = msgspec.Raw(b"")


class _Open(msgspec.Struct):
    """A message of the assistant of which more lines may follow. `told` is false while the reader has news of it."""

    session: Session
    native_id: str
    api: str
    request: str
    timestamp: datetime | None
    sidechain: bool
    origin: str
    model: str = ""
    usage: Usage | None = None
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    told: bool = False

    def extend(self, body: _Body) -> None:
        self.told = False
        if isinstance(body.content, str):
            self.texts.append(body.content)
            return
        for block in body.content or ():
            if block.type == "text":
                self.texts.append(as_str(block.text))
            elif block.type == "thinking":
                self.thoughts.append(as_str(block.thinking))
            elif block.type in ("tool_use", "server_tool_use"):
                arguments = bytes(block.input).decode("utf-8", "replace")
                self.calls.append(ToolCall(id=as_str(block.id), name=as_str(block.name), arguments=arguments))

    def tell(self) -> Pair:
        self.told = True
        message = Message(
            native_id=self.native_id,
            role="assistant",
            text="\n\n".join(filter(None, self.texts)),
            reasoning="\n\n".join(filter(None, self.thoughts)),
            tool_calls=tuple(self.calls),
            timestamp=self.timestamp,
            model=self.model,
            usage=self.usage,
            sidechain=self.sidechain,
            origin=self.origin,
        )
        return self.session, message


_RECORD = msgspec.json.Decoder(_Record)
_DATA = msgspec.json.Decoder(_Data)


class ClaudeCodeReader:
    """Reads Claude Code's transcripts."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]

    def find(self, root: Path) -> Iterable[Path]:
        return [root] if root.is_file() else root.rglob("*.jsonl")

    def claims(self, path: Path, head: bytes) -> bool:
        if path.suffix != ".jsonl":
            return False
        for line in head.split(b"\n")[:50]:
            if b'"sessionId"' in line and b'"type"' in line and (b'"uuid"' in line or b'"queue-operation"' in line):
                return b'"sessionId"' in line and b'"payload"' not in line
            if b'"leafUuid"' in line or b'"file-history-snapshot"' in line:
                return True
        return False

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        transcript = _Transcript(path, reading)
        for line, record in decoded(path, reading, _RECORD):
            pairs = transcript.take(record, line)
            yield from pairs[:-1]
            reading.offset, reading.line = line.end, line.number
            yield from pairs[-1:]
        yield from transcript.untold()


class _Transcript:
    """What is known of a file while its lines go by; all of it lives in the reading's state."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.reading = reading
        self.state = reading.state
        self.source = str(path)
        found = _UUID_AT_END.search(path.stem)
        self.named = found.group() if found else ""
        self.open: dict[str, _Open] = msgspec.convert(self.state.get("open", {}), dict[str, _Open])
        self.state["open"] = self.open
        self.chains: dict[str, str] = self.state.setdefault("chains", {})
        self.recent: list[str] = self.state.setdefault("recent", [])
        self.sessions: dict[str, Session] = {}

    def take(self, record: _Record, line: Line) -> list[Pair]:
        """The pairs that one record gives; the last word on a message is the last pair with its id."""
        kind = record.type
        if kind in ("user", "assistant") and record.message is not None:
            self._remember(as_str(record.uuid))
            return self._said(self._session(record), record, record.message)
        if kind == "progress" and b"agent_progress" in bytes(record.data):
            return self._subagent(record, line)
        if kind in ("summary", "custom-title", "ai-title"):
            return self._title(record)
        if kind == "attachment" and as_dict(record.attachment).get("type") == "queued_command":
            return self._queued(record)
        self.reading.skip(f"{kind}/{record.subtype}" if record.subtype else kind)
        return []

    def untold(self) -> Iterator[Pair]:
        """The messages still open, as far as they go."""
        for held in list(self.open.values()):
            if not held.told:
                yield held.tell()

    def _remember(self, uuid: str) -> None:
        self.recent.append(uuid)
        if len(self.recent) > 2 * _RECENT:
            del self.recent[:_RECENT]

    # -- whose it is

    def _main(self, record: _Record) -> str:
        if "session" not in self.state:
            self.state["session"] = self.named or as_str(record.sessionId) or Path(self.source).stem
        return str(self.state["session"])

    def _session(self, record: _Record) -> Session:
        if record.isSidechain is True or as_str(record.agentId):
            parent = as_str(record.sessionId) or self._main(record)
            return self._child(parent, as_str(record.agentId) or self._chain(record), record)
        main = self._main(record)
        if "project" not in self.state and as_str(record.cwd):
            self.state["project"] = project_of(record.cwd)
        return self._known(main, record, project=str(self.state.get("project", "")))

    def _child(self, parent: str, name: str, record: _Record) -> Session:
        """The session of a subagent; its log may be anywhere, so nothing of the file's own facts is used."""
        return self._known(
            f"{parent}/{name}",
            record,
            project=project_of(as_str(record.cwd)),
            parent_id=session_id(AGENT, parent),
            parent_kind="subagent",
        )

    def _known(self, native_id: str, record: _Record, **facts: Any) -> Session:
        known = self.sessions.get(native_id)
        branch, version = as_str(record.gitBranch), as_str(record.version)
        model = as_str(record.message.model) if record.message else ""
        model = "" if model == "<synthetic>" else model
        if known is None:
            known = Session(agent=AGENT, native_id=native_id, source=self.source, **facts)
        if (branch and branch != known.branch) or (model and model != known.model) or version > known.version:
            known = replace(
                known,
                branch=branch or known.branch,
                model=model or known.model,
                version=version or known.version,
            )
        if len(self.sessions) > _OPEN_CHILDREN:
            self.sessions.clear()
        self.sessions[native_id] = known
        return known

    def _chain(self, record: _Record) -> str:
        """The name of an unnamed sidechain: the uuid of its first line, found by following the parents."""
        uuid = as_str(record.uuid)
        root = self.chains.pop(as_str(record.parentUuid), uuid)
        self.chains[uuid] = root
        while len(self.chains) > _OPEN_CHILDREN:
            self.chains.pop(next(iter(self.chains)))
        return root

    # -- what was said

    def _said(self, session: Session, record: _Record | _Nested, body: _Body) -> list[Pair]:
        held = self.open.get(session.native_id)
        if record.type == "assistant":
            api, request = as_str(body.id), as_str(record.requestId)
            pairs: list[Pair] = []
            if held is None or not api or held.api != api or held.request != request:
                if held and not held.told:
                    pairs = [held.tell()]
                held = self._opened(session, record, api, request)
            held.session = session
            held.model = session.model or held.model
            held.usage = _usage(body.usage) or held.usage
            held.extend(body)
            return pairs
        pairs = [held.tell()] if held and not held.told else []
        messages = self._user(session, record, body)
        # Results stand between the lines of one API message; without a request id to tell, they end it.
        if held and (not held.request or any(message.role == "user" for message in messages)):
            del self.open[session.native_id]
        return pairs + [(session, message) for message in messages]

    def _opened(self, session: Session, record: _Record | _Nested, api: str, request: str) -> _Open:
        self.open.pop(session.native_id, None)
        while len(self.open) >= _OPEN_CHILDREN:
            self.open.pop(next(iter(self.open)))
        held = _Open(
            session=session,
            native_id=self._native_id(session, record, api),
            api=api,
            request=request,
            timestamp=as_time(record.timestamp),
            sidechain=session.parent_kind == "subagent",
            origin=self._origin(session, record),
        )
        self.open[session.native_id] = held
        return held

    def _user(self, session: Session, record: _Record | _Nested, body: _Body) -> list[Message]:
        results, words, machine = _sorted_blocks(body.content)
        common: dict[str, Any] = {
            "timestamp": as_time(record.timestamp),
            "sidechain": session.parent_kind == "subagent",
            "origin": self._origin(session, record),
        }
        messages: list[Message] = []
        if results:
            native = self._native_id(session, record, results[0].call_id)
            messages.append(Message(native_id=native, role="tool", tool_results=tuple(results), **common))
        meta = getattr(record, "isMeta", None) is True
        summary = getattr(record, "isCompactSummary", None) is True
        several = bool(results) or bool(words and machine)
        for text, suffix, injected in ((machine, ":machine", True), (words, ":words", meta)):
            if text:
                digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
                native = self._native_id(session, record, digest) + (suffix if several else "")
                messages.append(
                    Message(
                        native_id=native,
                        role="user",
                        text=text,
                        injected=injected,
                        compaction_summary=summary,
                        **common,
                    )
                )
        return messages

    def _native_id(self, session: Session, record: _Record | _Nested, api: str) -> str:
        uuid = as_str(record.uuid)
        if session.parent_kind == "subagent" or not uuid:
            return f"{session.native_id}/{api or uuid}"
        return uuid

    def _origin(self, session: Session, record: _Record | _Nested) -> str:
        named = as_str(getattr(record, "sessionId", None))
        return "" if session.parent_kind == "subagent" or named == session.native_id else named

    def _subagent(self, record: _Record, line: Line) -> list[Pair]:
        try:
            data = _DATA.decode(record.data)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            self.reading.fault(line.number, error)
            return []
        nested = data.message
        if nested is None or nested.message is None or nested.type not in ("user", "assistant"):
            self.reading.skip("progress/agent")
            return []
        parent = as_str(record.sessionId) or self._main(record)
        record.message = nested.message
        session = self._child(parent, as_str(data.agentId) or as_str(record.uuid), record)
        return self._said(session, nested, nested.message)

    def _queued(self, record: _Record) -> list[Pair]:
        """What a person typed while the agent was at work reaches it as an attachment."""
        session = self._session(record)
        prompt = as_dict(record.attachment).get("prompt")
        text = prompt if isinstance(prompt, str) else joined(prompt)
        uuid = as_str(record.uuid)
        if not text or not uuid:
            return []
        return [(session, Message(native_id=uuid, role="user", text=text, timestamp=as_time(record.timestamp)))]

    def _title(self, record: _Record) -> list[Pair]:
        """A title, unless it is that of another conversation, which older versions put at the head of a file."""
        title = as_str(record.customTitle) or as_str(record.aiTitle)
        if not title and record.leafUuid in self.recent:
            title = as_str(record.summary)
        named = as_str(record.sessionId)
        if not title or "session" not in self.state or named not in ("", self.state["session"]):
            self.reading.skip(record.type)
            return []
        return [(replace(self._known(self._main(record), record), title=title), None)]


def _usage(usage: object) -> Usage | None:
    fields = as_dict(usage)
    return usage_of(
        input=fields.get("input_tokens"),
        output=fields.get("output_tokens"),
        cache_read=fields.get("cache_read_input_tokens"),
        cache_write=fields.get("cache_creation_input_tokens"),
    )


def _sorted_blocks(content: str | list[_Block] | None) -> tuple[list[ToolResult], str, str]:
    """Tool results, what the person wrote, and what a machine wrote in the person's name."""
    if isinstance(content, str):
        return ([], "", content) if _MACHINE_TEXT.match(content) else ([], content, "")
    results: list[ToolResult] = []
    words: list[str] = []
    machine: list[str] = []
    for block in content or []:
        if block.type == "tool_result":
            results.append(_result(block))
        elif block.type == "text":
            text = as_text(block.text)
            (machine if _MACHINE_TEXT.match(text) else words).append(text)
        elif block.type in ("image", "document"):
            words.append(f"[{block.type}]")
    return results, "\n\n".join(words), "\n\n".join(machine)


def _result(block: _Block) -> ToolResult:
    text = joined(block.content) if isinstance(block.content, str | list) else as_text(block.content)
    flag = block.is_error if isinstance(block.is_error, bool) else None
    code = _EXIT_CODE.match(text)
    return ToolResult(
        call_id=as_str(block.tool_use_id),
        outcome=_outcome(text, flag),
        text=text,
        flag=flag,
        exit_code=int(code.group(1)) if code else None,
    )


def _outcome(text: str, flag: bool | None) -> CallOutcome:
    if flag and text.startswith(_REJECTIONS):
        return "rejected"
    if flag or text.startswith("<tool_use_error>"):
        return "error"
    return "ok"
