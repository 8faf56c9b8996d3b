"""Which template a session would start from and why, and what templates have done so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmstart.cli.output import as_data, counted, iso, local, one_line, print_json, printable, settings, table
from warmstart.cli.progress import progress_bar
from warmstart.cli.selection import stored_project
from warmstart.cli.templates_options import changed_said, json_option, settled, templates, tools_option
from warmstart.cli.templates_report import carried_lines, effect_said, percent, template_dict
from warmstart.config import Settings
from warmstart.errors import TemplateNotFound
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.projects import project_of
from warmstart.templates.choosing.audit import settle
from warmstart.templates.choosing.audit import why as uses_of
from warmstart.templates.choosing.lifecycle import review
from warmstart.templates.choosing.selection import Selector
from warmstart.templates.choosing.statistics import Statistics, Usage
from warmstart.templates.choosing.statistics import stats as statistics
from warmstart.templates.choosing.values import MAX_ERROR_RATE, MIN_CALLS, Choice, Policy, Suggestion, Use
from warmstart.templates.store import SQLTemplateStore

if TYPE_CHECKING:
    from warmstart.templates.choosing.auto import Made

_MADE = "warmstart templates extract 58e3c7d9 --name surges && "
_PATIENCE_MS = 5000.0  # a person waits longer than a session that starts, and gets the same answer every time


@click.command(epilog=f'Example: {_MADE}warmstart templates suggest "keep a table of storm warnings" --all-projects')
@click.argument("task", nargs=-1, required=True)
@click.option("--project", default="", help="Another project: its folder, a path inside it, or its name.")
@click.option("--all-projects", is_flag=True, help="Look at the templates of all projects.")
@click.option("--agent", default="", help="The agent whose session it is.")
@click.option("--seed", type=int, help="Also draw as a session would, with this seed; the same seed draws the same.")
@tools_option
@json_option
def suggest(
    task: tuple[str, ...],
    project: str,
    all_projects: bool,
    agent: str,
    seed: int | None,
    tools: list[Mapping[str, Any] | str] | None,
    as_json: bool,
) -> None:
    """Say which template a session with this TASK would start from, how sure that is, and why.

    Where nothing fits, it is better to start cold, and this says so. Nothing is recorded.
    """
    if project and all_projects:
        raise click.UsageError("--project and --all-projects contradict each other; give one of them")
    from warmstart.recall.recall import Recall  # with numpy, which the other commands do not need

    where = "" if all_projects else stored_project(project) or project_of(str(Path.cwd()))
    current = settings()
    said = " ".join(task)
    with templates(current) as store:
        settled(store, current)
        recall = Recall(store.sessions)
        with progress_bar("Indexing") as progress:
            recall.update(progress)
        selector = Selector(store, recall=recall, policy=policy_of(current), deadline_ms=_PATIENCE_MS)
        place: dict[str, Any] = {"project": where, "agent": agent, "tools": tools, "all_projects": all_projects}
        found = selector.suggest(said, **place)
        choice = selector.choose(said, **place, seed=seed)
    if as_json:
        print_json(_suggested(said, found, choice, seed))
        return
    if not found:
        click.echo(f"Start cold: {one_line(choice.why, 400)}.")
        if "of another project" in choice.why:
            click.echo("--all-projects looks at the templates of other projects too.", err=True)
        return
    for number, each in enumerate(found, 1):
        click.secho(f"{number}. {printable(each.name)}  {each.id}", bold=True)
        share = choice.odds.get(each.id)
        drawn = "" if share is None else f"; drawn in {percent(share)} of such sessions"
        click.echo(f"   sure: {each.confidence} ({each.sure:.2f}){drawn}")
        click.echo(f"   why: {one_line(each.why, 400)}")
    click.echo(f"{percent(choice.policy.holdout)} of sessions start cold, to measure by.", err=True)
    if seed is not None:
        click.echo(f"With the seed {seed}: {choice.arm}, {one_line(choice.why, 400)}.")


def policy_of(current: Settings) -> Policy:
    """How to choose, as the settings say."""
    return Policy(holdout=current.templates_holdout, explore=current.templates_explore)


def _suggested(task: str, found: Sequence[Suggestion], choice: Choice, seed: int | None) -> dict[str, Any]:
    drawn = None
    if seed is not None:
        drawn = {
            "seed": seed,
            "arm": choice.arm,
            "template": choice.template.id if choice.template else None,
            "why": choice.why,
            "propensity": choice.propensity,
        }
    return {
        "task": task,
        "abstain": not found,
        "why": choice.why if not found else found[0].why,
        "suggestions": [
            {**as_data(each), "confidence": each.confidence, "odds": choice.odds.get(each.id)} for each in found
        ],
        "holdout": choice.policy.holdout,
        "drawn": drawn,
    }


@click.command(epilog="Example: warmstart templates why 58e3c7d9")
@click.argument("session")
@json_option
def why(session: str, as_json: bool) -> None:
    """Tell what a session started with: which template and version, what of it, and why.

    Also for sessions that started cold, because nothing fitted or to measure by.
    """
    current = settings()
    with templates(current) as store:
        settled(store, current)
        found = uses_of(store, session)
        carried = {use.id: _carried(store, use) for use in found}
    if as_json:
        print_json([{**as_data(use), "at": iso(use.at)} for use in found])
    elif not found:
        click.echo(f"How {one_line(session, 60)} started was not recorded: no template had a part in it.", err=True)
    else:
        for use in found:
            _print_use(use)
            for line in carried[use.id]:
                click.echo(line)


def _carried(store: SQLTemplateStore, use: Use) -> list[str]:
    """What a session started with, in lines; none where that was revoked or deleted since."""
    if use.arm != "warm":
        return []
    try:
        return list(carried_lines(store.get(use.template, version=use.version), use.items))
    except TemplateNotFound:
        return []


def _print_use(use: Use) -> None:
    said = {
        "warm": f"started from {use.template}, version {use.version}",
        "holdout": f"started cold, to measure {use.template}, version {use.version}, by it",
        "abstained": "started cold",
    }
    click.secho(printable(f"{local(use.at)}  {use.session} {said[use.arm]}"), bold=True)
    facts = {
        "why": use.why,
        "task": use.task,
        "project": use.project,
        "chance": f"{percent(use.propensity)} for just this",
        "outcome": use.outcome or "not known yet",
        "errors": f"{use.errors} of {counted(use.calls, 'call')}" if use.calls is not None else "",
        "carried": f"{counted(len(use.items), 'item')}, {use.tokens} tokens" if use.arm == "warm" else "",
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name + ':':<9} {one_line(value, 400)}")


@click.command(epilog="Example: warmstart templates stats")
@json_option
def stats(as_json: bool) -> None:
    """Show how sessions went that started from templates, against those that started cold.

    A rate comes with its 95 % interval, and an effect is a difference with its interval, or not yet known.
    """
    current = settings()
    with templates(current) as store:
        settled(store, current, always=True)
        found = statistics(store)
    if as_json:
        print_json(_statistics_dict(found))
    else:
        _print_statistics(found)


def _statistics_dict(found: Statistics) -> dict[str, Any]:
    def usage(of: Usage) -> dict[str, Any]:
        return {**as_data(of), "last_used": iso(of.last_used)}

    return {
        **as_data(found),
        "usage": usage(found.usage),
        "lines": [{**as_data(line), "usage": usage(line.usage)} for line in found.lines],
    }


def _print_statistics(found: Statistics) -> None:
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
    click.echo(f"{counted(found.templates, 'template')}{f' ({states})' if states else ''}.")
    usage = found.usage
    if not (usage.used or usage.held_out or found.abstained):
        click.echo("No session has started with them yet, so what they are worth is not yet known.")
        return
    click.echo(
        f"{counted(usage.used, 'session')} started warm, {usage.held_out} cold to measure by, "
        f"{found.abstained} cold because nothing fitted; the outcome of {found.open} is not known yet."
    )
    click.echo(f"Effect: {effect_said(usage.effect)}.")
    if found.lines:
        click.echo()
        rows = [
            (
                line.id,
                one_line(line.name, 40),
                line.state,
                line.usage.used,
                _rate(line.usage),
                effect_said(line.usage.effect),
            )
            for line in found.lines
        ]
        table(("id", "name", "state", "used", "success", "effect"), rows, right=("used",), spare=("state",))


def _rate(usage: Usage) -> str:
    if usage.rate is None or usage.interval is None:
        return "not yet known"
    return f"{percent(usage.rate)} ({percent(usage.interval.low)} to {percent(usage.interval.high)})"


@click.command(epilog="Example: warmstart templates auto --min-calls 10 --dry-run")
@click.option(
    "--min-calls", type=click.IntRange(min=1), default=MIN_CALLS, show_default=True, help="Only sessions with so many."
)
@click.option(
    "--max-error-rate",
    type=click.FloatRange(0, 1),
    default=MAX_ERROR_RATE,
    show_default=True,
    help="Only sessions in which no larger share of the calls failed.",
)
@click.option("--project", default="", help="Only this project: its folder, a path inside it, or its name.")
@click.option("--dry-run", is_flag=True, help="Show what would be made, and make nothing.")
@json_option
def auto(min_calls: int, max_error_rate: float, project: str, dry_run: bool, as_json: bool) -> None:
    """Make templates of sessions that went well, one for each project and kind of task.

    They are candidates: tried now and then, and active as soon as two independent sessions do what they show. Templates
    that this made before are brought up to date, and every template comes into the state that it has earned: what did
    harm, or has been of no use for long, is retired.
    """
    from warmstart.templates.choosing.auto import auto as make_all  # with all of extraction, as for `extract`

    current = settings()
    with templates(current) as store:
        settle(store, tools=current.profile_tools)
        with progress_bar("Profiling") as progress:
            made = make_all(
                store,
                min_calls=min_calls,
                max_error_rate=max_error_rate,
                dry_run=dry_run,
                project=stored_project(project),
                kinds=current.profile_tools,
                redactor=configured_redactor(current),
                progress=progress,
            )
        changed = review(store, max_age_days=current.templates_max_age_days, dry_run=dry_run)
    if as_json:
        print_json({"groups": [_made_dict(each) for each in made], "states": as_data(changed), "dry_run": dry_run})
        return
    if not made:
        click.echo("No sessions. `warmstart sync` imports them from your agents' histories.", err=True)
        return
    rows = [
        (
            each.action if not dry_run or each.action == "skipped" else f"would be {each.action}",
            each.task_type,
            Path(each.project).name or "no project",
            len(each.sessions),
            each.template.id if each.template else "",
            each.why,
        )
        for each in made
    ]
    table(("what", "type", "project", "sessions", "template", "why"), rows, right=("sessions",), spare=("sessions",))
    for each in changed:
        click.echo(changed_said(each, would=dry_run), err=True)


def _made_dict(made: Made) -> dict[str, Any]:
    return {
        "project": made.project,
        "task_type": made.task_type,
        "action": made.action,
        "why": made.why,
        "sessions": list(made.sessions),
        "template": template_dict(made.template, seed=False) if made.template else None,
    }
