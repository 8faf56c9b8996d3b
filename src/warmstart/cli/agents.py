"""`warmstart mcp` and `warmstart hook`: what agents run, not people."""

from __future__ import annotations

import sys

import click

from warmstart.cli.terminal import raw


@click.command("mcp", epilog="Example: warmstart mcp < /dev/null")
def mcp_command() -> None:
    """Serve recall, memory, briefs, templates and sessions to an agent over MCP.

    An agent starts it, with `warmstart mcp` as the command of an MCP server, and talks to it over standard input and
    output. It needs the extra `mcp`. With an empty input it only checks that it starts.
    """
    from warmstart.mcp import serve

    if sys.stdin.isatty():
        raise click.ClickException("an agent starts this server and talks to it; see `warmstart mcp --help`")
    sys.stdout, sys.stderr = raw(sys.stdout), raw(sys.stderr)  # the protocol is data
    serve()


@click.command(
    "hook",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: warmstart hook claude-code SessionStart < event.json",
)
@click.argument("host")
@click.argument("event")
@click.argument("rest", nargs=-1)
def hook_command(host: str, event: str, rest: tuple[str, ...]) -> None:
    """Answer an agent's hook; `warmstart install` sets it up.

    Reads the event on standard input and prints one JSON object, or nothing. It always exits with 0, so that an agent
    never stops because of Warmstart.
    """
    from warmstart.hosts.hook import main  # `warmstart.__main__` goes there directly; this one shows the help

    main([host, event, *rest])
