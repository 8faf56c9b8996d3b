"""How did it go? Tools, errors, recoveries and outcomes of stored sessions, and whether sessions learn.

Names are loaded on first use: numpy and the tables take a while to load, and hooks need neither.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.profile.corpus import Report, summarize
    from warmstart.profile.diagnostics import Rate
    from warmstart.profile.profiler import Analysis, Profiler, profile_of, profiled, update
    from warmstart.profile.signatures import error_signature
    from warmstart.profile.store import SQLProfileStore
    from warmstart.profile.tools import role_of
    from warmstart.profile.values import AnnotatedStep, Call, Outcome, Profile, Profiled, Recovery, TaskType

__all__ = [
    "Analysis",
    "AnnotatedStep",
    "Call",
    "Outcome",
    "Profile",
    "Profiled",
    "Profiler",
    "Rate",
    "Recovery",
    "Report",
    "SQLProfileStore",
    "TaskType",
    "error_signature",
    "profile_of",
    "profiled",
    "role_of",
    "summarize",
    "update",
]

_MODULES = {
    "corpus": ("Report", "summarize"),
    "diagnostics": ("Rate",),
    "profiler": ("Analysis", "Profiler", "profile_of", "profiled", "update"),
    "signatures": ("error_signature",),
    "store": ("SQLProfileStore",),
    "tools": ("role_of",),
    "values": ("AnnotatedStep", "Call", "Outcome", "Profile", "Profiled", "Recovery", "TaskType"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
