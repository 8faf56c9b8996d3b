"""JSON from somebody else's file, read with limits: nothing in it can hang, fill the memory or be read in two ways."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any

from warmstart.errors import InvalidTemplate

LARGEST = 1_000_000  # bytes of a file
DEEPEST = 32  # levels of lists and objects
LARGEST_NUMBER = 2**53  # beyond it readers of JSON no longer agree
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def read(path: Path) -> Any:
    """The value in a file. Raises `InvalidTemplate`, in one line, where there is none that can be trusted to be one."""
    data = _bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(path, "is not text in UTF-8", "export the template again") from error
    if text.startswith("\ufeff"):
        raise _refused(path, "begins with a byte order mark", "save it as UTF-8 without one")
    if _is_deep(text):
        raise _refused(path, f"is nested more than {DEEPEST} levels deep", "no template is; get another file")
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_int=_number, parse_float=_real, parse_constant=_constant
        )
        _check_texts(value)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"is not plain JSON ({error})", "export the template again") from error
    return value


def _bytes(path: Path) -> bytes:
    """The bytes of a regular file; a pipe or a device is not waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _refused(path, f"cannot be opened ({why})", "check the path and its permissions") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _refused(path, "is not a regular file", "give the file that `templates export` wrote")
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(LARGEST + 1)
        except OSError as error:
            raise _refused(path, f"cannot be read ({error.strerror})", "check the disk") from error
    if len(data) > LARGEST:
        raise _refused(path, f"has more than {LARGEST:,} bytes", "no template is that large; get another file")
    return data


def _refused(path: Path, what: str, then: str) -> InvalidTemplate:
    return InvalidTemplate(f"{str(path)!r} {what}; {then}")


def _is_deep(text: str) -> bool:
    level = 0
    for found in _BRACKET.finditer(_STRING.sub("", text)):
        level += 1 if found[0] in "[{" else -1
        if level > DEEPEST:
            return True
    return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"the name {name[:80]!r} stands twice in one object")
        made[name] = value
    return made


def _number(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > LARGEST_NUMBER:
        raise ValueError(f"the number {digits[:20]} is too large")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _check_texts(value: Any) -> None:
    """Refuse halves of characters, which no file in UTF-8 can hold."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds half a character") from None
    elif isinstance(value, dict):
        for name, part in value.items():
            _check_texts(name)
            _check_texts(part)
    elif isinstance(value, list):
        for part in value:
            _check_texts(part)
