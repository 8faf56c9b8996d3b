"""Changing texts that are stored already, when a better rule of redaction reaches old rows."""

from __future__ import annotations

from collections.abc import Callable

from warmstart.storage.database import Connection
from warmstart.templates.hashing import content_hash
from warmstart.templates.rows import BODIES, decode, encode_body, encode_head
from warmstart.templates.texts import rewritten


def rewrite_rows(connection: Connection, change: Callable[[str], str], rename: Callable[[str], str]) -> int:
    """Apply a change to every text of every version, and to what audits say; returns how many rows changed.

    `rename` is applied to what sessions and projects are called there.
    """
    changed = 0
    for row in connection.execute(f"{BODIES} WHERE v.body IS NOT NULL").fetchall():
        old = decode(row)
        new = rewritten(old, change)
        if new != old:
            connection.execute(
                "UPDATE template_versions SET body = ?, hash = ? WHERE template = ? AND version = ?",
                (encode_body(new), content_hash(new), new.id, new.version),
            )
            connection.execute(
                "UPDATE templates SET name = ?, head = ? WHERE id = ? AND version = ?",
                (new.name, encode_head(new), new.id, new.version),
            )
            changed += 1
    changed += _rewrite_column(connection, "template_versions", "template, version", "reason", change)
    for column in ("task", "why"):
        changed += _rewrite_column(connection, "template_uses", "id", column, change)
    for column in ("session", "project", "agent"):
        changed += _rewrite_column(connection, "template_uses", "id", column, rename)
    return changed


def _rewrite_column(connection: Connection, table: str, key: str, column: str, change: Callable[[str], str]) -> int:
    matched = " AND ".join(f"{name} = ?" for name in key.split(", "))
    changed = 0
    for text, *place in connection.execute(f"SELECT {column}, {key} FROM {table} WHERE {column} <> ''").fetchall():
        if (new := change(text)) != text:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {matched}", (new, *place))
            changed += 1
    return changed
