"""Extract the items of a session: one extractor per kind, all working on the annotated steps of its profile.

The words of tool output are never carried. Output of a file, a page or a program can reach an item only as a path in
the project, as an error in our own wording, or as an allowlisted command whose new words have a clean source: the user
or a manifest of the project.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from warmstart.profile.calls import SHELLS
from warmstart.profile.feedback import agrees, corrects, is_request, own_words, standing_instructions, writing_style
from warmstart.profile.values import AnnotatedStep, Feedback
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import is_ours, without_ours
from warmstart.sessions.values import Message, Session
from warmstart.templates.arguments import Values, identifies
from warmstart.templates.commands import ShellCommand
from warmstart.templates.examples import extract_examples
from warmstart.templates.item import Item, Kind, Refused, SessionItems, ToolCallExample, Turn
from warmstart.templates.rules import load_table, pattern, subject_of
from warmstart.templates.safety import is_known, is_safe_call, own_words_of
from warmstart.templates.session_view import PLAN, SessionView, Shell
from warmstart.text.own_words import SENTENCE
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection
from warmstart.text.words import topic_terms

ITEM_RULES = 9  # increase it when an extractor changes, so that stored items are extracted again

_MAX_REQUESTS, _MAX_REQUEST = 6, 400  # requests that say what a session is about, and characters of each
_MAX_FIX_TRIES = 6  # shell calls after an error that are searched for its fix
_MAX_QUOTE = 300  # characters
_MAX_SAID = 4_000  # characters of a message that are read
_FIRST_MESSAGES = 10  # of the user, that show how they write
_MIN_FACT = 3  # words
_MAX_ASKED, _MAX_APPROVAL = 90, 3  # characters of a turn's request, words of a message that only agrees
_MAX_FILES, _MAX_COMMANDS = 12, 4  # per turn
_URL = re.compile(r"https?://[^\s<>\"'`)\]]+")


def extract_commands(view: SessionView) -> Iterator[Item]:
    """The commands that test, build, lint, format and run this project."""
    uses_of: dict[str, list[tuple[Shell, ShellCommand]]] = {}
    for shell in view.shells:
        for command in shell.commands:
            if command.purpose != "other":
                uses_of.setdefault(command.text, []).append((shell, command))
    for text, uses in uses_of.items():
        first, last = uses[0][0].step, uses[-1][0].step
        if not is_known(text, view.typed):
            continue
        yield view.item(
            "command",
            text,
            first,
            last,
            tool=uses[0][1].purpose,
            count=len(uses),
            worked=sum(shell.passed is True and not command.has_environment for shell, command in uses),
            failed=sum(shell.passed is False for shell, _ in uses),
            clean=view.is_clean_command(text, first.position),
        )


def extract_files(view: SessionView) -> Iterator[Item]:
    """The files that were changed, and those that were read before the first change."""
    first_edit = next((step.position for step, role, _ in view.files if role == "edit"), len(view.steps))
    steps_of: dict[tuple[str, str], list[AnnotatedStep]] = {}
    for step, role, path in view.files:
        if role == "edit" or (role == "read" and step.position < first_edit):
            steps_of.setdefault((role, path), []).append(step)
    for (role, path), steps in steps_of.items():
        yield view.item("file", path, steps[0], steps[-1], tool=role, count=len(steps))


def extract_traps(view: SessionView) -> Iterator[Item]:
    """Test, build, lint and format commands that failed here, each with the equivalent that worked instead."""
    yield from () if view.is_host else _call_traps(view)
    for place, shell in enumerate(view.shells):
        error = shell.step.signature
        named = error.partition(":")[0].lower()
        by_name = [command for command in shell.commands if named in command.family.lower().split()]
        mistakes = [one for one in by_name or shell.commands if one.purpose not in ("run", "other")]
        if shell.passed is not False or not mistakes or not error or _is_part_of_work(error):
            continue
        failed = {command.text for command in shell.commands}
        later = [one for one in view.shells[place + 1 :] if one.passed is not False][:_MAX_FIX_TRIES]
        works_again = any(command.text in failed for one in later[:4] for command in one.commands)
        if works_again and "not found" not in error:
            continue  # the error was part of the work
        mistake = mistakes[-1]
        tried = ((one.step, command) for one in later for command in one.commands if command.text not in failed)
        step, fix = next((one for one in tried if one[1].purpose == mistake.purpose), (None, None))
        if step is None or fix is None or not is_known(fix.text, view.typed):
            continue
        yield view.item(
            "trap",
            error,
            shell.step,
            tool=mistake.family,
            calls=(ToolCallExample("shell", mistake.text, success=False), ToolCallExample("shell", fix.text)),
            clean=view.is_clean_command(mistake.text, shell.step.position)
            and view.is_clean_command(fix.text, step.position),
            sources=(*view.source(shell.step.message_id), *view.source(step.message_id)),
        )


def _call_traps(view: SessionView) -> Iterator[Item]:
    """API calls that failed, with the fix: another tool called first, or different arguments (names only)."""
    values, notes = Values(view), {step.call.name for step in view.steps if step.role == "note"}
    for step in view.steps:
        name, recovery = step.call.name, step.recovery
        error = re.sub(r"\{\{\w+\}\}", "…", values.hide(step.signature))
        if recovery is None or not error or name in SHELLS or find_injection(error):
            continue
        changed = [one.what for one in recovery.changes if one.how != "removed" and not identifies(one.what)]
        arguments = msgspec.json.encode(dict.fromkeys(changed, "")).decode()
        first = [tool for tool in recovery.between if tool not in notes]
        fix = ToolCallExample(first[0], "") if len(first) == 1 else ToolCallExample(name, arguments if changed else "")
        if (fix.arguments or fix.tool_name != name) and is_safe_call(fix) and is_safe_call(ToolCallExample(name, "")):
            yield view.item("trap", error, step, tool=name, calls=(ToolCallExample(name, "", success=False), fix))


def _is_part_of_work(error: str) -> bool:
    """Whether an error is a failing test or a slip that says nothing about the project."""
    is_work = any(phrase in error.lower() for phrase in load_table("rules")["work"])
    return is_work or bool(re.search(r"exit \d+|: failed$|HTTP \d", error))


def extract_instructions(view: SessionView) -> Iterator[Item]:
    """The user's standing rules, quoted."""
    rules = [
        (message, sentence)
        for message, text, _ in view.said
        if view.has_own_user
        for sentence in dict.fromkeys((*standing_instructions(text), *filter(_is_standing, _sentences(text))))
    ]
    for message, rule in rules:
        permits = pattern("permits").search(rule) and not pattern("forbids").search(rule)
        if not permits and not pattern("wish").search(rule):
            yield from _quote(view, "instruction", rule, message)


