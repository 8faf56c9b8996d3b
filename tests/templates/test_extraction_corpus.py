"""Extraction from real sessions: nothing that failed, nothing that a tool would refuse, nobody's identifiers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session, steps
from warmstart.templates import SessionExtractor, SessionSeed

pytestmark = pytest.mark.corpus

PLACEHOLDER = re.compile(r"\{\{\w+\}\}")
# Whose values name a customer or what is theirs.
THEIRS = frozenset(
    (
        *("user_id", "reservation_id", "order_id", "payment_id", "payment_method_id", "email", "dob", "phone"),
        *("first_name", "last_name", "address1", "address2", "city", "zip"),
    )
)
TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


class Run(NamedTuple):
    session: Session
    messages: list[Message]


@pytest.fixture(scope="module")
def runs(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Run]]:
    """The trials by outcome."""
    found: dict[str, list[Run]] = {}
    with closing(SQLiteSessionStore(tmp_path_factory.mktemp("runs") / "store.db")) as store:
        sync(store, path_sources([corpus / "tau_bench", corpus / "tau2"]))
        for summary in store.list():
            run = Run(summary.session, list(store.messages(summary.session.id)))
            found.setdefault(summary.session.outcome, []).append(run)
    return found


@pytest.fixture(scope="module")
def seeds(runs: dict[str, list[Run]]) -> list[SessionSeed]:
    """What is carried from each of the successful ones."""
    extractor = SessionExtractor()
    return [extractor.extract(*run) for run in runs["success"]]


@pytest.fixture(scope="module")
def shapes(runs: dict[str, list[Run]]) -> dict[str, dict[str, set[str]]]:
    """For every tool the keys of its arguments with their types, as all successful calls of the set have them."""
    known: dict[str, dict[str, set[str]]] = {}
    for run in (run for some in runs.values() for run in some):
        for step in steps(run.messages):
            if step.outcome == "ok":
                for path, kind in paths(json.loads(step.call.arguments)):
                    known.setdefault(step.call.name, {}).setdefault(path, set()).add(kind)
    return known


def paths(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    yield path, TYPES.get(type(value), "null")
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, f"{path}.{key}")
    if isinstance(value, list):
        for part in value:
            yield from paths(part, f"{path}[]")


def calls_in(seed: SessionSeed) -> Iterator[tuple[str, str]]:
    """Every call that a seed shows as one that worked."""
    for item in seed.of("example"):
        yield from (call[:2] for call in item.calls if call.success)


def is_form_of(shown: object, real: object) -> bool:
    """Whether arguments are those of a real call, besides the placeholders and what is left out."""
    if isinstance(shown, dict) and isinstance(real, dict):
        return len(shown) == len(real) and all(
            is_form_of(*pair) for pair in zip(shown.values(), real.values(), strict=True)
        )
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(is_form_of(*pair) for pair in zip(shown, real, strict=True))
    if isinstance(shown, str) and isinstance(real, str):
        pattern = ".*".join(map(re.escape, PLACEHOLDER.split(shown)))
        return re.fullmatch(pattern, real, re.DOTALL) is not None
    return shown == real or (shown == 1 and isinstance(real, int | float))  # a number of the customer's


def customers(run: Run) -> set[str]:
    """Every value of the run that names a customer or what is theirs."""
    found: set[str] = set()
    for step in steps(run.messages):
        for text in (step.call.arguments, step.result.text if step.result else ""):
            if text[:1] in ("{", "["):
                found |= set(named(json.loads(text)))
    return found


def named(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if key == "payment_methods":
            yield from (name for name in value if name[-1:].isdigit())
        for name, part in value.items():
            yield from named(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from named(part, "order_id" if key in ("reservations", "orders") else key)
    elif isinstance(value, str) and key in THEIRS and len(value) > 1:
        yield value


def texts(seed: SessionSeed) -> str:
    """All that a seed says of what was done; rules of a system message are the operator's and stay as they are."""
    said = [item for item in seed.items if item.kind not in ("instruction", "context")]
    return "\n".join(re.sub(r"Source\([^)]*\)", "", repr(item)) for item in said)


def left(seed: SessionSeed, run: Run) -> list[str]:
    """The values of customers that a seed shows."""
    text = texts(seed)
    return [value for value in customers(run) if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)]


def test_every_call_that_is_carried_worked_and_is_one_that_the_tool_takes(
    runs: dict[str, list[Run]], seeds: list[SessionSeed], shapes: dict[str, dict[str, set[str]]]
) -> None:
    shown = 0
    for run, seed in zip(runs["success"], seeds, strict=True):
        shown += bool(seed.of("example"))
        made = [(step.call.name, step) for step in steps(run.messages)]
        for tool, arguments in calls_in(seed):
            given = json.loads(arguments)
            real = [step for name, step in made if name == tool and is_form_of(given, json.loads(step.call.arguments))]
            assert any(step.outcome == "ok" for step in real), (tool, arguments)
            for path, kind in paths(given):
                assert kind in shapes[tool].get(path, ()), (tool, path, kind)
        results = [call.result for call in seed.tool_examples if call.success]
        assert [result for result in results if not re.fullmatch(r"ok, [a-z0-9 ]+", result)] == []
    assert shown > 0.8 * len(runs["success"])


def test_no_value_of_a_customer_is_carried(runs: dict[str, list[Run]], seeds: list[SessionSeed]) -> None:
    for run, seed in zip(runs["success"], seeds, strict=True):
        assert left(seed, run) == [], run.session.native_id
    # What is looked for would be found, if it were there.
    bare = SessionExtractor(placeholders=False)
    assert sum(bool(left(bare.extract(*run), run)) for run in runs["success"][:20]) > 15


def test_trials_that_failed_give_the_calls_that_worked(runs: dict[str, list[Run]]) -> None:
    extractor = SessionExtractor()
    assert len(runs["success"]) > 100
    assert len(runs["failure"]) > 50
    for run in runs["failure"]:
        worked = {step.call.name for step in steps(run.messages) if step.outcome == "ok"}
        shown = {call.tool_name for call in extractor.extract(*run).tool_examples if call.success}
        assert shown <= worked
        assert shown or not worked - {"think"}
