"""Values next to a name that suggests a secret: `password=...`, `"api_key": "..."`, `| DB_PASSWORD | ... |`.

Such a value is a secret unless it is clearly something else: a placeholder, code, a path, a number, a word. All
patterns read flattened text, in which every quote is a plain one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from warmstart.redact.rules import (
    COMMON_NAMES,
    PASSWORD_NAMES,
    PATTERNS,
    Span,
    has_letters_and_digits,
    is_mixed,
    is_noise,
    is_path,
    is_placeholder,
    is_random,
    is_token,
)

_NAME_CHARACTERS = string.ascii_letters + string.digits + "_.-"
# Matches up to the closing quote, with any punctuation, but never past a double quote, so that JSON stays valid.
_QUOTED = {quote: re.compile(rf"(?:[^\s\"\\{quote}]|\\{{1,2}}[^\s\w\"'`\\]){{4,4000}}(?={quote})") for quote in "\"'`"}
_SPACED = {quote: re.compile(rf"[^\r\n\"\\{quote}]{{12,200}}(?={quote})") for quote in "\"'`"}


def named_value(text: str, at: int, word: str) -> Iterator[Span]:
    """Yield the secret assigned to the name that contains `word` at this position."""
    found = PATTERNS.after_name.match(text, at + len(word))
    if found is None:
        return
    name_start = at - len(text[max(0, at - 40) : at]) + len(text[max(0, at - 40) : at].rstrip(_NAME_CHARACTERS))
    name = text[name_start : found.end("suffix")]
    if not _may_name_secret(name, word) or PATTERNS.page.search(text, max(0, name_start - 12), name_start):
        return
    is_sure = _names_secret(name, at - name_start, word, found["suffix"])
    if is_sure is None:
        return
    start, left, sign, is_password = found.end(), text[:name_start][-1:], found["assign"] or "", word in PASSWORD_NAMES
    place = _Place(text, name_start, start, name, word, found, is_sure, is_password, left, sign)
    kind = "password" if is_password else "secret"
    if text.startswith("[redacted:", start):
        yield from (Span(*piece, kind) for piece in _after_markers(text, start))
    elif ">" in sign and (words := _words_of_element(text, start)):
        yield from (Span(*each, kind) for each in words)
    elif (value := place.value()) and place.is_secret(value):
        yield Span(start, start + len(value), kind)
    elif sign and (literal := PATTERNS.fallback.match(text, start)) and place.is_fallback(literal["value"]):
        yield Span(*literal.span("value"), kind)


class _Place(NamedTuple):
    """A name that suggests a secret, and where its value begins."""

    text: str
    start: int  # of the name
    at: int  # of the value
    name: str
    word: str
    found: re.Match[str]
    is_sure: bool  # whether the name certainly means a secret; if not, only an unmistakable value counts
    is_password: bool
    left: str  # the character before the name
    sign: str  # the assignment operator, if there is one

    @property
    def is_env(self) -> bool:
        """`DB_PASSWORD=value`, `?token=value`, `--password=value`, or just `password=value`: the value is not code."""
        sign = self.sign.strip("\0*")
        if self.found["close"].strip("\0*") or sign.strip() not in ("=", "===", ":", ":-"):  # `===` was `%3D`
            return self.name.startswith("--")
        if self.name.isupper() or self.left in ("?", "&") or self.name.startswith("--"):
            return True
        return sign in ("=", ":", ":-") and self.left != "(" and bool(PATTERNS.alone.match(self.text, self.at))

    def value(self) -> str:
        """The part of the value that could be a secret; empty if none can."""
        quote = (self.found["open"] or "")[-1:]
        if quote:
            whole = _QUOTED[quote].match(self.text, self.at) or _SPACED[quote].match(self.text, self.at)
            if whole and (" " not in whole.group() or is_noise(whole.group())):
                return whole.group()
        elif self.found["close"].strip("\0*])") and ":" in self.sign:
            return ""  # a quoted name with a bare value: in JSON a number or a constant
        bare = PATTERNS.bare.match(self.text, self.at)
        value = self._trim(bare.group()) if bare else ""
        return value if not quote or is_random(value) else ""  # an unclosed quote may itself close a string

    def _trim(self, value: str) -> str:
        """The token without what follows it; empty if it is a call, an index or a template."""
        if self.left in tuple("?&") or ("&" in value and "=" in value):
            value = value.partition("&")[0]
        for place, char in enumerate(value):
            if char in ")]}|" or value.startswith("[redacted:", place):
                value = value[:place]
                break
            if char in "([{" and PATTERNS.code.fullmatch(value, 0, place):
                return ""
        short = value.rstrip(".:")
        return value if value.endswith("..") and len(short) < 20 else short  # `sk-abc...` is no secret

    def is_secret(self, value: str, *, quoted: bool | None = None) -> bool:
        """Whether this value is the secret that the name suggests. It is, unless it is clearly something else."""
        quoted = bool(self.found["open"]) if quoted is None else quoted
        if len(value) < (4 if self.is_password else 8) or self._is_no_assignment():
            return False
        # A value that contains the same assignment is code or prose.
        if self.word in value.lower() and ("=" in value or ":" in value):
            return False
        if self.found["space"] and not self._is_stated(value, quoted):
            return False
        if is_noise(value):
            return True
        if self.is_password and value.isdigit():
            return self.is_sure and (quoted or self.is_env) and len(value) >= 6 and not is_placeholder(value)
        if is_placeholder(value) or PATTERNS.plain.fullmatch(value) or is_path(value, quoted and self.is_password):
            return False
        is_name = value.isalnum() or PATTERNS.code.fullmatch(value)
        if is_name and (self.word in value.lower() or value.lower() in self.name.lower()):
            return False  # `token=jwt_token`, `EXPIRED_PASSWORD = "expired"`
        if not quoted and self.sign and ">" not in self.sign and self._is_code(value):
            return False
        if self.word in COMMON_NAMES or not self.is_sure or self.found["block"] or self.found["call"]:
            return self._is_plainly_secret(value)
        if self.is_password:
            return self._is_password_value(value, quoted)
        if PATTERNS.uuid.fullmatch(value):
            # Amazon's ClientToken is an idempotency key that the caller makes up.
            return "client" not in self.name.lower() or self.word != "token"
        return is_token(value) or ((quoted or self.is_env) and is_mixed(value))

    def _is_plainly_secret(self, value: str) -> bool:
        """Whether this is unmistakable: one random token of letters and digits."""
        if self.is_password:
            return len(value) >= 8 and has_letters_and_digits(value) and not PATTERNS.no_password.fullmatch(value)
        words = value.count("-") > 1 and not (len(value) >= 24 and PATTERNS.groups.fullmatch(value))
        return len(value) >= 16 and not words and is_token(value) and any(map(str.isdigit, value))

    def is_fallback(self, value: str) -> bool:
        """Whether this literal after `||` or `or` is a secret. A long word is one, too."""
        is_word = len(value) >= 12 and value.isalpha() and not is_placeholder(value)
        return is_word or self.is_secret(value, quoted=True)

    def _is_no_assignment(self) -> bool:
        """Whether the name is part of an identifier (`arn:aws:secretsmanager:eu-1:1:secret:name`) or of a list."""
        if self.left == ":" == self.sign or self.text.endswith("/etc/", 0, self.start):
            return True
        if self.name.startswith("--"):
            return ":" in self.sign  # a CSS custom property
        return bool(self.found["comma"]) and not self.text[: self.start][-8:].rstrip(" \"'`").endswith("(")

    def _is_stated(self, value: str, quoted: bool) -> bool:
        """Whether `password VALUE` or `password is VALUE` states a secret, rather than being part of a sentence."""
        if self.name.startswith("-") or "\t" in self.found["space"]:
            return True
        if re.search(r"\w=[^=]", value):
            return False
        before = self.text[max(0, self.start - 120) : self.start]
        plain = PATTERNS.technical.sub("", value.rstrip(".,!?"))
        if self.found["space"].strip() or (self.name.isupper() and PATTERNS.command.search(before)):
            is_stated = quoted or self.name.isupper() or PATTERNS.stated.search(plain) is not None
            return is_random(value) or (is_mixed(value) and is_stated)
        has_digit = any(map(str.isdigit, value))
        if self.is_password and (quoted or (PATTERNS.sql.search(before) and self.word.isalpha())):
            return quoted or has_digit
        return len(value) >= 20 and is_random(value, 12) and has_digit

    def _is_code(self, value: str) -> bool:
        """Whether a bare value is an identifier in a program."""
        for part in re.split(r"[^A-Za-z0-9]+", value):
            if len(part) >= 8 and (is_random(part) or (len(part) >= 16 and PATTERNS.mixed.search(part))):
                return False
        if not PATTERNS.code.fullmatch(value) or (self.is_env and "." not in value):
            return False
        # Identifiers seldom end in two digits or have digits between letters; passwords often do.
        plain = PATTERNS.technical.sub("", value)
        has_digits = PATTERNS.inner_digit.search(plain) or (PATTERNS.end_digits.search(plain) and len(value) >= 6)
        return not (self.is_password and has_digits)

    def _may_be_word(self, quoted: bool) -> bool:
        """Whether a plain word here is a password, rather than an identifier or the next word of a sentence."""
        if len(self.word) <= 4 or PATTERNS.about_password.match(self.name):  # `pass` is also a verb
            return False
        if quoted:
            return bool(self.sign) or self.found["open"] in ('"', "'")
        if not self.sign or not self.is_env:
            return False
        return (self.name.isupper() and self.sign == "=") or bool(PATTERNS.line_end.match(self.text, self.at))

    def _is_password_value(self, value: str, quoted: bool) -> bool:
        """Whether a value looks like a password: letters with digits or punctuation, or a word that is not code."""
        if self.name.lower() == "pass" and not quoted:
            return is_random(value) or PATTERNS.mixed.search(PATTERNS.technical.sub("", value)) is not None
        if PATTERNS.no_password.fullmatch(value):
            return is_random(value) or (value.isalpha() and len(value) >= 6 and self._may_be_word(quoted))
        return quoted or self.is_env or is_random(value) or is_mixed(value)


def _may_name_secret(name: str, word: str) -> bool:
    """Whether a name that contains this word could name a secret."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return not PATTERNS.not_secret.search(snake) and not (word in COMMON_NAMES and PATTERNS.not_key.search(snake))


