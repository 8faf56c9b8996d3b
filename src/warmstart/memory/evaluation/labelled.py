"""Five hundred memories and two hundred questions, labelled by hand.

How the set was made: the memories are those of five invented people (a backend engineer, a frontend lead, a forecaster,
a reliability engineer, a freelancer for mobile apps) and were written one by one before any question was. Each of them
has several alike (four services with a database, a port and a way to be tested each), so that a word in common does not
suffice. Forty of them changed over time and carry their former value. The questions were written from the memories, not
from a template, and never by the help of any backend's results; nothing was taken out because nothing finds it. They
are asked the way people ask: whole sentences, a few keywords, by the name of the old tool, with a word that stands in
another memory. Nothing that ranks may be tuned with these questions in view: what that gives is no measurement.

- `exact`: in words that stand in the memory.
- `paraphrased`: the same thing said differently. For half of them, which are marked `distant`, no word of the memory is
  left, which a test checks: whoever goes by words alone cannot find these.
- `superseded`: about what changed. The value of today must come back, and the former one must not.
- `other`: known, but about somebody else. Nothing should come back, and nothing of the other's ever.
- `unanswerable`: known of nobody. Nothing should come back.

Thirty to sixty questions a kind are few: every share is reported with its interval (Wilson, 95 %).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

Kind = Literal["exact", "paraphrased", "superseded", "other", "unanswerable"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SILENT: tuple[Kind, ...] = ("other", "unanswerable")  # the right answer is none
_DISTANT = "distant"


class Write(NamedTuple):
    """One memory as it is stored; a later write of the same key takes its place."""

    user: str
    key: str
    value: str


class Question(NamedTuple):
    """What somebody asks, and the key that answers it, which is empty where nothing does."""

    kind: Kind
    user: str
    text: str
    key: str = ""
    distant: bool = False


@dataclass(frozen=True, slots=True)
class Labelled:
    """The set: what to store, in this order; what holds in the end; and what to ask."""

    writes: tuple[Write, ...]
    current: Mapping[tuple[str, str], str]
    former: Mapping[tuple[str, str], frozenset[str]]
    questions: tuple[Question, ...]

    @property
    def users(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(write.user for write in self.writes))


@cache
def labelled() -> Labelled:
    """The set, read when it is first asked for."""
    text = files("warmstart.memory.evaluation").joinpath("labelled.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    versions = {
        (user, key): [value] if isinstance(value, str) else value
        for user, memories in data["memories"].items()
        for key, value in memories.items()
    }
    rounds = range(max(map(len, versions.values())))
    # Former values first: what changed did so after everything else was known.
    writes = [
        Write(user, key, values[place])
        for place in rounds
        for (user, key), values in versions.items()
        if place < len(values)
    ]
    return Labelled(
        writes=tuple(writes),
        current={place: values[-1] for place, values in versions.items()},
        former={place: frozenset(values[:-1]) for place, values in versions.items() if len(values) > 1},
        questions=tuple(
            Question("paraphrased" if kind == _DISTANT else kind, user, text, "".join(key), kind == _DISTANT)
            for kind, questions in data["questions"].items()
            for user, text, *key in questions
        ),
    )
