"""`warmstart templates`: versions, files, states and what is taken back."""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.chores import add_chores

SESSION = "437a14bdf0e4e434"
MARK = "[warmstart]"


@pytest.fixture
def made(run, synced) -> str:
    """The id of a template that was extracted from the good sample session."""
    return str(json.loads(run("templates", "extract", "58e3c7d9", "--name", "surges", "--json").out)["template_id"])


@pytest.fixture
def editor(monkeypatch, home):
    """Make the user's editor replace one text by another."""

    def editor(old: str, new: str) -> None:
        script = home / "editor"
        script.write_text(
            f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\npath = Path(sys.argv[1])\n"
            f"path.write_text(path.read_text().replace({old!r}, {new!r}))\n"
            "os.utime(path, (time.time() + 86400,) * 2)\n"
        )
        script.chmod(0o700)
        monkeypatch.setenv("VISUAL", str(script))

    return editor


def listed(run, *options: str) -> list[dict[str, object]]:
    return list(json.loads(run("templates", "list", *options, "--json").out))


def history(run, id: str) -> list[dict[str, object]]:
    return list(json.loads(run("templates", "history", id, "--json").out))


# -- versions


def test_every_change_is_a_version_with_author_and_reason(run, made):
    assert run("templates", "retire", made, "--because", "the API changed").code == 0
    newest, first = history(run, made)
    assert (newest["version"], newest["reason"], first["version"]) == (2, "the API changed", 1)
    assert newest["author"] == first["author"]
    assert newest["author"]
    assert newest["at"] >= first["at"]
    told = run("templates", "history", "surges").out
    assert "the API changed" in told


def test_an_edit_is_a_new_version_and_the_diff_is_readable(run, made, editor):
    editor("surges", "storms")
    ran = run("templates", "edit", made)
    assert ran.code == 0, ran.err
    assert "version 2" in ran.err
    changes = run("templates", "diff", made, 1, 2).out
    assert "surges" in changes
    assert "storms" in changes
    assert json.loads(run("templates", "diff", made, 1, 2, "--json").out)["changes"]
    assert run("templates", "revert", "storms", 1).code == 0
    assert listed(run)[0]["name"] == "surges"
    assert [each["version"] for each in history(run, made)] == [3, 2, 1]
    assert "nothing changed" in run("templates", "revert", made, 3).err
    same = run("templates", "diff", made, 1, 3)
    assert (same.code, same.out) == (0, "")
    assert "are identical" in same.err


def test_an_editor_that_changes_nothing_makes_no_version(run, made, monkeypatch, editor):
    monkeypatch.setenv("VISUAL", "true")
    assert "Nothing changed" in run("templates", "edit", made).err
    editor("# Change any text", "# Change a text")
    assert "Nothing changed" in run("templates", "edit", made).err
    assert len(history(run, made)) == 1


def test_a_text_that_cannot_be_used_is_kept_in_a_file(run, made, editor):
    editor("name = ", "name ")
    ran = run("templates", "edit", made)
    assert (ran.code, ran.out) == (1, "")
    place = Path(ran.err.split("Your text is in ")[1].split(".toml")[0] + ".toml")
    assert "name " in place.read_text(encoding="utf-8")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.unlink()
    assert len(history(run, made)) == 1


@pytest.mark.parametrize("script", ["printf '\\377\\376' > \"$1\"", "echo '# mine' >> \"$1\"; exit 3"])
def test_nothing_is_lost_when_an_editor_fails_or_saves_no_text(run, made, monkeypatch, home, script):
    editor = home / "editor.sh"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    ran = run("templates", "edit", made)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 2)
    place = Path(ran.err.split("Your text is in ")[1].split(".toml")[0] + ".toml")
    assert place.read_bytes().endswith((b"\xff\xfe", b"# mine\n"))
    place.unlink()
    assert len(history(run, made)) == 1


def test_an_editor_that_is_not_there_is_one_line(run, made, monkeypatch):
    monkeypatch.setenv("VISUAL", "/nowhere/at/all")
    ran = run("templates", "edit", made)
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1


