"""One append to a store, inside its transaction.

The hard part is to decide which session owns a message. Agents copy messages: a resumed session's log begins with the
history of the session it continues. A message is stored once, with the session that wrote it, whichever log is read
first. So when a message appears in a second session, the two contest it: a copy that names its `origin` loses to that
origin; otherwise the session that ended earlier wins. The loser is linked to the winner as `resume`.

A message that names its own session as its origin is not a copy. If another session uses its id, it gets a new one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from warmstart.sessions.schema import MESSAGE_COLUMNS, OUTCOME_RULES, SESSION_COLUMNS, Row, message_key, usage_json
from warmstart.sessions.store import Appended
from warmstart.sessions.tables import TEXT_USES
from warmstart.sessions.values import Session, clean, session_id
from warmstart.storage.compression import compress
from warmstart.storage.database import Connection, batches, next_ids, placeholders, select_in

# Whether a log says nothing new about where its session ran. After a working tree is deleted, nothing on disk shows
# which repository it belonged to, or which working tree a folder belonged to.
_SAME_PLACE = """(excluded.project = '' OR known.directory <> '' AND excluded.project = excluded.directory
    AND substr(excluded.directory || '/', 1, length(known.directory) + 1) = known.directory || '/')"""
_SAME_OUTCOME = "(known.judge = 'user' OR excluded.judge = '')"
_UPSERT = f"""
    INSERT INTO sessions AS known ({SESSION_COLUMNS}, revision, rules) VALUES ({placeholders(range(20))})
    ON CONFLICT (id) DO UPDATE SET
        native_id = excluded.native_id,
        project = CASE WHEN {_SAME_PLACE} THEN known.project ELSE excluded.project END,
        directory = CASE WHEN {_SAME_PLACE} OR excluded.directory = ''
            THEN known.directory ELSE excluded.directory END,
        branch = coalesce(nullif(excluded.branch, ''), known.branch),
        model = coalesce(nullif(excluded.model, ''), known.model),
        title = coalesce(nullif(excluded.title, ''), known.title),
        version = coalesce(nullif(excluded.version, ''), known.version),
        source = coalesce(nullif(excluded.source, ''), known.source),
        started_at = coalesce(known.started_at, excluded.started_at),
        ended_at = coalesce(excluded.ended_at, known.ended_at),
        -- A session's log does not say that it continues another one from a packet.
        parent_id = CASE known.parent_kind WHEN 'handoff' THEN known.parent_id
            ELSE coalesce(excluded.parent_id, known.parent_id) END,
        parent_kind = CASE known.parent_kind WHEN 'handoff' THEN 'handoff'
            ELSE coalesce(excluded.parent_kind, known.parent_kind) END,
        usage = coalesce(excluded.usage, known.usage),
        outcome = CASE WHEN {_SAME_OUTCOME} THEN known.outcome ELSE excluded.outcome END,
        evidence = CASE WHEN {_SAME_OUTCOME} THEN known.evidence ELSE excluded.evidence END,
        judge = CASE WHEN {_SAME_OUTCOME} THEN known.judge ELSE excluded.judge END,
        revision = known.revision + CASE WHEN excluded.revision > 0 OR excluded.usage <> coalesce(known.usage, '')
            OR NOT {_SAME_OUTCOME} AND (known.outcome, known.evidence) <> (excluded.outcome, excluded.evidence)
            THEN 1 ELSE 0 END,
        -- Results that were already stored may have been judged by older rules.
        rules = CASE WHEN known.rules < excluded.rules THEN known.rules ELSE excluded.rules END
    RETURNING pk
"""
# Sets a session's dates to those of its first and last message.
_SPAN_DATES = """
    UPDATE sessions SET started_at = coalesce(span.first, started_at), ended_at = coalesce(span.last, ended_at)
    FROM (SELECT min(at) AS first, max(at) AS last FROM messages WHERE session = ?1) AS span WHERE pk = ?1
