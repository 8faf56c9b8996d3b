"""Questions that are put to Honcho in threads, so that nobody waits for them longer than they want to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from warmstart.memory.honcho.link import Refused

_AT_ONCE = 16  # threads that wait for answers

Job = Callable[[], Any]


class Answer:
    """What a thread found, once it has."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.value: Any = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        """It was answered, be it with a no."""
        return self._event.is_set() and (self.error is None or isinstance(self.error, Refused))

    @property
    def failed(self) -> bool:
        return self._event.is_set() and not self.done

    def run(self, job: Job) -> None:
        try:
            self.value = job()
        except Exception as error:  # a thread that nobody waits for any more must not print
            self.error = error
        finally:
            self._event.set()

    def wait(self, deadline: float) -> None:
        self._event.wait(max(0.0, deadline - time.monotonic()))


class Asking:
    """Threads that wait for answers, of which there are not many at a time."""

    def __init__(self) -> None:
        self._room = threading.Semaphore(_AT_ONCE)
        self._open: set[Answer] = set()
        self._lock = threading.Lock()

    def begin(self, job: Job) -> Answer:
        """Ask; where there is no room for one more, the answer never comes."""
        answer = Answer()
        if self._room.acquire(blocking=False):
            with self._lock:
                self._open.add(answer)
            threading.Thread(target=self._run, args=(answer, job), name="warmstart-honcho-ask", daemon=True).start()
        return answer

    def together(self, jobs: Sequence[Job], seconds: float) -> list[Answer]:
        """Ask all of these at once, and wait so long in all."""
        deadline = time.monotonic() + seconds
        answers = [self.begin(job) for job in jobs]
        for answer in answers:
            answer.wait(deadline)
        return answers

    def drain(self, deadline: float) -> None:
        """Wait for those that are still out."""
        with self._lock:
            out = list(self._open)
        for answer in out:
            answer.wait(deadline)

    def _run(self, answer: Answer, job: Job) -> None:
        answer.run(job)
        with self._lock:
            self._open.discard(answer)
        self._room.release()
