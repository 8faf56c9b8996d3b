"""Redact sessions, both before they are stored and when new rules are applied to stored ones.

In a name (an id, a path, a model, a tool) the replacement contains the whole fingerprint of the secret, so that names
that differ only in their secrets stay different, and the same name is replaced the same way everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from warmstart.sessions.append import save_texts
from warmstart.sessions.schema import hash_text, message_key
from warmstart.sessions.tables import TEXT_USES
from warmstart.sessions.values import Message, Session
from warmstart.storage.compression import decompress
from warmstart.storage.database import Connection

if TYPE_CHECKING:
    from warmstart.redact.redactor import Redactor

_MAX_SCAN = 65_536  # characters that are scanned together

_SESSION_TEXTS = ("title", "evidence")
_SESSION_NAMES = ("native_id", "project", "directory", "branch", "model", "version", "source")
_NAMES = {
    "sessions": _SESSION_NAMES,
    "messages": ("native_id", "model", "origin"),
    "tool_calls": ("call_id", "name"),
    "tool_results": ("call_id",),
}


class Texts(NamedTuple):
    """Texts to scan together, with their names. Names may contain secrets too, but are not indexed for search."""

    bodies: list[str]
    names: list[str]


class Scan(NamedTuple):
    """Whether some texts contain secrets, and the stems of each body; empty if the store has to stem them."""

    has_secret: bool
    stems: Sequence[str] = ()


def scan(texts: Texts, redactor: Redactor | None) -> Scan:
    """Look for secrets. Scanning many texts at once is cheaper than scanning each, and few contain secrets."""
    return Scan(redactor is not None and bool(redactor.find("\n".join((*texts.bodies, *texts.names)))))


class Group(NamedTuple):
    """Messages whose texts are scanned together."""

    messages: list[Message]
    texts: Texts


def group_messages(messages: Iterable[Message], session: Session | None = None) -> Iterator[Group]:
    """Group messages by about `_MAX_SCAN` characters; the first group also has the session's own fields."""
    facts = [getattr(session, column) for column in (*_SESSION_TEXTS, *_SESSION_NAMES)] if session else []
    group = Group([], Texts([], facts))
    size = 0
    for message in messages:
        bodies, names = [message.text, message.reasoning], [message.native_id, message.model, message.origin]
        for call in message.tool_calls:
            bodies.append(call.arguments)
            names += (call.id, call.name)
        for result in message.tool_results:
            bodies.append(result.text)
            names.append(result.call_id)
        group.messages.append(message)
        group.texts.bodies.extend(filter(None, bodies))
        group.texts.names.extend(filter(None, names))
        size += sum(map(len, bodies))
        if size >= _MAX_SCAN:
            yield group
            group, size = Group([], Texts([], [])), 0
    if group.messages or group.texts.names:
        yield group


def redacted_log(
    session: Session, groups: Iterable[Group], scans: Iterable[Scan], redactor: Redactor
) -> tuple[Session, list[Message]]:
    """A session and its messages without the secrets that the scans found. Their identities do not change."""
    messages: list[Message] = []
    for group, scanned in zip(groups, scans, strict=True):
        if not scanned.has_secret:
            messages += group.messages
            continue
        for before in group.messages:
            after = redacted_message(before, redactor)
            if after.native_id != before.native_id:
                after = replace(after, stored_key=message_key(session.agent, before.native_id))
            messages.append(after)
    cleaned = redacted_session(session, redactor)
    if cleaned.native_id != session.native_id:
        cleaned = replace(cleaned, stored_id=session.id)
    return cleaned, messages


def redacted_messages(messages: Iterable[Message], redactor: Redactor) -> Iterator[Message]:
    """The messages with the secrets in them replaced, in order."""
    for group in group_messages(messages):
        found = scan(group.texts, redactor).has_secret
        yield from (redacted_message(each, redactor) for each in group.messages) if found else group.messages


def redacted_message(message: Message, redactor: Redactor) -> Message:
    """The message with the secrets in its texts, ids and names replaced."""
    name, clean = partial(redacted_name, redactor=redactor), redactor.clean
    return replace(
        message,
        native_id=name(message.native_id),
        model=name(message.model),
        origin=name(message.origin),
        text=clean(message.text),
        reasoning=clean(message.reasoning),
        tool_calls=tuple(
            replace(call, id=name(call.id), name=name(call.name), arguments=clean(call.arguments))
            for call in message.tool_calls
        ),
        tool_results=tuple(
            replace(result, call_id=name(result.call_id), text=clean(result.text)) for result in message.tool_results
        ),
    )


def redacted_session(session: Session, redactor: Redactor) -> Session:
    """The session with the secrets in its title, evidence, ids and paths replaced."""
    if not redactor.find("\n".join(getattr(session, column) for column in (*_SESSION_TEXTS, *_SESSION_NAMES))):
        return session
    names: dict[str, Any] = {column: redacted_name(getattr(session, column), redactor) for column in _SESSION_NAMES}
    return replace(session, **names, title=redactor.clean(session.title), evidence=redactor.clean(session.evidence))


def redacted_name(name: str, redactor: Redactor) -> str:
    """A name without its secrets, still different from every other name."""
    pieces: list[str] = []
    at = 0
    for found in redactor.find(name):
        pieces += (
            name[at : found.start],
            f"[redacted:{found.kind[:27]}-{found.fingerprint[4:]}:{found.fingerprint[:4]}]",
        )
        at = found.end
    return "".join((*pieces, name[at:])) if pieces else name


def exchange_text(connection: Connection, old: int, body: str) -> None:
    """Replace the text `old` by `body` everywhere it is used. The caller deletes `old`."""
    bodies: dict[bytes, str] = {}
    key = hash_text(body, bodies)
    new = key and save_texts(connection, bodies)[key]
    for table, _, column in TEXT_USES:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))


def rewrite_facts(connection: Connection, change: Callable[[str], str], rename: Callable[[str], str]) -> int:
    """Apply `change` to texts outside of messages, and `rename` to names. Returns how many changed.

    A reader's state that would change is deleted instead, because it must match the rest of the log.
    """
    changed = 0
    columns = [("sessions", column, change) for column in _SESSION_TEXTS]
    columns += [(table, column, rename) for table, names in _NAMES.items() for column in names]
    for table, column, apply in columns:
        for (text,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall():
            if (new := apply(text)) != text:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, text))
                changed += 1
    for path, state in connection.execute("SELECT path, state FROM positions").fetchall():
        new = rename(path)
        if new != path:
            connection.execute("DELETE FROM positions WHERE path = ?", (new,))
            connection.execute("UPDATE positions SET path = ? WHERE path = ?", (new, path))
        texts = "\n".join(strings_in(json.loads(decompress(state))))
        if forget := change(texts) != texts:
            forget_state(connection, new)
        changed += forget or new != path
    return changed


def forget_state(connection: Connection, path: str) -> None:
    """Delete the state of a log's reader, so that the log is read from its start if it ever grows."""
    connection.execute(
        "UPDATE positions SET state = '{}', mark = '', \"offset\" = 0, line = 0, revision = revision + 1 "
        "WHERE path = ?",
        (path,),
    )


def strings_in(value: Any) -> Iterator[str]:
    """Every string in a JSON value. Strings in a list are also joined, because they may be blocks of one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        texts = [each for each in value if isinstance(each, str)]
        yield "".join(texts)
        yield from texts
        for each in value:
            if not isinstance(each, str):
                yield from strings_in(each)
    elif isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from strings_in(each)
