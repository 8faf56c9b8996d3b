"""One append to a store, inside its transaction.

The work is in deciding whose each message is. Agents copy messages: a resumed session's log begins with the history of
the session it continues. A message is kept once, with the session that wrote it, and that must not depend on which log
is read first. So when a message turns up in a second session, the two contest it: a copy that names its `origin`
loses to that origin, and otherwise the session that ended earlier wins. The loser is linked to the winner as `resume`.

A message that names its own session as its origin is no copy. Where another session has its id, it gets one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from warmstart.sessions.outcomes import OUTCOME_RULES
from warmstart.sessions.rows import Row, Text, flags, message_key, to_seconds, usage_json
from warmstart.sessions.store import Appended
from warmstart.sessions.values import Session, clean
from warmstart.storage.database import Connection
from warmstart.storage.sql import batches, next_ids, placeholders

# Whether a log says nothing new about the place of its session. A working tree that is gone no longer tells to which
# repository it belongs, and a folder inside of it no longer to which working tree.
_SAME_PLACE = """(excluded.project = '' OR known.directory <> '' AND excluded.project = excluded.directory
                AND substr(excluded.directory || '/', 1, length(known.directory) + 1) = known.directory || '/')"""


class _Known(NamedTuple):
    """What the store has of a message already."""

    pk: int
    session: int
    digest: bytes
    origin: str


class _Rival(NamedTuple):
    """Another session that holds some of the messages."""

    id: str
    native_id: str
    ended_at: float | None
    parent_id: str | None


class Append:
    """Adds rows to a session. `run` is called once; `stale` are the texts that it may have left without a use."""

    def __init__(self, connection: Connection, session: Session, rows: Sequence[Row]) -> None:
        self.connection = connection
        self.session = session
        self.rows = rows
        self.known = self._known(rows)
        self.stale: set[int] = set()

    def run(self) -> Appended:
        found = self.connection.execute("SELECT pk, ended_at FROM sessions WHERE id = ?", (self.session.id,)).fetchone()
        mine, ended = found or (None, None)
        self._keep_apart(mine)
        self._drop_deleted()
        fresh, changed, contested = self._sorted_out(mine)
        won, lost, owner = self._contest(contested, ended) if contested else ([], [], None)
        if not (found or fresh or won):
            return Appended(copies=len(lost), continues=owner)
        pk = self._save_session(owner, news=bool(fresh or changed or won))
        texts = self._save_texts([*fresh, *changed, *won])
        before = self._tools([*changed, *won])
        ours = {row.key for row in (*fresh, *won)}
        places = dict(zip((row.key for row in self.rows if row.key in ours), self._places(pk), strict=False))
        self._take(pk, won, places)
        self._replace([*changed, *won], texts)
        self._insert(pk, fresh, places, texts)
        _stretch(self.connection, pk)
        after = _tools([*fresh, *changed, *won])
        return Appended(
            new=len(fresh),
            replaced=len(changed),
            unchanged=len(self.rows) - len(fresh) - len(changed) - len(lost),
            copies=len(lost),
            tool_calls=after["call"] - before["call"],
            errors=after["error"] - before["error"],
            rejected=after["rejected"] - before["rejected"],
            created=found is None,
            continues=owner,
        )

    def _known(self, rows: Iterable[Row]) -> dict[bytes, _Known]:
        known: dict[bytes, _Known] = {}
        for keys in batches([row.key for row in rows]):
            for key, *rest in self.connection.execute(
                f"SELECT key, pk, session, digest, origin FROM messages WHERE key IN ({placeholders(keys)})", keys
            ):
                known[key] = _Known(*rest)
        return known

    def _keep_apart(self, mine: int | None) -> None:
        """Rename the messages that this session wrote itself and whose id another session has."""
        own = {row.key: self._renamed(row) for row in self.rows if self._is_own(row)}
        known = self._known(own.values())
        taken = {key for key in own if key in self.known and self.known[key].session != mine}
        taken |= {key for key, row in own.items() if row.key in known}
        if taken:
            self.rows = [own[row.key] if row.key in taken else row for row in self.rows]
            self.known |= known

    def _is_own(self, row: Row) -> bool:
        return row.message.origin == self.session.native_id

    def _renamed(self, row: Row) -> Row:
        native_id = f"{self.session.native_id}/{row.message.native_id}"
        key = message_key(self.session.agent, native_id)
        return row._replace(key=key, message=replace(row.message, native_id=native_id))

    def _drop_deleted(self) -> None:
        """Leave out copies of messages that went with another session which a person deleted."""
        if self.connection.execute("SELECT 1 FROM deleted_messages LIMIT 1").fetchone() is None:
            return
        gone: set[bytes] = set()
        for keys in batches([row.key for row in self.rows if row.key not in self.known and not self._is_own(row)]):
            found = self.connection.execute(
                f"SELECT key FROM deleted_messages WHERE session_id <> ? AND key IN ({placeholders(keys)})",
                (self.session.id, *keys),
            )
            gone.update(key for (key,) in found)
        if gone:
            self.rows = [row for row in self.rows if row.key not in gone]

    def _places(self, pk: int) -> Iterator[int]:
        return next_ids(self.connection, "messages", "seq", session=pk)

    def _sorted_out(self, mine: int | None) -> tuple[list[Row], list[Row], list[Row]]:
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
        return fresh, changed, contested

    def _contest(self, rows: list[Row], ended: float | None) -> tuple[list[Row], list[Row], str | None]:
        times = [row.message.timestamp.timestamp() for row in self.rows if row.message.timestamp]
        mine = (max([*times, -inf if ended is None else ended], default=-inf), self.session.native_id)
        rivals = {pk: self._rival(pk) for pk in {self.known[row.key].session for row in rows}}
        won: list[Row] = []
        lost: list[Row] = []
        owner = None
        for row in rows:
            have = self.known[row.key]
            rival = rivals[have.session]
            theirs = (-inf if rival.ended_at is None else rival.ended_at, rival.native_id)
            # Who is stated to be the other's parent wrote it; so did who is named as a copy's origin.
            if row.message.origin == rival.native_id or self.session.parent_id == rival.id:
                wins = False
            elif have.origin == self.session.native_id or rival.parent_id == self.session.id:
                wins = True
            else:
                wins = mine < theirs
            if wins:
                won.append(row)
            else:
                lost.append(row)
                owner = rival.id
        return won, lost, owner

    def _rival(self, pk: int) -> _Rival:
        query = "SELECT id, native_id, ended_at, parent_id FROM sessions WHERE pk = ?"
        return _Rival(*self.connection.execute(query, (pk,)).fetchone())

    def _tools(self, rows: list[Row]) -> Counter[str]:
        """How many calls, and results by outcome, the store has for these messages."""
        counted: Counter[str] = Counter()
        for some in batches([self.known[row.key].pk for row in rows]):
            for query in (
                f"SELECT 'call', count(*) FROM tool_calls WHERE message IN ({placeholders(some)})",
                f"SELECT outcome, count(*) FROM tool_results WHERE message IN ({placeholders(some)}) GROUP BY outcome",
            ):
                for kind, number in self.connection.execute(query, some):
                    counted[kind] += number
        return counted

    def _save_session(self, owner: str | None, *, news: bool) -> int:
        new = self.session
        parent, kind = new.parent_id, new.parent_kind
        if parent is None and owner is not None:
            parent, kind = owner, "resume"
        stated = (new.project, new.directory, new.branch, new.model, new.title, new.version, new.source)
        row = self.connection.execute(
            f"""
            INSERT INTO sessions AS known (id, agent, native_id, project, directory, branch, model, title, version,
                                           source, started_at, ended_at, parent_id, parent_kind, outcome, evidence,
                                           judge, usage, revision, rules)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET
                native_id = excluded.native_id,
                project = CASE WHEN {_SAME_PLACE} THEN known.project ELSE excluded.project END,
                directory = CASE WHEN {_SAME_PLACE}
                    THEN known.directory ELSE coalesce(nullif(excluded.directory, ''), known.directory) END,
                branch = coalesce(nullif(excluded.branch, ''), known.branch),
                model = coalesce(nullif(excluded.model, ''), known.model),
                title = coalesce(nullif(excluded.title, ''), known.title),
                version = coalesce(nullif(excluded.version, ''), known.version),
                source = coalesce(nullif(excluded.source, ''), known.source),
                started_at = coalesce(known.started_at, excluded.started_at),
                ended_at = coalesce(excluded.ended_at, known.ended_at),
                parent_id = coalesce(excluded.parent_id, known.parent_id),
                parent_kind = coalesce(excluded.parent_kind, known.parent_kind),
                outcome = CASE WHEN known.judge = 'user' OR excluded.judge = ''
                    THEN known.outcome ELSE excluded.outcome END,
                evidence = CASE WHEN known.judge = 'user' OR excluded.judge = ''
                    THEN known.evidence ELSE excluded.evidence END,
                judge = CASE WHEN known.judge = 'user' OR excluded.judge = '' THEN known.judge ELSE excluded.judge END,
                usage = coalesce(excluded.usage, known.usage),
                revision = known.revision + CASE WHEN excluded.revision > 0
                    OR excluded.usage <> coalesce(known.usage, '') OR (
                    known.judge <> 'user' AND excluded.judge <> '' AND
                    (known.outcome, known.evidence) <> (excluded.outcome, excluded.evidence)) THEN 1 ELSE 0 END,
                -- What was there before may be by older rules: the session is by the oldest.
                rules = CASE WHEN known.rules < excluded.rules THEN known.rules ELSE excluded.rules END
            RETURNING pk
            """,
            (
                new.id,
                new.agent,
                clean(new.native_id),
                *map(clean, stated),
                to_seconds(new.started_at),
                to_seconds(new.ended_at),
                parent,
                kind,
                new.outcome,
                clean(new.evidence),
                new.judge,
                usage_json(new.usage),
                int(news),
                OUTCOME_RULES,
            ),
        ).fetchone()
        return int(row[0])

    def _save_texts(self, rows: list[Row]) -> dict[bytes, int]:
        return save_texts(self.connection, {text.hash: text.body for row in rows for text in row.texts()})

    def _take(self, pk: int, won: list[Row], places: dict[bytes, int]) -> None:
        """Move messages here from the sessions that only held copies of them."""
        losers = {self.known[row.key].session for row in won}
        for row in won:
            moved = (pk, places[row.key], self.known[row.key].pk)
            self.connection.execute("UPDATE messages SET session = ?, seq = ? WHERE pk = ?", moved)
        for loser in losers:
            left = self.connection.execute("SELECT count(*) FROM messages WHERE session = ?", (loser,)).fetchone()
            if not left[0]:
                self.connection.execute("DELETE FROM sessions WHERE pk = ?", (loser,))
                continue
            self.connection.execute("UPDATE sessions SET revision = revision + 1 WHERE pk = ?", (loser,))
            self.connection.execute(
                "UPDATE sessions SET parent_id = ?, parent_kind = 'resume', started_at = NULL, ended_at = NULL "
                "WHERE pk = ? AND coalesce(parent_kind, 'resume') = 'resume' AND id <> ?",
                (self.session.id, loser, self.session.parent_id or ""),
            )
            _stretch(self.connection, loser)

    def _replace(self, rows: list[Row], texts: dict[bytes, int]) -> None:
        before = texts_of(self.connection, [self.known[row.key].pk for row in rows])
        for row in rows:
            pk = self.known[row.key].pk
            self.connection.execute(
                "UPDATE messages SET digest = ?, role = ?, flags = ?, at = ?, model = ?, origin = ?, usage = ?, "
                "text = ?, reasoning = ? WHERE pk = ?",
                (row.digest, *_columns(row, texts), pk),
            )
            self.connection.execute("DELETE FROM tool_calls WHERE message = ?", (pk,))
            self.connection.execute("DELETE FROM tool_results WHERE message = ?", (pk,))
        self._save_tools([(self.known[row.key].pk, row) for row in rows], texts)
        self.stale |= before

    def _insert(self, session: int, rows: list[Row], places: dict[bytes, int], texts: dict[bytes, int]) -> None:
        pks = next_ids(self.connection, "messages", "pk")
        placed = list(zip(pks, rows, strict=False))
        self.connection.executemany(
            "INSERT INTO messages (pk, session, seq, key, native_id, digest, role, flags, at, model, origin, usage, "
            "text, reasoning) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (pk, session, places[row.key], row.key, clean(row.message.native_id), row.digest, *_columns(row, texts))
                for pk, row in placed
            ),
        )
        self._save_tools(placed, texts)

    def _save_tools(self, placed: list[tuple[int, Row]], texts: dict[bytes, int]) -> None:
        self.connection.executemany(
            "INSERT INTO tool_calls (message, position, call_id, name, arguments) VALUES (?, ?, ?, ?, ?)",
            (
                (pk, position, clean(call.id), clean(call.name), _id(text, texts))
                for pk, row in placed
                for position, (call, text) in enumerate(zip(row.message.tool_calls, row.arguments, strict=True))
            ),
        )
        self.connection.executemany(
            "INSERT INTO tool_results (message, position, call_id, outcome, text, duration, flag, exit_code) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    pk,
                    position,
                    clean(result.call_id),
                    result.outcome,
                    _id(text, texts),
                    result.duration,
                    result.flag,
                    result.exit_code,
                )
                for pk, row in placed
                for position, (result, text) in enumerate(zip(row.message.tool_results, row.results, strict=True))
            ),
        )


def save_texts(connection: Connection, bodies: dict[bytes, str]) -> dict[bytes, int]:
    """Store the texts that are new, and tell the id of every text by its hash."""
    ids: dict[bytes, int] = {}
    for hashes in batches(bodies):
        ids.update(connection.execute(f"SELECT hash, id FROM texts WHERE hash IN ({placeholders(hashes)})", hashes))
    new = zip((key for key in bodies if key not in ids), next_ids(connection, "texts", "id"), strict=False)
    added = dict(new)
    connection.executemany(
        "INSERT INTO texts (id, hash, body) VALUES (?, ?, ?)",
        ((number, key, bodies[key]) for key, number in added.items()),
    )
    return ids | added


def _tools(rows: list[Row]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows:
        counted["call"] += len(row.message.tool_calls)
        counted.update(result.outcome for result in row.message.tool_results)
    return counted


def texts_of(connection: Connection, messages: list[int]) -> set[int]:
    """The ids of all texts that these messages use."""
    used: set[int] = set()
    for some in batches(messages):
        these = placeholders(some)
        for query in (
            f"SELECT text FROM messages WHERE pk IN ({these})",
            f"SELECT reasoning FROM messages WHERE pk IN ({these})",
            f"SELECT arguments FROM tool_calls WHERE message IN ({these})",
            f"SELECT text FROM tool_results WHERE message IN ({these})",
        ):
            used.update(row[0] for row in connection.execute(query, some) if row[0] is not None)
    return used


def _stretch(connection: Connection, pk: int) -> None:
    """Let a session's dates span its messages."""
    connection.execute(
        "UPDATE sessions SET started_at = coalesce(span.first, started_at), ended_at = coalesce(span.last, ended_at) "
        "FROM (SELECT min(at) AS first, max(at) AS last FROM messages WHERE session = ?1) AS span WHERE pk = ?1",
        (pk,),
    )


def _columns(row: Row, texts: dict[bytes, int]) -> tuple[object, ...]:
    message = row.message
    return (
        message.role,
        flags(message),
        to_seconds(message.timestamp),
        clean(message.model),
        clean(message.origin),
        usage_json(message.usage),
        _id(row.text, texts),
        _id(row.reasoning, texts),
    )


def _id(text: Text | None, texts: dict[bytes, int]) -> int | None:
    return None if text is None else texts[text.hash]
