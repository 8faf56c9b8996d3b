"""Memory backends that are right but for one thing, for each of which the shipped suite must have a test that fails."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from warmstart.memory import MemoryEntry
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import EXPIRES_AT, Version, View

Metadata = Mapping[str, Any] | None


class ListsOldestFirst(LocalBackend):
    def list_keys(self, user_id: str) -> list[str]:
        return super().list_keys(user_id)[::-1]


class NeverReborn(LocalBackend):
    births: ClassVar[dict[str, float]] = {}

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        found = super().retrieve(user_id, key)
        if found:
            found.created_at = self.births.setdefault(f"{id(self._opened)} {user_id} {key}", found.created_at)
        return found


class AsksEverybody(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = [each for user in self.users() for each in super(AsksEverybody, self).query(user, query_text, limit)]
        return [MemoryEntry(each.key, each.value, user_id, each.created_at, each.updated_at) for each in found][:limit]


class DeletesForEverybody(LocalBackend):
    def delete(self, user_id: str, key: str) -> bool:
        return [super(DeletesForEverybody, self).delete(user, key) for user in {*self.users(), user_id}].count(True) > 0


class AsksOnce(LocalBackend):
    """Remembers its answers."""

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        answers = vars(self._opened).setdefault("answers", {})
        which = (user_id, query_text, limit, self._view)
        if which not in answers:
            answers[which] = super().query(user_id, query_text, limit)
        return list(answers[which])


class WorstFirst(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit)
        return found[::-1] if query_text.strip() else found


class NeverExpires(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        kept = {name: said for name, said in (metadata or {}).items() if name != EXPIRES_AT}
        return super().store(user_id, key, value, kept)


class NothingEmpty(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return bool(value) and super().store(user_id, key, value, metadata)


class MergesMetadata(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        there = self.retrieve(user_id, key)
        return super().store(user_id, key, value, {**(there.metadata if there else {}), **(metadata or {})})


class SharesEntries(LocalBackend):
    """Gives the same object twice."""

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        entries = vars(self._opened).setdefault("entries", {})
        found = super().retrieve(user_id, key)
        kept = entries.get((user_id, key))
        if found and kept and kept.updated_at == found.updated_at:
            return kept
        entries[user_id, key] = found
        return found


class KeepsSecrets(LocalBackend):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given, redact=False)


class NoViews(LocalBackend):
    def at(self, view: View) -> NoViews:
        return self


class WidestWins(LocalBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        everywhere = super().at(View())
        return LocalBackend.retrieve(everywhere, user_id, key) or super().retrieve(user_id, key)


class ViewsWriteEverywhere(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return super().store(user_id, key, value, None if self._view else metadata)


class DeletesEveryScope(LocalBackend):
    def delete(self, user_id: str, key: str) -> bool:
        whole = copy.copy(self)
        whole._view = None
        return LocalBackend.delete(whole, user_id, key)


class NoHistory(LocalBackend):
    def history(self, user_id: str, key: str) -> list[Version]:
        return []


class ClosesOnce(LocalBackend):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        super().close()


MUTANTS = [
    each
    for each in list(globals().values())
    if isinstance(each, type) and issubclass(each, LocalBackend) and each is not LocalBackend
]
