"""Memory files of agents, in and out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from warmstart.errors import LogError
from warmstart.memory import MemoryEntry
from warmstart.memory.local import LocalBackend
from warmstart.memory.transfer import MemoryFile, agent_of, export_file, memory_files, read_file


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path, text: str, agent="claude-code", project=""):
    return read_file(MemoryFile(written(path, text), agent, project))


def entries(found, **metadata):
    return [
        MemoryEntry(each.key, each.value, "me", 100.0 + place, 100.0 + place, {**each.metadata, **metadata})
        for place, each in enumerate(found)
    ]


# -- Hermes

HERMES = "User prefers pytest over unittest.\n§\nProject uses Go 1.22;\nbuilt with make.\n§\nServer is at 10.0.0.4"


def test_hermes_files_go_out_as_they_came_in(tmp_path):
    for kind, name in (("hermes-memory", "MEMORY.md"), ("hermes-user", "USER.md")):
        found = read(tmp_path / "memories" / name, HERMES, "hermes")
        assert [each.value for each in found] == HERMES.split("\n§\n")
        assert found[0].key == "user_prefers_pytest_over_unittest"
        assert found[0].metadata == {"source": str(tmp_path / "memories" / name), "file": name}
        made = export_file(entries(found), kind)
        assert (made.text, made.left_out) == (HERMES, [])


def test_hermes_entries_are_read_as_hermes_reads_them(tmp_path):
    text = "one\r\n§\r\n two \n § \nstill two\n§\none\n§\n§\n"
    assert [each.value for each in read(tmp_path / "MEMORY.md", text, "hermes")] == ["one", "two \n § \nstill two"]
    kept = [MemoryEntry(str(place), value, "me", 1.0, 1.0) for place, value in enumerate(["§\nmore of it", "a b c\n§"])]
    made = export_file(kept, "hermes-memory")
    assert (made.text, len(made.left_out)) == ("", 2)


def test_what_does_not_fit_into_hermes_file_is_named_and_the_newest_stay():
    old = MemoryEntry("old", "o" * 800, "me", 1.0, 1.0)
    new = MemoryEntry("new", "n" * 700, "me", 2.0, 2.0)
    sign = MemoryEntry("sign", "a\n§\nb", "me", 3.0, 3.0)
    made = export_file([old, new, sign], "hermes-user")
    assert (made.text, [key for key, _ in made.left_out]) == (f"new: {'n' * 700}", ["sign", "old"])
    assert "no room: 805 characters, and 670 of 1375 are left" in made.left_out[1][1]


# -- Markdown

CLAUDE = """# Project

Short intro of the project,
over two lines.
---
[port]: 5433

<!-- not a memory -->

## Commands

- Run tests with `make test`
- Lint:
  - `ruff check`
  - `mypy`

  and then commit
* Never push to main

Example:

```sh
make

# not a heading
- not a bullet
```

## Style ##

1. Two spaces - not 3. or a-b
2) No tabs

