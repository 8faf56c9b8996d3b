"""Embedders by the names that users give them."""

from __future__ import annotations

from warmstart.config import Settings
from warmstart.errors import ConfigError
from warmstart.recall.vectors.embedder import DEFAULT, ENDPOINT, TRANSFORMERS, Embedder
from warmstart.redact.configured import configured_redactor


def open_embedder(name: str, settings: Settings) -> Embedder:
    """The embedder of that name. Raises `ConfigError` where there is none, or what it needs is not installed."""
    if name == DEFAULT:
        from warmstart.recall.vectors.wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder()
    if name.startswith(TRANSFORMERS) and name != TRANSFORMERS:
        from warmstart.recall.vectors.transformers import TransformersEmbedder

        return TransformersEmbedder(name.removeprefix(TRANSFORMERS))
    if name.startswith(ENDPOINT) and name != ENDPOINT:
        from warmstart.recall.vectors.endpoint import EndpointEmbedder

        redactor = configured_redactor(settings)
        return EndpointEmbedder(
            name.removeprefix(ENDPOINT),
            url=settings.recall_endpoint,
            key=settings.recall_key,
            redact=lambda text: redactor.clean(text),
        )
    raise ConfigError(
        f"no embedder is called {name!r}; give {DEFAULT}, {TRANSFORMERS}MODEL, "
        f"or {ENDPOINT}MODEL with recall.endpoint in config.toml"
    )
