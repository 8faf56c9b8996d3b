"""The open dataset of markers: one row a session, one row a tool call, no text of any message, names hashed.

The files are written aside and moved to their places when all of them are whole, so that an interrupted export leaves
what was there before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from warmstart.errors import DatasetError
from warmstart.profile.dataset.card import MARK, Tally, card
from warmstart.profile.dataset.pseudonyms import Pseudonyms
from warmstart.profile.dataset.rows import CALL_COLUMNS, SESSION_COLUMNS, Column, Row, Rows
from warmstart.profile.values import Profiled
from warmstart.redact.redactor import Redactor

CARD = "README.md"
FILES = ("sessions.jsonl", "calls.jsonl", "sessions.parquet", "calls.parquet", CARD)

_LEAST_KEY = 16  # bytes; a shorter key could be guessed together with the names
_GROUP = 100_000  # cells that wait for Parquet: enough to compress well, few enough for any machine


class DatasetExport(NamedTuple):
    """What was written: how many rows, and into which files of the directory."""

    sessions: int
    calls: int
    files: tuple[str, ...]


def export_dataset(
    profiled: Iterable[Profiled],
    directory: Path,
    *,
    key: bytes,
    redactor: Redactor,
    made: datetime,
    projects: Iterable[str] = (),
    error_text: bool = False,
) -> DatasetExport:
    """Write the markers of these sessions as a dataset, replacing one that is there. Memory does not grow with it.

    Parquet is written where pyarrow is installed. `key` makes the hashes: exports with the same key can be joined.
    `projects` are the paths of projects whose names to look for besides a session's own (see `Pseudonyms`); with
    `error_text` the signatures of errors that no rule knows keep the words of the message, redacted. Raises
    `DatasetError` where the directory cannot be used, or holds a file by one of these names that is not from a dataset.
    """
    if len(key) < _LEAST_KEY:
        raise DatasetError(f"a key of {len(key)} bytes hides no name; give at least {_LEAST_KEY} random ones")
    _refuse_foreign(directory)
    rows = Rows(Pseudonyms(key, redactor, projects=projects, error_text=error_text))
    tally = Tally()
    parquet = _parquet()
    with _staging(directory) as drafts:
        with (
            _Table(drafts, "sessions", SESSION_COLUMNS, parquet) as sessions,
            _Table(drafts, "calls", CALL_COLUMNS, parquet) as calls,
        ):
            for each in profiled:
                row = rows.session(each)
                sessions.write(row)
                tally.add_session(row)
                for row in rows.calls(each):
                    calls.write(row)
                    tally.add_call(row)
        text = card(tally, made=made, parquet=parquet is not None, error_text=error_text)
        (drafts / CARD).write_text(text, encoding="utf-8")
        files = tuple(name for name in FILES if (drafts / name).exists())
        _publish(drafts, directory, files)
    return DatasetExport(tally.sessions, tally.calls, files)


class _Table:
    """Writes rows as JSON lines, and in groups as Parquet if there is a library for it."""

    def __init__(self, folder: Path, name: str, columns: Sequence[Column], parquet: Any) -> None:
        self._parquet = parquet
        self._group = _GROUP // len(columns)
        self._encoder = msgspec.json.Encoder()
        self._waiting: list[Row] = []
        self._open = ExitStack()
        self._lines = self._open.enter_context((folder / f"{name}.jsonl").open("wb"))
        if parquet:
            types = {"text": parquet.string(), "integer": parquet.int64(), "number": parquet.float64()}
            self._schema = parquet.schema([(column.name, types[column.type]) for column in columns])
            path = str(folder / f"{name}.parquet")
            self._writer = self._open.enter_context(
                parquet.parquet.ParquetWriter(path, self._schema, compression="zstd")
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            if kind is None:
                self._write_group()

    def write(self, row: Row) -> None:
        self._lines.write(self._encoder.encode(row) + b"\n")
        if self._parquet:
            self._waiting.append(row)
            if len(self._waiting) >= self._group:
                self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(self._parquet.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting.clear()


def _parquet() -> Any:
    """The library for Parquet, or `None`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    return pyarrow


def _refuse_foreign(directory: Path) -> None:
    """Raise `DatasetError` if the directory is none, or holds a file that an export would replace and did not write."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise DatasetError(f"{str(directory)!r} is a file; give a directory for the dataset")
    try:
        ours = MARK.encode() in (directory / CARD).read_bytes()
    except OSError:
        ours = False
    for name in FILES:
        path = directory / name
        if path.is_dir() or (os.path.lexists(path) and not ours):
            raise DatasetError(f"{str(path)!r} is not from a dataset of Warmstart's; give another directory")


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A folder for drafts inside the directory, which is made if need be; afterwards it, or both, are gone again."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drafts = Path(tempfile.mkdtemp(prefix=".dataset-", dir=directory))
    except OSError as error:
        _remove_empty(missing)
        raise DatasetError(f"cannot write to {str(directory)!r} ({error.strerror}); give another directory") from error
    try:
        yield drafts
    except BaseException:
        shutil.rmtree(drafts, ignore_errors=True)
        _remove_empty(missing)
        raise
    shutil.rmtree(drafts, ignore_errors=True)


def _remove_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _publish(drafts: Path, directory: Path, files: Sequence[str]) -> None:
    """Move the drafts to their places, and what stood there out of the way; if that fails, everything back."""
    former = drafts / "former"
    former.mkdir()
    moves = [(directory / name, former / name) for name in FILES if os.path.lexists(directory / name)]
    moves += [(drafts / name, directory / name) for name in files]
    try:
        for source, target in moves:
            source.replace(target)
    except BaseException:
        for source, target in reversed(moves):
            if os.path.lexists(target) and not os.path.lexists(source):
                target.replace(source)
        raise
