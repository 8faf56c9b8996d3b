"""Evidence: the passages that recall returns, with their sources, the matching sentence first.

A passage is a turn. It shows the sentence that matches best, the request that it answered or the reply to it, and the
commands that match: six lines at most.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from warmstart.profile.calls import SHELLS, command_in
from warmstart.recall.query import Name, Query
from warmstart.recall.ranking import Turn
from warmstart.sessions.lookup import PassageText, SessionSource
from warmstart.text.truncate import one_line
from warmstart.text.words import stem_word, tokenize

if TYPE_CHECKING:  # takes milliseconds to load
    from warmstart.sessions.values import Role

MAX_TEXT, MAX_CONTEXT, MAX_COMMAND = 400, 160, 160  # characters
MAX_COMMANDS = 2

_WORD = re.compile(r"[^\W_]+")
_MAX_CHARACTERS = 50_000  # of a text that are searched
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_KIND_WEIGHTS = {"assistant": 1.0, "user": 0.9, "reasoning": 0.7}  # so that the reply wins over an equal request
_CALL_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. Higher scores are better; they are only comparable within one search.

    `text` begins with the sentence of the message `message_ids[0]` that matches best, which `role` wrote at `date`; the
    other ids are the rest of its turn. `matched` are the words of the query in the passage, `components` the parts of
    its score.
    """

    session_id: str
    native_id: str
    agent: str
    project: str
    date: datetime | None
    role: Role
    score: float
    text: str
    message_ids: tuple[str, ...]
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    components: Mapping[str, float] = field(default_factory=dict)


class Match(NamedTuple):
    """A word of the query in a text."""

    start: int
    end: int
    word: str


class Matcher(NamedTuple):
    """Finds the words of a query in a text, in all inflections, and its names as they were typed."""

    words: Mapping[str, str]  # by stem
    names: tuple[str, ...] = ()  # those that are not words

    @classmethod
    def of(cls, words: Iterable[str], names: Iterable[str] = ()) -> Matcher:
        """A matcher for these words and names."""
        by_stem: dict[str, str] = {}
        for word in words:
            for stem in map(stem_word, tokenize(word)):
                by_stem.setdefault(stem, word)
        return cls(by_stem, tuple(name for name in dict.fromkeys(names) if not name.isalnum()))

    def find(self, text: str) -> list[Match]:
        """Every match in order; matches do not overlap."""
        text = text[:_MAX_CHARACTERS]
        lower = text.lower()
        found: list[Match] = []
        if len(lower) == len(text):  # otherwise offsets differ: some letters are longer in lower case
            for name in self.names:
                found += (Match(at.start(), at.end(), name) for at in re.finditer(re.escape(name), lower))
        for word in _WORD.finditer(text):
            matched = (self.words[stem] for stem in map(stem_word, tokenize(word[0])) if stem in self.words)
            found += [Match(word.start(), word.end(), name) for name in list(matched)[:1]]
        disjoint: list[Match] = []
        for match in sorted(found, key=lambda match: (match.start, -match.end)):
            if not disjoint or match.start >= disjoint[-1].end:
                disjoint.append(match)
        return disjoint


