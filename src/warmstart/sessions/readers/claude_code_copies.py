"""Whose history a Claude Code log begins with.

A session that goes on from another one may open with a copy of it. The copies keep their `uuid`; how they name the
session that wrote them depends on how they came about:

- an older `--resume` keeps their `sessionId`;
- `/branch` gives them the new `sessionId` and adds `forkedFrom`, which names the old one (the SDK's fork also renames
  them, and then `forkedFrom` holds the old `uuid`);
- `--fork-session` gives them the new `sessionId` and says nothing. But such a file is younger than its first message:
  it opens with a queued prompt, or with snapshots of files, from after the messages that follow. The other log then
  lies in the same folder and begins with the same message.
"""

from __future__ import annotations

import re
from pathlib import Path

from warmstart.sessions.readers.claude_code_lines import Record
from warmstart.sessions.readers.fields import as_dict, as_str, as_time, from_json

UUID_AT_END = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

_HEAD = 64 * 1024
# A snapshot is taken up to some seconds after the prompt that it belongs to.
_SNAPSHOT_DELAY = 60.0
_TIME = re.compile(rb'"timestamp":\s*"([^"]{20,40})"')


def born_after(record: Record) -> float:
    """A time at which the file did not exist yet, told by a line before its first message; 0 when it tells none."""
    if record.type == "queue-operation":
        return _seconds(record.timestamp)
    if record.type == "file-history-snapshot":
        return _seconds(as_dict(from_json(bytes(record.snapshot))).get("timestamp")) - _SNAPSHOT_DELAY
    return 0.0


def is_older(record: Record, born: float) -> bool:
    """Whether a line was written before its file came to be."""
    return 0.0 < _seconds(record.timestamp) < born


def writer_of(record: Record, path: Path) -> str:
    """The session in the same folder that wrote a line first, or nothing. Of several, the one that began earliest."""
    uuid = b'"%s"' % as_str(record.uuid).encode("utf-8", "replace")
    found: list[tuple[bytes, str]] = []
    for other in path.parent.glob("*.jsonl"):
        name = UUID_AT_END.search(other.stem)
        if name and len(uuid) > 2 and other.name != path.name:
            head = _head(other)
            if uuid in head and b'"forkedFrom"' not in head:
                opening = head.partition(b'"parentUuid"')[0]
                found.append((max(_TIME.findall(opening), default=b""), name.group()))
    return min(found, default=(b"", ""))[1]


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _seconds(value: object) -> float:
    time = as_time(value)
    return time.timestamp() if time else 0.0
