"""The connection to Honcho: its SDK with timeouts, without retries, and with no default address.

By default the SDK sends to production, takes keys from the environment, and repeats a write that may have arrived. Here
it always gets the address and no key but ours, and repeats nothing.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from warmstart.config import Settings
from warmstart.memory.honcho.wire import DELETED, ID, USER, Outgoing, is_loopback

if TYPE_CHECKING:
    from honcho import Conclusion, Message

SDK_LOADED = threading.Event()  # which takes most of a second
_MAX_IDLE = 2.0  # seconds after which a connection is not used again; Honcho's server hangs up after 5
_SETTINGS = {"read": "timeout_ms", "write": "write_timeout_ms", "connect": "connect_timeout_ms"}
_DENIED = frozenset((401, 403))
# Cosine distance of conclusions to a query; nearer ones answer it, as with `EndpointEmbedder` in our own search.
_MAX_DISTANCE = 0.64
_MAX_EXIT = 1.0  # seconds that Python's exit waits for calls of the SDK
_calls: set[object] = set()  # of the SDK, in any thread
_is_exiting = threading.Event()
_free = threading.Semaphore(16)  # threads that may ask at the same time
_FINAL = frozenset((400, 413, 422))  # statuses that may be about the content; all others may be temporary


class Away(Exception):
    """The request had no effect: Honcho was not reached, or asked to try later."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Unsure(Exception):
    """The request may have had an effect or not: there was no answer, or an unclear one."""


class Rejection(Exception):
    """Honcho, or a proxy in front of it, rejects this request."""


class Gone(Away):
    """The session does not exist, or is about to be deleted."""


class Timeouts(NamedTuple):
    """In seconds: for reads, for writes and listings, and for connecting. Each is a setting."""

    read: float = 0.3
    write: float = 10.0
    connect: float = 5.0

    @classmethod
    def configured(cls, settings: Settings) -> Timeouts:
        """Those of the user's settings."""
        return cls(*(getattr(settings, f"honcho_{name}") / 1000 for name in _SETTINGS.values()))

    def named(self, kind: Literal["read", "write", "connect"]) -> str:
        """The setting of a timeout with its value, for messages."""
        return f"memory.honcho.{_SETTINGS[kind]} = {round(getattr(self, kind) * 1000)}"


@contextmanager
def _using_sdk() -> Iterator[None]:
    """Where a thread runs code of the SDK. Raises `Away` when Python is about to exit."""
    call = object()
    _calls.add(call)
    try:
        if _is_exiting.is_set():
            raise Away("this process is exiting")
        yield
    finally:
        _calls.discard(call)


@atexit.register
def _finish_calls() -> None:
    """Let calls of the SDK return before Python exits.

    Python ends a daemon thread by unwinding its stack. Under every call of the SDK there are Rust frames of pydantic,
    which abort the process instead.
    """
    _is_exiting.set()
    deadline = time.monotonic() + _MAX_EXIT
    while _calls and time.monotonic() < deadline:
        time.sleep(0.005)


