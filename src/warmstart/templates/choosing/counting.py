"""How often templates were used and how that went, counted for all of them at once. The unit is the session."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from warmstart.storage.sql import batches, placeholders
from warmstart.templates.store import SQLTemplateStore


class Counts(NamedTuple):
    """The sessions that started from a template, and those that were held out from it, with the outcomes known."""

    used: int = 0
    successes: int = 0
    failures: int = 0
    held_out: int = 0
    cold_successes: int = 0
    cold_failures: int = 0
    last_used: float | None = None


class Standing(NamedTuple):
    """How a template did, as far as it is known."""

    successes: int = 0
    failures: int = 0


_COUNTED = """
    SELECT template, arm, count(*),
        sum(CASE outcome WHEN 'success' THEN 1 ELSE 0 END), sum(CASE outcome WHEN 'failure' THEN 1 ELSE 0 END), max(at)
    FROM template_uses WHERE arm IN ('warm', 'holdout') AND template IS NOT NULL GROUP BY template, arm
"""


def counts_of(store: SQLTemplateStore) -> dict[str, Counts]:
    """The counts of every template that was ever drawn, by its id."""
    found: dict[str, Counts] = {}
    with store.database.translate_errors():
        for template, arm, number, successes, failures, last in store.database.connection.execute(_COUNTED):
            counts = found.get(template, Counts())
            if arm == "warm":
                found[template] = counts._replace(
                    used=int(number), successes=int(successes), failures=int(failures), last_used=float(last)
                )
            else:
                found[template] = counts._replace(
                    held_out=int(number), cold_successes=int(successes), cold_failures=int(failures)
                )
    return found


def colds_of(store: SQLTemplateStore) -> dict[str, tuple[int, int]]:
    """How many of the sessions that were held out from each template succeeded and failed."""
    found: dict[str, tuple[int, int]] = {}
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            "SELECT template, outcome, count(*) FROM template_uses "
            "WHERE arm = 'holdout' AND template IS NOT NULL AND outcome <> '' GROUP BY template, outcome"
        )
        for template, outcome, number in rows:
            successes, failures = found.get(template, (0, 0))
            found[template] = (int(number), failures) if outcome == "success" else (successes, int(number))
    return found


def standings_of(store: SQLTemplateStore, templates: Collection[str]) -> dict[str, Standing]:
    """How some templates did."""
    found: dict[str, Standing] = {}
    with store.database.translate_errors():
        for some in batches(templates):
            rows = store.database.connection.execute(
                f"SELECT id, successes, failures FROM templates WHERE id IN ({placeholders(some)})", some
            )
            found.update((row[0], Standing(row[1], row[2])) for row in rows)
    return found


def stamp_of(store: SQLTemplateStore) -> tuple[int, ...]:
    """What is another after templates came, went or got a new version; how they were used does not change it."""
    with store.database.translate_errors():
        row = store.database.connection.execute(
            "SELECT (SELECT count(*) FROM template_versions), (SELECT count(*) FROM templates), "
            "(SELECT count(*) FROM template_ids)"
        ).fetchone()
    return tuple(row)
