"""Find secrets in text and replace them.

A scanner finds the keywords near which a secret could be; the rules look only there. Findings that overlap are merged,
so that no part of a secret survives because two rules disagree about where it ends.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import warmstart.redact.contexts as contexts
import warmstart.redact.rules as rules
from warmstart.config import HOME_VARIABLE, Settings
from warmstart.errors import ConfigError
from warmstart.redact.assignments import named_value
from warmstart.redact.rules import PATTERNS, Find, Span, has_letters_and_digits, is_placeholder, is_random
from warmstart.text.scanner import Hit, Keywords, Rule, in_characters

Personal = Literal["email", "phone", "user"]

MIN_LENGTH = 8  # no rule finds anything shorter than `pw=` and five characters
MAX_PASSES = 4
_MARKER = "[redacted:x:0000]"
_BACK = 160  # characters before a keyword that a rule sees
_FILLER = "\0"  # replaces a colour code; rules ignore it
_COLOURS = ("\x1b[", "\\u001b[", "\\x1b[", "\\033[", "\\e[")
_MEANING = {"n": "\n", "r": "\n", "t": "\t", '"': '"', "'": "'", "`": "`"}


class Finding(NamedTuple):
    """A secret: its kind, its position, and a keyed fingerprint that identifies it."""

    kind: str
    start: int
    end: int
    fingerprint: str

    @property
    def replacement(self) -> str:
        return f"[redacted:{self.kind}:{self.fingerprint[:4]}]"


class Redacted(NamedTuple):
    """A text without its secrets, and the findings."""

    text: str
    findings: tuple[Finding, ...]


class Redactor:
    """Finds and replaces secrets. Fingerprints are keyed with `key`: they reveal nothing to those who do not have it.

    `personal` adds e-mail addresses, phone numbers or user names in home directories. `patterns` are the user's own,
    kind to regular expression. A secret that contains one of `allow` is not replaced.
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
        self._allow = tuple(each for each in allow if each)
        self._own = [(kind, _compile(kind, pattern)) for kind, pattern in (patterns or {}).items()]
        # The arguments as plain values, to create the same redactor in another process.
        self.options = {"key": key, "personal": [*personal], "patterns": dict(patterns or {}), "allow": [*self._allow]}
        self._exact = _Scanner([*_EXACT, *(row for name in personal for row in _context_rows(name))])

    def find(self, text: str) -> list[Finding]:
        """The secrets in a text, in order; none overlaps another."""
        spans: list[Span] = []
        shown = text
        to_original: Callable[[int], int] = int
        for _ in range(MAX_PASSES if len(text) >= MIN_LENGTH else 0):
            data = shown.encode(errors="replace")  # lone surrogates
            new: list[Span] = []
            for scanner, scanned in ((self._exact, data), (_FLAT, data.lower())):
                if hits := scanner.keywords.find_bytes(scanned):
                    new += scanner.spans(shown, scanned, hits)
            for kind, pattern in self._own:
                new += (Span(*found.span(), kind) for found in pattern.finditer(shown) if found.group())
            if new:
                new = [span for span in _cut_markers(shown, new) if not self._is_allowed(shown, span)]
            if not new:
                break
            new = [Span(to_original(start), to_original(end), kind) for start, end, kind in new]
            spans = [*_join(text, [*spans, *new, *_find_repeats(text, new)])]
            # Text next to a secret is now next to a bracket, which may reveal another secret.
            shown, to_original = _replace(text, [(start, end, _MARKER) for start, end, _ in spans])
        return [self._finding(text, span) for span in spans if not self._is_allowed(text, span)]

    def redact(self, text: str) -> Redacted:
        """The text with every secret replaced by `[redacted:KIND:abcd]`, and the secrets found."""
        if not (findings := self.find(text)):
            return Redacted(text, ())
        replaced, _ = _replace(text, [(each.start, each.end, each.replacement) for each in findings])
        return Redacted(replaced, tuple(findings))

    def clean(self, text: str) -> str:
        """The text with every secret replaced."""
        return self.redact(text).text

    def _finding(self, text: str, span: Span) -> Finding:
        secret = text[span.start : span.end].encode(errors="replace")
        return Finding(span.kind, span.start, span.end, blake2b(secret, key=self._key, digest_size=8).hexdigest())

    def _is_allowed(self, text: str, span: Span) -> bool:
        return bool(self._allow) and any(allowed in text[span.start : span.end] for allowed in self._allow)


_builtin = cache(Redactor)


def redact(text: str) -> Redacted:
    """Replace the secrets in a text, with the built-in rules."""
    return _builtin().redact(text)


