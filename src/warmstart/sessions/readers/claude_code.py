"""Claude Code: one JSONL file per session, in `~/.claude/projects/<folder>/`. Its quirks:

- One API message is written as several lines, one block each, that share `message.id`; results of earlier blocks may
  come between them. The lines become one message. The open message is kept in the reading's state, so that reading can
  stop and resume anywhere.
- The file is the session, even if a line names another one: after `/clear`, one conversation has both ids.
- Subagents run in sidechains: in separate files, as marked lines, or wrapped in `progress` lines. All three become the
  same child session, so their messages are identified by the API's ids, not by `uuid`.
- A session that continues another one may begin with a copy of it. Copies keep the original's `uuid`, and so its
  identity. How they name the original session, their `origin`, varies: an older `--resume` keeps the `sessionId`;
  `/branch` and the SDK's fork add `forkedFrom`; `--fork-session` says nothing, but its file is newer than its first
  message, and the other log, in the same folder, begins with the same message.
- If `is_error` is absent, the call succeeded. A refusal, by the user or the user's rules, is flagged as an error. Newer
  versions say so in `toolDenialKind` and `permissionDecision`, older ones only in the text.
- A call that was cut off by the end of its session gets a result when the session is resumed; its outcome is unknown.
- On resume, an assistant placeholder closes a turn that had no answer.
- Machine-written text comes with the user's words, on the same line or on one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import msgspec

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.base import Pair, Reader, Reading
from warmstart.sessions.readers.content import join_blocks, joined
from warmstart.sessions.readers.transcript import DECODE_ERRORS, UUID, Line, OpenMessage, Transcript
from warmstart.sessions.values import CallOutcome, Message, Session, ToolCall, ToolResult, Usage, session_id

MAX_OPEN = 32  # sessions with an open message
MAX_RECENT = 128  # lines that a title may refer to

_HEAD = 64 * 1024
# Keys that occur together in no other agent's lines. In Qwen Code, only subagents' lines have `isSidechain`.
_MARKS = (
    (b'"parentUuid"', b'"isSidechain"'),
    (b'"sessionId"', b'"uuid"', b'"isSidechain"'),
    (b'"queue-operation"', b'"sessionId"'),
    (b'"summary"', b'"leafUuid"'),
    (b'"file-history-snapshot"', b'"messageId"'),
)
_SNAPSHOT_DELAY = 60.0  # seconds: a snapshot is taken a little after its prompt
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
_SYNTHETIC = "<synthetic>"  # the model of assistant messages that Claude Code itself wrote
_MACHINE_TEXT = re.compile(
    r"\s*(?:<(?:local-command-|command-|bash-|system-reminder|ide_|user-prompt-submit-hook|task-notification)"
    r"|\[Request interrupted by user|Caveat: The messages below were generated)"
)


class Block(msgspec.Struct, gc=False):
    """One block of a message's content."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Tokens(msgspec.Struct, gc=False):
    """The token counts of an API message."""

    input: _Count = msgspec.field(name="input_tokens", default=0)
    output: _Count = msgspec.field(name="output_tokens", default=0)
    cache_read: _Count = msgspec.field(name="cache_read_input_tokens", default=0)
    cache_write: _Count = msgspec.field(name="cache_creation_input_tokens", default=0)


class Body(msgspec.Struct, gc=False):
    """The message of a line, as in the API."""

    id: str = ""
    model: str = ""
    content: str | list[Block] | None = None
    usage: Tokens | None = None


