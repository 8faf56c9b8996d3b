from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.unprivileged import as_nobody, let_in
from warmstart.errors import DatasetError
from warmstart.profile.dataset import FILES, TEMPLATES, DatasetExport, export_dataset
from warmstart.profile.pseudonyms import Pseudonyms
from warmstart.profile.rules import load_table
from warmstart.profile.values import Call, Change, DeadEnd, Markers, Outcome, Profile, Profiled, Recovery, WritingStyle
from warmstart.sessions.values import Session

KEY = b"a key of the test, and long enough"
MADE = datetime(2026, 9, 22, 8, 0, tzinfo=UTC)
STARTED = datetime(2026, 9, 7, 9, 30, tzinfo=UTC)

CHILD = Session(
    agent="claude-code",
    native_id="native-7b31",
    project="/home/marlene/src/github.com/ostsee/tide-watch",
    branch="fix-the-gauge",
    model="claude-sonnet-5",
    title="Please mend the harbour gauge",
    version="2.1.0",
    source="/home/marlene/.claude/projects/x/native-7b31.jsonl",
    started_at=STARTED,
    ended_at=STARTED + timedelta(hours=1),
    parent_id=Session(agent="claude-code", native_id="native-parent").id,
    parent_kind="resume",
    outcome="success",
    evidence="Marlene said it is deployed",
)
CALLS = (
    Call("Read", "ok", "file", 1, 0.04, 0.123456, "claude-sonnet-5"),
    Call("Bash", "error", "code", 1, 12.345, 3.0, "claude-sonnet-5", "TideWatch: user marlene of ostsee not allowed"),
    Call("mcp__harbour-db__query", "error", "research", 2, 20.0, None, "", "harbour-db refused mcp__harbour-db__query"),
    Call("Bash", "ok", "code", 2, 30.0, 1.0, "claude-sonnet-5"),
    Call("Bash", "rejected", "code", 3),
    Call("Bash", "error", "code", 3, 60.0, 1.0, "", "mail m.voss@ostsee.example about password=S3cr3tP4ss!x9"),
)
PROFILE = Profile(
    task_type="code",
    markers=Markers(messages=12, turns=3, calls=6, results=6, errors=3, rejected=1, error_rate=0.5, seconds=3600.0),
    outcome=Outcome("success", "Marlene said it is deployed", "user"),
    style=WritingStyle(
        messages=3,
        length=7,
        directness=0.5,
        language="en",
        feedback={"corrective": 2},
        instructions=("Never push on a Friday",),
    ),
    calls=CALLS,
    recoveries=(Recovery(1, 3, 1, (Change("timeout", "added"),), ("Grep",)),),
    dead_ends=(DeadEnd("Bash", "never resolved: Friday", 2),),
    compactions=(0, 3),
)
PARENT = Session(agent="claude-code", native_id="native-parent", project=CHILD.project)
CORPUS = (Profiled(CHILD, PROFILE), Profiled(PARENT, Profile()))
# Nothing of these may stand in what is written, in whatever case.
WITHOUT_TEMPLATES = tuple(name for name in FILES if name != TEMPLATES)
PRIVATE = (
    *("marlene", "tide-watch", "tidewatch", "ostsee", "harbour", "gauge", "deployed", "friday", "voss", "S3cr3tP4ss"),
    *("native-7b31", "native-parent", CHILD.id, PARENT.id, "2026-09-07", "09:30"),
)


def export(
    directory: Path, profiled: Iterable[Profiled] = CORPUS, *, key: bytes = KEY, templates: Iterable[Mapping] = ()
) -> DatasetExport:
    return export_dataset(profiled, directory, key=key, made=MADE, templates=templates)


def column_names(table: str) -> list[str]:
    return [name for name, _, _ in load_table("dataset")[table]]


