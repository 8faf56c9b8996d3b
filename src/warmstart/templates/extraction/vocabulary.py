"""The values that are particular to one session, gathered from wherever its JSON names them by key.

What stands under an identifying key anywhere, in arguments or in results, is known from then on in every text of the
session: in the person's words, in prose, in a command. Work is bounded: a result of a megabyte is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from ahocorasick_rs import AhoCorasick, MatchKind

from warmstart.profile.tools import SHELLS, path_in
from warmstart.redact.contexts import NOBODY
from warmstart.sessions.values import clean
from warmstart.templates.extraction.identifying import Hint, hint_of, identifies, is_ordinary, names_person
from warmstart.templates.extraction.listed import listed
from warmstart.templates.extraction.walk import Walk

LONGEST = 200_000  # characters of JSON that are read
_PROSE = 2_000  # characters of other text in which labels are looked for
_MOST = 20_000  # values
_DEEPEST = 12

# Names that are words as well are only known as they are written in JSON.
_WORDS = listed(
    "mark rose grace will may june april august art bill rob sue pat drew hope joy faith dean grant chase jack ray "
    "young long brown green white black king park lane ford hill wood moss stone bush case page price read west north "
    "house home love best rich frank max sandy dawn eve ivy lily iris violet summer sky star miles cliff glen"
)
_LABELLED = re.compile(
    r"\b(user|customer|account|member(?:ship)?|order|reservation|booking|confirmation|ticket|invoice|tracking"
    r"|passport|payment|flight|claim|case)(?:[ _-](?:id|number|no\.?|code|reference))?(?: is| was|:|=)?[ \t]*"
    r"[\"'`(]?(?=[A-Z0-9_#-]*[0-9A-Z])([#A-Za-z0-9][\w-]{4,40})",
    re.IGNORECASE,
)
# Most texts have none of these words, and to look for them is quick.
_NAMING, _TITLING = ("ame is ", "ame:", "I am ", "I'm ", "his is "), ("Dr", "Mr", "Ms", "Prof")
_LABELS = (
    *("user", "customer", "account", "member", "order", "reservation", "booking", "confirmation", "ticket", "invoice"),
    *("tracking", "passport", "payment", "flight", "claim", "case"),
)
_NAMED = re.compile(
    r"\b(?:[Mm]y (?:full )?name is|I am|I'm|[Tt]his is|[Nn]ame:)[ \t]+"
    r"([A-Z][\w'-]{1,20}(?:[ \t]+[A-Z][\w'-]{1,20}){1,2})"
)
_TITLED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof)\.? (?=[A-Z])([A-Z][\w'’-]{1,20}(?: [A-Z][\w'’-]{1,20})?)")
_TITLES = listed("dr dr. mr mr. mrs mrs. ms ms. prof prof.")
_HOME = re.compile(r"(?:/Users/|/home/|\\Users\\)([A-Za-z0-9][\w.-]{2,40})")
_CODE = re.compile(r"(?=[^\W\d]*\d)[\w#-]{5,}|[A-Z]{5,8}")


class Vocabulary:
    """The values of a session with the names of their placeholders, and where they stand in a text."""

    def __init__(self, walk: Walk) -> None:
        self._types: dict[str, str] = {}
        self._regions: set[str] = set()
        self._gather(walk)
        self._known = tuple(self._types)
        self._scan = AhoCorasick(list(self._known), matchkind=MatchKind.LeftmostLongest) if self._known else None

    def type_of(self, value: str) -> str | None:
        """The name of the placeholder for a value; `None` for one that is not particular to the session."""
        return self._types.get(value)

    def spans(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        """Where values stand in a text: start, end, type, and the value by which they are counted."""
        if self._scan is None:
            return
        for number, start, end in self._scan.find_matches_as_indexes(text):
            if _stands_alone(text, start, end):
                value = self._known[number]
                yield start, end, self._types[value], value.lower()

    # -- gathering

    def _gather(self, walk: Walk) -> None:
        project = clean(walk.session.project).rstrip("/")
        for folder in dict.fromkeys((project, clean(walk.session.directory).rstrip("/"))):
            if folder.count("/") > 1:
                self._add(folder, "project")
        home = _HOME.search(project)
        if home and not (is_ordinary(home[1]) or home[1].lower() in NOBODY | _WORDS):
            self._add(home[1], "user")
        for step in walk.taken:
            self._read(step.call.arguments)
            self._read(step.text, prose=step.call.name not in SHELLS and not path_in(step.call.arguments))
        for request in walk.requests:
            self._labelled(request.text)

    def _read(self, text: str, *, prose: bool = False) -> None:
        if len(self._types) > _MOST:
            return
        if text[:1] in "{[" and text and len(text) <= LONGEST:
            try:
                self._take(msgspec.json.decode(text), "", "", 0)
                return
            except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
                pass
        if prose and len(text) > 1:
            self._labelled(text[:_PROSE])

    def _take(self, value: object, key: str, parent: str, depth: int) -> None:
        if depth > _DEEPEST:
            return
        if isinstance(value, dict):
            person = "name" in value and names_person(value)
            for name, part in value.items():
                if person and name == "name" and isinstance(part, str):
                    self._person(part, "name")
                if isinstance(part, dict) and _is_code(name):
                    self._add(name, f"{key.removesuffix('s') or 'item'}_id")
                self._take(part, name, key or parent, depth + 1)
        elif isinstance(value, list):
            for part in value[:400]:
                self._take(part, key, parent, depth + 1)
        elif isinstance(value, str) and (hint := hint_of(key, parent)):
            self._learn(value, hint)
        elif isinstance(value, int) and value > 9999 and (hint := hint_of(key, parent)) and hint.sure:
            self._add(str(value), hint.type)

    def _learn(self, value: str, hint: Hint) -> None:
        if not identifies(value, hint):
            return
        if hint.type.endswith("name"):
            self._person(value, hint.type)
        elif hint.everywhere:
            self._add(value, hint.type)

    def _person(self, value: str, type: str) -> None:
        self._add(value, type)
        parts = [part for part in value.split() if part.lower() not in _TITLES]
        for part in parts if len(parts) < 4 else ():
            if len(part) < 3 and len(parts) > 1:
                continue
            if len(parts) > 1:
                self._add(part, type)
            if part.lower() not in _WORDS and len(part) > 2:
                self._add(part.lower(), type)
                self._add(part.upper(), type)

    def _labelled(self, text: str) -> None:
        small = text.lower()
        for found in _LABELLED.finditer(text) if any(label in small for label in _LABELS) else ():
            value = found[2]
            if _CODE.fullmatch(value) and any(c.isdigit() or c.isupper() for c in value[1:]) and "{{" not in value:
                self._add(value, f"{found[1].lower()}_id")
        for pattern, signs in ((_NAMED, _NAMING), (_TITLED, _TITLING)):
            for found in pattern.finditer(text) if any(sign in text for sign in signs) else ():
                self._person(found[1], "name")

    def _add(self, value: str, type: str) -> None:
        if len(self._types) <= _MOST and len(value.strip()) > 1:
            self._types.setdefault(value, type)


def _is_code(name: str) -> bool:
    return len(name) >= 5 and bool(
        re.fullmatch(r"[a-z]+(?:_[a-z]+)*_\d{4,}|#?[A-Z]{0,3}\d{4,}|(?=\D*\d)[A-Z0-9]{6}", name)
    )


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
