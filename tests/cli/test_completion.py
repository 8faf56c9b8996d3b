from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from warmstart import Message, Session, load_settings
from warmstart.sessions.sql_store import open_store


def complete(program: list[str], line: str) -> list[str]:
    """What a shell would offer for the last word of a command line."""
    words = line.split(" ")
    env = {"_WARMSTART_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ran = subprocess.run(program, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return [offered.partition(",")[2] for offered in ran.stdout.splitlines()]


def test_each_shell_gets_a_script(run, subtests):
    for shell in ("bash", "zsh", "fish"):
        with subtests.test(shell):
            ran = run("completion", shell)
            assert (ran.code, ran.err) == (0, "")
            assert "_WARMSTART_COMPLETE" in ran.out
            if found := shutil.which(shell):
                assert subprocess.run([found, "-n"], input=ran.out, text=True, check=False).returncode == 0
    assert run("completion", "tcsh").code == 2


def test_ids_and_names_are_completed(program, run, synced, subtests):
    template = run("templates", "extract", "58e3c7d9", "--name", "surges").out.split()[0]
    run("memory", "set", "database_port", "5433")
    for line, offered in {
        "warmstart ses": "sessions",
        "warmstart sessions sh": "show",
        "warmstart sessions show 437a": "437a14bdf0",
        "warmstart sessions list --project tide": "tidewatch",
        "warmstart sessions list --agent cod": "codex",
        "warmstart sessions list --outcome suc": "success",
        "warmstart templates show sur": "surges",
        f"warmstart templates show {template[:8]}": template,
        "warmstart memory get data": "database_port",
        "warmstart templates validate sur": "surges",
        "warmstart profile 437a": "437a14bdf0",
    }.items():
        with subtests.test(line):
            assert offered in complete(program, line)


def test_a_project_is_completed_by_its_folder_too(program, home):
    with open_store(load_settings({})) as store:
        for parent in ("work", "play"):
            session = Session(agent="tester", native_id=parent, project=f"/{parent}/tides")
            store.append(session, [Message(native_id=parent, role="user", text=parent)])
    assert complete(program, "warmstart profile --project ti") == ["tides"]
    assert complete(program, "warmstart profile --project pl") == ["play/tides"]


def test_a_broken_store_offers_nothing_and_says_nothing(program, home: Path):
    (home / ".warmstart").mkdir()
    (home / ".warmstart" / "warmstart.db").write_bytes(b"not a database" * 100)
    assert not any(complete(program, "warmstart sessions show a"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(run, program, synced, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(run("completion", "bash").out)
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "warmstart"
    command.write_text(f"#!/bin/sh\nexec '{program[0]}' -c 'from warmstart.cli import main; main()' \"$@\"\n")
    command.chmod(0o755)
    line = (
        f"source {script}; COMP_WORDS=(warmstart sessions show 437a); COMP_CWORD=3; "
        '_warmstart_completion warmstart; echo "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "437a14bdf0\n"
