"""Text for people, safe on a terminal: logs are full of codes that move the cursor, colour the screen or reverse text.

`main` loads this module first, so it imports only what click imports too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TextIO

# CSI (colours, cursor), OSC (titles, links), and short sequences. An unterminated one hides one line at most.
_ESCAPE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
# C0 except tab and newline, DEL, C1, and marks that change the direction of text.
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]"
_OUR_STYLES = r"\x1b\[(?:[0-2]|1;36|3[1-6]|90)m"
_ACTING = re.compile(f"({_OUR_STYLES})|{_ESCAPE}|{CONTROL}")
_MAX_WIDTH = 100
_MIN_WIDTH = 24  # of the text after an indent


def printable(text: str) -> str:
    """The text without control sequences."""
    return _ACTING.sub("", text)


def as_called(text: str) -> str:
    """A hint with our command as the user calls it: inside Hermes, `warmstart templates` is `hermes warm`."""
    return re.sub(r"warmstart\s+templates", os.environ.get("WARMSTART_CALLED_AS") or r"\g<0>", text)


class _Screen:
    """A text stream that drops control sequences, except the few styles that commands use. `hints` adapts hints."""

    def __init__(self, stream: TextIO, *, hints: bool = False) -> None:
        self.stream = stream
        self._hints = hints

    def write(self, text: str | bytes) -> int:
        if isinstance(text, bytes):  # click's completions
            text = text.decode(errors="replace")
        if self._hints:
            text = as_called(text)
        self.stream.write(_ACTING.sub(lambda match: match[1] or "", text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "fileno"):
            raise AttributeError(name)  # click and `input` would write to these directly
        return getattr(self.stream, name)


@contextmanager
def screened_output() -> Iterator[None]:
    """Send all output through `_Screen`: messages, tables, prompts, click's own output."""
    before: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Screen(sys.stdout), _Screen(sys.stderr, hints=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def raw(stream: TextIO) -> TextIO:
    """The stream behind the screen, for data that a program reads and for progress bars."""
    return stream.stream if isinstance(stream, _Screen) else stream


def write_data(text: str) -> None:
    """Write data to standard output: unchanged in a pipe, without control characters on a terminal."""
    stream = raw(sys.stdout)
    stream.write(printable(text) if stream.isatty() else text)


def one_line(text: str, width: int) -> str:
    """The text on one line, truncated to `width` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def max_width() -> int:
    """The maximum width of a line of text: that of the terminal, but no wider than is readable."""
    return min(_MAX_WIDTH, terminal_width()) if sys.stdout.isatty() else _MAX_WIDTH


def terminal_width() -> int:
    """The columns of the terminal."""
    from shutil import get_terminal_size  # deferred: takes milliseconds to load

    return get_terminal_size().columns


def wrapped(text: str, indent: str = "") -> str:
    """The text wrapped to the width of a line, with a hanging indent."""
    import textwrap

    return textwrap.fill(
        printable(text),
        max(max_width(), len(indent) + _MIN_WIDTH),
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,
    )


def counted(number: int, noun: str) -> str:
    """`1 log`, `2,000 logs`, `2 entries`."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`logs`, `entries`, `keys`."""
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def local(time: datetime | None) -> str:
    """A time for people, in the local time zone."""
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M")


def seconds(value: float | None) -> str:
    """A duration for people."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s"
    try:
        return str(timedelta(seconds=round(value)))
    except (OverflowError, ValueError):  # some logs claim absurd durations
        return f"{value:.3g} s"


def describe_filters(**filters: str | datetime | None) -> str:
    """The filters of a command in words: `agent codex, since 2026-09-01`; empty without any."""
    words = {name: f"{value:%Y-%m-%d}" if isinstance(value, datetime) else value for name, value in filters.items()}
    return ", ".join(f"{name} {value}" for name, value in words.items() if value)
