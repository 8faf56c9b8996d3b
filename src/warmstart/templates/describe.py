"""What a template is for, in the words of a model, if a person asks for it.

The model gets only names of tools, tasks and files that the redacted template already holds, and its answer is treated
as text from outside.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
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
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", endpoint):
        raise ConfigError(f"{endpoint!r} is not the address of a model; give something like http://127.0.0.1:8080/v1")
    clean = (redactor or Redactor()).clean
    url = endpoint.rstrip("/") + "/chat/completions"
    asked = [{"role": "system", "content": _PROMPT}, {"role": "user", "content": clean(_summary(template))}]
    body = json.dumps({"model": model, "messages": asked, "max_tokens": 120, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    try:
        request = Request(url, body, headers)  # noqa: S310 - http or https, see above
        with build_opener(_NoRedirect).open(request, timeout=timeout) as response:
            text = str(json.loads(response.read(_MAX_ANSWER))["choices"][0]["message"]["content"] or "")
    except (OSError, HTTPException, OverflowError) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise ModelError(f"{url} gave no description ({error}); the one made by rules stays") from error
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ModelError(f"{url} answered something other than a completion; check the address and the key") from error
    line = " ".join(next(iter(text.strip().splitlines()), "").strip("`*\"'“”# -").split())
    if not line or find_injection(line) or not is_safe_rule(line):
        raise ModelError(f"{url} answered with a text that is no description; the one made by rules stays")
    return replace(template, description=one_line(clean(line), MAX_DESCRIPTION), described_by=model)


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
