"""Sessions without their secrets: what a redactor is applied to before anything is stored.

In a name (an id, a path, a model, a tool) the replacement holds the whole fingerprint of the secret, so that two names
which differ only in their secrets stay two names, and the same name is replaced alike wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from warmstart.redact.redactor import Redactor
from warmstart.sessions.rows import message_key
from warmstart.sessions.values import Message, Session

_AT_ONCE = 65_536  # characters that are looked at together


def redacted_log(session: Session, messages: Sequence[Message], redactor: Redactor) -> tuple[Session, list[Message]]:
    """A session and its messages without their secrets, known by the same ids as before."""
    cleaned = redacted_session(session, redactor)
    if cleaned.native_id != session.native_id:
        cleaned = replace(cleaned, stored_id=session.id)
    return cleaned, [
        after
        if after.native_id == before.native_id
        else replace(after, stored_key=message_key(session.agent, before.native_id))
        for before, after in zip(messages, redacted_messages(messages, redactor), strict=True)
    ]


def redacted_messages(messages: Iterable[Message], redactor: Redactor) -> Iterator[Message]:
    """The messages with the secrets in them replaced, in order.

    One look at many texts is cheaper than one at each, and there is seldom anything to find.
    """
    group: list[Message] = []
    texts: list[str] = []
    size = 0
    for message in messages:
        group.append(message)
        parts = _texts(message)
        texts += parts
        size += sum(map(len, parts))
        if size >= _AT_ONCE:
            yield from _looked_at(group, texts, redactor)
            group, texts, size = [], [], 0
    yield from _looked_at(group, texts, redactor)


def _looked_at(group: list[Message], texts: list[str], redactor: Redactor) -> Iterable[Message]:
    if not redactor.find("\n".join(texts)):
        return group
    return (redacted_message(message, redactor) for message in group)


def _texts(message: Message) -> list[str]:
    texts = [message.text, message.reasoning, message.native_id, message.model, message.origin]
    for call in message.tool_calls:
        texts += (call.id, call.name, call.arguments)
    for result in message.tool_results:
        texts += (result.call_id, result.text)
    return texts


def redacted_message(message: Message, redactor: Redactor) -> Message:
    """The message with the secrets in its texts, its ids and the names in it replaced."""
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
    """The session with the secrets in its title, evidence, ids and places replaced."""
    name, clean = partial(redacted_name, redactor=redactor), redactor.clean
    return replace(
        session,
        native_id=name(session.native_id),
        project=name(session.project),
        directory=name(session.directory),
        branch=name(session.branch),
        model=name(session.model),
        version=name(session.version),
        source=name(session.source),
        title=clean(session.title),
        evidence=clean(session.evidence),
    )


def redacted_name(name: str, redactor: Redactor) -> str:
    """A name without its secrets, and different from every other name."""
    pieces: list[str] = []
    at = 0
    for found in redactor.find(name):
        pieces += (
            name[at : found.start],
            f"[redacted:{found.kind[:27]}-{found.fingerprint[4:]}:{found.fingerprint[:4]}]",
        )
        at = found.end
    return "".join((*pieces, name[at:])) if pieces else name
