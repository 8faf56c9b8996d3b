"""`warmstart preflight` and `warmstart prompt`: what an agent sees for a message and in its prompt."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.app import Warmstart
from warmstart.cli.options import DefaultGroup, Group, json_option, project_option, project_options, scope_of
from warmstart.cli.output import print_json, print_scope, settings
from warmstart.cli.terminal import counted, printable
from warmstart.hosts.guard import is_paused
from warmstart.preflight.overlay import CPU_LIMIT, TIME_LIMIT
from warmstart.preflight.prompt import Prompt
from warmstart.preflight.report import Mean
from warmstart.sessions.projects import resolve_project
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import clean
from warmstart.templates.brief import read_texts
from warmstart.templates.rules import DOCS

_SKILLS = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md")
_SKILL_FIELD = re.compile(r"^(name|description):[ \t]*[\"']?(.*?)[\"']?[ \t]*$", re.MULTILINE)
_MAX_HEADER = 4_000  # characters of a skill that are searched for its fields
_MAX_MEMORIES = 1_000  # newest, of those that an agent need not have looked up


@click.group(
    cls=DefaultGroup,
    default="show",
    epilog='\b\nExamples:\n  warmstart preflight "how did we fix the flaky test last time"\n'
    "  warmstart preflight report",
)
def command() -> None:
    """Show what an agent would see from earlier sessions for a message.

    `warmstart preflight "MESSAGE"` is short for `warmstart preflight show "MESSAGE"`. Nothing is recorded.
    """


@command.command(epilog='Example: warmstart preflight "add a storm table" --explain')
@click.argument("message", nargs=-1, required=True)
@project_option
@click.option("--later", is_flag=True, help="Treat it as a later message of a session, not the first.")
@click.option("--explain", is_flag=True, help="Also say why, how long it took, and which turns it comes from.")
@json_option
def show(message: tuple[str, ...], project: str, later: bool, explain: bool, as_json: bool) -> None:
    """Print what would be added to the request for this message, if anything."""
    with Warmstart(settings()) as ws:
        overlay = ws.preflight(" ".join(message), project=project, first=not later)
        sources = dict.fromkeys(_source(ws.store, turn) for turn in overlay.evidence if turn[0].isdigit())
    if as_json:
        names = ("text", "reason", "evidence", "tokens", "milliseconds")
        evidence = [{"session_id": session, "message": number} for session, number in sources]
        print_json({name: getattr(overlay, name) for name in names} | {"evidence": evidence})
        return
    if overlay.text:
        click.echo(printable(overlay.text))
    if not overlay.text:
        click.echo(f"Nothing to show: {overlay.reason} ({overlay.milliseconds:.1f} ms).", err=True)
    elif explain:
        click.echo(f"{overlay.reason}; {overlay.milliseconds:.1f} ms, {counted(overlay.tokens, 'token')}", err=True)
    if is_paused(str(settings().home), resolve_project(project)):
        click.echo("Hooks are paused here, so no agent gets this now; `warmstart pause off` ends it.", err=True)
    if explain:
        for session, number in sources:
            click.echo(f"from `warmstart sessions show {session[:10]} --message {number}`", err=True)


def _source(store: SQLSessionStore, turn: str) -> tuple[str, int]:
    """The session and the first message of a turn, which an overlay names by row numbers."""
    session, number = map(int, turn.split(":")[:2])
    return store.fetch("SELECT id FROM sessions WHERE pk = ?", (session,))[0][0], number


@command.command(epilog="Example: warmstart preflight report --all-projects --json")
@project_options
@json_option
def report(project: str, all_projects: bool, as_json: bool) -> None:
    """Show how often agents were shown something, what it cost, and what happened then.

    Compares tool calls and the user's corrections in turns with and without an overlay; the turns differ in other ways
    too, so the difference is not its effect. A look-up is of something known if its result repeats an earlier look-up,
    names a session that an overlay had shown, or returns a memory that was stored before.
    """
    from warmstart.preflight.index import migrate
    from warmstart.preflight.report import report as make_report

    with Warmstart(settings()) as ws:
        migrate(ws.store)
        scope = scope_of(project, all_projects, ws.store.projects())
        memories = [] if ws.memory.backend.is_cloud else ws.memory.list(limit=_MAX_MEMORIES)
        data = make_report(ws.store, project=clean(scope.project), memories=memories)
    if as_json:
        print_json(data)
        return
    if not data.turns:
        print_scope(0, "message", scope, create="`warmstart install` sets up the agents that record them")
        return
    click.echo(f"{counted(data.turns, 'message')} ({scope}), {data.injected} with an overlay ({data.tokens:,} tokens)")
    for reason, times in data.reasons.items():
        click.echo(f"  {times:>6,}  {reason}")
    cpu, wall = data.reasons.get(CPU_LIMIT, 0), data.reasons.get(TIME_LIMIT, 0)
    click.echo(f"Searches that were given up: {cpu} at the limit of CPU time, {wall} at the limit of time")
    click.echo(f"Tool calls per turn: {_compare(data.calls_with, data.calls_without, 1)}")
    click.echo(f"Corrections by the user per turn: {_compare(data.corrections_with, data.corrections_without, 2)}")
    if data.used_of and data.used_interval:
        low, high = data.used_interval
        used = f"{data.used} of {counted(data.used_of, 'turn')}"
        click.echo(f"Used what it was shown: {used} ({low:.0%} to {high:.0%}, 95 %)")
    click.echo(
        f"Look-ups of what was known already: {counted(data.known_lookups, 'call')}, "
        f"{counted(data.known_lookup_tokens, 'token')} in {counted(data.sessions, 'session')}"
    )
    click.echo(f"Time in the first turn: p50 {data.first_turn_p50_ms:.1f} ms, p95 {data.first_turn_p95_ms:.1f} ms")
    click.echo(f"Time in all turns: p50 {data.p50_ms:.1f} ms, p95 {data.p95_ms:.1f} ms")


def _compare(with_overlay: Mean, without: Mean, digits: int) -> str:
    """Two means, each with the number of turns behind it."""
    texts: list[str] = []
    for mean in (with_overlay, without):
        known = "unknown" if mean.value is None else f"{mean.value:.{digits}f} ({counted(mean.turns, 'turn')})"
        texts.append(known)
    return f"{texts[0]} with an overlay, {texts[1]} without"


@click.group("prompt", cls=Group, epilog="Example: warmstart prompt show")
def prompt_command() -> None:
    """Show what makes up an agent's prompt in a project."""


