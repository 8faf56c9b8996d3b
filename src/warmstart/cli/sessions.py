"""`warmstart sessions`: list, show, outcome, export, delete."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    Scope,
    confirm,
    counted,
    describe_filters,
    iso,
    local,
    max_width,
    one_line,
    print_json,
    print_scope,
    seconds,
    settings,
    table,
    warn_skip,
)
from warmstart.cli.terminal import printable, write_data
from warmstart.errors import SessionNotFound, StoreFull, StoreReadOnly
from warmstart.redact.redactor import PERSONAL, configured_redactor
from warmstart.sessions.export import Format, as_object, export
from warmstart.sessions.projects import short_names
from warmstart.sessions.redaction import redacted_messages, redacted_session
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Filter, SessionSummary
from warmstart.sessions.values import Message, Session, SessionOutcome, Step, steps
from warmstart.storage.files import write_private

_OUTCOMES = click.Choice(get_args(SessionOutcome))
_COLOURS = {"ok": "green", "error": "red", "rejected": "yellow", "unknown": "bright_black"}
_ROLES = {"user": "cyan", "assistant": "magenta", "system": "bright_black"}
_MAX_LINES = 12
_MAX_RESULT_LINES = 4
_session_argument = click.argument("id", shell_complete=complete_sessions)


@click.group(cls=Group, epilog="Example: warmstart sessions list --agent codex --since 7d")
def command() -> None:
    """List, show, rate, export and delete sessions.

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
        _print_list(found, short_names(known), scope)
    if not found or not as_json:
        print_scope(len(found), "session", scope, describe_filters(agent=agent, since=since, outcome=outcome))


def _update_outcomes(app: Warmstart, chosen: Filter) -> None:
    """Profile the chosen sessions that changed since they were last profiled, so that their outcomes are current."""
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


def _print_list(found: list[SessionSummary], names: Mapping[str, str], scope: Scope) -> None:
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
    spare = (*(["project"] if scope.project else []), "calls", "msgs", "agent", "errors")
    table(columns, rows, right=("msgs", "calls", "errors"), spare=spare, flexible=flexible)


@command.command(epilog="Example: warmstart sessions show 3f0c1d52 --tools")
@_session_argument
@click.option("--tools", is_flag=True, help="Show only the tool calls.")
@click.option("--full", is_flag=True, help="Do not truncate long texts.")
@click.option("--message", "only", metavar="N", help="Show one message in full: its number, or the id of a tool call.")
@json_option
def show(id: str, tools: bool, full: bool, only: str | None, as_json: bool) -> None:
    """Show a session as a transcript, with the outcome and duration of each tool call."""
    with Warmstart(settings()) as app:
        session = _get(app, id)
        messages = list(app.store.messages(session.id))
    if only is not None:
        _print_whole(_one(messages, only, session.id), as_json)
        return
    if not as_json:
        _print_transcript(session, messages, tools_only=tools, full=full)
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


def _one(messages: Sequence[Message], wanted: str, session_id: str) -> Message:
    """The message with this number, or with this id of its own, or the result of the call with this id."""
    number = wanted.removeprefix("#")
    if number.isdigit() and 0 < int(number) <= len(messages):
        return messages[int(number) - 1]
    for message in messages:
        if wanted == message.native_id or any(result.call_id == wanted for result in message.tool_results):
            return message
    raise SessionNotFound(f"session {session_id} has no message {wanted!r}; its messages are 1 to {len(messages)}")


def _print_whole(message: Message, as_json: bool) -> None:
    if as_json:
        print_json(_message_dict(message))
        return
    parts = [message.text, *(f"→ {call.name} {call.arguments}" for call in message.tool_calls)]
    write_data("\n".join(filter(None, (*parts, *(result.text for result in message.tool_results)))) + "\n")


def _message_dict(message: Message) -> dict[str, Any]:
    return {**as_object(message), "timestamp": iso(message.timestamp)}


