"""The embedder that works offline: the static vectors of WordLlama, one for each piece of a word.

The package's own module takes a second to import and sets up logging for the whole process, so its two files are read
directly: the table of vectors and the tokenizer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from warmstart.errors import ConfigError
from warmstart.recall.vectors.embedder import DEFAULT, Matrix

_DIMENSIONS = 256
_WEIGHTS = f"weights/l2_supercat_{_DIMENSIONS}.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_CHARACTERS = 6000  # of a text; more would blur its direction
_FEW = 100  # texts for which to wake other threads costs more than it saves
_PIECES = 40_000  # that are summed at once


class WordLlamaEmbedder:
    """Implements `Embedder`."""

    name = DEFAULT
    dimensions = _DIMENSIONS
    additive = True
    local = True
    floor = 0.15

    def __init__(self) -> None:
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise ConfigError(f"search by meaning needs {missing.name}: pip install 'warmstart[vectors]'") from missing
        folder = _folder()
        try:
            self._table = load_file(folder / _WEIGHTS)["embedding.weight"]
            self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ConfigError(
                f"the files of wordllama in {str(folder)!r} cannot be read ({error}); "
                "install it anew: pip install --force-reinstall wordllama"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str], seconds: float | None = None) -> Matrix:
        found = np.zeros((len(texts), _DIMENSIONS), np.float32)
        shown = [text[:_CHARACTERS] for text in texts]
        if len(texts) < _FEW:
            encoded = [self._tokenizer.encode(text, add_special_tokens=False) for text in shown]
        else:
            encoded = self._tokenizer.encode_batch(shown, add_special_tokens=False)
        pieces = [each.ids for each in encoded]
        for first, last in _stretches([len(each) for each in pieces]):
            some = [place for place in range(first, last) if pieces[place]]
            if some:
                starts = np.cumsum([0, *(len(pieces[place]) for place in some[:-1])])
                ids = np.fromiter((piece for place in some for piece in pieces[place]), np.int64)
                found[some] = np.add.reduceat(self._table[ids].astype(np.float32), starts, axis=0)
        return found


def _folder() -> Path:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("search by meaning needs wordllama: pip install 'warmstart[vectors]'")
    return Path(next(iter(spec.submodule_search_locations)))


def _stretches(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Divide a sequence so that each stretch has a bounded size, or one member."""
    first = total = 0
    for place, size in enumerate(sizes):
        if total and total + size > _PIECES:
            yield first, place
            first, total = place, 0
        total += size
    yield first, len(sizes)
