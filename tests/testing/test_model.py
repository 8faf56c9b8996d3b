"""The scripted model endpoint: four protocols, streamed and whole."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from warmstart.sessions.values import Usage
from warmstart.testing.model import Reply, Request, ScriptedModel

REPLY = Reply(
    reasoning="Let me see.",
    text="Running.",
    calls=[("shell", {"command": "make test"}), ("read", {"path": "a.txt"})],
    usage=Usage(input=100, output=7, cache_read=30, cache_write=4, reasoning=2),
)
CALLS = [("shell", {"command": "make test"}), ("read", {"path": "a.txt"})]
PROTOCOLS = {
    "/v1/messages": {"messages": [{"role": "user", "content": "go"}]},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "go"}]},
    "/v1/responses": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}]},
    "/v1beta/models/m:generateContent": {"contents": [{"role": "user", "parts": [{"text": "go"}]}]},
}


def post(model: ScriptedModel, path: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(model.url + path, json.dumps({"model": "m", **body}).encode())
    with urllib.request.urlopen(request, timeout=180) as response:
        return bytes(response.read())


def chat(model: ScriptedModel, *words: str, **more: Any) -> str:
    """The text of the answer to a chat whose user messages are `words`."""
    messages = [{"role": "user", "content": each} for each in words]
    answer = json.loads(post(model, "/v1/chat/completions", {"messages": messages, **more}))
    return str(answer["choices"][0]["message"]["content"])


def events(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream; where they have names, each must be that of its data."""
    found = []
    for block in stream.decode().strip().split("\n\n"):
        *name, data = block.split("\n")
        if data != "data: [DONE]":
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == ([f"event: {found[-1]['type']}"] if "type" in found[-1] else [])
    return found


def test_every_protocol_answers_with_reasoning_text_calls_and_usage(subtests) -> None:
    with ScriptedModel([REPLY] * 4) as model:
        answers = {path: json.loads(post(model, path, body)) for path, body in PROTOCOLS.items()}
    with subtests.test("Anthropic"):
        message = answers["/v1/messages"]
        thinking, text, *calls = message["content"]
        assert (thinking["thinking"], text["text"]) == ("Let me see.", "Running.")
        assert [(call["name"], call["input"]) for call in calls] == CALLS
        assert (message["role"], message["model"], message["stop_reason"]) == ("assistant", "m", "tool_use")
        assert message["usage"] == {
            "input_tokens": 100,
            "output_tokens": 7,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 4,
        }
    with subtests.test("chat completions"):
        completion = answers["/v1/chat/completions"]
        (choice,) = completion["choices"]
        functions = [call["function"] for call in choice["message"]["tool_calls"]]
        assert choice["message"]["content"] == "Running."
        assert [(each["name"], json.loads(each["arguments"])) for each in functions] == CALLS
        assert choice["finish_reason"] == "tool_calls"
        assert (completion["usage"]["prompt_tokens"], completion["usage"]["total_tokens"]) == (134, 141)
        assert completion["usage"]["prompt_tokens_details"] == {"cached_tokens": 30}
    with subtests.test("responses"):
        response = answers["/v1/responses"]
        reasoning, said, *calls = response["output"]
        assert (reasoning["summary"][0]["text"], said["content"][0]["text"]) == ("Let me see.", "Running.")
        assert [(call["name"], json.loads(call["arguments"])) for call in calls] == CALLS
        assert (response["usage"]["input_tokens"], response["usage"]["total_tokens"]) == (134, 141)
    with subtests.test("Gemini"):
        content = answers["/v1beta/models/m:generateContent"]
        (candidate,) = content["candidates"]
        thought, said, *calls = candidate["content"]["parts"]
        assert (thought, said) == ({"text": "Let me see.", "thought": True}, {"text": "Running."})
        assert [(call["functionCall"]["name"], call["functionCall"]["args"]) for call in calls] == CALLS
        assert (candidate["finishReason"], content["modelVersion"]) == ("STOP", "m")
        assert content["usageMetadata"] == {
            "promptTokenCount": 134,
            "cachedContentTokenCount": 30,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2,
            "totalTokenCount": 141,
        }


def test_a_streamed_answer_adds_up_to_the_whole_one(subtests) -> None:
    for path, body in PROTOCOLS.items():
        with subtests.test(path):
            with ScriptedModel([REPLY]) as model:
                whole = json.loads(post(model, path, body))
            with ScriptedModel([REPLY]) as model:
                # Gemini streams from a path of its own.
                stream = post(model, path.replace(":generate", ":streamGenerate"), {**body, "stream": True})
            assert ASSEMBLE[path](events(stream)) == whole
            assert stream.endswith(b"data: [DONE]\n\n") == (path == "/v1/chat/completions")


