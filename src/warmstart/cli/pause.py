"""`warmstart pause`."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

from warmstart.cli.output import settings
from warmstart.cli.terminal import local
from warmstart.hosts.guard import read_pauses, write_pauses
from warmstart.sessions.projects import resolve_project

_SECONDS = {"m": 60, "h": 3600, "d": 86400}


class _Duration(click.ParamType[float | None]):
    name = "duration"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """The duration in seconds; 0 for `off`."""
        if not value:
            return None  # an agent's command without an argument
        if value == "off":
            return 0
        found = re.fullmatch(r"([1-9]\d{0,4})([mhd])", value)
        if not found:
            self.fail(f"{value!r} is neither a duration like 30m, 1h or 2d nor 'off'", param, ctx)
        return int(found[1]) * _SECONDS[found[2]]


@click.command(epilog="\b\nExamples:\n  warmstart pause 1h\n  warmstart pause --project\n  warmstart pause off")
@click.option("--project", is_flag=True, help="Only in the current project.")
@click.argument("duration", type=_Duration(), required=False, metavar="[30m|1h|2d|off]")
def command(project: bool, duration: float | None) -> None:
    """Pause the hooks in your agents, until `warmstart pause off` or for a while.

    While they are paused, hooks show nothing, import nothing and record nothing. Sessions from that time are imported
    later, with all others; `warmstart sessions forget` removes one. Without --project, `off` ends every pause.
    """
    home, here = str(settings().home), resolve_project(".") if project else ""
    pauses = dict(read_pauses(home))
    if duration == 0:
        pauses = {name: until for name, until in pauses.items() if project and name != here}
        click.echo("Hooks run again." if not project else f"Hooks run again in {here}.")
    else:
        until = time.time() + duration if duration else None
        pauses[here] = until
        end = local(datetime.fromtimestamp(until, UTC)) if until else "`warmstart pause off`"
        click.echo(f"Hooks are paused {f'in {here} ' if project else ''}until {end}.")
    write_pauses(home, pauses)
