"""`warmstart memory`: facts and preferences under keys."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmstart.cli.completion import complete_agents, complete_keys, complete_projects
from warmstart.cli.memory_options import (
    MAX_ENTRIES,
    REMOTE_SECONDS,
    Where,
    backend_option,
    deliver,
    exit_on_signal,
    find_backend,
    open_memory,
    stays_here,
    user_option,
    where_options,
)
from warmstart.cli.memory_transfer import copy, export_command, import_command
from warmstart.cli.options import SECONDS, Count, Group, When, html_option, json_option, limit_option, yes_option
from warmstart.cli.output import (
    confirm,
    counted,
    local,
    one_line,
    print_json,
    print_scope,
    progress_bar,
    settings,
    table,
)
from warmstart.cli.terminal import write_data
from warmstart.errors import ConfigError, EntryNotFound, InvalidEntry, StoreError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.null import NullBackend
from warmstart.memory.remote import Delivery, Remote, Retries
from warmstart.memory.selection import backend_names, get_memory_backend, reset_backend, why_not
from warmstart.memory.tool import entry_dict, moment
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SOURCE, MemoryEntry, View
from warmstart.sessions.projects import resolve_project
from warmstart.sessions.values import clean
from warmstart.storage.files import write_private

if TYPE_CHECKING:
    from warmstart.memory.evaluation.table import Row
    from warmstart.memory.evaluation.values import EvaluationReport


@click.group(cls=Group, epilog='Example: warmstart memory set pref_editor "Helix" && warmstart memory search editor')
def command() -> None:
    """Remember facts and preferences across sessions.

    Each memory has a key and applies to a user, or only to one project or agent; the most specific one wins. Secrets
    are replaced before anything is stored.
    """


@command.command("set", epilog='Example: warmstart memory set test_command "make check" --project . --expires 90d')
@click.argument("key")
@click.argument("value")
@user_option
@click.option("--project", default="", shell_complete=complete_projects, help="Only for this project.")
@click.option("--agent", default="", shell_complete=complete_agents, help="Only for this agent.")
@click.option("--expires", type=When(future=True), help="Expiry date: 2027-01-31, 30d, 12h.")
@click.option("--source", default="command line", show_default=True, help="Where it came from.")
@backend_option
@json_option
def set_command(
    key: str,
    value: str,
    user: str,
    project: str,
    agent: str,
    expires: datetime | None,
    source: str,
    name: str | None,
    as_json: bool,
) -> None:
    """Store VALUE under KEY. The previous value becomes history."""
    if project and agent:
        raise click.UsageError("--project and --agent contradict each other; give one of them")
    if not key.strip() or not value.strip():
        raise click.UsageError("KEY and VALUE must not be empty; `warmstart memory delete KEY` deletes a key")
    limit = settings().memory_max_value
    if len(value) > limit:
        raise InvalidEntry(
            f"VALUE has {len(value):,} characters and the limit is {limit:,}; shorten it, or raise memory.max_value"
        )
    metadata: dict[str, Any] = {SOURCE: source} if source else {}
    if project:
        metadata |= {SCOPE: "project", PROJECT: resolve_project(project)}
    if agent:
        metadata |= {SCOPE: "agent", AGENT: agent}
    if expires is not None:
        if expires <= datetime.now(UTC):
            raise click.UsageError(f"--expires {expires:%Y-%m-%d %H:%M} is in the past; give a future date")
        metadata[EXPIRES_AT] = expires.timestamp()
    with open_memory(name, writes=True) as backend:
        delivery = Delivery(backend)
        if not backend.store(user, key, value, metadata):
            raise StoreError(f"{backend.backend_name} did not store {key!r}; `warmstart memory info` shows why")
        waits = delivery.finish(REMOTE_SECONDS)
        if isinstance(backend, NullBackend):
            click.echo(f"Memory is switched off, so {key} was not stored. Set memory.backend in config.toml.", err=True)
        else:
            view = View(project=str(metadata.get(PROJECT, "")), agent=agent)
            kept = backend.at(view).retrieve(user, key)
            secret = ", with its secret replaced" if kept is not None and kept.value != clean(value) else ""
            click.echo(f"Stored {key}{secret}{stays_here(backend, metadata)}.", err=True)
        if waits:
            click.echo(waits, err=True)
        if as_json:
            queued = bool(waits) and not stays_here(backend, metadata)  # the queue may hold other writes
            print_json({"key": key, "backend": backend.backend_name, "queued": queued})


@command.command(epilog="Example: warmstart memory set pref_editor Helix && warmstart memory get pref_editor")
@click.argument("key", shell_complete=complete_keys)
@where_options
@json_option
def get(key: str, where: Where, as_json: bool) -> None:
    """Print the value of KEY."""
    with where.open() as (_, view):
        entry = view.retrieve(where.user, key)
    if entry is None:
        raise EntryNotFound(f"no memory has the key {key!r}; `warmstart memory list` shows the keys")
    if as_json:
        print_json(entry_dict(entry))
    else:
        write_data(f"{entry.value}\n")


@command.command(epilog='Example: warmstart memory search "which editor"')
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=Count(1), default=10, show_default=True, help="Maximum number of memories.")
@where_options
@json_option
def search(
    query: tuple[str, ...],
    limit: int,
    where: Where,
    as_json: bool,
) -> None:
    """Find memories by words, best first."""
    with where.open() as (_, view):
        found = view.query(where.user, " ".join(query), limit=limit)
    _print_entries(found, where, as_json)


@command.command("list", epilog="Example: warmstart memory list --limit 50")
@limit_option
@where_options
@json_option
def list_command(limit: int, where: Where, as_json: bool) -> None:
    """List memories, newest first."""
    with where.open() as (backend, view):
        found = view.query(where.user, "", limit=limit or MAX_ENTRIES)
        others = [other for other in backend.users() if other != where.user] if not found else []
    _print_entries(found, where, as_json)
    if others and not as_json:
        click.echo(f"Other users have entries: {', '.join(others[:5])} (--user).", err=True)


def _print_entries(found: list[MemoryEntry], where: Where, as_json: bool) -> None:
    if as_json:
        print_json([entry_dict(entry) for entry in found])
        return
    if found:
        rows = [
            (
                one_line(entry.key, 40),
                local(_time(entry.updated_at)),
                _scope(entry),
                one_line(entry.value, 200) if sys.stdout.isatty() else entry.value,
            )
            for entry in found
        ]
        table(("key", "updated", "for", "value"), rows, spare=("for", "updated"), flexible=("key", "value"))
    print_scope(len(found), "memory", where.scope, f"user {where.user}")


def _scope(entry: MemoryEntry) -> str:
    scope = str(entry.metadata.get(SCOPE) or "user")
    return scope if scope == "user" else f"{scope} {Path(str(entry.metadata.get(scope, ''))).name}".strip()


def _time(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


@command.command(epilog="Example: warmstart memory set pref_editor Helix && warmstart memory delete pref_editor --yes")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=complete_keys)
@yes_option
@where_options
@json_option
def delete(
    keys: tuple[str, ...],
    yes: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Delete memories and their history."""
    deleted, missing = [], []
    with where.open() as (backend, view):
        began, delivery = time.time(), Delivery(backend)
        for key in dict.fromkeys(keys):
            entry = view.retrieve(where.user, key)
            if entry is None:
                missing.append(key)
                continue
            if not confirm(f"Delete {key} ({one_line(entry.value, 60)})?", yes=yes):
                click.echo(f"Kept {key}.", err=True)
            elif view.delete(where.user, key):
                click.echo(f"Deleted {key}.", err=True)
                deleted.append(key)
            else:
                missing.append(key)
        queued = deliver(delivery)
        for each in reversed(backend.forgotten(where.user) if deleted and isinstance(backend, Remote) else ()):
            if each.at >= began and each.messages:
                click.echo(f"{each}.", err=True)
    if as_json:
        print_json({"deleted": deleted, "missing": missing, "queued": queued})
    if missing:
        raise EntryNotFound(
            f"no memory has the key {', '.join(map(repr, missing))}; `warmstart memory list` shows the keys"
        )