def _names_secret(name: str, at: int, word: str, suffix: str) -> bool | None:
    """Whether this name certainly means a secret. None for names that never do, such as `tokenizer` and `bypass`."""
    if PATTERNS.suffix.fullmatch(suffix):
        # `webtoken` and `bypass` are single words; `auth_token`, `authToken` and `db_pass` are not.
        whole = word in COMMON_NAMES or (word in PASSWORD_NAMES and len(word) > 4)
        sure = not at or whole or not name[at].islower() or PATTERNS.glued.search(name[:at])
        return True if sure else False if len(word) > 4 else None
    return None if suffix[0].islower() or PATTERNS.not_of_secret.search(suffix) else False


def _after_markers(text: str, at: int) -> list[tuple[int, int]]:
    """The rest of a value that has already been partly replaced."""
    while marker := PATTERNS.replacement.match(text, at):
        at = marker.end()
    rest = PATTERNS.bare_rest.match(text, at)
    return [rest.span()] if rest and rest.group()[:1].isalnum() and len(rest.group()) >= 4 else []


def _words_of_element(text: str, start: int) -> list[tuple[int, int]]:
    """The words that look random in an XML element of several words."""
    element = PATTERNS.element.match(text, start)
    if element is None or " " not in element.group():
        return []
    words = PATTERNS.word.finditer(text, *element.span())
    return [each.span() for each in words if PATTERNS.uuid.fullmatch(each.group()) or is_random(each.group())]
