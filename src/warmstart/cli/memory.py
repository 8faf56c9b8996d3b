"""`warmstart memory`: what is known, in whichever backend; moving, importing and comparing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from warmstart.cli.memory_report import print_report
from warmstart.cli.output import counted, local, one_line, print_json, printable, settings, table
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import stored_project
from warmstart.errors import ConfigError, EntryNotFound, StoreError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.copying import CopiedMemory, copy_memory
from warmstart.memory.files import AGENTS, FORMATS, Agent, Format, MemoryFile, agent_of, export_file, memory_files, read_file
from warmstart.memory.null import NullBackend
from warmstart.memory.selection import backend_names, get_memory_backend, open_backend, reset_backend
from warmstart.memory.tool import entry_dict, moment
from warmstart.memory.values import AGENT, EXPIRES_AT, PROJECT, SCOPE, SOURCE, MemoryEntry, View
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.projects import project_of

_AHEAD = re.compile(r"(\d+)([hdw])")
_ALL = 1_000_000
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Until(click.ParamType[datetime]):
    """A date, a time, or how long from now: `2027-01-31`, `2027-01-31T12:00`, `30d`, `12h`, `2w`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if ahead := _AHEAD.fullmatch(value):
                unit = {"h": "hours", "d": "days", "w": "weeks"}[ahead.group(2)]
                return datetime.now(UTC) + timedelta(**{unit: int(ahead.group(1))})
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a date; write 2027-01-31, or 30d for thirty days from now", param, ctx)


def _user(command: _Command) -> _Command:
    return click.option("--user", default="default", show_default=True, help="Whose memory.")(command)


def _backend(command: _Command) -> _Command:
    return click.option("--backend", "name", metavar="NAME", help="Another backend than the configured one.")(command)


def _where(command: _Command) -> _Command:
    """From where memory is looked at."""
    command = click.option("--all-projects", is_flag=True, help="Whatever project or agent it is for.")(command)
    command = click.option("--agent", default="", help="As this agent sees it.")(command)
    return click.option(
        "--project", default="", help="As seen from this project: a folder or a name. Default: the current one."
    )(command)


def _json(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)


@contextmanager
def _memory(name: str | None) -> Iterator[MemoryBackend]:
    """The configured backend or the one named, for as long as the command runs."""
    if name:
        backend = _opened(name)
        try:
            yield backend
        finally:
            backend.close()
        return
    try:
        yield get_memory_backend(settings(), host=True)
    finally:
        reset_backend()


def _opened(name: str) -> MemoryBackend:
    backend = open_backend(name, settings())
    if not backend.is_available():
        backend.close()
        raise ConfigError(f"the backend {name!r} is not available here; `warmstart memory info --backend {name}` says more")
    return backend


def _seen(backend: MemoryBackend, project: str, agent: str, everywhere: bool) -> MemoryBackend:
    if everywhere:
        if project or agent:
            raise click.UsageError("--all-projects contradicts --project and --agent; leave it out")
        return backend
    return backend.at(View(project=stored_project(project) or project_of(str(Path.cwd())), agent=agent))


@click.group(epilog='Example: warmstart memory set pref_editor "Helix" && warmstart memory search editor')
def command() -> None:
    """Keep, find and move what is known: preferences and facts that outlive sessions.

    An entry is the user's, or of one project or agent; the narrowest that fits wins. Secrets are replaced before
    anything is kept.
    """


