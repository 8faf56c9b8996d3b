"""`warmstart templates`: which template a session starts from and why, and how well that works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from warmstart.cli.completion import complete_agents, complete_sessions
from warmstart.cli.options import SHARE, Count, json_option, project_options, scope_of, tools_option
from warmstart.cli.output import (
    as_data,
    counted,
    local,
    one_line,
    print_json,
    print_scope,
    progress_bar,
    rename_keys,
    settings,
    table,
    warn_skip,
)
from warmstart.cli.templates_report import (
    carried_lines,
    describe_change,
    describe_effect,
    percent,
    settle_uses,
    template_dict,
    templates,
)
from warmstart.cli.terminal import printable
from warmstart.config import Settings
from warmstart.errors import TemplateNotFound
from warmstart.redact.configured import configured_redactor
from warmstart.sessions.projects import short_names
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

_NEW = "warmstart templates extract 58e3c7d9 --name surges && "
_DEADLINE_MS = 5000.0  # a person waits longer than a host does


@click.command(epilog=f'Example: {_NEW}warmstart templates suggest "keep a table of storm warnings" --all-projects')
@click.argument("task", nargs=-1, required=True)
@project_options
@click.option("--agent", default="", shell_complete=complete_agents, help="The agent of the session.")
@click.option("--seed", type=Count(0), help="Also draw an arm as a session would, with this random seed.")
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
    """Show which template a session with this TASK would start from, how confident the choice is, and why.

    If nothing fits, a session starts cold. Nothing is recorded.
    """
    from warmstart.recall.recall import Recall  # loads numpy

    current = settings()
    said = " ".join(task)
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle_uses(store, current)
        recall = Recall(store.sessions)
        with progress_bar("Indexing") as progress:
            recall.update(progress)
        selector = Selector(store, recall=recall, policy=policy_of(current), deadline_ms=_DEADLINE_MS)
        place: dict[str, Any] = {
            "project": scope.project,
            "agent": agent,
            "tools": tools,
            "all_projects": not scope.project,
        }
        found = selector.suggest(said, **place)
        choice = selector.choose(said, **place, seed=seed)
    if as_json:
        print_json(_suggested(said, found, choice, seed))
        return
    if not found:
        click.echo(f"Start cold: {one_line(choice.why, 400)}.")
        if "of another project" in choice.why:
            click.echo("--all-projects also considers templates of other projects.", err=True)
        return
    for number, each in enumerate(found, 1):
        click.secho(f"{number}. {printable(each.name)}  {each.id}", bold=True)
        share = choice.odds.get(each.id)
        drawn = "" if share is None else f"; chosen for {percent(share)} of such sessions"
        click.echo(f"   confidence: {each.confidence} ({each.sure:.2f}){drawn}")
        click.echo(f"   why: {one_line(each.why, 400)}")
    click.echo(f"{percent(choice.policy.holdout)} of sessions start cold as a control group.", err=True)
    if seed is not None:
        click.echo(f"With seed {seed}: {choice.arm}, {one_line(choice.why, 400)}.")


def policy_of(current: Settings) -> Policy:
    """The selection policy in the settings."""
    return Policy(holdout=current.templates_holdout, explore=current.templates_explore)


def _suggested(task: str, found: Sequence[Suggestion], choice: Choice, seed: int | None) -> dict[str, Any]:
    drawn = None
    if seed is not None:
        drawn = {
            "seed": seed,
            "arm": choice.arm,
            "template_id": choice.template.id if choice.template else None,
            "why": choice.why,
            "propensity": choice.propensity,
        }
    return {
        "task": task,
        "abstain": not found,
        "why": choice.why if not found else found[0].why,
        "suggestions": [
            {
                **rename_keys(each, id="template_id"),
                "confidence": each.confidence,
                "odds": choice.odds.get(each.id),
            }
            for each in found
        ],
        "holdout": choice.policy.holdout,
        "drawn": drawn,
    }


@click.command(epilog="Example: warmstart templates why 58e3c7d9")
@click.argument("session", shell_complete=complete_sessions)
@json_option
def why(session: str, as_json: bool) -> None:
    """Show what a session started with: which template and version, which items, and why.

    Sessions that started cold are explained too.
    """
    current = settings()
    with templates(current) as store:
        settle_uses(store, current)
        found = uses_of(store, session)
        carried = {use.id: _carried(store, use) for use in found}
    if as_json:
        print_json(
            [rename_keys(use, session="session_id", template="template_id", calls="tool_calls") for use in found]
        )
    elif not found:
        click.echo(f"No record of how session {one_line(session, 60)} started: no template was involved.", err=True)
    else:
        for use in found:
            _print_use(use)
            for line in carried[use.id]:
                click.echo(line)


def _carried(store: SQLTemplateStore, use: Use) -> list[str]:
    """The items that a session started with; none if they were revoked or deleted since."""
    if use.arm != "warm":
        return []
    try:
        return list(carried_lines(store.get(use.template, version=use.version), use.items))
    except TemplateNotFound:
        return []


def _print_use(use: Use) -> None:
    arms = {
        "warm": f"started from {use.template}, version {use.version}",
        "holdout": f"started cold, in the control group of {use.template}, version {use.version}",
        "abstained": "started cold",
    }
    click.secho(printable(f"{local(use.at)}  {use.session} {arms[use.arm]}"), bold=True)
    facts = {
        "why": use.why,
        "task": use.task,
        "project": use.project,
        "propensity": percent(use.propensity),
        "outcome": use.outcome or "not yet known",
        "errors": f"{use.errors} of {counted(use.calls, 'call')}" if use.calls is not None else "",
        "carried": f"{counted(len(use.items), 'item')}, {use.tokens} tokens" if use.arm == "warm" else "",
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{name + ':':<11} {one_line(value, 400)}")


@click.command(epilog="Example: warmstart templates stats")
@json_option
def stats(as_json: bool) -> None:
    """Compare sessions that started from templates with sessions that started cold.

    Rates and effects come with 95 % intervals.
    """
    current = settings()
    with templates(current) as store:
        settle_uses(store, current, always=True)
        found = statistics(store)
    if as_json:
        print_json(_statistics_dict(found))
    else:
        _print_statistics(found)


def _statistics_dict(found: Statistics) -> dict[str, Any]:
    return {**as_data(found), "lines": [rename_keys(line, id="template_id") for line in found.lines]}


def _print_statistics(found: Statistics) -> None:
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
    click.echo(f"{counted(found.templates, 'template')}{f' ({states})' if states else ''}.")
    usage = found.usage
    if not (usage.used or usage.held_out or found.abstained):
        click.echo("No session has started from them yet, so their effect is not yet known.")
        return
    click.echo(
        f"{counted(usage.used, 'session')} started warm, {usage.held_out} cold as a control group, "
        f"{found.abstained} cold because nothing fit; {found.open} outcomes are not yet known."
    )
    click.echo(f"Effect: {describe_effect(usage.effect)}.")
    if found.lines:
        click.echo()
        rows = [
            (
                line.id,
                one_line(line.name, 40),
                line.state,
                line.usage.used,
                _rate(line.usage),
                describe_effect(line.usage.effect),
            )
            for line in found.lines
        ]
        table(
            ("id", "name", "state", "used", "success", "effect"),
            rows,
            right=("used",),
            spare=("success", "used"),
            flexible=("name", "effect"),
        )


def _rate(usage: Usage) -> str:
    if usage.rate is None or usage.interval is None:
        return "not yet known"
    return f"{percent(usage.rate)} ({percent(usage.interval.low)} to {percent(usage.interval.high)})"


@click.command(epilog="Example: warmstart templates auto --min-calls 10 --dry-run")
@click.option(
    "--min-calls",
    type=Count(1),
    default=MIN_CALLS,
    show_default=True,
    help="Minimum number of tool calls of a session.",
)
@click.option(
    "--max-error-rate",
    type=SHARE,
    default=MAX_ERROR_RATE,
    show_default=True,
    help="Maximum share of failed calls of a session.",
)
@project_options
@click.option("--dry-run", is_flag=True, help="Show what would be created, but create nothing.")
@json_option
def auto(min_calls: int, max_error_rate: float, project: str, all_projects: bool, dry_run: bool, as_json: bool) -> None:
    """Create templates from sessions that went well, one per project and task type.

    They are candidates: no session starts from one until you promote it. Earlier candidates are updated, and templates
    that did harm or were not used for long are retired.
    """
    from warmstart.templates.choosing.auto import auto as make_all  # loads all of extraction

    current = settings()
    with templates(current) as store:
        scope = scope_of(project, all_projects, store.sessions.projects())
        settle(store, tools=current.profile_tools)
        with progress_bar("Profiling") as progress:
            made = make_all(
                store,
                min_calls=min_calls,
                max_error_rate=max_error_rate,
                dry_run=dry_run,
                project=scope.project,
                kinds=current.profile_tools,
                redactor=configured_redactor(current),
                progress=progress,
                skip=warn_skip,
            )
        changed = review(store, max_age_days=current.templates_max_age_days, dry_run=dry_run)
    if as_json:
        print_json({"groups": [_made_dict(each) for each in made], "states": as_data(changed), "dry_run": dry_run})
        return
    print_scope(sum(len(each.sessions) for each in made), "session", scope)
    names = short_names(each.project for each in made)
    rows = [
        (
            each.action if not dry_run or each.action == "skipped" else f"would be {each.action}",
            each.task_type,
            names[each.project] or "no project",
            len(each.sessions),
            each.template.id if each.template else "",
            each.why,
        )
        for each in made
    ]
    table(
        ("what", "type", "project", "sessions", "template", "why"),
        rows,
        right=("sessions",),
        spare=("sessions",),
        flexible=("project", "why"),
    )
    for each in changed:
        click.echo(describe_change(each, would=dry_run), err=True)


def _made_dict(made: Made) -> dict[str, Any]:
    return {
        "project": made.project,
        "task_type": made.task_type,
        "action": made.action,
        "why": made.why,
        "session_ids": list(made.sessions),
        "template": template_dict(made.template, seed=False) if made.template else None,
    }
