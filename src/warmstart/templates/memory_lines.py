"""Memories as lines for a session: what the user stored, and what agents noted in the project, each with its source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import fsum, log
from typing import NamedTuple

from warmstart.memory.authors import USER, author_of, is_shown
from warmstart.memory.lines import NOTED, REMEMBERED, choose_entries, memory_line
from warmstart.memory.values import MemoryEntry
from warmstart.redact import redact
from warmstart.templates.safety import is_safe_command, is_safe_rule, names_host
from warmstart.text.untrusted import find_controls, find_injection, neutralize
from warmstart.text.words import topic_terms

# A note states a fact. What lays down a rule, speaks to its reader, or names a program to run is advice: the extractors
# of items would not take it from an agent either.
_ADVICE = re.compile(
    r"\b(?:always|never|must|should|do not|don't|ha(?:s|ve) to|from now on|in (?:the )?future"
    r"|(?:every|each|any|all) (?:future )?(?:session|command)s?|you|your|agents?(?!\.md)|assistants?|llms?"
    r"|(?:run|call|execute|start|begin with|set up by) \w+[-_.][\w-]+)\b",
    re.IGNORECASE,
)
# A clause that starts like this is an order. These programs are no part of a fact.
_ORDER = re.compile(
    r"(?:^|[.:;!?,(]\s*|\b(?:and|but|then|please|just)\s+)(?:accept|add|allow|approve|ask|avoid|be|bypass|call|change|clone"
    r"|commit|consider|copy|delete|deploy|disable|do|download|drop|enable|execute|export|fetch|follow|forget|give|grant"
    r"|ignore|install|keep|let|make|merge|move|open|paste|pipe|post|prefer|push|put|remember|remove|replace|run|send|set"
    r"|share|skip|stop|take|tell|treat|trust|try|turn|uninstall|unset|update|upgrade|upload|use)\b",
    re.IGNORECASE,
)
_PROGRAM = re.compile(r"\b(?:bash|chmod|curl|eval|npx|rm|sh|sudo|wget)\s+\S|\binstall\s+\S|\s--force\b", re.IGNORECASE)


class Remembered(NamedTuple):
    """The lines for a session: the user's memories, and what agents noted; and the entry of each line."""

    memories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    entries: tuple[MemoryEntry, ...] = ()


def choose_memories(entries: Iterable[MemoryEntry], *, project: str, task: str = "") -> Remembered:
    """The entries that a session in a project is shown: those nearest to its task, then the newest."""
    visible = [entry for entry in entries if is_shown(entry.metadata, project)]
    terms = [set(topic_terms(f"{entry.key} {entry.value}")) for entry in visible]
    frequency = Counter(term for own in terms for term in own)
    asked = set(topic_terms(task))
    nearness = [fsum(log(1 + len(visible) / frequency[term]) for term in sorted(own & asked)) for own in terms]
    order = sorted(
        range(len(visible)), key=lambda place: (-nearness[place], -visible[place].updated_at, visible[place].key)
    )
    chosen = choose_entries((visible[place] for place in order), project, is_quotable)
    users, notes = chosen[REMEMBERED], chosen[NOTED]
    return Remembered(tuple(map(memory_line, users)), tuple(map(memory_line, notes)), (*users, *notes))


def is_quotable(entry: MemoryEntry) -> bool:
    """Whether an entry may be shown, judged like an item: its text must not pass for anything else."""
    text = f"{entry.key}: {entry.value}"
    line = " ".join(text.split())
    if "\n" in entry.key or "\r" in entry.key or find_controls(text) or neutralize(line).strip() != line:
        return False
    if find_injection(text) or redact(text).findings:
        return False
    if author_of(entry.metadata) == USER:
        return True
    is_english = all(letter.isascii() for letter in line if letter.isalpha())  # advice in others cannot be told apart
    return is_english and is_safe_rule(line) and not names_host(line) and not _is_advice(line, entry.value)


def _is_advice(line: str, value: str) -> bool:
    """Whether a note tells its reader what to do. A value that is a safe command, such as `make check`, does not."""
    if _ADVICE.search(line):
        return True
    if is_safe_command(value):
        return False
    return bool(_ORDER.search(value) or _PROGRAM.search(line))
