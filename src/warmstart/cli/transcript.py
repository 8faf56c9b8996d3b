"""Sessions as transcripts on the terminal."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from warmstart.cli.output import local, one_line, seconds
from warmstart.cli.terminal import printable
from warmstart.sessions.values import Message, Session, Step, steps

_COLOURS = {"ok": "green", "error": "red", "rejected": "yellow", "unknown": "bright_black"}
_ROLES = {"user": "cyan", "assistant": "magenta", "system": "bright_black"}
_MAX_LINES = 12
_MAX_RESULT_LINES = 4


def print_transcript(session: Session, messages: Sequence[Message], *, tools_only: bool, full: bool) -> None:
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
    click.secho(one_line(session.title, 100) or one_line(session.native_id, 100), bold=True)
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
