"""How similar templates are to a task: by words, and by the sessions that recall finds for it.

A word counts more the fewer templates have it, and generic words count little. A task is compared with each request
of a template separately, because it only needs to match one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from math import fsum, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from warmstart.memory.search import stems
from warmstart.templates.rules import load_table
from warmstart.text.words import STOPWORDS, split_words

if TYPE_CHECKING:
    from warmstart.recall.recall import Recall

DEADLINE_MS = 3.0  # for recall

_MAX_WORDS = 24  # of a task that are compared, those with the highest weights
_MAX_TASK = 4_000  # characters of a task that are compared
_MAX_DOCUMENTS = 60  # candidates that are scored in full
_OTHERS = 30  # hypothetical extra templates, so that words have weight even if there is only one template
_MIN_WEIGHT = 1.3  # of a word: a word that all templates share still counts for a task that has it
_WEAK = 0.35  # factor for generic words
_TASK_SHARE = 0.6  # weight of the task's coverage, against that of the request
_HALF = 2.5  # shared weight at which the score is half of its limit: one common word says little
_ABOUT = 0.8  # factor for name, description and tags, compared with a request
# Measured by looking up the session behind each of 171 real commits: 0.35 ranks 39 % first where words alone rank 26 %,
# and accepts one of 50 unrelated tasks. Recall had 50 ms, and the best of six values was chosen on these same commits.
_RECALL_SHARE = 0.35  # maximum share of the remaining distance that recall can close

_COMMON = frozenset(stems(load_table("rules")["any_task"]))
_STOPPED = frozenset(stems(" ".join(sorted(STOPWORDS))))


class Described(NamedTuple):
    """The texts a template is matched by: the requests of its examples, and its name, description and tags."""

    id: str
    tasks: tuple[str, ...] = ()
    about: str = ""


class Fit(NamedTuple):
    """The similarity of a template, from 0 to 1, with its best request, the shared words and the recalled session."""

    similarity: float
    task: str = ""
    words: tuple[str, ...] = ()
    recalled: str = ""


class _Document(NamedTuple):
    template: str
    text: str
    stems: frozenset[str]
    is_task: bool


class Similarity:
    """An index of templates by their words."""

    def __init__(self, templates: Iterable[Described]) -> None:
        self._documents = [
            _Document(each.id, text, frozenset(stems(text)) - _STOPPED, place < len(each.tasks))
            for each in templates
            for place, text in enumerate((*each.tasks, each.about))
        ]
        self._postings: defaultdict[str, list[int]] = defaultdict(list)
        for number, document in enumerate(self._documents):
            for stem in document.stems:
                self._postings[stem].append(number)
        self._count = len({document.template for document in self._documents})
        having = Counter(stem for _, stem in {(each.template, stem) for each in self._documents for stem in each.stems})
        self._weights = {stem: self._weight(stem, number) for stem, number in having.items()}

    def by_words(self, task: str) -> dict[str, Fit]:
        """The fit of each template by id; those that share no specific word with the task are left out."""
        asked = {
            stem: word
            for stem, word in telling_words(task).items()
            # An id that no template has is specific to the task, and does not count against any of them.
            if stem in self._weights or not any(map(str.isdigit, word))
        }
        weights = {stem: self._weights.get(stem) or self._weight(stem, 0) for stem in asked}
        weights = {stem: weights[stem] for stem in nlargest(_MAX_WORDS, weights, key=weights.__getitem__)}
        whole = sum(weights.values())
        shared: defaultdict[int, float] = defaultdict(float)
        for stem, weight in weights.items():
            if stem not in _COMMON:
                for number in self._postings.get(stem, ()):
                    shared[number] += weight
        fits: dict[str, Fit] = {}
        for _, place in nlargest(_MAX_DOCUMENTS, ((weight, -number) for number, weight in shared.items())):
            document = self._documents[-place]
            both = [stem for stem in weights if stem in document.stems]
            common = sum(weights[stem] for stem in both)
            own = min(1.0, common / fsum(map(self._weights.__getitem__, document.stems)))
            similarity = (common / whole) ** _TASK_SHARE * own ** (1 - _TASK_SHARE) * common / (common + _HALF)
            similarity = min(1.0, similarity * (1 if document.is_task else _ABOUT))
            if document.template not in fits or similarity > fits[document.template].similarity:
                words = tuple(asked[stem] for stem in both[:4])
                fits[document.template] = Fit(similarity, document.text if document.is_task else "", words)
        return fits

    def _weight(self, stem: str, having: int) -> float:
        weight = max(_MIN_WEIGHT, log(1 + (self._count + _OTHERS - having) / (having + 1)))
        return weight * _WEAK if stem in _COMMON else weight


def telling_words(task: str) -> dict[str, str]:
    """The stems of a task's words without stopwords, each with the word as written."""
    words: dict[str, str] = {}
    for word in split_words(task[:_MAX_TASK]):
        if word.lower() not in STOPWORDS:
            for stem in stems(word):
                if stem not in _STOPPED:
                    words.setdefault(stem, word)
    return words


def says_enough(task: str) -> bool:
    """Whether a task has a word that is not generic."""
    return any(stem not in _COMMON and not any(map(str.isdigit, word)) for stem, word in telling_words(task).items())


def by_recall(
    recall: Recall, task: str, *, project: str | None, session: str = "", deadline_ms: float = DEADLINE_MS
) -> dict[str, float]:
    """The sessions that recall finds for a task, each with a score from 0 to 1."""
    hits = recall.search(
        task[:_MAX_TASK], project=project, limit=10, exclude_session=session or None, deadline_ms=deadline_ms
    )
    points: dict[str, float] = {}
    best = max((each.score for each in hits), default=0.0)
    for each in hits:
        if each.terms and best > 0:
            matched = len(set(each.matched) & set(each.terms)) / len(set(each.terms))
            point = matched * sqrt(max(0.0, each.score / best))
            points[each.session_id] = max(points.get(each.session_id, 0.0), point)
    return points


def add_recall(fit: Fit, sources: Collection[str], recalled: Mapping[str, float]) -> Fit:
    """The similarity by words, raised if recall found one of the template's sessions."""
    session = max((each for each in sources if each in recalled), key=recalled.__getitem__, default="")
    if not session:
        return fit
    more = (1 - fit.similarity) * _RECALL_SHARE * recalled[session]
    return fit._replace(similarity=fit.similarity + more, recalled=session)
