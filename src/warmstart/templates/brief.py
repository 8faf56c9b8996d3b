"""The brief: what a new session in a project should know, in a few hundred tokens.

It is assembled from the items of the project's earlier sessions. Commands and files are ranked by the probability that
the new session needs them, estimated from the recent and the similar sessions that used them; `bench/foresight.py`
measures how well that predicts real sessions. The same sessions, task and budget give the same bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import exp, fsum, log, prod, sqrt
from operator import attrgetter
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

from warmstart.memory.lines import NOTED, REMEMBERED, SHARES
from warmstart.sessions.marks import BRIEF_TOKENS, frame_brief, lines_budget
from warmstart.templates.commands import file_names, with_folders
from warmstart.templates.item import Item, Kind, SessionItems, Source
from warmstart.templates.rules import DOCS, MANIFESTS, load_table, pattern, subject_of
from warmstart.templates.safety import has_source, is_safe_rule
from warmstart.text.truncate import one_line
from warmstart.text.words import topic_terms
from warmstart.tokens import count, fit

DEFAULT_TOKENS, MAX_TOKENS = BRIEF_TOKENS, 800
MAX_SESSIONS = 100  # newest of a project; older ones weigh less than a hundredth of the last

_EXPECT, _LATELY = "Files to expect", "Files used lately"
_HALF_LIFE, _FILE_HALF_LIFE = 15, 5  # sessions after which the weight of a command, or a file, is halved
_NEAREST = 10  # sessions most similar to the task
_OPENING = 400  # characters of a task that say what it is about
_SHORT = 300  # tokens; a shorter brief lists only what is likely
_MIN_COMMAND, _MIN_FILE, _MIN_SHORT_FILE = 0.02, 0.015, 0.04  # probability
_MIN_RUNS = 0.55  # share of the recent sessions, and of those similar to the task, that ran any command
_MIN_LINE = 0.45  # probability that the session needs any file listed in a short brief
_EXPECTED = 0.4  # probability from which the heading says "expect" rather than "used lately"
_MAX_SHORT_FILES, _MAX_FILES = 12, 100

# The probability of a file is a logistic regression on 14,500 files that were known before 247 sessions of seven
# projects, rounded, and tuned with `bench/foresight.py`. Leaving out any one project flips no sign.
_BIAS = -4.6
_RECENT, _FOLDER = 0.7, 0.8  # if all recent sessions used the file, and if they used its folder
_NEAR, _COVERED = 1.4, 1.8  # if all similar sessions used it, and more if one of them covers every word of the task
_LATEST, _UNKNOWN, _BRANCH = 1.1, 0.3, 1.3  # if the last session used it; more if the branch is unknown; on this branch
_NAMED, _PATH, _TERM = 1.9, 3.2, 0.25  # if the task contains its name, its full path, or words of its name
_OTHERS = -1.2  # if the task names three other files
_SETTINGS, _CODE = -0.8, -1.0  # if it holds settings or prose, or code where the task is about prose
_TRUNKS = ("", "main", "master", "HEAD")  # where unrelated work starts

_MAX_TRAPS, _MAX_RULES, _MAX_SIMILAR, _MAX_CHANGED = 4, 3, 3, 3
_MIN_SHARED = 3  # words that a similar session shares with the task
_MAX_TITLE = 80  # characters
_NO_CODE = (".json", ".lock", ".md", ".mdx", ".mod", ".toml", ".txt", ".yaml", ".yml")
_BLANK = re.compile(r":? ‹\w+›")  # placeholder for a value in an error
_COMMANDS, _TRAPS, _SIMILAR = 0.28, 0.2, 0.3  # maximum shares of the budget
_RULES = 75  # maximum tokens; at most two fifths of the budget

_MAX_BYTES = 200_000  # read from one project file


class Line(NamedTuple):
    """A line of a brief, and why it is there.

    `folder` and `paths` are those of a line with files. `needs_files` says whether only the docs and manifests of the
    project make it trusted.
    """

    text: str
    why: str = ""
    items: tuple[Item, ...] = ()
    folder: str = ""
    paths: tuple[str, ...] = ()
    needs_files: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for item in self.items for source in item.sources))


@dataclass(frozen=True, slots=True)
class Brief:
    """What a session gets. An empty brief has no text."""

    sections: tuple[tuple[str, tuple[Line, ...]], ...] = ()

    @property
    def text(self) -> str:
        return frame_brief((heading, [line.text for line in lines]) for heading, lines in self.sections)

    @property
    def tokens(self) -> int:
        return count(self.text) if self.sections else 0

    def __str__(self) -> str:
        return self.text


class ProjectFiles(NamedTuple):
    """`docs` are read by agents anyway, `manifests` define the project's scripts; `folder` is `None` if unknown.

    `branch` is the one the new session starts on; empty if unknown.
    """

    docs: str = ""
    manifests: str = ""
    folder: Path | None = None
    branch: str = ""

    def exists(self, path: str) -> bool:
        """Whether a file still exists; assumed if the folder is unknown."""
        return self.folder is None or (self.folder / path).exists()


def read_project_files(folder: Path) -> ProjectFiles:
    """The docs and manifests of a project on this machine."""
    if not folder.is_dir():
        return ProjectFiles()
    docs, manifests = ("\n".join(dict(read_texts(folder, names)).values()) for names in (DOCS, MANIFESTS))
    return ProjectFiles(docs, manifests, folder)


def read_texts(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the named files that exist in a folder, each with its text."""
    for name in names:
        with suppress(OSError), (folder / name).open(encoding="utf-8", errors="replace") as file:
            yield name, file.read(_MAX_BYTES)


