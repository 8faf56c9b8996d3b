"""Compression of long texts in a SQLite file.

SQL writes such a column with `compress(?)` and reads it with `decompress(body)`: it holds a short text as it is, and a
long one as a BLOB of zlib data. PostgreSQL compresses by itself, so there the two functions return their argument.

Every connection that reads the store must be registered. A hook is one, so `zlib` is loaded on first use.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    import sqlite3

MIN_COMPRESSED = 500  # bytes
_LEVEL = 1  # 6 makes the texts a tenth smaller and takes 1.8 times as long


def register(connection: "sqlite3.Connection") -> None:
    """Add the SQL functions `compress` and `decompress` to a connection."""
    connection.create_function("compress", 1, _compress, deterministic=True)
    connection.create_function("decompress", 1, _decompress, deterministic=True)


def _compress(text: str | bytes) -> str | bytes:
    # A migration passes bytes, so that it does not fail at a damaged text.
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) <= MIN_COMPRESSED:
        return text
    import zlib

    return zlib.compress(raw, _LEVEL)


def _decompress(body: str | bytes | None) -> str | None:
    if not isinstance(body, bytes):
        return body
    import zlib

    return zlib.decompress(body).decode()
