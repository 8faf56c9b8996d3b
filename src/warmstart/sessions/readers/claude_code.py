"""Claude Code: one JSONL file a session, in `~/.claude/projects/<folder>/`.

What the format hides, and what is made of it:

- One API message is written as several lines, a block each, that share `message.id`, and results of earlier blocks may
  stand between them. The lines are joined into one message; the message still open is kept in the reading's state, so
  that a log can be left and taken up again anywhere.
- A session that goes on from another one may begin with a copy of it (`claude_code_copies`). A copy has the identity of
  the message that it repeats, and names the session that wrote it as its `origin`.
- The file is the session, even where a line names another one: after `/clear` both ids appear in one conversation.
- Subagents run in sidechains: in files of their own, as marked lines, or wrapped in `progress` lines. All three become
  the same child session, so their messages are identified by what the API named, not by `uuid`.
- What a line says of calls, results and people is for `claude_code_lines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Line, Pair, Reading, decoded
from warmstart.sessions.readers.claude_code_copies import UUID_AT_END, born_after, is_older, writer_of
from warmstart.sessions.readers.claude_code_lines import (
    DATA,
    RECORD,
    Answer,
    Body,
    Nested,
    Record,
    digest,
    digest_of,
    input_of,
    is_machine_text,
    usage_in,
)
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode
from warmstart.sessions.readers.fields import as_dict, as_str, as_time, joined
from warmstart.sessions.readers.walking import files_below
from warmstart.sessions.values import Message, Session, session_id

AGENT = "claude-code"

_OPEN = 32
_RECENT = 128


class _Open(Answer, kw_only=True):
    """A message of the assistant of which more lines may follow. `told` is false while the reader has news of it.

    `usage` is the JSON of its last line; it is read once, when the message is told.
    """

    session: Session
    native_id: str
    api: str
    request: str
    timestamp: datetime | None
    origin: str
    model: str = ""
    usage: bytes = b""
    told: bool = False

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
            usage=usage_in(self.usage),
            sidechain=_is_child(self.session),
            origin=self.origin,
        )
        return self.session, message


class _Mark(msgspec.Struct):
    """What tells a line of Claude Code from other JSON."""

    type: Any = None
    uuid: Any = None
    sessionId: Any = None  # noqa: N815 - the log's own names
    leafUuid: Any = None  # noqa: N815
    messageId: Any = None  # noqa: N815

    @property
    def known(self) -> bool:
        if self.type == "summary":
            return bool(as_str(self.leafUuid))
        if self.type == "file-history-snapshot":
            return bool(as_str(self.messageId))
        named = bool(as_str(self.uuid)) or self.type == "queue-operation"
        return bool(as_str(self.type) and as_str(self.sessionId)) and named


_MARK = msgspec.json.Decoder(_Mark)


class ClaudeCodeReader:
    """Reads Claude Code's transcripts."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]

    def find(self, root: Path) -> Iterable[Path]:
        return files_below(root, lambda name: name.endswith(".jsonl"))

    def claims(self, path: Path, head: bytes) -> bool:
        if path.suffix != ".jsonl":
            return False
        return any(_is_marked(line) for line in head.split(b"\n")[:50])

    def read(self, path: Path, reading: Reading) -> Iterator[Pair]:
        try:
            yield from _pairs(path, reading)
        except OSError as error:
            raise LogError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


def _is_marked(line: bytes) -> bool:
    try:
        return decode(line, _MARK).known
    except DECODE_ERRORS:
        # The head may end in the middle of a line, before the fields that come last.
        opens = line.startswith(b'{"parentUuid":') and b'"isSidechain":' in line[:200]
        return opens or all(name in line for name in (b'"sessionId"', b'"uuid"', b'"type"', b'"isSidechain"'))


def _pairs(path: Path, reading: Reading) -> Iterator[Pair]:
    transcript = _Transcript(path, reading)
    shared: list[tuple[Line, Record]] = []
    for line, record in decoded(path, reading, RECORD):
        if shared and shared[0][0].number != line.number:
            yield from transcript.taken(shared)
            shared = []
        if len(line.data) == line.end - line.start:
            pairs = transcript.take(record, line)
            if len(pairs) > 1:
                yield from pairs[:-1]
            reading.offset, reading.line = line.end, line.number
            if pairs:
                yield pairs[-1]
        else:
            shared.append((line, record))
    yield from transcript.taken(shared)
    yield from transcript.untold()


