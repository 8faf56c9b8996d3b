"""What recall needs of a database beyond the SQL that all share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from warmstart.storage.database import Interrupted as Interrupted  # what `limited` raises
from warmstart.storage.database import Migration

if TYPE_CHECKING:  # takes a tenth of a second to load, and only a search needs it
    import numpy as np
    from numpy.typing import NDArray

Group = Literal["said", "did"]
Numbers: TypeAlias = "NDArray[np.int64]"
GROUPS: tuple[Group, Group] = ("said", "did")


class Word(NamedTuple):
    """A word of a question, and the form without its ending under which the index has it."""

    word: str
    stem: str


class Engine(Protocol):
    """The word index of one kind of database. Reads may be interrupted; see `limited`."""

    MIGRATIONS: ClassVar[Sequence[Migration]]

    def words(self, text: str) -> list[Word]:
        """The words of a text in order, divided as the index divides texts."""
        ...

    def frequencies(self, group: Group, stems: Sequence[str]) -> dict[str, int]:
        """In about how many lines each of these stands. Those that are not in the result stand in one, or in none."""
        ...

    def postings(self, group: Group, words: Sequence[Word], limit: int) -> list[Numbers]:
        """For each word the numbers of the lines that hold it, in order; of more than `limit` only some."""
        ...

    # A query that gives the ids of the texts that fit `:query` as `id`, the newest first.
    TEXTS: ClassVar[str]
    # What puts those joined to such a query with a limit, as `f`, into its order where that would be lost.
    NEWEST: ClassVar[str]
    # The condition that the text `t` holds `:holds`, whatever the case.
    HOLDS: ClassVar[str]

    def phrase(self, words: Sequence[Word]) -> str:
        """What finds texts that hold these words side by side, for `TEXTS`."""
        ...

    def all_of(self, words: Sequence[Word]) -> str:
        """What finds texts that hold all of these words, for `TEXTS`."""
        ...

    def any_of(self, words: Sequence[Word]) -> str:
        """What finds texts that hold any of these words, for `TEXTS`."""
        ...

    def add(self, group: Group, lines: Iterable[tuple[int, str]]) -> None:
        """Put lines into the index; inside a transaction."""
        ...

    def count(self) -> None:
        """Count anew in how many lines each word stands; inside a transaction."""
        ...

    def purge(self) -> bool:
        """Take out the lines that are dead; False where that cannot be done. Inside a transaction."""
        ...

    def empty(self) -> None:
        """Forget everything and note every session as changed; inside a transaction."""
        ...

    def limited(self, seconds: float | None) -> AbstractContextManager[None]:
        """Let no statement run for longer than this. What is interrupted raises `Interrupted`."""
        ...
