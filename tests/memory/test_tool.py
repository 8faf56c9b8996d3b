"""The tool for agents: JSON whatever happens, and what to do when something is wrong."""

from __future__ import annotations

import json

import pytest

from tests.memory.dictionary import DictBackend
from tests.memory.honcho_server import free_port
from warmstart.memory import NullBackend, selection
from warmstart.memory.tool import ACTIONS, MEMORY_BACKEND_SCHEMA, memory_backend


@pytest.fixture
def backend(monkeypatch) -> DictBackend:
    kept = DictBackend()
    monkeypatch.setattr(selection, "get_memory_backend", lambda *given, **options: kept)
    return kept


def call(*arguments, **options):
    return json.loads(memory_backend(*arguments, **options))


def test_what_is_stored_comes_back(backend):
    stored = call("store", key="pref_editor", value="Uses Helix.", metadata={"session": "s1"})
    assert stored == {"success": True, "action": "store", "key": "pref_editor", "backend": "dictionary (test)"}
    entry = call("retrieve", key="pref_editor")["entry"]
    assert (entry["key"], entry["value"], entry["user_id"]) == ("pref_editor", "Uses Helix.", "default")
    assert entry["metadata"] == {"session": "s1"}
    assert entry["created_at"].endswith("Z")
    assert [each["key"] for each in call("query", query_text="helix")["entries"]] == ["pref_editor"]
    assert call("list") == {"success": True, "action": "list", "count": 1, "keys": ["pref_editor"]}
    assert call("list", user_id="somebody else")["keys"] == []
    assert call("delete", key="pref_editor")["success"]
    assert call("list")["keys"] == []


def test_an_empty_query_gives_the_newest(backend):
    call("store", key="a", value="one")
    call("store", key="b", value="two")
    assert [each["key"] for each in call("query", query_text="")["entries"]] == ["b", "a"]


def test_info_tells_where_it_is(backend):
    info = call("info")
    assert (info["backend"], info["is_cloud"], info["is_available"]) == ("dictionary (test)", False, True)
    assert (info["entries"], info["max_value"]) == (0, 8000)


def test_evaluate_gives_a_report_and_leaves_nothing(backend, monkeypatch):
    monkeypatch.setattr("warmstart.memory.evaluation.evaluate.QUICK", (1,))
    report = call("evaluate")["report"]
    assert report["evaluations"][0]["score"] == 100
    assert backend.data == {}


def test_evaluate_sends_nothing_away_on_an_agents_word(backend, monkeypatch):
    monkeypatch.setattr(DictBackend, "is_cloud", True)
    stored = []
    monkeypatch.setattr(DictBackend, "store", lambda *given: stored.append(given) or True)
    answer = call("evaluate")
    assert not answer["success"]
    assert "ask the user to run `warmstart memory evaluate`" in answer["error"]
    assert stored == []


def test_what_is_wrong_is_said_with_what_to_do(backend, subtests):
    cases = [
        ({"action": "remember"}, "unknown action 'remember'; use one of: store, retrieve"),
        ({"action": None}, "unknown action None"),
        ({"action": ["store"]}, "unknown action ['store']"),
        ({"action": "store", "value": "x"}, "store needs key"),
        ({"action": "store", "key": "  ", "value": "x"}, "store needs key"),
        ({"action": "store", "key": "k"}, "store needs value"),
        ({"action": "store", "key": "k", "value": " "}, "to forget a key use the action 'delete'"),
        ({"action": "retrieve"}, "retrieve needs key"),
        ({"action": "retrieve", "key": "nope"}, "no entry 'nope'; the action 'list' shows the keys"),
        ({"action": "query"}, "query needs query_text"),
        ({"action": "delete"}, "delete needs key"),
        ({"action": "delete", "key": "nope"}, "no entry 'nope' to delete"),
        ({"action": "store", "key": 7, "value": "x"}, "key must be a string, not int 7"),
        (
            {"action": "store", "key": "k", "value": {"a": 1}},
            "value must be a string, not dict {'a': 1}; write it as text",
        ),
        ({"action": "list", "user_id": 7}, "user_id must be a string"),
        ({"action": "list", "user_id": ""}, "user_id must not be empty"),
        ({"action": "list", "user_id": None}, "user_id must not be empty"),
        ({"action": "query", "query_text": ["a"]}, "query_text must be a string"),
        ({"action": "store", "key": "k", "value": "x", "metadata": "m"}, "metadata must be an object, not str 'm'"),
        ({"action": "store", "key": "k", "value": "x" * 8001}, "value has 8,001 characters and the limit is 8,000"),
    ]
    for arguments, said in cases:
        with subtests.test(arguments=arguments, said=said):
            answer = call(**arguments)
            assert answer["success"] is False
            assert said in answer["error"]
            assert list(answer) == ["success", "error"]
            assert backend.data == {}


