"""`warmstart mcp`."""

from __future__ import annotations

import sys

import click

from warmstart.cli.terminal import raw
from warmstart.mcp import serve


@click.command(epilog="Example: warmstart mcp < /dev/null")
def command() -> None:
    """Serve recall, memory, briefs, templates and sessions to an agent over MCP.

    An agent starts it, with `warmstart mcp` as the command of an MCP server, and talks to it over standard input and
    output. It needs the extra `mcp`. With an empty input it only checks that it starts.
    """
    if sys.stdin.isatty():
        raise click.ClickException("an agent starts this server and talks to it; see `warmstart mcp --help`")
    sys.stdout, sys.stderr = raw(sys.stdout), raw(sys.stderr)  # the protocol is data
    serve()
