"""Embedders behind an HTTP interface like OpenAI's, here or far away. Secrets are replaced before a text is sent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import Request, urlopen

import numpy as np

from warmstart.errors import ConfigError, EmbedderError
from warmstart.recall.vectors.embedder import ENDPOINT, Matrix

_AT_ONCE = 64  # texts in a request
_CHARACTERS = 8000  # of a text
_SECONDS = 60.0
_TRIES = 4


class EndpointEmbedder:
    """Implements `Embedder`. `url` is what comes before `/embeddings`."""

    additive = False
    local = False
    floor = 0.25

    def __init__(
        self, model: str, *, url: str, key: str = "", redact: Callable[[str], str] = str, seconds: float = _SECONDS
    ) -> None:
        parts = _parts(url)
        if parts is None:
            raise ConfigError(
                f"the embedder {ENDPOINT}{model} needs to know where it is: set recall.endpoint in config.toml, "
                "or WARMSTART_EMBEDDINGS_URL, to something like http://127.0.0.1:8080/v1"
            )
        if not key.isprintable() or not key.isascii():
            raise ConfigError("the key of the embedder (recall.key) has characters that no key has; copy it again")
        self.name = f"{ENDPOINT}{model}@{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._redact = redact
        self._seconds = seconds
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        if not self._dimensions:
            self._ask(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str], seconds: float | None = None) -> Matrix:
        told = [place for place, text in enumerate(texts) if text.strip()]  # servers refuse an empty text
        if not told:
            return np.zeros((len(texts), self.dimensions), np.float32)
        rows = []
        for first in range(0, len(told), _AT_ONCE):
            some = told[first : first + _AT_ONCE]
            rows.append(self._ask([self._redact(texts[place])[:_CHARACTERS] for place in some], seconds))
        found = np.zeros((len(texts), rows[0].shape[1]), np.float32)
        found[told] = np.concatenate(rows)
        return found

    def _ask(self, texts: list[str], seconds: float | None = None) -> Matrix:
        answer = self._post({"model": self._model, "input": texts, "encoding_format": "float"}, seconds)
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            found = np.array([row["embedding"] for row in rows], np.float32)
            if not np.isfinite(found).all():
                raise ValueError("not numbers")
        except (TypeError, KeyError, ValueError) as error:
            raise EmbedderError(f"{self._url} answered something other than embeddings; check the model") from error
        if found.ndim != 2 or len(found) != len(texts) or (self._dimensions and found.shape[1] != self._dimensions):
            raise EmbedderError(f"{self._url} gave {found.shape} numbers for {len(texts)} texts; check the model")
        self._dimensions = found.shape[1]
        return found

    def _post(self, asked: dict[str, Any], seconds: float | None) -> Any:
        tries = _TRIES if seconds is None else 1
        request = Request(self._url, json.dumps(asked).encode(), self._headers)  # noqa: S310 - http or https, see above
        for attempt in range(1, tries + 1):
            try:
                wait = self._seconds if seconds is None else max(seconds, 0.001)
                with urlopen(request, timeout=wait) as response:  # noqa: S310
                    return json.load(response)
            except HTTPError as error:
                reason = f"{error.code} {error.reason}"
                if error.code not in (408, 429) and error.code < 500:
                    break
            except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            except ValueError as error:
                reason = f"no JSON: {error}"
            if attempt < tries:
                time.sleep(0.25 * 2**attempt)
        raise EmbedderError(f"{self._url} gave no embeddings ({reason}); what was embedded before is kept")


def _parts(url: str) -> SplitResult | None:
    """The parts of an address that can be asked; nothing where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is none
    except ValueError:
        return None
    good = parts.scheme in ("http", "https") and parts.hostname and not re.search(r"[\s\x00-\x1f\x7f]", url)
    return parts if good else None