def _print_transcript(session: Session, messages: Sequence[Message], *, tools_only: bool, full: bool) -> None:
    """Print messages, and tool calls with their outcomes and durations."""
    paired = list(steps(messages))
    _print_head(session, messages, paired)
    calls = iter(paired)
    for message in messages:
        if not tools_only and message.role != "tool" and (message.text or message.tool_calls):
            _print_message(message, full)
        for _ in message.tool_calls:
            _print_call(next(calls), tools_only, full)


def _print_head(session: Session, messages: Sequence[Message], calls: list[Step]) -> None:
    click.secho(one_line(session.title, max_width()) or one_line(session.native_id, max_width()), bold=True)
    outcomes = [step.outcome for step in calls]
    facts = {
        "id": f"{session.id} ({session.native_id})",
        "agent": " ".join(part for part in (session.agent, session.version, session.model) if part),
        "project": session.project + (f" on {session.branch}" if session.branch else ""),
        "folder": session.directory if session.directory != session.project else "",
        "time": f"{local(session.started_at)} to {local(session.ended_at)}" if session.started_at else "",
        "parent": f"{session.parent_id} ({session.parent_kind})" if session.parent_id else "",
        "outcome": session.outcome + (f": {session.evidence}" if session.evidence else ""),
        "size": f"{len(messages)} messages, {len(calls)} calls, {outcomes.count('error')} errors, "
        f"{outcomes.count('rejected')} rejected",
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name:>8}  {one_line(value, 1000)}")


def _print_message(message: Message, full: bool) -> None:
    when = f"{message.timestamp.astimezone():%H:%M:%S} " if message.timestamp else ""
    marks = [
        name
        for name, there in (
            ("compaction summary", message.compaction_summary),
            ("injected", message.injected),
            ("subagent", message.sidechain),
        )
        if there
    ]
    click.echo()
    click.secho(f"{when}{message.role}" + (f" ({', '.join(marks)})" if marks else ""), fg=_ROLES.get(message.role))
    if message.text:
        click.echo(_cut(message.text, None if full else _MAX_LINES))


def _print_call(step: Step, tools_only: bool, full: bool) -> None:
    label = click.style(step.outcome, fg=_COLOURS[step.outcome])
    took = f" {seconds(step.seconds)}" if step.seconds is not None else ""
    shown = printable(step.call.arguments) if full else _arguments(step.call.arguments)
    click.echo(f"  → {click.style(one_line(step.call.name, 100), bold=True)} {shown}  [{label}{took}]")
    if step.result and step.result.text and (full or not tools_only or step.outcome in ("error", "rejected")):
        click.secho(_cut(step.result.text, None if full else _MAX_RESULT_LINES, "      "), dim=True)


def _arguments(text: str) -> str:
    """The arguments as names and short values."""
    with suppress(ValueError, RecursionError):
        values: Any = json.loads(text)
        if isinstance(values, dict):
            return one_line(", ".join(f"{name}={_value(value)}" for name, value in values.items()), 140)
    return one_line(text, 100)


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 90)


def _cut(text: str, lines: int | None, indent: str = "  ") -> str:
    """The text indented, truncated to `lines` lines."""
    kept = printable(text).rstrip("\n").split("\n")
    if lines is not None:
        more = len(kept) - lines
        kept = [line if len(line) <= 240 else line[:239] + "…" for line in kept[:lines]]
        if more > 0:
            kept.append(f"… {more} more lines")
    return textwrap.indent("\n".join(kept), indent)


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
    "--keep-personal", is_flag=True, help="Keep e-mail addresses, phone numbers and user names in home directories."
)
def export_command(id: str, format: Format, output: Path | None, keep_personal: bool) -> None:
    """Export a session as chat messages (openai), a document (markdown) or a full record (jsonl).

    Secrets and personal data are replaced, because exports are meant to be shared.
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
    """Say how to remove items of a deleted session from templates."""
    from warmstart.templates.store import SQLTemplateStore  # only here: `sessions list` starts faster without it

    count = sum(id in template.sources for template in SQLTemplateStore(store).summaries())
    if count:
        click.echo(
            f"{counted(count, 'template')} still {'carries' if count == 1 else 'carry'} items from it; "
            f"`warmstart templates revoke {id}` removes them.",
            err=True,
        )
