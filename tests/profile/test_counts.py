"""Tool results, errors and rejections of real sessions, counted a second time from the JSON alone.

Nothing here knows the readers: the counts are written from the formats themselves, so that a reader which loses a
result, counts one twice or takes a person's no for a failure does not agree with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync

pytestmark = pytest.mark.corpus


class Counts(NamedTuple):
    results: int = 0
    errors: int = 0
    rejected: int = 0


def counted(outcomes: dict[Any, str]) -> Counts:
    found = list(outcomes.values())
    return Counts(len(found), found.count("error"), found.count("rejected"))


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, one or more a line."""
    scan = json.JSONDecoder().raw_decode
    for line in path.read_text().split("\n"):
        rest = line.strip()
        while rest:
            value, end = scan(rest)
            yield value
            rest = rest[end:].lstrip()


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


def claude_code(path: Path) -> Counts:
    """Results by the call that they answer, also those of subagents, whose lines are wrapped in `progress`."""
    outcomes: dict[Any, str] = {}
    for line in objects(path):
        agent = line.get("agentId", "")
        if line["type"] == "progress" and line["data"].get("type") == "agent_progress":
            agent = line["data"]["agentId"]
            line = line["data"]["message"]
        content = line.get("message", {}).get("content") if line["type"] == "user" else None
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_result":
                outcomes[agent, block["tool_use_id"]] = _claude_code_outcome(block)
    return counted(outcomes)


def _claude_code_outcome(block: dict[str, Any]) -> str:
    said = text_of(block.get("content"))
    if not block.get("is_error") and not said.startswith("<tool_use_error>"):
        return "ok"
    refused = (
        "The user doesn't want to proceed with this tool use",
        "The user doesn't want to take this action",
        "[Request interrupted by user for tool use]",
        "Permission to use ",
        "Permission for this tool use was denied",
    )
    return "rejected" if said.startswith(refused) else "error"


def codex(path: Path) -> Counts:
    """Outputs by call, and searches of the web, which the provider runs: they have a status instead of an output."""
    outcomes: dict[Any, str] = {}
    for number, line in enumerate(objects(path)):
        item = line["payload"]
        if line["type"] != "response_item":
            continue
        if item["type"] == "web_search_call":
            outcomes[number] = "ok" if item["status"] == "completed" else "error"
        elif item["type"] == "tool_search_output":
            outcomes[item["call_id"]] = "ok" if item["status"] == "completed" else "error"
        elif item["type"] in ("function_call_output", "custom_tool_call_output"):
            outcomes[item["call_id"]] = _codex_outcome(text_of(item["output"]))
    return counted(outcomes)


def _codex_outcome(output: str) -> str:
    head, _, body = output.partition("Output:\n")
    if code := re.search(r"^(?:Process exited with code|Exit code:) (-?\d+)$", head, re.MULTILINE):
        return "ok" if code[1] == "0" else "error"
    if "aborted by user" in head or "rejected by user" in head:
        return "rejected"
    first = head.partition("\n")[0]
    return "error" if " failed: " in first or body.startswith("Error:") else "ok"


def copilot_cli(path: Path) -> Counts:
    outcomes: dict[Any, str] = {}
    refused = set()
    for line in objects(path):
        data = line["data"]
        if line["type"] == "permission.completed" and data["result"]["kind"].startswith("denied"):
            refused.add(data["toolCallId"])
        if line["type"] == "tool.execution_complete":
            call, said = data["toolCallId"], (data.get("result") or {}).get("content", "")
            codes = re.findall(r"exit code (\d+)>", said.rstrip().rpartition("\n")[2])
            failed = not data["success"] or codes not in ([], ["0"])
            outcomes[call] = "rejected" if call in refused else "error" if failed else "ok"
    return counted(outcomes)


def gemini_cli(path: Path) -> Counts:
    calls = [call for message in json.loads(path.read_text())["messages"] for call in message.get("toolCalls", [])]
    return counted({call["id"]: _gemini_outcome(call) for call in calls})


def _gemini_outcome(call: dict[str, Any]) -> str:
    if call["status"] == "cancelled":
        return "rejected"
    answers = [part["functionResponse"]["response"] for part in call["result"]]
    codes = [re.findall(r"^Exit Code: (\S+)$", answer.get("output", ""), re.MULTILINE) for answer in answers]
    failed = call["name"] == "run_shell_command" and any(code[-1:] not in ([], ["0"], ["(none)"]) for code in codes)
    return "error" if failed or call["status"] == "error" or any("error" in answer for answer in answers) else "ok"


def stored(path: Path, store: SQLiteSessionStore) -> dict[str, Counts]:
    """What sync makes of a file, by native id."""
    report = sync(store, path_sources([path]))
    assert (report.problems, report.foreign) == ([], [])
    return {
        row.session.native_id: Counts(
            sum(len(message.tool_results) for message in store.messages(row.session.id)), row.errors, row.rejected
        )
        for row in store.list()
    }


COUNTERS: dict[str, Callable[[Path], Counts]] = {
    "claude_code": claude_code,
    "codex": codex,
    "copilot_cli": copilot_cli,
    "gemini_cli": gemini_cli,
}


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("agent", COUNTERS)
def test_every_file_is_counted_as_its_json_says(agent: str, step: int, corpus: Path, tmp_path: Path) -> None:
    found, expected = {}, {}
    for place, path in enumerate(sorted((corpus / "sessions" / agent).rglob("*.json*"))[::step]):
        with closing(SQLiteSessionStore(tmp_path / f"{place}.db")) as store:
            sessions = stored(path, store).values()
        found[path.name] = Counts(*map(sum, zip(*sessions, strict=True)))
        expected[path.name] = COUNTERS[agent](path)
    assert sum(counts.results for counts in expected.values()) > 0
    assert found == expected


def test_tau_bench_fails_exactly_where_a_result_begins_with_error(corpus: Path, tmp_path: Path) -> None:
    (path,) = (corpus / "tau_bench").glob("*.json")
    expected = {}
    for run in json.loads(path.read_text()):
        said = [message["content"] for message in run["traj"] if message["role"] == "tool"]
        errors = sum(text.startswith("Error:") for text in said)
        expected[f"{run['task_id']}:{run['trial']}"] = Counts(len(said), errors)
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        found = {native_id.partition(":")[2]: counts for native_id, counts in stored(path, store).items()}
    assert sum(counts.errors for counts in expected.values()) > 0
    assert found == expected


def test_tau2_fails_exactly_where_a_message_says_so(corpus: Path, tmp_path: Path) -> None:
    expected = {}
    for path in (corpus / "tau2").glob("*.json"):
        for run in json.loads(path.read_text())["simulations"]:
            flags = [message["error"] for message in run["messages"] if message["role"] == "tool"]
            expected[run["id"]] = Counts(len(flags), sum(flags))
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        found: dict[str, Counts] = {}
        for path in (corpus / "tau2").glob("*.json"):
            found |= stored(path, store)
    assert sum(counts.errors for counts in expected.values()) > 0
    assert found == expected
