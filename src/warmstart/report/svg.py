"""SVG and HTML elements that escape their content.

`element` is the only way to build markup from data. It escapes everything that is not `Markup` already, so a forgotten
escape shows as text on the page and never runs in it.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from warmstart.report.format import printable

__all__ = ["Markup", "draw", "element", "join", "label", "mark"]


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element with its children. `None` omits an attribute; `class_` becomes `class`, `a_b` becomes `a-b`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(_plain(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")  # noqa: S704 - every part is escaped


def join(*children: str) -> Markup:
    """The children one after another."""
    return Markup("").join(child if isinstance(child, Markup) else printable(child) for child in children)


def draw(title: str, width: float, height: float, *children: Markup) -> Markup:
    """A drawing. The page scales it to the width of its column."""
    return element("svg", element("title", title), *children, role="img", viewBox=f"0 0 {width:g} {height:g}")


def label(x: float, y: float, text: str, style: str = "") -> Markup:
    """A text in a drawing."""
    return element("text", text, x=x, y=y, class_=style or None)


def mark(tip: str, *children: Markup) -> Markup:
    """The parts of a drawing that show one number; `tip` appears when the pointer is over them."""
    return element("g", element("title", tip), *children, class_="mark")


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
