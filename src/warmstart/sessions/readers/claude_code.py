"""Claude Code: one JSONL file per session, in `~/.claude/projects/<folder>/`.

Traps of the format:

- One API message is written as several lines, one block each, that share `message.id`; results of earlier blocks may
  stand between them. The lines become one message. The open message is kept in the reading's state, so that reading can
  stop and continue anywhere.
- The file is the session, even where a line names another one: after `/clear` both ids appear in one conversation.
- Subagents run in sidechains: in files of their own, as marked lines, or wrapped in `progress` lines. All three become
  the same child session, so their messages are identified by the API's names, not by `uuid`.
- A session that continues another one may begin with a copy of it. Copies keep their `uuid`, and so the original's
  identity. How they name its session, their `origin`, varies: an older `--resume` keeps the `sessionId`; `/branch` and
  the SDK's fork add `forkedFrom`; `--fork-session` says nothing, but its file is younger than its first message, and
  the other log, in the same folder, begins with that message too.
- An absent `is_error` means success. A refusal, by a person or by a person's rules, is flagged as an error. Newer
  versions say so in `toolDenialKind` and `permissionDecision`, older ones only in words.
- A call that the end of its session cut off gets a result when the session is resumed; its outcome is unknown.
- On resume, a placeholder of the assistant closes a turn that had no answer.
- Text of the machine stands beside the person's words, in the same line or in one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import LogReader, Pair, Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, Line, decode
from warmstart.sessions.readers.fields import (
    as_dict,
    as_str,
    as_text,
    as_time,
    from_json,
    join_blocks,
    joined,
    usage_of,
)
from warmstart.sessions.readers.transcript import UUID, Transcript
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

AGENT = "claude-code"
MAX_OPEN = 32  # sessions with an open message
MAX_RECENT = 128  # lines that a title may refer to

_HEAD = 64 * 1024
_SNAPSHOT_DELAY = 60.0  # a snapshot is taken up to some seconds after its prompt
_UUID_AT_END = re.compile(UUID.pattern + "$")
_TIME = re.compile(rb'"timestamp":\s*"([^"]{20,40})"')
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_REJECTED = re.compile(
    r"The user doesn't want to (?:proceed|take this action)|\[Request interrupted by user|User rejected"
    r"|Permission (?:to|for|denied by) |Claude requested permissions"
    r"|[^\n]{0,400}?\b(?:(?:requires|needs) (?:manual )?approval\b"
    r"|was blocked(?:\. For security, Claude Code| by a deny rule))"
)
_UNFINISHED = re.compile(r"\[(?:Tool|Agent) call (?:interrupted|did not complete|result not in this copy): ")
_PLACEHOLDER = "No response requested."
_MACHINE_TEXT = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|ide_|user-prompt-submit-hook|task-notification)"
    r"|\[Request interrupted by user|Caveat: The messages below were generated)"
)


class Block(msgspec.Struct):
    """One block of a message's content."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    id: Any = None
    name: Any = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: Any = None
    content: Any = None
    is_error: Any = None


class Body(msgspec.Struct):
    """The message of a line, as in the API."""

    id: Any = None
    model: Any = None
    content: str | list[Block] | None = None
    usage: msgspec.Raw = msgspec.Raw()

    @property
    def model_name(self) -> str:
        """The model; empty where Claude Code itself speaks in the assistant's place."""
        return "" if self.model == "<synthetic>" else as_str(self.model)


