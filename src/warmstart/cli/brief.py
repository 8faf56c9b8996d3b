"""`warmstart brief`."""

from __future__ import annotations

import click

from warmstart.app import Warmstart
from warmstart.cli.options import Count, json_option, project_option
from warmstart.cli.output import print_json, read_stdin, settings
from warmstart.cli.terminal import counted, wrapped
from warmstart.templates.brief import DEFAULT_TOKENS, MAX_TOKENS, Brief, Line

_MAX_IDS = 3


@click.command(
    epilog='\b\nExamples:\n  warmstart brief\n  warmstart brief --task "add a storm table" --explain\n'
    "  git log -1 --format=%B | warmstart brief --task -"
)
@project_option
@click.option("--task", default="", metavar="TEXT", help="What the session is about; - reads standard input.")
@click.option("--budget", type=Count(20, MAX_TOKENS), default=DEFAULT_TOKENS, show_default=True, help="Maximum tokens.")
@click.option("--explain", is_flag=True, help="Show where each line comes from and why it is there.")
@json_option
def command(project: str, task: str, budget: int, explain: bool, as_json: bool) -> None:
    """Print what a new session in this project should know.

    Built from what worked and failed in earlier sessions of the project, it is exactly the text that a session gets:
    commands that work, past mistakes and fixes, your standing rules, and the files to expect.
    """
    if task == "-":
        task = read_stdin("give --task TEXT").decode(errors="replace")
    with Warmstart(settings()) as ws:
        if task or budget != DEFAULT_TOKENS:
            brief = ws.brief(project=project, task=task, budget_tokens=budget)
        else:
            brief = ws.store_brief(project)
    if as_json:
        sections = [{"heading": name, "lines": [_line_dict(line) for line in lines]} for name, lines in brief.sections]
        print_json({"text": brief.text, "tokens": brief.tokens, "sections": sections})
    elif explain:
        _explain(brief)
    elif brief.text:
        click.echo(brief.text)
    if not brief.text:
        click.echo("Nothing is known about this project yet; `warmstart sync` imports its sessions.", err=True)


def _line_dict(line: Line) -> dict[str, object]:
    sources = [{"session_id": source.session, "message_id": source.message} for source in line.sources]
    return {"text": line.text, "why": line.why, "sources": sources}


def _explain(brief: Brief) -> None:
    for heading, lines in brief.sections:
        click.echo(f"## {heading}")
        for line in lines:
            sessions = list(dict.fromkeys(source.session[:8] for source in line.sources))
            ids = ", ".join(sessions[:_MAX_IDS])
            more = f" and {len(sessions) - _MAX_IDS} more" if len(sessions) > _MAX_IDS else ""
            click.echo(wrapped(line.text, "- "))
            click.echo(wrapped(line.why + (f"; from {ids}{more}" if sessions else ""), "    "))
    if brief.text:
        click.echo(counted(brief.tokens, "token"))
