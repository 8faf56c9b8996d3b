"""`warmstart prompt`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from warmstart.app import Warmstart
from warmstart.cli.options import Group, json_option, project_option
from warmstart.cli.output import counted, print_json, settings
from warmstart.preflight.project_files import read_context_files, read_skills
from warmstart.preflight.prompt import Prompt
from warmstart.sessions.projects import resolve_project


@click.group(cls=Group, epilog="Example: warmstart prompt show")
def command() -> None:
    """Show what an agent's prompt is made of in a project."""


@command.command(epilog="Example: warmstart prompt show --project . --json")
@project_option
@json_option
def show(project: str, as_json: bool) -> None:
    """Print the tiers of the prompt, what each costs, and which a provider can cache.

    From what never changes to what changes every day: the agent's identity, which is its own; the preflight block
    (`context_preflight.mode`); guidance, which is the brief; the index of skills; the project's instruction files; and
    memories with the date.
    """
    current = settings()
    where = Path(resolve_project(project))
    with Warmstart(current) as ws:
        prompt = Prompt(
            mode=current.preflight_mode,
            guidance=ws.brief(project=project).text,
            skills=read_skills(where),
            context=read_context_files(where),
            memories=ws.memory.of_project(str(where)),
            date=f"{datetime.now(UTC):%Y-%m-%d}",
        )
    if as_json:
        tiers = [
            {"tier": one.name, "cached": one.is_cached, "tokens": one.tokens, "text": one.text} for one in prompt.tiers
        ]
        print_json({"tiers": tiers, "tokens": sum(one.tokens for one in prompt.tiers)})
        return
    for tier in prompt.tiers:
        cost = f"{counted(tier.tokens, 'token')}, {'cached' if tier.is_cached else 'not cached'}"
        click.secho(f"== {tier.name} ({cost})", bold=True)
        click.echo(f"{tier.text}\n" if tier.text else "")
    cached = sum(tier.tokens for tier in prompt.tiers if tier.is_cached)
    total = sum(tier.tokens for tier in prompt.tiers)
    click.echo(f"{counted(total, 'token')}, {cached:,} of them in the cached prefix.", err=True)
