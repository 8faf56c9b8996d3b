"""`warmstart memory import`, `export` and `copy`: between files and backends."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from warmstart.cli.memory_options import (
    MAX_ENTRIES,
    Where,
    backend_file,
    backend_option,
    check_user,
    deliver,
    offline_option,
    open_available,
    open_memory,
    stays_here,
    synchronize,
    user_option,
    where_options,
)
from warmstart.cli.options import current_project, json_option, user_home, yes_option
from warmstart.cli.output import confirm, counted, one_line, print_json, progress_bar, settings, table
from warmstart.cli.terminal import write_data
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
from warmstart.memory.remote import Delivery, Remote
from warmstart.memory.values import EXPIRES_AT, SOURCE, MemoryEntry, View
from warmstart.redact.redactor import Redactor, configured_redactor
from warmstart.sessions.projects import project_of, resolve_project
from warmstart.storage.files import write_private


@click.command("import", epilog="Example: warmstart memory import --from hermes --from claude-code --dry-run")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "agents",
    type=click.Choice(AGENTS[:-1]),
    multiple=True,
    help="Import this agent's memory files; repeatable.",
)
@click.option("--project", default="", help="Also read the files of this project. Default: the current one.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported.")
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
    """Import memory files of Hermes, Claude Code or Codex, or an export.

    Reads Hermes' MEMORY.md and USER.md; CLAUDE.md, CLAUDE.local.md, rules and the memory folder of Claude Code;
    AGENTS.md and the memories of Codex. Entries from a project's files apply to that project only. Importing
    again writes only what changed. Nothing is removed, and the files are not modified.
    """
    if not files and not agents:
        raise click.UsageError("give FILES, or --from hermes, --from claude-code or --from codex")
    where, folder = resolve_project(project) or current_project(), Path(project or ".")
    tree = project_of(str(folder.absolute())) if folder.is_dir() else ""
    chosen = [MemoryFile(path.resolve(), agent_of(path.resolve())) for path in files]
    for agent in agents:
        found = memory_files(agent, os.environ, user_home(), where, tree=tree)
        if not found:
            click.echo(f"No memory files of {agent} found.", err=True)
        chosen += found
    written: list[dict[str, Any]] = []
    present = 0
    redactor = configured_redactor(settings())
    with open_memory(name, user, writes=True) as backend:
        delivery = Delivery(backend)
        for file in chosen:
            for entry in read_file(file):
                shown = _without_secrets(entry, redactor)
                if _is_there(backend, user, entry, shown):
                    present += 1
                    continue
                written.append({"key": shown.key, "value": shown.value, "metadata": shown.metadata})
                if not dry_run and not backend.store(user, entry.key, entry.value, entry.metadata):
                    raise StoreError(
                        f"{backend.backend_name} did not keep {entry.key!r}; run the import again to continue"
                    )
        queued = deliver(delivery)
        here = sum(bool(stays_here(backend, each["metadata"])) for each in written)
    if as_json:
        files_read = [str(file.path) for file in chosen]
        print_json({"files": files_read, "entries": written, "present": present, "queued": queued})
        return
    if dry_run and written:
        table(("key", "value"), [(one_line(each["key"], 48), one_line(each["value"], 200)) for each in written])
    done = "would be imported" if dry_run else "imported"
    same = f", {present} already there" if present else ""
    same += f"; {here} on this machine only (see memory.honcho.send_scoped)" if here else ""
    click.echo(f"{counted(len(written), 'entry')} {done} from {counted(len(chosen), 'file')}{same}.", err=True)


def _without_secrets(entry: Found, redactor: Redactor) -> Found:
    given = prepared(entry.key, entry.value, entry.metadata, view=None, redactor=redactor)
    return Found(given.key, given.value, json.loads(given.metadata) if given.metadata else {})


def _is_there(backend: MemoryBackend, user: str, entry: Found, shown: Found) -> bool:
    """Whether the backend already has this entry in its scope, with or without its secrets."""
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
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@offline_option
@where_options
def export_command(
    format: Format,
    output: Path | None,
    offline: bool,
    where: Where,
) -> None:
    """Export memories as Markdown, or as one of Hermes' files within its size limit.

    Entries that do not fit are listed on standard error. The Markdown can be imported again.
    """
    redactor = configured_redactor(settings())
    with where.open(whole=not offline) as (_, view):
        entries = view.query(where.user, "", limit=MAX_ENTRIES)
    for entry in entries:
        entry.value = redactor.redact(entry.value).text
    made = export_file(entries, format, title=f"Memory of {where.user}")
    if output is None:
        write_data(made.text if made.text.endswith("\n") else f"{made.text}\n")
    else:
        write_private(output, [made.text])
        written = len(entries) - len(made.left_out)
        click.echo(f"{counted(written, 'entry')} written to {output}.", err=True)
    for key, reason in made.left_out:
        click.echo(f"Left out {key}: {reason}.", err=True)


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
    callback=check_user,
    help="Only this user; repeatable. Default: all users.",
)
@offline_option
@yes_option
@json_option
def copy(target: str, source: str | None, users: tuple[str, ...], offline: bool, yes: bool, as_json: bool) -> None:
    """Copy all entries with their history into another backend, then compare the two.

    Run it again if it is interrupted. Entries that are newer in the target, or exist only there, are not touched. To
    switch to the other backend, set memory.backend in config.toml.
    """
    with open_memory(source, everyone=True, whole=not offline) as here:
        there = open_available(target)
        try:
            if isinstance(there, NullBackend):
                raise ConfigError(f"{target!r} stores nothing; name another backend, or a file")
            if _is_same(source, here, target, there):
                raise ConfigError(f"{target!r} is the backend you copy from; name another one")
            _ask_before_leaving(here, there, yes)
            synchronize(there, everyone=True)
            delivery = Delivery(there)
            with progress_bar("Copying") as progress:
                copied = copy_memory(here, there, users=users, progress=progress)
            queued = deliver(delivery)
        finally:
            there.close()
    _print_copied(copied, target, queued, as_json)
    if copied.differences:
        more = f" and {len(copied.differences) - 1} more" if len(copied.differences) > 1 else ""
        raise StoreError(f"the copy in {target!r} differs: {copied.differences[0]}{more}")


def _is_same(source: str | None, here: MemoryBackend, target: str, there: MemoryBackend) -> bool:
    """Whether both are the same backend: of one kind, and in one file."""
    kept = settings().store_path
    files = [(backend_file(name) if name else None) or kept for name in (source, target)]
    return here.backend_name == there.backend_name and files[0].resolve() == files[1].resolve()


def _ask_before_leaving(here: MemoryBackend, there: MemoryBackend, yes: bool) -> None:
    if not there.is_cloud or here.is_cloud:
        return
    scoped = ", except entries that are scoped or expire" if stays_here(there, {EXPIRES_AT: 0}) else ""
    click.echo(f"Entries copied to {there.backend_name} leave this machine{scoped}.", err=True)
    if not confirm("Copy them?", yes=yes):
        raise click.Abort


def _print_copied(copied: CopiedMemory, target: str, queued: bool, as_json: bool) -> None:
    if as_json:
        print_json({"to": target, **asdict(copied), "queued": queued})
        return
    present = f", {copied.present} already there" if copied.present else ""
    former = f", with {counted(copied.versions, 'previous value')}" if copied.versions else ""
    click.echo(
        f"{counted(copied.entries, 'entry')} of {counted(copied.users, 'user')} copied to {target}{former}{present}."
    )
    for name in copied.newer:
        click.echo(f"Not copied, because the target is newer: {name}.", err=True)
    for name in copied.undeleted:
        click.echo(f"Deleted in the source but still in the target: {name}.", err=True)
    for line in copied.lost:
        click.echo(f"Not copied: {line}.", err=True)
