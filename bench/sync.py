"""Import compared with a plain baseline: the same logs, every line decoded, its texts in one table and one index.

Run with `make bench`. Figures are ratios to the baseline in the same run, because machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import orjson

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"


def baseline(data: Path, database: Path) -> float:
    """Decode every line with orjson; insert the text of each message into a table and a porter FTS5 index."""
    began = time.perf_counter()
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT)")
    connection.execute(
        "CREATE VIRTUAL TABLE texts_index USING fts5 "
        "(body, content = 'texts', content_rowid = 'id', tokenize = 'porter unicode61')"
    )
    number = 0
    for path in sorted(data.glob("*/*/*.json*")):
        texts: list[str] = []
        for line in [path.read_bytes()] if path.suffix == ".json" else path.open("rb"):
            try:
                _collect(orjson.loads(line), texts)
            except orjson.JSONDecodeError:
                continue
        rows = list(enumerate(texts, number + 1))
        number += len(rows)
        with connection:
            connection.executemany("INSERT INTO texts VALUES (?, ?)", rows)
            connection.executemany("INSERT INTO texts_index (rowid, body) VALUES (?, ?)", rows)
    connection.close()
    return time.perf_counter() - began


def _collect(record: object, texts: list[str]) -> None:
    """Texts, tool arguments and tool results of one line, in any of the four formats."""
    if not isinstance(record, dict):
        return
    body = record.get("message") or record.get("payload") or record.get("data") or record
    if not isinstance(body, dict):
        return
    for key in ("content", "output", "arguments", "input"):
        value = body.get(key)
        if isinstance(value, str):
            texts.append(value)
        for block in value if isinstance(value, list) else ():
            if isinstance(block, dict):
                parts = (block.get("text"), block.get("input"), block.get("content"))
                texts.extend(part if isinstance(part, str) else orjson.dumps(part).decode() for part in parts if part)
    result = body.get("result")
    if isinstance(result, dict) and isinstance(result.get("content"), str):
        texts.append(result["content"])
    for message in body.get("messages") or ():
        _collect(message, texts)


def ours(data: Path, database: Path, redact: bool) -> None:
    """Import into `database`, then again, and print seconds and peak memory as JSON. Runs in its own process."""
    from warmstart.sessions.sql_store import SQLiteSessionStore
    from warmstart.sessions.sync import path_sources, sync

    times = []
    for _ in range(2):
        began = time.perf_counter()
        store = SQLiteSessionStore(database)
        report = sync(store, path_sources([data]), redact=redact)
        store.close()
        times.append(time.perf_counter() - began)
    # `ru_maxrss` is in kilobytes, on macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    print(json.dumps({"first": times[0], "second": times[1], "peak_mb": peak, "problems": len(report.problems)}))


def _ours_apart(data: Path, folder: Path, *, redact: bool = True) -> dict[str, float]:
    command = [sys.executable, __file__, "--data", str(data), "--ours", str(folder / f"ours-{redact}.db")]
    command += [] if redact else ["--no-redact"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _doubled(data: Path, folder: Path) -> Path:
    """The same logs twice, the second time as different sessions with different messages."""
    for copy in ("a", "b"):
        for path in data.glob("*/*/*.json*"):
            target = folder / copy / path.relative_to(data)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            if copy == "b":
                target.write_bytes(_renamed(path.read_bytes()))
                target.rename(target.with_name(f"{path.stem[:-12]}{'f' * 12}{path.suffix}"))
    return folder


def _renamed(data: bytes) -> bytes:
    for key in (b'"uuid":"', b'"parentUuid":"', b'"id":"msg_', b'"call_id":"', b'"sessionId":"'):
        data = data.replace(key, key + b"x")
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--no-redact", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ours:
        ours(arguments.data, arguments.ours, not arguments.no_redact)
        return
    if not arguments.data.is_dir():
        print(f"bench/sync.py: no data at {arguments.data}; nothing measured")
        return
    columns = ("round", "baseline s", "plain s", "ratio", "redacted s", "ratio", "again", "peak MB")
    print("  ".join(f"{column:>10}" for column in columns))
    plain_ratios, ratios = [], []
    for number in range(1, arguments.rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            base = baseline(arguments.data, Path(folder) / "baseline.db")
            plain = _ours_apart(arguments.data, Path(folder), redact=False)
            result = _ours_apart(arguments.data, Path(folder))
        plain_ratios.append(plain["first"] / base)
        ratios.append(result["first"] / base)
        share = result["second"] / result["first"]
        print(
            f"{number:>10}  {base:>10.2f}  {plain['first']:>10.2f}  {plain_ratios[-1]:>10.2f}"
            f"  {result['first']:>10.2f}  {ratios[-1]:>10.2f}  {share:>10.1%}  {result['peak_mb']:>10.0f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        twice = _ours_apart(_doubled(arguments.data, Path(folder) / "data"), Path(folder))
    print(f"median ratio {median(plain_ratios):.2f} (at most 1.6), with redaction {median(ratios):.2f} (at most 1.8)")
    print(f"peak memory with twice the data {twice['peak_mb']:.0f} MB (at most 120)")


if __name__ == "__main__":
    main()
