from __future__ import annotations

import copy
import json
import re
from itertools import product

import pytest

from tests.templates.generated import Drawing
from warmstart.errors import InvalidTemplate
from warmstart.profile.profiler import Profiler
from warmstart.sessions.marks import CALL, is_marked, is_marked_call
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.claude_code import ClaudeCodeReader
from warmstart.sessions.readers.openai import OpenAIReader
from warmstart.sessions.values import Message, Session
from warmstart.templates import (
    Item,
    SessionExtractor,
    SessionSeed,
    Source,
    ToolCallExample,
    WarmSessionBootstrapper,
    WarmTemplate,
    inject,
)
from warmstart.templates.session_view import SessionView
from warmstart.templates.start import shape_of

SOURCES = (Source("0123456789abcdef", "m1"),)
SEED = SessionSeed(
    items=(
        Item(kind="instruction", text="Never push to main.", sources=SOURCES),
        Item(
            kind="example",
            text="Fix the tide table",
            calls=(
                ToolCallExample("bash", '{"command": "make build"}', "ok, 3 lines"),
                ToolCallExample("read", '{"path": "tides.py"}', ""),
                ToolCallExample("bash", '{"command": "make test"}', "12 passed"),
            ),
            sources=SOURCES,
        ),
        Item(kind="example", text="Test it", calls=(ToolCallExample("shell", "make lint", "ok"),), sources=SOURCES),
    ),
)
TEMPLATE = WarmTemplate(id="warm_20260914_120000", name="tides", seed=SEED)
OPENAI = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "fine"},
]
ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "fine"}]},
]


def check_openai(messages) -> None:
    """What the API asks for: every call is answered at once, by its id, and ids are like no other."""
    ids = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        ids += waiting
        for call in message.get("tool_calls") or ():
            assert call["type"] == "function"
            if call["function"]:
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert waiting == []
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", one) for one in ids)


def check_anthropic(messages) -> None:
    """What the API asks for: roles alternate from the user's on, and every call is answered in the next message."""
    assert [message["role"] for message in messages] == [("user", "assistant")[n % 2] for n in range(len(messages))]
    ids = []
    waiting: list[str] = []
    for message in messages:
        blocks = [block for block in message["content"] if isinstance(block, dict)]
        assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == waiting
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        ids += waiting
        assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert waiting == []
    assert len(ids) == len(set(ids))


def test_the_note_and_the_pairs_come_after_the_system_messages():
    messages = inject(TEMPLATE, OPENAI)
    roles = [message["role"] for message in messages]
    assert roles == ["system", "system", *["assistant", "tool"] * 4, "user", "assistant", "tool"]
    assert messages[1]["content"].startswith('[warmstart] Template "tides"')
    assert [messages[0], *messages[10:]] == OPENAI
    check_openai(messages)


def test_what_the_system_message_says_already_is_not_said_again():
    own = [
        {"role": "system", "content": "You help.\n\n- Never push\n  to main.\n"},
        {"role": "user", "content": "Hello"},
    ]
    assert "Never push" not in json.dumps(inject(TEMPLATE, own)[1:])
    blocks = [{"role": "system", "content": [{"type": "text", "text": "Never push to main."}]}, own[1]]
    assert "Never push" not in json.dumps(inject(TEMPLATE, blocks)[1:])
    quoted = [own[1], {"role": "user", "content": "Never push to main."}]
    assert "Never push" in inject(TEMPLATE, quoted)[0]["content"]


def test_the_calls_of_a_procedure_are_shown_with_their_results():
    inserted = inject(TEMPLATE, OPENAI)[2:10]
    assert [message["tool_calls"][0]["function"] for message in inserted[::2]] == [
        {"name": "bash", "arguments": '{"command":"make build"}'},
        {"name": "read", "arguments": '{"path":"tides.py"}'},
        {"name": "bash", "arguments": '{"command":"make test"}'},
        {"name": "shell", "arguments": '{"command":"make lint"}'},
    ]
    assert [message["content"] for message in inserted[1::2]] == ["ok, 3 lines", "ok", "12 passed", "ok"]
    assert inserted[0]["content"] == "[warmstart] Example: Fix the tide table"


def test_the_callers_messages_are_not_changed():
    before = copy.deepcopy(OPENAI)
    messages = inject(TEMPLATE, OPENAI)
    assert before == OPENAI
    messages[1]["content"] = "changed"
    messages[2]["tool_calls"][0]["id"] = "changed"
    assert inject(TEMPLATE, OPENAI) == inject(TEMPLATE, before)
    assert "changed" not in json.dumps(inject(TEMPLATE, OPENAI))


