"""`warmstart templates`: versions, states, and templates as files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions, complete_templates
from warmstart.cli.options import Count, json_option, yes_option
from warmstart.cli.output import confirm, counted, local, one_line, print_json, print_rows, rename_keys, settings
from warmstart.cli.templates import NEW, author, command, kinds, print_template, settle_uses, template_dict, templates
from warmstart.cli.terminal import printable, write_data
from warmstart.errors import ConfigError, InvalidTemplate, StoreBusy, StoreCorrupt, TemplateNotFound
from warmstart.templates.lifecycle import promote
from warmstart.templates.revoke import revoke
from warmstart.templates.sharing import export, export_text, import_file, read_file
from warmstart.templates.store import CHANGEABLE, SQLTemplateStore, map_texts
from warmstart.templates.template import WarmTemplate
from warmstart.templates.text_form import diff, from_text, to_text
from warmstart.templates.validation import Problem, check, problems

_template_argument = click.argument("id", shell_complete=complete_templates)


@command.command("history", epilog=f"Example: {NEW}warmstart templates history surges")
@_template_argument
@json_option
def history(id: str, as_json: bool) -> None:
    """List the versions of a template: when, by whom and why."""
    with templates() as store:
        versions = store.versions(id)
    print_rows(
        versions,
        ("version", "at", "author", "reason"),
        lambda row: (row.number, local(row.at), one_line(row.author, 30), row.reason + " (withdrawn)" * row.withdrawn),
        as_json=as_json,
        data=lambda row: rename_keys(row, number="version"),
    )


@command.command(
    "diff", epilog=f"Example: {NEW}warmstart templates retire surges && warmstart templates diff surges 1 2"
)
@_template_argument
@click.argument("old", metavar="V1", type=Count(1))
@click.argument("new", metavar="V2", type=Count(1))
@json_option
def diff_command(id: str, old: int, new: int, as_json: bool) -> None:
    """Show what changed between two versions."""
    with templates() as store:
        lines = diff(*(store.get(id, version=version) for version in (old, new)))
    if as_json:
        print_json({"from": old, "to": new, "changes": lines})
    elif not lines:
        click.echo(f"Versions {old} and {new} are identical.", err=True)
    else:
        for line in lines:
            click.echo(printable(line))


@command.command("revert", epilog=f"Example: {NEW}warmstart templates revert surges 1")
@_template_argument
@click.argument("version", metavar="V", type=Count(1))
def revert(id: str, version: int) -> None:
    """Restore an earlier version of a template, as a new version."""
    with templates() as store:
        before = store.get(id)
        template = store.revert(before.id, version, author=author())
    if template.version == before.version:
        click.echo(f"{template.id} is already the same as version {version}; nothing changed.", err=True)
    else:
        click.echo(f"Restored version {version} of {template.id} as version {template.version}.", err=True)


@command.command("edit", epilog=f"Example: {NEW}warmstart templates edit surges")
@_template_argument
def edit(id: str) -> None:
    """Edit a template as text in your editor.

    Opens $VISUAL or $EDITOR. The text is checked and becomes a new version; if it is not valid, it is kept in a file
    so that nothing is lost.
    """
    with templates() as store:
        template = store.get(id)
        if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
            raise ConfigError("there is no terminal for an editor; set VISUAL or EDITOR to one that needs none")
        with _draft(to_text(template)) as draft:
            click.edit(filename=str(draft))
            changed = from_text(_read(draft), template, author=author())
            if changed == template:
                click.echo("Nothing changed.", err=True)
                return
            check(changed)
            saved = store.change(
                template.id,
                author=author(),
                reason="edited",
                expected=template.version,
                **{name: getattr(changed, name) for name in CHANGEABLE - {"state"}},
            )
    click.echo(f"Saved {saved.id} as version {saved.version}.", err=True)


@contextmanager
def _draft(text: str) -> Iterator[Path]:
    """A temporary file to edit a text in. On failure it is kept if the text was changed."""
    handle, name = tempfile.mkstemp(prefix="warmstart-edit-", suffix=".toml")
    path, original = Path(name), text.encode()
    with os.fdopen(handle, "wb") as file:
        file.write(original)
    try:
        yield path
    except BaseException:
        if path.exists() and path.read_bytes() != original:
            click.echo(f"Your text is in {path}.", err=True)
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _read(draft: Path) -> str:
    try:
        return draft.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidTemplate("the file is not valid UTF-8; save it as UTF-8") from error


@command.command("delete", epilog=f"Example: {NEW}warmstart templates delete surges --yes")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_templates)
@yes_option
def delete(ids: tuple[str, ...], yes: bool) -> None:
    """Delete templates with all their versions."""
    with templates() as store:
        for each in dict.fromkeys(map(store.find, ids)):
            name = f"{each} ({_name(store, each)})"
            if not confirm(f"Delete {name}?", yes=yes):
                click.echo(f"Kept {name}.", err=True)
                continue
            store.delete(each, author=author())
            click.echo(f"Deleted {name}.", err=True)


def _name(store: SQLTemplateStore, id: str) -> str:
    try:
        return one_line(store.get(id).name, 60)
    except StoreCorrupt:
        return "damaged"


@command.command(
    "promote", epilog=f"Example: {NEW}warmstart templates retire surges && warmstart templates promote surges --yes"
)
@_template_argument
@yes_option
def promote_command(id: str, yes: bool) -> None:
    """Activate a template that is quarantined, a candidate or retired.

    Shows everything that could enter a prompt first, every call in full, and asks you to confirm.
    """
    with Warmstart(settings()) as ws:
        store = ws.templates.store
        settle_uses(ws, always=True)
        template = store.get(id)
        if template.state == "active":
            click.echo(f"{template.id} is already active.", err=True)
            return
        check(template)
        print_template(template, whole=True)
        if not confirm(f"Let sessions start from {template.id} ({one_line(template.origin, 60)})?", yes=yes):
            click.echo(f"{template.id} stays {template.state}.", err=True)
            return
        template = promote(store, template.id, author=author(), expected=template.version)
    click.echo(f"{template.id} is active.", err=True)


@command.command("retire", epilog=f'Example: {NEW}warmstart templates retire surges --because "the API changed"')
@_template_argument
@click.option("--because", default="", help="The reason.")
def retire(id: str, because: str) -> None:
    """Stop using a template, but keep it."""
    with templates() as store:
        template = store.get(id)
        if template.state != "retired":
            template = store.change(id, state="retired", author=author(), reason=because or "retired by the user")
    click.echo(f"{template.id} is retired.", err=True)


@command.command("revoke", epilog=f"Example: {NEW}warmstart templates revoke 58e3c7d9 --yes")
@click.argument("session", shell_complete=complete_sessions)
@yes_option
@json_option
def revoke_command(session: str, yes: bool, as_json: bool) -> None:
    """Remove everything that came from a session from all templates.

    Each affected template gets a new version without it, older versions are withdrawn, and a template with nothing
    left is retired. The session is never extracted again, and what was removed cannot be recovered from the store.
    """
    with templates() as store:
        if not confirm(f"Remove everything from session {one_line(session, 60)} from all templates for good?", yes=yes):
            click.echo("Nothing was revoked.", err=True)
            return
        done = revoke(store, session, author=author())
        try:
            store.sessions.scrub()
        except StoreBusy as error:
            click.echo(f"Revoked, but {error}.", err=True)
    print_rows(
        done,
        ("id", "name", "version", "state", "removed", "withdrawn"),
        lambda row: (row.template, one_line(row.name, 40), row.version, row.state, row.items, len(row.withdrawn)),
        as_json=as_json,
        data=lambda row: rename_keys(row, template="template_id"),
        flexible=("name",),
    )
    if not done:
        click.echo(f"No template had items from session {one_line(session, 60)}; none ever will.", err=True)


@command.command("export", epilog=f"Example: {NEW}warmstart templates export surges surges.json")
@_template_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
def export_command(id: str, file: Path, overwrite: bool) -> None:
    """Export a template to a JSON file that others can import; - prints it.

    Secrets are replaced, and the project's path and the authors are left out. If you extracted it with --keep-values,
    check the values before you share it.
    """
    with Warmstart(settings()) as ws:
        template = map_texts(ws.templates.get(id), ws.redactor.clean)
    if str(file) == "-":
        write_data(export_text(template))
        return
    export(template, file, overwrite=overwrite)
    click.echo(f"{template.id} written to {file}.", err=True)


@command.command(
    "import",
    epilog=f"Example: {NEW}warmstart templates export surges surges.json && warmstart templates import surges.json",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_command(file: Path, as_json: bool) -> None:
    """Import a template from a file.

    It is checked and quarantined: no session starts from it until you promote it.
    """
    with templates() as store:
        template = import_file(store, file)
    if as_json:
        print_json(template_dict(template))
        return
    click.echo(f"{template.id}  {printable(template.name)}: {kinds(template.seed)}")
    if template.state != "quarantined":
        click.echo(f"It is already here and {template.state}; nothing changed.", err=True)
        return
    click.echo(
        f"It is quarantined. Inspect it with `warmstart templates show {template.id}`, then activate it with "
        f"`warmstart templates promote {template.id}`.",
        err=True,
    )


@command.command("validate", epilog=f"Example: {NEW}warmstart templates validate surges")
@click.argument("what", metavar="ID|FILE", shell_complete=complete_templates)
@json_option
def validate(what: str, as_json: bool) -> None:
    """Check a template or an exported file, and list its problems.

    Exits with 1 if there are any.
    """
    try:
        template = _find(what)
        wrong = problems(template)
        name = template.id or what
    except InvalidTemplate as error:  # a file that is not a template at all
        wrong = [Problem(*_split_problem(line)) for line in error.problems] or [Problem("file", str(error))]
        name = what
    if as_json:
        print_json({"valid": not wrong, "problems": [problem._asdict() for problem in wrong]})
    else:
        for problem in wrong:
            click.echo(printable(": ".join(filter(None, problem))))
        result = f"has {counted(len(wrong), 'problem')}" if wrong else "is valid"
        click.echo(f"{one_line(name, 80)} {result}.", err=True)
    if wrong:
        sys.exit(1)


def _find(what: str) -> WarmTemplate:
    path = Path(what)
    if path.is_file():
        return read_file(path)
    try:
        with templates() as store:
            return store.get(what)
    except TemplateNotFound:
        if "/" in what or path.suffix == ".json":
            raise TemplateNotFound(f"there is no file {what!r}, and no template with that name") from None
        raise


def _split_problem(line: str) -> tuple[str, str]:
    where, separator, what = line.partition(": ")
    return (where, what) if separator else ("", line)
