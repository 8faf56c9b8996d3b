"""How much of a session a text keeps: our packet, a compacted conversation, or the summary that an agent wrote itself.

Everything is counted against the ledger, byte for byte where the user is quoted. A file counts by its name alone, and a
command by its first words, so that a summary in prose is not at a disadvantage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from warmstart.handoff.compact import STRATEGIES, compact, measure, text_of
from warmstart.handoff.ledger import Ledger, build_ledger
from warmstart.handoff.packet import build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.export import chat_messages
from warmstart.sessions.redaction import redacted_messages
from warmstart.sessions.values import Message, Session
from warmstart.tokens import count

_MENTION = re.compile(r"(?<![\w:/.@-])(?:[\w@.-]+/)*[\w@-][\w@.-]*\.[a-z]{1,5}\b(?!\()", re.ASCII)
_OPENING = 60  # characters by which a long quote is recognised
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
    """A real compaction in a log: where it is, the agent's own summary and our packet at the same budget."""

    message: int
    summary: Score
    packet: Score


def score(text: str, ledger: Ledger, *, redactor: Redactor, original_tokens: int = 0) -> Score:
    """What a text keeps of a session."""
    flat = " ".join(text.split())
    names = {path.rsplit("/", 1)[-1] for path in ledger.files}
    work = [run.text for run in ledger.commands.values() if run.role in ("check", "commit", "run", "edit")]
    named = {one.rsplit("/", 1)[-1] for step in ledger.steps for one in _MENTION.findall(step.call.arguments)}
    asked = {one.rsplit("/", 1)[-1] for request in ledger.requests for one in _MENTION.findall(request.text)}
    mentioned = {one.rsplit("/", 1)[-1] for one in _MENTION.findall(text)}
    tokens = count(text)
    return Score(
        tokens,
        tokens / original_tokens if original_tokens else None,
        _share([one.text in text for one in ledger.constraints]),
        _share([name in text for name in names]),
        _share([one in names | named | asked for one in mentioned]),
        _share([" ".join(command.split()[:_WORDS]) in flat for command in work]),
        _share([one.removeprefix("branch ").split(" on ")[0] in text for one in ledger.identifiers]),
        _share([_opening(one) in flat for one, _ in ledger.open_todos]),
        _share([_opening(request.words) in flat for request in ledger.requests]),
        _share([_opening(one.text) in flat for one in ledger.decisions]),
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
    """What each strategy keeps of a session, and whether its result fits the budget. `packet` is the packet alone."""
    chat = list(chat_messages(messages))
    ledger = build_ledger(session, redacted_messages(messages, redactor))
    for name in strategies:
        if name == "packet":
            packet = build_packet(ledger, redactor=redactor, budget_tokens=budget_tokens)
            yield name, True, score(packet.text, ledger, redactor=redactor, original_tokens=_size(messages))
            continue
        done = compact(
            chat, budget_tokens=budget_tokens, strategy=name, session=session.id, ledger=ledger, redactor=redactor
        )
        text = "\n".join(f"{text_of(one)} {one.get('tool_calls') or ''}" for one in done.messages)
        kept = score(text, ledger, redactor=redactor)
        after, before = done.report.tokens_after, done.report.tokens_before
        yield name, done.report.fits, kept._replace(tokens=after, ratio=after / max(1, before))


def compare_summaries(session: Session, messages: Sequence[Message], *, redactor: Redactor) -> Iterator[Comparison]:
    """Each compaction that the agent made itself, beside our packet of the messages before it."""
    for place, message in enumerate(messages):
        if message.compaction_summary and place:
            ledger = build_ledger(session, redacted_messages(messages[:place], redactor))
            summary = redactor.clean(message.text)
            packet = build_packet(ledger, redactor=redactor, budget_tokens=count(summary))
            size = _size(messages[:place])
            scores = (score(text, ledger, redactor=redactor, original_tokens=size) for text in (summary, packet.text))
            yield Comparison(place + 1, *scores)


def _share(kept: Iterable[bool]) -> float | None:
    found = list(kept)
    return sum(found) / len(found) if found else None


def _opening(text: str) -> str:
    return " ".join(text.split())[:_OPENING]


def _size(messages: Iterable[Message]) -> int:
    return sum(map(measure, chat_messages(messages)))
