"""Would this start have helped? Measured on real history, without a model.

For each session with at least three earlier ones in its project, a builder writes the start of the session from the
earlier sessions. Its text is then compared with what the session did: which commands, traps, files and repeated
instructions did it predict, with how many tokens, and what share of its items was used?

`F` is the weighted share of what could be known that a start predicted. Skill is 0 for a placebo (same layout and
budget, drawn at random from the same history) and 1 at the ceiling. Micro pools all sessions, macro averages F over
projects.

    python bench/foresight.py --builder my.module:build     # adds a builder to the baselines

Run with `make bench`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from math import log2
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from activity import (
    CHECKS,
    STOPWORDS,
    WORD,
    Activity,
    Event,
    Invocation,
    Project,
    alike,
    cases,
    has_phrase,
    invocations,
    is_manifest,
    read_projects,
    stems,
    word_set,
)
from builders import BUILDERS, Builder, History
from warmstart import SessionStore
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.stats import cluster_bootstrap
from warmstart.templates.safety import is_known
from warmstart.tokens import count

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CORPORA = ("sessions", "history")
BUDGET = 400  # tokens
Floats = npt.NDArray[np.float64]


# -- parsing a start from its text, so that every builder is scored the same way

_PATH = re.compile(r"[\w@.()\[\]/-]*\.[A-Za-z]\w{0,8}|[\w@./-]+/[\w@.-]+")
_FOLDER = re.compile(r"(`?[\w@.()\[\]/-]+/`?):\s+(\S.*)$")  # `cmd/cli/: hooks.go, root.go`
_QUOTED = re.compile(r"`([^`\n]{2,300})`")
_JSON_COMMAND = re.compile(r'"(?:command|cmd)"\s*:\s*("(?:\\.|[^"\\])*")')
# A line does not recommend what it warns about: `x` fails, not `x`, instead of `x`.
_FAILS = re.compile(r"\s*(?:always |also )?(?:fail|does(?: not|n't)|is gone|is not|was|no longer)")
_AVOID = re.compile(r"\b(?:avoid|instead of|never|not|rather than|(?:do not|don't) (?:run|use))\s*$", re.IGNORECASE)
# Names that mean nothing without their folder.
COMMON_NAMES = word_set(
    "index.ts index.js index.tsx main.go main.py main.rs mod.rs lib.rs page.tsx layout.tsx __init__.py readme.md "
    "types.ts utils.ts package.json skill.md app.tsx state.md"
)


@dataclass(slots=True)
class Line:
    text: str
    commands: set[str] = field(default_factory=set)
    families: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    stems: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


@dataclass(slots=True)
class Start:
    """The text that an agent gets at the start, divided into items."""

    lines: list[Line]
    tokens: int
    commands: set[str]
    paths: set[str]


@lru_cache(maxsize=4096)
def parse(text: str) -> Start:
    lines = list(_lines(text))
    commands = {one for line in lines for one in line.commands}
    return Start(lines, count(text) if text else 0, commands, {path for line in lines for path in line.paths})


def _lines(text: str) -> Iterator[Line]:
    for raw in text.splitlines():
        bare = raw.lstrip("-*•> \t").rstrip()
        is_heading = bare.startswith("#") or (bare.endswith(":") and len(bare) < 60 and "`" not in bare)
        if not bare or is_heading:
            continue
        line = Line(bare, stems=stems(bare), words=frozenset(word.lower() for word in WORD.findall(bare)))
        for one in _recommended(bare):
            line.commands.add(one.text)
            line.families.add(one.family)
        if folder := _FOLDER.match(bare):
            names = (name.strip("` .") for name in folder[2].split(","))
            line.paths = {
                (folder[1].strip("`") + name).removeprefix("./") for name in names if name and " " not in name
            }
        else:
            line.paths = {path.removeprefix("./").strip(".()[]") for path in _PATH.findall(bare)}
        yield line


def _recommended(line: str) -> Iterator[Invocation]:
    """The commands of a line: in backticks, in the JSON of a call, or the line itself."""
    quoted = [
        one[1]
        for one in _QUOTED.finditer(line)
        if not (_FAILS.match(line, one.end()) or _AVOID.search(line[: one.start()]))
    ]
    quoted += map(_unescape, _JSON_COMMAND.findall(line))
    for text in quoted:
        yield from invocations(text, every=True)
    if "`" not in line and not quoted:
        yield from invocations(line.removeprefix("$ "))


def _unescape(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        return quoted.strip('"')


def lists(paths: set[str], file: str) -> bool:
    """Whether a file is among paths: by its full path, by the end of it, or by a distinctive name."""
    parts = file.split("/")
    if any("/".join(parts[start:]) in paths for start in range(len(parts) - 1)):
        return True
    return parts[-1] in paths and parts[-1].lower() not in COMMON_NAMES


def warns(line: Line, event: Event) -> bool:
    """Whether a line is about this mistake: it names the program and most words of the error."""
    words = {word.lower() for word in WORD.findall(re.sub(r"‹\w+›", " ", event.error))} - STOPWORDS
    program = event.family.split()[0].lower() if event.family and event.trap != "tool" else ""
    enough = max(min(2, len(words)), 0.6 * len(words))
    return bool(words) and program in line.text.lower() and len(words & line.words) >= enough


def prevents(start: Start, event: Event) -> bool:
    """Whether a line names both the mistake and its fix. The fix alone is not enough.

    The CLAUDE.md of one project says `bun run test`, and 44 of its sessions still tried `rtk bun run test` first.
    """
    return any(warns(line, event) and (not event.remedy or event.remedy in line.commands) for line in start.lines)


# -- the metric


class Known:
    """What the earlier sessions had shown."""

    def __init__(self, earlier: Sequence[Activity]) -> None:
        self.commands = {one for activity in earlier for one in activity.commands()}
        self.files = {path for one in earlier for kind in ("edit", "read") for path in one.files(kind)}
        self.instructions = [stems(sentence) for one in earlier for sentence in one.instructions]
        self._fixes: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in (event for one in earlier for event in one.errors() if event.fix is not None):
            self._fixes[event.family, event.error].add(event.fix.text if event.fix else "")

    def prevents(self, event: Event) -> bool:
        """Whether the same mistake had the same fix before."""
        fixes = self._fixes.get((event.family, event.error))
        return fixes is not None and (not event.remedy or event.remedy in fixes)


class Share(NamedTuple):
    """How much of something a start predicted, how much could be known, and the total."""

    foretold: float = 0.0
    knowable: float = 0.0
    total: float = 0.0

    def add(self, foretold: bool, knowable: bool, weight: float = 1.0) -> Share:
        return Share(
            self.foretold + weight * foretold, self.knowable + weight * (knowable or foretold), self.total + weight
        )


WEIGHTS = {"commands": 0.3, "traps": 0.2, "changed": 0.2, "read first": 0.1, "calls": 0.2}
MEASURES = (*WEIGHTS, "instructions", "new commands", "new files")
CARRIED = "known safe"  # the commands that the allowlist permits


@dataclass(frozen=True, slots=True)
class Score:
    """How one start did for one session."""

    project: str
    session: str
    tokens: int
    items: int
    used: int
    misleading: int  # items that the session tried without success
    shares: Mapping[str, Share]


def score(activity: Activity, start: Start, known: Known, docs: Start) -> Score:
    """Compare a start with what the session did. The agent gets `docs` anyway: they are not new and save nothing."""
    shares = dict.fromkeys((*MEASURES, CARRIED), Share())

    def add(measure: str, foretold: bool, knowable: bool, weight: float = 1.0) -> None:
        shares[measure] = shares[measure].add(foretold, knowable, weight)

    for command, (place, _) in activity.commands().items():
        hit = (command in start.commands, command in known.commands, 1 / log2(2 + place))  # early ones weigh more
        add("commands", *hit)
        add(CARRIED, False, command in known.commands and is_known(command), hit[2])
        if command not in docs.commands and command not in activity.task:
            add("new commands", *hit)
    for event in activity.errors():
        if event.trap == "project":
            add("traps", prevents(start, event), known.prevents(event))
    changed, read_first = activity.files("edit"), activity.read_first()
    for measure, paths in (
        ("changed", set(changed)),
        ("read first", read_first),
        ("new files", {*changed, *read_first}),
    ):
        for path in paths:
            is_new = path.rsplit("/", 1)[-1] not in activity.task and not lists(docs.paths, path)
            if measure != "new files" or is_new:
                add(measure, lists(start.paths, path), path in known.files)
    for sentence in map(stems, activity.instructions):
        foretold = any(alike(sentence, line.stems) for line in start.lines)
        add("instructions", foretold, any(alike(sentence, one) for one in known.instructions))
    for foretold, knowable in spared_calls(activity, start, known, docs):
        add("calls", foretold, knowable)
    items, used = count_items(activity, start)
    misleading = count_misleading(activity, start)
    return Score(activity.project, activity.id, start.tokens, items, used, misleading, shares)


def spared_calls(activity: Activity, start: Start, known: Known, docs: Start) -> Iterator[tuple[bool, bool]]:
    """For each orientation call and each later trap: does the start, or could any start, make it unnecessary?

    A file search is unnecessary if one of the next three calls uses a file that the start lists; reading a manifest, if
    the start lists one of the session's checks; a trap, if the start prevents it. What the docs say and the agent
    looked up anyway does not count. This is an upper bound: an agent may still search for a listed file.
    """
    checks = {text for text, (_, one) in activity.commands().items() if one.kind in CHECKS} - docs.commands
    early = activity.orientation()
    for place, event in enumerate(early):
        foretold = knowable = False
        if event.locates:
            following = (path for later in activity.events[place + 1 : place + 4] for path in later.files)
            paths = [path for path in following if not lists(docs.paths, path)]
            foretold, knowable = any(lists(start.paths, path) for path in paths), not known.files.isdisjoint(paths)
        elif event.kind == "read" and any(map(is_manifest, event.files)):
            foretold, knowable = not checks.isdisjoint(start.commands), not checks.isdisjoint(known.commands)
        elif event.trap == "project":
            foretold, knowable = prevents(start, event), known.prevents(event)
        yield foretold, knowable
    for event in activity.errors():
        if event.trap == "project" and event.place >= len(early):
            yield prevents(start, event), known.prevents(event)


def count_items(activity: Activity, start: Start) -> tuple[int, int]:
    """How many items a start has, and how many the session used. A list on one line counts each entry."""
    commands = {*activity.commands(), *(event.fix.text for event in activity.events if event.fix)}
    families = {one.family for _, one in activity.commands().values()}
    touched = {*activity.files("edit"), *activity.files("read")}
    instructions = [stems(sentence) for sentence in activity.instructions]
    errors = [event for event in activity.errors() if event.trap in ("project", "tool")]
    items = used = 0
    for line in start.lines:
        names = {path for path in line.paths if "." in path.rsplit("/", 1)[-1]} if not line.commands else set()
        number = max(1, len(line.commands) + len(names))
        hits = len(line.commands & commands) + sum(any(lists({path}, one) for one in touched) for path in names)
        if number == 1 and not hits:
            hits = int(not line.families.isdisjoint(families))
        if any(warns(line, event) for event in errors) or any(alike(line.stems, one) for one in instructions):
            number = hits = 1
        items, used = items + number, used + hits
    return items, used


_MISSING = (
    *("not found", "no such file", "does not exist", "cannot find module"),
    *("missing script", "unknown command", "unrecognized argument"),
)


def count_misleading(activity: Activity, start: Start) -> int:
    """How many of a start's commands and files the session tried and found missing."""
    worked, wrong = activity.commands(), set[str]()
    for event in activity.events:
        if event.trap == "project" and has_phrase(event.error, _MISSING):
            wrong |= {one.text for one in event.invocations if one.text in start.commands and one.text not in worked}
        elif event.kind == "read" and event.error == "File does not exist":
            wrong |= {path for path in event.files if lists(start.paths, path)}
    return len(wrong)