class Record(msgspec.Struct):
    """One line."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parentUuid: Any = None  # noqa: N815
    sessionId: Any = None  # noqa: N815
    forkedFrom: Any = None  # noqa: N815
    timestamp: Any = None
    requestId: Any = None  # noqa: N815
    cwd: Any = None
    gitBranch: Any = None  # noqa: N815
    version: Any = None
    agentId: Any = None  # noqa: N815
    isSidechain: Any = None  # noqa: N815
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: Body | None = None
    summary: Any = None
    leafUuid: Any = None  # noqa: N815
    customTitle: Any = None  # noqa: N815
    aiTitle: Any = None  # noqa: N815
    attachment: Any = None
    toolDenialKind: Any = None  # noqa: N815
    permissionDecision: Any = None  # noqa: N815
    snapshot: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


class Progress(msgspec.Struct):
    """What a `progress` line wraps: a line of a subagent."""

    agentId: Any = None  # noqa: N815
    message: Record | None = None


_RECORD = msgspec.json.Decoder(Record)
_PROGRESS = msgspec.json.Decoder(Progress)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ClaudeCodeReader(LogReader):
    """Reads Claude Code's transcripts."""

    agent = AGENT

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]

    def is_log(self, name: str) -> bool:
        return name.endswith(".jsonl")

    def claims(self, path: Path, head: bytes) -> bool:
        return path.suffix == ".jsonl" and any(_is_marked(line) for line in head.split(b"\n")[:50])

    def pairs(self, path: Path, reading: Reading) -> Iterator[Pair]:
        return _Log(path, reading).pairs()

    def outcome_of(self, tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. A refusal stays one: the field that says so is not stored."""
        refused = True if result.outcome == "rejected" else None
        return _outcome(result.text, result.flag, ran=result.exit_code is not None, refused=refused)


def _is_marked(line: bytes) -> bool:
    """Whether a line is one of Claude Code's, or the beginning of one: the head of a file may end in its middle."""
    try:
        fields = decode(line, _OBJECT)
    except DECODE_ERRORS:
        opens = line.startswith(b'{"parentUuid":') and b'"isSidechain":' in line[:200]
        return opens or all(name in line for name in (b'"sessionId"', b'"uuid"', b'"type"', b'"isSidechain"'))
    kind = as_str(fields.get("type"))
    if kind in ("summary", "file-history-snapshot"):
        return bool(as_str(fields.get("leafUuid" if kind == "summary" else "messageId")))
    # Qwen Code's lines have the other names as well.
    named = bool(as_str(fields.get("uuid"))) and isinstance(fields.get("isSidechain"), bool)
    return bool(kind and as_str(fields.get("sessionId"))) and (named or kind == "queue-operation")


class _Answer(msgspec.Struct, kw_only=True):
    """The content of one or more lines of the assistant."""

    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []

    def add(self, body: Body) -> None:
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


class _OpenMessage(_Answer, kw_only=True):
    """A message of the assistant that may get more lines. `usage` is the JSON of the last line's token counts."""

    session: Session
    native_id: str
    api: str
    request: str
    timestamp: datetime | None
    origin: str
    model: str = ""
    usage: bytes = b""
    yielded: bool = False

    def pair(self) -> Pair:
        self.yielded = True
        message = Message(
            native_id=self.native_id,
            role="assistant",
            text=join_blocks("\n\n", self.texts),
            reasoning=join_blocks("\n\n", self.thoughts),
            tool_calls=tuple(self.calls),
            timestamp=self.timestamp,
            model=self.model,
            usage=_usage(self.usage),
            sidechain=_is_child(self.session),
            origin=self.origin,
        )
        return self.session, message


class _Log(Transcript[Record]):
    """One file. All that must survive between two readings is in the state."""

    agent = AGENT
    decoder = _RECORD

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.source = str(path).encode("utf-8", "replace").decode()  # the state is JSON
        try:
            self.open = msgspec.convert(self.state.get("open", {}), dict[str, _OpenMessage])
        except msgspec.ValidationError:
            # Another version left this state: read the log again from its start.
            reading.offset = reading.line = 0
            self.state.clear()
            self.open = {}
        self.state["open"] = self.open
        self.chains: dict[str, str] = self.state.setdefault("chains", {})
        self.recent: list[str] = self.state.setdefault("recent", [])
        self.sessions: dict[str, Session] = {}

    def take(self, record: Record, line: Line) -> list[Pair]:
        kind, body = record.type, record.message
        self.time = as_time(record.timestamp)
        if kind in ("user", "assistant") and body is not None and body.content is not None:
            self.remember_line(record)
            return self.take_message(self.session_of(record, body), record, body)
        if kind == "progress" and b"agent_progress" in bytes(record.data):
            return self.take_progress(record, line)
        if kind in ("summary", "custom-title", "ai-title"):
            return self.take_title(record)
        if kind in ("attachment", "system"):
            self.remember_line(record)
        if kind == "attachment" and as_dict(record.attachment).get("type") == "queued_command":
            return self.take_queued(record)
        if "session" not in self.state and (born := _born_after(record)):
            self.state["born"] = max(born, self.state.get("born", 0.0))
        self.reading.skip(f"{kind}/{record.subtype}" if as_str(record.subtype) else kind)
        return []

    def finish(self) -> Iterator[Pair]:
        for message in list(self.open.values()):
            if not message.yielded:
                yield message.pair()

    def remember_line(self, record: Record) -> None:
        if isinstance(record.uuid, str):
            self.recent.append(record.uuid[:8])
            if len(self.recent) > 2 * MAX_RECENT:
                del self.recent[:MAX_RECENT]

    # Sessions

    def main_id(self, record: Record) -> str:
        """The native id of the file's own session. `copies` says whose messages it opens with, and until when."""
        if "session" not in self.state:
            named = _UUID_AT_END.search(self.path.stem)
            self.state["session"] = named.group() if named else as_str(record.sessionId) or Path(self.source).stem
            born = self.state.pop("born", 0.0)
            if writer := as_str(as_dict(record.forkedFrom).get("sessionId")):
                self.state["copies"] = [writer, 0.0]
            elif _is_older(record, born) and (writer := _writer_of(record, self.path)):
                self.state["copies"] = [writer, born]
        return str(self.state["session"])

    def session_of(self, record: Record, body: Body | None = None, subagent: str | None = None) -> Session:
        """The session that a line belongs to, with the facts that the line adds."""
        if subagent is None and (record.isSidechain is True or as_str(record.agentId)):
            subagent = as_str(record.agentId) or self.chain_of(record)
        if subagent is None:
            native_id = main = self.main_id(record)
            if "project" not in self.state and as_str(record.cwd):
                self.state["project"] = project_of(record.cwd)
        else:
            main = as_str(record.sessionId) or self.main_id(record)
            native_id = f"{main}/{subagent}"
        session = self.sessions.get(native_id) or self.new_session(native_id, main, record)
        branch, version = as_str(record.gitBranch), as_str(record.version)
        model = body.model_name if body else ""
        if (
            branch not in ("", session.branch)
            or model not in ("", session.model)
            or version not in ("", session.version)
        ):
            session = replace(
                session,
                branch=branch or session.branch,
                model=model or session.model,
                version=version or session.version,
            )
        if len(self.sessions) > MAX_OPEN:
            self.sessions.clear()
        self.sessions[native_id] = session
        return session

    def new_session(self, native_id: str, main: str, record: Record) -> Session:
        session = Session(agent=AGENT, native_id=native_id, source=self.source)
        if native_id != main:
            # The log of a subagent may be anywhere, so no facts of this file are used.
            project, parent = project_of(as_str(record.cwd)), session_id(AGENT, main)
            return replace(session, project=project, parent_id=parent, parent_kind="subagent")
        session = replace(session, project=self.state.get("project", ""))
        if "copies" in self.state:
            session = replace(session, parent_id=session_id(AGENT, self.state["copies"][0]), parent_kind="branch")
        return session

    def chain_of(self, record: Record) -> str:
        """The name of an unnamed sidechain: the uuid of its first line, found through the parents."""
        uuid = as_str(record.uuid)
        if uuid not in self.chains:
            self.chains[uuid] = self.chains.pop(as_str(record.parentUuid), uuid)
            while len(self.chains) > MAX_OPEN:
                self.chains.pop(next(iter(self.chains)))
        return self.chains[uuid]

    def native_id_of(self, session: Session, record: Record, name: str) -> str:
        uuid = as_str(record.uuid)
        if _is_child(session) or not uuid:
            return f"{session.native_id}/{name or uuid}"
        if record.forkedFrom is not None:
            return as_str(as_dict(record.forkedFrom).get("messageUuid")) or uuid
        return uuid

    def origin_of(self, session: Session, record: Record) -> str:
        if _is_child(session):
            return ""
        if record.forkedFrom is not None and (writer := as_str(as_dict(record.forkedFrom).get("sessionId"))):
            return writer
        if record.sessionId != session.native_id:
            return as_str(record.sessionId)
        if "copies" not in self.state:
            return ""
        writer, born = self.state["copies"]
        return str(writer) if _is_older(record, born) else ""

    # Messages

    def take_message(self, session: Session, record: Record, body: Body) -> list[Pair]:
        if record.type == "assistant":
            if body.model == "<synthetic>" and _content_of(body).texts == [_PLACEHOLDER]:
                self.reading.skip("assistant/filler")
                return []
            return self.take_answer(session, record, body)
        messages = self.user_messages(session, record, body)
        is_prompt = any(message.role == "user" for message in messages)
        return self.interrupt(session, is_prompt) + [(session, message) for message in messages]

    def take_answer(self, session: Session, record: Record, body: Body) -> list[Pair]:
        """Add a line to its message; a message that the line ends is yielded."""
        api, request = as_str(body.id), as_str(record.requestId)
        message = self.open.get(session.native_id)
        pairs: list[Pair] = []
        if message is None or not api or message.api != api or message.request != request:
            pairs = self.close_one(session)
            # Without a request the id is a local proxy's, which may use it again.
            name = api if api and request else f"{api}:{_digest_of(_content_of(body))}"
            message = _OpenMessage(
                session=session,
                native_id=self.native_id_of(session, record, name),
                api=api,
                request=request,
                timestamp=self.time,
                origin=self.origin_of(session, record),
            )
            self.open[session.native_id] = message
        message.session = session
        message.model = body.model_name or message.model
        counts = bytes(body.usage)
        if counts and counts != b"null" and len(counts) < 4096:
            message.usage = counts
        known = len(message.calls)
        message.add(body)
        for call in message.calls[known:]:
            self.start_call(call.id)
        message.yielded = False
        return pairs

    def close_one(self, session: Session) -> list[Pair]:
        """Close the session's open message, or another one if too many are open."""
        name = session.native_id
        if name not in self.open and len(self.open) >= MAX_OPEN:
            name = next(other for other in self.open if other != self.state.get("session"))
        message = self.open.pop(name, None)
        return [message.pair()] if message and not message.yielded else []

    def interrupt(self, session: Session, is_prompt: bool) -> list[Pair]:
        """Yield the open message before what comes in between. A prompt also closes it.

        Results stand between the lines of one API message; without a request id they close it too.
        """
        message = self.open.get(session.native_id)
        if message is None:
            return []
        pairs = [] if message.yielded else [message.pair()]
        if is_prompt or not message.request:
            del self.open[session.native_id]
        return pairs

    def user_messages(self, session: Session, record: Record, body: Body) -> list[Message]:
        results, words, machine = _split(body.content, _refused(record))
        summary = record.isCompactSummary is True
        common: dict[str, Any] = {
            "timestamp": self.time,
            "sidechain": _is_child(session),
            "origin": self.origin_of(session, record),
        }
        messages: list[Message] = []
        if results:
            native_id = self.native_id_of(session, record, results[0].call_id)
            timed = (each if each.outcome == "unknown" else self.with_duration(each) for each in results)
            messages.append(Message(native_id=native_id, role="tool", tool_results=tuple(timed), **common))
        several = bool(results) or bool(words and machine)
        for text, suffix, injected in ((machine, ":machine", True), (words, ":words", record.isMeta is True)):
            if text:
                native_id = self.native_id_of(session, record, _digest(text)) + (suffix if several else "")
                facts = {"injected": injected, "compaction_summary": summary, **common}
                messages.append(Message(native_id=native_id, role="user", text=text, **facts))
        return messages

    def take_progress(self, record: Record, line: Line) -> list[Pair]:
        try:
            progress = decode(record.data, _PROGRESS)
        except DECODE_ERRORS as error:
            self.reading.report(line.number, error, start=line.start)
            return []
        nested = progress.message
        if nested is None or nested.message is None or nested.type not in ("user", "assistant"):
            self.reading.skip("progress/agent")
            return []
        session = self.session_of(record, nested.message, as_str(progress.agentId) or as_str(record.uuid))
        self.time = as_time(nested.timestamp)
        return self.take_message(session, nested, nested.message)

    def take_queued(self, record: Record) -> list[Pair]:
        """What a person types while the agent works is logged as an attachment, and so are notices of tasks."""
        attachment = as_dict(record.attachment)
        text = joined(attachment.get("prompt"))
        if not text:
            self.reading.skip("attachment")
            return []
        session = self.session_of(record)
        notice = attachment.get("isMeta") is True or attachment.get("commandMode") == "task-notification"
        self.native_id = self.native_id_of(session, record, _digest(text))
        message = self.message(
            "user",
            text,
            injected=notice or _is_machine_text(text),
            sidechain=_is_child(session),
            origin=self.origin_of(session, record),
        )
        return [*self.interrupt(session, is_prompt=True), (session, message)]

    def take_title(self, record: Record) -> list[Pair]:
        """A title, unless it is another conversation's, which older versions put at the head of a file.

        A title that a person gave stays.
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
        return [(replace(self.session_of(record), title=title), None)]


def _is_child(session: Session) -> bool:
    return session.parent_kind == "subagent"


# Copies at the head of a fork


def _born_after(record: Record) -> float:
    """A time at which the file did not exist yet, from a line before its first message; 0 if there is none."""
    if record.type == "queue-operation":
        return _seconds(record.timestamp)
    if record.type == "file-history-snapshot":
        return _seconds(as_dict(from_json(bytes(record.snapshot))).get("timestamp")) - _SNAPSHOT_DELAY
    return 0.0


def _is_older(record: Record, born: float) -> bool:
    return 0.0 < _seconds(record.timestamp) < born


def _seconds(value: object) -> float:
    time = as_time(value)
    return time.timestamp() if time else 0.0


def _writer_of(record: Record, path: Path) -> str:
    """The session in the same folder that wrote a line first, or nothing. Of several, the one that began earliest."""
    uuid = b'"%s"' % as_str(record.uuid).encode("utf-8", "replace")
    found: list[tuple[bytes, str]] = []
    for other in path.parent.glob("*.jsonl"):
        named = _UUID_AT_END.search(other.stem)
        if named and len(uuid) > 2 and other.name != path.name:
            head = _read_head(other)
            if uuid in head and b'"forkedFrom"' not in head:
                opening = head.partition(b'"parentUuid"')[0]
                found.append((max(_TIME.findall(opening), default=b""), named.group()))
    return min(found, default=(b"", ""))[1]


def _read_head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


# Content


def _content_of(body: Body) -> _Answer:
    answer = _Answer()
    answer.add(body)
    return answer


def _digest_of(answer: _Answer) -> str:
    return _digest("\0".join([*answer.texts, *answer.thoughts, *(call.id for call in answer.calls)]))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _is_machine_text(text: str) -> bool:
    return _MACHINE_TEXT.match(text) is not None


def _usage(raw: bytes) -> Usage | None:
    try:
        counts = _OBJECT.decode(raw)
    except DECODE_ERRORS:
        return None
    return usage_of(
        input=counts.get("input_tokens"),
        output=counts.get("output_tokens"),
        cache_read=counts.get("cache_read_input_tokens"),
        cache_write=counts.get("cache_creation_input_tokens"),
    )


class _Parts(NamedTuple):
    """The content of a user's line: tool results, the person's words, and a machine's text."""

    results: list[ToolResult]
    words: str
    machine: str


def _split(content: str | list[Block] | None, refused: bool | None) -> _Parts:
    if isinstance(content, str):
        return _Parts([], "", content) if _is_machine_text(content) else _Parts([], content, "")
    results: list[ToolResult] = []
    words: list[str] = []
    machine: list[str] = []
    for block in content or ():
        if block.type == "tool_result":
            results.append(_result(block, refused))
        elif block.type == "text":
            text = as_text(block.text)
            (machine if _is_machine_text(text) else words).append(text)
        elif block.type in ("image", "document"):
            words.append(f"[{block.type}]")
    return _Parts(results, join_blocks("\n\n", words), join_blocks("\n\n", machine))


def _result(block: Block, refused: bool | None) -> ToolResult:
    content = [block.content] if isinstance(block.content, dict) else block.content
    text = joined(content) if isinstance(content, str | list) else as_text(content)
    flag = block.is_error if isinstance(block.is_error, bool) else None
    code = _EXIT_CODE.match(text)
    return ToolResult(
        call_id=as_str(block.tool_use_id),
        outcome=_outcome(text, flag, ran=code is not None, refused=refused),
        text=text,
        flag=flag,
        exit_code=int(code.group(1)) if code else None,
    )


def _refused(record: Record) -> bool | None:
    """Whether the call that a line answers was refused; `None` if only the words of the result can tell."""
    kind, decision = as_str(record.toolDenialKind), as_dict(record.permissionDecision).get("decision")
    if kind in ("interrupted", "cancelled"):  # by a person, or because the session ended
        return None
    if kind or decision == "reject":
        return True
    return False if decision == "accept" else None


def _outcome(text: str, flag: bool | None, *, ran: bool, refused: bool | None) -> CallOutcome:
    if refused is None:
        refused = bool(flag and _REJECTED.match(text))
    if refused and flag is not False and not ran:
        return "rejected"
    if flag and _UNFINISHED.match(text):
        return "unknown"
    if flag or text.startswith("<tool_use_error>"):
        return "error"
    return "ok"
