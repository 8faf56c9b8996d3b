"""What the calls of a tool had in common: how a program is started, which values stay the same, how others are formed.

A convention is seen in at least two calls with different arguments, or it is a coincidence. It names forms and flags,
never a value that is particular to the task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from warmstart.profile import shell
from warmstart.profile.tools import SHELLS, command_in, fields_of
from warmstart.templates.extraction.placeholders import CannotShow
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.walk import Taken
from warmstart.templates.extraction.worked import Fitting
from warmstart.templates.trust import suspicious
from warmstart.templates.values import Convention
from warmstart.text.shell import Command, parse_commands

MOST = 6
_OFTEN = 0.8  # of the calls that could have been otherwise
_SOURCES = 8
_LONGEST = 160  # characters of a line
_SURE = 4  # calls, or different values, that have something in common by no coincidence
_MARK = 2  # characters of a common part that names nobody: `#W`

_RUN = re.compile(r"[^;&|\n]+")
_ASSIGNED = re.compile(r"(?:[A-Z_][A-Z0-9_]*=[^\s'\"$`]{0,40}\s+)*")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*(?:=[\w.,:-]{1,20})?")
_VALUE = re.compile(r"[A-Za-z0-9][\w.,:=-]{0,19}")
# Flags that are nothing without their value.
_VALUED = frozenset(
    (
        "-k",
        "-o",
        "-m",
        "-run",
        "-C",
        "-f",
        "-e",
        "-p",
        "-w",
        "-t",
        "-j",
        "-n",
        "-tags",
        "-timeout",
        "-count",
        "-F",
        "-c",
    )
)
_OPTION = re.compile(
    r"limit|max|count|page|size|offset|timeout|format|mode|sort|order_?by|lang|version|include|exclude|filter|depth|top_k"
)
_CONSTANT = re.compile(r"[a-z][a-z_-]{1,19}")
# How a value is formed, by what it looks like.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a date written YYYY-MM-DD", re.compile(r"\d{4}-\d\d-\d\d")),
    (
        "a time written YYYY-MM-DDTHH:MM:SS",
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"),
    ),
    ("a date written MM/DD/YYYY", re.compile(r"\d\d/\d\d/\d{4}")),
    ("an absolute path", re.compile(r"/[\w.@+ -]+(?:/[^\n]*)?")),
    ("a URL", re.compile(r"https?://\S+")),
    ("an e-mail address", re.compile(r"[^\s@]+@[\w-]+\.[\w.-]+")),
    ("a code of three capital letters", re.compile(r"[A-Z]{3}")),
)
_RUNS = re.compile(r"[A-Z]+|[a-z]+|\d+|.", re.DOTALL)
_SHAPED = re.compile(r"(?=.*\d)[A-Za-z0-9#_-]{3,32}")


class _Run(NamedTuple):
    """A program that was started: the words up to its name, its flags, and the call."""

    start: str
    flags: tuple[str, ...]
    step: Taken


def conventions(tool: str, steps: Sequence[Taken], places: Places, fits: Fitting) -> tuple[Convention, ...]:
    """What was seen in two calls or more that may be shown, the most frequent first."""
    seen = _of_shell(steps) if tool in SHELLS else _of_arguments(tool, steps, places)
    ranked = sorted(((text, shown) for text, shown in seen if len(shown) > 1), key=lambda each: -len(each[1]))
    found: list[Convention] = []
    for text, shown in ranked:
        if len(found) == MOST:
            break
        latest = shown[: -_SOURCES - 1 : -1]
        fine = len(text) <= _LONGEST and suspicious(text) is None and places.text(text) == text
        if fine and len(list(islice(filter(fits, latest), 2))) == 2:
            sources = tuple(dict.fromkeys(step.source for step in latest))
            found.append(Convention(text=text, count=len(shown), sources=sources))
    return tuple(found)


# -- shells


def _of_shell(steps: Sequence[Taken]) -> Iterator[tuple[str, Sequence[Taken]]]:
    """How the programs are started that test, build, lint or commit."""
    runs: dict[str, list[_Run]] = {}
    for step in steps:
        text = command_in(step.call.arguments)
        for command in parse_commands(text):
            name = _name(command)
            if name and (start := _start(text, command, name)):
                runs.setdefault(name, []).append(_Run(start, _flags(command), step))
    for name, uses in runs.items():
        yield from _started(name, uses)


def _name(command: Command) -> str:
    """What a command is known by: `pytest`, also as `python -m pytest`, `git commit`, `cargo test`."""
    words = [word for word in command.words if not word.startswith("-")]
    if shell.commits(command):
        return "git commit"
    if not shell.check_of(command):
        return ""
    if "-m" in command.words and shell.interprets(command):
        return words[0] if words else ""
    verb = words[0] if words and words[0].replace(":", "").replace("-", "").isalpha() else ""
    return f"{command.program} {verb}" if verb and command.program in _VERBED else command.program


_VERBED = frozenset(
    (
        *(
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "deno",
            "make",
            "gmake",
            "mise",
            "just",
            "task",
            "go",
            "cargo",
            "gradle",
            "gradlew",
        ),
        *("mvn", "dotnet", "swift", "mix", "rake", "ruff"),
    )
)


def _start(text: str, command: Command, name: str) -> str:
    """The words up to the program's name as they were written: `PYTHONPATH=src uv run pytest`."""
    last = name.split()[-1]
    for part in _RUN.finditer(text):
        words = part[0].strip()
        found = re.search(rf"(?:^|[\s/]){re.escape(last)}(?=\s|$)", words)
        if found and all(word in words for word in name.split()):
            start = words[: found.end()].strip()
            return start if len(start) <= 80 and not re.search(r"[\"'$`(){}<>]", start) else ""
    return ""


