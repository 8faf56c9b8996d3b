"""`warmstart memory`: facts and preferences under keys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_agents, complete_keys, complete_projects
from warmstart.cli.options import Count, Group, When, current_project, json_option, limit_option, scope_of, yes_option
from warmstart.cli.output import Scope, confirm, print_json, print_rows, print_scope, rename_keys, settings, table
from warmstart.cli.terminal import counted, local, one_line, write_data
from warmstart.config import expand_user
from warmstart.errors import ConfigError, EntryNotFound, InvalidEntry, StoreError, StoreUnreachable, WarmstartError
from warmstart.memory.authors import COMMAND_LINE, author_of, is_note
from warmstart.memory.backend import MAX_ENTRIES, Delivery, MemoryBackend, NullBackend, view_of
from warmstart.memory.keys import make_key
from warmstart.memory.selection import backend_names, open_backend, select_backend, why_not
from warmstart.memory.tool import ASKED_MODEL, DIALECTIC_COST, as_datetime, entry_dict, query_entries
from warmstart.memory.values import (
    AGENT,
    AUTHOR,
    CANDIDATE,
    EXPIRES_AT,
    PROJECT,
    SCOPE,
    SOURCE,
    USER,
    MemoryEntry,
    View,
)
from warmstart.redact import redact
from warmstart.sessions.projects import resolve_project
from warmstart.sessions.values import clean

REMOTE_SECONDS = 15.0  # how long a command waits for a server


def check_user(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Reject empty user names."""
    if any(not user.strip() for user in ([given] if isinstance(given, str) else given)):
        raise click.BadParameter("must not be empty; leave it out for the user 'default'", ctx, parameter)
    return given


user_option = click.option(
    "--user", default="default", show_default=True, callback=check_user, help="The user whose memories to use."
)
backend_option = click.option(
    "--backend", "name", metavar="NAME", help="Use this backend instead of the configured one, or a SQLite file."
)


class Where(NamedTuple):
    """Whose memories a command uses, from which project and agent it sees them, and in which backend."""

    user: str
    project: str
    agent: str
    all_projects: bool
    backend: str | None

    @contextmanager
    def open(self, *, lists: bool = False, whole: bool = False) -> Iterator[tuple[MemoryBackend, MemoryBackend]]:
        """The backend, and the same as seen from the project and the agent; outside of a project, `lists` see all."""
        if self.all_projects and (self.project or self.agent):
            raise click.UsageError("--all-projects contradicts --project and --agent; leave it out")
        with open_memory(self.backend, self.user, whole=whole) as backend:
            if self.all_projects or (lists and not self.scope(backend).project):
                yield backend, backend
            else:
                project = resolve_project(self.project) or current_project()
                yield backend, backend.at(View(project, self.agent, note=project))

    def scope(self, backend: MemoryBackend) -> Scope:
        """The project; all projects outside of one, unless an agent is named. A folder with memories is a project."""
        if self.agent and not self.project:
            return scope_of("", self.all_projects, [current_project()])
        entries = backend.query(self.user, "", limit=MAX_ENTRIES)
        return scope_of(self.project, self.all_projects, {str(each.metadata.get(PROJECT, "")) for each in entries})


