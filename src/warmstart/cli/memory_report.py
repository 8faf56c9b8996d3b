"""An evaluation of memory backends as text."""

from __future__ import annotations

import click

from warmstart.cli.output import table
from warmstart.memory.evaluation.table import rows
from warmstart.memory.evaluation.values import EvaluationReport


def print_report(report: EvaluationReport) -> None:
    """The backends side by side, what stands out, and which one to take."""
    lines = []
    last = ""
    for row in rows(report.evaluations):
        lines.append((row.group if row.group != last else "", row.name, *row.cells))
        last = row.group
    table(("", "measure", *report.backends_evaluated), lines)
    click.echo()
    for each in report.evaluations:
        for note in each.notes:
            click.echo(f"{each.backend_name}: {note}.")
    for warning in report.warnings:
        click.echo(f"Warning: {warning}")
    click.echo(report.recommendation)
