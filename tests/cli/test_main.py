from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from tests.commands import SHELL, run_line, tree

from warmstart.cli import COMMANDS, main, root
from warmstart.errors import StoreCorrupt

# Commands that tell what they did, and those whose output has formats of its own.
WITHOUT_JSON = {
    "sessions outcome",
    "sessions delete",
    "sessions export",
    "memory set",
    "memory delete",
    "memory export",
    "templates delete",
    "templates edit",
    "templates export",
    "templates promote",
    "templates retire",
    "templates revert",
}

TREE = dict(tree(root))
EXAMPLES = [
    example.strip()
    for command in TREE.values()
    for example in re.sub(r"^Examples?: ", "", command.epilog or "").split(" · ")
    if "--watch" not in example
]


# -- help


@pytest.mark.parametrize("name", TREE)
def test_every_command_has_help_with_an_example(run, name):
    command = TREE[name]
    assert command.help
    assert re.match(r"Examples?: warmstart", command.epilog or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help or parameter.opts == ["--format"], parameter.name
    for flag in ("--help", "-h"):
        ran = run(*name.split(), flag)
        assert (ran.code, ran.err) == (0, "")
        assert "Example" in ran.out


@pytest.mark.parametrize("name", [name for name, command in TREE.items() if not isinstance(command, click.Group)])
def test_everything_that_prints_data_prints_json(name):
    options = {option for parameter in TREE[name].params for option in parameter.opts}
    assert ("--json" in options) == (name not in WITHOUT_JSON)


def test_the_list_of_commands_says_what_each_says_itself():
    for name, line in COMMANDS.items():
        first = " ".join((TREE[name].help or "").split("\n\n")[0].split())
        assert line == first
        assert line.endswith(".")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example, synced, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    monkeypatch.setenv("VISUAL", "true")  # an editor that changes nothing
    shutil.copytree(synced / "openai", home / "runs")
    for name in ("build.log", "config.yaml"):
        (home / name).write_text("all is well\n")
    code, said = run_line(example, capsys)
    assert (code, said.count("Traceback")) == (0, 0), said


@pytest.mark.parametrize("arguments", [[], ["sessions"]])
def test_a_group_alone_shows_its_help(run, arguments):
    ran = run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == run(*arguments, "--help").out


def test_help_loads_nothing_that_it_does_not_need():
    script = (
        "import sys\nfrom warmstart.cli import main\nmain(['--help'])\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert "sync" in ran.stdout
    assert "warmstart.cli" in loaded
    for name in loaded:
        assert name.split(".")[0] not in {"msgspec", "sqlite3", "_sqlite3", "rich", "tomllib", "jsonschema"}
        assert not name.startswith(("warmstart.sessions", "warmstart.storage", "warmstart.templates"))


def test_rich_is_not_loaded_for_a_pipe(synced):
    script = (
        "import sys\nfrom warmstart.cli import main\nmain(['sessions', 'list'])\n"
        "print('rich' in sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == "False\n"


def test_the_version_is_that_of_the_package(run):
    assert run("--version").out == f"warmstart {version('warmstart')}\n"


# -- wrong usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "nope"),
        (["sessions", "nope"], "nope"),
        (["sync", "--nope"], "--nope"),
        (["sync", "--agent", "nobody"], "claude-code"),
        (["sync", "--watch", "--interval", "0"], "--interval"),
        (["sessions", "show"], "ID"),
        (["sessions", "delete"], "ID"),
        (["sessions", "list", "--limit", "-1"], "--limit"),
        (["sessions", "list", "--outcome", "good"], "success"),
    ],
)
def test_wrong_usage_is_explained_and_exits_with_2(run, home, arguments, said):
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert list(home.iterdir()) == []


# -- stores that cannot be used


def newer(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("INSERT INTO migrations (name) VALUES ('sessions/9999_from_the_future')")
        connection.commit()


def foreign(store: Path) -> None:
    store.unlink()
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def noise(store: Path) -> None:
    store.write_bytes(b"These are not the pages that you are looking for. " * 200)


def beheaded(store: Path) -> None:
    store.write_bytes(b"SQLite format 3\0" + b"\xff" * 4080)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer, "newer Warmstart.*upgrade"),
        (foreign, "not a Warmstart store.*WARMSTART_STORE"),
        (noise, "damaged or is not a store.*move it away"),
        (beheaded, "damaged or is not a store.*move it away"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [["sync"], ["sessions", "list"], ["sessions", "list", "--json"], ["sessions", "show", "3f0c1d52"]],
    ids=" ".join,
)
def test_a_store_that_cannot_be_used_is_one_line_and_stays_as_it_is(run, home, synced, spoil, said, command):
    store = home / ".warmstart" / "warmstart.db"
    spoil(store)
    before = store.read_bytes()
    ran = run(*command)
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)
    told = run("doctor")
    assert told.code == 1
    assert re.search(f"problem  store: .*{said}", told.out)
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [["--debug", "sessions", "list"], ["sessions", "--debug", "list"], ["sessions", "list", "--debug"]]
)
def test_debug_anywhere_shows_the_traceback(program, home, synced, arguments):
    noise(home / ".warmstart" / "warmstart.db")
    with pytest.raises(StoreCorrupt):
        main(arguments)
    ran = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "Traceback (most recent call last)" in ran.stderr
    assert "sqlite3.DatabaseError" in ran.stderr


