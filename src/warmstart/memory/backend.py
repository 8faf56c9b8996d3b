"""The contract of a memory backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from warmstart.memory.values import MemoryEntry, Version, View


class MemoryBackend(ABC):
    """Keeps entries by user and key. No user ever sees another's.

    A method that cannot reach what it needs raises a `WarmstartError`, and an `InvalidEntry` for what is no text or, in
    `store`, cannot be kept as it is given: a key, a user's id, a project or an agent of more than 500 characters, or
    metadata of more than 64 KB. `store` and `delete` return whether it is done. Whatever was stored is there for every
    process that asks next. Threads may share a backend.
    """

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """What it is called in messages, such as `local (SQLite)`."""

    @property
    @abstractmethod
    def is_cloud(self) -> bool:
        """Whether what is stored leaves the machine for somebody else's."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it can be used here and now; never raises, and never takes long."""

    @abstractmethod
    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Keep a value under a key and scope, in place of the one before, which becomes history."""

    @abstractmethod
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        """The entry of exactly this key, if it is there and has not expired."""

    @abstractmethod
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        """Entries that fit the text, best first; for an empty text the newest. Any text gives an answer or nothing.

        An entry whose key is the text comes before all others. What is not seen from here takes nobody's place.
        """

    @abstractmethod
    def list_keys(self, user_id: str) -> list[str]:
        """The keys of a user, the newest first."""

    @abstractmethod
    def delete(self, user_id: str, key: str) -> bool:
        """Forget a key, from a view the entry that is seen and otherwise in all scopes; whether there was one.

        Nothing of it is left, its former values included, but that it was there and when it was deleted.
        """

    def history(self, user_id: str, key: str) -> list[Version]:
        """What a key was worth over time, the newest first; nothing where a backend does not remember."""
        return []

    def users(self) -> list[str]:
        """The users that have entries; nothing where a backend cannot tell."""
        return []

    def at(self, view: View) -> MemoryBackend:
        """The same memory as seen from a project or an agent, by which other projects and agents have no entries.

        Without a view every entry of a user is seen; from `View()` those are that hold everywhere.
        """
        return self

    def close(self) -> None:
        """Let go of what is held."""
        return
