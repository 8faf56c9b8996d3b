"""The loader of this package's tables: which commands are safe and worth carrying, and what words mean."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def load_table(name: str) -> dict[str, Any]:
    """The table in `name.toml`."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def word_set(table: str, row: str) -> frozenset[str]:
    """The words of a row, separated by spaces."""
    return frozenset(load_table(table)[row].split())


@cache
def pattern(row: str, table: str = "rules") -> re.Pattern[str]:
    """A row of patterns as one case-insensitive pattern that matches any of them. `<name>` inserts a fragment."""
    text = "|".join(load_table(table)["patterns"][row])
    for name, fragment in load_table(table).get("fragments", {}).items():
        text = text.replace(f"<{name}>", fragment)
    return re.compile(text, re.IGNORECASE)


def subject_of(text: str) -> str:
    """The subject of a request: without a greeting or a leading `can you`; for a plan its heading."""
    plan = pattern("plan").match(text.strip())
    return pattern("greeting").sub("", plan[1] if plan else text.strip())


DOCS, MANIFESTS = (tuple(load_table("rules")[row].split()) for row in ("docs", "manifests"))