def test_a_template_is_inserted_once(subtests):
    for messages, renderer in product([OPENAI, ANTHROPIC], ["messages", "system", "xml"]):
        with subtests.test(messages=messages, renderer=renderer):
            once = inject(TEMPLATE, messages, renderer=renderer)
            assert len(once) > len(messages)
            again = inject(TEMPLATE, once, renderer=renderer)
            assert again == once
            assert again is not once
            assert inject(TEMPLATE, once) == once


def test_a_template_in_the_middle_of_a_system_prompt_is_seen():
    text = inject(TEMPLATE, [], renderer="system")[0]["content"]
    messages = [{"role": "system", "content": f"You help.\n\n{text}\n\nBe kind."}, {"role": "user", "content": "Hi"}]
    assert inject(TEMPLATE, messages) == messages


def test_other_notes_of_ours_do_not_keep_a_template_out():
    messages = [{"role": "system", "content": "[warmstart] Read before you act.\n[/warmstart]"}]
    assert len(inject(TEMPLATE, messages)) > 1


def test_anthropic_messages_stay_valid(subtests):
    for renderer in ["messages", "system", "xml"]:
        with subtests.test(renderer=renderer):
            messages = inject(TEMPLATE, ANTHROPIC, renderer=renderer)
            check_anthropic(messages)
            assert messages[-3:] == ANTHROPIC
            assert is_marked(messages[0]["content"][0]["text"])
            assert is_marked(messages[-4]["content"][0]["text"])


def test_calls_of_the_anthropic_shape_have_their_input_as_an_object():
    inserted = inject(TEMPLATE, ANTHROPIC)[1:]
    text, use = inserted[0]["content"]
    assert text == {"type": "text", "text": "[warmstart] Example: Fix the tide table"}
    assert (use["name"], use["input"]) == ("bash", {"command": "make build"})
    assert inserted[1]["content"] == [{"type": "tool_result", "tool_use_id": use["id"], "content": "ok, 3 lines"}]


def test_generated_templates_give_valid_messages_in_both_shapes():
    for seed in range(150):
        template = Drawing(seed).template()
        check_openai(inject(template, OPENAI, budget_tokens=3000))
        check_anthropic(inject(template, ANTHROPIC, budget_tokens=3000))


def test_nothing_hands_over_where_no_users_message_follows():
    answering = [{"role": "assistant", "content": [{"type": "text", "text": "Hello, I am here."}]}]
    check_anthropic(inject(TEMPLATE, answering))
    assert inject(TEMPLATE, [], shape="anthropic")[-1]["role"] == "assistant"


