"""`warmstart sessions`: list, show, outcome, export, delete."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import (
    RUNNING,
    Chosen,
    Group,
    json_option,
    limit_option,
    output_option,
    session_options,
    yes_option,
)
from warmstart.cli.output import as_data, confirm, print_facts, print_json, print_rows, print_scope, settings
from warmstart.cli.terminal import counted, describe_filters, local, max_width, one_line, printable, seconds, write_data
from warmstart.errors import SessionNotFound
from warmstart.redact.redactor import PERSONAL, configured_redactor
from warmstart.sessions.export import Format, as_object, export
from warmstart.sessions.projects import short_names
from warmstart.sessions.redaction import redacted_messages, redacted_session
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import SessionSummary
from warmstart.sessions.values import Message, Session, SessionOutcome, Step, steps
from warmstart.storage.files import write_private

_OUTCOMES = click.Choice(get_args(SessionOutcome))
_COLOURS = {"ok": "green", "error": "red", "rejected": "yellow", "unknown": "bright_black"}
_ROLES = {"user": "cyan", "assistant": "magenta", "system": "bright_black"}
_MARKS = {"compaction_summary": "compaction summary", "injected": "injected", "sidechain": "subagent"}
_MAX_LINES = 12
_MAX_RESULT_LINES = 4
_MIN_ARGUMENTS = 30  # characters, however narrow the terminal
_session_argument = click.argument("id", shell_complete=complete_sessions)


@click.group(cls=Group, epilog="Example: warmstart sessions list --agent codex --since 7d")
def command() -> None:
    """List, show, rate, export and delete sessions.

    ID is a session's id, any unique prefix of it, or the agent's own id.
    """


@command.command("list", epilog="Example: warmstart sessions list --project . --since 7d --limit 50")
@session_options
@click.option("--outcome", type=_OUTCOMES, help="Only sessions with this outcome.")
@limit_option
@json_option
def list_command(chosen: Chosen, outcome: SessionOutcome | None, limit: int, as_json: bool) -> None:
    """List sessions, newest first."""
    with Warmstart(settings()) as ws:
        known = ws.store.projects()
        scope = chosen.scope(known)
        rows = ws.sessions.list(
            project=scope.project or None, agent=chosen.agent, since=chosen.since, outcome=outcome, limit=limit
        )
    names = short_names(known)
    print_rows(
        rows,
        ("id", "started", "agent", "project", "msgs", "calls", "errors", "outcome", "title"),
        lambda row: _cells(row, names),
        as_json=as_json,
        data=_summary_dict,
        spare=(*(["project"] if scope.project else []), "calls", "msgs", "agent", "errors"),
        flexible=("project", "title"),
    )
    if not rows or not as_json:
        filters = describe_filters(agent=chosen.agent, since=chosen.since, outcome=outcome)
        print_scope(len(rows), "session", scope, filters)


def _cells(row: SessionSummary, names: Mapping[str, str]) -> tuple[object, ...]:
    session = row.session
    title, project = one_line(session.title, 60), names.get(session.project, session.project)
    counts = (row.messages, row.tool_calls, row.errors)
    return session.id[:10], local(session.started_at), session.agent, project, *counts, session.outcome, title


def _summary_dict(summary: SessionSummary) -> dict[str, Any]:
    """A row of `sessions list --json`."""
    names = ("agent", "native_id", "project", "model", "title", "started_at", "ended_at")
    counts = ("messages", "tool_calls", "errors", "rejected")
    data = as_data(summary.session) | summary._asdict() | {"title": one_line(summary.title, 120)}
    return {"session_id": summary.id, **{name: data[name] for name in (*names, *counts, "outcome", "parent_id")}}


@command.command(epilog="Example: warmstart sessions show 3f0c1d52 --tools")
@_session_argument
@click.option("--tools", is_flag=True, help="Show only the tool calls.")
@click.option("--full", is_flag=True, help="Do not truncate long texts.")
@click.option("--message", "only", metavar="N", help="Show one message in full: its number, or the id of a tool call.")
@json_option
def show(id: str, tools: bool, full: bool, only: str | None, as_json: bool) -> None:
    """Show a session as a transcript, with the outcome and duration of each tool call."""
    with Warmstart(settings()) as ws:
        session = ws.sessions.get(id)
        messages = list(ws.store.messages(session.id))
    if only is not None:
        _print_whole(_one(messages, only, session.id), as_json)
        return
    if not as_json:
        _print_transcript(session, messages, tools_only=tools, full=full)
        return
    calls = [
        {
            **as_data(step.call),
            "outcome": step.outcome,
            "seconds": step.seconds,
            "exit_code": step.result.exit_code if step.result else None,
            "result": step.result.text if step.result else None,
        }
        for step in steps(messages)
    ]
    shown = {"session_id": session.id, **as_data(session), "tool_calls": calls}
    del shown["stored_id"]
    if not tools:
        shown["messages"] = [_message_dict(message) for message in messages]
    print_json(shown)


def _one(messages: Sequence[Message], wanted: str, session_id: str) -> Message:
    """The message with this number or id, or the result of the tool call with this id."""
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
    return {**as_object(message), "timestamp": message.timestamp}


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
    print_facts(facts)


def _print_message(message: Message, full: bool) -> None:
    when = f"{message.timestamp.astimezone():%H:%M:%S} " if message.timestamp else ""
    marks = ", ".join(words for name, words in _MARKS.items() if getattr(message, name))
    click.echo()
    click.secho(f"{when}{message.role}" + (f" ({marks})" if marks else ""), fg=_ROLES.get(message.role))
    if message.text:
        click.echo(_cut(message.text, None if full else _MAX_LINES))


def _print_call(step: Step, tools_only: bool, full: bool) -> None:
    name, took = one_line(step.call.name, 60), f" {seconds(step.seconds)}" if step.seconds is not None else ""
    width = max(_MIN_ARGUMENTS, max_width() - len(f"  → {name}   [{step.outcome}{took}]"))
    shown = printable(step.call.arguments) if full else _arguments(step.call.arguments, width)
    label = click.style(step.outcome, fg=_COLOURS[step.outcome])
    click.echo(f"  → {click.style(name, bold=True)} {shown}  [{label}{took}]")
    if step.result and step.result.text and (full or not tools_only or step.outcome in ("error", "rejected")):
        click.secho(_cut(step.result.text, None if full else _MAX_RESULT_LINES, "      "), dim=True)


def _arguments(text: str, width: int) -> str:
    """The arguments as names and short values."""
    with suppress(ValueError, RecursionError):
        values: Any = json.loads(text)
        if isinstance(values, dict):
            return one_line(", ".join(f"{name}={_value(value)}" for name, value in values.items()), width)
    return one_line(text, width)


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 90)


def _cut(text: str, lines: int | None, indent: str = "  ") -> str:
    """The text indented, truncated to `lines` lines."""
    shown = printable(text).rstrip("\n").split("\n")
    if lines is not None:
        more = len(shown) - lines
        shown = [line if len(line) <= 240 else line[:239] + "…" for line in shown[:lines]]
        if more > 0:
            shown.append(f"… {more} more lines")
    return textwrap.indent("\n".join(shown), indent)


@command.command(epilog='Example: warmstart sessions outcome 3f0c1d52 success --because "deployed and in use"')
@_session_argument
@click.argument("value", metavar="success|failure|unknown", type=_OUTCOMES)
@click.option("--because", default="", help="The evidence, in your own words.")
def outcome(id: str, value: SessionOutcome, because: str) -> None:
    """Record how a session went. Your verdict survives later syncs."""
    with Warmstart(settings()) as ws:
        session = ws.store.get(id)
        ws.sessions.set_outcome(session.id, value, because)
    click.echo(f"{session.id} is a {value}." if value != "unknown" else f"The outcome of {session.id} is unknown.")


@command.command("export", epilog="Example: warmstart sessions export 3f0c1d52 --format markdown -o session.md")
@_session_argument
@click.option("--format", "format", type=click.Choice(get_args(Format)), default="jsonl", show_default=True)
@output_option
@click.option(
    "--keep-personal", is_flag=True, help="Keep e-mail addresses, phone numbers and user names in home directories."
)
def export_command(id: str, format: Format, output: Path | None, keep_personal: bool) -> None:
    """Export a session as chat messages (openai), a document (markdown) or a full record (jsonl).

    Secrets and personal data are replaced, because exports are meant to be shared.
    """
    redactor = configured_redactor(settings(), personal=() if keep_personal else PERSONAL)
    with Warmstart(settings()) as ws:
        session = ws.sessions.get(id)
        messages = redacted_messages(ws.store.messages(session.id), redactor)
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
    with Warmstart(settings()) as ws:
        sessions = {session.id: session for session in map(ws.store.get, ids)}
        for session in sessions.values():
            title = one_line(session.title or session.native_id, 60)
            if not confirm(f"Delete {session.id} ({session.agent}, {title})?", yes=yes):
                click.echo(f"Kept {session.id}.")
                continue
            ws.sessions.delete(session.id)
            click.echo(f"Deleted {session.id} ({session.agent}, {title}).")
            _mention_templates(ws.store, session.id)
        if secure:
            ws.store.scrub()
            click.echo(
                "Removed from the tables and the index. The server's logs and backups may still contain the data."
                if settings().store_url
                else "Rewrote the store file; it contains no trace of the deleted sessions."
            )


@command.command(epilog="Example: warmstart sessions forget 3f0c1d52 --yes")
@click.argument("session", envvar=RUNNING, shell_complete=complete_sessions)
@yes_option
def forget(session: str, yes: bool) -> None:
    """Delete a session, also one that is still running: nothing more of it is imported.

    Inside Claude Code the current session is the default. The agent's own log is not touched.
    """
    with Warmstart(settings()) as ws:
        ws.import_running(session)  # only what is in the store can be deleted
        found = ws.store.get(session)
        if not confirm(f"Forget {found.id} ({found.agent}, {one_line(found.title or found.native_id, 60)})?", yes=yes):
            click.echo(f"Kept {found.id}.")
            return
        ws.sessions.delete(found.id)
        click.echo(f"Forgot {found.id} ({found.agent}). Nothing more of it is imported.")
        _mention_templates(ws.store, found.id)


def _mention_templates(store: SQLSessionStore, id: str) -> None:
    """Say how to remove a deleted session's items from templates."""
    from warmstart.templates.store import SQLTemplateStore  # only here: `sessions list` starts faster without it

    count = sum(id in template.sources for template in SQLTemplateStore(store).summaries())
    if count:
        click.echo(
            f"{counted(count, 'template')} still {'carries' if count == 1 else 'carry'} items from it; "
            f"`warmstart templates revoke {id}` removes them.",
            err=True,
        )
