"""Make a template from sessions: extract the items of each, merge them, and check the result.

A session that failed or was revoked contributes nothing. Automatic templates, one per project and task type, are made
from the sessions that went well, and new sessions give them a new version. Such a template is a candidate until a
person promotes it or its benefit is measured; from then on it is left as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from warmstart.errors import InvalidTemplate, NothingToCarry, SessionNotFound, TemplateChanged
from warmstart.profile.calls import SHELLS
from warmstart.profile.feedback import count_words
from warmstart.profile.profiler import Profiler, Progress, profile_of, profiled
from warmstart.profile.values import Profile, TaskType
from warmstart.redact import Redactor
from warmstart.sessions.projects import short_names
from warmstart.sessions.sql_store import BAD_SESSION, Skip, SQLSessionStore, log_skip
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Message, Session
from warmstart.templates.brief import Sources, fails_now, read_project_files
from warmstart.templates.examples import ACT, AGAIN, EDIT, FIND, FORM, LOOK, RECOVERY, choose_examples
from warmstart.templates.examples import identity as example_identity
from warmstart.templates.extract import extract_items
from warmstart.templates.item import MAX_EXAMPLES, Item, Kind, SessionItems
from warmstart.templates.lifecycle import AUTHOR
from warmstart.templates.rendering import call_fields
from warmstart.templates.rules import pattern, subject_of
from warmstart.templates.safety import is_safe_text
from warmstart.templates.store import SQLTemplateStore, Summary, content_hash
from warmstart.templates.template import SessionSeed, State, WarmTemplate
from warmstart.templates.tools import Definitions, fingerprint, fits, schemas_of
from warmstart.templates.validation import check, without_problems
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection
from warmstart.text.words import topic_terms

Action = Literal["created", "changed", "skipped"]
Keep = Callable[[Item], bool]

ORIGIN = "auto"
# Maximum items of each kind in a template. Where one session stopped is of no use to another.
_DEFAULT_MAX = 6
_MAX_ITEMS: dict[Kind, int] = {"instruction": 12, "context": 12, "command": 12, "file": 12, "habit": 2, "open": 0}
_MAX_EVIDENCE = 120  # characters of the evidence that a session failed
_MAX_SESSIONS = 20  # newest sessions that an automatic template is made from
_MAX_NAMED = 5  # sessions, and calls of each, listed in an error
_SENTENCE_END = re.compile(r"(?<=[\w)}])[.!?](?:\s|$)|\n| \(changed ")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class SessionExtractor:
    """Extracts what is worth carrying from one session.

    Without `placeholders` only secrets are replaced. `allow` lists commands that may be carried even though they are
    not known to be safe.
    """

    def __init__(
        self,
        *,
        redactor: Redactor | None = None,
        placeholders: bool = True,
        allow: Sequence[str] = (),
        profiler: Profiler | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._options = {"keep_values": not placeholders, "allowed": tuple(allow)}
        self._profiler = profiler or Profiler()

    def extract(self, session: Session, messages: Sequence[Message]) -> SessionSeed:
        """What is worth carrying from a session."""
        return merge([self.items(session, messages)])

    def items(self, session: Session, messages: Sequence[Message]) -> SessionItems:
        """All items of a session."""
        steps = self._profiler.steps(session, messages)
        declared = _declared(session.project) if session.project else ""
        return extract_items(
            session, messages, steps, redactor=self._redactor, with_examples=True, declared=declared, **self._options
        )


@lru_cache(maxsize=8)
def _declared(project: str) -> str:
    """The manifests and docs of a project, if it is on this machine."""
    files = read_project_files(Path(project))
    return f"{files.manifests}\n{files.docs}"


def merge(
    sessions: Iterable[SessionItems], *, max_examples: int = MAX_EXAMPLES, keep: Keep | None = None
) -> SessionSeed:
    """The distinct items of several sessions that `keep` keeps, the best of each kind first.

    Items that most sessions have come first, then the newest. A command that has started to fail is left out, and so is
    an item that contained words of tool output in the first session that has it.
    """
    same: dict[object, list[Item]] = {}
    sessions = sorted(sessions, key=lambda session: (session.ended_at or _LONG_AGO, session.session_id))
    sources = Sources(sessions)
    for session in sessions:
        for item in session.items:
            same.setdefault(_identity(item), []).append(item)
    trusted = (_merge(items) for items in same.values() if _is_worth(items) and sources.trust(items))
    merged = list(filter(keep, trusted))
    examples = choose_examples([item for item in merged if item.kind == "example"], max_examples)
    shown = {source for item in examples if len(item.calls) > 1 for source in item.sources[:1]}
    numbers: Counter[Kind] = Counter()
    chosen = []
    for item in sorted(merged, key=_order):
        is_shown = item.kind == "trap" and item.calls[0].tool_name in SHELLS and item.sources[0] in shown
        if item.kind == "example" or is_shown:
            continue
        numbers[item.kind] += 1
        if numbers[item.kind] <= _MAX_ITEMS.get(item.kind, _DEFAULT_MAX):
            chosen.append(item)
    return SessionSeed(items=(*chosen, *examples))


def _identity(item: Item) -> object:
    if item.kind == "example":
        return item.kind, example_identity(item)
    if item.kind == "file":  # a file that was read and changed is one item
        return item.kind, item.text
    return item.kind, item.tool, item.text if item.kind == "command" else item.text.lower().rstrip(".!")


def _merge(items: Sequence[Item]) -> Item:
    """Merge equivalent items into one, in the words of the newest clean one."""
    newest = max(items, key=lambda item: (item.clean, item.tool == "edit", item.last_seen or _LONG_AGO))
    return replace(
        newest,
        count=sum(item.count for item in items),
        worked=sum(item.worked for item in items),
        failed=sum(item.failed for item in items),
        first_seen=min((item.first_seen for item in items if item.first_seen), default=None),
        last_seen=max((item.last_seen for item in items if item.last_seen), default=None),
        sources=tuple(dict.fromkeys(source for item in items for source in item.sources)),
    )


def _is_worth(items: Sequence[Item]) -> bool:
    return items[0].kind != "command" or (not fails_now(items) and any(item.worked for item in items))


def _order(item: Item) -> tuple[object, ...]:
    sessions = len({source.session for source in item.sources})
    return (-sessions, -item.last_seen.timestamp() if item.last_seen else 0.0, -item.count)


def create(store: SQLTemplateStore, sessions: Sequence[str], *, author: str = "", **options: Any) -> WarmTemplate:
    """Make a template, check it and save it; `options` are those of `make`."""
    template = make(store.sessions, sessions, revoked=store.revoked(), **options)
    count = len(template.sources)
    return store.add(template, author=author, reason=f"extracted from {count} session{'' if count == 1 else 's'}")


def make(
    store: SQLSessionStore,
    sessions: Sequence[str],
    *,
    name: str = "",
    description: str = "",
    task_type: TaskType | None = None,
    tags: Sequence[str] = (),
    max_examples: int = MAX_EXAMPLES,
    redactor: Redactor | None = None,
    tools: Definitions | None = None,
    placeholders: bool = True,
    allow: Sequence[str] = (),
    origin: str = "user",
    state: State = "active",
    revoked: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    keep: Keep | None = None,
    skip: Skip = log_skip,
) -> WarmTemplate:
    """A template made from these sessions, not saved yet. `revoked` lists the ids of sessions that must not be used.

    Without a `name` it is named after its type, the first session and the time. `kinds` is the user's own table of what
    tools are for; `keep` decides which items may be carried; `skip` is called with each session that contributes
    nothing, and why. Raises `SessionNotFound`, `NothingToCarry` if no session contributes anything, and
    `InvalidTemplate` if the result breaks a rule.
    """
    redactor = redactor or Redactor()
    extractor = SessionExtractor(redactor=redactor, placeholders=placeholders, allow=allow, profiler=Profiler(kinds))
    used, refused = _read(store, sessions, extractor, revoked, kinds)
    if not used:
        reasons = [f"session {id_} has nothing to carry: {why}" for id_, why in refused.items()][:_MAX_NAMED]
        raise NothingToCarry(redactor.clean("; ".join((*reasons, "name another session (`warmstart sessions list`)"))))
    for id_, why in refused.items():
        skip(id_, NothingToCarry(redactor.clean(why)))
    schemas = schemas_of(tools or ())
    seed = _seed(used, schemas, max_examples, keep)
    project = _common([one.session.project for one in used])
    task_type = task_type or _task_type([one.profile for one in used])
    described = description.strip() or describe(seed, [one.items for one in used if one.session.project], project)
    template = WarmTemplate(
        name=redactor.clean(name.strip() or default_name(task_type, store.get(sessions[0]))),
        seed=seed,
        description=redactor.clean(described),
        described_by="" if description.strip() else "rules",
        task_type=task_type,
        tags=tuple(dict.fromkeys(redactor.clean(tag.strip()) for tag in tags if tag.strip())),
        project=project,
        agent=_common([one.session.agent for one in used]),
        sources=tuple(sorted({source.session for source in seed.sources})),
        tools={
            call.tool_name: fingerprint(schemas.get(call.tool_name))
            for item in seed.of("example")
            for call in item.calls
        },
        state=state,
        origin=origin,
    )
    check(template, tools=tools)
    return template


def _seed(
    used: Sequence[_Used], schemas: Mapping[str, Mapping[str, Any] | None], max_examples: int, keep: Keep | None
) -> SessionSeed:
    """The merged items that are valid and fit the tools."""
    merged = merge([one.items for one in used], max_examples=max_examples, keep=keep)
    draft = WarmTemplate(name="draft", seed=merged, sources=tuple(one.session.id for one in used))
    seed = SessionSeed(items=tuple(item for item in without_problems(draft) if _fits(item, schemas)))
    if not seed.items:
        raise NothingToCarry("nothing in these sessions may be carried; choose other sessions")
    return seed


class _Used(NamedTuple):
    session: Session
    profile: Profile
    items: SessionItems


def _read(
    store: SQLSessionStore,
    sessions: Sequence[str],
    extractor: SessionExtractor,
    revoked: Collection[str],
    kinds: Mapping[str, str] | None,
) -> tuple[list[_Used], dict[str, str]]:
    """The sessions that contribute something, and why each of the others does not. Their order does not matter.

    What failed contributes only if nothing else does: then the user wants its successful calls.
    """
    used, failed, refused = [], [], {}
    for id_, session in sorted({session.id: session for session in map(store.get, sessions)}.items()):
        try:
            profile = profile_of(store, session, tools=kinds)
            items = extractor.items(session, list(store.messages(id_)))
        except BAD_SESSION as error:
            refused[id_] = f"it cannot be read ({type(error).__name__}: {one_line(str(error), _MAX_EVIDENCE)})"
            continue
        if why := "it was revoked" if id_ in revoked else _refusal(items):
            refused[id_] = why
        elif profile.outcome.value == "failure":
            failed.append(_Used(session, profile, items))
        else:
            used.append(_Used(session, profile, items))
    if not used:
        return failed, refused
    for each in failed:
        evidence = one_line(each.profile.outcome.evidence, _MAX_EVIDENCE)
        hint = f"`warmstart sessions outcome {each.session.id} success` if it did not"
        refused[each.session.id] = f"it ended in failure ({evidence}; {hint})"
    return used, refused


def _refusal(items: SessionItems) -> str:
    """Why a session contributes nothing; empty if it contributes something.

    How the user writes, files and open work alone are not worth a template, unless a call succeeded.
    """
    seed = merge([items])
    says_something = any(item.kind not in ("habit", "file", "open") for item in seed.items)
    if says_something or (seed.items and items.refused):
        return ""
    reasons = Counter((refused.tool, refused.why) for refused in items.refused)
    calls = "; ".join(f"{number} × {tool}: {why}" for (tool, why), number in reasons.most_common(_MAX_NAMED))
    return f"it has no successful call that may be shown ({calls or 'no call succeeded'}) and no standing instruction"


class Explained(NamedTuple):
    """A successful call of a session: whether it is an example, and if not, why not."""

    session: str
    turn: int
    tool: str
    call: str
    is_carried: bool
    why: str


def explain_examples(
    store: SQLSessionStore,
    sessions: Sequence[str],
    *,
    max_examples: int = MAX_EXAMPLES,
    redactor: Redactor | None = None,
    kinds: Mapping[str, str] | None = None,
) -> list[Explained]:
    """The calls that a template made from these sessions carries as examples, and the others with the reason."""
    extractor = SessionExtractor(redactor=redactor, profiler=Profiler(kinds))
    found = []
    for session in {session.id: session for session in map(store.get, sessions)}.values():
        with suppress(*BAD_SESSION):  # `make` names it
            found.append(extractor.items(session, list(store.messages(session.id))))
    chosen = {example_identity(item) for item in merge(found, max_examples=max_examples).of("example")}
    rows = []
    for items in found:
        for item in items.of("example"):
            call = item.calls[-1]
            is_carried = example_identity(item) in chosen
            reasons = _CHOSEN if is_carried else _NOT_CHOSEN
            why = reasons.get(item.tool, "there is little else" if is_carried else "others teach more")
            row = (items.session_id, call.turn_number, call.tool_name, call.arguments, is_carried, why)
            rows.append(Explained(*row))
        rows += [Explained(items.session_id, each.turn, each.tool, "", False, each.why) for each in items.refused]
    return sorted(rows, key=lambda row: (row.session, not row.is_carried, row.turn, row.tool, row.call))


_CHOSEN = {
    RECOVERY: "an error, and what worked instead",
    ACT: "it runs, sends or fetches something",
    EDIT: "it changes a file",
    FIND: "it searches",
}
_NOT_CHOSEN = {LOOK: "it only looks around", FORM: "no value in it may be shown", AGAIN: "it is like another example"}


def _fits(item: Item, schemas: Mapping[str, Mapping[str, Any] | None]) -> bool:
    calls = [call for call in item.calls if call.success] if item.kind == "example" else []
    return all(fits(schemas.get(call.tool_name), call_fields(call)) for call in calls)


def describe(seed: SessionSeed, sessions: Sequence[SessionItems], project: str = "") -> str:
    """One plain sentence: the task, or the project of several sessions, and the tools; empty if neither is known."""
    sentences = (
        subject_of(sentence).strip(" ,;:")
        for text in (*seed.tasks, *(one.title for one in sessions))
        for sentence in (_SENTENCE_END.split(subject_of(text))[:-1] or [text])[:3]  # the last one may be truncated
    )
    plain = [one for one in sentences if count_words(one) <= 20 and not find_injection(one) and is_safe_text(one)]
    task = next((one for row in ("request", "statement") for one in plain if pattern(row).fullmatch(one)), "")
    terms = set(topic_terms(task))
    alike = sum(len(terms.intersection(topic_terms(one.title))) >= len(terms) / 2 for one in sessions)
    if project and 2 * alike < len(sessions):  # the task of a few does not describe the others
        task = f"work in {project.rstrip('/').rsplit('/', 1)[-1]}"
    commands = (f"`{item.text}`" for item in seed.of("command"))
    acts = (item.calls[0].tool_name for item in seed.of("example") if item.tool in (ACT, EDIT, FIND))
    tools = [*dict.fromkeys((*commands, *(name for name in acts if name not in SHELLS)))][:2]
    described = f"{task[:1].upper()}{task[1:]}{', with ' if tools else ''}{' and '.join(tools)}."
    return one_line(described, 200) if task else ""


def default_name(task_type: TaskType, session: Session) -> str:
    """A name from the type, the session and the time: `code_58e3c7d9_20261118_200102`."""
    return f"{task_type}_{session.native_id[:8]}_{datetime.now(UTC):%Y%m%d_%H%M%S}"


def _task_type(profiles: Sequence[Profile]) -> TaskType:
    """The task type of more than half of the sessions, or `mixed`."""
    best, times = Counter(profile.task_type for profile in profiles).most_common(1)[0]
    return best if 2 * times > len(profiles) else "mixed"


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else ""


# -- automatic templates


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