def test_the_shape_is_told_from_the_messages(subtests):
    cases = [
        (OPENAI, "openai"),
        (ANTHROPIC, "anthropic"),
        ([{"role": "user", "content": "Hi"}], "openai"),
        ([], "openai"),
        ([{"role": "developer", "content": "Hi"}], "openai"),
        ([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "openai"),
        ([{"role": "system", "content": ""}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "openai"),
    ]
    for messages, shape in cases:
        with subtests.test(messages=messages, shape=shape):
            assert shape_of(messages) == shape


def test_the_shape_of_tools_decides_where_messages_do_not():
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("bash", "read")]
    messages = inject(TEMPLATE, [{"role": "user", "content": "Hi"}], tools=tools)
    assert messages[0]["role"] == "user"
    assert messages[1]["content"][1]["type"] == "tool_use"
    openai = inject(TEMPLATE, [{"role": "user", "content": "Hi"}], tools=tools, shape="openai")
    assert openai[0]["role"] == "system"


def test_a_note_beside_a_developer_message_is_one_too():
    messages = inject(TEMPLATE, [{"role": "developer", "content": "You help."}, {"role": "user", "content": "Hi"}])
    assert [message["role"] for message in messages[:2]] == ["developer", "developer"]


def test_messages_without_a_system_message_begin_with_the_note():
    assert is_marked(inject(TEMPLATE, [{"role": "user", "content": "Hi"}])[0]["content"])


def test_every_inserted_message_is_marked():
    for message in inject(TEMPLATE, OPENAI)[1:10]:
        if message["role"] == "tool":
            assert is_marked_call(message["tool_call_id"])
        else:
            assert is_marked(message["content"])
            assert all(is_marked_call(call["id"]) for call in message.get("tool_calls", ()))


def test_templates_that_may_not_be_used_are_refused(subtests):
    for state in ["quarantined", "retired"]:
        with subtests.test(state=state):
            template = WarmTemplate(id="warm_1", name="tides", seed=SEED, state=state)
            with pytest.raises(InvalidTemplate, match=f"'warm_1' is {state}: warmstart templates promote warm_1"):
                inject(template, OPENAI)
            assert len(inject(template, OPENAI, allow_quarantined=True)) > len(OPENAI)


def test_candidates_may_be_used():
    template = WarmTemplate(name="tides", seed=SEED, state="candidate")
    assert len(inject(template, OPENAI)) > len(OPENAI)


def test_without_room_the_messages_stay_as_they_are():
    assert inject(TEMPLATE, OPENAI, budget_tokens=40) == OPENAI


def test_the_same_template_gives_the_same_bytes():
    first = json.dumps(inject(TEMPLATE, OPENAI))
    same = WarmTemplate(id="warm_other", name="tides", seed=copy.deepcopy(SEED), version=7, used=12)
    assert json.dumps(inject(same, OPENAI)) == first


def test_the_brief_comes_first_and_once(subtests) -> None:
    brief = "[warmstart] Notes from earlier sessions in this project.\n- `make test`\n[/warmstart]"
    for messages, check in ((OPENAI, check_openai), (ANTHROPIC, check_anthropic)):
        with subtests.test(messages=messages):
            warm = inject(TEMPLATE, messages, brief=brief)
            check(warm)
            shown = json.dumps(warm)
            assert shown.index("Notes from") < shown.index("Template")
            assert json.dumps(inject(TEMPLATE, warm, brief=brief)).count("Notes from") == 1


def test_a_bootstrapper_serves_sessions_of_both_shapes() -> None:
    bootstrapper = WarmSessionBootstrapper(TEMPLATE, tools=["bash", "read", "shell"])
    assert bootstrapper.inject(OPENAI) == inject(TEMPLATE, OPENAI)
    assert bootstrapper.inject(ANTHROPIC) == inject(TEMPLATE, ANTHROPIC)
    assert bootstrapper.rendering.messages == inject(TEMPLATE, [])
    assert WarmSessionBootstrapper(TEMPLATE, shape="anthropic").rendering.shape == "anthropic"
    assert WarmSessionBootstrapper(TEMPLATE, tools=[]).rendering.items == bootstrapper.rendering.items[:1]


# What was inserted is never taken for somebody's words again.


def test_a_log_of_chat_messages_gives_back_nothing_of_ours(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(inject(TEMPLATE, OPENAI[:2])), encoding="utf-8")
    pairs = list(OpenAIReader().read(path, Reading(path)))
    assert len(pairs) > 9
    check_walk(pairs)


def test_a_log_of_claude_code_gives_back_nothing_of_ours(tmp_path):
    path = tmp_path / "0b2f6a1e-58c1-4c0e-9c44-000000000000.jsonl"
    records = [
        {
            "type": message["role"],
            "uuid": f"00000000-0000-4000-8000-{number:012}",
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": "0b2f6a1e-58c1-4c0e-9c44-000000000000",
            "cwd": "/home/mara/tidewatch",
            "timestamp": f"2026-09-14T12:00:{number:02}Z",
            "message": {**message, "id": f"msg_{number}", "type": "message"},
        }
        for number, message in enumerate(inject(TEMPLATE, ANTHROPIC[:1]))
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    check_walk(list(ClaudeCodeReader().read(path, Reading(path))))


def test_a_note_inside_a_systems_prompt_is_not_extracted(subtests):
    for renderer in ["system", "xml"]:
        with subtests.test(renderer=renderer):
            note = inject(TEMPLATE, [{"role": "user", "content": "Hello"}], renderer=renderer)[0]["content"]
            prompt = f"You keep the tides.\n\n- Always use type hints.\n\n{note}\n\n- Never use tabs.\n"
            messages = [
                Message(native_id="m1", role="system", text=prompt),
                Message(native_id="m2", role="user", text="Look at the tides, please."),
            ]
            seed = SessionExtractor().extract(Session(agent="a", native_id="s"), messages)
            said = [each.text for each in seed.of("context")]
            assert any("type hints" in text for text in said)
            assert any("tabs" in text for text in said)
            assert not any("push to main" in text or "warmstart" in text for text in said)


def check_walk(pairs) -> None:
    """Of the log, extraction sees the caller's own messages alone."""
    session = pairs[0][0]
    messages = [message for _, message in pairs if message]
    assert any(message.tool_calls for message in messages)
    reading = SessionView(session, messages, Profiler().steps(session, messages))
    assert [text for _, text, _ in reading.said] == ["Hello"]
    assert reading.steps == []
    assert {message.text for message in reading.messages} <= {"Hello", "You help."}
    assert CALL not in repr(reading.messages)
    seed = SessionExtractor().extract(session, messages)
    assert {item.kind for item in seed.items} == {"habit"}  # how the user writes
