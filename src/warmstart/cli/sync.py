"""`warmstart sync`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from warmstart.app import Warmstart
from warmstart.cli.options import Finite, json_option
from warmstart.cli.output import as_data, print_json, progress_bar, settings, table
from warmstart.cli.terminal import counted, printable, seconds
from warmstart.config import Settings
from warmstart.errors import LogError, StoreBusy, StoreUnreachable
from warmstart.sessions.readers.base import Malformed, skip_reason
from warmstart.sessions.readers.registry import readers
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.sync import SyncReport, path_sources

_MAX_WAIT = 30.0  # seconds between attempts to reach a server again
_AGENTS = click.Choice(list(readers()))
_SECONDS = Finite(0.1, 86_400.0)


@click.command(
    epilog="\b\nExamples:\n  warmstart sync\n  warmstart sync --agent codex\n"
    "  warmstart sync --path runs/ --format openai\n  warmstart sync --watch"
)
@click.option("--agent", "agents", metavar="NAME", multiple=True, type=_AGENTS, help="Only this agent; repeatable.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A log or a folder of logs instead of the agents' default locations; repeatable.",
)
@click.option(
    "--format", "format", metavar="NAME", type=_AGENTS, help="The agent whose logs are at --path, if detection fails."
)
@click.option("--no-redact", is_flag=True, help="Store secrets as they are in the logs (not recommended).")
@json_option
@click.option("-v", "--verbose", is_flag=True, help="List what was skipped, and why.")
@click.option("--watch", is_flag=True, help="Keep importing what the agents write, until interrupted.")
@click.option("--interval", type=_SECONDS, default=2.0, show_default=True, help="Seconds between checks, with --watch.")
def command(
    agents: tuple[str, ...],
    paths: tuple[Path, ...],
    format: str | None,
    no_redact: bool,
    as_json: bool,
    verbose: bool,
    watch: bool,
    interval: float,
) -> None:
    """Import new sessions from your agents' logs.

    Finds the logs of claude-code, codex, gemini-cli, opencode, copilot-cli, hermes, qwen-code, cline and pi, and reads
    only what changed since the last sync. With --path it also reads Inspect logs and messages in the OpenAI format.
    Secrets are replaced before anything is stored. The agents' files are never modified.
    """
    if format and not paths:
        raise click.UsageError("--format needs --path: it is the format of the logs at that path")
    current = settings()
    if no_redact:
        click.echo(
            "Warning: secrets in the logs are stored as they are; `warmstart redact --store` removes them.", err=True
        )
    chosen: dict[str, Any] = {"paths": paths, "agents": agents, "format": format, "redact": not no_redact}
    show = partial(_show, as_json=as_json, verbose=verbose)
    with Warmstart(current) as app:
        report = app.sync(**chosen, progress=progress_bar)
        refusal = "" if watch or not paths else _refusal(app.store, report, agents, paths, format)
        if as_json or not refusal:
            show(report)
        if refusal:
            raise LogError(refusal)
    if watch:
        _watch(current, chosen, interval, set(report.problems), show)


def _watch(
    current: Settings,
    chosen: Mapping[str, Any],
    interval: float,
    reported: set[Malformed],
    show: Callable[[SyncReport], None],
) -> NoReturn:
    """Sync in a loop. If the server goes away, wait for it."""
    wait, waiting = interval, False
    while True:
        try:
            with Warmstart(current) as app:
                while True:
                    time.sleep(interval)
                    report = app.import_logs(**chosen)
                    if report.changed:
                        app.update()
                    wait, waiting = interval, False
                    report.problems = [problem for problem in report.problems if problem not in reported]
                    reported.update(report.problems)
                    if report.changed or report.problems:
                        show(report)
        except (StoreBusy, StoreUnreachable) as error:
            if not current.store_url:
                raise
            if not waiting:
                click.echo(printable(f"Waiting for the server: {error}"), err=True)
            wait, waiting = min(2 * wait, max(interval, _MAX_WAIT)), True
            time.sleep(wait)


def _refusal(
    store: SQLSessionStore, report: SyncReport, agents: tuple[str, ...], paths: tuple[Path, ...], format: str | None
) -> str:
    """Why the paths yielded nothing; empty if they yielded something."""
    where = ", ".join(repr(str(path)) for path in paths)
    why = f" ({report.problems[0].reason})" if report.problems else ""
    if format and (not report.tallies or (not report.changed and not _read_before(store, paths, format))):
        return f"nothing at {where} can be read as {format}{why}; leave out --format to detect the format"
    if not report.tallies:
        kind = f"{' or '.join(agents)} log" if agents else "log in a supported format"
        return f"no {kind} at {where}{why}; check the path, or name the format with --format"
    return ""


def _read_before(store: SQLSessionStore, paths: tuple[Path, ...], format: str) -> bool:
    """Whether the paths do have logs of this format, judging by their content or by earlier imports."""
    logs = [source.path for source in path_sources([path.absolute() for path in paths], format)]
    if any(_claimed(format, path) for path in logs):
        return True
    return not {row.session.source for row in store.list(Filter(agent=format, limit=0))}.isdisjoint(map(str, logs))


def _claimed(format: str, path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return readers()[format].claims(path, file.read(64 * 1024))
    return False


def _show(report: SyncReport, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        print_json(_as_dict(report))
    elif not report.tallies:
        click.echo("No agent logs found. `warmstart doctor` shows where Warmstart looks for them.")
    else:
        columns = ("agent", "sessions", "messages", "tool calls", "errors", "seconds")
        rows = [
            (t.agent, t.sessions, t.messages, t.tool_calls, t.errors, f"{t.seconds:.1f}")
            for t in report.tallies.values()
            if t.files > t.unchanged
        ]
        if rows:
            table(columns, rows, right=columns[1:])
        unchanged = sum(t.unchanged for t in report.tallies.values())
        files = sum(t.files for t in report.tallies.values())
        click.echo(f"{counted(files - unchanged, 'log')} read, {unchanged} unchanged, in {seconds(report.seconds)}.")
    if verbose and not as_json:
        _show_skipped(report)
    _show_problems(report, count_foreign=as_json or not verbose)


def _show_skipped(report: SyncReport) -> None:
    rows = [
        (tally.agent, kind, number, skip_reason(kind))
        for tally in report.tallies.values()
        for kind, number in tally.skipped.most_common()
    ]
    if rows:
        click.echo("\nRecords in the logs that were skipped:")
        table(("agent", "kind", "count", "why"), rows, right=("count",))
    if report.foreign:
        click.echo("\nFiles in unsupported formats:")
        for path in report.foreign:
            click.echo(f"  {printable(path)}")
    if not rows and not report.foreign:
        click.echo("Nothing was skipped.")


def _show_problems(report: SyncReport, *, count_foreign: bool) -> None:
    # Unreadable logs come before malformed lines.
    for path, line, reason in sorted(report.problems, key=lambda problem: problem.line > 0)[:20]:
        click.echo(printable(f"{path}:{line}: {reason}" if line else f"{path}: {reason}"), err=True)
    malformed = sum(t.malformed for t in report.tallies.values())
    if malformed > 20:
        click.echo(f"… and {counted(malformed - 20, 'more malformed line')}, skipped.", err=True)
    if report.foreign and count_foreign:
        click.echo(f"Skipped {counted(len(report.foreign), 'file')} in unsupported formats.", err=True)


def _as_dict(report: SyncReport) -> dict[str, Any]:
    agents = [
        as_data(tally)
        | {
            "skipped": tally.skipped.total(),
            "skipped_kinds": tally.skipped,
            "skipped_reasons": {kind: skip_reason(kind) for kind in tally.skipped},
            "seconds": round(tally.seconds, 3),
        }
        for tally in report.tallies.values()
    ]
    problems, foreign = report.problems, report.foreign
    return {"agents": agents, "problems": problems, "foreign": foreign, "seconds": round(report.seconds, 3)}
