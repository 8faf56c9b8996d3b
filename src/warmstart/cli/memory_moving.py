"""Moving memory: into and out of files, and from one backend to another."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from warmstart.cli.memory_options import (
    ALL,
    backend_option,
    delivering,
    file_of,
    json_option,
    memory,
    named_users,
    offline_option,
    opened,
    seen_from,
    user_option,
    where_options,
)
from warmstart.cli.output import counted, one_line, print_json, printable, settings, table
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import stored_project
from warmstart.errors import ConfigError, StoreError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.copying import CopiedMemory, copy_memory
from warmstart.memory.entries import prepared
from warmstart.memory.files import (
    AGENTS,
    FORMATS,
    Agent,
    Format,
    Found,
    MemoryFile,
    agent_of,
    export_file,
    memory_files,
    read_file,
)
from warmstart.memory.kept import place_of
from warmstart.memory.null import NullBackend
from warmstart.memory.remote import Remote
from warmstart.memory.values import SOURCE, MemoryEntry, View
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import Redactor
from warmstart.sessions.projects import project_of


@click.command("import", epilog="Example: warmstart memory import --from hermes --from claude-code --dry-run")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "agents",
    type=click.Choice(AGENTS[:-1]),
    multiple=True,
    help="The files of this agent, where it has them.",
)
@click.option("--project", default="", help="The project whose files to read, too. Default: the current one.")
@click.option("--dry-run", is_flag=True, help="Show what would be remembered.")
@user_option
@backend_option
@json_option
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

    Reads Hermes' MEMORY.md and USER.md; CLAUDE.md, CLAUDE.local.md, rules and the memory folder of Claude Code;
    AGENTS.md and the memories of Codex. What stands in a project's files is remembered for that project. Importing
    again writes only what changed; nothing is removed, and the files are left alone.
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
    redactor = configured_redactor(settings())
    with memory(name, user, writes=True) as backend:
        for file in chosen:
            for entry in read_file(file):
                shown = _without_secrets(entry, redactor)
                if _is_there(backend, user, entry, shown):
                    present += 1
                    continue
                written.append({"key": shown.key, "value": shown.value, "metadata": shown.metadata})
                if not dry_run and not backend.store(user, entry.key, entry.value, entry.metadata):
                    raise StoreError(f"{backend.backend_name} did not keep {entry.key!r}; import again to go on")
    if as_json:
        print_json({"files": [str(file.path) for file in chosen], "entries": written, "present": present})
        return
    if dry_run and written:
        table(("key", "value"), [(one_line(each["key"], 48), one_line(each["value"], 200)) for each in written])
    done = "would be remembered" if dry_run else "remembered"
    same = f", {present} were there already" if present else ""
    click.echo(f"{_entries(len(written))} {done} from {counted(len(chosen), 'file')}{same}.", err=True)


def _without_secrets(entry: Found, redactor: Redactor) -> Found:
    given = prepared(entry.key, entry.value, entry.metadata, view=None, redactor=redactor)
    return Found(given.key, given.value, json.loads(given.metadata) if given.metadata else {})


def _is_there(backend: MemoryBackend, user: str, entry: Found, shown: Found) -> bool:
    """Whether this is kept where it belongs, as it is or, where secrets are replaced, without them."""
    where = place_of(MemoryEntry(entry.key, entry.value, user, metadata=entry.metadata))
    view = View(**{where.scope: where.place}) if where.scope != "user" else View()
    there = backend.at(view).retrieve(user, entry.key)
    if there is None or place_of(there)[1:] != place_of(MemoryEntry("", "", user, metadata=shown.metadata))[1:]:
        return False
    redacts = settings().memory_redact or isinstance(backend, Remote)
    kept = (there.value, there.metadata.get(SOURCE))
    return any(kept == (each.value, each.metadata.get(SOURCE)) for each in ((entry, shown) if redacts else (entry,)))


@click.command("export", epilog="Example: warmstart memory export --format hermes-user -o USER.md")
@click.option("--format", "format", type=click.Choice(FORMATS), default="markdown", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the terminal.")
@offline_option
@user_option
@where_options
@backend_option
def export_command(
    format: Format,
    output: Path | None,
    offline: bool,
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
    with memory(name, user, whole=not offline) as backend:
        entries = seen_from(backend, project, agent, all_projects).query(user, "", limit=ALL)
    for entry in entries:
        entry.value = redactor.redact(entry.value).text
    made = export_file(entries, format, title=f"Memory of {user}")
    if output is None:
        click.echo(printable(made.text) if sys.stdout.isatty() else made.text, nl=not made.text.endswith("\n"))
    else:
        _write(output, made.text)
        written = len(entries) - len(made.left_out)
        click.echo(f"{_entries(written)} written to {output}.", err=True)
    for key, reason in made.left_out:
        click.echo(f"Left out {key}: {reason}.", err=True)


def _write(path: Path, text: str) -> None:
    """Write a file that nobody else may read, as the store is."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened_file:
        if path.is_file():
            os.fchmod(file, 0o600)
        opened_file.write(text.encode("utf-8", "replace"))


