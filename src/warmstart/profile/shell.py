"""What a shell command is for: whether it checks, commits, edits or reads."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal

from warmstart.profile.rules import load_table
from warmstart.profile.values import Kind
from warmstart.text.shell import PREDICATES, SHELL_PROGRAMS, SILENT, WRAPPERS, Command, is_scratch, parse_commands

Check = Literal["test", "build", "lint", ""]
_CHECKS: tuple[Check, ...] = ("test", "lint", "build")


# Programs that a pipe ends with: they practically never fail.
FILTERS = frozenset(("head", "tail", "sort", "uniq", "wc", "cat", "tee", "less", "cut", "tr"))
_MAX_CACHED = 4_096  # characters of the words of a command that are cached


@cache
def _words(row: str) -> frozenset[str]:
    return frozenset(load_table("tools")["commands"][row].split())


@cache
def common_programs() -> frozenset[str]:
    """Programs that anybody may have, under the names that everybody gives them."""
    rows = ("files", "web", "test", "build", "lint", "runners")
    return frozenset().union(*map(_words, rows), SHELL_PROGRAMS, WRAPPERS)


_PYTHON = re.compile(r"(?:python|pypy)[\d.]*|py")
_SCRIPT = re.compile(r"(?:run[-_])?(?:all[-_])?(?:(tests?|check|ci)|(build)|(lint))\.(?:sh|py)")
# Names of tasks. `lint:check` lints before it tests; Gradle writes `testDebug`.
_VERBS: tuple[tuple[re.Pattern[str], Check], ...] = (
    (re.compile(r"(?:^|[:_\-])(?:lint|fmt|format|clippy|style|prettier|eslint)(?:$|[:_\-])"), "lint"),
    (
        re.compile(
            r"(?:^|[:_\-/.])(?:tests?|nextest|spec|e2e|unittest|pytest|phpunit|pest|check|ci|verify|jest|vitest)"
            r"(?:$|[:_\-.A-Z])"
        ),
        "test",
    ),
    (re.compile(r"(?:^|[:_\-])(?:build|compile|assemble|typecheck|tsc|vet)(?:$|[:_\-A-Z])"), "build"),
)
_MAVEN = re.compile(r"install|package")
_IN_PLACE = re.compile(r"-[a-hj-zE0-9]*i|--in-place")


def kind_of(text: str) -> Kind:
    """What a shell command is for: running programs outweighs fetching, which outweighs looking at files."""
    kinds = {_kind(command) for command in parse_commands(text)}
    for kind in ("code", "research"):
        if kind in kinds:
            return kind
    return "file"


def _kind(command: Command) -> Kind:
    if command.program in _words("files") or command.program in SILENT or command.program in PREDICATES:
        return "file"
    return "research" if command.program in _words("web") else "code"


def check_of(command: Command) -> Check:
    """Whether a command tests, builds or lints."""
    program, words = command.program, command.words
    return _cached_check(program, words) if sum(map(len, words)) <= _MAX_CACHED else _check(program, words)


def _check(program: str, all_words: tuple[str, ...]) -> Check:
    words = [word for word in all_words if not word.startswith("-")]
    if not _words("show_words").isdisjoint(all_words):
        return ""
    for check in _CHECKS:
        if program in _words(check):
            return check
    if program in SHELL_PROGRAMS:
        program = words[0].rsplit("/", 1)[-1] if words else ""
    if script := _SCRIPT.fullmatch(program):
        return "test" if script[1] else "build" if script[2] else "lint"
    if program in ("docker", "docker-compose", "podman"):
        return _contained(words)
    if _PYTHON.fullmatch(program):
        program = "python"
        if "-m" in all_words:
            module = next(iter(all_words[all_words.index("-m") + 1 :]), "")
            return "test" if module == "unittest" else _check(module, ())
    return _task(program, all_words, words) if program in _words("runners") else ""


_cached_check = lru_cache(maxsize=4096)(_check)


def _contained(words: list[str]) -> Check:
    """Whether a container is built, or runs a test."""
    if words[:1] == ["build"] or words[:2] == ["compose", "build"]:
        return "build"
    return "test" if any(word.rsplit("/", 1)[-1] in _words("test") for word in words) else ""


def _task(program: str, all_words: tuple[str, ...], words: list[str]) -> Check:
    """Whether the task of a runner is a check; `words` are those that are no options."""
    if program == "node" and "--test" in all_words:
        return "test"
    if program in ("make", "gmake") and all(word.isdigit() or word == "all" for word in words):
        return "build"
    if not words or is_scratch(words[0]):
        return ""
    if program in _words("interpreters") and not {"-c", "-e", "-r"}.isdisjoint(all_words):
        return ""
    if (program in _words("installers") and words[0] in _words("install_words")) or (
        program in _words("compiled") and words[0] == "run"
    ):
        return ""
    if program in ("cargo", "deno") and words[0] == "check":
        return "build"
    if program.startswith("mvn") and any(map(_MAVEN.fullmatch, words)):
        return "build"
    # The task follows the package it is run in: `npm --prefix web run test`, `yarn workspace web test`.
    near = words[: 4 if "run" in words[1:3] or words[0] == "workspace" else 2]
    return next((check for word in near for pattern, check in _VERBS if pattern.search(word)), "")


def commits(command: Command) -> bool:
    """Whether a command makes a commit."""
    return command.program == "git" and subcommand(command) == "commit" and "--dry-run" not in command.words


def subcommand(command: Command) -> str:
    """The subcommand of a program such as git: `restore` in `git -C web restore x`."""
    words = iter(command.words)
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def folder_of(command: Command) -> str:
    """The folder that a command works in, if it says so: `git -C`, or the last `cd` before it."""
    words = command.words
    if command.program == "git" and "-C" in words:
        return next(iter(words[words.index("-C") + 1 :]), "")
    return command.folder


def interprets(command: Command) -> bool:
    """Whether a command runs an interpreter such as Python or Node."""
    return command.program in _words("interpreters") or bool(_PYTHON.fullmatch(command.program))


def edits(command: Command) -> bool:
    """Whether a command changes files of the work: in place, by moving them, or by writing its output to one."""
    words = command.words
    if command.outputs:
        return not all(map(is_scratch, command.outputs))
    if command.program in ("sed", "perl", "gsed"):
        return any(map(_IN_PLACE.match, words[:3]))
    if command.program == "git":
        return _restores(command)
    if command.program not in _words("writers"):
        return False
    named = [word for word in words if not word.startswith("-")]
    return not named or not all(map(is_scratch, named[-1:] if command.program == "cp" else named))


def _restores(command: Command) -> bool:
    name, words = subcommand(command), command.words
    if name == "checkout":
        return "--" in words or "." in words
    if name == "reset":
        return "--hard" in words
    return name in ("apply", "restore", "mv", "rm", "revert", "cherry-pick") and "--check" not in words


def reads(command: Command) -> tuple[str, ...]:
    """The files that a command shows."""
    words = tuple(word for word in command.words if not word.startswith("-"))
    if command.program == "sed" and not edits(command):
        return words[1:]
    return tuple(word for word in words if not word.isdigit()) if command.program in _words("readers") else ()
