"""Tool definitions as hosts give them, by name: what a session may call, and how its arguments have to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

_SCHEMA = ("parameters", "input_schema", "inputSchema")
_ENCODE = msgspec.json.Encoder(order="deterministic").encode

# Definitions as OpenAI (`{"type": "function", "function": {…}}`, or flat), Anthropic (`input_schema`) and MCP
# (`inputSchema`) shape them, or bare names.
Definitions = Iterable[Mapping[str, Any] | str]


def schemas_of(tools: Definitions) -> dict[str, dict[str, Any] | None]:
    """The JSON schema of each tool's arguments, by name; `None` where none was given."""
    found: dict[str, dict[str, Any] | None] = {}
    for tool in tools:
        if isinstance(tool, str):
            found.setdefault(tool, None)
            continue
        inner = tool.get("function")
        definition = inner if isinstance(inner, Mapping) else tool
        name = definition.get("name")
        if isinstance(name, str) and name:
            schema = next((definition[key] for key in _SCHEMA if isinstance(definition.get(key), Mapping)), None)
            found[name] = dict(schema) if schema is not None else None
    return found


def fingerprint(schema: Mapping[str, Any] | None) -> str:
    """Eight hexadecimal digits of a schema, whatever the order of its keys; empty for none.

    Descriptions do not count: they change with every release, and no call becomes wrong by it.
    """
    return blake2b(_ENCODE(_bare(schema)), digest_size=4).hexdigest() if schema is not None else ""


def _bare(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            name: _bare(part)
            for name, part in value.items()
            # A property may be called so; then what stands there is a schema.
            if not (name in ("description", "title", "examples", "$comment") and not isinstance(part, Mapping))
        }
    if isinstance(value, (list, tuple)):
        return [_bare(part) for part in value]
    return value
