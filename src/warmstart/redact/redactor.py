"""Find secrets in text and replace them.

A scan with an Aho-Corasick automaton tells where anything could be; the rules look only there. Findings that overlap
are joined into one, so that no part of a secret survives because two rules disagree about where it ends.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Literal

from ahocorasick_rs import BytesAhoCorasick, Implementation

from warmstart.errors import ConfigError
from warmstart.redact.contexts import (
    Span,
    authorization,
    bearer,
    cookie,
    named_value,
    private_key,
    url_credentials,
    user_option,
)
from warmstart.redact.personal import email, home, phone
from warmstart.redact.values import REPLACEMENT, is_dummy
from warmstart.redact.vendors import SHAPES, Shape

Rule = Callable[[str, int], Iterator[Span]]
Personal = Literal["email", "phone", "user"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret: its kind, where it stands in the text, and a keyed fingerprint by which it is known again."""

    kind: str
    start: int
    end: int
    fingerprint: str

    @property
    def replacement(self) -> str:
        return f"[redacted:{self.kind}:{self.fingerprint[:4]}]"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and what they were."""

    text: str
    findings: tuple[Finding, ...]


class Redactor:
    """Finds and replaces secrets. `key` makes the fingerprints; without the key they say nothing about a secret.

    `personal` says which of e-mail addresses, phone numbers and user names in home directories to find as well.
    `patterns` are the user's own, kind to regular expression. A secret that contains one of `allow` is left alone.
    """

    def __init__(
        self,
        *,
        key: bytes = b"",
        personal: Collection[Personal] = (),
        patterns: Mapping[str, str] | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        self._key = key[:64]
        self._allow = tuple(allow)
        self._own = [(_kind(kind), _compiled(kind, pattern)) for kind, pattern in (patterns or {}).items()]
        shapes = [(anchor, _of_shape(shape)) for shape in SHAPES for anchor in shape.anchors]
        self._exact = _Scan([*shapes, *_EXACT.items(), *(row for name in personal for row in _PERSONAL[name])])
        self._words = _Scan(_WORDS.items())

    def find(self, text: str) -> list[Finding]:
        """The secrets in a text, in order, none overlapping another."""
        if len(text) < _SHORTEST:
            return []
        try:
            findings = self._look(text)
        except UnicodeEncodeError:
            text = _SURROGATE.sub("\ufffd", text)  # halves of pairs are no text; the places stay the same
            findings = self._look(text)
        found: list[Finding] = []
        # What stood beside a secret stands beside a bracket now, which may free a second one: look until all is quiet.
        while findings:
            found = _merged(found, findings)
            shown, places = _without(text, found)
            findings = [
                Finding(each.kind, places(each.start), places(each.end), each.fingerprint) for each in self._look(shown)
            ]
        return found

    def _look(self, text: str) -> list[Finding]:
        data = text.encode()
        exact, words = self._exact.hits(data, overlapping=True), self._words.hits(data.lower(), overlapping=True)
        if not (exact or words or self._own):
            return []
        spans = [*self._exact.spans(text, data, exact), *self._words.spans(text, data, words)]
        for kind, pattern in self._own:
            spans += (Span(*found.span(), kind) for found in pattern.finditer(text) if found.group())
        if not spans:
            return []
        joined = _joined(spans, _replaced(text))
        return [self._finding(text, span) for span in joined if not self._allowed(text, span)]

    def redact(self, text: str) -> Redacted:
        """The text with every secret replaced by `[redacted:KIND:abcd]`."""
        findings = self.find(text)
        return Redacted(_without(text, findings)[0] if findings else text, tuple(findings))

    def clean(self, text: str) -> str:
        """The text with every secret replaced, where nobody asks what they were."""
        return self.redact(text).text

    def _finding(self, text: str, span: Span) -> Finding:
        secret = text[span.start : span.end].encode()
        fingerprint = blake2b(secret, key=self._key, digest_size=8).hexdigest()
        return Finding(span.kind, span.start, span.end, fingerprint)

    def _allowed(self, text: str, span: Span) -> bool:
        secret = text[span.start : span.end]
        return any(allowed and allowed in secret for allowed in self._allow)


def redact(text: str, *, personal: Collection[Personal] = ()) -> Redacted:
    """Replace the secrets in a text, by the rules that Warmstart ships."""
    return _shipped(frozenset(personal)).redact(text)


class _Scan:
    """Anchors and the rules to try where they stand. Bytes are scanned three times as fast as text."""

    def __init__(self, rules: Iterable[tuple[str, Rule]]) -> None:
        by_anchor: dict[str, list[Rule]] = {}
        for anchor, rule in rules:
            by_anchor.setdefault(anchor, []).append(rule)
        self._rules = list(by_anchor.values())
        anchors = [anchor.encode() for anchor in by_anchor]
        self.hits = BytesAhoCorasick(anchors, implementation=Implementation.DFA).find_matches_as_indexes

    def spans(self, text: str, data: bytes, hits: list[tuple[int, int, int]]) -> Iterator[Span]:
        """What the rules find in `text`, whose bytes are `data`, at what the automaton hit in them."""
        if hits and len(data) != len(text):
            hits = _in_characters(hits, data)
        for number, start, _ in hits:
            for rule in self._rules[number]:
                yield from rule(text, start)


def _in_characters(hits: list[tuple[int, int, int]], data: bytes) -> list[tuple[int, int, int]]:
    """The hits with their places counted in characters; the text is gone through once, whatever their number."""
    placed = []
    at = characters = 0
    for number, start, end in sorted(hits, key=lambda hit: hit[1]):
        characters += len(data[at:start].decode())
        at = start
        placed.append((number, characters, end))
    return placed


def _of_shape(shape: Shape) -> Rule:
    def rule(text: str, at: int) -> Iterator[Span]:
        pattern = shape.pattern
        for start in range(max(0, at - shape.back), at - shape.least + 1):
            found = pattern.match(text, start)
            if found is not None:
                group = "secret" if "secret" in pattern.groupindex else 0
                if not is_dummy(found.group(group)):
                    yield Span(*found.span(group), shape.kind)
                return

    return rule


def _named(word: str) -> Rule:
    return lambda text, at: named_value(text, at, word)


_SECRET_WORDS = (
    *("password", "passwd", "passphrase", "pwd", "pswd", "secret", "token", "credential"),
    *("api_key", "apikey", "api-key", "access_key", "accesskey", "access-key"),
    *("private_key", "privatekey", "private-key", "signing_key", "encryption_key"),
    *("auth_key", "authkey", "master_key", "api key", "access key", "secret key", "license key", "identified by"),
)
# Words too common to look at wherever they stand: only where a value could follow at once.
_SHORT_WORDS = {
    word + end: word
    for word in ("key", "auth", "salt", "pass", "pw")
    for end in ("=", ":", " =", " :", '"', "'", "\\", ">", " is ")
} | {"key ": "key"}
_EXACT: dict[str, Rule] = {
    "-----BEGIN": private_key,
    "://": url_credentials,
    "-u": user_option,
    "--user": user_option,
    "--proxy-user": user_option,
}
_WORDS: dict[str, Rule] = {
    "authorization": authorization,
    "bearer": bearer,
    "cookie": cookie,
    **{word: _named(word) for word in _SECRET_WORDS},
    **{anchor: _named(word) for anchor, word in _SHORT_WORDS.items()},
}
_PERSONAL: dict[Personal, list[tuple[str, Rule]]] = {
    "email": [("@", email)],
    "phone": [("+", phone)],
    "user": [(root, home) for root in ("/Users/", "/home/", "\\Users\\")],
}
PERSONAL: frozenset[Personal] = frozenset(_PERSONAL)


def _kind(kind: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,40}", kind):
        raise ConfigError(f"the kind {kind!r} of a redaction pattern must be of small letters, digits and hyphens")
    return kind


def _compiled(kind: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"the redaction pattern {kind!r} is no regular expression: {error}") from error


def _replaced(text: str) -> list[tuple[int, int]]:
    """Where the text has replacements already; nothing inside or across them is a finding."""
    return [found.span() for found in REPLACEMENT.finditer(text)] if "[redacted:" in text else []


def _joined(spans: list[Span], replaced: list[tuple[int, int]]) -> Iterator[Span]:
    """The spans in order, those that overlap made one; of its kinds the one that covers most names it."""
    current: Span | None = None
    widest = 0
    for span in sorted(spans):
        if any(span.start < end and start < span.end for start, end in replaced):
            continue
        if current is None or span.start >= current.end:
            if current is not None:
                yield current
            current, widest = span, span.end - span.start
            continue
        if span.end - span.start > widest:
            widest = span.end - span.start
            current = current._replace(kind=span.kind)
        current = current._replace(end=max(current.end, span.end))
    if current is not None:
        yield current


def _merged(known: list[Finding], new: list[Finding]) -> list[Finding]:
    return sorted([*known, *new], key=lambda finding: finding.start)


def _without(text: str, findings: list[Finding]) -> tuple[str, Callable[[int], int]]:
    """The text with the findings replaced, and what tells the place in `text` of a place in the result."""
    parts: list[str] = []
    shifts: list[tuple[int, int]] = [(0, 0)]
    at = length = 0
    for finding in findings:
        parts += [text[at : finding.start], finding.replacement]
        length += finding.start - at + len(finding.replacement)
        at = finding.end
        shifts.append((length, at - length))
    places = [place for place, _ in shifts]
    return "".join([*parts, text[at:]]), lambda place: place + shifts[bisect_right(places, place) - 1][1]


_SHORTEST = 8  # `pw=` and a value of five is the least that is ever found
_SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def _shipped(personal: frozenset[Personal]) -> Redactor:
    return Redactor(personal=personal)
