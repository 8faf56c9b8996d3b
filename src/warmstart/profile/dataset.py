"""The open dataset: the markers of each session and the outcome of each tool call, without text, and templates.

All names are hashed.

The files are written to a temporary folder and moved into place when all are complete, so that an interrupted export
leaves the earlier files unchanged. The columns and the data card are in `tables/`.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from warmstart.errors import DatasetError
from warmstart.profile.corpus import week
from warmstart.profile.pseudonyms import Pseudonyms, public_version
from warmstart.profile.rules import load_table
from warmstart.profile.values import Feedback, Profiled
from warmstart.sessions.sql_store import BAD_SESSION, log_skip

CARD = "README.md"
MARK = "<!-- Written by `warmstart dataset export`, which replaces it. Remove this line to keep your own text. -->"
TEMPLATES = "templates.jsonl"
FILES = ("sessions.jsonl", "calls.jsonl", "sessions.parquet", "calls.parquet", TEMPLATES, CARD)

_MIN_KEY = 16  # bytes; a shorter key could be brute-forced together with the names
_GROUP = 100_000  # cells per Parquet row group: enough to compress well, few enough for any machine

Row = dict[str, str | int | float | None]


class DatasetExport(NamedTuple):
    """What was written: the number of rows, and the files in the directory."""

    sessions: int
    calls: int
    templates: int
    files: tuple[str, ...]


def export_dataset(
    profiled: Iterable[Profiled],
    directory: Path,
    *,
    key: bytes,
    made: datetime,
    templates: Iterable[Mapping[str, Any]] = (),
) -> DatasetExport:
    """Write the markers of these sessions as a dataset, replacing an earlier one. Memory does not grow with its size.

    `templates` are rows whose names are hashed already; without any there is no file of them. Parquet is written if
    pyarrow is installed. `key` keys the hashes: exports with the same key can be joined. A session that cannot be
    written is skipped and logged. Raises `DatasetError` if the directory cannot be used, or has a file with one of the
    names in `FILES` that is not from a dataset.
    """
    if len(key) < _MIN_KEY:
        raise DatasetError(
            f"a key of {len(key)} bytes is too short to hide names; use at least {_MIN_KEY} random bytes"
        )
    _refuse_foreign(directory)
    names = Pseudonyms(key)
    agents, outcomes, weeks = Counter[str](), Counter[str](), set[str]()
    parquet = _load_parquet()
    with _staging(directory) as drafts:
        with _table(drafts, "sessions", parquet) as write_session, _table(drafts, "calls", parquet) as write_call:
            for each in profiled:
                try:
                    session, calls = session_row(each, names), list(call_rows(each, names))
                except BAD_SESSION as error:
                    log_skip(each.session.id, error)
                    continue
                write_session(session)
                for call in calls:
                    write_call(call)
                agents[each.session.agent] += 1
                outcomes.update(call.outcome for call in each.profile.calls)
                weeks.add(week(each))
        rows = [msgspec.json.encode(row) + b"\n" for row in templates]
        if rows:
            (drafts / TEMPLATES).write_bytes(b"".join(rows))
        facts = {"agents": agents, "outcomes": outcomes, "weeks": sorted(weeks - {""}), "templates": len(rows)}
        (drafts / CARD).write_text(_card(made=made, parquet=bool(parquet), **facts), encoding="utf-8")
        files = tuple(name for name in FILES if (drafts / name).exists())
        _publish(drafts, directory, files)
    return DatasetExport(agents.total(), outcomes.total(), len(rows), files)


# -- rows


def session_row(profiled: Profiled, names: Pseudonyms) -> Row:
    """The row of a session."""
    session, profile = profiled
    style = profile.style
    return {
        "session": names.hash("session", session.id),
        "agent": session.agent,
        "agent_version": public_version(session.version),
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
    tools = {name: names.tool(name) for name in {call.tool for call in profile.calls}}
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
            "signature": names.signature(call.signature),
            "after_compaction": bisect_right(compactions, position),
            "recovered_after": recovered.get(position),
        }


def _whole(seconds: float | None) -> float | None:
    """Whole seconds: exact times would identify a session."""
    return None if seconds is None else float(round(seconds))


# -- files


@contextmanager
def _table(folder: Path, name: str, parquet: Any) -> Iterator[Callable[[Row], None]]:
    """A function that writes rows as JSON lines, and in row groups as Parquet if pyarrow is installed."""
    columns = load_table("dataset")[name]
    encode = msgspec.json.Encoder().encode
    rows: list[Row] = []
    with ExitStack() as files:
        lines = files.enter_context((folder / f"{name}.jsonl").open("wb"))
        if parquet:
            types = {"text": parquet.string(), "integer": parquet.int64(), "number": parquet.float64()}
            schema = parquet.schema([(column, types[kind]) for column, kind, _ in columns])
            file = files.enter_context((folder / f"{name}.parquet").open("wb"))
            writer = files.enter_context(parquet.parquet.ParquetWriter(file, schema, compression="zstd"))

        def write_group() -> None:
            writer.write_table(parquet.Table.from_pylist(rows, schema=schema))
            rows.clear()

        def write(row: Row) -> None:
            lines.write(encode(row) + b"\n")
            if parquet:
                rows.append(row)
                if len(rows) >= _GROUP // len(columns):
                    write_group()

        yield write
        if rows:
            write_group()


def _load_parquet() -> Any:
    """pyarrow, or `None` if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    return pyarrow


def _refuse_foreign(directory: Path) -> None:
    """Raise `DatasetError` if the path is not a directory, or has a file that is not from an export."""
    if os.path.lexists(directory) and (directory.is_symlink() or not directory.is_dir()):
        raise DatasetError(f"{str(directory)!r} is a file or a symbolic link; give the path of a directory")
    try:
        card = (directory / CARD).read_bytes()
        ours = MARK.encode() in card or b"A data card by `warmstart dataset export`" in card  # by an earlier version
    except OSError:
        ours = False
    for name in FILES:
        path = directory / name
        if path.is_dir() or (os.path.lexists(path) and not ours):
            raise DatasetError(f"{str(path)!r} is not from a Warmstart dataset; give another directory")


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A temporary folder inside the directory, or inside its nearest existing ancestor."""
    nearest = next(folder for folder in (directory, *directory.absolute().parents) if os.path.lexists(folder))
    try:
        drafts = tempfile.TemporaryDirectory(prefix=".dataset-", dir=nearest)
    except OSError as error:
        raise DatasetError(f"cannot write to {str(directory)!r} ({error.strerror}); give another directory") from error
    with drafts as folder:
        yield Path(folder)


def _publish(drafts: Path, directory: Path, files: Iterable[str]) -> None:
    """Move the drafts into place, the card last, and remove earlier files that were not replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if name in files:
            (drafts / name).chmod(0o600)
            (drafts / name).replace(directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


def _card(**facts: object) -> str:
    """The data card as Markdown. Its front matter lets Hugging Face show both tables; the publisher adds a licence."""
    import jinja2  # takes a while to load

    text = (Path(__file__).parent / "tables" / "dataset_card.md.j2").read_text(encoding="utf-8")
    card = jinja2.Template(text, undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return str(card.render(mark=MARK, tables=load_table("dataset"), **facts))
