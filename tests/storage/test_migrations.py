"""Migrations are frozen: existing stores were made with them, and a changed name or text would break those.

A script may only be deleted if a later one drops all that it made: its name is then in `RETIRED`, and
`tests/storage/test_layouts.py` opens stores from before and after it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import warmstart
from warmstart.storage.database import ALIASES, NAMES, RETIRED

SOURCE = Path(warmstart.__file__).parent

# Of a new migration, add the line that the failing test prints. Never change one that is here.
HASHES = {
    "honcho/001_index.sqlite": "247ab68a0adeae37",
    "honcho/002_forgotten_users.sqlite": "cd505c372b677183",
    "honcho/003_last_seen.sqlite": "848bbde174df3206",
    "honcho/004_earlier_layouts.sqlite": "f4d736923fc62058",
    "honcho/005_keep_conclusions.sqlite": "1d1266e248168b0a",
    "honcho/006_mirror.sqlite": "0c976a6d371aa501",
    "honcho/007_forgotten.sqlite": "a36750b42586c722",
    "memory/0001_tables.postgres": "c2f8e3ccd6408177",
    "memory/0001_tables.sqlite": "5692b98126ec1f91",
    "memory/0002_range_starts.postgres": "bb95842f67958ebf",
    "memory/0002_range_starts.sqlite": "e2ef8c88ae408797",
    "memory/0003_past_values.postgres": "2912dc71c15c2926",
    "memory/0003_past_values.sqlite": "3c7c066d780201e5",
    "memory/0004_stems.postgres": "411de1c44e6efd6c",
    "memory/0004_stems.sqlite": "1d0cf177bf006390",
    "memory/0005_entries.postgres": "8b7ce7663ab9bfa5",
    "memory/0005_entries.sqlite": "6d1a2cb202d9583c",
    "handoff/0001_tables.postgres": "db714a1d9f932690",
    "handoff/0001_tables.sqlite": "884ce90df2173a8d",
    "handoff/0002_compressions.postgres": "b017213eb6acfc08",
    "handoff/0002_compressions.sqlite": "ebc74751e908d8cd",
    "preflight/0001_turns.postgres": "f3661b740bc77584",
    "preflight/0001_turns.sqlite": "434458c7f0d055e3",
    "preflight/0002_memories.postgres": "29640ec325da4f12",
    "preflight/0002_memories.sqlite": "3be2cd6d663e3454",
    "brief/0001_briefs.sqlite": "82e5071da2026705",
    "brief/0001_briefs.postgres": "1deeb752477faa2c",
    "profile/0001_tables.postgres": "f28fd14c3b12d5db",
    "profile/0001_tables.sqlite": "ebfa0250a30b4c6c",
    "profile/0002_earlier_layouts.postgres": "50e04ea1b5a5e7b3",
    "profile/0002_earlier_layouts.sqlite": "6f6fbc9328a1c6a6",
    "recall/0006_turns.postgres": "d77d9ec2c79b9aa6",
    "recall/0006_turns.sqlite": "42af46c453a60d07",
    "embedding/0001_tables.postgres": "e0e66bed336d5a16",
    "embedding/0001_tables.sqlite": "50d0416b44be5942",
    "sessions/0001_tables.postgres": "9ceb4d07e1cd7f80",
    "sessions/0001_tables.sqlite": "8430c6a346512797",
    "sessions/0002_revisions.postgres": "8e3914571834160d",
    "sessions/0002_revisions.sqlite": "304ee727c6d64abd",
    "sessions/0003_newest.postgres": "64930cbc2ec4f58c",
    "sessions/0003_newest.sqlite": "37fce476a8243932",
    "sessions/0004_scrubs.postgres": "b66e35d631432e0e",
    "sessions/0004_scrubs.sqlite": "b5bc892d567dad85",
    "sessions/0005_earlier_layouts.postgres": "f53be0c5831c1b3e",
    "sessions/0005_earlier_layouts.sqlite": "ea262ed499c13a25",
    "sessions/0006_usage.postgres": "2a2051ce8bc9a735",
    "sessions/0006_usage.sqlite": "2a2051ce8bc9a735",
    "sessions/0007_directories.postgres": "321bf73c49b3d573",
    "sessions/0007_directories.sqlite": "b98c81c71745dc0e",
    "sessions/0008_stems.postgres": "6c3a200206f17a1d",
    "sessions/0008_stems.sqlite": "b9e1b34d4cc91df0",
    "sessions/0009_compression.postgres": "76a6d7c7e7fe22c2",
    "sessions/0009_compression.sqlite": "373c42e1abf846db",
    "storage/0001_tenants.postgres": "f3d5812f487f0007",
    "storage/0002_asked_once.postgres": "8719daef0a6d99ea",
    "templates/0001_tables.postgres": "4888846a59f83d49",
    "templates/0001_tables.sqlite": "3822505dc5576c5f",
    "templates/0002_deleted_sessions.postgres": "a4bf8b344e125d74",
    "templates/0002_deleted_sessions.sqlite": "562f224f4ff3051e",
    "templates/0003_items.postgres": "aa12e026dd436d16",
    "templates/0003_items.sqlite": "4cbc0cb4ec4876c3",
    "templates/0004_examples.postgres": "849f2ef17b1a8cdb",
    "templates/0004_examples.sqlite": "849f2ef17b1a8cdb",
    "experiments/0001_tables.postgres": "fd9dfba1c328de10",
    "experiments/0001_tables.sqlite": "32356356be6c2084",
}


def scripts() -> dict[str, str]:
    """The first digits of the hash of every migration's text."""
    found = {}
    for path in sorted(SOURCE.rglob("migrations/*.sql")):
        name = f"{path.parent.parent.name}/{path.name.removesuffix('.sql')}"
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def test_no_migration_was_edited_renamed_or_removed() -> None:
    now = scripts()
    assert {name: now.get(name) for name in HASHES} == HASHES
    new = "".join(f'    "{name}": "{digest}",\n' for name, digest in now.items() if name not in HASHES)
    assert not new, f"add to HASHES, once and for all:\n{new}"


def test_every_script_is_listed_and_every_name_has_its_scripts() -> None:
    def dialects(package: str) -> tuple[str, ...]:
        return {"storage": ("postgres",), "honcho": ("sqlite",)}.get(package, ("sqlite", "postgres"))

    wanted = {f"{name}.{dialect}" for name in NAMES if name not in RETIRED for dialect in dialects(name.split("/")[0])}
    assert set(scripts()) == wanted
    assert len(set(NAMES)) == len(NAMES)
    assert not ALIASES.keys() & set(NAMES)
    assert set(ALIASES.values()) <= set(NAMES)