# -- scores


def pool(scores: Sequence[Score], measure: str) -> Share:
    return Share(*(sum(column) for column in zip(*(one.shares[measure] for one in scores), strict=True)))


def foresight(scores: Sequence[Score]) -> float:
    """F: the weighted share predicted of what could be known. Measures without anything knowable are left out."""
    shares = {measure: pool(scores, measure) for measure in WEIGHTS} if scores else {}
    known = {measure: share.foretold / share.knowable for measure, share in shares.items() if share.knowable}
    return sum(WEIGHTS[one] * known[one] for one in known) / sum(WEIGHTS[one] for one in known) if known else 0.0


def macro_foresight(scores: Sequence[Score]) -> float:
    """The mean of F over projects."""
    groups = defaultdict(list)
    for one in scores:
        groups[one.project].append(one)
    return sum(map(foresight, groups.values())) / len(groups) if groups else 0.0


def skill(value: float, placebo: float) -> float:
    """F rescaled: 0 for the placebo, 1 at the ceiling."""
    return (value - placebo) / (1 - placebo) if placebo < 1 else 0.0


def skill_interval(scores: Sequence[Score], placebo: Sequence[Score]) -> tuple[float, float]:
    """The 95 % interval of the micro skill, by resampling sessions."""
    sessions = sorted({one.session for one in scores})

    def values(some: Sequence[Score], draws: Floats) -> Floats:
        sums = np.zeros((len(sessions), len(WEIGHTS), 2))
        for one in some:
            sums[sessions.index(one.session)] += [one.shares[measure][:2] for measure in WEIGHTS]
        foretold, knowable = np.moveaxis(np.tensordot(draws, sums, axes=1), 2, 0)
        weights = np.array([*WEIGHTS.values()]) * (knowable > 0)
        shares = foretold / np.where(knowable > 0, knowable, 1)
        return np.asarray((shares * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))

    def skills(draws: Floats) -> Floats:
        base = values(placebo, draws)
        return (values(scores, draws) - base) / np.maximum(1 - base, 1e-9)

    estimate, _ = cluster_bootstrap(skills, len(sessions))
    return estimate.low or 0.0, estimate.high or 0.0


