"""Copy the templates of one store to another, with their versions, revocations and uses.

A template is recognised in the target by its id and creation time; if a different template has its id there, it gets a
new one. A template that already exists there gets the versions it lacks; one that was changed in both stores is left
as it is in the target. Anything revoked or deleted in either store is gone from the target. Copying twice changes
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from warmstart.storage.database import Connection
from warmstart.templates.revoke import revoke
from warmstart.templates.store import BODIES, SQLTemplateStore, decode, save_head, take_id

_VERSION = "version, author, at, reason, hash, state, body"
_USE = (
    "session, arm, at, template, version, project, agent, task, why, propensity, tokens, items, policy, "
    "outcome, errors, calls, settled_at"
)


def copy_templates(source: SQLTemplateStore, target: SQLTemplateStore) -> int:
    """Copy all templates that the target lacks or has in an older version; returns how many."""
    with target.database.transaction() as there, source.database.translate_errors():
        here = source.database.connection
        _copy_deletions(here, target, there)
        copied = 0
        names: dict[str, str] = {}
        for old, created_at in here.execute("SELECT id, created_at FROM templates ORDER BY created_at, id").fetchall():
            if new := _place(there, old, created_at):
                names[old] = new
                copied += _copy_versions(here, there, old, new)
        _copy_uses(here, there, names)
        _copy_revocations(here, target, there)
    return copied


def _copy_deletions(here: Connection, target: SQLTemplateStore, there: Connection) -> None:
    for row in here.execute(
        "SELECT id, created_at, deleted_at, deleted_by FROM template_ids WHERE deleted_at IS NOT NULL"
    ).fetchall():
        there.execute(
            "INSERT INTO template_ids (id, created_at, deleted_at, deleted_by) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO NOTHING",
            row,
        )
        if there.execute("SELECT 1 FROM templates WHERE id = ? AND created_at = ?", row[:2]).fetchone():
            target.delete(row[0], author=row[3] or "")


def _place(there: Connection, name: str, created_at: float) -> str:
    """The id of a template in the target, reserved if it is new; empty if the template was deleted there."""
    ids = "SELECT id, created_at, deleted_at FROM template_ids WHERE"
    row = there.execute(f"{ids} id = ?", (name,)).fetchone()
    if row is None:
        there.execute("INSERT INTO template_ids (id, created_at) VALUES (?, ?)", (name, created_at))
        return name
    if row[1] != created_at:
        row = there.execute(f"{ids} created_at = ?", (created_at,)).fetchone()
    if row is None:
        return take_id(there, datetime.fromtimestamp(created_at, UTC))
    return "" if row[2] is not None else str(row[0])


def _copy_versions(here: Connection, there: Connection, old: str, new: str) -> int:
    ours, theirs = _versions(here, old), _versions(there, new)
    if len(theirs) >= len(ours) or any(a[2] != b[2] for a, b in zip(ours, theirs, strict=False)):
        return 0
    row = here.execute(f"{BODIES} AND v.version = t.version WHERE t.id = ?", (old,)).fetchone()
    save_head(there, replace(decode(row), id=new))
    there.executemany(
        f"INSERT INTO template_versions (template, {_VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(new, *version) for version in ours[len(theirs) :]],
    )
    sources = here.execute(
        "SELECT session, version FROM template_sources WHERE template = ? AND version > ?", (old, len(theirs))
    ).fetchall()
    there.executemany(
        "INSERT INTO template_sources (template, session, version) VALUES (?, ?, ?)", [(new, *row) for row in sources]
    )
    return 1


def _versions(connection: Connection, template: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        f"SELECT {_VERSION} FROM template_versions WHERE template = ? ORDER BY version", (template,)
    ).fetchall()


def _copy_uses(here: Connection, there: Connection, names: dict[str, str]) -> None:
    """Copy the uses of templates; a use that has been settled since the last copy is settled there too."""
    known = {
        (session, arm, at, template): (number, settled)
        for number, session, arm, at, template, settled in there.execute(
            "SELECT id, session, arm, at, template, settled_at FROM template_uses"
        )
    }
    for session, arm, at, template, *rest in here.execute(f"SELECT {_USE} FROM template_uses ORDER BY id").fetchall():
        use = (session, arm, at, names.get(template, template))
        if use not in known:
            there.execute(
                f"INSERT INTO template_uses ({_USE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*use, *rest),
            )
        elif known[use][1] is None and rest[-1] is not None:
            there.execute(
                "UPDATE template_uses SET outcome = ?, errors = ?, calls = ?, settled_at = ? WHERE id = ?",
                (*rest[-4:], known[use][0]),
            )


def _copy_revocations(here: Connection, target: SQLTemplateStore, there: Connection) -> None:
    """Revoke in the target what was revoked in either store, including from what was just copied."""
    ours = here.execute("SELECT session, at, author FROM template_revoked").fetchall()
    there.executemany(
        "INSERT INTO template_revoked (session, at, author) VALUES (?, ?, ?) ON CONFLICT (session) DO NOTHING", ours
    )
    for session, author in there.execute("SELECT session, author FROM template_revoked ORDER BY at").fetchall():
        revoke(target, session, author=author)
