"""Normalized shell commands: without the parts that change from run to run, so that repeated runs are recognised.

`cd web && CI=1 timeout 60 npx vitest run src/a.test.ts -t "name" | tail` becomes `cd web && npx vitest run`. A command
that does not test, build, lint, format or run part of the project has the purpose `other`, and is not worth carrying.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

from warmstart.profile.tools import check_of, interprets
from warmstart.templates.rules import word_set
from warmstart.text.shell import SHELL_PROGRAMS, SILENT, Command, parse_commands

Purpose = Literal["test", "build", "lint", "format", "run", "other"]

_MAX_COMMAND = 4_000  # characters
_MAX_WORDS = 40
_MAX_ARGUMENTS = 10
_MAX_PATH = 200  # characters
_PREFIX = re.compile(
    r"[A-Za-z_]\w*=.*|sudo|time|nohup|nice|command|exec|g?timeout|env|\d+[smh]?|-[knsu]|[!{]", re.DOTALL
)
_PROGRAM = re.compile(r"(?:\./)?[\w.@+/-]{1,80}")
_SCRATCH = ("$", "/dev/", "/private/", "/tmp/", "/var/", "~/.claude")  # noqa: S108 - named, not used
_FILE_NAME = re.compile(
    r"\S*\.(?:go|pyi?|[cm]?[jt]s|[jt]sx|rs|java|kt|swift|dart|rb|php|exs?|c|h|cc|cpp|cs|mdx?|jsonl?|ya?ml|toml|lock|txt"
    r"|log|html?|s?css|sql|sh|ps1|png|svg|csv|feature|proto)(?::\d+)*$"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class ShellCommand(NamedTuple):
    """A command that can be run again. `family` is its program and subcommand; `masked` is that of `Command`.

    `has_environment` means that it was run with environment variables, and may not work without them.
    """

    text: str
    family: str
    purpose: Purpose
    masked: bool = False
    has_environment: bool = False


def shell_commands(text: str, roots: tuple[str, ...] = ()) -> tuple[ShellCommand, ...]:
    """The distinct commands in a shell script."""
    return _shell_commands(text[:_MAX_COMMAND], roots)


@lru_cache(maxsize=4096)
def _shell_commands(text: str, roots: tuple[str, ...]) -> tuple[ShellCommand, ...]:
    commands = (_simplify(command, roots) for command in parse_commands(text))
    return tuple(dict.fromkeys(command for command in commands if command))


_words = partial(word_set, "commands")


def _simplify(command: Command, roots: tuple[str, ...]) -> ShellCommand | None:
    words = list(command.argv)
    while words and _PREFIX.fullmatch(words[0]):
        del words[0]
    words = [relative_path(word, roots) if "/" in word else word for word in words]
    if not 0 < len(words) <= _MAX_WORDS or words[0].startswith(_SCRATCH):
        return None
    wrapper, words = _split_wrapper(words)
    if not words or not _PROGRAM.fullmatch(words[0]):
        return None
    program = words[0].rsplit("/", 1)[-1] if words[0].startswith("/") else words[0]
    purpose = _purpose(Command(program.rsplit("/", 1)[-1], tuple(words[1:])), program)
    if purpose is None and program in SILENT:
        return None
    arguments, subcommands = _lasting_arguments(program.rsplit("/", 1)[-1], words[1:])
    full = " ".join((*wrapper, program, *arguments))
    if purpose and (folder := _folder(command, roots)):
        full = f"cd {folder} && {full}"
    family = " ".join((*wrapper, program, *subcommands))
    return ShellCommand(full, family, purpose or "other", command.masked, bool(_ASSIGNMENT.match(command.argv[0])))


def _folder(command: Command, roots: tuple[str, ...]) -> str:
    """The subfolder of the project that a command runs in; empty for the project root and for paths outside it."""
    folder = relative_path(command.folder, roots).removeprefix("./").rstrip("/")
    return folder if folder and _PLAIN_PATH.fullmatch(folder) and folder != "." and ".." not in folder else ""


def _split_wrapper(words: list[str]) -> tuple[list[str], list[str]]:
    """Split off a wrapper: `uv run --with x pytest` becomes (`uv run`, `pytest`)."""
    if "-".join(words[:2]) in _words("exec_wrappers"):
        start = 2
        while start < len(words) and words[start].startswith("-"):
            start += 2 if words[start] in _words("exec_options") else 1
        return words[:2], words[start:]
    if words[0] == "rtk":  # kept, because it fails for programs that it does not know
        start = 2 if len(words) > 2 and words[1] in ("test", "err", "summary", "proxy", "lint") else 1
        return words[:start], words[start:]
    if words[0] in ("npx", "bunx", "uvx", "pipx"):
        return words[:1], [word for word in words[1:] if word not in ("-y", "--yes", "--no-install", "--bun")]
    return [], words


def _purpose(command: Command, spelled: str) -> Purpose | None:
    """What a command is for; `None` if it only inspects something, or is run once."""
    name, words = command.program, command.words
    first = words[0] if words else ""
    if {"--version", "--help", "-h", "-version"} & {*words[:2]}:
        return None
    check = check_of(command)
    known = name in _words("runners") or check or spelled.startswith("./") or interprets(command)
    if name in SHELL_PROGRAMS:
        known = "/" in first and not first.startswith(_SCRATCH)
    elif name in ("docker", "kubectl"):
        known = first in ("compose", "build", "run", "up")
    by_name = first in _words("once") and (any(not word.startswith("-") for word in words[1:]) or first != "install")
    inline = first in ("-c", "-e", "-") and interprets(command)
    evaluates = name == "node" and not {"-e", "-p", "--eval", "--print"}.isdisjoint(words)
    if not known or by_name or inline or evaluates:
        return None
    start = " ".join((name, *words[:5]))
    formats = "--fix" in start or "--write" in start or not _words("formatters").isdisjoint(re.split(r"[\s:_-]", start))
    return "format" if formats and check in ("", "lint") else check or "run"


def _lasting_arguments(name: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments that stay the same from run to run, and the subcommands among them."""
    kept: list[str] = []
    subcommands: list[str] = []
    script = interprets(Command(name)) or name in SHELL_PROGRAMS
    depth = 2 if words[:1] in (["run"], ["compose"], ["mod"], ["tool"]) or name in ("mise", "docker", "kubectl") else 1
    depth = 0 if name in ("bd", "gh") else depth
    rest = iter(words)
    for word in rest:
        if word in _words("value_options") and not (script and word == "-m"):
            next(rest, None)
        elif (script and word == "-m") or not _is_volatile(word, script=script and not subcommands):
            if not word.startswith("-") and len(subcommands) < depth:
                subcommands.append(word)
            kept.append(word if word == "/" else word.rstrip("/"))
            if len(kept) == _MAX_ARGUMENTS:
                break
    return kept, subcommands