def configured_redactor(settings: Settings, *, personal: Collection[Personal] = ()) -> Redactor:
    """The redactor for the user's settings. Raises `ConfigError` for an invalid pattern."""
    key = b""
    with suppress(ConfigError):  # secrets are replaced even if no key can be stored
        key = load_key(settings.home / "redact.key")
    return Redactor(key=key, personal=personal, patterns=settings.redact_patterns, allow=settings.redact_allow)


def load_key(path: Path) -> bytes:
    """The key in this file, created on first use. Raises `ConfigError` if it cannot be read or created."""
    try:
        if not path.exists():
            _create_key(path)
        key = path.read_bytes().strip()[:64]
    except OSError as error:
        advice = f"check the permissions there, or set {HOME_VARIABLE}"
        raise ConfigError(f"cannot read or create the key {str(path)!r} ({error.strerror}); {advice}") from error
    if not key:
        raise ConfigError(f"the key {str(path)!r} is empty; delete the file to get a new one")
    return key


def _create_key(path: Path) -> None:
    """Write a draft and link it into place: if two processes do this, both end up with the same key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.touch(0o600)
        draft.write_bytes(os.urandom(32).hex().encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


class _Scanner:
    """Keywords, the functions to try at each, and how far ahead those read (0 = no limit).

    A function with a limit sees only the text around its keyword, so that its results can be cached.
    """

    def __init__(self, rows: Iterable[tuple[str, Find, int]], *, flat: bool = False) -> None:
        by_keyword: dict[str, list[Find]] = {}
        reach: dict[str, int] = {}
        for keyword, find, ahead in rows:
            by_keyword.setdefault(keyword, []).append(find)
            reach[keyword] = max(reach.get(keyword, 0), ahead)
        self._finds, self._reach, self._flat = list(by_keyword.values()), list(reach.values()), flat
        self.keywords = Keywords(by_keyword)
        self._judge = lru_cache(2048)(self._spans_at)

    def spans(self, text: str, data: bytes, hits: list[Hit]) -> Iterator[Span]:
        """The findings at the keywords in `text`; `data` is its UTF-8, perhaps in lower case."""
        low, high, view, length = 0, 0 if self._flat else len(text), text, len(text)
        ends, reach, judge, judge_all = [0] * len(self._finds), self._reach, self._judge, self._spans_at
        for number, start, _ in hits if len(data) == length else in_characters(hits, data):
            if start < ends[number]:
                continue  # inside a finding of the same keyword
            ahead = reach[number]
            if start + (ahead or length) > high < length:
                low, high = max(0, start - _BACK), start + 4 * (ahead or length)
                view = flatten(text[low:high])
            at = start - low
            begin = at - _BACK if ahead and at > _BACK else 0
            spans = judge(number, view[begin : at + ahead], at - begin) if ahead else judge_all(number, view, at)
            for span in spans:
                end = span.end + low + begin
                if end == start + ahead and (rest := PATTERNS.long_rest.match(text, end)):
                    end = rest.end()  # a secret longer than the limit
                if end > ends[number]:
                    ends[number] = end
                yield Span(span.start + low + begin, end, span.kind)

    def _spans_at(self, number: int, text: str, at: int) -> list[Span]:
        return [span for find in self._finds[number] for span in find(text, at)]


def flatten(text: str) -> str:
    r"""Decode escapes, entities and percent-encodings and blank out colour codes, keeping the length of the text.

    In agents' logs a quote may be `\"`, `\\\"`, `&quot;`, `%22` or `\u0022`. Rules see plain quotes instead, at the
    same positions as in the original text.
    """
    if any(colour in text for colour in _COLOURS):
        text = PATTERNS.colour.sub(lambda found: _FILLER * len(found.group()), text)
    if "\\\\" in text:
        text = PATTERNS.nested.sub(lambda found: _MEANING[found.group()[-1]] * len(found.group()), text)
    for prefix, pairs in rules.ESCAPES.items():
        if prefix in text:
            for coded, meaning in pairs:
                text = text.replace(coded, meaning * len(coded))
    return text


def _shape(shape: Rule, distances: Sequence[int], text: str, at: int) -> Iterator[Span]:
    """A key of a known shape, up to the end of the token. It cannot start in the middle of a word."""
    for begin in (at - distance for distance in distances if distance <= at):
        glued = text[begin].isalnum() and text[begin - 1 : begin].isascii() and text[begin - 1 : begin].isalnum()
        if glued and not PATTERNS.escape_before.search(text, max(0, begin - 8), begin):
            continue
        if found := shape.regex.match(text, begin):
            start, end = found.span("secret" if "secret" in found.re.groupindex else 0)
            rest = PATTERNS.token_rest.match(text, end)
            if rest and not PATTERNS.masked.search(text[start:end]):  # an example key in documentation
                yield Span(start, rest.end(), shape.meaning)
            return


def _place(place: Rule, text: str, at: int) -> Iterator[Span]:
    """A secret that is recognised by its context."""
    found = place.regex.match(text, at)
    if found and not is_placeholder(found["secret"]) and not (found["secret"].isdigit() and len(found["secret"]) < 6):
        yield Span(*found.span("secret"), place.meaning)


def _context_rows(name: str) -> list[tuple[str, Find, int]]:
    rows = rules.CONTEXTS[name]
    return [(keyword, getattr(contexts, rule), ahead) for rule, keywords, ahead in rows for keyword in keywords]


# Words that are too common to check everywhere: only where a value could follow directly.
_ENDS = ("=", ":", " =", " :", '"', "'", "\\", "&quot;", "%", ">", " is ", " | ", "\x1b")
_NAMED = [(word, word) for word in (rules.PASSWORD_NAMES | rules.SECRET_NAMES) - rules.SHORT_NAMES]
_NAMED += [(word + end, word) for word in rules.SHORT_NAMES for end in _ENDS] + [("key ", "key")]
_EXACT: list[tuple[str, Find, int]] = [
    *((keyword, partial(_shape, *shape), 500) for shape in rules.SHAPES for keyword in shape[0].keywords),
    *((keyword, contexts.encoded_key, 0) for keyword in rules.ENCODED_KEYS),
    *_context_rows("exact"),
]
_FLAT = _Scanner(
    [
        *((keyword, partial(_place, place), reach) for place, reach in rules.PLACES for keyword in place.keywords),
        *_context_rows("flat"),
        *((keyword, partial(named_value, word=word), 440) for keyword, word in _NAMED),
    ],
    flat=True,
)
PERSONAL: frozenset[Personal] = frozenset(get_args(Personal))


def _compile(kind: str, pattern: str) -> re.Pattern[str]:
    if not re.fullmatch(r"[a-z0-9-]{1,40}", kind):
        raise ConfigError(f"name the redaction pattern {kind!r} with lowercase letters, digits and hyphens only")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"the redaction pattern {kind!r} is not a regular expression: {error}") from error


def _cut_markers(text: str, spans: list[Span]) -> Iterator[Span]:
    """The spans without existing replacements: no part of a replacement is a finding."""
    markers = [found.span() for found in PATTERNS.replacement.finditer(text)] if "[redacted:" in text else []
    ends = [end for _, end in markers]
    for span in spans:
        at = bisect_right(ends, span.start)
        if at == len(markers) or markers[at][0] >= span.end:
            yield span
        elif markers[at][0] > span.start and text[span.start : markers[at][0]].isalnum():
            yield span._replace(end=markers[at][0])


def _find_repeats(text: str, spans: list[Span]) -> list[Span]:
    """The other occurrences of these secrets, even without a name next to them."""
    secrets = {text[a:b]: kind for a, b, kind in spans if b - a >= MIN_LENGTH and text[a:b].isprintable()}
    known = {each: kind for each, kind in secrets.items() if is_random(each[:400]) or has_letters_and_digits(each)}
    if not known:
        return []
    starts, names = {span.start for span in spans}, [*known]
    hits = Keywords(known, once=True).find(text)
    return [Span(at, end, known[names[number]]) for number, at, end in hits if at not in starts]


def _join(text: str, spans: list[Span]) -> Iterator[Span]:
    """The spans in order, with overlapping ones merged. A merged span has the kind of its widest part."""
    first = last = widest = 0
    name = ""
    for start, end, kind in sorted(_skip_escape(text, span) for span in spans):
        if start >= last:
            if last:
                yield Span(first, last, name)
            first, last, widest, name = start, end, end - start, kind
            continue
        if end - start > widest:
            widest, name = end - start, kind
        last = max(last, end)
    if last:
        yield Span(first, last, name)


def _skip_escape(text: str, span: Span) -> Span:
    """The span without the letter of an escape sequence, whose backslash would be left over."""
    if span.start and text[span.start - 1] == "\\" and (escape := PATTERNS.escape.match(text, span.start)):
        return span._replace(start=min(escape.end(), span.end - 1))
    return span


def _replace(text: str, replacements: Iterable[tuple[int, int, str]]) -> tuple[str, Callable[[int], int]]:
    """Replace parts of a text. Also returns a function from a position in the result to its position in `text`."""
    parts: list[str] = []
    lengths, shifts = [0], [0]
    at = length = 0
    for start, end, replacement in replacements:
        parts += [text[at:start], replacement]
        length += start - at + len(replacement)
        at = end
        lengths.append(length)
        shifts.append(at - length)
    return "".join([*parts, text[at:]]), lambda place: place + shifts[bisect_right(lengths, place) - 1]
