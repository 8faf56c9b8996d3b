"""What a tool call names: the command it runs, or the file it works on. Search loads this module, so it is light."""

from __future__ import annotations

import json
import shlex
from functools import lru_cache
from math import isfinite

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from typing import Any

# The tools that run a shell command.
SHELLS = frozenset(
    (
        *("Bash", "PowerShell", "bash", "powershell", "bash_tool", "execute_bash", "shell", "shell_command"),
        *("local_shell", "exec_command", "container.exec", "run_shell_command", "ShellTool", "terminal"),
        *("run_command", "run_commands", "execute_command", "run_terminal_cmd"),
    )
)
_COMMAND = ("command", "cmd", "script", "code")
_PATH = ("file_path", "path", "filePath", "absolute_path", "filename", "file", "notebook_path", "target_file")


def _reject(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _reject(number)


_DECODER = json.JSONDecoder(parse_constant=_reject, parse_float=_finite)


@lru_cache(maxsize=64)
def fields_of(arguments: str) -> dict[str, Any]:
    """The arguments by name; empty if they are not a JSON object."""
    try:
        arguments.encode()  # half a character is an error, also as an escape
        fields = _DECODER.decode(arguments)
        if "\\ud" in arguments or "\\uD" in arguments:
            json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def command_in(arguments: str) -> str:
    """The shell command in the arguments. It may be a list of words (Codex), or the arguments may be the bare command.

    Several commands (Cline) become lines.
    """
    fields = fields_of(arguments)
    if isinstance(several := fields.get("commands"), list) and all(isinstance(one, str) for one in several):
        return "\n".join(several)
    for name in _COMMAND:
        value = fields.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            # `["bash", "-lc", "cd src && make"]`: the last word is a command itself.
            if len(value) == 3 and value[1] in ("-lc", "-c") and value[0].endswith("sh"):
                return str(value[2])
            return shlex.join(value)
    return "" if fields or arguments.lstrip()[:1] in ("{", "[") else arguments


def path_in(arguments: str) -> str:
    """The file that a call names, if any."""
    fields = fields_of(arguments)
    return next((fields[name] for name in _PATH if isinstance(fields.get(name), str)), "")


def values_in(arguments: str) -> str:
    """The values of the arguments, each on a line; the arguments themselves if they are no JSON object."""
    return "\n".join(map(str, fields_of(arguments).values())) or arguments
