"""Would a short overlay before each user turn have helped? The counterpart of `foresight.py`, turn by turn.

For every user turn an overlay is built from the sessions of the project that had ended before, and compared with what
the agent did until the next turn. The overlay is useful if it has something new (not in the message, the docs or the
session so far) that the turn then used: a file that was read, changed or searched for, a command, the fix for an error,
an identifier, the answer to a question. Placebos have the same form.

    python bench/turns.py --overlay my.module:overlay     # adds an overlay to the baselines

Run with `make bench`. Decisions and the state of the work score nothing here, and may still be worth showing.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from activity import (
    SILENT,
    Activity,
    Event,
    Project,
    alike,
    asks,
    cases,
    find_fixes,
    in_project,
    is_everyday,
    is_reply,
    read_event,
    read_projects,
    relative_path,
    stems,
    word_set,
)
from builders import History, build_reference, terms
from foresight import (
    COMMON_NAMES,
    CORPORA,
    EarlierStore,
    Known,
    open_corpus,
    parse,
    parse_options,
    prevents,
    read_docs,
)
from warmstart import Evidence, Message, SessionStore, Step
from warmstart.config import Settings
from warmstart.preflight.index import update_turns
from warmstart.preflight.overlay import Overlay as Shown
from warmstart.preflight.overlay import Policy, Preflight, render_work
from warmstart.profile.feedback import agrees, own_words
from warmstart.profile.tools import command_in, fields_of
from warmstart.recall.recall import Recall
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.values import steps
from warmstart.templates.item_store import ItemStore
from warmstart.text.words import STOPWORDS
from warmstart.tokens import count

PLACEBOS = 8  # draws
FRAME = 45  # tokens around the lines of an overlay
PLAN = "Implement the following plan:"

# -- turns

_COMMON = COMMON_NAMES | word_set(
    "go.mod go.sum makefile claude.md agents.md tsconfig.json .gitignore cargo.toml pyproject.toml index.html "
    "index.css style.css styles.css config.ts config.js config.json test.ts route.ts mod.ts schema.ts main.ts "
    "main.tsx main.js app.ts app.js server.ts changelog.md index.md index.mdx"
)
_SLASH_COMMAND = re.compile(r"\s*(?:<command-(?:name|message)>|/[a-z][\w:-]+(?:\s|$))")
_NOTIFICATION = ("<teammate-message", "<task-notification", "<system", "<local-command")
_APPROVAL = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|yup|y|sure|please|go|ahead|do|it|that|this|proceed|continue|next|thanks?|thank|you|great"
    r"|perfect|good|nice|cool|lgtm|looks|sounds|right|correct|fine|agreed|approved?|keep|going|resume|done|all|no|nope|try"
    r"|again|now|then|let's|lets|just|so|and|start|begin|both|\d+|[a-d]|option|#\d+|commit|the|first|second|one|absolutely"
    r"|exactly|awesome|wow|hm+|ah|oh|retry)[\s,.!:)?-]*)+",
    re.IGNORECASE,
)
_GREP = re.compile(
    r"\b(?:grep|rg|egrep|ag)\b(?:\s+-{1,2}[\w-]+(?:=\S+)?(?:\s+\d+)?)*\s+(\"(?:[^\"\\]|\\.)+\"|'[^']+'|[^\s|;&]+)"
)
_FIND_NAME = re.compile(r"-i?name\s+[\"']?([^\s\"']+)")
_NAME = re.compile(r"(?:--)?[A-Za-z_][\w-]+")
_IDENTIFIER = re.compile(
    r"--[a-z][\w-]+|[A-Za-z]+_\w+|\w*[a-z][A-Z]\w*|[A-Z][A-Z\d_]+|[A-Z]+-?\d\d+|\w+-\w+-\w+"  # --flag, snake, camel, …
)
_FILE = re.compile(r"[\w@.-]*\w\.[A-Za-z]\w{0,7}$")


class Call(NamedTuple):
    event: Event
    identifiers: tuple[str, ...]  # that it searched for
    sought: tuple[str, ...]  # files that it searched for by name


@dataclass(slots=True)
class Turn:
    """What a person asked, and the agent's calls until the person's next request."""

    number: int  # among the requests; a slash command has the number of the next request
    is_request: bool
    text: str
    words: str  # the person's own
    at: datetime | None
    start: int  # where it starts in the transcript
    answer: str = ""  # of the person, if the agent ended with a question
    calls: list[Call] = field(default_factory=list)

    def files(self, kind: str) -> list[str]:
        events = (call.event for call in self.calls)
        return list(dict.fromkeys(path for one in events if one.ok and one.kind == kind for path in one.files))

    def commands(self) -> list[str]:
        events = (call.event for call in self.calls if call.event.ok)
        return list(dict.fromkeys(one.text for event in events for one in event.invocations))

    def has_effect(self) -> bool:
        return bool(self.files("edit") or self.files("read") or self.commands())


@dataclass(slots=True)
class Transcript:
    turns: list[Turn]
    text: str  # everything in the context, in lower case
    turn_of: dict[str, Turn]  # by message


def read_transcript(messages: Sequence[Message], roots: tuple[str, ...]) -> Transcript:
    """Split a session into turns. An approval or a notification continues the turn before it."""
    turns: list[Turn] = []
    pieces, length, owners = list[str](), 0, list[Turn | None]()
    turn_of: dict[str, Turn] = {}
    asked, number = False, 0
    for message in messages:
        if turn := _new_turn(message, number, length):
            if asked and turns and turn.is_request:
                turns[-1].answer = own_words(message)
            turns.append(turn)
            asked, number = False, number + turn.is_request
        elif is_reply(message):
            asked = asks(message)
        if turns:
            turn_of[message.native_id] = turns[-1]
        owners += [turns[-1] if turns else None] * len(message.tool_calls)
        asked = asked or any(call.name == "AskUserQuestion" for call in message.tool_calls)
        pieces.append(_visible_text(message))
        length += len(pieces[-1])
    calls = [_read_call(place, step, roots) for place, step in enumerate(steps(messages))]
    find_fixes([call.event for call in calls])
    for owner, call in zip(owners, calls, strict=True):
        if owner:
            owner.calls.append(call)
    return Transcript(turns, "".join(pieces), turn_of)


def _new_turn(message: Message, number: int, start: int) -> Turn | None:
    text = message.text
    if message.role != "user" or not text or message.sidechain or message.compaction_summary:
        return None
    if text.lstrip().startswith(_NOTIFICATION):
        return None
    is_slash, words = bool(_SLASH_COMMAND.match(text)), own_words(message)
    if not is_slash and (message.injected or is_approval(words or text) or (not words and len(text.split()) < 3)):
        return None
    return Turn(number, not is_slash, text[:40_000], words or text[:4000], message.timestamp, start)


def is_approval(text: str) -> bool:
    words = text.split()
    is_short = len(words) <= 8 and bool(_APPROVAL.fullmatch(text.strip()))
    return not words or is_short or (len(words) <= 3 and agrees(text))


def _visible_text(message: Message) -> str:
    arguments = ("\n".join(_strings(fields_of(call.arguments) or call.arguments)) for call in message.tool_calls)
    results = (result.text[:200_000] for result in message.tool_results)
    return "\n".join((message.text, message.reasoning, *arguments, *results, "")).lower().replace("\\", "/")


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _read_call(place: int, step: Step, roots: tuple[str, ...]) -> Call:
    event = read_event(place, step, roots)
    known = {one.text for one in event.invocations}
    event.invocations += tuple(one for one in event.every or () if one.text not in known and _is_own(one.text))
    fields, name = fields_of(step.call.arguments), step.call.name
    patterns, globs = list[str](), list[str]()
    if event.every is not None and event.kind != "edit":
        command = command_in(step.call.arguments)[:1500]
        patterns, globs = [one.strip("\"'") for one in _GREP.findall(command)], _FIND_NAME.findall(command)
    elif event.kind == "search":
        pattern = fields.get("pattern")
        (globs if name.lower() == "glob" else patterns).append(pattern if isinstance(pattern, str) else "")
        globs += [one for key in ("path", "glob") if isinstance(one := fields.get(key), str) and _FILE.search(one)]
    names = (word for one in patterns for word in _NAME.findall(re.sub(r"\\[bsSwWdD]", " ", one)))
    identifiers = tuple(dict.fromkeys(word for word in names if len(word) >= 5 and _IDENTIFIER.fullmatch(word)))
    named = (one for one in globs if _FILE.fullmatch(one.replace("\\", "/").rsplit("/", 1)[-1]))
    sought = dict.fromkeys(relative_path(one, roots).replace("**/", "") for one in named)
    return Call(event, identifiers, tuple(path for path in sought if in_project(path) and "*" not in path))


def _is_own(command: str) -> bool:
    """Whether a command other than a check may still be specific to a project."""
    program = command.split()[0]
    is_plain = is_everyday(program) or program.rsplit("/", 1)[-1] in SILENT or command.startswith("-")
    return " " in command and not is_plain


# -- what a text mentions; texts are lower-case

_WORD_CONTINUES = re.compile(r"[\w-]|\.[^\W_]")
_FOLDER = re.compile(r"[\w.@\[\]()-]*$")


def mentions(text: str, path: str, end: int | None = None) -> bool:
    """Whether a text names a file: its name as a whole word, with the right folder if one is given."""
    *_, parent, name = ("", *path.lower().split("/"))
    is_common = name in _COMMON or len(name) < 5
    if is_common and not parent:
        return False
    at = -1
    while (at := text.find(name, at + 1, end)) >= 0:
        before = text[max(0, at - 200) : at]
        if _WORD_CONTINUES.match(text, at + len(name)):
            continue
        if before.endswith("/"):
            folder = _FOLDER.search(before[:-1])
            if not parent or (folder and folder[0] in (parent, "", ".")):
                return True
        elif not is_common and not re.search(r"[\w.-]$", before):
            return True
    return False


def has_word(text: str, word: str, end: int | None = None) -> bool:
    word = word.lower()
    end = len(text) if end is None else end
    return text.find(word, 0, end) >= 0 and bool(re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(text, 0, end))


# -- the metric


class Needs(NamedTuple):
    """What a turn used that its message, the docs and the session so far had not named."""

    paths: Sequence[str] = ()
    commands: Sequence[str] = ()
    identifiers: Sequence[str] = ()
    errors: Sequence[Event] = ()
    answer: frozenset[str] = frozenset()


class Seen(NamedTuple):
    """What the agent can see when a turn starts."""

    message: str
    docs: str
    session: str
    start: int
    commands: set[str]

    def mentions(self, path: str) -> bool:
        named = mentions(self.message, path) or mentions(self.docs, path)
        return named or mentions(self.session, path, self.start)

    def has_word(self, word: str) -> bool:
        named = has_word(self.message, word) or has_word(self.docs, word)
        return named or has_word(self.session, word, self.start)

    def has_command(self, command: str) -> bool:
        small = command.lower()
        said = small in self.message or small in self.docs or self.session.find(small, 0, self.start) >= 0
        return said or command in self.commands


def needs_of(turn: Turn, seen: Seen) -> Needs:
    events = [call.event for call in turn.calls]
    used = (path for one in events if one.ok and one.kind in ("edit", "read") for path in one.files)
    sought = (path for call in turn.calls for path in call.sought)
    answer = stems(turn.answer[:600])
    return Needs(
        paths=[path for path in dict.fromkeys((*used, *sought)) if not seen.mentions(path)],
        commands=[command for command in turn.commands() if not seen.has_command(command)],
        identifiers=[one for call in turn.calls for one in call.identifiers if not seen.has_word(one)],
        errors=[event for event in events if event.trap == "project" and event.fix is not None],
        answer=answer if len(answer) >= 4 else frozenset(),
    )


def is_useful(text: str, needs: Needs) -> bool:
    """Whether a text has something that the turn needed."""
    small, start = text.lower().replace("\\", "/"), parse(text)
    return (
        any(mentions(small, path) for path in needs.paths)
        or any(name in start.commands or (" " in name and name.lower() in small) for name in needs.commands)
        or any(has_word(small, name) for name in needs.identifiers)
        or any(prevents(start, event) for event in needs.errors)
        or (bool(needs.answer) and any(alike(needs.answer, line.stems) for line in start.lines))
    )


# -- the past of a project

_TOKEN = re.compile(r"[\w@.-]*\w")


class Said(NamedTuple):
    session: str
    role: str
    at: datetime | None
    text: str


class Done(NamedTuple):
    session: str
    turn: Turn


def policy_with(**changes: Any) -> Policy:
    """The overlay's default settings, with changes."""
    settings = Settings(home=Path(), store_path=Path(), **{f"preflight_{name}": new for name, new in changes.items()})
    return Policy(settings, "")


