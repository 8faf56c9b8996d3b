"""A session as turns, and a turn as its stems.

A turn is a request, the replies to it, and what was done: the commands, the paths, the words that were searched for. A
very long one is split, so that a passage is never longer than a few pages. What files contain is not part of a turn.
"""

from __future__ import annotations

import re
from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes as long as the search
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct

from warmstart.profile.calls import SHELLS, command_in, path_in, values_in
from warmstart.recall.ranking import FIELDS
from warmstart.recall.search import project_term
from warmstart.sessions.lookup import StoredText
from warmstart.text.names import name_parts
from warmstart.text.words import root_word, tokenize

MAX_TEXTS = 30  # replies and thoughts in a turn; after them the next one begins

_MAX_COUNT = 255
_SHORT_HASH = Struct(">q")  # eight bytes of a hash as an integer that databases can hold
_EDIT = re.compile(r"edit|write(?!_(?:stdin|bash|powershell|todo))|patch|replace|create|insert", re.IGNORECASE)
_LOOKUP = re.compile(r"read|grep|glob|search|fetch|view|list|find|^ls$|query|browse", re.IGNORECASE)
_PLAN = re.compile(r"todo|plan|task|question|ask_user|skill", re.IGNORECASE)
_PATCHED = re.compile(r"\*\*\* (?:Add|Delete|Move to|Update)(?: File)?: ?([^\n\"\\]+)")
_SPOKEN = {"user": "asked", "assistant": "said", "reasoning": "thought"}
_TRUNKS = ("", "main", "master", "HEAD")


@dataclass(slots=True)
class Section:
    """A turn, or a part of a long one, before its texts are read: by field, what it consists of."""

    first_seq: int
    last_seq: int
    texts: list[StoredText] = field(default_factory=list)
    facts: tuple[str, ...] = ()  # the title and the branch of the session, for its first turn
    spoken: int = 0  # texts that were said or thought

    def hash(self, project: str) -> int:
        """A number that changes with the content."""
        digest = blake2b(f"{self.first_seq} {self.last_seq} {project}".encode("utf-8", "replace"), digest_size=8)
        for text in self.texts:
            digest.update(text.kind.encode("utf-8", "replace") + b"\0" + text.hash)
        digest.update("\0".join(self.facts).encode("utf-8", "replace"))
        return int(_SHORT_HASH.unpack(digest.digest())[0])


@dataclass(frozen=True, slots=True)
class Terms:
    """The stems of a turn, how often each field has each of them, and the words in each field."""

    stems: str  # separated by spaces
    counts: bytes
    lengths: tuple[int, ...]


def split(title: str, branch: str, texts: Iterable[StoredText]) -> list[Section]:
    """The turns of a session, in order."""
    sections: list[Section] = []
    current: Section | None = None
    for text in texts:
        ends = text.kind == "user" or (current is not None and current.spoken >= MAX_TEXTS)
        if current is None or (ends and text.seq > current.last_seq):
            current = Section(text.seq, text.seq)
            sections.append(current)
        current.texts.append(text)
        current.last_seq = text.seq
        if text.kind in _SPOKEN:
            current.spoken += 1
    if sections:
        sections[0].facts = (title, "" if branch in _TRUNKS else branch.split("/", 1)[-1])
    return sections


def read_terms(section: Section, bodies: Mapping[int, str], project: str) -> Terms:
    """The stems of a turn, and one more for its project."""
    fields: dict[str, list[str]] = {name: [] for name in FIELDS}
    for text in section.texts:
        body = bodies.get(text.text, "")
        if text.kind in _SPOKEN:
            fields[_SPOKEN[text.kind]] += terms_of(body)
        else:
            fields["did"] += terms_of(_done(text.kind, body))
    for fact in section.facts:
        fields["did"] += terms_of(fact)
    return _encode([fields[name] for name in FIELDS], project_term(project))


def _encode(fields: Sequence[Sequence[str]], project: str) -> Terms:
    distinct = [*dict.fromkeys(stem for stems in fields for stem in stems), project]
    places = {stem: len(fields) * place for place, stem in enumerate(distinct)}
    counts = bytearray(len(fields) * len(distinct))
    for number, stems in enumerate(fields):
        for stem, count in Counter(stems).items():
            counts[places[stem] + number] = min(_MAX_COUNT, count)
    return Terms(" ".join(distinct), bytes(counts), tuple(len(stems) for stems in fields))


def terms_of(text: str) -> list[str]:
    """The stems of a text, in no particular order.

    The parts of names such as `readConfigFile` are added, and single characters of scripts without spaces.
    """
    words = tokenize(text)
    words += name_parts(text)
    if not text.isascii():
        words += [character for word in words if len(word) == 2 and not word.isascii() for character in word]
    return [root_word(word) for word in words]


def _done(tool: str, arguments: str) -> str:
    """What a call did, in words: its command, the files it changed, or what it looked for."""
    if tool in SHELLS:
        return command_in(arguments)
    if _PLAN.search(tool):
        return ""
    if _EDIT.search(tool):
        return path_in(arguments) or " ".join(_PATCHED.findall(arguments))
    return values_in(arguments) if _LOOKUP.search(tool) else ""
