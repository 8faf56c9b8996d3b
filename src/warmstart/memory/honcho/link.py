"""The wire to Honcho: its SDK, asked with a timeout, never twice for the same thing, and never anywhere by default.

The SDK sends to production where it is told nothing, takes keys from the environment, and repeats a write that may have
arrived. Here it is always given the address, gets no other key than ours, and repeats nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from warmstart.memory.honcho.wire import (
    ID,
    KEY,
    USER,
    Conclusion,
    Incoming,
    Outgoing,
    Traffic,
    farewell,
    is_loopback,
    peer_name,
    session_name,
)

_SDK = threading.Event()  # set when this process has loaded it
_IDLE = 2.0  # seconds after which a connection is not used again; Honcho's server hangs up after 5
_DENIED = frozenset((401, 403))
_FINAL = frozenset((400, 413, 422))  # statuses that may be about what was sent; all others may pass


class Away(Exception):
    """Honcho did not do it: it was not reached, or said to come back later."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Unsure(Exception):
    """Honcho may have done it or not: no answer came, or one that does not say."""


class Refused(Exception):
    """Honcho will not do it as it was asked; so does whoever stands between, for as long as he does."""


class Gone(Away):
    """What it should be done to is not there, or is about to be deleted."""


class Locked(Away):
    """Honcho does not accept the key."""


class Page(NamedTuple):
    """Some of a session's messages, oldest first, and how many there are."""

    messages: list[Incoming]
    total: int