def lines(path: Path) -> list[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def session_at(project: str, *calls: Call) -> Profiled:
    return Profiled(Session(agent="codex", native_id="n", project=project), Profile(calls=calls))


# -- rows


def test_a_session_is_one_row_with_its_markers(tmp_path):
    written = export(tmp_path)
    assert written == (2, 6, 0, WITHOUT_TEMPLATES)
    row, parent = lines(tmp_path / "sessions.jsonl")
    assert list(row) == column_names("sessions")
    assert re.fullmatch("[0-9a-f]{16}", str(row["session"]))
    assert row["parent"] == parent["session"] != row["session"]
    assert row["project"] == parent["project"]
    expected = {
        "agent": "claude-code",
        "agent_version": "2.1.0",
        "model": "claude-sonnet-5",
        "parent_kind": "resume",
        "week": "2026-W37",
        "task_type": "code",
        "outcome": "success",
        "outcome_source": "user",
        "errors": 3,
        "error_rate": 0.5,
        "early_error_rate": None,
        "user_messages": 3,
        "user_length": 7,
        "feedback_corrective": 2,
        "feedback_plain": 0,
        "instructions": 1,
        "recoveries": 1,
        "dead_ends": 1,
    }
    assert expected.items() <= row.items()
    unknown = {"model": "", "parent": "", "parent_kind": "", "week": "", "outcome": "unknown", "outcome_source": ""}
    assert unknown.items() <= parent.items()


def test_every_marker_is_a_column():
    assert {field.name for field in fields(Markers)} <= set(column_names("sessions"))


def test_a_call_is_one_row_with_its_outcome(tmp_path):
    export(tmp_path)
    rows = lines(tmp_path / "calls.jsonl")
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert {row["session"] for row in rows} == {lines(tmp_path / "sessions.jsonl")[0]["session"]}
    assert rows[0] == {
        "session": rows[0]["session"],
        "position": 0,
        "tool": "Read",
        "kind": "file",
        "outcome": "ok",
        "turn": 1,
        "at": 0.0,
        "seconds": 0.1,
        "model": "claude-sonnet-5",
        "signature": "",
        "after_compaction": 1,
        "recovered_after": None,
    }
    assert list(rows[0]) == column_names("calls")
    assert [row["at"] for row in rows] == [0.0, 12.0, 20.0, 30.0, None, 60.0]
    assert [row["after_compaction"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["recovered_after"] for row in rows] == [None, 1, None, None, None, None]


def test_parquet_has_the_same_rows(tmp_path):
    many = [*CORPUS, *generated(300, calls=40)]  # more than one group of rows
    export(tmp_path, many)
    assert parquet.ParquetFile(tmp_path / "calls.parquet").num_row_groups == 2
    for name in ("sessions", "calls"):
        assert parquet.read_table(tmp_path / f"{name}.parquet").to_pylist() == lines(tmp_path / f"{name}.jsonl")


def test_no_sessions_make_an_empty_dataset(tmp_path):
    assert export(tmp_path, []) == (0, 0, 0, WITHOUT_TEMPLATES)
    assert (tmp_path / "sessions.jsonl").read_bytes() == (tmp_path / "calls.jsonl").read_bytes() == b""
    table = parquet.read_table(tmp_path / "calls.parquet")
    assert (table.num_rows, table.column_names) == (0, column_names("calls"))
    assert "0 sessions with 0 tool calls." in (tmp_path / "README.md").read_text(encoding="utf-8")


# -- names


def test_nothing_private_is_in_any_file(tmp_path):
    export(tmp_path)
    written = {name: data.decode("utf-8", "replace").lower() for name, data in contents(tmp_path).items()}
    for name in ("sessions", "calls"):  # whose pages are compressed
        written[name] = str(parquet.read_table(tmp_path / f"{name}.parquet").to_pylist()).lower()
    assert {(file, word) for file, text in written.items() for word in PRIVATE if word.lower() in text} == set()


def signature_in(directory: Path, text: str, *, project: str = "/srv/kelp") -> str:
    export(directory, [session_at(project, Call("Bash", "error", "code", signature=text))])
    return str(lines(directory / "calls.jsonl")[0]["signature"])


@pytest.mark.parametrize(
    ("project", "text"),
    [
        ("/home/entity/x-y", "HTTP 422: Unprocessable Entity"),
        ("/home/read/x-y", "File has not been read yet"),
        ("/srv/git", "git: merge conflict"),
        ("/srv/errcheck", "lint: errcheck"),
        ("/home/name/compile", "Go compile error: undefined: ‹name›"),
        ("/srv/grep", "grep: exit 1, no output"),
        ("/srv/value", "KeyError"),
    ],
)
def test_names_are_not_looked_for_among_our_own_words(tmp_path, project, text):
    assert signature_in(tmp_path, text, project=project) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ValueError: patient Carol Danvers not found in ward seven", r"ValueError other:[0-9a-f]{8}"),
        ("I looked at all of it and Carol was right", r"other:[0-9a-f]{8}"),
        ("ENOENT: Carol", r"ENOENT other:[0-9a-f]{8}"),
        ("HTTP 404: Carol is away", r"HTTP 404 other:[0-9a-f]{8}"),
        ("TideError: late", r"other:[0-9a-f]{8}"),
        ("KelpError: late", r"other:[0-9a-f]{8}"),
        ("KelpfarmError", r"other:[0-9a-f]{8}"),
        ("lint: no-kelp", r"lint other:[0-9a-f]{8}"),
        ("wardctl: exit 1, no output", "‹program›: exit 1, no output"),
        ("psql: exit 2", "psql: exit 2"),
    ],
)
def test_the_text_of_an_error_message_is_a_hash(tmp_path, text, shown):
    assert re.fullmatch(shown, signature_in(tmp_path, text))