class Past:
    """What an overlay may use: the sessions that had ended, and what the current session has seen."""

    def __init__(self, source: SessionStore, roots: tuple[str, ...], folder: Path) -> None:
        self._source, self._roots = source, roots
        self._growing = EarlierStore(source, folder)
        self.store: SQLiteSessionStore = self._growing.store
        self.sessions: list[Activity] = []
        self.said: list[Said] = []
        self.done: list[Done] = []
        self.fts = sqlite3.connect(":memory:")
        self.fts.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter unicode61')")
        self.uses: Counter[str] = Counter()  # turns, by file
        self._recall = Recall(self.store)
        self._hits: dict[tuple[str, int], list[Evidence]] = {}
        self._starts: dict[tuple[str, int], str] = {}
        self._items, self._redactor, self._indexed = ItemStore(self.store), Redactor(), 0
        self._shown: dict[tuple[str, int], str] = {}
        self._turn_of: dict[tuple[str, str], Done] = {}
        self._words: set[str] = set()
        self._commands: set[str] = set()
        self._answers: list[frozenset[str]] = []
        self._known = Known([])
        # Of the current turn:
        self.activity: Activity
        self.turn: Turn
        self.seen: Seen

    def advance(self, earlier: Sequence[Activity]) -> None:
        known = {one.id for one in self.sessions}
        for activity in earlier:
            if activity.id not in known:
                self.sessions.append(activity)
                self._add(activity, list(self._source.messages(activity.id)))
        self._known = Known(self.sessions)
        self._growing.advance(earlier)
        self._recall.update()
        self._hits.clear()

    def search(self, message: str, limit: int) -> list[Evidence]:
        if (message, limit) not in self._hits:
            self._hits[message, limit] = self._recall.search(message, limit=limit)
        return self._hits[message, limit]

    def _add(self, activity: Activity, messages: Sequence[Message]) -> None:
        transcript = read_transcript(messages, self._roots)
        self._words.update(_TOKEN.findall(transcript.text))
        for name, turn in transcript.turn_of.items():
            self._turn_of[activity.id, name] = Done(activity.id, turn)
        for turn in transcript.turns:
            if turn.has_effect():
                self.done.append(Done(activity.id, turn))
            self.uses.update({*turn.files("edit"), *turn.files("read")})
            self._commands.update(turn.commands())
            self._answers.append(stems(turn.words[:600]))
        for message in messages:
            is_talk = message.role in ("user", "assistant") and message.text.strip()
            if is_talk and not message.injected and not message.compaction_summary:
                self.said.append(Said(activity.id, message.role, message.timestamp, message.text))
                row = (len(self.said), message.text[:50_000])
                self.fts.execute("INSERT INTO said(rowid, text) VALUES (?, ?)", row)

    def start(self, budget: int) -> str:
        if (self.activity.id, budget) not in self._starts:
            history = History(self.sessions, self.activity.session.project, "", self.store)
            self._starts[self.activity.id, budget] = build_reference(history, self.activity.task, budget)
        return self._starts[self.activity.id, budget]

    def preflight(self, message: str) -> str:
        """The overlay of the product."""
        key = (self.activity.id, self.turn.number)
        if key not in self._shown:
            self._shown[key] = self.ask(message, policy_with(deadline_ms=10_000)).text
        return self._shown[key]

    def ask(self, message: str, policy: Policy) -> Shown:
        """The product's decision for this turn. All clones of a project count as one."""
        connection = self.store.database.connection
        if self._indexed < len(self.sessions):
            self._items.update()
            update_turns(self.store, self._redactor)
            connection.execute("UPDATE sessions SET project = '/project'")
            self._indexed = len(self.sessions)
        session = f"{self.activity.id} {policy.settings.preflight_min_score}"
        preflight = Preflight(connection, "sqlite", session=session, project="/project", policy=policy)
        return preflight.before_turn(message, number=self.turn.number)

    def work(self) -> dict[str, tuple[str, list[str], list[str]]]:
        """For each earlier session its first request, its files and its commands, as stored by the product."""
        rows = self.store.database.connection.execute(
            "SELECT s.id, t.asked, t.changed, t.read, t.ran FROM session_turns t JOIN sessions s ON s.pk = t.session "
            "WHERE t.changed <> '' OR t.read <> '' OR t.ran <> '' ORDER BY t.session, t.first_seq"
        )
        found: dict[str, tuple[str, list[str], list[str]]] = {}
        for session, asked, changed, read, ran in rows:
            _, files, commands = found.setdefault(session, (asked, [], []))
            files += [path for path in f"{changed}\n{read}".split("\n") if path and path not in files]
            commands += [command for command in ran.split("\n") if command and command not in commands]
        return found

    def could_help(self, needs: Needs) -> bool:
        """Whether any overlay could help: something that the turn needed occurs in an earlier session."""
        names = ((path, path.rsplit("/", 1)[-1].lower()) for path in needs.paths)
        return (
            any(path in self.uses or (name in self._words and name not in _COMMON) for path, name in names)
            or any(name.lower() in self._words for name in needs.identifiers)
            or not self._commands.isdisjoint(needs.commands)
            or any(self._known.prevents(event) for event in needs.errors)
            or (bool(needs.answer) and any(alike(needs.answer, one) for one in self._answers))
        )

    def turns_at(self, hits: Sequence[Evidence]) -> Iterator[tuple[Evidence, Done]]:
        """The distinct turns that passages come from, if the agent did something in them."""
        seen: set[int] = set()
        for hit in hits:
            names = ((hit.session_id, message) for message in hit.message_ids)
            done = next((self._turn_of[name] for name in names if name in self._turn_of), None)
            if done and id(done.turn) not in seen and done.turn.has_effect():
                seen.add(id(done.turn))
                yield hit, done


