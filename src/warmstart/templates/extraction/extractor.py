"""From a session to its seed: with rules alone, nothing invented, and every item with its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Profile
from warmstart.redact.redactor import Redactor
from warmstart.sessions.values import Message, Session
from warmstart.templates.extraction.cards import cards
from warmstart.templates.extraction.context import contexts
from warmstart.templates.extraction.demonstrating import Demonstrator, task_of
from warmstart.templates.extraction.marking import markers
from warmstart.templates.extraction.patterns import patterns
from warmstart.templates.extraction.placeholders import Placeholders
from warmstart.templates.extraction.recovering import recoveries
from warmstart.templates.extraction.stretches import Stretch, has_failed, stretches
from warmstart.templates.extraction.sweeping import swept
from warmstart.templates.extraction.walk import walk
from warmstart.templates.tools import Definitions, schemas_of
from warmstart.templates.values import SessionSeed, Task

TASKS = 20  # sub-tasks of one session


class SessionExtractor:
    """Extracts what is worth carrying from sessions, by one set of rules.

    `tools` are the definitions that arguments have to stay valid for. Without `placeholders` only secrets are replaced.
    """

    def __init__(
        self,
        *,
        redactor: Redactor | None = None,
        tools: Definitions | None = None,
        max_examples: int = 3,
        placeholders: bool = True,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._schemas = schemas_of(tools or ())
        self._max_examples = max_examples
        self._placeholders = placeholders
        self._profiler = Profiler()

    def extract(self, session: Session, messages: Sequence[Message], *, profile: Profile | None = None) -> SessionSeed:
        """What is worth carrying from a session; nothing at all from one that is known to have failed."""
        known = profile or self._profiler.profile(session, messages)
        if has_failed(session, known.outcome):
            return SessionSeed()
        whole = walk(session, messages)
        places = Placeholders(whole, redactor=self._redactor, enabled=self._placeholders, schemas=self._schemas)
        good = stretches(whole, known.outcome)
        done = replace(whole, taken=tuple(step for stretch in good for step in stretch.steps))
        # Placeholders are counted in the order in which they are met: first where a reader meets them.
        demonstrations = Demonstrator(places, project=session.project).demonstrations(good, self._max_examples)
        seed = SessionSeed(
            demonstrations=demonstrations,
            contexts=contexts(whole, places),
            cards=cards(done, places, known),
            recoveries=recoveries(done, places, known),
            patterns=patterns(whole, places, known),
            markers=markers(done, places),
            tasks=_tasks(good, places),
        )
        return swept(seed, whole, self._schemas)


def _tasks(good: Sequence[Stretch], places: Placeholders) -> tuple[Task, ...]:
    tasks: dict[str, Task] = {}
    for stretch in reversed(good):  # what was asked for last is what the person works on
        if len(tasks) < TASKS and (task := task_of(stretch, places)):
            tasks.setdefault(task.text.lower(), task)
    return tuple(tasks.values())[::-1]
