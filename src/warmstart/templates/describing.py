"""What a template is for, in one line: by rules, or, when a person asks for it, in the words of a model.

A model is told only names of tools, tasks and files that the redacted seed already holds, and what it answers is
treated as text from outside. The examples stay as they are.
"""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from warmstart.errors import ConfigError, ModelError
from warmstart.profile.feedback import standing_instructions
from warmstart.profile.values import Profiled
from warmstart.redact import Redactor
from warmstart.templates.extraction.demonstrating import UNSAID
from warmstart.templates.trust import suspicious
from warmstart.templates.values import SessionSeed, WarmTemplate

LONGEST = 200  # characters of a description
_TASK = 90
_TOOLS = 4
_LARGEST = 1_000_000  # bytes of an answer
_SHOWN = 12  # names of each kind that a model is told
_KINDS = {"code": "Work on code", "file": "Work on files", "research": "Research", "mixed": "Work"}
_ASKED = (
    "Write one line of at most 150 characters that says what kind of task this set of worked examples helps with. "
    "Plain text, no quotes, no advice, nothing but the line."
)
_OPENING = re.compile(
    r"\A(?:(?:please|hi|hey|hello|um+|uh+|oh|i see|yeah|actually|well|yes|thanks?(?: you)?(?: for \w+ \w+ \w+)?|great"
    r"|ok(?:ay)?|(?:can|could|would) you|now|so|and|also|just|then|help me|let's|i need (?:some |your )?help with"
    r"|i(?:'d| would) like (?:you )?to|i(?:'m| am) (?:looking|hoping) to|i(?:'m| am) (?:calling|writing) to"
    r"|i(?: just)? (?:need|want|wanted) (?:you )?to)\b[\s,.:!]*)+",
    re.IGNORECASE,
)
_VAGUE = re.compile(r"\b(?:it|this|that|these|those|them|again|go ahead|that's)\b|[?]$|:", re.IGNORECASE)
# What introduces somebody or goes on with a talk, and says little about the task.
_ABOUT_SELF = re.compile(
    r"(?:i'm|i am|i|my|this is|you|it|for|the|an?|because|since|but|no|only|go on)\b", re.IGNORECASE
)
_ENDING = re.compile(r",? (?:please|thanks?|thank you)[ .!]*\Z", re.IGNORECASE)
_INTRODUCES = re.compile(r"(?:i'm|i am|my name|this is)\b", re.IGNORECASE)
_PLAIN, _LONG = 3, 24  # words that are too few, or more than it takes, to say what is wanted
_SENTENCES = 3  # of a task that are looked at


# -- by rules


def describe(seed: SessionSeed, profiled: Sequence[Profiled]) -> str:
    """Where the seed is from, what was done there, how much more, and with which tools."""
    names = dict.fromkeys(posixpath.basename(each.session.project.rstrip("/")) for each in profiled)
    place = f"`{next(iter(names))}`: " if len(names) == 1 and next(iter(names)) else ""
    tools = [card.tool for card in seed.cards] or [act.tool for each in seed.demonstrations for act in each.acts]
    with_ = f" ({', '.join(list(dict.fromkeys(tools))[:_TOOLS])})" if tools else ""
    tasks = len({*(each.task for each in seed.demonstrations), *(task.text for task in seed.tasks)}) - 1
    more = f" and {tasks} more {'task' if tasks == 1 else 'tasks'}" if tasks > 0 else ""
    head = _task(seed, room=max(20, min(_TASK, LONGEST - len(place) - len(more) - len(with_)))) or _kind(profiled)
    return _bounded(place + (head[:1].lower() + head[1:] if place and head[1:2].islower() else head) + more + with_)


def _task(seed: SessionSeed, *, room: int) -> str:
    """A sub-task in a few words: of those that say by themselves what is wanted the first."""
    shown = [each.task for each in seed.demonstrations if each.task != UNSAID]
    texts = dict.fromkeys((*shown, *(task.text for task in seed.tasks)))
    lines = [(line, text in shown) for text in texts for line in _sentences(text) if suspicious(line) is None]
    best = max(lines, key=lambda pair: _says(pair[0], shown=pair[1]), default=("", False))[0]  # the first of the best
    return _cut(best[:1].upper() + best[1:], room)


