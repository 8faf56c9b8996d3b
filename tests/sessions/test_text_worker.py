"""A large import scans and stems its texts in another process, with the same result."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.sessions.logs import name, turn, write
from warmstart.redact.redactor import Redactor
from warmstart.sessions import sync as sync_module
from warmstart.sessions.redaction import Texts
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.text_worker import TextWorker
from warmstart.sessions.values import session_id
from warmstart.testing.stores import find_texts
from warmstart.text.words import distinct_stems

SECRET = "zX9#kQ2!mN7$wP"
GROUPS = [
    Texts(["Tides rising", "naïve 漁港", "x" * 1_000_000], ["model"]),
    Texts([], []),
    Texts([f'password: "{SECRET}"'], []),
    Texts(["harmless"], ["harbour-7"]),
]


@pytest.fixture(autouse=True)
def always_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_module, "_MIN_LARGE", -1)


def test_the_worker_finds_secrets_and_stems() -> None:
    with closing(TextWorker(Redactor(patterns={"berth": r"harbour-\d"}))) as worker:
        scans = worker.submit(GROUPS).result()
    assert [scan.has_secret for scan in scans] == [False, False, True, True]
    assert [[set(stems.split()) for stems in scan.stems] for scan in scans] == [
        [set(distinct_stems(body).split()) for body in texts.bodies] for texts in GROUPS
    ]
    with closing(TextWorker(None)) as worker:
        assert not any(scan.has_secret for scan in worker.submit(GROUPS).result())


def test_the_worker_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with closing(TextWorker(None)) as worker:
        assert worker.submit(GROUPS).result()[0].stems


def test_without_the_process_secrets_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(TextWorker(Redactor())) as worker:
        worker.submit(GROUPS).result()
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        for _ in range(2):
            assert [scan.has_secret for scan in worker.submit(GROUPS).result()] == [False, False, True, False]
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    with closing(TextWorker(Redactor())) as worker:
        assert [scan.has_secret for scan in worker.submit(GROUPS).result()] == [False, False, True, False]


def test_every_request_gets_its_own_result_even_if_the_process_dies_meanwhile() -> None:
    long = "tides " * 400_000  # more than a pipe holds
    requests = [[Texts([long, f'password: "{SECRET}"' if number % 3 else "harmless"], [])] for number in range(9)]
    with closing(TextWorker(Redactor())) as worker:
        futures = [worker.submit(request) for request in requests]
        futures[2].result()
        assert worker._process is not None
        worker._process.kill()
        assert [future.result()[0].has_secret for future in futures] == [number % 3 > 0 for number in range(9)]


def test_a_large_import_is_redacted_and_found(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for log in ("one", "two"):
        texts = (f'berth {log}{number} has the password: "{SECRET}"' for number in range(3))
        write(logs, log, [line for number, text in enumerate(texts) for line in turn(log, number, text=text)])
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        assert sync(store, path_sources([logs])).changed == 24
        assert SECRET not in repr([*store.messages(session_id("claude-code", name("one")))])
        assert all("berth two1" in text for text in find_texts(store, "berths two1") or [""])
        assert find_texts(store, "password") != []
        assert find_texts(store, "zX9") == []
        assert store.database.integrity() == []
