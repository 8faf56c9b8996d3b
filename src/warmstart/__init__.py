"""Warmstart carries what an LLM agent learned in one session into the next, and measures whether that helps.

Start with `warmstart.open()`. Names are loaded on first use, because an agent's hook starts a process on every turn.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.app import Warmstart, open
    from warmstart.config import Settings, load_settings
    from warmstart.errors import WarmstartError
    from warmstart.memory.backend import MemoryBackend
    from warmstart.memory.values import MemoryEntry
    from warmstart.profile.corpus import Report
    from warmstart.profile.values import Profile
    from warmstart.recall.evidence import Evidence
    from warmstart.run import Run
    from warmstart.sessions.store import Filter, SessionStore, SessionSummary
    from warmstart.sessions.sync import SyncReport
    from warmstart.sessions.values import Message, Session, Step, ToolCall, ToolResult, Usage
    from warmstart.templates.rendering import Rendering
    from warmstart.templates.start import Started
    from warmstart.templates.template import WarmTemplate

__all__ = [
    "Evidence",
    "Filter",
    "MemoryBackend",
    "MemoryEntry",
    "Message",
    "Profile",
    "Rendering",
    "Report",
    "Run",
    "Session",
    "SessionStore",
    "SessionSummary",
    "Settings",
    "Started",
    "Step",
    "SyncReport",
    "ToolCall",
    "ToolResult",
    "Usage",
    "WarmTemplate",
    "Warmstart",
    "WarmstartError",
    "load_settings",
    "open",
]

_MODULES = {
    "app": ("Warmstart", "open"),
    "config": ("Settings", "load_settings"),
    "errors": ("WarmstartError",),
    "memory.backend": ("MemoryBackend",),
    "memory.values": ("MemoryEntry",),
    "profile.corpus": ("Report",),
    "profile.values": ("Profile",),
    "recall.evidence": ("Evidence",),
    "run": ("Run",),
    "sessions.store": ("Filter", "SessionStore", "SessionSummary"),
    "sessions.sync": ("SyncReport",),
    "sessions.values": ("Message", "Session", "Step", "ToolCall", "ToolResult", "Usage"),
    "templates.rendering": ("Rendering",),
    "templates.start": ("Started",),
    "templates.template": ("WarmTemplate",),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"warmstart.{module}"), name)
    raise AttributeError(f"module 'warmstart' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
