"""The brief: what a new session in a project should know, in a few hundred tokens.

It is assembled from the items of the project's earlier sessions. Each command and file is worth the chance that the new
session needs it, estimated from how lately and in which similar sessions it was used; `bench/foresight.py` measures
how well that foretells real sessions. The same sessions, task and budget give the same bytes.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, log, sqrt
from pathlib import Path
from typing import NamedTuple

from warmstart.sessions.marks import END, MARK
from warmstart.templates.item import Item, Kind, SessionItems, Source
from warmstart.templates.rules import DOCS, MANIFESTS
from warmstart.templates.safety import own_words_of
from warmstart.text.truncate import one_line
from warmstart.text.words import topic_terms
from warmstart.tokens import count

DEFAULT_TOKENS, MAX_TOKENS = 200, 800
MAX_SESSIONS = 100  # the newest of a project; the others weigh less than a hundredth of the last

_HEADER = f"{MARK} From earlier sessions here; verify before use:"
_HALF_LIFE, _FILE_HALF_LIFE = 15, 5  # sessions after which a command, or a file, counts half
_NEAREST = 10  # sessions near the task
_NAMED = 1.0  # added to the score of a file that the task names
_TERM = 0.05  # weight of words that a path shares with the task
_FOLDER, _LATEST = 0.4, 0.2  # added if every session used its folder, or if the last session used the file
_MIN_COMMAND, _MIN_SURE = 0.02, 0.15  # chance; the second in a short brief, for what the docs lack
_MIN_FILE = 150  # score of a file, times the tokens of the brief: with less room only what is likelier
# Tokens; a shorter brief lists only what is likely. Of the files that one earlier session alone used, 4 % were needed.
_SHORT = 300
_MAX_TRAPS, _MAX_RULES, _MAX_FILES, _MAX_NEAR = 4, 3, 300, 3
_MAX_MEMORY = 160  # characters
_BLANK = re.compile(r":? ‹\w+›")  # what stands for a value in an error
# What it says about a file that recent sessions, or sessions near the task, changed it or read it first.
_WEIGHTS = {("edit", "recent"): 0.6, ("edit", "near"): 0.5, ("read", "recent"): 0.5, ("read", "near"): 0.5}
_COMMANDS, _TRAPS, _MEMORIES, _SIMILAR = 0.32, 0.2, 0.2, 0.08  # shares of the budget, at most
_RULES = 75  # tokens at most, and two fifths of the budget

_MAX_BYTES = 200_000  # of a file of the project


class Line(NamedTuple):
    """A line of a brief, and why it is there."""

    text: str
    why: str = ""
    items: tuple[Item, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for item in self.items for source in item.sources))


@dataclass(frozen=True, slots=True)
class Brief:
    """What a session gets. An empty brief has no text."""

    sections: tuple[tuple[str, tuple[Line, ...]], ...] = ()

    @property
    def text(self) -> str:
        lines = [_HEADER]
        for heading, some in self.sections:
            lines += [f"## {heading}", *(f"- {line.text}" for line in some)]
        return "\n".join([*lines, END]) if self.sections else ""

    @property
    def tokens(self) -> int:
        return count(self.text) if self.sections else 0

    def __str__(self) -> str:
        return self.text


class ProjectFiles(NamedTuple):
    """`docs` are what agents read anyway, `manifests` define the project's scripts; `folder` is `None` if unknown."""

    docs: str = ""
    manifests: str = ""
    folder: Path | None = None

    def exists(self, path: str) -> bool:
        """Whether a file is still there, as far as anybody can tell."""
        return self.folder is None or (self.folder / path).exists()


def read_project_files(folder: Path) -> ProjectFiles:
    """The files of a project that is on this machine."""
    if not folder.is_dir():
        return ProjectFiles()
    return ProjectFiles("\n".join(_texts(folder, DOCS)), "\n".join(_texts(folder, MANIFESTS)), folder)


