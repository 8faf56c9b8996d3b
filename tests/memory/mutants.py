"""Memory backends that are right but for one thing, for each of which the shipped suite must have a test that fails."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from warmstart.errors import InvalidEntry
from warmstart.memory import MemoryEntry
from warmstart.memory.local import LocalBackend
from warmstart.memory.values import EXPIRES_AT, Version, View

Metadata = Mapping[str, Any] | None


class ListsOldestFirst(LocalBackend):
    def list_keys(self, user_id: str) -> list[str]:
        return super().list_keys(user_id)[::-1]


class ListsByKey(LocalBackend):
    def list_keys(self, user_id: str) -> list[str]:
        return sorted(super().list_keys(user_id))


class ListsEveryScope(LocalBackend):
    def list_keys(self, user_id: str) -> list[str]:
        return [entry.key for entry in self.query(user_id, "", 1000)]


class BornAnew(LocalBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        found = super().retrieve(user_id, key)
        if found:
            found.created_at = found.updated_at
        return found


class NeverReborn(LocalBackend):
    births: ClassVar[dict[str, float]] = {}

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        found = super().retrieve(user_id, key)
        if found:
            found.created_at = self.births.setdefault(f"{id(self._held)} {user_id} {key}", found.created_at)
        return found


class OldestForNothing(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit if query_text.strip() else 1000)
        return found if query_text.strip() else found[::-1][:limit]


class NothingForNothing(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return super().query(user_id, query_text, limit) if query_text.strip() else []


class AsksEverybody(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = [each for user in self.users() for each in super(AsksEverybody, self).query(user, query_text, limit)]
        return [MemoryEntry(each.key, each.value, user_id, each.created_at, each.updated_at) for each in found][:limit]


class DeletesForEverybody(LocalBackend):
    def delete(self, user_id: str, key: str) -> bool:
        return [super(DeletesForEverybody, self).delete(user, key) for user in {*self.users(), user_id}].count(True) > 0


class WholeWords(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit)
        asked = set(query_text.lower().split())
        return [e for e in found if not asked or asked & set(f"{e.key} {e.value}".lower().replace("_", " ").split())]


class NoMetadataSearch(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit)
        return [each for each in found if query_text.lower() not in str(each.metadata).lower() or not query_text]


class OneTooMany(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return super().query(user_id, query_text, limit + 1)


class NoLimit(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return super().query(user_id, query_text, 1000)


class AllForNone(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return super().query(user_id, query_text, limit if limit > 0 else 1000)


class Doubles(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        return [each for each in super().query(user_id, query_text, limit) for _ in range(2)][:limit]


class AsksOnce(LocalBackend):
    """Remembers its answers."""

    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        held: Any = self._held
        answers = held.__dict__.setdefault("answers", {})
        which = (user_id, query_text, limit, self._view)
        if which not in answers:
            answers[which] = super().query(user_id, query_text, limit)
        return list(answers[which])


class FussyAboutSigns(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        if '"' in query_text:
            raise ValueError("fts5: syntax error")
        return super().query(user_id, query_text, limit)


class WorstFirst(LocalBackend):
    def query(self, user_id: str, query_text: str, limit: int = 10) -> list[MemoryEntry]:
        found = super().query(user_id, query_text, limit)
        return found[::-1] if query_text.strip() else found


class AlwaysDeleted(LocalBackend):
    def delete(self, user_id: str, key: str) -> bool:
        super().delete(user_id, key)
        return True


class NeverSaysDeleted(LocalBackend):
    def delete(self, user_id: str, key: str) -> bool:
        super().delete(user_id, key)
        return False


class HidesOnly(LocalBackend):
    """What is deleted can still be searched."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.hidden: set[tuple[str, str]] = set()

    def delete(self, user_id: str, key: str) -> bool:
        there = self.retrieve(user_id, key) is not None
        self.hidden.add((user_id, key))
        return there

    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        self.hidden.discard((user_id, key))
        return super().store(user_id, key, value, metadata)

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        return None if (user_id, key) in self.hidden else super().retrieve(user_id, key)

    def list_keys(self, user_id: str) -> list[str]:
        return [key for key in super().list_keys(user_id) if (user_id, key) not in self.hidden]


