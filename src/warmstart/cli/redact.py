"""`warmstart redact`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from warmstart.cli.output import print_json, read_stdin, settings
from warmstart.cli.terminal import counted, printable, raw
from warmstart.redact.redactor import PERSONAL, Redactor, configured_redactor
from warmstart.sessions.redaction import redacted_name
from warmstart.sessions.sql_store import open_store
from warmstart.templates.store import SQLTemplateStore


@click.command(
    epilog="\b\nExamples:\n  warmstart redact build.log\n  env | warmstart redact\n"
    "  warmstart redact --check config.yaml\n  warmstart redact --store"
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON instead of the text.")
@click.option("--check", is_flag=True, help="Only check: exit with 1 if there are secrets.")
@click.option(
    "--personal", is_flag=True, help="Also replace e-mail addresses, phone numbers and user names in home directories."
)
@click.option("--store", is_flag=True, help="Apply the current rules to the store.")
def command(file: Path | None, as_json: bool, check: bool, personal: bool, store: bool) -> None:
    """Replace secrets in a text or in the store.

    Reads FILE or standard input and prints it without secrets. Add your own rules to config.toml.
    """
    redactor = configured_redactor(settings(), personal=PERSONAL if personal else ())
    if store:
        if file or check:
            raise click.UsageError("--store cannot be combined with FILE or --check")
        _redact_store(redactor, as_json)
        return
    # Bytes that are not UTF-8 pass through unchanged.
    data = read_stdin("give a FILE") if file is None or str(file) == "-" else file.read_bytes()
    redacted = redactor.redact(data.decode("utf-8", "surrogateescape"))
    if as_json:
        print_json([{"kind": each.kind, "start": each.start, "end": each.end} for each in redacted.findings])
    elif not check:
        _write(redacted.text)
    if check and redacted.findings:
        kinds = ", ".join(sorted({each.kind for each in redacted.findings}))
        click.echo(f"{counted(len(redacted.findings), 'secret')}: {kinds}", err=True)
        sys.exit(1)


def _write(text: str) -> None:
    stream = raw(sys.stdout)
    stream.flush()
    if stream.isatty():
        text = printable(text)
    stream.buffer.write(text.encode("utf-8", "surrogateescape"))
    stream.buffer.flush()


def _redact_store(redactor: Redactor, as_json: bool) -> None:
    with open_store(settings()) as store:
        change, rename = redactor.clean, partial(redacted_name, redactor=redactor)
        changed = store.rewrite(change, rename) + SQLTemplateStore(store, redactor=redactor).rewrite(change, rename)
        if changed:
            store.scrub()
    if as_json:
        print_json({"changed": changed})
    else:
        click.echo(f"Replaced secrets in {counted(changed, 'text')}." if changed else "No secrets found.")