def _texts(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                yield file.read(_MAX_BYTES)
        except OSError:
            continue


def build_brief(
    sessions: Sequence[SessionItems],
    *,
    task: str = "",
    budget_tokens: int = DEFAULT_TOKENS,
    files: ProjectFiles = ProjectFiles(),  # noqa: B008 - a tuple
    memories: Sequence[str] = (),
) -> Brief:
    """The brief for a new session, from the earlier sessions of its project."""
    main = sorted((one for one in sessions if not one.is_subagent), key=_order) or sorted(sessions, key=_order)
    if not main:
        return Brief()
    frame = count(f"{_HEADER}\n{END}") + 1
    budget = min(budget_tokens, MAX_TOKENS) - frame
    history = _History(main, task, budget_tokens)
    sections = [
        ("Commands that work here", _command_lines(history, files, _COMMANDS * budget)),
        ("Failed here before", _fit(_trap_lines(history, files), _TRAPS * budget)),
        ("Where work stopped", _fit(_open_lines(main[-1]), _TRAPS * budget)),
        ("The user's rules, quoted", _fit(_rule_lines(history, files.docs), min(_RULES, 0.4 * budget))),
        ("Remembered", _fit([Line(one_line(text, _MAX_MEMORY), "in memory") for text in memories], _MEMORIES * budget)),
        ("Similar sessions", _fit(_near_lines(history), _SIMILAR * budget)),
    ]
    sections = [(heading, lines) for heading, lines in sections if lines]
    spent = Brief(tuple(sections)).tokens - frame if sections else 0
    left = budget - spent - count("## Files to expect") - 2
    if left > 10 and (listed := _file_lines(history, files, left)):
        sections.append(("Files to expect", listed))
    return Brief(tuple(sections))


def _order(session: SessionItems) -> tuple[float, str]:
    return (session.ended_at.timestamp() if session.ended_at else 0.0, session.session_id)


# -- how likely the new session needs what an earlier one used


class _History:
    """The earlier sessions with the weight of each: how lately it ended, and how near it is to the task."""

    def __init__(self, sessions: Sequence[SessionItems], task: str, tokens: int) -> None:
        self.sessions = sessions  # oldest first
        self.task = task
        self.is_short = tokens < _SHORT
        self.min_file = _MIN_FILE / max(tokens, DEFAULT_TOKENS)
        self.recent = _recency(sessions, _HALF_LIFE)
        self.recent_files = _recency(sessions, _FILE_HALF_LIFE)
        self.near = _nearest(sessions, task) if task else {}
        self.near_files = self.near or self.recent_files
        self.items: dict[Kind, list[tuple[SessionItems, Item]]] = defaultdict(list)
        for session in sessions:
            for item in session.items:
                self.items[item.kind].append((session, item))


def _recency(sessions: Sequence[SessionItems], half_life: float) -> dict[str, float]:
    """The weight of each session by its age; they add up to 1."""
    weights = {one.session_id: 0.5 ** (age / half_life) for age, one in enumerate(reversed(sessions))}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _nearest(sessions: Sequence[SessionItems], task: str) -> dict[str, float]:
    """The sessions nearest to a task, by BM25 of what they were asked and what they changed; weights add up to 1."""
    documents = {one.session_id: one.terms for one in sessions}
    lengths = {name: sum(document.values()) for name, document in documents.items()}
    mean = sum(lengths.values()) / len(documents) or 1
    frequency = Counter(term for document in documents.values() for term in document)
    asked = set(topic_terms(task[:6000]))
    rarity = {term: log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5)) for term in asked}
    scores = {}
    for name, document in documents.items():
        length = 1.2 * (0.25 + 0.75 * lengths[name] / mean)
        terms = document.keys() & asked  # in any order, which must not matter
        scores[name] = fsum(rarity[term] * document[term] * 2.2 / (document[term] + length) for term in terms)
    best = sorted(((-score, name) for name, score in scores.items() if score > 0))[:_NEAREST]
    return {name: score / sum(score for score, _ in best) for score, name in best}


# -- the lines of each section, best first


def _fit(lines: Iterable[Line], budget: float) -> tuple[Line, ...]:
    chosen: list[Line] = []
    spent = 10.0  # for the heading
    for line in lines:
        cost = count(f"- {line.text}") + 1
        if spent + cost <= budget:
            chosen.append(line)
            spent += cost
    return tuple(chosen)


def _command_lines(history: _History, files: ProjectFiles, budget: float) -> tuple[Line, ...]:
    """The commands that work; what the docs state anyway shares one line, the last."""
    uses: dict[str, list[Item]] = defaultdict(list)
    chances: dict[str, float] = defaultdict(float)
    for session, item in history.items["command"]:
        uses[item.text].append(item)
        if item.count > item.failed:
            chances[item.text] += history.recent[session.session_id]
    chosen: list[str] = []
    stated: list[str] = []
    spent = 10.0  # for the heading
    for text, chance in sorted(chances.items(), key=lambda one: (-one[1], one[0])):
        items = uses[text]
        trusted = _is_trusted([text], items, files) and any(item.worked for item in items)
        least = _MIN_SURE if history.is_short and text not in files.docs else _MIN_COMMAND
        if chance < least or not trusted or fails_now(items):
            continue
        cost = count(f"- `{text}`") + (0 if text in files.docs else 1)
        if spent + cost <= budget:
            (stated if text in files.docs else chosen).append(text)
            spent += cost
    lines = [[text] for text in chosen] + ([stated] if stated else [])
    return tuple(
        Line(
            ", ".join(f"`{text}`" for text in texts),
            "; ".join(_command_reason(text, uses[text]) for text in texts),
            tuple(item for text in texts for item in uses[text]),
        )
        for texts in lines
    )


