"""What happened: sessions as values, the session store, readers of agents' logs, and sync.

Names are loaded on first use. Import `sync` and `export` from the modules of the same names.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.sessions.copy import copy_store
    from warmstart.sessions.readers.registry import judge
    from warmstart.sessions.schema import OUTCOME_RULES
    from warmstart.sessions.sql_store import PostgresSessionStore, SQLiteSessionStore, SQLSessionStore, open_store
    from warmstart.sessions.store import Filter, SessionStore, SessionSummary
    from warmstart.sessions.sync import Source, SyncReport, default_sources, path_sources
    from warmstart.sessions.values import Message, Session, Step, ToolCall, ToolResult, Usage, steps

__all__ = [
    "OUTCOME_RULES",
    "Filter",
    "Message",
    "PostgresSessionStore",
    "SQLSessionStore",
    "SQLiteSessionStore",
    "Session",
    "SessionStore",
    "SessionSummary",
    "Source",
    "Step",
    "SyncReport",
    "ToolCall",
    "ToolResult",
    "Usage",
    "copy_store",
    "default_sources",
    "judge",
    "open_store",
    "path_sources",
    "steps",
]

_MODULES = ("values", "store", "schema", "sql_store", "copy", "sync", "readers.registry")  # the fastest to load first


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module in _MODULES if name in __all__ else ():
        if found := getattr(import_module(f"{__name__}.{module}"), name, None):
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
