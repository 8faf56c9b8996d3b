"""What is worth carrying: the items of sessions, the brief of a project, and templates.

The names below are loaded on first use; import anything else from its module.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.templates.brief import Brief, build_brief
    from warmstart.templates.item import Call, Item, SessionItems, Source
    from warmstart.templates.make import SessionExtractor
    from warmstart.templates.rendering import Rendering, render
    from warmstart.templates.selection import Choice, Selector, Suggestion, Task
    from warmstart.templates.start import Started, WarmSessionBootstrapper, inject, start_warm
    from warmstart.templates.store import SQLTemplateStore
    from warmstart.templates.template import SessionSeed, WarmTemplate

__all__ = [
    "Brief",
    "Call",
    "Choice",
    "Item",
    "Rendering",
    "SQLTemplateStore",
    "Selector",
    "SessionExtractor",
    "SessionItems",
    "SessionSeed",
    "Source",
    "Started",
    "Suggestion",
    "Task",
    "WarmSessionBootstrapper",
    "WarmTemplate",
    "build_brief",
    "inject",
    "render",
    "start_warm",
]

_MODULES = {
    "brief": ("Brief", "build_brief"),
    "item": ("Call", "Item", "SessionItems", "Source"),
    "make": ("SessionExtractor",),
    "rendering": ("Rendering", "render"),
    "selection": ("Choice", "Selector", "Suggestion", "Task"),
    "start": ("Started", "WarmSessionBootstrapper", "inject", "start_warm"),
    "store": ("SQLTemplateStore",),
    "template": ("SessionSeed", "WarmTemplate"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
