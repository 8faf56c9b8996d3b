"""Markup that cannot forget to escape, and numbers as a page shows them.

Only `element` and `fragment` make `Markup` from data, and both escape whatever is not `Markup` already. A string made
in any other way, also one formatted from `Markup`, is plain text again: the mistake shows on the page instead of
running in it.
"""

from __future__ import annotations

import html
import math
import re
from typing import Final

NONE = "–"  # what stands where there is no number
_SPACE = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_TO = "\N{WORD JOINER}–\N{WORD JOINER}"  # no line breaks inside an interval
_VOID: Final = frozenset({"meta"})
# What XML has no place for, and what turns the direction of the text around it.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is markup already. Made from a constant, or by `element` and `fragment`."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element with its children. `None` leaves an attribute out; `class_` is `class`, `a_b` is `a-b`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{fragment(*children)}</{name}>")


def fragment(*children: str) -> Markup:
    """The children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else _escape(child) for child in children))


def _escape(text: str) -> str:
    return html.escape(_UNPRINTABLE.sub("", text), quote=True)


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def number(count: int) -> str:
    """`12,345`."""
    return f"{count:,}"


def short(count: int, *, limit: int = 1_000_000) -> str:
    """A count where there is little room: `12,345`, but `1.2M` from the limit on."""
    return number(count) if count < limit else f"{count / 1_000_000:,.1f}M"


def counted(count: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number(count)}{_SPACE}{noun}" if count == 1 else f"{number(count)}{_SPACE}{noun}s"


def percent(share: float | None) -> str:
    """`12.3 %`."""
    return NONE if share is None else f"{share * 100:.1f}{_SPACE}%"


def percents(low: float | None, high: float | None) -> str:
    """Both ends of an interval, and the unit once."""
    return NONE if low is None or high is None else f"{low * 100:.1f}{_TO}{high * 100:.1f}{_SPACE}%"


def points(difference: float | None) -> str:
    """The difference of two shares in percentage points: `+2.1`."""
    if difference is None:
        return NONE
    text = f"{difference * 100:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text.replace("-", _MINUS)


def ratio(value: float | None) -> str:
    """`1.83`."""
    return NONE if value is None else f"{value:.2f}" if math.isfinite(value) else "∞"


def one_line(text: str) -> str:
    """The text on one line; nothing at all is shown as such."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split()) or NONE


def cut(text: str, length: int) -> str:
    """The text on one line and of at most `length` characters."""
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"
