"""Memory that is switched off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmstart.memory.backend import MemoryBackend
from warmstart.memory.values import MemoryEntry


class NullBackend(MemoryBackend):
    """Accepts everything and keeps nothing."""

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
        return False