def test_the_same_message_has_the_same_hash_everywhere(tmp_path):
    text = "Carol is away"
    assert signature_in(tmp_path, text) == signature_in(tmp_path, text, project="/srv/reef")
    assert signature_in(tmp_path, text) != signature_in(tmp_path, "Carol is back")


@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        *((tool, re.escape(tool)) for tool in ("Bash", "Read", "apply_patch", "web_search", "read_file", "")),
        ("functions.exec:0", r"functions\.exec:0"),
        ("functions.exec_command:3", r"functions\.exec_command:3"),
        ("tide_predict", "other:[0-9a-f]{8}"),
        ("mcp__two__words__query", r"mcp__[0-9a-f]{8}__[0-9a-f]{8}"),
        ("mcp__alone", r"mcp__[0-9a-f]{8}"),
        ("mcp_acme_database_query", "other:[0-9a-f]{8}"),
        ("please run the tests", "other:[0-9a-f]{8}"),
    ],
)
def test_tools_keep_their_names_if_everybody_has_them(tmp_path, tool, shown):
    export(tmp_path, [session_at("/srv/kelp", Call(tool, "ok", "code"))])
    assert re.fullmatch(shown, str(lines(tmp_path / "calls.jsonl")[0]["tool"]))


def test_a_version_has_numbers_only(tmp_path):
    for version, shown in (("2.1.325", "2.1.325"), ("v0.46.0-acme", "v0.46.0"), ("acme", ""), ("", "")):
        session = Session(agent="codex", native_id="n", version=version)
        export(tmp_path, [Profiled(session, Profile())])
        assert lines(tmp_path / "sessions.jsonl")[0]["agent_version"] == shown


