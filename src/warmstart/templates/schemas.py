"""Whether the arguments of a call fit the JSON schema of its tool. Nothing is fetched, whatever a schema names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Rules about what a text looks like: a placeholder stands for any text, so they cannot be broken by one.
_OF_TEXT = frozenset(("pattern", "format", "enum", "const", "minLength", "maxLength", "contentEncoding"))
_LONGEST = 300  # characters of what is wrong that are told


def argument_problem(schema: Mapping[str, Any], arguments: str) -> str | None:
    """What is wrong with arguments, or `None`. A text with a placeholder such as `{{date}}` counts as any text."""
    import jsonschema  # takes 50 ms, and most commands need it never
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
                said = " ".join(error.message.split())[:_LONGEST]
                return f"do not fit the schema of the tool: {f'{where}: ' if where else ''}{said}"
    except (jsonschema.SchemaError, Unresolvable, RecursionError):
        return None  # a schema that cannot be understood says nothing about the arguments
    return None


def _is_of_placeholder(error: Any) -> bool:
    """Whether only the look of a placeholder is wrong, here or in each way that a schema offers."""
    if error.context:
        return any(_is_of_placeholder(inner) for inner in error.context)
    text = error.instance
    return isinstance(text, str) and "{{" in text and "}}" in text and error.validator in _OF_TEXT
