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
from itertools import product
from pathlib import Path

import click
import pytest
from tests.commands import SHELL, run_line, tree

from warmstart.app import Warmstart
from warmstart.cli import main
from warmstart.cli.commands import COMMANDS, root
from warmstart.config import load_settings
from warmstart.errors import StoreCorrupt
from warmstart.profile.values import Markers, Profile

# Commands that tell what they did, and those whose output has formats of its own.
WITHOUT_JSON = {
    "completion",
    "hook",
    "mcp",
    "init",
    "install",
    "uninstall",
    "pause",
    "sessions outcome",
    "sessions delete",
    "sessions forget",
    "sessions export",
    "experiment new",
    "experiment run",
    "memory export",
    "memory vacuum",
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
    for example in re.sub(r"^(?:Example: |\x08\nExamples:\n)", "", command.epilog or "").split("\n")
    if "--watch" not in example
]


# -- help


def test_every_command_has_help_with_an_example(run, subtests):
    for name in TREE:
        with subtests.test(name=name):
            command = TREE[name]
            assert command.help
            assert re.match(r"(?:Example: |\x08\nExamples:\n  )warmstart", command.epilog or "")
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help or parameter.opts == ["--format"], parameter.name
            for flag in ("--help", "-h"):
                ran = run(*name.split(), flag)
                assert (ran.code, ran.err) == (0, "")
                assert "Example" in ran.out


def test_help_fits_80_columns(run, monkeypatch, subtests):
    monkeypatch.setenv("COLUMNS", "80")
    for name in TREE:
        with subtests.test(name=name):
            assert [line for line in run(*name.split(), "--help").out.splitlines() if len(line) > 80] == []


def test_everything_that_prints_data_prints_json(subtests):
    for name in [name for name, command in TREE.items() if not isinstance(command, click.Group)]:
        with subtests.test(name=name):
            options = {option for parameter in TREE[name].params for option in parameter.opts}
            assert ("--json" in options) == (name not in WITHOUT_JSON)


def test_the_list_of_commands_says_what_each_says_itself():
    for name, line in COMMANDS.items():
        first = " ".join((TREE[name].help or "").split("\n\n")[0].split())
        assert line == first
        assert line.endswith(".")


def test_the_examples_run(samples, monkeypatch, capsys, fresh, subtests):
    monkeypatch.setenv("VISUAL", "true")  # an editor that changes nothing
    assert len(EXAMPLES) > 40
    for example in EXAMPLES:
        with subtests.test(example=example), fresh(synced=True) as home:
            monkeypatch.chdir(home)
            shutil.copytree(samples / "openai", home / "runs")
            (home / "event.json").write_text('{"session_id": "s1", "source": "startup"}')
            for name in ("build.log", "config.yaml"):
                (home / name).write_text("all is well\n")
            if "promote" in example:
                with Warmstart(load_settings(os.environ)) as ws:
                    ws.memory.set("deploy_day", "Tuesday", author="codex", project=str(home))
            if "experiment" in example:
                prepare_experiment(home, begun="--html" in example or "status" in example)
            code, said = run_line(example, capsys)
            assert (code, said.count("Traceback")) == (0, 0), said


def prepare_experiment(folder, *, begun):
    """The files that examples of `experiment` name, and sessions where they need some."""
    (folder / "results.csv").write_text("arm,success\ncold,0\ncold,1\ncold,0\nwarm,1\nwarm,1\nwarm,0\n")
    text = 'name = "warm-vs-cold"\nkind = "field"\nmetric = "errors"\npower = {baseline = 0.3, effect = 0.1}\n'
    text += '[arms.cold]\n[arms.warm]\nstart = ["brief"]\n'
    (folder / "warm-vs-cold.toml").write_text(text)
    with Warmstart(load_settings(os.environ)) as ws:
        design = ws.experiments.save(text) if begun else None
        for number in range(8 if design else 0):
            profile = Profile(markers=Markers(calls=5 + number, errors=number % 3))
            ws.experiments.record(design, f"s{number}", ("cold", "warm")[number % 2], task="", profile=profile)


def test_a_group_without_a_command_shows_its_help(run, subtests):
    for arguments in [[], ["sessions"]]:
        with subtests.test(arguments=arguments):
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
    assert ran.stderr.endswith("\nFalse\n")


def test_the_version_is_that_of_the_package(run):
    assert run("--version").out == f"warmstart {version('warmstart')}\n"


# -- wrong usage


def test_wrong_usage_is_explained_and_exits_with_2(run, home, subtests):
    cases = [
        (["nope"], "nope"),
        (["sessions", "nope"], "nope"),
        (["sync", "--nope"], "--nope"),
        (["sync", "--agent", "nobody"], "claude-code"),
        (["sync", "--watch", "--interval", "0"], "--interval"),
        (["sessions", "show"], "ID"),
        (["sessions", "delete"], "ID"),
        (["sessions", "list", "--limit", "-1"], "--limit"),
        (["sessions", "list", "--outcome", "good"], "success"),
    ]
    for arguments, said in cases:
        with subtests.test(arguments=arguments, said=said):
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


