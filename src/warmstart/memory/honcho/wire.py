"""How an entry is stored at Honcho: as a message of the user in a session of our own.

The content, `key: value`, is what Honcho reasons about. The metadata has what we need to read it back: the id of the
change, so that it is never applied twice; a digest of the key, to find it; and the rest as JSON text, out of reach of
Honcho's limits on metadata. That includes the value only if the content cannot carry it: Honcho accepts 25,000
characters, and no special tokens of its tokenizer.

Honcho has neither scopes nor expiry, and reasons about everything a peer says. So each project and agent has a peer and
a session of its own, and so has every entry that expires: the session is deleted with it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from warmstart.memory.values import digest

if TYPE_CHECKING:
    from honcho import Message

PRODUCTION = "https://api.honcho.dev"
ID = "warmstart"
KEY = "warmstart_key"
ENTRY = "warmstart_entry"
DELETED = "warmstart_forgotten"
USER = "warmstart_user"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")  # what Honcho accepts as an id; its limit is 512
_HASHED = "user-"
_SESSION = "warmstart-memory-"
_MAX_CONTENT = 24_000


@dataclass(frozen=True, slots=True)
class Change:
    """A value of a key, or its deletion, for which only a digest of the key may be known.

    A deletion without even that is of everything about the user before it.
    """

    id: str
    user_id: str
    place: str
    key: str
    value: str | None
    at: float
    expires_at: float | None = None
    metadata: str = ""  # as JSON
    key_digest: str = ""

    @property
    def session(self) -> str:
        """The session it belongs to."""
        return session_name(self.user_id, self.place, self.key_digest if self.expires_at is not None else "")


class Outgoing(NamedTuple):
    """A message to send."""

    content: str
    metadata: dict[str, Any]
    at: float  # when it was said, which may be long before it is sent
    reasoning: bool


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may resolve to any address


def is_production(url: str) -> bool:
    """Whether the address belongs to the company behind Honcho."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host == "honcho.dev" or host.endswith(".honcho.dev")


def peer_name(user_id: str, place: str = "") -> str:
    """The user as a peer; a digest of an id that Honcho would not accept, such as an e-mail address."""
    is_plain = _NAME.fullmatch(user_id) and not user_id.startswith(_HASHED)
    return (user_id if is_plain else _HASHED + digest(user_id)) + _suffix(place)


def session_name(user_id: str, place: str = "", expiring: str = "") -> str:
    """The session of a scope, or with the digest of a key that of one entry that expires."""
    return _SESSION + peer_name(user_id) + _suffix(place) + (f"-x{expiring[:24]}" if expiring else "")


def _suffix(place: str) -> str:
    return f"-{digest(place)[:24]}" if place else ""


def outgoing(change: Change) -> Outgoing:
    """The message of a change. A deletion names neither the key nor the place."""
    entry: dict[str, Any] = {"at": change.at}
    metadata = {ID: change.id, KEY: change.key_digest or digest(change.key)}
    if change.value is None:
        return Outgoing("(forgotten)", {**metadata, ENTRY: json.dumps({**entry, "deleted": True})}, change.at, False)
    whole = f"{change.key}: {change.value}"
    content = _plain(whole)
    more = {
        "key": change.key,
        "place": change.place or None,
        "metadata": change.metadata or None,
        "expires_at": change.expires_at,
        "value": None if content == whole else change.value,
    }
    entry |= {name: value for name, value in more.items() if value is not None}
    return Outgoing(content, {**metadata, ENTRY: json.dumps(entry)}, change.at, change.expires_at is None)


def farewell(at: float) -> Outgoing:
    """The message that everything of the user before this time is deleted."""
    metadata = {ID: digest(f"forgotten {at}"), ENTRY: json.dumps({"at": at, "everything": True})}
    return Outgoing("(forgotten: everything)", metadata, at, reasoning=False)


def incoming(message: Message, user_id: str) -> Change | None:
    """The change that a message carries; None for another application's message, or one whose metadata was cleared."""
    change_id, packed = message.metadata.get(ID), message.metadata.get(ENTRY)
    if not isinstance(change_id, str) or not isinstance(packed, str):
        return None
    try:
        entry = json.loads(packed)
        key, at = str(entry.get("key", "")), float(entry["at"])
        is_farewell = bool(entry.get("everything"))
        is_gone = is_farewell or entry.get("deleted")
        value = None if is_gone else str(entry.get("value", message.content[len(key) + 2 :]))
        expires_at = None if entry.get("expires_at") is None else float(entry["expires_at"])
        metadata, place = str(entry.get("metadata", "")), str(entry.get("place", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # not as we write it
    known = "" if is_farewell else str(message.metadata.get(KEY) or digest(key))
    return Change(change_id, user_id, place, key, value, at, expires_at, metadata, known)


def _plain(text: str) -> str:
    text = text.replace("\0", "").replace("<|", "< |")
    return text.encode("utf-8", "replace").decode()[:_MAX_CONTENT]
