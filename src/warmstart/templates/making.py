"""From stored sessions to a template: each is extracted, all are merged, and the result is checked.

A session that failed or was revoked gives nothing. Where others do, the template says in a note which did not and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from warmstart.errors import NothingToCarry
from warmstart.profile.profiles import profile_of
from warmstart.profile.values import Profile, Profiled, TaskType
from warmstart.redact import Redactor
from warmstart.sessions.bad_sessions import BAD_SESSION, Skip, log_skip
from warmstart.sessions.sql_store import SQLSessionStore
from warmstart.sessions.values import Session
from warmstart.templates.allowlist import showable
from warmstart.templates.describing import describe
from warmstart.templates.extraction.extractor import SessionExtractor
from warmstart.templates.extraction.merging import Dated, merge
from warmstart.templates.items import sources_in
from warmstart.templates.sieving import sieved
from warmstart.templates.tools import Definitions, fingerprint, schemas_of
from warmstart.templates.validation import check
from warmstart.templates.values import Note, SessionSeed, State, WarmTemplate

_EVIDENCE = 120  # characters of what says that a session failed
_TOLD = 5  # sessions of which an error tells


class Gave(NamedTuple):
    """What a session gave: a seed, or nothing, and then why, and what to do about it."""

    session: Session
    profile: Profile
    seed: SessionSeed
    why_not: str = ""
    advice: str = ""


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
    origin: str = "user",
    state: State = "active",
    revoked: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    skip: Skip = log_skip,
) -> WarmTemplate:
    """A template of these sessions, not saved yet. `revoked` are the ids of sessions that may give nothing any more.

    `kinds` is the user's own table of what tools are for; `skip` is told of a session that cannot be read. Raises
    `SessionNotFound`, `NothingToCarry` where no session gives anything, and `InvalidTemplate` where what they give
    breaks a rule.
    """
    redactor = redactor or Redactor()
    known = tuple(tools) if tools is not None else None
    extractor = SessionExtractor(redactor=redactor, tools=known, max_examples=max_examples, placeholders=placeholders)
    gave = given(store, sessions, extractor, revoked=revoked, kinds=kinds, skip=skip)
    if all(each.why_not for each in gave):
        raise NothingToCarry(redactor.clean(_nothing(gave)))
    # Whatever the order in which they are named, the same sessions give the same template.
    gave.sort(key=lambda each: each.session.id)
    some = [each for each in gave if not each.why_not]
    seed = merge(
        [Dated(each.seed, each.session.ended_at or each.session.started_at) for each in some], max_examples=max_examples
    )
    profiled = [Profiled(each.session, each.profile) for each in some]
    template = WarmTemplate(
        name=redactor.clean(name.strip()),
        seed=_noted(seed, gave),
        description=redactor.clean(description.strip()),
        task_type=task_type or _task_type(profiled),
        tags=tuple(dict.fromkeys(redactor.clean(tag.strip()) for tag in tags if tag.strip())),
        project=_common([each.session.project for each in some]),
        agent=_common([each.session.agent for each in some]),
        sources=sources_in(seed),
        state=state,
        tools=_fingerprints(seed, known),
        origin=origin,
    )
    return _checked(template, profiled, known, redactor)


def _checked(
    template: WarmTemplate, profiled: Sequence[Profiled], tools: Definitions | None, redactor: Redactor
) -> WarmTemplate:
    """The template without what breaks a rule, and described by what is left."""
    template = sieved(showable(template), tools=tools)
    seed = template.seed
    if not _is_worth(seed):
        raise NothingToCarry("; ".join(note.text for note in seed.notes[:_TOLD]) + "; choose other sessions")
    carried, shown = sources_in(seed), _shown(seed)
    template = replace(
        template,
        description=template.description or redactor.clean(describe(seed, profiled)),
        described_by="" if template.description else "rules",
        sources=tuple(each.session.id for each in profiled if each.session.id in carried),
        tools={tool: mark for tool, mark in template.tools.items() if tool in shown},
    )
    check(template, tools=tools)
    return template


def given(
    store: SQLSessionStore,
    sessions: Sequence[str],
    extractor: SessionExtractor,
    *,
    revoked: Collection[str] = (),
    kinds: Mapping[str, str] | None = None,
    skip: Skip = log_skip,
) -> list[Gave]:
    """What each of these sessions gives, each session once."""
    found: dict[str, Gave] = {}
    for name in sessions:
        session = store.get(name)
        if session.id not in found:
            try:
                found[session.id] = _gave(store, session, extractor, revoked, kinds)
            except BAD_SESSION as error:
                skip(session.id, error)
                why = f"it cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:_EVIDENCE]})"
                found[session.id] = Gave(session, Profile(), SessionSeed(), why, "choose another session")
    return list(found.values())


def _gave(
    store: SQLSessionStore,
    session: Session,
    extractor: SessionExtractor,
    revoked: Collection[str],
    kinds: Mapping[str, str] | None,
) -> Gave:
    if session.id in revoked:
        return Gave(session, Profile(), SessionSeed(), "it was revoked", "choose another session")
    profile = profile_of(store, session, tools=kinds)
    if profile.outcome.value == "failure":
        evidence = f"{' '.join(profile.outcome.evidence.split())[:_EVIDENCE]}: " if profile.outcome.evidence else ""
        after_all = f"`warmstart sessions outcome {session.id} success` if it went well after all"
        advice = f"{evidence}choose another, or say {after_all}"
        return Gave(session, profile, SessionSeed(), "it ended in failure", advice)
    seed = extractor.extract(session, list(store.messages(session.id)), profile=profile)
    return Gave(session, profile, seed, *(() if _is_worth(seed) else _why_nothing(session, profile)))


def _is_worth(seed: SessionSeed) -> bool:
    """Whether a seed holds more than how the person writes and which files there are."""
    return bool(seed.demonstrations or seed.cards or seed.recoveries or seed.contexts)


def _why_nothing(session: Session, profile: Profile) -> tuple[str, str]:
    if session.parent_kind == "subagent":
        return "it is the talk of a subagent", f"name the session {session.parent_id} that started it"
    if not profile.calls:
        return "it has no tool calls and no standing instructions", "choose one in which tools were used"
    return "none of its calls worked and may be shown", "choose another session"


def _nothing(gave: Sequence[Gave]) -> str:
    """Why there is no template, in a line."""
    if not gave:
        return "no session was named, so there is nothing to carry; name at least one (`warmstart sessions list`)"
    told = [
        f"session {each.session.id} gives nothing to carry: {each.why_not} ({each.advice})" for each in gave[:_TOLD]
    ]
    more = [f"and {len(gave) - _TOLD} more sessions give nothing"] if len(gave) > _TOLD else []
    return "; ".join((*told, *more))


def _noted(seed: SessionSeed, gave: Sequence[Gave]) -> SessionSeed:
    """The seed with a note for each session that gave nothing."""
    carried = sources_in(seed)
    notes = [
        Note(
            f"session {each.session.id} gave nothing: {each.why_not or 'others say the same, and newer'}",
            (each.session.id,),
        )
        for each in gave
        if each.session.id not in carried
    ]
    return replace(seed, notes=(*seed.notes, *notes))


def _task_type(profiled: Sequence[Profiled]) -> TaskType:
    """What more than half of the sessions are about."""
    counts = Counter(each.profile.task_type for each in profiled)
    best, times = counts.most_common(1)[0]
    return best if 2 * times > len(profiled) else "mixed"


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else ""


def _fingerprints(seed: SessionSeed, tools: Definitions | None) -> dict[str, str]:
    """The tools that the seed shows, each with the fingerprint of its schema where that is known."""
    schemas = schemas_of(tools) if tools is not None else {}
    return {tool: fingerprint(schemas.get(tool)) for tool in sorted(_shown(seed))}


def _shown(seed: SessionSeed) -> set[str]:
    acts = (act.tool for each in seed.demonstrations for act in each.acts)
    return {*(card.tool for card in seed.cards), *acts, *(recovery.tool for recovery in seed.recoveries)}
