"""`warmstart mcp` and `warmstart hook`, which are run by agents, not people."""

from __future__ import annotations

import sys

import click

from warmstart.cli.terminal import raw


@click.command("mcp", epilog="Example: warmstart mcp < /dev/null")
def mcp_command() -> None:
    """Serve recall, memory, briefs, templates and sessions to an agent over MCP.

    Configure `warmstart mcp` as an MCP server in your agent, which starts it and talks to it over standard input and
    output. It needs the extra `mcp`. With empty input it only checks that it starts.
    """
    from warmstart.mcp import serve

    if sys.stdin.isatty():
        raise click.ClickException("this server is started by an agent; see `warmstart mcp --help`")
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
    """Answer an agent's hook (set up by `warmstart install`).

    Reads the event from standard input and prints one JSON object, or nothing. It always exits with 0, so that
    Warmstart never stops an agent.
    """
    from warmstart.hosts.hook import main  # `warmstart.__main__` goes there directly; this one shows the help

    main([host, event, *rest])
