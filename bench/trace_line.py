"""Count the functions of ours that run between a line of a Claude Code log and a search result.

Usage: python bench/trace_line.py [--list]. `docs/architecture.md` walks through them.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import warmstart
from warmstart.recall.index import Index

SOURCE = str(Path(warmstart.__file__).parent)
LINE = {
    "type": "user",
    "uuid": "5f0c9a52-7d4e-4a6b-9a53-0e5f3c1d2b7a",
    "parentUuid": None,
    "isSidechain": False,
    "userType": "external",
    "sessionId": "0b5d8c1e-52f4-4a7b-8d0e-6f1a2b3c4d5e",
    "timestamp": "2026-09-03T08:12:00.000Z",
    "cwd": "/home/mara/tidewatch",
    "version": "2.1.0",
    "message": {"role": "user", "content": "the database listens on port 5433"},
}
LATER = "after the upgrade the database uses port 5434"
QUERY = "which port does the database use"


def trace() -> list[tuple[str, str]]:
    """The functions that run, as (file, name), in order of their first call."""
    calls: dict[tuple[str, str], None] = {}
    active = False
    threading.setprofile(lambda *event: record(*event))  # a write finishes in another thread

    def record(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")  # no class body
        if active and event == "call" and is_function and code.co_filename.startswith(SOURCE):
            calls.setdefault((code.co_filename.removeprefix(f"{SOURCE}/"), code.co_qualname))

    # Not a random name: it might look like a secret and be examined more closely.
    folder = Path(tempfile.gettempdir(), f"{os.getpid()}-trace")
    try:
        log = folder / "projects" / "-home-mara-tidewatch" / f"{LINE['sessionId']}.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text(json.dumps(LINE) + "\n", encoding="utf-8")
        with warmstart.open(folder / "store.db", home=folder) as ws:
            # A first run creates the tables, loads every module and fills the caches, so that none of it is counted.
            ws.sync([log])
            ws.recall(QUERY, project=None)
            index = Index(ws.store)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(LINE | {"uuid": "2", "message": {"role": "user", "content": LATER}}) + "\n")
            active = True
            sys.setprofile(record)
            try:
                ws.import_logs([log])
                index.update()
                found = ws.recall(QUERY, project=None)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder)
    assert found, "the search must find the line"
    return list(calls)


def main() -> None:
    functions = trace()
    if "--list" in sys.argv[1:]:
        for file, name in functions:
            print(f"{file}: {name}")
    print(f"{len(functions)} functions in {len({file for file, _ in functions})} files")


if __name__ == "__main__":
    main()