class NeverExpires(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        kept = {name: said for name, said in (metadata or {}).items() if name != EXPIRES_AT}
        return super().store(user_id, key, value, kept)


class ExpiresWhenStored(LocalBackend):
    """Looks at the time of expiry only when it stores."""

    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        kept = dict(metadata or {})
        end = kept.get(EXPIRES_AT)
        if isinstance(end, float) and end > time.time():
            del kept[EXPIRES_AT]
        return super().store(user_id, key, value, kept)


class LowersKeys(LocalBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        return super().retrieve(user_id, key.lower())


class TrimsKeys(LocalBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        return super().retrieve(user_id, key.strip())


class TrimsValues(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return super().store(user_id, key, " ".join(value.split(" ")).replace("  ", " "), metadata)


class CutsValues(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return super().store(user_id, key, value[:65_536], metadata)


class AsciiOnly(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return super().store(user_id, key, value.encode("ascii", "ignore").decode(), metadata)


class NothingEmpty(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        return bool(value) and super().store(user_id, key, value, metadata)


class SaysNothing(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        super().store(user_id, key, value, metadata)
        return None  # type: ignore[return-value]


class MergesMetadata(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        there = self.retrieve(user_id, key)
        return super().store(user_id, key, value, {**(there.metadata if there else {}), **(metadata or {})})


class FlattensMetadata(LocalBackend):
    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        found = super().retrieve(user_id, key)
        if found:
            found.metadata = {name: str(value) for name, value in found.metadata.items()}
        return found


class SharesEntries(LocalBackend):
    """Gives the same object twice."""

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        held: Any = self._held
        entries = held.__dict__.setdefault("entries", {})
        found = super().retrieve(user_id, key)
        kept = entries.get((user_id, key))
        if found and kept and kept.updated_at == found.updated_at:
            return kept
        entries[user_id, key] = found
        return found


class KeepsSecrets(LocalBackend):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given, redact=False)


class AcceptsAnything(LocalBackend):
    def store(self, user_id: str, key: str, value: str, metadata: Metadata = None) -> bool:
        try:
            return super().store(user_id, key, value, metadata)
        except InvalidEntry:
            return False


class NoViews(LocalBackend):
    def at(self, view: View) -> NoViews:
        return self


class ViewsOfProjects(LocalBackend):
    def at(self, view: View) -> ViewsOfProjects:
        return super().at(View(project=view.project))


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


class HistoryOldestFirst(LocalBackend):
    def history(self, user_id: str, key: str) -> list[Version]:
        return super().history(user_id, key)[::-1]


class HistoryWithoutSessions(LocalBackend):
    def history(self, user_id: str, key: str) -> list[Version]:
        return [Version(each.value, each.since, each.until) for each in super().history(user_id, key)]


class HistoryOfEveryWrite(LocalBackend):
    """Takes a value that stays the same for another one."""

    def history(self, user_id: str, key: str) -> list[Version]:
        found = super().history(user_id, key)
        entry = self.retrieve(user_id, key)
        return [found[0], *found] if entry and entry.updated_at > entry.created_at and len(found) == 1 else found


class HistoryKeepsDeleted(LocalBackend):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.deleted: dict[tuple[str, str], list[Version]] = defaultdict(list)

    def delete(self, user_id: str, key: str) -> bool:
        self.deleted[user_id, key] += super().history(user_id, key)
        return super().delete(user_id, key)

    def history(self, user_id: str, key: str) -> list[Version]:
        return super().history(user_id, key) + self.deleted[user_id, key]


class TellsEverybody(LocalBackend):
    def users(self) -> list[str]:
        return [row[0] for row in self._held.database.connection.execute("SELECT user_id FROM memory_users")]


class ClosesOnce(LocalBackend):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        super().close()


class OneAtATime(LocalBackend):
    """Mixes up what threads ask for."""

    asked: tuple[str, str] = ("", "")

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        self.asked = (user_id, key)
        time.sleep(0.001)
        return super().retrieve(*self.asked)


class SeesItselfOnly(LocalBackend):
    """What another writes comes to it late."""

    def reopen(self) -> SeesItselfOnly:
        other = super().reopen()
        other.retrieve = lambda user_id, key: None  # type: ignore[method-assign]
        return other


MUTANTS = [
    each
    for each in list(globals().values())
    if isinstance(each, type) and issubclass(each, LocalBackend) and each is not LocalBackend
]
