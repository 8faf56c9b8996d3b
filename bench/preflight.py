"""The overlay before a user turn: how long it takes, and whether it is right to show something.

Run with `make bench`. Times are CPU times in units of `python -c pass`, for a store with 100,000 messages: the overlay
in process, also while another process locks the database or with a database that is ten times slower, and the whole
prompt hook.

Whether it shows something is measured on two sets. LoCoMo's conversations are projects: for a question asked in its own
conversation, the overlay (`always`) is right if it quotes a session that has the answer; in another conversation, it is
right to stay silent. The real messages were labelled by hand before any rule was written; 300 of a random draw are
asked against the sessions that had ended before (`smart`): if a message points to earlier work, it is right to show
something; if a later message does not, it is right to stay silent. `turns.py` measures whether what is shown is useful.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from activity import read_projects
from cpu import Percentiles, python_start, python_starts, seconds_with_children
from foresight import open_corpus
from recall_questions import DATA, locomo
from synthetic_store import make_queries, vocabulary
from turns import Past, measure, policy_with
from warmstart.hosts.hook import CODE
from warmstart.preflight.gate import classify, points_to_earlier_work
from warmstart.preflight.index import update_turns
from warmstart.preflight.overlay import Overlay, Preflight
from warmstart.profile.feedback import own_words
from warmstart.recall.recall import Recall
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.storage.compression import register
from warmstart.templates.item_store import ItemStore

LABELS = Path(__file__).with_name("preflight_labels.json")
SCORES = (0.2, 0.25, 0.3, 0.34, 0.36, 0.38, 0.4, 0.5)
PROJECTS, TURNS = 5, 10
DEADLINE = policy_with().cpu_limit * 1000
RUNS = 30  # of the hook

# -- a large store


class Made:
    """Sessions of 50 messages of made-up words with natural frequencies, each with its topic, files and commands."""

    def __init__(self, folder: Path) -> None:
        self.projects = [str((folder / f"project{number}").resolve()) for number in range(PROJECTS)]
        for project in self.projects:
            Path(project).mkdir()
        self._chance = np.random.default_rng(1)
        self._words = vocabulary(200_000)
        weights = 1 / np.arange(1, len(self._words) + 1) ** 1.05
        self._chances = np.cumsum(weights / weights.sum())
        self._files = [f"src/{self._words[place // 8]}/{self._words[place * 7]}.py" for place in range(600)]

    def _text(self, topic: np.ndarray) -> str:
        size = int(np.clip(self._chance.lognormal(3.0, 0.8), 3, 300))
        drawn = np.searchsorted(self._chances, self._chance.random(size))
        drawn = np.where(self._chance.random(size) < 0.3, topic[self._chance.integers(0, len(topic), size)], drawn)
        return " ".join(self._words[number] for number in drawn)

    def fill(self, store: SQLiteSessionStore, messages: int) -> list[str]:
        """Store sessions with this many messages in total; returns questions about them."""
        asked = []
        for number in range(messages // 50):
            topic = np.searchsorted(self._chances, self._chance.random(60) ** 0.7)
            began = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=40 * number)
            rows = list(self._turns(number, topic, began))
            project = self.projects[number % PROJECTS]
            store.append(Session(agent="claude-code", native_id=str(number), project=project, started_at=began), rows)
            asked += [rows[5].text] if number % 5 == 0 and len(asked) < 300 else []
        Recall(store).update()
        ItemStore(store).update()
        update_turns(store, Redactor())
        return make_queries(asked, self._words[:40])

    def _turns(self, session: int, topic: np.ndarray, began: datetime) -> Iterator[Message]:
        files = [self._files[int(place)] for place in self._chance.zipf(1.2, 8) % len(self._files)]
        project = self.projects[session % PROJECTS]
        for place in range(TURNS * 5):
            name, at = f"{session}/{place}", began + timedelta(seconds=20 * place)
            path = f"{project}/{files[int(self._chance.integers(0, len(files)))]}"
            calls = (
                ToolCall(id=f"{name}/call", name="Edit", arguments=json.dumps({"file_path": path, "old_string": "a"})),
                ToolCall(id=f"{name}/call", name="Bash", arguments=json.dumps({"command": f"pytest tests/{place}.py"})),
            )
            step = place % 5
            if step in (0, 4):
                role = "user" if step == 0 else "assistant"
                yield Message(native_id=name, role=role, text=self._text(topic), timestamp=at)
            elif step in (1, 3):
                call = calls[step // 3]
                yield Message(
                    native_id=name, role="assistant", text=self._text(topic), tool_calls=(call,), timestamp=at
                )
            else:
                result = ToolResult(call_id=f"{session}/{place - 1}/call", outcome="ok", text="1 passed")
                yield Message(native_id=name, role="tool", tool_results=(result,), timestamp=at)


# -- times


class Times(NamedTuple):
    """The CPU times of some overlays in seconds, and how many were empty."""

    processor: list[float]
    silent: int

    def show(self, name: str, starts: Sequence[float]) -> None:
        times = Percentiles.of(self.processor, starts)
        print(f"  {name:<26} {times.p50:.2f} / {times.p95:.2f}; {self.silent} silent", flush=True)


def time_overlay(connection: Any, questions: Sequence[str], project: str, deadline: float, number: int = 0) -> Times:
    """Time the overlay for messages at this position in a session."""
    processor, silent = list[float](), 0
    policy = policy_with(deadline_ms=deadline)
    policy.home = str(Path(project).parent)
    for place, question in enumerate(questions):
        session = f"asks-{time.monotonic_ns()}-{place}"
        preflight = Preflight(connection, "sqlite", session=session, project=project, policy=policy)
        used = time.thread_time()
        silent += not preflight.before_turn(question, number=number).text
        processor.append(time.thread_time() - used)
    return Times(processor, silent)


class SlowConnection(sqlite3.Connection):
    """A database that takes ten times as long for every few hundred virtual machine instructions."""

    def set_progress_handler(self, handler: Any, n: int) -> None:
        def wait() -> object:
            now = time.thread_time()  # wall-clock time would multiply the load of other processes by ten
            while time.thread_time() < now + 9 * (now - self._last):
                pass
            stop = handler()
            self._last = time.thread_time()
            return stop

        super().set_progress_handler(wait if handler else None, n)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self._last = time.thread_time()
        return super().execute(*arguments)


def _connect(path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.05, isolation_level=None, factory=factory)
    register(connection)
    connection.execute("PRAGMA synchronous = NORMAL")  # as a hook does
    return connection


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Another process holds the write lock."""
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-uc", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield
        process.communicate(b"\n")


