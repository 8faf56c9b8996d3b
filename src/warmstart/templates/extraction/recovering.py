"""Mistakes that were mended: what failed, with which error, and what worked instead.

An error is carried as its signature alone, and only together with what mended it. That the next call of the tool
succeeded does not make it a remedy: it has to be the same attempt, altered.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from warmstart.profile.public_names import is_public_signature
from warmstart.profile.recoveries import describe_recovery, find_recoveries
from warmstart.profile.tools import SHELLS, command_in, fields_of
from warmstart.profile.values import Profile
from warmstart.templates.extraction.placeholders import CannotShow
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.walk import Taken, Walk
from warmstart.templates.extraction.worked import may_show, worked
from warmstart.templates.trust import is_tool_name, suspicious
from warmstart.templates.values import Recovery, Source
from warmstart.text.shell import parse_commands

MOST = 12
LONGEST = 1_500  # characters of the arguments of a call
_ALIKE = 0.4  # share of words that the failing and the working call have in common
_HELD = 0.8  # share of the words of the shorter call that the longer one has as well
_SAME_NAME = 0.75  # how alike the names of two files are that mean the same
_PATH = 400  # characters of a path
_WORD = re.compile(r"\w+")
_WORDS = 400  # that are compared
_EDITS = re.compile(r"edit|write|patch|replace|create", re.IGNORECASE)
# What a message may tell a reader to do, besides what the tool is for.
_ORDERS = re.compile(
    r"\byou (?:must|should|need|have to|can|may)\b|\b(?:please|install|download|visit|execute|curl|wget|sudo|eval)\b"
    r"|\b(?:run|use|call|try|open|add|paste|type|send|go to)\b(?=:? [`'\"‹$/.\w])|\bpip3? |\bnp[mx] |https?:|www\."
    r"|\b(?:assistant|agent|model|instructions?|prompt|always|never|remember|important|note)\b",
    re.IGNORECASE,
)
_STATED = 160  # characters of a message's own words
# Errors that say nothing about the call: the code under test was wrong, nothing was found, or another call failed.
_NOT_OF_THE_CALL = re.compile(
    r"tests? failed|lint\b|.*\bcompile error|.*\bbuild failed|.*\bno output$"
    r"|sibling tool call|.*\b(?:cancell?ed|interrupted|aborted)\b",
    re.IGNORECASE,
)


class Mended(NamedTuple):
    """A failing call with its error's signature, the call that worked, and what changed in between, in words."""

    failed: Taken
    error: str
    worked: Taken
    change: str

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys((self.failed.source, self.worked.source)))


def recoveries(walk: Walk, places: Places, profile: Profile) -> tuple[Recovery, ...]:
    """Each error that was got over, once, the most frequent first and of equals the latest."""
    groups: dict[tuple[str, str], list[Mended]] = {}
    for each in mended(walk, profile):
        groups.setdefault((each.failed.call.name, each.error), []).append(each)
    ranked = sorted(groups.values(), key=lambda group: (-len(group), -group[-1].failed.place))
    made = (_recovery(group, places) for group in ranked[: 2 * MOST])
    return tuple(recovery for recovery in made if recovery)[:MOST]


def _recovery(group: Sequence[Mended], places: Places) -> Recovery | None:
    best = usual(group)
    tool = best.failed.call.name
    try:
        failed, worked_ = (places.arguments(tool, each.call.arguments) for each in (best.failed, best.worked))
    except CannotShow:
        return None
    return Recovery(
        tool=tool,
        failed=failed,
        error=places.text(best.error),
        worked=worked_,
        change=best.change,
        count=len(group),
        sources=tuple(dict.fromkeys(source for each in (best, *group) for source in each.sources)),
    )


def usual(group: Sequence[Mended]) -> Mended:
    """Of several ways out of one error the latest of the most frequent."""
    told = [each.change for each in group]
    return max(enumerate(group), key=lambda placed: (told.count(placed[1].change), placed[0]))[1]


def mended(walk: Walk, profile: Profile) -> Iterator[Mended]:
    """Every failing call that the same attempt, altered, followed with success.

    An error that came back and stayed is none of them, whatever helped against it before.
    """
    taken = walk.taken
    stayed = {(end.tool, end.signature) for end in profile.dead_ends}
    for found in find_recoveries(taken):
        failed, better = taken[found.failed], taken[found.succeeded]
        error = failed.signature
        change = describe_recovery(found)
        if (failed.call.name, error) in stayed or _NOT_OF_THE_CALL.match(error):
            continue
        if not worked(better) or not _is_remedy(failed, better, found.between):
            continue
        fine = all(map(is_tool_name, found.between)) and _may_tell(error) and suspicious(change) is None
        if fine and all(_is_showable(each, walk.session.project) for each in (failed, better)):
            yield Mended(failed, error, better, change)


def _may_tell(error: str) -> bool:
    """Whether an error may be told: in our words, or in those of a message that only states what is wrong."""
    return suspicious(error) is None and (
        is_public_signature(error) or not (_ORDERS.search(error) or len(error) > _STATED)
    )


def _is_showable(step: Taken, project: str) -> bool:
    return len(step.call.arguments) <= LONGEST and may_show(step.call.name, step.call.arguments, project)


def _is_remedy(failed: Taken, better: Taken, between: Sequence[str]) -> bool:
    """Whether the call that worked is the failing one, altered, or the same after something that it needed."""
    before, after = failed.call.arguments, better.call.arguments
    if failed.call.name in SHELLS:
        old, new = command_in(before), command_in(after)
        # The same command, or another after an edit: what was mended is the code, and not the call.
        return old != new and not any(map(_EDITS.search, between)) and _same_program(old, new) and _akin(old, new)
    if before == after:
        return bool(between)
    was, is_ = fields_of(before), fields_of(after)
    if not (was and is_):
        return _akin(before, after)
    shared = was.keys() & is_.keys()
    changed = [name for name in shared if was[name] != is_[name]]
    # A path that is altogether another is another call: to read a second file mends nothing.
    if any(_is_path(was[name]) and not _akin_paths(str(was[name]), str(is_[name])) for name in changed):
        return False
    if was.keys() != is_.keys():
        return len(changed) < len(shared) or all(_akin(str(was[name]), str(is_[name])) for name in changed)
    return len(changed) <= len(was) / 2 or all(_akin(str(was[name]), str(is_[name])) for name in changed)


def _same_program(one: str, other: str) -> bool:
    """Whether a program of the first command runs in the other, also as `python -m pytest`."""
    first = {command.program for command in parse_commands(one)}
    return any({command.program, *command.words} & first for command in parse_commands(other))


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "/" in value and len(value) < _PATH and not re.search(r"\s", value)


def _akin_paths(one: str, other: str) -> bool:
    """Whether two paths may mean the same: the same name elsewhere, nearly the same name, or a folder of the other."""
    if one.startswith(f"{other.rstrip('/')}/") or other.startswith(f"{one.rstrip('/')}/"):
        return True
    names = [posixpath.basename(each.rstrip("/")) for each in (one, other)]
    return SequenceMatcher(None, names[0], names[1]).ratio() >= _SAME_NAME


def _akin(one: str, other: str) -> bool:
    """Whether two texts have enough words in common to be the same attempt, or one holds nearly all of the other."""
    first, second = (set(_WORD.findall(each)[:_WORDS]) for each in (one, other))
    common = len(first & second)
    return common >= _ALIKE * len(first | second) or common >= max(1, _HELD * min(len(first), len(second)))
