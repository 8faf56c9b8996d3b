"""Build the stored briefs: what a hook prints when a session starts, without building anything itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from warmstart.brief.stored_brief import Line, copy_name, count_sessions, snapshot
from warmstart.memory.lines import NOTED, REMEMBERED, short_digest
from warmstart.preflight.index import migrate as migrate_preflight
from warmstart.sessions.projects import branch_of
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.storage.database import migrations_of
from warmstart.storage.files import write_private
from warmstart.templates.brief import Brief
from warmstart.templates.rules import DOCS, MANIFESTS

MIGRATIONS = migrations_of("brief", __file__)

_MAX_BRANCHES = 8  # briefs of one project
_MAX_BUILT = 20  # briefs in one go; the start of a session has the others built
_PROJECTS = """
    SELECT project FROM sessions WHERE project <> '' GROUP BY project ORDER BY max(ended_at) DESC NULLS LAST
"""
_LAST_FOLDER = "SELECT directory FROM sessions WHERE project = ? ORDER BY ended_at DESC NULLS LAST LIMIT 1"


def migrate(store: SQLSessionStore) -> None:
    """Create the tables of briefs, and those that they depend on."""
    migrate_preflight(store)
    store.database.migrate(MIGRATIONS)


def current_state(store: SQLSessionStore, project: str, branch: str, tools: Mapping[str, str]) -> dict[str, Any]:
    """The state that a brief is made from now."""
    migrate(store)
    return snapshot(store.database.connection, project, branch, (*DOCS, *MANIFESTS), tools)


def outdated_folders(store: SQLSessionStore) -> list[str]:
    """The projects on this machine whose sessions have changed since their brief was built, newest first.

    If the last session was in a worktree on another branch, that one follows.
    """
    migrate(store)
    states = dict(store.fetch("SELECT project, state FROM briefs ORDER BY id"))
    outdated: list[str] = []
    for (project,) in store.fetch(_PROJECTS):
        known = json.loads(states.get(project, "{}")).get("sessions")
        if known != count_sessions(store.database.connection, project) and Path(project).is_dir():
            outdated.append(project)
            last = store.fetch(_LAST_FOLDER, (project,))[0][0]
            if branch_of(last) not in ("", branch_of(project)):
                outdated.append(last)
    return outdated[:_MAX_BUILT]


def save_brief(store: SQLSessionStore, brief: Brief, project: str, branch: str, state: Mapping[str, Any]) -> None:
    """Store a brief in place of the last one of this branch, unless its sessions have changed since.

    Memories are left out: the hook reads them itself.
    """
    lines = list(_lines(brief, without=(REMEMBERED, NOTED)))
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
        for place, (line, sessions) in enumerate(lines):
            connection.execute(
                "INSERT INTO brief_lines (brief, place, heading, key, text, paths, needs_files) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, place, line.heading, line.key, line.text, json.dumps(line.paths), int(line.needs_files)),
            )
            connection.executemany(
                "INSERT INTO brief_sources (session, brief, place) VALUES (?, ?, ?)",
                [(session, number, place) for session in sorted(sessions)],
            )


def save_copy(
    store: SQLSessionStore, brief: Brief, project: str, state: Mapping[str, Any], remembered: Mapping[str, str]
) -> None:
    """Store a brief of a store on a server in a file, which a hook can read without a connection.

    `remembered` has the keys of the memories that the hook cannot read by itself, by their lines.
    """
    lines = []
    for line, _ in _lines(brief, without=() if remembered else (REMEMBERED, NOTED)):
        line.key = remembered.get(line.text, line.key)
        lines.append((line.heading, line.key, line.text, line.paths, line.needs_files))
    judged = store.fetch("SELECT updated_at, size, is_quotable FROM screened_memories")
    copy = {"state": state, "lines": lines, "memories": [list(row) for row in judged]}
    folder = store.database.copies
    if folder is None or _is_experimenting(store):
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / copy_name(project)
    write_private(path, json.dumps(copy))
    if count_sessions(store.database.connection, project) != state["sessions"] or _is_experimenting(store):
        path.unlink(missing_ok=True)  # what was taken back meanwhile must not come back


def _is_experimenting(store: SQLSessionStore) -> bool:
    """Whether an experiment decides what sessions start with, which a hook cannot see in a copy."""
    if "experiments/0001_tables" not in store.database.applied():
        return False
    return bool(store.fetch("SELECT 1 FROM experiments WHERE kind = 'field' AND state = 'running' LIMIT 1"))


def _lines(brief: Brief, *, without: Collection[str]) -> Iterator[tuple[Line, set[str]]]:
    """The lines of a brief as they are stored, each with the sessions that it came from."""
    for heading, lines in brief.sections:
        for line in lines if heading not in without else ():
            text, names = line.text, [path.removeprefix(line.folder) for path in line.paths]
            if names:
                text = f"{line.folder}: " if line.folder else ""
            key = f"brief:{short_digest(line.text)}"
            yield Line(heading, key, text, names, line.needs_files), {source.session for source in line.sources}
