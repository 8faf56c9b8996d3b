"""Recall: where was it said? Names are loaded on first use, because hooks load a part of this package."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from warmstart.recall.evidence import Evidence
    from warmstart.recall.index import Index
    from warmstart.recall.recall import Recall
    from warmstart.recall.semantic import SemanticIndex, create_semantic_index, delete_old_vectors, open_semantic_index

__all__ = [
    "Evidence",
    "Index",
    "Recall",
    "SemanticIndex",
    "create_semantic_index",
    "delete_old_vectors",
    "open_semantic_index",
]

_MODULES = {
    "evidence": ("Evidence",),
    "index": ("Index",),
    "recall": ("Recall",),
    "semantic": ("SemanticIndex", "create_semantic_index", "delete_old_vectors", "open_semantic_index"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"warmstart.recall.{module}"), name)
    raise AttributeError(f"module 'warmstart.recall' has no attribute {name!r}")
