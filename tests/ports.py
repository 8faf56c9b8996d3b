"""Ports on loopback that nothing, or nothing talkative, listens on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def a_port_that_answers_nothing() -> Iterator[str]:
    """The address of something that accepts connections and says nothing, as behind a broken firewall."""
    with silent_port() as port:
        yield f"http://127.0.0.1:{port.getsockname()[1]}"


@contextmanager
def silent_port() -> Iterator[socket.socket]:
    """What accepts connections and says nothing; each connection waits to be counted."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening


def connections(listening: socket.socket) -> int:
    """How many connections there were."""
    listening.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
