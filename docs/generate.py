"""Write the help of every command to docs/commands.md, and that of `warmstart` to a file that it prints at once."""

from __future__ import annotations

from pathlib import Path

import click

from warmstart import cli
from warmstart.cli.commands import root

TARGET = Path(__file__).with_name("commands.md")
OVERVIEW = Path(cli.__file__).with_name("help.txt")


def sections(command: click.Command, context: click.Context) -> list[str]:
    """A section for the command and one for each of its subcommands."""
    text = [f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                text += sections(child, _context(child, name, context))
    return text


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    settings = {**command.context_settings, "terminal_width": 100, "max_content_width": 100}
    return click.Context(command, info_name=name, parent=parent, **settings)


def page() -> str:
    """The whole page."""
    head = "# Commands\n\nWritten by `make docs` from the commands themselves.\n\n"
    return head + "\n".join(sections(root, _context(root, "warmstart", None)))


def overview() -> str:
    """What `warmstart --help` prints on a terminal of at least 80 columns."""
    return f"{root.get_help(click.Context(root, info_name='warmstart', terminal_width=78))}\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    OVERVIEW.write_text(overview(), encoding="utf-8")
