"""What names a person: e-mail addresses, phone numbers, and user names in home directories. Off unless asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warmstart.redact.contexts import Span, after_escape

_LOCAL = re.compile(r"[A-Za-z0-9._%+-]{1,64}$")
_DOMAIN = re.compile(r"@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_PHONE = re.compile(r"(?<![\w+])\+[1-9][0-9]{0,3}(?:[ .()-]{0,2}[0-9]{2,4}){2,5}(?![\w])")
_HOME = re.compile(r"(?:/Users/|/home/|\\{1,4}Users\\{1,4})(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,40})")
NOBODY = {"shared", "public", "default", "runner", "user", "root", "ubuntu", "linuxbrew", "app"}


def email(text: str, at: int) -> Iterator[Span]:
    """An e-mail address; `at` is the place of its `@`."""
    domain = _DOMAIN.match(text, at)
    local = _LOCAL.search(text[max(0, at - 64) : at])
    if domain and local and not local.group().startswith("."):
        start = after_escape(text, at - len(local.group()))
        if start < at:
            yield Span(start, domain.end(), "email")


def phone(text: str, at: int) -> Iterator[Span]:
    """A phone number in the international form."""
    found = _PHONE.match(text, at)
    if found and 8 <= sum(c.isdigit() for c in found.group()) <= 15:
        yield Span(*found.span(), "phone")


def home(text: str, at: int) -> Iterator[Span]:
    """The user's name in the path of a home directory."""
    found = _HOME.match(text, at)
    if found and found["name"].lower() not in NOBODY:
        yield Span(*found.span("name"), "user")
