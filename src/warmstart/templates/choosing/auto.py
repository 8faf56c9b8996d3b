"""Templates made without being asked for: of the sessions that went well, per project and type of task.

Ten to twenty different sessions make a good one. There is one automatic template for each project and type: when new
sessions come, it gets a new version. It is a candidate until a person promotes it, and stays what they saw from then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, NamedTuple

from warmstart.errors import InvalidTemplate, NothingToCarry, SessionNotFound, TemplateChanged
from warmstart.memory.words import stems
from warmstart.profile.profiles import profiled
from warmstart.profile.values import Profile, Profiled, TaskType
from warmstart.redact.redactor import Redactor
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session
from warmstart.templates.choosing.families import families
from warmstart.templates.choosing.lifecycle import AUTHOR
from warmstart.templates.choosing.states import unpromoted
from warmstart.templates.choosing.values import MAX_ERROR_RATE, MIN_CALLS
from warmstart.templates.hashing import content_hash
from warmstart.templates.making import make
from warmstart.templates.revoking import revoked
from warmstart.templates.rows import Summary
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.values import WarmTemplate

ORIGIN = "auto"
_MOST, _ENOUGH = 20, 10  # sessions of a template
_LOOKED_AT = 60  # sessions of a group that are compared, the newest
_REVOKED = "revoked "  # how the reason of a revocation begins: it takes away, and makes the template nobody's own
_DEEP = 2  # parts of a path that has a folder in a folder
_TELLING = 3  # letters of a folder's name that say something
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
    good: list[Session] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)


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

    `kinds` is the user's own table of what tools are for; `progress` is told how many sessions were profiled,
    and `skip` which session cannot be read. With `dry_run` no template is written.
    """
    gone = revoked(store)
    every = profiled(store.sessions, tools=kinds, filter=Filter(project=project), progress=progress, skip=skip)
    groups = _groups(store, every, gone, min_calls=min_calls, max_error_rate=max_error_rate)
    making = _Making(store, store.summaries(), gone, kinds, redactor, dry_run, skip)
    return [making.of(place, task_type, group) for (place, task_type), group in sorted(groups.items())]


def _groups(
    store: SQLTemplateStore,
    every: Iterable[Profiled],
    gone: Collection[str],
    *,
    min_calls: int,
    max_error_rate: float,
) -> dict[tuple[str, TaskType], _Group]:
    """The sessions by project and type of task, newest first: those that are good enough, and why others are not."""
    relations = families(store)
    seen: set[str] = set()
    groups: dict[tuple[str, TaskType], _Group] = {}
    for session, profile in every:
        group = groups.setdefault((session.project, profile.task_type), _Group())
        reason = _lacking(session, profile, min_calls, max_error_rate)
        if not reason and session.id in gone:
            reason = "revoked"
        if not reason and relations.root(session.id) in seen:
            reason = "part of the same conversation as another"
        if reason:
            group.passed_over[reason] += 1
        else:
            seen.add(relations.root(session.id))
            group.good.append(session)
    return groups


def _lacking(session: Session, profile: Profile, min_calls: int, max_error_rate: float) -> str:
    """Why a session is no example; empty for one that is."""
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


