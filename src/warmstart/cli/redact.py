"""`warmstart redact`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from warmstart.cli.output import counted, print_json, settings
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import PERSONAL, Redactor
from warmstart.sessions.stores import open_store
from warmstart.templates.store import SQLTemplateStore


@click.command(
    epilog="Examples: warmstart redact build.log · env | warmstart redact · warmstart redact --check config.yaml · "
    "warmstart redact --store"
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what was found, as JSON, instead of the text.")
@click.option("--check", is_flag=True, help="Print no text; exit with 1 if there is a secret.")
@click.option(
    "--personal", is_flag=True, help="Also e-mail addresses, phone numbers and user names in home directories."
)
@click.option("--store", is_flag=True, help="Apply the rules of today to what is stored already.")
def command(file: Path | None, as_json: bool, check: bool, personal: bool, store: bool) -> None:
    """Replace the secrets in a text, or in what is stored.

    Reads FILE, or standard input, and writes it without its secrets. Rules of your own go into config.toml.
    """
    redactor = configured_redactor(settings(), personal=PERSONAL if personal else ())
    if store:
        if file or check:
            raise click.UsageError("--store goes with neither FILE nor --check")
        _redact_store(redactor, as_json)
        return
    # Bytes that are no text pass through as they are.
    data = sys.stdin.buffer.read() if file is None or str(file) == "-" else file.read_bytes()
    redacted = redactor.redact(data.decode("utf-8", "surrogateescape"))
    if as_json:
        print_json([{"kind": each.kind, "start": each.start, "end": each.end} for each in redacted.findings])
    elif not check:
        sys.stdout.flush()
        sys.stdout.buffer.write(redacted.text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    if check and redacted.findings:
        kinds = ", ".join(sorted({each.kind for each in redacted.findings}))
        click.echo(f"{counted(len(redacted.findings), 'secret')}: {kinds}", err=True)
        sys.exit(1)


def _redact_store(redactor: Redactor, as_json: bool) -> None:
    with open_store(settings()) as store:
        changed = store.rewrite(redactor.clean) + SQLTemplateStore(store, redactor=redactor).rewrite(redactor.clean)
        if changed:
            store.scrub()
    if as_json:
        print_json({"changed": changed})
    else:
        click.echo(f"{counted(changed, 'text')} had secrets, which are gone now." if changed else "No secrets found.")
