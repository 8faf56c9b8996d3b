"""How an entry looks at Honcho: a message of the user's in a session of their own.

The content is what Honcho reads and reasons about, `key: value`. What we need to know again is in the metadata: the id
of the version, by which it is never taken twice, a digest of the key, by which it is found, and the rest as JSON text,
which no limit of Honcho's on metadata (depth, number of keys, NUL) can change. The value is in there only where the
content cannot carry it: Honcho takes 25,000 characters and refuses those that its tokenizer keeps for itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PRODUCTION = "https://api.honcho.dev"
ID = "warmstart"
KEY = "warmstart_key"
ENTRY = "warmstart_entry"
FORGOTTEN = "warmstart_forgotten"
USER = "warmstart_user"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")  # what Honcho takes for an id; its limit is 512
_HASHED = "user-"
_SESSION = "warmstart-memory-"
_CHARACTERS = 24_000
_PUNCTUATION = re.compile(r"[^\w\s]|_")  # any of it makes Honcho look for the whole query as it stands


@dataclass(frozen=True, slots=True)
class Record:
    """One version of a key: a value, or that it was deleted. `place` says in which scope, empty for the user's.

    With `everything` it is about no key: all of the user's before it is forgotten.
    """

    id: str
    user_id: str
    place: str
    key: str
    value: str | None
    at: float
    expires_at: float | None = None
    metadata: str = ""  # as JSON
    message_id: str = ""
    everything: bool = False

    @property
    def is_general(self) -> bool:
        """Whether it is about the user everywhere and for good, and not about one project or agent or for a time."""
        return not self.place and self.expires_at is None


class Outgoing(NamedTuple):
    """A message to send. Without `reasoning` Honcho is asked not to reason about it, which its deriver may ignore."""

    content: str
    metadata: dict[str, Any]
    at: float  # when it was said, which may be long before it is sent
    reasoning: bool


class Incoming(NamedTuple):
    """A message as Honcho gives it."""

    id: str
    content: str
    metadata: Mapping[str, Any]
    created_at: float


class Conclusion(NamedTuple):
    """What Honcho concluded about a user. `session` is empty where it was drawn from several."""

    id: str
    content: str
    level: str
    created_at: float
    session: str = ""


class Traffic(NamedTuple):
    """What went over the wire: requests, the bytes of their addresses and bodies, and those of the answers."""

    calls: int = 0
    bytes: int = 0
    received: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Both together."""
        return Traffic(*(one + two for one, two in zip(self, other, strict=True)))


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # a name, which may lead anywhere


def is_production(url: str) -> bool:
    """Whether it is an address of the company behind Honcho."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host == "honcho.dev" or host.endswith(".honcho.dev")


def peer_name(user_id: str) -> str:
    """The user as a peer; a digest of ids that Honcho would not take, such as an address of e-mail."""
    if _NAME.fullmatch(user_id) and not user_id.startswith(_HASHED):
        return user_id
    return _HASHED + _digest(user_id)


def session_name(user_id: str) -> str:
    return _SESSION + peer_name(user_id)


def key_digest(key: str) -> str:
    return _digest(key)


def short(*parts: str) -> str:
    """A few letters that stand for these texts."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def outgoing(record: Record) -> Outgoing:
    """The message of a version."""
    entry: dict[str, Any] = {"key": record.key, "at": record.at}
    if record.place:
        entry["place"] = record.place
    if record.metadata:
        entry["metadata"] = record.metadata
    if record.expires_at is not None:
        entry["expires_at"] = record.expires_at
    if record.value is None:
        entry["deleted"] = True
        content = _plain(f"(forgotten: {record.key})")
    else:
        whole = f"{record.key}: {record.value}"
        content = _plain(whole)
        if content != whole:
            entry["value"] = record.value
    reasoning = record.value is not None and record.is_general
    metadata = {ID: record.id, KEY: key_digest(record.key), ENTRY: json.dumps(entry)}
    return Outgoing(content, metadata, record.at, reasoning)


def farewell(at: float) -> Outgoing:
    """The message that all of the user's before this moment is forgotten."""
    metadata = {ID: _digest(f"forgotten {at}"), ENTRY: json.dumps({"key": "", "at": at, "everything": True})}
    return Outgoing("(forgotten: everything)", metadata, at, reasoning=False)


def incoming(message: Incoming, user_id: str) -> Record | None:
    """The version that a message carries; nothing for a message of someone else's, or one that was blanked."""
    version, packed = message.metadata.get(ID), message.metadata.get(ENTRY)
    if not isinstance(version, str) or not isinstance(packed, str):
        return None
    try:
        entry = json.loads(packed)
        key, at = str(entry["key"]), float(entry["at"])
        everything = bool(entry.get("everything"))
        gone = everything or entry.get("deleted")
        value = None if gone else entry.get("value", message.content[len(key) + 2 :])
        expires_at = None if entry.get("expires_at") is None else float(entry["expires_at"])
        metadata = str(entry.get("metadata", ""))
        place = str(entry.get("place", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # not as we write it
    return Record(version, user_id, place, key, value, at, expires_at, metadata, message.id, everything)


def question(text: str) -> str:
    """A query as Honcho's search understands it: words, all of which it wants to find in a message."""
    return " ".join(_PUNCTUATION.sub(" ", text).split())


def _plain(text: str) -> str:
    text = text.replace("\0", "").replace("<|", "< |")
    return text.encode("utf-8", "replace").decode()[:_CHARACTERS]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