def show_times(path: Path, questions: Sequence[str], project: str) -> None:
    print(f"\nthe overlay in process, {len(questions)} messages; p50 / p95")
    starts = python_starts()
    pointing = [f"as we did last time with {question}" for question in questions]
    with closing(_connect(path)) as connection:
        time_overlay(connection, questions[:20], project, 1000)
        first = time_overlay(connection, questions, project, 1000)
        later = time_overlay(connection, pointing, project, 1000, number=5)
        limited = time_overlay(connection, questions, project, DEADLINE)
        with _locked(path):
            locked = time_overlay(connection, questions, project, DEADLINE)
    with closing(_connect(path, SlowConnection)) as connection:
        slow = time_overlay(connection, questions, project, DEADLINE)
    starts += python_starts()
    first.show("first messages", starts)
    later.show("later ones that point back", starts)
    limited.show(f"a limit of {DEADLINE:.0f} ms", starts)
    locked.show("another process writes", starts)
    slow.show("ten times slower", starts)


def show_hook(home: Path, questions: Sequence[str], project: str) -> None:
    """Time the whole process of hooks, alternating with an empty one, and the imports of a prompt."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "WARMSTART_HOME": str(home)}
    command = [sys.executable, "-EPc", CODE, "hook", "claude-code"]
    failed = {"tool_name": "Bash", "tool_input": {"command": "pytest tests/1.py"}, "error": "Exit code 1"}
    worked = [{"tool_name": "Bash", "tool_input": {"command": "pytest tests/1.py"}, "tool_response": "1 passed"}]
    events: dict[str, tuple[str, float, Callable[[str], dict[str, Any]]]] = {
        "first message": ("UserPromptSubmit", 3.0, lambda question: {"prompt": question}),
        "approval": ("UserPromptSubmit", 2.5, lambda _: {"prompt": "ok"}),
        "failing call": ("PostToolUseFailure", 4.0, lambda _: failed),
        "other call": ("PostToolBatch", 2.0, lambda _: {"tool_calls": worked}),
    }
    times, starts, answered = defaultdict[str, list[float]](list), list[float](), 0
    for number, question in enumerate(questions[: RUNS + 3]):
        for name, (event, _, fields) in events.items():
            data = {"session_id": f"hook-{time.time_ns()}", "cwd": project, **fields(question)}
            before = seconds_with_children()
            line = [*command, event]
            done = subprocess.run(line, input=json.dumps(data).encode(), capture_output=True, env=env, check=True)
            times[name] += [seconds_with_children() - before] if number >= 3 else []
            answered += bool(done.stdout) and name == "first message"
        starts.append(python_start())
    print(f"\nthe whole hook, {answered} of {RUNS + 3} first messages answered; p50 / p95, and the limit of p50")
    for name, (_, limit, _) in events.items():
        ratio = Percentiles.of(times[name], starts)
        print(f"  {name:<26} {ratio.p50:.2f} / {ratio.p95:.2f}; {limit}", flush=True)
    data = {"session_id": "imports", "cwd": project, "prompt": questions[0]}
    line = [command[0], "-X", "importtime", *command[1:], "UserPromptSubmit"]
    done = subprocess.run(line, input=json.dumps(data).encode(), capture_output=True, env=env, check=True)
    rows = [row.removeprefix("import time:").split("|") for row in done.stderr.decode().splitlines()[1:] if "|" in row]
    largest = sorted(rows, key=lambda row: -int(row[0]))[:10]
    print("  imports, ms each: " + ", ".join(f"{name.strip()} {int(own) / 1000:.1f}" for own, _, name in largest))


# -- when it shows something


class Rate(NamedTuple):
    right: float
    silent: float  # if nothing is relevant


def show_curve(name: str, rates: dict[float, Rate]) -> None:
    print(f"\n{name}\n  {'min_score':<12}" + "".join(f"{score:>8}" for score in rates))
    for measure_name in Rate._fields:
        print(f"  {measure_name:<12}" + "".join(f"{getattr(rate, measure_name):>8.1%}" for rate in rates.values()))
    enough = [rate for rate in rates.values() if rate.silent >= 0.9]
    if enough:
        print(f"  right at 90 % silence: {max(rate.right for rate in enough):.1%}", flush=True)


def curve_of_locomo(path: Path, folder: Path) -> None:
    chance = random.Random(1)
    with closing(SQLiteSessionStore(folder / "locomo.db")) as store:
        questions = locomo(store, path)
        Recall(store).update()
        ItemStore(store).update()
        update_turns(store, Redactor())
        connection = store.database.connection
        names = dict(connection.execute("SELECT pk, native_id FROM sessions").fetchall())
        projects = sorted({each.project or "" for each in questions})
        others = [chance.choice([one for one in projects if one != each.project]) for each in questions]

        def ask(question: str, project: str, score: float) -> set[str]:
            policy = policy_with(inject="always", min_score=score, deadline_ms=1000)
            preflight = Preflight(connection, "sqlite", session="", project=project, policy=policy)
            overlay = preflight.before_turn(question, number=2)
            return {names[int(key.partition(":")[0])] for key in overlay.evidence}

        rates = {}
        for score in SCORES:
            right = [bool(each.gold & ask(each.text, each.project or "", score)) for each in questions]
            silent = [not ask(each.text, other, score) for each, other in zip(questions, others, strict=True)]
            rates[score] = Rate(float(np.mean(right)), float(np.mean(silent)))
    show_curve(f"LoCoMo: {len(questions)} questions in their own conversation and in another one", rates)


Labels = dict[str, dict[str, Any]]


def key_of(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def curve_of_messages(store: SQLiteSessionStore, labels: Labels) -> None:
    natural = sorted(key for key, label in labels.items() if label["natural"])[:300]
    answers: dict[float, dict[str, Overlay]] = {score: {} for score in SCORES}

    def watch(past: Past, message: str, _budget: int) -> list[str]:
        for score, found in answers.items():
            found.setdefault(key_of(message), past.ask(message, policy_with(min_score=score, deadline_ms=1000)))
        return []

    for project in read_projects(store):
        measure(store, project, {"watch": [watch]}, {}, 400)
    met = [key for key in natural if key in answers[SCORES[0]]]
    points = [key for key in met if labels[key]["points"]]
    nothing = [key for key in met if not labels[key]["points"] and not labels[key]["first"]]
    rates = {
        score: Rate(*(float(np.mean([bool(found[key].text) == speaks for key in some])) for some, speaks in (
            (points, True), (nothing, False))))
        for score, found in answers.items()
    }  # fmt: skip
    show_curve(
        f"{len(natural)} messages, {len(met)} with earlier sessions: {len(points)} point to earlier work, "
        f"{len(nothing)} are later ones about the current work",
        rates,
    )


# -- the gate


def show_gate(store: SQLiteSessionStore, labels: Labels) -> None:
    """How well messages are classified by their words alone."""
    texts = {}
    for row in store.list():
        for message in store.messages(row.session.id):
            if message.role == "user" and (key := key_of(message.text)) in labels:
                texts[key] = own_words(message) or message.text
    print(f"\n{len(texts)} of {len(labels)} labelled messages found")
    sets: dict[str, Callable[[dict[str, Any]], bool]] = {
        "the 100": lambda label: label["drawn"] == "points100",
        "the others": lambda label: label["drawn"] != "points100",
        "natural draw": lambda label: label["natural"],
    }
    for name, chosen in sets.items():
        counts: dict[tuple[bool, bool], int] = defaultdict(int)
        for key, text in texts.items():
            if chosen(labels[key]):
                counts[points_to_earlier_work(text.lower(), _number(labels[key])), labels[key]["points"]] += 1
        both, wrong, missed = counts[True, True], counts[True, False], counts[False, True]
        print(
            f"  points to earlier work, {name:<13} precision {both / max(1, both + wrong):.2f} "
            f"recall {both / max(1, both + missed):.2f} ({both} right, {wrong} wrong, {missed} missed)"
        )
    fast = {key: classify(text, _number(labels[key])) == "fast path" for key, text in texts.items()}
    right = sum(bool(labels[key]["fast path"]) for key in fast if fast[key])
    missed = sum(bool(labels[key]["fast path"]) for key in fast if not fast[key])
    print(f"  fast paths: {right} of {sum(fast.values())} right, {missed} missed")


def _number(label: dict[str, Any]) -> int:
    return 0 if label["first"] else 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--messages", type=int, default=100_000, help="size of the store (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (path := options.data / "locomo" / "locomo_dev5.json").exists():
            curve_of_locomo(path, folder)
        if (options.data / "sessions").exists():
            labels: Labels = json.loads(LABELS.read_text(encoding="utf-8"))
            with closing(open_corpus(options.data, "sessions", folder)) as store:
                show_gate(store, labels)
                curve_of_messages(store, labels)
        made, path = Made(folder), folder / "warmstart.db"
        with closing(SQLiteSessionStore(path)) as store:
            questions = made.fill(store, options.messages)
        show_times(path, questions, made.projects[0])
        show_hook(folder, questions, made.projects[0])


if __name__ == "__main__":
    main()
