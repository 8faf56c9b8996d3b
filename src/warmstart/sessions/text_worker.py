"""Texts on their way into the store: which have secrets, and what are their stems?

A large import asks a worker process, because Python's lock would let a thread hold up the reading of the next logs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO, Any, NamedTuple

import msgspec

from warmstart.redact.redactor import Redactor
from warmstart.text.words import distinct_stems

_MIN_LARGE = 1_000_000  # characters after which an import is large
_COMMAND = "from warmstart.sessions.text_worker import serve; serve()"
_HEADER = 8  # bytes that say how long a message is


class Texts(NamedTuple):
    """Texts to scan together, and the names beside them, which may have secrets but are not searched."""

    bodies: list[str]
    names: list[str]


class Scan(NamedTuple):
    """Whether some texts have secrets, and the stems of each body; none if the store has to stem them."""

    has_secret: bool
    stems: Sequence[str] = ()


def scan(texts: Texts, redactor: Redactor | None) -> Scan:
    """Look for secrets. To scan many texts at once is cheaper than to scan each, and few have secrets."""
    return Scan(redactor is not None and bool(redactor.find("\n".join((*texts.bodies, *texts.names)))))


class TextWorker:
    """Scans the texts of an import in a process, if there are many and one can be started. Close it after use."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._characters = 0
        self._thread = ThreadPoolExecutor(max_workers=1)  # waits for the process; starts at the first use
        self._process: Popen[bytes] | None = None
        self._failed = False

    def submit(self, texts: Sequence[Texts]) -> Future[list[Scan]]:
        """Scan groups of texts."""
        if self._characters > _MIN_LARGE:
            return self._thread.submit(self._scan, texts)
        self._characters += sum(len(body) for each in texts for body in each.bodies)
        done: Future[list[Scan]] = Future()
        done.set_result([scan(each, self._redactor) for each in texts])
        return done

    def _scan(self, texts: Sequence[Texts]) -> list[Scan]:
        if not self._failed:
            try:
                return self._ask(texts)
            except (OSError, EOFError):
                self._failed = True
        return [scan(each, self._redactor) for each in texts]

    def _ask(self, texts: Sequence[Texts]) -> list[Scan]:
        is_new = self._process is None
        if self._process is None:
            # `-P`, so that it imports nothing from the current folder. In a session of its own, so that Ctrl-C reaches
            # this process alone; the other one ends with its input.
            command = [sys.executable, "-P", "-c", _COMMAND]
            self._process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)  # noqa: S603
        if self._process.stdin is None or self._process.stdout is None:
            raise EOFError
        if is_new:
            _write(self._process.stdin, self._redactor and self._redactor.options)
        _write(self._process.stdin, texts)
        return msgspec.msgpack.decode(_read(self._process.stdout), type=list[Scan])

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=5)
        except (OSError, TimeoutExpired):
            self._process.kill()
            self._process.communicate()


def serve() -> None:
    """Scan and stem texts from standard input until it ends. The first message has the options of the redactor."""
    try:
        options = msgspec.msgpack.decode(_read(sys.stdin.buffer))
        redactor = None if options is None else Redactor(**options)
        while True:
            groups = msgspec.msgpack.decode(_read(sys.stdin.buffer), type=list[Texts])
            scans = [Scan(scan(each, redactor).has_secret, [*map(distinct_stems, each.bodies)]) for each in groups]
            _write(sys.stdout.buffer, scans)
    except (EOFError, OSError):
        pass


def _write(stream: IO[bytes], value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    stream.write(len(data).to_bytes(_HEADER, "big") + data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    header = stream.read(_HEADER)
    data = stream.read(int.from_bytes(header, "big"))
    if len(header) < _HEADER or len(data) < int.from_bytes(header, "big"):
        raise EOFError
    return data
