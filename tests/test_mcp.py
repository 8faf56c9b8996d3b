"""The MCP server against the official client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Timer
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root

import warmstart
from warmstart.handoff.packet import verify
from warmstart.mcp import tables
from warmstart.sessions.marks import END, MARK

SAMPLES = Path(warmstart.__file__).parent / "samples"
PROJECT = "/home/mara/tidewatch"
SAMPLE = "58e3c7d9-4a06-4f92-87bd-e91f0c2d6b34"
TOOLS = ("recall", "memory_backend", "brief", "warm_suggest", "session_show", "handoff_packet")
SECRET = "ghp_" + "x7Kq2mWv9Lr4Tn8Zb3Yc6Hd1Jf5Gs0PaQeRu"[:36]

BAD_CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("recall", {}, "recall: query is missing: A question or keywords."),
    ("recall", {"query": "  "}, "query is missing"),
    ("recall", {"query": 7}, "query must be a string, not 7"),
    ("recall", {"query": "a\0b"}, "query must be without NUL characters"),
    ("recall", {"query": "tides", "limit": 0}, "limit must be from 1 to 20, not 0"),
    ("recall", {"query": "tides", "limit": "three"}, "limit must be a whole number, not 'three'"),
    ("recall", {"query": "tides", "limit": True}, "limit must be a whole number, not True"),
    ("recall", {"query": "tides", "all": True}, "unknown argument 'all'; there are query, limit, project"),
    ("recall", {"query": "tides", "project": ["x"]}, "project must be a string, not ['x']"),
    ("brief", {"task": None}, "task must be a string, not None"),
    ("brief", {"budget_tokens": 5}, "budget_tokens must be from 20 to 800, not 5"),
    ("warm_suggest", {}, "task is missing"),
    ("warm_suggest", {"task": "x", "limit": 11}, "limit must be from 1 to 10, not 11"),
    ("session_show", {}, "session_id is missing"),
    ("session_show", {"session_id": "nobody"}, "no session has the id 'nobody'"),
    ("session_show", {"session_id": "58e3c7d9", "max_characters": 1}, "max_characters must be from 500 to 20000"),
    ("handoff_packet", {}, "session_id is missing: this client does not say which session is calling"),
    ("handoff_packet", {"session_id": "nobody"}, "no session has the id 'nobody'"),
    ("handoff_packet", {"note": 7}, "note must be a string, not 7"),
    ("memory_backend", {}, "action is missing"),
    ("memory_backend", {"action": "dance"}, "action must be one of store, retrieve"),
    ("memory_backend", {"action": "store", "key": "port"}, "store needs value"),
    ("memory_backend", {"action": "retrieve", "key": "nothing"}, "there is no entry 'nothing'"),
    ("memory_backend", {"action": "store", "key": "port", "value": 5433}, "value must be a string, not 5433"),
    ("memory_backend", {"action": "list", "metadata": "x"}, "metadata must be an object, not 'x'"),
    ("dance", {}, "there is no tool 'dance'; there are recall, memory_backend, brief, warm_suggest, "),
)


def with_client(
    check: Callable[[Client], Awaitable[None]],
    *,
    cwd: Path,
    mode: str = "auto",
    root: Path | None = None,
    **env: str,
) -> None:
    """Talk to a server that the client starts."""

    async def offer_roots(_: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=f"file://{root}")])

    async def run() -> None:
        known = {"HOME": os.environ["HOME"], "WARMSTART_MEMORY_BACKEND": "local"}
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "warmstart", "mcp"], env={**known, **env}, cwd=cwd
        )
        roots = offer_roots if root else None
        async with Client(server, mode=mode, read_timeout_seconds=60, list_roots_callback=roots) as client:
            await check(client)

    anyio.run(run)


def sample_log() -> str:
    return next(SAMPLES.rglob(f"{SAMPLE}.jsonl")).read_text(encoding="utf-8")


async def text_of(client: Client, tool: str, failed: bool = False, **arguments: Any) -> str:
    """The one text that a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error is failed, result
    assert result.structured_content is None
    (content,) = result.content
    assert content.type == "text"
    return content.text


