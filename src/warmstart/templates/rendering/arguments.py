"""Arguments of calls as they are shown: redacted inside, still JSON, and only when they fit the tool's schema.

Strings are made safe after decoding: an escape such as that of U+200B hides from whoever looks at the JSON text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from warmstart.templates.rendering.simple_schemas import fits
from warmstart.templates.schemas import argument_problem

_DECODE = msgspec.json.Decoder(Any).decode
_ENCODE = msgspec.json.Encoder().encode

Schemas = Mapping[str, Mapping[str, Any] | None]


class Arguments:
    """Makes arguments ready to show, with the tools of this session where they are known."""

    def __init__(self, clean: Callable[[str], str], schemas: Schemas | None) -> None:
        self._clean = clean
        self._schemas = schemas or {}
        self._values: dict[str, Any] = {}

    def fit(self, tool: str, arguments: str) -> bool:
        """Whether the tool, as this session has it, takes these arguments."""
        schema = self._schemas.get(tool)
        if schema is None:
            return True
        given = self._given(tool, _decoded(arguments))
        simply = fits(schema, given)
        return argument_problem(schema, _ENCODE(given).decode()) is None if simply is None else simply

    def called(self, tool: str, arguments: str) -> str:
        """A JSON object, as calls need it. What is no object goes under the name that a free-form tool has for it."""
        return _ENCODE(self._given(tool, self._value(arguments))).decode()

    def shown(self, arguments: str) -> str:
        """The arguments for a reader: JSON stays JSON, free-form text stays text."""
        value = self._value(arguments)
        return value if isinstance(value, str) else _ENCODE(value).decode()

    def _given(self, tool: str, value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {self._name(tool): value}

    def _value(self, arguments: str) -> Any:
        if arguments not in self._values:
            self._values[arguments] = self._inside(_decoded(arguments))
        return self._values[arguments]

    def _inside(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value) if len(value) > 3 or not (value.isascii() and value.isprintable()) else value
        if isinstance(value, dict):
            names = (name if name.isascii() and name.isidentifier() else self._clean(name) for name in value)
            return {name: self._named(name, part) for name, part in zip(names, value.values(), strict=True)}
        if isinstance(value, list):
            return [self._inside(part) for part in value]
        return value

    def _named(self, name: str, part: Any) -> Any:
        """The value of a key; what is a secret only because of its key's name is found too."""
        if not isinstance(part, str):
            return self._inside(part)
        prefix = f"{name}="
        cleaned = self._clean(prefix + part)
        return cleaned.removeprefix(prefix) if cleaned.startswith(prefix) else self._clean(part)

    def _name(self, tool: str) -> str:
        schema = self._schemas.get(tool) or {}
        named = schema.get("properties")
        return next(iter(named)) if isinstance(named, Mapping) and len(named) == 1 else "input"


def _decoded(arguments: str) -> Any:
    """The data of a JSON object or list; any other text as it stands."""
    try:
        value = _DECODE(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return value if isinstance(value, dict | list) else arguments
