"""The packet: what a session hands to the next one, as redacted Markdown for a person and for an agent.

The same ledger gives the same bytes, and the id of a packet is the hash of its content. Constraints and the goal are
never cut: the budget grows for them, and if that is not enough the packet is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from itertools import chain
from typing import NamedTuple

from warmstart.errors import HandoffRefused
from warmstart.handoff.ledger import LOOKING, Ledger, Request
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import END, MARK, PACKET
from warmstart.sessions.tables import to_time
from warmstart.storage.database import batches
from warmstart.text.truncate import head_and_tail, one_line
from warmstart.text.untrusted import neutralize
from warmstart.tokens import count

BUDGET, MAX_BUDGET = 3_000, 6_000  # tokens
MAX_NOTE, _MIN_GOAL = 8_900, 300  # characters of a note and of its goal; Claude Code truncates anything above 10,000
_MAX_REQUEST = 800  # tokens of a request that is quoted in full
_CHARACTERS = 3  # per token at least, to cut a text
_MAX_QUOTE = 1_000  # characters of any other message
_PER_LINE = 4  # files or identifiers on a line
_MARKER = re.compile(r"\[redacted:([\w-]+):")
_TITLE = re.compile(rf"{re.escape(PACKET)}(\w+)\n- content: sha256 (\w+)\n")
_DECISIONS = {"decision": "decided", "answer": "answered", "rejected": "rejected options"}
_PERMISSIONS = {"approval": "allowed then, ask again", "refusal": "refused"}
_WEIGHTS = {"check": 0, "commit": 0, "run": 1, "edit": 1}  # of commands by role; lowest first
_ORDER = (
    *("What the user wrote", "Files", "Files read", "Commands", "Tests and build", "Open work"),
    *("Approvals and refused calls", "Decisions and dead ends", "Errors and what worked instead", "Identifiers"),
)
_NOTED = ("Files", "Tests and build", "Open work", "Files read")  # after a compaction
_COMPACTED = (
    "This conversation was compacted. Here is what the log says about it; quotes are the user's own words. The latest "
    "message of the user wins. Check files before you edit them."
)
_REST = "`warmstart sessions show {0}` shows the whole session, and with `--message N` message #N in full."
_FOOTER = (
    "\nThis packet is a reference about earlier work, computed from the log; quotes are the user's own words. The "
    "latest message of the user wins over anything here. All your tools are fully available. Files may have changed "
    "since: check them before you edit.\n\nEND OF HANDOFF PACKET"
)


class GitState(NamedTuple):
    """The state of a repository, from the log or read when the packet was first made."""

    branch: str = ""
    head: str = ""
    dirty: Sequence[str] = ()


class Compressed(NamedTuple):
    """How often the context was compressed, and when it last was, in seconds since 1970."""

    times: int = 0
    at: float | None = None


class Packet(NamedTuple):
    """A packet. `dropped` counts the lines that did not fit by section, `redactions` the secrets by kind."""

    id: str
    session_id: str
    text: str
    tokens: int
    constraints: int
    dropped: dict[str, int]
    redactions: dict[str, int]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages to start a fresh session with."""
        return [{"role": "user", "content": self.text}]


def _measure(line: str) -> int:
    return count(line) + 1


