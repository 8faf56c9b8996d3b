"""The contract of a memory backend, the backend that stores nothing, and the delivery of writes to a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from warmstart.errors import StoreError
from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Record, Status, Version, View
from warmstart.text.truncate import one_line

MAX_ENTRIES = 1_000_000  # of one user


class MemoryBackend(ABC):
    """Stores entries by user and key. No user ever sees another's entries.

    A method that cannot reach its store raises a `WarmstartError`. What cannot be stored raises `InvalidEntry`: a key,
    user id, project or agent of more than 500 characters, or metadata of more than 64 KB. Every process sees a write
    at once. Threads may share a backend.

    The methods from `history` on are optional; their defaults are for backends that do not support them.
    """

    problem = ""  # why it is not available, if that is known
    deletion_note = ""  # which traces of deleted entries its server keeps

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """The name to show, such as `local (SQLite)`."""

    @property
    @abstractmethod
    def is_cloud(self) -> bool:
        """Whether entries are sent to somebody else's machine."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it can be used now. Never raises, and is quick."""

    @abstractmethod
    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Store a value under a key and scope. The previous value becomes history. Returns whether it was stored."""

    @abstractmethod
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        """The entry with exactly this key, unless it has expired."""

    @abstractmethod
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        """Entries that match a text, best first; for an empty text, the newest. No text makes it raise.

        An entry whose key equals the text comes first.
        """

    @abstractmethod
    def list_keys(self, user_id: str) -> list[str]:
        """The keys of a user, newest first."""

    @abstractmethod
    def delete(self, user_id: str, key: str) -> bool:
        """Delete a key: the entry that the view shows, or without a view, the key in all scopes.

        The key and all its values, past ones included, are erased. Returns whether it existed.
        """

    # -- optional

    def history(self, user_id: str, key: str) -> list[Version]:
        """The values of a key over time, newest first."""
        return []

    def users(self) -> list[str]:
        """The users that have entries."""
        return []

    def at(self, view: View) -> MemoryBackend:
        """The same memory as seen from a project or an agent, without the entries of others.

        Without a view, all entries of a user are visible; `View()` shows only those of the user scope.
        """
        return self

    def forget_user(self, user_id: str, *, vacuum: bool = True) -> int:
        """Delete everything about a user, including the name; returns the number of entries.

        Without `vacuum`, text may remain in the free space of files.
        """
        return sum(self.delete(user_id, key) for key in self.list_keys(user_id))

    def vacuum(self) -> None:
        """Erase traces of deleted text from files and indexes."""
        return

    def dump(self, user_id: str) -> list[Record]:
        """All entries of a user in all scopes with their history, oldest first."""
        entries = sorted(self.query(user_id, "", limit=MAX_ENTRIES), key=lambda entry: entry.updated_at)
        records = []
        for entry in entries:
            seen = self.at(view_of(entry)).history(user_id, entry.key)
            former = [version for version in seen if version.value is not None and version.until is not None]
            records.append(Record(entry, tuple(reversed(former))))
        return records

    def load(self, record: Record) -> None:
        """Store an entry after its former values. Times are preserved if the backend can."""
        entry = record.entry
        for version in record.history:
            said = {**entry.metadata, SESSION: version.session, SOURCE: version.source}
            self.store(entry.user_id, entry.key, str(version.value), said)
        self.store(entry.user_id, entry.key, entry.value, entry.metadata)

    def status(self) -> Status | None:
        """The state of its server; None if it has none or is not available."""
        return None

    def flush(self, seconds: float) -> bool:
        """Send queued writes; returns whether all of them arrived in time."""
        return True

    def sync(self, user_id: str | None, seconds: float) -> bool:
        """Fetch changes for a user, or for all users; returns whether that succeeded in time."""
        return True

    def is_reachable(self) -> bool:
        """Whether its server answers now and accepts the key."""
        return self.is_available()

    def is_deriving(self, user_id: str) -> bool:
        """Whether its server is still processing what it was sent about a user."""
        return False

    def retry(self) -> int:
        """Queue the writes that the server rejected again; returns how many."""
        return 0

    def stays_local(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an entry with this metadata is never sent to the server."""
        return False

    def close(self) -> None:
        """Close files and connections."""
        return


class NullBackend(MemoryBackend):
    """Accepts everything and stores nothing."""

    backend_name = "null (disabled)"
    is_cloud = False

    def is_available(self) -> bool:
        return True

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        return True

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        return None

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return []

    def list_keys(self, user_id: str) -> list[str]:
        return []

    def delete(self, user_id: str, key: str) -> bool:
        return True


def view_of(entry: MemoryEntry) -> View:
    """The view that shows an entry."""
    scope, _, name = entry.place.partition(":")
    return View(**{scope: name}) if scope else View()


class Delivery:
    """Sends the writes made since it was created, if the backend has a server, and reports the result."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        status = backend.status()
        self._rejected = Counter(status.rejected if status else ())

    def finish(self, seconds: float) -> str:
        """Send queued writes; returns a line that says why some are still queued, if any are.

        Raises `StoreError` if the server rejected a write.
        """
        status = self._backend.status()
        if status and status.waiting:
            if self._backend.is_reachable():
                self._backend.flush(seconds)
            status = self._backend.status()  # after the attempt
        if status is None:
            return ""
        for _, key, reason in Counter(status.rejected) - self._rejected:
            raise StoreError(
                f"{status.address} rejected {key!r} ({one_line(reason, 160)}); it stays on this machine; change it, or "
                "resend it with `warmstart memory info --retry`"
            )
        if not status.waiting:
            return ""
        waits, them = (f"{status.waiting} writes wait", "them") if status.waiting != 1 else ("1 write waits", "it")
        return f"{waits} on this machine: {status.problem}. The next command that reaches it sends {them}."


@contextmanager
def local_copy(backend: MemoryBackend) -> Iterator[MemoryBackend | None]:
    """The backend, or what this machine has of a cloud backend, for when nobody should wait for a server."""
    reopen = getattr(backend, "reopen", None)
    if not backend.is_available() or (backend.is_cloud and reopen is None):
        yield None
    elif backend.is_cloud and reopen:
        with closing(reopen()) as copy:
            yield copy
    else:
        yield backend
