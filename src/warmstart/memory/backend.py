"""The contract of a memory backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from warmstart.memory.values import MemoryEntry, Version, View

EVERYWHERE = View()


class MemoryBackend(ABC):
    """Keeps entries by user and key. No user ever sees another's.

    A method that cannot reach what it needs raises a `WarmstartError`; `store` and `delete` return whether it is done.
    Whatever was stored is there for every process that asks next.
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
        """Keep a value under a key, in place of the one before, which becomes history."""

    @abstractmethod
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        """The entry of exactly this key, if it is there and has not expired."""

    @abstractmethod
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        """Entries that fit the text, best first; for an empty text the newest."""

    @abstractmethod
    def list_keys(self, user_id: str) -> list[str]:
        """The keys of a user, the newest first."""

    @abstractmethod
    def delete(self, user_id: str, key: str) -> bool:
        """Forget a key; whether there was one."""

    def history(self, user_id: str, key: str) -> list[Version]:
        """What a key was worth over time, the newest first; nothing where a backend does not remember."""
        return []

    def users(self) -> list[str]:
        """The users that have entries; nothing where a backend cannot tell."""
        return []

    def at(self, view: View) -> MemoryBackend:
        """The same memory as seen from a project or an agent."""
        return self

    def close(self) -> None:
        """Let go of what is held."""
        return
