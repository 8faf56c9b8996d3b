"""Recall compared with plain full-text search: how often it finds the answer, what it costs, and what it stores.

Run with `make bench`. The baselines are FTS5 over messages and FTS5 over turns, in the same run. A question about
sessions counts at k if one of the first k sessions is right; a question about messages, if one of the first k passages
has a message that answers it. The rows below the baselines change one part of the ranking.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from recall_baselines import Hit, Searcher, fts5_over_messages, fts5_over_turns
from recall_questions import DATA, Question, beam, commits, locomo, long_sessions
from recall_speed import measure_size, open_vectors, real_speed, synthetic_speed
from warmstart.errors import LogError
from warmstart.recall import query, ranking
from warmstart.recall.recall import Recall
from warmstart.sessions.sql_store import SQLiteSessionStore

KS = (1, 5, 10)
MAX_PASSAGES = 10
MAX_SESSION_PASSAGES = 30  # several may be from the same session
SETS = ("locomo", "undated", "long", "commits", "beam")


class Ablation(NamedTuple):
    """A row of the table: a constant of the ranking that has another value."""

    label: str
    module: ModuleType
    constant: str
    value: object


NOTHING = re.compile(r"(?!)")
ABLATIONS = (
    Ablation("without neighbours", ranking, "NEIGHBOURS", 0),
    Ablation("without the session", ranking, "SESSION", 0),
    Ablation("with the fields of a turn as one", ranking, "SHORT", math.inf),
    Ablation("without what was thought", ranking, "WEIGHTS", (1.0, 1.0, 0.0, 0.5)),
    Ablation("without what was done", ranking, "WEIGHTS", (1.0, 1.0, 0.5, 0.0)),
    Ablation("without dates", ranking, "DATES", 0),
    Ablation("without names", ranking, "NAMES", 0),
    Ablation("without what is asked for", ranking, "ANSWER", 0),
    Ablation("with phrases on how to answer", query, "HOW_TO_ANSWER", NOTHING),
)


class QuestionSet(NamedTuple):
    """A loader of questions, and where their data is."""

    name: str
    title: str
    path: Path
    load: Callable[[SQLiteSessionStore, Path], list[Question]]


# -- quality


def recall_searcher(recall: Recall) -> Searcher:
    def search(question: Question) -> list[Hit]:
        limit = MAX_SESSION_PASSAGES if question.unit == "session" else MAX_PASSAGES
        found = recall.search(question.text, project=question.project, limit=limit)
        return [Hit(evidence.native_id, evidence.message_ids) for evidence in found]

    return search


def rank_of_gold(question: Question, hits: list[Hit]) -> int | None:
    """The place of the first right answer, from 1."""
    if question.unit == "session":
        sessions = list(dict.fromkeys(hit.session for hit in hits))
        answers = [{session} for session in sessions]
    else:
        answers = [set(hit.messages) for hit in hits]
    for place, answer in enumerate(answers, 1):
        if answer & question.gold:
            return place
    return None


def hit_rates(questions: list[Question], search: Searcher) -> list[float]:
    """The share of questions with a right answer among the first k, for each k."""
    ranks = [rank_of_gold(question, search(question)) for question in questions]
    rates = []
    for k in KS:
        right = [rank for rank in ranks if rank is not None and rank <= k]
        rates.append(len(right) / len(ranks))
    return rates


class Table:
    """A row for each searcher, a column for each kind of question."""

    def __init__(self, title: str, questions: list[Question], sessions: int) -> None:
        self._columns: dict[str, list[Question]] = {}
        for question in questions:
            self._columns.setdefault(question.kind, []).append(question)
        units = " and ".join(sorted({question.unit for question in questions}))
        print(f"\n{title}: {sessions} sessions, answers by {units}; hit@1 / @5 / @10")
        names = "".join(f"{f'{kind} ({len(asked)})':>26}" for kind, asked in self._columns.items())
        print(f"{'':<40}{names}", flush=True)

    def add(self, label: str, search: Searcher) -> None:
        cells = []
        for questions in self._columns.values():
            rates = hit_rates(questions, search)
            cells.append(" / ".join(f"{rate:.3f}" for rate in rates))
        print(f"{label:<40}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


@contextmanager
def applied(ablation: Ablation) -> Iterator[None]:
    """Change a constant of the ranking for a while."""
    value = getattr(ablation.module, ablation.constant)
    setattr(ablation.module, ablation.constant, ablation.value)
    try:
        yield
    finally:
        setattr(ablation.module, ablation.constant, value)


def measure_quality(
    title: str, store: SQLiteSessionStore, questions: list[Question], ablations: Sequence[Ablation]
) -> None:
    Recall(store).update()
    table = Table(title, questions, len(store.list()))
    table.add("FTS5 over messages", fts5_over_messages(store).search)
    table.add("FTS5 over turns", fts5_over_turns(store).search)
    for ablation in ablations:
        with applied(ablation):
            table.add(f"recall {ablation.label}", recall_searcher(Recall(store)))
    table.add("recall", recall_searcher(Recall(store)))
    with open_vectors(store) as semantic:
        if semantic is not None:
            table.add("recall with vectors", recall_searcher(Recall(store, semantic=semantic)))


# -- all


def undated_locomo(store: SQLiteSessionStore, path: Path) -> list[Question]:
    return locomo(store, path, dated=False)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    locomo_path = DATA / "locomo" / "locomo_dev5.json"
    parser.add_argument("--locomo", type=Path, default=locomo_path, help="a file, a folder or a pattern")
    parser.add_argument("--beam", type=Path, default=DATA / "beam", help="a file, a folder or a pattern")
    parser.add_argument("--commits", type=Path, default=DATA / "sessions", help="logs and commit_to_session_queries")
    parser.add_argument("--messages", type=int, nargs="*", default=[100_000], help="sizes of the synthetic stores")
    parser.add_argument("--only", nargs="+", choices=(*SETS, "speed", "size"), default=(*SETS, "speed", "size"))
    parser.add_argument("--no-ablation", action="store_true")
    parser.add_argument("--no-postgres", action="store_true")
    return parser.parse_args()


def measure_sets(options: argparse.Namespace, folder: Path) -> None:
    sets = (
        QuestionSet("locomo", "LoCoMo", options.locomo, locomo),
        QuestionSet("undated", "LoCoMo without dates", options.locomo, undated_locomo),
        QuestionSet("long", "long sessions", options.locomo, long_sessions),
        QuestionSet("commits", "commits", options.commits, commits),
        QuestionSet("beam", "BEAM", options.beam, beam),
    )
    chosen = [question_set for question_set in sets if question_set.name in options.only]
    ablations = () if options.no_ablation else ABLATIONS
    for question_set in chosen:
        with closing(SQLiteSessionStore(folder / f"{question_set.name}.db")) as store:
            questions = load(question_set.load, store, question_set.path)
            if questions:
                measure_quality(question_set.title, store, questions, ablations)


def load(
    loader: Callable[[SQLiteSessionStore, Path], list[Question]], store: SQLiteSessionStore, path: Path
) -> list[Question]:
    try:
        questions = loader(store, path)
    except (FileNotFoundError, LogError):
        questions = []
    if not questions:
        print(f"bench/recall.py: no questions in {path}; not measured", file=sys.stderr)
    return questions


def measure_speed(options: argparse.Namespace, folder: Path) -> None:
    for messages in options.messages:
        home = folder / str(messages)
        home.mkdir()
        synthetic_speed(messages, home, postgres=not options.no_postgres)
    with (
        closing(SQLiteSessionStore(folder / "coding.db")) as coding,
        closing(SQLiteSessionStore(folder / "talk.db")) as talk,
    ):
        subjects = load(commits, coding, options.commits)
        asked = load(locomo, talk, options.locomo)
        if subjects and asked:
            Recall(coding).update()
            queries = {
                "commit subjects": [question.text for question in subjects],
                "LoCoMo questions": [question.text for question in asked],
            }
            real_speed(coding, queries)


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_sets(options, folder)
        if "speed" in options.only:
            measure_speed(options, folder)
        logs = [path for path in (DATA / "sessions", DATA / "history") if path.is_dir()]
        if "size" in options.only and logs:
            measure_size(logs, folder)


if __name__ == "__main__":
    main()
