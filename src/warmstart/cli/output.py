"""What commands share in showing things: JSON, tables, dates, and the settings they start from."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from warmstart.config import Settings, load_settings

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def settings() -> Settings:
    """The settings of this process; the command line is the one place that reads the environment."""
    return load_settings(os.environ)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


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
    return str(timedelta(seconds=round(value)))


def printable(text: str) -> str:
    """The text without what would move the cursor or colour the screen: logs are full of terminal codes."""
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def one_line(text: str, width: int) -> str:
    """The text on one line, cut to `width` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table that fits the terminal; in a pipe, whole cells in plain aligned columns."""
    if sys.stdout.isatty():
        _rich_table(columns, rows, right)
        return
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    for line in [list(columns), *cells]:
        parts = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        )
        click.echo("  ".join(parts).rstrip())


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(name, justify="right" if name in right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        shown.add_row(*(Text(str(cell)) for cell in row))
    Console().print(shown)
