"""Warmstart: what an agent carries from one session into the next, and the proof that it helps.

Names are loaded when they are first used, because an agent's hook starts this package on every turn.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmstart.config import Settings, load_settings
    from warmstart.errors import WarmstartError
    from warmstart.memory.backend import MemoryBackend
    from warmstart.memory.selection import get_memory_backend, reset_backend
    from warmstart.memory.values import MemoryEntry
    from warmstart.profile.corpus.report import report
    from warmstart.profile.corpus.values import Report
    from warmstart.profile.profiler import Profiler
    from warmstart.profile.profiles import profiled
    from warmstart.profile.values import Profile, Profiled
    from warmstart.recall.recall import Recall
    from warmstart.recall.values import Evidence
    from warmstart.recall.vectors.embedder import Embedder
    from warmstart.recall.vectors.meaning import Meaning, make_meaning, open_meaning
    from warmstart.sessions.copying import Copied, copy_store
    from warmstart.sessions.postgres import PostgresSessionStore
    from warmstart.sessions.sqlite import SQLiteSessionStore
    from warmstart.sessions.store import Appended, Filter, Match, SessionStore, SessionSummary
    from warmstart.sessions.stores import open_store
    from warmstart.sessions.sync import SyncReport, default_sources, path_sources, sync
    from warmstart.sessions.values import Message, Session, Step, ToolCall, ToolResult, Usage, session_id, steps
    from warmstart.templates.bootstrapper import WarmSessionBootstrapper, inject
    from warmstart.templates.choosing.selection import Selector
    from warmstart.templates.choosing.values import Choice, Suggestion
    from warmstart.templates.extraction.extractor import SessionExtractor
    from warmstart.templates.rendering.rendering import render
    from warmstart.templates.rendering.values import Rendering
    from warmstart.templates.revoking import revoke
    from warmstart.templates.starting import Started, start_warm
    from warmstart.templates.store import SQLTemplateStore, TemplateFilter
    from warmstart.templates.values import SessionSeed, WarmTemplate

__all__ = [
    "Appended",
    "Choice",
    "Copied",
    "Embedder",
    "Evidence",
    "Filter",
    "Match",
    "Meaning",
    "MemoryBackend",
    "MemoryEntry",
    "Message",
    "PostgresSessionStore",
    "Profile",
    "Profiled",
    "Profiler",
    "Recall",
    "Rendering",
    "Report",
    "SQLTemplateStore",
    "SQLiteSessionStore",
    "Selector",
    "Session",
    "SessionExtractor",
    "SessionSeed",
    "SessionStore",
    "SessionSummary",
    "Settings",
    "Started",
    "Step",
    "Suggestion",
    "SyncReport",
    "TemplateFilter",
    "ToolCall",
    "ToolResult",
    "Usage",
    "WarmSessionBootstrapper",
    "WarmTemplate",
    "WarmstartError",
    "copy_store",
    "default_sources",
    "get_memory_backend",
    "inject",
    "load_settings",
    "make_meaning",
    "open_meaning",
    "open_store",
    "path_sources",
    "profiled",
    "render",
    "report",
    "reset_backend",
    "revoke",
    "session_id",
    "start_warm",
    "steps",
    "sync",
]

_HOMES = {
    "config": ("Settings", "load_settings"),
    "errors": ("WarmstartError",),
    "memory.backend": ("MemoryBackend",),
    "memory.selection": ("get_memory_backend", "reset_backend"),
    "memory.values": ("MemoryEntry",),
    "profile.corpus.report": ("report",),
    "profile.corpus.values": ("Report",),
    "profile.profiler": ("Profiler",),
    "profile.profiles": ("profiled",),
    "profile.values": ("Profile", "Profiled"),
    "recall.recall": ("Recall",),
    "recall.values": ("Evidence",),
    "recall.vectors.embedder": ("Embedder",),
    "recall.vectors.meaning": ("Meaning", "make_meaning", "open_meaning"),
    "sessions.copying": ("Copied", "copy_store"),
    "sessions.postgres": ("PostgresSessionStore",),
    "sessions.sqlite": ("SQLiteSessionStore",),
    "sessions.store": ("Appended", "Filter", "Match", "SessionStore", "SessionSummary"),
    "sessions.stores": ("open_store",),
    "sessions.sync": ("SyncReport", "default_sources", "path_sources", "sync"),
    "sessions.values": ("Message", "Session", "Step", "ToolCall", "ToolResult", "Usage", "session_id", "steps"),
    "templates.bootstrapper": ("WarmSessionBootstrapper", "inject"),
    "templates.choosing.selection": ("Selector",),
    "templates.choosing.values": ("Choice", "Suggestion"),
    "templates.extraction.extractor": ("SessionExtractor",),
    "templates.rendering.rendering": ("render",),
    "templates.rendering.values": ("Rendering",),
    "templates.revoking": ("revoke",),
    "templates.starting": ("Started", "start_warm"),
    "templates.store": ("SQLTemplateStore", "TemplateFilter"),
    "templates.values": ("SessionSeed", "WarmTemplate"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"warmstart.{module}"), name)
    raise AttributeError(f"module 'warmstart' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
