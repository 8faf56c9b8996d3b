"""Recoveries: which errors the agent recovered from, and how; and dead ends, from which it did not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.values import AnyStep, Call, Change, DeadEnd, How, Recovery
from warmstart.sessions.values import ToolCall
from warmstart.text.shell import Command, parse_commands

MAX_TRIES = 3  # calls of the same tool

_MAX_CHANGES = 6
_MAX_BETWEEN = 4
_MAX_DESCRIBED = 3
_COMMANDS = {"another command": "another command", "command": "the same program with other arguments"}
_FLAG = re.compile(r"--?[A-Za-z][\w-]*(?:=|$)")
_PROGRAM = re.compile(r"[\w.+@\[-]{1,40}")
_MAX_NAME = 40  # characters of an argument's name
_REMARKS = frozenset(("description", "justification"))  # arguments of a shell that have no effect
# Programs with long flags after a single dash. For any other program only the letter is kept: `mysql -psecret`.
_SINGLE_DASH = frozenset(("find", "go", "terraform", "gfind"))
_SINGLE_DASH_FLAG = re.compile(r"-[a-z-]+")


def find_recoveries(steps: Sequence[AnyStep]) -> Iterator[Recovery]:
    """Every failed call that was followed by a success of the same tool within its next three calls."""
    positions: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        positions.setdefault(step.call.name, []).append(position)
    for tool, own in positions.items():
        for order, failed in enumerate(own):
            if steps[failed].outcome != "error":
                continue
            later = own[order + 1 : order + 1 + MAX_TRIES]
            succeeded = next((position for position in later if steps[position].outcome == "ok"), None)
            if succeeded is not None:
                between = (step.call.name for step in steps[failed + 1 : succeeded] if step.outcome == "ok")
                yield Recovery(
                    failed=failed,
                    succeeded=succeeded,
                    tries=later.index(succeeded) + 1,
                    changes=tuple(_changes(steps[failed].call, steps[succeeded].call))[:_MAX_CHANGES],
                    between=tuple(dict.fromkeys(name for name in between if name != tool))[:_MAX_BETWEEN],
                )


def find_dead_ends(calls: Sequence[Call], recovered: Iterable[Recovery]) -> Iterator[DeadEnd]:
    """Errors that recurred and whose last occurrence was not recovered from."""
    recovered_from = {recovery.failed for recovery in recovered}
    occurred: dict[tuple[str, str], list[int]] = {}
    for place, call in enumerate(calls):
        if call.outcome == "error":
            occurred.setdefault((call.tool, call.signature), []).append(place)
    for (tool, signature), places in occurred.items():
        if len(places) > 1 and places[-1] not in recovered_from:
            yield DeadEnd(tool, signature, len(places))


def _changes(failed: ToolCall, succeeded: ToolCall) -> Iterator[Change]:
    before, after = failed.arguments, succeeded.arguments
    if before == after:
        return
    shell = failed.name in SHELLS
    if shell and command_in(before) != command_in(after):
        yield from _command_changes(parse_commands(command_in(before)), parse_commands(command_in(after)))
        return
    old, new = fields_of(before), fields_of(after)
    if not (old or new):
        yield Change("input", "changed")
    for name in {**old, **new}:
        if (name in old, old.get(name)) != (name in new, new.get(name)) and not (shell and name in _REMARKS):
            how: How = "changed" if name in old and name in new else "added" if name in new else "removed"
            yield Change(name[:_MAX_NAME], how)


def _command_changes(before: Sequence[Command], after: Sequence[Command]) -> Iterator[Change]:
    """How a shell command changed, without repeating its values."""
    old, new = _programs(before), _programs(after)
    if not old.keys() & new.keys():
        yield Change("another command", "changed")
        return
    if (old, _flags(before)) == (new, _flags(after)):
        yield Change("command", "changed")
    # The flags of a program that is in only one of the commands add nothing.
    for lost, gained in ((old, new), (_flags(before, new), _flags(after, old))):
        yield from (Change(name, "removed") for name in lost if name not in gained)
        yield from (Change(name, "added") for name in gained if name not in lost)


def _programs(some: Sequence[Command]) -> dict[str, None]:
    """The names of the programs; anything that does not look like a program may be a value."""
    return {command.program: None for command in some if _PROGRAM.fullmatch(command.program)}


def _flags(some: Sequence[Command], programs: Container[str] | None = None) -> dict[str, None]:
    found: dict[str, None] = {}
    for command in some:
        if programs is None or command.program in programs:
            for name in (word.partition("=")[0] for word in command.words if _FLAG.match(word)):
                has_word_flags = command.program in _SINGLE_DASH
                is_word = name.startswith("--") or (has_word_flags and _SINGLE_DASH_FLAG.fullmatch(name))
                found[f"{command.program} {name if is_word else name[:2]}"[:_MAX_NAME]] = None
    return found


# -- the usual fix


def usual_fix(recovered: Iterable[Recovery], errors: int) -> str | None:
    """What usually changed before the tool worked again, in words; `None` if no change helped twice."""
    fixes = Counter(describe_recovery(recovery) for recovery in recovered)
    fix, times = next(iter(fixes.most_common(1)), ("", 0))
    return f"{fix} ({times} of {errors})" if times > 1 else None


def describe_recovery(recovery: Recovery) -> str:
    """One recovery in a few words: `Read, then the same call` or `with replace_all`."""
    first = " and ".join(recovery.between[:2])
    then = _describe_changes(recovery.changes)
    return f"{first}, then {then}" if first else then


def _describe_changes(changes: Sequence[Change]) -> str:
    if not changes:
        return "the same call again"
    if changes[0].what in _COMMANDS:
        return _COMMANDS[changes[0].what]
    if len(changes) > _MAX_DESCRIBED:
        return f"{changes[0].what} and {len(changes) - 1} others changed"
    words = {"added": "with {}", "removed": "without {}", "changed": "another {}"}
    return ", ".join(
        words[how].format(" and ".join(change.what for change in changes if change.how == how))
        for how in ("added", "removed", "changed")
        if any(change.how == how for change in changes)
    )
