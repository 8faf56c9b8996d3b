"""Which calls worked, and which of them may be shown to another session."""

from __future__ import annotations

import re
from functools import lru_cache

from warmstart.profile.output import has_passed
from warmstart.profile.shell import check_of
from warmstart.profile.tools import SHELLS, command_in
from warmstart.templates.allowlist import is_safe
from warmstart.templates.extraction.walk import Taken
from warmstart.templates.trust import is_tool_name, suspicious
from warmstart.text.shell import parse_commands

JUDGED = 4_000  # characters of arguments in which orders are looked for, besides what is shown of them
_OPENING = 400  # characters in which a result says that it is an error
_ERROR = re.compile(
    r"\s*(?:<tool_use_error>|error\b(?: \w+){0,3}:|error (?:executing|calling|running|reading|while)\b|traceback \(most"
    r"|fatal: |exception:|exit code:? [1-9]|(?:command|tool call|request) failed\b|invalid (?:arguments|parameters)\b"
    r"|[\w./-]{1,60}: (?:command )?not found\b|(?:\w+: )?permission denied\b"
    r'|\{\s*"(?:error|errors)"\s*:(?!\s*(?:null|""|false|\[\]|\{\})))',
    re.IGNORECASE,
)


def worked(step: Taken) -> bool:
    """Whether a call did what it should: it has a result, and the result does not say otherwise."""
    result = step.result
    if result is None or result.outcome != "ok" or result.exit_code not in (None, 0):
        return False
    if _ERROR.match(result.text[:_OPENING]):
        return False
    if step.call.name in SHELLS and any(map(check_of, parse_commands(command_in(step.call.arguments)))):
        return _has_passed(result.text)  # a pipe hides the exit code of a failing test
    return True


@lru_cache(maxsize=256)
def _has_passed(text: str) -> bool:
    return has_passed(text) is not False


def may_show(tool: str, arguments: str, project: str = "") -> bool:
    """Whether a call may be shown: it is known to be safe, and nothing in it speaks to the reader."""
    return is_tool_name(tool) and is_safe(tool, arguments, project=project) and suspicious(arguments[:JUDGED]) is None


class Fitting:
    """Tells of the calls of one session which may be shown, and remembers it: to look into a long call takes time."""

    def __init__(self, project: str = "") -> None:
        self._project = project
        self._known: dict[int, bool] = {}

    def __call__(self, step: Taken) -> bool:
        if step.place not in self._known:
            self._known[step.place] = may_show(step.call.name, step.call.arguments, self._project)
        return self._known[step.place]
