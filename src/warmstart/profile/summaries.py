"""What test runners and compilers say at the end of their output: whether they passed.

Read only where the exit code cannot tell. A failure in the summary outweighs every success, because a run of many
packages has many summaries.
"""

from __future__ import annotations

import re

_TAIL = 4_000  # characters of the output that are looked at
_FAILED = re.compile(
    r"^(?:FAIL\b|--- FAIL|FAILED\b|FAILURES!|ERRORS!|ERROR: |ERROR \S+::|=+ .*\b[1-9]\d* (?:failed|errors?)\b"
    r"|[1-9]\d* (?:failed|errors?)\b|[ \t]*Tests?(?: Suites| Files)?:? +.*\b[1-9]\d* failed"
    r"|test result: FAILED|error: could not compile|[ \t]*[1-9]\d* fail(?:ing|ed)?\s*$|Failed!|not ok \d|# fail [1-9]"
    r"|[ \t]*(?:✖|✗|×|⨯) [1-9]\d* failed)"
    r"|error TS\d+|BUILD FAIL(?:ED|URE)|Build FAILED|error (?:CS|MSB|FS)\d+|\b[1-9]\d* tests? failed\b|FAILED \| \d"
    r"|\b\d+ (?:examples|tests|runs), (?:\d+ assertions, )?[1-9]\d* (?:failures?|errors?)|with [1-9]\d* failures?\b"
    r"|Failed to compile|Tests: \d+, .*(?:Failures|Errors): [1-9]",
    re.MULTILINE,
)
# What a failing check says, and other programs say as well.
_COMPLAINED = re.compile(
    r"^(?:error(?:\[E\d+\])?: |npm (?:ERR!|error)|g?make.*\*\*\* |\S+\.go:\d+:\d+: "
    r"|\S+:\d+:\d+: (?:fatal )?error\b|Traceback \(most recent call last\)|FATAL: )|ELIFECYCLE|ERROR task failed"
    r"|Recipe .* failed on line",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"^(?:ok  ?\s*\S+\s|PASS\s*$|OK\b|=+ .*\b\d+ passed\b|\d+ passed\b|[ \t]*Tests?:? +.*\b\d+ passed|test result: ok"
    r"|[ \t]*\d+ pass(?:ing|ed)?\b|Passed!|[ \t]*Build succeeded|# fail 0|[ \t]*Finished .*(?:profile|target))"
    r"|BUILD SUCCESS(?:FUL)?|100% tests passed|ok \| \d+ passed|[Cc]ompiled successfully|with 0 failures"
    r"|\b\d+ (?:examples|tests|runs), (?:\d+ assertions, )?0 failures|\bbuilt in \d",
    re.MULTILINE,
)
_SHOWN_EXIT = re.compile(r"\b(?:exit|rc|status|code)\w*\b[^\d\n]{0,12}(\d{1,3})\s*$", re.IGNORECASE)
_HEAD = re.compile(r"head(?: -n)? ?-?(\d+)?")


def exit_shown(output: str) -> int | None:
    """The exit code that a command printed after it: `pytest; echo exit: $?`."""
    found = _SHOWN_EXIT.search(output[-200:])
    return int(found[1]) if found else None


def passed_in(output: str, filter: str = "", *, alone: bool = True, silent: bool = False) -> bool | None:
    """Whether the output says that a check passed; `None` when it does not say.

    `filter` is the command that the output went through: what it may have cut off is not taken for a success. Unless
    the check ran `alone`, an error may be another program's. A compiler that says nothing has nothing to complain
    about: `silent` lets an empty output pass.
    """
    tail = output[-_TAIL:]
    if _is_bad(tail, alone):
        return False
    if not output.strip():
        return True if silent and not filter.startswith(("grep", "rg", "egrep")) else None
    if filter.startswith("head"):
        lines = _HEAD.match(filter)
        if output.count("\n") + 1 >= int((lines and lines[1]) or 10):
            return None
    if filter.startswith(("grep", "rg", "egrep")) and "fail" not in filter.lower():
        return None
    return True if _PASSED.search(tail) else None


def _is_bad(tail: str, alone: bool) -> bool:
    lower = tail.lower()
    # Most runs pass, and a failure without one of these words there is not.
    if any(word in lower for word in ("fail", "error", "not ok")) and _FAILED.search(tail):
        return True
    return alone and bool(_COMPLAINED.search(tail))
