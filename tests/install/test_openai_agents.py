"""The session for the OpenAI Agents SDK: its four verbs, and the real SDK against a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from agents.memory import Session, SQLiteSession
from openai import AsyncOpenAI

import warmstart
from warmstart.app import Warmstart
from warmstart.hosts.openai_agents import AGENT, WarmstartSession
from warmstart.sessions.marks import MARK, is_ours
from warmstart.sessions.values import Message, session_id, steps
from warmstart.testing.model import Reply, ScriptedModel

USER = {"role": "user", "content": "Run the tests."}
CALL = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command": "yarn test"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "Error: yarn: not found"}
ANSWER = {"role": "assistant", "content": "They fail."}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "yarn"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Warmstart]:
    with warmstart.open(home=tmp_path / "home") as app:
        yield app


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return str(tmp_path / "work")


def stored(ws: Warmstart, name: str = "one") -> list[Message]:
    return list(ws.store.messages(session_id(AGENT, name)))


async def use(session: Any) -> list[Any]:
    """What the verbs return, in a row."""
    found: list[Any] = [await session.get_items(), await session.pop_item()]
    await session.add_items([USER, CALL, OUTPUT])
    await session.add_items([ANSWER])
    found += [await session.get_items(), await session.get_items(limit=2), await session.pop_item()]
    found += [await session.get_items(), await session.pop_item(), await session.pop_item()]
    await session.add_items([SEARCH, ANSWER])
    found += [await session.get_items()]
    await session.clear_session()
    found += [await session.get_items(), await session.pop_item()]
    await session.add_items([ANSWER])
    return [*found, await session.get_items()]


def test_the_verbs_do_what_those_of_the_sdk_do(ws: Warmstart, project: str) -> None:
    session = WarmstartSession("one", app=ws, project=project, warm=False)
    assert isinstance(session, Session)
    reference = SQLiteSession("one")
    assert asyncio.run(use(session)) == asyncio.run(use(reference))
    reference.close()


def test_nothing_that_happened_is_lost(ws: Warmstart, project: str) -> None:
    session = WarmstartSession("one", app=ws, project=project, warm=False)
    asyncio.run(session.add_items([USER, REASONING, CALL, OUTPUT]))
    assert asyncio.run(session.pop_item()) == OUTPUT
    asyncio.run(session.clear_session())
    messages = stored(ws)
    assert [message.role for message in messages] == ["user", "assistant", "assistant", "tool", "system", "system"]
    assert messages[1].reasoning == "Hm."
    assert [step.outcome for step in steps(messages)] == ["error"]
    assert [message.injected for message in messages] == [False] * 4 + [True] * 2
    (summary,) = ws.sessions.list(project=project)
    assert (summary.session.agent, summary.session.native_id) == (AGENT, "one")


def test_another_process_goes_on_with_the_same_items(ws: Warmstart, project: str, tmp_path: Path) -> None:
    asyncio.run(WarmstartSession("one", app=ws, project=project).add_items([USER, ANSWER]))
    first = asyncio.run(WarmstartSession("one", app=ws, project=project).get_items())
    with warmstart.open(home=tmp_path / "home") as other:
        assert asyncio.run(WarmstartSession("one", app=other, project=project).get_items()) == first
        assert asyncio.run(WarmstartSession("two", app=other, project=project, warm=False).get_items()) == []


def test_a_secret_is_not_stored(ws: Warmstart, project: str) -> None:
    secret = "ghp_" + "Zq7Lk2" * 6
    session = WarmstartSession("one", app=ws, project=project, warm=False)
    asyncio.run(session.add_items([{"role": "user", "content": f"The token is {secret}."}]))
    assert all(secret not in message.text for message in stored(ws))
    ((item),) = asyncio.run(session.get_items())
    assert item["content"].startswith("The token is ")


def test_what_is_no_item_is_refused(ws: Warmstart, project: str) -> None:
    session = WarmstartSession("one", app=ws, project=project)
    with pytest.raises(ValueError, match="not an item"):
        asyncio.run(session.add_items([{"role": "nobody", "content": "x"}]))
    assert stored(ws) == []


# With the SDK itself


@function_tool
def shell(command: str) -> str:
    """Run a line in a shell."""
    return "Error: sh: 1: yarn: not found" if command.startswith("yarn") else "3 tests passed"


def ask(model: ScriptedModel, session: Any, prompt: str, *, responses: bool = True) -> str:
    set_tracing_disabled(True)

    async def run() -> str:
        client = AsyncOpenAI(base_url=f"{model.url}/v1", api_key="scripted")
        kind = OpenAIResponsesModel if responses else OpenAIChatCompletionsModel
        agent = Agent(name="worker", tools=[shell], model=kind(model="m-1", openai_client=client))
        try:
            return str((await Runner.run(agent, prompt, session=session)).final_output)
        finally:
            with suppress(Exception):
                await client.close()

    return asyncio.run(run())


@pytest.mark.parametrize("responses", [True, False], ids=["responses", "completions"])
def test_the_sdk_runs_on_it(ws: Warmstart, project: str, responses: bool) -> None:
    first, second = "Please run the tests of the tide gauge.", "And the port?"
    replies = [
        Reply(when=first, reasoning="Hm.", calls=[("shell", {"command": "yarn test"})]),
        Reply(when=first, calls=[("shell", {"command": "make test"})]),
        Reply(when=first, text="They pass. The tide gauge database listens on port 5433."),
        Reply(when=second, text="5433."),
    ]
    with ScriptedModel(replies) as model:
        session = WarmstartSession("one", app=ws, project=project)
        assert "They pass." in ask(model, session, first, responses=responses)
        session = WarmstartSession("one", app=ws, project=project)
        assert ask(model, session, second, responses=responses) == "5433."
    sent = model.requests[-1].text
    for text in (first, "yarn test", "not found", "3 tests passed", "They pass.", second):
        assert text in sent
    messages = stored(ws)
    said = [message.text for message in messages if message.role == "user"]
    assert said == [first, second]
    assert [step.outcome for step in steps(messages)] == ["error", "ok"]


def test_the_next_session_starts_with_what_the_first_learned(ws: Warmstart, project: str) -> None:
    first = "Please run the tests of the tide gauge. Never commit to main without my review."
    replies = [
        Reply(calls=[("shell", {"command": "yarn test"})]),
        Reply(calls=[("shell", {"command": "make test"})]),
        Reply(text="They pass."),
    ]
    with ScriptedModel(replies) as model:
        ask(model, WarmstartSession("one", app=ws, project=project), first)
        ws.update()
        ask(model, WarmstartSession("two", app=ws, project=project), "What is new?")
        warm = model.requests[-1].text
        ask(model, WarmstartSession("two", app=ws, project=project), "And now?")
        again = model.requests[-1].text
        ask(model, WarmstartSession("three", app=ws, project=project, warm=False), "What is new?")
    assert MARK in warm
    assert "make test" in warm
    assert again.count("Never commit to main") == warm.count("Never commit to main") == 1
    assert MARK not in model.requests[-1].text
    assert [is_ours(message) for message in stored(ws, "two")][:2] == [True, False]