"""


class _Known(NamedTuple):
    """A message that is already in the store."""

    pk: int
    session: int
    seq: int
    digest: bytes
    origin: str


@dataclass(slots=True)
class Append:
    """Adds rows to a session. After `run`, `stale` has texts that may be unused, and `texts` the ids of new ones."""

    connection: Connection
    session: Session
    rows: list[Row]
    bodies: dict[bytes, str]  # the texts of the rows by their hashes
    native_id: str = ""
    stale: set[int] = field(default_factory=set)
    texts: dict[bytes, int] = field(default_factory=dict)
    known: dict[bytes, _Known] = field(default_factory=dict)

    def run(self) -> Appended:
        self.native_id = clean(self.session.native_id)
        found = self.connection.execute("SELECT pk, ended_at FROM sessions WHERE id = ?", (self.session.id,)).fetchone()
        mine, ended = found or (None, None)
        own = {
            row.key: row._replace(key=message_key(self.session.agent, renamed), native_id=renamed)
            for row in self.rows
            if row.origin == self.native_id and (renamed := f"{self.native_id}/{row.native_id}")
        }
        query = "SELECT key, pk, session, seq, digest, origin FROM messages WHERE key IN ({})"
        rows = select_in(self.connection, query, (row.key for row in (*self.rows, *own.values())))
        self.known.update((key, _Known(*rest)) for key, *rest in rows)
        if own:
            self._rename_collisions(own, mine)
        count = len(self.rows)
        if self.connection.execute("SELECT 1 FROM deleted_sessions LIMIT 1").fetchone() and self._drop_deleted():
            return Appended(deleted=max(1, count))
        fresh: list[Row] = []
        changed: list[Row] = []
        contested: list[Row] = []
        for row in self.rows:
            have = self.known.get(row.key)
            if have is None:
                fresh.append(row)
            elif have.session != mine:
                contested.append(row)
            elif have.digest != row.digest:
                changed.append(row)
        won, owner = self._contest(contested, ended) if contested else (list[Row](), None)
        copies = len(contested) - len(won)
        if not (found or fresh or won):
            return Appended(copies=copies, deleted=count - len(self.rows), continues=owner)
        written = [*fresh, *changed, *won]
        removed = self._write(owner, fresh, changed, won)
        added = Counter(result[1] for row in written for result in row.results)
        return Appended(
            new=len(fresh),
            replaced=len(changed),
            unchanged=len(self.rows) - len(fresh) - len(changed) - copies,
            copies=copies,
            deleted=count - len(self.rows),
            tool_calls=sum(len(row.calls) for row in written) - removed["call"],
            errors=added["error"] - removed["error"],
            rejected=added["rejected"] - removed["rejected"],
            created=found is None,
            continues=owner,
        )

    def _rename_collisions(self, own: Mapping[bytes, Row], mine: int | None) -> None:
        """Rename the session's own messages whose id another session uses, and those that were renamed before."""
        taken = {key for key in own if key in self.known and self.known[key].session != mine}
        taken |= {key for key, row in own.items() if row.key in self.known}
        self.rows = [own[row.key] if row.key in taken else row for row in self.rows]

    def _drop_deleted(self) -> bool:
        """Drop copies of deleted messages. Returns whether this session, or a subagent's parent, was deleted."""
        session = self.session
        own = {session.id, session.parent_id if session.parent_kind == "subagent" else None}
        origins = {row.key: session_id(session.agent, row.origin) for row in self.rows if row.origin}
        query, ids = "SELECT id FROM deleted_sessions WHERE id IN ({})", {*own, *origins.values()} - {None}
        deleted = {each for (each,) in select_in(self.connection, query, ids)}
        if not own.isdisjoint(deleted):
            return True
        gone = {key for key, origin in origins.items() if origin in deleted}
        keys = (row.key for row in self.rows if row.key not in self.known and row.origin != self.native_id)
        query = "SELECT key FROM deleted_messages WHERE key IN ({}) AND session_id <> ?"
        gone.update(key for (key,) in select_in(self.connection, query, keys, session.id))
        self.rows = [row for row in self.rows if row.key not in gone]
        return False

    def _contest(self, rows: list[Row], ended: float | None) -> tuple[list[Row], str | None]:
        """The rows that belong to this session, and the session that owns the others."""
        times = [row.at for row in self.rows if row.at is not None]
        mine = (max([*times, -inf if ended is None else ended]), self.native_id)
        rivals = {
            pk: self.connection.execute(
                "SELECT id, native_id, ended_at, parent_id FROM sessions WHERE pk = ?", (pk,)
            ).fetchone()
            for pk in {self.known[row.key].session for row in rows}
        }
        won: list[Row] = []
        owner = None
        for row in rows:
            have = self.known[row.key]
            rival, rival_native_id, rival_ended, rival_parent = rivals[have.session]
            # A parent wrote what its child repeats, and an origin wrote its copies.
            if row.origin == rival_native_id or self.session.parent_id == rival:
                wins = False
            elif have.origin == self.native_id or rival_parent == self.session.id:
                wins = True
            else:
                wins = mine < (-inf if rival_ended is None else rival_ended, rival_native_id)
            if wins:
                won.append(row)
            else:
                owner = rival
        return won, owner

    def _write(self, owner: str | None, fresh: list[Row], changed: list[Row], won: list[Row]) -> Counter[str]:
        """Write the session and its messages. Returns how many calls, and results by outcome, were replaced."""
        new = self.session
        parent = (owner, "resume") if owner and new.parent_id is None else (new.parent_id, new.parent_kind)
        texts = map(clean, (new.project, new.directory, new.branch, new.model, new.title, new.version, new.source))
        dates = (each.timestamp() if each else None for each in (new.started_at, new.ended_at))
        usage = usage_json(new.usage) if new.usage else None
        facts = (*texts, *dates, *parent, usage, new.outcome, clean(new.evidence), new.judge)
        is_changed = int(bool(fresh or changed or won))
        values = (new.id, new.agent, self.native_id, *facts, is_changed, OUTCOME_RULES)
        pk = int(self.connection.execute(_UPSERT, values).fetchone()[0])
        seqs = next_ids(self.connection, "messages", "seq", session=pk)
        pks = next_ids(self.connection, "messages", "pk")
        removed = self._delete([*changed, *won]) if changed or won else Counter[str]()
        # New messages are appended in the order of the log; changed ones keep their place.
        taken = {row.key for row in won}
        rows = [row for row in self.rows if row.key in taken or row.key not in self.known] if won else fresh
        placed = [(self.known[row.key].pk if row.key in taken else next(pks), next(seqs), row) for row in rows]
        placed += [(self.known[row.key].pk, self.known[row.key].seq, row) for row in changed]
        self.texts = insert_messages(self.connection, pk, placed, self.bodies)
        self.connection.execute(_SPAN_DATES, (pk,))
        for loser in {self.known[key].session for key in taken}:
            self._settle_loser(loser)
        return removed

    def _delete(self, rows: list[Row]) -> Counter[str]:
        pks = [self.known[row.key].pk for row in rows]
        self.stale |= texts_of(self.connection, pks)
        counts: Counter[str] = Counter()
        for some in batches(pks):
            these = placeholders(some)
            for kind, number in self.connection.execute(
                f"SELECT outcome, count(*) FROM tool_results WHERE message IN ({these}) GROUP BY outcome "
                f"UNION ALL SELECT 'call', count(*) FROM tool_calls WHERE message IN ({these})",
                some * 2,
            ):
                counts[kind] += number
            self.connection.execute(f"DELETE FROM messages WHERE pk IN ({these})", some)
        return counts

    def _settle_loser(self, loser: int) -> None:
        """Link a session that lost messages to this one, or delete it if it has no others."""
        run = self.connection.execute
        if run("SELECT 1 FROM messages WHERE session = ? LIMIT 1", (loser,)).fetchone() is None:
            run("DELETE FROM sessions WHERE pk = ?", (loser,))
            return
        run("UPDATE sessions SET revision = revision + 1 WHERE pk = ?", (loser,))
        run(
            "UPDATE sessions SET parent_id = ?, parent_kind = 'resume', started_at = NULL, ended_at = NULL "
            "WHERE pk = ? AND coalesce(parent_kind, 'resume') = 'resume' AND id <> ?",
            (self.session.id, loser, self.session.parent_id or ""),
        )
        run(_SPAN_DATES, (loser,))


