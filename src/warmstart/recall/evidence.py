"""Evidence: the passages that recall returns, with their sources, the matching sentence first.

A passage is a turn. It shows the sentence that matches best, the request that it answered or the reply to it, and the
commands that match: six lines at most.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.recall.answers import NUMBER, answer_pattern
from warmstart.recall.query import Query
from warmstart.recall.ranking import Turn
from warmstart.sessions.lookup import PassageText, SessionSource
from warmstart.text.truncate import one_line
from warmstart.text.words import stem_word, tokenize

if TYPE_CHECKING:  # takes milliseconds to load
    from warmstart.sessions.values import Role

MAX_TEXT, MAX_CONTEXT, MAX_COMMAND = 300, 120, 120  # characters
MAX_COMMANDS = 2

_WORD = re.compile(r"[^\W_]+")
_MAX_CHARACTERS = 50_000  # of a text that are searched
_UNACCENTED = str.maketrans("àáâãäåçèéêëìíîïñòóôõöùúûüýÿ", "aaaaaaceeeeiiiinooooouuuuyy")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# Not after the number of an item in a list.
_SENTENCE_END = re.compile(r"(?<=[!?])\s+|(?<=\.)(?<!\s\d\.)(?<!\s\d\d\.)\s+|(?<=[。！？])|\n+")
_MARKS = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"<(system-reminder|(?:local-)?command-[a-z]+|ide_[a-z_]+|environment_context)>(?s:.*?)(?:</\1>|\Z)", " "),
        (r"\x1b\[[0-9;]*[A-Za-z]|[─━═│┃┌┐└┘├┤┬┴┼╭╮╰╯⎿]+", " "),  # colours, boxes
        (r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$|^[ \t]*\|?[ \t]*:?--[-:| \t]*$", " "),  # fences, lines of tables
        (r"^[ \t]*\|(.*)\|[ \t]*$", r"\1;"),  # rows of tables
        (r"^[ \t]*[-*][ \t]+", "• "),
        (r"^[ \t]*#{1,6} (.*?)[:.]?$", r"\1:"),
        (r"\*\*", ""),
    )
)
_ANSWER = 0.5  # what a thing of the kind asked for counts, as a share of the query
_KIND_WEIGHTS = {"assistant": 1.0, "user": 0.9, "reasoning": 0.7}  # so that the reply wins over an equal request
_CALL_WEIGHT = 0.5
_QUESTION_WEIGHT = 0.3  # of a request that lacks what is asked for: most often the same question
_MAX_COMPARED = 3  # texts of a turn
_MAX_SHORT, _MAX_REQUEST = 80, 200  # characters: a short sentence is clear only after its request
_ROLES: dict[str, Role] = {"user": "user", "tool": "tool"}


class Replacement(NamedTuple):
    """A message that says that something changed."""

    session_id: str
    message_id: str
    date: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A passage of a past session. Higher scores are better; they are only comparable within one search.

    `text` begins with the sentence of the message `message_ids[0]` that matches best, which `role` wrote at `date`; the
    other ids are the rest of its turn. `replaced_by` is a later message that says that this changed. `matched` are the
    words of the query in the passage, `components` the parts of its score.
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
    replaced_by: Replacement | None = None
    matched: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    components: Mapping[str, float] = field(default_factory=dict)


class Sentence(NamedTuple):
    """The best sentence of a text: where it begins, where its first match is, and how good it is.

    `share` is the part of the query that the whole text has; `answers` says whether the sentence has what is asked for.
    """

    start: int
    first: int
    score: float
    share: float
    answers: bool
    text: str


class Weigher:
    """Finds the sentence of a text that has most of a query: its distinct words and names, and what it asks for."""

    def __init__(self, query: Query, rarities: Mapping[str, float]) -> None:
        self._names = {name.text for name in query.names}
        weights = {**rarities, **dict.fromkeys(self._names, max(rarities.values(), default=1.0))}
        total = sum(weights.values())
        self._weights = {word: weight / total for word, weight in weights.items()}
        self.words = self._weights.keys()
        self.pattern = answer_pattern(query.text)
        self.asks_for_number = self.pattern is not None and self.pattern.pattern == NUMBER
        self._question = query.text.lower()
        self._best: dict[str, Sentence] = {}  # by text

    def estimate(self, text: str) -> float:
        """About what part of the query a text has: quick, but it also counts the middle of words."""
        lower = text[:_MAX_CHARACTERS].lower()
        return sum(weight for word, weight in self._weights.items() if word.removesuffix("i") in lower)

    def best(self, text: str) -> Sentence:
        """The best sentence; of equal ones, the first."""
        if text not in self._best:
            self._best[text] = self._find_best(text)
        return self._best[text]

    def _find_best(self, text: str) -> Sentence:
        text = text[:_MAX_CHARACTERS]
        lower = text.lower().translate(_UNACCENTED)
        if len(lower) != len(text):  # some letters are longer in lower case
            text = lower
        begins = [0, *(end.end() for end in _SENTENCE_END.finditer(text)), len(text)]
        words: dict[int, set[str]] = {}  # by sentence
        first: dict[int, int] = {}
        for word in self._weights:
            for at in self._find(text, lower, word):
                sentence = bisect_right(begins, at) - 1
                words.setdefault(sentence, set()).add(word)
                first[sentence] = min(at, first.get(sentence, at))
        answers = {bisect_right(begins, match.start()) - 1 for match in self.find_answers(text)}
        scores = dict.fromkeys(answers, _ANSWER)
        for sentence, having in words.items():
            scores[sentence] = scores.get(sentence, 0.0) + self.weigh(having)
        best = max(scores, key=lambda sentence: (scores[sentence], -sentence), default=0)
        start, end = begins[best : best + 2]
        share = self.weigh(set().union(*words.values()))
        return Sentence(start, first.get(best, start), scores.get(best, 0.0), share, best in answers, text[start:end])

    def words_in(self, text: str) -> set[str]:
        """The words and names of the query in a text."""
        lower = text.lower().translate(_UNACCENTED)
        return {word for word in self._weights if next(self._find(text, lower, word), None) is not None}

    def weigh(self, words: Iterable[str]) -> float:
        """The part of the query that these of its words are."""
        return sum(self._weights[word] for word in words)

    def excerpt(self, text: str, size: int) -> str:
        """The best sentence with what follows it, on one line of at most `size` characters."""
        text = text[:_MAX_CHARACTERS]
        if len(text) <= size:
            return readable(text)
        start, first, *_ = self.best(text)
        if first > start + size // 2:  # a long sentence: begin a little before its first match
            near = first - size // 6
            space = text.rfind(" ", first - size // 2, near)
            start = near if space < 0 else space + 1
        shown = one_line(readable(text[start : start + 3 * size]).removeprefix("• "), size)
        return f"… {shown}" if start else shown

    def _find(self, text: str, lower: str, word: str) -> Iterator[int]:
        """Where words with this stem, or a name, begin."""
        start = word.removesuffix("i")  # `happi` is the stem of `happy`
        at = lower.find(start)
        while at >= 0:
            if word in self._names or not word.isascii() or _has_stem(text, lower, at, word):
                yield at
            at = lower.find(start, at + 1)

    def find_answers(self, text: str) -> Iterator[re.Match[str]]:
        """The things in a text of the kind that the query asks for, if the query does not name them itself."""
        for match in self.pattern.finditer(text) if self.pattern else ():
            if match[0].strip().lower() not in self._question:
                yield match


def _has_stem(text: str, lower: str, at: int, stem: str) -> bool:
    """Whether a word with this stem begins here; it may be a part of a name such as `readConfig`."""
    if at and text[at - 1].isalnum() and not text[at].isupper():
        return False
    ends = (_WORD.match(lower, at), _PART.match(text, at))
    return any(end is not None and stem_word(end[0].lower()) == stem for end in ends)


def readable(text: str) -> str:
    """A text on one line, without the marks of Markdown and of terminals, and without what an agent put around it."""
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


class Passage(NamedTuple):
    """A turn with its texts before it is rendered. `output` is what a tool returned, if that is what was found."""

    turn: Turn
    source: SessionSource
    texts: Sequence[PassageText]
    output: PassageText | None = None


class Renderer:
    """Turns passages into evidence."""

    def __init__(self, query: Query, rarities: Mapping[str, float]) -> None:
        self.weigher = Weigher(query, rarities)
        self._words = {word.stem: word.word for word in query.words}
        self._names = [name.text for name in query.names if not name.text.isalnum()]
        self._terms = tuple(self._words[stem] for stem in rarities if stem in self._words)

    def evidence(self, passage: Passage) -> Evidence:
        turn, source = passage.turn, passage.source
        best = passage.output or self._best(passage.texts)
        role: Role = _ROLES.get(best.kind, "assistant")
        lines = [_label(best) + self.weigher.excerpt(_shown_body(best), MAX_TEXT)]
        lines += self._context(passage.texts, best)
        text = "\n".join(filter(None, lines)).strip() or "…"
        stems, lower = set(map(stem_word, tokenize(text))), text.lower()
        matched = [word for stem, word in self._words.items() if stem in stems]
        matched += [name for name in self._names if name in lower]
        others = (part.native_id for part in passage.texts if part.is_message)
        return Evidence(
            session_id=source.id,
            native_id=source.native_id,
            agent=source.agent,
            project=source.project,
            date=best.date or source.date,
            role=role,
            score=round(turn.score, 6),
            text=text,
            message_ids=tuple(dict.fromkeys((best.native_id, *others))),
            matched=tuple(dict.fromkeys(matched)),
            terms=self._terms,
            components={name: round(value, 3) for name, value in turn.components.items() if value},
        )

    def _best(self, texts: Sequence[PassageText]) -> PassageText:
        """The text that the passage begins with."""

        def estimate(text: PassageText) -> float:
            return self.weigher.estimate(text.body) * _KIND_WEIGHTS.get(text.kind, _CALL_WEIGHT)

        return max(sorted(texts, key=estimate, reverse=True)[:_MAX_COMPARED], key=self._score)

    def statement(self, passage: Passage) -> str:
        """The sentence of a passage with what the query asks for, after the request if it is a short reply."""
        if self.weigher.pattern is None:
            return ""
        best = {text: self.weigher.best(text.body) for text in passage.texts if text.is_message}
        answers = [text for text in best if best[text].answers]
        if not answers:
            return ""
        answer = max(answers, key=lambda text: best[text].score)
        asked = [text.body[:_MAX_REQUEST] for text in best if text.kind == "user" and answer.kind != "user"]
        sentence = best[answer].text
        return " ".join((*asked[:1], sentence)) if len(sentence) < _MAX_SHORT else sentence

    def _score(self, text: PassageText) -> float:
        """How good a text is as the beginning of a passage: by its best sentence, then by all of it."""
        best = self.weigher.best(_shown_body(text))
        weight = _KIND_WEIGHTS.get(text.kind, _CALL_WEIGHT)
        if text.kind == "user" and self.weigher.pattern and not best.answers:
            weight = _QUESTION_WEIGHT
        return weight * (best.score + best.share / 2)

    def _context(self, texts: Sequence[PassageText], best: PassageText) -> list[str]:
        """The request that was answered or the reply to it, and the commands that match."""
        lines: list[str] = []
        wanted, label = ("assistant", "Reply") if best.kind == "user" else ("user", "Asked")
        others = [text.body for text in texts if text.kind == wanted]
        if others:
            lines.append(f"{label}: {self.weigher.excerpt(others[0], MAX_CONTEXT)}")
        calls = [text.body for text in texts if text.kind in SHELLS and text is not best]
        calls.sort(key=self.weigher.estimate, reverse=True)
        most = len(lines) + MAX_COMMANDS
        for command in dict.fromkeys(map(command_in, calls[: 2 * MAX_COMMANDS])):
            if len(lines) < most and self.weigher.best(command).share:
                lines.append(f"Ran: {self.weigher.excerpt(command, MAX_COMMAND)}")
        return lines


def _label(text: PassageText) -> str:
    """What precedes a text that nobody said."""
    if text.is_message or text.kind == "tool":
        return ""
    return "Thought: " if text.kind == "reasoning" else "Ran: " if text.kind in SHELLS else f"{text.kind}: "


def _shown_body(text: PassageText) -> str:
    """What a text says: the command of a call, or the file and the other arguments of one."""
    if text.is_message or text.kind in ("reasoning", "tool"):
        return text.body
    if text.kind in SHELLS:
        return command_in(text.body)
    return "\n".join(map(str, fields_of(text.body).values())) or text.body
