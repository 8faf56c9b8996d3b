"""An evaluation of memory backends as text."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence

import click

from warmstart.cli.output import table
from warmstart.memory.evaluation.table import Row, rows
from warmstart.memory.evaluation.values import EvaluationReport


def print_report(report: EvaluationReport) -> None:
    """The backends side by side, what stands out, and which one to take."""
    found = rows(report.evaluations)
    if _width(found, report.backends_evaluated) <= _terminal():
        _print(found, report.backends_evaluated, range(len(report.evaluations)))
    else:
        for place in range(len(report.evaluations)):
            _print(found, report.backends_evaluated, [place])
            click.echo()
    click.echo()
    for each in report.evaluations:
        for note in each.notes:
            click.echo(f"{each.backend_name}: {note}.")
    for warning in report.warnings:
        click.echo(f"Warning: {warning}")
    click.echo(report.recommendation)


def _print(found: Sequence[Row], names: Sequence[str], places: Sequence[int]) -> None:
    lines = []
    last = ""
    for row in found:
        lines.append((row.group if row.group != last else "", row.name, *(row.cells[place] for place in places)))
        last = row.group
    table(("", "measure", *(names[place] for place in places)), lines)


def _width(found: Sequence[Row], names: Sequence[str]) -> int:
    columns = [[row.group for row in found], [row.name for row in found]]
    columns += [[name, *(row.cells[place] for row in found)] for place, name in enumerate(names)]
    return sum(max(map(len, column), default=0) + 2 for column in columns)


def _terminal() -> float:
    """How wide the table may be: in a pipe as wide as it is."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
