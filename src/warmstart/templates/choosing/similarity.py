"""How near a task is to what templates are good for: by words, and by the sessions that recall finds for it.

A word tells the more, the fewer templates have it, and words that any task may have tell little. The words of a task
are looked up in all templates at once; the few that share most are then compared sub-task by sub-task, because a
template is good for what was asked for once and not for the sum of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from math import fsum, log, sqrt
from typing import NamedTuple, Protocol

from warmstart.memory.words import stems_of
from warmstart.recall.evidence import Evidence
from warmstart.text.words import STOPWORDS

_ASCII = {place: chr(place).lower() if chr(place).isalnum() else " " for place in range(128)}
_CLOSELY = 24  # templates that are compared sub-task by sub-task
_WORDS = 24  # words of a task that are looked up
_LONGEST = 4_000  # characters of a task that are looked at
_OTHERS = 30  # templates that are thought of besides, so that a word does not tell nothing where there is only one
# What a word is worth at least: that all templates are of one kind of work is nothing against a task of that kind.
_LEAST = 1.3
_BEGINNING = 3  # letters that a word and its stem have in common
_WEAK = 0.35  # what a word is worth that any task may have
_TASK = 0.6  # the part that the task's own words have in the similarity, against those of the sub-task
_LITTLE = 2.5  # shared weight that is worth half of what much of it is: one word in common says little
_ABOUT = 0.8  # what name, description and tags count, against a sub-task
# On 171 real commits asked for the session that made them, 0.35 finds 39 of 100 first where words alone find 26, and
# lets one of 50 tasks of other work through: with 50 ms for recall, and chosen among six values on these very commits.
_RECALLED = 0.35  # the most that recall closes of the distance that words leave
DEADLINE_MS = 3.0

_ANY = """
able actually add already also always another app application back bit bug change check code command comment commit
continue correct create currently different done ensure error even every example file files find first fix following
function go good hello help hi implement instead issue like line list look lot make many maybe more move much name
need new next now ok okay only option other output part place possible problem proceed project pull push put question
read really remove right run same see seem set should show something still sure task test thank thing think time try
two type update use user value version want way work write wrong
"""
_COMMON = frozenset(stem for stems in stems_of(_ANY.split()) for stem in stems)


class Described(Protocol):
    """What a template says of itself; `store.summaries()` gives it."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def tasks(self) -> tuple[str, ...]: ...
    @property
    def sources(self) -> tuple[str, ...]: ...


class Searches(Protocol):
    """What is needed of `Recall`."""

    def search(
        self,
        text: str,
        *,
        project: str | None = None,
        limit: int = 5,
        exclude_session: str | None = None,
        deadline_ms: float | None = None,
    ) -> list[Evidence]: ...


class Fit(NamedTuple):
    """How near a template is, from 0 to 1; the sub-task that is nearest, the words it shares, the session recalled."""

    similarity: float
    task: str = ""
    words: tuple[str, ...] = ()
    recalled: str = ""


class _Document(NamedTuple):
    text: str
    stems: frozenset[str]
    weight: float  # of all its words
    is_task: bool


