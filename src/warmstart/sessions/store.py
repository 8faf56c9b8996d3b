"""The contract of a session store. `warmstart.testing.stores` holds the suite that every implementation passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from warmstart.sessions.values import CallOutcome, Message, Session, SessionOutcome, ToolResult


class Appended(NamedTuple):
    """The result of an append.

    `deleted` messages were left out because a person deleted their session. `tool_calls`, `errors` and `rejected` count
    what was added to the store; `continues` is the session that owns the messages which turned out to be copies.
    """

    new: int = 0
    replaced: int = 0
    unchanged: int = 0
    copies: int = 0
    deleted: int = 0
    tool_calls: int = 0
    errors: int = 0
    rejected: int = 0
    created: bool = False
    continues: str | None = None


class SessionSummary(NamedTuple):
    """A session with its counts."""

    session: Session
    messages: int
    tool_calls: int
    errors: int
    rejected: int

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.session.id

    @property
    def title(self) -> str:
        """The title of the session."""
        return self.session.title

    @property
    def outcome(self) -> SessionOutcome:
        """The outcome of the session."""
        return self.session.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which sessions to list. Empty fields do not restrict; `limit` 0 means all of them.

    `project` is a whole path or the last part of one.
    """

    id: str = ""
    agent: str = ""
    project: str = ""
    since: datetime | None = None
    outcome: SessionOutcome | None = None
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """How far a log was read.

    `signature` tells whether the file changed since, `mark` whether it only grew. The store increments `revision` each
    time it saves a position, so that a second writer notices the first.
    """

    path: str
    agent: str
    signature: str
    mark: str = ""
    offset: int = 0
    line: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    revision: int = 0


class SessionStore(Protocol):
    """Keeps sessions and their messages. Every method is one transaction; errors are `StoreError`s."""

    def append(self, session: Session, messages: Iterable[Message] = ()) -> Appended:
        """Add messages to a session, in order, and update what is known of the session.

        A session comes into being with its first message. A message that is already there is replaced if it differs
        and otherwise left alone. A message that another session holds stays with the session that wrote it first:
        the one its `origin` names, otherwise the one that ended earlier; the other session is linked to it as a
        `resume`.
        """

    def get(self, session_id: str) -> Session:
        """The session with this id, a unique beginning of it, or its native id or a unique beginning of that.

        Subagents, whose native ids begin with that of their parent, do not make it ambiguous.
        Raises `SessionNotFound` or `AmbiguousId`.
        """

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session in order; none for an unknown id. Memory does not grow with the session."""

    def delete(self, session_id: str) -> bool:
        """Delete a session and its subagents with all their text, also from the index; `False` when there was none.

        `append` brings back neither the sessions nor copies of their messages in other logs.
        """

    def set_outcome(self, session_id: str, outcome: SessionOutcome, because: str = "") -> None:
        """Record what the user says about a session; no import overwrites it. Raises `SessionNotFound`."""

    def rewrite(self, change: Callable[[str], str], rename: Callable[[str], str] | None = None) -> int:
        """Apply a change to every text that is stored, also in the index; returns how many changed.

        `rename` is applied to names instead (ids of the agents, models, tools, paths), and must keep different names
        different. What is known by them stays known: the ids of sessions and the identity of messages do not change.
        """

    def rejudge(self, judge: Callable[[str, str, ToolResult], CallOutcome], rules: int) -> int:
        """Judge every result again that was judged by other rules; returns how many outcomes changed.

        `judge` receives the agent, the name of the tool (empty if the call is unknown) and the result. What `append`
        writes counts as judged by `OUTCOME_RULES`. Memory does not grow with the texts.
        """

    def projects(self) -> list[str]:
        """The projects that have sessions, in the order of their paths."""

    def close(self) -> None:
        """Close the store; it must not be used afterwards."""

    # -- what sync needs

    def transaction(self, *, wait: bool = True, stems: Mapping[str, str] = ...) -> AbstractContextManager[object]:
        """Make several calls one write. `stems` are those of texts that are stemmed already.

        Without `wait` the write may end in the background. The next call waits for it and raises its error.
        """

    def positions(self, paths: Iterable[str] | None = None) -> dict[str, Position]:
        """How far each log, or each at these paths, was read, by path."""

    def save_position(self, position: Position) -> int:
        """Save how far a log was read; returns the new revision."""

    def map_projects(self, map: Callable[[str, str], str]) -> None:
        """Give sessions whose working tree is not known the project that `map` makes of theirs and of their log's path.

        What was their project becomes their `directory`. Those for which `map` returns nothing stay as they are.
        """

    # Last, because from here on `list` is no longer the type.

    def list(self, filter: Filter = ...) -> list[SessionSummary]:
        """Sessions, newest first; those without a date come last."""
