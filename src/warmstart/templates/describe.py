"""What a template is for, in the words of a model, if a person asks for it.

The model gets only names of tools, tasks and files that the redacted template already holds, and its answer is treated
as text from outside.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warmstart.errors import ConfigError, ModelError
from warmstart.redact import Redactor
from warmstart.templates.allowlist import is_safe_rule
from warmstart.templates.template import WarmTemplate
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection

MAX_DESCRIPTION = 200  # characters
_MAX_ANSWER = 1_000_000  # bytes
_MAX_NAMES = 12  # of each kind that a model gets
_PROMPT = (
    "Write one line of at most 150 characters that says what kind of task this set of worked examples helps with. "
    "Plain text, no quotes, no advice, nothing but the line."
)


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the key is for one address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask_model(
    template: WarmTemplate,
    *,
    endpoint: str,
    model: str,
    key: str = "",
    timeout: float = 20.0,
    redactor: Redactor | None = None,
) -> WarmTemplate:
    """The template with a description by a model behind an OpenAI-compatible endpoint, and marked as such.

    `endpoint` is what comes before `/chat/completions`.
    """
    clean = (redactor or Redactor()).clean
    body = {
        "model": model,
        "messages": [{"role": "system", "content": _PROMPT}, {"role": "user", "content": clean(_summary(template))}],
        "max_tokens": 120,
        "temperature": 0,
    }
    url = _address(endpoint, key)
    answer = _post(url, body, key, timeout)
    try:
        text = answer["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError) as error:
        raise ModelError(f"{url} answered something other than a completion; check that it is a chat model") from error
    return replace(template, description=_first_line(text, url, clean), described_by=model)


def _first_line(text: object, url: str, clean: Callable[[str], str]) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()] if isinstance(text, str) else []
    line = " ".join(lines[0].strip("`*\"'“”# -").split()) if lines else ""
    if not line:
        raise ModelError(f"{url} answered nothing; the description stays as it was, try another model")
    why = find_injection(line) or ("" if is_safe_rule(line) else "it names a host or a command")
    if why:
        raise ModelError(f"{url} answered with a text that is no description ({why}); it stays as it was")
    return one_line(clean(line), MAX_DESCRIPTION)


def _summary(template: WarmTemplate) -> str:
    """What a model gets: names alone, all of them from the redacted template."""
    seed = template.seed
    parts = (
        ("Tasks", [one_line(task, 160) for task in seed.tasks]),
        ("Tools", [call.tool for item in seed.of("procedure") for call in item.calls]),
        ("Commands", [item.text for item in seed.of("command")]),
        ("Files", [item.text for item in seed.of("file")]),
    )
    return "\n".join(f"{name}: {'; '.join(list(dict.fromkeys(some))[:_MAX_NAMES])}" for name, some in parts if some)


def _address(endpoint: str, key: str) -> str:
    try:
        parts = urlsplit(endpoint)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or re.search(r"[\s\x00-\x1f\x7f]", endpoint):
        raise ConfigError(f"{endpoint!r} is not the address of a model; give something like http://127.0.0.1:8080/v1")
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the key of the model has characters that no key has; copy it again")
    return endpoint.rstrip("/") + "/chat/completions"


def _post(url: str, body: dict[str, Any], key: str, timeout: float) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - http or https, see `_address`
    deadline = time.monotonic() + timeout
    try:
        with build_opener(_NoRedirect).open(request, timeout=timeout) as response:
            answer = b""
            while part := response.read1(65_536):
                answer += part
                if len(answer) > _MAX_ANSWER:
                    raise ModelError(f"{url} answered more than {_MAX_ANSWER:,} bytes; check the address")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not done after {timeout:g} s")
        return json.loads(answer)
    except HTTPError as error:
        with error:
            reason = f"{error.code} {error.reason}"
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    except (ValueError, RecursionError):
        reason = "no JSON"
    raise ModelError(f"{url} gave no description ({reason}); the one made by rules stays")