# -- the run


class EarlierStore:
    """A store that receives the sessions of a project as they end. Time only moves forward."""

    def __init__(self, source: SessionStore, folder: Path) -> None:
        self._source = source
        self._copied: set[str] = set()
        self.store = SQLiteSessionStore(folder / "earlier.db")

    def advance(self, earlier: Sequence[Activity]) -> SQLiteSessionStore:
        for activity in earlier:
            if activity.id not in self._copied:
                self.store.append(activity.session, self._source.messages(activity.id))
                self._copied.add(activity.id)
        return self.store


def measure(
    source: SessionStore,
    projects: Sequence[Project],
    builders: Mapping[str, Builder],
    docs: Mapping[str, str],
    budget: int,
) -> dict[str, list[Score]]:
    """Score every builder, and the projects' own docs, on every case."""
    scores: dict[str, list[Score]] = defaultdict(list)
    for project in projects:
        with tempfile.TemporaryDirectory() as folder:
            growing = EarlierStore(source, Path(folder))
            with closing(growing.store):
                for activity, earlier in cases(project):
                    known, own_docs = Known(earlier), docs.get(activity.id, "")
                    store = growing.advance(earlier)
                    history = History(earlier, activity.session.project, own_docs, store, activity.first_branch)
                    for name, build in builders.items():
                        start = parse(build(history, activity.task, budget))
                        if start.tokens > 1.05 * budget:
                            sys.exit(f"{name} built {start.tokens} tokens, more than the budget of {budget}")
                        scores[name].append(score(activity, start, known, parse(own_docs)))
                    if own_docs:
                        scores["docs"].append(score(activity, parse(own_docs), known, parse("")))
    return scores


