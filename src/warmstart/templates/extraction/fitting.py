"""A stand-in for a value where the tool's schema would not take a placeholder.

The first that the schema takes is used: the placeholder, an example of the format, the value with other letters and
digits. What none of them fits is not shown at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_FORMATS = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}
_DATE = re.compile(r"(?:19|20)\d\d-[01]\d-[0-3]\d")
_NUMBERED = re.compile(r"_(\d+)\}\}$")
_CHOICES = ("anyOf", "oneOf", "allOf")


def stand_in(value: str, placeholder: str, schema: Schema | None) -> str | None:
    """What stands for a value in arguments; `None` where nothing fits that does not show it."""
    if not schema:
        return placeholder
    if "enum" in schema or "const" in schema:
        return value  # one of a closed set says nothing about anybody
    kind = schema.get("format")
    shown = [] if kind in _FORMATS else [placeholder]
    if kind in _FORMATS:
        shown.append(_FORMATS[str(kind)])
    if _DATE.fullmatch(value):
        shown.append(_FORMATS["date"])
    number = found[1] if (found := _NUMBERED.search(placeholder)) else ""
    shown += [*_counted(_redrawn(value), number), *_counted(re.sub(r"\d", "0", value), number)]
    return next((text for text in shown if text != value and takes(schema, text)), None)


def takes(schema: Schema, text: str) -> bool:
    """Whether a schema takes a text, as far as patterns, lengths and closed sets go."""
    if "enum" in schema and text not in schema["enum"]:
        return False
    if "const" in schema and text != schema["const"]:
        return False
    if len(text) > schema.get("maxLength", len(text)) or len(text) < schema.get("minLength", 0):
        return False
    pattern = schema.get("pattern")
    if not isinstance(pattern, str):
        return True
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False


def _redrawn(value: str) -> str:
    return "".join("0" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in value)


def _counted(text: str, number: str) -> list[str]:
    """The text with a number in its last digits, so that two values stay two, and as it is."""
    digits = re.search(r"0+(?=\D*$)", text) if number else None
    if digits is None or len(digits[0]) < len(number):
        return [text]
    return [f"{text[: digits.end() - len(number)]}{number}{text[digits.end() :]}", text]


def number_for(value: int | float, schema: Schema | None) -> int | float:
    """A number of the same type that says nothing: 0, or the least that the schema takes."""
    least = (schema or {}).get("minimum", 0) if isinstance(schema, Mapping) else 0
    if isinstance(least, (int, float)) and least > 0:
        return int(least) if isinstance(value, int) else float(least)
    return 0 if isinstance(value, int) else 0.0


def part_of(schema: Schema | None, key: str | None, root: Schema | None, type: str = "") -> Schema | None:
    """The schema of a property, or with no key of an item of a list; of several choices the first that fits."""
    found = _resolved(schema, root)
    if found is None:
        return None
    if key is None:
        items = found.get("items")
        inner: object = items if isinstance(items, Mapping) else None
    else:
        properties = found.get("properties")
        inner = properties.get(key) if isinstance(properties, Mapping) else None
        if inner is None and isinstance(found.get("additionalProperties"), Mapping):
            inner = found["additionalProperties"]
    return _resolved(inner, root, type) if isinstance(inner, Mapping) else None


def _resolved(schema: object, root: Schema | None, type: str = "") -> Schema | None:
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return None
        if isinstance(link := schema.get("$ref"), str) and root and link.startswith("#/"):
            schema = _followed(root, link[2:].split("/"))
            continue
        name = next((name for name in _CHOICES if isinstance(schema.get(name), Sequence)), None)
        if name is None or isinstance(schema[name], str) or not schema[name]:
            return schema
        fits = [one for one in schema[name] if isinstance(one, Mapping) and (not type or one.get("type") == type)]
        schema = (fits or list(schema[name]))[0]
    return None


def _followed(root: object, names: Sequence[str]) -> object:
    for name in names:
        root = root.get(name) if isinstance(root, Mapping) else None
    return root
