"""Ports on loopback that nothing, or nothing talkative, listens on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def a_port_that_answers_nothing() -> Iterator[str]:
    """The address of something that accepts connections and says nothing, as behind a broken firewall."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
