"""What happened, as frozen values: sessions, messages, tool calls and their results.

Values know nothing about storage. Sessions and messages have identities that are derived, never random, so that the
same log gives the same ids on every machine and in every order of import:

- a session is (agent, native id); `session_id` turns the pair into a short public id;
- a message is (agent, native id): a reader makes the native id unique among all messages of its agent, so that a
  message that an agent copies into a second log (on resume, on compaction) is recognised as the same message.

If a secret was redacted from a native id, `stored_id` and `stored_key` preserve the identity, a hash of the original
id. So it depends neither on the redaction rules nor on the key of the fingerprints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Literal, NamedTuple

from warmstart.text.clean import clean as clean

Role = Literal["system", "user", "assistant", "tool"]
CallOutcome = Literal["ok", "error", "rejected", "unknown"]
SessionOutcome = Literal["success", "failure", "unknown"]
ParentKind = Literal["resume", "compaction", "handoff", "branch", "subagent"]


def session_id(agent: str, native_id: str) -> str:
    """The public id of a session: 16 hexadecimal digits, the same on every machine."""
    return blake2b(f"{agent}\0{clean(native_id)}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model response or of a whole session, counted the same way for all agents.

    `input` excludes cache reads and cache writes; `output` includes `reasoning`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call; `arguments` is the JSON text as the agent wrote it (or plain text for free-form tools)."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. `flag` and `exit_code` are what the log says; `outcome` is the reader's judgement."""

    call_id: str
    outcome: CallOutcome
    text: str = ""
    duration: float | None = None
    flag: bool | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. Role `tool` carries results; `injected` marks user messages that a machine wrote.

    `origin` is the native id of the session that wrote the message first, if the log says that it was another one. For
    an agent whose copies get new ids, the reader sets it to the message's own session.
    """

    native_id: str
    role: Role
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    timestamp: datetime | None = None
    model: str = ""
    usage: Usage | None = None
    compaction_summary: bool = False
    injected: bool = False
    sidechain: bool = False
    origin: str = ""
    stored_key: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation with an agent. Empty fields are unknown; a store keeps the values it already has for them.

    `project` is a repository and `directory` its working tree that the session ran in. `judge` says who judged the
    outcome: the `log` (it has a reward), the `user` (never overwritten), or nobody; then it comes from the session's
    profile, and is `unknown` again as soon as the session changes. `usage` is set for agents that count tokens per
    session; for others it is the sum over the messages.
    """

    agent: str
    native_id: str
    project: str = ""
    directory: str = ""
    branch: str = ""
    model: str = ""
    title: str = ""
    version: str = ""
    source: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    parent_id: str | None = None
    parent_kind: ParentKind | None = None
    outcome: SessionOutcome = "unknown"
    evidence: str = ""
    judge: Literal["", "log", "user"] = ""
    usage: Usage | None = None
    stored_id: str = field(default="", compare=False, repr=False)

    @property
    def id(self) -> str:
        return self.stored_id or session_id(self.agent, self.native_id)


class Step(NamedTuple):
    """A tool call with its result and the seconds it took, both `None` if unknown."""

    call: ToolCall
    result: ToolResult | None
    seconds: float | None

    @property
    def outcome(self) -> CallOutcome:
        return self.result.outcome if self.result else "unknown"


def steps(messages: Iterable[Message]) -> Iterator[Step]:
    """Pair every tool call with its result, in the order of the calls.

    A model may reuse an id within a conversation: a result belongs to the last call with its id that has none yet.
    """
    calls: list[tuple[ToolCall, datetime | None]] = []
    answers: dict[int, tuple[ToolResult, datetime | None]] = {}
    waiting: dict[str, int] = {}
    for message in messages:
        for result in message.tool_results:
            if (place := waiting.pop(result.call_id, None)) is not None:
                answers[place] = (result, message.timestamp)
        for call in message.tool_calls:
            waiting[call.id] = len(calls)
            calls.append((call, message.timestamp))
    for place, (call, began) in enumerate(calls):
        answer, ended = answers.get(place, (None, None))
        seconds = answer.duration if answer else None
        if answer and seconds is None and began and ended:
            seconds = max(0.0, (ended - began).total_seconds())
        yield Step(call, answer, seconds)
