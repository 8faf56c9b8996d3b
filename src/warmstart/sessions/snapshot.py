"""The snapshot of the last sync, by which the next one can tell that there is nothing to do.

`$WARMSTART_HOME/sync.json` has a digest of the settings, the folders in which a log may appear with their times, the
known logs, and the state of the sessions whose derived data is up to date. How far each log was read is in the store
alone. Checking all this loads neither readers nor the packages that a sync needs.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

NAME = "sync.json"
# It changes whenever a session is added, changed or deleted.
SESSIONS = "SELECT count(*), coalesce(max(pk), 0), coalesce(sum(revision), 0) FROM sessions"

_CLOCK = 2_000_000_000  # nanoseconds; a folder that changed more recently may change again without a newer time
_PACKAGES = ("site-packages", "dist-packages")


def count_unchanged(home: str, env: Mapping[str, str], paths: Sequence[str] = (), agent: str = "") -> int:
    """The number of logs (all that are known, or `paths` of one agent), if there is nothing to sync; otherwise 0."""
    import sqlite3
    from json import loads

    from warmstart.storage.outbox import read_rows

    if read_rows(home):
        return 0
    try:
        with open(f"{home}/{NAME}", "rb") as file:
            snapshot = loads(file.read())
        logs = dict.fromkeys(paths, agent) or snapshot["logs"]
        if not _is_same(snapshot["settings"], home, env) or not os.path.exists(snapshot["store"]):
            return 0
        if not paths and not _is_same(snapshot["roots"], home, env):
            return 0
        if not paths and any(_time(folder) != time for folder, time in snapshot["folders"].items()):
            return 0
        connection = sqlite3.connect(snapshot["store"], timeout=0.05)
        try:
            if list(connection.execute(SESSIONS).fetchone()) != snapshot["sessions"]:
                return 0
            for path, owner in logs.items():
                query = "SELECT agent, signature FROM positions WHERE path = ?"
                if connection.execute(query, (path,)).fetchone() != (owner, signature(stat_log(path))):
                    return 0
        finally:
            connection.close()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, sqlite3.Error):
        return 0  # there is none, or it is damaged; a sync says what is wrong
    return len(logs)


def describe(home: str, env: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    """What a sync depends on besides logs and sessions: environment variables, `config.toml` and installed packages.

    Only a digest is kept, because variables may hold secrets.
    """
    from _blake2 import blake2b  # `hashlib` loads OpenSSL

    chosen = sorted(names)
    migrations = os.path.join(os.path.dirname(os.path.dirname(__file__)), "storage", "migrations", "names.txt")
    files = [f"{home}/config.toml", migrations, *(folder for folder in sys.path if folder.endswith(_PACKAGES))]
    values = [*map(env.get, chosen), *map(_time, files)]
    return {"names": chosen, "digest": blake2b(repr(values).encode(), digest_size=16).hexdigest()}


def _is_same(known: dict[str, Any], home: str, env: Mapping[str, str]) -> bool:
    return describe(home, env, known["names"]) == known


def folder_times(folders: Iterable[str]) -> dict[str, int]:
    """When each folder last changed; ask before listing them."""
    latest = time.time_ns() - _CLOCK
    times = {folder: _time(folder) for folder in folders}
    return {folder: changed if changed < latest else -1 for folder, changed in times.items()}


def _time(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def stat_log(path: str) -> list[os.stat_result]:
    """The status of a log. The write-ahead log of a database counts as part of it."""
    parts = [os.stat(path)]
    if path.endswith(".db"):
        try:
            parts.append(os.stat(f"{path}-wal"))
        except FileNotFoundError:
            pass
    return parts


def signature(parts: Iterable[os.stat_result]) -> str:
    """A text that changes whenever a log does."""
    return "/".join(f"{part.st_ino}:{part.st_size}:{part.st_mtime_ns}" for part in parts)
