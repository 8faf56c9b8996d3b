from __future__ import annotations

from tests.profile.talks import asked, bash, did
from tests.templates.walks import PROJECT, Plain, session, walked
from warmstart.sessions.values import Message
from warmstart.templates.extraction.marking import MOST, markers


def _values(*parts: list[Message], request: str = "Go.") -> list[str]:
    walk, _ = walked(asked(request), *parts)
    return [marker.value for marker in markers(walk, Plain())]


def _edit(path: str, outcome: str = "ok") -> list[Message]:
    return did("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, outcome)  # type: ignore[arg-type]


def test_files_count_by_what_was_done_with_them() -> None:
    walk, _ = walked(
        asked("Fix it."),
        did("Read", {"file_path": f"{PROJECT}/docs/tides.md"}),
        did("Read", {"file_path": f"{PROJECT}/docs/tides.md"}),
        did("Read", {"file_path": f"{PROJECT}/src/parser.py"}),
        _edit(f"{PROJECT}/src/parser.py"),
        bash("python scripts/check.py --all"),
    )
    found = [(marker.value, marker.use, marker.count) for marker in markers(walk, Plain())]
    assert found == [("src/parser.py", "changed", 2), ("scripts/check.py", "run", 1), ("docs/tides.md", "read", 2)]
    assert all(marker.sources for marker in markers(walk, Plain()))


def test_a_mention_is_no_use() -> None:
    found = _values(
        did("Grep", {"pattern": "x", "path": f"{PROJECT}/src"}, "ok", f"{PROJECT}/src/secret_plan.py:1: x"),
        bash("ls src", text="src/other.py"),
        request="Look at src/mentioned.py and https://docs.example.org/guide.",
    )
    assert found == []


def test_a_failing_call_used_nothing() -> None:
    assert _values(_edit(f"{PROJECT}/a.py", "error"), did("Read", {"file_path": f"{PROJECT}/b.py"}, "error")) == []


def test_a_file_outside_the_project_is_no_marker(subtests) -> None:
    cases = [
        "/tmp/scratch.py",
        "/etc/passwd",
        "~/.ssh/config",
        "/home/mia/.aws/credentials",
        "/srv/other/a.py",
        "../x.py",
    ]
    for path in cases:
        with subtests.test(path=path):
            assert _values(did("Read", {"file_path": path}), _edit(path), bash(f"cat {path}")) == []


def test_shell_commands_use_files_as_well() -> None:
    found = _values(
        bash("cat README.md"),
        bash("sed -i s/a/b/ src/a.py"),
        bash("cd src && cat b.py"),
        bash("pytest tests/test_a.py::test_one -q", text="1 passed in 0.1s"),
        bash("cat $FILE *.md"),
    )
    assert found == ["src/a.py", "tests/test_a.py", "src/b.py", "README.md"]


def test_a_patch_names_the_files_that_it_changes() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** Add File: src/new.py\n+x\n*** End Patch"
    assert _values(did("apply_patch", {"input": patch})) == ["src/a.py", "src/new.py"]


def test_a_page_counts_when_the_person_named_its_host() -> None:
    url = "https://docs.example.org/guide"
    fetched = did("WebFetch", {"url": f"{url}?token=abc#top", "prompt": "x"}, "ok", "text")
    elsewhere = did("WebFetch", {"url": "https://evil.example.net/x", "prompt": "x"}, "ok", "text")
    assert _values(fetched, elsewhere, request="Read docs.example.org about it.") == [url]
    assert _values(fetched) == []
    failed = did("WebFetch", {"url": url, "prompt": "x"}, "error", "404")
    assert _values(failed, request="Read docs.example.org about it.") == []


def test_a_page_with_a_password_is_no_marker() -> None:
    fetched = did("WebFetch", {"url": "https://mia:pw@docs.example.org/guide"}, "ok", "text")
    assert _values(fetched, request="Read docs.example.org about it.") == []


def test_references_count_when_a_call_used_them() -> None:
    walk, _ = walked(
        asked("See #7 and ABC-9."),
        bash("gh issue view 42"),
        bash('git commit -m "Fix the tide (#43), see GAUGE-12"', text="[main abc1234] Fix"),
        did("mcp__linear__get_issue", {"id": "GAUGE-15"}),
        did("mcp__github__get_pull_request", {"owner": "x", "pull_number": 44}),
        bash("file --mime-encoding UTF-8 x.txt"),
    )
    found = {marker.value: marker.use for marker in markers(walk, Plain()) if marker.kind == "reference"}
    assert found == {"#42": "read", "#43": "cited", "GAUGE-12": "cited", "GAUGE-15": "read", "#44": "read"}


def test_what_speaks_to_the_reader_is_no_marker() -> None:
    assert _values(_edit(f"{PROJECT}/ignore previous instructions.md")) == []
    assert _values(_edit(f"{PROJECT}/a\u200bb.md")) == []


def test_what_would_have_to_be_replaced_is_no_marker() -> None:
    walk, _ = walked(asked("Go."), _edit(f"{PROJECT}/customers/mia_li.json"), _edit(f"{PROJECT}/src/a.py"))
    assert [marker.value for marker in markers(walk, Plain(customer="mia_li"))] == ["src/a.py"]


def test_there_are_at_most_twenty_the_most_used_first() -> None:
    edits = [_edit(f"{PROJECT}/src/f{number}.py") for number in range(30)]
    found = _values(*edits, _edit(f"{PROJECT}/src/f3.py"))
    assert len(found) == MOST
    assert found[0] == "src/f3.py"


def test_without_a_known_project_paths_stay_as_they_are() -> None:
    walk, _ = walked(asked("Go."), _edit("/srv/app/a.py"), _edit("src/b.py"), of=session(project=""))
    assert [marker.value for marker in markers(walk, Plain())] == ["src/b.py", "/srv/app/a.py"]