def _flags(command: Command) -> tuple[str, ...]:
    """The flags as they were written, each alone and with the word after it: that may be its value."""
    words = command.words
    found: list[str] = []
    for flag, after in zip(words, [*words[1:], ""], strict=True):
        if _FLAG.fullmatch(flag) and (flag != "-m" or not shell.interprets(command)):
            if _VALUE.fullmatch(after):
                found.append(f"{flag} {after}")
            if flag not in _VALUED:
                found.append(flag)
    return tuple(found)


def _started(name: str, uses: Sequence[_Run]) -> Iterator[tuple[str, Sequence[Taken]]]:
    starts = [run.start for run in uses]
    usual = max(starts, key=lambda start: (starts.count(start), starts.index(start)))
    some = [run for run in uses if run.start == usual]
    if len(some) < _OFTEN * len(uses):
        return
    common = [flag for flag in some[-1].flags if all(flag in run.flags for run in some)]
    # With a value that is always the same the flag is said once.
    valued = {flag.split()[0] for flag in common if " " in flag}
    whole = " ".join(dict.fromkeys((usual, *(flag for flag in common if flag not in valued))))
    if whole != name:
        yield f"{name} is run as `{whole}`", _distinct([run.step for run in some])


# -- other tools


def _of_arguments(tool: str, steps: Sequence[Taken], places: Places) -> Iterator[tuple[str, Sequence[Taken]]]:
    given = [(fields_of(step.call.arguments), step) for step in steps]
    names = list(dict.fromkeys(name for fields, _ in given for name in fields))
    for name in names:
        having = [(fields[name], step) for fields, step in given if name in fields]
        all_steps = _distinct([step for _, step in having])
        # A name that no call can do without is no convention; only of options one may say so without the schema.
        varied = any(fields.keys() != given[0][0].keys() for fields, _ in given)
        if len(having) == len(given) and varied and _OPTION.search(name):
            yield f"always passes `{name}`", all_steps
        values = [value for value, _ in having]
        constant = len(all_steps) >= _SURE and _is_constant(values[0]) and all(value == values[0] for value in values)
        if constant and _stays(tool, having[0][1].call.arguments, name, places):
            yield f"`{name}` is always {_written(values[0])}", all_steps
        elif form := _form([value for value in values if isinstance(value, str)], len(values)):
            yield f"`{name}` is {form}", all_steps


def _stays(tool: str, arguments: str, name: str, places: Places) -> bool:
    """Whether a value is no particular of the task, as the placeholders see it, however often it was given."""
    try:
        return bool(fields_of(places.arguments(tool, arguments)).get(name) == fields_of(arguments)[name])
    except CannotShow:
        return False


def _distinct(steps: Sequence[Taken]) -> list[Taken]:
    """The calls that differ: the same call twice is no convention."""
    return list({step.call.arguments: step for step in steps}.values())


def _is_constant(value: object) -> bool:
    if isinstance(value, str):
        return bool(_CONSTANT.fullmatch(value))
    return value is True or (isinstance(value, int) and 0 < value <= 10_000)  # no or none is what one need not say


def _written(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _form(values: Sequence[str], of: int) -> str:
    """How the values are formed, if all of them are formed alike and none is the other."""
    if len(set(values)) < 2 or len(values) < of:
        return ""
    for told, form in _FORMS:
        if all(map(form.fullmatch, values)):
            return told
    return _pattern(sorted(set(values))) if all(map(_SHAPED.fullmatch, values)) else ""


def _pattern(values: Sequence[str]) -> str:
    """Identifiers with what differs between them blotted out: `#WNNNNNNN`."""
    split: list[list[str]] = [_RUNS.findall(value) for value in values]
    if len({len(runs) for runs in split}) != 1:
        return ""
    # What few values share may be what is particular to them: the name of the one customer.
    sure = len(values) >= _SURE
    parts = [_blotted(list(column), sure=sure) for column in zip(*split, strict=True)]
    # With `0` for a digit it would look like an identifier itself.
    return f"written like `{''.join(parts)}`, N being a digit" if all(parts) else ""


def _blotted(column: list[str], *, sure: bool) -> str:
    first = column[0]
    mark = len(first) <= _MARK and not first.islower()
    if len(set(column)) == 1 and (sure or mark) and not first.isdigit():
        return first
    same = len({len(run) for run in column}) == 1
    tests: tuple[tuple[Callable[[str], bool], str], ...] = ((str.isdigit, "N"), (str.isupper, "A"), (str.islower, "a"))
    for test, letter in tests:
        if all(map(test, column)):
            return letter * len(column[0]) if same else f"{letter}…"
    return ""
