"""Tool definitions as hosts give them, by name: what a session may call, and whether arguments fit the schema."""

from __future__ import annotations

import json
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


# -- arguments

# Rules about what a text looks like. A placeholder stands for any text, so it cannot break them.
_OF_TEXT = frozenset(("pattern", "format", "enum", "const", "minLength", "maxLength", "contentEncoding"))
_MAX_PROBLEM = 300  # characters
_SILENT = ("$schema", "title", "description", "default", "examples", "$comment")
_PLAIN = frozenset((*_SILENT, "type", "properties", "required", "additionalProperties", "items", "enum"))
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def fits(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> bool:
    """Whether a tool takes these arguments. A text with a placeholder such as `{{date}}` counts as any text."""
    if schema is None:
        return True
    simply = _fits_simply(schema, arguments)
    return argument_problem(schema, json.dumps(arguments)) is None if simply is None else simply


def _fits_simply(schema: Any, value: Any) -> bool | None:
    """Whether a value fits; `None` if the schema says more than is understood here."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN:
        return None
    name = schema.get("type", "")
    known = _TYPES.get(name) if isinstance(name, str) else None
    if "type" in schema:
        if known is None or (name == "integer" and isinstance(value, float)):
            return None
        if not isinstance(value, known) or (isinstance(value, bool) and name != "boolean"):
            return False
    if "enum" in schema:
        if not isinstance(value, str):
            return None
        if value not in schema["enum"] and not _has_placeholder(value):
            return False
    if isinstance(value, list):
        return _all(schema["items"], value) if "items" in schema else True
    return _object_fits(schema, value) if isinstance(value, dict) else True


def _object_fits(schema: Mapping[str, Any], value: dict[str, Any]) -> bool | None:
    named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not isinstance(named, Mapping) or not isinstance(others, bool):
        return None
    if any(name not in value for name in schema.get("required", ())):
        return False
    if not others and not value.keys() <= named.keys():
        return False
    answers = [_fits_simply(named[name], part) for name, part in value.items() if name in named]
    return False if False in answers else None if None in answers else True


def _all(schema: Any, values: list[Any]) -> bool | None:
    answers = [_fits_simply(schema, value) for value in values]
    return False if False in answers else None if None in answers else True


def argument_problem(schema: Mapping[str, Any], arguments: str) -> str | None:
    """What is wrong with arguments, or `None`."""
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
                said = " ".join(error.message.split())[:_MAX_PROBLEM]
                return f"do not fit the schema of the tool: {f'{where}: ' if where else ''}{said}"
    except (jsonschema.SchemaError, Unresolvable, RecursionError):
        return None  # a schema that cannot be understood says nothing about the arguments
    return None


def _is_of_placeholder(error: Any) -> bool:
    """Whether only the look of a placeholder is wrong, here or in each way that a schema offers."""
    if error.context:
        return any(_is_of_placeholder(inner) for inner in error.context)
    return _has_placeholder(error.instance) and error.validator in _OF_TEXT


def _has_placeholder(value: object) -> bool:
    return isinstance(value, str) and "{{" in value and "}}" in value