@command.command("set", epilog='Example: warmstart memory set test_command "make check" --project . --expires 90d')
@click.argument("key")
@click.argument("value")
@_user
@click.option("--project", default="", help="Only for this project: a folder, or a name.")
@click.option("--agent", default="", help="Only for this agent.")
@click.option("--expires", type=Until(), help="Until then: 2027-01-31, 30d, 12h.")
@click.option("--source", default="command line", show_default=True, help="Where it is from.")
@_backend
def set_command(
    key: str, value: str, user: str, project: str, agent: str, expires: datetime | None, source: str, name: str | None
) -> None:
    """Remember VALUE under KEY, in place of what it was before, which becomes history."""
    if project and agent:
        raise click.UsageError("--project and --agent contradict each other; give one of them")
    if not key.strip() or not value.strip():
        raise click.UsageError("KEY and VALUE must not be empty; `warmstart memory delete KEY` forgets a key")
    metadata: dict[str, Any] = {SOURCE: source} if source else {}
    if project:
        metadata |= {SCOPE: "project", PROJECT: stored_project(project)}
    if agent:
        metadata |= {SCOPE: "agent", AGENT: agent}
    if expires is not None:
        if expires <= datetime.now(UTC):
            raise click.UsageError(f"--expires {expires:%Y-%m-%d %H:%M} is over already; give a time to come")
        metadata[EXPIRES_AT] = expires.timestamp()
    with _memory(name) as backend:
        if not backend.store(user, key, value, metadata):
            raise StoreError(f"{backend.backend_name} did not keep {key!r}; `warmstart memory info` says how it is")
        if isinstance(backend, NullBackend):
            click.echo(f"Memory is switched off: {key} was not kept. memory.backend in config.toml changes that.", err=True)
        else:
            click.echo(f"Remembered {key}.", err=True)


@command.command(epilog="Example: warmstart memory get pref_editor")
@click.argument("key")
@_user
@_where
@_backend
@_json
def get(key: str, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool) -> None:
    """Print what KEY is worth."""
    with _memory(name) as backend:
        entry = _seen(backend, project, agent, all_projects).retrieve(user, key)
    if entry is None:
        raise EntryNotFound(f"nothing is known as {key!r}; `warmstart memory list` shows the keys")
    if as_json:
        print_json(entry_dict(entry))
    else:
        click.echo(printable(entry.value) if sys.stdout.isatty() else entry.value)


@command.command(epilog='Example: warmstart memory search "which editor"')
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many entries.")
@_user
@_where
@_backend
@_json
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
    with _memory(name) as backend:
        found = _seen(backend, project, agent, all_projects).query(user, " ".join(query), limit=limit)
    _print_entries(found, as_json, "Nothing found.")


@command.command("list", epilog="Example: warmstart memory list --limit 50")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most so many; 0 for all.")
@_user
@_where
@_backend
@_json
def list_command(
    limit: int, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool
) -> None:
    """List entries, the newest first."""
    with _memory(name) as backend:
        found = _seen(backend, project, agent, all_projects).query(user, "", limit=limit or _ALL)
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


@command.command(epilog="Example: warmstart memory delete pref_editor")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_user
@_where
@_backend
def delete(
    keys: tuple[str, ...], yes: bool, user: str, project: str, agent: str, all_projects: bool, name: str | None
) -> None:
    """Forget entries."""
    missing = []
    with _memory(name) as backend:
        seen = _seen(backend, project, agent, all_projects)
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
        raise EntryNotFound(f"nothing is known as {', '.join(map(repr, missing))}; `warmstart memory list` shows the keys")


@command.command(epilog="Example: warmstart memory history billing_database")
@click.argument("key")
@_user
@_where
@_backend
@_json
def history(key: str, user: str, project: str, agent: str, all_projects: bool, name: str | None, as_json: bool) -> None:
    """Show what KEY was before, since when, and from where."""
    with _memory(name) as backend:
        versions = _seen(backend, project, agent, all_projects).history(user, key)
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
@_user
@_backend
@_json
def info(user: str, name: str | None, as_json: bool) -> None:
    """Show which backend is used, whether it is there, and what is in it."""
    current = settings()
    backend = open_backend(name, current) if name else get_memory_backend(current, host=True)
    try:
        available = backend.is_available()
        data = {
            "backend": backend.backend_name,
            "is_available": available,
            "is_cloud": backend.is_cloud,
            "user": user,
            "entries": len(backend.list_keys(user)) if available else None,
            "users": len(backend.users()) if available else None,
            "max_value": current.memory_max_value,
            "backends": backend_names(),
        }
    finally:
        if name:
            backend.close()
        reset_backend()
    if as_json:
        print_json(data)
        return
    click.echo(f"{data['backend']}, {'available' if available else 'not available'}")
    click.echo("What is stored leaves this machine." if backend.is_cloud else "What is stored stays on this machine.")
    if available:
        click.echo(f"{counted(data['entries'] or 0, 'key')} of {user!r}, {counted(data['users'] or 0, 'user')} in all.")
    click.echo(f"Backends: {', '.join(backend_names())}")


