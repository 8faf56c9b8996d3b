"""Set up agents: show each change to their files first, and undo it later without a trace.

A host is a module of this package with `TITLE`, `PROGRAM`, `PROMPT` (the event that the user waits for), the agent's
`folder(place)`, and `files(place)`: its files with our entries; and `pending(place, last_run)` if the user has to do
something in the agent before it runs our hooks. Everything else is here:

- `$WARMSTART_HOME/hosts/HOST.json` records what was inserted where, with a hash of the text before and after. It
  contains none of the agent's own text, because these files hold keys.
- If a file is exactly as we wrote it, uninstalling restores it byte for byte. If the agent has rewritten it since, our
  entries are removed, with the containers that only they needed.
- The record is written before the changes, and until the next ones it also has what was there before: after an
  interruption at any point, both texts are recognised as ours, and running the same command again completes it.
- A file is replaced atomically and keeps its mode. A symbolic link is followed inside the home directory, else refused.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shlex import join, quote
from string import Template
from typing import Any, NamedTuple

import msgspec

from warmstart.config import HOME_VARIABLE
from warmstart.errors import ConfigError
from warmstart.hosts.files import (
    HostFile,
    check_replaceable,
    delete_copies,
    make_folders,
    missing_folders,
    read_file,
    replace_file,
)
from warmstart.hosts.hook import CODE, read_runs, run_files

# The agents that can be set up; the module of each has the same name, with `_` for `-`.
HOSTS = ("claude-code", "codex", "copilot-cli", "gemini-cli", "hermes", "opencode")

_OUR_NAME = b"warmstart"  # a file without it has no entries of ours, and we need not be able to parse it
_MAX_VERSION = 10  # seconds that a program takes to print its version
_LONG_LINE = 1000  # characters; in a diff, longer lines are broken after commas and brackets


class Place(NamedTuple):
    """The user and the installation of Warmstart that an agent is set up for."""

    home: Path  # the user's home directory
    env: Mapping[str, str]
    python: str = sys.executable
    profile: str = ""  # of the agent, if it has several
    own_store: bool = False  # whether a profile has its own store

    def folder(self, variable: str, default: str) -> Path:
        """The folder that a variable names, or the default below the user's home directory."""
        return Path(self.env.get(variable) or self.home / default)

    def text(self, name: str) -> str:
        """The text of a command or skill for an agent, with our commands filled in."""
        lines = {
            "brief": "brief",
            "recall": "recall",
            "remember": "memory set",
            "pause": "pause",
            "forget": "sessions forget --yes",
            "packet": "handoff packet",
            "resume": "handoff resume",
        }
        template = Template((Path(__file__).parent / "command_files" / name).read_text("utf-8"))
        return template.safe_substitute({name: join(self.command(*line.split())) for name, line in lines.items()})

    def hook(self, host: str, event: str) -> str:
        """The shell command of a hook. It always succeeds, because exit code 2 would block the user's prompt.

        `-c` starts faster than `-m`. With `-EP`, nothing in the project or the environment can shadow our modules.
        """
        prefix = f"{HOME_VARIABLE}={self.shell_home} " if self.env.get(HOME_VARIABLE) else ""
        return f"{prefix}{quote(self.python)} -EPc '{CODE}' hook {host} {event} || true"

    @property
    def shell_home(self) -> str:
        """Our home directory, as a word of a shell command."""
        home = self.env.get(HOME_VARIABLE)
        return f"${{{HOME_VARIABLE}:-{quote(home) if home else '$HOME/.warmstart'}}}"

    def version(self, program: str) -> tuple[int, ...]:
        """The version that an agent's program prints; empty if there is none."""
        try:
            done = subprocess.run(  # noqa: S603 - the agent itself
                [program, "--version"], env=self.env, capture_output=True, text=True, timeout=_MAX_VERSION
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        return tuple(map(int, re.findall(r"\d+", done.stdout.partition(" ")[0])))

    def command(self, *arguments: str) -> list[str]:
        """The command line of a Warmstart command."""
        script = Path(self.python).with_name("warmstart")
        return [str(script), *arguments] if script.is_file() else [self.python, "-Pm", "warmstart", *arguments]

    def server(self) -> dict[str, Any]:
        """The MCP server, in the format that most agents use."""
        program, *words = self.command("mcp")
        home = self.env.get(HOME_VARIABLE)
        return {"command": program, "args": words, **({"env": {HOME_VARIABLE: home}} if home else {})}


class Record(msgspec.Struct, frozen=True):
    """What we changed in a file."""

    before: str  # hash of the text without our entries
    after: str  # hash of the text that we wrote
    new: bool  # whether the file did not exist
    insertions: list[tuple[int, int]]  # position and length, in the order they were made
    created: list[tuple[str | int, ...]]  # containers that did not exist


class Installed(msgspec.Struct):
    """The record of one host."""

    python: str = ""
    files: dict[str, Record] = {}  # msgspec copies the default
    previous: dict[str, Record] = {}  # of files as they were before the last change, which may have been interrupted
    folders: list[str] = []  # that we created, outermost first

    @classmethod
    def read(cls, home: Path, host: str) -> Installed:
        with suppress(OSError, msgspec.DecodeError):  # without a record we recognise our entries by content
            return msgspec.json.decode((home / "hosts" / f"{host}.json").read_bytes(), type=cls)
        return cls()

    def match(self, path: Path, text: str) -> Record | None:
        """The record of this text, if we wrote it."""
        records = self.files.get(str(path)), self.previous.get(str(path))
        return next((record for record in records if record and record.after == _hash(text)), None)

    def add(self, change: Change) -> None:
        """Note a change that is about to be made."""
        path = str(change.path)
        previous = self.match(change.path, (change.before or b"").decode())
        self.previous.pop(path, None)
        if previous:
            self.previous[path] = previous
        if change.record:
            self.files[path] = change.record
        folders = map(str, missing_folders(change.path.parent))
        self.folders += [folder for folder in folders if folder not in self.folders]

    def write(self, home: Path, host: str) -> None:
        path = home / "hosts" / f"{host}.json"
        make_folders(path.parent)
        delete_copies(path)
        replace_file(path, msgspec.json.encode(self))


class Change(NamedTuple):
    """A file to write, or to delete if `after` is `None`. Only installing has a record."""

    path: Path
    before: bytes | None
    after: bytes | None
    record: Record | None = None

    def diff(self, home: Path, clean: Callable[[str], str]) -> str:
        """The change as a unified diff without context. `clean` removes secrets: the user's may be on the same line."""
        old, new = (clean((data or b"").decode()) for data in (self.before, self.after))
        if any(len(line) > _LONG_LINE for text in (old, new) for line in text.splitlines()):
            old, new = (re.sub(r"(?<=[,{\[])(?=[^\r\n])", "\n", text) for text in (old, new))
        name = f"~/{self.path.relative_to(home)}" if self.path.is_relative_to(home) else str(self.path)
        source, target = ("/dev/null" if data is None else name for data in (self.before, self.after))
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), source, target, n=0, lineterm="")
        return "\n".join(lines)