@docs/more.md
"""


def test_bullets_and_paragraphs_are_entries_under_their_headings(tmp_path):
    found = read(tmp_path / "CLAUDE.md", CLAUDE)
    assert [each.value for each in found] == [
        "Short intro of the project,\nover two lines.",
        "[port]: 5433",
        "Run tests with `make test`",
        "Lint:\n- `ruff check`\n- `mypy`\n\nand then commit",
        "Never push to main",
        "Example:",
        "```sh\nmake\n\n# not a heading\n- not a bullet\n```",
        "Two spaces - not 3. or a-b",
        "No tabs",
    ]
    assert found[2].key == "commands_run_tests_with_make_test"
    assert found[2].metadata["section"] == "Project / Commands"
    assert found[7].metadata["section"] == "Project / Style"


def test_reading_again_gives_the_same_keys_and_no_key_twice(tmp_path):
    text = "- One and the same six words here\n- One and the same six words there\n- Ünïcode ist schön\n- 。。。\n"
    text += "- One and the same six words here\n"  # which stands there already
    first = read(tmp_path / "CLAUDE.md", text)
    assert [each.key for each in first] == [
        "one_and_the_same_six_words",
        "one_and_the_same_six_words_2",
        "unicode_ist_schon",
        "note",
    ]
    assert read(tmp_path / "CLAUDE.md", text) == first


def test_a_projects_file_is_for_the_project(tmp_path):
    (one,) = read(tmp_path / "CLAUDE.md", "- A rule", project="/home/mara/tides")
    assert (one.metadata["scope"], one.metadata["project"]) == ("project", "/home/mara/tides")


def test_a_note_with_a_name_stays_whole_and_its_pointer_is_not_read(tmp_path):
    head = "---\nname: user-role\ndescription: who they are\ntype: user\n---\n"
    note = f"{head}\nA data scientist.\n\n- likes R\n"
    (one,) = read(tmp_path / "role.md", note)
    assert (one.key, one.value) == ("user-role", "A data scientist.\n\n- likes R")
    assert (one.metadata["description"], one.metadata["type"]) == ("who they are", "user")
    index = read(tmp_path / "MEMORY.md", "- [Role](role.md) — who\n- [Gone](gone.md) — still worth it\n- plain\n")
    assert [each.value for each in index] == ["[Gone](gone.md) — still worth it", "plain"]


def test_a_secret_is_neither_kept_nor_becomes_a_key(tmp_path):
    token = "AKIA" + "QX3VZ7M2N5P8R4T6"
    text = f"- {token} is the key\n- The password: kX9#vQ2!pL7w\n"
    found = read(tmp_path / "CLAUDE.md", text)
    assert not any(token.lower() in each.key for each in found)
    with closing(LocalBackend(tmp_path / "store.db")) as backend:
        for each in found:
            backend.store("me", each.key, each.value, each.metadata)
        kept = str(backend.query("me", ""))
        assert token.lower() not in kept.lower()
        assert "kX9#" not in kept
        assert len(backend.list_keys("me")) == 2


def test_what_is_no_memory_file_is_said(tmp_path, subtests):
    for content in [b"\xff\xfe\x00", b"x" * 4_000_001, b"\x7fELF\x00\x01", "- x".encode("utf-16")]:
        with subtests.test(content=content):
            path = tmp_path / "CLAUDE.md"
            path.write_bytes(content)
            with pytest.raises(LogError, match=r"CLAUDE\.md"):
                read_file(MemoryFile(path, "claude-code"))


# -- where they are


def test_files_are_found_where_agents_have_them(tmp_path):
    home, project = tmp_path / "home", tmp_path / "work.d" / "tides"
    places = [
        home / ".hermes/memories/MEMORY.md",
        home / ".hermes/memories/USER.md",
        home / ".hermes/profiles/coder/memories/MEMORY.md",
        home / ".claude/CLAUDE.md",
        home / ".claude/rules/python.md",
        project / "CLAUDE.md",
        project / "CLAUDE.local.md",
        project / ".claude/rules/tests.md",
        home / ".codex/AGENTS.md",
        home / ".codex/memories/MEMORY.md",
        home / ".codex/memories/raw_memories.md",
        project / "AGENTS.md",
    ]
    for path in places:
        written(path, "- x\n")
    folder = "".join(letter if letter.isalnum() else "-" for letter in str(project))
    note = written(home / ".claude/projects" / folder / "memory/MEMORY.md", "- y\n")

    def found(agent, env=None, where=str(project)):
        return [(file.path, bool(file.project)) for file in memory_files(agent, env or {}, home, where)]

    assert found("hermes") == [(path, False) for path in places[:3]]
    assert found("claude-code") == [(path, False) for path in places[3:5]] + [
        (path, True) for path in [*places[5:8], note]
    ]
    assert found("codex") == [(places[8], False), (places[9], False), (places[11], True)]
    assert found("codex", where="") == [(places[8], False), (places[9], False)]
    assert found("hermes", {"HERMES_HOME": str(tmp_path / "none")}) == []
    assert found("claude-code", {"CLAUDE_CONFIG_DIR": str(tmp_path / "none")}, "") == []


def test_whose_a_file_is_shows_in_its_name(subtests):
    cases = [
        ("/h/.hermes/memories/MEMORY.md", "hermes"),
        ("/elsewhere/USER.md", "hermes"),
        ("/p/CLAUDE.md", "claude-code"),
        ("/h/.claude/projects/x/memory/MEMORY.md", "claude-code"),
        ("/p/AGENTS.md", "codex"),
        ("/h/.codex/memories/MEMORY.md", "codex"),
        ("/p/export.md", "claude-code"),
    ]
    for path, agent in cases:
        with subtests.test(path=path, agent=agent):
            assert agent_of(Path(path)) == agent