class _Transcript:
    """What is known of a file while its lines go by; all of it lives in the reading's state.

    Taking a line twice must give the same messages: the place to go on from moves when the last of them was told.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.state = reading.state
        # The name of a file need not be UTF-8, and has to be written as JSON.
        self.source = str(path).encode("utf-8", "replace").decode()
        found = UUID_AT_END.search(path.stem)
        self.named = found.group() if found else ""
        self.open = self.state["open"] = self._left_open()
        self.chains: dict[str, str] = self.state.setdefault("chains", {})
        self.recent: list[str] = self.state.setdefault("recent", [])
        self.sessions: dict[str, Session] = {}

    def _left_open(self) -> dict[str, _Open]:
        try:
            return msgspec.convert(self.state.get("open", {}), dict[str, _Open])
        except msgspec.ValidationError:
            # Another version left this state: the log is read once more from its start.
            self.reading.offset = self.reading.line = 0
            self.state.clear()
            return {}

    def take(self, record: Record, line: Line) -> list[Pair]:
        """The pairs that one record gives; the last word on a message is the last pair with its id."""
        kind = record.type
        if kind in ("user", "assistant") and record.message is not None:
            self._remember(record)
            return self._said(self._session(record, record.message), record, record.message)
        if kind == "progress" and b"agent_progress" in bytes(record.data):
            return self._subagent(record, line)
        if kind in ("summary", "custom-title", "ai-title"):
            return self._title(record)
        if kind in ("attachment", "system"):
            self._remember(record)
        if kind == "attachment" and as_dict(record.attachment).get("type") == "queued_command":
            return self._queued(record)
        if "session" not in self.state and (born := born_after(record)):
            self.state["born"] = max(born, self.state.get("born", 0.0))
        self.reading.skip(f"{kind}/{record.subtype}" if as_str(record.subtype) else kind)
        return []

    def taken(self, shared: list[tuple[Line, Record]]) -> Iterator[Pair]:
        """The pairs of records that share a line. Until it is done, its state is that from before it."""
        if shared:
            self.reading.state = msgspec.json.decode(msgspec.json.encode(self.state))
            pairs = [pair for line, record in shared for pair in self.take(record, line)]
            yield from pairs[:-1]
            self.reading.state = self.state
            self.reading.offset, self.reading.line = shared[0][0].end, shared[0][0].number
            yield from pairs[-1:]

    def untold(self) -> Iterator[Pair]:
        """The messages still open, as far as they go."""
        for held in list(self.open.values()):
            if not held.told:
                yield held.tell()

    def _remember(self, record: Record) -> None:
        if isinstance(record.uuid, str):
            self.recent.append(record.uuid[:8])
            if len(self.recent) > 2 * _RECENT:
                del self.recent[:_RECENT]

    # -- whose it is

    def _main(self, record: Record) -> str:
        if "session" not in self.state:
            self.state["session"] = self.named or as_str(record.sessionId) or Path(self.source).stem
            born = self.state.pop("born", 0.0)
            if is_older(record, born) and (writer := writer_of(record, self.path)):
                self.state["copies"] = [writer, born]
        return str(self.state["session"])

    def _session(self, record: Record, body: Body) -> Session:
        if record.isSidechain is True or as_str(record.agentId):
            parent = as_str(record.sessionId) or self._main(record)
            return self._child(parent, as_str(record.agentId) or self._chain(record), record, body)
        main = self._main(record)
        if "project" not in self.state and as_str(record.cwd):
            self.state["project"] = project_of(record.cwd)
        return self._known(main, record, body, project=self.state.get("project", ""))

    def _child(self, parent: str, name: str, record: Record, body: Body) -> Session:
        """The session of a subagent; its log may be anywhere, so nothing of the file's own facts is used."""
        return self._known(
            f"{parent}/{name}",
            record,
            body,
            project=project_of(as_str(record.cwd)),
            parent_id=session_id(AGENT, parent),
            parent_kind="subagent",
        )

    def _known(self, native_id: str, record: Record, body: Body, **facts: Any) -> Session:
        known = self.sessions.get(native_id)
        branch, version, model = as_str(record.gitBranch), as_str(record.version), body.written_by
        if known is None:
            known = Session(agent=AGENT, native_id=native_id, source=self.source, **facts)
        if branch not in ("", known.branch) or model not in ("", known.model) or version not in ("", known.version):
            known = replace(
                known,
                branch=branch or known.branch,
                model=model or known.model,
                version=version or known.version,
            )
        if len(self.sessions) > _OPEN:
            self.sessions.clear()
        self.sessions[native_id] = known
        return known

    def _chain(self, record: Record) -> str:
        """The name of an unnamed sidechain: the uuid of its first line, found by following the parents."""
        uuid = as_str(record.uuid)
        if uuid not in self.chains:
            self.chains[uuid] = self.chains.pop(as_str(record.parentUuid), uuid)
            while len(self.chains) > _OPEN:
                self.chains.pop(next(iter(self.chains)))
        return self.chains[uuid]

    # -- what was said

    def _said(self, session: Session, record: Record | Nested, body: Body) -> list[Pair]:
        if record.type == "assistant":
            return self._answered(session, record, body)
        messages = self._user(session, record, body)
        spoken = any(message.role == "user" for message in messages)
        return self._interrupted(session, spoken) + [(session, message) for message in messages]

    def _answered(self, session: Session, record: Record | Nested, body: Body) -> list[Pair]:
        """Add a line to the message that it belongs to; a message that it ends is told."""
        api, request = as_str(body.id), as_str(record.requestId)
        held = self.open.get(session.native_id)
        pairs: list[Pair] = []
        if held is None or not api or held.api != api or held.request != request:
            pairs = self._made_room(session)
            # Without a request the id is a local proxy's, who may use it again.
            name = api if api and request else f"{api}:{digest_of(body)}"
            held = _Open(
                session=session,
                native_id=self._native_id(session, record, name),
                api=api,
                request=request,
                timestamp=as_time(record.timestamp),
                origin=self._origin(session, record),
            )
            self.open[session.native_id] = held
        held.session = session
        held.model = body.written_by or held.model
        held.usage = body.counts or held.usage
        held.add(body)
        held.told = False
        return pairs

    def _made_room(self, session: Session) -> list[Pair]:
        """Close the session's open message, or that of another one where too many are open; never more than one."""
        name = session.native_id
        if name not in self.open and len(self.open) >= _OPEN:
            name = next(other for other in self.open if other != self.state.get("session"))
        held = self.open.pop(name, None)
        return [held.tell()] if held and not held.told else []

    def _interrupted(self, session: Session, spoken: bool) -> list[Pair]:
        """Tell the open message, before what comes in between; a person's words also end it.

        Results stand between the lines of one API message; without a request id to tell, they end it as well.
        """
        held = self.open.get(session.native_id)
        if held is None:
            return []
        pairs = [] if held.told else [held.tell()]
        if spoken or not held.request:
            del self.open[session.native_id]
        return pairs

    def _user(self, session: Session, record: Record | Nested, body: Body) -> list[Message]:
        results, words, machine = input_of(body.content)
        common: dict[str, Any] = {
            "timestamp": as_time(record.timestamp),
            "sidechain": _is_child(session),
            "origin": self._origin(session, record),
        }
        messages: list[Message] = []
        if results:
            native = self._native_id(session, record, results[0].call_id)
            messages.append(Message(native_id=native, role="tool", tool_results=tuple(results), **common))
        if isinstance(record, Record):
            meta, common["compaction_summary"] = record.isMeta is True, record.isCompactSummary is True
        else:
            meta = False
        several = bool(results) or bool(words and machine)
        for text, suffix, injected in ((machine, ":machine", True), (words, ":words", meta)):
            if text:
                native = self._native_id(session, record, digest(text)) + (suffix if several else "")
                messages.append(Message(native_id=native, role="user", text=text, injected=injected, **common))
        return messages

    def _native_id(self, session: Session, record: Record | Nested, name: str) -> str:
        uuid = as_str(record.uuid)
        if _is_child(session) or not uuid:
            return f"{session.native_id}/{name or uuid}"
        if isinstance(record, Record) and record.forkedFrom is not None:
            return as_str(as_dict(record.forkedFrom).get("messageUuid")) or uuid
        return uuid

    def _origin(self, session: Session, record: Record | Nested) -> str:
        if isinstance(record, Nested) or _is_child(session):
            return ""
        if record.forkedFrom is not None and (writer := as_str(as_dict(record.forkedFrom).get("sessionId"))):
            return writer
        if record.sessionId != session.native_id:
            return as_str(record.sessionId)
        if "copies" not in self.state:
            return ""
        writer, born = self.state["copies"]
        return str(writer) if is_older(record, born) else ""

    def _subagent(self, record: Record, line: Line) -> list[Pair]:
        try:
            data = decode(record.data, DATA)
        except DECODE_ERRORS as error:
            self.reading.fault(line.number, error)
            return []
        nested = data.message
        if nested is None or nested.message is None or nested.type not in ("user", "assistant"):
            self.reading.skip("progress/agent")
            return []
        parent = as_str(record.sessionId) or self._main(record)
        session = self._child(parent, as_str(data.agentId) or as_str(record.uuid), record, nested.message)
        return self._said(session, nested, nested.message)

    def _queued(self, record: Record) -> list[Pair]:
        """What a person typed while the agent was at work reaches it as an attachment, and so does news of tasks."""
        attachment = as_dict(record.attachment)
        text = joined(attachment.get("prompt"))
        if not text:
            self.reading.skip("attachment")
            return []
        session = self._session(record, Body())
        notice = attachment.get("isMeta") is True or attachment.get("commandMode") == "task-notification"
        message = Message(
            native_id=self._native_id(session, record, digest(text)),
            role="user",
            text=text,
            timestamp=as_time(record.timestamp),
            injected=notice or is_machine_text(text),
            sidechain=_is_child(session),
            origin=self._origin(session, record),
        )
        return [*self._interrupted(session, spoken=True), (session, message)]

    def _title(self, record: Record) -> list[Pair]:
        """A title, unless it is that of another conversation, which older versions put at the head of a file.

        The one that a person gave stays.
        """
        title = as_str(record.customTitle)
        given = bool(title)
        if not title and not self.state.get("titled"):
            title = as_str(record.aiTitle)
            if not title and as_str(record.leafUuid)[:8] in self.recent:
                title = as_str(record.summary)
        named = as_str(record.sessionId)
        if not title or "session" not in self.state or named not in ("", self.state["session"]):
            self.reading.skip(record.type)
            return []
        self.state["titled"] = given
        return [(replace(self._known(self._main(record), record, Body()), title=title), None)]


def _is_child(session: Session) -> bool:
    return session.parent_kind == "subagent"
