"""The version of the rules that profiles are made by, and their tables.

The tables are TOML files in `tables/`: error signatures, phrases, tools, and names that are public. They load when
they are first used, because a hook imports this package without profiling anything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from warmstart.sessions.outcomes import OUTCOME_RULES

RULES = 4  # raise it when a rule changes what a profile says: stored profiles are then made again


def rules_version(tools: Mapping[str, str] | None) -> str:
    """The version of the rules, including the user's own table of tools."""
    own = repr(dict(tools)) if tools else ""  # in its order, which decides between patterns
    digest = blake2b(own.encode(), digest_size=4).hexdigest() if own else ""
    return f"{RULES}.{OUTCOME_RULES}{digest and '-'}{digest}"


@cache
def load_table(name: str) -> dict[str, Any]:
    """The table `name` as nested dictionaries and lists."""
    return tomllib.loads((Path(__file__).parent / "tables" / f"{name}.toml").read_text(encoding="utf-8"))


def fill(pattern: str, fragments: Mapping[str, str]) -> str:
    """The pattern with `{name}` replaced by the fragment of that name."""
    for name, fragment in fragments.items():
        pattern = pattern.replace(f"{{{name}}}", fragment)
    return pattern
