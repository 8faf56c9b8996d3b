"""The ids of templates: `warm_20260310_142530` for when one was made, and `_2` and so on for others of that second."""

from __future__ import annotations

from datetime import UTC, datetime

from warmstart.storage.database import Connection


def take_id(connection: Connection, at: datetime) -> str:
    """An id that no template has or had. It is safe from others because the caller holds the write lock."""
    stamp = at.astimezone(UTC).strftime("warm_%Y%m%d_%H%M%S")
    rows = connection.execute(
        "SELECT id FROM template_ids WHERE id = ?1 OR substr(id, 1, length(?1) + 1) = ?1 || '_'", (stamp,)
    )
    taken = {row[0] for row in rows}
    chosen, number = stamp, 1
    while chosen in taken:
        number += 1
        chosen = f"{stamp}_{number}"
    connection.execute("INSERT INTO template_ids (id, created_at) VALUES (?, ?)", (chosen, at.timestamp()))
    return chosen
