"""Where OpenCode keeps its sessions: an SQLite database, or (before 1.2) a folder of small JSON files.

Both hold the same objects: the facts of a session, of a message, and the parts of a message. They are fetched here;
what they mean is for `opencode`.

The database is live and in WAL mode: it is opened read-only, never copied, and never as immutable. Messages and parts
are updated in place while the model streams, so what changed is told by `time_updated`; what is new also by its row
id, since clocks are set back and rows may be dated in the future. `Reading.state` holds `since` (everything older is
done), `rows` (for either table the last row done, and a digest of it) and, within a pass over the sessions, `after`
(the last session done) with `until` and `upto` (the next `since` and `rows`), so that an interrupted first pass goes on
where it stopped. Another row, or none, at the place of one that was done means another database, or one that was
packed: then all of it is read again. `Reading.offset` stays 0: bytes mean nothing here.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.readers import document
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.decoding import DECODE_ERRORS, decode
from warmstart.sessions.readers.fields import as_dict, as_int, as_list, as_str

# A transaction may be committed a moment after the times it wrote: this much of the past is looked at again.
MARGIN_MS = 1000

_SESSION_COLUMNS = ("id", "parent_id", "directory", "title", "version", "model", "time_created", "time_updated")
_NEEDED = {
    "session": {"id"},
    "message": {"id", "session_id", "data"},
    "part": {"id", "message_id", "data"},
}
# The tables in which rows are numbered as they are added.
_NUMBERED = ("message", "part")
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Entry(NamedTuple):
    """One message as stored, with the facts of its session; without a message, the facts alone."""

    session: dict[str, Any]
    message: dict[str, Any] | None
    parts: list[dict[str, Any]]


def database(path: Path, reading: Reading) -> Iterator[Entry]:
    """What changed in the database since `reading`."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as db:
            db.text_factory = _as_text
            yield from _pass(_Tables(db, path), reading)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite quotes a damaged schema in its complaint, and Python fails to decode that.
        raise LogError(f"cannot read the OpenCode database {str(path)!r}: {error}") from error


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _pass(tables: _Tables, reading: Reading) -> Iterator[Entry]:
    state, now = reading.state, _now()
    places = [as_dict(state.get(name)) for name in ("rows", "upto")]
    # A pass that ends later than now was made before the clock was set back: what changed since cannot be told.
    if (as_int(state.get("since")) or 0) > now or not all(map(tables.holds, places)):
        state.clear()
    done, after = _Done.of(state), as_str(state.get("after"))
    if not after:
        state["until"], state["upto"] = min(tables.latest(), now), tables.last_rows()
    for key in tables.changed_sessions(done, after):
        facts = tables.session(key)
        yield Entry(facts, None, [])
        for info in tables.changed_messages(key, done, reading):
            yield Entry(facts, info, list(tables.parts(info["id"], reading)))
        state["after"] = key
    until = as_int(state.pop("until", None)) or 0
    state.pop("after", None)
    state["since"] = max(done.since, until - MARGIN_MS)
    state["rows"] = state.pop("upto", {})


def _now() -> int:
    return int(time.time() * 1000)


class _Done(NamedTuple):
    """What earlier passes did: all that is older than `since`, and the rows up to these."""

    since: int
    message: int
    part: int

    @classmethod
    def of(cls, state: dict[str, Any]) -> _Done:
        rows = as_dict(state.get("rows"))
        message, part = (_row(rows.get(name))[0] for name in _NUMBERED)
        return cls(as_int(state.get("since")) or 0, message, part)


def _row(place: object) -> tuple[int, str]:
    """A row as the state holds it: its number and its digest."""
    number, mark = [*as_list(place), None, None][:2]
    return as_int(number) or 0, as_str(mark)


