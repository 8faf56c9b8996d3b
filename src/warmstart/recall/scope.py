"""Which sessions a search may look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from warmstart.recall.engine import Numbers
from warmstart.sessions.rows import to_seconds
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection

# Up to where it all began, and everything that came from there.
_LINEAGE = """
    WITH RECURSIVE above (id) AS (
        SELECT s.id FROM sessions s WHERE s.id = :session OR s.native_id = :session
        UNION SELECT s.parent_id FROM above a JOIN sessions s ON s.id = a.id WHERE s.parent_id IS NOT NULL),
    family (id) AS (
        SELECT id FROM above
        UNION SELECT s.id FROM family f JOIN sessions s ON s.parent_id = f.id)
    SELECT s.pk FROM family f JOIN sessions s ON s.id = f.id
"""
_SUFFIX = "substr(s.project, length(s.project) - length(:project)) = '/' || :project"


class Choice(NamedTuple):
    """A condition on sessions `s` with its parameters; the sessions themselves where not all are meant."""

    condition: str
    values: dict[str, object]
    sessions: Numbers | None


def choose(
    connection: Connection,
    *,
    project: str | None,
    agents: Sequence[str],
    since: datetime | None,
    exclude_session: str | None,
) -> Choice:
    """The sessions of a project (a whole path, or the last part of one), of some agents, since a time, but a family."""
    terms: list[str] = []
    values: dict[str, object] = {}
    if project is not None:
        terms.append("s.project = :project" if project.startswith("/") else f"(s.project = :project OR {_SUFFIX})")
        values["project"] = clean(project.rstrip("/") or project)
    agents = (agents,) if isinstance(agents, str) else agents
    if agents:
        names = {f"agent{number}": clean(agent) for number, agent in enumerate(agents)}
        terms.append(f"s.agent IN ({', '.join(f':{name}' for name in names)})")
        values |= names
    if since is not None:
        terms.append("s.started_at >= :since")
        values["since"] = to_seconds(since)
    if exclude_session:
        family = [int(row[0]) for row in connection.execute(_LINEAGE, {"session": clean(exclude_session)})]
        if family:
            terms.append(f"s.pk NOT IN ({', '.join(map(str, family))})")
    if not terms:
        return Choice("true", {}, None)
    condition = " AND ".join(terms)
    rows = connection.execute(f"SELECT s.pk FROM sessions s WHERE {condition}", values)
    return Choice(condition, values, np.fromiter((row[0] for row in rows), np.int64))
