"""The packet: what a session hands to the next one, as redacted Markdown for a person and for an agent.

The same ledger gives the same bytes, and the id of a packet is the hash of its content. Constraints and the goal are
never cut: the budget grows for them, and if that is not enough the packet is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from hashlib import blake2b, sha256
from itertools import chain
from typing import NamedTuple

from warmstart.errors import HandoffRefused
from warmstart.handoff.ledger import Ledger, Request
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import END, MARK
from warmstart.storage.sql import batches
from warmstart.text.truncate import head_and_tail, one_line
from warmstart.text.untrusted import neutralize
from warmstart.tokens import count

BUDGET, MAX_BUDGET = 3_000, 6_000  # tokens
_MAX_REQUEST = 800  # tokens of a request that is quoted whole
_CHARACTERS = 3  # of a token at least, where a text is cut
_MAX_QUOTE = 1_000  # characters of any other message
_PER_LINE = 4  # files or identifiers on a line
_MARKER = re.compile(r"\[redacted:([\w-]+):")
_TITLE = re.compile(r"^# Handoff packet (\w+)\n- content: sha256 (\w+)\n", re.MULTILINE)
_LOOKING = ("read", "look", "note")
_DECISIONS = {
    "decision": "decided",
    "answer": "answered",
    "approval": "allowed then, ask again",
    "rejected": "rejected options",
    "refusal": "refused by the user",
}
_ORDER = (
    *("What the user wrote", "Files", "Files read", "Commands", "Tests and build", "Open work"),
    *("Decisions and dead ends", "Errors and what worked instead", "Identifiers"),
)
_FOOTER = (
    "This packet is a reference about earlier work, computed from the log; quotes are the user's own words. The latest "
    "message of the user wins over anything here. All your tools are fully available. Files may have changed since: "
    "check them before you edit."
)


class GitState(NamedTuple):
    """The state of a repository: as the log shows it, or read when the packet was first made."""

    branch: str = ""
    head: str = ""
    dirty: tuple[str, ...] = ()


class Packet(NamedTuple):
    """A packet. `dropped` counts the lines that did not fit by section, `redactions` the secrets by kind."""

    id: str
    session_id: str
    text: str
    tokens: int
    constraints: int
    dropped: dict[str, int]
    redactions: dict[str, int]


@dataclass(slots=True)
class _Section:
    """A section: its lines by importance, and how many tokens they may use at most."""

    title: str
    lines: Sequence[str]
    share: int = MAX_BUDGET
    before: Sequence[str] = ()
    shown: int = 0

    def fill(self, room: int, measure: Callable[[str], int]) -> int:
        """Take lines while they fit; returns how much room they leave."""
        heading = sum(map(measure, (f"## {self.title}", *self.before)))
        left = min(room - heading, self.share)
        for line in self.lines:
            left -= measure(line)
            if left < 0:
                break
            self.shown += 1
        return room - heading - sum(map(measure, self.lines[: self.shown])) if self.shown else room

    def render(self) -> Iterator[str]:
        if self.shown:
            yield from ("", f"## {self.title}", *self.before, *self.lines[: self.shown])


def build_packet(
    ledger: Ledger,
    *,
    redactor: Redactor,
    budget_tokens: int = BUDGET,
    note: str = "",
    git: GitState = GitState(),  # noqa: B008 - a tuple
    chain_number: int = 1,
    chain_max: int = 3,
    counter: Callable[[str], int] = count,
) -> Packet:
    """The packet of a session. Raises `HandoffRefused` if the constraints and the goal alone are too long."""
    writer = PacketWriter(ledger, redactor, counter)
    fixed = [*writer.header(git, chain_number, chain_max), *writer.constraints(), *writer.goal()]
    ending = [*writer.note(note), *writer.ending()]
    needed = sum(map(writer.measure, (*fixed, *ending))) + 60  # the title, and what was dropped
    if needed > MAX_BUDGET:
        raise HandoffRefused(
            f"the constraints and the goal of session {ledger.session.id!r} take {needed:,} tokens, more than "
            f"{MAX_BUDGET:,}; start the next session with `warmstart sessions show {ledger.session.id}` at hand"
        )
    sections = writer.sections()
    room = max(budget_tokens, needed) - needed
    room = max(room, min(sum(map(writer.measure, sections[0].lines)) + 40, MAX_BUDGET - needed))
    for section in sections:
        room = section.fill(room, writer.measure)
    dropped = {one.title: len(one.lines) - one.shown for one in sections if one.shown < len(one.lines)}
    lines = chain(*(section.render() for section in sorted(sections, key=lambda one: _ORDER.index(one.title))))
    body = "\n".join((*fixed, *lines, *ending[:-1], *writer.drops(dropped), ending[-1]))
    body = redactor.clean(body)
    digest = sha256(body.encode(errors="replace")).hexdigest()[:32]
    text = f"{MARK}\n# Handoff packet {digest[:12]}\n- content: sha256 {digest}\n{body}\n{END}\n"
    found = dict(sorted(Counter(_MARKER.findall(text)).items()))
    return Packet(digest[:12], ledger.session.id, text, counter(text), len(ledger.constraints), dropped, found)


def verify(text: str) -> str:
    """The id of a packet. Raises `HandoffRefused` if the text is no packet, or was changed."""
    title = _TITLE.search(text)
    end = text.rfind(f"\n{END}")
    if not title or end < 0:
        raise HandoffRefused("this is not a packet; `warmstart handoff packet SESSION` makes one")
    if sha256(text[title.end() : end].encode(errors="replace")).hexdigest()[:32] != title[2]:
        raise HandoffRefused(f"packet {title[1]!r} was changed after it was made; make a new one")
    return title[1]


class PacketWriter:
    """Writes the lines of a packet."""

    def __init__(self, ledger: Ledger, redactor: Redactor, counter: Callable[[str], int]) -> None:
        self.ledger = ledger
        self.failures = ledger.failures()
        first, last, latest = ledger.requests[:1], ledger.requests[-1:], ledger.latest_request
        self.goals = dict.fromkeys(last, "The user's last words") if last != first else {}
        self.goals = {**dict.fromkeys(first, "First request"), **self.goals}
        if latest and latest not in first:
            self.goals = {**self.goals, latest: "Latest request"}
        self.clean = redactor.clean
        self.counter = counter

    def measure(self, line: str) -> int:
        return self.counter(line) + 1

    def quote(self, text: str) -> str:
        return neutralize(self.clean(text))

    def reference(self, message_id: str) -> str:
        found = self.ledger.reference(message_id)
        return f" ({found})" if found else ""

    # -- what is never cut

    def header(self, git: GitState, number: int, maximum: int) -> Iterator[str]:
        ledger, session = self.ledger, self.ledger.session
        at = ledger.last.timestamp if ledger.last else None
        names = sorted({step.call.name for step in ledger.steps})
        facts = (
            f"session {session.id} ({session.agent})",
            f"chain {number} of {maximum}",
            f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if at else "",
            ledger.model or session.model,
        )
        yield "- " + " · ".join(filter(None, facts))
        if session.project or git.branch:
            dirty = ", ".join(git.dirty[:8]) + (f" and {len(git.dirty) - 8} more" if len(git.dirty) > 8 else "")
            state = (f"branch {git.branch}" * bool(git.branch), f"head {git.head}" * bool(git.head))
            changed = f"uncommitted: {dirty}" if dirty else ""
            yield self.clean("- repository: " + " · ".join(filter(None, (session.project, *state, changed))))
        fingerprint = blake2b("\0".join(names).encode(), digest_size=4).hexdigest()
        secrets = Counter(kind for text in self._texts() for kind in _MARKER.findall(self.clean(text)))
        redacted = ", ".join(f"{times} {kind}" for kind, times in sorted(secrets.items())) or "none"
        yield f"- tools: {len(names)}, fingerprint {fingerprint} · secrets replaced: {redacted}"

    def _texts(self) -> Iterator[str]:
        yield from (constraint.text for constraint in self.ledger.constraints)
        yield from (request.text for request in self.ledger.requests)
        yield from self.ledger.commands

    def constraints(self) -> Iterator[str]:
        if self.ledger.constraints:
            yield from ("", "## Constraints of the user, verbatim; they still apply")
            for one in self.ledger.constraints:
                yield f"- {self.quote(one.text)}{self.reference(one.message_id)}"

    def goal(self) -> Iterator[str]:
        yield from ("", "## Goal")
        if not self.ledger.requests:
            yield "The user asked for nothing."
        for request, title in self.goals.items():
            yield from self._request(title, request)

    def _request(self, title: str, request: Request) -> Iterator[str]:
        text = self.quote(request.text)
        if self.counter(text) > _MAX_REQUEST:
            text = head_and_tail(text, _MAX_REQUEST * _CHARACTERS)
            title = f"{title}, in part"
        yield f"{title}{self.reference(request.message_id)}:"
        yield from (f"> {line}" for line in text.splitlines())

    def note(self, note: str) -> Iterator[str]:
        if note.strip():
            yield from ("", "## Note of the user", *(f"> {line}" for line in self.quote(note.strip()).splitlines()))

    def ending(self) -> list[str]:
        session = self.ledger.session.id
        return [
            "",
            "## The rest",
            f"`warmstart sessions show {session}` shows the whole session, and with `--message N` message #N in full.",
            f"\n{_FOOTER}\n\nEND OF HANDOFF PACKET",
        ]

    def drops(self, dropped: dict[str, int]) -> Iterator[str]:
        if dropped:
            yield "Left out for length: " + ", ".join(f"{lines} lines of {title}" for title, lines in dropped.items())

    # -- what is cut to the budget

    def sections(self) -> list[_Section]:
        """The sections in the order in which they get their share of the budget."""
        ledger = self.ledger
        base = [f"Paths are relative to {self.clean(ledger.root)}."] if ledger.root else []
        looked = sum(run.role in _LOOKING for run in ledger.commands.values())
        also = [f"{looked} more commands only looked around."] if looked else []
        return [
            _Section("Files", list(self._changed_files()), before=base),
            _Section("Tests and build", list(self._checks())),
            _Section("Open work", list(self._open_work()), 500),
            _Section("Files read", list(self._read_files()), 2_000),
            _Section("Decisions and dead ends", list(self._decisions()), 400),
            _Section("Errors and what worked instead", list(self._fixes()), 400),
            _Section("Commands", list(self._commands()), 800, before=also),
            _Section("Identifiers", list(self._identifiers()), 150),
            _Section("What the user wrote", list(self._said()), before=("Newest first.",)),
        ]

    def _changed_files(self) -> Iterator[str]:
        for file in sorted(self.ledger.files.values(), key=lambda one: (-one.turn, one.path)):
            if file.edits:
                times = f", {file.edits} times" if file.edits > 1 else ""
                digest = f", sha256 {file.digest}" if file.digest else ""
                yield f"- {file.operation} {self.clean(file.path)} (turn {file.turn}{times}{digest})"

    def _read_files(self) -> Iterator[str]:
        paths = [self.clean(file.path) for file in reversed(self.ledger.files.values()) if not file.edits]
        yield from (f"- {', '.join(some)}" for some in batches(paths, _PER_LINE))

    def _checks(self) -> Iterator[str]:
        for kind, check in self.ledger.checks.items():
            passed = "passed" if check.result.passed else "FAILED"
            outdated = ", before the last edit" if check.outdated else ""
            name = self.clean(check.result.name)
            yield f"- {kind}: `{name}` {passed} in turn {check.turn}{outdated}{self.reference(check.message_id)}"

    def _commands(self) -> Iterator[str]:
        runs = [run for run in reversed(self.ledger.commands.values()) if run.role not in _LOOKING]
        weights = {"check": 0, "commit": 0, "run": 1, "edit": 1}
        for run in sorted(runs, key=lambda one: weights.get(one.role, 2)):
            times = f" ×{run.count}" if run.count > 1 else ""
            yield f"- `{self.quote(run.text)}`{times}: {run.status}{self.reference(run.message_id)}"

    def _open_work(self) -> Iterator[str]:
        for text, status in self.ledger.open_todos:
            yield f"- to do ({status}): {self.quote(text)}"
        for request in self.ledger.withdrawn:
            text = one_line(self.quote(request.text), 200)
            yield f"- withdrawn by the user: “{text}”{self.reference(request.message_id)}"
        for one in reversed([failure for failure in self.failures if not failure.fix]):
            where = self.reference(one.message_id)
            yield f"- unresolved: `{self.quote(one.failed)}`: {self.quote(one.error)}{where}"

    def _fixes(self) -> Iterator[str]:
        for one in reversed([failure for failure in self.failures if failure.fix]):
            failed, error, fix = map(self.quote, (one.failed, one.error, one.fix))
            yield f"- `{failed}` failed ({error}); worked: `{fix}`{self.reference(one.message_id)}"

    def _decisions(self) -> Iterator[str]:
        for one in reversed(self.ledger.decisions):
            yield f"- {_DECISIONS[one.kind]}: “{self.quote(one.text)}”{self.reference(one.message_id)}"

    def _identifiers(self) -> Iterator[str]:
        found = [self.clean(one) for one in reversed(self.ledger.identifiers)]
        yield from (f"- {', '.join(some)}" for some in batches(found, _PER_LINE))

    def _said(self) -> Iterator[str]:
        for request in reversed(self.ledger.requests):
            if request not in self.goals:
                text = head_and_tail(self.quote(request.text), _MAX_QUOTE)
                yield "\n  > ".join((f"-{self.reference(request.message_id)}", *text.splitlines()))
