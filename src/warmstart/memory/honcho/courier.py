"""Brings what is in the outbox to Honcho: in order, once each, whatever dies in between.

Before a batch is sent, the index notes that it may arrive; when Honcho has said yes, it leaves the outbox. What is
found noted but not gone was sent by someone who did not live to hear the answer, or to whom none was given: it is
looked for at Honcho first. One process delivers at a time, under a lock of the operating system's, which
ends with the process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from warmstart.errors import WarmstartError
from warmstart.memory.honcho.index import Index, Position
from warmstart.memory.honcho.link import Away, Gone, Link, Refused, Unsure
from warmstart.memory.honcho.outbox import Parcel
from warmstart.memory.honcho.wire import FORGOTTEN, ID, farewell, incoming, outgoing

_AT_ONCE = 100  # messages in a request, which is Honcho's limit
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0  # seconds after failures, doubling
_HURRY = 0.5  # seconds between tries while somebody waits for them
_LOCKED_OUT = 0.05  # seconds between looks at a lock that another process holds


class Courier:
    """A thread of the background that ends when there is nothing left to bring."""

    def __init__(self, index: Index, link: Link, *, settle: float, patience: float, send_scoped: bool) -> None:
        self._index = index
        self._outbox = index.outbox
        self._link = link
        self._settle = settle  # seconds in which a request without an answer may still take effect
        self._patience = patience  # seconds within which an answer shows that reads may wait for one
        self._send_scoped = send_scoped
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self.error = ""  # what went wrong last, until something goes well

    def wake(self) -> None:
        """Have the outbox brought, in the background."""
        with self._starting:
            self._wanted = True
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._work, name="warmstart-honcho", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Have the outbox brought now; whether it is empty within this time, whoever emptied it."""
        began = time.monotonic()
        hurried = 0.0
        while self._outbox.waiting():
            now = time.monotonic()
            if now >= began + seconds or self._stop.is_set():
                return False
            if now >= hurried + _HURRY:
                hurried = now
                self._hurry.set()
            self.wake()
            time.sleep(0.01)
        return True

    def close(self) -> None:
        self._stop.set()
        self._hurry.set()
        thread = self._thread
        if thread is not None:
            thread.join(0.05)

    @property
    def is_idle(self) -> bool:
        return self._thread is None

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                with self._starting:
                    if not self._wanted:
                        break
                    self._wanted = False
                self._bring_all()
        except (WarmstartError, OSError) as error:  # the index cannot be used; the next call will say so
            self.error = str(error)
        finally:
            with self._starting:
                self._thread = None

    def _bring_all(self) -> None:
        pause = 0.0
        while self._outbox.waiting() and not self._stop.is_set():
            trouble: Exception | None = None
            aside: dict[str, str] = {}  # users whose session Honcho is about to delete; the others go on
            with _alone(self._index) as mine:
                while mine and trouble is None and not self._stop.is_set():
                    if not (batch := self._outbox.batch(_AT_ONCE, list(aside))):
                        break
                    trouble = self._try(batch)
                    if isinstance(trouble, Gone):
                        aside[batch[0].user_id] = str(trouble)
                        trouble = None
                    else:
                        pause = 0.0 if trouble is None else _longer(pause)
            if not mine:
                self._stop.wait(_LOCKED_OUT)
            elif trouble is not None and not self._stop.is_set():
                if pause == _FIRST_PAUSE:
                    self._index.patience.failed()
                self._wait(pause, getattr(trouble, "retry_after", None) or 0.0)
            elif aside:
                self.error = next(iter(aside.values()))
                pause = _longer(pause)
                self._wait(pause, 0.0)

    def _wait(self, seconds: float, at_least: float) -> None:
        """Wait, less where somebody is in a hurry, but as long as the server asked for."""
        self._stop.wait(min(at_least, _LONGEST_PAUSE))
        self._hurry.clear()
        self._hurry.wait(max(0.0, seconds - at_least))

    def _try(self, batch: Sequence[Parcel]) -> Exception | None:
        """Bring a batch; the trouble with it, if there was any that may pass."""
        began = time.monotonic()
        try:
            if batch[0].kind == "message":
                self._bring(batch)
            else:
                self._run(batch[0])
        except (Away, Unsure) as error:
            self.error = str(error)
            return error
        except Refused as error:
            self.error = str(error)
            if not self._link.ping():
                return Away(str(error))
            self._outbox.refuse(batch[0], str(error))
            return None
        self.error = ""
        if time.monotonic() - began < self._patience:
            self._index.patience.answered()
        return None

    def _bring(self, batch: Sequence[Parcel]) -> None:
        unsure = [parcel for parcel in batch if parcel.attempted_at is not None]
        if unsure:
            self._look_for(unsure)
            return
        self._send(batch)

    def _send(self, batch: Sequence[Parcel]) -> None:
        self._link.load()  # which takes long, and should not lie between reading and sending
        forgotten = self._outbox.farewell(batch[0].user_id)  # which a session that was begun anew says first
        first = [] if forgotten is None else [farewell(forgotten)]
        batch = batch[: _AT_ONCE - len(first)]
        self._outbox.attempt(batch)
        # Read only now: what is deleted from here on is known to be on its way, and is followed by its deletion.
        records = {
            record.id: record
            for record in self._outbox.records([parcel.version for parcel in batch])
            if self._send_scoped or record.is_general or record.value is None
        }
        for parcel in batch:
            if parcel.version not in records:  # deleted before, or no longer to be sent
                self._outbox.done(parcel)
        batch = [parcel for parcel in batch if parcel.version in records]
        if not batch:
            return
        try:
            arrived = self._link.add(batch[0].user_id, [*first, *(outgoing(records[each.version]) for each in batch)])
        except Away:
            self._outbox.unattempt(batch)
            raise
        except Refused as error:
            self._outbox.unattempt(batch)
            if len(batch) > 1:
                for parcel in batch:  # one of them is to blame
                    self._send([parcel])
            elif self._link.ping():
                self.error = str(error)
                self._outbox.refuse(batch[0], str(error))
            else:  # nothing else gets through either, so that it is not to blame
                raise Away(str(error)) from error
            return
        self._outbox.arrived(batch, arrived[len(first) :], farewell=forgotten)

    def _look_for(self, parcels: Sequence[Parcel]) -> None:
        """Find out which of these have arrived. The others are sent next time, as if they never had been."""
        settled = max(parcel.attempted_at or 0.0 for parcel in parcels) + self._settle
        while (left := settled - time.time()) > 0 and not self._stop.is_set():
            self._stop.wait(min(left, 0.5))
        if self._stop.is_set():
            return
        found = self._link.with_ids(parcels[0].user_id, [parcel.version for parcel in parcels])
        there = {str(message.metadata.get(ID)): message.id for message in found}
        arrived = [parcel for parcel in parcels if parcel.version in there]
        self._outbox.arrived(arrived, [there[parcel.version] for parcel in arrived])
        self._outbox.unattempt([parcel for parcel in parcels if parcel.version not in there])

    def _run(self, errand: Parcel) -> None:
        if errand.kind == "forget_user":
            self._link.forget(errand.user_id, float(errand.payload))
            self._outbox.done(errand)
            return
        found = self._outbox.records([errand.version])
        earlier = self._outbox.earlier(found[0]) if found else []
        for version, message_id in earlier:
            self._link.blank(errand.user_id, message_id, {ID: version, FORGOTTEN: True})
        self._outbox.done(errand, messages=len(earlier))


