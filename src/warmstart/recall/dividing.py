"""Dividing texts into words and taking endings off, for all databases alike, by asking FTS5 in memory."""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from warmstart.recall.engine import Word

TOKENS = "unicode61 remove_diacritics 2"

_KNOWN = 50_000
_BUFFER = 64_000_000  # bytes that FTS5 holds before it writes, so that a write of lines makes one piece
_ASCII = re.compile("[a-z0-9]+").findall


class Divider:
    """Divides a text into words, and takes their endings off.

    The stem finds how frequent a word is, and the word goes into a query: Porter's rules, applied to a stem again,
    would make another one of it.
    """

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._known: dict[str, str] = {}
        for name, endings in (("plain", ""), ("stemmed", "porter ")):
            self._connection.execute(
                f"CREATE VIRTUAL TABLE {name} USING fts5 (body, content = '', tokenize = '{endings}{TOKENS}')"
            )
            self._connection.execute(f"CREATE VIRTUAL TABLE {name}_words USING fts5vocab ({name}, instance)")

    def words(self, text: str) -> list[Word]:
        """The words of a text in order."""
        words = _ASCII(text.lower()) if text.isascii() else self._divided("plain", text)
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if len(self._known) > _KNOWN:
            self._known.clear()
            new = list(dict.fromkeys(words))
        if new:
            self._known.update(zip(new, self._divided("stemmed", " ".join(new)), strict=True))
        return [Word(word, self._known[word]) for word in words]

    def _divided(self, table: str, text: str) -> list[str]:
        run = self._connection.execute
        run(f"INSERT INTO {table} (rowid, body) VALUES (1, ?)", (text,))
        found = [row[0] for row in run(f"SELECT term FROM {table}_words ORDER BY offset")]
        run(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
        return found


class Inverter:
    """Turns numbered lines into stems with the numbers of the lines that hold them."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(
            "CREATE VIRTUAL TABLE lines USING fts5 (body, content = '', columnsize = 0, detail = none, "
            f"tokenize = 'porter {TOKENS}')"
        )
        self._connection.execute("INSERT INTO lines (lines, rank) VALUES ('hashsize', ?)", (_BUFFER,))
        self._connection.execute("CREATE VIRTUAL TABLE stems USING fts5vocab (lines, instance)")

    def stems(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, array[int]]]:
        """Every stem once, in order, with its lines in order; to be read to the end."""
        run = self._connection.execute
        run("BEGIN")
        self._connection.executemany("INSERT INTO lines (rowid, body) VALUES (?, ?)", lines)
        run("COMMIT")
        for stem, found in groupby(run("SELECT term, doc FROM stems"), itemgetter(0)):
            yield stem, array("q", [number for _, number in found])
        run("INSERT INTO lines (lines) VALUES ('delete-all')")
