"""Automatic templates: one per project and task type, made from the sessions that went well.

New sessions give such a template a new version. It is a candidate until a person promotes it or its benefit is
measured; from then on it is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from warmstart.errors import InvalidTemplate, NothingToCarry, SessionNotFound, TemplateChanged
from warmstart.profile.profiler import Progress, profiled
from warmstart.profile.values import Profile, TaskType
from warmstart.redact.redactor import Redactor
from warmstart.sessions.projects import short_names
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Session
from warmstart.templates.lifecycle import AUTHOR
from warmstart.templates.make import make
from warmstart.templates.store import SQLTemplateStore, Summary, content_hash
from warmstart.templates.template import WarmTemplate

ORIGIN = "auto"

_MAX_SESSIONS = 20  # newest sessions that a template is made from

Action = Literal["created", "changed", "skipped"]


class Made(NamedTuple):
    """The result for one project and task type, and why; `template` is the one saved, or that would be saved."""

    project: str
    task_type: TaskType
    action: Action
    why: str
    sessions: tuple[str, ...] = ()
    template: WarmTemplate | None = None


@dataclass
class _Group:
    good: list[str] = field(default_factory=list)  # sessions, newest first
    left_out: Counter[str] = field(default_factory=Counter)


def auto(
    store: SQLTemplateStore,
    *,
    min_calls: int = 5,
    max_error_rate: float = 0.1,
    dry_run: bool = False,
    project: str = "",
    kinds: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
) -> list[Made]:
    """Make templates from the sessions that succeeded with few errors, in one project or in all.

    `kinds` is the user's own table of what tools are for; `progress` is called with the number of sessions profiled so
    far. With `dry_run` no template is written.
    """
    revoked = store.revoked()
    groups: dict[tuple[str, TaskType], _Group] = {}
    for session, profile in profiled(store.sessions, tools=kinds, filter=Filter(project=project), progress=progress):
        group = groups.setdefault((session.project, profile.task_type), _Group())
        if reason := _flaw(session, profile, min_calls, max_error_rate, revoked):
            group.left_out[reason] += 1
        else:
            group.good.append(session.id)
    known = {(each.project, each.task_type): each for each in store.summaries() if each.origin == ORIGIN}
    names = short_names({*store.sessions.projects(), *(place[0] for place in groups)})
    results = []
    for place, group in sorted(groups.items(), key=lambda each: each[0]):
        old, chosen = known.get(place), tuple(group.good[:_MAX_SESSIONS])
        if why_not := _why_not(store, group, old):
            results.append(Made(*place, "skipped", why_not, chosen))
            continue
        try:
            template = make(
                store.sessions,
                chosen,
                name=old.name if old else f"{names[place[0]] or 'sessions'} {place[1]}",
                task_type=place[1],
                redactor=redactor,
                origin=ORIGIN,
                state="candidate",
                revoked=revoked,
                kinds=kinds,
                skip=lambda *_: None,
            )
            action, why, template = _save(store, template, old, dry_run=dry_run)
            left_out = f"; left out: {_list(group.left_out)}" if group.left_out and action != "skipped" else ""
            results.append(Made(*place, action, why + left_out, chosen, template))
        except (NothingToCarry, InvalidTemplate, SessionNotFound, TemplateChanged) as error:
            results.append(Made(*place, "skipped", str(error).splitlines()[0], chosen))
    return results


def _flaw(session: Session, profile: Profile, min_calls: int, max_error_rate: float, revoked: Collection[str]) -> str:
    """Why a session does not qualify as an example; empty if it does."""
    outcome, markers = profile.outcome.value, profile.markers
    flaws = {
        "revoked": session.id in revoked,
        "from a subagent": session.parent_kind == "subagent",
        "failed": outcome == "failure",
        "without a known outcome": outcome == "unknown",
        f"with fewer than {min_calls} calls": markers.calls < min_calls,
        "without results": markers.error_rate is None,
        f"with more than {max_error_rate:.0%} errors": (markers.error_rate or 0.0) > max_error_rate,
    }
    return next((flaw for flaw, is_true in flaws.items() if is_true), "")


def _why_not(store: SQLTemplateStore, group: _Group, old: Summary | None) -> str:
    """Why a group gets no template, or no new version; empty if it does."""
    if not group.good:
        return f"no session went well enough: {_list(group.left_out)}"
    if old is None:
        return ""
    if old.state in ("active", "retired"):
        return f"{old.id} is {old.state} and is not updated; delete it to get a new one"
    for version in store.versions(old.id):
        if version.author != AUTHOR and not version.reason.startswith("revoked "):
            return f"{old.id} was edited by {version.author or 'a person'} and is no longer updated"
    new = set(group.good[:_MAX_SESSIONS]).difference(old.sources)
    return "" if new else f"nothing new since version {old.version} of {old.id}"


def _save(
    store: SQLTemplateStore, template: WarmTemplate, old: Summary | None, *, dry_run: bool
) -> tuple[Action, str, WarmTemplate]:
    """Store a new template, or a new version of the old one; returns the action, the reason and the template."""
    if old is None:
        why = f"sessions that went well: {len(template.sources)}"
        return "created", why, template if dry_run else store.add(template, author=AUTHOR, reason=why)
    before = store.get(old.id)
    if content_hash(template) == content_hash(before):
        return "skipped", "the new sessions add nothing", before
    why = f"new sessions that went well: {len(set(template.sources) - set(old.sources))}"
    if not dry_run:
        names = ("seed", "description", "described_by", "sources", "tools", "agent")
        fields = {name: getattr(template, name) for name in names}
        template = store.change(old.id, author=AUTHOR, reason=why, expected=old.version, **fields)
    return "changed", why, template


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
