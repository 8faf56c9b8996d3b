"""`warmstart sessions`: list, show, outcome, export, delete."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import click

from warmstart.cli.output import counted, iso, local, one_line, print_json, printable, settings, table
from warmstart.cli.selection import Since, stored_project
from warmstart.cli.transcript import print_transcript
from warmstart.recall.vectors.stores import forget_gone
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import PERSONAL
from warmstart.sessions.export import Format, export
from warmstart.sessions.redaction import redacted_messages, redacted_session
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.store import Filter, SessionSummary
from warmstart.sessions.stores import open_store
from warmstart.sessions.values import Message, SessionOutcome, steps

_OUTCOMES = click.Choice(get_args(SessionOutcome))


@contextmanager
def _store() -> Iterator[SQLSessionStore]:
    with open_store(settings()) as store:
        yield store


@click.group(epilog="Example: warmstart sessions list --agent codex --since 7d")
def command() -> None:
    """List, show, judge, export and delete sessions.

    An id may be shortened as long as it stays unique, and the agent's own id works too.
    """


@command.command("list", epilog="Example: warmstart sessions list --project . --since 7d --limit 50")
@click.option("--agent", default="", help="Only sessions of this agent.")
@click.option("--project", default="", help="Only sessions of this project: its folder, a path inside it, or its name.")
@click.option("--since", type=Since(), help="Only sessions that started since: 2026-09-01, 7d, 12h.")
@click.option("--outcome", type=_OUTCOMES, help="Only sessions with this outcome.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most so many; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print the sessions as JSON.")
def list_command(
    agent: str, project: str, since: datetime | None, outcome: SessionOutcome | None, limit: int, as_json: bool
) -> None:
    """List sessions, newest first."""
    with _store() as store:
        chosen = Filter(agent=agent, project=stored_project(project), since=since, outcome=outcome, limit=limit)
        found = store.list(chosen)
    if as_json:
        print_json([summary_dict(summary) for summary in found])
    elif not found:
        click.echo("No sessions. `warmstart sync` imports them from your agents' histories.", err=True)
    else:
        _print_list(found)


def summary_dict(summary: SessionSummary) -> dict[str, Any]:
    """A row of `sessions list --json`."""
    session = summary.session
    return {
        "id": session.id,
        "agent": session.agent,
        "native_id": session.native_id,
        "project": session.project,
        "model": session.model,
        "title": one_line(session.title, 120),
        "started_at": iso(session.started_at),
        "ended_at": iso(session.ended_at),
        "messages": summary.messages,
        "tool_calls": summary.tool_calls,
        "errors": summary.errors,
        "rejected": summary.rejected,
        "outcome": session.outcome,
        "parent_id": session.parent_id,
    }


def _print_list(found: list[SessionSummary]) -> None:
    columns = ("id", "started", "agent", "project", "msgs", "calls", "errors", "outcome", "title")
    rows = [
        (
            s.session.id[:10],
            local(s.session.started_at),
            s.session.agent,
            Path(s.session.project).name,
            s.messages,
            s.tool_calls,
            s.errors,
            s.session.outcome,
            one_line(s.session.title, 60),
        )
        for s in found
    ]
    table(columns, rows, right=("msgs", "calls", "errors"), spare=("calls", "msgs", "outcome", "errors"))


@command.command(epilog="Example: warmstart sessions show 3f0c1d52 --tools")
@click.argument("id")
@click.option("--tools", is_flag=True, help="Show only the tool calls.")
@click.option("--full", is_flag=True, help="Show long texts whole.")
@click.option("--json", "as_json", is_flag=True, help="Print the session and its messages as JSON.")
def show(id: str, tools: bool, full: bool, as_json: bool) -> None:
    """Show a session as a transcript, with its tool calls, their outcomes and how long they took."""
    with _store() as store:
        session = store.get(id)
        messages = list(store.messages(session.id))
    if not as_json:
        print_transcript(session, messages, tools_only=tools, full=full)
        return
    calls = [
        {
            "id": step.call.id,
            "name": step.call.name,
            "arguments": step.call.arguments,
            "outcome": step.outcome,
            "seconds": step.seconds,
            "exit_code": step.result.exit_code if step.result else None,
            "result": step.result.text if step.result else None,
        }
        for step in steps(messages)
    ]
    shown: dict[str, Any] = {
        "id": session.id,
        "agent": session.agent,
        "native_id": session.native_id,
        "project": session.project,
        "branch": session.branch,
        "model": session.model,
        "title": session.title,
        "version": session.version,
        "source": session.source,
        "started_at": iso(session.started_at),
        "ended_at": iso(session.ended_at),
        "parent_id": session.parent_id,
        "parent_kind": session.parent_kind,
        "outcome": session.outcome,
        "evidence": session.evidence,
        "tool_calls": calls,
    }
    if not tools:
        shown["messages"] = [_message_dict(message) for message in messages]
    print_json(shown)


def _message_dict(message: Message) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(message), "timestamp": iso(message.timestamp)}


@command.command(epilog='Example: warmstart sessions outcome 3f0c1d52 success --because "deployed and in use"')
@click.argument("id")
@click.argument("value", metavar="success|failure|unknown", type=_OUTCOMES)
@click.option("--because", default="", help="The evidence, in your own words.")
def outcome(id: str, value: SessionOutcome, because: str) -> None:
    """Record how a session went; your word is kept when the log is read again."""
    with _store() as store:
        session = store.get(id)
        store.set_outcome(session.id, value, because)
    click.echo(f"{session.id} is a {value}." if value != "unknown" else f"The outcome of {session.id} is unknown.")


@command.command("export", epilog="Example: warmstart sessions export 3f0c1d52 --format markdown -o session.md")
@click.argument("id")
@click.option("--format", "format", type=click.Choice(get_args(Format)), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the terminal.")
@click.option(
    "--keep-personal", is_flag=True, help="Keep e-mail addresses, phone numbers and names in home directories."
)
def export_command(id: str, format: Format, output: Path | None, keep_personal: bool) -> None:
    """Write a session as chat messages (openai), as a document (markdown), or with everything (jsonl).

    Secrets, and what names a person, are replaced: an export is for others.
    """
    redactor = configured_redactor(settings(), personal=() if keep_personal else PERSONAL)
    with _store() as store:
        session = store.get(id)
        messages = redacted_messages(store.messages(session.id), redactor)
        pieces = export(redacted_session(session, redactor), messages, format)
        if output is None:
            for piece in pieces:
                click.echo(printable(piece) if sys.stdout.isatty() else piece, nl=False)
            return
        with output.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
    click.echo(f"{session.id} written to {output}.", err=True)


@command.command(epilog="Example: warmstart sessions delete 3f0c1d52 --secure")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--secure", is_flag=True, help="Also rewrite the store so that nothing can be recovered from the file.")
def delete(ids: tuple[str, ...], yes: bool, secure: bool) -> None:
    """Delete sessions from the store and its index.

    The agent's own log is left alone, and sync will not bring the session back.
    """
    with _store() as store:
        sessions = {session.id: session for session in map(store.get, ids)}
        for session in sessions.values():
            title = one_line(session.title or session.native_id, 60)
            asked = not yes and sys.stdin.isatty()
            if asked and not click.confirm(f"Delete {session.id} ({session.agent}, {title})?"):
                click.echo(f"Kept {session.id}.")
                continue
            store.delete(session.id)
            click.echo(f"Deleted {session.id} ({session.agent}, {title}).")
            _tell_of_templates(store, session.id)
        forget_gone(store)
        if secure:
            store.scrub()
            click.echo(
                "Removed it from the index and freed its room; what the server's files, logs and backups still hold is "
                "its administrator's."
                if settings().store_url
                else "Rewrote the store; nothing of what was deleted is left in it."
            )


def _tell_of_templates(store: SQLSessionStore, id: str) -> None:
    """Say how to remove what templates carry of a session, which outlives it."""
    from warmstart.templates.store import SQLTemplateStore  # only here, because a list starts faster without it

    held = sum(id in template.sources for template in SQLTemplateStore(store).summaries())
    if held:
        click.echo(
            f"{counted(held, 'template')} still {'carries' if held == 1 else 'carry'} something of it; "
            f"`warmstart templates revoke {id}` takes that back.",
            err=True,
        )
