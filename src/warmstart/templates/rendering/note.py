"""The note as plain text: what this is, then what is known, a line each.

It says what it is, where it is from and what it is good for, and nothing that changes from day to day. It neither
commands nor belittles: notes called authoritative get obeyed against the user, notes called background get ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from warmstart.sessions.marks import END, MARK
from warmstart.templates.rendering.values import Dropped, Piece, PieceKind, Reason

BEGINNING = f"{MARK} Template "

_TOOLS = "How tools were used:"
HEADINGS: Mapping[PieceKind, str] = {
    "context": "Standing instructions of then, word for word; they hold unless the user says otherwise:",
    "convention": _TOOLS,
    "fix": _TOOLS,
    "exemplar": _TOOLS,
    "demonstration": "Examples:",
    "recovery": "Mistakes and what mended them:",
    "marker": "What was used:",
    "pattern": "Habits of the user (weak evidence):",
}
CALLS_FOLLOW = "The calls after this note were made then, not in this session."
NAMES: Mapping[PieceKind, tuple[str, str]] = {
    "context": ("standing instruction", "standing instructions"),
    "convention": ("convention", "conventions"),
    "fix": ("fix", "fixes"),
    "exemplar": ("argument example", "argument examples"),
    "demonstration": ("demonstration", "demonstrations"),
    "recovery": ("recovery", "recoveries"),
    "marker": ("marker", "markers"),
    "pattern": ("habit", "habits"),
}
SAID: Mapping[Reason, str] = {
    "length": "length",
    "three": "length",
    "half": "balance between sessions",
}


class About(NamedTuple):
    """What the note says of the template."""

    name: str
    description: str
    sessions: int


def opening(about: About) -> str:
    """The first lines: what this is and how to take it."""
    whence = "one earlier session" if about.sessions == 1 else f"{about.sessions} earlier sessions"
    what = f": {about.description.rstrip('.')}" if about.description else ""
    return (
        f'{BEGINNING}"{about.name}"{what}. Examples from {whence}, for reference, not a task: '
        "the latest user message wins, and all tools are available. Values in {{...}} are placeholders; "
        "check files before relying on them."
    )


def line(piece: Piece, number: int = 1) -> str:
    """A piece as a line; what it holds of further lines is indented, so that none of them begins like one of ours."""
    return _line(piece, number).replace("\n", "\n    ")


def _line(piece: Piece, number: int) -> str:
    times = f" ({piece.number} times)" if piece.number > 1 else ""
    match piece.kind:
        case "context":
            return f'- {piece.label}: "{piece.text}"'
        case "convention":
            return f"- {piece.tool}: {piece.text}{times}"
        case "fix":
            return f'- {piece.tool}: after "{piece.error}": {piece.change}{times}'
        case "exemplar":
            return f"- {piece.tool} worked with {piece.text}"
        case "recovery":
            change = f" [{piece.change}]" if piece.change else ""
            return f'- {piece.tool}: {piece.failed} gave "{piece.error}"; {piece.text} worked{change}{times}'
        case "marker":
            return f"- {piece.label}: {piece.text}{times}"
        case "demonstration":
            acts = (f"\n{act.tool} {act.arguments}\n-> {act.result or NO_RESULT}" for act in piece.acts)
            return "".join((f"- {headline(piece, number)}", *acts))
        case "pattern":
            return f"- {piece.text}"


NO_RESULT = "(no output)"


def headline(piece: Piece, number: int) -> str:
    """The first line of an example: what was asked for, and what says that it ended well."""
    said = [piece.label] if piece.label else []
    if piece.number > len(piece.acts):
        said.append(shown_of(piece))
    well = f" ({', '.join(said)})" if said else ""
    return f"Example {number}{well}{': ' if piece.text else ''}{piece.text}"


def shown_of(piece: Piece) -> str:
    """How much of an example is shown."""
    number = len(piece.acts)
    return f"the last {number} of {piece.number} calls" if number > 1 else f"the last of {piece.number} calls"


def left_out(kinds: Mapping[str, Mapping[PieceKind, int]]) -> str:
    """What has no room, in a line: for each reason how many of each kind."""
    return " ".join(f"Left out for {said}: {_listed(numbers)}." for said, numbers in kinds.items() if numbers)


def said_left_out(dropped: Sequence[Dropped]) -> str:
    """What was left out for want of room, in a line; empty where nothing was."""
    kinds: dict[str, dict[PieceKind, int]] = {}
    for one in dropped:
        if (said := SAID.get(one.reason)) is not None:
            numbers = kinds.setdefault(said, {})
            numbers[one.kind] = numbers.get(one.kind, 0) + 1
    return left_out(kinds)


def _listed(numbers: Mapping[PieceKind, int]) -> str:
    return ", ".join(f"{number} {NAMES[kind][number > 1]}" for kind, number in numbers.items())


def write(first: str, pieces: Sequence[Piece], dropped: Sequence[Dropped], last: str = "") -> str:
    """The whole note. Pieces come in the order in which they were given, each below the heading of its kind."""
    lines = [first]
    heading = ""
    number = 0
    for piece in pieces:
        if HEADINGS[piece.kind] != heading:
            heading = HEADINGS[piece.kind]
            lines.append(heading)
        number += piece.kind == "demonstration"
        lines.append(line(piece, number))
    if said := said_left_out(dropped):
        lines.append(said)
    if last:
        lines.append(last)
    return "\n".join((*lines, END))
