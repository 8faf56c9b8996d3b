"""Values of the room as plain JSON and back: every field by its name, none left out, each wrong one on its own line."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_SHOWN = 40  # characters of a wrong value that are told


def plain(value: Any) -> Any:
    """A value as JSON has it: objects by their names, also those that are tuples."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return {name: plain(part) for name, part in zip(names, value, strict=True)} if names else [*map(plain, value)]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value


def shaped(kind: Any, value: Any, where: str, problems: list[str]) -> Any:
    """The value of a kind that plain JSON says; what is wrong with it goes to `problems`, a line each."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return shaped(next(each for each in inner if each is not type(None)), value, where, problems)
    if origin is Literal:
        if not isinstance(value, str) or value not in inner:
            problems.append(f"{where}: {_shown(value)} is none of {', '.join(map(repr, inner))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            return _wrong(where, "a list", value, problems)
        return tuple(shaped(inner[0], part, f"{where}[{n}]", problems) for n, part in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            return _wrong(where, "an object", value, problems)
        return {name: shaped(inner[1], part, f"{where}[{name[:_SHOWN]!r}]", problems) for name, part in value.items()}
    if kind in _NAMES:
        return value if type(value) is kind else _wrong(where, _NAMES[kind], value, problems)
    if kind is datetime:
        return _time(value, where, problems)
    return _object(kind, value, where, problems)


def _object(kind: Any, value: Any, where: str, problems: list[str]) -> Any:
    if not isinstance(value, dict):
        return _wrong(where, "an object", value, problems)
    known = _fields(kind)
    before = len(problems)
    problems += (f"{where}: unknown field {name[:_SHOWN]!r}" for name in value if name not in known)
    problems += (f"{where}: the field {name!r} is missing" for name in known if name not in value)
    made = {
        name: shaped(part, value[name], f"{where}.{name}" if where else name, problems)
        for name, part in known.items()
        if name in value
    }
    return kind(**made) if len(problems) == before else None


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """The fields of a kind with their types."""
    hints = get_type_hints(kind)
    return {
        name: hints[name] for name in ((each.name for each in fields(kind)) if is_dataclass(kind) else kind._fields)
    }


def _time(value: Any, where: str, problems: list[str]) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return _wrong(where, "a time such as 2026-03-10T14:25:30+00:00", value, problems)  # type: ignore[no-any-return]
    if found.tzinfo is None:
        return _wrong(where, "a time with its zone", value, problems)  # type: ignore[no-any-return]
    return found


def _wrong(where: str, wanted: str, value: Any, problems: list[str]) -> Any:
    problems.append(f"{where}: {_shown(value)} is not {wanted}")
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