def _says(line: str, *, shown: bool) -> int:
    """How well a sentence says what is wanted; what a demonstration shows says more."""
    words = sum("{{" not in word for word in line.split())
    return (
        3 * (_PLAIN < words <= _LONG)
        + 2 * (not _VAGUE.search(line))
        + 2 * (not _ABOUT_SELF.match(line))
        + ("{{" not in line)
        + 2 * shown
        - bool(_INTRODUCES.match(line))
        - 3 * bool(standing_instructions(line))  # a rule for every task says nothing of this one
    )


def _sentences(text: str) -> list[str]:
    """The first sentences, without what leads up to them."""
    parts = re.split(r"(?<=[.!?])(?<!\b[DM]r\.)(?<!\bMs\.)\s|\n", text.strip())[:_SENTENCES]
    lines = (_ENDING.sub("", _OPENING.sub("", " ".join(part.split()))).strip(" .!?:;,*#-") for part in parts)
    return [line for line in lines if len(line.split()) > 1]


def _kind(profiled: Sequence[Profiled]) -> str:
    kinds = {each.profile.task_type for each in profiled}
    return _KINDS[next(iter(kinds))] if len(kinds) == 1 else _KINDS["mixed"]


def _cut(text: str, room: int) -> str:
    """As many whole words as there is room for."""
    return text if len(text) <= room else text[: room - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def _bounded(text: str) -> str:
    return _cut(" ".join(text.split()), LONGEST)


# -- by a model


class _Stay(HTTPRedirectHandler):
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
    asked = {
        "model": model,
        "messages": [{"role": "system", "content": _ASKED}, {"role": "user", "content": clean(_told(template))}],
        "max_tokens": 120,
        "temperature": 0,
    }
    url = _address(endpoint, key)
    answer = _post(url, asked, key, timeout)
    try:
        said = answer["choices"][0]["message"]["content"]
    except (TypeError, KeyError, IndexError) as error:
        raise ModelError(f"{url} answered something other than a completion; check that it is a chat model") from error
    return replace(template, description=_line(said, url, clean), described_by=model)


def _line(said: object, url: str, clean: Any) -> str:
    """One line of an answer, if it can be used at all."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] if isinstance(said, str) else []
    line = " ".join(lines[0].strip("`*\"'“”# -").split()) if lines else ""
    if not line:
        raise ModelError(f"{url} answered nothing; the description stays as it was, try another model")
    if (why := suspicious(line)) is not None:
        raise ModelError(f"{url} answered with a text that is no description ({why}); it stays as it was")
    return _bounded(str(clean(line)))


def _told(template: WarmTemplate) -> str:
    """What a model is told: names alone, all of them from the redacted seed."""
    seed = template.seed
    tasks = [*(each.task for each in seed.demonstrations), *(task.text for task in seed.tasks)]
    tools = [card.tool for card in seed.cards]
    files = [marker.value for marker in seed.markers if marker.kind == "file"]
    parts = (("Tasks", [_cut(" ".join(task.split()), 160) for task in tasks]), ("Tools", tools), ("Files", files))
    return "\n".join(f"{name}: {'; '.join(list(dict.fromkeys(some))[:_SHOWN])}" for name, some in parts if some)


def _address(endpoint: str, key: str) -> str:
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or re.search(r"[\s\x00-\x1f\x7f]", endpoint):
        raise ConfigError(f"{endpoint!r} is no address of a model; give something like http://127.0.0.1:8080/v1")
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the key of the model has characters that no key has; copy it again")
    return endpoint.rstrip("/") + "/chat/completions"


def _post(url: str, asked: dict[str, Any], key: str, timeout: float) -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = Request(url, json.dumps(asked).encode(), headers)  # noqa: S310 - http or https, see `_address`
    ends = time.monotonic() + timeout
    try:
        with build_opener(_Stay).open(request, timeout=timeout) as response:
            body = b""
            while part := response.read1(65_536):
                body += part
                if len(body) > _LARGEST:
                    raise ModelError(f"{url} answered more than {_LARGEST:,} bytes; check the address")
                if time.monotonic() > ends:
                    raise TimeoutError(f"not done after {timeout:g} s")
        return json.loads(body)
    except HTTPError as error:
        with error:
            reason = f"{error.code} {error.reason}"
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    except (ValueError, RecursionError):
        reason = "no JSON"
    raise ModelError(f"{url} gave no description ({reason}); the one made by rules stays")
