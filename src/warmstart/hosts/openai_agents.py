"""The OpenAI Agents SDK: a `Session` for the SDK whose items are messages in our store.

    with warmstart.open() as ws:
        session = WarmstartSession("user-42", app=ws)
        result = Runner.run_sync(agent, "Which port does the database use?", session=session)

A new session starts with what earlier sessions of the project know. That text is stored as ours and replayed byte for
byte, so that prompt caches hold. The store is append-only: `pop_item` and `clear_session` add a tombstone for earlier
items. Secrets are replaced before anything is stored, and therefore in what is replayed; reasoning and images are not
replayed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from warmstart.sessions.readers.openai import chat_message
from warmstart.sessions.redaction import redacted_messages, redacted_session
from warmstart.sessions.values import Message, Session, session_id

if TYPE_CHECKING:
    from warmstart.app import Warmstart

AGENT = "openai-agents"
_POPPED, _CLEARED = ":pop", ":clear"  # suffixes of the ids of tombstones
_NOTES = {_POPPED: "The last item was removed.", _CLEARED: "All items were removed."}
_START, _WHOLE = ":start", ":item"  # suffixes of the ids of a session's start, and of an item that is stored whole

T = TypeVar("T")


class WarmstartSession:
    """A conversation of the SDK, kept in the store of `app`. With `warm=False` it has only its own items."""

    session_settings = None  # required by the SDK

    def __init__(self, session_id: str, *, app: Warmstart, project: str = ".", warm: bool = True) -> None:
        self.session_id = session_id
        self._app = app
        self._run = app.begin(session_id, project=project, host=AGENT)
        self._session = Session(agent=AGENT, native_id=session_id, project=self._run.project, directory=project)
        self._warm = warm

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items in order, or the latest `limit` of them."""
        items = await self._call(self._items)
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: Sequence[Any]) -> None:
        """Store items."""
        messages = [_to_message(dict(item), self._new_id()) for item in items]
        if messages:
            await self._call(lambda: self._append(messages))

    async def pop_item(self) -> Any | None:
        """Remove and return the latest item; `None` if there is none."""
        return await self._call(self._pop)

    async def clear_session(self) -> None:
        """Remove all items from the conversation. `warmstart sessions delete` deletes them from the store."""
        await self._call(lambda: self._append([self._note(_CLEARED)]))

    async def _call(self, do: Callable[[], T]) -> T:
        def locked() -> T:
            with self._app.lock:
                return do()

        return await asyncio.to_thread(locked)

    def _stored(self) -> list[Message]:
        return list(self._app.store.messages(session_id(AGENT, self.session_id)))

    def _items(self) -> list[Any]:
        stored = self._stored()
        start = self._start() if self._warm and not stored else []
        return [item for message in (*start, *_current(stored)) for item in _to_items(message)]

    def _start(self) -> list[Message]:
        text = self._run.start_text
        return [Message(native_id=self._new_id(_START), role="system", text=text, injected=True)] if text else []

    def _append(self, messages: list[Message]) -> None:
        if self._warm and not self._stored():
            messages = [*self._start(), *messages]
        now = datetime.now(UTC)
        session = replace(self._session, ended_at=now)
        redactor = self._app.redactor
        cleaned = redacted_messages([replace(message, timestamp=now) for message in messages], redactor)
        self._app.store.append(redacted_session(session, redactor), cleaned)

    def _pop(self) -> Any | None:
        own = [message for message in _current(self._stored()) if not message.native_id.endswith(_START)]
        items = [item for message in own for item in _to_items(message)]
        if items:
            self._append([self._note(_POPPED)])
        return items[-1] if items else None

    def _note(self, kind: str) -> Message:
        return Message(native_id=self._new_id(kind), role="system", text=_NOTES[kind], injected=True)

    def _new_id(self, kind: str = "") -> str:
        return f"{self.session_id}#{uuid4().hex}{kind}"


def _current(messages: Sequence[Message]) -> list[Message]:
    """The messages that were not popped or cleared."""
    current: list[Message] = []
    for message in messages:
        if message.native_id.endswith(_POPPED):
            while current and not list(_to_items(current.pop())):
                pass  # reasoning has no items
        elif message.native_id.endswith(_CLEARED):
            current = [each for each in current if each.native_id.endswith(_START)]
        else:
            current.append(message)
    return current


def _to_message(item: dict[str, Any], native_id: str) -> Message:
    """The message for one item. An item we have no fields for is stored as a call of a tool named after its type."""
    kind = item.get("type") or "message"
    if kind == "message":
        chat = item
    elif kind == "function_call":
        chat = {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "function": item}]}
    elif kind == "function_call_output":
        chat = {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    elif kind == "reasoning":
        chat = {"role": "assistant", "content": "", "reasoning": item.get("summary")}
    else:
        native_id += _WHOLE
        function = {"name": kind, "arguments": json.dumps(item)}
        chat = {"role": "assistant", "tool_calls": [{"id": item.get("id"), "function": function}]}
    message = chat_message(chat, native_id)
    if message is None:
        raise ValueError(f"not an item of a conversation: {kind!r} with the role {item.get('role')!r}")
    return message


def _to_items(message: Message) -> Iterator[dict[str, Any]]:
    for result in message.tool_results:
        yield {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
    if message.text:
        yield {"role": message.role, "content": message.text}
    for call in message.tool_calls:
        if message.native_id.endswith(_WHOLE):
            yield json.loads(call.arguments)
        else:
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
