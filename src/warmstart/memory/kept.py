"""All that a backend keeps of an entry, for a copy: its times, its former values, and what was deleted.

`Tells` and `Archives` are what a backend may offer besides the contract.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from warmstart.memory.values import SCOPE, SCOPES, SESSION, SOURCE, MemoryEntry, Scope, Version

if TYPE_CHECKING:
    from warmstart.redact.redactor import Redactor

Outcome = Literal["written", "present", "newer", "undeleted"]


class Place(NamedTuple):
    """What tells an entry from the others of a user: its key, and whose it is in which scope."""

    key: str
    scope: Scope
    place: str


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept of a place: values that are over, and when it was deleted, both the oldest first.

    Without an entry only that it was deleted is known.
    """

    user_id: str
    place: Place
    entry: MemoryEntry | None
    former: tuple[Version, ...] = ()
    deletions: tuple[float, ...] = ()

    @property
    def deleted(self) -> float | None:
        """When it last was."""
        return max(self.deletions, default=None)


@runtime_checkable
class Tells(Protocol):
    """Can tell all that it keeps."""

    def archived_users(self) -> list[str]:
        """Whoever has entries, or had some that were deleted."""

    def archive(self, user_id: str) -> list[Kept]:
        """All that is kept of a user, in the order in which it was written."""


@runtime_checkable
class Archives(Tells, Protocol):
    """Can tell all that it keeps, and take it over as it was elsewhere."""

    def restore(self, kept: Kept) -> Outcome:
        """Keep this as well, with its times. What was there becomes history, unless it is newer: then it stays."""


def place_of(entry: MemoryEntry) -> Place:
    """Where an entry belongs."""
    said = entry.metadata.get(SCOPE)
    scope: Scope = said if said in SCOPES else "user"
    return Place(entry.key, scope, str(entry.metadata.get(scope, "")) if scope != "user" else "")


def without_secrets(kept: Kept, redactor: Redactor | None) -> Kept:
    """The same as whoever redacts keeps it: key, values, metadata, and where each value was from."""
    from warmstart.memory.entries import prepared

    if redactor is None:
        return kept
    entry = kept.entry
    given = prepared(
        kept.place.key, entry.value if entry else "", entry.metadata if entry else None, view=None, redactor=redactor
    )
    place = kept.place._replace(key=given.key)
    if entry is None:
        return replace(kept, place=place)
    said = json.loads(given.metadata) if given.metadata else {}
    shown = MemoryEntry(given.key, given.value, entry.user_id, entry.created_at, entry.updated_at, said)
    former = []
    for each in kept.former:
        was = {SESSION: each.session, SOURCE: each.source}
        then = prepared(given.key, str(each.value), was, view=None, redactor=redactor)
        was = json.loads(then.metadata)
        former.append(replace(each, value=then.value, session=str(was[SESSION]), source=str(was[SOURCE])))
    return Kept(kept.user_id, place, shown, tuple(former), kept.deletions)
