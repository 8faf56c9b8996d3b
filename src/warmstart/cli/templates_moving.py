"""Templates as files: to share them, to take them in, and to look whether they keep the rules."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from warmstart.cli.output import counted, one_line, print_json, printable, settings
from warmstart.cli.templates_options import json_option, templates, tools_option
from warmstart.cli.templates_report import kinds, template_dict
from warmstart.errors import InvalidTemplate, TemplateNotFound
from warmstart.redact.configured import configured_redactor
from warmstart.templates.sharing import export, export_text, import_file, read_file
from warmstart.templates.texts import redacted
from warmstart.templates.validation import Problem, problems
from warmstart.templates.values import WarmTemplate

_MADE = "warmstart templates extract 58e3c7d9 --name surges && "


@click.command("export", epilog=f"Example: {_MADE}warmstart templates export surges surges.json")
@click.argument("id")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace the file if there is one.")
def export_command(id: str, file: Path, overwrite: bool) -> None:
    """Write a template to one JSON file that others can read and import; - is the terminal.

    Secrets are replaced; the path of the project and who edited it are left out. Of the values in it, look at what was
    kept with --keep-values before you share it.
    """
    current = settings()
    with templates(current) as store:
        template = redacted(store.get(id), configured_redactor(current))
    if str(file) == "-":
        text = export_text(template)
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
        return
    export(template, file, overwrite=overwrite)
    click.echo(f"{template.id} written to {file}.", err=True)


@click.command(
    "import",
    epilog=f"Example: {_MADE}warmstart templates export surges surges.json && warmstart templates import surges.json",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_command(file: Path, as_json: bool) -> None:
    """Take a template in from a file.

    It is checked, and stays in quarantine: no session starts from it before you promote it.
    """
    with templates() as store:
        template = import_file(store, file)
    if as_json:
        print_json(template_dict(template))
        return
    click.echo(f"{template.id}  {printable(template.name)}: {kinds(template.seed)}")
    if template.state != "quarantined":
        click.echo(f"It is here already, and {template.state}; nothing was changed.", err=True)
        return
    click.echo(
        f"It is quarantined. Look at it with `warmstart templates show {template.id}`, and let sessions start "
        f"from it with `warmstart templates promote {template.id}`.",
        err=True,
    )


@click.command(epilog=f"Example: {_MADE}warmstart templates validate surges")
@click.argument("what", metavar="ID|FILE")
@tools_option
@json_option
def validate(what: str, tools: list[Mapping[str, Any] | str] | None, as_json: bool) -> None:
    """Check a template, or a file that was shared, and name each problem.

    Exits with 1 when there is one. With --tools, arguments are checked against the tools' own schemas.
    """
    try:
        template = _found(what)
        wrong = problems(template, tools=tools)
        name = template.id or what
    except InvalidTemplate as error:  # a file that cannot be read as a template at all
        wrong = [Problem(*_divided(line)) for line in error.problems] or [Problem("file", str(error))]
        name = what
    if as_json:
        print_json({"valid": not wrong, "problems": [problem._asdict() for problem in wrong]})
    else:
        for problem in wrong:
            click.echo(printable(": ".join(filter(None, problem))))
        said = f"has {counted(len(wrong), 'problem')}" if wrong else "is valid"
        click.echo(f"{one_line(name, 80)} {said}.", err=True)
    if wrong:
        sys.exit(1)


def _found(what: str) -> WarmTemplate:
    path = Path(what)
    if path.is_file():
        return read_file(path)
    try:
        with templates() as store:
            return store.get(what)
    except TemplateNotFound:
        if "/" in what or path.suffix == ".json":
            raise TemplateNotFound(f"there is no file {what!r}, and no template of that name") from None
        raise


def _divided(line: str) -> tuple[str, str]:
    where, separator, what = line.partition(": ")
    return (where, what) if separator else ("", line)