@command.command(epilog="Example: warmstart memory set database PostgreSQL && warmstart memory history database")
@click.argument("key", shell_complete=complete_keys)
@where_options
@json_option
def history(key: str, where: Where, as_json: bool) -> None:
    """Show the values of KEY over time, and where each came from."""
    with where.open() as (backend, view):
        versions = view.history(where.user, key)
        known = backend.backend_name
    if as_json:
        print_json(
            [
                {
                    "value": version.value,
                    "since": moment(version.since),
                    "until": moment(version.until),
                    "session_id": version.session,
                    "source": version.source,
                }
                for version in versions
            ]
        )
        return
    if not versions:
        raise EntryNotFound(f"{known} has no history of {key!r}; `warmstart memory list` shows the keys")
    rows = [
        (
            local(_time(version.since)),
            local(_time(version.until)) or "now",
            one_line(version.session or version.source, 40),
            "(deleted)" if version.value is None else version.value,
        )
        for version in versions
    ]
    table(("since", "until", "from", "value"), rows, spare=("from",))


@command.command(epilog="Example: warmstart memory info")
@click.option("--retry", is_flag=True, help="Resend what the server rejected.")
@user_option
@backend_option
@json_option
def info(retry: bool, user: str, name: str | None, as_json: bool) -> None:
    """Show which backend is in use, whether it works, and how many memories it has."""
    current = settings()
    backend = find_backend(name) if name else get_memory_backend(current, host=True)
    try:
        available = backend.is_available()
        if retry:
            _retry(backend)
        data: dict[str, Any] = {
            "backend": backend.backend_name,
            "is_available": available,
            "is_cloud": backend.is_cloud,
            "server": _server(backend, user) if available and isinstance(backend, Remote) else None,
            "user": user,
            "entries": len(backend.list_keys(user)) if available else None,
            "users": len(backend.users()) if available else None,
            "max_value": current.memory_max_value,
            "backends": backend_names(),
        }
        problem = "" if available else why_not(backend)
    finally:
        if name:
            backend.close()
        reset_backend()
    if as_json:
        print_json(data)
        return
    why = f": {problem}" if problem else ""
    click.echo(f"{data['backend']}, {'available' if available else 'not available' + why}")
    here = "go to the PostgreSQL server" if data["backend"].startswith("postgres") else "stay on this machine"
    click.echo(f"Memories {'leave this machine' if data['is_cloud'] else here}.")
    if data["server"]:
        _print_server(data["server"])
    if available:
        click.echo(f"{counted(data['entries'], 'key')} for user {user!r}, {counted(data['users'], 'user')} in total.")
    click.echo(f"Backends: {', '.join(data['backends'])}")


