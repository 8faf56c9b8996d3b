"""Error signatures: the text of a failed tool call, normalised, so that the same mistake counts as the same.

A signature is one line of at most 160 characters that holds no path, number, id or quoted text, since it is what gets
shared. The same mistake gives the same signature whatever the file, the project or the agent: a failing test is `tests
failed`, a linter's finding is named for its rule, a command that fails without a word for its program and exit code.
"""

from __future__ import annotations

import re

from warmstart.profile.arguments import command_in, fields_of
from warmstart.profile.shell import FILTERS, Command, commands
from warmstart.profile.signatures import complaints, programs
from warmstart.profile.signatures.compilers import COMPILERS, LINTERS
from warmstart.profile.signatures.telling import Rule, told
from warmstart.profile.signatures.wrappings import unwrap
from warmstart.profile.tasks import SHELLS

# Shells under the names of any agent, and what shows the output of one that is running.
_TERMINALS = frozenset(name.lower().removesuffix("_tool") for name in SHELLS) | frozenset(
    (
        *("sh", "zsh", "pwsh", "cmd", "exec", "process", "execute_code", "local_shell_call", "unified_exec"),
        *("write_stdin", "run_in_terminal", "run_bash", "run_shell", "run_cmd", "run_bash_command", "runcommand"),
        *("run_terminal_command", "execute_shell", "execute_cmd", "execute_shell_command", "execute_bash_command"),
    )
)
_EDITOR_TOOL = re.compile(r"edit|replace|patch|write_file|view", re.IGNORECASE)
_SEARCHES = frozenset(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "git grep"))
# Programs whose output is what they show: an error is a line that begins with their name.
_SHOWING = (
    _SEARCHES
    | FILTERS
    | frozenset(("more", "bat", "nl", "sed", "awk", "ls", "tree", "find", "fd", "jq", "yq", "diff", "column", "curl"))
    | frozenset(("strings", "xxd", "od", "stat", "file", "du"))
)
_GIT_SHOWING = frozenset(
    ("log", "show", "diff", "blame", "grep", "status", "ls-files", "ls-tree", "branch", "cat-file")
)
_SUBCOMMANDS = frozenset(
    ("git", "gh", "npm", "pnpm", "yarn", "bun", "go", "cargo", "docker", "kubectl", "uv", "pip", "mise", "aws")
)
_OWN_WORDS = re.compile(
    r"(?:\(eval\)|unknown|parse error|-?(?:/\S*/)?(?:zsh|bash|sh|dash|fish)|fatal|error|warning|"
    r"usage)[: ]|\S{1,80}: line \d+: "
)
_ANNOUNCED = re.compile(r"^InputValidationError: \S+ failed due to the following issues?:\s*")
_HEADINGS = frozenset(("error", "errors", "result", "failed", "output", "details"))
_PLAIN_NAME = re.compile(r"[a-z][a-z_+-]{0,24}[0-9.]{0,4}")
_CAUSES: tuple[tuple[Rule, ...], ...] = (
    programs.TIMEOUTS,
    programs.SHELLS,
    COMPILERS,
    programs.IMPORTS,
    LINTERS,
    programs.TESTS,
    programs.GIT,
    programs.EXCEPTIONS,
    programs.STACKS,
    programs.PACKAGES,
    programs.HTTP,
    programs.NOT_FOUND,
    programs.SYSTEM,
    programs.GENERIC,
)
_OWN = (programs.SHELLS, programs.GIT, programs.HTTP, programs.NOT_FOUND, programs.SYSTEM, programs.GENERIC)


def signature(tool: str, text: str, *, arguments: str = "") -> str:
    """The signature of a failed call of `tool` with this result; `arguments` are the call's, as JSON.

    Never empty: an error without words is `exit 1, no output`, or `no output` where not even a code is known.
    """
    said, code, refused = unwrap(text)
    # What a tool takes as `code` is no shell's.
    command = "" if "code" in fields_of(arguments) else command_in(arguments)
    if refused or (code is None and said.startswith("Permission to use ")):
        return _of_tool(said) or "no output"
    if _is_terminal(tool) or (code is not None and not _EDITOR_TOOL.search(tool)):
        return _of_program(said, code, command)
    return _of_tool(said) or "no output"


def _is_terminal(tool: str) -> bool:
    return tool.removeprefix("functions.").lower().removesuffix("_tool") in _TERMINALS