@command.command("import", epilog="Examples: warmstart memory import --from claude-code · warmstart memory import USER.md")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from", "agents", type=click.Choice(AGENTS[:-1]), multiple=True, help="The files of this agent, where it has them."
)
@click.option("--project", default="", help="The project whose files to read, too. Default: the current one.")
@click.option("--dry-run", is_flag=True, help="Show what would be remembered.")
@_user
@_backend
@_json
def import_command(
    files: tuple[Path, ...],
    agents: tuple[Agent, ...],
    project: str,
    dry_run: bool,
    user: str,
    name: str | None,
    as_json: bool,
) -> None:
    """Remember what stands in the memory files of Hermes, Claude Code or Codex, or in an export.

    Reads Hermes' MEMORY.md and USER.md; CLAUDE.md, CLAUDE.local.md, rules and the memory folder of Claude Code; AGENTS.md
    and the memories of Codex. What stands in a project's files is remembered for that project. Importing again writes
    only what changed; nothing is removed, and the files are left alone.
    """
    if not files and not agents:
        raise click.UsageError("give FILES, or --from hermes, --from claude-code or --from codex")
    where = stored_project(project) or project_of(str(Path.cwd()))
    chosen = [MemoryFile(path.resolve(), agent_of(path.resolve())) for path in files]
    for agent in agents:
        found = memory_files(agent, os.environ, Path.home(), where)
        if not found:
            click.echo(f"There are no memory files of {agent} here.", err=True)
        chosen += found
    written: list[dict[str, Any]] = []
    present = 0
    with _memory(name) as backend:
        for file in chosen:
            seen = backend.at(View(project=file.project))
            for entry in read_file(file):
                there = seen.retrieve(user, entry.key)
                if there is not None and (there.value, there.metadata.get(SOURCE)) == (entry.value, entry.metadata[SOURCE]):
                    present += 1
                    continue
                written.append({"key": entry.key, "value": entry.value, "metadata": entry.metadata})
                if not dry_run and not backend.store(user, entry.key, entry.value, entry.metadata):
                    raise StoreError(f"{backend.backend_name} did not keep {entry.key!r}; import again to go on")
    if as_json:
        print_json({"files": [str(file.path) for file in chosen], "entries": written, "present": present})
        return
    if dry_run and written:
        table(("key", "value"), [(one_line(each["key"], 48), one_line(each["value"], 200)) for each in written])
    done = "would be remembered" if dry_run else "remembered"
    same = f", {present} were there already" if present else ""
    click.echo(f"{counted(len(written), 'memory').replace('memorys', 'memories')} {done} from {counted(len(chosen), 'file')}{same}.", err=True)