def build_brief(
    sessions: Sequence[SessionItems],
    *,
    task: str = "",
    budget_tokens: int = DEFAULT_TOKENS,
    files: ProjectFiles = ProjectFiles(),  # noqa: B008 - a tuple
    memories: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Brief:
    """Build the brief for a new session from the earlier sessions of its project.

    `memories` are the user's, `notes` are of agents.
    """
    main = sorted((one for one in sessions if not one.is_subagent), key=_order) or sorted(sessions, key=_order)
    budget = lines_budget(min(budget_tokens, MAX_TOKENS))
    frame = min(budget_tokens, MAX_TOKENS) - budget
    remembered = [
        (REMEMBERED, _fit([Line(text, "in memory") for text in memories], SHARES[REMEMBERED] * budget)),
        (NOTED, _fit([Line(text, "an agent's note") for text in notes], SHARES[NOTED] * budget)),
    ]
    if not main:
        return Brief(tuple((heading, lines) for heading, lines in remembered if lines))
    history = _History(main, task, budget_tokens, files)
    stopped = [Line(f"{item.text} ({_day([item])})", "in the last session", (item,)) for item in main[-1].of("open")]
    sections = [
        ("Commands that work here", _command_lines(history, files, _COMMANDS * budget)),
        ("Failed here before", _fit(_trap_lines(history), _TRAPS * budget)),
        ("Where work stopped", _fit(stopped, _TRAPS * budget)),
        ("The user's rules, quoted", _fit(_rule_lines(history, files.docs), min(_RULES, 0.4 * budget))),
        *remembered,
        ("Similar sessions", _fit(_similar_lines(history) if task else (), _SIMILAR * budget)),
    ]
    sections = [(heading, lines) for heading, lines in sections if lines]
    spent = Brief(tuple(sections)).tokens - frame if sections else 0
    left = budget - spent - count(f"## {_EXPECT}") - 2
    if left > 10:
        heading, listed = _file_lines(history, files, left)
        sections += [(heading, listed)] if listed else []
    return Brief(tuple(sections))


def _order(session: SessionItems) -> tuple[float, str]:
    return (session.ended_at.timestamp() if session.ended_at else 0.0, session.session_id)


class _History:
    """The earlier sessions, weighted by how recently they ended and how similar they are to the task."""

    def __init__(self, sessions: Sequence[SessionItems], task: str, tokens: int, files: ProjectFiles) -> None:
        self.sessions = sessions  # oldest first
        self.sources = Sources(sessions, files)
        self.sessions_alone = Sources(sessions)
        self.latest = _LATEST if files.branch else _LATEST + _UNKNOWN
        self.on_branch = [one for one in sessions if files.branch not in _TRUNKS and one.branch == files.branch]
        self.task = task
        self.is_short = tokens < _SHORT
        self.is_prose = bool(pattern("prose").match(subject_of(task)))
        self.recent = _recency(sessions, _HALF_LIFE)
        self.recent_files = _recency(sessions, _FILE_HALF_LIFE)
        self.frequency = Counter(term for one in sessions for term in one.terms) if task else Counter[str]()
        self.near, self.coverage = self._nearest() if task else ({}, 0.0)
        self.items: dict[Kind, list[tuple[SessionItems, Item]]] = defaultdict(list)
        for session in sessions:
            for item in session.items:
                self.items[item.kind].append((session, item))

    def _nearest(self) -> tuple[dict[str, float], float]:
        """The sessions most similar to the task, by BM25 on their requests and changed files; weights add up to 1.

        Also the largest share of the task's words, weighted by rarity, that any one session covers.
        """
        documents = {one.session_id: one.terms for one in self.sessions}
        lengths = {name: sum(document.values()) for name, document in documents.items()}
        mean = sum(lengths.values()) / len(documents) or 1
        asked = set(topic_terms(self.task[:6000]))
        rarity = {term: log((len(documents) + 1) / (self.frequency[term] + 0.5)) for term in asked}
        scores, shared = {}, 0.0
        for name, document in documents.items():
            length = 1.2 * (0.25 + 0.75 * lengths[name] / mean)
            terms = document.keys() & asked  # unordered, hence `fsum`
            scores[name] = fsum(rarity[term] * document[term] * 2.2 / (document[term] + length) for term in terms)
            shared = max(shared, fsum(map(rarity.__getitem__, terms)))
        best = sorted(((-score, name) for name, score in scores.items() if score > 0))[:_NEAREST]
        weights = {name: score / sum(score for score, _ in best) for score, name in best}
        return weights, shared / (fsum(rarity.values()) or 1)


def _recency(sessions: Sequence[SessionItems], half_life: float) -> dict[str, float]:
    """The weight of each session by its age; they add up to 1."""
    weights = {one.session_id: 0.5 ** (age / half_life) for age, one in enumerate(reversed(sessions))}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _fit(lines: Iterable[Line], budget: float) -> tuple[Line, ...]:
    return fit(lines, budget, attrgetter("text"))


def _command_lines(history: _History, files: ProjectFiles, budget: float) -> tuple[Line, ...]:
    """The commands that work; those missing from the docs come first.

    For a task about prose, only sessions that changed nothing but prose count. A short brief has no commands if most
    sessions ran none.
    """
    recent = history.recent
    if history.is_prose:
        recent = _recency([one for one in history.sessions if _is_prose(one)], _HALF_LIFE)
    near = history.near or recent
    ran = {session.session_id for session, item in history.items["command"] if item.count > item.failed}
    if history.is_short and fsum(recent.get(one, 0.0) + near.get(one, 0.0) for one in ran) < 2 * _MIN_RUNS:
        return ()
    uses: dict[str, list[Item]] = defaultdict(list)
    chances: dict[str, float] = defaultdict(float)
    for session, item in history.items["command"]:
        uses[item.text].append(item)
        if item.count > item.failed:
            chances[item.text] += recent.get(session.session_id, 0.0)
    new: list[str] = []
    stated: list[str] = []
    spent = 10.0  # for the heading
    for text, chance in sorted(chances.items(), key=lambda one: (-one[1], one[0])):
        items = uses[text]
        trusted = history.sources.trust(items) and any(item.worked for item in items)
        cost = count(f"- `{text}`")
        if chance >= _MIN_COMMAND and trusted and not fails_now(items) and spent + cost <= budget:
            (stated if text in files.docs else new).append(text)
            spent += cost
    return tuple(
        Line(
            ", ".join(f"`{text}`" for text in texts),
            "; ".join(_command_reason(text, uses[text]) for text in texts),
            tuple(item for text in texts for item in uses[text]),
            needs_files=not all(history.sessions_alone.trust(uses[text]) for text in texts),
        )
        for texts in ([new + stated] if history.is_short else [*([text] for text in new), stated])
        if texts
    )


def _is_prose(session: SessionItems) -> bool:
    changed = [item.text for item in session.of("file") if item.tool == "edit"]
    return bool(changed) and all(path.endswith(_NO_CODE) for path in changed)


def _command_reason(text: str, items: Sequence[Item]) -> str:
    worked = sum(item.worked for item in items)
    return f"`{text}` worked {_times(worked)} in {_sessions(items)}, last {_day(items)}"


class Sources:
    """The trusted sources for the words of a command: the user, and the docs, manifests and files of the project.

    An agent may run in one session what some output suggested in an earlier one.
    """

    def __init__(self, sessions: Sequence[SessionItems], files: ProjectFiles = ProjectFiles()) -> None:  # noqa: B008
        self._manifests = files.manifests
        self._texts = "\n".join((*(one.typed for one in sessions if one.typed), files.manifests, files.docs))
        self._paths = with_folders(item.text for one in sessions for item in one.items if item.kind == "file")

    def trust(self, items: Sequence[Item]) -> bool:
        """Whether equivalent commands or traps, oldest first, have a clean source. Items of other kinds do."""
        commands = items[-1].commands if items[0].kind in ("command", "trap") else ()
        return all(has_source(one, self._manifests, ()) for one in commands) or (
            items[0].clean and all(has_source(one, self._texts, self._paths) for one in commands)
        )


def fails_now(items: Sequence[Item]) -> bool:
    """Whether a command only failed in each of its last two sessions, or in more than half of all of them."""
    failing = [not item.worked and item.failed > 0 for item in items]
    return all(failing[-2:]) or sum(failing) > len(failing) / 2


def _trap_lines(history: _History) -> list[Line]:
    seen: dict[tuple[str, str], list[Item]] = defaultdict(list)
    worth: dict[tuple[str, str], float] = defaultdict(float)
    for session in history.sessions:
        for item in {(one.tool, one.text): one for one in session.of("trap")}.values():
            seen[item.tool, item.text].append(item)
            worth[item.tool, item.text] += history.recent[session.session_id]
    lines = []
    for trap, items in sorted(seen.items(), key=lambda one: (-worth[one[0]], one[0])):
        fix = Counter(item.fix for item in items).most_common(1)[0][0]
        fixed = [item for item in items if item.fix == fix]
        if not history.sources.trust(fixed):
            continue
        why = f"failed in {_sessions(items)}, last {_day(items)}"
        text = f"`{trap[0]}` fails ({_BLANK.sub('', trap[1])}): {fix}"
        lines.append(Line(text, why, tuple(items), needs_files=not history.sessions_alone.trust(fixed)))
    return lines[:_MAX_TRAPS]


def _rule_lines(history: _History, docs: str) -> list[Line]:
    by_text: dict[str, list[Item]] = defaultdict(list)
    for session in reversed(history.sessions):
        for item in session.of("instruction"):
            by_text[item.text].append(item)
    rules: dict[frozenset[str], list[Item]] = {}
    for text, items in by_text.items():
        mine = frozenset(topic_terms(text))
        twin = next((one for one in rules if len(one & mine) >= max(3, 0.6 * min(len(one), len(mine)))), None)
        if twin is not None:
            rules[twin] += items
        elif len(mine) >= 3 and text not in docs:
            rules[mine] = items
    ranked = sorted(rules.values(), key=len, reverse=True)
    dated = [(f" ({_day(items)})" if _day(items) else "", items) for items in ranked[:_MAX_RULES]]
    return [Line(f'"{one[0].text}"{day}', f"said {_times(len(one))}", tuple(one)) for day, one in dated]


def _similar_lines(history: _History) -> list[Line]:
    """The sessions whose first request shares at least three words with the task, and a third of all their words.

    Generic words, and those of chores such as resolving conflicts, do not count: each time they are about something
    else. Titles are not used: the model may have written them, and it may have read anything.
    """
    usual = {term for term, number in history.frequency.items() if number > max(2, len(history.sessions) / 4)}
    usual.update(topic_terms(f"{load_table('rules')['any_task']} {load_table('rules')['chores']}"))
    asked = set(topic_terms(subject_of(history.task)[:_OPENING])) - usual
    ranked = []
    near = (pair for pair in enumerate(reversed(history.sessions)) if len(asked & pair[1].terms.keys()) >= _MIN_SHARED)
    for age, one in near:
        request = next((subject_of(turn.asked) for turn in one.turns if turn.asked), "")
        terms = set(topic_terms(request)) - usual
        shared = len(asked & terms)
        changed = [item for item in one.of("file") if item.tool == "edit"]
        if changed and shared >= max(_MIN_SHARED, len(asked | terms) / 3) and is_safe_rule(request):
            date = f"{one.started_at:%Y-%m-%d} " if one.started_at else ""
            itself = Item(kind="reference", text=request, sources=(Source(one.session_id),))
            names = ", ".join(_name(item.text) for item in sorted(changed, key=lambda item: -item.count)[:_MAX_CHANGED])
            text = f"{date}{one.session_id[:8]}: {one_line(request, _MAX_TITLE)}; changed {names}"
            ranked.append((-shared, age, Line(text, "asked for something similar", (itself, *changed))))
    return [line for *_, line in sorted(ranked)[:_MAX_SIMILAR]]


def _file_lines(history: _History, files: ProjectFiles, budget: float) -> tuple[str, tuple[Line, ...]]:
    """A heading and the files the new session probably needs: a line per folder, or a single line in a short brief.

    A short brief lists none if the task makes it unlikely that the session needs any of them.
    """
    uses: dict[str, list[Item]] = defaultdict(list)
    for _, item in history.items["file"]:
        if (item.text in uses or files.exists(item.text)) and item.text not in DOCS:
            uses[item.text].append(item)
    chances = _file_chances(history, uses)
    best = max(chances.values(), default=0.0)
    likely = max(_MIN_SHORT_FILE, best / 5)
    least, most = (likely, _MAX_SHORT_FILES) if history.is_short else (_MIN_FILE, _MAX_FILES)
    paths = [path for path in sorted(chances, key=lambda one: (-chances[one], one)) if chances[path] >= least][:most]
    if history.is_short and history.task and 1 - prod(1 - chances[path] for path in paths[:8]) < _MIN_LINE:
        paths = []

    def group(number: int) -> dict[str, list[str]]:
        folders: dict[str, list[str]] = {}
        shared = _folder(commonprefix([_folder(path) for path in paths[:number]]))  # noqa: RUF071 - cut back to a folder
        for path in paths[:number]:
            folders.setdefault(shared if history.is_short else _folder(path), []).append(path)
        return folders

    def fits(number: int) -> bool:
        return sum(count(f"- {_list_files(*line)}") + 1 for line in group(number).items()) <= budget

    number = bisect_left(range(1, len(paths) + 1), True, key=lambda one: not fits(one))
    return _EXPECT if best >= _EXPECTED else _LATELY, tuple(
        Line(_list_files(*line), _file_reason(items), items, line[0], tuple(line[1]))
        for line in (group(number).items() if number else ())
        for items in (tuple(item for path in line[1] for item in uses[path]),)
    )


def _file_reason(items: Sequence[Item]) -> str:
    uses = Counter("changed" if item.tool == "edit" else "read first" for item in items)
    return ", ".join((*(f"{use} {_times(number)}" for use, number in sorted(uses.items())), f"last {_day(items)}"))


def _file_chances(history: _History, paths: Collection[str]) -> dict[str, float]:
    """The probability that the new session changes each file, or reads it before its first edit."""
    users: dict[str, set[str]] = defaultdict(set)
    folders: dict[str, set[str]] = defaultdict(set)
    for session, item in history.items["file"]:
        if item.text in paths:
            users[item.text].add(session.session_id)
            folders[_folder(item.text)].add(session.session_id)
    recent, near = history.recent_files, history.near or history.recent_files
    ages = {one.session_id: age for age, one in enumerate(reversed(history.sessions))}
    on_branch = {one.session_id: age for age, one in enumerate(reversed(history.on_branch))}
    task, opening = history.task.lower(), set(topic_terms(history.task[:_OPENING]))
    names = {path: set(topic_terms(_name(path))) for path in paths}
    frequency = Counter(term for some in names.values() for term in some)
    chances = {}
    others = min(3, len(file_names(history.task))) / 3
    for path, terms in names.items():
        is_named = _name(path).lower() in task
        evidence = (
            _BIAS,
            _RECENT * sqrt(fsum(map(recent.__getitem__, users[path]))),
            (_NEAR + _COVERED * history.coverage) * sqrt(fsum(near.get(one, 0.0) for one in users[path])),
            _FOLDER * fsum(map(recent.__getitem__, folders[_folder(path)])),
            history.latest / (1 + min(map(ages.__getitem__, users[path]))),
            _BRANCH * max((1 / (1 + on_branch[one]) for one in users[path] if one in on_branch), default=0.0),
            _NAMED if is_named else _OTHERS * others,
            _PATH * ("/" in path and path.lower() in task),
            _TERM * fsum(log(1 + len(names) / frequency[term]) for term in terms & opening),
            _CODE * (not path.endswith(_NO_CODE)) if history.is_prose else _SETTINGS * path.endswith(_NO_CODE),
        )
        chances[path] = 1 / (1 + exp(-fsum(evidence)))
    return chances


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    """The folder of a file with a trailing slash; empty for the project root."""
    return path[: len(path) - len(_name(path))]


def _list_files(folder: str, paths: Sequence[str]) -> str:
    names = ", ".join(path.removeprefix(folder) for path in paths)
    return f"{folder}: {names}" if folder else names


def _day(items: Iterable[Item]) -> str:
    days = [item.last_seen for item in items if item.last_seen]
    return f"{max(days):%Y-%m-%d}" if days else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _sessions(items: Sequence[Item]) -> str:
    return "1 session" if len(items) == 1 else f"{len(items)} sessions"
