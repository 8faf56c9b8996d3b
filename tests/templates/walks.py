"""Walks through conversations of a few words, for tests of what is extracted from them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Profile
from warmstart.redact import Redactor
from warmstart.sessions.values import Message, Session
from warmstart.templates.extraction.walk import Walk, walk

PROJECT = "/srv/gaugekit"
_numbers = count(1)


class Plain:
    """Replaces secrets and the values it is told of, and nothing else."""

    def __init__(self, **particular: str) -> None:
        self._redactor = Redactor()
        self._particular = particular

    def text(self, text: str) -> str:
        for name, value in self._particular.items():
            text = text.replace(value, "{{" + name + "}}")
        return self._redactor.clean(text)

    def arguments(self, tool: str, arguments: str) -> str:
        return self.text(arguments)


def session(native_id: str = "s1", **fields: str) -> Session:
    return Session(**{"agent": "claude-code", "native_id": native_id, "project": PROJECT, **fields})  # type: ignore[arg-type]


def walked(*parts: Iterable[Message], of: Session | None = None) -> tuple[Walk, Profile]:
    """A walk through these messages, and the session's profile."""
    messages = [message for part in parts for message in part]
    known = of or session()
    return walk(known, messages), Profiler().profile(known, messages)


def told(text: str) -> list[Message]:
    """A system message."""
    return [Message(native_id=f"s{next(_numbers)}", role="system", text=text)]


def answered(text: str) -> list[Message]:
    """A message of the assistant."""
    return [Message(native_id=f"b{next(_numbers)}", role="assistant", text=text)]
