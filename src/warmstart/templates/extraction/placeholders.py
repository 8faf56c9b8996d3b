"""Values that are particular to the old task, as typed placeholders: `{{date}}`, `{{reservation_id_2}}`.

The same value has the same placeholder in the whole session. Conventions stay as they are: flags, formats, names of
keys, the layout of directories. Arguments stay valid: where a tool's schema would not take a placeholder, something
that it does take stands there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import clean
from warmstart.templates.extraction.eliding import elided
from warmstart.templates.extraction.fitting import Schema, number_for, part_of, stand_in
from warmstart.templates.extraction.forms import forms
from warmstart.templates.extraction.identifying import Hint, hint_of, identifies, is_money, names_person
from warmstart.templates.extraction.vocabulary import Vocabulary
from warmstart.templates.extraction.walk import Walk

_ALIKE = frozenset(("amount", "time", "number", "value"))  # one is as good as the other
_ID, _LONG_ID = 10**4, 10**6  # numbers that are ids under a key that says so, and under one that may say so
_LONG_NUMBER = 10**9  # above any timeout or size that anybody sets
_COMMANDS = frozenset(("command", "cmd", "script"))
_PATHS = re.compile(r"path|file|dir|cwd|folder|workdir|root", re.IGNORECASE)
_SOMEBODY = frozenset(("address", "name"))  # objects that say nothing but who or where
_REMEMBERED = 2_000  # characters of a text whose rendering is kept
_DEEPEST = 24
_TYPES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


class CannotShow(Exception):
    """No arguments can stand for these that the tool would take and that do not show what they must not."""


class Placeholders:
    """Replaces secrets, and what is particular to a session, in its texts and arguments."""

    def __init__(
        self,
        walk: Walk,
        *,
        redactor: Redactor | None = None,
        enabled: bool = True,
        schemas: Mapping[str, Schema | None] | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._enabled = enabled
        self._schemas = schemas or {}
        self._vocabulary = Vocabulary(walk) if enabled else None
        said = (message.text for message in walk.messages if message.role in ("user", "system"))
        self._said = "\n".join(said).lower()
        self._numbers: dict[str, dict[str, int]] = {}
        self._texts: dict[str, str] = {}

    def text(self, text: str) -> str:
        """The text without secrets, and with placeholders for what is particular to the session.

        Addresses of hosts that neither the person nor the system named are not carried either.
        """
        if len(text) > _REMEMBERED:
            return self._replaced(text, self._is_named)
        if text not in self._texts:
            self._texts[text] = self._replaced(text, self._is_named)
        return self._texts[text]

    def _is_named(self, host: str) -> bool:
        return host in self._said

    def arguments(self, tool: str, arguments: str) -> str:
        """The arguments of a call as JSON, valid as before; empty where none can stand for them."""
        try:
            given = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            given = {"input": arguments}
        if not isinstance(given, dict):
            given = {"input": arguments}
        root = self._schemas.get(tool)
        try:
            shown = self._data(given, "", "", root, root, 0)
        except CannotShow:
            return ""
        return json.dumps(shown, ensure_ascii=False)

    def data(self, value: object) -> object:
        """JSON out of a result, with placeholders; types need not stay, because nobody checks them."""
        return self._shown(value, "", "", 0)

    # -- texts

    def _replaced(self, text: str, is_named: Callable[[str], bool]) -> str:
        text = self._redactor.clean(clean(text))
        if self._vocabulary is None or len(text) < 2:
            return text
        spans = sorted(self._spans(text, is_named), key=lambda span: (span[0], -span[1]))
        kept: list[str] = []
        place = 0
        for start, end, name, value in spans:
            if start < place:
                continue
            kept += (text[place:start], text[start:end] if name == "kept" else self._placeholder(name, value))
            place = end
        return "".join((*kept, text[place:]))

    def _spans(self, text: str, is_named: Callable[[str], bool]) -> list[tuple[int, int, str, str]]:
        """What is to be replaced; a value that the session names goes before one that only has a shape.

        An address for mail stays whole, also where somebody's name is a part of it.
        """
        assert self._vocabulary is not None  # noqa: S101 - asked for with placeholders only
        shaped = list(forms(text, is_named))
        whole = [span for span in shaped if span[2] in ("kept", "email")]
        named = [span for span in self._vocabulary.spans(text) if span[2] == "email" or not _overlaps(span, whole)]
        return [
            *(span for span in whole if span[2] == "kept"),
            *named,
            *(span for span in shaped if span[2] != "kept" and not _overlaps(span, named)),
        ]

    def _placeholder(self, type: str, value: str) -> str:
        if type in _ALIKE:
            return f"{{{{{type}}}}}"
        numbers = self._numbers.setdefault(type, {})
        number = numbers.setdefault(value.lower(), len(numbers) + 1)
        return f"{{{{{type}}}}}" if number == 1 else f"{{{{{type}_{number}}}}}"

    # -- arguments

    def _said_in_call(self, text: str) -> str:
        # By the address a call is known that does what some output told the agent; the sweep needs it.
        return self._replaced(text, lambda host: True) if "://" in text else self.text(text)

    def _data(self, value: Any, key: str, parent: str, schema: Schema | None, root: Schema | None, depth: int) -> Any:
        if depth > _DEEPEST:
            raise CannotShow
        if isinstance(value, dict):
            person = self._enabled and "name" in value and names_person(value)
            return {
                self.text(name): self._data(
                    part,
                    "full_name" if person and name == "name" else name,
                    key or parent,
                    part_of(schema, name, root, _TYPES.get(type(part), "")),
                    root,
                    depth + 1,
                )
                for name, part in value.items()
            }
        if isinstance(value, list):
            return self._list(value, key, parent, schema, root, depth)
        if isinstance(value, str):
            return self._string(value, key, parent, schema)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self._enabled:
            hint = hint_of(key, parent)
            if abs(value) >= _LONG_NUMBER or (hint and abs(value) >= (_ID if hint.sure else _LONG_ID)):
                return number_for(value, schema)
        return value

    def _list(
        self, value: list[Any], key: str, parent: str, schema: Schema | None, root: Schema | None, depth: int
    ) -> list[Any]:
        if key in _COMMANDS and value and all(isinstance(word, str) for word in value):
            return [self._said_in_call(elided(key, word, command=True)) for word in value]
        inner = part_of(schema, None, root)
        return [self._data(part, key, parent, inner, root, depth + 1) for part in value]

    def _string(self, value: str, key: str, parent: str, schema: Schema | None) -> str:
        if schema and ("enum" in schema or "const" in schema):
            return value
        hint = hint_of(key, parent) if self._enabled else None
        if hint and identifies(value, hint) and not (_PATHS.search(key) and "/" in value):
            shown = self._placeholder(self._type_of(value, hint), value)
        else:
            shown = self._said_in_call(elided(key, value, command=key in _COMMANDS))
        if shown == value:
            return value
        fitting = stand_in(value, shown, schema)
        if fitting is None:
            raise CannotShow
        return fitting

    def _type_of(self, value: str, hint: Hint) -> str:
        """What the session calls a value, before what one key does: an id is the same under every key."""
        known = self._vocabulary.type_of(value) if self._vocabulary else None
        return known or hint.type

    # -- results

    def _shown(self, value: Any, key: str, parent: str, depth: int) -> Any:
        if depth > _DEEPEST:
            return "…"
        if isinstance(value, dict):
            shown = {self.text(name): self._shown(part, name, key or parent, depth + 1) for name, part in value.items()}
            return f"{{{{{key}}}}}" if key in _SOMEBODY and all(map(_is_placeholder, shown.values())) else shown
        if isinstance(value, list):
            return [self._shown(part, key, parent, depth + 1) for part in value]
        if isinstance(value, bool) or value is None:
            return value
        if not self._enabled:
            return self._redactor.clean(value) if isinstance(value, str) else value
        if isinstance(value, str):
            hint = hint_of(key, parent)
            if hint and identifies(value, hint):
                return self._placeholder(self._type_of(value, hint), value)
            return self.text(value)
        hint = hint_of(key, parent)
        if is_money(key) or is_money(parent):
            return "{{amount}}"
        return "{{number}}" if abs(value) >= _LONG_ID or (hint and hint.sure and abs(value) >= _ID) else value


def _is_placeholder(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{{") and value.endswith("}}")


def _overlaps(span: tuple[int, int, str, str], others: list[tuple[int, int, str, str]]) -> bool:
    return any(span[0] < other[1] and other[0] < span[1] for other in others)
