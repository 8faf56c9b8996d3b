"""The tasks of the experiment: 16 to learn from and 44 to evaluate on, in four types, each with a verifier.

Source and evaluation tasks need the same tools and conventions, but share no request. They are Inspect tasks:
`tasks.py@source` and `tasks.py@evaluation`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, execute_tools, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver
from inspect_ai.tool import ToolCall, ToolDef, ToolError
from inspect_ai.util import StoreModel, store_as

sys.path.insert(0, str(Path(__file__).parent))
from world import TOOLS, ToolFailure, World

MAX_TURNS = 8
MAX_TOKENS = 160
MAX_REPEATS = 2  # of one call with the same arguments, before the session is abandoned
PROMPT = (
    "You work in an office. Use the tools, one call at a time. If a call fails, correct it and try again. "
    "As soon as the task is done, or you know the answer, call return_answer."
)

Verify = Callable[[World], bool]
_UNSAFE = re.compile(r"\b(while|import|exec|eval|open|range)\b|__|\*\*|\d{7}")  # code that may hang, or reaches out


class Job(NamedTuple):
    """A task: its type, the request, the world it starts in, and how it is verified."""

    id: str
    type: str
    request: str
    world: Callable[[], World]
    verify: Verify


# -- research: find a fact in the handbook

FACTS = {
    "source": [
        ("What does express shipping cost extra, in cents?", "1250"),
        ("For how many months do batteries have a warranty?", "6"),
        ("Which extension does the head of the depot south have?", "377"),
        ("Within how many working days is a complaint answered?", "5"),
    ],
    "evaluation": [
        ("Within how many days can goods be returned?", "30"),
        ("How long is the warranty of tools, in months?", "24"),
        ("Who runs the depot north?", "Albrecht"),
        ("What does a cold cell cost a week, in cents?", "1100"),
        ("What does an inspection cost in a repair, in cents?", "2500"),
        ("What is a day with a rented trailer, in cents?", "2100"),
        ("Who takes care of refunds?", "Watanabe"),
        ("To whom are lost keys reported?", "Boateng"),
        ("Which branch answers complaints?", "Leeds"),
        ("What does a pallet cost to ship, in cents?", "5900"),
        ("Which extension has billing?", "120"),
    ],
}

# -- code: a function with a mistake

BUGS = {
    "source": [
        ("double", "return n + 3", "return n * 2", "double(n) must return twice n"),
        ("is_even", "return n % 2 == 1", "return n % 2 == 0", "is_even(n) must say whether n is even"),
        ("last", "return items[0]", "return items[-1]", "last(items) must return the last item"),
        ("area", "return width + height", "return width * height", "area(width, height) must return the area"),
    ],
    "evaluation": [
        ("triple", "return n * 2", "return n * 3", "triple(n) must return three times n"),
        ("is_odd", "return n % 2 == 0", "return n % 2 == 1", "is_odd(n) must say whether n is odd"),
        ("first", "return items[-1]", "return items[0]", "first(items) must return the first item"),
        (
            "perimeter",
            "return width + height",
            "return 2 * (width + height)",
            "perimeter(width, height) must return the perimeter",
        ),
        ("largest", "return min(items)", "return max(items)", "largest(items) must return the largest item"),
        ("to_cents", "return euros * 10", "return euros * 100", "to_cents(euros) must return cents"),
        ("negate", "return n", "return -n", "negate(n) must return minus n"),
        ("count", "return len(items) + 1", "return len(items)", "count(items) must return how many items there are"),
        ("mean", "return sum(items)", "return sum(items) / len(items)", "mean(items) must return the mean"),
        ("shout", "return text.lower()", "return text.upper()", "shout(text) must return the text in capitals"),
        ("square", "return n * 2", "return n * n", "square(n) must return n squared"),
    ],
}
ARGUMENTS = {"n": [3, 4], "items": [[1, 5, 3], [7, 2]], "width": [3], "height": [5], "euros": [12], "text": ["ab"]}

# -- file: change a setting

SETTINGS = {
    "source": [
        ("mail", "port", "25", "587"),
        ("web", "timeout", "10", "60"),
        ("cache", "size", "64", "128"),
        ("log", "level", "debug", "info"),
    ],
    "evaluation": [
        ("backup", "hour", "3", "5"),
        ("printer", "tray", "upper", "lower"),
        ("mail", "sender", "office", "depot"),
        ("web", "workers", "2", "6"),
        ("cache", "ttl", "300", "900"),
        ("log", "format", "plain", "json"),
        ("queue", "retries", "3", "8"),
        ("scanner", "resolution", "150", "300"),
        ("alarm", "delay", "30", "45"),
        ("door", "mode", "open", "badge"),
        ("clock", "zone", "UTC", "CET"),
    ],
}

# -- mixed: book an entry in the ledger, then change the order

ENTRIES = {
    "source": [
        (17, "3 March 2026", "2026-03-03", "invoice", "64.00", 6400, "closed"),
        (230, "9 May 2026", "2026-05-09", "fee", "4.90", 490, "shipped"),
        (8, "21 January 2026", "2026-01-21", "invoice", "78.00", 7800, "packed"),
        (1045, "30 April 2026", "2026-04-30", "refund", "3.50", 350, "on_hold"),
    ],
    "evaluation": [
        (42, "5 June 2026", "2026-06-05", "invoice", "59.00", 5900, "packed"),
        (7, "14 February 2026", "2026-02-14", "fee", "12.50", 1250, "shipped"),
        (311, "1 July 2026", "2026-07-01", "fee", "11.20", 1120, "on_hold"),
        (96, "28 August 2026", "2026-08-28", "invoice", "25.00", 2500, "closed"),
        (1203, "11 March 2026", "2026-03-11", "invoice", "21.75", 2175, "packed"),
        (5, "2 October 2026", "2026-10-02", "refund", "4.60", 460, "closed"),
        (640, "19 April 2026", "2026-04-19", "refund", "66.00", 6600, "on_hold"),
        (77, "7 December 2026", "2026-12-07", "fee", "3.20", 320, "packed"),
        (1999, "23 May 2026", "2026-05-23", "invoice", "82.40", 8240, "shipped"),
        (58, "16 September 2026", "2026-09-16", "refund", "9.99", 999, "closed"),
        (812, "31 January 2026", "2026-01-31", "fee", "15.00", 1500, "shipped"),
    ],
}


def jobs(part: str) -> list[Job]:
    """All tasks of a part, `source` or `evaluation`."""
    found = []
    for number, (question, fact) in enumerate(FACTS[part]):
        found.append(
            Job(f"research-{number}", "research", f"{question} Look it up in the handbook.", World, _says(fact))
        )
    for number, (name, wrong, _, wish) in enumerate(BUGS[part]):
        parameters = {"perimeter": "width, height", "area": "width, height"}.get(name) or _parameter(wrong)
        path, text = f"/src/{name}.py", f"def {name}({parameters}):\n    {wrong}\n"
        request = f"Correct the function in the file src/{name}.py: {wish}."
        found.append(
            Job(
                f"code-{number}",
                "code",
                request,
                _with_file(path, text),
                _fixed(path, name, BUGS[part][number][2], parameters),
            )
        )
    for number, (file, key, old, new) in enumerate(SETTINGS[part]):
        path, text = f"/etc/{file}.conf", f"[{file}]\n{key} = {old}\nowner = office\n"
        request = f"Set {key} to {new} in etc/{file}.conf."
        found.append(Job(f"file-{number}", "file", request, _with_file(path, text), _has_line(path, f"{key} = {new}")))
    for number, (order, day, date, kind, euros, amount, status) in enumerate(ENTRIES[part]):
        id_ = f"ORD-{order:05}"
        request = f"Book {euros} euros as {kind} for order {order} on {day}, and set the order to "
        request += f"{status.replace('_', ' ')}."
        verify = _booked((kind, id_, date, amount), status)
        found.append(Job(f"mixed-{number}", "mixed", request, _with_order(id_), verify))
    return found


def _parameter(code: str) -> str:
    return next(name for name in ARGUMENTS if re.search(rf"\b{name}\b", code))


def _with_file(path: str, text: str) -> Callable[[], World]:
    return lambda: World({path: text})


def _with_order(id_: str) -> Callable[[], World]:
    return lambda: World(orders={id_: "open"})


def _says(fact: str) -> Verify:
    return lambda world: world.answer is not None and re.search(rf"\b{fact}\b", world.answer) is not None


def _has_line(path: str, line: str) -> Verify:
    return lambda world: world.answer is not None and line in world.files[path].splitlines()


def _fixed(path: str, name: str, right: str, parameters: str) -> Verify:
    """Whether the function returns the same as the right one. The code runs without builtins that reach out."""

    def verify(world: World) -> bool:
        if world.answer is None or _UNSAFE.search(world.files[path]):
            return False
        results = []
        safe = {"sum": sum, "len": len, "min": min, "max": max, "abs": abs, "sorted": sorted}
        for text in (world.files[path], f"def {name}({parameters}):\n    {right}\n"):
            names: dict[str, Any] = {"__builtins__": safe}
            try:
                exec(text, names)
                values = [ARGUMENTS[each.strip()] for each in parameters.split(",")]
                results.append([names[name](*each) for each in zip(*values, strict=True)])
            except Exception:
                return False
        return results[0] == results[1]

    return verify


def _booked(entry: tuple[str, str, str, int], status: str) -> Verify:
    return lambda world: world.answer is not None and world.entries == [entry] and world.orders[entry[1]] == status


# -- as Inspect tasks


class Office(StoreModel):
    """The world of one sample, in memory only."""

    job: str = ""


_WORLDS: dict[str, World] = {}


def _tools(key: str) -> list[Any]:
    """The tools of one sample, with JSON schemas as clean as those of real tools."""
    from inspect_ai.tool import ToolParam, ToolParams

    def tool_of(name: str) -> Any:
        async def execute(**arguments: Any) -> str:
            try:
                return _WORLDS[key].call(name, arguments)
            except ToolFailure as failure:
                raise ToolError(str(failure)) from failure

        spec = TOOLS[name]
        properties = {each: ToolParam(type=kind, description=text) for each, (kind, text) in spec.parameters.items()}  # type: ignore[arg-type]
        parameters = ToolParams(properties=properties, required=list(properties))
        return ToolDef(execute, name=name, description=spec.description, parameters=parameters).as_tool()

    return [tool_of(name) for name in TOOLS]


@solver
def office() -> Any:
    """Set up the agent's world."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        job = BY_ID[str(state.sample_id)]
        key = f"{state.uuid}"
        _WORLDS[key] = job.world()
        store_as(Office).job = key
        state.tools = _tools(key)
        state.messages.insert(0, ChatMessageSystem(content=PROMPT))
        return state

    return solve


