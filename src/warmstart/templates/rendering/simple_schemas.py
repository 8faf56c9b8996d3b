"""Whether a value fits a schema that says only plain things, as the schemas of most tools do.

A full validator takes 50 ms to load and a millisecond for a call, which is more than starting a session warm may take.
So it is asked only where a schema says more than this: types, properties, required ones, further ones, items, choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SILENT = ("$schema", "title", "description", "default", "examples", "$comment")
_UNDERSTOOD = frozenset((*_SILENT, "type", "properties", "required", "additionalProperties", "items", "enum"))
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def fits(schema: Any, value: Any) -> bool | None:
    """Whether the value fits; `None` where the schema says more than is understood here."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _UNDERSTOOD:
        return None
    if "enum" in schema:
        if not isinstance(value, str):
            return None
        if not _is_choice(schema["enum"], value):
            return False
    of_type = _of_type(schema["type"], value) if "type" in schema else True
    if of_type is False or not isinstance(value, dict | list):
        return of_type
    inside = _of_list(schema, value) if isinstance(value, list) else _of_object(schema, value)
    return None if inside and of_type is None else inside


def _of_type(name: Any, value: Any) -> bool | None:
    known = _TYPES.get(name) if isinstance(name, str) else None
    if known is None or (name == "integer" and isinstance(value, float)):
        return None
    return isinstance(value, known) and (name == "boolean" or not isinstance(value, bool))


def _is_choice(choices: Any, value: str) -> bool:
    # A placeholder stands for any text.
    return value in choices or ("{{" in value and "}}" in value)


def _of_list(schema: Mapping[str, Any], value: list[Any]) -> bool | None:
    return _all(fits(schema["items"], one) for one in value) if "items" in schema else True


def _of_object(schema: Mapping[str, Any], value: dict[str, Any]) -> bool | None:
    named = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if not isinstance(named, Mapping) or not isinstance(others, bool):
        return None
    if "required" in schema and any(name not in value for name in schema["required"]):
        return False
    if not others and any(name not in named for name in value):
        return False
    return _all(fits(named[name], part) for name, part in value.items() if name in named) if named else True


def _all(answers: Iterable[bool | None]) -> bool | None:
    """One no is enough; without it, one unknown."""
    known: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            known = None
    return known
