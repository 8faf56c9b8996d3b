"""Pseudonyms for a published dataset: public names stay, and everything else becomes a keyed hash.

The same name gives the same hash, and nobody can check a guess without the key. Public are the texts of our own rules;
programs, exceptions, linter rules and models that everyone knows; and tools that come with an agent or have a common
name. Any other name may identify someone. The public names are in `tables/public_names.toml`.
"""

from __future__ import annotations

import builtins
import errno
import re
from collections.abc import Iterator
from functools import cache, partial
from hashlib import blake2b
from typing import Literal, NamedTuple

from warmstart.profile.rules import load_table, pattern, word_set
from warmstart.profile.tools import common_programs, known_tools
from warmstart.sessions.values import clean

Named = Literal["session", "project", "server", "tool", "model", "signature", "template", "name"]

_SEPARATOR = re.compile(r"[/\\]+")
_names = partial(word_set, "public_names", "signatures")
_model_names = partial(word_set, "public_names", "models")
_VERSION = re.compile(r"v?\d+(?:[.-]\d+)*")
_MCP = re.compile(r"mcp__(?P<server>.+?)(?:__(?P<tool>(?:(?!__).)+))?")
_CALLED = re.compile(r"(?:functions\.)?([\w.]+?)(?::\d+)?")  # as some hosts write a tool: `functions.exec:0`


class Pseudonyms:
    """Replaces names that are not public by hashes with the caller's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key[:64]

    def hash(self, named: Named, name: str, *, digits: int = 16) -> str:
        """The keyed hash of a name, in hexadecimal digits; empty for an empty name."""
        if not name:
            return ""
        data = clean(name).encode()
        return blake2b(data, key=self._key, person=named.encode(), digest_size=digits // 2).hexdigest()

    def tool(self, name: str) -> str:
        """The name of a well-known tool; for an MCP tool, hashes of server and tool; for any other tool, a hash."""
        called = _CALLED.fullmatch(name)
        if not name or (called and called[1] in known_tools()):
            return name
        if found := _MCP.fullmatch(name):
            server = self.hash("server", found["server"], digits=8)
            tool = self.hash("tool", found["tool"] or "", digits=8)
            return f"mcp__{server}{tool and '__'}{tool}"
        return f"other:{self.hash('tool', name, digits=8)}"

    def model(self, name: str) -> str:
        """The name of a vendor's model, without an unknown host; for any other model, a hash."""
        *places, last = _SEPARATOR.split(name.rstrip("/\\"))
        if is_public_model(last):
            return "/".join((*places, last)) if all(map(is_vendor, places)) else last
        base = name.split(":")[1] if name.startswith("ft:") else ""
        shown = f"ft:{base}" if base and is_public_model(base) else "other"
        return f"{shown}:{self.hash('model', name, digits=8)}"

    def signature(self, text: str) -> str:
        """An error signature: its public part, followed by a hash of the whole if that is not all of it."""
        public, complete = public_signature(text) if text else ("", True)
        return public if complete else f"{public} other:{self.hash('signature', text, digits=8)}".lstrip()


def public_version(text: str) -> str:
    """The numbers of a version, without a suffix that someone may have added."""
    found = _VERSION.match(text)
    return found[0] if found else ""


# -- error signatures

_EXITED = re.compile(
    r"(?P<program>[a-z][\w+.-]*(?: [\w+.-]+){0,2})(?P<how>: (?:exit -?\d{1,9}(?:, no output)?|no output|failed))"
)
_LINT_RULE = re.compile(r"(?P<linter>lint|mypy|ty): (?:(?P<plugin>[\w@/-]+)/)?(?P<rule>[A-Za-z-]{1,80})")
_OPENING = re.compile(r"\w+")


class PublicSignature(NamedTuple):
    """The public part of a signature, and whether it is all of it."""

    text: str
    complete: bool


def public_signature(signature: str) -> PublicSignature:
    """The public part of a signature: `ValueError` of `ValueError: no Carol`."""
    if signature in _literals() or pattern("public_names", "forms").fullmatch(signature):
        return PublicSignature(signature, True)
    if found := _EXITED.fullmatch(signature):
        return PublicSignature(f"{_public_program(found['program'])}{found['how']}", True)
    if found := _LINT_RULE.fullmatch(signature):
        known = found["plugin"] in _names("lint_plugins") if found["plugin"] else found["rule"] in _names("lint_rules")
        return PublicSignature(signature if known else found["linter"], known)
    if (found := _OPENING.match(signature)) and found[0] in _error_names():
        return PublicSignature(found[0], found.end() == len(signature))
    found = pattern("public_names", "labels", "(", r")(?=: | (?=\S))").match(signature)
    return PublicSignature(found[1] if found else "", False)


@cache
def _error_names() -> frozenset[str]:
    """Exceptions and error codes that everyone knows."""
    classes = (name for name, value in vars(builtins).items() if isinstance(value, type))
    return _names("errors").union(errno.errorcode.values(), (name for name in classes if name[0].isupper()))


@cache
def _literals() -> frozenset[str]:
    """The signatures that are constants in the rules."""

    def rows() -> Iterator[str]:
        table = load_table("signatures")
        for group in table.values():
            if isinstance(group, list):
                yield from (row[2] for row in group if len(row) > 2 and "{" not in row[2])
        yield from (name for _, name in table["tool_errors"])
        yield from (f"Go compile error: {name}" for _, name in table["go"] if name)
        yield from (f"HTTP {status}: {reason}" for status, reason in table["http_reasons"].items())
        yield from ("no output", "gh pr checks: a check failed", "gh pr checks: checks are pending", "Validation error")

    return frozenset(rows())


def _public_program(label: str) -> str:
    """A program with its subcommand; each becomes a placeholder unless it is well known."""
    name, *rest = label.split()
    if name not in common_programs() and name not in _names("programs"):
        return "‹program›"
    return " ".join((name, *(word if word in _names("subcommands") else "‹name›" for word in rest)))


# -- models: a fine-tuned, renamed or self-hosted model can have any name, so one with an unknown word is private

_NUMBER = re.compile(r"[a-z]{0,2}\d+(?:p\d+)?[a-z]{0,3}")  # 4, v3, 4o, 70b, a22b, q4, v3p1
_JOINT = re.compile(r"[-_.:@ ]+")
_FAMILY = re.compile(r"([a-z]+)(?:\d.*)?")
_NOT_A_MODEL = frozenset(("", "<synthetic>", "unknown", "default", "auto"))
_MAX_MODEL = 80


def is_public_model(name: str) -> bool:
    """Whether this is a vendor's name for a model: a family, and otherwise only sizes, versions and dates."""
    parts = [word for word in _JOINT.split(name.lower()) if word]
    families = [found for word in parts if (found := _FAMILY.fullmatch(word)) and found[1] in _model_names("families")]
    others = set(parts) - {found[0] for found in families}
    known = _model_names("words") | _model_names("vendors")
    return name in _NOT_A_MODEL or (
        len(name) <= _MAX_MODEL and bool(families) and all(word in known or _NUMBER.fullmatch(word) for word in others)
    )


def is_vendor(name: str) -> bool:
    """Whether the prefix of a model's name is a public vendor or host."""
    return name.lower() in _model_names("vendors")
