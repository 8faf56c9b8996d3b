"""Templates in the database of a session store: every change is a new version, and nothing is written over.

What is given to the store is redacted once more before it is kept, whoever made it, and nothing that came from a
revoked session is taken. A version of which something was revoked is withdrawn: it stays listed, and cannot be read.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

from warmstart.errors import AmbiguousId, InvalidTemplate, TemplateChanged, TemplateNotFound
from warmstart.profile.values import TaskType
from warmstart.redact.redactor import Redactor
from warmstart.sessions.redaction import redacted_name
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Database
from warmstart.storage.sql import batches, placeholders
from warmstart.templates.hashing import content_hash
from warmstart.templates.ids import take_id
from warmstart.templates.rewriting import rewrite_rows
from warmstart.templates.rows import (
    BODIES,
    CHANGEABLE,
    Summary,
    checked,
    decode,
    decode_head,
    encode_body,
    encode_head,
    sources_of,
)
from warmstart.templates.schema import MIGRATIONS
from warmstart.templates.taken_back import revoked_in
from warmstart.templates.texts import redacted
from warmstart.templates.values import State, WarmTemplate

_HIGHEST = 2**62  # more than any version, and a number that a database takes


class Version(NamedTuple):
    """One version of a template: by whom it was made, when and why. A withdrawn one cannot be read any more."""

    number: int
    author: str
    at: datetime
    reason: str
    hash: str
    withdrawn: bool
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFilter:
    """Which templates to list. Empty fields do not restrict; `limit` 0 means all of them.

    A template must have all of the `tags`; `project` is a whole path or the last part of one.
    """

    type: TaskType | None = None
    tags: tuple[str, ...] = ()
    state: State | None = None
    project: str = ""
    agent: str = ""
    limit: int = 0

    def fits(self, summary: Summary) -> bool:
        """Whether a template is among those."""
        return (
            self.type in (None, summary.task_type)
            and self.state in (None, summary.state)
            and self.agent in ("", summary.agent)
            and (self.project in ("", summary.project) or summary.project.endswith(f"/{self.project}"))
            and {tag.casefold() for tag in self.tags} <= {tag.casefold() for tag in summary.tags}
        )


def now() -> datetime:
    """The time of this machine, in UTC."""
    return datetime.now(UTC)


class SQLTemplateStore:
    """Templates beside the sessions that they came from. Lives as long as that store; for one thread."""

    def __init__(
        self, sessions: SQLSessionStore, *, redactor: Redactor | None = None, clock: Callable[[], datetime] = now
    ) -> None:
        self.sessions = sessions
        self._redactor = redactor or Redactor()
        self._clock = clock
        self.database.migrate(MIGRATIONS)

    @property
    def database(self) -> Database:
        """The database that the tables are in, for other parts of the room."""
        return self.sessions.database

    def now(self) -> datetime:
        """The time by the store's clock, in UTC and as exact as the store keeps it."""
        return datetime.fromtimestamp(self._clock().timestamp(), UTC)

    def words(self, text: str) -> str:
        """A text as it may be kept: without secrets, and with nothing that a database cannot hold."""
        return self._redactor.clean(clean(text))

    def name(self, given: str) -> str:
        """An id or a path as the store of sessions keeps it."""
        return redacted_name(clean(given), self._redactor)

    # -- writing

    def add(self, template: WarmTemplate, *, author: str = "", reason: str = "") -> WarmTemplate:
        """Keep a new template, and give it its id. Raises `InvalidTemplate` if it cannot be kept as it is."""
        with self.database.transaction() as connection:
            ready = self._ready(connection, template)
            at = self.now()
            saved = replace(
                ready,
                id=take_id(connection, at),
                version=1,
                created_at=at,
                updated_at=at,
                used=0,
                successes=0,
                failures=0,
                effect=None,
            )
            self._save(connection, saved, author, reason)
        return saved

    def change(self, id: str, *, author: str, reason: str, expected: int | None = None, **fields: Any) -> WarmTemplate:
        """Change some fields of a template, which makes a new version unless nothing is different.

        With `expected`, raises `TemplateChanged` if the newest version is another one meanwhile.
        """
        if unknown := sorted(fields.keys() - CHANGEABLE):
            raise TypeError(f"a template's {unknown[0]!r} cannot be changed")
        with self.database.transaction() as connection:
            old = self.get(id)
            if expected is not None and old.version != expected:
                raise TemplateChanged(
                    f"the template {old.id!r} is at version {old.version} by now, and this change was made to version "
                    f"{expected}; look at `warmstart templates diff {old.id} {expected} {old.version}` and do it again"
                )
            ready = self._ready(connection, replace(old, **fields))
            if ready == old:
                return old
            saved = replace(ready, version=old.version + 1, updated_at=self.now())
            self._save(connection, saved, author, reason)
        return saved

    def revert(self, id: str, version: int, *, author: str = "") -> WarmTemplate:
        """Make a new version that says what an old one said; the state stays what it is."""
        with self.database.transaction():
            newest = self.get(id)
            old = self.get(newest.id, version=version)
            content = {name: getattr(old, name) for name in CHANGEABLE - {"state"}}
            return self.change(newest.id, author=author, reason=f"reverted to version {version}", **content)

    def set_state(self, id: str, state: State, *, author: str, reason: str) -> WarmTemplate:
        """Bring a template into another state of its life, which is a new version too."""
        return self.change(id, author=author, reason=reason, state=state)

    def delete(self, id: str, *, author: str = "") -> None:
        """Remove a template with all its versions. Its id is not given again, and how it was used stays known."""
        with self.database.transaction() as connection:
            found = self.find(id)
            connection.execute("DELETE FROM templates WHERE id = ?", (found,))
            connection.execute(
                "UPDATE template_ids SET deleted_at = ?, deleted_by = ? WHERE id = ?",
                (self.now().timestamp(), self.words(author), found),
            )

    def rewrite(self, change: Callable[[str], str], rename: Callable[[str], str] | None = None) -> int:
        """Apply a change to every text that is stored, in every version, and `rename` to the names of sessions.

        Returns how many rows changed.
        """
        with self.database.transaction() as connection:
            return rewrite_rows(connection, change, rename or change)

    def _ready(self, connection: Connection, template: WarmTemplate) -> WarmTemplate:
        """The template as it may be kept."""
        ready = redacted(checked(template), self._redactor)
        ready = replace(ready, name=" ".join(ready.name.split()))
        if not ready.name:
            raise InvalidTemplate("a template needs a name; give it one with --name")
        return self._without_revoked(connection, ready)

    def _save(self, connection: Connection, template: WarmTemplate, author: str, reason: str) -> None:
        connection.execute(
            "INSERT INTO templates (id, name, version, created_at, head) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, head = excluded.head",
            (template.id, template.name, template.version, _seconds(template.created_at), encode_head(template)),
        )
        connection.execute(
            "INSERT INTO template_versions (template, version, author, at, reason, hash, state, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                template.id,
                template.version,
                self.words(author),
                _seconds(template.updated_at),
                self.words(reason),
                content_hash(template),
                template.state,
                encode_body(template),
            ),
        )
        connection.executemany(
            "INSERT INTO template_sources (session, template, version) VALUES (?, ?, ?)",
            [(session, template.id, template.version) for session in sources_of(template)],
        )

    def _without_revoked(self, connection: Connection, template: WarmTemplate) -> WarmTemplate:
        """The template without notes on revoked sessions; raises `InvalidTemplate` if it holds more of one."""
        gone = revoked_in(connection).intersection(sources_of(template))
        if not gone:
            return template
        notes = tuple(note for note in template.seed.notes if not gone.intersection(note.sessions))
        rest = replace(template, seed=replace(template.seed, notes=notes))
        if held := sorted(gone.intersection(sources_of(rest))):
            raise InvalidTemplate(
                f"the template {template.name!r} holds something of the session {held[0]!r}, which was revoked; "
                "make it anew without that session"
            )
        return rest

    # -- reading

    def get(self, id: str, *, version: int | None = None) -> WarmTemplate:
        """The template with this id, a unique beginning of it, or exactly this name, in its newest version or another.

        Raises `TemplateNotFound` or `AmbiguousId`.
        """
        with self.database.translate_errors():
            found = self.find(id)
            which = "v.version = t.version" if version is None else f"v.version = {min(max(version, 0), _HIGHEST)}"
            row = self.database.connection.execute(f"{BODIES} AND {which} WHERE t.id = ?", (found,)).fetchone()
        if row is None or row[5] is None:
            raise TemplateNotFound(self._no_version(found, version))
        return decode(row)

    def list(self, filter: TemplateFilter = TemplateFilter()) -> builtins.list[WarmTemplate]:  # noqa: B008 - is frozen
        """Templates in their newest version, newest first."""
        wanted = [summary.id for summary in self.summaries(filter)]
        found: dict[str, WarmTemplate] = {}
        with self.database.translate_errors():
            for some in batches(wanted):
                rows = self.database.connection.execute(
                    f"{BODIES} AND v.version = t.version WHERE t.id IN ({placeholders(some)})", some
                )
                found.update((row[0], decode(row)) for row in rows)
        return [found[each] for each in wanted if each in found]

    def summaries(self, filter: TemplateFilter = TemplateFilter()) -> builtins.list[Summary]:  # noqa: B008 - is frozen
        """What is known of the templates without their seeds, newest first."""
        with self.database.translate_errors():
            rows = self.database.connection.execute(
                "SELECT created_at, id, head, used, successes, failures FROM templates"
            ).fetchall()
        rows.sort(key=itemgetter(0, 1), reverse=True)  # quicker than SQLite, which carries the heads through its sorter
        every = (decode_head(*row[1:]) for row in rows)
        if filter == TemplateFilter():
            return [*every]
        some = [summary for summary in every if filter.fits(summary)]
        return some[: filter.limit] if filter.limit > 0 else some

    def revision(self) -> int:
        """A number that is another one after every write that summaries could show."""
        with self.database.translate_errors():
            row = self.database.connection.execute("SELECT number FROM template_revision").fetchone()
        return int(row[0]) if row else 0

    def versions(self, id: str) -> builtins.list[Version]:
        """The versions of a template, newest first."""
        with self.database.translate_errors():
            found = self.find(id)
            rows = self.database.connection.execute(
                "SELECT version, author, at, reason, hash, body IS NULL, state FROM template_versions "
                "WHERE template = ? ORDER BY version DESC",
                (found,),
            ).fetchall()
        return [
            Version(number, author, datetime.fromtimestamp(at, UTC), reason, digest, bool(withdrawn), state)
            for number, author, at, reason, digest, withdrawn, state in rows
        ]

    def find(self, id: str) -> str:
        """The whole id of the template with this id, a unique beginning of it, or exactly this name.

        Works for a damaged template too. Raises `TemplateNotFound` or `AmbiguousId`.
        """
        wanted = clean(id).strip()
        run = self.database.connection.execute
        with self.database.translate_errors():
            rows = run("SELECT id FROM templates WHERE id = ?", (wanted,)).fetchall()
            rows = rows or run("SELECT id FROM templates WHERE name = ? ORDER BY id LIMIT 5", (wanted,)).fetchall()
            if not rows and wanted:
                rows = run(
                    "SELECT id FROM templates WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 5", (wanted,)
                ).fetchall()
        if not rows:
            raise TemplateNotFound(f"no template has the id or name {id!r}; `warmstart templates list` shows them")
        if len(rows) > 1:
            raise AmbiguousId(f"{id!r} fits several templates: {', '.join(row[0] for row in rows)}; give the whole id")
        return str(rows[0][0])

    def _no_version(self, id: str, version: int | None) -> str:
        known = self.versions(id)
        if any(each.withdrawn and each.number == version for each in known):
            return (
                f"version {version} of the template {id!r} was withdrawn, because a session that it came from was "
                f"revoked; `warmstart templates history {id}` shows what is left"
            )
        numbers = ", ".join(str(each.number) for each in reversed(known) if not each.withdrawn)
        return f"the template {id!r} has no version {version}; it has {numbers or 'none that can be read'}"


def _seconds(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0
