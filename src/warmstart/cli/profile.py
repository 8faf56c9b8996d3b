"""`warmstart profile`: how sessions went, all together or one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.cli.output import as_data, counted, iso, print_json, settings
from warmstart.cli.profile_report import print_profile, print_report
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import Since, stored_project
from warmstart.config import Settings
from warmstart.profile.profiles import profile_of, profiled
from warmstart.profile.values import Profiled, redacted
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.store import Filter
from warmstart.sessions.stores import open_store


@click.command(
    epilog="Examples: warmstart profile --since 30d · warmstart profile 3f0c1d52 · warmstart profile --html p.html"
)
@click.argument("session", required=False)
@click.option("--agent", default="", help="Only sessions of this agent.")
@click.option("--project", default="", help="Only sessions of this project: its folder, a path inside it, or its name.")
@click.option("--since", type=Since(), help="Only sessions that started since: 2026-09-01, 7d, 12h.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    session: str | None, agent: str, project: str, since: datetime | None, html: Path | None, as_json: bool
) -> None:
    """Show how sessions went: errors, recoveries, and whether sessions learn.

    Without a SESSION all of them together, with one that session alone. Profiles are kept in the store and made anew
    only for sessions that changed. Rates come with a 95 % interval over sessions.
    """
    current = settings()
    if session is not None:
        if agent or project or since or html:
            raise click.UsageError("--agent, --project, --since and --html are for many sessions; leave SESSION out")
        _one(current, session, as_json)
        return
    chosen = Filter(agent=agent, project=stored_project(project), since=since)
    with open_store(current) as store, progress_bar("Profiling") as progress:
        found = list(profiled(store, tools=current.profile_tools, filter=chosen, progress=progress))
    _many(current, found, _scope(agent, project, since), html, as_json)


def _many(current: Settings, found: list[Profiled], scope: str, html: Path | None, as_json: bool) -> None:
    from warmstart.profile.corpus.report import report  # with numpy, which a single session does not need

    redactor = configured_redactor(current)
    made = report(found, redact=lambda text: redactor.redact(text).text)
    if html is not None:
        from warmstart.profile.page.page import page

        text = page(made, made=datetime.now(UTC), scope=scope)
        html.write_bytes(text.encode("utf-8", "replace"))
        click.echo(f"Report on {counted(len(found), 'session')} written to {html}.", err=True)
    if as_json:
        print_json(as_data(made))
    elif not found:
        click.echo(_nothing(scope), err=True)
    elif html is None:
        print_report(made, scope)


def _nothing(scope: str) -> str:
    if scope:
        return f"No sessions ({scope}). `warmstart sessions list` shows which agents and projects there are."
    return "No sessions. `warmstart sync` imports them from your agents' histories."


def _scope(agent: str, project: str, since: datetime | None) -> str:
    parts = (agent, Path(project).name or project, f"since {since:%Y-%m-%d}" if since else "")
    return ", ".join(part for part in parts if part)


def _one(current: Settings, id: str, as_json: bool) -> None:
    with open_store(current) as store:
        session = store.get(id)
        profile = profile_of(store, session, tools=current.profile_tools)
    redactor = configured_redactor(current)
    profile = redacted(profile, lambda text: redactor.redact(text).text)
    if as_json:
        facts = {"id": session.id, "agent": session.agent, "native_id": session.native_id, "title": session.title}
        print_json({**facts, "started_at": iso(session.started_at), **as_data(profile)})
    else:
        print_profile(session, profile)
