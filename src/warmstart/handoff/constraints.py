"""Find the constraints, decisions, approvals and withdrawals in a user's message, verbatim.

A constraint says what must never, always or only be done, and still applies after the next step. Questions, code,
pasted logs and quotes do not count. The patterns are in `constraints.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from warmstart.sessions.marks import without_ours
from warmstart.text.own_words import SENTENCE, without_pasted

_LIMITS = ("never", "only", "always")
_CONSTRAINTS = (*_LIMITS, "request")
_MAX_TEXT = 20_000  # characters of a message that are read
_MIN_CONSTRAINT, _MAX_SENTENCE = 8, 600  # characters; a longer sentence was pasted
_BULLET = re.compile(r"[\s>]*(?:[-*•+]|\d{1,2}[.)])?\s*(?:\*\*)?")
_CODE = re.compile(
    r"[{}]|;$|::|\w\(\)|\d:\d|\.\w{1,4}:\d|\\n"
    r"|^\s*(?:error|warning|npm (?:warn|error)|fail(?:ed)?|info|debug|usage|---|at (?!least|most))\b"
)
_LITERAL = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”")
_WORD = re.compile(r"[a-z/']+")
_REQUEST = re.compile(r"\b(?:can|could|would|will) (?:you|we)\b")
_NOT_WORDS = re.compile(r"\W+")


class Quote(NamedTuple):
    """A sentence of the user, the id of its message, and its kind, such as `never`, `decision` or `refusal`."""

    text: str
    message_id: str
    kind: str

    @property
    def key(self) -> str:
        """Equal for repeats of the same sentence."""
        return _NOT_WORDS.sub(" ", self.text.lower()).strip()

    @property
    def is_constraint(self) -> bool:
        return self.kind in _CONSTRAINTS


def find_constraints(text: str, message_id: str = "") -> list[Quote]:
    """The constraints in a user's message."""
    return [quote for quote in find_quotes(text, message_id) if quote.is_constraint]


def find_quotes(text: str, message_id: str = "") -> list[Quote]:
    """The sentences of a user's message that the ledger quotes. Text that Warmstart inserted does not count."""
    text = without_ours(text)
    if len(text) > _MAX_TEXT:  # people comment before or after what they paste
        text = f"{text[: _MAX_TEXT // 2]}\n{text[-_MAX_TEXT // 2 :]}"
    parts = SENTENCE.split(without_pasted(text, _MAX_TEXT))
    sentences = (_BULLET.sub("", part, count=1).strip() for part in parts)
    short = (sentence for sentence in sentences if 2 < len(sentence) <= _MAX_SENTENCE)
    return [Quote(sentence, message_id, kind) for sentence in short for kind in _kinds(sentence)]


def _kinds(sentence: str) -> Iterator[str]:
    rules, bare = _rules(), _LITERAL.sub("_", sentence.replace("’", "'"))
    lower = bare.lower()
    if len(sentence) >= _MIN_CONSTRAINT and (kind := _constraint(bare, lower)):
        yield kind
    yield from (kind for kind in ("decision", "approval", "withdrawal") if rules[kind].search(lower))


def _constraint(bare: str, lower: str) -> str:
    rules, triggers = _rules(), _load_tables()["triggers"]
    if triggers.isdisjoint(_WORD.findall(lower)) or _CODE.search(lower) or rules["reports"].search(lower):
        return ""
    asked, is_shouted = _REQUEST.search(lower), rules["shouted"].search(bare)
    if lower.endswith("?") or (asked and asked.start() == 0):  # people often drop the question mark
        return "request" if asked and (is_shouted or rules["requests"].search(lower)) else ""
    return next((kind for kind in _LIMITS if rules[kind].search(lower)), "never" if is_shouted else "")


@cache
def _rules() -> dict[str, re.Pattern[str]]:
    """A pattern for each kind. Rows at the start of a clause share its prefix, which saves a third of the time."""
    start, rules = _load_tables()["fragments"]["start"], {}
    for name, rows in load_rows().items():
        anywhere = [row for row in rows if not row.startswith(start)]
        starts = "|".join(row.removeprefix(start) for row in rows if row.startswith(start))
        rules[name] = re.compile("|".join([*anywhere, f"{start}(?:{starts})"] if starts else anywhere))
    return rules


def load_rows() -> dict[str, list[str]]:
    """The rows of `constraints.toml`, with their fragments filled in."""
    tables = _load_tables()
    rows = {**tables["kinds"], **tables["sentences"]}
    for name, fragment in tables["fragments"].items():
        rows = {kind: [row.replace(f"{{{name}}}", fragment) for row in some] for kind, some in rows.items()}
    return rows


@cache
def _load_tables() -> Any:
    tables = tomllib.loads(Path(__file__).with_name("constraints.toml").read_text(encoding="utf-8"))
    return {**tables, "triggers": frozenset(tables["triggers"].split())}
