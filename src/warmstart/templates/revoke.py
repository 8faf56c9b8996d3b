"""Revoke a session: remove everything that came from it, from every template and every version.

A template with items of the session gets a new version without them. Older versions that contain such items are
withdrawn: they stay listed, but cannot be read, rendered or reverted to. Items that another session has too stay. A
template with nothing left is retired. The session's children are revoked with it, and nothing is extracted from any of
them again.

Text written by a person (a name, a description, a tag) stays as long as there are items. Generated text is removed: a
description, the name of an automatic template, and the reasons for choosing it in the audit log.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from warmstart.errors import SessionNotFound
from warmstart.storage.database import Connection, batches, placeholders
from warmstart.templates.item import EDIT, Item
from warmstart.templates.store import SQLTemplateStore, sources_of, with_children
from warmstart.templates.template import SessionSeed, State, WarmTemplate

_ID = re.compile(r"[0-9a-f]{16}")
_WHY = "it came from a session that has been revoked"


class Revoked(NamedTuple):
    """The effect of a revocation on a template: its new version and state, items removed, versions withdrawn."""

    template: str
    name: str
    version: int
    state: State
    items: int
    withdrawn: tuple[int, ...]


def revoke(store: SQLTemplateStore, session_id: str, *, author: str = "") -> list[Revoked]:
    """Revoke a session and its children; returns the effect on each template.

    The session is named as for `SessionStore.get`, or by its full id if it is no longer stored. Raises
    `SessionNotFound` or `AmbiguousId`.
    """
    with store.database.transaction() as connection:
        store.database.take_back()
        try:
            session_id = store.sessions.get(session_id).id
        except SessionNotFound:
            if not _ID.fullmatch(session_id):
                raise
        family = with_children(connection, "SELECT CAST(? AS TEXT)", session_id)
        at = store.now().timestamp()
        connection.executemany(
            "INSERT INTO template_revoked (session, at, author) VALUES (?, ?, ?) ON CONFLICT (session) DO NOTHING",
            [(session, at, store.words(author)) for session in family],
        )
        versions: dict[str, set[int]] = {}
        for some in batches(family):
            # A host may have named the session by the agent's own id.
            connection.execute(
                f"UPDATE template_uses SET task = '' WHERE session IN ({placeholders(some)}) "
                f"OR session IN (SELECT native_id FROM sessions WHERE id IN ({placeholders(some)}))",
                [*some, *some],
            )
            for template, version in connection.execute(
                f"SELECT template, version FROM template_sources WHERE session IN ({placeholders(some)})", some
            ):
                versions.setdefault(template, set()).add(version)
        why = {"author": author, "reason": f"revoked session {session_id}"}
        return [
            _revoke_from(store, connection, template, sorted(numbers), family, why)
            for template, numbers in sorted(versions.items())
        ]


def _revoke_from(
    store: SQLTemplateStore,
    connection: Connection,
    template: str,
    versions: list[int],
    family: list[str],
    why: Mapping[str, Any],
) -> Revoked:
    old = new = store.get(template)
    if old.version in versions:
        new = store.change(old.id, **why, **_without(old, family))
    for version in versions:
        place = (template, version)
        connection.execute("UPDATE template_versions SET body = NULL WHERE template = ? AND version = ?", place)
        connection.execute("DELETE FROM template_sources WHERE template = ? AND version = ?", place)
    connection.execute("UPDATE template_uses SET why = ? WHERE template = ?", (_WHY, template))
    if new.name != old.name:
        connection.execute("UPDATE template_uses SET why = replace(why, ?, ?)", (repr(old.name), repr(new.name)))
    lost = len(old.seed.items) - len(new.seed.items)
    return Revoked(new.id, new.name, new.version, new.state, lost, tuple(versions))


def _without(template: WarmTemplate, family: Collection[str]) -> dict[str, Any]:
    """The fields that change when everything that came from these sessions is removed."""
    items = without_sessions(template.seed.items, family)
    sources = [each for each in sources_of(replace(template, seed=SessionSeed(items=items))) if each not in family]
    tools = {call.tool_name for item in items for call in item.calls}
    return {
        "name": f"{template.task_type} work" if template.origin == "auto" else template.name,
        "description": template.description if items and not template.described_by else "",
        "described_by": "",
        "tags": template.tags if items else (),
        "project": "" if all(each.startswith(EDIT) for each in sources) else template.project,
        "sources": tuple(each for each in template.sources if each not in family),
        "tools": {name: mark for name, mark in template.tools.items() if name in tools},
        "seed": SessionSeed(items=items),
        "state": template.state if items else "retired",
    }


def without_sessions(items: Iterable[Item], sessions: Collection[str]) -> tuple[Item, ...]:
    """The items that other sessions have too.

    Such an item loses these sessions as sources, and its counts are reduced to match.
    """
    left: list[Item] = []
    for item in items:
        sources = tuple(source for source in item.sources if source.session not in sessions)
        if sources == item.sources:
            left.append(item)
        elif sources:
            count = max(len(sources), item.count - len(item.sources) + len(sources))
            left.append(replace(item, sources=sources, count=count, worked=min(item.worked, count)))
    return tuple(left)
