"""Compression of long texts in a SQLite file.

A column holds a short text as it is, and a long one as a BLOB of zlib data. SQL writes it with `compress(?)` and reads
it with `decompress(body)`; Python code that reads many rows selects the column and calls `decompress` itself, which
takes a third less time. PostgreSQL compresses by itself, so there the two SQL functions return their argument.

Every connection that reads the store must be registered. A hook is one, so this module is quick to load.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    import sqlite3

MIN_COMPRESSED = 1000  # bytes
_LEVEL = 1  # 6 makes the texts a tenth smaller and takes 1.8 times as long


def register(connection: sqlite3.Connection) -> None:
    """Add the SQL functions `compress` and `decompress` to a connection."""
    connection.create_function("compress", 1, compress, deterministic=True)
    connection.create_function("decompress", 1, decompress, deterministic=True)


def compress(text: str | bytes) -> str | bytes:
    """The text as it is stored. A migration passes bytes, so that it does not fail at a damaged text."""
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) <= MIN_COMPRESSED:
        return text
    import zlib

    return zlib.compress(raw, _LEVEL)


def decompress(body: str | bytes) -> str:
    """The text, from a column that may be compressed."""
    if not isinstance(body, bytes):
        return body
    import zlib

    try:
        return zlib.decompress(body).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        from warmstart.errors import StoreCorrupt

        raise StoreCorrupt(f"a text in the store is damaged ({error}); restore the store from a backup") from error
