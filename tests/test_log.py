from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.unprivileged import as_nobody, let_in
from warmstart.cli import main
from warmstart.log import FILES, MAX_BYTES, NAME, last_error, log_error
from warmstart.redact.redactor import Redactor

SECRET = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
PROMPT = "tell me which harbour"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ error \d+ [a-z]+: .+ \[.*\]")


def fail(message: str) -> BaseException:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def log(home: Path, message: str = "no harbour") -> Path | None:
    return log_error(home, "sync", fail(message), redact=Redactor().clean)


@pytest.fixture
def buggy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buggy memory backend from another package."""
    package = tmp_path / "site" / "thirdparty-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[warmstart.memory]\nbuggy = buggy_backend:Buggy\n")
    (tmp_path / "site" / "buggy_backend.py").write_text(
        "from warmstart.memory.backend import NullBackend\n"
        "class Buggy(NullBackend):\n"
        "    def __init__(self, settings): pass\n"
        "    def retrieve(self, user_id, key):\n"
        f"        raise ValueError('cannot\\x1b[31m\\nparse\\u202e token={SECRET}' + ' x' * 9000)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("WARMSTART_MEMORY_BACKEND", "buggy")
    monkeypatch.setenv("SOME_VARIABLE", "of-the-environment")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(arguments)
    except SystemExit as left:
        code = int(left.code or 0)
    return code, *capsys.readouterr()


# -- through the command line


def test_a_bug_is_one_line_on_the_terminal_and_one_in_the_log(capsys, home, buggy):
    code, out, err = run(capsys, "memory", "get", PROMPT)
    path = home / ".warmstart" / NAME
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("warmstart: unexpected ValueError: cannot")
    assert repr(str(path)) in err
    assert "--debug" in err
    (line,) = path.read_text().splitlines()
    assert LINE.fullmatch(line)
    assert "memory: ValueError: cannot" in line
    assert re.search(r"\[site/buggy_backend.py:5 retrieve < cli/memory.py:\d+ get < ", line)
    assert line.isprintable()
    assert len(line) < 4096
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for secret in (SECRET, PROMPT, "of-the-environment"):
        assert secret not in line


def test_debug_raises_the_bug_itself(home, buggy):
    with pytest.raises(ValueError, match="cannot"):
        main(["memory", "get", "x", "--debug"])
    assert not (home / ".warmstart" / NAME).exists()


def test_a_store_that_fails_is_logged_and_a_wrong_name_is_not(capsys, home):
    path = home / ".warmstart" / NAME
    assert run(capsys, "sessions", "show", "nope")[0] == 1
    assert run(capsys, "sessions", "list", "--limit", "x")[0] == 2
    assert not path.exists()
    (home / ".warmstart" / "warmstart.db").write_bytes(b"no database" * 1000)
    assert run(capsys, "sessions", "list")[0] == 1
    assert "sessions: StoreCorrupt: " in path.read_text()
    assert " from DatabaseError: " in path.read_text()


def test_doctor_shows_the_last_error(capsys, home, buggy):
    assert run(capsys, "sessions", "list")[0] == 0
    assert f"ok  log: no errors in {home}/.warmstart/{NAME}" in run(capsys, "doctor")[1]
    run(capsys, "memory", "get", "x")
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert re.search(r"note  log: last error: \S+Z error \d+ memory: ValueError: cannot", out)
    (check,) = [each for each in json.loads(run(capsys, "doctor", "--json")[1]) if each["subject"] == "log"]
    assert check["status"] == "note"
    assert check["finding"].removeprefix("last error: ") == last_error(home / ".warmstart")


def test_the_users_redaction_patterns_apply_to_the_log(capsys, home, buggy):
    (home / ".warmstart").mkdir()
    (home / ".warmstart" / "config.toml").write_text('[redact.patterns]\nmine = "pars[e]"\n')
    run(capsys, "memory", "get", "x")
    assert "[redacted:mine:" in (home / ".warmstart" / NAME).read_text()


# -- the file


def test_the_log_is_rotated_and_three_files_stay(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / NAME).write_bytes(b"x" * (MAX_BYTES - 10))
    log(kept, "first")
    (kept / NAME).write_bytes(b"y" * (MAX_BYTES - 10))
    log(kept, "second")
    (kept / NAME).write_bytes(b"z" * (MAX_BYTES - 10))
    log(kept, "third")
    assert sorted(path.name for path in kept.iterdir()) == sorted(FILES)
    assert [(kept / name).read_bytes()[:1] for name in FILES[1:]] == [b"z", b"y"]
    assert "third" in (kept / NAME).read_text()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept.iterdir() if path.name == NAME)
    # The last error is found after a rotation, too.
    log(tmp_path, "before")
    (tmp_path / NAME).rename(tmp_path / FILES[1])
    assert "before" in str(last_error(tmp_path))
    (tmp_path / NAME).write_text("other words here\n")
    assert "before" in str(last_error(tmp_path))


def test_many_processes_lose_no_line(tmp_path):
    (tmp_path / NAME).write_bytes(b"x" * (MAX_BYTES - 2000) + b"\n")
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        list(pool.map(log, [tmp_path] * 80, [f"number {number} of all" for number in range(80)]))
    lines = [line for name in FILES for line in _lines(tmp_path / name) if not line.startswith("x")]
    assert sorted(int(re.findall(r"number (\d+) of", line)[0]) for line in lines) == list(range(80))
    assert all(LINE.fullmatch(line) for line in lines)
    assert not (tmp_path / FILES[2]).exists()  # the full log was moved once


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_log_that_is_not_a_file_is_left_alone(capsys, home, buggy, subtests):
    path = home / ".warmstart" / NAME
    target = home / "theirs"
    path.parent.mkdir()
    for kind, make in (
        ("dangling link", lambda: path.symlink_to(target)),
        ("pipe", lambda: os.mkfifo(path)),
        ("folder", path.mkdir),
        ("link", lambda: target.write_text("mine") and path.symlink_to(target)),
    ):
        with subtests.test(kind):
            make()
            code, _, err = run(capsys, "memory", "get", "x")
            assert (code, err.count("\n")) == (1, 1)
            assert NAME not in err
            assert target.read_text() == "mine" if kind == "link" else not target.exists()
            assert "log: " in run(capsys, "doctor")[1]
            path.rmdir() if kind == "folder" else path.unlink()


def test_a_read_only_home_does_no_harm(tmp_path):
    let_in(tmp_path)
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o555)
    assert as_nobody(lambda: log(kept)) is None
    assert as_nobody(lambda: log(kept / "deeper")) is None
    assert list(kept.iterdir()) == []


def test_a_log_that_others_can_read_is_made_private(tmp_path):
    (tmp_path / NAME).write_text("")
    (tmp_path / NAME).chmod(0o644)
    log(tmp_path)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_message_that_cannot_be_redacted_is_not_logged(tmp_path):
    def broken(text: str) -> str:
        raise RecursionError(text)

    log_error(tmp_path, "sync", fail(SECRET), redact=broken)
    assert SECRET not in (tmp_path / NAME).read_text()
    assert "ValueError: (no message)" in (tmp_path / NAME).read_text()


def test_a_deep_recursion_is_one_short_line(tmp_path):
    def deep() -> None:
        deep()

    with pytest.raises(RecursionError) as caught:
        deep()
    log_error(tmp_path, "sync", caught.value, redact=str)
    (line,) = (tmp_path / NAME).read_text().splitlines()
    assert "RecursionError" in line
    assert len(line) < 4096


def test_logging_costs_nothing_until_there_is_something_to_log():
    code = "import sys\nfrom warmstart.cli import main\nmain(['--version'])\nprint(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"logging", "traceback", "warmstart.log", "warmstart.config"} & set(loaded)
