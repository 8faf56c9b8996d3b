"""`warmstart experiment`: does it help?"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from warmstart.app import Warmstart
from warmstart.cli.options import FILE, SHARE, Count, Finite, Group, Tags, json_option
from warmstart.cli.output import print_json, settings, table
from warmstart.cli.terminal import counted, local, seconds
from warmstart.errors import ExperimentError
from warmstart.experiments.analysis import Analysis, Question, in_words
from warmstart.experiments.design import example, parse_design
from warmstart.experiments.metrics import METRICS
from warmstart.experiments.results import Results, Value, evaluate, evaluate_rows, policy_values
from warmstart.experiments.statistics import DEFAULT_ICC, plan
from warmstart.experiments.store import EXPERTISE, HOLDOUT
from warmstart.experiments.units import read_csv
from warmstart.storage.files import write_private


@click.group(cls=Group, epilog="Example: warmstart experiment analyze results.csv --arm arm --outcome success")
def command() -> None:
    """Measure whether it helps: compare sessions that start differently.

    A lab experiment runs the same tasks with different starts; a field experiment assigns your own sessions. Both end
    in a verdict: helps, harms, equivalent, or inconclusive and how many more sessions would settle it.
    """


def _source_options(function: Any) -> Any:
    """The arguments that name an experiment or the columns of a file, and how to compare."""
    options = (
        click.argument("source", metavar="NAME|FILE.csv"),
        click.option("--unit", default="", metavar="COL", help="Column with the session, or another independent unit."),
        click.option("--arm", default="arm", show_default=True, metavar="COL", help="Column with the arm."),
        click.option("--outcome", metavar="COL", help="Column with the outcome. [default: the metric, or outcome]"),
        click.option("--paired-by", default="", metavar="COL", help="Column with what both arms share, like the task."),
        click.option(
            "--covariate",
            default="",
            metavar="COL",
            help=f"Adjust for this column, or for {EXPERTISE!r} in a field experiment.",
        ),
        click.option(
            "--baseline-arm", default="", metavar="ARM", help="Compare with this arm. [default: first by name]"
        ),
        click.option("--arms", type=Tags(), default=(), help="Compare only these arms."),
        click.option("--lower-is-better", is_flag=True, help="Lower outcomes are better."),
        click.option("--smallest-effect", type=Finite(0), default=0.0, help="Smallest difference that matters."),
        click.option("--sequential", is_flag=True, help="Data is still coming in: use a confidence sequence."),
        click.option(
            "--metric",
            metavar="NAME",
            type=click.Choice(list(METRICS)),
            help=f"Use another metric, in a file the column of its name: {', '.join(METRICS)}.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _evaluate(
    source: str,
    *,
    baseline_arm: str,
    arms: tuple[str, ...],
    lower_is_better: bool,
    smallest_effect: float,
    sequential: bool,
    metric: str | None,
    outcome: str | None,
    covariate: str,
    **columns: str,
) -> tuple[Results, list[Value]]:
    """The results of a file or an experiment; for the holdout also the values of the policies."""
    if source.lower().endswith(".csv") or Path(source).is_file():
        column = outcome or metric or "outcome"
        if metric and not outcome:
            lower_is_better = METRICS[metric].lower_is_better
        rows = read_csv(Path(source), outcome=column, covariate=covariate, **columns)
        question = Question(lower_is_better, smallest_effect, sequential, covariate=covariate)
        name = Path(source).stem
        return evaluate_rows(rows, question, name=name, outcome=column, baseline=baseline_arm, only=arms), []
    with Warmstart(settings()) as ws:
        _settle(ws)
        results = evaluate(
            ws.experiments,
            source,
            metric=metric or "",
            smallest_effect=smallest_effect or None,
            baseline=baseline_arm,
            only=arms,
            covariate=covariate,
        )
        return results, policy_values(ws.experiments.uses()) if source == HOLDOUT else []


@command.command("analyze", epilog="Example: warmstart experiment analyze results.csv --arm arm --outcome success")
@_source_options
@json_option
def analyze_command(source: str, as_json: bool, **options: Any) -> None:
    """Compare the arms of an experiment, or of a CSV file with one row per observation.

    The difference is each arm minus the baseline. Without --paired-by, rows with the same --unit count as one
    independent unit; with it, the arms are compared within each pair. NAME is an experiment, or `holdout` for the
    sessions that started without a template even though one fit.
    """
    _show(*_evaluate(source, **options), as_json=as_json)


def _show(results: Results, values: Sequence[Value], *, as_json: bool) -> None:
    """Print an analysis."""
    if not as_json:
        print_results(results)
        for each in values:
            interval = f"{each.low:.0%} to {each.high:.0%}"
            click.echo(f"{each.policy}: {each.value:.0%} ({interval}), effective sample size {each.effective:.0f}")
    elif results.trials:
        print_json(results.as_json() | ({"policies": values} if values else {}))
    else:
        comparisons = {"comparisons": results.primary} if len(results.primary) > 1 else {}
        print_json(asdict(results.primary[0]) | comparisons)


def print_analyses(analyses: Sequence[Analysis], *, unit: str) -> None:
    """Print the verdicts in words, then the numbers."""
    for each in analyses:
        click.echo(f"{each.verdict.upper()}. {in_words(each, unit=unit)}")
        for note in each.notes:
            click.echo(f"  {note}")
    click.echo()
    base, numbers = analyses[0].baseline, [each.numbers() for each in analyses]
    names = tuple(numbers[0])
    first = (f"{base.name} (baseline)", f"{base.mean:.4g}", *("" for _ in names[2:]))
    table(names, [first, *(tuple(each.values()) for each in numbers)], right=names[1:])
    click.echo(f"\nMethod: {'; '.join(dict.fromkeys(each.method for each in analyses))}.")
    for each in analyses:
        if each.p_permutation is not None and each.bootstrap:
            interval = "{:+.4g} to {:+.4g}".format(*each.bootstrap)
            click.echo(f"{each.treatment.name}: permutation p {each.p_permutation:.4g}, bootstrap interval {interval}.")
    if len(analyses) > 1:
        click.echo("Verdicts use p-values adjusted for all comparisons (Holm).")
    if any(each.naive_p is not None and each.n_units < each.baseline.rows + each.treatment.rows for each in analyses):
        click.echo("The naive p treats rows as independent, which they are not; it is shown only for comparison.")


@command.command(epilog="Example: warmstart experiment power --baseline 0.09 --effect 0.033 --icc 0.05 --calls 30")
@click.option("--baseline", type=SHARE, default=0.09, show_default=True, help="Rate without the treatment.")
@click.option("--effect", type=SHARE, default=0.033, show_default=True, help="Improvement to detect.")
@click.option("--icc", type=SHARE, default=DEFAULT_ICC, show_default=True, help="Correlation within a session.")
@click.option("--calls", type=Count(1), default=30, show_default=True, help="Calls per session; 1 for success rates.")
@click.option("--sessions", type=Count(2), help="Also show what this many sessions per arm can detect.")
@click.option("--higher-is-better", is_flag=True, help="The rate should rise (like a success rate), not fall.")
@json_option
def power(
    baseline: float, effect: float, icc: float, calls: int, sessions: int | None, higher_is_better: bool, as_json: bool
) -> None:
    """Show how many sessions it takes to detect an effect on a rate."""
    rises = higher_is_better or calls == 1
    planned = plan(baseline, effect, icc=icc, calls=calls, sessions=sessions, higher_is_better=rises)
    print_json(planned) if as_json else click.echo(planned.in_words())


def print_results(results: Results) -> None:
    """Print the verdict of an experiment, the failed checks, and the other metrics."""
    if results.trials:
        sessions = counted(len(results.trials), "session")
        click.echo(f"{results.design.name}: {results.words}, {sessions} ({results.state}).")
    print_analyses(results.primary, unit=results.unit)
    for check in results.checks:
        click.echo(f"Check: {check}")
    for name, analyses in results.secondary.items():
        for one in analyses:
            if one.verdict in ("helps", "harms"):
                click.echo(f"Also: {METRICS[name].words}: {one.treatment.name} {one.verdict} ({one.difference:+.3g})")


def _settle(ws: Warmstart) -> None:
    """Bring the outcomes of live sessions up to date."""
    from warmstart.templates.audit import settle

    settle(ws.templates.store, tools=ws.settings.profile_tools)
    ws.experiments.settle(tools=ws.settings.profile_tools)


@command.command(epilog="Example: warmstart experiment new first-try")
@click.argument("name")
@click.option("--out", type=FILE, help="The file to write. [default: NAME.toml]")
def new(name: str, out: Path | None) -> None:
    """Write an example experiment file."""
    path, text = out or Path(f"{name}.toml"), example(name)
    parse_design(text)
    if path.exists():
        raise ExperimentError(f"{path} already exists; choose another name or use --out")
    path.write_text(text, encoding="utf-8")
    click.echo(f"{path} written. Edit it, then: warmstart experiment run {path}", err=True)


@command.command(epilog="Example: warmstart experiment run warm-vs-cold.toml --limit 20")
@click.argument("file", type=FILE)
@click.option("--resume", is_flag=True, help="Continue a run that was interrupted.")
@click.option("--limit", type=Count(0), default=0, help="Maximum number of sessions to run now (0 = no limit).")
def run(file: Path, resume: bool, limit: int) -> None:
    """Run a lab experiment, or start a field experiment.

    First says which effects an experiment of this size can and cannot detect. Every session is stored when it ends, so
    that an interrupted run can be resumed. A field experiment assigns the sessions that your agents start from now on.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}") from error
    design = parse_design(text, where=str(file))
    with Warmstart(settings()) as ws:
        known = [trial for trial in ws.experiments.trials(design.name) if trial.measures]
        if known and not resume and design.kind == "lab":
            sessions = counted(len(known), "session")
            raise ExperimentError(f"experiment {design.name!r} already has {sessions}; pass --resume to continue")
        if design.kind == "field":
            click.echo(design.plan(design.sessions).in_words(), err=True)
            ws.experiments.save(text)
            click.echo(f"From now on, sessions are assigned to {', '.join(design.arms)}.", err=True)
            return
        from warmstart.experiments.lab import load_task, run_lab

        tasks = len(load_task(design.tasks, file.parent).dataset)
        click.echo(design.plan(tasks * design.epochs).in_words(), err=True)
        ws.experiments.save(text)
        try:
            notes = run_lab(
                ws,
                ws.experiments,
                design,
                folder=file.parent,
                logs=ws.settings.home / "experiments" / design.name,
                isolate=isolated_home,
                limit=limit,
                progress=_show_progress(),
            )
        except KeyboardInterrupt:
            click.echo("Interrupted. Finished sessions are stored; --resume continues from there.", err=True)
            raise
        for note in notes:
            click.echo(note, err=True)
    click.echo(f"Done. Next: warmstart experiment analyze {design.name}", err=True)