def show(scores: Mapping[str, Sequence[Score]]) -> None:
    placebo = [one for name, some in scores.items() if name.startswith("placebo") for one in some]
    arms = {"placebo": placebo} | {name: some for name, some in scores.items() if not name.startswith("placebo")}
    print(f"{'':<17}{'tokens':>7}{'F':>6}{'skill':>7}{'[95 %]':>15}{'macro F':>9}{'skill':>7}", end="")
    print(f"{'precision':>11}{'misleading':>12}")
    for name, some in arms.items():
        low, high = skill_interval(some, placebo)
        micro, macro = foresight(some), macro_foresight(some)
        tokens = sum(one.tokens for one in some) / len(some)
        precision = sum(one.used for one in some) / max(1, sum(one.items for one in some))
        misleading = sum(one.misleading for one in some) / len(some)
        print(
            f"{name:<17}{tokens:>7.0f}{micro:>6.2f}{skill(micro, foresight(placebo)):>+7.2f}"
            f"{f'[{low:+.2f} {high:+.2f}]':>15}{macro:>9.2f}{skill(macro, macro_foresight(placebo)):>+7.2f}"
            f"{precision:>11.3f}{misleading:>12.3f}"
        )
    print(f"\n{'predicted':<17}" + "".join(f"{measure:>13}" for measure in MEASURES))
    for name, some in arms.items():
        shares = [pool(some, measure) for measure in MEASURES]
        print(f"{name:<17}" + "".join(f"{_percent(share.foretold, share.total):>13}" for share in shares))
    shares = [pool(placebo, measure) for measure in MEASURES]
    print(f"{'knowable':<17}" + "".join(f"{_percent(share.knowable, share.total):>13}" for share in shares))
    carried = pool(placebo, CARRIED)
    print(f"{'may be carried':<17}{_percent(carried.knowable, carried.total):>13}")