def _is_standing(sentence: str) -> bool:
    return bool(pattern("standing").search(sentence)) and not pattern("momentary").search(sentence)


def extract_context(view: SessionView) -> Iterator[Item]:
    """The facts and rules in the program's own system prompt, unless they hold only today."""
    for message in view.messages if not view.is_host else ():
        if message.role != "system":
            continue
        for line in SENTENCE.split(without_ours(message.text)):
            fact = line.strip(" \t-*•#")
            says_something = len(fact.split()) >= _MIN_FACT and fact[-1:] not in (":", "?")
            if says_something and len(fact) <= _MAX_QUOTE and not pattern("of_the_day").search(fact):
                yield from _quote(view, "context", fact, message)


def extract_corrections(view: SessionView) -> Iterator[Item]:
    """What the user told the agent to do differently, quoted."""
    for message, text, answers in view.said[1:] if view.has_own_user else ():
        if corrects(text, answers=answers):
            for sentence in [one for one in _sentences(text)[:2] if not one.endswith("?")]:
                yield from _quote(view, "correction", sentence, message)


def extract_decisions(view: SessionView) -> Iterator[Item]:
    """Choices the user made between two options, quoted."""
    for message, text, _ in view.said if view.has_own_user else ():
        for sentence in filter(pattern("decision").match, _sentences(text)):
            yield from _quote(view, "decision", sentence, message)


def extract_references(view: SessionView) -> Iterator[Item]:
    """The web pages that the user pointed to."""
    for message, text, _ in view.said:
        for url in dict.fromkeys(_URL.findall(text[:_MAX_SAID])):
            if not pattern("passing_url").search(url):
                yield from _quote(view, "reference", url.rstrip(".,;:"), message)


def _sentences(text: str) -> list[str]:
    sentences = (sentence.strip(' \t-*>"') for sentence in SENTENCE.split(text[:_MAX_SAID]))
    return [sentence for sentence in sentences if 4 <= len(sentence.split()) <= 40]


def _quote(view: SessionView, kind: Kind, text: str, message: Message) -> Iterator[Item]:
    quote, at = one_line(text, _MAX_QUOTE), message.timestamp
    if not find_injection(quote):
        yield Item(kind=kind, text=quote, first_seen=at, last_seen=at, sources=view.source(message.native_id))


def extract_open(view: SessionView) -> Iterator[Item]:
    """Where work stopped: the last check, if it failed and nothing was committed after it."""
    committed = max((step.position for step in view.steps if step.role == "commit"), default=-1)
    every = [(one, command) for one in view.shells if one.step.position > committed for command in one.commands]
    for shell, command in [one for one in every if one[1].purpose in ("test", "build", "lint")][-1:]:
        is_safe = is_known(command.text, view.typed) and view.may_show(command.text, shell.step.position)
        if shell.step.outcome == "error" and shell.commands == (command,) and is_safe:  # one, or any could have failed
            yield view.item("open", f"`{command.text}` failed last", shell.step)


