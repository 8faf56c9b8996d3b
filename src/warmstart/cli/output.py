"""How commands print JSON, tables and progress, and ask questions; and the settings they use."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

import click

from warmstart.cli.terminal import CONTROL, counted, plural, printable, raw, terminal_width, wrapped
from warmstart.config import Settings, load_settings
from warmstart.errors import ConfigError

_MIN_WIDTH = 24  # of the last column; other columns are dropped or shrunk first

Row = TypeVar("Row")


def settings() -> Settings:
    """The settings of this process. Only the command line reads the environment and prints the library's warnings."""
    show_warnings()
    return load_settings(os.environ)


@cache
def show_warnings() -> None:
    """Print the library's warnings from now on."""
    import logging  # deferred: takes milliseconds to load

    class Warnings(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(f"Warning: {printable(record.getMessage())}", err=True)

    logging.getLogger("warmstart").addHandler(Warnings())


def read_stdin(instead: str) -> bytes:
    """All of standard input; `instead` says what to do if it is closed."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise click.ClickException(f"cannot read standard input ({error.strerror}); {instead}") from error


def print_json(data: Any) -> None:
    """Print JSON, with control characters escaped."""
    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    text = json.dumps(as_data(data), ensure_ascii=ascii_only, indent=2, allow_nan=False)
    click.echo(re.sub(CONTROL, lambda match: f"\\u{ord(match[0]):04x}", text))


def as_data(value: Any) -> Any:
    """A value for JSON: dataclasses and named tuples as objects, times in ISO 8601, `nan` as null."""
    if is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_data(part) for name, part in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [as_data(part) for part in value]
    if isinstance(value, dict):
        return {name: as_data(part) for name, part in value.items()}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def rename_keys(row: Any, **names: str) -> dict[str, Any]:
    """A value as an object for JSON, with some of its keys renamed."""
    return {names.get(key, key): value for key, value in as_data(row).items()}


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names with their values; empty values are left out."""
    width = max(map(len, facts))
    for name, value in facts.items():
        if value:
            click.echo(wrapped(value, f"{name:>{width}}  "))


class Scope(NamedTuple):
    """The project that a command looks at, as the store knows it; empty for all projects."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"project {self.name}" if self.project else "all projects"


def print_scope(count: int, noun: str, scope: Scope, filters: str = "", *, create: str = "") -> None:
    """Print on standard error how many were found, and where; `create` says how to get some."""
    where = f"{scope}, {filters}" if filters else str(scope)
    total = counted(count, noun) if count else f"No {plural(noun)}"
    hint = "; --all-projects shows all" if scope.project else ""
    if not count and where == "all projects":
        hint = f"; {create or '`warmstart sync` imports them from your agents'}"
    click.echo(printable(f"{total} ({where}{hint})."), err=True)


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    cells: Callable[[Row], Sequence[object]],
    *,
    as_json: bool,
    data: Callable[[Row], Any] = as_data,
    spare: Sequence[str] = (),
    flexible: Sequence[str] = (),
) -> None:
    """Print rows as JSON (the `data` of each) or as a table (the `cells` of each); nothing if there are none."""
    if as_json:
        print_json([data(row) for row in rows])
    elif rows:
        table(columns, [cells(row) for row in rows], spare=spare, flexible=flexible)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
    flexible: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal; in a pipe, print whole cells in aligned columns.

    On a narrow terminal the columns in `spare` are dropped one by one until the `flexible` ones (by default the last)
    have a readable width. Then the flexible ones are truncated, the last of them least. Projects are truncated at the
    start. Numbers are right-aligned, and so are the columns in `right`.
    """
    terminal = sys.stdout.isatty()
    measure: Callable[[str], int] = len
    if terminal:
        from rich.cells import cell_len as measure

    lines = [list(columns), *([printable(" ".join(str(cell).split())) for cell in row] for row in rows)]
    widths = {name: max(measure(line[i]) for line in lines) for i, name in enumerate(columns)}
    right = [name for i, name in enumerate(columns) if name in right or all(isinstance(row[i], int) for row in rows)]
    if terminal:
        widths = _fit(widths, terminal_width(), spare, flexible or columns[-1:])
    for number, line in enumerate(lines):
        parts = []
        for name, cell in zip(columns, line, strict=True):
            if name in widths:
                shown = _shorten(cell, widths[name], measure, is_path=name == "project")
                padding = " " * (widths[name] - measure(shown))
                parts.append(padding + shown if name in right else shown + padding)
        text = "  ".join(parts).rstrip()
        click.echo(click.style(text, bold=True) if terminal and not number else text)


def _shorten(cell: str, width: int, measure: Callable[[str], int], *, is_path: bool) -> str:
    if measure(cell) <= width:
        return cell
    while measure(cell) >= width:
        cell = cell[1:] if is_path else cell[:-1]
    return f"…{cell}" if is_path else f"{cell.rstrip()}…"


def _fit(widths: dict[str, int], width: int, spare: Sequence[str], flexible: Sequence[str]) -> dict[str, int]:
    """The columns that fit, with their widths."""
    widths = dict(widths)

    def excess(limit: int, shrinking: Sequence[str]) -> int:
        """How much too wide the table is if the shrinking columns are no wider than `limit`."""
        sizes = [min(size, limit) if name in shrinking else size for name, size in widths.items()]
        return sum(sizes) + 2 * (len(sizes) - 1) - width

    for name in spare:
        if excess(_MIN_WIDTH, flexible) <= 0:
            break
        del widths[name]
    least = _MIN_WIDTH // 3
    steps = ((flexible, _MIN_WIDTH), (flexible[:-1], _MIN_WIDTH // 2), (flexible, least), (tuple(widths), least))
    for shrinking, limit in steps:
        largest = max((size for name, size in widths.items() if name in shrinking), default=0)
        while largest > limit and excess(largest, shrinking) > 0:
            largest -= 1
        widths = {name: min(size, largest) if name in shrinking else size for name, size in widths.items()}
    return widths


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[..., None] | None]:
    """A callback that takes (done, total) and draws a bar; `None` if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if label == "Reading" else MofNCompleteColumn()  # logs are read by the byte
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(file=raw(sys.stderr)), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total, *_: bar.update(task, completed=done, total=total)


def confirm(question: str, *, yes: bool) -> bool:
    """Ask the user, unless `--yes` was passed. Raises `ConfigError` if there is no terminal to ask on."""
    if yes:
        return True
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to ask on; pass --yes to confirm")
    return click.confirm(question, err=True)