def _command_reason(text: str, items: Sequence[Item]) -> str:
    worked = sum(item.worked for item in items)
    return f"`{text}` worked {_times(worked)} in {_sessions(items)}, last {_day(items)}"


def _is_trusted(commands: Sequence[str], items: Sequence[Item], files: ProjectFiles) -> bool:
    """Whether the words of commands have a clean source: a session, or the manifests of the project."""
    words = (word for command in commands for word in own_words_of(command))
    return any(item.clean for item in items) or all(word in files.manifests for word in words)


def fails_now(items: Sequence[Item]) -> bool:
    """Whether a command failed, and did not work, in each of its last two sessions, or more often than it worked."""
    failing = [not item.worked and item.failed > 0 for item in items]
    return all(failing[-2:]) or sum(failing) > len(failing) / 2


def _trap_lines(history: _History, files: ProjectFiles) -> list[Line]:
    seen: dict[tuple[str, str], list[Item]] = defaultdict(list)
    worth: dict[tuple[str, str], float] = defaultdict(float)
    for session in history.sessions:
        for item in {(one.tool, one.text): one for one in session.of("trap")}.values():
            seen[item.tool, item.text].append(item)
            worth[item.tool, item.text] += history.recent[session.session_id]
    lines = []
    trusted = [
        trap for trap, items in seen.items() if _is_trusted([call.arguments for call in items[-1].calls], items, files)
    ]
    for trap in sorted(trusted, key=lambda one: (-worth[one], one))[:_MAX_TRAPS]:
        items = seen[trap]
        fix = Counter(item.calls[1].arguments for item in items).most_common(1)[0][0]
        why = f"failed in {_sessions(items)}, last {_day(items)}"
        error = _BLANK.sub("", trap[1])
        lines.append(Line(f"`{trap[0]}` fails ({error}): use `{fix}`", why, tuple(items)))
    return lines


def _open_lines(last: SessionItems) -> list[Line]:
    return [Line(f"{item.text} ({_day([item])})", "in the last session", (item,)) for item in last.of("open")]


def _rule_lines(history: _History, docs: str) -> list[Line]:
    said: dict[str, list[Item]] = defaultdict(list)
    for session in reversed(history.sessions):
        for item in session.of("instruction"):
            said[item.text].append(item)
    rules: dict[frozenset[str], list[Item]] = {}
    for text, items in said.items():
        mine = frozenset(topic_terms(text))
        twin = next((one for one in rules if len(one & mine) >= max(3, 0.6 * min(len(one), len(mine)))), None)
        if twin is not None:
            rules[twin] += items
        elif len(mine) >= 3 and text not in docs:
            rules[mine] = items
    ranked = sorted(rules.values(), key=len, reverse=True)
    dated = [(f" ({_day(items)})" if _day(items) else "", items) for items in ranked[:_MAX_RULES]]
    return [Line(f'"{one[0].text}"{day}', f"said {_times(len(one))}", tuple(one)) for day, one in dated]


def _near_lines(history: _History) -> list[Line]:
    sessions = {one.session_id: one for one in history.sessions if one.title.count(" ") > 1}
    lines = []
    for one in [sessions[name] for name in history.near if name in sessions][:_MAX_NEAR]:
        date = f"{one.started_at:%Y-%m-%d} " if one.started_at else ""
        text = f"{date}{one.session_id[:8]}: {one_line(one.title, 60)}"
        itself = Item(kind="reference", text=one.title, sources=(Source(one.session_id),))
        lines.append(Line(text, "asked for something similar", (itself,)))
    return lines