class Link:
    """A client of one server and workspace, for many threads. Loads the SDK when it is first asked."""

    def __init__(self, base_url: str, *, api_key: str, workspace: str, timeouts: Timeouts) -> None:
        self.base_url = base_url
        self.timeouts = timeouts
        self._api_key = api_key
        self._workspace = workspace
        self._lock = threading.Lock()
        self._client: Any = None
        self._http: Any = None
        self._known: set[str] = set()
        self.answered_at = 0.0  # monotonic time of the last response
        self._closed = False
        self.denied = False  # whether the last answer was that the key is wrong
        self.error = ""  # why the last read or ping failed

    def load(self) -> Any:
        """The SDK's client."""
        with _using_sdk(), self._lock:
            if self._client is None:
                import httpx

                from honcho import Honcho

                SDK_LOADED.set()
                here = is_loopback(self.base_url)
                self._http = httpx.Client(
                    base_url=self.base_url,
                    timeout=httpx.Timeout(self.timeouts.write, connect=self.timeouts.connect),
                    limits=httpx.Limits(keepalive_expiry=_MAX_IDLE),
                    trust_env=not here,  # loopback needs no proxy
                    event_hooks={"request": [self._going], "response": [self._coming]},
                )
                self._client = Honcho(
                    api_key=self._api_key or None,
                    base_url=self.base_url,
                    workspace_id=self._workspace,
                    timeout=self.timeouts.write,
                    max_retries=0,  # a repeated write would be stored twice
                    http_client=self._http,
                )
            return self._client

    def close(self) -> None:
        self._closed = True
        if self._http is not None:
            self._http.close()

    # -- messages

    @_using_sdk()
    def add(self, session: str, peer: str, user_id: str, messages: Sequence[Outgoing]) -> None:
        """Send messages, all or none of which Honcho keeps."""
        from honcho.api_types import MessageConfiguration, MessageCreateParams, ReasoningConfiguration

        silent = MessageConfiguration(reasoning=ReasoningConfiguration(enabled=False))
        if session not in self._known:  # so that other machines know whose session it is
            self._send(lambda: self.load().session(session, metadata={USER: user_id, ID: "memory"}, peers=[peer]))
            self._known.add(session)
        made = [
            MessageCreateParams(
                content=message.content,
                peer_id=peer,
                metadata=message.metadata,
                configuration=None if message.reasoning else silent,
                created_at=datetime.fromtimestamp(message.at, UTC),
            )
            for message in messages
        ]
        self._send(lambda: self._session(session).add_messages(made))

    def page(self, session: str, number: int, size: int) -> tuple[list[Message], int]:
        """Some messages of a session, oldest first, and how many it has; none if there is no such session."""
        found = self._ask(lambda: self._session(session).messages(page=number, size=size))
        return (found.items, found.total or 0) if found else ([], 0)

    def find(self, session: str, metadata: dict[str, Any]) -> list[Message]:
        """The newest messages with this metadata."""
        filters = {"metadata": metadata}
        return self._ask(lambda: self._session(session).messages(filters=filters, size=100, reverse=True).items) or []

    def blank(self, session: str, message: Message) -> None:
        """Clear the metadata of a message; its content cannot be changed."""
        cleared = {ID: message.metadata[ID], DELETED: True}
        self._ask(lambda: self._session(session).update_message(message.id, cleared))

    # -- sessions

    def sessions(self, user_id: str | None = None) -> dict[str, str]:
        """Our sessions of all users, or of one, each with its user."""
        metadata = {ID: "memory"} if user_id is None else {ID: "memory", USER: user_id}
        found = self._ask(lambda: list(self.load().sessions(filters={"metadata": metadata}, size=100))) or []
        owners = {each.id: str((each.metadata or {}).get(USER, "")) for each in found}
        return {session: owner for session, owner in owners.items() if owner and user_id in (None, owner)}

    def delete_session(self, session: str) -> None:
        self._ask(lambda: self._session(session).delete())
        self._known.discard(session)

    # -- what Honcho derives

    def conclusions(self, peer: str, query: str, limit: int) -> list[Conclusion]:
        """Those that are near to the query."""
        top = min(limit, 100)
        return self._ask(lambda: self._peer(peer).conclusions.query(query, top_k=top, distance=_MAX_DISTANCE)) or []

    def chat(self, peer: str, query: str, seconds: float) -> str:
        """The answer of Honcho's language model; slow."""
        return self._ask(lambda: self._peer(peer).chat(query, reasoning_level="minimal", timeout=seconds)) or ""

    def is_busy(self, peer: str) -> bool:
        """Whether Honcho is still deriving something from what a peer said."""
        status = self._ask(lambda: self.load().queue_status(sender=peer))
        return status is not None and status.pending_work_units + status.in_progress_work_units > 0

    def ping(self) -> bool:
        """Whether Honcho itself (not a login page) answers and accepts the key."""
        try:
            return self._send(lambda: self.load().sessions(size=1).total) is not None
        except Gone:
            return True  # the workspace does not exist yet
        except (Away, Unsure, Rejection) as error:
            self.error = str(error)
            return False

    def _session(self, name: str) -> Any:
        from honcho import Session

        return Session(name, self.load())

    def _peer(self, name: str) -> Any:
        from honcho import Peer

        return Peer(name, self.load())

    def _ask(self, request: Callable[[], Any]) -> Any:
        """Send a request; None if what it is about does not exist."""
        with suppress(Gone):
            return self._send(request)
        return None

    @_using_sdk()
    def _send(self, request: Callable[[], Any]) -> Any:
        import httpx
        from honcho.http import exceptions as sdk

        self.load()
        try:
            return request()
        except sdk.NotFoundError as error:
            self._known.clear()
            raise Gone("Honcho has not finished deleting this session yet") from error
        except (sdk.AuthenticationError, sdk.PermissionDeniedError) as error:
            raise Away(f"it does not accept the key ({error.status}); check HONCHO_API_KEY") from error
        except sdk.RateLimitError as error:
            raise Away(str(error), error.retry_after) from error
        except sdk.ConnectionError as error:
            if isinstance(error.__cause__, httpx.ConnectError):
                raise Away(str(error)) from error
            raise Unsure(str(error)) from error
        except sdk.TimeoutError as error:
            if isinstance(error.__cause__, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise Away(f"no connection in time ({self.timeouts.named('connect')})") from error
            raise Unsure(f"no answer in time ({self.timeouts.named('write')})") from error
        except sdk.ServerError as error:
            raise Unsure(f"{error.status}: {error}") from error
        except sdk.APIError as error:
            kind = Rejection if error.status in _FINAL else Away
            raise kind(f"{error.status}: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unsure(f"this is not an answer of Honcho ({error})") from error
        finally:
            if self._closed:  # by another thread; what was opened since is closed here
                self._http.close()

    def _going(self, request: Any) -> None:
        if not self._api_key:  # the SDK finds keys in the environment that are meant for another server
            request.headers.pop("Authorization", None)

    def _coming(self, response: Any) -> None:
        self.denied = response.status_code in _DENIED
        if response.status_code < 500:
            self.answered_at = time.monotonic()
        if response.status_code >= 400 or self._closed:  # after a 500 uvicorn hangs up without saying so
            response.read()
            response.extensions["network_stream"].close()


class Answer:
    """The result of a request in a thread, so that callers can stop waiting; never set if all threads are busy."""

    def __init__(self, job: Callable[[], Any]) -> None:
        self._event = threading.Event()
        self.value: Any = None
        self.error: Exception | None = None
        if _free.acquire(blocking=False):
            threading.Thread(target=self._run, args=(job,), name="warmstart-honcho-ask", daemon=True).start()

    @property
    def is_answered(self) -> bool:
        """Honcho answered, even if it rejected the request."""
        return self._event.is_set() and (self.error is None or isinstance(self.error, Rejection))

    @property
    def is_failed(self) -> bool:
        return self._event.is_set() and not self.is_answered

    def wait(self, deadline: float) -> None:
        self._event.wait(max(0.0, deadline - time.monotonic()))

    def _run(self, job: Callable[[], Any]) -> None:
        try:
            self.value = job()
        except Exception as error:  # nobody else can catch it
            self.error = error
        finally:
            self._event.set()
            _free.release()


def ask(jobs: Sequence[Callable[[], Any]], seconds: float) -> list[Answer]:
    """Start all jobs, and wait for all of them together for this long."""
    deadline = time.monotonic() + seconds
    answers = [Answer(job) for job in jobs]
    for answer in answers:
        answer.wait(deadline)
    return answers