class Link:
    """A client of one server and workspace, for many threads. Loads the SDK when it is first asked."""

    def __init__(self, base_url: str, *, api_key: str, workspace: str, seconds: float) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._workspace = workspace
        self._seconds = seconds
        self._lock = threading.Lock()
        self._client: Any = None
        self._http: Any = None
        self._known: set[str] = set()
        self._counting = threading.Lock()
        self._traffic = Traffic()
        self._answered_at = 0.0
        self._closed = False
        self.denied = False  # whether the last answer was that the key is not accepted

    @property
    def is_loaded(self) -> bool:
        """Whether it can be asked at once: the SDK takes the better part of a second to load."""
        return _SDK.is_set()

    def answered_since(self, moment: float) -> bool:
        """Whether anything came back after this moment of the monotonic clock."""
        return self._answered_at > moment

    @property
    def traffic(self) -> Traffic:
        return self._traffic

    def load(self) -> Any:
        """The SDK's client."""
        with self._lock:
            if self._client is None:
                import httpx
                from honcho import Honcho

                _SDK.set()
                here = is_loopback(self.base_url)
                self._http = httpx.Client(
                    base_url=self.base_url,
                    timeout=self._seconds,
                    limits=httpx.Limits(keepalive_expiry=_IDLE),
                    trust_env=not here,  # a proxy is no way to this machine
                    event_hooks={"request": [self._going], "response": [self._coming]},
                )
                self._client = Honcho(
                    api_key=self._api_key or None,
                    base_url=self.base_url,
                    workspace_id=self._workspace,
                    timeout=self._seconds,
                    max_retries=0,  # a write that is repeated unasked is there twice
                    http_client=self._http,
                )
            return self._client

    def close(self) -> None:
        self._closed = True
        if self._http is not None:
            self._http.close()

    # -- messages

    def add(self, user_id: str, messages: Sequence[Outgoing]) -> list[str]:
        """Send messages, all or none of which Honcho keeps; their ids."""
        with self._asking():
            from honcho.api_types import MessageConfiguration, MessageCreateParams, ReasoningConfiguration

            session = self._session(user_id)
            if user_id not in self._known:  # so that other machines know whose session it is
                self.load().session(session.id, metadata={USER: user_id, ID: "memory"}, peers=[peer_name(user_id)])
                self._known.add(user_id)
            silent = MessageConfiguration(reasoning=ReasoningConfiguration(enabled=False))
            made = session.add_messages(
                [
                    MessageCreateParams(
                        content=message.content,
                        peer_id=peer_name(user_id),
                        metadata=message.metadata,
                        configuration=None if message.reasoning else silent,
                        created_at=datetime.fromtimestamp(message.at, UTC),
                    )
                    for message in messages
                ]
            )
        return [message.id for message in made]

    def page(self, user_id: str, number: int, size: int) -> Page:
        page = Page([], 0)
        with self._asking(missing_ok=True):
            found = self._session(user_id).messages(page=number, size=size)
            page = Page([_incoming(message) for message in found.items], found.total or 0)
        return page  # noqa: RET504 - nothing where there is no session

    def with_ids(self, user_id: str, ids: Sequence[str]) -> list[Incoming]:
        """Which of these versions have arrived."""
        return self._filtered(user_id, {ID: {"in": list(ids)}})

    def with_key(self, user_id: str, digest: str) -> list[Incoming]:
        """The newest messages of a key."""
        return self._filtered(user_id, {KEY: digest}, size=10, reverse=True)

    def _filtered(
        self, user_id: str, metadata: dict[str, Any], size: int = 100, reverse: bool = False
    ) -> list[Incoming]:
        found: list[Any] = []
        with self._asking(missing_ok=True):
            found = self._session(user_id).messages(filters={"metadata": metadata}, size=size, reverse=reverse).items
        return [_incoming(message) for message in found]

    def search(self, user_id: str, query: str, limit: int) -> list[Incoming]:
        found: list[Any] = []
        with self._asking(missing_ok=True):
            found = self._session(user_id).search(query, limit=max(1, min(limit, 100)))
        return [_incoming(message) for message in found]

    def blank(self, user_id: str, message_id: str, metadata: dict[str, Any]) -> None:
        """Put other metadata in place of a message's; its content cannot be changed."""
        with self._asking(missing_ok=True):
            self._session(user_id).update_message(message_id, metadata)

    # -- what Honcho derives

    def conclusions(self, user_id: str, query: str, limit: int) -> list[Conclusion]:
        found: list[Any] = []
        with self._asking(missing_ok=True):
            found = self._peer(user_id).conclusions.query(query, top_k=max(1, min(limit, 100)))
        return [_conclusion(each) for each in found]

    def forget(self, user_id: str, at: float) -> None:
        """Have a user's session deleted, with which Honcho deletes the messages and what it concluded from them.

        Honcho shows the messages until it comes to deleting them, so the last of them says that they are forgotten.
        The peer, its card and its other conclusions may be another application's, and stay.
        """
        if self.page(user_id, 1, 1).total:
            with suppress(Gone):  # it was deleted before
                self.add(user_id, [farewell(at)])
        with self._asking(missing_ok=True):
            ours = self.load().sessions(filters={"metadata": {ID: "memory", USER: user_id}}, size=100)
            if session_name(user_id) in [session.id for session in ours]:
                self._session(user_id).delete()
        self._known.discard(user_id)

    def chat(self, user_id: str, query: str, seconds: float) -> str:
        """What Honcho answers in words; a language model is behind it, so it takes its time."""
        said = ""
        with self._asking(missing_ok=True):
            said = self._peer(user_id).chat(query[:10_000], reasoning_level="minimal", timeout=seconds) or ""
        return said  # noqa: RET504

    def ping(self) -> bool:
        """Whether Honcho itself answers, no login page, and takes the key.

        Without the SDK, which takes longer to load than one waits.
        """
        import urllib.request
        from http.client import HTTPException
        from urllib.error import HTTPError

        asked = urllib.request.Request(  # noqa: S310 - the address was checked to be one of the web
            f"{self.base_url}/v3/workspaces/{self._workspace}/sessions/list?page=1&size=1",
            data=b"{}",
            headers={"Content-Type": "application/json"},
        )
        if self._api_key:
            asked.add_header("Authorization", f"Bearer {self._api_key}")
        direct = [urllib.request.ProxyHandler({})] if is_loopback(self.base_url) else []
        self._count(Traffic(1, len(asked.full_url) + 2))
        try:
            with urllib.request.build_opener(*direct).open(asked, timeout=self._seconds) as answer:
                said = answer.read()
            self._count(Traffic(received=len(said)))
            self.denied = False
            page = json.loads(said)
            return isinstance(page, dict) and isinstance(page.get("items"), list)
        except HTTPError as error:
            self.denied = error.code in _DENIED
            error.close()
            return False
        except (OSError, HTTPException, ValueError):
            return False

    def users(self) -> list[str]:
        """Whose entries are there."""
        found: list[str] = []
        with self._asking(missing_ok=True):
            sessions = self.load().sessions(filters={"metadata": {ID: "memory"}}, size=100)
            found = [str(session.metadata[USER]) for session in sessions if USER in (session.metadata or {})]
        return found  # noqa: RET504

    def _session(self, user_id: str) -> Any:
        from honcho import Session

        return Session(session_name(user_id), self.load())

    def _peer(self, user_id: str) -> Any:
        from honcho import Peer

        return Peer(peer_name(user_id), self.load())

    @contextmanager
    def _asking(self, *, missing_ok: bool = False) -> Iterator[None]:
        self.load()
        try:
            with self._own_errors(missing_ok):
                yield
        finally:
            if self._closed:  # meanwhile, by another thread: what was opened since is closed here
                self._http.close()

    @contextmanager
    def _own_errors(self, missing_ok: bool) -> Iterator[None]:
        import httpx
        from honcho.http import exceptions as sdk

        try:
            yield
        except sdk.NotFoundError as error:
            self._known.clear()
            if not missing_ok:
                raise Gone(str(error)) from error
        except (sdk.AuthenticationError, sdk.PermissionDeniedError) as error:
            raise Locked(f"{error}; check the key") from error
        except sdk.RateLimitError as error:
            raise Away(str(error), error.retry_after) from error
        except sdk.ConnectionError as error:
            if isinstance(error.__cause__, httpx.ConnectError):
                raise Away(str(error)) from error
            raise Unsure(str(error)) from error
        except sdk.TimeoutError as error:
            if isinstance(error.__cause__, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise Away(str(error)) from error
            raise Unsure(str(error)) from error
        except sdk.ServerError as error:
            raise Unsure(f"{error.status}: {error}") from error
        except sdk.APIError as error:
            kind = Refused if error.status in _FINAL else Away
            raise kind(f"{error.status}: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unsure(f"it answered something that is not Honcho's ({error})") from error

    def _going(self, request: Any) -> None:
        if not self._api_key:
            request.headers.pop("Authorization", None)  # the SDK finds keys in the environment that are not for here
        self._count(Traffic(1, len(str(request.url)) + int(request.headers.get("Content-Length", 0))))

    def _coming(self, response: Any) -> None:
        self.denied = response.status_code in _DENIED
        if response.status_code < 500:
            self._answered_at = time.monotonic()
        if response.status_code >= 400 or self._closed:  # Honcho's server hangs up after 500 without saying so
            response.read()
            response.extensions["network_stream"].close()
        self._count(Traffic(received=int(response.headers.get("Content-Length", 0))))

    def _count(self, more: Traffic) -> None:
        with self._counting:
            self._traffic = self._traffic.plus(more)


def _incoming(message: Any) -> Incoming:
    return Incoming(message.id, message.content, message.metadata or {}, message.created_at.timestamp())


def _conclusion(found: Any) -> Conclusion:
    return Conclusion(found.id, found.content, found.level, found.created_at.timestamp(), found.session_id or "")
