"""The open dataset of markers: one row per session and per tool call, no text of any message, names hashed.

The files are written to a staging folder and moved into place when all are complete, so an interrupted export leaves
what was there before. The columns and the data card are in `tables/`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, get_args

import msgspec

from warmstart.errors import DatasetError
from warmstart.profile.pseudonyms import Pseudonyms
from warmstart.profile.rules import load_table
from warmstart.profile.summary import week
from warmstart.profile.values import Feedback, Profiled
from warmstart.redact.redactor import Redactor
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip

CARD = "README.md"
MARK = "<!-- Written by `warmstart dataset export`, which replaces it. Remove this line to keep your own text. -->"
FILES = ("sessions.jsonl", "calls.jsonl", "sessions.parquet", "calls.parquet", CARD)

_MIN_KEY = 16  # bytes; a shorter key could be guessed together with the names
_GROUP = 100_000  # cells per Parquet row group: enough to compress well, few enough for any machine

Row = dict[str, str | int | float | None]


class DatasetExport(NamedTuple):
    """What was written: the number of rows, and the files in the directory."""

    sessions: int
    calls: int
    files: tuple[str, ...]


class Column(NamedTuple):
    """A column: its name, its type (`text`, `integer` or `number`), and what a reader must know."""

    name: str
    type: str
    meaning: str


def columns(table: str) -> list[Column]:
    """The columns of the table `sessions` or `calls`."""
    return [Column(*row) for row in load_table("dataset")[table]]


def export_dataset(
    profiled: Iterable[Profiled],
    directory: Path,
    *,
    key: bytes,
    redactor: Redactor,
    made: datetime,
    projects: Iterable[str] = (),
    error_text: bool = False,
    skip: Skip = log_skip,
) -> DatasetExport:
    """Write the markers of these sessions as a dataset, replacing an earlier one. Memory does not grow with it.

    Parquet is written if pyarrow is installed. `key` makes the hashes: exports with the same key can be joined.
    `projects` are paths of projects whose names to look for besides a session's own (see `Pseudonyms`); with
    `error_text` signatures that no rule knows keep the words of the message, redacted. `skip` receives a session that
    cannot be written. Raises `DatasetError` if the directory cannot be used, or holds a file by one of these names that
    is not from a dataset.
    """
    if len(key) < _MIN_KEY:
        raise DatasetError(f"a key of {len(key)} bytes hides no name; give at least {_MIN_KEY} random bytes")
    _refuse_foreign(directory)
    names = Pseudonyms(key, redactor, projects=projects, error_text=error_text)
    tally = _Tally()
    parquet = _load_parquet()
    with _staging(directory) as drafts:
        with _Table(drafts, "sessions", parquet) as sessions, _Table(drafts, "calls", parquet) as calls:
            for each in profiled:
                try:
                    row, of_calls = session_row(each, names), list(call_rows(each, names))
                except BAD_SESSION as error:
                    skip(each.session.id, error)
                    continue
                sessions.write(row)
                for of_call in of_calls:
                    calls.write(of_call)
                tally.add(row, of_calls)
        (drafts / CARD).write_text(_card(tally, made, parquet is not None, error_text), encoding="utf-8")
        files = tuple(name for name in FILES if (drafts / name).exists())
        _publish(drafts, directory, files)
    return DatasetExport(tally.agents.total(), tally.outcomes.total(), files)


# -- rows


def session_row(profiled: Profiled, names: Pseudonyms) -> Row:
    """The row of a session."""
    session, profile = profiled
    style = profile.style
    return {
        "session": names.hash("session", session.id),
        "agent": session.agent,
        "agent_version": names.version(session.version),
        "model": names.model(session.model),
        "project": names.hash("project", session.project),
        "parent": names.hash("session", session.parent_id or ""),
        "parent_kind": session.parent_kind or "",
        "week": week(profiled),
        "task_type": profile.task_type,
        "outcome": profile.outcome.value,
        "outcome_source": profile.outcome.source,
        **asdict(profile.markers),
        **{name: _whole(getattr(profile.markers, name)) for name in ("seconds", "seconds_to_success")},
        "user_messages": style.messages,
        "user_length": style.length,
        "user_directness": style.directness,
        "user_language": style.language,
        **{f"feedback_{kind}": style.feedback.get(kind, 0) for kind in get_args(Feedback)},
        "instructions": len(style.instructions),
        "recoveries": len(profile.recoveries),
        "dead_ends": len(profile.dead_ends),
    }


def call_rows(profiled: Profiled, names: Pseudonyms) -> Iterator[Row]:
    """The rows of a session's calls, in order."""
    session, profile = profiled
    hashed = names.hash("session", session.id)
    compactions = sorted(profile.compactions)
    recovered = {recovery.failed: recovery.tries for recovery in profile.recoveries}
    # A session has few tools and models, and calls them often.
    tools = {name: names.tool(name, session.project) for name in {call.tool for call in profile.calls}}
    models = {name: names.model(name) for name in {call.model for call in profile.calls}}
    for position, call in enumerate(profile.calls):
        yield {
            "session": hashed,
            "position": position,
            "tool": tools[call.tool],
            "kind": call.kind,
            "outcome": call.outcome,
            "turn": call.turn,
            "at": _whole(call.at),
            "seconds": None if call.seconds is None else round(call.seconds, 1),
            "model": models[call.model],
            "signature": names.signature(call.signature, call.tool, session.project),
            "after_compaction": bisect_right(compactions, position),
            "recovered_after": recovered.get(position),
        }


