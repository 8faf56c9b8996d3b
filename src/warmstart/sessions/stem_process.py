"""Stems in a process of its own.

An import of many logs is bound by Python's lock: stemming in a thread would hold up the reading of the next logs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO

import msgspec

from warmstart.text.words import distinct_stems

_COMMAND = "from warmstart.sessions.stem_process import serve; serve()"
_HEADER = 8  # bytes that say how long a batch is


class StemProcess:
    """Runs `distinct_stems` on many texts elsewhere, or here where no process can be started. Close it after use."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._failed = False

    def stem(self, texts: Sequence[str]) -> list[str]:
        if not self._failed:
            try:
                return self._ask(texts)
            except (OSError, EOFError):
                self._failed = True
        return [distinct_stems(text) for text in texts]

    def _ask(self, texts: Sequence[str]) -> list[str]:
        if self._process is None:
            # In a session of its own, so that Ctrl-C reaches this process alone; the other one ends with its input.
            self._process = Popen(  # noqa: S603 - this Python and a fixed program
                [sys.executable, "-c", _COMMAND], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
            )
        if self._process.stdin is None or self._process.stdout is None:
            raise EOFError
        _write(self._process.stdin, texts)
        return _read(self._process.stdout)

    def close(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            process.communicate(timeout=5)
        except (OSError, TimeoutExpired):
            process.kill()
            process.communicate()


def serve() -> None:
    """Answer batches of texts on standard input with their stems, until it ends."""
    try:
        while True:
            _write(sys.stdout.buffer, [distinct_stems(text) for text in _read(sys.stdin.buffer)])
    except (EOFError, OSError):
        pass


def _write(stream: IO[bytes], texts: Sequence[str]) -> None:
    data = msgspec.msgpack.encode(texts)
    stream.write(len(data).to_bytes(_HEADER, "big") + data)
    stream.flush()


def _read(stream: IO[bytes]) -> list[str]:
    header = stream.read(_HEADER)
    data = stream.read(int.from_bytes(header, "big"))
    if len(header) < _HEADER or len(data) < int.from_bytes(header, "big"):
        raise EOFError
    return msgspec.msgpack.decode(data, type=list[str])