def insert_messages(
    connection: Connection, session: int, placed: Sequence[tuple[int, int, Row]], bodies: Mapping[bytes, str]
) -> dict[bytes, int]:
    """Insert messages, each with its pk and its sequence number. `bodies` are texts by hash. Returns their ids."""
    used = {row.text for _, _, row in placed} | {row.reasoning for _, _, row in placed}
    used |= {arguments for _, _, row in placed for _, _, arguments in row.calls}
    used |= {result[2] for _, _, row in placed for result in row.results}
    texts = save_texts(connection, {text: body for text, body in bodies.items() if text in used})
    ids: dict[Any, int | None] = {None: None, **texts}
    connection.executemany(
        f"INSERT INTO messages (pk, session, seq, {MESSAGE_COLUMNS}, text, reasoning) "
        f"VALUES ({placeholders(range(14))})",
        [(pk, session, seq, *row[:9], ids[row.text], ids[row.reasoning]) for pk, seq, row in placed],
    )
    connection.executemany(
        "INSERT INTO tool_calls (message, position, call_id, name, arguments) VALUES (?, ?, ?, ?, ?)",
        [
            (pk, position, call_id, name, ids[arguments])
            for pk, _, row in placed
            for position, (call_id, name, arguments) in enumerate(row.calls)
        ],
    )
    connection.executemany(
        "INSERT INTO tool_results (message, position, call_id, outcome, text, duration, flag, exit_code) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (pk, position, call_id, outcome, ids[text], *rest)
            for pk, _, row in placed
            for position, (call_id, outcome, text, *rest) in enumerate(row.results)
        ],
    )
    return texts


def save_texts(connection: Connection, bodies: Mapping[bytes, str]) -> dict[bytes, int]:
    """Store the new texts. Returns the id of every text by its hash."""
    ids: dict[bytes, int] = dict(select_in(connection, "SELECT hash, id FROM texts WHERE hash IN ({})", bodies))
    new = zip(next_ids(connection, "texts", "id"), [key for key in bodies if key not in ids], strict=False)
    # The SQL function `compress` would do the same, but copying the texts to it takes a tenth of a second for 30 MB.
    pack = compress if isinstance(connection, sqlite3.Connection) else str
    rows = [(number, key, pack(bodies[key])) for number, key in new]
    connection.executemany("INSERT INTO texts (id, hash, body) VALUES (?, ?, ?)", rows)
    ids.update((key, number) for number, key, _ in rows)
    return ids


def texts_of(connection: Connection, messages: Iterable[int]) -> set[int]:
    """The ids of all texts in these messages."""
    used: set[int] = set()
    for some in batches(messages):
        these = placeholders(some)
        query = " UNION ".join(f"SELECT {text} FROM {table} WHERE {pk} IN ({these})" for table, pk, text in TEXT_USES)
        rows = connection.execute(query, some * len(TEXT_USES))
        used.update(row[0] for row in rows if row[0] is not None)
    return used
