"""The contract of a session store. `warmstart.testing.stores` has the suite that every implementation passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from warmstart.sessions.values import CallOutcome, Message, Session, SessionOutcome, ToolResult


class Appended(NamedTuple):
    """The result of an append.

    `deleted` messages were left out because the user deleted their session. `tool_calls`, `errors` and `rejected` count
    what was added to the store; `continues` is the session that owns the messages that turned out to be copies.
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
        return self.session.id

    @property
    def title(self) -> str:
        return self.session.title

    @property
    def outcome(self) -> SessionOutcome:
        return self.session.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which sessions to list. Empty fields match everything; `limit` 0 means no limit.

    `project` is a whole path or the end of one.
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

    `signature` shows whether the file has changed since, `mark` whether it only grew. The store increments `revision`
    each time it saves a position, so that a second writer notices the first.
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
    """Stores sessions and their messages. Every method is one transaction; errors are `StoreError`s."""

    def append(self, session: Session, messages: Iterable[Message] = ()) -> Appended:
        """Add messages to a session, in order, and update what is known about the session.

        A session is created with its first message. A message that is already there is replaced if it differs, and
        otherwise left alone. A message that another session has stays with the session that wrote it first: the one
        named by its `origin`, otherwise the one that ended earlier. The other session is linked to that as a `resume`.
        """

    def get(self, session_id: str) -> Session:
        """The session with this id or native id, or a unique prefix of either.

        Subagents, whose native ids begin with their parent's, do not make a prefix ambiguous. Raises `SessionNotFound`
        or `AmbiguousId`.
        """

    def messages(self, session_id: str) -> Iterator[Message]:
        """The messages of a session in order; none for an unknown id. Memory does not grow with the session."""

    def delete(self, session_id: str) -> bool:
        """Delete a session and its subagents with all their text, also from the index; `False` if there is none.

        `append` restores neither the sessions nor copies of their messages in other logs.
        """

    def set_outcome(self, session_id: str, outcome: SessionOutcome, because: str = "") -> None:
        """Record the user's verdict on a session; no import overwrites it. Raises `SessionNotFound`."""

    def rewrite(self, change: Callable[[str], str], rename: Callable[[str], str] | None = None) -> int:
        """Apply `change` to every stored text, also in the index. Returns how many changed.

        `rename` is applied to names instead (agents' ids, models, tools, paths), and must keep different names
        different. The ids of sessions and the identities of messages do not change.
        """

    def rejudge(self, judge: Callable[[str, str, ToolResult], CallOutcome], rules: int) -> int:
        """Judge every result again that was judged by other rules. Returns how many outcomes changed.

        `judge` receives the agent, the name of the tool (empty if the call is unknown) and the result. What `append`
        writes counts as judged by `OUTCOME_RULES`. Memory does not grow with the texts.
        """

    def projects(self) -> list[str]:
        """The projects that have sessions, sorted by path."""

    def close(self) -> None:
        """Close the store; it must not be used afterwards."""

    # -- what sync needs

    def transaction(self, *, wait: bool = True, stems: Mapping[str, str] = ...) -> AbstractContextManager[object]:
        """Combine several calls into one write. `stems` are the stems of texts that are already stemmed.

        Without `wait` the write may finish in the background. The next call waits for it and raises its error.
        """

    def positions(self, paths: Iterable[str] | None = None) -> dict[str, Position]:
        """How far each log (or each of those at `paths`) was read, by path."""

    def save_position(self, position: Position) -> int:
        """Save how far a log was read. Returns the new revision."""

    def map_projects(self, map: Callable[[str, str], str]) -> None:
        """Set the project of sessions without a known working tree to `map(project, path of the log)`.

        Their old project becomes their `directory`. Sessions for which `map` returns nothing are not changed.
        """

    # Last, because below this line `list` is no longer the type.

    def list(self, filter: Filter = ...) -> list[SessionSummary]:
        """Sessions, newest first; those without a date come last."""
