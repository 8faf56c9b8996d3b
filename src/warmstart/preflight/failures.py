"""The failed commands of a tool call, named as in the items of earlier sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from warmstart.profile.tools import SHELLS, command_in
from warmstart.templates.commands import shell_commands
from warmstart.templates.rules import load_table

_FAILED = re.compile(
    r'\A\s*(?:error\b|exit code:? [1-9])|"exit_code":\s*[1-9]|\bexit(?:ed with)? code [1-9]', re.IGNORECASE
)
_MAX_READ = 2_000  # characters of an output


def failed_commands(tool: str, arguments: str | Mapping[str, Any], output: str) -> list[str]:
    """The programs of a failed shell call, each with its subcommand; empty for any other call."""
    text = output[:_MAX_READ]
    failed = _FAILED.search(text) or any(phrase in text for phrase in load_table("rules")["hidden_failures"])
    if tool not in SHELLS or not failed:
        return []
    text_form = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
    return [command.family for command in shell_commands(command_in(text_form))]
