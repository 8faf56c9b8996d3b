"""`warmstart sync`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from warmstart.cli.output import counted, print_json, printable, seconds, settings, table
from warmstart.cli.progress import progress_bar
from warmstart.config import Settings
from warmstart.errors import LogError, StoreBusy, StoreUnreachable, WarmstartError
from warmstart.recall.index import update_index
from warmstart.recall.vectors.stores import has_vectors
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import Redactor
from warmstart.sessions.readers.base import Malformed
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.stores import open_store
from warmstart.sessions.sync import Progress, SyncReport, default_sources, path_sources, sync

_LONGEST_WAIT = 30.0  # seconds between two tries to reach a server that went away
_AGENTS = click.Choice(list(readers()))


@click.command(
    epilog="Examples: warmstart sync · warmstart sync --agent codex · "
    "warmstart sync --path runs/ --format openai · warmstart sync --watch"
)
@click.option("--agent", "agents", multiple=True, type=_AGENTS, help="Only this agent; may be given several times.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A log or a folder of logs instead of the agents' default places; may be given several times.",
)
@click.option("--format", "format", type=_AGENTS, help="What the logs at --path are, when their content does not tell.")
@click.option("--no-redact", is_flag=True, help="Store secrets as they are in the logs. Think twice.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--watch", is_flag=True, help="Go on, and import what the agents write, until interrupted.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between looks, with --watch.",
)
def command(
    agents: tuple[str, ...],
    paths: tuple[Path, ...],
    format: str | None,
    no_redact: bool,
    as_json: bool,
    watch: bool,
    interval: float,
) -> None:
    """Import what is new in the agents' own histories.

    Looks where Claude Code, Codex, Gemini CLI, OpenCode, Copilot CLI and Hermes keep their sessions, and reads only
    what changed since last time. Secrets are replaced before anything is stored. The agents' files are never written
    to.
    """
    if format and not paths:
        raise click.UsageError("--format needs --path: it says what the logs at that path are")
    paths = tuple(path.absolute() for path in paths)
    current = settings()
    if no_redact:
        click.echo(
            "Warning: secrets in the logs are stored as they are; `warmstart redact --store` removes them.", err=True
        )
    redactor = None if no_redact else configured_redactor(current)
    look = partial(_run, current=current, agents=agents, paths=paths, format=format, redactor=redactor)
    with open_store(current) as store:
        report = look(store)
        refusal = "" if watch or not paths else _refusal(store, report, agents, paths, format)
        if as_json or not refusal:
            _show(report, as_json)
        if refusal:
            raise LogError(refusal)
    if watch:
        _watch(current, partial(look, quiet=True), interval, set(report.problems), as_json)


def _watch(
    current: Settings,
    look: Callable[[SQLSessionStore], SyncReport],
    interval: float,
    told: set[Malformed],
    as_json: bool,
) -> NoReturn:
    """Look again and again. A server that goes away is waited for."""
    wait, waiting = interval, False
    while True:
        try:
            with open_store(current) as store:
                while True:
                    time.sleep(interval)
                    report = look(store)
                    wait, waiting = interval, False
                    report.problems = [problem for problem in report.problems if problem not in told]
                    told.update(report.problems)
                    if report.changed or report.problems:
                        _show(report, as_json)
        except (StoreBusy, StoreUnreachable) as error:
            if not current.store_url:
                raise
            if not waiting:
                click.echo(printable(f"Waiting for the server: {error}"), err=True)
            wait, waiting = min(2 * wait, max(interval, _LONGEST_WAIT)), True
            time.sleep(wait)


def _run(
    store: SQLSessionStore,
    current: Settings,
    agents: tuple[str, ...],
    paths: tuple[Path, ...],
    format: str | None,
    redactor: Redactor | None,
    *,
    quiet: bool = False,
) -> SyncReport:
    with _progress_bar(show=not quiet and sys.stderr.isatty()) as progress:
        sources = path_sources(paths, format) if paths else default_sources(os.environ, Path.home(), agents)
        report = sync(store, sources, agents=agents, redact=redactor is not None, redactor=redactor, progress=progress)
    if report.changed or not quiet:
        with progress_bar("Indexing") as progress:
            update_index(store, progress)
        _embed(store, current)
    return report


def _embed(store: SQLSessionStore, current: Settings) -> None:
    """Bring vectors up to date where there are some, and no text has to leave the machine for it."""
    if not has_vectors(store):
        return
    from warmstart.recall.vectors.meaning import open_meaning

    try:
        meaning = open_meaning(store, current)
        if meaning is not None:
            with meaning, progress_bar("Embedding") as progress:
                if meaning.embedder.local:
                    meaning.update(progress)
    except StoreUnreachable:
        raise
    except WarmstartError as error:
        click.echo(f"The vectors were left as they are: {error}", err=True)


def _refusal(
    store: SQLSessionStore, report: SyncReport, agents: tuple[str, ...], paths: tuple[Path, ...], format: str | None
) -> str:
    """What to say when the paths hold nothing that was asked for; empty when they do."""
    where = ", ".join(repr(str(path)) for path in paths)
    why = f" ({report.problems[0].reason})" if report.problems else ""
    if format and (not report.tallies or (not report.changed and not _read_before(store, paths, format))):
        return f"nothing at {where} can be read as {format}{why}; leave out --format to let the content tell"
    if not report.tallies:
        kind = f"log of {' or '.join(agents)}" if agents else "agent's log"
        return f"no {kind} at {where}{why}; check the path, or say with --format what the logs are"
    return ""


def _read_before(store: SQLSessionStore, paths: tuple[Path, ...], format: str) -> bool:
    """Whether the paths hold logs of this format all the same: the content tells, or they gave a session before."""
    logs = [source.path for source in path_sources(paths, format)]
    if any(_claimed(format, path) for path in logs):
        return True
    return not {row.session.source for row in store.list(Filter(agent=format, limit=0))}.isdisjoint(map(str, logs))


def _claimed(format: str, path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return readers()[format].claims(path, file.read(64 * 1024))
    except OSError:
        return False


@contextmanager
def _progress_bar(*, show: bool) -> Iterator[Progress | None]:
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("Reading"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sync", total=None, name="")
        yield lambda done, total, name: bar.update(task, completed=done, total=total, name=printable(name))


def _show(report: SyncReport, as_json: bool) -> None:
    if as_json:
        print_json(_as_dict(report))
    elif not report.tallies:
        click.echo("No agent histories found. `warmstart doctor` shows where they are looked for.")
    else:
        columns = ("agent", "sessions", "messages", "tool calls", "errors", "skipped", "seconds")
        rows = [
            (t.agent, t.sessions, t.messages, t.tool_calls, t.errors, t.skipped.total(), f"{t.seconds:.1f}")
            for t in report.tallies.values()
        ]
        table(columns, rows, right=columns[1:])
        unchanged = sum(t.unchanged for t in report.tallies.values())
        files = sum(t.files for t in report.tallies.values())
        click.echo(f"{counted(files - unchanged, 'log')} read, {unchanged} unchanged, in {seconds(report.seconds)}.")
    _show_problems(report)


def _show_problems(report: SyncReport) -> None:
    # A log that could not be read at all comes before single lines of another.
    for path, line, reason in sorted(report.problems, key=lambda problem: problem.line > 0)[:20]:
        click.echo(printable(f"{path}:{line}: {reason}" if line else f"{path}: {reason}"), err=True)
    malformed = sum(t.malformed for t in report.tallies.values())
    if malformed > 20:
        click.echo(f"… and {counted(malformed - 20, 'more malformed line')}, passed over.", err=True)
    if report.foreign:
        click.echo(f"Passed over {counted(len(report.foreign), 'file')} that no agent wrote.", err=True)


def _as_dict(report: SyncReport) -> dict[str, Any]:
    return {
        "agents": [
            {
                "agent": t.agent,
                "files": t.files,
                "unchanged": t.unchanged,
                "sessions": t.sessions,
                "messages": t.messages,
                "tool_calls": t.tool_calls,
                "errors": t.errors,
                "rejected": t.rejected,
                "skipped": t.skipped.total(),
                "skipped_kinds": dict(t.skipped),
                "malformed": t.malformed,
                "seconds": round(t.seconds, 3),
            }
            for t in report.tallies.values()
        ],
        "problems": [problem._asdict() for problem in report.problems],
        "foreign": report.foreign,
        "seconds": round(report.seconds, 3),
    }