@pytest.fixture
def synced(tmp_path: Path) -> Path:
    """An empty folder to start a server in, with the samples in the store."""
    with warmstart.open() as ws:
        ws.sync([SAMPLES])
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def test_every_tool_answers_in_plain_text(synced, subtests) -> None:
    async def check(client: Client) -> None:
        assert client.instructions == tables()["instructions"]
        assert client.instructions.count(". ") == 2  # three sentences
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tuple(listed) == TOOLS
        assert [name for name, tool in listed.items() if not tool.annotations.read_only_hint] == ["memory_backend"]
        assert all(tool.output_schema is None for tool in listed.values())
        found = await text_of(client, "recall", query="which port does the database use", limit=2)
        assert found.startswith(f"{MARK} From earlier sessions")
        assert found.endswith(END)
        assert "1. 2026-" in found
        brief = await text_of(client, "brief", task="add a storm table")
        assert brief.startswith(MARK)
        assert "pytest" in brief
        assert await text_of(client, "warm_suggest", task="add a storm table") == (
            "No template fits: there are no templates yet."
        )
        shown = await text_of(client, "session_show", session_id="58e3c7d9", max_characters=1000)
        assert "none of it is an instruction" in shown
        assert "lines left out" in shown
        assert len(shown) < 1200
        stored = await text_of(client, "memory_backend", action="store", key="port", value="The database has port 5433")
        assert json.loads(stored)["success"] is True
        again = json.loads(await text_of(client, "memory_backend", action="query", query_text="database port"))
        assert [(entry["key"], entry["author"]) for entry in again["results"]] == [("port", "mcp")]
        assert "- noted by Mcp, " in await text_of(client, "brief", task="which database port", budget_tokens=400)

    for mode in ("legacy", "auto"):
        with subtests.test(mode):
            with_client(check, cwd=synced, mode=mode, CLAUDE_PROJECT_DIR=PROJECT)


def test_a_template_that_fits_is_suggested(synced) -> None:
    with warmstart.open() as ws:
        made = ws.templates.extract("58e3c7d9", name="surges", description="Tide surges and storm tables")

    async def check(client: Client) -> None:
        found = await text_of(client, "warm_suggest", task="add a table of storm surges to the tides", limit=1)
        assert f"1. surges ({made.id}, version 1), confidence " in found

    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=PROJECT)


def test_the_brief_is_a_prompt_too(synced) -> None:
    async def check(client: Client) -> None:
        prompts = {
            one.name: [each.name for each in one.arguments or ()] for one in (await client.list_prompts()).prompts
        }
        assert prompts == {"brief": ["task"], "handoff": ["session_id", "note"]}
        (message,) = (await client.get_prompt("brief", {"task": "add a storm table"})).messages
        assert message.content.text == await text_of(client, "brief", task="add a storm table")
        (message,) = (await client.get_prompt("dance", {})).messages
        assert "there is no" in message.content.text

    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=PROJECT)


def test_the_running_session_is_handed_over_as_its_log_is_now(home, tmp_path) -> None:
    log = home / ".claude" / "projects" / "x" / f"{SAMPLE}.jsonl"
    log.parent.mkdir(parents=True)
    lines = sample_log().splitlines(keepends=True)
    log.write_text("".join(lines[:30]), encoding="utf-8")

    async def check(client: Client) -> None:
        first = await text_of(client, "handoff_packet", note="the tests come next")
        assert first.startswith(f"{MARK}\n# Handoff packet ")
        assert "> the tests come next" in first
        assert verify(first)
        with log.open("a", encoding="utf-8") as file:
            file.write("".join(lines[30:]))
        (message,) = (await client.get_prompt("handoff", {"note": "the tests come next"})).messages
        assert verify(message.content.text) != verify(first)
        assert await text_of(client, "handoff_packet", session_id=SAMPLE[:8]) != first

    with_client(check, cwd=tmp_path, CLAUDE_CODE_SESSION_ID=SAMPLE)


def test_a_packet_waits_for_a_log_that_is_written_late(home, tmp_path) -> None:
    log = home / ".claude" / "projects" / "x" / f"{SAMPLE}.jsonl"
    log.parent.mkdir(parents=True)
    lines = sample_log().splitlines(keepends=True)
    call = max(number for number, line in enumerate(lines) if '"tool_use"' in line)
    request = "Now look at the storm table, please."
    said = next(each for each in map(json.loads, lines) if each["type"] == "user")
    said |= {"uuid": "late", "message": {"role": "user", "content": request}}

    async def check(client: Client) -> None:
        await text_of(client, "recall", query="tides")  # loads everything, so that the next call is quick
        late = [*lines[:call], json.dumps(said) + "\n", lines[call]]
        timer = Timer(0.5, lambda: log.write_text("".join(late), encoding="utf-8"))
        timer.start()
        assert request in await text_of(client, "handoff_packet")

    with_client(check, cwd=tmp_path, CLAUDE_CODE_SESSION_ID=SAMPLE)


def test_a_bad_call_gets_one_line_that_says_what_to_do(synced, subtests) -> None:
    async def check(client: Client) -> None:
        for tool, arguments, message in BAD_CALLS:
            with subtests.test(tool, arguments=arguments):
                text = await text_of(client, tool, failed=True, **arguments)
                assert message in text
                assert "\n" not in text
        assert "1. " in await text_of(client, "recall", query="storm surge table")  # it still works

    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=PROJECT)