def test_debug_changes_nothing_when_all_goes_well(run, synced):
    assert run("sessions", "list", "--debug") == run("sessions", "list")


# -- settings that cannot be used


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("store = [", "config.toml' is not valid TOML.*mend it"),
        (
            '[store]\nurll = "x"',
            "unknown setting 'store.urll' in .*config.toml.*known: .*profile.tools, .*, redact.allow, .*, store.url",
        ),
        ("[store]\nurl = 5", "'store.url' in .*config.toml' must be text in quotes, not 5"),
        ('[store]\nurl = "mysql://x"', "'mysql://x' is not one this version knows.*sqlite:///path"),
        ('[store]\nurl = "a\\u0000b"', "is no path"),
    ],
)
def test_a_bad_config_file_is_one_line(run, home, config, said):
    (home / ".warmstart").mkdir()
    (home / ".warmstart" / "config.toml").write_text(config)
    for command in (["sync"], ["sessions", "list"]):
        ran = run(*command)
        assert (ran.code, ran.out) == (1, "")
        assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)
    assert (home / ".warmstart" / "config.toml").read_text() == config


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("WARMSTART_STORE", "mysql://localhost/warmstart", "'mysql://localhost/warmstart' is not one"),
        ("WARMSTART_STORE", "~nobody-of-this-name/x.db", "write the whole path"),
        ("WARMSTART_HOME", "~nobody-of-this-name", "write the whole path"),
        ("WARMSTART_HOME", "/dev/null", "Not a directory"),
        ("WARMSTART_STORE", "/", "is a folder"),
    ],
)
def test_a_bad_variable_is_one_line(run, monkeypatch, variable, value, said):
    monkeypatch.setenv(variable, value)
    ran = run("sessions", "list")
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)


def test_another_store_may_be_named(run, samples, tmp_path, monkeypatch, home):
    monkeypatch.setenv("WARMSTART_STORE", f"sqlite:///{tmp_path}/elsewhere/other.db")
    assert run("sync", "--path", samples).code == 0
    assert (tmp_path / "elsewhere" / "other.db").is_file()
    assert [path.name for path in (home / ".warmstart").iterdir()] == ["redact.key"]


# -- pipes and signals


def closed_pipe(program: list[str], *arguments: object) -> tuple[int, bytes]:
    """Run a command whose output nobody reads."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ran = subprocess.run([*program, *map(str, arguments)], stdout=theirs, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(theirs)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["sessions", "list"],
        ["sessions", "list", "--json"],
        ["sessions", "show", "3f0c1d52", "--full"],
        ["sessions", "export", "3f0c1d52"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_no_reason_to_complain(program, synced, arguments):
    code, said = closed_pipe(program, *arguments)
    assert said == b""
    assert code in (0, 1)


@pytest.mark.parametrize("line", ["sessions list >&-", "sessions list >&- 2>&-", "templates stats >&-"])
def test_an_output_that_is_closed_from_the_start_is_no_reason_to_complain(synced, line):
    ran = subprocess.run(["sh", "-c", f"{SHELL}warmstart {line}"], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_head_gets_its_line(synced):
    line = "warmstart sessions show 3f0c1d52 --full | head -1"
    ran = subprocess.run(["sh", "-c", SHELL + line], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("add the Port Ellery gauge")
    assert ran.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_the_output_is_said(program, synced):
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*program, "sessions", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode != 0
    assert "Traceback" not in ran.stderr
    assert "No space left on device" in ran.stderr


def test_leaving_a_question_unanswered_exits_with_130_and_changes_nothing(run, terminal, synced):
    code, screen = terminal("sessions", "delete", "58e3c7d9", typed="\x04")
    assert code == 130
    assert "Traceback" not in screen
    assert len(json.loads(run("sessions", "list", "--json").out)) == 8


@pytest.mark.parametrize("id", ["x\ny", "", "%", "\x1b[31m", "'; DROP TABLE sessions; --"])
def test_whatever_is_named_wrongly_the_answer_is_one_line(run, synced, id):
    ran = run("sessions", "show", "--", id)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert "\x1b" not in ran.err
    assert len(json.loads(run("sessions", "list", "--json").out)) == 8
