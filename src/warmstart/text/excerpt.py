"""The sentence of a text that has most of a question, and a text on one line without markup.

Hooks load this module, so it imports little and compiles patterns on first use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

from warmstart.text.answers import NUMBER, answer_pattern
from warmstart.text.irregular import FORMS
from warmstart.text.truncate import one_line
from warmstart.text.words import root_word, stem_word

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_WORD = re.compile(r"[^\W_]+")
MAX_CHARACTERS = 50_000  # of a text that are searched
_UNACCENTED = str.maketrans("àáâãäåçèéêëìíîïñòóôõöùúûüýÿ", "aaaaaaceeeeiiiinooooouuuuyy")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# Not after the number of an item in a list.
_SENTENCE_END = re.compile(r"[!?]\s+|\.(?<!\s\d\.)(?<!\s\d\d\.)\s+|[。！？]|\n+")
# Markup, and what takes its place.
_MARKS = (
    (r"<(system-reminder|(?:local-)?command-[a-z]+|ide_[a-z_]+|environment_context)>(?s:.*?)(?:</\1>|\Z)", " "),
    (r"\x1b\[[0-9;]*[A-Za-z]|[─━═│┃┌┐└┘├┤┬┴┼╭╮╰╯⎿]+", " "),  # colours, boxes
    (r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$|^[ \t]*\|?[ \t]*:?--[-:| \t]*$", " "),  # fences, lines of tables
    (r"^[ \t]*\|(.*)\|[ \t]*$", r"\1;"),  # rows of tables
    (r"^[ \t]*[-*][ \t]+", "• "),
    (r"^[ \t]*#{1,6} (.*?)[:.]?$", r"\1:"),
    (r"\*\*", ""),
)
_may_have_marks = re.compile(r"[<|*#`~\x1b─-╿⎿]|-[- ]").search
_ANSWER = 0.5  # what a thing of the kind asked for counts, as a share of the query


class Sentence:
    """The best sentence of a text: where it begins, where its first match is, and how good it is.

    `share` is the part of the query that the whole text has; `answers` says whether the sentence has what is asked for.
    """

    def __init__(self, text: str, start: int, first: int, score: float, share: float, *, answers: bool) -> None:
        self.text = text
        self.start = start
        self.first = first
        self.score = score
        self.share = share
        self.answers = answers


class Weigher:
    """Finds the sentence of a text that has most of a question: its distinct words and names, and what it asks for.

    `rarities` are those of the stems of its words. A name counts as much as its rarest word.
    """

    def __init__(self, question: str, rarities: Mapping[str, float], names: Iterable[str] = ()) -> None:
        self._names = set(names)
        weights = {**rarities, **dict.fromkeys(self._names, max(rarities.values(), default=1.0))}
        total = sum(weights.values())
        self._weights = {word: weight / total for word, weight in weights.items()}
        # `happi` is the stem of `happy`, and `went` a form of `go`.
        self._starts = {word: (word.removesuffix("i"), *_forms().get(word, ())) for word in self._weights}
        self.words = self._weights.keys()
        self.pattern = answer_pattern(question)
        self.asks_for_number = self.pattern is not None and self.pattern.pattern == NUMBER
        self._question = question.lower()
        self._best: dict[str, Sentence] = {}  # by text

    def estimate(self, text: str) -> float:
        """About what part of the query a text has: quick, but it also counts the middle of words."""
        lower = text[:MAX_CHARACTERS].lower()
        having = [word for word, starts in self._starts.items() if any(start in lower for start in starts)]
        return self.weigh(having)

    def best(self, text: str) -> Sentence:
        """The best sentence; of equal ones, the first."""
        if text not in self._best:
            self._best[text] = self._find_best(text)
        return self._best[text]

    def _find_best(self, text: str) -> Sentence:
        text = text[:MAX_CHARACTERS]
        lower = text.lower()
        if not lower.isascii():
            lower = lower.translate(_UNACCENTED)
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
        found = first.get(best, start), scores.get(best, 0.0), share
        return Sentence(text[start:end], start, *found, answers=best in answers)

    def words_in(self, text: str) -> set[str]:
        """The words and names of the query in a text."""
        lower = text.lower().translate(_UNACCENTED)
        return {word for word in self._weights if next(self._find(text, lower, word), None) is not None}

    def weigh(self, words: Iterable[str]) -> float:
        """The part of the query that these of its words are."""
        return sum(self._weights[word] for word in words)

    def excerpt(self, text: str, size: int) -> str:
        """The best sentence with what follows it, on one line of at most `size` characters."""
        text = text[:MAX_CHARACTERS]
        if len(text) <= size:
            return readable(text)
        best = self.best(text)
        start, first = best.start, best.first
        if first > start + size // 2:  # a long sentence: begin a little before its first match
            near = first - size // 6
            space = text.rfind(" ", first - size // 2, near)
            start = near if space < 0 else space + 1
        shown = one_line(readable(text[start : start + 3 * size]).removeprefix("• "), size)
        return f"… {shown}" if start else shown

    def _find(self, text: str, lower: str, word: str) -> Iterator[int]:
        """Where words with this stem, or a name, begin."""
        for start in self._starts[word]:
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


@cache
def _forms() -> Mapping[str, Sequence[str]]:
    """Irregular forms by the stem of their base form."""
    return {stem_word(base): forms for base, forms in FORMS.items()}


def _has_stem(text: str, lower: str, at: int, stem: str) -> bool:
    """Whether a word with this stem begins here; it may be a part of a name such as `readConfig`."""
    if at and text[at - 1].isalnum() and not text[at].isupper():
        return False
    ends = (_WORD.match(lower, at), _PART.match(text, at))
    return any(end is not None and root_word(end[0].lower()) == stem for end in ends)


def readable(text: str) -> str:
    """A text on one line, without the marks of Markdown and of terminals, and without what an agent put around it."""
    if _may_have_marks(text):
        for pattern, replacement in _compiled_marks():
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


@cache
def _compiled_marks() -> Sequence[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.MULTILINE), replacement) for pattern, replacement in _MARKS]