MODELS_DO_NOT_NAME_THEIR_OWNER = [
    ("anthropic/claude-opus-5", "anthropic/claude-opus-5"),
    ("claude-opus-4-5-20251101", "claude-opus-4-5-20251101"),
    ("gpt-5.3-codex-spark", "gpt-5.3-codex-spark"),
    ("o3-mini", "o3-mini"),
    ("gemini-2.5-flash", "gemini-2.5-flash"),
    ("qwen3-coder:30b", "qwen3-coder:30b"),
    ("us.anthropic.claude-sonnet-4-20250514-v1:0", r"us\.anthropic\.claude-sonnet-4-20250514-v1:0"),
    ("<synthetic>", "<synthetic>"),
    ("", ""),
    ("bob-finetune", "other:[0-9a-f]{8}"),
    ("llama-70b-bob", "other:[0-9a-f]{8}"),
    ("ollama/bob:latest", "other:[0-9a-f]{8}"),
    ("accounts/acme/models/x", "other:[0-9a-f]{8}"),
    ("accounts/acme/models/llama-v3p1-70b", "llama-v3p1-70b"),
    ("https://acme.internal/v1/model", "other:[0-9a-f]{8}"),
    ("ft:bobs:acme::1", "other:[0-9a-f]{8}"),
    ("/home/marlene/models/llama-70b.gguf", "llama-70b.gguf"),
    (r"D:\models\llama-70b.gguf", "llama-70b.gguf"),
    ("ft:gpt-4o-mini:ostsee:tides:9x", r"ft:gpt-4o-mini:[0-9a-f]{8}"),
    ("arn:aws:bedrock:eu-central-1:123456789012:inference-profile/x", r"other:[0-9a-f]{8}"),
]


def test_models_do_not_name_their_owner(subtests: pytest.Subtests) -> None:
    for model, shown in MODELS_DO_NOT_NAME_THEIR_OWNER:
        with subtests.test(model=model, shown=shown):
            assert re.fullmatch(shown, Pseudonyms(KEY).model(model))


def test_hashes_are_the_same_under_one_key_only(tmp_path):
    hashed = {}
    for name, key in (("one", KEY), ("again", KEY), ("other", b"another key that is long enough")):
        export(tmp_path / name, key=key)
        row = lines(tmp_path / name / "sessions.jsonl")[0]
        hashed[name] = [
            row["session"],
            row["project"],
            row["parent"],
            lines(tmp_path / name / "calls.jsonl")[2]["tool"],
        ]
    assert hashed["one"] == hashed["again"]
    assert not set(hashed["one"]) & set(hashed["other"])


def test_a_key_that_hides_nothing_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="at least 16"):
        export(tmp_path / "new", key=b"")
    assert not (tmp_path / "new").exists()


# -- the card


