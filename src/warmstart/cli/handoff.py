"""`warmstart handoff`: packets, chains, and what a compaction keeps."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Any, NoReturn

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import Count, Group, json_option, limit_option
from warmstart.cli.output import counted, iso, local, print_json, settings, table
from warmstart.cli.terminal import write_data
from warmstart.errors import ConfigError
from warmstart.handoff.compact import STRATEGIES, measure
from warmstart.handoff.packet import BUDGET, verify
from warmstart.handoff.score import Score, compare_summaries, score_strategies
from warmstart.sessions.export import chat_messages
from warmstart.sessions.values import clean
from warmstart.storage.files import write_private

_session_argument = click.argument("session", shell_complete=complete_sessions)
_RUNNING = "CLAUDE_CODE_SESSION_ID"  # the session that this process runs in
_STARTS = {"claude-code": ("claude",), "hermes": ("hermes", "chat", "-q"), "codex": ("codex",)}  # and the first prompt
_COLUMNS = ("tokens", "ratio", "constraints", "files", "precision", "commands", "ids", "open", "requests", "decisions")


@click.group(
    cls=Group, epilog='Example: warmstart handoff packet 3f0c1d52 --note "the tests come next" --out handoff.md'
)
def command() -> None:
    """Hand a session over to a fresh one, and see what a compaction keeps.

    A packet is redacted Markdown with the user's constraints, the goal, the files, the commands and the open work of a
    session. It is computed from the log; no model writes it.
    """


@command.command(epilog='Example: warmstart handoff packet 3f0c1d52 --note "the tests come next"')
@click.argument("session", envvar=_RUNNING, shell_complete=complete_sessions)
@click.option("--note", default="", help="A note for the next session.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--budget", type=Count(500, 6000), default=BUDGET, show_default=True, help="Tokens.")
@json_option
def packet(session: str, note: str, out: Path | None, budget: int, as_json: bool) -> None:
    """Make the packet of a session. The session itself goes on.

    Inside Claude Code, SESSION may be left out: it is the one that is running, as its log is now.
    """
    with Warmstart(settings()) as ws:
        if session == os.environ.get(_RUNNING):
            ws.import_running(session)
        made = ws.handoffs.packet(session, note=note, budget_tokens=budget)
    if out:
        write_private(out, [made.text])
        click.echo(f"Packet {made.id} written to {out} ({counted(made.tokens, 'token')}).", err=True)
    if as_json:
        print_json(made._asdict())
    elif not out:
        write_data(made.text)


@command.command(epilog="Example: warmstart handoff resume 3f0c1d52 --host codex")
@click.argument("packet", metavar="PACKET|SESSION|FILE", shell_complete=complete_sessions)
@click.option("--host", type=click.Choice(list(_STARTS)), help="Print the command that starts this agent with it.")
@click.option("--run", "runs", is_flag=True, help="Run that command, in the folder of the session.")
@json_option
def resume(packet: str, host: str | None, runs: bool, as_json: bool) -> None:
    """Print the messages to start a fresh session with, or start one.

    PACKET may be the id of a packet, a session, or a file with a packet. The agent may be another one than before.
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
        messages = ws.handoffs.resume(text)
    folder = folder if Path(folder).is_dir() else ""
    if host and runs:
        _start([*_STARTS[host], text], folder)
    elif host:
        change = f"cd {shlex.quote(folder)} && " if folder else ""
        line = f'{change}{" ".join(_STARTS[host])} "$(warmstart handoff resume {shlex.quote(name)})"'
        print_json({"command": line, "messages": messages}) if as_json else write_data(f"{line}\n")
    elif as_json:
        print_json(messages)
    else:
        write_data("\n".join(message["content"] for message in messages))


def _start(words: list[str], folder: str) -> NoReturn:
    """Become the agent."""
    program = shutil.which(words[0])
    if not program:
        raise ConfigError(f"there is no program {words[0]!r} on the PATH; install it, or leave --run out")
    if folder:
        os.chdir(folder)
    os.execv(program, words)  # noqa: S606 - the user's agent, without a shell