def pull(index: Index, link: Link, user_id: str) -> None:
    """Read what is new in a user's session. It only ever grows, so that its length says how far one has come.

    That holds for as long as it is the same session: the message that was read last has to be where it was.
    """
    is_same = False
    while True:
        before = index.position(user_id)
        size = 20 if before.complete else 100
        number = (before.seen if is_same else max(before.seen - 1, 0)) // size + 1
        page = link.page(user_id, number, size)
        first = (number - 1) * size
        if before.seen and not is_same:
            last = page.messages[before.seen - 1 - first : before.seen - first]
            if not last or last[0].id != before.last:  # the session was deleted at Honcho and begun anew
                index.advance(user_id, before, [], Position())
                if not page.total:
                    return
                continue
        new = page.messages[before.seen - first :]
        records = [incoming(message, user_id) for message in new]
        seen = before.seen + len(new)
        complete = seen >= page.total or (is_same and not new)
        now = Position(seen, complete, last=new[-1].id if new else before.last)
        index.advance(user_id, before, [record for record in records if record], now)
        if complete:
            return
        is_same = True


def _longer(pause: float) -> float:
    return min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)


@contextmanager
def _alone(index: Index) -> Iterator[bool]:
    """Hold the lock of those who deliver from this index; whether it was free."""
    lock = os.open(f"{index.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)