@click.command(epilog="Example: warmstart memory copy --to backup.db")
@click.option("--to", "target", metavar="BACKEND", required=True, help="The backend to copy to, or a SQLite file.")
@click.option(
    "--from",
    "source",
    metavar="BACKEND",
    help="The backend to copy from, or a SQLite file. Default: the configured one.",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    callback=named_users,
    help="Only this user's; may be given several times. Default: all.",
)
@offline_option
@click.option("--yes", is_flag=True, help="Do not ask before data leaves the machine.")
@json_option
def copy(target: str, source: str | None, users: tuple[str, ...], offline: bool, yes: bool, as_json: bool) -> None:
    """Copy all entries with their history into another backend, and compare the two.

    If it is interrupted, run it again. What the other backend has besides, or knows newer, is left alone. Set
    memory.backend in config.toml to use the other one from then on.
    """
    with memory(source, everyone=True, whole=not offline) as here:
        there = opened(target)
        try:
            if isinstance(there, NullBackend):
                raise ConfigError(f"{target!r} keeps nothing that is copied to it; give another backend, or a file")
            if _is_same(source, here, target, there):
                raise ConfigError(f"{target!r} is the backend that is to be copied; give another one")
            _ask_before_leaving(here, there, yes)
            with delivering(there, everyone=True), progress_bar("Copying") as progress:
                copied = copy_memory(here, there, users=users, progress=progress)
        finally:
            there.close()
    _print_copied(copied, target, as_json)
    if copied.differences:
        more = f" and {len(copied.differences) - 1} more" if len(copied.differences) > 1 else ""
        raise StoreError(f"the copy in {target!r} is not the same: {copied.differences[0]}{more}")


def _is_same(source: str | None, here: MemoryBackend, target: str, there: MemoryBackend) -> bool:
    """Whether both are one: of the same kind, and not in two files."""
    kept = settings().store_path
    files = [(file_of(name) if name else None) or kept for name in (source, target)]
    return here.backend_name == there.backend_name and files[0].resolve() == files[1].resolve()


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
        print_json({"to": target, **asdict(copied)})
        return
    present = f", {copied.present} there already" if copied.present else ""
    former = f", with {counted(copied.versions, 'former value')}" if copied.versions else ""
    click.echo(f"{_entries(copied.entries)} of {counted(copied.users, 'user')} copied to {target}{former}{present}.")
    for name in copied.newer:
        click.echo(f"Left alone, as it is newer there: {name}.", err=True)
    for name in copied.undeleted:
        click.echo(f"Deleted here and still there: {name}.", err=True)
    for line in copied.lost:
        click.echo(f"Not carried over: {line}.", err=True)


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"