def extract_habits(view: SessionView) -> Iterator[Item]:
    """How the user asks and gives feedback, from their first messages: weak evidence, in our words."""
    first = {message.native_id for message, _, _ in view.said[:_FIRST_MESSAGES]}
    texts = [message for message in view.messages if message.role != "user" or message.native_id in first]
    style = writing_style(texts)
    if not style.messages:
        return
    directness = 0.5 if style.directness is None else style.directness
    request = "direct" if directness >= 0.7 else "asking" if directness <= 0.3 else "mixed"
    feedback = max(_FEEDBACK, key=lambda kind: style.feedback.get(kind, 0)) if style.feedback else "plain"
    for tool, text in (("request_style", request), ("feedback_style", feedback)):
        yield Item(kind="habit", text=text, tool=tool, last_seen=view.session.ended_at, sources=view.source(""))


_FEEDBACK: tuple[Feedback, ...] = ("corrective", "approving", "terse", "plain")  # the first of equals counts

EXTRACTORS: dict[Kind, Callable[[SessionView], Iterator[Item]]] = {
    "command": extract_commands,
    "trap": extract_traps,
    "file": extract_files,
    "instruction": extract_instructions,
    "correction": extract_corrections,
    "decision": extract_decisions,
    "reference": extract_references,
    "open": extract_open,
    "context": extract_context,
    "habit": extract_habits,
}


def extract_items(
    session: Session,
    messages: Sequence[Message],
    steps: Sequence[AnnotatedStep],
    *,
    redactor: Redactor | None = None,
    with_examples: bool = False,
    **options: Any,
) -> SessionItems:
    """The items of a session, with every text redacted. `options` are those of `SessionView`.

    Examples are only for templates: nothing else needs them, and they cost the most.
    """
    view = SessionView(session, messages, steps, **options)
    clean = redactor.clean if redactor else str
    items = [item.map_texts(clean) for extract in EXTRACTORS.values() for item in extract(view)]
    refused: list[Refused] = []
    for example in extract_examples(view) if with_examples else ():
        if isinstance(example, Refused):
            refused.append(example)
        else:
            items.append(example.map_texts(clean))
    title = clean(one_line(subject_of(session.title), _MAX_REQUEST))
    asked = (clean(text[:_MAX_REQUEST]) for _, text, _ in view.said[:_MAX_REQUESTS])
    changed = (item.text for item in items if item.kind == "file" and item.tool == "edit")
    return SessionItems(
        session_id=session.id,
        started_at=session.started_at,
        ended_at=session.ended_at,
        title=title,
        branch=session.branch,
        typed=clean("\n".join(word for word in _own_words(items) if word in view.sources)),
        is_subagent=session.parent_kind == "subagent",
        terms=dict(Counter(topic_terms(" ".join((title, *asked, *changed))))),
        items=tuple(items),
        turns=extract_turns(view, messages, clean),
        refused=tuple(refused),
    )


def _own_words(items: Sequence[Item]) -> dict[str, None]:
    """The words of clean commands that their programs do not define."""
    commands = (item.commands for item in items if item.kind in ("command", "trap") and item.clean)
    return dict.fromkeys(word for some in commands for command in some for word in own_words_of(command))


def extract_turns(view: SessionView, messages: Sequence[Message], clean: Callable[[str], str]) -> tuple[Turn, ...]:
    """The turns of a session. An approval continues the turn before it."""
    turn_of, requests = {}, {}  # request number -> turn; turn -> its first message
    number = turn = 0
    for message in messages:
        if is_request(message):
            number += 1
            words = own_words(message)
            if not turn or not (is_ours(message) or (len(words.split()) <= _MAX_APPROVAL and agrees(words))):
                turn = number
                requests[turn] = message
            turn_of[number] = turn
    files: dict[tuple[int, str], dict[str, None]] = {}
    for step, role, path in view.files:
        files.setdefault((turn_of.get(step.turn, 0), role), {})[path] = None
    ran: dict[int, dict[str, None]] = {}
    for shell in view.shells:
        for command in shell.commands if shell.passed is not False else ():
            known = command.purpose != "other" and is_known(command.text, view.typed)
            if known and view.may_show(command.text, shell.step.position):
                ran.setdefault(turn_of.get(shell.step.turn, 0), {})[command.text] = None
    turns = []
    for turn, message in requests.items():
        changed = list(files.get((turn, "edit"), ()))
        read = [path for path in files.get((turn, "read"), ()) if path not in changed]
        turns.append(
            Turn(
                message=message.native_id,
                at=message.timestamp.timestamp() if message.timestamp else None,
                asked=_asked(message, clean),
                changed=tuple(map(clean, changed[:_MAX_FILES])),
                read=tuple(map(clean, read[:_MAX_FILES])),
                ran=tuple(map(clean, list(ran.get(turn, ()))[:_MAX_COMMANDS])),
            )
        )
    return tuple(turns)


def _asked(message: Message, clean: Callable[[str], str]) -> str:
    """The request on one line: the user's own words, or the title of their plan."""
    words = own_words(message)
    text = one_line(clean(subject_of(message.text) if words == PLAN else words), _MAX_ASKED)
    return "" if find_injection(text) else text