def test_a_store_that_cannot_be_used_is_one_line_and_stays_as_it_is(run, fresh, subtests):
    spoiled = [
        (newer, "newer Warmstart.*upgrade"),
        (foreign, "not a Warmstart store.*WARMSTART_STORE"),
        (noise, "damaged or is not a store.*move it away"),
        (beheaded, "damaged or is not a store.*move it away"),
    ]
    commands = ["sync", "sessions list", "sessions list --json", "sessions show 3f0c1d52"]
    for (spoil, said), command in product(spoiled, commands):
        with subtests.test(command=command, spoil=spoil, said=said), fresh(synced=True) as home:
            store = home / ".warmstart" / "warmstart.db"
            spoil(store)
            before = store.read_bytes()
            ran = run(*command.split())
            assert (ran.code, ran.out) == (1, "")
            assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)
            told = run("doctor")
            assert told.code == 1
            assert re.search(f"problem  store: .*{said}", told.out)
            assert store.read_bytes() == before


def test_debug_anywhere_shows_the_traceback(program, home, synced, subtests):
    cases = [["--debug", "sessions", "list"], ["sessions", "--debug", "list"], ["sessions", "list", "--debug"]]
    for arguments in cases:
        with subtests.test(arguments=arguments):
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


def test_a_bad_config_file_is_one_line(run, fresh, subtests):
    cases = [
        ("store = [", "config.toml' is not valid TOML.*fix it"),
        (
            '[store]\nurll = "x"',
            "unknown setting 'store.urll' in .*config.toml.*known: .*profile.tools, .*, redact.allow, .*, store.url",
        ),
        ("[store]\nurl = 5", "'store.url' in .*config.toml' must be a string in quotes, not 5"),
        ('[store]\nurl = "mysql://x"', "unknown kind of store 'mysql://x'.*sqlite:///path"),
        ('[store]\nurl = "a\\u0000b"', "is not a path"),
    ]
    for config, said in cases:
        with subtests.test(config=config, said=said), fresh() as home:
            (home / ".warmstart").mkdir()
            (home / ".warmstart" / "config.toml").write_text(config)
            for command in (["sync"], ["sessions", "list"]):
                ran = run(*command)
                assert (ran.code, ran.out) == (1, "")
                assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)
            assert (home / ".warmstart" / "config.toml").read_text() == config


def test_a_bad_variable_is_one_line(run, subtests):
    cases = [
        ("WARMSTART_STORE", "mysql://localhost/warmstart", "unknown kind of store 'mysql://localhost/warmstart'"),
        ("WARMSTART_STORE", "~nobody-of-this-name/x.db", "write the full path"),
        ("WARMSTART_HOME", "~nobody-of-this-name", "write the full path"),
        ("WARMSTART_HOME", "/dev/null", "Not a directory"),
        ("WARMSTART_STORE", "/", "is not a file"),
    ]
    for variable, value, said in cases:
        with subtests.test(variable=variable, value=value), pytest.MonkeyPatch.context() as patched:
            patched.setenv(variable, value)
            ran = run("sessions", "list")
            assert (ran.code, ran.out) == (1, "")
            assert re.fullmatch(f"warmstart: .*{said}.*\n", ran.err)


def test_another_store_may_be_named(run, samples, tmp_path, monkeypatch, home):
    monkeypatch.setenv("WARMSTART_STORE", f"sqlite:///{tmp_path}/elsewhere/other.db")
    assert run("sync", "--path", samples).code == 0
    assert (tmp_path / "elsewhere" / "other.db").is_file()
    assert {path.name for path in (home / ".warmstart").iterdir()} == {"redact.key", "sync.json"}


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


def test_a_closed_pipe_is_not_an_error(program, synced, subtests):
    cases = [
        [],
        ["--help"],
        ["--version"],
        ["sessions", "list"],
        ["sessions", "list", "--json"],
        ["sessions", "show", "3f0c1d52", "--full"],
        ["sessions", "export", "3f0c1d52"],
        ["doctor"],
    ]
    for arguments in cases:
        with subtests.test(arguments=arguments):
            code, said = closed_pipe(program, *arguments)
            assert said == b""
            assert code in (0, 1)


def test_an_output_that_is_closed_from_the_start_is_not_an_error(synced, subtests):
    for line in ["sessions list --json >&-", "sessions list >&- 2>&-", "templates stats >&-"]:
        with subtests.test(line=line):
            ran = subprocess.run(["sh", "-c", f"{SHELL}warmstart {line}"], capture_output=True, check=False)
            assert (ran.returncode, ran.stderr) == (0, b"")


def test_piping_into_head_works(synced):
    line = "warmstart sessions show 3f0c1d52 --full | head -1"
    ran = subprocess.run(["sh", "-c", SHELL + line], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("add the Port Ellery gauge")
    assert ran.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_for_the_output_is_one_line(program, synced):
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


def test_unknown_names_are_one_line(run, synced, subtests):
    for wrong in ["x\ny", "", "%", "\x1b[31m", "'; DROP TABLE sessions; --"]:
        with subtests.test(wrong=wrong):
            ran = run("sessions", "show", "--", wrong)
            assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
            assert "\x1b" not in ran.err
            assert len(json.loads(run("sessions", "list", "--json").out)) == 8
