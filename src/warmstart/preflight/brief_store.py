"""Build the stored briefs: what a hook prints when a session starts, without building anything itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.memory.lines import NOTED, REMEMBERED, short_digest
from warmstart.preflight.index import migrate
from warmstart.preflight.stored_brief import count_sessions, snapshot
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.templates.brief import Brief
from warmstart.templates.rules import DOCS, MANIFESTS

_MAX_BRANCHES = 8  # briefs of one project
_MAX_BUILT = 20  # projects in one go; the start of a session has the others built
_PROJECTS = """
    SELECT project FROM sessions WHERE project <> '' GROUP BY project ORDER BY max(ended_at) DESC NULLS LAST
"""


def current_state(store: SQLSessionStore, project: str, branch: str, tools: Mapping[str, str]) -> dict[str, Any]:
    """The state that a brief is made from now."""
    migrate(store)
    return snapshot(store.database.connection, project, branch, (*DOCS, *MANIFESTS), tools)


def outdated_projects(store: SQLSessionStore) -> list[str]:
    """The projects on this machine whose sessions have changed since their brief was built, newest first."""
    migrate(store)
    states = dict(store.fetch("SELECT project, state FROM briefs ORDER BY id"))
    outdated: list[str] = []
    for (project,) in store.fetch(_PROJECTS):
        known = json.loads(states.get(project, "{}")).get("sessions")
        if known != count_sessions(store.database.connection, project) and Path(project).is_dir():
            outdated.append(project)
    return outdated[:_MAX_BUILT]


def save_brief(store: SQLSessionStore, brief: Brief, project: str, branch: str, state: Mapping[str, Any]) -> None:
    """Store a brief in place of the last one of this branch, unless its sessions have changed since.

    Memories are left out: the hook reads them itself.
    """
    headings = [(heading, line) for heading, lines in brief.sections for line in lines]
    stored = [(heading, line) for heading, line in headings if heading not in (REMEMBERED, NOTED)]
    with store.database.transaction() as connection:
        if count_sessions(connection, project) != state["sessions"]:
            return  # what was taken back meanwhile must not come back
        connection.execute("DELETE FROM briefs WHERE project = ? AND branch = ?", (project, branch))
        connection.execute(
            "DELETE FROM briefs WHERE project = ?1 AND id NOT IN "
            "(SELECT id FROM briefs WHERE project = ?1 ORDER BY id DESC LIMIT ?2)",
            (project, _MAX_BRANCHES - 1),
        )
        row = (project, branch, json.dumps(state))
        insert = "INSERT INTO briefs (project, branch, state) VALUES (?, ?, ?) RETURNING id"
        (number,) = connection.execute(insert, row).fetchone()
        for place, (heading, line) in enumerate(stored):
            text, names = line.text, [path.removeprefix(line.folder) for path in line.paths]
            if names:
                text = f"{line.folder}: " if line.folder else ""
            key = f"brief:{short_digest(line.text)}"
            connection.execute(
                "INSERT INTO brief_lines (brief, place, heading, key, text, paths, needs_files) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, place, heading, key, text, json.dumps(names), int(line.needs_files)),
            )
            sessions = {source.session for source in line.sources}
            connection.executemany(
                "INSERT INTO brief_sources (session, brief, place) VALUES (?, ?, ?)",
                [(session, number, place) for session in sorted(sessions)],
            )
