"""Baseline builders for a session's start: simple rules, a placebo and the current product.

A builder is one function, `build(history, first_message, budget_tokens) -> text`. `foresight.py` measures those in
`BUILDERS`, and any other with `--builder MODULE:FUNCTION`.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from activity import Activity, alike, stems
from warmstart import SessionStore
from warmstart.profile.profiler import Profiler
from warmstart.templates import Selector, SessionItems, SQLTemplateStore, Task, build_brief, render
from warmstart.templates.brief import ProjectFiles
from warmstart.templates.extract import extract_items
from warmstart.templates.make import auto
from warmstart.tokens import count

PLACEBOS = 5  # draws


@dataclass(frozen=True, slots=True)
class History:
    """What a builder may use: the sessions of a project that had ended before, oldest first."""

    sessions: Sequence[Activity]
    project: str  # the folder that the new session starts in
    docs: str  # the project's own instruction files at that time
    store: SessionStore  # holds exactly these sessions
    branch: str = ""  # of the new session

    @property
    def main(self) -> Sequence[Activity]:
        """The sessions that a person started."""
        return [one for one in self.sessions if not one.is_subagent]


Builder = Callable[[History, str, int], str]
"""Build the start of a session: `build(history, first_message, budget_tokens) -> text`."""


# -- ranking

HALF_LIFE = 10  # sessions
NEAREST = 8
Ranked = list[tuple[str, float]]  # lines or paths, most likely first


def _rank(chances: Mapping[str, float]) -> Ranked:
    return sorted(chances.items(), key=lambda one: (-one[1], one[0]))


def recency(sessions: Sequence[Activity]) -> dict[str, float]:
    """The weight of each session; they add up to 1."""
    newest = sorted(sessions, key=lambda one: -one.ended)
    weights = {one.id: 0.5 ** (age / HALF_LIFE) for age, one in enumerate(newest)}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def rank_commands(sessions: Sequence[Activity]) -> Ranked:
    weights, balance, chances = recency(sessions), Counter[str](), defaultdict[str, float](float)
    for activity in sessions:
        worked = activity.commands().keys()
        for command in worked:
            chances[command] += weights[activity.id]
        balance.update(worked)
        traps = (event for event in activity.events if event.trap == "project")
        balance.subtract({one.text for event in traps for one in event.invocations} - worked)
    return [(f"`{command}`", chance) for command, chance in _rank(chances) if balance[command] >= 0]


def rank_traps(sessions: Sequence[Activity], *, min_sessions: int) -> Ranked:
    weights, fixes = recency(sessions), defaultdict[tuple[str, str], Counter[str]](Counter)
    seen = defaultdict[tuple[str, str], set[str]](set)
    for activity in sessions:
        for event in activity.errors():
            if event.trap == "project" and event.remedy:
                seen[event.family, event.error].add(activity.id)
                fixes[event.family, event.error][event.remedy] += 1
    found = sorted(
        ((-sum(weights[one] for one in ids), trap) for trap, ids in seen.items() if len(ids) >= min_sessions),
        key=lambda one: (one[0], str(one[1])),
    )
    return [
        (f"`{family}` fails ({error}): use `{fixes[family, error].most_common(1)[0][0]}`", -worth)
        for worth, (family, error) in found
    ]


def rank_instructions(sessions: Sequence[Activity]) -> Ranked:
    weights, chances = recency(sessions), dict[str, float]()
    for activity in sorted(sessions, key=lambda one: -one.ended):
        for sentence in activity.instructions:
            mine = stems(sentence)
            if twin := next((one for one in chances if alike(mine, stems(one))), None):
                chances[twin] += weights[activity.id]
            elif len(mine) >= 3:
                chances[sentence] = weights[activity.id]
    ranked = sorted(chances.items(), key=lambda one: -one[1])
    return [('"' + re.sub(r"\s+", " ", sentence)[:160] + '"', chance) for sentence, chance in ranked]


_TERM = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{3,}")


def terms(text: str) -> list[str]:
    return [word.lower()[:8] for word in _TERM.findall(text[:6000])]


def nearest(sessions: Sequence[Activity], task: str) -> dict[str, float]:
    """The sessions most similar to a task, by BM25 over their requests and changed files; weights add up to 1."""
    documents = {
        one.id: Counter(terms(" ".join((one.session.title, *one.requests[:6], *one.files("edit"))))) for one in sessions
    }
    mean = sum(map(Counter.total, documents.values())) / max(1, len(documents)) or 1
    frequency = Counter(term for document in documents.values() for term in document)
    scores = dict.fromkeys(documents, 0.0)
    for name, document in documents.items():
        length = 1.2 * (0.25 + 0.75 * document.total() / mean)
        for term in document.keys() & set(terms(task)):
            rarity = log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            scores[name] += rarity * document[term] * 2.2 / (document[term] + length)
    best = [(name, value) for name, value in _rank(scores)[:NEAREST] if value > 0]
    return {name: value / sum(value for _, value in best) for name, value in best}


def rank_files(sessions: Sequence[Activity], task: str = "") -> Ranked:
    """Files by how often and how recently they were used and, with a task, by similar sessions and name."""
    weights, near = recency(sessions), nearest(sessions, task)
    newest = max(sessions, key=lambda one: one.ended).id
    chances = defaultdict[str, float](float)
    for activity in sessions:
        worth = weights[activity.id]
        if near:
            worth = 0.5 * worth + 0.5 * near.get(activity.id, 0)
        worth += 0.1 if task and activity.id == newest else 0
        for path in activity.files("edit"):
            chances[path] += worth
        for path in activity.read_first():
            chances[path] += 0.5 * worth
    asked, names = set(terms(task)), {path: set(terms(path)) for path in chances}
    frequency = Counter(term for some in names.values() for term in some)
    for path, some in names.items():
        rarity = sum(log(1 + len(names) / frequency[term]) for term in some & asked)
        chances[path] += 0.5 * rarity * (0.02 + chances[path])
    return _rank(chances)


# -- builders


def by_folder(paths: Sequence[str], budget: float) -> list[str]:
    """One line per folder: a name in a list costs a fifth of a full path."""
    folders: dict[str, list[str]] = {}
    spent = 0
    for path in paths:
        folder, _, name = path.rpartition("/")
        folder = f"{folder or '.'}/"
        cost = count(", " + name) if folder in folders else count(f"- {folder}: {name}") + 1
        if spent + cost <= budget:
            folders.setdefault(folder, []).append(name)
            spent += cost
        elif spent > 0.95 * budget:
            break
    return [f"- {folder}: {', '.join(names)}" for folder, names in folders.items()]


def fill(heading: str, lines: Sequence[str], budget: float) -> list[str]:
    """A section with the lines that fit, best first."""
    chosen, spent = list[str](), count(heading) + 3
    for line in lines:
        cost = count("- " + line) + 1
        if spent + cost <= budget:
            chosen.append("- " + line)
            spent += cost
    return [f"## {heading}", *chosen] if chosen else []


def join(lines: list[str], budget: int) -> str:
    while lines and count("\n".join(lines)) > budget:
        lines.pop()
    return "\n".join(lines)


def with_files(lines: list[str], paths: Sequence[str], budget: int) -> str:
    left = budget - count("\n".join(lines)) - 8
    listed = by_folder(paths[:300], left) if left > 20 else []
    return join([*lines, "## Files to expect", *listed] if listed else lines, budget)


def build_reference(history: History, task: str, budget: int) -> str:
    """The commands that work, the traps, and the files that the task and similar sessions point to."""
    sessions = history.main
    commands = [line for line, chance in rank_commands(sessions) if chance >= 0.02][:12]
    traps = [line for line, _ in rank_traps(sessions, min_sessions=1)][:4]
    lines = fill("Commands that work here", commands, 0.35 * budget) + fill("Failed here before", traps, 0.2 * budget)
    return with_files(lines, [path for path, chance in rank_files(sessions, task) if chance >= 0.02], budget)


def build_frequent(history: History, _task: str, budget: int) -> str:
    """What was frequent and recent, regardless of the task; the unused budget of a section goes to the next."""
    sessions = history.main
    sections = (
        ("Traps", rank_traps(sessions, min_sessions=2)[:4], 0.15),
        ("User's rules", rank_instructions(sessions)[:3], 0.10),
        ("Commands that work here", [one for one in rank_commands(sessions) if one[1] >= 0.04][:14], 0.40),
        ("Files often changed", [one for one in rank_files(sessions) if one[1] >= 0.04], 0.35),
    )
    lines, left, spare = list[str](), float(budget), 0.0
    for heading, ranked, part in sections:
        limit = min(left, part * budget + spare)
        section = fill(heading, [line for line, _ in ranked], limit + 1)
        spent = sum(count(line) + 1 for line in section[1:]) + (count(heading) + 2 if section else 0)
        left, spare = left - spent, max(0.0, limit - spent)
        lines += section
    return join(lines, budget)


def build_placebo(history: History, _task: str, budget: int, *, seed: int = 0) -> str:
    """Anything that earlier sessions ran or touched, in random order: the score of an arbitrary list."""
    generator = random.Random(1000 * seed + len(history.sessions))
    commands = sorted({command for one in history.main for command in one.commands()})
    paths = sorted({path for one in history.main for kind in ("edit", "read") for path in one.files(kind)})
    generator.shuffle(commands)
    generator.shuffle(paths)
    lines, spent = ["## Commands that work here"], 10
    for command in commands:
        cost = count(f"- `{command}`") + 1
        if spent + cost <= 0.35 * budget:
            lines.append(f"- `{command}`")
            spent += cost
    listed = by_folder(paths[:300], budget - count("\n".join(lines)) - 8)
    return "\n".join([*lines, "## Files to expect", *listed])


def build_last_message(history: History, _task: str, budget: int) -> str:
    text = max(history.main, key=lambda one: one.ended).final
    while (size := count(text)) > budget:
        text = text[: int(len(text) * min(0.95, budget / size))]
    return text


def build_template(history: History, task: str, budget: int, *, choose: bool = True) -> str:
    """The current product: `templates auto`, everything promoted, and the template chosen for the task.

    With `choose=False` it must not abstain: if no template fits the task, one is rendered anyway.
    """
    store = SQLTemplateStore(history.store)  # type: ignore[arg-type]
    auto(store)
    for summary in store.summaries():
        if summary.state == "candidate":
            store.change(summary.id, state="active", author="bench", reason="measure")
    found = [one.id for one in Selector(store).suggest(Task(task, project=None), limit=1)]
    if not found and not choose:
        found = [one.id for one in store.summaries()][-1:]
    if not found:
        return ""
    rendering = render(store.get(found[0]), renderer="system", budget_tokens=budget)
    return "\n".join(str(message["content"]) for message in rendering.messages)


_ITEMS: dict[str, SessionItems] = {}


def build_product_brief(history: History, task: str, budget: int) -> str:
    """What `warmstart brief` would have printed."""
    for activity in history.sessions:
        if activity.id not in _ITEMS:
            messages = list(history.store.messages(activity.id))
            steps = Profiler().steps(activity.session, messages)
            _ITEMS[activity.id] = extract_items(activity.session, messages, steps)
    sessions = [_ITEMS[activity.id] for activity in history.sessions]
    files = ProjectFiles(history.docs, branch=history.branch)
    return build_brief(sessions, task=task, budget_tokens=budget, files=files).text


BUILDERS: dict[str, Builder] = {
    **{f"placebo {seed}": partial(build_placebo, seed=seed) for seed in range(PLACEBOS)},
    "last message": build_last_message,
    "template": build_template,
    "template, forced": partial(build_template, choose=False),
    "frequent": build_frequent,
    "reference": build_reference,
    "brief": build_product_brief,
}