class Plan(NamedTuple):
    """The changes to set up an agent or to undo that, and notes about files that are left alone."""

    host: str
    changes: list[Change]
    notes: list[str]


class Status(NamedTuple):
    """How an agent is set up, and how its hooks are doing."""

    installed: bool
    outdated: bool  # `install` would change something
    python: str  # of the hooks, if it no longer exists
    last: dict[str, Any] | None  # the last hook run
    error: dict[str, Any] | None  # the last run with an error
    p95_ms: float | None  # of the hook that the user waits for
    pending: str  # what the user has to do in the agent


def host_module(host: str) -> Any:
    """The module of an agent."""
    return import_module(f"warmstart.hosts.{host.replace('-', '_')}")


def is_present(host: str, place: Place) -> bool:
    """Whether this machine has the agent's folder or program."""
    module = host_module(host)
    return module.folder(place).is_dir() or shutil.which(module.PROGRAM) is not None


def plan_install(host: str, place: Place, home: Path) -> Plan:
    """Plan the changes to set up an agent. Raises `ConfigError` for a file that cannot be changed safely."""
    plan, state = Plan(host, [], []), Installed.read(home, host)
    for file in host_module(host).files(place):
        before = read_file(file.path)
        with _readable(file.path):
            text = "" if before is None else before.decode()
            record = state.match(file.path, text)
            for name in file.conflicts(text):
                plan.notes.append(f"{file.path} has its own {name}; leaving it alone")
            if before is not None and file.state(text) == "current":
                continue
            if before is not None and file.is_ours and not record:
                plan.notes.append(f"{file.path} exists and is not ours, or was edited; leaving it alone")
                continue
            record = record or state.files.get(str(file.path))
            base = _without_ours(file, text, record)
            edit = file.add(base)
            new = before is None or (record is not None and record.new)
            new_record = Record(_hash(base), _hash(edit.text), new, list(edit.insertions), list(edit.created))
        if edit.text != text:
            check_replaceable(file.path, place.home)
            plan.changes.append(Change(file.path, before, edit.text.encode(), new_record))
    return plan


