"""From a session to its items: one extractor for each kind, all on the annotated steps of its profile.

Words of output are never carried. What a file, a page or a program said can reach an item only as a path of the
project, as an error in our own wording, or as a command that the allowlist knows and whose new words have a clean
source: the user, or a manifest of the project.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from warmstart.profile.feedback import SENTENCE, corrects, standing_instructions, writing_style
from warmstart.profile.values import AnnotatedStep, WritingStyle
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import without_ours
from warmstart.sessions.values import Message, Session
from warmstart.templates.commands import ShellCommand
from warmstart.templates.item import Call, Item, Kind, SessionItems
from warmstart.templates.procedures import extract_procedures
from warmstart.templates.reading import Reading, Shell, trap_rules
from warmstart.templates.safety import is_known
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection
from warmstart.text.words import topic_terms

ITEM_RULES = 2  # raise it when an extractor changes: stored items are then extracted again

_MAX_REQUESTS, _MAX_REQUEST = 6, 400  # requests that tell what a session is about, and characters of each
_MAX_FIX_TRIES = 6  # shell calls after an error in which its fix is looked for
_MAX_QUOTE = 300  # characters
_MAX_SAID = 4_000  # characters of a message that are read
_MIN_MESSAGES = 3  # before anything is said of how they are written
_URL = re.compile(r"https?://[^\s<>\"'`)\]]+")
# Pages of one piece of work: nobody needs them for the next one.
_PASSING_URL = re.compile(r"//(?:localhost|127\.|0\.0\.0\.0)|/(?:pulls?|issues?|actions|commit|job|merge_requests)/")
_STANDING = re.compile(
    r"^(?:you must|we must|standing orders?:|rule:|(?:please )?(?:never|always)\b)|\bbefore (?:every|each|any) "
    r"|^(?:please )?(?:don't|do not) (?:add|use|commit|push|create|write|touch|mock|include|amend|install)\b"
    r"|\bmake sure (?:to|you) (?:always|never)",
    re.IGNORECASE,
)
_MOMENTARY = re.compile(
    r"\b(?:yet|now|again|for now|this time|this one|that one|anything|here|today|first|still|already|it|them|those)\b"
    r"|\?$|#\d",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"(?:we|i)(?:'ve| have)? (?:decided|agreed|settled)\b.{8,}"
    r"|(?:let's|lets|we(?:'ll| will)|i(?:'ll| will)?|please) (?:use|go with|keep|stick with|choose|prefer)\b.{3,}"
    r"\b(?:instead of|rather than|and not|not|over)\b.{2,}",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"\b(?:must|should|never|always|do not|don't|cannot|may not|only|required?|not allowed|forbidden)\b", re.IGNORECASE
)
_OF_THE_DAY = re.compile(r"\b(?:current (?:time|date)|today)\b|\d{4}-\d\d-\d\d", re.IGNORECASE)
_PERMITS = re.compile(
    r"\b(?:you (?:may|can)|(?:no|don't|do not) need to (?:ask|confirm|check)|go ahead|feel free|i (?:allow|permit)"
    r"|(?:don't|do not|never|stop) ask(?:ing)?|(?:allowed|free|authori[sz]ed|permitted) to|permission|approv\w+"
    r"|without (?:asking|(?:\w+ )?confirm\w*|(?:\w+ )?approval)|skip (?:the )?confirm\w*|du darfst|ohne rückfrage)\b",
    re.IGNORECASE,
)
# `never push without asking` forbids, and `never ask me again` permits.
_FORBIDS = re.compile(
    r"\b(?:never|don't|do not|must not|should not|cannot)\b(?! (?:need|ask|confirm|hesitate|wait))", re.IGNORECASE
)


def extract_commands(reading: Reading) -> Iterator[Item]:
    """The commands that test, build, lint, format and run this project."""
    found: dict[str, list[tuple[Shell, ShellCommand]]] = {}
    for shell in reading.shells:
        for command in shell.commands:
            if command.purpose != "other":
                found.setdefault(command.text, []).append((shell, command))
    for text, uses in found.items():
        first, last = uses[0][0].step, uses[-1][0].step
        if not is_known(text, reading.typed):
            continue
        yield Item(
            kind="command",
            text=text,
            tool=uses[0][1].purpose,
            count=len(uses),
            worked=sum(shell.passed is True and not command.has_environment for shell, command in uses),
            failed=sum(shell.passed is False for shell, _ in uses),
            clean=reading.is_clean_command(text, first.position),
            first_seen=reading.when(first),
            last_seen=reading.when(last),
            sources=reading.source(first.message_id),
        )


def extract_files(reading: Reading) -> Iterator[Item]:
    """The files that were changed, and those that were read before the first change."""
    first_edit = next((step.position for step, role, _ in reading.files if role == "edit"), len(reading.steps))
    found: dict[tuple[str, str], list[AnnotatedStep]] = {}
    for step, role, path in reading.files:
        if role == "edit" or (role == "read" and step.position < first_edit):
            found.setdefault((role, path), []).append(step)
    for (role, path), steps in found.items():
        yield Item(
            kind="file",
            text=path,
            tool=role,
            count=len(steps),
            first_seen=reading.when(steps[0]),
            last_seen=reading.when(steps[-1]),
            sources=reading.source(steps[0].message_id),
        )


def extract_traps(reading: Reading) -> Iterator[Item]:
    """Commands that failed here, with the command that worked instead."""
    for place, shell in enumerate(reading.shells):
        if shell.passed is not False or not shell.commands or not (error := _project_error(shell)):
            continue
        failed = {command.text for command in shell.commands}
        later = [one for one in reading.shells[place + 1 :] if one.passed is not False][:_MAX_FIX_TRIES]
        works_again = any(command.text in failed for one in later[:4] for command in one.commands)
        if works_again and "not found" not in error:
            continue  # the error was part of the work
        fix = _fix(shell, later, failed)
        if fix is None or not is_known(fix[1].text, reading.typed):
            continue
        mistake = _mistake(shell)
        yield Item(
            kind="trap",
            text=error,
            tool=mistake.family,
            calls=(Call("shell", mistake.text), Call("shell", fix[1].text)),
            clean=reading.is_clean_command(fix[1].text, fix[0].step.position),
            first_seen=reading.when(shell.step),
            last_seen=reading.when(shell.step),
            sources=(*reading.source(shell.step.message_id), *reading.source(fix[0].step.message_id)),
        )


def _project_error(shell: Shell) -> str:
    """The error of a shell call if it says something about this project; empty for failing tests and slips."""
    error = shell.step.signature
    lower = error.lower()
    if (
        not error
        or any(phrase in lower for phrase in trap_rules()["work"])
        or re.search(r"exit \d+|: failed$|HTTP \d", error)
    ):
        return ""
    worth = any(command.purpose != "other" for command in shell.commands)
    program = shell.commands[-1].family.split()[0]
    return error if worth or program not in trap_rules()["everyday"] else ""


def _mistake(shell: Shell) -> ShellCommand:
    """Of several commands in one call, the one that failed: the one the error names, or the last for the project."""
    named = shell.step.signature.partition(":")[0].lower()
    by_name = [one for one in shell.commands if named in one.family.lower().split()]
    worth = [one for one in shell.commands if one.purpose != "other"]
    return (by_name or worth or list(shell.commands))[-1]


def _fix(shell: Shell, later: Sequence[Shell], failed: set[str]) -> tuple[Shell, ShellCommand] | None:
    """The next command that works and is for the same purpose, or of the same program where that is not known."""
    mistake = _mistake(shell)
    checks = mistake.purpose not in ("run", "other")
    for one in later:
        for command in one.commands:
            same_program = command.family.split()[0] in mistake.family.split()[:2]
            if (command.purpose == mistake.purpose if checks else same_program) and command.text not in failed:
                return one, command
    return None


def extract_instructions(reading: Reading) -> Iterator[Item]:
    """The user's standing rules, quoted; of an agent that is built on the library also those of its system prompt.

    An approval is no rule: what was permitted once was permitted once.
    """
    rules = [
        (message, sentence)
        for message, text, _ in reading.said
        if reading.has_own_user
        for sentence in dict.fromkeys((*standing_instructions(text), *filter(_is_standing, _sentences(text))))
    ]
    if not reading.is_host:
        prompts = [one for one in reading.messages if one.role == "system"]
        rules += [(one, rule) for one in prompts for rule in _system_rules(without_ours(one.text))]
    for message, rule in rules:
        if not _PERMITS.search(rule) or _FORBIDS.search(rule):
            yield from _quote(reading, "instruction", rule, message)


def _is_standing(sentence: str) -> bool:
    return bool(_STANDING.search(sentence)) and not _MOMENTARY.search(sentence)


def _system_rules(text: str) -> Iterator[str]:
    """The sentences of a system prompt that say what must or must not be done, on any day."""
    for line in SENTENCE.split(text):
        rule = line.strip(" \t-*•")
        if 12 <= len(rule) <= _MAX_QUOTE and _RULE.search(rule) and not _OF_THE_DAY.search(rule):
            yield rule


def extract_corrections(reading: Reading) -> Iterator[Item]:
    """What the user told the agent to do differently, quoted."""
    for message, text, answers in reading.said[1:] if reading.has_own_user else ():
        if corrects(text, answers=answers):
            for sentence in _sentences(text)[:2]:
                yield from _quote(reading, "correction", sentence, message)


def extract_decisions(reading: Reading) -> Iterator[Item]:
    """What the user decided between two ways, quoted."""
    for message, text, _ in reading.said if reading.has_own_user else ():
        for sentence in filter(_DECISION.match, _sentences(text)):
            yield from _quote(reading, "decision", sentence, message)


def extract_references(reading: Reading) -> Iterator[Item]:
    """The documents on the web that the user pointed to."""
    for message, text, _ in reading.said:
        for found in dict.fromkeys(_URL.findall(text[:_MAX_SAID])):
            if not _PASSING_URL.search(found):
                yield from _quote(reading, "reference", found.rstrip(".,;:"), message)


def _sentences(text: str) -> list[str]:
    sentences = (sentence.strip(' \t-*>"') for sentence in SENTENCE.split(text[:_MAX_SAID]))
    return [sentence for sentence in sentences if 4 <= len(sentence.split()) <= 40]


def _quote(reading: Reading, kind: Kind, text: str, message: Message) -> Iterator[Item]:
    quote = one_line(text, _MAX_QUOTE)
    if not find_injection(quote):
        yield Item(
            kind=kind,
            text=quote,
            first_seen=message.timestamp,
            last_seen=message.timestamp,
            sources=reading.source(message.native_id),
        )


def extract_open(reading: Reading) -> Iterator[Item]:
    """Where work stopped: the branch, the last request, and a check that still fails."""
    session = reading.session
    if not reading.said or not reading.steps:
        return
    message, text, _ = reading.said[-1]
    yield from _quote(reading, "open", f"last request: {one_line(text, 120)}", message)
    if session.branch:
        yield Item(
            kind="open", text=f"branch: {session.branch}", last_seen=session.ended_at, sources=reading.source("")
        )
    checks = [
        (shell, command)
        for shell in reading.shells
        for command in shell.commands
        if command.purpose in ("test", "build", "lint")
    ]
    if checks and checks[-1][0].passed is False:
        shell, command = checks[-1]
        if is_known(command.text, reading.typed) and reading.is_clean_command(command.text, shell.step.position):
            yield Item(
                kind="open",
                text=f"failing: `{command.text}`",
                last_seen=reading.when(shell.step),
                sources=reading.source(shell.step.message_id),
            )


def extract_habits(reading: Reading) -> Iterator[Item]:
    """How the user asks and gives feedback: weak, in our words, never the user's."""
    style = writing_style(reading.messages)
    if style.messages < _MIN_MESSAGES or not reading.has_own_user:
        return
    session = reading.session
    for name, labels in (("request_style", _request_style(style)), ("feedback_style", _feedback_style(style))):
        if text := ", ".join(labels):
            yield Item(
                kind="habit",
                text=text,
                tool=name,
                first_seen=session.started_at,
                last_seen=session.ended_at,
                sources=reading.source(""),
            )


