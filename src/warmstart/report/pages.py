"""Pages as data, rendered by one Jinja2 template.

A page is one HTML file that opens offline: it has no script, refers to nothing outside itself, and its content security
policy forbids both. The template escapes every text; only charts are markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2

from warmstart.report.format import one_line, printable
from warmstart.report.svg import Markup

_FOLDER = Path(__file__).parent


class Count(NamedTuple):
    """A number in the header of a page; `tone` is `accent` for one that deserves attention."""

    name: str
    value: str
    note: str = ""
    tone: str = ""


class Table(NamedTuple):
    """A table. `styles` are the classes of its columns: `end` for numbers, `code`, `soft`."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    styles: tuple[str, ...] = ()


class Tile(NamedTuple):
    """One number with its name, a small drawing and notes; the number is empty where there is none to show."""

    name: str
    value: str
    notes: tuple[str, ...] = ()
    drawing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: charts first, then a note, then the numbers behind the charts, folded unless `open`.

    With two charts the page shows the first on a wide screen and the second on a narrow one. `style` is `full` for the
    whole width of the page, `tall` for two rows of the grid.
    """

    heading: str
    charts: tuple[Markup, ...] = ()
    tiles: tuple[Tile, ...] = ()
    note: str = ""
    table: Table | None = None
    open: bool = False
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the counts, the main finding in a sentence, sections with charts, then paragraphs that explain them."""

    title: str
    made: datetime
    scope: str = ""
    counts: tuple[Count, ...] = ()
    question: str = ""
    finding: str = ""
    summary: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    explanation: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()


def render(page: Page) -> str:
    """The page as an HTML document."""
    style = Markup((_FOLDER / "page.css").read_text(encoding="utf-8"))
    return _environment().get_template("page.html.j2").render(page=page, style=style) + "\n"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["one_line"] = one_line
    return environment
