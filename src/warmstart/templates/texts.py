"""Every text of a template, wherever in it: for what is done to texts alike, such as redaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from warmstart.redact.redactor import Redactor
from warmstart.templates.values import Source, WarmTemplate

# Closed sets, and what refers to sessions and messages: nothing of it is a text that somebody wrote.
_FIXED = frozenset(("kind", "said_by", "use", "sources", "source", "sessions"))
_OF_TEMPLATE = ("name", "description", "tags", "project", "agent", "origin", "allowed", "described_by", "seed")

T = TypeVar("T")


def map_texts(value: T, change: Callable[[str], str]) -> T:
    """A seed or a part of one with a change applied to each of its texts."""
    return _mapped(value, change)  # type: ignore[no-any-return]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Source):
        return value
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return tuple(_mapped(part, change) for part in value)
        return type(value)(*(p if n in _FIXED else _mapped(p, change) for n, p in zip(names, value, strict=True)))
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value) if field.name not in _FIXED)
        return replace(value, **{name: _mapped(part, change) for name, part in named})
    return value


def texts_in(value: object) -> Iterator[str]:
    """Each text of a seed or of a part of one."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    map_texts(value, note)
    return iter(found)


def rewritten(template: WarmTemplate, change: Callable[[str], str]) -> WarmTemplate:
    """The template with a change applied to each of its texts, the names of tools among them."""
    parts = {name: _mapped(getattr(template, name), change) for name in _OF_TEMPLATE}
    return replace(template, **parts, tools={change(name): mark for name, mark in template.tools.items()})


def redacted(template: WarmTemplate, redactor: Redactor) -> WarmTemplate:
    """The template without secrets."""
    return rewritten(template, redactor.clean)