def _is_volatile(word: str, *, script: bool) -> bool:
    if word == "--" or len(word) > 80 or word.isdigit() or word.startswith(_SCRATCH):
        return True
    if word.partition("=")[0].rstrip("0123456789") in _words("run_options") | _words("value_options"):
        return True
    if ("=" in word and not word.startswith("--")) or ("=" not in word and set(word) & set("\n $`\"'{}<>*()")):
        return True
    is_file = bool(_FILE_NAME.match(word)) and not script and not word.startswith("-")
    return is_file or bool(re.search(r"[0-9a-f]{10,}", word))


def file_names(text: str) -> set[str]:
    """The file names in a text, with or without their folders."""
    return {word for word in re.split(r"[\s`'\"(),:*]+", text) if _FILE_NAME.match(word)}


def with_folders(paths: Iterable[str]) -> set[str]:
    """The paths, and all folders above them."""
    result: set[str] = set()
    for path in paths:
        while path and path not in result:
            result.add(path)
            path = path.rpartition("/")[0]
    return result


def relative_path(path: str, roots: tuple[str, ...]) -> str:
    """A path relative to its working tree; a path outside is returned unchanged."""
    path = path.replace("\\", "/")
    for root in roots:
        if path == root:
            return "."
        if path.startswith(f"{root}/"):
            return path.removeprefix(f"{root}/")
    folders = path.split("/")
    worktrees = next((place for place, name in enumerate(folders[:-2]) if name.endswith("worktrees")), None)
    return path if worktrees is None else "/".join(folders[worktrees + 2 :])


_PLAIN_PATH = re.compile(r"[\w@+()\[\]-][\w.@+()\[\]-]*(?:/[\w.@+()\[\]-]+)*|\.[\w-]+(?:/[\w.@+()\[\]-]+)+", re.ASCII)
_BARE_NAMES = frozenset(("Makefile", "Dockerfile", "Justfile", "justfile", "Rakefile", "Gemfile", "LICENSE"))


def is_plain_path(path: str) -> bool:
    """Whether a relative path of a file or a folder has no word of a sentence in it."""
    return len(path) < _MAX_PATH and ".." not in path and bool(_PLAIN_PATH.fullmatch(path))


def is_project_file(path: str) -> bool:
    """Whether a relative path is a plain file name in the project: a file name can also hold a whole sentence."""
    name = path.rsplit("/", 1)[-1]
    return (
        len(path) < _MAX_PATH
        and ("." in name[1:] or name in _BARE_NAMES)
        and bool(_PLAIN_PATH.fullmatch(path))
        and not path.startswith((".git/", ".claude/plans"))
        and "/.git/" not in path
    )
