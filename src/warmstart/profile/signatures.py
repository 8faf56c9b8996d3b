"""Error signatures: the normalized text of a failed tool call, so that the same mistake can be counted.

A signature is one line of at most 160 characters without paths, numbers, ids and quoted text, because it is shared. The
same mistake has the same signature in every file, project and agent: a failing test is `tests failed`, a linter finding
is named after its rule, a command that fails silently after its program and exit code. The rules are in
`tables/signatures.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.output import first_sentence, normalize, trim, unwrap
from warmstart.profile.rules import compile_row, load_table, pattern, pattern_rows, word_set
from warmstart.profile.tools import FILTERS, SEARCHES, tool_names
from warmstart.text.shell import Command, parse_commands

_MAX_LINE = 500  # characters of a line that a pattern sees
_HEADINGS = frozenset(("error", "errors", "result", "failed", "output", "details"))
_PLAIN_NAME = re.compile(r"[a-z][a-z_+-]{0,24}[0-9.]{0,4}")
_FIELD = re.compile(r"\{(\w+)(?::(\w+))?\}")


def error_signature(tool: str, text: str, *, arguments: str = "") -> str:
    """The signature of a failed call of `tool` with this result; `arguments` are the call's, as JSON.

    Never empty: an error without text is `exit 1, no output`, or `no output` if even the exit code is unknown.
    """
    output = unwrap(text)
    # An argument called `code` is not a shell command.
    command = "" if "code" in fields_of(arguments) else command_in(arguments)
    refused = output.refused or (output.exit_code is None and output.text.startswith("Permission to use "))
    editor = pattern("signatures", "editor_tool", flags=re.IGNORECASE)
    ran = _is_terminal(tool) or (output.exit_code is not None and not editor.search(tool))
    if ran and not refused:
        return _program_signature(output.text, output.exit_code, command)
    return _tool_signature(output.text) or "no output"


@lru_cache(maxsize=256)
def _is_terminal(tool: str) -> bool:
    """Whether a tool is a shell under any agent's name for it, or shows the output of a running one."""
    name = tool.removeprefix("functions.").lower()
    known = tool_names("programs", "terminals") | {shell.lower() for shell in SHELLS}
    return name in known or name.removesuffix("_tool") in known


# -- structured tools


def _tool_signature(text: str) -> str:
    """A known misuse of a tool, or the first sentence of its error."""
    text = pattern("signatures", "validation_prefix", "^").sub("InputValidationError: ", _without_prefix(text))
    head = text[:400]
    if known := next((name for error, name in pattern_rows("signatures", "tool_errors") if error.search(head)), ""):
        return known
    opening = text[:2000]
    traced = "Traceback (most recent call last)" in text
    return (
        _match(("http", "timeouts"), opening)
        or _match_rules(_rules("exceptions")[:1], opening)  # a validation error
        or (_match(("exceptions",), text) if traced else _match(("system",), opening.partition("\n")[0]))
        or _capitalize(_opening(text))
    )


def _without_prefix(text: str) -> str:
    return pattern("signatures", "tool_prefix", r"^\s*", "+", re.IGNORECASE).sub("", text)


def _opening(text: str) -> str:
    """The first sentence with content; a line that ends with a colon is joined with the next."""
    lines = [line for line in text.splitlines() if line.strip()][:6]
    while len(lines) > 1 and lines[0].rstrip().endswith(":") and len(lines[0]) < 200:
        lines[:2] = [f"{lines[0].rstrip()} {lines[1].strip()}"]
    sentences = (first_sentence(_without_prefix(line)) for line in lines)
    return next((line for line in sentences if line and line.lower() not in _HEADINGS), "")


def _capitalize(line: str) -> str:
    """The line with a capital letter if it begins with a plain word: some backends differ only in that."""
    word = line.partition(" ")[0]
    return line[0].upper() + line[1:] if word.isalpha() and word.islower() and " " in line else line


# -- programs


def _program_signature(text: str, code: int | None, command: str) -> str:
    run = parse_commands(command) if command else ()
    failed = _label(_failing(run))
    if not text:
        return _silent(failed, code)
    if run and all(map(_is_viewer, run)):
        own = _own_lines(text, run)
        if found := _match(load_table("signatures")["groups"]["own"], own):
            return found
        if own and failed not in SEARCHES:
            return _opening(own)
        # The output of the other programs is not an error: the search at the end found nothing.
        if failed in SEARCHES and code == 1:
            return _silent(failed, code)
        return _exit(failed, code) or _opening(text)
    if code == 127 and (found := _match(("not_found",), text)):
        return found
    return _match(load_table("signatures")["groups"]["program"], text) or _unknown(text, failed, code)


def _unknown(text: str, failed: str, code: int | None) -> str:
    """The signature of output that no rule matches."""
    if failed == "gh pr checks" and "\t" in text:
        return "gh pr checks: a check failed" if "\tfail\t" in text else "gh pr checks: checks are pending"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(text) <= 300:
        return _opening(text) or _exit(failed, code) or "no output"
    if failed in SEARCHES and code == 1:
        return _silent(failed, code)
    return _match(("words", "weak"), text) or _exit(failed, code) or _opening(text) or "no output"


def _silent(failed: str, code: int | None) -> str:
    failed = "grep" if failed in SEARCHES else failed
    if code is None:
        return f"{failed}: no output".removeprefix(": ")
    return _exit(failed, code) if code == 124 else f"{_exit(failed, code)}, no output"


