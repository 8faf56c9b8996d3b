"""A memory backend in a dictionary: small enough to be right, and easy to break on purpose."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any

from warmstart.errors import StoreUnreachable
from warmstart.memory import MemoryBackend, MemoryEntry
from warmstart.memory.values import EXPIRES_AT, SESSION, SOURCE, Version, View


class DictBackend(MemoryBackend):
    """Ranks by words in common. Handles opened by `reopen` share the data."""

    backend_name = "dictionary (test)"
    is_cloud = False

    def __init__(self, data: dict[str, dict[str, list[Version]]] | None = None, view: View | None = None) -> None:
        self.data = {} if data is None else data
        self.meta: dict[tuple[str, str], dict[str, Any]] = {}
        self.lock = RLock()
        self.away = False
        self.closed = 0
        self.view = view or View()

    def is_available(self) -> bool:
        return not self.away

    def _check(self) -> None:
        if self.away:
            raise StoreUnreachable("the dictionary is away; wait for it")

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        self._check()
        now = time.time()
        with self.lock:
            versions = self.data.setdefault(user_id, {}).pop(key, [])
            if versions:
                last = versions[-1]
                versions[-1] = Version(last.value, last.since, now, last.session, last.source)
            said = dict(metadata or {})
            versions.append(Version(value, now, None, str(said.get(SESSION, "")), str(said.get(SOURCE, ""))))
            self.data[user_id][key] = versions  # last: the newest
            self.meta[user_id, key] = said
        return True

    def _entry(self, user_id: str, key: str) -> MemoryEntry | None:
        versions = self.data.get(user_id, {}).get(key)
        if not versions or versions[-1].value is None:
            return None
        metadata = self.meta.get((user_id, key), {})
        if EXPIRES_AT in metadata and metadata[EXPIRES_AT] <= time.time():
            return None
        return MemoryEntry(key, versions[-1].value, user_id, versions[0].since, versions[-1].since, dict(metadata))

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        self._check()
        with self.lock:
            return self._entry(user_id, key)

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        self._check()
        with self.lock:
            entries = [entry for key in reversed(self.data.get(user_id, {})) if (entry := self.retrieve(user_id, key))]
        asked = words(query_text)
        if not asked:
            return entries[:limit]
        ranked = sorted(entries, key=lambda entry: -len(asked & words(f"{entry.key} {entry.value}")))
        return [entry for entry in ranked if asked & words(f"{entry.key} {entry.value}")][:limit]

    def list_keys(self, user_id: str) -> list[str]:
        self._check()
        with self.lock:
            return [key for key in reversed(self.data.get(user_id, {})) if self._entry(user_id, key)]

    def delete(self, user_id: str, key: str) -> bool:
        self._check()
        with self.lock:
            if self._entry(user_id, key) is None:
                return False
            now = time.time()
            last = self.data[user_id][key][-1]
            self.data[user_id][key][-1] = Version(last.value, last.since, now, last.session, last.source)
            self.data[user_id][key].append(Version(None, now, None))
            return True

    def history(self, user_id: str, key: str) -> list[Version]:
        return list(reversed(self.data.get(user_id, {}).get(key, [])))

    def users(self) -> list[str]:
        return sorted(user for user in self.data if self.list_keys(user))

    def close(self) -> None:
        self.closed += 1

    def forget_user(self, user_id: str) -> int:
        return len(self.data.pop(user_id, {}))

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.away = True
        try:
            yield
        finally:
            self.away = False


@lru_cache(10_000)
def words(text: str) -> frozenset[str]:
    return frozenset({word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 2} - STOP)


STOP = {"the", "and", "for", "with", "which", "what", "who", "how", "when", "where", "doe", "are", "was", "she", "her"}