class _Making:
    def __init__(
        self,
        store: SQLTemplateStore,
        known: Collection[Summary],
        gone: Collection[str],
        kinds: Mapping[str, str] | None,
        redactor: Redactor | None,
        dry_run: bool,
        skip: Skip,
    ) -> None:
        self._store = store
        self._known = {(each.project, each.task_type): each for each in known if each.origin == ORIGIN}
        self._names = {each.name for each in known}
        self._unpromoted = unpromoted(store)
        self._gone = gone
        self._kinds = kinds
        self._redactor = redactor
        self._dry_run = dry_run
        self._skip = skip

    def of(self, project: str, task_type: TaskType, group: _Group) -> Made:
        """What comes of a group of sessions."""

        def skipped(why: str, template: WarmTemplate | None = None) -> Made:
            return Made(project, task_type, "skipped", why, tuple(chosen), template)

        chosen: list[str] = []
        if not group.good:
            return skipped(f"no session went well enough: {_listed(group.passed_over)}")
        old = self._known.get((project, task_type))
        if old is not None and (reason := self._untouchable(old)):
            return skipped(reason)
        chosen += self._diverse(group.good)
        if old is not None and not set(chosen) - set(old.sources):
            return skipped(f"nothing new since version {old.version} of {old.id}")
        try:
            made = make(
                self._store.sessions,
                chosen,
                name=old.name if old else self._name(project, task_type),
                task_type=task_type,
                redactor=self._redactor,
                origin=ORIGIN,
                state="candidate",
                revoked=self._gone,
                kinds=self._kinds,
                skip=self._skip,
            )
            return self._kept(made, old, project, tuple(chosen), group.passed_over)
        except (NothingToCarry, InvalidTemplate, SessionNotFound, TemplateChanged) as error:
            return skipped(str(error).splitlines()[0])
        except BAD_SESSION as error:  # what no session shows alone, such as in merging
            return skipped(f"these sessions cannot be used together ({type(error).__name__}: {error})"[:300])

    def _untouchable(self, old: Summary) -> str:
        if old.state == "retired":
            return f"{old.id} was retired; delete it to have another made"
        versions = self._store.versions(old.id)
        before = [*versions[1:], None]
        for version, earlier in zip(versions, before, strict=True):
            edited = earlier is None or earlier.hash != version.hash
            if edited and version.author != AUTHOR and not version.reason.startswith(_REVOKED):
                return f"{old.id} was edited by {version.author or 'a person'}; it is theirs now"
        if old.state == "active" and old.id not in self._unpromoted:
            return f"{old.id} was promoted and stays as it is; delete it to have another made"
        return ""

    def _kept(
        self,
        made: WarmTemplate,
        old: Summary | None,
        project: str,
        chosen: tuple[str, ...],
        passed_over: Mapping[str, int],
    ) -> Made:
        several = _sessions(len(made.sources), "")
        why = f"{several} that went well" + (f"; left out: {_listed(passed_over)}" if passed_over else "")
        if old is None:
            return self._created(made, project, chosen, several, why)
        before = self._store.get(old.id)
        if content_hash(made) == content_hash(before):
            return Made(project, made.task_type, "skipped", "the new sessions say nothing new", chosen, before)
        if not self._dry_run:
            made = self._store.change(
                old.id,
                author=AUTHOR,
                reason=f"{_sessions(len(set(made.sources) - set(old.sources)), 'new ')} that went well",
                expected=old.version,
                state="candidate",
                seed=made.seed,
                description=made.description,
                described_by=made.described_by,
                sources=made.sources,
                tools=made.tools,
                agent=made.agent,
            )
        return Made(project, made.task_type, "changed", why, chosen, made)

    def _created(self, made: WarmTemplate, project: str, chosen: tuple[str, ...], several: str, why: str) -> Made:
        self._names.add(made.name)
        if not self._dry_run:
            with self._store.database.transaction():
                for each in self._store.summaries():
                    if (each.origin, each.project, each.task_type) == (ORIGIN, made.project, made.task_type):
                        return Made(project, made.task_type, "skipped", f"{each.id} was made meanwhile", chosen)
                made = self._store.add(made, author=AUTHOR, reason=f"made of {several} that went well")
        return Made(project, made.task_type, "created", why, chosen, made)

    def _name(self, project: str, task_type: TaskType) -> str:
        """A name that no other template has: with as much of the project's path as that takes."""
        names = [f"{called} {task_type}" for called in _called(project)]
        return next((name for name in names if name not in self._names), names[-1])

    def _diverse(self, good: Collection[Session]) -> list[str]:
        """The newest sessions with different tasks; where these are few, others too."""
        different: list[str] = []
        others: list[str] = []
        asked: list[frozenset[str]] = []
        for session in list(good)[:_LOOKED_AT]:
            words = frozenset(stems(self._store.sessions.get(session.id).title))
            if any(len(words & each) >= _ALIKE * len(words | each) for each in asked):
                others.append(session.id)
            else:
                different.append(session.id)
                asked.append(words)
        return [*different[:_MOST], *others[: max(0, _ENOUGH - len(different))]]


def _called(project: str) -> list[str]:
    """What a project may be called, shortest first: `worktrees/2`, as `2` says little, or with more of the path."""
    parts = PurePath(project).parts or ("sessions",)
    fewest = 2 if len(parts[-1]) < _TELLING and len(parts) > _DEEP else 1
    return [str(PurePath(*parts[-number:])) for number in range(fewest, len(parts) + 1)]


def _sessions(number: int, which: str) -> str:
    return f"{number} {which}session{'' if number == 1 else 's'}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
