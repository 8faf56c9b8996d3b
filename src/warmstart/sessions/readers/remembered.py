"""A session as a reader's state remembers it, for logs that state their facts once, at the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmstart.sessions.projects import project_of
from warmstart.sessions.readers.fields import as_time
from warmstart.sessions.values import Session, session_id


def remembered_session(agent: str, path: Path, state: dict[str, Any]) -> Session:
    """The session whose facts are in `state` under `id`, `cwd`, `branch`, `model`, `title`, `version`, `started` and
    `parent` (its native id and the kind of the tie).
    """
    parent: list[Any] = state.get("parent") or ["", None]
    return Session(
        agent=agent,
        native_id=state["id"],
        project=project_of(state.get("cwd", "")),
        branch=state.get("branch", ""),
        model=state.get("model", ""),
        title=state.get("title", ""),
        version=state.get("version", ""),
        source=str(path),
        started_at=as_time(state.get("started")),
        parent_id=session_id(agent, parent[0]) if parent[0] else None,
        parent_kind=parent[1],
    )
