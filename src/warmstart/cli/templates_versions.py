"""Commands that change a template, each as a new version, and those that look back."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from warmstart.cli.output import iso, local, one_line, print_json, printable, settings, table
from warmstart.cli.templates_options import author, json_option, templates, yes_option
from warmstart.cli.templates_report import print_rendering
from warmstart.errors import ConfigError, InvalidTemplate, StoreBusy, StoreCorrupt
from warmstart.templates.bootstrapper import WarmSessionBootstrapper
from warmstart.templates.choosing.lifecycle import promote as make_active
from warmstart.templates.differing import diff as differences
from warmstart.templates.differing import summary
from warmstart.templates.revoking import revoke as revoke_session
from warmstart.templates.rows import CHANGEABLE
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.text_form import from_text, to_text
from warmstart.templates.validation import check

_MADE = "warmstart templates extract 58e3c7d9 --name surges && "


@click.command(epilog=f"Example: {_MADE}warmstart templates history surges")
@click.argument("id")
@json_option
def history(id: str, as_json: bool) -> None:
    """Show the versions of a template: when, by whom, and why."""
    with templates() as store:
        found = store.versions(id)
    if as_json:
        print_json(
            [
                {
                    "version": version.number,
                    "at": iso(version.at),
                    "author": version.author,
                    "reason": version.reason,
                    "hash": version.hash,
                    "withdrawn": version.withdrawn,
                }
                for version in found
            ]
        )
        return
    rows = [
        (
            version.number,
            local(version.at),
            one_line(version.author, 30),
            version.reason + (" (withdrawn)" if version.withdrawn else ""),
        )
        for version in found
    ]
    table(("version", "at", "author", "reason"), rows, right=("version",))


@click.command(epilog=f"Example: {_MADE}warmstart templates retire surges && warmstart templates diff surges 1 2")
@click.argument("id")
@click.argument("old", metavar="V1", type=click.IntRange(min=1))
@click.argument("new", metavar="V2", type=click.IntRange(min=1))
@json_option
def diff(id: str, old: int, new: int, as_json: bool) -> None:
    """Show what changed between two versions."""
    with templates() as store:
        lines = differences(store.get(id, version=old), store.get(id, version=new))
    if as_json:
        print_json({"from": old, "to": new, "changes": lines})
    elif not lines:
        click.echo(f"Versions {old} and {new} say the same.", err=True)
    else:
        for line in lines:
            click.echo(printable(line))


@click.command(epilog=f"Example: {_MADE}warmstart templates revert surges 1")
@click.argument("id")
@click.argument("version", metavar="V", type=click.IntRange(min=1))
def revert(id: str, version: int) -> None:
    """Make a template as it was; that is a new version too."""
    with templates() as store:
        before = store.get(id)
        template = store.revert(before.id, version, author=author())
    if template.version == before.version:
        click.echo(f"{template.id} says what version {version} says; nothing changed.", err=True)
    else:
        click.echo(f"{template.id} is as in version {version} again; this is version {template.version}.", err=True)


@click.command(epilog=f"Example: {_MADE}warmstart templates edit surges")
@click.argument("id")
def edit(id: str) -> None:
    """Change a template in your editor, as text.

    Opens $VISUAL or $EDITOR. What is saved is checked and becomes a new version; text that cannot be used is kept in a
    file, so that nothing is lost.
    """
    with templates() as store:
        template = store.get(id)
        if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
            raise ConfigError("there is no terminal to open an editor on; set VISUAL or EDITOR to one that needs none")
        with _draft(to_text(template)) as draft:
            click.edit(filename=str(draft))
            changed = from_text(_read(draft), template, author=author())
            if changed == template:
                click.echo("Nothing changed.", err=True)
                return
            check(changed)
            kept = store.change(
                template.id,
                author=author(),
                reason=f"edited: {summary(template, changed)}",
                expected=template.version,
                **{name: getattr(changed, name) for name in CHANGEABLE - {"state"}},
            )
    click.echo(f"{kept.id} is at version {kept.version} now.", err=True)


@contextmanager
def _draft(text: str) -> Iterator[Path]:
    """A file to edit a text in. Where that fails, the file stays as soon as it holds anything new."""
    handle, name = tempfile.mkstemp(prefix="warmstart-edit-", suffix=".toml")
    path, given = Path(name), text.encode()
    with os.fdopen(handle, "wb") as file:
        file.write(given)
    try:
        yield path
    except BaseException:
        if path.exists() and path.read_bytes() != given:
            click.echo(f"Your text is in {path}.", err=True)
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _read(draft: Path) -> str:
    try:
        return draft.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidTemplate("what was saved is not text in UTF-8; save it as such") from error


@click.command(epilog=f"Example: {_MADE}warmstart templates delete surges --yes")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@yes_option
def delete(ids: tuple[str, ...], yes: bool) -> None:
    """Delete templates, with all their versions."""
    with templates() as store:
        for each in dict.fromkeys(map(store.find, ids)):
            name = f"{each} ({_name(store, each)})"
            if not yes and sys.stdin.isatty() and not click.confirm(f"Delete {name}?"):
                click.echo(f"Kept {name}.", err=True)
                continue
            store.delete(each, author=author())
            click.echo(f"Deleted {name}.", err=True)


def _name(store: SQLTemplateStore, id: str) -> str:
    try:
        return one_line(store.get(id).name, 60)
    except StoreCorrupt:
        return "damaged"


@click.command(epilog=f"Example: {_MADE}warmstart templates retire surges && warmstart templates promote surges --yes")
@click.argument("id")
@yes_option
def promote(id: str, yes: bool) -> None:
    """Let sessions start from a template that is quarantined, a candidate or retired.

    Shows what would enter their prompts first, and asks.
    """
    with templates() as store:
        template = store.get(id)
        if template.state == "active":
            click.echo(f"{template.id} is active already.", err=True)
            return
        check(template)
        if not yes and sys.stdin.isatty():
            budget = settings().templates_budget_tokens
            warm = WarmSessionBootstrapper(template, budget_tokens=budget, allow_quarantined=True)
            print_rendering(template, warm.rendering, warm.inject([]))
            if not click.confirm(f"Let sessions start from {template.id} ({one_line(template.origin, 60)})?"):
                click.echo(f"It stays {template.state}.", err=True)
                return
        template = make_active(store, template.id, author=author())
    click.echo(f"{template.id} is active.", err=True)


@click.command(epilog=f'Example: {_MADE}warmstart templates retire surges --because "the API changed"')
@click.argument("id")
@click.option("--because", default="", help="Why, in your own words.")
def retire(id: str, because: str) -> None:
    """Let no more sessions start from a template; it is kept."""
    with templates() as store:
        template = store.get(id)
        if template.state != "retired":
            template = store.set_state(template.id, "retired", author=author(), reason=because or "retired by hand")
    click.echo(f"{template.id} is retired.", err=True)


@click.command(epilog=f"Example: {_MADE}warmstart templates revoke 58e3c7d9")
@click.argument("session")
@json_option
def revoke(session: str, as_json: bool) -> None:
    """Remove everything that came from a session, in every template.

    Each template that had something of it gets a new version without it, older versions can no longer be used, and a
    template that has nothing left is retired. Nothing of the session is extracted again, and nothing of what went can
    be recovered from the store.
    """
    with templates() as store:
        done = revoke_session(store, session, author=author())
        try:
            store.sessions.scrub()
        except StoreBusy as error:
            click.echo(f"It is revoked; but {error}.", err=True)
    if as_json:
        print_json([each._asdict() for each in done])
    elif not done:
        click.echo(f"No template has anything of {one_line(session, 60)}, and none will.", err=True)
    else:
        rows = [
            (each.template, one_line(each.name, 40), each.version, each.state, each.items, len(each.withdrawn))
            for each in done
        ]
        columns = ("id", "name", "version", "state", "items gone", "versions withdrawn")
        table(columns, rows, right=("version", "items gone", "versions withdrawn"))
