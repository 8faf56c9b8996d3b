"""Whatever the arguments and the environment, a failing command prints one line and no traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import click
import pytest
from tests.commands import SHELL, tree

from warmstart.cli.commands import root
from warmstart.cli.options import Count, Finite

LEAVES = {name: command for name, command in tree(root) if not isinstance(command, click.Group)}
PLAIN = {"id": "x", "value": "success", "old": "1", "new": "1", "version": "1", "url": "copy.db", "target": "copy.db"}
NUMBERS = ("9" * 23, "9" * 5000, "-" + "9" * 23, "nan", "inf", "-inf", "1e999", "1.5.5", "٣x")
TIMES = ("9" * 23 + "d", "9" * 5000 + "w", "0000-00-00", "\udce9")
WORDS = ("\udce9\u202e\x1b[31m", "~nobody-of-this-name/\udce9")


def hostile(parameter: click.Parameter) -> tuple[str, ...]:
    if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
        return NUMBERS
    return TIMES if parameter.type.name == "when" else WORDS


def lines_for(name: str, command: click.Command):
    """Command lines with one hostile value each, for every parameter."""
    for chosen in command.params:
        if isinstance(chosen, click.Option) and chosen.is_flag:
            continue
        for value in hostile(chosen):
            options, arguments = [], []
            for parameter in command.params:
                plain = value if parameter is chosen else PLAIN.get(str(parameter.name), "x")
                if isinstance(parameter, click.Argument) and (parameter.required or parameter is chosen):
                    arguments.append(plain)
                elif isinstance(parameter, click.Option) and (parameter.required or parameter is chosen):
                    options += [parameter.opts[-1], plain]
            if name == "memory evaluate":
                options += ["--backend", "null"]
            yield [*name.split(), *options, "--", *arguments]


def test_no_hostile_value_ends_in_a_traceback(run, monkeypatch, fresh, subtests):
    for name in LEAVES:
        with subtests.test(name=name), fresh() as home:
            monkeypatch.chdir(home)
            for line in lines_for(name, LEAVES[name]):
                ran = run(*line)
                assert ran.code in (0, 1, 2), line
                assert "Traceback" not in ran.err, line
                assert "unexpected" not in ran.err, (line, ran.err)
                assert ran.code == 0 or name == "memory evaluate" or ran.err.count("\n") == 1, (line, ran.err)
                assert not re.search("[\x1b\u202e]", ran.err), line


def test_number_ranges_reject_nan(subtests):
    for name in LEAVES:
        with subtests.test(name=name):
            for parameter in LEAVES[name].params:
                if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
                    assert isinstance(parameter.type, Count | Finite), parameter.name


def test_arguments_that_are_neither_text_nor_a_path_are_rejected(run, home, subtests):
    for line, value in product(["sessions list --agent", "sync --path", "profile --html"], ["a\0b", "\ud800"]):
        with subtests.test(line=line, value=value):
            ran = run(*line.split(), value)
            assert (ran.code, ran.out) == (2, "")
            assert re.fullmatch(r"warmstart: .*not valid in text or paths.*--help' for help\.\n", ran.err)
            assert list(home.iterdir()) == []


def test_after_two_dashes_debug_is_a_value(run):
    assert run("memory", "set", "flag", "--debug", "--", "--debug").code == 0
    assert run("memory", "get", "flag").out == "--debug\n"


def test_wrong_usage_is_one_line_that_says_where_help_is(run):
    ran = run("sessions", "list", "--limit", "99999999999999999999999")
    assert ran.code == 2
    assert re.fullmatch(
        r"warmstart: Invalid value for '--limit'.*1,000,000,000\. Try 'warmstart sessions list --help' for help\.\n",
        ran.err,
    )


# -- settings


def test_a_monstrous_config_is_one_line(run, fresh, subtests):
    cases = [
        "x = " + "[" * 5000 + "]" * 5000,
        "x" + ".x" * 5000 + " = 1",
        "x = " + "9" * 5000,
        "[" * 5000,
    ]
    for config in cases:
        with subtests.test(config=config), fresh() as home:
            (home / ".warmstart").mkdir()
            (home / ".warmstart" / "config.toml").write_text(config)
            ran = run("sessions", "list")
            assert (ran.code, ran.out) == (1, "")
            assert re.fullmatch("warmstart: .*config.toml'.*(fix it or move it away|known: ).*\n", ran.err)


def test_an_address_that_is_not_text_is_one_line(run, monkeypatch):
    monkeypatch.setenv("WARMSTART_STORE", "postgresql://localhost/\udce9")
    ran = run("sessions", "list")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "unexpected" not in ran.err


def test_a_folder_that_was_deleted_is_one_line(run, monkeypatch, fresh, subtests):
    for line in [["recall", "port"], ["memory", "list"], ["templates", "suggest", "port"]]:
        with subtests.test(line=line), fresh() as home:
            gone = home / "gone"
            gone.mkdir()
            monkeypatch.chdir(gone)
            gone.rmdir()
            ran = run(*line)
            assert (ran.code, ran.out) == (1, "")
            assert ran.err == "warmstart: the current directory no longer exists; change to another one\n"


# -- what the caller leaves open


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", SHELL + line],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, **variables},
    )


def test_a_closed_input_is_one_line(home):
    ran = shell("warmstart redact --check <&-")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "warmstart: cannot read standard input (Bad file descriptor); give a FILE\n"


def test_a_store_never_takes_the_place_of_a_closed_output(home, samples):
    assert shell(f"warmstart sync --path {samples} <&- >&- 2>&-").returncode == 0
    ran = shell("warmstart sessions list --json <&-")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("[")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_output_without_room_is_no_traceback(home, subtests):
    for line in ["doctor >/dev/full", "nope 2>/dev/full", "doctor >/dev/full 2>&1"]:
        with subtests.test(line=line):
            ran = shell(f"warmstart {line}")
            assert ran.returncode in (1, 2)
            assert ran.stderr in ("", "warmstart: No space left on device\n")


def test_no_environment_variable_is_required(home):
    variables = {"PYTHONWARNINGS": "error", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ran = shell("unset HOME; warmstart sync", **variables, WARMSTART_HOME=str(home / "kept"), CODEX_HOME=str(home))
    assert (ran.returncode, ran.stderr) == (0, "")


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from warmstart.cli import main
main()
"""


def test_ctrl_c_while_modules_load_is_no_traceback(subtests):
    for module in ["click", "warmstart.cli.terminal", "warmstart.cli.commands", "warmstart.cli.sessions"]:
        with subtests.test(module=module):
            program = [sys.executable, "-c", INTERRUPTED_IMPORT.format(module=module), "sessions", "list"]
            ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=180)
            assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (130, "", "")


def test_ctrl_c_while_python_shuts_down_is_no_traceback():
    code = (
        "import atexit, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "from warmstart.cli import main\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_process_that_is_out_of_memory_says_so():
    code = (
        "import resource\nfrom warmstart.cli import main\n"
        "import warmstart.cli.redact, warmstart.cli.commands, warmstart.log, warmstart.config\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\nmain()"
    )
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as zeros:
        ran = subprocess.run(
            [sys.executable, "-c", code, "redact"], stdin=zeros.stdout, capture_output=True, text=True, check=False
        )
        zeros.send_signal(signal.SIGKILL)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch("warmstart: (not enough memory|MemoryError).*\n", ran.stderr)


def test_a_damaged_installation_says_what_is_missing():
    broken = "import sys; sys.modules['click'] = None; from warmstart.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, check=False, timeout=180)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch("warmstart: ModuleNotFoundError: .*click.*; --debug shows where\n", ran.stderr)
