"""What memory costs: store and retrieve against a bare prepared statement in the same transaction mode, and queries.

The bare statement is an upsert into, or a select from, the simplest table for the same data, in a file with the same
settings; every write is its own transaction on both sides. For a write over another value, the bare side also inserts
the old value into a history table. Rounds alternate. The median is wall-clock time; the mean is processor time, so that
other load does not count and index updates do. Every query runs once, after others of the same kinds, and every answer
counts. Then what the ranking finds on the labelled questions and on others that were written later, with and without
vectors, and the trade-off between finding and silence for other thresholds.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from warmstart.embedding.embedders import MiniLMEmbedder, WordLlamaEmbedder
from warmstart.memory import search, semantic, sql
from warmstart.memory.backend import NullBackend
from warmstart.memory.evaluation import KINDS, Labelled, Question, Relevance, labelled, measure_relevance
from warmstart.memory.local import LocalBackend
from warmstart.redact.redactor import Redactor

SETTINGS = (
    *("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -32768", "wal_autocheckpoint = 8192"),
    *("secure_delete = ON", "foreign_keys = ON", "temp_store = MEMORY"),
)
TABLE = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, user_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, "
    "created_at REAL NOT NULL, updated_at REAL NOT NULL, metadata TEXT NOT NULL, UNIQUE (user_id, key))"
)
UPSERT = (
    "INSERT INTO entries (user_id, key, value, created_at, updated_at, metadata) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (user_id, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at, "
    "metadata = excluded.metadata"
)
HISTORY_TABLE = "CREATE TABLE history (id INTEGER PRIMARY KEY, user_id TEXT, key TEXT, value TEXT, until REAL)"
HISTORY = (
    "INSERT INTO history (user_id, key, value, until) SELECT user_id, key, value, ? FROM entries "
    "WHERE user_id = ? AND key = ?"
)
SELECT = "SELECT key, value, user_id, created_at, updated_at, metadata FROM entries WHERE user_id = ? AND key = ?"
_TOPICS = """
editor language database framework city birthday colour shell browser keyboard timezone format style deadline server
port branch reviewer coffee music font theme linter package manager test runner cloud region account team
"""
_FILLER = """
the user prefers always never uses likes small short quick large with for in on project morning evening review before
after commit release build deploy local remote default when writing code reading documents meeting notes
"""
TOPICS, FILLER = _TOPICS.split(), _FILLER.split()
FLOORS = {"": 0.0, "wordllama": WordLlamaEmbedder.floor, "minilm": MiniLMEmbedder.floor}
EMBEDDERS = tuple(FLOORS)


class Facts:
    """Keys and values as an agent writes them: some words that all have, some that few have."""

    def __init__(self, seed: int = 6) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.names = ["".join(self._random.choices(letters, k=self._random.randint(4, 10))) for _ in range(20_000)]

    def one(self, number: int) -> tuple[str, str]:
        pick = self._random.choice
        key = f"{pick(('pref', 'fact', 'note', 'project'))}_{pick(TOPICS)}_{pick(self.names)}_{number}"
        words = [pick(FILLER) for _ in range(8)] + [pick(TOPICS), pick(self.names), pick(self.names)]
        return key, " ".join(words)

    def questions(self, keys: list[str]) -> list[str]:
        """Exact keys, names, topics, several common words, prefixes, unknown words, and the empty query."""
        asked = []
        for key in self._random.sample(keys, min(100, len(keys))):
            _, topic, name, _ = key.split("_")
            asked += [key, f"which {topic} do I use for {name}?", name[:4], f"{topic} {self._random.choice(TOPICS)}"]
            asked += [f"what does the user prefer for {topic} when writing code", topic, ""]
        return [*asked, "xylophone quintet", "zzqx", "does the user like it"]


def bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    connection.execute(TABLE)
    connection.execute(HISTORY_TABLE)
    return connection


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def spent(action: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor time."""
    began = time.process_time()
    return timed(action), time.process_time() - began


def compare(folder: Path, entries: int, *, redact: bool) -> None:
    connection = bare(folder / f"bare-{redact}.db")
    backend = LocalBackend(folder / f"ours-{redact}.db", redact=redact)
    source = Facts()
    facts = [source.one(number) for number in range(entries)]

    def plain(key: str, value: str) -> None:  # a statement by itself is a transaction, on both sides
        now = time.time()
        connection.execute(UPSERT, ("user", key, value, now, now, ""))

    def plain_with_history(key: str, value: str) -> None:
        now = time.time()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(HISTORY, (now, "user", key))
        connection.execute(UPSERT, ("user", key, value, now, now, ""))
        connection.execute("COMMIT")

    def rounds(name: str, theirs: Callable[[str, str], object], ours: Callable[[str, str], object]) -> None:
        times: tuple[list[float], list[float]] = ([], [])
        spent = [0.0, 0.0]
        for start in range(0, entries, 1000):
            some = facts[start : start + 1000]
            for side, action in enumerate((theirs, ours)):
                began = time.process_time()
                times[side].extend(timed(lambda: action(*fact)) for fact in some)  # noqa: B023 - used at once
                spent[side] += time.process_time() - began
        show(name, *times, *(each / entries for each in spent))

    label = "" if redact else ", redaction off"
    rounds(f"store, new keys{label}", plain, lambda key, value: backend.store("user", key, value))
    facts = [(key, f"{value} now") for key, value in facts]
    rounds(
        f"store, over another value{label}", plain_with_history, lambda key, value: backend.store("user", key, value)
    )
    rounds(
        f"retrieve{label}",
        lambda key, _: connection.execute(SELECT, ("user", key)).fetchone(),
        lambda key, _: backend.retrieve("user", key),
    )
    backend.close()
    connection.close()


