"""Which errors the agent got over, how, and which it did not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from warmstart.profile.arguments import command_in, fields_of
from warmstart.profile.shell import Command, commands
from warmstart.profile.tasks import SHELLS
from warmstart.profile.values import Call, Change, DeadEnd, Recovery
from warmstart.sessions.values import Step

WITHIN = 3  # calls of the same tool

_MOST_CHANGES = 6
_MOST_BETWEEN = 4
_MOST_TOLD = 3
_COMMANDS = {"another command": "another command", "command": "the command changed"}
_FLAG = re.compile(r"--?[A-Za-z][\w-]*(?:=|$)")
_PROGRAM = re.compile(r"[\w.+@\[-]{1,40}")
_NAME = 40  # characters of an argument's name
_REMARKS = frozenset(("description", "justification"))  # arguments of a shell that change nothing
# Programs whose flags are words after a single dash. Of any other only the letter is kept: `mysql -psecret`.
_WORDY = frozenset(("find", "go", "terraform", "gfind"))
_WORDY_FLAG = re.compile(r"-[a-z-]+")


def recoveries(calls: Sequence[Call], steps: Sequence[Step]) -> Iterator[Recovery]:
    """Every failing call that the same tool followed with a success within its next three calls."""
    places: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault(call.tool, []).append(place)
    for own in places.values():
        for order, failed in enumerate(own):
            if calls[failed].outcome != "error":
                continue
            later = own[order + 1 : order + 1 + WITHIN]
            found = next((place for place in later if calls[place].outcome == "ok"), None)
            if found is not None:
                yield Recovery(
                    failed=failed,
                    succeeded=found,
                    tries=later.index(found) + 1,
                    changes=tuple(_changes(calls[failed].tool, steps[failed], steps[found]))[:_MOST_CHANGES],
                    between=_between(calls, failed, found),
                )


def _between(calls: Sequence[Call], failed: int, succeeded: int) -> tuple[str, ...]:
    """The other tools that worked in the meantime, each once."""
    tool = calls[failed].tool
    names = (call.tool for call in calls[failed + 1 : succeeded] if call.outcome == "ok" and call.tool != tool)
    return tuple(dict.fromkeys(names))[:_MOST_BETWEEN]


def dead_ends(calls: Sequence[Call], recovered: Iterable[Recovery]) -> Iterator[DeadEnd]:
    """Errors that came back and whose last occurrence was not recovered from."""
    healed = {recovery.failed for recovery in recovered}
    occurred: dict[tuple[str, str], list[int]] = {}
    for place, call in enumerate(calls):
        if call.outcome == "error":
            occurred.setdefault((call.tool, call.signature), []).append(place)
    for (tool, signature), places in occurred.items():
        if len(places) > 1 and places[-1] not in healed:
            yield DeadEnd(tool, signature, len(places))


def _changes(tool: str, failed: Step, succeeded: Step) -> Iterator[Change]:
    before, after = failed.call.arguments, succeeded.call.arguments
    if before == after:
        return
    shell = tool in SHELLS
    if shell and command_in(before) != command_in(after):
        yield from _command_changes(commands(command_in(before)), commands(command_in(after)))
        return
    old, new = fields_of(before), fields_of(after)
    if not (old or new):
        yield Change("input", "changed")
    for name in {**old, **new}:
        if shell and name in _REMARKS:
            continue
        if name not in new:
            yield Change(name[:_NAME], "removed")
        elif name not in old:
            yield Change(name[:_NAME], "added")
        elif old[name] != new[name]:
            yield Change(name[:_NAME], "changed")


def _command_changes(before: Sequence[Command], after: Sequence[Command]) -> Iterator[Change]:
    """How a shell command was changed, as far as that can be said without repeating it."""
    old, new = _programs(before), _programs(after)
    if not old.keys() & new.keys():
        yield Change("another command", "changed")
        return
    if (old, _flags(before)) == (new, _flags(after)):
        yield Change("command", "changed")
    # A program comes and goes with its flags: those of the others are of interest.
    for lost, gained in ((old, new), (_flags(before, new), _flags(after, old))):
        yield from (Change(name, "removed") for name in lost if name not in gained)
        yield from (Change(name, "added") for name in gained if name not in lost)


def _programs(some: Sequence[Command]) -> dict[str, None]:
    """The programs by name; what is no name may be a value that stands where a program would."""
    return {command.program: None for command in some if _PROGRAM.fullmatch(command.program)}


def _flag(command: Command, word: str) -> str:
    name = word.partition("=")[0]
    is_word = name.startswith("--") or (command.program in _WORDY and _WORDY_FLAG.fullmatch(name))
    return name if is_word else name[:2]


def _flags(some: Sequence[Command], programs: Container[str] | None = None) -> dict[str, None]:
    return {
        f"{command.program} {_flag(command, word)}"[:_NAME]: None
        for command in some
        for word in command.words
        if _FLAG.match(word) and (programs is None or command.program in programs)
    }


# -- the usual fix


def fix(recovered: Iterable[Recovery], errors: int) -> str | None:
    """What usually changed before the tool worked again, in words; `None` where nothing helped twice."""
    told = Counter(described(recovery) for recovery in recovered)
    most, times = next(iter(told.most_common(1)), ("", 0))
    return f"{most} ({times} of {errors})" if times > 1 else None


def described(recovery: Recovery) -> str:
    """One recovery in a few words: `Read, then the same call` or `with replace_all`."""
    first = " and ".join(recovery.between[:2])
    then = _told(recovery.changes)
    return f"{first}, then {then}" if first else then


def _told(changes: Sequence[Change]) -> str:
    if not changes:
        return "the same call again"
    if changes[0].what in _COMMANDS:
        return _COMMANDS[changes[0].what]
    if len(changes) > _MOST_TOLD:
        return f"{changes[0].what} and {len(changes) - 1} others changed"
    words = {"added": "with {}", "removed": "without {}", "changed": "another {}"}
    return ", ".join(
        words[how].format(" and ".join(change.what for change in changes if change.how == how))
        for how in ("added", "removed", "changed")
        if any(change.how == how for change in changes)
    )
