"""Delivers the outbox to Honcho in order and exactly once, whichever process dies; and fetches what is new.

A batch is marked as attempted before it is sent, and removed when Honcho confirms it. An attempted batch that was not
confirmed is looked up at Honcho before it is resent. One process delivers at a time, under a file lock that ends with
the process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from warmstart.errors import WarmstartError
from warmstart.memory.honcho.link import Away, Gone, Link, Rejection, Unsure
from warmstart.memory.honcho.mirror import CircuitBreaker, Mirror, Parcel, Position
from warmstart.memory.honcho.wire import ID, KEY, farewell, incoming, outgoing, peer_name

_MAX_BATCH = 99  # messages in a request; Honcho takes 100, and a farewell may come first
_FIRST_PAUSE, _MAX_PAUSE = 0.25, 30.0  # seconds after failures, doubling
_HURRY = 0.5  # minimum seconds between attempts, even while a caller waits
_LOCKED_OUT = 0.05  # seconds between attempts to take the lock


class Courier:
    """A background thread that ends when there is nothing left to deliver."""

    def __init__(self, mirror: Mirror, link: Link, *, settle: float) -> None:
        self._mirror = mirror
        self._breaker = CircuitBreaker(mirror)
        self._link = link
        self._settle = settle  # seconds in which a request without an answer may still take effect
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_wanted = False
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._pause = 0.0
        self.error = ""  # what went wrong last, until something succeeds

    def wake(self) -> None:
        """Deliver the outbox in the background."""
        with self._starting:
            self._is_wanted = True
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._work, name="warmstart-honcho", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Deliver the outbox now; returns whether it is empty in time, whoever emptied it."""
        deadline = time.monotonic() + seconds
        while self._mirror.waiting():
            if time.monotonic() >= deadline or self._stop.is_set():
                return False
            self._hurry.set()
            self.wake()
            time.sleep(0.01)
        return True

    def close(self) -> None:
        self._stop.set()
        self._hurry.set()
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(0.05)

    @property
    def is_closed(self) -> bool:
        return self._stop.is_set()

    def _work(self) -> None:
        self._is_wanted = False
        try:
            self._deliver_all()
        except (WarmstartError, OSError) as error:  # the file cannot be used; the next call will say so
            self.error = str(error)
        finally:
            with self._starting:
                self._thread = None
        if self._is_wanted:  # since the outbox was found empty
            self.wake()

    def _deliver_all(self) -> None:
        self._pause = 0.0
        while self._mirror.waiting() and not self._stop.is_set():
            with _alone(self._mirror) as is_mine:
                trouble = self._deliver_some() if is_mine else None
            if not is_mine:
                self._stop.wait(_LOCKED_OUT)
            elif trouble is not None:
                if not self._pause and not isinstance(trouble, Gone):
                    self._breaker.failed()
                self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _MAX_PAUSE)
                least = getattr(trouble, "retry_after", None) or min(self._pause, _HURRY)
                self._hurry.clear()  # before looking at `_stop`, which `close` sets first
                if not self._stop.wait(min(least, _MAX_PAUSE)):
                    self._hurry.wait(max(0.0, self._pause - least))

    def _deliver_some(self) -> Exception | None:
        """Deliver the outbox until an error, which is returned. Skips sessions that Honcho is about to delete."""
        gone: dict[str, Exception] = {}
        while not self._stop.is_set() and (batch := self._mirror.batch(_MAX_BATCH, gone)):
            trouble = self._try(batch)
            if isinstance(trouble, Gone):
                gone[batch[0].change.session] = trouble
            elif trouble is not None:
                return trouble
        trouble = next(iter(gone.values()), None)
        self.error = str(trouble or self.error)
        return trouble

    def _try(self, batch: Sequence[Parcel]) -> Exception | None:
        """Deliver a batch; returns the error if it may be temporary."""
        began = time.monotonic()
        try:
            if batch[0].kind != "message":
                self._run(batch[0])
            elif attempted := [parcel for parcel in batch if parcel.attempted_at is not None]:
                self._look_for(attempted)
            else:
                self._send(batch)
        except (Away, Unsure) as error:
            self.error = str(error)
            return error
        except Rejection as error:
            self.error = str(error)
            if len(batch) > 1:  # one of them is to blame
                return next((trouble for parcel in batch if (trouble := self._try([parcel]))), None)
            if not self._link.ping():  # nothing else gets through either
                return Away(str(error))
            self._mirror.reject(batch[0], str(error))
            return None
        self.error, self._pause = "", 0.0
        if time.monotonic() - began < self._link.timeouts.read:
            self._breaker.answered()
        return None

    def _send(self, batch: Sequence[Parcel]) -> None:
        self._link.load()  # slow, so not between claiming and sending
        if not (batch := self._mirror.claim(batch)):
            return
        change = batch[0].change
        peer = peer_name(change.user_id, change.place if change.expires_at is None else change.session)
        forgotten_at = self._mirror.farewell(change.user_id)  # for machines that were away then
        first = [] if forgotten_at is None else [farewell(forgotten_at)]
        try:
            self._link.add(change.session, peer, change.user_id, [*first, *(outgoing(each.change) for each in batch)])
        except (Away, Rejection):
            self._mirror.release(batch)
            raise
        self._mirror.done(batch, forgotten_at=forgotten_at)

    def _look_for(self, parcels: Sequence[Parcel]) -> None:
        """Find out which of these have arrived. The others are sent next time."""
        settled = max(parcel.attempted_at or 0.0 for parcel in parcels) + self._settle
        if self._stop.wait(max(0.0, settled - time.time())):
            return
        ids = {ID: {"in": [parcel.change.id for parcel in parcels]}}
        there = {str(message.metadata.get(ID)) for message in self._link.find(parcels[0].change.session, ids)}
        self._mirror.done([parcel for parcel in parcels if parcel.change.id in there])
        self._mirror.release([parcel for parcel in parcels if parcel.change.id not in there])

    def _run(self, parcel: Parcel) -> None:
        change = parcel.change
        if parcel.kind == "forget_user":
            # Honcho shows the messages until it deletes them, so the last one says that they are deleted. The peer, its
            # card and its other conclusions may belong to another application, and stay.
            for session in self._link.sessions(change.user_id):
                with suppress(Gone):  # it was deleted before
                    self._link.add(session, peer_name(change.user_id), change.user_id, [farewell(change.at)])
                self._link.delete_session(session)
        elif parcel.kind == "delete_session":
            self._link.delete_session(change.session)
        else:
            for message in self._link.find(change.session, {KEY: change.key_digest}):
                found = incoming(message, change.user_id)
                if found and found.value is not None and found.at <= change.at:
                    self._link.blank(change.session, message)
        self._mirror.done([parcel])