@prompt_command.command("show", epilog="Example: warmstart prompt show --project . --json")
@project_option
@json_option
def show_prompt(project: str, as_json: bool) -> None:
    """Print the tiers of the prompt, what each costs, and which ones a provider can cache.

    From stable to volatile: the agent's own identity; the preflight block (`context_preflight.mode`); guidance (the
    brief); the index of skills; the project's instruction files; and memories with the date.
    """
    current = settings()
    where = Path(resolve_project(project))
    with Warmstart(current) as ws:
        known = ws.memory.of_project(str(where))
        prompt = Prompt(
            mode=current.preflight_mode,
            guidance=ws.brief(project=project).text,
            skills=_read_skills(where),
            context=dict(read_texts(where, DOCS)),
            memories=[*known.memories, *known.notes],
            date=f"{datetime.now(UTC):%Y-%m-%d}",
        )
    tiers = prompt.tiers
    total = sum(tier.tokens for tier in tiers)
    if as_json:
        data = [{"tier": one.name, "cached": one.is_cached, "tokens": one.tokens, "text": one.text} for one in tiers]
        print_json({"tiers": data, "tokens": total})
        return
    for tier in tiers:
        cost = f"{counted(tier.tokens, 'token')}, {'cached' if tier.is_cached else 'not cached'}"
        click.secho(f"== {tier.name} ({cost})", bold=True)
        click.echo(f"{tier.text}\n" if tier.text else "")
    cached = sum(tier.tokens for tier in tiers if tier.is_cached)
    click.echo(f"{counted(total, 'token')}, {cached:,} of them in the cached prefix.", err=True)


def _read_skills(folder: Path) -> dict[str, str]:
    """The descriptions of a project's skills by name, as agents list them in their prompts."""
    paths = sorted(str(path.relative_to(folder)) for pattern in _SKILLS for path in folder.glob(pattern))
    skills: dict[str, str] = {}
    for path, text in read_texts(folder, paths):
        fields = dict(_SKILL_FIELD.findall(text[:_MAX_HEADER]))
        skills[fields.get("name") or path.split("/")[-2]] = fields.get("description", "")
    return skills
