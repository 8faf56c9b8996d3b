"""How much of a session a text keeps: our packet, a compacted conversation, or the agent's own summary.

Everything is checked against the ledger; the user's words must match byte for byte. A file counts by its name alone,
and a command by its first words, so that a summary in prose is not at a disadvantage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from warmstart.handoff.compact import STRATEGIES, compact, measure
from warmstart.handoff.ledger import Ledger, build_ledger
from warmstart.handoff.packet import build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.export import chat_messages
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.values import Message, Session
from warmstart.tokens import count

_MENTION = re.compile(r"(?<![\w:/.@-])(?:[\w@.-]+/)*([\w@-][\w@.-]*\.[a-z]{1,5})\b(?!\()", re.ASCII)
_OPENING = 60  # characters that identify a long quote
_WORDS = 3  # of a command


class Score(NamedTuple):
    """What a text keeps: shares from 0 to 1, `None` where the session has nothing of the kind."""

    tokens: int
    ratio: float | None
    constraints: float | None
    artifact_recall: float | None
    artifact_precision: float | None
    commands: float | None
    identifiers: float | None
    open_items: float | None
    requests: float | None
    decisions: float | None
    secrets: int


class Comparison(NamedTuple):
    """A compaction in a log: its position, the agent's summary, and our packet at the same budget."""

    message: int
    summary: Score
    packet: Score


def score(text: str, ledger: Ledger, *, redactor: Redactor, tokens: int = 0, original_tokens: int = 0) -> Score:
    """Score how much of a session a text keeps. `tokens` overrides the count of the text."""
    flat, tokens = " ".join(text.split()), tokens or count(text)
    files = {path.rsplit("/", 1)[-1] for path in ledger.files}
    named = (*(step.call.arguments for step in ledger.steps), *(request.text for request in ledger.requests))
    known = files.union(*map(_MENTION.findall, named))
    work = (run.text for run in ledger.commands.values() if run.role in ("check", "commit", "run", "edit"))
    return Score(
        tokens,
        tokens / original_tokens if original_tokens else None,
        _share(one.text in text for one in ledger.constraints),
        _share(name in text for name in files),
        _share(one in known for one in {*_MENTION.findall(text)}),
        _share(" ".join(command.split()[:_WORDS]) in flat for command in work),
        _share(one.removeprefix("branch ").split(" on ")[0] in text for one in ledger.identifiers),
        _share(_opening(one) in flat for one, _ in ledger.open_todos),
        _share(_opening(request.words) in flat for request in ledger.requests),
        _share(_opening(one.text) in flat for one in ledger.decisions),
        len(redactor.find(text)),
    )


def score_strategies(
    session: Session,
    messages: Sequence[Message],
    *,
    redactor: Redactor,
    budget_tokens: int,
    strategies: Collection[str] = tuple(STRATEGIES),
) -> Iterator[tuple[str, bool, Score]]:
    """Score each strategy, and tell whether its result fits the budget. `packet` is the packet alone."""
    chat = list(chat_messages(messages))
    ledger = build_ledger(session, redacted_messages(messages, redactor))
    size = sum(map(measure, chat))
    options: dict[str, Any] = {"budget_tokens": budget_tokens, "redactor": redactor}
    for name in strategies:
        if name == "packet":
            text, tokens, fits = build_packet(ledger, **options).text, 0, True
        else:
            done = compact(chat, strategy=name, session=session.id, ledger=ledger, **options)
            text = "\n".join(f"{one['content']} {one.get('tool_calls') or ''}" for one in done.messages)
            tokens, fits = done.report.tokens_after, done.report.fits
        yield name, fits, score(text, ledger, redactor=redactor, tokens=tokens, original_tokens=size)


def compare_summaries(session: Session, messages: Sequence[Message], *, redactor: Redactor) -> Iterator[Comparison]:
    """Each of the agent's own compactions, with our packet of the same messages."""
    for place, message in enumerate(messages):
        if message.compaction_summary and place:
            ledger = build_ledger(session, redacted_messages(messages[:place], redactor))
            summary = redactor.clean(message.text)
            packet = build_packet(ledger, redactor=redactor, budget_tokens=count(summary))
            size = sum(map(measure, chat_messages(messages[:place])))
            scores = (score(text, ledger, redactor=redactor, original_tokens=size) for text in (summary, packet.text))
            yield Comparison(place + 1, *scores)


def _share(kept: Iterable[bool]) -> float | None:
    found = list(kept)
    return sum(found) / len(found) if found else None


def _opening(text: str) -> str:
    return " ".join(text.split())[:_OPENING]