class Weigher:
    """Says how much of a query a text has, quickly: by the beginnings of its words, wherever they occur."""

    def __init__(self, rarities: Mapping[str, float], names: Iterable[str]) -> None:
        self._weights = {stem.removesuffix("i"): weight for stem, weight in rarities.items()}
        self._names = tuple(names)
        for name in self._names:
            self._weights[name] = max(rarities.values(), default=1.0)

    def weigh(self, text: str) -> float:
        """The weight of the distinct words and names of the query in a text."""
        lower = text[:_MAX_CHARACTERS].lower()
        return sum(weight for word, weight in self._weights.items() if word in lower)

    def excerpt(self, text: str, size: int) -> str:
        """The sentence that weighs most, with what follows it, on one line of at most `size` characters."""
        text = text[:_MAX_CHARACTERS].strip()
        if len(text) <= size:
            return one_line(text, size)
        begins = [0, *(end.end() for end in _SENTENCE_END.finditer(text)), len(text)]
        best, first = self._best_sentence(text, begins)
        start = begins[best]
        if first > start + size // 2:  # a long sentence: begin a little before its first match
            start = text.rfind(" ", start, first - size // 6) + 1
        shown = one_line(text[start : start + 2 * size], size)
        return f"… {shown}" if start else shown

    def _best_sentence(self, text: str, begins: Sequence[int]) -> tuple[int, int]:
        """The sentence with the most weight, and where its first match is."""
        lower = text.lower()
        weights: dict[int, float] = {}
        first: dict[int, int] = {}
        for word, weight in self._weights.items():
            seen = -1
            at = lower.find(word)
            while at >= 0:
                sentence = bisect_right(begins, at) - 1
                if sentence != seen:
                    weights[sentence] = weights.get(sentence, 0.0) + weight
                    first[sentence] = min(at, first.get(sentence, at))
                seen = sentence
                at = lower.find(word, at + 1)
        best = max(weights, key=lambda sentence: (weights[sentence], -sentence), default=0)
        return min(best, len(begins) - 2), first.get(best, 0)


class Hit(NamedTuple):
    """Tool output that contains a name or words of the query."""

    native_id: str  # of the message
    date: datetime | None
    body: str


class Passage(NamedTuple):
    """A turn with its texts, or tool output in it, before it is rendered."""

    turn: Turn
    source: SessionSource
    texts: Sequence[PassageText]
    hit: Hit | None = None


class Renderer:
    """Turns passages into evidence."""

    def __init__(self, query: Query, rarities: Mapping[str, float], names: Iterable[Name]) -> None:
        self._weigher = Weigher(rarities, (name.text for name in names))
        words = {word.stem: word.word for word in query.words}
        self._terms = tuple(words[stem] for stem in rarities if stem in words)
        self._matcher = Matcher(words, tuple(name.text for name in query.names if not name.text.isalnum()))

    def evidence(self, passage: Passage) -> Evidence:
        turn, source, hit = passage.turn, passage.source, passage.hit
        if hit is None:
            best = max(passage.texts, key=self._weigh)
            native_id, date, body = best.native_id, best.date, best.body
            lines = [self._weigher.excerpt(body if best.is_message else _shown_call(best), MAX_TEXT)]
            role: Role = "user" if best.kind == "user" else "assistant"
        else:
            best = None
            native_id, date, role = hit.native_id, hit.date, "tool"
            lines = [self._weigher.excerpt(hit.body, MAX_TEXT)]
        lines += self._context(passage.texts, best)
        text = "\n".join(filter(None, lines)).strip() or "…"
        stems, lower = set(map(stem_word, tokenize(text))), text.lower()
        matched = [word for stem, word in self._matcher.words.items() if stem in stems]
        others = (part.native_id for part in passage.texts if part.is_message)
        return Evidence(
            session_id=source.id,
            native_id=source.native_id,
            agent=source.agent,
            project=source.project,
            date=date or source.date,
            role=role,
            score=round(turn.score, 6),
            text=text,
            message_ids=tuple(dict.fromkeys((native_id, *others))),
            matched=tuple(dict.fromkeys([*matched, *(name for name in self._matcher.names if name in lower)])),
            terms=self._terms,
            components={name: round(value, 3) for name, value in turn.components.items() if value},
        )

    def _weigh(self, text: PassageText) -> float:
        return self._weigher.weigh(text.body) * _KIND_WEIGHTS.get(text.kind, _CALL_WEIGHT)

    def _context(self, texts: Sequence[PassageText], best: PassageText | None) -> list[str]:
        """The request that was answered or the reply to it, and the commands that match."""
        lines: list[str] = []
        wanted, label = ("assistant", "Reply") if best is not None and best.kind == "user" else ("user", "Asked")
        others = [text.body for text in texts if text.kind == wanted]
        if others:
            lines.append(f"{label}: {self._weigher.excerpt(others[0], MAX_CONTEXT)}")
        commands = dict.fromkeys(_shown_call(text) for text in texts if text.kind in SHELLS and text is not best)
        matching = [command for command in commands if command and self._weigher.weigh(command)]
        matching.sort(key=self._weigher.weigh, reverse=True)
        return [*lines, *(f"Ran: {self._weigher.excerpt(command, MAX_COMMAND)}" for command in matching[:MAX_COMMANDS])]


def _shown_call(text: PassageText) -> str:
    """The command of a call; other calls, and what was thought, as they are."""
    return command_in(text.body) if text.kind in SHELLS else text.body
