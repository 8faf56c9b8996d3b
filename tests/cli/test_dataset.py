from __future__ import annotations

import json
import stat
import subprocess
import sys

FILES = ["sessions.jsonl", "calls.jsonl", "sessions.parquet", "calls.parquet", "README.md"]


def lines(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_the_samples_become_a_dataset(run, synced, tmp_path):
    directory = tmp_path / "markers"
    ran = run("dataset", "export", directory)
    sessions, calls = lines(directory / "sessions.jsonl"), lines(directory / "calls.jsonl")
    said = (
        f"{len(sessions)} sessions and {len(calls)} calls (all projects) written to {directory}: {', '.join(FILES)}.\n"
    )
    assert ran == (0, said, "")
    listed = json.loads(run("sessions", "list", "--limit", 0, "--json").out)
    assert len(sessions) == len(listed)
    assert sum(row["tool_calls"] for row in listed) == len(calls) > 0
    assert {row["agent"] for row in sessions} == {row["agent"] for row in listed}


def test_the_dataset_has_no_names_from_the_samples(run, synced, tmp_path):
    assert run("dataset", "export", tmp_path / "markers").code == 0
    listed = json.loads(run("sessions", "list", "--limit", 0, "--json").out)
    private = {"mara", "tomas", "tidewatch", "port ellery"}
    private |= {
        row[name].lower() for row in listed for name in ("session_id", "native_id", "project", "title") if row[name]
    }
    for name in ("sessions.jsonl", "calls.jsonl", "README.md"):
        text = (tmp_path / "markers" / name).read_text(encoding="utf-8").lower()
        assert {word for word in private if word in text} == set(), name


def test_json_reports_what_was_written(run, synced, tmp_path):
    ran = run("dataset", "export", tmp_path / "markers", "--agent", "codex", "--json")
    written = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert written == {
        "sessions": 1,
        "calls": len(lines(tmp_path / "markers" / "calls.jsonl")),
        "templates": 0,
        "files": FILES,
        "directory": str(tmp_path / "markers"),
    }


def test_options_choose_the_sessions(run, synced, tmp_path, subtests):
    for option in [("--since", "2026-09-10"), ("--project", "tidewatch"), ("--agent", "gemini-cli")]:
        with subtests.test(option=option):
            markers = tmp_path / option[1]
            run("dataset", "export", markers, *option)
            chosen = json.loads(run("sessions", "list", "--limit", 0, "--json", *option).out)
            everything = json.loads(run("sessions", "list", "--limit", 0, "--json").out)
            assert 0 < len(lines(markers / "sessions.jsonl")) == len(chosen) < len(everything)


def test_two_exports_can_be_joined_and_the_key_is_private(run, synced, tmp_path, home):
    for name in ("one", "two"):
        run("dataset", "export", tmp_path / name)
    assert lines(tmp_path / "one" / "sessions.jsonl") == lines(tmp_path / "two" / "sessions.jsonl")
    key = home / ".warmstart" / "dataset.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_bytes() != (home / ".warmstart" / "redact.key").read_bytes()
    key.unlink()
    run("dataset", "export", tmp_path / "two")
    hashes = [{row["session"] for row in lines(tmp_path / name / "sessions.jsonl")} for name in ("one", "two")]
    assert not hashes[0] & hashes[1]


def test_an_empty_key_is_refused(run, synced, tmp_path, home):
    (home / ".warmstart" / "dataset.key").write_text("\n")
    ran = run("dataset", "export", tmp_path / "markers")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "dataset.key" in ran.err
    assert not (tmp_path / "markers").exists()


def test_a_foreign_readme_is_kept(run, synced, tmp_path):
    readme = tmp_path / "mine" / "README.md"
    readme.parent.mkdir()
    readme.write_text("# Mine\n")
    ran = run("dataset", "export", readme.parent)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "README.md" in ran.err
    assert readme.read_text() == "# Mine\n"


def test_a_dataset_in_the_home_directory_is_an_error(run, synced, tmp_path, home):
    (tmp_path / "link").symlink_to(home / ".warmstart")
    before = set((home / ".warmstart").iterdir())
    for directory in (home / ".warmstart", home, tmp_path, tmp_path / "link", home / "x" / ".."):
        ran = run("dataset", "export", directory)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "its key" in ran.err
    assert set((home / ".warmstart").iterdir()) == before
    assert run("dataset", "export", home / ".warmstart" / "markers").code == 0


def test_an_empty_store_gives_an_empty_dataset(run, tmp_path):
    ran = run("dataset", "export", tmp_path / "markers")
    assert (ran.code, ran.out.split(" written")[0]) == (0, "0 sessions and 0 calls (all projects)")


def test_without_pyarrow_it_says_what_to_install(synced, tmp_path):
    script = (
        "import sys\nsys.modules['pyarrow'] = None\n"
        f"from warmstart.cli import main\nmain(['dataset', 'export', {str(tmp_path / 'markers')!r}])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("sessions.jsonl, calls.jsonl, README.md.\n")
    assert ran.stderr == "No Parquet files: they need pyarrow (pip install 'warmstart[dataset]').\n"


def test_a_terminal_shows_the_same_in_the_end(terminal, synced, tmp_path):
    code, screen = terminal("dataset", "export", tmp_path / "markers", columns=200)
    assert code == 0
    assert "Profiling" in screen
    assert f"written to {tmp_path / 'markers'}" in screen


def test_active_templates_are_exported_without_names(run, synced, tmp_path):
    run("templates", "extract", "58e3c7d9", "--name", "surges in tidewatch")
    ran = run("dataset", "export", tmp_path / "markers")
    assert ", and 1 template (all projects) written to" in ran.out
    assert "Read templates.jsonl before you publish it" in ran.err
    (row,) = lines(tmp_path / "markers" / "templates.jsonl")
    sessions = {session["session"]: session for session in lines(tmp_path / "markers" / "sessions.jsonl")}
    assert [sessions[source]["project"] for source in row["sources"]] == [row["project"]]
    assert row["name"].startswith("surges in name:")
    assert row["items"]
    text = (tmp_path / "markers" / "templates.jsonl").read_text(encoding="utf-8").lower()
    listed = json.loads(run("sessions", "list", "--limit", 0, "--json").out)
    private = {"mara", "tomas", "tidewatch", "warm_2"}
    private |= {session[name].lower() for session in listed for name in ("session_id", "native_id", "project")}
    assert {word for word in private if word and word in text} == set()
    for options in (("--no-templates",), ("--agent", "gemini-cli")):
        assert run("dataset", "export", tmp_path / "markers", *options).code == 0
        assert not (tmp_path / "markers" / "templates.jsonl").exists()


def test_templates_that_are_not_in_use_stay_private(run, synced, tmp_path):
    run("templates", "auto", "--min-calls", 1, "--max-error-rate", 1)
    assert json.loads(run("dataset", "export", tmp_path / "markers", "--json").out)["templates"] == 0