def _whole(seconds: float | None) -> float | None:
    """Whole seconds: exact times would identify a session."""
    return None if seconds is None else float(round(seconds))


# -- files


class _Table:
    """Writes rows as JSON lines, and in groups as Parquet if there is a library for it."""

    def __init__(self, folder: Path, name: str, parquet: Any) -> None:
        given = columns(name)
        self._parquet = parquet
        self._group = _GROUP // len(given)
        self._encoder = msgspec.json.Encoder()
        self._waiting: list[Row] = []
        self._open = ExitStack()
        self._lines = self._open.enter_context((folder / f"{name}.jsonl").open("wb"))
        if parquet:
            types = {"text": parquet.string(), "integer": parquet.int64(), "number": parquet.float64()}
            self._schema = parquet.schema([(column.name, types[column.type]) for column in given])
            file = self._open.enter_context((folder / f"{name}.parquet").open("wb"))
            self._writer = self._open.enter_context(
                parquet.parquet.ParquetWriter(file, self._schema, compression="zstd")
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


def _load_parquet() -> Any:
    """The library for Parquet, or `None`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    return pyarrow


def _refuse_foreign(directory: Path) -> None:
    """Raise `DatasetError` if the path is no directory, or holds a file that is not from an export."""
    if directory.is_symlink():
        raise DatasetError(f"{str(directory)!r} is a symbolic link; give the path of the directory itself")
    if os.path.lexists(directory) and not directory.is_dir():
        raise DatasetError(f"{str(directory)!r} is a file; give a directory for the dataset")
    try:
        card = (directory / CARD).read_bytes()
        ours = MARK.encode() in card or b"A data card by `warmstart dataset export`" in card  # of an earlier version
    except OSError:
        ours = False
    for name in FILES:
        path = directory / name
        if path.is_dir() or (os.path.lexists(path) and not ours):
            raise DatasetError(f"{str(path)!r} is not from a Warmstart dataset; give another directory")


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A folder for drafts inside the directory, which is created if missing; on failure both are removed again."""
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
    """Move the drafts into place and earlier files out of the way; if that fails, move everything back."""
    former = drafts / "former"
    former.mkdir()
    moves = [(directory / name, former / name) for name in FILES if os.path.lexists(directory / name)]
    moves += [(drafts / name, directory / name) for name in files]
    try:
        for name in files:
            (drafts / name).chmod(0o600)
        for source, target in moves:
            source.replace(target)
    except BaseException:
        for source, target in reversed(moves):
            if os.path.lexists(target) and not os.path.lexists(source):
                target.replace(source)
        raise


# -- the data card


@dataclass(slots=True)
class _Tally:
    """What the card says about the rows, counted while they are written."""

    agents: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    weeks: set[str] = field(default_factory=set)

    def add(self, session: Row, calls: Sequence[Row]) -> None:
        self.agents[str(session["agent"])] += 1
        self.weeks |= {str(session["week"])} - {""}
        self.outcomes.update(str(call["outcome"]) for call in calls)

    def __str__(self) -> str:
        text = f"{self.agents.total():,} sessions with {self.outcomes.total():,} tool calls"
        if self.agents:
            text += f", of {', '.join(f'{agent} ({count:,})' for agent, count in sorted(self.agents.items()))}"
        if self.weeks:
            text += f", started from week {min(self.weeks)} to {max(self.weeks)}"
        if self.outcomes:
            text += f". Calls: {', '.join(f'{count:,} {outcome}' for outcome, count in sorted(self.outcomes.items()))}"
        return f"{text}."


def _card(tally: _Tally, made: datetime, parquet: bool, error_text: bool) -> str:
    """The card as Markdown. Its head lets Hugging Face show both tables; the publisher adds the licence."""
    import jinja2  # takes a while to load

    environment = jinja2.Environment(  # noqa: S701 - Markdown
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "tables"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("dataset_card.md.j2").render(
        mark=MARK,
        counts=str(tally),
        made=made.date().isoformat(),
        tables=[(name, columns(name)) for name in ("sessions", "calls")],
        parquet=parquet,
        error_text=error_text,
    )
