"""Memory at Honcho, as a mirror of the local backend.

A write goes to a local file and its outbox in one transaction; a courier delivers it in the background. A read fetches
what is new from Honcho, for at most the read timeout, and answers from the file. After a failure, reads in all
processes skip Honcho for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from warmstart.config import Settings, ambient_settings
from warmstart.errors import ConfigError, MemoryBackendError
from warmstart.memory.authors import NOTES
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.honcho.courier import Courier, pull
from warmstart.memory.honcho.link import SDK_LOADED, Answer, Link, Timeouts, ask
from warmstart.memory.honcho.mirror import CircuitBreaker, Mirror
from warmstart.memory.honcho.wire import PRODUCTION, is_production, peer_name, session_name
from warmstart.memory.search import MAX_QUERY, stems
from warmstart.memory.selection import MISSING, is_installed
from warmstart.memory.values import EXPIRES_AT, SCOPE, SOURCE, MemoryEntry, Record, Status, Version, digest
from warmstart.redact import Redactor
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.values import clean
from warmstart.storage.database import Connection, Database

if TYPE_CHECKING:
    from honcho import Conclusion

WORKSPACE = "warmstart"
_SETTLE_SECONDS = 5.0
_FRESH_SECONDS = 1.0  # that an answer from Honcho is cached
_LIST_SECONDS = 30.0  # between two reads of all sessions of a user
_DIALECTIC_SECONDS = 20.0
_NO_CONCLUSIONS_SECONDS = 60.0  # to wait after a server failed to return any in time
_MAX_LEADS = 3  # conclusions that lead to an entry each
_CLOSED = "this memory is closed; create a new HonchoBackend"


class HonchoBackend(Mirror):
    """Entries as messages at Honcho, and what Honcho concludes from them.

    Without `api_key` and `base_url` the settings apply. Nothing is sent to Honcho's own servers without a key. `path`
    is the folder of the mirror. With `dialectic`, Honcho's language model answers queries too, which takes seconds.
    Entries of a project or an agent, and those that expire, stay in the mirror unless `send_scoped` is set.
    """

    backend_name = "honcho (cloud)"
    is_cloud = True  # even on this machine: the server passes text to language models
    deletion_note = (
        "Honcho keeps the text of deleted messages and what it concluded from them until the whole user is forgotten"
    )
    load = MemoryBackend.load  # through `store`, which sends

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        workspace: str = "",
        path: Path | None = None,
        redactor: Redactor | None = None,
        timeouts: Timeouts | None = None,
        dialectic: bool = False,
        send_scoped: bool = False,
        fresh_seconds: float = _FRESH_SECONDS,
        settle_seconds: float = _SETTLE_SECONDS,
        settings: Settings | None = None,
    ) -> None:
        if api_key is None and base_url is None:
            settings = settings or ambient_settings()
            api_key, base_url = settings.honcho_key, settings.honcho_url
            workspace, path = workspace or settings.honcho_workspace, path or settings.home
            redactor, timeouts = redactor or configured_redactor(settings), timeouts or Timeouts.configured(settings)
            dialectic, send_scoped = dialectic or settings.honcho_dialectic, send_scoped or settings.honcho_send_scoped
        api_key, workspace = api_key or "", workspace or WORKSPACE
        self.base_url = (base_url or (PRODUCTION if api_key else "")).rstrip("/")
        self.problem = _problem(self.base_url, api_key)
        # If the name changed, existing files would not be found.
        short = blake2b(f"{self.base_url}\0{workspace}".encode(), digest_size=4).hexdigest()
        file = (path or ambient_settings().home) / f"honcho-{short}.db"
        self._redactor = redactor or Redactor()
        super().__init__(file, redact=self._redactor, send_scoped=send_scoped)
        self._timeouts = timeouts or Timeouts()
        self._dialectic = dialectic
        self._fresh_seconds = fresh_seconds
        self._link = Link(self.base_url, api_key=api_key, workspace=workspace, timeouts=self._timeouts)
        # Threads have a mirror of their own, so that callers never wait for them.
        self._back = Mirror(file, redact=self._redactor, send_scoped=send_scoped)
        self._courier = Courier(self._back, self._link, settle=settle_seconds)
        self._breaker = CircuitBreaker(self)
        self._due: dict[tuple[str, ...], float] = {}  # when to ask for something again; all views share it
        self._back._opened.open_database = self._open_database

    def _open_database(self) -> Database:
        if self.problem or self._courier.is_closed:
            raise MemoryBackendError(self.problem or _CLOSED)
        database = super()._open_database()
        if database.connection.execute("SELECT 1 FROM mirror_outbox WHERE rejected IS NULL LIMIT 1").fetchone():
            self._courier.wake()  # left by a process that ended
        return database

    def reopen(self) -> Mirror:
        """The mirror alone, without the server."""
        return Mirror(self.path, redact=self._redactor, send_scoped=self.send_scoped)

    def is_reachable(self) -> bool:
        """Whether Honcho answers now and accepts the key."""
        if not self.is_available():
            return False
        answer = ask([self._link.ping], self._timeouts.write)[0]
        (self._breaker.answered if answer.value else self._breaker.failed)()
        if not answer.is_answered:
            self._link.error = f"no answer in time ({self._timeouts.named('write')})"
        return bool(answer.value)

    def close(self) -> None:
        """Deliver for at most the read timeout, then close."""
        if not self._courier.is_closed:
            if self._opened.is_open and self._breaker.is_closed:
                self._courier.flush(self._timeouts.read)
            self._courier.close()
            self._link.close()
            self._back.close()
        super().close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with super().writing() as connection:
            yield connection
        self._courier.wake()  # something may be in the outbox

    # -- the contract

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        """The entry of a key. Raises `MemoryBackendError` if it is not here and the user was never synchronized."""
        session = session_name(clean(user_id))
        is_first = not self.position(session).is_complete
        self._refresh(user_id, first=is_first)
        entry = super().retrieve(user_id, key)
        if entry is None and is_first and not self.position(session).is_complete:
            raise MemoryBackendError(f"{user_id!r} is not synchronised yet: {self._why_not()}; run it again")
        return entry

    def query(
        self, user_id: str, query_text: str, limit: int = 10, *, dialectic: bool | None = None
    ) -> list[MemoryEntry]:
        """Entries by our own ranking, those that Honcho's nearest conclusions lead to, then the conclusions.

        With `dialectic` the answer of Honcho's language model comes first. What is not an entry has a `source` in its
        metadata that begins with `honcho`, and `derived`.
        """
        user, text = clean(user_id), clean(query_text).strip()
        if limit < 1 or not text:
            self._refresh(user_id)
            return super().query(user_id, query_text, limit)
        dialectic = self._dialectic if dialectic is None else dialectic
        conclusions, answer = self._ask_all(user, text, limit, dialectic)
        local = super().query
        found = local(user_id, query_text, limit)
        found += [entry for each in conclusions[:_MAX_LEADS] for entry in local(user_id, each.content, 1)]
        entries = list({(entry.key, entry.place): entry for entry in found}.values())
        derived = self._derived(user, conclusions, entries)
        room = min(len(derived), max(limit // 3, limit - len(entries)))
        said = [_derived_entry(user_id, "answer", digest(text)[:8], answer, time.time())] if answer else []
        return [*said, *entries[: limit - room], *derived[:room]][:limit]

    def list_keys(self, user_id: str) -> list[str]:
        self._refresh(user_id)
        return super().list_keys(user_id)

    def delete(self, user_id: str, key: str) -> bool:
        """Hide a key at once, and have Honcho delete what it can: see `deletion_note`."""
        self.retrieve(user_id, key)  # it may be known only elsewhere
        return super().delete(user_id, key)

    def history(self, user_id: str, key: str) -> list[Version]:
        self._refresh(user_id)
        return super().history(user_id, key)

    def users(self) -> list[str]:
        """Users with entries here, and users at Honcho whose sessions could not be read in time."""
        deadline = time.monotonic() + self._timeouts.read
        answers = self._ask("", [self._link.sessions])
        owners = (answers[0].value if answers else None) or {}
        there = set(owners.values()).difference(super().users())
        ask([partial(self._pull, user) for user in sorted(there)], deadline - time.monotonic())
        unread = [user for user in there if not self.sessions(user) and not self.has_deleted(user)]
        return sorted({*super().users(), *unread})

    def dump(self, user_id: str) -> list[Record]:
        self._refresh(user_id)
        return super().dump(user_id)

    # -- the server

    def flush(self, seconds: float = 30.0) -> bool:
        return self._courier.flush(seconds)

    def sync(self, user_id: str | None, seconds: float = 30.0) -> bool:
        def read() -> None:
            for user in set(self._link.sessions().values()) if user_id is None else [clean(user_id)]:
                self._pull(user, every_session=True)

        answer = ask([read], seconds)[0]
        if is_read := answer.is_answered and answer.error is None:
            return is_read
        self._link.error = str(answer.error or f"not synchronized within {seconds:g} s")
        return False

    def stays_local(self, metadata: Mapping[str, Any]) -> bool:
        is_scoped = metadata.get(SCOPE) not in (None, "user") or metadata.get(EXPIRES_AT) is not None
        return is_scoped and not self.send_scoped

    def is_deriving(self, user_id: str) -> bool:
        """Whether Honcho is still deriving something from what it was sent about a user."""
        return self._link.is_busy(peer_name(clean(user_id)))

    def status(self) -> Status | None:
        if not self.is_available():
            return None
        error = self._courier.error or self._link.error
        return Status(self.base_url, self.waiting(), tuple(self.rejected()), error, self._link.denied)

    # -- asking

    def _places(self) -> list[str]:
        """The scopes to ask Honcho about: those of the view, or the user's own without one."""
        places = self._view.places if self._view else ("",)
        return [place for place in places if not place or place.startswith(NOTES) or self.send_scoped]

    def _pull(self, user: str, *, every_session: bool = False) -> None:
        """Read what is new: in the user's own session and those of the view, and now and then in all others."""
        back, now = self._back, [session_name(user, place) for place in self._places()]
        for session in now:
            pull(back, self._link, user, session)
        if every_session or self._is_due("sessions", user):
            self._due["sessions", user] = time.monotonic() + _LIST_SECONDS
            for session in {*self._link.sessions(user), *back.sessions(user)}.difference(now):
                if not pull(back, self._link, user, session):
                    back.drop(session)

    def _is_due(self, *what: str) -> bool:
        return time.monotonic() >= self._due.get(what, 0.0)

    def _refresh(self, user_id: str, *, first: bool = False) -> None:
        user = clean(user_id)
        self._ask(user, [partial(self._pull, user)], first=first)

    def _ask(self, user: str, jobs: Sequence[Callable[[], Any]], *, first: bool = False) -> list[Answer]:
        """Run jobs and wait for them, unless the circuit breaker is open. The first synchronization may take longer."""
        position = self.position(session_name(user))
        if len(jobs) == 1 and user and time.time() - position.pulled_at < self._fresh_seconds:
            return []
        if not self._breaker.allows():
            return []
        is_loaded = SDK_LOADED.is_set()
        # The SDK takes longer to load than a read may wait. A complete mirror need not wait for it.
        seconds = self._timeouts.connect if first else self._timeouts.read
        began = time.monotonic()
        answers = ask(jobs, seconds if is_loaded or first or not position.is_complete else 0.0)
        self._link.error = next((str(each.error) for each in answers if each.is_failed), "")
        if any(answer.is_answered for answer in answers):
            self._breaker.answered()
        elif any(answer.is_failed for answer in answers) or (is_loaded and self._link.answered_at < began):
            self._breaker.failed()
        return answers

    def _why_not(self) -> str:
        if self._link.denied:
            return f"{self.base_url} does not accept the key; check HONCHO_API_KEY"
        if self._link.error:
            return f"{self.base_url}: {self._link.error}"
        return f"{self.base_url} did not answer in time; raise {self._timeouts.named('connect')} if it is slow"

    def _ask_all(self, user: str, text: str, limit: int, dialectic: bool) -> tuple[list[Conclusion], str]:
        """Honcho's conclusions near a query, and what its language model answers."""
        asked, link = self._redactor.clean(text)[:MAX_QUERY], self._link
        due = self._places() if self._is_due("conclusions") else []
        chat = None
        if dialectic:
            link.load()  # slow, and so is the answer
            chat = Answer(partial(link.chat, peer_name(user), asked, _DIALECTIC_SECONDS))
        answers = self._ask(
            user,
            [
                partial(self._pull, user),
                lambda: [each for place in due for each in link.conclusions(peer_name(user, place), asked, limit)],
            ],
        )
        if not answers:
            return [], ""
        pulled, concluded = answers
        if pulled.is_answered and concluded.value is None:  # for example without embeddings
            self._due["conclusions",] = time.monotonic() + _NO_CONCLUSIONS_SECONDS
        if chat is not None:
            is_there = any(answer.is_answered for answer in answers)
            chat.wait(time.monotonic() + (_DIALECTIC_SECONDS if is_there else self._timeouts.connect))
        return concluded.value or [], str((chat and chat.value) or "")

    def _derived(self, user: str, conclusions: list[Conclusion], entries: Iterable[MemoryEntry]) -> list[MemoryEntry]:
        """Conclusions, without those that repeat an entry.

        Once something was deleted, this omits conclusions from our sessions and those without a source: they may
        repeat it.
        """
        if self.has_deleted(user):
            ours = session_name(user)
            conclusions = [each for each in conclusions if each.session_id and not each.session_id.startswith(ours)]
        known = [set(stems(f"{user} {entry.key} {entry.value}")) for entry in entries]
        once = {each.content: each for each in reversed(conclusions)}
        return [
            _derived_entry(user, "conclusion", each.id, each.content, each.created_at.timestamp(), level=each.level)
            for each in reversed(once.values())
            if not any(set(stems(each.content)) <= words for words in known)
        ]


def _problem(base_url: str, api_key: str) -> str:
    """Why Honcho cannot be used; empty if it can."""
    if not is_installed():
        return MISSING
    if not base_url:
        return "Honcho is not configured: set HONCHO_API_KEY, or memory.honcho.url to a server of your own"
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{base_url!r} is not the address of a Honcho server; use something like http://127.0.0.1:8000"
        )
    if is_production(base_url) and not api_key:
        return f"{base_url} needs a key: set HONCHO_API_KEY; nothing is sent there without one"
    return ""


def _derived_entry(user_id: str, kind: str, id: str, text: str, at: float, **more: str) -> MemoryEntry:
    metadata = {SOURCE: f"honcho {kind}", "derived": True, "honcho_id": id, **more}
    return MemoryEntry(f"honcho:{kind}:{id}", text, user_id, at, metadata=metadata)
