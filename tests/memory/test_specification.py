"""The names of the original specification: import paths, attributes, and the keys of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import warmstart.memory
from tests.memory.honcho_server import HonchoServer
from warmstart.config import load_settings
from warmstart.memory import LocalBackend, MemoryBackend, MemoryEntry, NullBackend, selection
from warmstart.memory.evaluation import evaluate_backend, evaluate_backends
from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.selection import get_memory_backend, reset_backend
from warmstart.memory.tool import MEMORY_BACKEND_SCHEMA, memory_backend

_FIELDS = """
backend_name available is_cloud store_latency_ms retrieve_latency_ms query_latency_ms store_success retrieve_success
query_returns_results query_result_count data_location requires_api_key score notes recommendation
"""
FIELDS = _FIELDS.split()


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    with closing(LocalBackend(db_path=tmp_path / "m.db")) as backend:
        monkeypatch.setattr(selection, "get_memory_backend", lambda *_, **__: backend)
        yield backend


def call(action: str, **options: Any) -> dict[str, Any]:
    return json.loads(memory_backend(action, **options))


def test_the_names_are_where_they_should_be() -> None:
    names = {"MemoryEntry", "MemoryBackend", "NullBackend", "LocalBackend", "get_memory_backend", "reset_backend"}
    assert set(warmstart.memory.__all__) == names
    assert warmstart.memory.local.LocalBackend is LocalBackend
    assert issubclass(HonchoBackend, MemoryBackend)
    assert MEMORY_BACKEND_SCHEMA["name"] == "memory_backend"
    assert MemoryEntry("k", "v", "u").metadata == {}


def test_the_default_is_null_and_either_variable_chooses(tmp_path: Path) -> None:
    for variables, name in (
        ({}, "null (disabled)"),
        ({"HERMES_MEMORY_BACKEND": "local"}, "local (SQLite)"),
        ({"WARMSTART_MEMORY_BACKEND": "local"}, "local (SQLite)"),
        ({"HERMES_MEMORY_BACKEND": "null", "WARMSTART_MEMORY_BACKEND": "local"}, "local (SQLite)"),
    ):
        assert get_memory_backend(load_settings(variables, home=tmp_path)).backend_name == name
        reset_backend()


def test_null_accepts_everything() -> None:
    null = NullBackend()
    assert null.is_available() is null.store("u", "k", "v") is null.delete("u", "k") is True
    assert (null.retrieve("u", "k"), null.query("u", "k"), null.list_keys("u")) == (None, [], [])


def test_an_evaluation_has_the_fields(local: LocalBackend) -> None:
    evaluation = evaluate_backend(local)
    assert [name for name in FIELDS if not hasattr(evaluation, name)] == []
    assert (evaluation.available, evaluation.is_cloud, evaluation.requires_api_key) == (True, False, False)
    assert evaluation.store_success
    assert evaluation.retrieve_success
    assert evaluation.query_returns_results
    assert evaluation.query_result_count >= 1
    assert evaluation.score >= 80
    assert evaluation.recommendation == "RECOMMENDED"
    null = evaluate_backend(NullBackend())
    assert (null.score, null.recommendation, null.store_success) == (40, "MARGINAL", False)


def test_a_backend_that_is_not_available_gets_nothing(tmp_path: Path) -> None:
    evaluation = evaluate_backend(HonchoBackend(api_key="", base_url="", path=tmp_path))
    assert (evaluation.available, evaluation.score, evaluation.recommendation) == (False, 0, "NOT AVAILABLE")
    assert "not configured" in evaluation.notes[0]


def test_a_report_is_a_dictionary(local: LocalBackend) -> None:
    report = evaluate_backends([NullBackend(), local])
    assert report["backends_evaluated"] == 2
    assert [each["backend_name"] for each in report["evaluations"]] == ["null (disabled)", "local (SQLite)"]
    assert set(FIELDS) <= set(report["evaluations"][0])
    assert report["recommendation"].startswith("Use local (SQLite)")
    assert abs(time.time() - report["timestamp"]) < 3600
    assert json.loads(json.dumps(report)) == report


def test_the_tool_speaks_the_keys_of_the_specification(local: LocalBackend) -> None:
    stored = call("store", key="pref_editor", value="Helix", metadata={"session": "s-1"})
    assert (stored["success"], stored["key"]) == (True, "pref_editor")
    found = call("retrieve", key="pref_editor")
    assert (found["success"], found["key"], found["value"]) == (True, "pref_editor", "Helix")
    assert found["metadata"] == {"session": "s-1"}
    assert abs(time.time() - found["updated_at"]) < 3600
    asked = call("query", query_text="which editor")
    assert asked["count"] == 1
    assert {"key", "value", "metadata"} <= set(asked["results"][0])
    listed = call("list")
    assert (listed["keys"], listed["count"]) == (["pref_editor"], 1)
    info = call("info")
    assert (info["backend"], info["available"], info["is_cloud"]) == ("local (SQLite)", True, False)
    report = call("evaluate")
    assert {"success", "timestamp", "backends_evaluated", "evaluations", "recommendation"} <= set(report)
    assert report["backends_evaluated"] >= 2
    assert call("delete", key="pref_editor")["success"] is True


@pytest.mark.parametrize(
    ("action", "options"),
    [
        ("dance", {}),
        ("store", {"key": "k"}),
        ("store", {"value": "v"}),
        ("retrieve", {"key": "missing"}),
        ("delete", {"key": "missing"}),
        ("query", {}),
        ("store", {"key": 5, "value": "v"}),
        ("store", {"key": "k", "value": "v" * 9000}),
        ("list", {"user_id": ""}),
        ("query", {"query_text": "x", "dialectic": "yes"}),
        ("store", {"key": "k", "value": "v", "metadata": "x"}),
    ],
)
def test_every_failure_says_so(local: LocalBackend, action: str, options: dict[str, Any]) -> None:
    answer = call(action, **options)
    assert answer["success"] is False
    assert len(answer["error"]) > 10


def test_a_key_or_an_address_alone_configures_honcho(server: HonchoServer, tmp_path: Path) -> None:
    for variables, address in (
        ({"HONCHO_API_KEY": "k-1"}, "https://api.honcho.dev"),
        ({"HONCHO_BASE_URL": server.url}, server.url),
        ({"HONCHO_BASE_URL": server.url, "HONCHO_API_KEY": "k-1", "HONCHO_APP_ID": "mine"}, server.url),
    ):
        settings = load_settings({**variables, "WARMSTART_MEMORY_BACKEND": "honcho"}, home=tmp_path)
        with closing(HonchoBackend(settings=settings)) as backend:
            assert backend.is_available()
            assert backend.status().address == address
            if "HONCHO_APP_ID" in variables:
                backend.store("u", "k", "v")
                assert backend.flush()
    assert server.entries("mine") == ["k: v"]


def test_dialectic_is_a_setting_and_an_argument_of_the_tool(
    server: HonchoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says = "They use vim."
    (tmp_path / "config.toml").write_text(f'[memory.honcho]\nurl = "{server.url}"\ndialectic = "yes"\n')
    with closing(HonchoBackend(settings=load_settings({}, home=tmp_path))) as backend:
        backend.store("default", "editor", "vim")
        assert backend.flush()
        assert "They use vim." in str(backend.query("default", "which editor"))
        monkeypatch.setattr(selection, "get_memory_backend", lambda *_, **__: backend)
        assert "They use vim." in memory_backend("query", query_text="which editor", dialectic=True)
        assert "They use vim." not in memory_backend("query", query_text="which editor", dialectic=False)
