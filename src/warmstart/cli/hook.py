"""`warmstart hook`: what an agent runs. `warmstart.__main__` takes a shorter path; this shows the help."""

from __future__ import annotations

import click


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: warmstart hook claude-code SessionStart < event.json",
)
@click.argument("host")
@click.argument("event")
@click.argument("rest", nargs=-1)
def command(host: str, event: str, rest: tuple[str, ...]) -> None:
    """Answer an agent's hook; `warmstart install` sets it up.

    Reads the event on standard input and prints one JSON object, or nothing. It always exits with 0, so that an agent
    never stops because of Warmstart.
    """
    from warmstart.hosts.hook import main

    main([host, event, *rest])
