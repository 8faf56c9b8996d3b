"""What commands share in showing things: JSON, tables, dates, and the settings they start from."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import click

from warmstart.config import Settings, load_settings

# CSI (colours, the cursor), OSC (titles, links), and the shorter ones. One that never ends hides one line, not all.
_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_LAST = 24  # the least width of a table's last column worth showing
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def settings() -> Settings:
    """The settings of this process; the command line is the one place that reads the environment."""
    return load_settings(os.environ)


def print_json(data: Any) -> None:
    """Print JSON: readable where the terminal has the letters, and without anything that would act on it."""
    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    text = json.dumps(as_data(data), ensure_ascii=ascii_only, indent=2, allow_nan=False)
    click.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def as_data(value: Any) -> Any:
    """Values as JSON has them: whatever has fields becomes an object, a sequence a list, and what is no number null."""
    if is_dataclass(value):
        return {field.name: as_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_data(part) for name, part in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [as_data(part) for part in value]
    if isinstance(value, dict):
        return {name: as_data(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def iso(time: datetime | None) -> str | None:
    """A time as JSON has it."""
    return None if time is None else time.isoformat().replace("+00:00", "Z")


def local(time: datetime | None) -> str:
    """A time as a person reads it, in their own zone."""
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M")


def seconds(value: float | None) -> str:
    """A duration as a person reads it."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s"
    try:
        return str(timedelta(seconds=round(value)))
    except (OverflowError, ValueError):  # no log knows a duration like that, but some claim one
        return f"{value:.3g} s"


def printable(text: str) -> str:
    """The text without what would move the cursor or colour the screen: logs are full of terminal codes."""
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def one_line(text: str, width: int) -> str:
    """The text on one line, cut to `width` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def counted(number: int, noun: str) -> str:
    """`1 log`, `2 logs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """A table that fits the terminal; in a pipe, whole cells in plain aligned columns.

    Where the terminal is narrow, the columns in `spare` are left out one after the other, and the last column is cut.
    """
    cells = [[printable(" ".join(str(cell).split())) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    if sys.stdout.isatty():
        _rich_table(columns, cells, widths, right, spare)
        return
    for line in [list(columns), *cells]:
        parts = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        )
        click.echo("  ".join(parts).rstrip())


def _rich_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[str],
    spare: Sequence[str],
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    kept = list(range(len(columns)))
    wanted = [*widths[:-1], min(widths[-1], _LAST)]
    for name in spare:
        if sum(wanted[i] + 2 for i in kept) - 2 <= console.width:
            break
        kept.remove(columns.index(name))
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for i in kept:
        # What may not wrap keeps its width, so the last column alone gives way; its cells are cut all the same.
        shown.add_column(columns[i], justify="right" if columns[i] in right else "left", no_wrap=i != kept[-1])
    for row in rows:
        shown.add_row(*(Text(row[i], no_wrap=True, overflow="ellipsis") for i in kept))
    console.print(shown)