def _exit(failed: str, code: int | None) -> str:
    if code is None:
        return f"{failed}: failed" if failed else ""
    if code == 124:
        return "command timed out"  # the exit code of timeout(1)
    return f"{failed}: exit {code}".removeprefix(": ")


def _failing(run: tuple[Command, ...]) -> Command | None:
    """The command that most likely failed: the last one, or the one that feeds the filters at the end."""
    place = len(run) - 1
    while place > 0 and run[place].program in FILTERS and run[place - 1].then in ("|", "|&"):
        place -= 1
    return run[place] if run else None


def _label(command: Command | None) -> str:
    """A program's name with its subcommand; `script` for anything that is not a plain program name."""
    if command is None:
        return ""
    name = "test" if command.program in ("[", "[[") else command.program
    if not _PLAIN_NAME.fullmatch(name):
        return "script" if name else ""
    if name not in tool_names("programs", "subcommands"):
        return name
    plain = [word for word in command.words if _PLAIN_NAME.fullmatch(word)]
    return " ".join((name, *plain[: 2 if name in ("gh", "docker", "aws") else 1]))


def _is_viewer(command: Command) -> bool:
    if command.program == "git":
        return any(word in tool_names("programs", "git_view") for word in command.words[:4])
    return command.program in FILTERS | SEARCHES | tool_names("programs", "view")


def _own_lines(text: str, run: tuple[Command, ...]) -> str:
    """The lines that the shell or one of the programs wrote itself, rather than content that it shows."""
    names = tuple(f"{command.program}: " for command in run)
    own = pattern("signatures", "own_line")
    return "\n".join(line for line in text.splitlines() if line.startswith(names) or own.match(line))


# -- rules


class Rule(NamedTuple):
    """A row of the table: keywords, the pattern for a line that contains one of them, and its signature."""

    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    signature: str
    option: str = ""  # `last`: the last matching line counts; `above`: the pattern also sees the line above


@cache
def _rules(group: str) -> tuple[Rule, ...]:
    rows = load_table("signatures")[group]
    return tuple(Rule(tuple(keywords), compile_row("signatures", text), *rest) for keywords, text, *rest in rows)


def _match(groups: Iterable[str], text: str) -> str:
    """The signature from the first rule of these groups that matches; empty if none does."""
    return next(filter(None, (_match_rules(_rules(group), text) for group in groups)), "")


def _match_rules(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        if any(keyword in text for keyword in rule.keywords):
            for line in _lines(text, rule):
                if (found := rule.pattern.search(line)) and (name := trim(_fill_in(rule.signature, found))):
                    return name
    return ""


def _lines(text: str, rule: Rule) -> Iterator[str]:
    """The lines with a keyword of the rule; backwards if the last one counts."""
    lines = text.split("\n")
    for place in reversed(range(len(lines))) if rule.option == "last" else range(len(lines)):
        line = lines[place]
        if any(keyword in line for keyword in rule.keywords):
            above = f"{lines[place - 1][-_MAX_LINE:]}\n" if rule.option == "above" and place else ""
            yield above + line[:_MAX_LINE]


def _fill_in(template: str, found: re.Match[str]) -> str:
    """The signature with its fields filled in from a match; empty if one of them is empty."""
    if template in _BUILDERS:
        return _BUILDERS[template](found)
    values = [_FORMS[form](found[int(group)] or "") for group, form in _FIELD.findall(template)]
    remaining = iter(values)
    return _FIELD.sub(lambda _: next(remaining), template) if all(values) else ""


def _go(found: re.Match[str]) -> str:
    # golangci-lint repeats the compiler's position before the message.
    message = re.sub(r"^(?:: )?(?:# \S+.*|-: |\S+\.go:\d+:\d+: )", "", found[1].strip().removesuffix(" (typecheck)"))
    if not message or message.startswith(("too many errors", "other declaration")):
        return ""
    if re.search(r" \([\w:.@/-]+\)$", message) or message.count("`") % 2:
        return ""  # a linter's finding
    names = (name for error, name in pattern_rows("signatures", "go") if error.search(message))
    known = next(names, normalize(message, names=True))
    return f"Go compile error: {known or normalize(' '.join(message.split()[:2]))}"


def _http_error(status: str, message: str) -> str:
    """An HTTP error; a message that only repeats the status, or is long, is replaced by the standard reason."""
    reason: str = load_table("signatures")["http_reasons"].get(status, "")
    text = first_sentence(message.strip(" :.,-"))
    generic = not text or text.lower() == reason.lower() or status == "429" or "‹" in text or len(text) > 60
    return f"HTTP {status}: {reason if generic else text}".rstrip(": ")


def _exception(found: re.Match[str]) -> str:
    name, message = found[1].rsplit(".", 1)[-1], found[2] or ""
    if name in word_set("signatures", "exception_names", "http") and (status := re.search(r"\b([45]\d\d)\b", message)):
        return _http_error(status[1], "")
    no_message = word_set("signatures", "exception_names", "no_message")
    return f"{name}: {first_sentence(message)}" if message and name not in no_message else name


_BUILDERS: dict[str, Callable[[re.Match[str]], str]] = {
    "{go}": _go,
    "{http}": lambda found: _http_error(found["status"], found["message"]),
    "{exception}": _exception,
}
_FORMS: dict[str, Callable[[str], str]] = {
    "": str,
    "normal": lambda text: normalize(text),
    "names": lambda text: normalize(text, names=True),
    "sentence": first_sentence,
    "clause": lambda text: re.split(r"[.:;](?= |$)", normalize(text), maxsplit=1)[0],
    "snake": lambda text: text.replace("-", "_"),
}