@command.command("export", epilog="Example: warmstart memory export --format hermes-user -o USER.md")
@click.option("--format", "format", type=click.Choice(FORMATS), default="markdown", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the terminal.")
@_user
@_where
@_backend
def export_command(
    format: Format,
    output: Path | None,
    user: str,
    project: str,
    agent: str,
    all_projects: bool,
    name: str | None,
) -> None:
    """Write what is remembered as Markdown, or as one of Hermes' files, within its limit.

    What does not fit is named on standard error. Markdown can be imported again as it is.
    """
    redactor = configured_redactor(settings())
    with _memory(name) as backend:
        entries = _seen(backend, project, agent, all_projects).query(user, "", limit=_ALL)
    for entry in entries:
        entry.value = redactor.redact(entry.value).text
    made = export_file(entries, format, title=f"Memory of {user}")
    if output is None:
        click.echo(printable(made.text) if sys.stdout.isatty() else made.text, nl=not made.text.endswith("\n"))
    else:
        output.write_bytes(made.text.encode("utf-8", "replace"))
        written = len(entries) - len(made.left_out)
        click.echo(f"{counted(written, 'entry').replace('entrys', 'entries')} written to {output}.", err=True)
    for key, reason in made.left_out:
        click.echo(f"Left out {key}: {reason}.", err=True)


@command.command(epilog="Example: warmstart memory copy --to postgres")
@click.option("--to", "target", metavar="BACKEND", required=True, help="The backend to copy to.")
@click.option("--from", "source", metavar="BACKEND", help="The backend to copy from. Default: the configured one.")
@click.option("--user", "users", multiple=True, help="Only this user's; may be given several times. Default: all.")
@click.option("--yes", is_flag=True, help="Do not ask before data leaves the machine.")
@_json
def copy(target: str, source: str | None, users: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Copy all entries with their history into another backend, and compare the two.

    If it is interrupted, run it again. What the other backend has besides, or knows newer, is left alone. Set
    memory.backend in config.toml to use the other one from then on.
    """
    with _memory(source) as here:
        there = _opened(target)
        try:
            if here.backend_name == there.backend_name:
                raise ConfigError(f"{target!r} is the backend that is to be copied; give another one")
            _ask_before_leaving(here, there, yes)
            with progress_bar("Copying") as progress:
                copied = copy_memory(here, there, users=users, progress=progress)
        finally:
            there.close()
    _print_copied(copied, target, as_json)
    if copied.differences:
        more = f" and {len(copied.differences) - 1} more" if len(copied.differences) > 1 else ""
        raise StoreError(f"the copy in {target!r} is not the same: {copied.differences[0]}{more}")


def _ask_before_leaving(here: MemoryBackend, there: MemoryBackend, yes: bool) -> None:
    if not there.is_cloud or here.is_cloud:
        return
    click.echo(f"What is copied to {there.backend_name} leaves this machine.", err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("this sends memories away from this machine; say so with --yes")
    click.confirm("Copy it there?", abort=True)


def _print_copied(copied: CopiedMemory, target: str, as_json: bool) -> None:
    if as_json:
        print_json({"to": target, **_fields(copied)})
        return
    present = f", {copied.present} there already" if copied.present else ""
    former = f", with {counted(copied.versions, 'former value')}" if copied.versions else ""
    entries = f"{copied.entries} {'entry' if copied.entries == 1 else 'entries'}"
    click.echo(f"{entries} of {counted(copied.users, 'user')} copied to {target}{former}{present}.")
    for name in copied.newer:
        click.echo(f"Left alone, as it is newer there: {name}.", err=True)


def _fields(copied: CopiedMemory) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(copied)


@command.command(epilog="Example: warmstart memory evaluate --backend local --backend honcho --html memory.html")
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
@_json
def evaluate(names: tuple[str, ...], sizes: tuple[int, ...], seconds: float, html: Path | None, as_json: bool) -> None:
    """Compare backends: a score, and relevance, latency, reliability, cost and forgetting beside it.

    Without --backend all that are known, available or not. Everything is done with invented memories of users that
    exist only for it, and is removed afterwards: it can be run on a backend in use.
    """
    from warmstart.memory.evaluation import evaluate_backends
    from warmstart.memory.evaluation.evaluate import SIZES

    backends = _to_evaluate(names)
    try:
        for backend in backends:
            if backend.is_cloud and backend.is_available():
                click.echo(f"{backend.backend_name}: 500 invented memories and 200 questions leave this machine.", err=True)
        with progress_bar("Evaluating") as progress:
            report = evaluate_backends(backends, sizes=sizes or SIZES, seconds=seconds, progress=progress)
    finally:
        for backend in backends:
            backend.close()
    if html is not None:
        from warmstart.memory.evaluation.page import page

        html.write_bytes(page(report).encode("utf-8", "replace"))
        click.echo(f"Evaluation of {counted(len(backends), 'backend')} written to {html}.", err=True)
    if as_json:
        print_json(report.to_dict())
    elif html is None:
        print_report(report)


def _to_evaluate(names: tuple[str, ...]) -> list[MemoryBackend]:
    """The backends named, or all; one that is not set up is left out unless it was asked for."""
    opened: list[MemoryBackend] = []
    for name in dict.fromkeys(names or backend_names()):
        try:
            opened.append(open_backend(name, settings()))
        except WarmstartError as error:
            if names:
                for backend in opened:
                    backend.close()
                raise
            click.echo(f"{name} is left out: {error}", err=True)
    return opened