class Details(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """The fields that we need of the objects in a line, whichever object they belong to."""

    type: str = ""
    timestamp: _Time | None = None
    session_id: str = ""
    message_uuid: str = ""
    decision: str = ""
    prompt: Any = None
    command_mode: str = ""
    is_meta: bool = False
    agent_id: str = ""
    message: Record | None = None


class Record(msgspec.Struct, rename="camel", gc=False):
    """One line."""

    type: str = ""
    subtype: str = ""
    uuid: str = ""
    session_id: str = ""
    timestamp: _Time | None = None
    request_id: str = ""
    cwd: str = ""
    git_branch: str = ""
    version: str = ""
    agent_id: str = ""
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    message: Body | None = None
    summary: str = ""
    leaf_uuid: str = ""
    custom_title: str = ""
    ai_title: str = ""
    tool_denial_kind: str = ""
    permission_decision: Details = Details()
    forked_from: Details = Details()
    attachment: Details = Details()
    snapshot: Details = Details()
    data: Details = Details()


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _OpenMessage(OpenMessage, kw_only=True):
    """`api` and `request` are the ids that the lines of the message share."""

    session: Session
    api: str
    request: str
    yielded: bool = False

    def pair(self) -> Pair:
        self.yielded = True
        return self.session, self.message(sidechain=self.session.parent_kind == "subagent")


class _Log(Transcript[Record]):
    """One file. Everything that must survive between two readings is in the state."""

    agent = "claude-code"
    decoder = msgspec.json.Decoder(Record)

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.open = self.state["open"] = msgspec.convert(self.state.get("open", {}), dict[str, _OpenMessage])
        self.recent: list[str] = self.state.setdefault("recent", [])
        self.sessions: dict[str, Session] = {}

    def take(self, record: Record, line: Line) -> list[Pair]:
        kind, body = record.type, record.message
        self.time = record.timestamp
        if record.uuid and kind in ("user", "assistant", "attachment", "system"):
            self.recent.append(record.uuid[:8])
            if len(self.recent) > 2 * MAX_RECENT:
                del self.recent[:MAX_RECENT]
        if kind in ("user", "assistant"):
            if body is None or body.content is None:
                self.reading.report(line.number, f"a line of the {kind} without a message", once=True)
                return []
            session = self.session_of(record, body.model)
            return self.take_user(session, record) if kind == "user" else self.take_answer(session, record, body)
        if kind == "progress" and record.data.type == "agent_progress":
            return self.take_progress(record)
        if kind in ("summary", "custom-title", "ai-title"):
            return self.take_title(record)
        if record.attachment.type == "queued_command" and (text := joined(record.attachment.prompt)):
            return self.take_queued(record, text)
        if "session" not in self.state and kind in ("queue-operation", "file-history-snapshot"):
            # The file did not exist before this time.
            time = record.snapshot.timestamp or self.time
            born = time.timestamp() - (_SNAPSHOT_DELAY if record.snapshot.timestamp else 0.0) if time else 0.0
            self.state["born"] = max(born, self.state.get("born", 0.0))
        self.reading.skip(f"{kind}/{record.subtype}" if record.subtype else kind or "?")
        return []

    def finish(self) -> Iterator[Pair]:
        for message in list(self.open.values()):
            if not message.yielded:
                yield message.pair()

    def session_of(self, record: Record, model: str = "", subagent: str = "") -> Session:
        """The session that a line belongs to, updated from the line."""
        if not subagent and (record.is_sidechain or record.agent_id):
            subagent = record.agent_id or "sidechain"
        if "session" not in self.state and not (subagent and record.session_id):
            self.start(record)
        main = native_id = str(self.state.get("session"))
        if subagent:
            main = record.session_id or main
            native_id = f"{main}/{subagent}"
        elif "project" not in self.state and record.cwd:
            self.state["project"] = project_of(record.cwd)
        session = self.sessions.get(native_id)
        if session is None:
            # A subagent's log may be anywhere, so nothing known about this file is used.
            parent = main if subagent else self.state.get("copies", [""])[0]
            session = Session(
                agent=self.agent,
                native_id=native_id,
                source=self.source,
                project=project_of(record.cwd) if subagent else self.state.get("project", ""),
                parent_id=session_id(self.agent, parent) if parent else None,
                parent_kind="subagent" if subagent else "branch" if parent else None,
            )
        model = "" if model == _SYNTHETIC else model
        facts = record.git_branch or session.branch, model or session.model, record.version or session.version
        if facts != (session.branch, session.model, session.version):
            session = replace(session, branch=facts[0], model=facts[1], version=facts[2])
        if len(self.sessions) > MAX_OPEN:
            self.sessions.clear()
        self.sessions[native_id] = session
        return session

    def start(self, record: Record) -> None:
        """Set the id of the file's own session. `copies` says whose messages it begins with, and up to when."""
        named = _UUID_AT_END.search(self.path.stem)
        self.state["session"] = named.group() if named else record.session_id or Path(self.source).stem
        born = self.state.pop("born", 0.0)
        if writer := record.forked_from.session_id:
            self.state["copies"] = [writer, 0.0]
        elif self.time and self.time.timestamp() < born and (writer := _writer_of(record, self.path)):
            self.state["copies"] = [writer, born]

    def identity_of(self, session: Session, record: Record, name: str) -> tuple[str, str]:
        """The native id and the origin of a line's message; `name` identifies it if its `uuid` does not."""
        if session.parent_kind == "subagent":
            return f"{session.native_id}/{name or record.uuid}", ""
        fork = record.forked_from
        origin = fork.session_id or record.session_id
        if origin == session.native_id:
            writer, born = self.state.get("copies", ("", 0.0))
            origin = writer if self.time and self.time.timestamp() < born else ""
        return (fork.message_uuid or record.uuid) if record.uuid else f"{session.native_id}/{name}", origin

    def take_answer(self, session: Session, record: Record, body: Body) -> list[Pair]:
        """Add a line to its message. Returns the message that the line ends, if any."""
        blocks = [Block(type="text", text=body.content)] if isinstance(body.content, str) else body.content or []
        texts = [block.text for block in blocks if block.type == "text"]
        thoughts = [block.thinking for block in blocks if block.type == "thinking"]
        calls = [
            ToolCall(id=block.id, name=block.name, arguments=bytes(block.input).decode("utf-8", "replace"))
            for block in blocks
            if block.type in ("tool_use", "server_tool_use")
        ]
        if body.model == _SYNTHETIC and texts == [_PLACEHOLDER]:
            self.reading.skip("assistant/filler")
            return []
        message = self.open.get(session.native_id)
        pairs: list[Pair] = []
        if message is None or not body.id or message.api != body.id or message.request != record.request_id:
            pairs = self.interrupt(session.native_id, close=True)
            if len(self.open) >= MAX_OPEN:
                other = next(name for name in self.open if name != self.state.get("session"))
                pairs += self.interrupt(other, close=True)
            name = body.id
            if not (body.id and record.request_id):
                # Without a request id, the id comes from a local proxy, which may reuse it.
                name += ":" + _digest("\0".join([*texts, *thoughts, *(call.id for call in calls)]))
            native_id, origin = self.identity_of(session, record, name)
            message = self.open[session.native_id] = _OpenMessage(
                session=session,
                native_id=native_id,
                origin=origin,
                timestamp=self.time,
                api=body.id,
                request=record.request_id,
            )
        message.session = session
        message.model = message.model if body.model == _SYNTHETIC else body.model or message.model
        if body.usage:
            message.usage = Usage(**msgspec.structs.asdict(body.usage)) if body.usage != Tokens() else None
        message.texts += texts
        message.reasoning += thoughts
        message.calls += calls
        message.yielded = False
        for call in calls:
            self.start_call(call.id)
        return pairs

    def interrupt(self, name: str, *, close: bool) -> list[Pair]:
        """Yield the open message of a session before a line that is not part of it, and perhaps close it.

        Results come between the lines of one API message; without a request id they close it too.
        """
        message = self.open.get(name)
        if message is None:
            return []
        if close or not message.request:
            del self.open[name]
        return [] if message.yielded else [message.pair()]

    def take_user(self, session: Session, record: Record) -> list[Pair]:
        content = record.message.content if record.message else None
        results: list[ToolResult] = []
        words: list[str] = []
        machine: list[str] = []
        for block in [Block(type="text", text=content)] if isinstance(content, str) else content or ():
            if block.type == "tool_result":
                results.append(self.result_of(block, record))
            elif block.type == "text":
                (machine if _MACHINE_TEXT.match(block.text) else words).append(block.text)
            elif block.type in ("image", "document"):
                words.append(f"[{block.type}]")
        is_mixed, is_child = bool(results) or bool(words and machine), session.parent_kind == "subagent"
        messages: list[Message] = []
        if results:
            native_id, origin = self.identity_of(session, record, results[0].call_id)
            messages.append(
                Message(
                    native_id=native_id, role="tool", tool_results=tuple(results), timestamp=self.time, origin=origin
                )
            )
        facts: dict[str, Any] = {"timestamp": self.time, "compaction_summary": record.is_compact_summary}
        for blocks, kind, injected in ((machine, ":machine", True), (words, ":words", record.is_meta)):
            if text := join_blocks("\n\n", blocks) if len(blocks) > 1 else "".join(blocks):
                name = _digest(text) if is_child or not record.uuid else ""
                native_id, origin = self.identity_of(session, record, name)
                native_id += kind if is_mixed else ""
                messages.append(
                    Message(native_id=native_id, role="user", text=text, injected=injected, origin=origin, **facts)
                )
        is_prompt = any(message.role == "user" for message in messages)
        pairs = self.interrupt(session.native_id, close=is_prompt) if self.open else []
        return pairs + [(session, message) for message in messages]

    def result_of(self, block: Block, record: Record) -> ToolResult:
        text = joined([block.content] if isinstance(block.content, dict) else block.content)
        code = _EXIT_CODE.match(text)
        outcome = _outcome(text, block.is_error, ran=code is not None, refused=_refused(record))
        return ToolResult(
            call_id=block.tool_use_id,
            outcome=outcome,
            text=text,
            duration=None if outcome == "unknown" else self.seconds_since(block.tool_use_id),
            flag=block.is_error,
            exit_code=int(code.group(1)) if code else None,
        )

    def take_progress(self, record: Record) -> list[Pair]:
        nested = record.data.message
        if nested is None or nested.message is None or nested.type not in ("user", "assistant"):
            self.reading.skip("progress/agent")
            return []
        session = self.session_of(record, nested.message.model, record.data.agent_id or record.uuid)
        self.time = nested.timestamp
        if nested.type == "user":
            return self.take_user(session, nested)
        return self.take_answer(session, nested, nested.message)

    def take_queued(self, record: Record, text: str) -> list[Pair]:
        """What the user types while the agent works is logged as an attachment, and so are task notifications."""
        session, queued = self.session_of(record), record.attachment
        record.is_meta = queued.is_meta or queued.command_mode == "task-notification"
        record.message = Body(content=text)
        return self.take_user(session, record)

    def take_title(self, record: Record) -> list[Pair]:
        """A title, unless it belongs to another conversation: older versions put those at the start of a file.

        A title that the user set is not replaced.
        """
        title = record.custom_title
        if not title and not self.state.get("titled"):
            title = record.ai_title or (record.summary if record.leaf_uuid[:8] in self.recent else "")
        if not title or "session" not in self.state or record.session_id not in ("", self.state["session"]):
            self.reading.skip(record.type)
            return []
        self.state["titled"] = bool(record.custom_title)
        return [(replace(self.session_of(record), title=title), None)]

    @staticmethod
    def outcome_of(tool: str, result: ToolResult) -> CallOutcome:
        """`flag` means error. A refusal stays a refusal, because the field that says so is not stored."""
        refused = True if result.outcome == "rejected" else None
        return _outcome(result.text, result.flag, ran=result.exit_code is not None, refused=refused)


class ClaudeCodeReader(Reader):
    """Reads Claude Code's transcripts."""

    log = _Log

    def roots(self, env: Mapping[str, str], home: Path) -> list[Path]:
        return [Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]

    def claims(self, path: Path, head: bytes) -> bool:
        lines = map(_own_fields, head.split(b"\n")[:50] if path.suffix == ".jsonl" else ())
        return any(all(name in line for name in names) for line in lines for names in _MARKS)


def _own_fields(line: bytes) -> bytes:
    """A line without its nested objects and lists; unchanged if the end of `head` cuts it off."""
    try:
        fields = _FIELDS.decode(line)
    except DECODE_ERRORS:
        return line
    return b",".join(b'"%s":%s' % (key.encode(), raw) for key, raw in fields.items() if bytes(raw)[:1] not in b"{[")


def _writer_of(record: Record, path: Path) -> str:
    """The session in the same folder that wrote a line first; the earliest if there are several, empty if none."""
    uuid = f'"{record.uuid}"'.encode("utf-8", "replace")
    writers: list[tuple[bytes, str]] = []
    for other in path.parent.glob("*.jsonl") if record.uuid else ():
        named = _UUID_AT_END.search(other.stem)
        if named and other.name != path.name:
            with suppress(OSError), other.open("rb") as file:
                head = file.read(_HEAD)
                if uuid in head and b'"forkedFrom"' not in head:
                    opening = head.partition(b'"parentUuid"')[0]
                    writers.append((max(_TIME.findall(opening), default=b""), named.group()))
    return min(writers, default=(b"", ""))[1]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _refused(record: Record) -> bool | None:
    """Whether the call that a line answers was refused; `None` if only the text of the result can tell."""
    kind, decision = record.tool_denial_kind, record.permission_decision.decision
    if kind in ("interrupted", "cancelled"):  # by the user, or because the session ended
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