def test_the_card_explains_every_column_and_counts(tmp_path):
    export(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    for name in ("sessions", "calls"):
        for column in parquet.read_schema(tmp_path / f"{name}.parquet").names:
            assert f"| `{column}` | " in text
        assert set(lines(tmp_path / f"{name}.jsonl")[0]) == set(parquet.read_schema(tmp_path / f"{name}.parquet").names)
    assert "2 sessions with 6 tool calls, of claude-code (2), started from week 2026-W37 to 2026-W37" in text
    assert "3 error, 2 ok, 1 rejected" in text
    assert "2026-09-22" in text
    assert "{" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert "`early_error_rate` | number | the same for the calls of the first 30 turns" in text
    assert "`cached_tokens` | integer | cache reads and cache writes" in text
    assert "Times within a session are rounded" in text
    assert "It contains no message text." in text


def test_templates_are_a_file_of_their_own_that_the_card_explains(tmp_path):
    rows = [{"template": "1a2b", "name": "tests", "items": []}, {"template": "3c4d", "name": "docs", "items": []}]
    assert export(tmp_path, templates=rows) == (2, 6, 2, FILES)
    assert lines(tmp_path / TEMPLATES) == rows
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "`templates.jsonl` has the active templates (2), with their text." in text
    assert "- config_name: templates\n  data_files: templates.jsonl\n" in text
    for column in column_names("templates"):
        assert f"| `{column}` | " in text
    export(tmp_path)
    assert not (tmp_path / TEMPLATES).exists()
    assert "templates" not in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_no_time_is_exact_enough_to_identify_a_session(tmp_path):
    call = Call("Bash", "ok", "code", 1, 12.345, 3.14159)
    markers = Markers(seconds=3600.789, seconds_to_success=15.486)
    export(tmp_path, [Profiled(CHILD, Profile(calls=(call,), markers=markers))])
    row, made = lines(tmp_path / "sessions.jsonl")[0], lines(tmp_path / "calls.jsonl")[0]
    assert (row["seconds"], row["seconds_to_success"], made["at"], made["seconds"]) == (3601.0, 15.0, 12.0, 3.1)


def test_the_examples_of_the_card_run(tmp_path):
    export(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (tmp_path / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    said = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for example in examples
    ]
    assert said == ["2 sessions, 1 of them with calls\n", "6\n"]


def test_without_pyarrow_there_are_json_lines_and_no_word_of_parquet(tmp_path, monkeypatch):
    export(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert export(tmp_path).files == ("sessions.jsonl", "calls.jsonl", "README.md")
    assert set(contents(tmp_path)) == {"sessions.jsonl", "calls.jsonl", "README.md"}
    assert "arquet" not in (tmp_path / "README.md").read_text(encoding="utf-8")


# -- all or nothing


def interrupted(error: BaseException) -> Iterator[Profiled]:
    yield from CORPUS
    raise error


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt()])
def test_an_interrupted_export_leaves_what_was_there(tmp_path, error):
    (tmp_path / "notes.txt").write_text("mine")
    export(tmp_path, CORPUS[:1])
    before = contents(tmp_path)
    with pytest.raises(type(error)):
        export(tmp_path, interrupted(error))
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {*WITHOUT_TEMPLATES, "notes.txt", "home"}
    with pytest.raises(type(error)):
        export(tmp_path / "not" / "yet", interrupted(error))
    assert not (tmp_path / "not").exists()


def test_a_dataset_is_replaced_and_other_files_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    export(tmp_path)
    export(tmp_path, CORPUS[:1])
    assert len(lines(tmp_path / "sessions.jsonl")) == 1
    assert set(contents(tmp_path)) == {*WITHOUT_TEMPLATES, "notes.txt"}
    before = contents(tmp_path)
    export(tmp_path, CORPUS[:1])
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_from_a_dataset_are_never_replaced(tmp_path, name):
    (tmp_path / name).write_text("# My project\n")
    with pytest.raises(DatasetError, match=re.escape(name)):
        export(tmp_path)
    assert contents(tmp_path) == {name: b"# My project\n"}


def test_a_folder_in_the_place_of_a_file_is_refused_before_anything_moves(tmp_path):
    export(tmp_path)
    (tmp_path / "calls.parquet").unlink()
    (tmp_path / "calls.parquet").mkdir()
    before = contents(tmp_path)
    with pytest.raises(DatasetError, match=r"calls\.parquet"):
        export(tmp_path, CORPUS[:1])
    assert contents(tmp_path) == before


def test_a_file_is_no_directory(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for directory in (file, file / "below"):
        with pytest.raises(DatasetError, match="directory"):
            export(directory)
    assert file.read_text() == "mine"


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    let_in(tmp_path)
    closed.chmod(0o555)
    for directory in (closed, closed / "below"):
        with pytest.raises(DatasetError, match="cannot write to"):
            as_nobody(lambda directory=directory: export(directory))
    assert list(closed.iterdir()) == []


# -- many sessions


def generated(count: int, *, calls: int) -> Iterator[Profiled]:
    for number in range(count):
        session = Session(agent="codex", native_id=f"n{number}", project=f"/srv/p{number % 7}", started_at=STARTED)
        made = tuple(Call("Bash", "error" if n % 20 == 0 else "ok", "code", 1, n / 3, 0.1) for n in range(calls))
        yield Profiled(session, Profile(calls=made))


def test_memory_does_not_grow_with_the_sessions(tmp_path):
    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            export(tmp_path, generated(count, calls=4))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    fewer = peak(2_500)  # which fill a group of rows already
    assert peak(5_000) < 1.2 * fewer