Overlay = Callable[[Past, str, int], Sequence[str]]
"""Make the overlay of a turn: `overlay(past, message, budget_tokens) -> passages`; without passages it abstains."""


# -- overlays


def cut(text: str, budget: int) -> str:
    while text and (size := count(text)) > budget:
        text = text[: min(len(text) - 1, int(len(text) * budget / size))]
    return text


def fit(passages: Sequence[str], budget: int) -> list[str]:
    """Truncate passages to a budget: equal shares, and long ones get what short ones leave."""
    passages = [one for one in passages if one.strip()]
    left, limits = budget - 2 * len(passages), dict[int, int]()
    for rank, place in enumerate(sorted(range(len(passages)), key=lambda place: count(passages[place]))):
        limits[place] = min(count(passages[place]), left // (len(passages) - rank))
        left -= limits[place]
    return [cut(one, limits[place]) for place, one in enumerate(passages)]


def _day(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d") if at else ""


def _passage(said: Said, past: Past, text: str) -> str:
    time = said.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if said.at else ""
    folder = Path(past.activity.session.project).name
    return f"{time}  {said.role}  agent  {folder}\n{text}\nwarmstart sessions show {said.session[:10]}"


def show_passages(past: Past, message: str, budget: int) -> list[str]:
    """What recall finds, as `warmstart recall` prints it."""
    hits = past.search(message, limit=3)
    return fit([_passage(Said(hit.session_id, hit.role, hit.date, ""), past, hit.text) for hit in hits], budget)


def show_fts5(past: Past, message: str, budget: int) -> list[str]:
    """The same from plain FTS5, with its own snippets."""
    typed = dict.fromkeys(re.findall(r"\w+", message.lower()[:6000]))
    words = [word for word in typed if len(word) > 1 and word not in STOPWORDS][:60]
    sql = "SELECT rowid, snippet(said, 0, '', '', '…', 64) FROM said WHERE said MATCH ? ORDER BY rank LIMIT 3"
    rows = past.fts.execute(sql, (" OR ".join(f'"{word}"' for word in words),)).fetchall() if words else []
    return fit([_passage(past.said[row - 1], past, snippet) for row, snippet in rows], budget)


def _names(paths: Sequence[str]) -> str:
    """Files by folder. The folder is shown with its first file, and with names that mean nothing without it."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    shown = list[str]()
    for folder, (first, *others) in folders.items():
        last = folder.rpartition("/")[2]
        shown.append(f"{folder}/{first}".lstrip("/"))
        shown += (f"{last}/{name}".lstrip("/") if name.lower() in _COMMON else name for name in others)
    return ", ".join(shown)


def _headline(done: Done) -> str:
    text = done.turn.text[len(PLAN) : 400] if done.turn.text.startswith(PLAN) else done.turn.words
    words = re.sub(r"[#*`>]+", " ", text).split()[:12]
    return f"{_day(done.turn.at)} {done.session[:8]} “{' '.join(words)}”"


def done_line(done: Done) -> str:
    """A turn in one line: date, session, task, files, commands, a trap with its fix."""
    turn, line = done.turn, _headline(done)
    changed = turn.files("edit")
    if changed:
        line += f": changed {_names(changed[:8])}"
    if read := [path for path in turn.files("read") if path not in changed]:
        line += f"; read {_names(read[: 4 if changed else 8])}"
    if commands := turn.commands():
        line += "; ran " + ", ".join(f"`{one}`" for one in commands[:4])
    traps = [call.event for call in turn.calls if call.event.trap == "project" and call.event.fix]
    for event in traps[:1]:
        line += f"; `{event.family}` fails ({event.error}): use `{event.fix.text if event.fix else ''}`"
    return line


def show_done(past: Past, message: str, budget: int) -> list[str]:
    """What was done in the turns that recall finds."""
    hits = past.turns_at(past.search(message, limit=10))
    return fit([done_line(done) for _, done in hits][:3], budget)


def show_shared_files(past: Past, message: str, budget: int) -> list[str]:
    """At most five new files that the turns of several hits used, by session; nothing otherwise."""
    hits = past.search(message, limit=20)
    votes, origin, commands = defaultdict[str, float](float), dict[str, Done](), defaultdict[str, float](float)
    for hit, done in past.turns_at(hits):
        weight, changed = hit.score / hits[0].score, done.turn.files("edit")
        for path in dict.fromkeys((*changed, *done.turn.files("read"))):
            votes[path] += weight if path in changed else 0.5 * weight
            origin.setdefault(path, done)
        for command in done.turn.commands():
            commands[command] += weight
    asked = set(terms(message))
    ranked = []
    for path, vote in votes.items():
        if not past.seen.mentions(path):
            stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
            named = len(asked.intersection(terms(stem)))
            ranked.append((-vote * (1 + named) * (1 + 0.3 * log(1 + past.uses[path])), path))
    groups: dict[str, list[str]] = {}
    for vote, path in sorted(ranked)[:5]:
        if vote <= -2.5:
            groups.setdefault(origin[path].session, []).append(path)
    lines = [f"{_headline(origin[paths[0]])}: {_names(paths)}" for paths in groups.values()]
    new = sorted(((vote, name) for name, vote in commands.items() if name not in past.seen.commands), reverse=True)
    ran = ", ".join(f"`{name}`" for vote, name in new[:2] if vote >= 1)
    return fit([*lines, f"ran then: {ran}"] if lines and ran else lines, budget)


def show_start(past: Past, _message: str, budget: int) -> list[str]:
    """The reference start of `foresight.py`, the same at every turn."""
    return re.split(r"\n(?=## )", past.start(budget))


def _draw(past: Past, seed: int) -> random.Random:
    return random.Random(f"{seed} {past.activity.id} {past.turn.number}")


def show_any_passages(past: Past, _message: str, budget: int, *, seed: int) -> list[str]:
    some = _draw(past, seed).sample(past.said, min(3, len(past.said)))
    return fit([_passage(one, past, one.text[:600]) for one in some], budget)


def show_any_done(past: Past, _message: str, budget: int, *, seed: int) -> list[str]:
    some = _draw(past, seed).sample(past.done, min(3, len(past.done)))
    return fit([done_line(one) for one in some], budget)


def show_any_files(past: Past, message: str, budget: int, *, seed: int) -> list[str]:
    """The placebo of `show_shared_files`: random turns, truncated to the same number of tokens."""
    size = sum(map(count, show_shared_files(past, message, budget)))
    return [cut("\n".join(show_any_done(past, message, budget, seed=seed)), size)] if size else []


def show_preflight(past: Past, message: str, _budget: int) -> list[str]:
    """The overlay of the product."""
    return [line.removeprefix("- ") for line in past.preflight(message).split("\n")[1:-1]]


def show_any_work(past: Past, message: str, budget: int, *, seed: int) -> list[str]:
    """Its placebo: for each line one from a random session, with as many random files and commands."""
    draw, work, used = _draw(past, seed), past.work(), set[str]()
    lines = list[str]()
    for line in show_preflight(past, message, budget):
        _, _, body = line.partition("”: ")
        if not body:  # a quote
            lines.append(cut(draw.choice(past.said).text, count(line)))
            continue
        size = 0 if body.startswith("ran ") else body.partition("; ran ")[0].count(",") + 1
        fitting = [one for one in work if one not in used and len(set(work[one][1]) - used) >= size]
        session = draw.choice(fitting or list(work))
        used.add(session)
        asked, paths, commands = work[session]
        new = [path for path in paths if path not in used]
        files = draw.sample(new, min(size, len(new)))
        ran = draw.sample(commands, min(body.count("`") // 2, len(commands)))
        start = f"2026-01-01 {session[:8]} “{asked[:50]}”: "
        while len(files) > 1 and count(start + render_work(files, ran)) > 1.15 * count(line):
            files.pop()
        used.update(files)
        lines.append(start + render_work(files, ran))
    return lines


FRAMED = ("preflight", "  its own placebo")
OVERLAYS: dict[str, Sequence[Overlay]] = {
    "preflight": [show_preflight],
    "  its own placebo": [partial(show_any_work, seed=seed) for seed in range(PLACEBOS)],
    "passages": [show_passages],
    "  placebo": [partial(show_any_passages, seed=seed) for seed in range(PLACEBOS)],
    "plain FTS5": [show_fts5],
    "done lines": [show_done],
    "  their placebo": [partial(show_any_done, seed=seed) for seed in range(PLACEBOS)],
    "shared files": [show_shared_files],
    "  its placebo": [partial(show_any_files, seed=seed) for seed in range(PLACEBOS)],
    "session start": [show_start],
}

# -- the run


class Result(NamedTuple):
    """How one overlay did in one turn."""

    is_first: bool
    is_useful: bool
    passages: int = 0
    useful_passages: int = 0
    tokens: int = 0


Results = dict[str, list[Result]]


def measure(
    source: SessionStore,
    project: Project,
    overlays: Mapping[str, Sequence[Overlay]],
    docs: Mapping[str, str],
    budget: int,
) -> Results:
    results: Results = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        past = Past(source, project.roots, Path(folder))
        with closing(past.store), closing(past.fts):
            for activity, earlier in cases(project):
                past.advance(earlier)
                past.activity = activity
                transcript = read_transcript(list(source.messages(activity.id)), project.roots)
                commands = set(parse(docs.get(activity.id, "")).commands)
                for past.turn in transcript.turns:
                    if past.turn.is_request:
                        _measure_turn(past, transcript, docs.get(activity.id, ""), commands, overlays, budget, results)
                    commands |= {one.text for call in past.turn.calls for one in call.event.invocations}
    return results


def _measure_turn(
    past: Past,
    transcript: Transcript,
    docs: str,
    commands: set[str],
    overlays: Mapping[str, Sequence[Overlay]],
    budget: int,
    results: Results,
) -> None:
    turn = past.turn
    message = turn.text.lower().replace("\\", "/")
    known = commands | parse(turn.text[:8000]).commands
    past.seen = Seen(message, docs.lower(), transcript.text, turn.start, known)
    needs = needs_of(turn, past.seen)
    is_first = turn.number == 0
    results["ceiling"].append(Result(is_first, past.could_help(needs)))
    for name, draws in overlays.items():
        for overlay in draws:
            passages = fit(overlay(past, turn.text, budget), budget)
            useful = [is_useful(one, needs) for one in passages]
            whole = "\n\n".join(passages)
            tokens = count(whole) if whole else 0
            tokens += FRAME if whole and name in FRAMED else 0
            results[name].append(Result(is_first, is_useful(whole, needs), len(passages), sum(useful), tokens))


def show(results: Mapping[str, Sequence[Result]]) -> None:
    """Print the share of useful turns among all, first and later ones, and among later ones with an overlay."""
    titles = ("useful", "first", "later", "shown", "later", "useful then", "precision", "tokens", "a session")
    print(f"{'':<18}" + "".join(f"{title:>12}" for title in titles))
    for name, some in results.items():
        first, later = [one for one in some if one.is_first], [one for one in some if not one.is_first]
        shown = [one for one in later if one.passages]
        cells = [_share(part) for part in (some, first, later)]
        if name != "ceiling":
            tokens = sum(one.tokens for one in some)
            cells += [f"{sum(one.passages > 0 for one in part) / max(1, len(part)):.1%}" for part in (some, later)]
            precision = sum(one.useful_passages for one in some) / max(1, sum(one.passages for one in some))
            cells += [_share(shown), f"{precision:.1%}", f"{tokens / len(some):.0f}", f"{tokens / len(first):.0f}"]
        print(f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells))


def _share(some: Sequence[Result]) -> str:
    return f"{sum(one.is_useful for one in some) / max(1, len(some)):.1%}"


def load_overlay(name: str) -> Overlay:
    module, _, function = name.partition(":")
    overlay: Overlay = getattr(import_module(module), function)
    return overlay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--overlay", action="append", default=[], metavar="MODULE:FUNCTION", help="measure this one too"
    )
    options = parse_options(parser)
    overlays = OVERLAYS | {name: [load_overlay(name)] for name in options.overlay}
    docs = read_docs(options.data)
    together: Results = defaultdict(list)
    for corpus in CORPORA:
        results: Results = defaultdict(list)
        with tempfile.TemporaryDirectory() as folder, closing(open_corpus(options.data, corpus, Path(folder))) as store:
            for project in read_projects(store):
                for name, some in measure(store, project, overlays, docs, options.budget).items():
                    results[name] += some
                    together[name] += some
        print(f"\n{corpus}: {len(results['ceiling'])} turns, budget {options.budget} tokens\n")
        show(results)
    print(f"\ntogether: {len(together['ceiling'])} turns\n")
    show(together)


if __name__ == "__main__":
    main()
