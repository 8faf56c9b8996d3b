"""Embedders, which turn texts into vectors, and the stores that keep and search these vectors.

It knows nothing about sessions or memories. Everything that needs numpy is in the modules `embedders` and `vectors`.
"""

from warmstart.embedding.files import delete_vectors_file, has_vectors, open_vectors, vectors_path

__all__ = ["delete_vectors_file", "has_vectors", "open_vectors", "vectors_path"]