def plan_uninstall(host: str, place: Place, home: Path) -> Plan:
    """Plan the changes to uninstall from an agent. Raises `ConfigError` like `plan_install`."""
    plan, state = Plan(host, [], []), Installed.read(home, host)
    files = host_module(host).files(place)
    for file in files:
        before, known = read_file(file.path), state.files.get(str(file.path))
        if before is None or not (file.is_ours or _OUR_NAME in before):
            continue
        with _readable(file.path):
            text = before.decode()
            record = state.match(file.path, text)
            if file.is_ours and not record and file.state(text) != "current":
                if known:
                    plan.notes.append(f"{file.path} was edited; leaving it alone")
                continue
            record = record or known
            base = _without_ours(file, text, record)
            empty = file.is_ours or (record is not None and record.new and file.is_empty(base))
        if empty or base != text:
            check_replaceable(file.path, place.home)
            plan.changes.append(Change(file.path, before, None if empty else base.encode()))
    others = _files_elsewhere(state, files)
    plan.notes.extend(f"{path} belongs to another setup of this agent; leaving it alone" for path in others)
    return plan


def _files_elsewhere(state: Installed, files: list[HostFile]) -> dict[str, Record]:
    """The records of files that have our entries and are not among those of this setup."""
    others = state.files.keys() - {str(file.path) for file in files}
    return {path: state.files[path] for path in sorted(others) if _OUR_NAME in (read_file(Path(path)) or b"")}


def _without_ours(file: HostFile, text: str, record: Record | None) -> str:
    """The original text or, if the agent has rewritten it since, the text without our entries."""
    if record and record.after == _hash(text):
        base = text
        for at, length in reversed(record.insertions):
            base = base[:at] + base[at + length :]
        if _hash(base) == record.before:
            return base
    return file.remove(text, set(record.created) if record else None)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} cannot be changed safely ({error}); fix it and run this again") from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def install(plan: Plan, place: Place, home: Path) -> None:
    """Make the changes, after recording them."""
    state = Installed.read(home, plan.host)
    state.python = place.python
    for change in plan.changes:
        _check_unchanged(change)
        state.add(change)
    state.write(home, plan.host)
    for file in host_module(plan.host).files(place):
        delete_copies(file.path)
    for change in plan.changes:
        make_folders(change.path.parent)
        replace_file(change.path, change.after)


def uninstall(plan: Plan, place: Place, home: Path) -> None:
    """Make the changes, then delete our records of them, and what an interrupted command left."""
    files = host_module(plan.host).files(place)
    for change in plan.changes:
        _check_unchanged(change)
        replace_file(change.path, change.after)
    for file in files:
        delete_copies(file.path)
    state = Installed.read(home, plan.host)
    for folder in map(Path, reversed(state.folders)):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        with suppress(OSError):  # already gone, or the agent keeps files there
            folder.rmdir()
    state.files = _files_elsewhere(state, files)
    if state.files:
        state.write(home, plan.host)
        return
    for name in (f"{plan.host}.json", *run_files(plan.host)):
        (home / "hosts" / name).unlink(missing_ok=True)
    if not any((home / "hosts" / f"{host}.json").exists() for host in HOSTS):
        shutil.rmtree(home / "hosts", ignore_errors=True)  # caches and logs of the hooks


def _check_unchanged(change: Change) -> None:
    if read_file(change.path) != change.before:
        raise ConfigError(f"{str(change.path)!r} was just changed by another program; run this again")


def status(host: str, place: Place, home: Path) -> Status:
    """How an agent is set up. Raises `ConfigError` for a file that cannot be read."""
    record, outdated, installed = Installed.read(home, host), False, False
    for file in host_module(host).files(place):
        data = read_file(file.path)
        with _readable(file.path):
            if data is not None and (str(file.path) in record.files or (not file.is_ours and _OUR_NAME in data)):
                installed |= file.state(data.decode()) != "absent"
    with suppress(ConfigError):  # `install` explains it
        outdated = installed and bool(plan_install(host, place, home).changes)
    runs = read_runs(home, host)
    module = host_module(host)
    times = sorted(run["ms"] for run in runs if run["event"] == module.PROMPT)
    is_pending = getattr(module, "pending", None) if installed else None
    return Status(
        installed=installed,
        outdated=outdated,
        python=record.python if installed and record.python and not Path(record.python).exists() else "",
        last=runs[-1] if runs else None,
        error=next((run for run in reversed(runs) if "error" in run), None),
        p95_ms=times[int(0.95 * (len(times) - 1))] if times else None,
        pending=is_pending(place, runs[-1]["at"] if runs else 0.0) if is_pending else "",
    )