def pull(mirror: Mirror, link: Link, user_id: str, session: str) -> bool:
    """Read what is new in a session; returns whether it exists. It only ever grows, so we count what we have read.

    If the last message that we read is not in its place, the session was deleted and created again.
    """
    is_same = False
    while True:
        before = mirror.position(session)
        size = 20 if before.is_complete else 100
        number = (before.seen if is_same else max(before.seen - 1, 0)) // size + 1
        messages, total = link.page(session, number, size)
        first = (number - 1) * size
        if before.seen and not is_same:
            last = messages[before.seen - 1 - first : before.seen - first]
            if not last or last[0].id != before.last:  # start over
                mirror.advance(user_id, session, before, [], Position(is_complete=not total))
                if not total:
                    return False
                continue
        new = messages[before.seen - first :]
        changes = [incoming(message, user_id) for message in new]
        seen = before.seen + len(new)
        is_end = seen >= total or (is_same and not new)
        now = Position(seen, before.is_complete or is_end, last=new[-1].id if new else before.last)
        mirror.advance(user_id, session, before, [change for change in changes if change], now)
        if is_end:
            return total > 0
        is_same = True


@contextmanager
def _alone(mirror: Mirror) -> Iterator[bool]:
    """Hold the delivery lock of this file; yields whether it was free."""
    lock = os.open(f"{mirror.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)
