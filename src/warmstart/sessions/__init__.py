"""What happened: sessions as values, the store that keeps them, readers of agents' logs, and sync.

Names are loaded when they are first used; `warmstart.sessions.sync.sync` and `warmstart.sessions.export.export` are
imported from their modules, whose names they share.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.sessions.copy import copy_store
    from warmstart.sessions.outcomes import OUTCOME_RULES, judge
    from warmstart.sessions.projects import repository_of, resolve_project
    from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore, open_store
    from warmstart.sessions.store import Filter, Position, SessionStore, SessionSummary, SyncStore
    from warmstart.sessions.sync import Source, SyncReport, default_sources, path_sources
    from warmstart.sessions.values import Message, Session, Step, ToolCall, ToolResult, Usage, session_id, steps

__all__ = [
    "OUTCOME_RULES",
    "Filter",
    "Message",
    "Position",
    "PostgresSessionStore",
    "SQLSessionStore",
    "SQLiteSessionStore",
    "Session",
    "SessionStore",
    "SessionSummary",
    "Source",
    "Step",
    "SyncReport",
    "SyncStore",
    "ToolCall",
    "ToolResult",
    "Usage",
    "copy_store",
    "default_sources",
    "judge",
    "open_store",
    "path_sources",
    "repository_of",
    "resolve_project",
    "session_id",
    "steps",
]

_MODULES = {
    "copy": ("copy_store",),
    "outcomes": ("OUTCOME_RULES", "judge"),
    "projects": ("repository_of", "resolve_project"),
    "sql_store": ("PostgresSessionStore", "SQLSessionStore", "SQLiteSessionStore", "open_store"),
    "store": ("Filter", "Position", "SessionStore", "SessionSummary", "SyncStore"),
    "sync": ("Source", "SyncReport", "default_sources", "path_sources"),
    "values": ("Message", "Session", "Step", "ToolCall", "ToolResult", "Usage", "session_id", "steps"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