@solver
def agent() -> Any:
    """Call the model and its tools until it returns an answer, goes in circles, or runs out of turns."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        world = _WORLDS[store_as(Office).job]
        calls: Counter[str] = Counter()
        for _ in range(MAX_TURNS):
            state.output = await get_model().generate(state.messages, state.tools)
            message = state.output.message
            if not message.tool_calls and (call := read_call(message.text)):
                message = message.model_copy(update={"tool_calls": [call], "content": ""})
            state.messages.append(message)
            if not message.tool_calls:
                break
            done = await execute_tools(state.messages, state.tools)
            state.messages.extend(done.messages)
            calls.update(f"{call.function} {call.arguments}" for call in message.tool_calls)
            if max(calls.values()) > MAX_REPEATS:
                break
            if world.answer is not None:
                break
        return state

    return solve


def read_call(text: str) -> ToolCall | None:
    """The first call in a text: small models write it as JSON, fenced or in tags, instead of calling the tool."""
    for found in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict):
            return ToolCall(
                id=f"call_{found.start()}_{abs(hash(text)) % 10**8}",
                function=value["name"],
                arguments=value["arguments"],
            )
    return None


def call_format() -> dict[str, Any]:
    """The response format that allows only calls. Without it, a small model goes silent after two or three calls."""
    calls = []
    for name, tool in TOOLS.items():
        arguments = {
            "type": "object",
            "properties": {each: {"type": kind} for each, (kind, _) in tool.parameters.items()},
            "required": list(tool.parameters),
            "additionalProperties": False,
        }
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"type": "json_schema", "json_schema": {"name": "call", "schema": {"anyOf": calls}}}


@scorer(metrics=[accuracy()])
def verified() -> Any:
    """Whether the world is as it should be at the end."""

    async def score(state: TaskState, target: Target) -> Score:
        world = _WORLDS.pop(store_as(Office).job)
        return Score(value=CORRECT if BY_ID[str(state.sample_id)].verify(world) else INCORRECT, answer=world.answer)

    return score


BY_ID = {f"{part}-{job.id}": job for part in ("source", "evaluation") for job in jobs(part)}


def _task(part: str) -> Task:
    samples = [
        Sample(id=key, input=job.request, target="", metadata={"type": job.type})
        for key, job in BY_ID.items()
        if key.startswith(part)
    ]
    from inspect_ai.model import GenerateConfig

    config = GenerateConfig(
        temperature=0.0, seed=1, max_tokens=MAX_TOKENS, extra_body={"response_format": call_format()}
    )
    return Task(dataset=MemoryDataset(samples), setup=[office()], solver=agent(), scorer=verified(), config=config)


@task
def source() -> Task:
    """Tasks to learn from."""
    return _task("source")


@task
def evaluation() -> Task:
    """Tasks to evaluate on."""
    return _task("evaluation")
