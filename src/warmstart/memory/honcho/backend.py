"""Memory at Honcho.

A write is kept here, in the index and its outbox, before anything is sent, and is brought to Honcho in the background.
A read asks Honcho what is new, for no longer than `timeout_ms` in all, and answers from the index: with what came, or
without. After a failure reads do not wait again for a while, in no process.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from warmstart.config import Settings, ambient_settings
from warmstart.errors import ConfigError, MemoryBackendError, WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.entries import check_user, prepared, view_as_kept
from warmstart.memory.honcho.archive import archive
from warmstart.memory.honcho.asking import Answer, Asking
from warmstart.memory.honcho.courier import Courier, pull
from warmstart.memory.honcho.index import Index
from warmstart.memory.honcho.joining import Found, fused, of_answer, of_conclusion, of_message
from warmstart.memory.honcho.link import Link, Refused, Unsure
from warmstart.memory.honcho.outbox import Forgetting
from warmstart.memory.honcho.sdk import MISSING, is_installed
from warmstart.memory.honcho.wire import (
    ID,
    PRODUCTION,
    Record,
    Traffic,
    incoming,
    is_production,
    key_digest,
    question,
    session_name,
    short,
)
from warmstart.memory.kept import Kept
from warmstart.memory.remote import Status
from warmstart.memory.values import EXPIRES_AT, SCOPE, SCOPES, MemoryEntry, Version, View
from warmstart.redact import Redactor
from warmstart.redact.redactor import configured_redactor
from warmstart.sessions.values import clean

TIMEOUT_MS = 300
WORKSPACE = "warmstart"
_REQUEST_SECONDS = 10.0  # that a request may take in the background
_SETTLE_SECONDS = 5.0
_FRESH_SECONDS = 1.0  # for which what Honcho said last is taken for true
_DIALECTIC_SECONDS = 20.0
_NO_CONCLUSIONS_SECONDS = 300.0  # until a server that cannot search conclusions is asked again
_LATE_CONCLUSIONS_SECONDS = 10.0  # and one that did not have them in time
_CLOSED = "this memory is closed; make a new HonchoBackend"


class HonchoBackend(MemoryBackend):
    """Entries as messages at Honcho, and what Honcho concludes from them.

    With neither key nor address given they are those of the settings. Without either it is not available; without a
    key nothing is sent to Honcho's own servers. `path` is the folder of the index. With `dialectic`, queries are also
    put to Honcho's language model, which takes seconds. Entries of a project or an agent, and those that expire, stay
    in the index unless `send_scoped` is set: Honcho knows neither scopes nor expiry, and reasons about all it is sent.
    """

    backend_name = "honcho (cloud)"
    is_cloud = True  # wherever its server is: that hands texts to language models

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        workspace: str = "",
        path: Path | None = None,
        redactor: Redactor | None = None,
        timeout_ms: int = TIMEOUT_MS,
        dialectic: bool = False,
        send_scoped: bool = False,
        fresh_seconds: float = _FRESH_SECONDS,
        settle_seconds: float = _SETTLE_SECONDS,
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        if api_key is None and base_url is None:
            found = ambient_settings()
            api_key, base_url = found.honcho_key, found.honcho_url
            workspace, path = workspace or found.honcho_workspace, path or found.home
            redactor = redactor or configured_redactor(found)
            send_scoped = send_scoped or found.honcho_send_scoped
        api_key, workspace = api_key or "", workspace or WORKSPACE
        self.base_url = (base_url or (PRODUCTION if api_key else "")).rstrip("/")
        self.problem = _problem(self.base_url, api_key)  # why it cannot be used, if it cannot
        self._folder = path or ambient_settings().home
        self._name = f"honcho-{short(self.base_url, workspace)}.db"
        self.redactor = redactor or Redactor()
        self._seconds = timeout_ms / 1000
        self._dialectic = dialectic
        self._send_scoped = send_scoped
        self._fresh = fresh_seconds
        self._settle = settle_seconds
        self._view: View | None = None
        self._link = Link(self.base_url, api_key=api_key, workspace=workspace, seconds=request_seconds)
        self._shared = _Shared()

    @classmethod
    def configured(cls, settings: Settings, *, dialectic: bool = False) -> HonchoBackend:
        """The backend that the user's settings describe."""
        return cls(
            api_key=settings.honcho_key,
            base_url=settings.honcho_url,
            workspace=settings.honcho_workspace,
            path=settings.home,
            redactor=configured_redactor(settings),
            timeout_ms=settings.honcho_timeout_ms or TIMEOUT_MS,
            dialectic=dialectic,
            send_scoped=settings.honcho_send_scoped,
        )

    def is_available(self) -> bool:
        """Whether it is configured and installed. A server that is away does not make it unavailable: writes wait."""
        try:
            return not self.problem and bool(self._index)
        except WarmstartError:
            return False

    def is_reachable(self) -> bool:
        """Whether Honcho answers now and takes the key, within the time that a read would wait."""
        if self.problem:
            return False
        answer = self._shared.asking.together([self._link.ping], self._seconds)[0]
        if (index := self._shared.index) is not None:
            (index.patience.answered if answer.value else index.patience.failed)()
        return bool(answer.value)

    # -- the contract

    def store(self, user_id: str, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Keep a value here and send it in the background, if it may be; secrets are replaced before either."""
        check_user(user_id)
        given = prepared(key, value, metadata, view=self._view, redactor=self.redactor)
        place = f"{SCOPES[given.scope]}:{given.place}" if given.scope else ""
        record = Record("", clean(user_id), place, given.key, given.value, 0.0, given.expires_at, given.metadata)
        self._index.write(record, send_scoped=self._send_scoped)
        self._courier.wake()
        return True

    def retrieve(self, user_id: str, key: str) -> MemoryEntry | None:
        index, user_id, names = self._index, clean(user_id), self._names(key)
        jobs = [lambda: self._refresh(user_id)]
        if not index.position(user_id).complete:
            jobs.append(lambda: self._fetch(user_id, names))
        self._ask(user_id, jobs)
        found = (index.get(user_id, self._places, name) for name in names)
        return next((entry for entry in found if entry is not None), None)

    def query(
        self, user_id: str, query_text: str, limit: int = 10, *, dialectic: bool | None = None
    ) -> list[MemoryEntry]:
        """Entries first, by words here and by Honcho's own search, then what Honcho concluded.

        With `dialectic` the answer of Honcho's language model comes first. What is not an entry has a `source` in its
        metadata that begins with `honcho`.
        """
        index, user_id = self._index, clean(user_id)
        text = clean(query_text).strip()
        if limit < 1:
            return []
        if not text:
            self._ask(user_id, [lambda: self._refresh(user_id)])
            return index.newest(user_id, self._places, limit)
        found = self._ask_all(user_id, text, limit, self._dialectic if dialectic is None else dialectic)
        local = index.search(user_id, self._places, text, limit)
        ids = list(dict.fromkeys(str(each.metadata[ID]) for each in found.messages if ID in each.metadata))
        current = index.of_versions(user_id, self._places, ids)
        entries = fused(local, [current[each] for each in ids if each in current])
        derived = self._derived(user_id, found)
        room = min(len(derived), max(limit // 3, limit - len(entries)))
        return [*found.answers, *entries[: limit - room], *derived[:room]][:limit]

    def list_keys(self, user_id: str) -> list[str]:
        index, user_id = self._index, clean(user_id)
        self._ask(user_id, [lambda: self._refresh(user_id)])
        return index.keys(user_id, self._places)

    def delete(self, user_id: str, key: str) -> bool:
        """Hide a key at once, and have Honcho delete what it can; `forgotten` says what came of it."""
        index, user_id = self._index, clean(user_id)
        self.retrieve(user_id, key)  # it may be known only elsewhere
        gone = [index.erase(user_id, self._places, name) for name in self._names(key)]
        self._courier.wake()
        return any(gone)

    def history(self, user_id: str, key: str) -> list[Version]:
        index, user_id = self._index, clean(user_id)
        self._ask(user_id, [lambda: self._refresh(user_id)])
        found = [version for name in self._names(key) for version in index.history(user_id, self._places, name)]
        return sorted(found, key=lambda version: version.since, reverse=True)

    def users(self) -> list[str]:
        """Those with entries; also those at Honcho of whom nothing could be read in time, who may have some."""
        index, deadline = self._index, time.monotonic() + self._seconds
        there = self._ask("", [self._link.users])
        found = set((there[0].value if there else None) or ()).difference(index.users())
        refresh = [partial(self._refresh, user) for user in sorted(found)]
        self._shared.asking.together(refresh, deadline - time.monotonic())
        return sorted({*index.users(), *(user for user in found if not index.knows(user))})

    def at(self, view: View) -> HonchoBackend:
        seen = copy.copy(self)
        seen._view = view
        return seen

    def close(self) -> None:
        """Let go, after giving what is on its way the time that a read would have."""
        with self._shared.lock:
            index, courier = self._shared.index, self._shared.courier
            self._shared.index = self._shared.courier = None
        if index is None or courier is None:
            return
        deadline = time.monotonic() + self._seconds
        try:
            if index.patience.is_lasting:
                courier.flush(self._seconds)
                self._shared.asking.drain(deadline)
        finally:
            courier.close()
            self._shared.closed = True
            self._link.close()
            index.count(self._link.traffic)
            index.close()

    # -- beyond the contract

    def flush(self, seconds: float = 30.0) -> bool:
        """Send what waits now; whether all of it has arrived within this time."""
        return bool(self._index) and self._courier.flush(seconds)

    def retry(self) -> int:
        """Have what Honcho refused sent once more; how much that is."""
        count = self._index.outbox.retry()
        self._courier.wake()
        return count

    def sync(self, user_id: str | None, seconds: float = 30.0) -> bool:
        """Read all that is new at Honcho of a user, or of everyone; whether that was done within this time."""
        index = self._index

        def read() -> None:
            for user in self._link.users() if user_id is None else [clean(user_id)]:
                pull(index, self._link, user)

        answer = self._shared.asking.together([read], seconds)[0]
        return answer.done and answer.error is None

    def forget_user(self, user_id: str) -> int:
        """Remove all of a user here at once, and have Honcho delete what it can; how many entries there were.

        Honcho deletes the session, with its messages and what it concluded from them, when it comes to it, and until
        then takes nothing new of this user. `forgotten` says what came of it. Other machines forget it too if they look
        before Honcho has deleted the session; one that does not keeps what it has read.
        """
        gone = self._index.forget_user(clean(user_id))
        self._courier.wake()
        return gone

    def stays_here(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an entry with this metadata is never sent."""
        scoped = metadata.get(SCOPE) not in (None, "user") or metadata.get(EXPIRES_AT) is not None
        return scoped and not self._send_scoped

    def forgotten(self, user_id: str) -> list[Forgetting]:
        """What became of what was deleted here, the newest first."""
        return self._index.outbox.forgotten(clean(user_id))

    def archived_users(self) -> list[str]:
        """Whoever has entries, or had some that were deleted."""
        return sorted({*self.users(), *self._index.logged_users()})

    def archive(self, user_id: str) -> list[Kept]:
        """All that is kept of a user here, after asking what is new, in the order in which it was written."""
        index, user_id = self._index, clean(user_id)
        self._ask(user_id, [lambda: self._refresh(user_id)])
        return archive(index, user_id)

    def sent(self) -> Traffic:
        """What went over the wire since this memory was opened."""
        return self._link.traffic

    def status(self) -> Status:
        index = self._index
        traffic = index.traffic().plus(self._link.traffic)
        outbox = index.outbox
        return Status(
            self.base_url,
            outbox.waiting(),
            tuple(outbox.refused()),
            self._courier.error,
            traffic.calls,
            traffic.bytes,
            self._link.denied,
        )

    # -- asking

    @property
    def _index(self) -> Index:
        if self.problem:
            raise MemoryBackendError(self.problem)
        with self._shared.lock:
            if self._shared.index is None:
                if self._shared.closed:
                    raise MemoryBackendError(_CLOSED)
                self._shared.index = Index(self._folder / self._name)
                self._shared.courier = Courier(
                    self._shared.index,
                    self._link,
                    settle=self._settle,
                    patience=self._seconds,
                    send_scoped=self._send_scoped,
                )
                if self._shared.index.outbox.waiting():  # left by a process that ended
                    self._shared.courier.wake()
            return self._shared.index

    @property
    def _courier(self) -> Courier:
        courier = self._shared.courier if self._index else None
        if courier is None:
            raise MemoryBackendError(_CLOSED)
        return courier

    @property
    def _places(self) -> list[str] | None:
        """The places that are seen from here, the narrowest first; nothing where all are."""
        if self._view is None:
            return None
        view = view_as_kept(self._view, self.redactor)
        narrow = [f"{scope}:{place}" for scope, place in (("agent", view.agent), ("project", view.project)) if place]
        return [*narrow, ""]

    def _names(self, key: str) -> list[str]:
        """A key as it may be kept: as it is, or without the secret in it."""
        name = clean(key)
        return list(dict.fromkeys((name, self.redactor.clean(name))))

    def _refresh(self, user_id: str) -> None:
        pull(self._index, self._link, user_id)

    def _fetch(self, user_id: str, names: Sequence[str]) -> None:
        """Get one key, where the whole session has not been read yet."""
        for name in names:
            found = [incoming(message, user_id) for message in self._link.with_key(user_id, key_digest(name))]
            self._index.merge([record for record in found if record])

    def _ask(self, user_id: str, jobs: Sequence[Callable[[], Any]]) -> list[Answer]:
        """Run these at once and wait for them, if Honcho is worth waiting for."""
        index = self._index
        position = index.position(user_id)
        if len(jobs) == 1 and user_id and time.time() - position.pulled_at < self._fresh:
            return []
        if not index.patience.may_wait():
            return []
        loaded = self._link.is_loaded
        # The SDK takes longer to load than a read may wait. Where the index is whole, there is no point in waiting.
        seconds = self._seconds if loaded or not position.complete else 0.0
        began = time.monotonic()
        answers = self._shared.asking.together(jobs, seconds)
        if any(answer.done for answer in answers):
            index.patience.answered()
        elif any(answer.failed for answer in answers) or (loaded and not self._link.answered_since(began)):
            index.patience.failed()
        return answers

    def _ask_all(self, user_id: str, text: str, limit: int, dialectic: bool) -> Found:
        words = question(self.redactor.clean(text))
        jobs: list[Callable[[], Any]] = [lambda: self._refresh(user_id)]
        if words:
            jobs.append(lambda: self._link.search(user_id, words, limit))
            if time.monotonic() >= self._shared.conclusions_from:
                jobs.append(lambda: self._link.conclusions(user_id, words, limit))
        else:
            jobs.append(list)
        chat = Answer()
        asked = self.redactor.clean(text)
        if dialectic:
            self._link.load()  # who asks for this has time
            chat = self._shared.asking.begin(lambda: self._link.chat(user_id, asked, _DIALECTIC_SECONDS))
        answers = self._ask(user_id, jobs)
        if not answers:
            return Found([], [], [])
        conclusions = answers[2] if len(answers) > 2 else Answer()
        if isinstance(conclusions.error, Refused | Unsure):  # it has no embeddings, for one
            self._shared.conclusions_from = time.monotonic() + _NO_CONCLUSIONS_SECONDS
        elif len(answers) > 2 and not conclusions.done and answers[0].done:  # or it waits for them itself
            self._shared.conclusions_from = time.monotonic() + _LATE_CONCLUSIONS_SECONDS
        if dialectic and any(answer.done for answer in answers):
            chat.wait(time.monotonic() + _DIALECTIC_SECONDS)
        said = [of_answer(user_id, text, chat.value)] if chat.value else []
        return Found(answers[1].value or [], conclusions.value or [], said)

    def _derived(self, user_id: str, found: Found) -> list[MemoryEntry]:
        """What Honcho says on its own.

        Once something was deleted, this leaves out what Honcho concluded from our session, or from where it does not
        say: nothing tells which of it repeats what was deleted.
        """
        conclusions = found.conclusions
        if self._index.has_deleted(user_id):
            conclusions = [each for each in conclusions if each.session not in ("", session_name(user_id))]
        others = [message for message in found.messages if ID not in message.metadata]
        return [
            *(of_conclusion(user_id, each) for each in conclusions),
            *(of_message(user_id, each) for each in others),
        ]


class _Shared:
    """What all views of one memory have in common."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.index: Index | None = None
        self.courier: Courier | None = None
        self.closed = False
        self.asking = Asking()
        self.conclusions_from = 0.0


def _problem(base_url: str, api_key: str) -> str:
    """Why it cannot be used; empty when it can."""
    if not is_installed():
        return MISSING
    if not base_url:
        return "Honcho is not configured: set HONCHO_API_KEY, or memory.honcho.url to a server of your own"
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"the address of Honcho {base_url!r} is none; give something like http://127.0.0.1:8000")
    if is_production(base_url) and not api_key:
        return f"{base_url} needs a key: set HONCHO_API_KEY; nothing is sent there without"
    return ""
