"""Templates made without being asked for: of the sessions that went well, one per project and type of task.

When new sessions come, such a template gets a new version. It is a candidate until a person promotes it or its effect
is measured, and stays as it is from then on. Sessions with the same task on one day and branch, and so of one state of
the repository, count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from warmstart.errors import InvalidTemplate, NothingToCarry, SessionNotFound, TemplateChanged
from warmstart.memory.words import stems
from warmstart.profile.profiler import profiled
from warmstart.profile.values import Profile, Profiled, TaskType
from warmstart.redact.redactor import Redactor
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip
from warmstart.sessions.projects import short_names
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session
from warmstart.templates.lifecycle import AUTHOR
from warmstart.templates.make import make
from warmstart.templates.revoke import revoked
from warmstart.templates.store import SQLTemplateStore, Summary, content_hash
from warmstart.templates.template import WarmTemplate

MIN_CALLS = 5  # of a session
MAX_ERROR_RATE = 0.1
ORIGIN = "auto"

_MAX_SESSIONS, _MIN_SESSIONS = 20, 10  # of a template, if there are so many
_MAX_COMPARED = 60  # sessions of a group, the newest
_ALIKE = 0.6  # the share of common words from which two tasks are the same

Progress = Callable[[int, int], None]


class Made(NamedTuple):
    """What came of the sessions of one project and type of task, and why; `template` is what there is or would be."""

    project: str
    task_type: TaskType
    action: Literal["created", "changed", "skipped"]
    why: str
    sessions: tuple[str, ...] = ()
    template: WarmTemplate | None = None


@dataclass
class _Group:
    project: str
    task_type: TaskType
    good: list[Session] = field(default_factory=list)  # newest first
    left_out: Counter[str] = field(default_factory=Counter)


def auto(
    store: SQLTemplateStore,
    *,
    min_calls: int = MIN_CALLS,
    max_error_rate: float = MAX_ERROR_RATE,
    dry_run: bool = False,
    project: str = "",
    kinds: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
    skip: Skip = log_skip,
) -> list[Made]:
    """Make templates of the sessions that succeeded with few errors, of one project or of all.

    `kinds` is the user's own table of what tools are for; `progress` is called with how many sessions were profiled,
    and `skip` with each session that cannot be read. With `dry_run` no template is written.
    """
    without = revoked(store)
    every = list(profiled(store.sessions, tools=kinds, filter=Filter(project=project), progress=progress, skip=skip))
    groups = _groups(every, lambda each: _flaw(*each, min_calls, max_error_rate, without))
    known = {(each.project, each.task_type): each for each in store.summaries() if each.origin == ORIGIN}
    names = short_names({*store.sessions.projects(), *(place[0] for place in groups)})
    made = []
    for place, group in sorted(groups.items()):
        old = known.get(place)
        chosen = _diverse(store, group.good)
        why_not = _why_not(store, group, chosen, old)
        if why_not:
            made.append(Made(*place, "skipped", why_not, tuple(chosen)))
            continue
        try:
            template = make(
                store.sessions,
                chosen,
                name=old.name if old else f"{names[group.project] or 'sessions'} {group.task_type}",
                task_type=group.task_type,
                redactor=redactor,
                origin=ORIGIN,
                state="candidate",
                revoked=without,
                kinds=kinds,
                skip=lambda session, error: None if isinstance(error, NothingToCarry) else skip(session, error),
            )
            made.append(_save(store, template, group, tuple(chosen), old, dry_run=dry_run))
        except (NothingToCarry, InvalidTemplate, SessionNotFound, TemplateChanged) as error:
            made.append(Made(*place, "skipped", str(error).splitlines()[0], tuple(chosen)))
        except BAD_SESSION as error:  # what no session shows alone, such as in merging
            why = f"these sessions cannot be used together ({type(error).__name__}: {error})"[:300]
            made.append(Made(*place, "skipped", why, tuple(chosen)))
    return made


def _groups(every: Sequence[Profiled], flaw: Callable[[Profiled], str]) -> dict[tuple[str, TaskType], _Group]:
    """The sessions by project and type of task: those that are good enough, and why others are not."""
    groups: dict[tuple[str, TaskType], _Group] = {}
    conversations: set[str] = set()
    parents = {session.id: session.parent_id for session, _ in every}
    for each in every:
        place = (each.session.project, each.profile.task_type)
        group = groups.setdefault(place, _Group(*place))
        root = _root(each.session.id, parents)
        if reason := flaw(each) or ("part of the same conversation as another" if root in conversations else ""):
            group.left_out[reason] += 1
        else:
            conversations.add(root)
            group.good.append(each.session)
    return groups


def _root(session: str, parents: Mapping[str, str | None]) -> str:
    """The session that a conversation began with, which may have been resumed, branched or delegated since."""
    seen = {session}
    while (parent := parents.get(session)) and parent not in seen:
        seen.add(parent)
        session = parent
    return session


def _flaw(session: Session, profile: Profile, min_calls: int, max_error_rate: float, revoked: Collection[str]) -> str:
    """Why a session is no example; empty for one that is."""
    if session.id in revoked:
        return "revoked"
    if session.parent_kind == "subagent":
        return "of a subagent"
    if profile.outcome.value != "success":
        return "failed" if profile.outcome.value == "failure" else "without a known outcome"
    if profile.markers.calls < min_calls:
        return f"with fewer than {min_calls} calls"
    rate = profile.markers.error_rate
    if rate is None or rate > max_error_rate:
        return f"with more than {max_error_rate:.0%} errors" if rate is not None else "without results"
    return ""


def _diverse(store: SQLTemplateStore, good: Sequence[Session]) -> list[str]:
    """The newest sessions with different tasks; where these are few, the same tasks of other days too."""
    different: list[str] = []
    others: list[str] = []
    seen: list[tuple[frozenset[str], object]] = []
    for session in good[:_MAX_COMPARED]:
        words = frozenset(stems(store.sessions.get(session.id).title))
        state = (session.branch, session.started_at and session.started_at.date())
        alike = [other for each, other in seen if len(words & each) >= _ALIKE * len(words | each)]
        if not alike:
            different.append(session.id)
        elif state not in alike:
            others.append(session.id)
        seen.append((words, state))
    return [*different[:_MAX_SESSIONS], *others[: max(0, _MIN_SESSIONS - len(different))]]


def _why_not(store: SQLTemplateStore, group: _Group, chosen: Collection[str], old: Summary | None) -> str:
    """Why no template is made of a group, or no new version; empty where one is."""
    if not group.good:
        return f"no session went well enough: {_list(group.left_out)}"
    if old is None:
        return ""
    if old.state in ("active", "retired"):
        return f"{old.id} is {old.state} and stays as it is; delete it to have another made"
    for version in store.versions(old.id):
        if version.author != AUTHOR and not version.reason.startswith("revoked "):
            return f"{old.id} was changed by {version.author or 'a person'}; it is theirs now"
    return "" if set(chosen) - set(old.sources) else f"nothing new since version {old.version} of {old.id}"


def _save(
    store: SQLTemplateStore,
    made: WarmTemplate,
    group: _Group,
    chosen: tuple[str, ...],
    old: Summary | None,
    *,
    dry_run: bool,
) -> Made:
    place = (group.project, group.task_type)
    why = f"{_sessions(len(made.sources))} that went well"
    if group.left_out:
        why += f"; left out: {_list(group.left_out)}"
    if old is None:
        if not dry_run:
            made = store.add(made, author=AUTHOR, reason=f"made of {_sessions(len(made.sources))} that went well")
        return Made(*place, "created", why, chosen, made)
    before = store.get(old.id)
    if content_hash(made) == content_hash(before):
        return Made(*place, "skipped", "the new sessions say nothing new", chosen, before)
    if not dry_run:
        made = store.change(
            old.id,
            author=AUTHOR,
            reason=f"{_sessions(len(set(made.sources) - set(old.sources)), 'new ')} that went well",
            expected=old.version,
            seed=made.seed,
            description=made.description,
            described_by=made.described_by,
            sources=made.sources,
            tools=made.tools,
            agent=made.agent,
        )
    return Made(*place, "changed", why, chosen, made)


def _sessions(number: int, which: str = "") -> str:
    return f"{number} {which}session{'' if number == 1 else 's'}"


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
