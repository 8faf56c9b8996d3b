"""The profiles of stored sessions, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from warmstart.errors import SessionNotFound
from warmstart.profile.profiler import Profiler
from warmstart.profile.store import Kept, SQLProfileStore
from warmstart.profile.values import Profile, Profiled
from warmstart.sessions.outcomes import OUTCOME_RULES, judge
from warmstart.sessions.sql import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session

_CALLS = 2000  # of the profiles that wait to be written

Progress = Callable[[int, int], None]


def profiled(
    store: SQLSessionStore,
    *,
    tools: Mapping[str, str] | None = None,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
) -> Iterator[Profiled]:
    """The chosen sessions with their profiles, newest first; those that are missing or outdated are made first.

    `tools` is the user's own table of what tools are for. `progress` is told how many of how many were made.
    """
    profiler = Profiler(tools)
    kept = SQLProfileStore(store)
    update(store, kept, profiler, filter=filter, progress=progress)
    return kept.profiles(profiler.rules, filter)


def update(
    store: SQLSessionStore,
    kept: SQLProfileStore,
    profiler: Profiler,
    *,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
) -> int:
    """Profile what is new or has changed, and what was profiled by other rules; returns how many sessions that were."""
    store.rejudge(judge, OUTCOME_RULES)
    stale = kept.stale(profiler.rules, filter)
    made: list[Kept] = []
    calls = 0
    for number, (session_id, revision) in enumerate(stale, 1):
        messages = list(store.messages(session_id))
        try:
            session = store.get(session_id)
        except SessionNotFound:
            continue  # another process deleted it
        profile = profiler.profile(session, messages)
        made.append(Kept(session_id, revision, profile))
        calls += len(profile.calls)
        if calls >= _CALLS:
            kept.keep(made, profiler.rules)
            made, calls = [], 0
        if progress is not None:
            progress(number, len(stale))
    if made:
        kept.keep(made, profiler.rules)
    return len(stale)


def profile_of(store: SQLSessionStore, session: Session, *, tools: Mapping[str, str] | None = None) -> Profile:
    """The profile of one session, kept or made now."""
    profiler = Profiler(tools)
    kept = SQLProfileStore(store)
    update(store, kept, profiler, filter=Filter(id=session.id))
    return next(each.profile for each in kept.profiles(profiler.rules, Filter(id=session.id)))
