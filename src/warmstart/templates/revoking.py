"""Taking back a session: everything that came from it goes, in every template and every version.

A template that holds anything of the session gets a new version without it. The older versions that do are withdrawn:
they stay listed, and nobody can read them, render them or go back to them. What another session said just as well
stays. A template with nothing left is emptied and retired. The session's children are taken back with it, and nothing
is taken from any of them again.

What names a template was written by a person or made of what its sessions said. A description that was made becomes
neutral, as does one with words that only the session said, and the name of a template that nobody named. An audit that
quotes what has gone says so instead.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from warmstart.errors import AmbiguousId, SessionNotFound
from warmstart.storage.database import Connection
from warmstart.storage.sql import batches, placeholders
from warmstart.templates.items import is_edit, items_of, sessions_of, without_sessions
from warmstart.templates.rows import BODIES, decode, sources_of
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.taken_back import family_of, revoked_in
from warmstart.templates.texts import texts_in
from warmstart.templates.values import SessionSeed, State, WarmTemplate

_ID = re.compile(r"[0-9a-f]{16}")
_BEGINNING = re.compile(r"[0-9a-f]{4,15}")
_TOOLS = 4  # that a neutral description names
_QUOTED = 40  # characters by which a quote is known again
_UNSAID = "what it was chosen by came from a session that was revoked since"
_WORD = re.compile(r"\w{4,}|\w*\d\w*")


class Revoked(NamedTuple):
    """What a revocation did to a template: its version and state now, how many items went, what was withdrawn."""

    template: str
    name: str
    version: int
    state: State
    items: int
    withdrawn: tuple[int, ...]


def revoke(store: SQLTemplateStore, session_id: str, *, author: str = "") -> list[Revoked]:
    """Take back a session and its children from every template; what it did to which.

    The session is named as for `SessionStore.get`. One that the store has no longer is named by its id, or by a
    beginning of it that only one session has of which a template holds something. Raises `SessionNotFound` or
    `AmbiguousId`.
    """
    with store.database.transaction() as connection:
        first = _named(store, connection, session_id)
        family = family_of(connection, [first])
        at = store.now().timestamp()
        connection.executemany(
            "INSERT INTO template_revoked (session, at, author) VALUES (?, ?, ?) ON CONFLICT (session) DO NOTHING",
            [(session, at, store.words(author)) for session in family],
        )
        for some in batches(family):
            # A host may have named the session by the agent's own id.
            connection.execute(
                f"UPDATE template_uses SET task = '' WHERE session IN ({placeholders(some)}) "
                f"OR session IN (SELECT native_id FROM sessions WHERE id IN ({placeholders(some)}))",
                [*some, *some],
            )
        quotes: set[str] = set()
        done: list[Revoked] = []
        for template, versions in sorted(_touched(connection, family).items()):
            said = _quotable(connection, template, versions, family)
            done.append(_take_back(store, connection, template, versions, family, author))
            quotes |= said - {done[-1].name}
        _forget_quotes(connection, quotes)
        return done


def revoked(store: SQLTemplateStore) -> frozenset[str]:
    """The sessions that nothing may be taken from: those that were revoked, and their children by now."""
    with store.database.translate_errors():
        return revoked_in(store.database.connection)


def _named(store: SQLTemplateStore, connection: Connection, session_id: str) -> str:
    try:
        return store.sessions.get(session_id).id
    except SessionNotFound:
        if _ID.fullmatch(session_id):
            return session_id
        if not _BEGINNING.fullmatch(session_id):
            raise
        rows = connection.execute(
            "SELECT DISTINCT session FROM template_sources WHERE substr(session, 1, length(?1)) = ?1 ORDER BY session",
            (session_id,),
        ).fetchall()
        if not rows:
            raise
    if len(rows) > 1:
        some = ", ".join(row[0] for row in rows[:3])
        raise AmbiguousId(f"{session_id!r} fits several sessions: {some}; give more of the id")
    return str(rows[0][0])


def _touched(connection: Connection, sessions: list[str]) -> dict[str, list[int]]:
    """The templates that hold anything of these sessions, and in which versions."""
    found: dict[str, set[int]] = {}
    for some in batches(sessions):
        for template, version in connection.execute(
            f"SELECT template, version FROM template_sources WHERE session IN ({placeholders(some)})", some
        ):
            found.setdefault(template, set()).add(version)
    return {template: sorted(versions) for template, versions in found.items()}


def _quotable(connection: Connection, template: str, versions: list[int], family: list[str]) -> set[str]:
    """What an audit may have quoted of these versions: tasks of the sessions, names and descriptions."""
    found: set[str] = set()
    for row in connection.execute(f"{BODIES} WHERE t.id = ? AND v.body IS NOT NULL", (template,)).fetchall():
        if row[2] in versions:
            old = decode(row)
            found.add(old.description)
            if old.origin == "auto":
                found.add(old.name)
            found.update(task.text for task in old.seed.tasks if task.source.session in family)
            found.update(each.task for each in old.seed.demonstrations if set(sessions_of(each)) & set(family))
    return found


def _forget_quotes(connection: Connection, quotes: set[str]) -> None:
    # An audit shortens what it quotes, and may have escaped it.
    starts = {start for quote in quotes if (start := quote[:_QUOTED].rstrip())}
    starts |= {repr(start)[1:-1] for start in starts}
    for number, why in connection.execute("SELECT id, why FROM template_uses WHERE why <> ''").fetchall():
        if any(start in why for start in starts):
            connection.execute("UPDATE template_uses SET why = ? WHERE id = ?", (_UNSAID, number))


def _take_back(
    store: SQLTemplateStore,
    connection: Connection,
    template: str,
    versions: list[int],
    family: list[str],
    author: str,
) -> Revoked:
    old = new = store.get(template)
    if old.version in versions:
        rest = _without(old, family, connection)
        content = {name: getattr(rest, name) for name in _CHANGED}
        new = store.change(old.id, author=author, reason=f"revoked session {family[0]}", **content)
    for version in versions:
        connection.execute(
            "UPDATE template_versions SET body = NULL WHERE template = ? AND version = ?", (template, version)
        )
        connection.execute("DELETE FROM template_sources WHERE template = ? AND version = ?", (template, version))
    gone = _size(old.seed) - _size(new.seed)
    return Revoked(new.id, new.name, new.version, new.state, gone, tuple(versions))


_CHANGED = ("name", "description", "described_by", "tags", "project", "sources", "tools", "seed", "state")


def _without(template: WarmTemplate, family: Collection[str], connection: Connection) -> WarmTemplate:
    """The template without what it has of these sessions."""
    seed = without_sessions(template.seed, family)
    if not _size(seed):
        seed = SessionSeed()
    rest = replace(template, seed=seed, sources=tuple(each for each in template.sources if each not in family))
    others = [each for each in sources_of(rest) if not is_edit(each)]
    rest = replace(
        rest, project=template.project if others else "", tools=_tools(template, rest, others, family, connection)
    )
    left = [*texts_in(seed), rest.project, *_about(connection, others), *_called(connection, others)]
    lost = [*texts_in(template.seed), template.project, *_about(connection, family), *_called(connection, family)]
    gone = _words(lost) - _words(left)
    quotes = gone & _words([template.description])
    made = bool(template.description and (template.described_by or quotes or not _size(seed)))
    return replace(
        rest,
        name=_neutral_name(template) if template.origin == "auto" and gone & _words([template.name]) else template.name,
        description=_neutral(rest, len(others)) if made else template.description,
        described_by="rules" if made else template.described_by,
        tags=tuple(tag for tag in template.tags if _size(seed) and not gone & _words([tag])),
        state=template.state if _size(seed) else "retired",
    )


def _size(seed: SessionSeed) -> int:
    return sum(1 for _ in items_of(seed))


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text.casefold())}


def _neutral(template: WarmTemplate, sessions: int) -> str:
    """A description that quotes nothing."""
    if not sessions:
        return "What it was made from was revoked."
    place = f" in `{posixpath.basename(template.project.rstrip('/'))}`" if template.project else ""
    tools = f" with {', '.join(sorted(template.tools)[:_TOOLS])}" if template.tools else ""
    return f"From {sessions} earlier session{'s' if sessions != 1 else ''}{place}{tools}."


def _neutral_name(template: WarmTemplate) -> str:
    return f"{template.task_type} work"


def _tools(
    old: WarmTemplate, rest: WarmTemplate, others: Collection[str], family: Collection[str], connection: Connection
) -> dict[str, str]:
    """The tools without those that only the sessions that go are known to have had."""
    if not others:
        return {name: mark for name, mark in old.tools.items() if name in _shown(rest.seed)}
    theirs = (
        (_shown(old.seed) | set(_called(connection, family))) - _shown(rest.seed) - set(_called(connection, others))
    )
    return {name: mark for name, mark in old.tools.items() if name not in theirs}


def _shown(seed: SessionSeed) -> set[str]:
    acts = {act.tool for each in seed.demonstrations for act in each.acts}
    return acts | {card.tool for card in seed.cards} | {each.tool for each in seed.recoveries}


def _called(connection: Connection, sessions: Collection[str]) -> list[str]:
    """The names of the tools that these sessions called, as far as the store has them."""
    return [
        row[0]
        for some in batches(sessions)
        for row in connection.execute(
            "SELECT DISTINCT c.name FROM sessions s JOIN messages m ON m.session = s.pk "
            f"JOIN tool_calls c ON c.message = m.pk WHERE s.id IN ({placeholders(some)})",
            some,
        )
    ]


def _about(connection: Connection, sessions: Collection[str]) -> list[str]:
    """The titles and folders of these sessions, as far as the store has them."""
    return [
        text
        for some in batches(sessions)
        for row in connection.execute(
            f"SELECT title, project, directory FROM sessions WHERE id IN ({placeholders(some)})", some
        )
        for text in row
    ]
