"""Do the examples of a template show what the next session calls? Measured on real history, without a model.

For each session, a template is made from the sessions of the same project and agent that had ended before it began: the
newest twenty, or the last one. Counted are the session's calls that have the same tool and argument names, the same
form (for a shell: program, subcommand and options) or name the same file as an example. Mere form scores too, so the
comparison is always with as many calls of two other sources:

- other: the examples of other projects of the same agent, the mean over those projects;
- random: calls drawn at random from the very sessions that the template was made from.

Intervals are 95 % and resample sessions; the columns `by project` weigh projects alike and resample them, and with so
few of them are rough.

    python bench/examples.py --builder frequent             # the calls that most sessions made, as a baseline

Run with `make bench`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from activity import project_name, working_trees
from call_form import Form, arguments_form, forms, is_look_around, paths
from foresight import DATA, open_corpus
from warmstart import Filter, Session, SessionStore
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import AnnotatedStep
from warmstart.stats import Estimate, cluster_bootstrap, cluster_ratio
from warmstart.templates import SessionExtractor, SessionItems
from warmstart.templates.make import merge
from warmstart.tokens import count

CORPORA = ("sessions", "history", "projects")
MIN_EARLIER = 3
NEWEST = 20
EXAMPLES = 10
FIRST = 10
DRAWS = 200
MEASURES = ("tool and arguments", "form", "path")


class Call(NamedTuple):
    """A tool call, reduced to what is compared. `looks` means that it only looks around."""

    arguments: Form
    forms: frozenset[Form]
    paths: frozenset[str]
    looks: bool = False


def to_call(tool: str, arguments: str, roots: tuple[str, ...]) -> Call:
    looks = is_look_around(tool, arguments)
    return Call(arguments_form(tool, arguments), forms(tool, arguments), paths(tool, arguments, roots), looks)


@dataclass
class Past:
    """One session: its calls, and what the product and the baseline may use of it."""

    session: Session
    calls: list[Call]  # in order, without plans
    worked: list[Call]
    texts: list[tuple[str, str]]  # tool and arguments of those that worked
    items: SessionItems

    @property
    def began(self) -> float:
        return self.session.started_at.timestamp() if self.session.started_at else 0.0

    @property
    def ended(self) -> float:
        return self.session.ended_at.timestamp() if self.session.ended_at else float("inf")


@dataclass
class Project:
    name: str
    corpus: str
    roots: tuple[str, ...]
    sessions: list[Past] = field(default_factory=list)

    def of(self, agent: str) -> list[Past]:
        return [past for past in self.sessions if past.session.agent == agent and past.worked]


def read_projects(store: SessionStore, corpus: str) -> Iterator[Project]:
    groups: dict[str, list[Session]] = defaultdict(list)
    for summary in store.list(Filter()):
        groups[project_name(summary.session)].append(summary.session)
    for name, sessions in sorted(groups.items()):
        roots = working_trees(folder for session in sessions for folder in (session.project, session.directory))
        project = Project(name, corpus, roots)
        for session in sorted(sessions, key=lambda session: (str(session.started_at), session.id)):
            if session.started_at and session.ended_at:
                project.sessions.append(read_past(store, session, roots))
        yield project


def read_past(store: SessionStore, session: Session, roots: tuple[str, ...]) -> Past:
    messages = list(store.messages(session.id))
    steps = [step for step in Profiler().steps(session, messages) if is_work(step)]
    worked = [step for step in steps if step.outcome == "ok"]
    return Past(
        session,
        [to_call(step.call.name, step.call.arguments, roots) for step in steps],
        [to_call(step.call.name, step.call.arguments, roots) for step in worked],
        [(step.call.name, step.call.arguments) for step in worked],
        SessionExtractor().items(session, messages),
    )


def is_work(step: AnnotatedStep) -> bool:
    return bool(step.call.name) and step.role != "note"


# -- builders: the examples that a template made from some sessions shows

Builder = Callable[[Sequence[Past]], list[tuple[str, str]]]


def build_template(sessions: Sequence[Past]) -> list[tuple[str, str]]:
    """The examples that the product shows: those that worked."""
    seed = merge([past.items for past in sessions], max_examples=EXAMPLES)
    return [(example.tool_name, example.arguments) for example in seed.tool_examples if example.success][:EXAMPLES]


def build_frequent(sessions: Sequence[Past]) -> list[tuple[str, str]]:
    """One call of each form, those that most sessions made first."""
    made: dict[frozenset[Form], set[str]] = defaultdict(set)
    same: dict[frozenset[Form], Counter[tuple[str, str]]] = defaultdict(Counter)
    for past in sessions:
        for tool, arguments in past.texts:
            form = forms(tool, arguments)
            made[form].add(past.session.id)
            same[form][tool, arguments] += 1
    best = sorted(made, key=lambda form: (-len(made[form]), -same[form].total()))[:EXAMPLES]
    return [same[form].most_common(1)[0][0] for form in best]


BUILDERS: dict[str, Builder] = {"template": build_template, "frequent": build_frequent}


# -- scoring


class Shown(NamedTuple):
    """What a list of calls shows."""

    arguments: frozenset[Form]
    forms: frozenset[Form]
    paths: frozenset[str]


def show_calls(calls: Iterable[Call]) -> Shown:
    calls = list(calls)
    every_form = frozenset(form for call in calls for form in call.forms)
    every_path = frozenset(path for call in calls for path in call.paths)
    return Shown(frozenset(call.arguments for call in calls), every_form, every_path)


def count_hits(calls: Sequence[Call], shown: Shown) -> tuple[int, int, int]:
    """How many of these calls are like one that is shown, for each measure."""
    arguments = sum(call.arguments in shown.arguments for call in calls)
    same_form = sum(bool(call.forms) and call.forms <= shown.forms for call in calls)
    return arguments, same_form, sum(not call.paths.isdisjoint(shown.paths) for call in calls)


class Score(NamedTuple):
    """One session: for each measure the calls that count, and the hits of the three sources."""

    project: str
    totals: tuple[int, int, int]
    own: tuple[float, ...]
    other: tuple[float, ...]
    random: tuple[float, ...]
    tokens: int  # of the examples


def mean_hits(calls: Sequence[Call], several: Sequence[Shown]) -> tuple[float, ...]:
    counted = [count_hits(calls, shown) for shown in several]
    return tuple(sum(numbers) / len(counted) for numbers in zip(*counted, strict=True))


def draw(pool: Sequence[Call], number: int, seed: str) -> list[Shown]:
    """Many draws of so many calls, always the same."""
    generator = random.Random(seed)
    return [show_calls(generator.sample(pool, min(number, len(pool)))) for _ in range(DRAWS)]


class Setting(NamedTuple):
    builder: Builder
    newest: int  # sessions that a template is made from
    first: int | None  # calls of the later session that count
    looks: bool  # whether look-arounds count


class Bench:
    """The projects, with the examples of each project as others see it."""

    def __init__(self, projects: Sequence[Project]) -> None:
        self.projects = projects
        self._elsewhere: dict[tuple[str, str, Builder, int], list[Call]] = {}

    def score(self, corpus: str, setting: Setting) -> list[Score]:
        projects = [project for project in self.projects if project.corpus == corpus]
        scores = [self._score(project, past, setting) for project in projects for past in project.sessions]
        return [score for score in scores if score]

    def _score(self, project: Project, past: Past, setting: Setting) -> Score | None:
        if past.session.parent_kind is not None:
            return None
        calls = [call for call in past.calls[: setting.first] if setting.looks or not call.looks]
        earlier = [one for one in project.of(past.session.agent) if one.ended < past.began]
        if not calls or len(earlier) < MIN_EARLIER:
            return None
        others = self._others(project, past.session.agent, setting)
        if not others:
            return None
        used = newest(earlier, setting.newest)
        texts = setting.builder(used)
        examples = [to_call(*text, project.roots) for text in texts]
        pool = [call for one in used for call in one.worked if setting.looks or not call.looks]
        return Score(
            project.name.partition("@")[0],
            (len(calls), len(calls), sum(bool(call.paths) for call in calls)),
            mean_hits(calls, [show_calls(examples)]),
            mean_hits(calls, others),
            mean_hits(calls, draw(pool, len(examples), past.session.id)),
            sum(count("\n".join(text)) for text in texts),
        )

    def _others(self, project: Project, agent: str, setting: Setting) -> list[Shown]:
        """What the templates of the other projects of this agent show."""
        shown = []
        for other in self.projects:
            if is_same_project(other, project):
                continue
            key = (f"{other.corpus}/{other.name}", agent, setting.builder, setting.newest)
            if key not in self._elsewhere:
                sessions = other.of(agent)
                found = setting.builder(newest(sessions, setting.newest)) if len(sessions) >= MIN_EARLIER else []
                self._elsewhere[key] = [to_call(*call, other.roots) for call in found]
            if self._elsewhere[key]:
                shown.append(show_calls(self._elsewhere[key]))
        return shown


def newest(sessions: Sequence[Past], number: int) -> list[Past]:
    return sorted(sessions, key=lambda past: (past.ended, past.session.id))[-number:]


def is_same_project(one: Project, other: Project) -> bool:
    """Whether two projects are one repository: two corpora, or two people, may have the same."""
    return one.name.partition("@")[0].replace("_", "-") == other.name.partition("@")[0].replace("_", "-")


# -- showing


def estimate_of(scores: Sequence[Score], measure: int, source: str, minus: str = "") -> Estimate:
    """The share of calls over all sessions, or the paired difference of two."""
    known = [score for score in scores if score.totals[measure]]
    hits = [getattr(score, source)[measure] - (getattr(score, minus)[measure] if minus else 0) for score in known]
    return cluster_ratio(hits, [score.totals[measure] for score in known])


def estimate_by_project(scores: Sequence[Score], measure: int, source: str, minus: str) -> Estimate:
    """The mean over projects of the difference of two shares."""
    hits: dict[str, float] = defaultdict(float)
    totals: Counter[str] = Counter()
    for score in scores:
        hits[score.project] += getattr(score, source)[measure] - getattr(score, minus)[measure]
        totals[score.project] += score.totals[measure]
    shares = np.array([hits[name] / total for name, total in totals.items() if total])
    return cluster_bootstrap(lambda weights: weights @ shares / weights.sum(axis=1), len(shares))[0]


def written(estimate: Estimate, *, sign: bool = False) -> str:
    if estimate.estimate is None:
        return "-"
    number = f"{100 * estimate.estimate:+.0f}" if sign else f"{100 * estimate.estimate:.0f}"
    if not sign or estimate.low is None or estimate.high is None:
        return number
    return f"{number} [{100 * estimate.low:+.0f}, {100 * estimate.high:+.0f}]"


def print_table(bench: Bench, corpus: str, builder: Builder) -> None:
    print(f"{'':<38}{'calls':>6}{'own':>5}{'other':>6}{'random':>7}", end="")
    print(f"{'own - other':>17}{'own - random':>17}{'- by project':>17}{'- by project':>17}")
    for sessions, name in ((NEWEST, f"newest {NEWEST}"), (1, "last one")):
        for first in (FIRST, None):
            for looks in (True, False):
                scores = bench.score(corpus, Setting(builder, sessions, first, looks))
                title = f"{name}, {f'first {first}' if first else 'all'} calls{'' if looks else ', no look-arounds'}"
                projects = len({score.project for score in scores})
                tokens = sum(score.tokens for score in scores) / max(1, len(scores))
                print(f"{title}: {len(scores)} sessions, {projects} projects, {tokens:.0f} tokens of examples")
                for measure, label in enumerate(MEASURES):
                    print_row(scores, measure, label)


def print_row(scores: Sequence[Score], measure: int, label: str) -> None:
    calls = sum(score.totals[measure] for score in scores)
    shares = [written(estimate_of(scores, measure, source)) for source in ("own", "other", "random")]
    print(f"  {label:<36}{calls:>6}{shares[0]:>5}{shares[1]:>6}{shares[2]:>7}", end="")
    for estimate in (
        estimate_of(scores, measure, "own", "other"),
        estimate_of(scores, measure, "own", "random"),
        estimate_by_project(scores, measure, "own", "other"),
        estimate_by_project(scores, measure, "own", "random"),
    ):
        print(f"{written(estimate, sign=True):>17}", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--builder", choices=BUILDERS, default="template")
    parser.add_argument("--corpus", action="append", choices=CORPORA)
    args = parser.parse_args()
    for name in CORPORA:
        if not (args.data / name).is_dir():
            sys.exit(f"No benchmark data in {args.data / name}; give its folder with --data")
    projects: list[Project] = []
    for corpus in CORPORA:
        with tempfile.TemporaryDirectory() as folder, closing(open_corpus(args.data, corpus, Path(folder))) as store:
            projects += read_projects(store, corpus)
    bench = Bench(projects)
    for corpus in args.corpus or CORPORA:
        print(f"\n{corpus}: share of later calls that are like an example, in percent\n")
        print_table(bench, corpus, BUILDERS[args.builder])


if __name__ == "__main__":
    main()