@command.command("list", epilog="Example: warmstart handoff list --limit 5")
@limit_option
@json_option
def list_command(limit: int, as_json: bool) -> None:
    """List the packets that were made."""
    with Warmstart(settings()) as ws:
        found = ws.handoffs.packets(limit=limit)
    if as_json:
        print_json([{**row, "at": iso(row["at"])} for row in found])
    elif found:
        rows = [(one["id"], one["session_id"], local(one["at"]), one["messages"], one["note"]) for one in found]
        table(("packet", "session", "until", "msgs", "note"), rows, right=("msgs",), flexible=("note",))
    else:
        click.echo("No packets yet; `warmstart handoff packet SESSION` makes one.", err=True)


@command.command(epilog="Example: warmstart handoff chain 3f0c1d52")
@_session_argument
@json_option
def chain(session: str, as_json: bool) -> None:
    """Show the chain of handoffs that a session is part of."""
    with Warmstart(settings()) as ws:
        links = ws.handoffs.chain(session)
    if as_json:
        print_json([{**link, "at": iso(link["at"])} for link in links])
        return
    rows = [(*list(link.values())[:-1], local(link["at"])) for link in links]
    table(("", "session", "title", "ended by", "packet", "at"), rows, flexible=("title",))


@command.command(epilog="Example: warmstart handoff score 3f0c1d52 --strategy hybrid")
@_session_argument
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), help="Score a compaction instead of the packet.")
@json_option
def score(session: str, strategy: str | None, as_json: bool) -> None:
    """Show how much of a session its packet keeps, beside the summaries that the agent wrote itself.

    Shares are of what the ledger of the session holds; a dash means that it holds nothing of the kind.
    """
    with Warmstart(settings()) as ws:
        found = ws.store.get(session)
        messages = list(ws.store.messages(found.id))
        options: dict[str, Any] = {"budget_tokens": BUDGET, "strategies": (strategy or "packet",)}
        kept = next(score_strategies(found, messages, redactor=ws.redactor, **options))[2]
        summaries = list(compare_summaries(found, messages, redactor=ws.redactor))
    if as_json:
        both = [
            {"message": one.message, "summary": one.summary._asdict(), "packet": one.packet._asdict()}
            for one in summaries
        ]
        print_json({"score": kept._asdict(), "summaries": both})
        return
    rows = [(strategy or "packet", *_cells(kept))]
    for one in summaries:
        rows += [
            (f"summary at #{one.message}", *_cells(one.summary)),
            (f"packet at #{one.message}", *_cells(one.packet)),
        ]
    table(("", *_COLUMNS), rows, right=_COLUMNS)
    click.echo(f"Secrets: {max(kept.secrets, *(one.packet.secrets for one in summaries), 0)}", err=True)


@command.command(epilog="Example: warmstart handoff compare 3f0c1d52 --budget 20000")
@_session_argument
@click.option("--budget", type=Count(1000), help="Tokens; a quarter of the session by default.")
@json_option
def compare(session: str, budget: int | None, as_json: bool) -> None:
    """Show what each strategy of compaction keeps of a session, and what it costs."""
    with Warmstart(settings()) as ws:
        found = ws.store.get(session)
        messages = list(ws.store.messages(found.id))
        limit = budget or max(1000, sum(map(measure, chat_messages(messages))) // 4)
        results = list(score_strategies(found, messages, redactor=ws.redactor, budget_tokens=limit))
    if as_json:
        print_json(
            {
                "budget": limit,
                "strategies": [{"name": name, "fits": fits, **kept._asdict()} for name, fits, kept in results],
            }
        )
        return
    rows = [(name, "yes" if fits else "no", *_cells(kept)) for name, fits, kept in results]
    table(("", "fits", *_COLUMNS), rows, right=_COLUMNS)
    click.echo(f"Budget: {counted(limit, 'token')}", err=True)


def _cells(kept: Score) -> list[str]:
    tokens, *shares, _ = kept
    return [f"{tokens:,}", *("–" if share is None else f"{share:.2f}" for share in shares)]
