"""The ledger: what must survive a compaction. So far the constraints, which are the user's own sentences, verbatim.

A constraint is a sentence that limits how the work is done and still holds after the next step: what must never, always
or only be done. Agents break such rules once a compaction has dropped them. Questions, code, pasted logs and quotes are
no constraints. The patterns are in `constraints.toml`. A hook loads this module, so it imports little.
"""

from __future__ import annotations

import re
from collections import namedtuple
from functools import cache

from warmstart.sessions.marks import END, MARK, without_ours
from warmstart.text.own_words import PLAN, SENTENCE, without_pasted

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_RENDERED = 4_000  # characters

_KINDS = ("never", "only", "always")
_MAX_TEXT = 20_000  # characters of a message that are read
_MIN_SENTENCE, _MAX_SENTENCE = 8, 600  # characters; a longer one was pasted
_BULLET = re.compile(r"[\s>]*(?:[-*•+]|\d{1,2}[.)])?\s*(?:\*\*)?")
_CODE = re.compile(r"[{}]|;$|::|\w\(\)|\d:\d|\\n|^\s*(?:error|warning|fail|info|debug|usage|---|at )\b", re.IGNORECASE)
_LITERAL = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”")
_REQUEST = re.compile(r"\b(?:can|could|would|will) (?:you|we)\b", re.IGNORECASE)
_NOT_WORDS = re.compile(r"\W+")
_OUR_MARK = re.compile(r"[\[<](?=\s*/?\s*warmstart)", re.IGNORECASE)
_HEADING = (
    "What the user said earlier in this conversation about how to work, verbatim. It still applies, unless the user "
    "has said otherwise since."
)


class Constraint(namedtuple("Constraint", ("text", "message_id", "kind"))):
    """A rule of the user: the sentence, the id of its message, and its kind (`never`, `only`, `always`, `request`)."""

    __slots__ = ()


class Ledger:
    """What a conversation must not lose. Add its messages in order; `redact` is applied to all that is kept."""

    def __init__(self, redact: Callable[[str], str] | None = None) -> None:
        self._redact = redact
        self._constraints: dict[str, Constraint] = {}

    def add(self, role: str, text: str, message_id: str = "") -> None:
        """Look for constraints in a message. What Warmstart itself put into it does not count."""
        if role != "user":
            return
        for sentence, kind in _find(without_ours(text)):
            key = _NOT_WORDS.sub(" ", sentence.lower()).strip()
            if key not in self._constraints:
                kept = self._redact(sentence) if self._redact else sentence
                self._constraints[key] = Constraint(kept, message_id, kind)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints, each once, in the order in which they were first stated."""
        return tuple(self._constraints.values())


def find_constraints(text: str) -> list[str]:
    """The sentences of a user's message that are constraints, verbatim."""
    return [sentence for sentence, _ in _find(text)]


def render_constraints(constraints: Iterable[Constraint], *, max_characters: int = MAX_RENDERED) -> str:
    """The constraints as a marked note for after a compaction; empty if there are none.

    If there are too many, the oldest are shown, because the newest are most likely still in the conversation.
    """
    lines = [f"- {_OUR_MARK.sub('(', one.text)}" for one in constraints]
    if not lines:
        return ""
    room = max_characters - len(MARK) - len(_HEADING) - len(END) - 60
    shown = 0
    while shown < len(lines) and (room := room - len(lines[shown]) - 1) >= 0:
        shown += 1
    more = [f"({len(lines) - shown} more are not shown.)"] if shown < len(lines) else []
    return "\n".join((f"{MARK} {_HEADING}", *lines[:shown], *more, END))


def _find(text: str) -> Iterator[tuple[str, str]]:
    words = without_pasted(text, _MAX_TEXT)
    if words == PLAN:
        return
    for part in SENTENCE.split(words):
        sentence = _BULLET.sub("", part, count=1).strip()
        if _MIN_SENTENCE <= len(sentence) <= _MAX_SENTENCE and (kind := _kind(sentence)):
            yield sentence, kind


def _kind(sentence: str) -> str:
    rules = _rules()
    bare = _LITERAL.sub("_", sentence.replace("’", "'"))
    if _CODE.search(bare) or rules["reports"].search(bare):
        return ""
    if bare.endswith("?"):
        return "request" if _REQUEST.search(bare) and rules["requests"].search(bare) else ""
    return next((kind for kind in _KINDS if rules[kind].search(bare)), "")


@cache
def _rules() -> dict[str, re.Pattern[str]]:
    """The patterns by kind, and those of `requests` and `reports`."""
    return {name: re.compile("|".join(rows), re.IGNORECASE) for name, rows in load_rows().items()}


def load_rows() -> dict[str, list[str]]:
    """The rows of `constraints.toml`, with their fragments filled in."""
    import tomllib  # takes milliseconds, and most processes look at no text
    from pathlib import Path

    tables = tomllib.loads(Path(__file__).with_name("constraints.toml").read_text(encoding="utf-8"))
    fragments = tables.pop("fragments")
    rows = {**tables.pop("kinds"), **tables}
    for name, fragment in fragments.items():
        rows = {kind: [row.replace(f"{{{name}}}", fragment) for row in some] for kind, some in rows.items()}
    return rows