class Similarity:
    """Templates by their words. Lives as long as their descriptions do not change."""

    def __init__(self, templates: Sequence[Described]) -> None:
        self._templates = templates
        self._having = _index(templates)
        self._vocabulary = sorted(self._having)
        self._documents: dict[int, list[_Document]] = {}
        self._forms: dict[str, dict[str, list[str]]] = {}

    def by_words(self, task: str) -> dict[str, Fit]:
        """How near each template is, by its id; those that share no telling word are left out."""
        asked = _words(task)
        if not asked:
            return {}
        having = {stem: self._with(stem) for stem in asked}
        # An id that no template knows is particular to the task, and says nothing against any of them.
        having = {stem: some for stem, some in having.items() if some or not _has_digit(asked[stem])}
        weights = {stem: self._weight(stem, len(numbers)) for stem, numbers in having.items()}
        telling = nlargest(_WORDS, weights, key=weights.__getitem__)
        whole = sum(weights[stem] for stem in telling)
        shared: dict[int, float] = {}
        for stem in telling:
            if stem in _COMMON:
                continue  # templates that share nothing else are not near
            weight = weights[stem]
            for number in having[stem]:
                shared[number] = shared.get(number, 0.0) + weight
        likely = nlargest(_CLOSELY, ((weight, -number) for number, weight in shared.items()))
        wanted = dict.fromkeys(telling)
        found = {}
        for _, number in likely:
            fit = self._closely(-number, wanted.keys(), weights, whole, asked)
            if fit.similarity > 0:
                found[self._templates[-number].id] = fit
        return found

    def stems(self, template: str) -> frozenset[str]:
        """The words of a template, by its id."""
        number = next(number for number, each in enumerate(self._templates) if each.id == template)
        return frozenset().union(*(document.stems for document in self._documents_of(number)))

    def _closely(
        self,
        number: int,
        asked: Collection[str],
        weights: Mapping[str, float],
        whole: float,
        written: Mapping[str, str],
    ) -> Fit:
        best = Fit(0.0)
        for document in self._documents_of(number):
            both = [stem for stem in asked if stem in document.stems]  # in order, so that every process says the same
            if not both:
                continue
            common = sum(weights[stem] for stem in both)
            own = min(1.0, common / document.weight)
            similarity = (common / whole) ** _TASK * own ** (1 - _TASK) * common / (common + _LITTLE)
            if not document.is_task:
                similarity *= _ABOUT
            if similarity > best.similarity:
                words = tuple(written[stem] for stem in sorted(both, key=weights.__getitem__, reverse=True)[:4])
                best = Fit(min(1.0, similarity), document.text if document.is_task else "", words)
        return best

    def _documents_of(self, number: int) -> list[_Document]:
        if number not in self._documents:
            template = self._templates[number]
            about = " ".join((template.name, template.description, *template.tags))
            texts = [*template.tasks, about]
            found = []
            for place, (text, stems) in enumerate(zip(texts, stems_of(texts), strict=True)):
                words = frozenset(stems) - _STOPPED
                weight = fsum(self._weight(stem, len(self._having.get(stem, ()))) for stem in words)
                found.append(_Document(text, words, weight, place < len(template.tasks)))
            self._documents[number] = found
        return self._documents[number]

    def _with(self, stem: str) -> set[int]:
        """The templates that have a word with this stem."""
        beginning = stem[:_BEGINNING]
        if beginning not in self._forms:
            first, last = (
                bisect_left(self._vocabulary, beginning),
                bisect_left(self._vocabulary, f"{beginning}\U0010ffff"),
            )
            words = self._vocabulary[first:last]
            forms: dict[str, list[str]] = {}
            for word, stems in zip(words, stems_of(words), strict=True):
                for each in stems:
                    forms.setdefault(each, []).append(word)
            self._forms[beginning] = forms
        return set().union(*(self._having[word] for word in self._forms[beginning].get(stem, ())))

    def _weight(self, stem: str, having: int) -> float:
        weight = max(_LEAST, log(1 + (len(self._templates) + _OTHERS - having) / (having + 1)))
        return weight * _WEAK if stem in _COMMON else weight


_STOPPED = frozenset(stem for stems in stems_of(sorted(STOPWORDS)) for stem in stems)


def _index(templates: Sequence[Described]) -> dict[str, list[int]]:
    """The templates that have each word, as it is written but for capitals."""
    having: defaultdict[str, list[int]] = defaultdict(list)
    for number, template in enumerate(templates):
        text = "\n".join((template.name, template.description, *template.tags, *template.tasks))
        words = text.translate(_ASCII).split() if text.isascii() else stems_of((text,))[0]
        for word in set(words):
            having[word].append(number)
    return dict(having)


def _words(task: str) -> dict[str, str]:
    """The stems of a task's telling words, with a word as it was written."""
    written = task[:_LONGEST].translate(_ASCII).split() if task.isascii() else task[:_LONGEST].split()
    words = dict.fromkeys(word for word in written if word.lower() not in STOPWORDS)
    found: dict[str, str] = {}
    for word, stems in zip(words, stems_of(words), strict=True):
        for stem in stems:
            if stem not in _STOPPED:
                found.setdefault(stem, word)
    return found


def _has_digit(word: str) -> bool:
    return any(sign.isdigit() for sign in word)


def says_enough(task: str) -> bool:
    """Whether a task has a word that not any task may have."""
    return any(stem not in _COMMON and not _has_digit(word) for stem, word in _words(task).items())


def by_recall(
    recall: Searches, task: str, *, project: str | None, session: str, deadline_ms: float = DEADLINE_MS
) -> dict[str, float]:
    """The sessions in which something like the task was said, each with how much like it, from 0 to 1."""
    found = recall.search(
        task[:_LONGEST], project=project, limit=10, exclude_session=session or None, deadline_ms=deadline_ms
    )
    points: dict[str, float] = {}
    best = max((each.score for each in found), default=0.0)
    for each in found:
        if each.terms and best > 0:
            matched = len(set(each.matched) & set(each.terms)) / len(set(each.terms))
            point = matched * sqrt(max(0.0, each.score / best))
            points[each.session_id] = max(points.get(each.session_id, 0.0), point)
    return points


def joined(fit: Fit, sources: Collection[str], recalled: Mapping[str, float]) -> Fit:
    """The similarity by words with what recall says of the template's sessions."""
    session = max((each for each in sources if each in recalled), key=recalled.__getitem__, default="")
    if not session:
        return fit
    more = (1 - fit.similarity) * _RECALLED * recalled[session]
    return fit._replace(similarity=fit.similarity + more, recalled=session)
