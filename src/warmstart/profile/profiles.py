"""The profiles of stored sessions, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from warmstart.errors import SessionNotFound
from warmstart.profile.profiler import Profiler
from warmstart.profile.store import SQLProfileStore, Stored
from warmstart.profile.values import Profile, Profiled
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip
from warmstart.sessions.outcomes import OUTCOME_RULES, judge
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session

_BATCH = 2000  # calls in the profiles that are written together

Progress = Callable[[int, int], None]


def profiled(
    store: SQLSessionStore,
    *,
    tools: Mapping[str, str] | None = None,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
    skip: Skip = log_skip,
) -> Iterator[Profiled]:
    """The selected sessions with their profiles, newest first; missing or outdated profiles are made first.

    `tools` is the user's own table of what tools are for. `progress` receives the number of profiles made and of those
    to make, `skip` each session that cannot be profiled and the reason.
    """
    profiler = Profiler(tools)
    profiles = SQLProfileStore(store)
    update(store, profiles, profiler, filter=filter, progress=progress, skip=skip)
    return profiles.profiles(profiler.rules, filter)


def update(
    store: SQLSessionStore,
    profiles: SQLProfileStore,
    profiler: Profiler,
    *,
    filter: Filter = Filter(),  # noqa: B008 - Filter is frozen
    progress: Progress | None = None,
    skip: Skip | None = None,
) -> int:
    """Profile new and changed sessions, and those profiled by other rules; returns how many there were.

    Afterwards the selected sessions have the outcome of their profiles. Without `skip`, a session that cannot be
    profiled raises its error.
    """
    store.rejudge(judge, OUTCOME_RULES)
    stale = profiles.stale(profiler.rules, filter)
    made: list[Stored] = []
    calls = 0
    for number, (session_id, revision) in enumerate(stale, 1):
        try:
            messages = list(store.messages(session_id))
            profile = profiler.profile(store.get(session_id), messages)
        except SessionNotFound:
            continue  # another process deleted it
        except BAD_SESSION as error:
            if skip is None:
                raise
            skip(session_id, error)
            continue
        made.append(Stored(session_id, revision, profile))
        calls += len(profile.calls)
        if calls >= _BATCH:
            profiles.save(made, profiler.rules)
            made, calls = [], 0
        if progress is not None:
            progress(number, len(stale))
    if made:
        profiles.save(made, profiler.rules)
    return len(stale)


def profile_of(store: SQLSessionStore, session: Session, *, tools: Mapping[str, str] | None = None) -> Profile:
    """The profile of one session, made now if it is missing."""
    profiler = Profiler(tools)
    profiles = SQLProfileStore(store)
    update(store, profiles, profiler, filter=Filter(id=session.id))
    return next(each.profile for each in profiles.profiles(profiler.rules, Filter(id=session.id)))