def _file_lines(history: _History, files: ProjectFiles, budget: float) -> tuple[Line, ...]:
    """The files of each folder that the new session probably needs."""
    uses: dict[str, list[Item]] = defaultdict(list)
    for _, item in history.items["file"]:
        if (item.text in uses or files.exists(item.text)) and item.text not in DOCS:
            uses[item.text].append(item)
    scores = _file_scores(history, uses)
    # How often a file was really needed grows faster than its score: 3 % at .4, 8 % at 1, 28 % above.
    likely = ((path, score**4) for path, score in scores.items() if score >= history.min_file)
    ranked = sorted(likely, key=lambda one: (-one[1], one[0]))
    lines = []
    for folder, paths in _pack(ranked[:_MAX_FILES], budget, 1.0 if history.is_short else 0.0).items():
        items = [item for path in paths for item in uses[path]]
        uses_of = Counter("changed" if item.tool == "edit" else "read first" for item in items)
        why = ", ".join(
            (*(f"{use} {_times(number)}" for use, number in sorted(uses_of.items())), f"last {_day(items)}")
        )
        lines.append(Line(f"{folder}: {', '.join(path.rsplit('/', 1)[-1] for path in paths)}", why, tuple(items)))
    return tuple(lines)


def _file_scores(history: _History, paths: Collection[str]) -> dict[str, float]:
    """How much speaks for each file: who used it lately or for a similar task, its folder, and its name."""
    evidence: dict[str, dict[tuple[str, str], float]] = {path: defaultdict(float) for path in paths}
    folders: dict[str, dict[str, float]] = defaultdict(dict)  # the weight of each session that used one
    users: dict[str, set[str]] = defaultdict(set)
    for session, item in history.items["file"]:
        if item.text in evidence:
            name = session.session_id
            evidence[item.text][item.tool, "recent"] += history.recent_files[name]
            evidence[item.text][item.tool, "near"] += history.near_files.get(name, 0.0)
            folders[_folder(item.text)][name] = history.recent_files[name]
            users[item.text].add(name)
    ages = {one.session_id: age for age, one in enumerate(reversed(history.sessions))}
    # Whose files count without a second session, if it changed them: the last one, and a very similar one.
    telling = {history.sessions[-1].session_id, *(name for name, near in history.near_files.items() if near > 0.5)}
    asked, lower = set(topic_terms(history.task[:6000])), history.task.lower()
    names = {path: set(topic_terms(path)) for path in paths}
    frequency = Counter(term for some in names.values() for term in some)
    scores = {}
    for path, some in names.items():
        score = sum(_WEIGHTS[basis] * sqrt(weight) for basis, weight in evidence[path].items())
        age = min(map(ages.__getitem__, users[path]))
        score += _FOLDER * sum(folders[_folder(path)].values()) + _LATEST / (1 + age)
        score += _TERM * (0.3 + score) * fsum(log(1 + len(names) / frequency[term]) for term in some & asked)
        is_changed = ("edit", "recent") in evidence[path]
        is_weak = len(users[path]) == 1 and not (is_changed and users[path] & telling)
        named = _NAMED if path.rsplit("/", 1)[-1].lower() in lower else 0.0
        scores[path] = named if is_weak and history.is_short else score + named
    return scores


def _folder(path: str) -> str:
    return f"{path.rpartition('/')[0] or '.'}/"


def _pack(ranked: Sequence[tuple[str, float]], budget: float, min_line: float) -> dict[str, list[str]]:
    """Files by folder, chosen by their worth per token: a name costs little once its folder is there.

    A folder is listed if its best file is worth `min_line`.
    """
    folders: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for path, worth in ranked:
        folders[_folder(path)].append((path, worth))
    heap: list[tuple[float, str, int, int, int]] = []

    def offer(folder: str, start: int) -> None:
        """Put the next names of a folder on the heap, as many as give the most per token."""
        best = None
        worth, cost = 0.0, 0 if start else count(f"- {folder}:") + 1
        for place, (path, value) in enumerate(folders[folder][start : start + 8], start + 1):
            worth += value
            cost += count(f", {path.rsplit('/', 1)[-1]}")
            if best is None or worth / cost > -best[0]:
                best = (-worth / cost, folder, start, place, cost)
        if best:
            heapq.heappush(heap, best)

    for folder, (best, *_) in folders.items():
        if best[1] >= min_line:
            offer(folder, 0)
    chosen: dict[str, list[str]] = {}
    while heap:
        _, folder, start, end, cost = heapq.heappop(heap)
        if cost <= budget:
            budget -= cost
            chosen.setdefault(folder, []).extend(path for path, _ in folders[folder][start:end])
            offer(folder, end)
    return chosen


def _day(items: Iterable[Item]) -> str:
    days = [item.last_seen for item in items if item.last_seen]
    return f"{max(days):%Y-%m-%d}" if days else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _sessions(items: Sequence[Item]) -> str:
    return "1 session" if len(items) == 1 else f"{len(items)} sessions"
