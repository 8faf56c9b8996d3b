"""Whether a shell call failed, and which known command it ran.

A hook asks this after every call, so this module imports next to nothing and does not parse the shell.
"""

from __future__ import annotations

import re

# Failures that a pipe hides: `npm run missing | tail` exits with 0.
HIDDEN_FAILURES = (
    *("command not found", "Script not found", "issing script", "No such file or directory", "ERR_PNPM_"),
    *("unrecognized subcommand", "unknown command", "unknown option", "unknown flag", "cannot find main module"),
)
_MAX_OUTPUT = 2_000  # characters
_MAX_TRAILER = 300  # characters that an agent may add at the end
_MAX_SCRIPT = 4_000  # characters
_ERROR = re.compile(r"\s*(?:[Ee]rror\b|ERROR\b|[Ee]xit code:? [1-9])").match
_EXIT_CODE = re.compile(
    r"\"exit_code\":\s*[1-9]|\b[Ee]xit(?:ed with)? code [1-9]|^Exit Code: [1-9]", re.MULTILINE
).search
# What may stand before a command in a script, and between its words.
_BEFORE = (
    r"(?:^|[;&|({\n])\s*"
    r"(?:(?:[A-Za-z_]\w*=\S*|sudo|time|nohup|nice|command|exec|env|g?timeout|-[knsu]|\d+[smh]?|!)\s+)*"
    r"(?:/\S+/)?"
)
_BETWEEN = r"(?:\s+-\S+){0,4}\s+"
_AFTER = r"(?![^\s;&|)])"


def has_failed(output: str) -> bool:
    """Whether the output of a shell call tells of a failure."""
    text = f"{output[:_MAX_OUTPUT]}\n{output[_MAX_OUTPUT:][-_MAX_TRAILER:]}"
    return any(phrase in text for phrase in HIDDEN_FAILURES) or bool(_ERROR(text) or _EXIT_CODE(text))


def runs_command(script: str, command: str) -> bool:
    """Whether a script runs a command, given as its program and subcommands, such as `npm run test`."""
    words = command.split(" ")
    if words[0] not in script:
        return False  # most scripts, for which no pattern is compiled
    return bool(re.search(_BEFORE + _BETWEEN.join(map(re.escape, words)) + _AFTER, script[:_MAX_SCRIPT]))
