"""Templates in the database of a session store: every change is a new version, and nothing is overwritten.

A version of a template is a row in `template_versions`. A version with revoked content is withdrawn: it stays listed,
but its `body` is deleted. The row in `templates` names the newest version and holds its summary in `head`, to choose
among thousands. `template_sources` lists the sessions that each readable version came from. The id of a deleted
template stays in `template_ids`, so that it is never reused. Triggers count the uses of a template in its row, and
increase `template_revision` with every write that could affect a summary.

The store redacts all texts again, whoever made them, and rejects anything that came from a revoked session.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import AmbiguousId, InvalidTemplate, StoreCorrupt, TemplateChanged, TemplateNotFound
from warmstart.profile.values import TaskType
from warmstart.redact.redactor import Redactor
from warmstart.sessions.redaction import redacted_name
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.tables import to_time
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Database, migrations_of
from warmstart.templates.item import Item
from warmstart.templates.template import SessionSeed, State, WarmTemplate


class Summary(NamedTuple):
    """A template without its items: enough to choose among thousands."""

    id: str
    name: str
    description: str
    task_type: TaskType
    tags: tuple[str, ...]
    project: str
    agent: str
    sources: tuple[str, ...]
    version: int
    state: State
    created_at: datetime
    updated_at: datetime
    tools: Mapping[str, str]
    origin: str
    tasks: tuple[str, ...]


class Version(NamedTuple):
    """One version of a template. A withdrawn version can no longer be read."""

    number: int
    author: str
    at: datetime
    reason: str
    hash: str
    withdrawn: bool
    state: State


class SQLTemplateStore:
    """Templates, next to the sessions they came from. Valid as long as that store is open; for one thread."""

    def __init__(
        self,
        sessions: SQLSessionStore,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.sessions = sessions
        self.database: Database = sessions.database
        self._redactor = redactor or Redactor()
        self._clock = clock
        self.database.migrate(migrations_of("templates", __file__))

    def now(self) -> datetime:
        """The time by the store's clock, in UTC and with the precision of the store."""
        return datetime.fromtimestamp(self._clock().timestamp(), UTC)

    def words(self, text: str) -> str:
        """A text made safe to store: without secrets and without characters that a database cannot hold."""
        return self._redactor.clean(clean(text))

    def name(self, given: str) -> str:
        """An id or a path as the session store writes it."""
        return redacted_name(clean(given), self._redactor)

    def add(self, template: WarmTemplate, *, author: str = "", reason: str = "") -> WarmTemplate:
        """Store a new template and assign its id. Raises `InvalidTemplate` if it cannot be stored."""
        with self.database.transaction() as connection:
            ready, at = self._prepare(template), self.now()
            fields = {"created_at": at, "updated_at": at, **Body.of(ready).fields()}
            saved = WarmTemplate(id=take_id(connection, at), version=1, state=ready.state, **fields)
            self._save(connection, saved, author, reason)
        return saved

    def change(self, id: str, *, author: str, reason: str, expected: int | None = None, **fields: Any) -> WarmTemplate:
        """Change some fields of a template, which makes a new version unless nothing is different.

        Raises `TemplateChanged` if the newest version is no longer `expected`.
        """
        if unknown := sorted(fields.keys() - CHANGEABLE):
            raise TypeError(f"a template's {unknown[0]!r} cannot be changed")
        with self.database.transaction() as connection:
            old = self.get(id)
            if expected is not None and old.version != expected:
                raise TemplateChanged(
                    f"the template {old.id!r} is now at version {old.version}, but this change was made to version "
                    f"{expected}; see `warmstart templates diff {old.id} {expected} {old.version}` and try again"
                )
            new = self._prepare(replace(old, **fields))
            if new == old:
                return old
            saved = replace(new, version=old.version + 1, updated_at=self.now())
            self._save(connection, saved, author, reason)
        return saved

    def revert(self, id: str, version: int, *, author: str = "") -> WarmTemplate:
        """Make a new version with the content of an old one; the state stays what it is."""
        with self.database.transaction():
            newest = self.get(id)
            old = self.get(newest.id, version=version)
            content = {name: getattr(old, name) for name in CHANGEABLE - {"state"}}
            return self.change(newest.id, author=author, reason=f"reverted to version {version}", **content)

    def delete(self, id: str, *, author: str = "") -> None:
        """Delete a template with all its versions. Its id is not reused, and the record of its uses stays."""
        with self.database.transaction() as connection:
            full_id = self.find(id)
            connection.execute("DELETE FROM templates WHERE id = ?", (full_id,))
            connection.execute(
                "UPDATE template_ids SET deleted_at = ?, deleted_by = ? WHERE id = ?",
                (self.now().timestamp(), self.words(author), full_id),
            )

    def rewrite(self, change: Callable[[str], str], rename: Callable[[str], str] | None = None) -> int:
        """Apply `change` to every stored text in every version, and `rename` to ids; returns how many rows changed."""
        rename = rename or change
        with self.database.transaction() as connection:
            changed = sum(
                _rewrite_version(connection, decode(row), change)
                for row in connection.execute(f"{BODIES} WHERE v.body IS NOT NULL").fetchall()
            )
            changed += _rewrite_column(connection, "template_versions", "reason", change)
            for column in ("task", "why"):
                changed += _rewrite_column(connection, "template_uses", column, change)
            for column in ("session", "project", "agent"):
                changed += _rewrite_column(connection, "template_uses", column, rename)
        return changed

    def _prepare(self, template: WarmTemplate) -> WarmTemplate:
        """The template made safe to store."""
        ready = map_texts(template, self.words)
        ready = replace(ready, name=" ".join(ready.name.split()))
        if not ready.name:
            raise InvalidTemplate("a template needs a name; give it one with --name")
        if gone := sorted(self.revoked().intersection(sources_of(ready))):
            raise InvalidTemplate(
                f"the template {template.name!r} has items from session {gone[0]!r}, which was revoked; "
                "extract it again without that session"
            )
        return ready

    def _save(self, connection: Connection, template: WarmTemplate, author: str, reason: str) -> None:
        save_head(connection, template)
        change = (self.words(author), _seconds(template.updated_at), self.words(reason))
        content = (content_hash(template), template.state, _ENCODE(Body.of(template)).decode())
        connection.execute(
            "INSERT INTO template_versions (template, version, author, at, reason, hash, state, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (template.id, template.version, *change, *content),
        )
        connection.executemany(
            "INSERT INTO template_sources (session, template, version) VALUES (?, ?, ?)",
            [(session, template.id, template.version) for session in sources_of(template)],
        )

    def get(self, id: str, *, version: int | None = None) -> WarmTemplate:
        """The template with this id, unique id prefix, or exact name, in its newest or the given version.

        Raises `TemplateNotFound` or `AmbiguousId`.
        """
        full_id = self.find(id)
        if version is None:
            (row,) = self.select(f"{BODIES} AND v.version = t.version WHERE t.id = ?", full_id)
            return decode(row)
        known = {each.number: each for each in self.versions(full_id)}
        if version not in known:
            numbers = ", ".join(map(str, sorted(known)))
            raise TemplateNotFound(f"the template {full_id!r} has no version {version}; it has {numbers}")
        if known[version].withdrawn:
            raise TemplateNotFound(
                f"version {version} of the template {full_id!r} was withdrawn: one of its source sessions was revoked"
            )
        (row,) = self.select(f"{BODIES} AND v.version = ? WHERE t.id = ?", version, full_id)
        return decode(row)

    def list(self) -> builtins.list[WarmTemplate]:
        """All templates in their newest version, newest first."""
        return [*map(decode, self.select(f"{BODIES} AND v.version = t.version ORDER BY t.created_at DESC, t.id DESC"))]

    def summaries(self) -> builtins.list[Summary]:
        """The templates without their items, newest first."""
        rows = self.select("SELECT created_at, id, head FROM templates")
        rows.sort(key=itemgetter(0, 1), reverse=True)  # faster than SQLite, which carries the heads through its sorter
        return [_decode(_DECODE_HEAD, head, f"the template {name!r}") for _, name, head in rows]

    def versions(self, id: str) -> builtins.list[Version]:
        """The versions of a template, newest first."""
        rows = self.select(
            "SELECT version, author, at, reason, hash, body IS NULL, state FROM template_versions "
            "WHERE template = ? ORDER BY version DESC",
            self.find(id),
        )
        return [
            Version(number, author, datetime.fromtimestamp(at, UTC), reason, digest, bool(withdrawn), state)
            for number, author, at, reason, digest, withdrawn, state in rows
        ]

    def find(self, id: str) -> str:
        """The full id of the template with this id, unique id prefix, or exact name.

        Works for a damaged template too. Raises `TemplateNotFound` or `AmbiguousId`.
        """
        wanted = clean(id).strip()
        for condition in ("id = ?1", "name = ?1", "?1 <> '' AND substr(id, 1, length(?1)) = ?1"):
            if rows := self.select(f"SELECT id FROM templates WHERE {condition} ORDER BY id LIMIT 5", wanted):
                break
        if not rows:
            raise TemplateNotFound(f"no template has the id or name {id!r}; `warmstart templates list` shows them")
        if len(rows) > 1:
            raise AmbiguousId(f"{id!r} matches several templates: {', '.join(row[0] for row in rows)}; use the full id")
        return str(rows[0][0])

    def revoked(self) -> frozenset[str]:
        """The sessions that nothing may be extracted from: revoked ones and their children."""
        with self.database.translate_errors():
            return frozenset(with_children(self.database.connection, "SELECT session FROM template_revoked"))

    def select(self, sql: str, *values: Any) -> builtins.list[tuple[Any, ...]]:
        """The rows of a query on the store."""
        with self.database.translate_errors():
            return self.database.connection.execute(sql, values).fetchall()


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a version: everything in a template that can be changed, except its state."""

    name: str
    description: str = ""
    task_type: TaskType = "mixed"
    tags: tuple[str, ...] = ()
    project: str = ""
    agent: str = ""
    sources: tuple[str, ...] = ()
    tools: dict[str, str] = {}
    origin: str = "user"
    described_by: str = ""
    items: tuple[Item, ...] = ()

    @classmethod
    def of(cls, template: WarmTemplate) -> Body:
        """The content of a template."""
        fields: dict[str, Any] = {name: getattr(template, name) for name in _FIELDS}
        return cls(**{**fields, "tools": dict(template.tools)}, items=template.seed.items)

    def fields(self) -> dict[str, Any]:
        """The fields of a template with this content."""
        return {**{name: getattr(self, name) for name in _FIELDS}, "seed": SessionSeed(items=self.items)}


_FIELDS = tuple(name for name in Body.__struct_fields__ if name != "items")
CHANGEABLE = frozenset((*_FIELDS, "seed", "state"))

# The columns that `decode` expects, for every version of every template; conditions on the version may follow.
BODIES = (
    "SELECT t.id, t.created_at, v.version, v.at, v.state, v.body, t.used, t.successes, t.failures "
    "FROM templates t JOIN template_versions v ON v.template = t.id"
)

_ENCODE = msgspec.json.Encoder(order="sorted").encode
_DECODE_BODY = msgspec.json.Decoder(Body).decode
_DECODE_HEAD = msgspec.json.Decoder(Summary).decode
_CONVERT_STATE = partial(msgspec.convert, type=State)


def decode(row: tuple[Any, ...]) -> WarmTemplate:
    """Decode a row of `BODIES`; raises `StoreCorrupt` if it is damaged."""
    name, created_at, version, at, state, text, *counts = row
    what = f"version {version} of the template {name!r}"
    body, state = _decode(_DECODE_BODY, text, what), _decode(_CONVERT_STATE, state, what)
    fields = body.fields() | {"created_at": to_time(created_at), "updated_at": to_time(at)}
    fields |= zip(("used", "successes", "failures"), counts, strict=True)
    return WarmTemplate(id=name, version=version, state=state, **fields)


def save_head(connection: Connection, template: WarmTemplate) -> None:
    """Write the row of a template, which must already have its id, version and times."""
    head = [getattr(template, name) for name in Summary._fields[:-1]] + [template.seed.tasks]
    connection.execute(
        "INSERT INTO templates (id, name, version, created_at, head) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, head = excluded.head",
        (template.id, template.name, template.version, _seconds(template.created_at), _ENCODE(head).decode()),
    )


def _decode(decoder: Callable[[str], Any], text: str, what: str) -> Any:
    try:
        return decoder(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        advice = "delete the template, or restore the store from a backup"
        raise StoreCorrupt(f"{what} is damaged ({error}); {advice}") from error


def _seconds(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0


def _rewrite_version(connection: Connection, old: WarmTemplate, change: Callable[[str], str]) -> bool:
    new = map_texts(old, change)
    if new == old:
        return False
    place = (new.id, new.version)
    connection.execute(
        "UPDATE template_versions SET body = ?, hash = ? WHERE template = ? AND version = ?",
        (_ENCODE(Body.of(new)).decode(), content_hash(new), *place),
    )
    if connection.execute("SELECT 1 FROM templates WHERE id = ? AND version = ?", place).fetchone():
        save_head(connection, new)
    return True


def _rewrite_column(connection: Connection, table: str, column: str, change: Callable[[str], str]) -> int:
    rows = connection.execute(
        f"SELECT {column}, count(*) FROM {table} WHERE {column} <> '' GROUP BY {column}"
    ).fetchall()
    changed = [(new, old, number) for old, number in rows if (new := change(old)) != old]
    connection.executemany(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", [each[:2] for each in changed])
    return sum(number for *_, number in changed)


_TEXTS = ("name", "description", "project", "agent", "origin", "described_by")


def take_id(connection: Connection, at: datetime) -> str:
    """Reserve a new id: `warm_20260310_142530`, the creation time, with `_2` and so on within the same second.

    Ids are never reused. The caller holds the write lock, so that no other process takes the same one.
    """
    stamp = at.astimezone(UTC).strftime("warm_%Y%m%d_%H%M%S")
    rows = connection.execute(
        "SELECT id FROM template_ids WHERE id = ?1 OR substr(id, 1, length(?1) + 1) = ?1 || '_'", (stamp,)
    )
    taken = {row[0] for row in rows}
    ids = (stamp, *(f"{stamp}_{number}" for number in range(2, len(taken) + 2)))
    chosen = next(each for each in ids if each not in taken)
    connection.execute("INSERT INTO template_ids (id, created_at) VALUES (?, ?)", (chosen, at.timestamp()))
    return chosen


def content_hash(template: WarmTemplate) -> str:
    """A hash of the content in 32 hexadecimal digits: the same for the same rendering, on every machine.

    It does not cover id, version, state, origin, counts or times, and only the last part of the project's path.
    """
    project = template.project.rstrip("/").rsplit("/", 1)[-1]
    body = Body.of(replace(template, project=project, origin="user"))
    return blake2b(_ENCODE(body), digest_size=16).hexdigest()


def map_texts(template: WarmTemplate, change: Callable[[str], str]) -> WarmTemplate:
    """The template with `change` applied to each of its texts, including the names of tools."""
    texts: dict[str, Any] = {name: change(getattr(template, name)) for name in _TEXTS}
    return replace(
        template,
        **texts,
        tags=tuple(map(change, template.tags)),
        tools={change(name): fingerprint for name, fingerprint in template.tools.items()},
        seed=SessionSeed(items=tuple(item.map_texts(change) for item in template.seed.items)),
    )


def sources_of(template: WarmTemplate) -> builtins.list[str]:
    """The distinct sessions that a template came from."""
    return [*dict.fromkeys((*template.sources, *(source.session for source in template.seed.sources)))]


def with_children(connection: Connection, sessions: str, *values: str) -> builtins.list[str]:
    """The sessions that a query selects and all their descendants, without duplicates."""
    rows = connection.execute(
        f"WITH RECURSIVE family(id) AS ({sessions} "
        "UNION SELECT s.id FROM sessions s JOIN family f ON s.parent_id = f.id) SELECT id FROM family",
        values,
    )
    return [row[0] for row in rows]
