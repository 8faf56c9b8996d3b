"""The cost of templates: extracting from a long session, choosing among many templates, and starting warm.

Run with `make bench`. Each is compared with the least work that anyone would have to do, alternating in the same run:
for extraction, redacting the session's texts once; for selection, comparing the task's words with those of every
template; for injection, copying the same messages into a list. Times are wall-clock; the column `CPU` excludes other
load.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import warmstart
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.templates import (
    Call,
    Item,
    Selector,
    SessionExtractor,
    SessionSeed,
    Source,
    SQLTemplateStore,
    Task,
    WarmTemplate,
    inject,
    render,
)

_PARTS = """
table gauge harbour reading forecast parser exporter importer login session cache queue worker report invoice cart
search index upload thumbnail mailer webhook scheduler migration schema router template widget chart legend filter
"""
_DEEDS = "fix add rename split speed-up document test remove refactor translate validate log retry paginate"
PARTS, DEEDS = _PARTS.split(), _DEEDS.split()
TOOLS = ("Bash", "Read", "Edit", "Grep")
START = datetime(2026, 9, 1, 8, tzinfo=UTC)


class Measured(NamedTuple):
    """A measurement with its baseline: the limit in milliseconds, and the percentile it applies to."""

    name: str
    limit: float
    share: float
    ours: list[tuple[float, float]]  # wall-clock and CPU time
    base: list[tuple[float, float]]


class Made:
    """Plausible random sessions and templates, from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def task(self) -> str:
        pick = self._random.choice
        part, other = pick(PARTS), pick(PARTS)
        return f"Please {pick(DEEDS)} the {part} of the {other} so that part {self._random.randint(1, 999)} works"

    def session(self, size: int) -> tuple[Session, list[Message]]:
        """A session of `size` messages: requests, calls that work or fail, and results of one page each."""
        messages: list[Message] = []
        number = 0
        while len(messages) < size:
            messages.append(self._message(len(messages), "user", text=f"{self.task()}. Always run the tests first."))
            for _ in range(self._random.randint(4, 12)):
                number += 1
                failed = self._random.random() < 0.08
                call = ToolCall(id=f"call_{number}", name=self._random.choice(TOOLS), arguments=self._arguments())
                result = ToolResult(
                    call_id=call.id, outcome="error" if failed else "ok", text=self._output(failed), exit_code=failed
                )
                messages.append(self._message(len(messages), "assistant", text="Let me see.", tool_calls=(call,)))
                messages.append(self._message(len(messages), "tool", tool_results=(result,)))
            messages.append(self._message(len(messages), "assistant", text="Done: 12 tests pass."))
        return Session(agent="claude-code", native_id="long", project="/home/mara/tidewatch"), messages[:size]

    def _message(self, place: int, role, **fields) -> Message:
        return Message(native_id=f"m{place}", role=role, timestamp=START + timedelta(seconds=place), **fields)

    def _arguments(self) -> str:
        part = self._random.choice(PARTS)
        return json.dumps(
            self._random.choice(
                (
                    {"command": f"python -m pytest -q tests/test_{part}.py"},
                    {"file_path": f"src/tides/{part}.py", "offset": self._random.randint(1, 400)},
                    {"file_path": f"src/tides/{part}.py", "old_string": f"{part} = 1", "new_string": f"{part} = 2"},
                    {"pattern": f"def {part}", "path": "src", "-n": True},
                )
            )
        )

    def _output(self, failed: bool) -> str:
        if failed:
            return f"Error: No such file or directory: 'src/tides/{self._random.choice(PARTS)}.py'"
        lines = (f"{number:>4}  {self._random.choice(PARTS)} = {self._random.random()}" for number in range(40))
        return "\n".join((*lines, "12 passed in 0.41s"))

    def template(self, number: int, items: int = 40) -> WarmTemplate:
        """A template with about this many items from three sessions."""
        sources = [(Source(f"{number:08x}{session:08x}", "m1"),) for session in range(3)]
        pick = self._random.choice
        each = max(1, items // 6)

        def some(kind, text: Callable[[], str], **fields: object) -> list[Item]:
            return [Item(kind=kind, text=text(), sources=pick(sources), **fields) for _ in range(each)]

        calls = [self._call() for _ in range(3)]
        seed = SessionSeed(
            items=(
                *some("instruction", self.task),
                *some("command", lambda: f"python -m pytest tests/test_{pick(PARTS)}.py", tool="test"),
                *some("trap", self.task, tool="pytest", calls=(Call("shell", "pytest"), Call("shell", "make test"))),
                *some("file", lambda: f"src/tides/{pick(PARTS)}.py", tool="edit"),
                *some("habit", self.task),
                *(Item(kind="example", text=self.task(), calls=(*calls,), sources=pick(sources)) for _ in range(3)),
            )
        )
        return WarmTemplate(
            name=f"template {number}",
            seed=seed,
            description=self.task(),
            project="/home/mara/tidewatch",
            sources=tuple(source.session for one in sources for source in one),
            tools=dict.fromkeys(TOOLS, ""),
        )

    def _call(self) -> Call:
        part = self._random.choice(PARTS)
        return Call("Bash", json.dumps({"command": f"python -m pytest tests/test_{part}.py"}), "12 passed")


def in_turns(ours: Callable[[], object], base: Callable[[], object], rounds: int) -> list[list[tuple[float, float]]]:
    """Milliseconds of each, alternating, in wall-clock and CPU time."""
    times: list[list[tuple[float, float]]] = [[], []]
    for _ in range(rounds):
        for side, action in enumerate((ours, base)):
            began, spent = time.perf_counter(), time.process_time()
            action()
            times[side].append(((time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000))
    return times


def extraction(rounds: int) -> list[Measured]:
    session, messages = Made().session(1000)
    extractor, redactor = SessionExtractor(), Redactor()
    texts = [message.text for message in messages]
    texts += [result.text for message in messages for result in message.tool_results]
    texts += [call.arguments for message in messages for call in message.tool_calls]
    seed = extractor.extract(session, messages)
    print(f"a session of {len(messages)} messages, {sum(map(len, texts)) / 1e6:.1f} MB: {_listed(seed)}")
    both = in_turns(
        lambda: extractor.extract(session, messages), lambda: [redactor.clean(text) for text in texts], rounds
    )
    return [Measured("extraction, 1,000 messages", 150, 0.5, *both)]


def _listed(seed: SessionSeed) -> str:
    kinds: dict[str, int] = {}
    for item in seed.items:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    return ", ".join(f"{number} × {kind}" for kind, number in kinds.items())


def selection(folder: Path, templates: int, rounds: int) -> list[Measured]:
    made = Made()
    with closing(SQLiteSessionStore(folder / "store.db")) as sessions:
        store = SQLTemplateStore(sessions)
        for number in range(templates):
            store.add(made.template(number, items=8))
        selector = Selector(store)
        tasks = [made.task() for _ in range(rounds)]
        place = {"project": "/home/mara/tidewatch", "tools": TOOLS}
        selector.choose(Task(tasks[0], **place), seed=1)  # reads the templates
        words = [set(" ".join(summary.tasks).lower().split()) for summary in store.summaries()]
        asked, compared = iter(tasks), iter(tasks)

        def choose() -> object:
            return selector.choose(Task(next(asked), **place), seed=1)

        def compare() -> object:
            task = set(next(compared).lower().split())
            return max(range(len(words)), key=lambda place: len(words[place] & task))

        both = in_turns(choose, compare, rounds)
        return [Measured(f"selection among {templates:,} templates", 10, 0.95, *both)]


def injection(rounds: int) -> list[Measured]:
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hello"}]
    tools = [{"name": tool, "parameters": {"type": "object", "properties": {}}} for tool in TOOLS]
    measured = []
    for items in (40, 100):
        template = Made().template(1, items)
        prepared = render(template, tools=tools).messages
        for name, make in (
            ("", lambda: template),  # noqa: B023 - used at once
            (", never seen before", lambda: replace(template)),  # noqa: B023 - used at once
        ):
            both = in_turns(
                lambda: inject(make(), messages, tools=tools),  # noqa: B023 - used at once
                lambda: [messages[0], *copy.deepcopy(prepared), *messages[1:]],  # noqa: B023 - used at once
                rounds,
            )
            number = len(template.seed.items)
            measured.append(Measured(f"injection, {number} items{name}", 2, 0.5, *both))
    return measured


def briefing(folder: Path, sessions: int, rounds: int) -> list[Measured]:
    """The brief of a project with 100 messages per session: after one session changed, and with nothing new."""
    made = Made()
    with warmstart.open(folder / "briefs.db", home=folder) as ws:
        for number in range(sessions):
            session, messages = made.session(100)
            own = [replace(message, native_id=f"{number}-{message.native_id}") for message in messages]
            at = START + timedelta(hours=number)
            session = replace(session, native_id=f"s{number}", started_at=at, ended_at=at)
            ws.store.append(session, own)
        project = session.project
        ws.brief(project=project)
        count = "SELECT count(*), sum(length(decompress(body))) FROM texts"
        changed = iter(range(rounds))

        def change() -> object:
            ws.store.append(session, [replace(own[0], native_id=f"more-{next(changed)}", text="and then?")])
            return ws.brief(project=project, task=made.task())

        def read() -> object:
            return ws.store.database.connection.execute(count).fetchone()

        repeat = in_turns(lambda: ws.brief(project=project, task=made.task()), read, rounds)
        after = in_turns(change, read, rounds)
        return [
            Measured(f"brief, {sessions * 100:,} messages, nothing new", 10, 0.5, *repeat),
            Measured(f"brief, {sessions * 100:,} messages, one session changed", 50, 0.5, *after),
        ]


def show(measured: list[Measured]) -> None:
    print(f"\n{'':<44}{'limit ms':>14}{'p50':>9}{'p95':>9}{'CPU':>11}{'baseline':>10}{'ratio':>8}")
    for one in measured:
        clock, processor = map(sorted, zip(*one.ours, strict=True))
        p50, p95 = (clock[int(len(clock) * share)] for share in (0.5, 0.95))
        spent, base = processor[len(processor) // 2], sorted(each for each, _ in one.base)[len(one.base) // 2]
        limit = f"{one.limit:g} at p{one.share * 100:g}"
        print(f"{one.name:<44}{limit:>14}{p50:>9.2f}{p95:>9.2f}{spent:>11.2f}{base:>10.2f}{p50 / base:>8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of extraction; the others run more")
    parser.add_argument("--templates", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=1000, help="of 100 messages, for the brief")
    options = parser.parse_args()
    measured = extraction(options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        measured += selection(Path(folder), options.templates, options.rounds * 10)
        measured += briefing(Path(folder), options.sessions, options.rounds * 2)
    measured += injection(options.rounds * 10)
    show(measured)


if __name__ == "__main__":
    main()