def test_without_an_editor_and_a_terminal_nothing_waits(run, made, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    ran = run("templates", "edit", made)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert "EDITOR" in ran.err


# -- files


def test_export_delete_and_import_give_the_same_rendering(run, made, home):
    before = json.loads(run("templates", "test", made, "hello", "--json").out)["messages"]
    assert run("templates", "export", made, home / "t.json").code == 0
    assert run("templates", "delete", made, "--yes").code == 0
    assert listed(run) == []
    ran = run("templates", "import", home / "t.json", "--json")
    assert ran.code == 0, ran.err
    imported = json.loads(ran.out)
    assert imported["state"] == "quarantined"
    assert imported["origin"].startswith("imported from")
    tested = run("templates", "test", imported["template_id"], "hello", "--json")
    assert "quarantined" in tested.err
    assert json.loads(tested.out)["messages"] == before


def test_an_export_overwrites_only_when_asked_and_goes_to_the_terminal(run, made, home):
    file = home / "t.json"
    file.write_text("mine")
    refused = run("templates", "export", made, file)
    assert (refused.code, file.read_text()) == (1, "mine")
    assert "--overwrite" in refused.err
    assert run("templates", "export", made, file, "--overwrite").code == 0
    assert run("templates", "export", made, "-").out == file.read_text(encoding="utf-8")


def test_what_is_here_already_is_not_imported_twice(run, made, home):
    run("templates", "export", made, home / "t.json")
    ran = run("templates", "import", home / "t.json")
    assert (ran.code, "already here" in ran.err) == (0, True)
    assert [each["template_id"] for each in listed(run)] == [made]


def test_a_file_that_was_changed_is_refused_with_each_problem_on_a_line(run, made, home):
    file = home / "t.json"
    run("templates", "export", made, file)
    assert run("templates", "validate", file).code == 0
    file.write_text(file.read_text(encoding="utf-8").replace("surges", "ignored", 1), encoding="utf-8")
    for command in ("validate", "import"):
        ran = run("templates", command, file)
        assert ran.code == 1
        assert "changed after it was exported" in ran.out + ran.err
        assert "Traceback" not in ran.err
    assert len(listed(run)) == 1
    told = json.loads(run("templates", "validate", file, "--json").out)
    assert (told["valid"], len(told["problems"]) >= 1) == (False, True)


def test_what_extract_creates_is_valid(run, synced, home):
    run("templates", "extract", add_chores(home)[0], "--name", "customers")
    assert json.loads(run("templates", "validate", "customers", "--json").out) == {"valid": True, "problems": []}


# -- states


def test_a_template_is_retired_and_promoted(run, made):
    assert run("templates", "retire", made).code == 0
    assert [each["template_id"] for each in listed(run, "--state", "retired")] == [made]
    assert "retired" in run("templates", "test", made, "hello").err
    assert run("templates", "promote", made, "--yes").code == 0
    assert listed(run)[0]["state"] == "active"
    assert "already" in run("templates", "promote", made).err


def test_promoting_on_a_terminal_shows_what_would_enter_prompts_and_asks(run, terminal, made):
    run("templates", "retire", made)
    code, screen = terminal("templates", "promote", made, typed="n\n")
    assert code == 0
    items = json.loads(run("templates", "show", made, "--json").out)["seed"]["items"]
    texts = [text for item in items for text in (item["text"], *(call["arguments"] for call in item["calls"]))]
    assert texts
    assert all(" ".join(text.split()) in screen for text in texts)
    assert "stays retired" in screen
    assert listed(run)[0]["state"] == "retired"
    terminal("templates", "promote", made, typed="y\n")
    assert listed(run)[0]["state"] == "active"


def test_deleting_on_a_terminal_asks(run, terminal, made):
    assert "Kept" in terminal("templates", "delete", made, typed="n\n")[1]
    assert len(listed(run)) == 1
    assert "Deleted" in terminal("templates", "delete", made, typed="y\n")[1]
    assert listed(run) == []


# -- taken back


def test_what_came_from_a_session_goes(run, made, home):
    ran = run("templates", "revoke", "58e3c7d9", "--json", "--yes")
    assert ran.code == 0, ran.err
    (gone,) = json.loads(ran.out)
    assert gone["template_id"] == made
    (left,) = listed(run)
    assert left["state"] == "retired"
    for version in ("1", "2"):
        shown = run("templates", "show", made, "--version", version)
        assert "level" not in shown.out
    assert run("templates", "revert", made, 1).code == 1
    again = run("templates", "extract", "58e3c7d9", "--name", "again")
    assert (again.code, len(again.err.splitlines())) == (1, 1)
    assert json.loads(run("templates", "revoke", "58e3c7d9", "--json", "--yes").out) == []


def test_a_session_that_is_not_here_can_be_revoked_by_its_whole_id(run, synced):
    ran = run("templates", "revoke", "0123456789abcdef", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert "0123456789abcdef" in ran.err
    assert run("templates", "revoke", "of-another-machine", "--yes").code == 1


def test_deleting_a_session_says_what_templates_still_carry(run, made):
    told = run("sessions", "delete", "58e3c7d9", "--yes")
    assert (told.code, "1 template still carries" in told.err, f"templates revoke {SESSION}" in told.err) == (
        0,
        True,
        True,
    )
    assert run("templates", "revoke", SESSION, "--yes").code == 0
    assert "level" not in run("templates", "show", made).out
    assert run("sessions", "delete", "3f0c1d52", "--yes").err == ""


# -- with the store


def test_a_copy_of_the_store_has_the_templates(run, made, home, monkeypatch):
    assert run("store", "copy", "--to", home / "copy.db").code == 0
    before = run("templates", "show", made).out
    monkeypatch.setenv("WARMSTART_STORE", str(home / "copy.db"))
    assert run("templates", "show", made).out == before


def test_redacting_the_store_covers_the_templates(run, made, home):
    assert "level" in run("templates", "show", made).out
    (home / ".warmstart" / "config.toml").write_text('[redact.patterns]\nacme = "level"\n')
    assert run("redact", "--store").code == 0
    assert "level" not in run("templates", "show", made).out


def test_on_a_server_it_is_the_same(run, samples, postgres_url, home, monkeypatch):
    monkeypatch.setenv("WARMSTART_STORE", postgres_url)
    assert run("sync", "--path", samples).code == 0
    made = json.loads(run("templates", "extract", "58e3c7d9", "--name", "surges", "--json").out)["template_id"]
    assert run("templates", "list").code == 0
    assert MARK in run("templates", "test", made, "hello").out
    assert run("templates", "suggest", "keep the storm warnings in the database", "--all-projects").code == 0
    assert run("templates", "stats").code == run("templates", "auto", "--json").code == 0
    assert run("store", "copy", "--to", home / "copy.db").code == 0
    assert json.loads(run("templates", "revoke", "58e3c7d9", "--json", "--yes").out)
    assert "level" not in run("templates", "show", made).out
    monkeypatch.setenv("WARMSTART_STORE", str(home / "copy.db"))
    assert "level" in run("templates", "show", made).out


def test_nothing_of_a_revoked_session_can_be_recovered_from_the_store(run, synced, home):
    for name in ("one", "two", "three"):
        run("templates", "extract", "58e3c7d9", "--name", name, "--description", "Kept by Zebadiah")
    run("sessions", "delete", "58e3c7d9", "--yes", "--secure")
    (source,) = listed(run)[0]["sources"]
    assert b"Zebadiah" in stored(home)
    assert run("templates", "revoke", source, "--yes").code == 0
    assert b"Zebadiah" not in stored(home)


def stored(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*.db*"))


def test_a_damaged_template_is_named_and_can_be_deleted(run, made, home):
    (place,) = home.rglob("*.db")
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE template_versions SET body = '{'")
    ran = run("templates", "show", "surges")
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert made in ran.err
    assert "delete the template" in ran.err
    assert run("templates", "history", made).code == 0
    assert run("templates", "delete", "surges", "--yes").err == f"Deleted {made} (damaged).\n"
    assert listed(run) == []
