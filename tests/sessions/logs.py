"""Small Claude Code logs for tests, with real structure and made-up content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

START = datetime(2026, 9, 1, 8, 0, tzinfo=UTC)


def name(seed: str) -> str:
    """The same uuid for the same seed."""
    return str(uuid5(NAMESPACE_URL, seed))


def turn(session: str, number: int, *, text: str = "", error: bool = False) -> list[dict[str, Any]]:
    """A request, a tool call, its result and an answer: four lines, four messages."""
    common = {"sessionId": name(session), "cwd": "/home/mara/tidewatch", "version": "2.1.0", "isSidechain": False}
    ids = [name(f"{session}/{number}/{part}") for part in range(4)]
    when = [(START + timedelta(minutes=number, seconds=part)).isoformat() for part in range(4)]
    call = f"toolu_{ids[1][:8]}"
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": f"output {number} of {session}"}
    if error:
        result |= {"is_error": True, "content": f"Exit code 1\noutput {number} of {session}"}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "content": text or f"request {number} of {session}"}),
        (
            "assistant",
            {
                "id": f"msg_{ids[1][:8]}",
                "model": "claude-test",
                "content": [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"echo {number}"}}],
                "usage": {"input_tokens": 3, "output_tokens": 5},
            },
        ),
        ("user", {"role": "user", "content": [result]}),
        (
            "assistant",
            {"id": f"msg_{ids[3][:8]}", "model": "claude-test", "content": [{"type": "text", "text": "Done."}]},
        ),
    ]
    return [
        {**common, "type": kind, "uuid": uuid, "timestamp": at, "message": body, "requestId": f"req_{uuid[:8]}"}
        for (kind, body), uuid, at in zip(bodies, ids, when, strict=True)
    ]


def turns(session: str, numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [line for number in numbers for line in turn(session, number, error=number % 5 == 4)]


def encoded(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def write(folder: Path, session: str, lines: Iterable[dict[str, Any]]) -> Path:
    """A log as Claude Code names it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name(session)}.jsonl"
    path.write_bytes(encoded(lines))
    return path
