"""Ten briefs to read: what a session got at its start, and what it then did.

`foresight.py` counts what a brief predicted. It cannot see whether a line misleads, or whether a rule fits the task; a
reader can. The sessions are drawn with a seed, in turn from each project, and the last one is from the sample project.
Mark each line `keep` or `drop`, as the model that gets it would; at most one in ten should be dropped.

    python bench/read_briefs.py --seed 1
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

from activity import Activity, Project, cases, read_projects
from builders import History, build_product_brief
from foresight import CORPORA, open_corpus, parse_options, read_docs
from warmstart import SessionStore
from warmstart.templates.brief import DEFAULT_TOKENS
from warmstart.text.truncate import one_line

Case = tuple[Activity, list[Activity], SessionStore]
SAMPLE = "/home/mara/tidewatch"


def draw(projects: Sequence[Sequence[Case]], number: int, seed: int) -> list[Case]:
    """Cases from many projects: one from each in turn, until there are enough."""
    generator = random.Random(seed)
    shuffled = [generator.sample(some, len(some)) for some in projects]
    return [case for turn in zip_longest(*shuffled) for case in turn if case][:number]


def sample_case(store: SessionStore) -> Case:
    """The last session of the sample project; the earlier ones may be from any agent."""
    sessions = [one for project in read_projects(store) for one in project.sessions if one.session.project == SAMPLE]
    *_, (activity, earlier) = cases(Project(SAMPLE, (SAMPLE,), sorted(sessions, key=lambda one: one.started)))
    return activity, earlier, store


def write(number: int, case: Case, docs: str, budget: int) -> Iterator[str]:
    activity, earlier, store = case
    history = History(earlier, activity.session.project, docs, store, activity.first_branch)
    brief = build_product_brief(history, activity.task, budget)
    changed = activity.files("edit")
    yield f"## {number}. {activity.project}, session {activity.id}, after {len(earlier)} earlier ones\n"
    yield f"Task: {one_line(activity.task, 400)}\n"
    yield f"```text\n{brief}\n```\n"
    yield "What the session then did:\n"
    yield f"- ran: {_join(f'`{command}`' for command in activity.commands())}"
    yield f"- changed: {_join(changed)}"
    yield f"- read first: {_join(sorted(activity.read_first() - changed.keys()))}"
    yield f"- errors: {_join(one.error for one in activity.errors() if one.trap == 'project')}"
    yield f"- was told: {_join(one_line(text, 160) for text in activity.requests[1:6])}\n"


def _join(texts: Iterator[str] | Sequence[str] | dict[str, int]) -> str:
    return ", ".join(texts) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed for drawing sessions (default: %(default)s)")
    parser.add_argument("--number", type=int, default=10, help="number of briefs (default: %(default)s)")
    options = parse_options(parser, budget=DEFAULT_TOKENS)
    docs = read_docs(options.data)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        stores = [open_corpus(options.data, corpus, Path(folder)) for corpus in CORPORA]
        stores.append(open_corpus(Path(str(files("warmstart"))), "samples", Path(folder)))
        for store in stores:
            opened.enter_context(closing(store))
        projects = [
            [(*case, store) for case in cases(project)] for store in stores[:-1] for project in read_projects(store)
        ]
        drawn = [*draw(projects, options.number - 1, options.seed), sample_case(stores[-1])]
        for number, case in enumerate(drawn, 1):
            print("\n".join(write(number, case, docs.get(case[0].id, ""), options.budget)))


if __name__ == "__main__":
    main()
