"""The version of the rules that profiles are computed with, and the loader of their tables.

The tables are TOML files in `tables/`: error signatures, output, checks, phrases, tools and public names. They are
loaded on first use, because hooks import this package without profiling anything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from warmstart.sessions.schema import OUTCOME_RULES

RULES = 4  # increment it when a rule changes what a profile says, so that stored profiles are recomputed


def rules_version(tools: Mapping[str, str] | None) -> str:
    """The version of the rules, including the user's own table of tools."""
    own = repr(dict(tools)) if tools else ""  # in order, because the first pattern that matches wins
    digest = blake2b(own.encode(), digest_size=4).hexdigest() if own else ""
    return f"{RULES}.{OUTCOME_RULES}{digest and '-'}{digest}"


@cache
def load_table(name: str) -> dict[str, Any]:
    """The table `name` as nested dictionaries and lists."""
    return tomllib.loads((Path(__file__).parent / "tables" / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def word_set(table: str, section: str, row: str) -> frozenset[str]:
    """The space-separated words of a row."""
    return frozenset(load_table(table)[section][row].split())


@cache
def pattern(table: str, row: str, before: str = "", after: str = "", flags: int = 0) -> re.Pattern[str]:
    """A row as one pattern between `before` and `after`; a list is a set of alternatives."""
    rows = load_table(table)[row]
    return compile_row(table, f"{before}(?:{rows if isinstance(rows, str) else '|'.join(rows)}){after}", flags)


@cache
def pattern_rows(table: str, row: str) -> tuple[tuple[Any, ...], ...]:
    """The rows of a list, each a compiled pattern and its meaning."""
    return tuple((compile_row(table, text), *rest) for text, *rest in load_table(table)[row])


def compile_row(table: str, text: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern with `{name}` replaced by the table's fragment of that name."""
    for name, fragment in load_table(table).get("fragments", {}).items():
        text = text.replace(f"{{{name}}}", fragment)
    return re.compile(text, flags)
