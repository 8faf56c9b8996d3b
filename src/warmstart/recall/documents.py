"""What is indexed: the documents of a session, and the numbers they go by.

A document is one indexed text: a message, a piece of reasoning, the arguments of a call, a title or a branch. Its id is
one number, so that ranking reads no other table: the part (a session, or a stretch of a very long one), the position in
it, the field, and a class of length. Output of tools is not indexed here; the session store finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b
from math import log2
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from warmstart.profile.tools import SHELLS
from warmstart.sessions.lookup import SessionLookup, StoredText
from warmstart.sessions.values import clean

if TYPE_CHECKING:  # takes a tenth of a second to load, and only a search needs it
    import numpy as np
    from numpy.typing import NDArray

FIELDS = ("user", "assistant", "reasoning", "edits", "commands", "lookups")
USER, ASSISTANT, REASONING, EDITS, COMMANDS, LOOKUPS = range(len(FIELDS))
SAID = 2  # the first fields are what was said, the others what was done

PART, POSITION, FIELD = 24, 8, 4  # where these begin in the id of a document
FIRST = 2  # the first position, so that the neighbours of neighbours are numbers of the same part
MAX_POSITIONS = 65_000  # in a part
DELETED = 255  # in the lengths of a part
LENGTHS = tuple(2 ** (size / 2) for size in range(16))  # words in a document of each class

_EDIT = re.compile(r"edit|write(?!_(?:stdin|bash|powershell|todo))|patch|replace|create|insert", re.IGNORECASE)
_LOOKUP = re.compile(r"read|grep|glob|search|fetch|view|list|find|^ls$|query|browse", re.IGNORECASE)
_PLAN = re.compile(r"todo|plan|task|question|ask_user|skill", re.IGNORECASE)
_TRUNKS = ("", "main", "master", "HEAD")

Group = Literal["said", "did"]
GROUPS: tuple[Group, Group] = ("said", "did")
Ids: TypeAlias = "NDArray[np.int64]"


class TermIndex(Protocol):
    """The inverted index of one kind of database."""

    def postings(self, stems: Mapping[Group, Sequence[str]], limit: int) -> dict[Group, list[Ids]]:
        """For each stem the first `limit` ids of the documents that have it, in order."""
        ...

    def add(self, group: Group, documents: Iterable[tuple[int, str]]) -> None:
        """Add documents with their stems, joined by spaces; inside a transaction."""
        ...

    def count_terms(self) -> None:
        """Count again how many documents have each stem; inside a transaction."""
        ...

    def clear(self) -> None:
        """Remove everything, and mark every session as changed; inside a transaction."""
        ...

    def time_limit(self, seconds: float | None) -> AbstractContextManager[None]:
        """Interrupt statements that take longer, with `Interrupted`."""
        ...


class Document(NamedTuple):
    """A document to index: its field, its message (of a title, the first one), the hash and the id of its text."""

    field: int
    message: int
    hash: int
    text: int
    body: str = ""  # of a title or a branch, which have no id

    @property
    def key(self) -> tuple[bool, int, int]:
        """What makes it the same document."""
        return self.field >= SAID, self.message, self.hash


def documents_of(lookup: SessionLookup, session: int) -> list[Document]:
    """The documents of a session; first what was said, then what was done, each in order."""
    found = [
        Document(field, text.message, short_hash(text.hash), text.text)
        for text in lookup.texts(session)
        if (field := _field_of(text)) is not None
    ]
    title, branch = lookup.headline(session)
    headline = (title, "" if branch in _TRUNKS else branch.split("/", 1)[-1])
    first = next((document.message for document in found if document.field < SAID), 0)
    facts = [
        Document(COMMANDS, first, short_hash(blake2b(fact.encode("utf-8", "replace"), digest_size=8).digest()), 0, fact)
        for fact in headline
        if fact
    ]
    # A message may hold the same text twice.
    unique = {each.key: each for each in (*facts, *found)}.values()
    return [*(each for each in unique if each.field < SAID), *(each for each in unique if each.field >= SAID)]


def _field_of(text: StoredText) -> int | None:
    """The field of a text; calls that only plan or ask have none."""
    if text.kind in FIELDS[:3]:
        return FIELDS.index(text.kind)
    if text.kind in SHELLS:
        return COMMANDS
    if _PLAN.search(text.kind):
        return None
    if _EDIT.search(text.kind):
        return EDITS
    return LOOKUPS if _LOOKUP.search(text.kind) else None


def short_hash(hash: bytes) -> int:
    """The beginning of a hash as a number that databases can hold."""
    return int.from_bytes(bytes(hash[:8]), "big", signed=True)


def decode_arguments(arguments: str) -> str:
    """The arguments of a call without JSON's escapes."""
    if "\\u" in arguments:
        with suppress(ValueError, RecursionError):
            arguments = clean(json.dumps(json.loads(arguments), ensure_ascii=False))
    return arguments.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ")


def length_class(words: int) -> int:
    """The class of a document's length: half a power of two, at most 181 words."""
    return min(15, int(2 * log2(max(words, 1))))


def document_id(part: int, position: int, field: int, length: int) -> int:
    return part << PART | (position + FIRST) << POSITION | field << FIELD | length
