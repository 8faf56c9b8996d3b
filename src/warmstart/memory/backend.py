"""The contract of a memory backend, and the backend that stores nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from warmstart.memory.values import SESSION, SOURCE, MemoryEntry, Record, Status, Version, View

MAX_ENTRIES = 1_000_000  # of one user


class MemoryBackend(ABC):
    """Stores entries by user and key. No user ever sees another's entries.

    A method that cannot reach what it needs raises a `WarmstartError`. Text that cannot be stored raises
    `InvalidEntry`: a key, user id, project or agent of more than 500 characters, or metadata of more than 64 KB. Every
    process sees what was stored at once. Threads may share a backend.

    The methods from `history` on are optional: each has a default for a backend that cannot do it.
    """

    problem = ""  # why it is not available, if it knows
    deletion_note = ""  # what its server keeps of deleted entries

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """The name for messages, such as `local (SQLite)`."""

    @property
    @abstractmethod
    def is_cloud(self) -> bool:
        """Whether entries leave this machine for somebody else's."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it can be used now. Never raises, and is quick."""

    @abstractmethod
    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Store a value under a key and scope. The value before it becomes history. Returns whether it is stored."""

    @abstractmethod
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        """The entry with exactly this key, unless it has expired."""

    @abstractmethod
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        """Entries that match a text, best first; the newest for an empty text. No text raises.

        An entry whose key is the text comes first.
        """

    @abstractmethod
    def list_keys(self, user_id: str) -> list[str]:
        """The keys of a user, newest first."""

    @abstractmethod
    def delete(self, user_id: str, key: str) -> bool:
        """Delete a key: the entry that the view shows, or without a view the key in all scopes.

        Its values, past ones included, and its key are gone. Returns whether there was one.
        """

    # -- optional

    def history(self, user_id: str, key: str) -> list[Version]:
        """The values of a key over time, newest first."""
        return []

    def users(self) -> list[str]:
        """The users that have entries."""
        return []

    def at(self, view: View) -> MemoryBackend:
        """The same memory as seen from a project or an agent; entries of others are hidden.

        Without a view all entries of a user are visible; `View()` shows those of the user scope.
        """
        return self

    def forget_user(self, user_id: str, *, vacuum: bool = True) -> int:
        """Delete everything about a user, the name included; returns how many entries there were.

        Without `vacuum` the text may stay in the free space of files.
        """
        return sum(self.delete(user_id, key) for key in self.list_keys(user_id))

    def vacuum(self) -> None:
        """Erase what is left of deleted text in files and indexes."""
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
        """Store an entry after its former values. Times are kept where the backend can."""
        entry = record.entry
        for version in record.history:
            said = {**entry.metadata, SESSION: version.session, SOURCE: version.source}
            self.store(entry.user_id, entry.key, str(version.value), said)
        self.store(entry.user_id, entry.key, entry.value, entry.metadata)

    def status(self) -> Status | None:
        """The state of its server; None for a backend without one, and for one that is not available."""
        return None

    def flush(self, seconds: float) -> bool:
        """Send what waits; returns whether all of it arrived in time."""
        return True

    def sync(self, user_id: str | None, seconds: float) -> bool:
        """Fetch what is new about a user, or about everyone; returns whether that succeeded in time."""
        return True

    def is_reachable(self) -> bool:
        """Whether its server answers now and accepts the key."""
        return self.is_available()

    def is_deriving(self, user_id: str) -> bool:
        """Whether its server still works on what it was sent about a user."""
        return False

    def retry(self) -> int:
        """Queue again what the server rejected; returns how many writes."""
        return 0

    def stays_local(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an entry with this metadata is never sent to the server."""
        return False

    def close(self) -> None:
        """Release what is open."""
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
