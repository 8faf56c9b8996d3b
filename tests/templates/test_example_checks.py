"""The checks of `example_checks` find what they look for."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import warmstart
from tests.templates.example_checks import NAMES, Case, is_distinctive, offences, read_cases
from warmstart import Message, Session, ToolCall, ToolResult
from warmstart.templates import Item, SessionSeed, Source, ToolCallExample

CUSTOMER = "mia.lopez@example.com"
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
NOW = datetime(2026, 3, 1, tzinfo=UTC)
CALLS = (
    ("Bash", {"command": "pytest --quite"}, "error", "unrecognized arguments: --quite"),
    ("Bash", {"command": "pytest --quiet"}, "ok", "3 passed"),
    ("WebFetch", {"url": "https://example.com"}, "ok", "Use frobnicate here"),
    ("Read", {"file_path": "/home/mara/app/src/a.py", "limit": 40}, "ok", "a = 1\nb = 2\nc = 3\nd = 4\n"),
    ("Edit", {"file_path": "/home/mara/app/src/a.py", "old_string": "a = 1", "new_string": "a = 2"}, "ok", "done"),
)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A session of a coding agent with its template, under the name of a corpus of customers."""
    session = Session(
        agent="claude-code", native_id="one", project="/home/mara/app", source=str(tmp_path / "tau2" / "one.json")
    )
    messages = [Message(native_id="m", role="user", text="Fix the exporter, please.", timestamp=NOW)]
    for number, (tool, arguments, outcome, text) in enumerate(CALLS):
        call = ToolCall(id=f"c{number}", name=tool, arguments=json.dumps(arguments))
        result = ToolResult(call_id=call.id, outcome=outcome, text=text)  # type: ignore[arg-type]
        messages.append(Message(native_id=f"{number}a", role="assistant", tool_calls=(call,), timestamp=NOW))
        messages.append(Message(native_id=f"{number}b", role="tool", tool_results=(result,), timestamp=NOW))
    with warmstart.open(tmp_path / "store.db", home=tmp_path) as ws:
        ws.store.append(session, messages)
        (case,) = read_cases(ws, tmp_path)
    return case


def example(tool: str, arguments: dict[str, object], **fields: object) -> Item:
    call = ToolCallExample(tool, json.dumps(arguments))
    return Item(kind="example", text="Fix it", calls=(call,), sources=(Source("s", "m"),), **fields)  # type: ignore[arg-type]


def checks_of(case: Case, items: tuple[Item, ...]) -> set[str]:
    """The checks that a template of these items does not pass."""
    assert case.template
    changed = Case(case.corpus, case.session, case.messages, case.steps)
    changed.template = replace(case.template, seed=SessionSeed(items=items))
    return {offence.check for offence in offences(changed, {CUSTOMER})}


def test_a_template_of_the_product_passes(case: Case) -> None:
    assert offences(case, {CUSTOMER}) == []


def test_what_is_wrong_is_found(case: Case, subtests: pytest.Subtests) -> None:
    assert case.template
    items = case.template.seed.items
    lines = "a = 1\nb = 2\nc = 3\nd = 4"
    cases = {
        "looks": (example("Bash", {"command": "ls"}),),
        "number": items[:1],
        "tools": tuple(example("Edit", {"file_path": f"src/{name}.py"}) for name in "abc"),
        "recoveries": tuple(item for item in items if len(item.calls) < 2),
        "empty": (*items, example("Bash", {"command": "{{command}}"})),
        "plans": (*items, example("TodoWrite", {"todos": []})),
        "content": (*items, example("Write", {"file_path": "src/a.py", "content": lines})),
        "secrets": (*items, example("Bash", {"command": f"curl -H 'Authorization: token {SECRET}'"})),
        "outside": (*items, example("Bash", {"command": "make frobnicate"})),
        "customers": (*items, example("find_user", {"email": CUSTOMER})),
    }
    for name, wrong in cases.items():
        with subtests.test(name):
            assert name in checks_of(case, wrong)
    assert {"extracts", *cases} == set(NAMES)


def test_a_session_without_a_template_is_an_offence(case: Case) -> None:
    case.template = None
    case.refusal = "nothing to carry"

    assert [offence.check for offence in offences(case, set())] == ["extracts", "number", "tools"]


def test_a_city_alone_names_nobody() -> None:
    assert [is_distinctive(value) for value in ("Denver", "mia", CUSTOMER, "#W123", "12 Elm Street")] == [
        *(False, False, True, False, True)
    ]
