"""Evidence: the passages that recall returns, with their sources, the matching sentence first.

A passage is a turn. It shows the sentence that matches best, the request that it answered or the reply to it, and the
commands that match: six lines at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from warmstart.profile.calls import SHELLS, command_in, values_in
from warmstart.recall.query import Query
from warmstart.recall.ranking import Turn
from warmstart.sessions.lookup import PassageText, SessionSource
from warmstart.text.change import says_changed
from warmstart.text.excerpt import Weigher
from warmstart.text.words import STOPWORDS, root_word, tokenize

if TYPE_CHECKING:  # takes milliseconds to load
    from warmstart.sessions.values import Role

MAX_TEXT, MAX_CONTEXT, MAX_COMMAND = 300, 120, 120  # characters
MAX_COMMANDS = 2

_KIND_WEIGHTS = {"assistant": 1.0, "user": 0.9, "reasoning": 0.7}  # so that the reply wins over an equal request
_CALL_WEIGHT = 0.5
_QUESTION_WEIGHT = 0.3  # of a request that lacks what is asked for: most often the same question
_MAX_COMPARED = 3  # texts of a turn
_MAX_SHORT, _MAX_REQUEST = 80, 200  # characters: a short sentence is clear only after its request
_LABELS = {"user": "", "assistant": "", "tool": "", "reasoning": "Thought: "}
_ROLES: dict[str, Role] = {"user": "user", "tool": "tool"}


class Replacement(NamedTuple):
    """A message that says that something changed."""

    session_id: str
    message_id: str
    date: datetime | None


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


class Statement(NamedTuple):
    """A passage, and the sentence in it that has what the query asks for, if any."""

    evidence: Evidence
    text: str

    @property
    def time(self) -> float:
        """When it was said, in seconds; 0 if that is unknown."""
        return self.evidence.date.timestamp() if self.evidence.date else 0.0


def order_updates(statements: Sequence[Statement], weigher: Weigher) -> list[Evidence]:
    """The passages; those that a later one replaces are marked, and come after it."""
    found = [statement.evidence for statement in statements]
    for old in statements:
        later = [new for new in statements if _replaces(new, old, weigher)]
        if later:
            newest = max(later, key=lambda statement: statement.time).evidence
            by = Replacement(newest.session_id, newest.message_ids[0], newest.date)
            place = found.index(old.evidence)
            marked = replace(found.pop(place), replaced_by=by)
            after = [evidence.message_ids for evidence in found].index(newest.message_ids)
            found.insert(max(place, after + 1), marked)
    return found


def _replaces(new: Statement, old: Statement, weigher: Weigher) -> bool:
    if not (new.text and old.text and new.evidence.project == old.evidence.project):
        return False
    return 0 < old.time < new.time and says_changed(new.text, old.text, weigher)


class Passage(NamedTuple):
    """A turn with its texts before it is rendered. `output` is what a tool returned, if that is what was found."""

    turn: Turn
    source: SessionSource
    texts: Sequence[PassageText]
    output: PassageText | None = None


class Renderer:
    """Turns passages into evidence."""

    def __init__(self, query: Query, rarities: Mapping[str, float]) -> None:
        self.weigher = Weigher(query.text, rarities, (name.text for name in query.names))
        self._words = query.words
        self._names = [name.text for name in query.names if not name.text.isalnum()]

    def render(self, passage: Passage) -> Statement:
        """The passage as evidence, and its statement."""
        turn, source = passage.turn, passage.source
        best = passage.output or self._best(passage.texts)
        role: Role = _ROLES.get(best.kind, "assistant")
        lines = [_label(best) + self.weigher.excerpt(_shown_body(best), MAX_TEXT)]
        lines += self._context(passage.texts, best)
        text = "\n".join(filter(None, lines)).strip() or "…"
        others = (part.native_id for part in passage.texts if part.is_message)
        evidence = Evidence(
            session_id=source.id,
            native_id=source.native_id,
            agent=source.agent,
            project=source.project,
            date=best.date or source.date,
            role=role,
            score=round(turn.score, 6),
            text=text,
            message_ids=tuple(dict.fromkeys((best.native_id, *others))),
            matched=self._matched(text),
            terms=tuple(self._words.values()),
            components={name: round(value, 3) for name, value in turn.components.items() if value},
        )
        return Statement(evidence, self._answer(best, passage.texts))

    def _matched(self, text: str) -> tuple[str, ...]:
        """The words and names of the query in a text."""
        stems, lower = set(map(root_word, tokenize(text))), text.lower()
        matched = [word for stem, word in self._words.items() if stem in stems]
        return tuple(dict.fromkeys([*matched, *(name for name in self._names if name in lower)]))

    def _answer(self, best: PassageText, texts: Sequence[PassageText]) -> str:
        """The sentence with what the query asks for, if any; after the request if it is a short reply."""
        sentence = self.weigher.best(_shown_body(best))
        if not sentence.answers or best.kind != "assistant" or len(sentence.text) >= _MAX_SHORT:
            return sentence.text if sentence.answers else ""
        requests = [text.body[:_MAX_REQUEST] for text in texts if text.kind == "user"]
        return " ".join((*requests, sentence.text))

    def answers(self, passage: Passage) -> bool:
        """Whether the best sentence of a message has the kind of thing that the query asks for."""
        if self.weigher.pattern is None:
            return False
        return any(self.weigher.best(text.body).answers for text in passage.texts if text.is_message)

    def repeats_question(self, passage: Passage) -> bool:
        """Whether a passage has no words but those of the query."""
        said = " ".join(text.body for text in passage.texts)
        if len(said) > _MAX_REQUEST or passage.output is not None:
            return False
        return {root_word(word) for word in tokenize(said)} - STOPWORDS <= self._words.keys()

    def _best(self, texts: Sequence[PassageText]) -> PassageText:
        """The text that the passage begins with."""

        def estimate(text: PassageText) -> float:
            return self.weigher.estimate(text.body) * _KIND_WEIGHTS.get(text.kind, _CALL_WEIGHT)

        if len(texts) > _MAX_COMPARED:
            texts = sorted(texts, key=estimate, reverse=True)[:_MAX_COMPARED]
        return max(texts, key=self._score)

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
        commands = map(command_in, calls[: 2 * MAX_COMMANDS])
        matching = (command for command in commands if self.weigher.best(command).share)
        shown = dict.fromkeys(f"Ran: {self.weigher.excerpt(command, MAX_COMMAND)}" for command in matching)
        return [*lines, *[*shown][:MAX_COMMANDS]]


def _label(text: PassageText) -> str:
    """What precedes a text that nobody said."""
    return _LABELS.get(text.kind, "Ran: " if text.kind in SHELLS else f"{text.kind}: ")


def _shown_body(text: PassageText) -> str:
    """What a text says: the command of a call, or the file and the other arguments of one."""
    if text.is_message or text.kind in ("reasoning", "tool"):
        return text.body
    return command_in(text.body) if text.kind in SHELLS else values_in(text.body)
