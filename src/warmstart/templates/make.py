"""From sessions to a template: the items of each are taken, all are merged, and the result is checked.

A session that failed or was revoked gives nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from warmstart.errors import NothingToCarry
from warmstart.profile.feedback import count_words
from warmstart.profile.profiler import Profiler, profile_of
from warmstart.profile.values import Profile, TaskType
from warmstart.redact import Redactor
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Message, Session
from warmstart.templates.allowlist import is_safe_text
from warmstart.templates.brief import fails_now
from warmstart.templates.extract import extract_items
from warmstart.templates.item import Item, Kind, SessionItems
from warmstart.templates.item_store import ItemStore
from warmstart.templates.procedures import strip_greeting
from warmstart.templates.rendering import call_fields
from warmstart.templates.revoke import revoked as revoked_sessions
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.template import SessionSeed, State, WarmTemplate
from warmstart.templates.tools import Definitions, fingerprint, fits, schemas_of
from warmstart.templates.validation import check, problems
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection

# How many items of each kind a template carries; procedures have an option of their own.
_MAX_ITEMS: dict[Kind, int] = {
    "instruction": 12,
    "correction": 5,
    "decision": 5,
    "command": 12,
    "trap": 6,
    "file": 12,
    "reference": 8,
    "habit": 2,
    "open": 0,  # where one session stopped says nothing to another
}
_DEFAULT_MAX = 10
_MAX_EVIDENCE = 120  # characters of what says that a session failed
_MAX_NAMED = 5  # sessions that an error names
_MAX_TOOLS = 3  # in a description
_PLAIN_SENTENCE = re.compile(r"[\w'’,/ .()-]+", re.ASCII)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class SessionExtractor:
    """Extracts what is worth carrying from one session, by one set of rules.

    `tools` are the definitions that arguments have to fit. Without `placeholders` only secrets are replaced. `allow`
    are commands that may be carried although they are not known to be safe.
    """

    def __init__(
        self,
        *,
        redactor: Redactor | None = None,
        tools: Definitions | None = None,
        max_examples: int = 3,
        placeholders: bool = True,
        allow: Sequence[str] = (),
        profiler: Profiler | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._tools = None if tools is None else list(tools)
        self._max_examples = max_examples
        self._options = {"keep_values": not placeholders, "allowed": tuple(allow)}
        self._profiler = profiler or Profiler()

    def extract(self, session: Session, messages: Sequence[Message], *, profile: Profile | None = None) -> SessionSeed:
        """What is worth carrying from a session; nothing at all from one that is known to have failed."""
        known = profile or self._profiler.profile(session, messages)
        if "failure" in (session.outcome, known.outcome.value):
            return SessionSeed()
        return merge([self.items(session, messages)], max_examples=self._max_examples, tools=self._tools)

    def items(self, session: Session, messages: Sequence[Message]) -> SessionItems:
        """All that a session teaches."""
        steps = self._profiler.steps(session, messages)
        return extract_items(session, messages, steps, redactor=self._redactor, **self._options)


# -- merging


def merge(sessions: Iterable[SessionItems], *, max_examples: int = 3, tools: Definitions | None = None) -> SessionSeed:
    """The items of sessions, each once, the best of each kind first.

    What most sessions have comes first, then the newest. A command that fails by now is left out, and what has words of
    some output counts only if another session has it from a clean source.
    """
    schemas = schemas_of(tools or ())
    same: dict[object, list[Item]] = {}
    for session in sorted(sessions, key=lambda one: (one.ended_at or _LONG_AGO, one.session_id)):
        for item in session.items:
            same.setdefault(_identity(item), []).append(item)
    merged = _in_turns(sorted((_merge(items) for items in same.values() if _is_worth(items, schemas)), key=_order))
    numbers: Counter[Kind] = Counter()
    chosen = []
    for item in merged:
        numbers[item.kind] += 1
        most = max_examples if item.kind == "procedure" else _MAX_ITEMS.get(item.kind, _DEFAULT_MAX)
        if numbers[item.kind] <= most:
            chosen.append(item)
    return SessionSeed(items=tuple(chosen))


def _identity(item: Item) -> object:
    if item.kind == "procedure":  # the same calls show the same, whatever was asked for
        return item.kind, tuple((call.tool, re.sub(r"_\d+(?=\}\})", "", call.arguments)) for call in item.calls)
    return item.kind, item.tool, item.text if item.kind in ("file", "command") else item.text.lower().rstrip(".!")


def _merge(items: Sequence[Item]) -> Item:
    """One item for several that say the same, in the words of the newest clean one."""
    newest = max(items, key=lambda item: (item.clean, item.last_seen or _LONG_AGO))
    first = [item.first_seen for item in items if item.first_seen]
    last = [item.last_seen for item in items if item.last_seen]
    return replace(
        newest,
        count=sum(item.count for item in items),
        worked=sum(item.worked for item in items),
        failed=sum(item.failed for item in items),
        first_seen=min(first, default=None),
        last_seen=max(last, default=None),
        sources=tuple(dict.fromkeys(source for item in items for source in item.sources)),
    )


def _is_worth(items: Sequence[Item], schemas: Mapping[str, Mapping[str, Any] | None]) -> bool:
    if items[0].kind == "command" and (fails_now(items) or not any(item.worked for item in items)):
        return False
    return any(item.clean for item in items) and all(
        fits(schemas.get(call.tool), call_fields(call)) for call in items[0].calls
    )


def _order(item: Item) -> tuple[object, ...]:
    sessions = len({source.session for source in item.sources})
    return (-sessions, -item.last_seen.timestamp() if item.last_seen else 0.0, -item.count)


def _in_turns(items: Sequence[Item]) -> list[Item]:
    """The best procedure of every session, then the second: three of one would leave no room for the others."""
    turns: list[tuple[int, Item]] = []
    before: Counter[str] = Counter()
    for item in items:
        sessions = {source.session for source in item.sources} if item.kind == "procedure" else set()
        turns.append((min((before[session] for session in sessions), default=0), item))
        before.update(sessions)
    return [item for _, item in sorted(turns, key=lambda turn: turn[0])]


# -- a template


class _Given(NamedTuple):
    """A session that gives something."""

    session: Session
    profile: Profile
    items: SessionItems


def create(
    store: SQLTemplateStore,
    sessions: Sequence[str],
    *,
    author: str = "",
    revise: Callable[[WarmTemplate], WarmTemplate] = lambda template: template,
    **options: Any,
) -> WarmTemplate:
    """Make a template, check it and save it; `options` are those of `make`."""
    template = revise(make(store.sessions, sessions, revoked=revoked_sessions(store), **options))
    check(template, tools=options.get("tools"))
    count = len(template.sources)
    return store.add(template, author=author, reason=f"extracted from {count} session{'' if count == 1 else 's'}")


def make(
    store: SQLSessionStore,
    sessions: Sequence[str],
    *,
    name: str,
    description: str = "",
    task_type: TaskType | None = None,
    tags: Sequence[str] = (),
    max_examples: int = 3,
    redactor: Redactor | None = None,
    tools: Definitions | None = None,
    placeholders: bool = True,
    allow: Sequence[str] = (),
    origin: str = "user",
    state: State = "active",
    revoked: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    skip: Skip = log_skip,
) -> WarmTemplate:
    """A template of these sessions, not saved yet. `revoked` are the ids of sessions that may give nothing any more.

    `kinds` is the user's own table of what tools are for; `skip` is called with a session that gives nothing, and why.
    Raises `SessionNotFound`, `NothingToCarry` if no session gives anything, and `InvalidTemplate` if what they give
    breaks a rule.
    """
    redactor, profiler = redactor or Redactor(), Profiler(kinds)
    known = None if tools is None else list(tools)
    kept = ItemStore(store, redactor=redactor, profiler=profiler) if placeholders and not allow else None
    extractor = SessionExtractor(redactor=redactor, placeholders=placeholders, allow=allow, profiler=profiler)
    given: list[_Given] = []
    refused: dict[str, str] = {}
    # Whatever the order in which they are named, the same sessions give the same template.
    for id_, session in sorted({session.id: session for session in map(store.get, sessions)}.items()):
        try:
            if id_ in revoked:
                raise NothingToCarry("it was revoked (choose another session)")
            given.append(_take(session, profile_of(store, session, tools=kinds), store, kept or extractor))
        except NothingToCarry as error:
            refused[id_] = str(error)
        except BAD_SESSION as error:
            refused[id_] = f"it cannot be read ({type(error).__name__}: {one_line(str(error), _MAX_EVIDENCE)})"
    if not given:
        raise NothingToCarry(redactor.clean(_nothing(refused)))
    for id_, why in refused.items():
        skip(id_, NothingToCarry(redactor.clean(why)))
    template = WarmTemplate(
        name=redactor.clean(name.strip()),
        seed=merge([each.items for each in given], max_examples=max_examples, tools=known),
        description=redactor.clean(description.strip()),
        task_type=task_type or _task_type([each.profile for each in given]),
        tags=tuple(dict.fromkeys(redactor.clean(tag.strip()) for tag in tags if tag.strip())),
        project=_common([each.session.project for each in given]),
        agent=_common([each.session.agent for each in given]),
        sources=tuple(each.session.id for each in given),
        state=state,
        origin=origin,
    )
    return _check(template, given, known, redactor)


def _take(session: Session, profile: Profile, store: SQLSessionStore, source: ItemStore | SessionExtractor) -> _Given:
    """A session with its items, kept or extracted now. Raises `NothingToCarry` with the reason and what to do."""
    if profile.outcome.value == "failure":
        evidence = f"{one_line(profile.outcome.evidence, _MAX_EVIDENCE)}: " if profile.outcome.evidence else ""
        after_all = f"`warmstart sessions outcome {session.id} success` if it went well after all"
        raise NothingToCarry(f"it ended in failure ({evidence}choose another, or say {after_all})")
    if isinstance(source, SessionExtractor):
        items = source.items(session, list(store.messages(session.id)))
    else:
        source.update(Filter(id=session.id), skip=_raise)
        (items,) = source.items(Filter(id=session.id))
    if _says_something(merge([items])):
        return _Given(session, profile, items)
    if session.parent_kind == "subagent":
        raise NothingToCarry(f"it is the talk of a subagent (name the session {session.parent_id} that started it)")
    if not profile.calls:
        raise NothingToCarry("it has no tool calls and no standing instructions (choose one in which tools were used)")
    raise NothingToCarry("none of its calls worked and may be shown (choose another session)")


def _raise(session: str, error: Exception) -> None:
    raise error


def _says_something(seed: SessionSeed) -> bool:
    """Whether a seed holds more than how the user writes and which files there are."""
    return any(item.kind not in ("habit", "file", "open") for item in seed.items)


def _nothing(refused: Mapping[str, str]) -> str:
    """Why there is no template, in a line."""
    if not refused:
        return "no session was named, so there is nothing to carry; name at least one (`warmstart sessions list`)"
    reasons = [f"session {id_} gives nothing to carry: {why}" for id_, why in refused.items()]
    more = len(reasons) - _MAX_NAMED
    return "; ".join(reasons[:_MAX_NAMED] + ([f"and {more} more sessions give nothing"] if more > 0 else []))


def _check(
    template: WarmTemplate, given: Sequence[_Given], tools: Definitions | None, redactor: Redactor
) -> WarmTemplate:
    """The template without items that break a rule, described by what is left."""
    bare = replace(template, name="one", description="", tags=())
    alone = [replace(bare, seed=SessionSeed(items=(item,))) for item in template.seed.items]
    seed = SessionSeed(items=tuple(one.seed.items[0] for one in alone if not problems(one)))
    if not _says_something(seed):
        raise NothingToCarry("nothing of these sessions may be carried; choose other sessions")
    schemas = schemas_of(tools or ())
    used = sorted({call.tool for item in seed.of("procedure") for call in item.calls})
    sources = {source.session for source in seed.sources}
    described = describe(seed, [each.items for each in given if each.session.project])
    template = replace(
        template,
        seed=seed,
        description=template.description or redactor.clean(described),
        described_by="" if template.description else "rules",
        sources=tuple(each.session.id for each in given if each.session.id in sources),
        tools={tool: fingerprint(schemas.get(tool)) for tool in used},
    )
    check(template, tools=tools)
    return template


def describe(seed: SessionSeed, sessions: Sequence[SessionItems]) -> str:
    """The task and the tools in one plain sentence; empty if no request makes one."""
    titles = (one.title for one in sessions)
    sentences = (
        strip_greeting(sentence).strip(" ,;:")
        for text in (*seed.tasks, *titles)
        for sentence in re.split(r"(?<=[\w)}])[.!?](?:\s|$)|\n| \(changed ", text)[:3]
    )
    task = next((one for one in sentences if 4 <= count_words(one) <= 20 and _is_plain(one)), "")
    tools = list(dict.fromkeys(call.tool for item in seed.of("procedure") for call in item.calls))[:_MAX_TOOLS]
    return (
        one_line(f"{task[:1].upper()}{task[1:]}{', with ' if tools else ''}{' and '.join(tools)}.", 200) if task else ""
    )


def _is_plain(sentence: str) -> bool:
    return bool(_PLAIN_SENTENCE.fullmatch(sentence)) and not find_injection(sentence) and is_safe_text(sentence)


def _task_type(profiles: Sequence[Profile]) -> TaskType:
    """What more than half of the sessions are about."""
    best, times = Counter(profile.task_type for profile in profiles).most_common(1)[0]
    return best if 2 * times > len(profiles) else "mixed"


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else ""
