"""Which names are public: of programs, exceptions, linter rules and models that everybody has.

An error signature by a rule with a literal text is one of a closed set, whoever meets the error; so are placeholders,
exit codes, error codes and the names of common programs. Anything else is the text of a message and may say anything. A
model that somebody tuned, renamed or hosts has any name they like, so a name with an unknown word in it is theirs. The
names are in `tables/public_names.toml`.
"""

from __future__ import annotations

import builtins
import errno
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from warmstart.profile.rules import load_table
from warmstart.profile.shell import common_programs


class PublicSignature(NamedTuple):
    """The public part of a signature, and whether words of the error message were left out.

    `names` are parts that somebody may have made up: the class of an exception, the rule of a linter.
    """

    text: str
    has_message: bool = False
    names: tuple[str, ...] = ()


_EXITED = re.compile(
    r"(?P<program>[a-z][\w+.-]*(?: [\w+.-]+){0,2})(?P<how>: (?:exit -?\d{1,9}(?:, no output)?|no output|failed))"
)
_LINT_RULE = re.compile(r"(?P<head>lint|mypy|ty|pyright): (?P<name>[\w@/:-]{1,80})")
_EXCEPTION = re.compile(r"(?P<name>(?:[A-Z][A-Za-z0-9]{1,60})?(?:Error|Exception|Warning))(?=: |$)")
_ERROR_CODE = re.compile(r"(E[A-Z0-9_]{2,20})(?=\W|$)")
_CAMEL_RULE = re.compile(r"(?:no|use)[A-Z][A-Za-z]{1,60}|report[A-Z][A-Za-z]{1,60}")


def public_signature(signature: str) -> PublicSignature:
    """The public part of a signature. `ValueError: no Carol` gives `ValueError` and that there was a message."""
    if signature in _literals() or _forms().fullmatch(signature):
        return PublicSignature(signature)
    if found := _EXITED.fullmatch(signature):
        return PublicSignature(f"{_program(found['program'])}{found['how']}")
    if found := _LINT_RULE.fullmatch(signature):
        name = found["name"]
        if not _is_public_rule(name):
            return PublicSignature(found["head"], True)
        return PublicSignature(signature, names=() if name in _names("lint_rules") else (name,))
    if (found := _EXCEPTION.match(signature)) and not (name := found["name"]).isupper():
        known = name in _names("exceptions") or isinstance(getattr(builtins, name, None), type)
        return PublicSignature(name, found.end() < len(signature), () if known else (name,))
    if (found := _ERROR_CODE.match(signature)) and _is_error_code(found[1]):
        return PublicSignature(found[1], found.end() < len(signature))
    found = _labels().match(signature)
    return PublicSignature(found[1] if found else "", True)


def is_public_signature(signature: str) -> bool:
    """Whether a signature has no words of an error message in it."""
    return not public_signature(signature).has_message


@cache
def _names(row: str, table: str = "signatures") -> frozenset[str]:
    return frozenset(load_table("public_names")[table][row].split())


@cache
def _forms() -> re.Pattern[str]:
    return re.compile("|".join(load_table("public_names")["signatures"]["forms"]))


@cache
def _labels() -> re.Pattern[str]:
    return re.compile(rf"({'|'.join(load_table('public_names')['signatures']['labels'])})(?=: | (?=\S))")


@cache
def _literals() -> frozenset[str]:
    return frozenset(_all_literals())


def _all_literals() -> Iterator[str]:
    """The signatures that rules give as they are."""
    table = load_table("signatures")
    for rows in table.values():
        if isinstance(rows, list):
            yield from (row[2] for row in rows if len(row) > 2 and "{" not in row[2])
    yield from (name for _, name in table["tool_errors"])
    yield from (f"Go compile error: {name}" for _, name in table["go"] if name)
    yield from (f"HTTP {status}: {reason}" for status, reason in table["http_reasons"].items())
    yield from ("no output", "gh pr checks: a check failed", "gh pr checks: checks are pending", "Validation error")


def _is_error_code(code: str) -> bool:
    return code in errno.errorcode.values() or code in _names("error_codes")


def _is_public_rule(rule: str) -> bool:
    plugin, _, own = rule.rpartition("/")
    if plugin in _names("lint_plugins"):
        return bool(re.fullmatch(r"[A-Za-z][A-Za-z-]{1,60}", own))
    opening, hyphen, _ = own.partition("-")
    known = own in _names("lint_rules") or bool(hyphen and opening in _names("lint_openings"))
    return not plugin and (known or bool(_CAMEL_RULE.fullmatch(own)))


def _program(label: str) -> str:
    """A program with its subcommand, each a placeholder unless it is common."""
    name, *rest = label.split()
    if name not in common_programs() and name not in _names("programs"):
        return "‹program›"
    return " ".join((name, *(word if word in _names("subcommands") else "‹name›" for word in rest)))


# -- models

_NUMBER = re.compile(r"[a-z]{0,2}\d+(?:p\d+)?[a-z]{0,3}")  # 4, v3, 4o, 70b, a22b, q4, v3p1
_JOINT = re.compile(r"[-_.:@ ]+")
_LETTERS = re.compile(r"[a-z]+")
_NOT_A_MODEL = frozenset(("", "<synthetic>", "unknown", "default", "auto"))
_OPENAI = re.compile(r"o\d")
_MAX_MODEL = 80


def is_public_model(name: str) -> bool:
    """Whether a vendor gave this name: a family, and besides it only sizes, versions and dates."""
    if name in _NOT_A_MODEL:
        return True
    words = [word for word in _JOINT.split(name.lower()) if word]
    return len(name) <= _MAX_MODEL and any(map(_is_family, words)) and all(map(_is_model_word, words))


def is_vendor(name: str) -> bool:
    """Whether a part before the name is a vendor's or a host's, which many share."""
    return name.lower() in _names("vendors", "models")


def _is_family(word: str) -> bool:
    if _OPENAI.fullmatch(word):
        return True
    found = _LETTERS.match(word)
    return bool(
        found and found[0] in _names("families", "models") and (found[0] == word or word[found.end()].isdigit())
    )


def _is_model_word(word: str) -> bool:
    return word in _names("words", "models") or is_vendor(word) or bool(_NUMBER.fullmatch(word)) or _is_family(word)
