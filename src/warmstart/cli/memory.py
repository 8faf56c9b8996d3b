"""`warmstart memory`: what is known, in whichever backend; moving, importing and comparing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from warmstart.cli.memory_moving import copy, export_command, import_command
from warmstart.cli.memory_options import (
    ALL,
    REMOTE_SECONDS,
    Until,
    backend_option,
    delivering,
    ended_in_order,
    json_option,
    memory,
    named,
    seen_from,
    user_option,
    where_options,
)
from warmstart.cli.output import counted, local, one_line, print_json, printable, settings, table
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import stored_project
from warmstart.errors import ConfigError, EntryNotFound, InvalidEntry, StoreError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.null import NullBackend
from warmstart.memory.remote import Remote, Retries
from warmstart.memory.selection import backend_names, get_memory_backend, reset_backend, why_not
from warmstart.memory.tool import entry_dict, moment
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SOURCE, MemoryEntry, View


@click.group(epilog='Example: warmstart memory set pref_editor "Helix" && warmstart memory search editor')
def command() -> None:
    """Keep, find, move and compare what is known across sessions.

    Preferences and facts, each under a key. An entry is the user's, or of one project or agent; the narrowest that fits
    wins. Secrets are replaced before anything is kept.
    """


@command.command("set", epilog='Example: warmstart memory set test_command "make check" --project . --expires 90d')
@click.argument("key")
@click.argument("value")
@user_option
@click.option("--project", default="", help="Only for this project: a folder, or a name.")
@click.option("--agent", default="", help="Only for this agent.")
@click.option("--expires", type=Until(), help="Until then: 2027-01-31, 30d, 12h.")
@click.option("--source", default="command line", show_default=True, help="Where it is from.")
@backend_option
def set_command(
    key: str, value: str, user: str, project: str, agent: str, expires: datetime | None, source: str, name: str | None
) -> None:
    """Remember VALUE under KEY, in place of what it was before, which becomes history."""
    if project and agent:
        raise click.UsageError("--project and --agent contradict each other; give one of them")
    if not key.strip() or not value.strip():
        raise click.UsageError("KEY and VALUE must not be empty; `warmstart memory delete KEY` forgets a key")
    limit = settings().memory_max_value
    if len(value) > limit:
        raise InvalidEntry(
            f"VALUE has {len(value):,} characters and the limit is {limit:,}; set the gist, or raise memory.max_value"
        )
    metadata: dict[str, Any] = {SOURCE: source} if source else {}
    if project:
        metadata |= {SCOPE: "project", PROJECT: stored_project(project)}
    if agent:
        metadata |= {SCOPE: "agent", AGENT: agent}
    if expires is not None:
        if expires <= datetime.now(UTC):
            raise click.UsageError(f"--expires {expires:%Y-%m-%d %H:%M} is over already; give a time to come")
        metadata[EXPIRES_AT] = expires.timestamp()
    with memory(name, writes=True) as backend:
        if not backend.store(user, key, value, metadata):
            raise StoreError(f"{backend.backend_name} did not keep {key!r}; `warmstart memory info` says how it is")
        if isinstance(backend, NullBackend):
            click.echo(
                f"Memory is switched off: {key} was not kept. memory.backend in config.toml changes that.", err=True
            )
        else:
            view = View(project=str(metadata.get(PROJECT, "")), agent=agent)
            kept = backend.at(view).retrieve(user, key)
            secret = ", without the secret in it" if kept is not None and kept.value != value else ""
            click.echo(f"Remembered {key}{secret}.", err=True)


@command.command(epilog="Example: warmstart memory set pref_editor Helix && warmstart memory get pref_editor")
@click.argument("key")
@user_option
@where_options
@backend_option
@json_option
def get(key: str, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool) -> None:
    """Print what KEY is worth."""
    with memory(name, user) as backend:
        entry = seen_from(backend, project, agent, all_projects).retrieve(user, key)
    if entry is None:
        raise EntryNotFound(f"nothing is known as {key!r}; `warmstart memory list` shows the keys")
    if as_json:
        print_json(entry_dict(entry))
    else:
        click.echo(printable(entry.value) if sys.stdout.isatty() else entry.value)


@command.command(epilog='Example: warmstart memory search "which editor"')
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many entries.")
@user_option
@where_options
@backend_option
@json_option
def search(
    query: tuple[str, ...],
    limit: int,
    user: str,
    project: str,
    agent: str,
    all_projects: bool,
    name: str | None,
    as_json: bool,
) -> None:
    """Find entries by words, the best first."""
    with memory(name, user) as backend:
        found = seen_from(backend, project, agent, all_projects).query(user, " ".join(query), limit=limit)
    _print_entries(found, as_json, "Nothing found.")


@command.command("list", epilog="Example: warmstart memory list --limit 50")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most so many; 0 for all.")
@user_option
@where_options
@backend_option
@json_option
def list_command(
    limit: int, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool
) -> None:
    """List entries, the newest first."""
    with memory(name, user) as backend:
        found = seen_from(backend, project, agent, all_projects).query(user, "", limit=limit or ALL)
        others = [other for other in backend.users() if other != user] if not found else []
    hint = f" There are entries of {', '.join(others[:5])}; see --user." if others else ""
    _print_entries(found, as_json, f"Nothing is remembered of {user!r}.{hint}")


def _print_entries(found: list[MemoryEntry], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json([entry_dict(entry) for entry in found])
    elif not found:
        click.echo(nothing, err=True)
    else:
        rows = [
            (
                one_line(entry.key, 40),
                local(_time(entry.updated_at)),
                _scope(entry),
                one_line(entry.value, 200) if sys.stdout.isatty() else entry.value,
            )
            for entry in found
        ]
        table(("key", "updated", "for", "value"), rows, spare=("for", "updated"))


def _scope(entry: MemoryEntry) -> str:
    scope = str(entry.metadata.get(SCOPE) or "user")
    return scope if scope == "user" else f"{scope} {Path(str(entry.metadata.get(scope, ''))).name}".strip()


def _time(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


@command.command(epilog="Example: warmstart memory set pref_editor Helix && warmstart memory delete pref_editor --yes")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@user_option
@where_options
@backend_option
def delete(
    keys: tuple[str, ...], yes: bool, user: str, project: str, agent: str, all_projects: bool, name: str | None
) -> None:
    """Forget entries."""
    missing = []
    with memory(name, user) as backend:
        seen = seen_from(backend, project, agent, all_projects)
        for key in dict.fromkeys(keys):
            entry = seen.retrieve(user, key)
            if entry is None:
                missing.append(key)
                continue
            asked = not yes and sys.stdin.isatty()
            if asked and not click.confirm(f"Forget {key} ({one_line(entry.value, 60)})?"):
                click.echo(f"Kept {key}.", err=True)
            elif seen.delete(user, key):
                click.echo(f"Forgot {key}.", err=True)
            else:
                missing.append(key)
    if missing:
        raise EntryNotFound(
            f"nothing is known as {', '.join(map(repr, missing))}; `warmstart memory list` shows the keys"
        )


@command.command(epilog="Example: warmstart memory set database PostgreSQL && warmstart memory history database")
@click.argument("key")
@user_option
@where_options
@backend_option
@json_option
def history(key: str, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool) -> None:
    """Show what KEY was before, since when, and from where."""
    with memory(name, user) as backend:
        versions = seen_from(backend, project, agent, all_projects).history(user, key)
        known = backend.backend_name
    if as_json:
        print_json(
            [
                {
                    "value": version.value,
                    "since": moment(version.since),
                    "until": moment(version.until),
                    "session": version.session,
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
@click.option("--retry", is_flag=True, help="Send again what the server refused.")
@user_option
@backend_option
@json_option
def info(retry: bool, user: str, name: str | None, as_json: bool) -> None:
    """Show which backend is used, whether it is there, and what is in it."""
    current = settings()
    backend = named(name) if name else get_memory_backend(current, host=True)
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
    click.echo("What is stored leaves this machine." if data["is_cloud"] else "What is stored stays on this machine.")
    if data["server"]:
        _print_server(data["server"])
    if available:
        click.echo(f"{counted(data['entries'], 'key')} of {user!r}, {counted(data['users'], 'user')} in all.")
    click.echo(f"Backends: {', '.join(data['backends'])}")


def _retry(backend: MemoryBackend) -> None:
    if not isinstance(backend, Retries):
        raise ConfigError(f"{backend.backend_name} has no server that could refuse anything; leave --retry out")
    count = backend.retry()
    with delivering(backend):
        pass
    click.echo(f"{counted(count, 'write')} sent again.", err=True)


def _server(backend: Remote, user: str) -> dict[str, Any]:
    """How it stands with the server, after reading what is new."""
    reachable = backend.is_reachable() and backend.sync(user, REMOTE_SECONDS)
    status = backend.status()
    return {
        "address": status.base_url,
        "is_reachable": reachable,
        "waiting": status.waiting,
        "refused": [{"user": user, "key": key, "reason": reason} for user, key, reason in status.refused],
        "error": status.error,
        "calls": status.calls,
        "bytes": status.bytes,
    }


def _print_server(server: dict[str, Any]) -> None:
    answers = "answers" if server["is_reachable"] else "does not answer: this is what is known here"
    click.echo(f"{server['address']} {answers}.")
    waiting = server["waiting"]
    click.echo(
        f"{counted(waiting, 'write')} {'waits' if waiting == 1 else 'wait'} to be delivered; sent so far: "
        f"{counted(server['calls'], 'request')}, {server['bytes']:,} bytes."
    )
    if server["error"]:
        click.echo(f"The last trouble: {one_line(server['error'], 200)}")
    for each in server["refused"]:
        click.echo(f"Refused: {each['key']} of {each['user']}: {one_line(each['reason'], 120)}; --retry sends it again")


command.add_command(import_command)
command.add_command(export_command)
command.add_command(copy)


@command.command(epilog="Example: warmstart memory evaluate --backend local --size 1000 --html memory.html")
@click.option("--backend", "names", metavar="NAME", multiple=True, help="Only this one; may be given several times.")
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(1, 1_000_000),
    multiple=True,
    help="Measure latency with so many entries; may be given several times. Default: 10, 1,000 and 100,000.",
)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=120.0, show_default=True, help="For each measure.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts to this file.")
@json_option
def evaluate(names: tuple[str, ...], sizes: tuple[int, ...], seconds: float, html: Path | None, as_json: bool) -> None:
    """Compare backends: a score, and relevance, latency, reliability, cost and forgetting beside it.

    Without --backend all that are known, available or not. Everything is done with invented memories of users that
    exist only for it, and is removed afterwards: it can be run on a backend in use.
    """
    from warmstart.memory.evaluation import evaluate_backends
    from warmstart.memory.evaluation.evaluate import SIZES

    chosen = _to_evaluate(names)
    backends = list(chosen.values())
    known_as = {id(backend): name for name, backend in chosen.items()}
    with ended_in_order(), _closing_all(backends):
        for backend in backends:
            if backend.is_cloud and backend.is_available():
                click.echo(
                    f"{backend.backend_name}: 500 invented memories and 200 questions leave this machine.", err=True
                )
        with progress_bar("Evaluating") as progress:
            report = evaluate_backends(
                backends,
                sizes=sizes or SIZES,
                seconds=seconds,
                reopen=lambda backend: named(known_as[id(backend)]),
                progress=progress,
            )
    if html is not None:
        from warmstart.memory.evaluation.page import page

        html.write_bytes(page(report).encode("utf-8", "replace"))
        click.echo(f"Evaluation of {counted(len(backends), 'backend')} written to {html}.", err=True)
    if as_json:
        print_json(report.to_dict())
    elif html is None:
        from warmstart.cli.memory_report import print_report

        print_report(report)


@contextmanager
def _closing_all(backends: list[MemoryBackend]) -> Iterator[None]:
    """Close these in the end, after what was removed from them is removed from their servers too."""
    try:
        yield
    finally:
        for backend in backends:
            try:
                with delivering(backend):
                    pass
            finally:
                backend.close()


def _to_evaluate(names: tuple[str, ...]) -> dict[str, MemoryBackend]:
    """The backends named, or all; one that is not set up is left out unless it was asked for."""
    opened: dict[str, MemoryBackend] = {}
    for name in dict.fromkeys(names or backend_names()):
        try:
            opened[name] = named(name)
        except WarmstartError as error:
            if names:
                for backend in opened.values():
                    backend.close()
                raise
            click.echo(f"{name} is left out: {error}", err=True)
    return opened