def test_the_limit_is_a_setting(backend, home):
    (home / ".warmstart").mkdir()
    (home / ".warmstart" / "config.toml").write_text("[memory]\nmax_value = 10\n")
    assert call("store", key="k", value="x" * 10)["success"]
    assert "the limit is 10;" in call("store", key="k", value="x" * 11)["error"]


def test_a_limit_that_is_no_number_is_said(backend, home, subtests):
    (home / ".warmstart").mkdir()
    for value in ["0", "-3", '"many"', "true", "1.5"]:
        with subtests.test(value=value):
            (home / ".warmstart" / "config.toml").write_text(f"[memory]\nmax_value = {value}\n")
            answer = call("store", key="k", value="x")
            assert answer["success"] is False
            assert "memory.max_value" in answer["error"]


def test_a_failing_backend_is_reported_not_raised(backend, monkeypatch):
    backend.away = True
    assert call("list") == {"success": False, "error": "the dictionary is away; wait for it"}

    def broken(*arguments, **options):
        raise RuntimeError("boom\nboom")

    monkeypatch.setattr(DictBackend, "query", broken)
    backend.away = False
    assert call("query", query_text="x")["error"] == (
        "memory failed (RuntimeError: boom boom); go on without it and tell the user"
    )
    monkeypatch.setattr(DictBackend, "store", lambda *arguments: False)
    assert "did not keep 'k'" in call("store", key="k", value="v")["error"]


def test_a_write_that_goes_nowhere_is_not_silent(monkeypatch):
    monkeypatch.setattr(selection, "get_memory_backend", NullBackend)
    assert "nothing is kept" in call("store", key="k", value="v")["note"]
    assert "nothing is kept" in call("info")["note"]


def test_what_is_half_a_character_is_still_json(backend):
    assert call("store", key="k", value="half \ud83d of one")["success"]
    json.loads(memory_backend("retrieve", key="k").encode("utf-8"))


def test_the_schema_is_that_of_the_function():
    assert list(MEMORY_BACKEND_SCHEMA) == ["name", "description", "parameters"]
    function = MEMORY_BACKEND_SCHEMA
    assert function["name"] == "memory_backend"
    assert list(function["parameters"]["properties"]) == list(memory_backend.__annotations__)[:-1]
    assert function["parameters"]["properties"]["action"]["enum"] == list(ACTIONS)
    assert function["parameters"]["required"] == ["action"]
    json.dumps(MEMORY_BACKEND_SCHEMA)


def test_the_parameters_are_a_valid_schema():
    jsonschema = pytest.importorskip("jsonschema")
    parameters = MEMORY_BACKEND_SCHEMA["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    jsonschema.validate({"action": "store", "key": "k", "value": "v", "metadata": {"source": "chat"}}, parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"action": "remember"}, parameters)


def test_info_tells_what_waits_for_a_server(opened, monkeypatch):
    honcho = opened(f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(selection, "get_memory_backend", lambda *given, **options: honcho)
    assert call("store", key="a", value="one")["success"]
    assert call("info")["waiting"] == 1