def _retry(backend: MemoryBackend) -> None:
    if not isinstance(backend, Retries):
        raise ConfigError(f"{backend.backend_name} has no server; leave --retry out")
    delivery, count = Delivery(backend), backend.retry()
    deliver(delivery)
    click.echo(f"{counted(count, 'write')} resent.", err=True)


def _server(backend: Remote, user: str) -> dict[str, Any]:
    """The state of the server, after fetching what is new."""
    reachable = backend.is_reachable() and backend.sync(user, REMOTE_SECONDS)
    status = backend.status()
    return {
        "address": status.base_url,
        "is_reachable": reachable,
        "denied": status.denied,
        "waiting": status.waiting,
        "refused": [{"user": user, "key": key, "reason": reason} for user, key, reason in status.refused],
        "error": status.error,
        "calls": status.calls,
        "bytes": status.bytes,
    }


def _print_server(server: dict[str, Any]) -> None:
    problem = "does not accept the key" if server["denied"] else "does not answer"
    answers = "answers" if server["is_reachable"] else f"{problem}; showing the local copy"
    click.echo(f"{server['address']} {answers}.")
    waiting = server["waiting"]
    click.echo(
        f"{counted(waiting, 'write')} queued; sent so far: "
        f"{counted(server['calls'], 'request')}, {server['bytes']:,} bytes."
    )
    if server["error"]:
        click.echo(f"Last error: {one_line(server['error'], 200)}")
    for each in server["refused"]:
        click.echo(f"Rejected: {each['key']} of {each['user']}: {one_line(each['reason'], 120)}; --retry resends it")


