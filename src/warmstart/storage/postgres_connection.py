"""A connection to PostgreSQL that takes the statements of our rooms, and keeps to a time where there is one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from itertools import count
from math import ceil
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from warmstart.storage.database import Cursor, Interrupted

_ROWS = 50  # that a stream fetches at a time
_TRIES = 20  # to end a transaction whose time is over
_SLACK = 0.005  # seconds by which the server's limit for a statement may be behind the clock

# A quoted text, a cast, or a parameter in one of SQLite's forms.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::|\?(\d*)|:([a-z_]\w*)|%")
_CONFLICT = re.compile(r"ON CONFLICT \(")


class _Statement(NamedTuple):
    """A statement as psycopg wants it; `numbered` if its parameters are numbered."""

    sql: bytes
    numbered: bool


@lru_cache(maxsize=1024)
def translate(sql: str) -> _Statement:
    """The statement in the form that psycopg wants. Every unique key begins with the tenant, so conflicts do too."""
    numbered = False

    def parameter(found: re.Match[str]) -> str:
        nonlocal numbered
        text, number, name = found[0], found[1], found[2]
        if text.startswith("'") or text == "%":
            return text.replace("%", "%%")
        if name:
            return f"%({name})s"
        if number:
            numbered = True
            return f"%({number})s"
        return "%s" if text == "?" else text

    translated = _TOKEN.sub(parameter, sql)
    return _Statement(_CONFLICT.sub("ON CONFLICT (tenant, ", translated).encode(), numbered)


class Connection:
    """A connection that takes the statements of our rooms.

    `acting` is what every transaction begins with, where it is for another tenant or in the name of a role. What goes
    to `raw` outside of a transaction is not.
    """

    def __init__(self, raw: psycopg.Connection[Any], acting: Sequence[sql.Composed] = ()) -> None:
        self.raw = raw
        self._acting = acting
        self._streams = count()
        self._together = self._reading = False  # whether reads share a transaction, and whether there is one
        self._end: float | None = None  # when the time is over
        self._told = 0.0  # when the server was told how much of it is left

    def execute(self, sql: str, parameters: Any = (), /, *, binary: bool = False) -> Cursor:
        """Run a statement. With `binary` what it gives is sent as it is, which is quicker for large values."""
        statement, given = self._prepared(sql, parameters)
        if self._together:
            return self._within_limits(statement, given, binary)
        with self._transaction():
            return self.raw.execute(statement, given, binary=binary)

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
        """Let what is asked meanwhile take no longer than this in all, or raise `Interrupted`.

        Reads share a transaction, which is what tells the server the time and, once and not for each, the tenant and
        the role. A write is a transaction of its own as ever.
        """
        if seconds is None and not self._acting:
            yield
            return
        self._together, self._end = True, None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._together, self._end = False, None
            self.end_reading()

    def begin(self, lock: float) -> None:
        """Begin a write, and say how long its statements and their waits for a lock may take."""
        self.end_reading()
        left = self._left()
        waits = _setting("lock_timeout", lock if left is None else min(lock, left))
        self.raw.execute("; ".join(["BEGIN", waits, *self._settings(left)]).encode())

    def _settings(self, left: float | None) -> Iterator[str]:
        """What is to be said at the beginning of a transaction."""
        if left is not None:
            self._told = time.monotonic()
            yield _setting("statement_timeout", left)
        yield from (each.as_string(self.raw) for each in self._acting)

    def end_reading(self) -> None:
        """End the transaction that reads share."""
        if self._reading:
            self._reading = False
            self.roll_back()

    def roll_back(self) -> None:
        """End a transaction, come what may: the time for a statement may also be over for this one."""
        for _ in range(_TRIES):
            if self.raw.closed or self.raw.info.transaction_status == TransactionStatus.IDLE:
                return
            with suppress(psycopg.errors.QueryCanceled):
                self.raw.rollback()

    def _within_limits(self, statement: bytes, given: Any, binary: bool) -> Cursor:
        left = self._left()
        if self._reading and self.raw.info.transaction_status == TransactionStatus.INERROR:
            self.roll_back()
        before: list[str] = []
        if self.raw.info.transaction_status == TransactionStatus.IDLE:
            before = ["BEGIN READ ONLY", *self._settings(left)]
            self._reading = True
        elif left is not None and time.monotonic() - self._told > _SLACK:
            before = [next(self._settings(left))]
        try:
            if not before:
                return self.raw.execute(statement, given, binary=binary)
            with self.raw.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():  # in one round trip
                for each in before:
                    self.raw.execute(each.encode())
                return self.raw.execute(statement, given, binary=binary)
        except psycopg.errors.QueryCanceled:
            self.end_reading()
            raise Interrupted from None

    def _left(self) -> float | None:
        left = None if self._end is None else self._end - time.monotonic()
        if left is not None and left <= 0:
            raise Interrupted
        return left

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> object:
        statement, numbered = translate(sql)
        rows = [_numbered(row) for row in parameters] if numbered else list(parameters)
        if rows:
            with self._transaction(), self.raw.cursor() as cursor:
                cursor.executemany(statement, rows)
        return None

    def stream(self, sql: str, parameters: Any = ()) -> Iterator[Any]:
        statement, given = self._prepared(sql, parameters)
        with self.raw.cursor(name=f"warmstart_{next(self._streams)}") as cursor:
            cursor.itersize = _ROWS
            cursor.execute(statement, given)
            yield from cursor

    def act(self) -> None:
        """Say for whom this transaction is, where it is not for the role that logged in."""
        if self._acting:
            self.raw.execute(sql.SQL("; ").join(self._acting))

    def _transaction(self) -> AbstractContextManager[object]:
        """One of its own for a statement that must begin by acting, and is in none."""
        if not self._acting or self.raw.info.transaction_status != TransactionStatus.IDLE:
            return nullcontext()
        return self._acted()

    @contextmanager
    def _acted(self) -> Iterator[None]:
        with self.raw.transaction():
            self.act()
            yield

    def _prepared(self, sql: str, parameters: Any) -> tuple[bytes, Any]:
        statement, numbered = translate(sql)
        return statement, _numbered(parameters) if numbered else parameters


def _setting(name: str, seconds: float) -> str:
    return f"SET LOCAL {name} = {max(1, ceil(seconds * 1000))}"


def _numbered(parameters: Sequence[object]) -> dict[str, object]:
    return {str(place): value for place, value in enumerate(parameters, 1)}