def _show_progress() -> Any:
    """Show after each session how many are done, and the estimated time left."""
    start = time.monotonic()

    def show(done: int, total: int) -> None:
        left = (time.monotonic() - start) / done * (total - done)
        end = "\r" if sys.stderr.isatty() and done < total else "\n"
        print(f"{done} of {total} sessions, {seconds(left)} left   ", end=end, file=sys.stderr, flush=True)  # noqa: T201

    return show


@contextmanager
def isolated_home(home: Path) -> Iterator[None]:
    """The environment of one session: a separate home, with Warmstart disabled."""
    changes = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "WARMSTART_HOME": str(home / ".warmstart"),
        "WARMSTART_DISABLED": "1",
    }
    before = {name: os.environ[name] for name in changes if name in os.environ}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            os.environ.pop(name, None)
        os.environ.update(before)


@command.command("list", epilog="Example: warmstart experiment list")
@json_option
def list_command(as_json: bool) -> None:
    """List the experiments, newest first."""
    with Warmstart(settings()) as ws:
        rows = [(*row, len(ws.experiments.trials(row[0]))) for row in ws.experiments.all()]
    names = ("name", "kind", "state", "began", "sessions")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        table(names, [(*row[:3], local(row[3]), row[4]) for row in rows])
    else:
        click.echo("No experiments yet; `warmstart experiment new NAME` writes an example file.", err=True)