def _percent(part: float, total: float) -> str:
    return f"{part / total:.1%}" if total else "-"


def read_docs(data: Path) -> dict[str, str]:
    """The instruction files (CLAUDE.md, AGENTS.md) as each session found them."""
    path = data.parent / "foresight" / "docs.json.gz"
    if not path.is_file():
        print(f"{path} is missing, so what the docs already say is not discounted")
        return {}
    packed = json.loads(gzip.decompress(path.read_bytes()))
    return {session: packed["texts"][number] for session, number in packed["sessions"].items()}


def parse_options(parser: argparse.ArgumentParser, *, budget: int = BUDGET) -> argparse.Namespace:
    parser.add_argument("--data", type=Path, default=DATA, help="benchmark data (default: %(default)s)")
    parser.add_argument("--budget", type=int, default=budget, help="tokens (default: %(default)s)")
    options = parser.parse_args()
    for name in CORPORA:
        if not (options.data / name).is_dir():
            sys.exit(f"No benchmark data in {options.data / name}; give its folder with --data")
    return options


def open_corpus(data: Path, name: str, folder: Path) -> SQLiteSessionStore:
    store = SQLiteSessionStore(folder / f"{name}.db")
    sync(store, path_sources([data / name]))
    return store


def load_builder(name: str) -> Builder:
    module, _, function = name.partition(":")
    builder: Builder = getattr(import_module(module), function)
    return builder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--builder", action="append", default=[], metavar="MODULE:FUNCTION", help="measure this one too"
    )
    options = parse_options(parser)
    builders = BUILDERS | {name: load_builder(name) for name in options.builder}
    docs = read_docs(options.data)
    for corpus in CORPORA:
        with tempfile.TemporaryDirectory() as folder, closing(open_corpus(options.data, corpus, Path(folder))) as store:
            scores = measure(store, read_projects(store), builders, docs, options.budget)
        some = scores["reference"]
        projects = len({one.project for one in some})
        print(f"\n{corpus}: {len(some)} sessions in {projects} projects, budget {options.budget} tokens\n")
        show(scores)


if __name__ == "__main__":
    main()