def show(name: str, theirs: list[float], ours: list[float], their_mean: float, our_mean: float) -> None:
    middle = [statistics.median(taken) * 1e6 for taken in (theirs, ours)]
    mean = [their_mean * 1e6, our_mean * 1e6]
    print(
        f"{name:42} median {middle[1]:5.1f} µs, bare {middle[0]:5.1f}: {middle[1] / middle[0]:.2f} times;"
        f"  mean {mean[1]:5.1f} µs, bare {mean[0]:5.1f}: {mean[1] / mean[0]:.2f} times  (at most 1.5)"
    )


def questions(folder: Path, sizes: list[int]) -> None:
    backend = LocalBackend(folder / "questions.db", redact=False)
    source = Facts()
    others = [source.one(number) for number in range(max(sizes) // 2)]
    for user in range(4):
        for key, value in others[user::4]:
            backend.store(f"other {user}", key, value)
    for size in sizes:
        user = f"user with {size}"
        facts = [source.one(number) for number in range(size)]
        for key, value in facts:
            backend.store(user, key, value)
        for question in source.questions([key for key, _ in facts]):  # the first brings the index up to date
            backend.query(user, question)
        asked = source.questions([key for key, _ in facts])
        both = [spent(lambda: backend.query(user, question)) for question in asked]  # noqa: B023 - used at once
        for name, times in zip(("on the clock", "processor"), map(sorted, zip(*both, strict=True)), strict=True):
            p50, p95, p99 = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.95, 0.99))
            print(
                f"query over {size:7} entries, {name:12}{'':5} p50 {p50:6.2f} ms  p95 {p95:6.2f} ms  p99 {p99:6.2f}  "
                "(p95 at most 15)"
            )
    backend.close()


def null(calls: int = 200_000) -> None:
    backend = NullBackend()
    for name, action in (
        ("store", lambda: backend.store("user", "key", "value")),
        ("retrieve", lambda: backend.retrieve("user", "key")),
        ("query", lambda: backend.query("user", "which editor")),
    ):
        began = time.perf_counter()
        for _ in range(calls):
            action()
        taken = (time.perf_counter() - began) / calls * 1e6
        print(f"null {name:39} {taken:6.2f} µs a call  (at most 1)")


def relevance(folder: Path) -> None:
    """The relevance table for each embedder and without one, and the trade-off curve of the thresholds."""
    for name, data in (("labelled", labelled()), ("check", check_set())):
        for embedder in EMBEDDERS:
            sql.installed_embedder = (lambda found: lambda: found)(embedder)
            backend = LocalBackend(folder / f"{name}-{embedder}.db", redact=False)
            for place in range(max(map(len, data.memories.values()))):
                for (person, key), values in data.memories.items():
                    if place < len(values):
                        backend.store(person, key, values[place])
            ask = lambda person, text: backend.query(person, text, 5)  # noqa: B023, E731 - used at once
            show_relevance(f"{name}, {embedder or 'words alone'}", measure_relevance(ask, data))
            thresholds = search._MIN_WORDS, semantic._SURE
            for factor in (0.0, 0.7, 0.85, 1.15, 1.3, 1.6):
                search._MIN_WORDS = {each: value * factor for each, value in thresholds[0].items()}
                semantic._SURE = (FLOORS[embedder] + thresholds[1]) * factor - FLOORS[embedder]
                show_relevance(f"  thresholds times {factor:g}", measure_relevance(ask, data))
            search._MIN_WORDS, semantic._SURE = thresholds
            backend.close()


def show_relevance(name: str, found: Relevance) -> None:
    cells = []
    for kind, shares in found.kinds.items():
        if shares["questions"]:
            value = (
                f"{shares['silent']:.0%} silent"
                if "silent" in shares
                else "{first:.0%}/{among_five:.0%}".format(**shares)
            )
            cells.append(f"{kind} {value}")
    print(f"{name:30} {'; '.join(cells)}; stale {found.stale}, leaked {found.leaked}")


def check_set() -> Labelled:
    """Other memories and questions, which no constant was chosen on."""
    data = tomllib.loads(Path(__file__).with_name("memory_questions.toml").read_text(encoding="utf-8"))
    memories = {(person, key): [value] for person, some in data["memories"].items() for key, value in some.items()}
    asked = [
        Question(kind, person, text, "".join(key)) for kind in KINDS for person, text, *key in data["questions"][kind]
    ]
    return Labelled(memories, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--only", choices=("speed", "relevance"), help="measure only one of the two")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 1_000, 100_000])
    options = parser.parse_args()
    Redactor()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "relevance":
            compare(Path(folder), options.entries, redact=True)
            compare(Path(folder), options.entries, redact=False)
            for embedder in EMBEDDERS[:2]:
                sql.installed_embedder = (lambda found: lambda: found)(embedder)
                print(f"by words{' and meaning' if embedder else ''}:")
                questions(Path(folder) / f"by{embedder}", options.sizes)
            null()
        if options.only != "speed":
            relevance(Path(folder))


if __name__ == "__main__":
    main()
