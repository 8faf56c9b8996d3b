"""A process that scans the texts of a large import for secrets, and stems them, while the next logs are read.

It is not a thread, because the GIL would make that slow down the reading.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any

import msgspec

from warmstart.redact.redactor import Redactor
from warmstart.sessions.redaction import Scan, Texts, scan
from warmstart.text.words import distinct_stems

_COMMAND = "from warmstart.sessions.text_worker import serve; serve()"
_HEADER = 8  # bytes with the length of a message
_PIPE_SIZE = 1024 * 1024  # the most that Linux allows by default


class TextWorker:
    """Scans texts in a child process, or in this one if that fails. Close it after use.

    One thread sends texts and another receives the results, so that the child always has work.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._sender, self._receiver = ThreadPoolExecutor(max_workers=1), ThreadPoolExecutor(max_workers=1)
        self._process: Popen[bytes] | None = None
        # `-P`, so that it imports nothing from the current folder. In a new session, so that Ctrl-C reaches only this
        # process; the child exits when its input ends.
        command = [sys.executable, "-P", "-c", _COMMAND]
        with suppress(OSError):
            self._process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)  # noqa: S603
        streams = (self._process.stdin, self._process.stdout) if self._process else ()
        for stream in filter(None, streams):
            # With large pipes, the two processes rarely wait for each other. Not every system supports or allows them.
            with suppress(OSError, AttributeError):
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        self._sender.submit(self._send, redactor and redactor.options)

    def submit(self, texts: Sequence[Texts]) -> Future[list[Scan]]:
        """Scan groups of texts."""
        sent = self._sender.submit(self._send, texts)
        return self._receiver.submit(self._receive, texts, sent)

    def _send(self, value: Any) -> None:
        if self._process is None or self._process.stdin is None:
            raise EOFError
        _write(self._process.stdin, value)

    def _receive(self, texts: Sequence[Texts], sent: Future[None]) -> list[Scan]:
        try:
            sent.result()
            if self._process is None or self._process.stdout is None:
                raise EOFError
            return msgspec.msgpack.decode(_read(self._process.stdout), type=list[Scan])
        except (OSError, EOFError):
            return [scan(each, self._redactor) for each in texts]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # it has nothing left to do, and takes a while to exit by itself
        self._sender.shutdown(cancel_futures=True)
        self._receiver.shutdown(cancel_futures=True)
        if self._process is not None:
            self._process.communicate()


def serve() -> None:
    """Scan and stem texts from standard input until it ends. The first message has the redactor's options."""
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
