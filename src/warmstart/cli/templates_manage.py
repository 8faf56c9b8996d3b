"""`warmstart templates`, the commands for templates that exist: their use, effect, versions, states and files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from warmstart.app import Warmstart
from warmstart.cli.completion import complete_sessions, complete_templates
from warmstart.cli.options import SHARE, Count, json_option, project_options, scope_of, yes_option
from warmstart.cli.output import (
    as_data,
    confirm,
    print_facts,
    print_json,
    print_rows,
    print_scope,
    progress_bar,
    rename_keys,
    settings,
    table,
)
from warmstart.cli.templates import (
    NEW,
    author,
    command,
    creation_options,
    describe_change,
    describe_effect,
    item_lines,
    kinds,
    note_failures,
    percent,
    print_created,
    print_template,
    settle_uses,
    template_dict,
    templates,
)
from warmstart.cli.terminal import counted, local, one_line, printable, wrapped, write_data
from warmstart.errors import ConfigError, InvalidTemplate, StoreBusy, StoreCorrupt, TemplateNotFound
from warmstart.sessions.projects import short_names
from warmstart.templates.audit import Statistics, Use, settle
from warmstart.templates.audit import stats as count_all
from warmstart.templates.audit import why as find_uses
from warmstart.templates.item import item_id
from warmstart.templates.lifecycle import Counts, promote, review
from warmstart.templates.make import auto as make_all
from warmstart.templates.revoke import revoke
from warmstart.templates.selection import Choice, Suggestion, Task
from warmstart.templates.sharing import export, export_text, import_file, read_file
from warmstart.templates.store import CHANGEABLE, SQLTemplateStore, map_texts
from warmstart.templates.template import WarmTemplate
from warmstart.templates.text_form import diff, from_text, to_text
from warmstart.templates.validation import Problem, check, problems

_DEADLINE_MS = 5000.0  # a person can wait longer than a host
_template_argument = click.argument("id", shell_complete=complete_templates)


@command.command(epilog=f'{NEW}warmstart templates suggest "keep a table of storm warnings" --all-projects')
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
        statistics, numbers = count_all(ws.templates.store), ws.templates.get_template_stats()
    if as_json:
        names = ("name", "state", "task_type", "version")
        lines = [
            {"template_id": each.id, **{name: getattr(each, name) for name in names}, "usage": _usage_dict(counts)}
            for each, counts in statistics.lines
        ]
        print_json({**numbers, **as_data(statistics), "usage": _usage_dict(statistics.usage), "lines": lines})
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
            (one.id, one_line(one.name, 40), one.state, uses.used, _describe_rate(uses), describe_effect(uses.effect))
            for one, uses in totals.lines
        ]
        columns = ("id", "name", "state", "used", "success", "effect")
        table(columns, rows, spare=("success", "used"), flexible=("name", "effect"))


@command.command(epilog="Example: warmstart templates compress 58e3c7d9 3f0c1d52 --name tidewatch")
@creation_options
@click.option(
    "--strategy",
    type=click.Choice(["mask", "ledger", "hybrid"]),
    default="hybrid",
    show_default=True,
    help="How to compress: mask tool output, replace old turns with a packet, or both.",
)
@click.option("--budget", type=Count(500), help="Maximum tokens of a session. Default: a quarter of it.")
@json_option
def compress(sessions: tuple[str, ...], strategy: str, budget: int | None, as_json: bool, **options: Any) -> None:
    """Compress sessions, and create a template from what is left of them.

    Each session is compacted as if its context were full. The template holds what is still there: the calls of the
    messages that stay, and what the packet names.
    """
    with Warmstart(settings()) as ws:
        template, done = ws.compress(
            *sessions, strategy=strategy, budget_tokens=budget or 0, author=author(), **options
        )
        note_failures(ws, template)
        summaries = ws.templates.store.summaries()
    if as_json:
        names = ("session_id", "tokens_before", "tokens_after")
        rows = [{name: getattr(session, name) for name in names} for session in done]
        print_json({**template_dict(template), "strategy": strategy, "compressed": rows})
        return
    before = sum(session.tokens_before for session in done)
    after = sum(session.tokens_after for session in done)
    number = counted(len(done), "session")
    click.echo(f"Compressed {number} from {before:,} to {after:,} tokens ({strategy}).", err=True)
    print_created(template, summaries)


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


@command.command(epilog=f"{NEW}warmstart templates history surges")
@_template_argument
@json_option
def history(id: str, as_json: bool) -> None:
    """List the versions of a template: when, by whom and why."""
    with templates() as store:
        versions = store.versions(id)
    print_rows(
        versions,
        ("version", "at", "author", "reason"),
        lambda row: (row.number, local(row.at), one_line(row.author, 30), row.reason + " (withdrawn)" * row.withdrawn),
        as_json=as_json,
        data=lambda row: rename_keys(row, number="version"),
    )


@command.command(epilog=f"{NEW}warmstart templates retire surges && warmstart templates diff surges 1 2")
@_template_argument
@click.argument("old", metavar="V1", type=Count(1))
@click.argument("new", metavar="V2", type=Count(1))
@json_option
def diff_command(id: str, old: int, new: int, as_json: bool) -> None:
    """Show what changed between two versions."""
    with templates() as store:
        lines = diff(*(store.get(id, version=version) for version in (old, new)))
    if as_json:
        print_json({"from": old, "to": new, "changes": lines})
    elif not lines:
        click.echo(f"Versions {old} and {new} are identical.", err=True)
    else:
        for line in lines:
            click.echo(printable(line))


@command.command(epilog=f"{NEW}warmstart templates revert surges 1")
@_template_argument
@click.argument("version", metavar="V", type=Count(1))
def revert(id: str, version: int) -> None:
    """Restore an earlier version of a template, as a new version."""
    with templates() as store:
        before = store.get(id)
        template = store.revert(before.id, version, author=author())
    if template.version == before.version:
        click.echo(f"{template.id} is already the same as version {version}; nothing changed.", err=True)
    else:
        click.echo(f"Restored version {version} of {template.id} as version {template.version}.", err=True)


@command.command(epilog=f"{NEW}warmstart templates edit surges")
@_template_argument
def edit(id: str) -> None:
    """Edit a template as text in your editor.

    Opens $VISUAL or $EDITOR. The text is checked and becomes a new version; if it is not valid, it is kept in a file
    so that nothing is lost.
    """
    with templates() as store:
        template = store.get(id)
        if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
            raise ConfigError("there is no terminal for an editor; set VISUAL or EDITOR to one that needs none")
        with _draft(to_text(template)) as draft:
            click.edit(filename=str(draft))
            changed = from_text(_read(draft), template, author=author())
            if changed == template:
                click.echo("Nothing changed.", err=True)
                return
            check(changed)
            saved = store.change(
                template.id,
                author=author(),
                reason="edited",
                expected=template.version,
                **{name: getattr(changed, name) for name in CHANGEABLE - {"state"}},
            )
    click.echo(f"Saved {saved.id} as version {saved.version}.", err=True)


@contextmanager
def _draft(text: str) -> Iterator[Path]:
    """A temporary file to edit a text in. On failure it is kept if the text was changed."""
    handle, name = tempfile.mkstemp(prefix="warmstart-edit-", suffix=".toml")
    path, original = Path(name), text.encode()
    with os.fdopen(handle, "wb") as file:
        file.write(original)
    try:
        yield path
    except BaseException:
        if path.exists() and path.read_bytes() != original:
            click.echo(f"Your text is in {path}.", err=True)
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


def _read(draft: Path) -> str:
    try:
        return draft.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidTemplate("the file is not valid UTF-8; save it as UTF-8") from error


@command.command(epilog=f"{NEW}warmstart templates delete surges --yes")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_templates)
@yes_option
def delete(ids: tuple[str, ...], yes: bool) -> None:
    """Delete templates with all their versions."""
    with templates() as store:
        for each in dict.fromkeys(map(store.find, ids)):
            name = f"{each} ({_name(store, each)})"
            if not confirm(f"Delete {name}?", yes=yes):
                click.echo(f"Kept {name}.", err=True)
                continue
            store.delete(each, author=author())
            click.echo(f"Deleted {name}.", err=True)


def _name(store: SQLTemplateStore, id: str) -> str:
    try:
        return one_line(store.get(id).name, 60)
    except StoreCorrupt:
        return "damaged"


@command.command(epilog=f"{NEW}warmstart templates retire surges && warmstart templates promote surges --yes")
@_template_argument
@yes_option
def promote_command(id: str, yes: bool) -> None:
    """Activate a template that is quarantined, a candidate or retired.

    Shows everything that could enter a prompt first, every call in full, and asks you to confirm.
    """
    with Warmstart(settings()) as ws:
        store = ws.templates.store
        settle_uses(ws, always=True)
        template = store.get(id)
        if template.state == "active":
            click.echo(f"{template.id} is already active.", err=True)
            return
        check(template)
        print_template(template, whole=True)
        if not confirm(f"Let sessions start from {template.id} ({one_line(template.origin, 60)})?", yes=yes):
            click.echo(f"{template.id} stays {template.state}.", err=True)
            return
        template = promote(store, template.id, author=author(), expected=template.version)
    click.echo(f"{template.id} is active.", err=True)


@command.command(epilog=f'{NEW}warmstart templates retire surges --because "the API changed"')
@_template_argument
@click.option("--because", default="", help="The reason.")
def retire(id: str, because: str) -> None:
    """Stop using a template, but keep it."""
    with templates() as store:
        template = store.get(id)
        if template.state != "retired":
            template = store.change(id, state="retired", author=author(), reason=because or "retired by the user")
    click.echo(f"{template.id} is retired.", err=True)


@command.command(epilog=f"{NEW}warmstart templates revoke 58e3c7d9 --yes")
@click.argument("session", shell_complete=complete_sessions)
@yes_option
@json_option
def revoke_command(session: str, yes: bool, as_json: bool) -> None:
    """Remove everything that came from a session from all templates.

    Each affected template gets a new version without it, older versions are withdrawn, and a template with nothing
    left is retired. The session is never extracted again, and what was removed cannot be recovered from the store.
    """
    with templates() as store:
        if not confirm(f"Remove everything from session {one_line(session, 60)} from all templates for good?", yes=yes):
            click.echo("Nothing was revoked.", err=True)
            return
        done = revoke(store, session, author=author())
        try:
            store.sessions.scrub()
        except StoreBusy as error:
            click.echo(f"Revoked, but {error}.", err=True)
    print_rows(
        done,
        ("id", "name", "version", "state", "removed", "withdrawn"),
        lambda row: (row.template, one_line(row.name, 40), row.version, row.state, row.items, len(row.withdrawn)),
        as_json=as_json,
        data=lambda row: rename_keys(row, template="template_id"),
        flexible=("name",),
    )
    if not done:
        click.echo(f"No template had items from session {one_line(session, 60)}; none ever will.", err=True)


@command.command(epilog=f"{NEW}warmstart templates export surges surges.json")
@_template_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
def export_command(id: str, file: Path, overwrite: bool) -> None:
    """Export a template to a JSON file that others can import; - prints it.

    Secrets are replaced, and the project's path and the authors are left out. If you extracted it with --keep-values,
    check the values before you share it.
    """
    with Warmstart(settings()) as ws:
        template = map_texts(ws.templates.get(id), ws.redactor.clean)
    if str(file) == "-":
        write_data(export_text(template))
        return
    export(template, file, overwrite=overwrite)
    click.echo(f"{template.id} written to {file}.", err=True)


@command.command(epilog=f"{NEW}warmstart templates export surges surges.json && warmstart templates import surges.json")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_command(file: Path, as_json: bool) -> None:
    """Import a template from a file.

    It is checked and quarantined: no session starts from it until you promote it.
    """
    with templates() as store:
        template = import_file(store, file)
    if as_json:
        print_json(template_dict(template))
        return
    click.echo(f"{template.id}  {printable(template.name)}: {kinds(template.seed)}")
    if template.state != "quarantined":
        click.echo(f"It is already here and {template.state}; nothing changed.", err=True)
        return
    click.echo(
        f"It is quarantined. Inspect it with `warmstart templates show {template.id}`, then activate it with "
        f"`warmstart templates promote {template.id}`.",
        err=True,
    )


@command.command(epilog=f"{NEW}warmstart templates validate surges")
@click.argument("what", metavar="ID|FILE", shell_complete=complete_templates)
@json_option
def validate(what: str, as_json: bool) -> None:
    """Check a template or an exported file, and list its problems.

    Exits with 1 if there are any.
    """
    try:
        template = _find(what)
        wrong = problems(template)
        name = template.id or what
    except InvalidTemplate as error:  # a file that is not a template at all
        wrong = [Problem(*_split_problem(line)) for line in error.problems] or [Problem("file", str(error))]
        name = what
    if as_json:
        print_json({"valid": not wrong, "problems": [problem._asdict() for problem in wrong]})
    else:
        for problem in wrong:
            click.echo(printable(": ".join(filter(None, problem))))
        result = f"has {counted(len(wrong), 'problem')}" if wrong else "is valid"
        click.echo(f"{one_line(name, 80)} {result}.", err=True)
    if wrong:
        sys.exit(1)


def _find(what: str) -> WarmTemplate:
    path = Path(what)
    if path.is_file():
        return read_file(path)
    try:
        with templates() as store:
            return store.get(what)
    except TemplateNotFound:
        if "/" in what or path.suffix == ".json":
            raise TemplateNotFound(f"there is no file {what!r}, and no template with that name") from None
        raise


def _split_problem(line: str) -> tuple[str, str]:
    where, separator, what = line.partition(": ")
    return (where, what) if separator else ("", line)
