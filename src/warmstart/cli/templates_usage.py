"""`warmstart templates`: which one a session starts from, and its effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions
from warmstart.cli.options import SHARE, Count, json_option, project_options, scope_of
from warmstart.cli.output import (
    as_data,
    counted,
    local,
    one_line,
    print_facts,
    print_json,
    print_scope,
    progress_bar,
    rename_keys,
    settings,
    table,
    wrapped,
)
from warmstart.cli.templates import (
    NEW,
    command,
    describe_change,
    describe_effect,
    item_lines,
    percent,
    settle_uses,
    template_dict,
)
from warmstart.cli.terminal import printable
from warmstart.errors import TemplateNotFound
from warmstart.sessions.projects import short_names
from warmstart.templates.audit import Statistics, Use, settle
from warmstart.templates.audit import stats as count_all
from warmstart.templates.audit import why as find_uses
from warmstart.templates.item import item_id
from warmstart.templates.lifecycle import Counts, review
from warmstart.templates.make import auto as make_all
from warmstart.templates.selection import Choice, Suggestion, Task
from warmstart.templates.store import SQLTemplateStore

_DEADLINE_MS = 5000.0  # a person can wait longer than a host


@command.command(epilog=f'Example: {NEW}warmstart templates suggest "keep a table of storm warnings" --all-projects')
@click.argument("task", nargs=-1, required=True)
@project_options
@click.option("--seed", type=Count(0), help="Also draw an arm as a session would, with this random seed.")
@json_option
def suggest(task: tuple[str, ...], project: str, all_projects: bool, seed: int | None, as_json: bool) -> None:
    """Show which template a session with this TASK would start from, how confident the choice is, and why.

    If nothing fits, a session starts cold. Nothing is recorded.
    """
    text = " ".join(task)
    with Warmstart(settings()) as ws:
        scope = scope_of(project, all_projects, ws.store.projects())
        settle_uses(ws)
        selector = ws.templates.selector(deadline_ms=_DEADLINE_MS)
        asked = Task(text, project=scope.project or None)
        suggestions = selector.suggest(asked)
        choice = selector.choose(asked, seed=seed)
    if as_json:
        print_json(_suggestions_dict(text, suggestions, choice, seed))
        return
    if not suggestions:
        click.echo(f"Start cold: {one_line(choice.why, 400)}.")
        if "from another project" in choice.why:
            click.echo("--all-projects also considers templates of other projects.", err=True)
        return
    for number, each in enumerate(suggestions, 1):
        click.secho(f"{number}. {printable(each.name)}  {each.id}", bold=True)
        share = choice.odds.get(each.id)
        drawn = "" if share is None else f"; chosen for {percent(share)} of such sessions"
        click.echo(f"   confidence: {each.sure:.2f}{drawn}")
        click.echo(wrapped(one_line(each.why, 400), "   why: "))
    click.echo(f"{percent(choice.policy.holdout)} of sessions start cold as a control group.", err=True)
    if seed is not None:
        click.echo(wrapped(f"With seed {seed}: {choice.arm}, {one_line(choice.why, 400)}."))


def _suggestions_dict(task: str, matches: Sequence[Suggestion], choice: Choice, seed: int | None) -> dict[str, Any]:
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
        "abstain": not matches,
        "why": choice.why if not matches else matches[0].why,
        "suggestions": [{**rename_keys(each, id="template_id"), "odds": choice.odds.get(each.id)} for each in matches],
        "holdout": choice.policy.holdout,
        "drawn": drawn,
    }


@command.command(epilog="Example: warmstart templates why 58e3c7d9")
@click.argument("session", shell_complete=complete_sessions)
@json_option
def why(session: str, as_json: bool) -> None:
    """Show what a session started with: which template and version, which items, and why.

    Sessions that started cold are explained too.
    """
    with Warmstart(settings()) as ws:
        settle_uses(ws)
        uses = find_uses(ws.templates.store, session)
        carried = {use.id: _carried(ws.templates.store, use) for use in uses}
    if as_json:
        print_json([rename_keys(use, session="session_id", template="template_id", calls="tool_calls") for use in uses])
    elif not uses:
        click.echo(f"No record of how session {one_line(session, 60)} started: no template was involved.", err=True)
    else:
        for use in uses:
            _print_use(use)
            for line in carried[use.id]:
                click.echo(line)


def _carried(store: SQLTemplateStore, use: Use) -> list[str]:
    """The items that a session started with, one line each; empty if they have been revoked or deleted since."""
    if use.arm != "warm":
        return []
    try:
        seed = store.get(use.template, version=use.version).seed
    except TemplateNotFound:
        return []
    known = {item_id(item): item for item in seed.items}
    return [f"  {known[each].kind}: {next(item_lines(known[each]))}" for each in use.items if each in known]


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
    print_facts(facts)


@command.command(epilog="Example: warmstart templates stats")
@json_option
def stats(as_json: bool) -> None:
    """Compare sessions that started from templates with sessions that started cold.

    Rates and effects come with 95 % confidence intervals.
    """
    with Warmstart(settings()) as ws:
        settle_uses(ws, always=True)
        statistics = count_all(ws.templates.store)
    if as_json:
        names = ("name", "state", "task_type", "version")
        lines = [
            {"template_id": each.id, **{name: getattr(each, name) for name in names}, "usage": _usage_dict(counts)}
            for each, counts in statistics.lines
        ]
        print_json({**as_data(statistics), "usage": _usage_dict(statistics.usage), "lines": lines})
    else:
        _print_statistics(statistics)


def _usage_dict(counts: Counts) -> dict[str, Any]:
    rate = counts.successes / counts.known if counts.known else None
    return {**counts._asdict(), "rate": rate, "interval": counts.interval, "effect": counts.effect}


def _print_statistics(totals: Statistics) -> None:
    click.echo(f"{counted(totals.templates, 'template')} (all projects), {counted(totals.examples, 'example')}.")
    for name, numbers in (("By state", totals.states), ("By type", totals.types)):
        parts = ", ".join(f"{number} {each}" for each, number in sorted(numbers.items()))
        if parts:
            click.echo(f"{name}: {parts}.")
    usage = totals.usage
    if not (usage.used or usage.held_out or totals.abstained):
        click.echo("No session has started from them yet, so their effect is not yet known.")
        return
    click.echo(
        f"{counted(usage.used, 'session')} started warm, {usage.held_out} cold as a control group, "
        f"{totals.abstained} cold because nothing fit; {totals.open} outcomes are not yet known."
    )
    click.echo(f"Effect: {describe_effect(usage.effect)}.")
    if totals.lines:
        click.echo()
        rows = [
            (
                one.id,
                one_line(one.name, 40),
                one.state,
                counts.used,
                _describe_rate(counts),
                describe_effect(counts.effect),
            )
            for one, counts in totals.lines
        ]
        columns = ("id", "name", "state", "used", "success", "effect")
        table(columns, rows, spare=("success", "used"), flexible=("name", "effect"))


@command.command(epilog="Example: warmstart templates auto --min-calls 10 --dry-run")
@click.option(
    "--min-calls", type=Count(1), default=5, show_default=True, help="Minimum number of tool calls in a session."
)
@click.option(
    "--max-error-rate", type=SHARE, default=0.1, show_default=True, help="Maximum share of failed calls in a session."
)
@project_options
@click.option("--dry-run", is_flag=True, help="Show what would be created, but create nothing.")
@json_option
def auto(min_calls: int, max_error_rate: float, project: str, all_projects: bool, dry_run: bool, as_json: bool) -> None:
    """Create templates from sessions that went well, one per project and task type.

    They are candidates: no session starts from one until you promote it. Earlier candidates are updated, and templates
    that did harm or have not been used for a long time are retired.
    """
    with Warmstart(settings()) as ws:
        store, current = ws.templates.store, ws.settings
        scope = scope_of(project, all_projects, ws.store.projects())
        settle(store, tools=current.profile_tools)
        with progress_bar("Profiling") as progress:
            results = make_all(
                store,
                min_calls=min_calls,
                max_error_rate=max_error_rate,
                dry_run=dry_run,
                project=scope.project,
                kinds=current.profile_tools,
                redactor=ws.redactor,
                progress=progress,
            )
        changed = review(store, max_age_days=current.templates_max_age_days, dry_run=dry_run)
    if as_json:
        groups = [
            {
                **rename_keys(each, sessions="session_ids"),
                "template": template_dict(each.template, seed=False) if each.template else None,
            }
            for each in results
        ]
        print_json({"groups": groups, "states": as_data(changed), "dry_run": dry_run})
        return
    print_scope(sum(len(each.sessions) for each in results), "session", scope)
    names = short_names(each.project for each in results)
    skipped = [each for each in results if each.action == "skipped"]
    if skipped:
        click.echo(f"Skipped {counted(len(skipped), 'group')} of sessions; --json says why.", err=True)
    rows = [
        (
            f"would be {each.action}" if dry_run else each.action,
            each.task_type,
            names[each.project] or "no project",
            len(each.sessions),
            each.template.id if each.template else "",
            each.why,
        )
        for each in results
        if each.action != "skipped"
    ]
    if rows:
        columns = ("what", "type", "project", "sessions", "template", "why")
        table(columns, rows, spare=("sessions",), flexible=("project", "why"))
    for each in changed:
        click.echo(describe_change(each, would=dry_run), err=True)


def _describe_rate(counts: Counts) -> str:
    """The success rate with its interval, or a note that it is not known."""
    if counts.interval is None:
        return "not yet known"
    low, high = map(percent, counts.interval)
    return f"{percent(counts.successes / counts.known)} ({low} to {high})"
