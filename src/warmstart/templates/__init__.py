"""What is worth carrying: the items of sessions, the brief of a project, and templates.

The names below are loaded on first use; import anything else from its module.
"""

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from warmstart.templates.brief import Brief, build_brief
    from warmstart.templates.item import Item, SessionItems, Source, ToolCallExample
    from warmstart.templates.make import SessionExtractor
    from warmstart.templates.manager import SessionTemplates
    from warmstart.templates.rendering import Rendering, render
    from warmstart.templates.selection import Choice, Selector, Suggestion, Task
    from warmstart.templates.start import Started, WarmSessionBootstrapper, inject, start_warm
    from warmstart.templates.store import SQLTemplateStore
    from warmstart.templates.template import SessionSeed, UserPatterns, WarmTemplate

__all__ = [
    "Brief",
    "Choice",
    "Item",
    "Rendering",
    "SQLTemplateStore",
    "Selector",
    "SessionExtractor",
    "SessionItems",
    "SessionSeed",
    "SessionTemplates",
    "Source",
    "Started",
    "Suggestion",
    "Task",
    "ToolCallExample",
    "UserPatterns",
    "WarmSessionBootstrapper",
    "WarmTemplate",
    "build_brief",
    "inject",
    "render",
    "start_warm",
]

_MODULES = {
    "brief": ("Brief", "build_brief"),
    "item": ("ToolCallExample", "Item", "SessionItems", "Source"),
    "make": ("SessionExtractor",),
    "manager": ("SessionTemplates",),
    "rendering": ("Rendering", "render"),
    "selection": ("Choice", "Selector", "Suggestion", "Task"),
    "start": ("Started", "WarmSessionBootstrapper", "inject", "start_warm"),
    "store": ("SQLTemplateStore",),
    "template": ("SessionSeed", "UserPatterns", "WarmTemplate"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
