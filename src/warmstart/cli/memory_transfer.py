"""`warmstart memory import`, `export` and `copy`: between files and backends."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from warmstart.cli.memory import (
    Where,
    backend_file,
    backend_option,
    check_user,
    command,
    deliver,
    open_available,
    open_memory,
    stays_local,
    synchronize,
    user_option,
    where_options,
)
from warmstart.cli.options import FILE, current_project, json_option, user_home, yes_option
from warmstart.cli.output import confirm, print_json, settings, table
from warmstart.cli.terminal import counted, one_line, write_data
from warmstart.errors import ConfigError, StoreError
from warmstart.memory.backend import MAX_ENTRIES, Delivery, MemoryBackend, NullBackend
from warmstart.memory.transfer import (
    AGENTS,
    FORMATS,
    Agent,
    Exported,
    Format,
    MemoryFile,
    Transfer,
    agent_of,
    export_file,
    from_json,
    import_file,
    load_records,
    memory_files,
    read_file,
    read_text,
    to_json,
)
from warmstart.memory.values import EXPIRES_AT
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.projects import project_of, resolve_project
from warmstart.storage.files import write_private

_offline_option = click.option("--offline", is_flag=True, help="Use the local copy if the server does not answer.")


@command.command("import", epilog="Example: warmstart memory import --from hermes --from claude-code --dry-run")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from", "agents", type=click.Choice(AGENTS), multiple=True, help="Import this agent's memory files; repeatable."
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
    """Import memory files of Hermes, Claude Code or Codex, or a JSON export.

    Reads Hermes' MEMORY.md and USER.md; CLAUDE.md, CLAUDE.local.md, rules and the memory folder of Claude Code;
    AGENTS.md and the memories of Codex. Entries from a project's files apply to that project only. Importing a file
    again replaces what it said before. Text that tries to instruct an agent is refused and listed.
    """
    if not files and not agents:
        raise click.UsageError("give FILES, or --from hermes, --from claude-code or --from codex")
    where, folder = resolve_project(project) or current_project(), Path(project or ".")
    tree = project_of(str(folder.absolute())) if folder.is_dir() else ""
    chosen = [MemoryFile(path.resolve(), agent_of(path.resolve())) for path in files]
    for agent in agents:
        of_agent = memory_files(agent, os.environ, user_home(), where, tree=tree)
        if not of_agent:
            click.echo(f"No memory files of {agent} found.", err=True)
        chosen += of_agent
    redactor = configured_redactor(settings())
    done = Transfer()
    with open_memory(name, user, writes=True) as backend:
        delivery = Delivery(backend)
        for file in chosen:
            if file.path.suffix == ".json":
                for owner, records in from_json(read_text(file.path), user if user != "default" else "").items():
                    load_records(backend, owner, records, dry_run=dry_run, check=True, into=done)
            else:
                redacts, found = settings().memory_redact or backend.is_cloud, read_file(file)
                source = str(file.path)
                import_file(backend, user, source, found, redactor, redacts=redacts, dry_run=dry_run, into=done)
        queued = deliver(delivery)
        here = sum(bool(stays_local(backend, each["metadata"])) for each in done.entries)
    for key, reason in done.refused:
        click.echo(f"Refused {key}: it {reason}.", err=True)
    if as_json:
        print_json({"files": [str(file.path) for file in chosen], **asdict(done), "queued": queued})
        return
    if dry_run and done.entries:
        table(("key", "value"), [(one_line(each["key"], 48), one_line(each["value"], 200)) for each in done.entries])
    same = f", {done.present} already there" if done.present else ""
    same += f", {len(done.replaced)} replaced" if done.replaced else ""
    same += f", {len(done.refused)} refused" if done.refused else ""
    same += f"; {here} on this machine only (see memory.honcho.send_scoped)" if here else ""
    verb = "would be imported" if dry_run else "imported"
    click.echo(f"{counted(len(done.written), 'entry')} {verb} from {counted(len(chosen), 'file')}{same}.", err=True)
    for key in done.newer:
        click.echo(f"Not imported, because the one here is newer: {key}.", err=True)


@command.command("export", epilog="Example: warmstart memory export --format hermes-user -o USER.md")
@click.option("--format", "format", type=click.Choice(FORMATS), default="json", show_default=True)
@click.option("-o", "--output", type=FILE, help="Write to this file.")
@_offline_option
@where_options
def export_command(format: Format, output: Path | None, offline: bool, where: Where) -> None:
    """Export memories as JSON with their history, as Markdown, or as one of Hermes' files within its size limit.

    JSON covers all scopes of the user and can be imported again. Entries that do not fit are listed on standard error.
    """
    redactor = configured_redactor(settings())
    with where.open(whole=not offline) as (backend, view):
        if format == "json":
            text = json.dumps(to_json(backend, [where.user]), ensure_ascii=False, indent=2)
            made = Exported(f"{text}\n", len(backend.dump(where.user)), [])
        else:
            entries = view.query(where.user, "", limit=MAX_ENTRIES)
            for entry in entries:
                entry.value = redactor.redact(entry.value).text
            made = export_file(entries, format, title=f"Memory of {where.user}")
    if output is None:
        write_data(made.text if made.text.endswith("\n") else f"{made.text}\n")
    else:
        write_private(output, [made.text])
        click.echo(f"{counted(made.written, 'entry')} written to {output}.", err=True)
    for key, reason in made.left_out:
        click.echo(f"Left out {key}: {reason}.", err=True)


@command.command(epilog="Example: warmstart memory copy --to backup.db")
@click.option("--to", "target", metavar="BACKEND", required=True, help="The backend to copy to, or a SQLite file.")
@click.option(
    "--from",
    "source",
    metavar="BACKEND",
    help="The backend to copy from, or a SQLite file. Default: the configured one.",
)
@click.option(
    "--user", "users", multiple=True, callback=check_user, help="Only this user; repeatable. Default: all users."
)
@_offline_option
@yes_option
@json_option
def copy(target: str, source: str | None, users: tuple[str, ...], offline: bool, yes: bool, as_json: bool) -> None:
    """Copy all entries with their history into another backend.

    Run it again if it is interrupted. Entries that are newer in the target, or exist only there, are not touched. To
    switch to the other backend, set memory.backend in config.toml.
    """
    done = Transfer()
    with open_memory(source, everyone=True, whole=not offline) as here, closing(open_available(target)) as there:
        if isinstance(there, NullBackend):
            raise ConfigError(f"{target!r} stores nothing; name another backend, or a file")
        if _is_same(source, here, target, there):
            raise ConfigError(f"{target!r} is the backend you copy from; name another one")
        _ask_before_leaving(here, there, yes)
        synchronize(there, everyone=True)
        delivery = Delivery(there)
        chosen = users or tuple(here.users())
        for user in chosen:
            load_records(there, user, here.dump(user), into=done)
        missing = [user for user in chosen if len(there.dump(user)) < len(here.dump(user))]
        queued = deliver(delivery)
    if as_json:
        print_json({"to": target, "users": len(chosen), **asdict(done), "queued": queued})
    else:
        present = f", {done.present} already there" if done.present else ""
        what = f"{counted(len(done.written), 'entry')} of {counted(len(chosen), 'user')}"
        click.echo(f"{what} copied to {target}{present}.")
    for key in done.newer:
        click.echo(f"Not copied, because the target is newer: {key}.", err=True)
    if missing:
        raise StoreError(f"the copy in {target!r} is incomplete for {', '.join(missing)}; run it again")


def _is_same(source: str | None, here: MemoryBackend, target: str, there: MemoryBackend) -> bool:
    """Whether both are the same backend: of one kind, and in one file."""
    kept = settings().store_path
    files = [(backend_file(name) if name else None) or kept for name in (source, target)]
    return here.backend_name == there.backend_name and files[0].resolve() == files[1].resolve()


def _ask_before_leaving(here: MemoryBackend, there: MemoryBackend, yes: bool) -> None:
    if not there.is_cloud or here.is_cloud:
        return
    scoped = ", except entries that are scoped or expire" if stays_local(there, {EXPIRES_AT: 0}) else ""
    click.echo(f"Entries copied to {there.backend_name} leave this machine{scoped}.", err=True)
    if not confirm("Copy them?", yes=yes):
        raise click.Abort