def _request_style(style: WritingStyle) -> Iterator[str]:
    length, directness = style.length or 0, style.directness if style.directness is not None else 0.5
    if length <= 15:
        yield "writes short requests"
    elif length >= 60:
        yield "writes long, detailed requests"
    if directness >= 0.7:
        yield "states directly what to do"
    elif directness <= 0.3:
        yield "asks rather than orders"
    if style.language not in ("", "en"):
        yield f"writes in the language `{style.language}`"


def _feedback_style(style: WritingStyle) -> Iterator[str]:
    if style.feedback.get("approving", 0) >= max(2, sum(style.feedback.values()) / 3):
        yield "says when something is good"
    if style.feedback.get("corrective", 0) >= 2:
        yield "corrects at once when something is off"


EXTRACTORS: dict[Kind, Callable[[Reading], Iterator[Item]]] = {
    "command": extract_commands,
    "trap": extract_traps,
    "file": extract_files,
    "instruction": extract_instructions,
    "correction": extract_corrections,
    "decision": extract_decisions,
    "reference": extract_references,
    "open": extract_open,
    "procedure": extract_procedures,
    "habit": extract_habits,
}


def extract_items(
    session: Session,
    messages: Sequence[Message],
    steps: Sequence[AnnotatedStep],
    *,
    redactor: Redactor | None = None,
    **options: Any,
) -> SessionItems:
    """What a session teaches. Every text is redacted. `options` are those of `Reading`."""
    reading = Reading(session, messages, steps, **options)
    clean = redactor.clean if redactor else str
    items = [item.map_texts(clean) for extract in EXTRACTORS.values() for item in extract(reading)]
    title = clean(one_line(session.title, _MAX_REQUEST))
    asked = (clean(text[:_MAX_REQUEST]) for _, text, _ in reading.said[:_MAX_REQUESTS])
    changed = (item.text for item in items if item.kind == "file" and item.tool == "edit")
    return SessionItems(
        session_id=session.id,
        started_at=session.started_at,
        ended_at=session.ended_at,
        title=title,
        is_subagent=session.parent_kind == "subagent",
        terms=dict(Counter(topic_terms(" ".join((title, *asked, *changed))))),
        items=tuple(items),
    )
