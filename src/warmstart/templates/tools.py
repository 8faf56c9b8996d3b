"""Tool definitions by name, as hosts give them: what a session may call, and whether arguments fit the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from warmstart.text.truncate import one_line

_SCHEMA = ("parameters", "input_schema", "inputSchema")
_ENCODE = msgspec.json.Encoder(order="deterministic").encode

# Definitions as OpenAI (`{"type": "function", "function": {…}}`, or flat), Anthropic (`input_schema`) and MCP
# (`inputSchema`) shape them, or bare names.
Definitions = Iterable[Mapping[str, Any] | str]


def schemas_of(tools: Definitions) -> dict[str, dict[str, Any] | None]:
    """The JSON schema of each tool's arguments, by name; `None` if none was given."""
    schemas: dict[str, dict[str, Any] | None] = {}
    for tool in tools:
        if isinstance(tool, str):
            schemas.setdefault(tool, None)
            continue
        inner = tool.get("function")
        definition = inner if isinstance(inner, Mapping) else tool
        name = definition.get("name")
        if isinstance(name, str) and name:
            schema = next((definition[key] for key in _SCHEMA if isinstance(definition.get(key), Mapping)), None)
            schemas[name] = dict(schema) if schema is not None else None
    return schemas


def fingerprint(schema: Mapping[str, Any] | None) -> str:
    """A hash of a schema in eight hexadecimal digits, ignoring descriptions, which change often; empty for `None`."""
    return blake2b(_ENCODE(_bare(schema)), digest_size=4).hexdigest() if schema is not None else ""


def _bare(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            name: _bare(part)
            for name, part in value.items()
            # A property may have such a name; its value is then a schema.
            if not (name in ("description", "title", "examples", "$comment") and not isinstance(part, Mapping))
        }
    if isinstance(value, (list, tuple)):
        return [_bare(part) for part in value]
    return value


# Constraints on the content of a string. A placeholder stands for any string, so it cannot break them.
_OF_TEXT = frozenset(("pattern", "format", "enum", "const", "minLength", "maxLength", "contentEncoding"))
_PLAIN = frozenset(
    ("$schema", "title", "description", "default", "type", "properties", "required", "additionalProperties", "items")
)
_TYPES = {"string": str, "object": dict, "array": list, "boolean": bool, "integer": int}


def fits(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    """Whether a tool accepts these arguments. A string with a placeholder such as `{{date}}` stands for any string."""
    if schema is None:
        return True
    return _fits_simply(schema, arguments) or argument_problem(schema, json.dumps(arguments)) is None


def _fits_simply(schema: Any, value: Any) -> bool:
    """Whether a value certainly fits a simple schema. Saves most sessions the full validator, which loads slowly."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN:
        return False
    named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    kind = _TYPES.get(str(schema.get("type")))
    if kind is None or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    if isinstance(value, list):
        return "items" not in schema or all(_fits_simply(schema["items"], one) for one in value)
    if not isinstance(value, dict):
        return True
    if not isinstance(others, bool) or not value.keys() >= set(schema.get("required", ())):
        return False
    return all(_fits_simply(named[name], one) if name in named else others for name, one in value.items())


def argument_problem(schema: Mapping[str, Any], arguments: str) -> str | None:
    """What is wrong with the arguments, or `None`."""
    import jsonschema  # takes 50 ms, and most commands never need it
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return "are not JSON"
    checker = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        checker.check_schema(dict(schema))
        for error in checker(schema, registry=Registry()).iter_errors(value):
            if not _is_of_placeholder(error):
                where = ".".join(str(part) for part in error.absolute_path)
                message = one_line(error.message, 300)
                return f"do not fit the schema of the tool: {f'{where}: ' if where else ''}{message}"
    except (jsonschema.SchemaError, Unresolvable, RecursionError):
        return None  # a schema that cannot be understood says nothing about the arguments
    return None


def _is_of_placeholder(error: Any) -> bool:
    """Whether an error is only about the content of a placeholder, here or in one of a schema's alternatives."""
    if error.context:
        return any(_is_of_placeholder(inner) for inner in error.context)
    is_placeholder = isinstance(error.instance, str) and "{{" in error.instance and "}}" in error.instance
    return is_placeholder and error.validator in _OF_TEXT