class _Tables:
    """The three tables of an OpenCode database, whatever columns this version gave them."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.db = db
        self.columns = {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in _NEEDED}
        for name, needed in _NEEDED.items():
            if missing := needed - self.columns[name]:
                raise LogError(f"{str(path)!r} is not an OpenCode database: {name} has no column {min(missing)!r}")
        self.numbered = {name for name in _NUMBERED if self._has_rows(name)}

    def _has_rows(self, name: str) -> bool:
        try:
            self.db.execute(f"SELECT rowid FROM {name} LIMIT 0")
        except sqlite3.OperationalError as error:
            if "no such column" in str(error):
                return False
            raise
        return True

    def last_rows(self) -> dict[str, list[int | str]]:
        """The last row of each table, to be known again."""
        found: dict[str, list[int | str]] = {}
        for name in sorted(self.numbered):
            (value,) = self.db.execute(f"SELECT max(rowid) FROM {name}").fetchone()
            number = as_int(value) or 0
            found[name] = [number, self._mark(name, number)]
        return found

    def holds(self, rows: dict[str, Any]) -> bool:
        """Whether these rows are still those that they were."""
        places = {name: _row(rows.get(name)) for name in self.numbered}
        return all(self._mark(name, number) == mark for name, (number, mark) in places.items())

    def _mark(self, name: str, number: int) -> str:
        found = self.db.execute(f"SELECT id FROM {name} WHERE rowid = ?", (number,)).fetchone() if number else None
        return blake2b(repr(found).encode("utf-8", "replace"), digest_size=8).hexdigest() if found else ""

    def latest(self) -> int:
        """The newest `time_updated` of all; 0 where there is none, and then every pass reads everything."""
        newest = 0
        for name, columns in self.columns.items():
            if "time_updated" in columns:
                (value,) = self.db.execute(f"SELECT max(time_updated) FROM {name}").fetchone()
                newest = max(newest, as_int(value) or 0)
        return newest

    def _recent(self, name: str, done: _Done) -> str:
        if not done.since or "time_updated" not in self.columns[name]:
            return "1"
        return f"(time_updated >= :since OR rowid > :{name})" if name in self.numbered else "time_updated >= :since"

    def changed_sessions(self, done: _Done, after: str) -> list[str]:
        """The ids of sessions in which anything changed. Ids alone: no cursor stays open while a pair is handled."""
        found = self.db.execute(
            f"""SELECT id FROM session WHERE id > :after AND (
                    {self._recent("session", done)}
                    OR id IN (SELECT session_id FROM message WHERE {self._recent("message", done)})
                    OR id IN (SELECT m.session_id FROM message m WHERE m.id IN
                        (SELECT message_id FROM part WHERE {self._recent("part", done)})))
                ORDER BY id""",
            {**done._asdict(), "after": after},
        )
        return [key for (key,) in found if isinstance(key, str)]

    def session(self, key: str) -> dict[str, Any]:
        names = [name for name in _SESSION_COLUMNS if name in self.columns["session"]]
        row = self.db.execute(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (key,)).fetchone()
        facts = dict(zip(names, row or [], strict=False))
        return {
            "id": key,
            "parentID": facts.get("parent_id"),
            "directory": facts.get("directory"),
            "title": facts.get("title"),
            "version": facts.get("version"),
            "model": _object(facts.get("model")) or {},
            "time": {"created": facts.get("time_created"), "updated": facts.get("time_updated")},
        }

    def changed_messages(self, session: str, done: _Done, reading: Reading) -> Iterator[dict[str, Any]]:
        order = "time_created, id" if "time_created" in self.columns["message"] else "id"
        recent = self._recent("part", done)
        rows = self.db.execute(
            f"""SELECT id, data FROM message WHERE session_id = :session AND ({self._recent("message", done)}
                    OR id IN (SELECT message_id FROM part WHERE message_id = message.id AND {recent}))
                ORDER BY {order}""",
            {**done._asdict(), "session": session},
        )
        yield from _objects(rows, "message", reading)

    def parts(self, message: str, reading: Reading) -> Iterator[dict[str, Any]]:
        rows = self.db.execute("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (message,))
        yield from _objects(rows, "part", reading)


def _objects(rows: Iterator[tuple[Any, Any]] | sqlite3.Cursor, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    for key, data in rows:
        found = _object(data)
        if found is None or not isinstance(key, str):
            reading.fault(0, f"{kind} {key!r} holds no JSON object")
        else:
            yield {**found, "id": key}


def _object(data: object) -> dict[str, Any] | None:
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if not isinstance(raw, bytes):
        return None
    try:
        return decode(raw, _OBJECT)
    except DECODE_ERRORS:
        return None


def folder(path: Path, reading: Reading) -> Iterator[Entry]:
    """The session of which `path` is the file of facts, with all of its messages."""
    loaded = document.load(path, reading, _OBJECT)
    if loaded is None:
        return
    facts, size = loaded
    facts["id"] = as_str(facts.get("id")) or path.stem
    messages, parts = _folders(path)
    reading.offset = 0
    yield Entry(facts, None, [])
    for file in _files(messages):
        info = _loaded(file, reading)
        if info is not None:
            own = [part for name in _files(parts / file.stem) if (part := _loaded(name, reading)) is not None]
            # The very first versions kept the parts inside of the message.
            inside = [as_dict(part) for part in as_list(info.get("parts"))]
            yield Entry(facts, info, own or inside)
    reading.offset = size


def _folders(path: Path) -> tuple[Path, Path]:
    """The folders of a session's messages and of their parts, in either of the two layouts."""
    if path.parent.name == "info":
        base = path.parent.parent
        return base / "message" / path.stem, base / "part" / path.stem
    base = path.parent.parent.parent
    return base / "message" / path.stem, base / "part"


def _files(where: Path) -> list[Path]:
    """The JSON files of a folder, oldest first: OpenCode's ids of messages and parts ascend."""
    return sorted(where.glob("*.json")) if where.is_dir() else []


def _loaded(file: Path, reading: Reading) -> dict[str, Any] | None:
    try:
        found = _object(file.read_bytes())
    except OSError:
        found = None
    if found is None:
        reading.fault(0, f"{file.name} holds no JSON object")
        return None
    return {**found, "id": as_str(found.get("id")) or file.stem}