def where_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--user`, `--project`, `--agent`, `--all-projects` and `--backend`, and pass them as `where`."""

    @user_option
    @click.option(
        "--project",
        default="",
        shell_complete=complete_projects,
        help="The project: its folder, a path inside it, or its name. Default: the current one.",
    )
    @click.option("--agent", default="", shell_complete=complete_agents, help="Include entries for this agent.")
    @click.option("--all-projects", is_flag=True, help="Entries of all projects and agents.")
    @backend_option
    @wraps(command)
    def run(user: str, project: str, agent: str, all_projects: bool, name: str | None, **others: Any) -> None:
        command(where=Where(user, project, agent, all_projects, name), **others)

    return run


@contextmanager
def open_memory(
    name: str | None, user: str = "", *, everyone: bool = False, writes: bool = False, whole: bool = False
) -> Iterator[MemoryBackend]:
    """Open the configured backend, or the one named, for the duration of a command.

    A remote backend is synchronized first, for one user or for all. Only a command that `writes` creates a file.
    """
    if name and not writes and (path := backend_file(name)) is not None and not path.exists():
        raise ConfigError(f"there is no file {name!r}; name a file with memories, or a backend")
    with closing(open_available(name) if name else select_backend(settings())) as backend:
        synchronize(backend, user, everyone=everyone, whole=whole)
        yield backend


def synchronize(backend: MemoryBackend, user: str = "", *, everyone: bool = False, whole: bool = False) -> None:
    """Make a remote backend send queued writes and fetch changes, for one user or for all.

    Warns if the server does not answer; raises `StoreUnreachable` if the `whole` memory is needed.
    """
    status = backend.status()
    if status is None:
        return
    is_reached = backend.is_reachable()
    if is_reached and status.waiting:
        backend.flush(REMOTE_SECONDS)
    if (user or everyone) and not (is_reached and backend.sync(user or None, REMOTE_SECONDS)):
        problem = (backend.status() or status).problem or f"{status.address} does not answer"
        if whole:
            raise StoreUnreachable(f"{problem}; the local copy may be incomplete; try again, or add --offline")
        click.echo(f"{problem}; showing the local copy.", err=True)


def deliver(delivery: Delivery) -> bool:
    """Send what a command wrote. Returns whether some of it is still queued."""
    if queued := delivery.finish(REMOTE_SECONDS):
        click.echo(queued, err=True)
    return bool(queued)


def open_available(name: str) -> MemoryBackend:
    """The backend of this name or in this file. Raises `ConfigError` if it is not available."""
    backend = find_backend(name)
    if not backend.is_available():
        problem = why_not(backend)
        backend.close()
        raise ConfigError(f"the backend {name!r} is not available: {problem}")
    return backend


def find_backend(name: str) -> MemoryBackend:
    """The backend of this name, available or not. A path names a SQLite file."""
    path = backend_file(name)
    if path is None:
        return open_backend(name, settings())
    return open_backend("local", replace(settings(), store_path=path))


def backend_file(name: str) -> Path | None:
    """The file, if the name is a path."""
    is_path = "/" in name or name.endswith((".db", ".sqlite"))
    return expand_user(Path(name)).absolute() if is_path else None


def stays_local(backend: MemoryBackend, metadata: Mapping[str, Any]) -> str:
    """A note for entries that the backend keeps local; empty for others."""
    return ", on this machine only (see memory.honcho.send_scoped)" if backend.stays_local(metadata) else ""


@click.group(
    cls=Group,
    module="memory_transfer",
    epilog='Example: warmstart memory set pref_editor "Helix" && warmstart memory search editor',
)
def command() -> None:
    """Remember facts and preferences across sessions.

    Each memory has a key and applies to a user, or only to one project or agent; the most specific one wins. Secrets
    are replaced before anything is stored.
    """


@command.command(
    "set",
    epilog="\b\nExamples:\n  warmstart memory set test_command 'make check' --project . --expires 90d\n"
    "  warmstart memory set 'Releases go out on Tuesdays.'",
)
@click.argument("key")
@click.argument("value", required=False)
@user_option
@click.option("--project", default="", shell_complete=complete_projects, help="Only for this project.")
@click.option("--agent", default="", shell_complete=complete_agents, help="Only for this agent.")
@click.option("--expires", type=When(future=True), help="Expiry date: 2027-01-31, 30d, 12h.")
@click.option("--source", default=COMMAND_LINE, show_default=True, help="Where it came from.")
@backend_option
@json_option
def set_command(
    key: str,
    value: str | None,
    user: str,
    project: str,
    agent: str,
    expires: datetime | None,
    source: str,
    name: str | None,
    as_json: bool,
) -> None:
    """Store VALUE under KEY, as yours. The previous value becomes history.

    Every later session is shown it, unless it is for one project or agent. A sentence alone gets a key made of its
    first words.
    """
    if project and agent:
        raise click.UsageError("--project and --agent contradict each other; give one of them")
    if value is None:
        if len(key.split()) < 2:
            raise click.UsageError("Missing argument 'VALUE'; give KEY and VALUE, or a sentence in quotes")
        key, value = make_key(redact(key).text), key
    if not key.strip() or not value.strip():
        raise click.UsageError("KEY and VALUE must not be empty; `warmstart memory delete KEY` deletes a key")
    limit = settings().memory_max_value
    if len(value) > limit:
        raise InvalidEntry(
            f"VALUE has {len(value):,} characters and the limit is {limit:,}; shorten it, or raise memory.max_value"
        )
    metadata = _metadata(project, agent, expires, source)
    with open_memory(name, writes=True) as backend:
        delivery = Delivery(backend)
        _store(backend, user, key, value, metadata)
        waits = delivery.finish(REMOTE_SECONDS)
        view = View(project=str(metadata.get(PROJECT, "")), agent=agent)
        kept = backend.at(view).retrieve(user, key)
        if isinstance(backend, NullBackend):
            click.echo(f"Memory is switched off, so {key} was not stored. Set memory.backend in config.toml.", err=True)
        else:
            secret = ", with its secret replaced" if kept is not None and kept.value != clean(value) else ""
            click.echo(f"Stored {kept.key if kept else key}{secret}{stays_local(backend, metadata)}.", err=True)
        if waits:
            click.echo(waits, err=True)
        queued = bool(waits) and not stays_local(backend, metadata)  # the queue may hold other writes
        _print_stored(kept, as_json, key=key, backend=backend.backend_name, queued=queued)
    if name is None:
        screen_memories()


def _metadata(project: str, agent: str, expires: datetime | None, source: str) -> dict[str, Any]:
    """The metadata of an entry of the user."""
    metadata: dict[str, Any] = {AUTHOR: USER, **({SOURCE: source} if source else {})}
    if project:
        metadata |= {SCOPE: "project", PROJECT: resolve_project(project)}
    if agent:
        metadata |= {SCOPE: "agent", AGENT: agent}
    if expires is not None:
        if expires <= datetime.now(UTC):
            raise click.UsageError(f"--expires {expires:%Y-%m-%d %H:%M} is in the past; give a future date")
        metadata[EXPIRES_AT] = expires.timestamp()
    return metadata


def _store(backend: MemoryBackend, user: str, key: str, value: str, metadata: Mapping[str, Any]) -> None:
    if not backend.store(user, key, value, metadata):
        raise StoreError(f"{backend.backend_name} did not store {key!r}; `warmstart memory info` shows why")


def _print_stored(entry: MemoryEntry | None, as_json: bool, **more: Any) -> None:
    """Print what was stored: key, value and scope. Nothing is if memory is off."""
    if as_json:
        stored = {"key": entry.key, "value": entry.value, "scope": entry.metadata.get(SCOPE, "user")} if entry else {}
        print_json({**more, **stored})
    elif entry:
        where = "every project" if _scope(entry) == "user" else _scope(entry)
        click.echo(f"{one_line(entry.key, 80)}: {one_line(entry.value, 500)} ({where})")


def screen_memories() -> None:
    """Judge what was stored, so that hooks need not. A store that cannot be opened is of no concern here."""
    current = settings()
    if current.store_url or current.store_path.exists():
        with suppress(WarmstartError), Warmstart(current) as ws:
            ws.memory.screen()


@command.command(epilog="Example: warmstart memory promote deploy_day --yes")
@click.argument("key", shell_complete=complete_keys)
@user_option
@click.option("--project", default="", shell_complete=complete_projects, help="Keep it for this project only.")
@yes_option
@backend_option
@json_option
def promote(key: str, user: str, project: str, yes: bool, name: str | None, as_json: bool) -> None:
    """Make an agent's note yours, or a sentence that a hook noted.

    It replaces your own value of this key. Every later session is then shown it, or with --project, those of one
    project.
    """
    where = resolve_project(project)
    with open_memory(name, user, writes=True) as backend:
        delivery = Delivery(backend)
        note = _find_note(backend, user, key, where or current_project())
        if note is None:
            click.echo(f"{key} is already yours.", err=True)
            return
        if not confirm(f"Make {note.key} ({one_line(note.value, 200)}) yours?", yes=yes):
            click.echo(f"Left {key} as it was.", err=True)
            return
        left_out = (AUTHOR, SCOPE, PROJECT, CANDIDATE)
        metadata = {label: value for label, value in note.metadata.items() if label not in left_out}
        metadata[AUTHOR] = USER
        if author_of(note.metadata) != USER:
            metadata.setdefault(SOURCE, author_of(note.metadata))
        if where:
            metadata |= {SCOPE: "project", PROJECT: where}
        _store(backend, user, note.key, note.value, metadata)
        kept = backend.at(View(project=where)).retrieve(user, note.key)
        if kept is not None and kept.place != note.place:
            backend.at(view_of(note)).delete(user, note.key)
        deliver(delivery)
        click.echo(f"{note.key} is yours now.", err=True)
        _print_stored(kept, as_json, backend=backend.backend_name)
    if name is None:
        screen_memories()


def _find_note(backend: MemoryBackend, user: str, key: str, project: str) -> MemoryEntry | None:
    """The note with this key: that of the project, or the only one. None if the entry is the user's already."""
    found = [entry for entry in backend.query(user, key, limit=MAX_ENTRIES) if entry.key == key]
    notes = [entry for entry in found if entry.metadata.get(CANDIDATE) or author_of(entry.metadata) != USER]
    here = [entry for entry in notes if entry.metadata.get(PROJECT) == project]
    if not found:
        raise EntryNotFound(f"no memory has the key {key!r}; `warmstart memory list` shows the keys")
    if not notes:
        return None
    if not here and len(notes) > 1:
        raise EntryNotFound(f"several projects have a note {key!r}; run the command in the folder of one of them")
    return (here or notes)[0]


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
@click.option("--dialectic/--no-dialectic", default=None, help=f"Also ask {DIALECTIC_COST}.")
@where_options
@json_option
def search(query: tuple[str, ...], limit: int, dialectic: bool | None, where: Where, as_json: bool) -> None:
    """Find memories by words and, with the extra `vectors`, by meaning; best first.

    What a server inferred is marked and comes after the memories.
    """
    with where.open(lists=True) as (backend, view):
        found = query_entries(view, where.user, " ".join(query), limit, dialectic=dialectic)
        _print_entries(found, where, where.scope(backend), as_json)
    if any(entry.metadata.get(SOURCE) == ASKED_MODEL for entry in found):
        click.echo(f"One result is from {DIALECTIC_COST}.", err=True)


@command.command("list", epilog="Example: warmstart memory list --limit 50")
@limit_option
@where_options
@json_option
def list_command(limit: int, where: Where, as_json: bool) -> None:
    """List memories, newest first."""
    with where.open(lists=True) as (backend, view):
        found = view.query(where.user, "", limit=limit or MAX_ENTRIES)
        others = [other for other in backend.users() if other != where.user] if not found else []
        _print_entries(found, where, where.scope(backend), as_json)
    if others and not as_json:
        click.echo(f"Other users have entries: {', '.join(others[:5])} (--user).", err=True)


def _print_entries(found: list[MemoryEntry], where: Where, scope: Scope, as_json: bool) -> None:
    size = 200 if sys.stdout.isatty() else sys.maxsize
    print_rows(
        found,
        ("key", "updated", "for", "value"),
        lambda row: (one_line(row.key, 40), local(as_datetime(row.updated_at)), _scope(row), one_line(row.value, size)),
        as_json=as_json,
        data=entry_dict,
        spare=("for", "updated"),
        flexible=("key", "value"),
    )
    if not as_json:
        print_scope(len(found), "memory", scope, f"user {where.user}")


def _scope(entry: MemoryEntry) -> str:
    if entry.metadata.get("derived"):
        return "derived"
    if is_note(entry.metadata):
        name = Path(str(entry.metadata.get(PROJECT))).name
        kind = "candidate" if entry.metadata.get(CANDIDATE) else f"note by {author_of(entry.metadata)}"
        return f"{kind} in {name}"
    scope = str(entry.metadata.get(SCOPE) or "user")
    return scope if scope == "user" else f"{scope} {Path(str(entry.metadata.get(scope, ''))).name}".strip()


@command.command(epilog="Example: warmstart memory set pref_editor Helix && warmstart memory delete pref_editor --yes")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=complete_keys)
@yes_option
@where_options
@json_option
def delete(keys: tuple[str, ...], yes: bool, where: Where, as_json: bool) -> None:
    """Delete memories and their history."""
    deleted, missing = [], []
    with where.open() as (backend, view):
        delivery = Delivery(backend)
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
        if deleted and backend.deletion_note:
            click.echo(f"{backend.deletion_note}.", err=True)
    if as_json:
        print_json({"deleted": deleted, "missing": missing, "queued": queued})
    if missing:
        names = ", ".join(map(repr, missing))
        raise EntryNotFound(f"no memory has the key {names}; `warmstart memory list` shows the keys")


@command.command(epilog="Example: warmstart memory set database PostgreSQL && warmstart memory history database")
@click.argument("key", shell_complete=complete_keys)
@where_options
@json_option
def history(key: str, where: Where, as_json: bool) -> None:
    """Show the values of KEY over time, and where each came from."""
    with where.open() as (backend, view):
        versions = view.history(where.user, key)
        known = backend.backend_name
    if not versions and not as_json:
        raise EntryNotFound(f"{known} has no history of {key!r}; `warmstart memory list` shows the keys")
    print_rows(
        versions,
        ("since", "until", "from", "value"),
        lambda row: (
            local(as_datetime(row.since)),
            local(as_datetime(row.until)) or "now",
            one_line(row.session or row.source, 40),
            "(deleted)" if row.value is None else row.value,
        ),
        as_json=as_json,
        data=lambda row: (
            rename_keys(row, session="session_id") | {"since": as_datetime(row.since), "until": as_datetime(row.until)}
        ),
        spare=("from",),
    )


@command.command(epilog="Example: warmstart memory info")
@click.option("--retry", is_flag=True, help="Resend what the server rejected.")
@user_option
@backend_option
@json_option
def info(retry: bool, user: str, name: str | None, as_json: bool) -> None:
    """Show which backend is in use, whether it works, and how many memories it has."""
    current = settings()
    with closing(find_backend(name) if name else select_backend(current)) as backend:
        available = backend.is_available()
        if retry:
            _retry(backend)
        data: dict[str, Any] = {
            "backend": backend.backend_name,
            "is_available": available,
            "is_cloud": backend.is_cloud,
            "server": _server(backend, user) if available else None,
            "user": user,
            "entries": len(backend.list_keys(user)) if available else None,
            "users": len(backend.users()) if available else None,
            "max_value": current.memory_max_value,
            "backends": backend_names(),
        }
        problem = "" if available else why_not(backend)
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
    if backend.status() is None:
        raise ConfigError(backend.problem or f"{backend.backend_name} has no server; leave out --retry")
    delivery, count = Delivery(backend), backend.retry()
    deliver(delivery)
    click.echo(f"{counted(count, 'write')} resent.", err=True)


def _server(backend: MemoryBackend, user: str) -> dict[str, Any] | None:
    """The state of the server, after fetching what is new; None for a backend without one."""
    if (status := backend.status()) is None:
        return None
    is_reachable = backend.is_reachable() and backend.sync(user, REMOTE_SECONDS)
    status = backend.status() or status
    error = "" if is_reachable else status.problem or "no answer"
    return {**asdict(status), "is_reachable": is_reachable, "error": error}


def _print_server(server: dict[str, Any]) -> None:
    state = "answers" if server["is_reachable"] else "cannot be used; showing the local copy"
    click.echo(f"{server['address']} {state}.")
    if server["error"]:
        click.echo(f"{one_line(server['error'], 200)}.")
    click.echo(f"{counted(server['waiting'], 'write')} queued.")
    for each in server["rejected"]:
        click.echo(f"Rejected: {each.key} of {each.user_id}: {one_line(each.reason, 120)}; --retry resends it")


@command.command(epilog="Example: warmstart memory vacuum")
@backend_option
def vacuum(name: str | None) -> None:
    """Erase traces of deleted memories from the free space of files and indexes."""
    with open_memory(name, writes=True) as backend:
        backend.vacuum()
        click.echo(f"Vacuumed {backend.backend_name}.", err=True)


@command.command(epilog="Example: warmstart memory evaluate --backend local")
@click.option("--backend", "names", metavar="NAME", multiple=True, help="Only this backend; repeatable.")
@json_option
def evaluate(names: tuple[str, ...], as_json: bool) -> None:
    """Compare backends: score, latency, relevance on labelled questions, and whether writes survive.

    Compares all backends unless --backend names some. It stores made-up memories for temporary users and removes them
    afterwards, so it is safe to run on a backend in use.
    """
    from warmstart.memory.evaluation import evaluate_backends, table_rows

    with ExitStack() as stack:
        backends = []
        for name in dict.fromkeys(names or backend_names()):
            try:
                backends.append(stack.enter_context(closing(find_backend(name))))
            except WarmstartError as error:
                if names:
                    raise
                click.echo(f"Skipping {name}: {error}", err=True)
        for backend in backends:
            if backend.is_cloud and backend.is_available():
                click.echo(f"{backend.backend_name} sends 700 made-up memories and queries to its server.", err=True)
        report = evaluate_backends(backends)
    if as_json:
        print_json(report)
        return
    found = report["evaluations"]
    table(("measure", *(each["backend_name"] for each in found)), table_rows(found))
    for each in found:
        for note in each["notes"]:
            click.echo(f"{each['backend_name']}: {note}.")
    click.echo(report["recommendation"])
    click.echo(f"Evaluated {local(as_datetime(report['timestamp']))}.", err=True)
