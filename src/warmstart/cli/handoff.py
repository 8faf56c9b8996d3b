"""`warmstart handoff`: packets, chains, and what a compaction keeps."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import (
    RUNNING,
    Count,
    Group,
    json_option,
    limit_option,
    output_option,
    project_options,
    scope_of,
)
from warmstart.cli.output import print_json, print_rows, print_scope, settings, table
from warmstart.cli.terminal import counted, local, write_data
from warmstart.errors import ConfigError
from warmstart.handoff.compact import STRATEGIES, measure
from warmstart.handoff.packet import BUDGET, verify
from warmstart.handoff.score import Score, compare_summaries, score_strategies
from warmstart.sessions.export import chat_messages
from warmstart.sessions.store import Filter
from warmstart.sessions.values import clean
from warmstart.storage.files import write_private

_session_argument = click.argument("session", shell_complete=complete_sessions)
_STARTS = {"claude-code": ("claude",), "hermes": ("hermes", "chat", "-q"), "codex": ("codex",)}  # and the first prompt
_MEASURES = (
    "tokens",
    "share of the session",
    "constraints, word for word",
    "files",
    "files named that were used",
    "commands",
    "identifiers",
    "open work",
    "requests",
    "decisions",
)


@click.group(
    cls=Group, epilog='Example: warmstart handoff packet 3f0c1d52 --note "the tests come next" --out handoff.md'
)
def command() -> None:
    """Hand a session over to a fresh one, and see what a compaction keeps.

    A packet is redacted Markdown with the user's constraints, the goal, the files, the commands and the open work of a
    session. It is computed from the log; no model writes it.
    """


@command.command(epilog='Example: warmstart handoff packet 3f0c1d52 --note "the tests come next"')
@click.argument("session", envvar=RUNNING, shell_complete=complete_sessions)
@click.option("--note", default="", help="A note for the next session.")
@output_option
@click.option("--budget", type=Count(500, 6000), default=BUDGET, show_default=True, help="Maximum tokens.")
@json_option
def packet(session: str, note: str, output: Path | None, budget: int, as_json: bool) -> None:
    """Print the packet of a session, or write it to a file. The session itself continues.

    Inside Claude Code you can leave out SESSION: the default is the running session, up to its last message.
    """
    with Warmstart(settings()) as ws:
        if session == os.environ.get(RUNNING):
            ws.import_running(session)
        made = ws.handoffs.packet(session, note=note, budget_tokens=budget)
    if output:
        write_private(output, [made.text])
        click.echo(f"Packet {made.id} written to {output} ({counted(made.tokens, 'token')}).", err=True)
    if as_json:
        print_json(made)
    elif not output:
        write_data(made.text)


@command.command(epilog="Example: warmstart handoff resume 3f0c1d52 --host codex")
@click.argument("packet", metavar="PACKET|SESSION|FILE", shell_complete=complete_sessions)
@click.option(
    "--host", type=click.Choice(list(_STARTS)), help="Print the command that starts this agent with the packet."
)
@click.option("--run", "runs", is_flag=True, help="Run that command in the folder of the session.")
@json_option
def resume(packet: str, host: str | None, runs: bool, as_json: bool) -> None:
    """Print a packet to start a fresh session with, or start the session.

    Pass the id of a packet or session, or a file with a packet. The agent need not be the same as before.
    """
    if runs and not host:
        raise click.UsageError("--run needs --host, the agent to start")
    path, folder = Path(packet), ""
    with Warmstart(settings()) as ws:
        if path.is_file():
            text, name = path.read_text(encoding="utf-8"), str(path.absolute())
        else:
            found = ws.handoffs.find(clean(packet))
            text, name, folder = found.text, found.id, ws.store.get(found.session_id).directory
        verify(text)
    folder, messages = folder if Path(folder).is_dir() else "", [{"role": "user", "content": text}]
    if host and runs:
        _start([*_STARTS[host], text], folder)
    elif host:
        change = f"cd {shlex.quote(folder)} && " if folder else ""
        line = f'{change}{" ".join(_STARTS[host])} "$(warmstart handoff resume {shlex.quote(name)})"'
        print_json({"command": line, "messages": messages}) if as_json else write_data(f"{line}\n")
    elif as_json:
        print_json(messages)
    else:
        write_data(text)


def _start(words: list[str], folder: str) -> NoReturn:
    """Become the agent."""
    program = shutil.which(words[0])
    if not program:
        raise ConfigError(f"there is no program {words[0]!r} on the PATH; install it, or leave out --run")
    if folder:
        os.chdir(folder)
    os.execv(program, words)  # noqa: S606 - the user's agent, without a shell


@command.command("list", epilog="Example: warmstart handoff list --limit 5")
@project_options
@limit_option
@json_option
def list_command(project: str, all_projects: bool, limit: int, as_json: bool) -> None:
    """List the packets made so far."""
    with Warmstart(settings()) as ws:
        scope = scope_of(project, all_projects, ws.store.projects())
        sessions = {row.session.id for row in ws.store.list(Filter(project=scope.project))}
        found = [row for row in ws.handoffs.packets() if row["session_id"] in sessions][: limit or None]
    print_rows(
        found,
        ("packet", "session", "until", "msgs", "note"),
        lambda row: (row["id"], row["session_id"], local(row["at"]), row["messages"], row["note"]),
        as_json=as_json,
    )
    if not found or not as_json:
        print_scope(len(found), "packet", scope, create="`warmstart handoff packet SESSION` makes one")


@command.command(epilog="Example: warmstart handoff chain 3f0c1d52")
@_session_argument
@json_option
def chain(session: str, as_json: bool) -> None:
    """Show the sessions that continue each other, from the first to the last."""
    with Warmstart(settings()) as ws:
        links = ws.handoffs.chain(session)
    print_rows(
        links,
        ("", "session", "title", "ended by", "packet", "at"),
        lambda row: (*list(row.values())[:-1], local(row["at"])),
        as_json=as_json,
        flexible=("title",),
    )


@command.command(epilog="Example: warmstart handoff score 3f0c1d52 --strategy hybrid")
@_session_argument
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), help="Score a compaction instead of the packet.")
@json_option
def score(session: str, strategy: str | None, as_json: bool) -> None:
    """Show how much of a session its packet keeps, next to the summaries that the agent itself wrote.

    Each number is the share of what the session's ledger holds; a dash means that it holds nothing of that kind.
    """
    with Warmstart(settings()) as ws:
        found = ws.store.get(session)
        messages = list(ws.store.messages(found.id))
        options: dict[str, Any] = {"budget_tokens": BUDGET, "strategies": (strategy or "packet",)}
        kept = next(score_strategies(found, messages, redactor=ws.redactor, **options))[2]
        summaries = list(compare_summaries(found, messages, redactor=ws.redactor))
    if as_json:
        print_json({"score": kept, "summaries": summaries})
        return
    columns = {strategy or "packet": kept}
    for one in summaries:
        columns |= {f"summary at #{one.message}": one.summary, f"packet at #{one.message}": one.packet}
    _print_scores(columns)
    click.echo(f"Secrets: {max(kept.secrets, *(one.packet.secrets for one in summaries), 0)}", err=True)


@command.command(epilog="Example: warmstart handoff compare 3f0c1d52 --budget 20000")
@_session_argument
@click.option("--budget", type=Count(1000), help="Maximum tokens. Default: a quarter of the session.")
@json_option
def compare(session: str, budget: int | None, as_json: bool) -> None:
    """Compare what the compaction strategies keep of a session, and what they cost."""
    with Warmstart(settings()) as ws:
        found = ws.store.get(session)
        messages = list(ws.store.messages(found.id))
        limit = budget or max(1000, sum(map(measure, chat_messages(messages))) // 4)
        results = list(score_strategies(found, messages, redactor=ws.redactor, budget_tokens=limit))
    if as_json:
        strategies = [{"name": name, "fits": fits, **kept._asdict()} for name, fits, kept in results]
        print_json({"budget": limit, "strategies": strategies})
        return
    _print_scores({name if fits else f"{name} (too long)": kept for name, fits, kept in results})
    click.echo(f"Budget: {counted(limit, 'token')}", err=True)


def _print_scores(scores: Mapping[str, Score]) -> None:
    """Print scores side by side."""
    cells = []
    for tokens, *shares, _ in scores.values():
        cells.append([f"{tokens:,}", *("–" if share is None else f"{share:.2f}" for share in shares)])
    table(("kept", *scores), list(zip(_MEASURES, *cells, strict=True)), right=tuple(scores))
