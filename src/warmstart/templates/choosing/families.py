"""Which sessions are independent: not parts of one conversation that was resumed, branched or delegated."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart.templates.store import SQLTemplateStore


class Families:
    """Knows for each session where its conversation began."""

    def __init__(self, parents: Mapping[str, str]) -> None:
        self._parents = parents

    def root(self, session: str) -> str:
        """The session that it all began with."""
        seen = {session}
        while (parent := self._parents.get(session)) is not None and parent not in seen:
            seen.add(parent)
            session = parent
        return session


def families(store: SQLTemplateStore) -> Families:
    """The families of the sessions in a store."""
    with store.database.translate_errors():
        rows = store.database.connection.execute("SELECT id, parent_id FROM sessions WHERE parent_id IS NOT NULL")
        return Families({row[0]: row[1] for row in rows})