@dataclass(slots=True)
class _Section:
    """A section: its lines by importance, and the tokens it may use before the other sections get theirs."""

    title: str
    lines: Sequence[str]
    share: int = MAX_BUDGET
    before: Sequence[str] = ()
    shown: int = 0

    def fill(self, room: int, share: int | None = None, measure: Callable[[str], int] = _measure) -> int:
        """Take more lines while they fit; return the room that is left."""
        heading = 0 if self.shown else sum(map(measure, (f"## {self.title}", *self.before)))
        left, used = min(room - heading, share or self.share), 0
        for line in self.lines[self.shown :]:
            size = measure(line)
            if used + size > left:
                break
            used += size
            self.shown += 1
        return room - heading - used if used else room

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
    compressed: Compressed = Compressed(),  # noqa: B008 - a tuple
    chain_number: int = 1,
    chain_max: int = 3,
) -> Packet:
    """Build the packet of a session. Raises `HandoffRefused` if the constraints and the goal alone are too long."""
    writer = PacketWriter(ledger, redactor)
    header = writer.header(git, compressed, chain_number, chain_max)
    fixed = [*header, *writer.constraints(), *writer.goal()]
    ending = [*writer.note(note), "", "## The rest", _REST.format(ledger.session.id)]
    needed = sum(map(_measure, (*fixed, *ending, _FOOTER))) + 60  # the title, and what was dropped
    if needed > MAX_BUDGET:
        raise HandoffRefused(
            f"the constraints and the goal of session {ledger.session.id!r} take {needed:,} tokens, more than "
            f"{MAX_BUDGET:,}; start the next session with `warmstart sessions show {ledger.session.id}` at hand"
        )
    sections = writer.sections()
    room = max(budget_tokens, needed) - needed
    room = max(room, min(sum(map(_measure, sections[0].lines)) + 40, MAX_BUDGET - needed))
    for share in (None, MAX_BUDGET):  # other sections may use what one leaves of its share
        for section in sections:
            room = section.fill(room, share)
    dropped = {one.title: len(one.lines) - one.shown for one in sections if one.shown < len(one.lines)}
    if dropped:
        lost = ", ".join(f"{lines} lines of {title}" for title, lines in dropped.items())
        ending.append(f"Left out for length: {lost}")
    lines = chain(*(section.render() for section in sorted(sections, key=lambda one: _ORDER.index(one.title))))
    body = redactor.clean("\n".join((*fixed, *lines, *ending, _FOOTER)))
    digest = sha256(body.encode(errors="replace")).hexdigest()[:32]
    text = f"{PACKET}{digest[:12]}\n- content: sha256 {digest}\n{body}\n{END}\n"
    counts = (count(text), len(ledger.constraints), dropped, writer.redactions)
    return Packet(digest[:12], ledger.session.id, text, *counts)


def render_constraints(ledger: Ledger, redactor: Redactor) -> str:
    """The constraints alone as a note, for after a compaction; empty if there are none."""
    lines = [*PacketWriter(ledger, redactor).constraints()][1:]
    return "\n".join((MARK, *lines, END)) if lines else ""