@command.command(epilog="Example: warmstart experiment status warm-vs-cold")
@click.argument("name")
@json_option
def status(name: str, as_json: bool) -> None:
    """Show the progress of an experiment, arm by arm."""
    with Warmstart(settings()) as ws:
        _settle(ws)
        design, state = ws.experiments.get(name)
        trials = ws.experiments.trials(name)
    counts = Counter(trial.arm for trial in trials)
    known = Counter(trial.arm for trial in trials if design.metric in trial.measures)
    if as_json:
        arms = {arm: {"sessions": counts[arm], "with_outcome": known[arm]} for arm in design.arms}
        print_json({"name": name, "kind": design.kind, "state": state, "metric": design.metric, "arms": arms})
        return
    click.echo(f"{name}: {state}, {METRICS[design.metric].words}.")
    table(("arm", "sessions", "with outcome"), [(arm, counts[arm], known[arm]) for arm in design.arms])
    if (least := min(counts[arm] for arm in design.arms)) > 1 and design.power:
        click.echo(design.plan(least).in_words())


@command.command(epilog="Example: warmstart experiment report results.csv --outcome success --html report.html")
@_source_options
@click.option("--html", type=FILE, help="Write a page with charts to this file instead.")
@json_option
def report(source: str, html: Path | None, as_json: bool, **options: Any) -> None:
    """Show the verdict, as `analyze` does, or write it as an HTML page.

    The page has charts and the numbers behind them. A CSV file needs the same columns as for `analyze`.
    """
    results, values = _evaluate(source, **options)
    if html is None:
        _show(results, values, as_json=as_json)
        return
    from warmstart.experiments.page import page
    from warmstart.templates.rendering import render

    template = ""
    if results.design.template:
        with Warmstart(settings()) as ws:
            shown = render(ws.templates.get(results.design.template), renderer="system", redactor=ws.redactor)
        template = "\n".join(str(message["content"]) for message in shown.messages)
    write_private(html, [page(results, made=datetime.now(UTC), template=template)])
    what = counted(len(results.rows), "session" if results.trials else "row")
    click.echo(f"Report on {what} written to {html}.", err=True)
