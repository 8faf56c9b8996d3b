"""What can be told from the arguments of a call: the shell command, the file, a form to compare them by."""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import Any

import msgspec

from warmstart.profile.shell import SHELLS

_COMMAND = ("command", "cmd", "script", "code")
_PATH = ("file_path", "path", "filePath", "absolute_path", "filename", "file", "notebook_path", "target_file")
_DECODE = msgspec.json.Decoder(dict[str, Any]).decode


@lru_cache(maxsize=64)
def fields_of(arguments: str) -> dict[str, Any]:
    """The arguments by name; empty when they are not a JSON object."""
    try:
        return _DECODE(arguments)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}


def command_in(arguments: str) -> str:
    """The shell command in the arguments: Codex gives it as a list, some tools give nothing but the command."""
    fields = fields_of(arguments)
    for name in _COMMAND:
        value = fields.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return _joined(value)
    return "" if fields or arguments.lstrip()[:1] in ("{", "[") else arguments


def _joined(words: list[str]) -> str:
    # `["bash", "-lc", "cd src && make"]`: the last word is a command itself.
    if len(words) == 3 and words[1] in ("-lc", "-c") and words[0].rsplit("/", 1)[-1] in SHELLS:
        return words[2]
    return shlex.join(words)


def path_in(arguments: str) -> str:
    """The file that a call is about, if one is named."""
    fields = fields_of(arguments)
    return next((fields[name] for name in _PATH if isinstance(fields.get(name), str)), "")