def test_a_store_that_cannot_be_read_is_one_line_too(synced, home) -> None:
    (home / ".warmstart" / "warmstart.db").write_bytes(b"this is no database" * 100)

    async def check(client: Client) -> None:
        text = await text_of(client, "recall", failed=True, query="tides")
        assert text.startswith("recall: ")
        assert "\n" not in text

    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=PROJECT)


def test_a_secret_never_comes_out(tmp_path, home) -> None:
    log = home / f"{SAMPLE}.jsonl"
    log.write_text(sample_log().replace("storm", f"storm {SECRET}"), encoding="utf-8")
    with warmstart.open() as ws:
        ws.sync([log], redact=False)
        assert SECRET in str(list(ws.sessions.messages("58e3c7d9")))
    said: list[str] = []

    async def check(client: Client) -> None:
        said.append(await text_of(client, "recall", query="storm surge table", limit=20))
        said.append(await text_of(client, "session_show", session_id="58e3c7d9"))
        said.append(await text_of(client, "brief", task=f"rotate {SECRET}"))
        said.append(await text_of(client, "memory_backend", action="store", key="token", value=f"It is {SECRET}"))
        said.append(await text_of(client, "memory_backend", action="retrieve", key="token"))
        said.append(await text_of(client, "session_show", failed=True, session_id=SECRET))

    with_client(check, cwd=tmp_path, CLAUDE_PROJECT_DIR=PROJECT, WARMSTART_MEMORY_REDACT="no")
    assert "storm [redacted" in said[0]
    assert "storm [redacted" in said[1]
    assert not any(SECRET in text for text in said)
    assert SECRET not in "".join(path.read_text() for path in home.rglob("warmstart.log*"))


def test_the_project_is_the_clients(tmp_path, home, subtests) -> None:
    async def finds(client: Client) -> None:
        assert "1. 2026-" in await text_of(client, "recall", query="storm surge table")

    async def finds_nothing(client: Client) -> None:
        assert "Nothing found" in await text_of(client, "recall", query="storm surge table")
        assert "Nothing found" in await text_of(client, "recall", query="storm surge table", project="")
        assert "Nothing is known" in await text_of(client, "brief", project="")
        named = await text_of(client, "recall", query="storm surge table", project=str(repository))
        assert "1. 2026-" in named

    repository = home / "tidewatch"
    (repository / ".git").mkdir(parents=True)
    (repository / "src").mkdir()
    log = home / f"{SAMPLE}.jsonl"
    log.write_text(sample_log().replace(PROJECT, str(repository)), encoding="utf-8")
    with warmstart.open() as ws:
        ws.sync([log])
    with subtests.test("its variable"):
        with_client(finds, cwd=tmp_path, CLAUDE_PROJECT_DIR=str(repository / "src"))
    with subtests.test("its working directory"):
        with_client(finds, cwd=repository / "src")
    with subtests.test("neither"):
        with_client(finds_nothing, cwd=tmp_path)
    with subtests.test("its roots"):
        with_client(finds, cwd=tmp_path, mode="legacy", root=repository)


def test_recall_leaves_out_the_session_that_asks(synced) -> None:
    async def check(client: Client) -> None:
        found = await text_of(client, "recall", query="storm surge table", limit=20)
        assert f"session {warmstart_id[:12]}" not in found

    with warmstart.open() as ws:
        native = ws.recall("storm surge table", project=None, limit=1)[0].native_id
        warmstart_id = ws.sessions.get(native).id
    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=PROJECT, CLAUDE_CODE_SESSION_ID=native)


def test_switched_off_means_no_tools_and_no_store(tmp_path, home) -> None:
    async def check(client: Client) -> None:
        assert client.instructions is None
        assert (await client.list_tools()).tools == []
        assert (await client.list_prompts()).prompts == []
        assert "switched off" in await text_of(client, "recall", failed=True, query="tides")

    with_client(check, cwd=tmp_path, WARMSTART_DISABLED="1")
    assert not (home / ".warmstart").exists()


def test_an_excluded_folder_gets_nothing(synced, home) -> None:
    (home / ".warmstart" / "config.toml").write_text(f"[hosts]\nexclude = ['{PROJECT}']\n")

    async def check(client: Client) -> None:
        assert "hosts.exclude" in await text_of(client, "recall", failed=True, query="storm surge table")

    with_client(check, cwd=synced, CLAUDE_PROJECT_DIR=f"{PROJECT}/src")


def test_a_person_who_starts_it_by_hand_is_told_what_it_is_for() -> None:
    import pty

    controller, terminal = pty.openpty()
    done = subprocess.run([sys.executable, "-m", "warmstart", "mcp"], stdin=terminal, capture_output=True, text=True)
    os.close(controller)
    os.close(terminal)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "started by an agent" in done.stderr
