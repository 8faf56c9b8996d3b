"""What templates cost: taking a seed from a long session, choosing among many templates, and starting warm.

Run with `make bench`. Each is measured beside the least that anybody would have to do for it, in the same run and in
turns: for extraction, to redact the session's texts once; for selection, to compare the task's words with those of
every template; for injection, to copy the same messages into a list. Times are on the clock, and in the column
`processor` without what else the machine does.
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

from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import Message, Session, ToolCall, ToolResult
from warmstart.templates.bootstrapper import inject
from warmstart.templates.choosing.selection import Selector
from warmstart.templates.extraction.extractor import SessionExtractor
from warmstart.templates.items import items_of
from warmstart.templates.rendering.rendering import render
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Recovery,
    SessionSeed,
    Source,
    Task,
    ToolCard,
    UserPattern,
    WarmTemplate,
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
    """A thing measured with its baseline: the limit in milliseconds, and of which share of the times it is."""

    name: str
    limit: float
    share: float
    ours: list[tuple[float, float]]  # on the clock and of the processor
    base: list[tuple[float, float]]


class Made:
    """Sessions and templates as they could be, drawn from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def task(self) -> str:
        pick = self._random.choice
        part, other = pick(PARTS), pick(PARTS)
        return f"Please {pick(DEEDS)} the {part} of the {other} so that part {self._random.randint(1, 999)} works"

    def session(self, size: int) -> tuple[Session, list[Message]]:
        """A session of `size` messages: requests, calls that work or fail, and results of a page each."""
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
        """A template of about so many items from three sessions."""
        sources = [(Source(f"{number:08x}{session:08x}", "m1"),) for session in range(3)]
        pick = self._random.choice
        each = max(1, items // 8)
        demonstrations = tuple(
            Demonstration(
                task=self.task(),
                acts=tuple(Act(pick(TOOLS), self._arguments(), self._output(False)[:300]) for _ in range(3)),
                evidence="tests passed",
                sources=pick(sources),
            )
            for _ in range(3)
        )
        seed = SessionSeed(
            contexts=tuple(Context(text=self.task(), said_by="user", sources=pick(sources)) for _ in range(each)),
            cards=tuple(self._card(f"{tool}{place or ''}", sources) for place in range(each // 4) for tool in TOOLS),
            demonstrations=demonstrations,
            recoveries=tuple(self._recovery(pick(sources)) for _ in range(2 * each)),
            patterns=tuple(UserPattern(text=self.task(), sources=pick(sources)) for _ in range(each)),
            markers=tuple(
                Marker(kind="file", value=f"src/tides/{pick(PARTS)}{n}.py", use="changed", sources=pick(sources))
                for n in range(2 * each)
            ),
            tasks=tuple(Task(one.task, one.sources[0]) for one in demonstrations),
        )
        return WarmTemplate(
            name=f"template {number}",
            seed=seed,
            description=self.task(),
            project="/home/mara/tidewatch",
            sources=tuple(source.session for one in sources for source in one),
            tools=dict.fromkeys(TOOLS, ""),
        )

    def _card(self, tool: str, sources: list[tuple[Source, ...]]) -> ToolCard:
        whence = self._random.choice(sources)
        return ToolCard(
            tool=tool,
            exemplars=(Exemplar(arguments=self._arguments(), sources=whence),),
            conventions=(Convention(text="paths are given from the root", count=3, sources=whence),),
            fixes=(Fix(error="No such file", change="path from the root", count=2, sources=whence),),
        )

    def _recovery(self, sources: tuple[Source, ...]) -> Recovery:
        failed, worked = self._arguments(), self._arguments()
        return Recovery(
            tool=self._random.choice(TOOLS), failed=failed, error="No such file", worked=worked, sources=sources
        )


def in_turns(ours: Callable[[], object], base: Callable[[], object], rounds: int) -> list[list[tuple[float, float]]]:
    """Milliseconds of each, one after the other, on the clock and of the processor."""
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
    return [Measured("extraction, 1,000 messages", 200, 0.5, *both)]


def _listed(seed: SessionSeed) -> str:
    kinds: dict[str, int] = {}
    for placed in items_of(seed):
        kinds[placed.kind] = kinds.get(placed.kind, 0) + 1
    return ", ".join(f"{number} × {kind}" for kind, number in kinds.items())


def selection(folder: Path, templates: int, rounds: int) -> list[Measured]:
    made = Made()
    with closing(SQLiteSessionStore(folder / "store.db")) as sessions:
        store = SQLTemplateStore(sessions)
        for number in range(templates):
            store.add(made.template(number, items=8))
        selector = Selector(store)
        tasks = [made.task() for _ in range(rounds)]
        selector.choose(tasks[0], project="/home/mara/tidewatch", tools=TOOLS, seed=1)  # reads the templates
        words = [set(" ".join(summary.tasks).lower().split()) for summary in store.summaries()]
        asked, compared = iter(tasks), iter(tasks)

        def choose() -> object:
            return selector.choose(next(asked), project="/home/mara/tidewatch", tools=TOOLS, seed=1)

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
            number = sum(1 for _ in items_of(template.seed))
            measured.append(Measured(f"injection, {number} items{name}", 2, 0.5, *both))
    return measured


def show(measured: list[Measured]) -> None:
    print(f"\n{'':<44}{'limit ms':>14}{'p50':>9}{'p95':>9}{'processor':>11}{'baseline':>10}{'ratio':>8}")
    for one in measured:
        clock, processor = map(sorted, zip(*one.ours, strict=True))
        p50, p95 = (clock[int(len(clock) * share)] for share in (0.5, 0.95))
        spent, base = processor[len(processor) // 2], sorted(each for each, _ in one.base)[len(one.base) // 2]
        limit = f"{one.limit:g} at p{one.share * 100:g}"
        print(f"{one.name:<44}{limit:>14}{p50:>9.2f}{p95:>9.2f}{spent:>11.2f}{base:>10.2f}{p50 / base:>8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of extraction; the others take ten times as many")
    parser.add_argument("--templates", type=int, default=1000)
    options = parser.parse_args()
    measured = extraction(options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        measured += selection(Path(folder), options.templates, options.rounds * 10)
    measured += injection(options.rounds * 10)
    show(measured)


if __name__ == "__main__":
    main()
