"""Safe terminal output: logs are full of codes that move the cursor, colour the screen or reverse text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

# CSI (colours, cursor), OSC (titles, links), and short sequences. An unterminated one hides one line at most.
_ESCAPE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
# C0 except tab and newline, DEL, C1, and marks that change the direction of text.
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]"
_OUR_STYLES = r"\x1b\[(?:[0-2]|1;36|3[1-6]|90)m"
_ACTING = re.compile(f"({_OUR_STYLES})|{_ESCAPE}|{CONTROL}")


def printable(text: str) -> str:
    """The text without control sequences."""
    return _ACTING.sub("", text)


class _Screen:
    """A text stream that drops control sequences, except the few styles that commands use."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str | bytes) -> int:
        if isinstance(text, bytes):  # click's completions
            text = text.decode(errors="replace")
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
    sys.stdout, sys.stderr = map(_Screen, before)
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
