"""What is given to be remembered: without secrets, within limits, or refused in one clear line."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from tests.memory.conftest import DATABASES
from warmstart.errors import InvalidEntry
from warmstart.memory.entries import Prepared, clean_view, prepare
from warmstart.memory.values import View
from warmstart.redact.redactor import Redactor

TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSWORD = "correcthorsebattery9X"
REDACTOR = Redactor()


def given(key: str, value: str = "value", metadata: Any = None, view: View | None = None) -> Prepared:
    return prepare(key, value, metadata, view=view, redactor=REDACTOR)


def test_a_secret_in_a_project_or_an_agent_is_kept_nowhere_and_still_tells_them_apart(fresh, subtests) -> None:
    for database, scope in product(DATABASES, ["project", "agent"]):
        with subtests.test(database=database, scope=scope), fresh(database) as backend:
            place, other = f"https://mara:{TOKEN}@example.com/tides", f"https://mara:{TOKEN[::-1]}@example.com/tides"
            here, there = (backend.at(View(**{scope: each})) for each in (place, other))
            backend.store("mara", "port", "5433", {"scope": scope, scope: place})
            here.store("mara", "style", "tabs", {"scope": scope})
            run = backend._opened.database.connection.execute
            assert TOKEN not in str(run("SELECT * FROM memory_entries").fetchall())
            assert here.list_keys("mara") == ["style", "port"]
            assert [entry.key for entry in here.query("mara", "port")] == ["port"]
            found = here.retrieve("mara", "port")
            assert found is not None
            assert found.metadata[scope] == getattr(clean_view(View(**{scope: place}), REDACTOR), scope)
            assert [version.value for version in here.history("mara", "port")] == ["5433"]
            assert there.list_keys("mara") == there.query("mara", "port") == there.history("mara", "port") == []
            assert there.retrieve("mara", "port") is None
            assert there.delete("mara", "port") is False
            assert here.delete("mara", "port") is True


def test_what_is_left_of_a_key_names_its_value(subtests) -> None:
    for key in [f"{TOKEN} password", f"password {TOKEN} password", "password", "db_passwords"]:
        with subtests.test(key=key):
            kept = given(key, PASSWORD)
            assert TOKEN not in kept.key
            assert PASSWORD not in kept.value
            assert kept.value.startswith("[redacted:password:")


def test_a_secret_that_begins_in_the_key_is_replaced_in_the_value() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC0H0"
    own = Redactor(patterns={"pair": "left: right"})
    assert prepare("left", "right and more", None, view=None, redactor=own).value.endswith("] and more")
    assert body not in given("-----BEGIN PRIVATE KEY-----", f"{body}\n-----END PRIVATE KEY-----").value


def test_the_key_never_gets_into_the_value() -> None:
    assert given("Xk9#mP2$vL8q", "PASSWORD=Xk9#mP2$vL8q").value.startswith("PASSWORD=[redacted:password:")


def test_names_in_metadata_tell_what_is_a_secret(subtests) -> None:
    cases = [
        {"passwords": ["Tr0ub4dor&3xyz!"]},
        {"passwords": [["Tr0ub4dor&3xyz!"], "x"]},
        {"password": ["Tr0ub4dor&3xyz!"]},
        {"db": {"password": {"value": "Tr0ub4dor&3xyz!"}}},
        {"db": {"dbPassword": {"current": {"of": ["Tr0ub4dor&3xyz!"]}}}},
        {"password": 12345678901},
        {"passwords": [12345678901]},
        {"db": {"password": {"value": 12345678901}}},
        {"password": "12345678901"},
        {"password": PASSWORD},
        {"api_keys": ["sk9xQ2vLp7wTz"]},
        {"credentials": {"ftp": PASSWORD}},
        {f"{TOKEN} password": PASSWORD},
    ]
    for metadata in cases:
        with subtests.test(metadata=metadata):
            kept = given("note", metadata=metadata).metadata
            for secret in ("Tr0ub4dor", "12345678901", PASSWORD, "sk9xQ2vLp7wTz", TOKEN):
                assert secret not in kept
            assert "[redacted:" in kept


def test_what_only_sounds_like_a_secret_is_kept(fresh, subtests) -> None:
    cases = [
        {"tokens": 12345678901, "max_tokens": 128000, "usage": {"tokens": {"input": 12345678}}},
        {"password_changed_at": 1790000000, "password": {"changed_at": 1790000000, "length": 12}},
        {"password_manager": "1Password", "password_tools": ["Bitwarden", "KeePassXC"], "password": True},
        {"session": "0197f3a2-5f2b-7c1a-9d1e-2b3c4d5e6f70", "expires_at": 4e9, "keys": ["F1", "ctrl+alt+x"]},
        {"token_limit": "128k", "key": "C-sharp-minor", "auth": "oauth2", "deep": {"n": 1.5, "none": None}},
    ]
    for metadata in cases:
        with subtests.test(metadata=metadata), fresh("local") as backend:
            backend.store("mara", "note", "value", metadata)
            found = backend.retrieve("mara", "note")
            assert found is not None
            assert found.metadata == metadata


LONG = "long" * 125 + "x"


def test_what_is_too_long_or_no_text_is_refused_in_one_line(fresh, subtests) -> None:
    cases = [
        (LONG, "key", None),
        ("mara", LONG, None),
        ("mara", "key" * 3000, None),
        ("mara", "key", {"scope": "project", "project": LONG}),
        ("mara", "key", {"scope": "agent", "agent": LONG}),
        ("mara", "鍵" * 400, {"scope": "project", "project": "港" * 400}),
        ("mara", "key", {"notes": "x" * 65_536}),
        ("mara", "key", {"notes": "港" * 22_000}),
        ("mara", "key", "abc"),
        ("mara", "key", [1]),
        ("mara", "key", 7),
        (None, "key", None),
        (7, "key", None),
        ("mara", None, None),
        (["mara"], "key", None),
    ]
    for user, key, metadata in cases:
        with subtests.test(user=user, key=key, metadata=metadata), fresh("local") as backend:
            with pytest.raises(InvalidEntry) as refused:
                backend.store(user, key, "value", metadata)
            assert "\n" not in str(refused.value)
            assert backend.users() == []


def test_a_question_that_is_no_text_is_refused(fresh, subtests) -> None:
    for wrong in [None, 7, b"mara", ["mara"]]:
        with subtests.test(wrong=wrong), fresh("local") as backend:
            backend.store("mara", "key", "value")
            asked = [
                partial(backend.query, "mara", wrong),
                partial(backend.query, wrong, "key"),
                partial(backend.retrieve, "mara", wrong),
                partial(backend.retrieve, wrong, "key"),
                partial(backend.delete, "mara", wrong),
                partial(backend.delete, wrong, "key"),
                partial(backend.list_keys, wrong),
                partial(backend.history, "mara", wrong),
                partial(backend.history, wrong, "key"),
                partial(backend.forget_user, wrong),
            ]
            for ask in asked:
                with pytest.raises(InvalidEntry, match="must be text"):
                    ask()
            with pytest.raises(InvalidEntry, match="whole number"):
                backend.query("mara", "key", "3")  # type: ignore[arg-type]