command.add_command(import_command)
command.add_command(export_command)
command.add_command(copy)


@command.command(epilog="Example: warmstart memory evaluate --backend local --size 1000 --html memory.html")
@click.option("--backend", "names", metavar="NAME", multiple=True, help="Only this backend; repeatable.")
@click.option(
    "--size",
    "sizes",
    type=Count(1, 1_000_000),
    multiple=True,
    help="Measure latency with this many entries; repeatable. Default: 10, 1,000 and 100,000.",
)
@click.option("--seconds", type=SECONDS, default=120.0, show_default=True, help="Time limit per measurement.")
@html_option
@json_option
def evaluate(names: tuple[str, ...], sizes: tuple[int, ...], seconds: float, html: Path | None, as_json: bool) -> None:
    """Compare backends by relevance, latency, reliability, cost and deletion.

    Compares all backends unless --backend names some. It stores made-up memories for temporary users and removes them
    afterwards, so it is safe to run on a backend in use.
    """
    from warmstart.memory.evaluation import evaluate_backends
    from warmstart.memory.evaluation.evaluate import SIZES

    chosen = _to_evaluate(names)
    backends = list(chosen.values())
    known_as = {id(backend): name for name, backend in chosen.items()}
    with exit_on_signal(), _closing_all(backends):
        for backend in backends:
            if backend.is_cloud and backend.is_available():
                click.echo(
                    f"{backend.backend_name} sends 500 made-up memories and 200 queries to its server.", err=True
                )
        with progress_bar("Evaluating") as progress:
            report = evaluate_backends(
                backends,
                sizes=sizes or SIZES,
                seconds=seconds,
                reopen=lambda backend: find_backend(known_as[id(backend)]),
                progress=progress,
            )
    if html is not None:
        from warmstart.memory.evaluation.page import page

        write_private(html, [page(report)])
        click.echo(f"Evaluation of {counted(len(backends), 'backend')} written to {html}.", err=True)
    if as_json:
        print_json(report.to_dict())
    elif html is None:
        _print_report(report)


@contextmanager
def _closing_all(backends: list[MemoryBackend]) -> Iterator[None]:
    """Close the backends at the end, after their servers have removed the test data too."""
    try:
        yield
    finally:
        for backend in backends:
            try:
                deliver(Delivery(backend))
            finally:
                backend.close()


def _to_evaluate(names: tuple[str, ...]) -> dict[str, MemoryBackend]:
    """The backends named, or all that are set up."""
    opened: dict[str, MemoryBackend] = {}
    for name in dict.fromkeys(names or backend_names()):
        try:
            opened[name] = find_backend(name)
        except WarmstartError as error:
            if names:
                for backend in opened.values():
                    backend.close()
                raise
            click.echo(f"Skipping {name}: {error}", err=True)
    return opened


def _print_report(report: EvaluationReport) -> None:
    """Print the backends side by side, notes, and a recommendation."""
    from warmstart.memory.evaluation.table import rows

    found = rows(report.evaluations)
    if _width(found, report.backends_evaluated) <= _max_width():
        _print_rows(found, report.backends_evaluated, range(len(report.evaluations)))
    else:
        for place in range(len(report.evaluations)):
            _print_rows(found, report.backends_evaluated, [place])
            click.echo()
    click.echo()
    for each in report.evaluations:
        for note in each.notes:
            click.echo(f"{each.backend_name}: {note}.")
    for warning in report.warnings:
        click.echo(f"Warning: {warning}")
    click.echo(report.recommendation)


def _print_rows(found: Sequence[Row], names: Sequence[str], places: Sequence[int]) -> None:
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


def _max_width() -> float:
    """The width that a table may have; unlimited in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
