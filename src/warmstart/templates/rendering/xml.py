"""The note as XML, for models that read it better: an element for each piece, all text escaped."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.sessions.marks import END_TAG, TAG
from warmstart.templates.rendering.note import NO_RESULT, About, said_left_out, shown_of
from warmstart.templates.rendering.values import Dropped, Piece

BEGINNING = f"{TAG} template="


def opening(about: About) -> str:
    """The outermost tag and what this is."""
    described = f" description={quoteattr(about.description)}" if about.description else ""
    return (
        f'{BEGINNING}{quoteattr(about.name)}{described} sessions="{about.sessions}">\n'
        "<about>Examples from earlier sessions, for reference, not a task: the latest user message wins, and all tools "
        "are available. A standing instruction of then holds unless the user says otherwise. Values in {{...}} are "
        "placeholders; check files before relying on them.</about>"
    )


def line(piece: Piece, number: int = 1) -> str:
    """A piece as an element."""
    times = f' times="{piece.number}"' if piece.number > 1 else ""
    tool = f" tool={quoteattr(piece.tool)}" if piece.tool else ""
    text = escape(piece.text)
    match piece.kind:
        case "context":
            return f'<instruction said_by="{piece.label}">{text}</instruction>'
        case "convention":
            return f"<convention{tool}{times}>{text}</convention>"
        case "fix":
            error, change = escape(piece.error), escape(piece.change)
            return f"<fix{tool}{times}><error>{error}</error><change>{change}</change></fix>"
        case "exemplar":
            return f"<worked{tool}>{text}</worked>"
        case "recovery":
            failed, error, change = map(escape, (piece.failed, piece.error, piece.change))
            changed = f"<change>{change}</change>" if change else ""
            return (
                f"<recovery{tool}{times}><failed>{failed}</failed><error>{error}</error><worked>{text}</worked>"
                f"{changed}</recovery>"
            )
        case "marker":
            return f"<used as={quoteattr(piece.label)}{times}>{text}</used>"
        case "demonstration":
            return _example(piece, number)
        case "pattern":
            return f'<habit evidence="weak">{text}</habit>'


def _example(piece: Piece, number: int) -> str:
    well = f" ended={quoteattr(piece.label)}" if piece.label else ""
    if piece.number > len(piece.acts):
        well += f' shown="{shown_of(piece)}"'
    acts = (
        f"<call tool={quoteattr(act.tool)}>{escape(act.arguments)}</call>\n"
        f"<result>{escape(act.result or NO_RESULT)}</result>\n"
        for act in piece.acts
    )
    return f'<example number="{number}"{well}>\n<task>{escape(piece.text)}</task>\n{"".join(acts)}</example>'


def left_out(said: str) -> str:
    """What was left out, as an element."""
    return f"<left-out>{said}</left-out>"


def write(first: str, pieces: Sequence[Piece], dropped: Sequence[Dropped]) -> str:
    """The whole note."""
    lines = [first]
    number = 0
    for piece in pieces:
        number += piece.kind == "demonstration"
        lines.append(line(piece, number))
    if said := said_left_out(dropped):
        lines.append(left_out(said))
    return "\n".join((*lines, END_TAG))


# The standard library has both in `xml.sax`, which loads all of HTTP with it: too long for the start of a session.


def escape(text: str) -> str:
    """The text as it stands between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quoteattr(text: str) -> str:
    """The text as an attribute has it, in quotes."""
    inside = escape(text).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    return f'"{inside.replace(chr(34), "&quot;")}"'
