"""Bringing a template into another state: by the user's word, or because of what was seen when a session started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warmstart.errors import TemplateNotFound
from warmstart.templates.choosing.filters import ChangedTool
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import State, WarmTemplate

AUTHOR = "warmstart"


class Changed(NamedTuple):
    """A template that came into another state, and why."""

    template: str
    name: str
    old: State
    new: State
    reason: str


def promote(
    store: SQLTemplateStore, template: str, *, author: str = "", reason: str = "", expected: int | None = None
) -> WarmTemplate:
    """Make a template active on the user's word, whatever state it is in.

    `expected` is the version that they saw; raises `TemplateChanged` if there is a newer one.
    """
    reason = reason or "promoted by the user"
    return store.change(template, author=author, reason=reason, expected=expected, state="active")


def unpromoted(store: SQLTemplateStore) -> set[str]:
    """The active templates that no person made active, or that were changed automatically since."""
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            "SELECT t.id FROM templates t JOIN template_versions n ON n.template = t.id AND n.version = t.version "
            "WHERE n.state = 'active' AND EXISTS (SELECT 1 FROM template_versions a "
            "WHERE a.template = t.id AND a.author = ? AND a.state = 'active' AND NOT EXISTS ("
            "SELECT 1 FROM template_versions p WHERE p.template = t.id AND p.version > a.version "
            "AND p.author <> ? AND p.state = 'active' AND p.reason NOT LIKE 'revoked %' "
            "AND p.reason NOT LIKE 'reverted %'))",
            (AUTHOR, AUTHOR),
        )
        return {row[0] for row in rows}


def retire_changed(store: SQLTemplateStore, tools: Sequence[ChangedTool], *, agent: str = "") -> list[Changed]:
    """Retire the templates that show tools whose schema has changed.

    Where the agent is known, those of another agent stay: its tool of the same name is not this one.
    """
    named: dict[str, list[str]] = {}
    for each in tools:
        named.setdefault(each.template, []).append(each.tool)
    retired = []
    for summary in store.summaries():
        other = summary.agent and agent and summary.agent != agent
        if summary.id in named and not other and summary.state in ("active", "candidate"):
            reason = f"the schema of {', '.join(sorted(named[summary.id]))} has changed"
            change = Changed(summary.id, summary.name, summary.state, "retired", reason)
            if apply(store, change):
                retired.append(change)
    return retired


def apply(store: SQLTemplateStore, change: Changed) -> bool:
    """Make a change; `False` if the template is gone, or in another state by now."""
    try:
        with store.database.transaction():
            if store.get(change.template).state != change.old:
                return False  # another process, or a person, was quicker
            store.set_state(change.template, change.new, author=AUTHOR, reason=change.reason)
    except TemplateNotFound:
        return False
    return True