def render_note(ledger: Ledger, redactor: Redactor) -> str:
    """The constraints, the goal and the files for after a compaction; empty if the user has said nothing.

    Constraints come first and get as much room as they need; of a long goal, the head and the tail are quoted.
    """
    if not (ledger.requests or ledger.constraints):
        return ""
    writer = PacketWriter(ledger, redactor)
    room = MAX_NOTE - len(f"{MARK} {_COMPACTED}\n\n{END}") - _MIN_GOAL
    rules, shown = list(writer.constraints()), 0
    while shown < len(rules) and (room := room - len(rules[shown]) - 1) >= 0:
        shown += 1
    if shown < len(rules):
        rules[shown - 1 :] = [f"({len(rules) - shown + 1} more: `warmstart handoff packet {ledger.session.id}`)"]
    lines = [f"{MARK} {_COMPACTED}", *rules, head_and_tail("\n".join(writer.goal()), max(room, 0) + _MIN_GOAL)]
    left = (MAX_NOTE - len("\n".join((*lines, END)))) // _CHARACTERS
    for section in writer.sections():
        if section.title in _NOTED:
            left = section.fill(left, measure=lambda line: len(line) // _CHARACTERS + 1)
            lines += section.render()
    return redactor.clean("\n".join((*lines, END)))


def _moment(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if at else ""


def verify(text: str) -> str:
    """Return the id of a packet. Raises `HandoffRefused` if the text is not a packet or was edited."""
    title = _TITLE.search(text)
    end = text.rfind(f"\n{END}")
    if not title or end < 0:
        raise HandoffRefused("this is not a packet; `warmstart handoff packet SESSION` makes one")
    if sha256(text[title.end() : end].encode(errors="replace")).hexdigest()[:32] != title[2]:
        raise HandoffRefused(f"packet {title[1]!r} was edited; make a new one")
    return title[1]


class PacketWriter:
    """Writes the lines of a packet."""

    def __init__(self, ledger: Ledger, redactor: Redactor) -> None:
        self.ledger = ledger
        self.failures = ledger.failures()
        self.clean, self.reference = redactor.clean, ledger.reference
        titles: dict[Request | None, str] = dict.fromkeys(ledger.requests[-1:], "The user's last words")
        titles |= {ledger.latest_request: "Latest request"} | dict.fromkeys(ledger.requests[:1], "First request")
        self.goals = {one: titles[one] for one in ledger.requests if one in titles}
        rules, asked = (one.text for one in ledger.constraints), (one.text for one in ledger.requests)
        texts = map(self.clean, chain(rules, asked, ledger.commands))
        self.redactions = dict(sorted(Counter(kind for text in texts for kind in _MARKER.findall(text)).items()))

    def quote(self, text: str) -> str:
        return neutralize(self.clean(text))

    # -- what is never cut

    def header(self, git: GitState, compressed: Compressed, number: int, maximum: int) -> Iterator[str]:
        ledger, session = self.ledger, self.ledger.session
        when = _moment(ledger.last.timestamp if ledger.last else None)
        facts = (f"session {session.id} ({session.agent})", f"chain {number} of {maximum}", when)
        yield "- " + " · ".join(filter(None, (*facts, ledger.model or session.model)))
        if session.project or git.branch:
            more = f" and {len(git.dirty) - 8} more" if len(git.dirty) > 8 else ""
            state = {"branch ": git.branch, "head ": git.head, "uncommitted: ": ", ".join(git.dirty[:8]) + more}
            shown = (session.project, *(f"{name}{value}" for name, value in state.items() if value))
            yield self.clean("- repository: " + " · ".join(filter(None, shown)))
        if compressed.times:
            times = "once" if compressed.times == 1 else f"{compressed.times} times"
            last = _moment(to_time(compressed.at))
            yield f"- context: compressed {times}" + (f", last at {last}" if last else "")
        names = sorted({step.call.name for step in ledger.steps})
        fingerprint = blake2b("\0".join(names).encode(), digest_size=4).hexdigest()
        redacted = ", ".join(f"{times} {kind}" for kind, times in self.redactions.items()) or "none"
        yield f"- tools: {len(names)}, fingerprint {fingerprint} · secrets replaced: {redacted}"

    def constraints(self) -> Iterator[str]:
        lines = [f"- {self.quote(one.text)}{self.reference(one.message_id)}" for one in self.ledger.constraints]
        if lines:
            yield from ("", "## Constraints of the user, verbatim; they still apply", *lines)

    def goal(self) -> Iterator[str]:
        yield from ("", "## Goal")
        if not self.ledger.requests:
            yield "The user asked for nothing."
        for request, title in self.goals.items():
            text = self.quote(request.text)
            if title == "First request" and request in self.ledger.withdrawn:
                title = "First request, withdrawn"
            if count(text) > _MAX_REQUEST:
                text = head_and_tail(text, _MAX_REQUEST * _CHARACTERS)
                title = f"{title}, in part"
            yield f"{title}{self.reference(request.message_id)}:"
            yield from (f"> {line}" for line in text.splitlines())

    def note(self, note: str) -> Iterator[str]:
        if note.strip():
            yield from ("", "## Note of the user", *(f"> {line}" for line in self.quote(note.strip()).splitlines()))

    # -- what is cut to the budget

    def sections(self) -> list[_Section]:
        """The sections, in the order in which they claim the budget."""
        ledger = self.ledger
        base = [f"Paths are relative to {self.clean(ledger.root)}."] if ledger.root else []
        looked = sum(run.role in LOOKING for run in ledger.commands.values())
        also = [f"{looked} more commands only looked around."] if looked else []
        read = [file.path for file in reversed(ledger.files.values()) if not file.edits]
        return [
            _Section("Files", list(self._changed_files()), before=base),
            _Section("Tests and build", list(self._checks())),
            _Section("Open work", list(self._open_work()), 500),
            _Section("Approvals and refused calls", list(dict.fromkeys(self._quoted(_PERMISSIONS))), 400),
            _Section("Files read", self._listed(read), 2_000),
            _Section("Decisions and dead ends", list(self._quoted(_DECISIONS)), 400),
            _Section("Errors and what worked instead", list(self._fixes()), 400),
            _Section("Commands", list(self._commands()), 800, before=also),
            _Section("Identifiers", self._listed(reversed(ledger.identifiers)), 150),
            _Section("What the user wrote", list(self._said()), before=("Newest first.",)),
        ]

    def _listed(self, names: Iterable[str]) -> list[str]:
        return [f"- {', '.join(some)}" for some in batches(map(self.clean, names), _PER_LINE)]

    def _quoted(self, titles: Mapping[str, str]) -> Iterator[str]:
        """Decisions of these kinds, newest first."""
        for one in reversed(self.ledger.decisions):
            if one.kind in titles:
                yield f"- {titles[one.kind]}: “{self.quote(one.text)}”{self.reference(one.message_id)}"

    def _changed_files(self) -> Iterator[str]:
        for file in sorted(self.ledger.files.values(), key=lambda one: (-one.turn, one.path)):
            if file.edits:
                times = f", {file.edits} times" if file.edits > 1 else ""
                digest = f", sha256 {file.digest}" if file.digest else ""
                yield f"- {file.operation} {self.clean(file.path)} (turn {file.turn}{times}{digest})"

    def _checks(self) -> Iterator[str]:
        for kind, check in self.ledger.checks.items():
            step = self.ledger.steps[check.place - 1]
            ended = f"{'passed' if check.passed else 'FAILED'} in turn {step.turn}"
            outdated = ", before the last edit" if self.ledger.is_outdated(check) else ""
            yield f"- {kind}: `{self.clean(check.name)}` {ended}{outdated}{self.reference(step.message_id)}"

    def _commands(self) -> Iterator[str]:
        runs = [run for run in reversed(self.ledger.commands.values()) if run.role not in LOOKING]
        for run in sorted(runs, key=lambda one: _WEIGHTS.get(one.role, 2)):
            times = f" ×{run.times}" if run.times > 1 else ""
            yield f"- `{self.quote(run.text)}`{times}: {run.status}{self.reference(run.message_id)}"

    def _open_work(self) -> Iterator[str]:
        for text, status in self.ledger.open_todos:
            yield f"- to do ({status}): {self.quote(text)}"
        for request in self.ledger.withdrawn:
            text = one_line(self.quote(request.text), 200)
            yield f"- withdrawn by the user: “{text}”{self.reference(request.message_id)}"
        for one in reversed(self.failures):
            if not one.fix:
                failed, error = self.quote(one.failed), self.quote(one.error)
                yield f"- unresolved: `{failed}`: {error}{self.reference(one.message_id)}"

    def _fixes(self) -> Iterator[str]:
        for one in reversed(self.failures):
            if one.fix:
                failed, error, fix = map(self.quote, (one.failed, one.error, one.fix))
                yield f"- `{failed}` failed ({error}); worked: `{fix}`{self.reference(one.message_id)}"

    def _said(self) -> Iterator[str]:
        for request in reversed(self.ledger.requests):
            if request not in self.goals:
                text = head_and_tail(self.quote(request.text), _MAX_QUOTE)
                yield "\n  > ".join((f"-{self.reference(request.message_id)}", *text.splitlines()))
