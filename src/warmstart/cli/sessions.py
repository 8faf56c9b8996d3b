"""`warmstart sessions`: list, show, outcome, export, delete."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import (
    Group,
    agent_option,
    json_option,
    limit_option,
    project_options,
    scope_of,
    since_option,
    yes_option,
)
from warmstart.cli.output import (
    confirm,
    counted,
    describe_filters,
    iso,
    local,
    one_line,
    print_json,
    print_scope,
    settings,
    table,
    warn_skip,
)
from warmstart.cli.terminal import printable, write_data
from warmstart.cli.transcript import print_transcript
from warmstart.errors import StoreFull, StoreReadOnly
from warmstart.redact.configured import configured_redactor
from warmstart.redact.redactor import PERSONAL
from warmstart.sessions.export import Format, as_object, export
from warmstart.sessions.projects import short_names
from warmstart.sessions.redaction import redacted_messages, redacted_session
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Filter, SessionSummary
from warmstart.sessions.values import Message, Session, SessionOutcome, steps
from warmstart.storage.files import write_private

_OUTCOMES = click.Choice(get_args(SessionOutcome))
_session_argument = click.argument("id", shell_complete=complete_sessions)


@click.group(cls=Group, epilog="Example: warmstart sessions list --agent codex --since 7d")
def command() -> None:
    """List, show, judge, export and delete sessions.

    An id may be shortened as long as it stays unique. The agent's own id works too.
    """


@command.command("list", epilog="Example: warmstart sessions list --project . --since 7d --limit 50")
@project_options
@agent_option
@since_option
@click.option("--outcome", type=_OUTCOMES, help="Only sessions with this outcome.")
@limit_option
@json_option
def list_command(
    project: str,
    all_projects: bool,
    agent: str,
    since: datetime | None,
    outcome: SessionOutcome | None,
    limit: int,
    as_json: bool,
) -> None:
    """List sessions, newest first."""
    with Warmstart(settings()) as app:
        known = app.store.projects()
        scope = scope_of(project, all_projects, known)
        chosen = Filter(agent=agent, project=scope.project, since=since, outcome=outcome, limit=limit)
        _update_outcomes(app, chosen)
        found = app.store.list(chosen)
    if as_json:
        print_json([summary_dict(summary) for summary in found])
    elif found:
        _print_list(found, short_names(known))
    if not found or not as_json:
        print_scope(len(found), "session", scope, describe_filters(agent=agent, since=since, outcome=outcome))


def _update_outcomes(app: Warmstart, chosen: Filter) -> None:
    """Profile those of the chosen sessions that changed since the last sync, so that their outcomes are current."""
    try:
        app.update_profiles(chosen, skip=warn_skip)
    except (StoreFull, StoreReadOnly) as error:
        click.echo(printable(f"Warning: outcomes may be missing or out of date: {error}"), err=True)


def _get(app: Warmstart, id: str) -> Session:
    session = app.store.get(id)
    _update_outcomes(app, Filter(id=session.id))
    return app.store.get(session.id)


def summary_dict(summary: SessionSummary) -> dict[str, Any]:
    """A row of `sessions list --json`."""
    session = summary.session
    return {
        "session_id": session.id,
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


def _print_list(found: list[SessionSummary], names: Mapping[str, str]) -> None:
    columns = ("id", "started", "agent", "project", "msgs", "calls", "errors", "outcome", "title")
    flexible = ("project", "title")
    rows = [
        (
            s.session.id[:10],
            local(s.session.started_at),
            s.session.agent,
            names.get(s.session.project, s.session.project),
            s.messages,
            s.tool_calls,
            s.errors,
            s.session.outcome,
            one_line(s.session.title, 60),
        )
        for s in found
    ]
    spare = ("calls", "msgs", "agent", "errors")
    table(columns, rows, right=("msgs", "calls", "errors"), spare=spare, flexible=flexible)


@command.command(epilog="Example: warmstart sessions show 3f0c1d52 --tools")
@_session_argument
@click.option("--tools", is_flag=True, help="Show only the tool calls.")
@click.option("--full", is_flag=True, help="Do not truncate long texts.")
@json_option
def show(id: str, tools: bool, full: bool, as_json: bool) -> None:
    """Show a session as a transcript, with its tool calls, their outcomes and how long they took."""
    with Warmstart(settings()) as app:
        session = _get(app, id)
        messages = list(app.store.messages(session.id))
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
        "session_id": session.id,
        "agent": session.agent,
        "native_id": session.native_id,
        "project": session.project,
        "directory": session.directory,
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
        "usage": session.usage,
        "tool_calls": calls,
    }
    if not tools:
        shown["messages"] = [_message_dict(message) for message in messages]
    print_json(shown)


def _message_dict(message: Message) -> dict[str, Any]:
    return {**as_object(message), "timestamp": iso(message.timestamp)}


@command.command(epilog='Example: warmstart sessions outcome 3f0c1d52 success --because "deployed and in use"')
@_session_argument
@click.argument("value", metavar="success|failure|unknown", type=_OUTCOMES)
@click.option("--because", default="", help="The evidence, in your own words.")
def outcome(id: str, value: SessionOutcome, because: str) -> None:
    """Record how a session went. Your verdict survives later syncs."""
    with Warmstart(settings()) as app:
        session = app.store.get(id)
        app.sessions.set_outcome(session.id, value, because)
    click.echo(f"{session.id} is a {value}." if value != "unknown" else f"The outcome of {session.id} is unknown.")


@command.command("export", epilog="Example: warmstart sessions export 3f0c1d52 --format markdown -o session.md")
@_session_argument
@click.option("--format", "format", type=click.Choice(get_args(Format)), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option(
    "--keep-personal", is_flag=True, help="Keep e-mail addresses, phone numbers and names in home directories."
)
def export_command(id: str, format: Format, output: Path | None, keep_personal: bool) -> None:
    """Export a session as chat messages (openai), as a document (markdown), or complete (jsonl).

    Secrets and personal data are replaced, because an export is made for others.
    """
    redactor = configured_redactor(settings(), personal=() if keep_personal else PERSONAL)
    with Warmstart(settings()) as app:
        session = _get(app, id)
        messages = redacted_messages(app.store.messages(session.id), redactor)
        pieces = export(redacted_session(session, redactor), messages, format)
        if output is None:
            for piece in pieces:
                write_data(piece)
            return
        write_private(output, pieces)
    click.echo(f"{session.id} written to {output}.", err=True)


@command.command(epilog="Example: warmstart sessions delete 3f0c1d52 --secure --yes")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_sessions)
@yes_option
@click.option("--secure", is_flag=True, help="Also rewrite the store file so that nothing can be recovered from it.")
def delete(ids: tuple[str, ...], yes: bool, secure: bool) -> None:
    """Delete sessions from the store and its index.

    The agent's own log is not touched, and sync does not import the session again.
    """
    with Warmstart(settings()) as app:
        sessions = {session.id: session for session in map(app.store.get, ids)}
        for session in sessions.values():
            title = one_line(session.title or session.native_id, 60)
            if not confirm(f"Delete {session.id} ({session.agent}, {title})?", yes=yes):
                click.echo(f"Kept {session.id}.")
                continue
            app.store.delete(session.id)
            click.echo(f"Deleted {session.id} ({session.agent}, {title}).")
            _mention_templates(app.store, session.id)
        from warmstart.recall import delete_old_vectors  # loads numpy

        delete_old_vectors(app.store)
        if secure:
            app.store.scrub()
            click.echo(
                "Removed it from the tables and the index. The server's logs and backups may still hold it."
                if settings().store_url
                else "Rewrote the store file; nothing of the deleted sessions is left in it."
            )


def _mention_templates(store: SQLSessionStore, id: str) -> None:
    """Say how to remove what templates still carry of a deleted session."""
    from warmstart.templates.store import SQLTemplateStore  # only here: `sessions list` starts faster without it

    count = sum(id in template.sources for template in SQLTemplateStore(store).summaries())
    if count:
        click.echo(
            f"{counted(count, 'template')} still {'carries' if count == 1 else 'carry'} items from it; "
            f"`warmstart templates revoke {id}` removes them.",
            err=True,
        )