def assemble_message(found: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = found[0]["message"]
    arguments = ""
    for event in found:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                message["content"].append(block)
                arguments = ""
            case {"delta": {"type": "input_json_delta", "partial_json": piece}}:
                arguments += piece
                message["content"][-1]["input"] = json.loads(arguments)
            case {"type": "content_block_delta", "delta": {"type": _, **added}}:
                for key, piece in added.items():
                    message["content"][-1][key] += piece
            case {"type": "message_delta", "delta": ending, "usage": usage}:
                message |= {**ending, "usage": usage}
    assert found[-1] == {"type": "message_stop"}
    return message


def assemble_completion(found: list[dict[str, Any]]) -> dict[str, Any]:
    first, ending, usage = found
    message = first["choices"][0]["delta"]
    assert [call.pop("index") for call in message["tool_calls"]] == [0, 1]
    choice = {**ending["choices"][0], "message": message}
    del choice["delta"]
    return {**usage, "object": "chat.completion", "choices": [choice]}


def assemble_response(found: list[dict[str, Any]]) -> dict[str, Any]:
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    pieces = [event["delta"] for event in found if event["type"].endswith(".delta")]
    assert pieces == ["Running.", *(json.dumps(arguments) for _, arguments in CALLS)]
    response: dict[str, Any] = found[-1]["response"]
    assert response["output"] == done
    return response


def assemble_content(found: list[dict[str, Any]]) -> dict[str, Any]:
    chunks = [event["candidates"][0] for event in found]
    assert ["finishReason" in chunk for chunk in chunks] == [False, False, False, True]
    parts = [part for chunk in chunks for part in chunk["content"]["parts"]]
    return {**found[-1], "candidates": [{**chunks[-1], "content": {"role": "model", "parts": parts}}]}


ASSEMBLE = {
    "/v1/messages": assemble_message,
    "/v1/chat/completions": assemble_completion,
    "/v1/responses": assemble_response,
    "/v1beta/models/m:generateContent": assemble_content,
}


def test_a_response_names_the_namespace_of_a_tool() -> None:
    with ScriptedModel([Reply(calls=[("mcp__x.look", {}), ("look", {})])]) as model:
        output = json.loads(post(model, "/v1/responses", {"model": "scripted", "input": "Hello."}))["output"]
    assert [(call["name"], call.get("namespace")) for call in output] == [("look", "mcp__x"), ("look", None)]


def test_replies_come_in_order_and_wait_for_the_text_they_answer() -> None:
    replies = [
        Reply(text="again", when="summary", repeat=True),
        Reply(text="blue", when="colour"),
        Reply(text="one"),
        Reply(text="two"),
    ]
    with ScriptedModel(replies) as model:
        said = [chat(model, words) for words in ("go", "a summary", "a colour", "a summary", "a colour", "go")]
        assert chat(model, "a colour", "go") == "Done."
    assert said == ["one", "again", "blue", "again", "two", "Done."]


def test_a_script_can_grow() -> None:
    with ScriptedModel([Reply(text="one")]) as model:
        model.add(Reply(text="two"), Reply(text="three"))
        assert [chat(model, "go") for _ in range(3)] == ["one", "two", "three"]


def test_a_function_can_be_the_script() -> None:
    def script(request: Request) -> Reply:
        return Reply(text=f"{request.last_user_text} {request.tools}")

    with ScriptedModel(script) as model:
        tool = {"type": "function", "function": {"name": "shell"}}
        assert chat(model, "first", "second", tools=[tool]) == "second ('shell',)"


def test_an_errand_uses_up_nothing() -> None:
    with ScriptedModel([Reply(text="one")], errand="A title.") as model:
        tool = {"type": "function", "function": {"name": "shell"}}
        assert [chat(model, "go"), chat(model, "go", tools=[tool])] == ["A title.", "one"]


def test_a_request_is_recorded_with_all_that_the_model_reads() -> None:
    body = {
        "system": [{"type": "text", "text": 'never say "no"'}],
        "tools": [{"name": "Bash", "description": "not read as text"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {"c": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a.txt"}]},
        ],
    }
    with ScriptedModel() as model:
        post(model, "/v1/messages?beta=true", body)
    (request,) = model.requests
    assert (request.path, request.last_user_text, request.tools) == ("/v1/messages", "go", ("Bash",))
    assert request.body == {"model": "m", **body}
    assert request.headers["content-type"]
    assert {'never say "no"', "go", "ls", "a.txt"} <= set(request.text.splitlines())
    assert "not read" not in request.text


def test_a_request_to_gemini_is_read_as_the_others_are() -> None:
    body = {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "tools": [{"functionDeclarations": [{"name": "shell", "description": "not read as text"}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "context"}, {"text": "go"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "shell", "args": {"c": "ls"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": {"output": "a.txt"}}}]},
        ],
    }
    with ScriptedModel([Reply(text="yes", when="go")]) as model:
        answer = json.loads(post(model, "/v1beta/models/m:generateContent", body))
        assert json.loads(post(model, "/v1beta/models/m:countTokens", body))["totalTokens"] > 0
    (request,) = model.requests
    assert answer["candidates"][0]["content"]["parts"] == [{"text": "yes"}]
    assert (request.last_user_text, request.tools) == ("context\ngo", ("shell",))
    assert {"be brief", "go", "ls", "a.txt"} <= set(request.text.splitlines())
    assert "not read" not in request.text


def test_many_agents_may_ask_at_once() -> None:
    with ScriptedModel([Reply(text=str(number)) for number in range(20)]) as model:
        said: list[str] = []
        threads = [threading.Thread(target=lambda: said.append(chat(model, "go"))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(said, key=int) == [str(number) for number in range(20)]
    assert len(model.requests) == 20


def test_what_it_does_not_speak_is_not_found_and_not_recorded() -> None:
    with ScriptedModel() as model:
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            post(model, "/api/show", {})
        refused.value.close()
        with urllib.request.urlopen(f"{model.url}/v1/models", timeout=180) as response:
            assert json.loads(response.read())["data"][0]["id"] == "scripted"
        assert json.loads(post(model, "/v1/messages/count_tokens", {}))["input_tokens"] > 0
    assert model.requests == []


def test_nothing_listens_after_the_block() -> None:
    with ScriptedModel() as model:
        assert model.url.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.URLError):
        chat(model, "go")