def _of_tool(said: str) -> str:
    """The signature of a complaint of a structured tool: a known mistake, or its first sentence."""
    said = _ANNOUNCED.sub("InputValidationError: ", complaints.bare(said))
    if known := complaints.known(said):
        return known
    first, traced = said[:2000], "Traceback (most recent call last)" in said
    return (
        told((*programs.HTTP, *programs.TIMEOUTS, programs.VALIDATION), first)
        or (told(programs.EXCEPTIONS, said) if traced else told(programs.SYSTEM, first.partition("\n")[0]))
        or _capital(_opening(said))
    )


def _opening(said: str) -> str:
    """The first sentence that says something; an announcement (`… the following:`) is joined with what follows."""
    lines = [line for line in said.splitlines() if line.strip()][:6]
    while len(lines) > 1 and lines[0].rstrip().endswith(":") and len(lines[0]) < 200:
        lines[:2] = [f"{lines[0].rstrip()} {lines[1].strip()}"]
    sentences = (programs.sentence(complaints.bare(line)) for line in lines)
    return next((line for line in sentences if line and line.lower() not in _HEADINGS), "")


def _capital(line: str) -> str:
    """The line with a capital where it begins with a plain word: backends differ in nothing else at times."""
    word = line.partition(" ")[0]
    return line[0].upper() + line[1:] if word.isalpha() and word.islower() and " " in line else line


def _of_program(said: str, code: int | None, command: str) -> str:
    run = commands(command) if command else ()
    failed = _label(_failing(run))
    if not said:
        return _silent(failed, code)
    if run and all(map(_shows, run)):
        own = _own_words(said, run)
        if found := next(filter(None, (told(rules, own) for rules in _OWN)), ""):
            return found
        if own and failed not in _SEARCHES:
            return _opening(own)
        # What the others showed is no error: the search at the end found nothing.
        return _silent(failed, code) if failed in _SEARCHES and code == 1 else _exit(failed, code) or _opening(said)
    if code == 127 and (found := told(programs.NOT_FOUND, said)):
        return found
    if found := next(filter(None, (told(rules, said) for rules in _CAUSES)), ""):
        return found
    return _unknown(said, failed, code)


def _unknown(said: str, failed: str, code: int | None) -> str:
    """The signature of output that no rule knows."""
    if failed == "gh pr checks" and "\t" in said:
        return "gh pr checks: a check failed" if "\tfail\t" in said else "gh pr checks: checks are pending"
    lines = [line for line in said.splitlines() if line.strip()]
    if len(lines) == 1 and len(said) <= 300:
        return _opening(complaints.bare(said)) or _exit(failed, code) or "no output"
    if failed in _SEARCHES and code == 1:
        return _silent(failed, code)
    return (
        told(programs.WORDS, said) or told(programs.WEAK, said) or _exit(failed, code) or _opening(said) or "no output"
    )


def _silent(failed: str, code: int | None) -> str:
    failed = "grep" if failed in _SEARCHES else failed
    if code == 124:
        return _exit(failed, code)
    return f"{_exit(failed, code)}, no output" if code is not None else f"{failed}: no output".removeprefix(": ")


def _exit(failed: str, code: int | None) -> str:
    if code is None:
        return f"{failed}: failed" if failed else ""
    if code == 124:
        return "command timed out"  # what timeout(1) returns
    return f"{failed}: exit {code}".removeprefix(": ")


def _failing(run: tuple[Command, ...]) -> Command | None:
    """The command that most likely failed: the last one, or the one that feeds the filters at the end."""
    place = len(run) - 1
    while place > 0 and run[place].program in FILTERS and run[place - 1].then in ("|", "|&"):
        place -= 1
    return run[place] if run else None


def _label(command: Command | None) -> str:
    """A program's name with its subcommand; scripts and variables have no name of their own."""
    if command is None:
        return ""
    name = "test" if command.program in ("[", "[[") else command.program
    if not _PLAIN_NAME.fullmatch(name):
        return "script" if name else ""
    if name not in _SUBCOMMANDS:
        return name
    plain = [word for word in command.words if _PLAIN_NAME.fullmatch(word)]
    return " ".join((name, *plain[: 2 if name in ("gh", "docker", "aws") else 1]))


def _shows(command: Command) -> bool:
    if command.program == "git":
        return any(word in _GIT_SHOWING for word in command.words[:4])
    return command.program in _SHOWING


def _own_words(said: str, run: tuple[Command, ...]) -> str:
    """The lines in which a shell or one of the programs speaks of itself, not of what it shows."""
    names = tuple(f"{command.program}: " for command in run)
    return "\n".join(line for line in said.splitlines() if line.startswith(names) or _OWN_WORDS.match(line))
