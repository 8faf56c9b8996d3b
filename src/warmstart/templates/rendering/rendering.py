"""A template as the messages that a session starts with.

The same template, tools and budget give the same bytes, so that prompt caches hold. Calls that are not known to be safe
are left out and every text is redacted once more, whatever the store or a file said; every message is marked, so that
it is never taken for a session's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import get_args

import msgspec

from warmstart.errors import ConfigError
from warmstart.redact.redactor import Redactor
from warmstart.templates.allowlist import showable
from warmstart.templates.rendering import note
from warmstart.templates.rendering.arguments import Schemas
from warmstart.templates.rendering.budget import Fitted, fit
from warmstart.templates.rendering.layout import Layout
from warmstart.templates.rendering.pieces import Pieces, pieces_of
from warmstart.templates.rendering.trimming import Trimmer
from warmstart.templates.rendering.values import Part, Renderer, Rendering, Shape, Waiting, Weighed
from warmstart.templates.tools import Definitions, schemas_of
from warmstart.templates.values import SessionSeed, WarmTemplate
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import neutralize
from warmstart.tokens import Counter, count

BUDGET = 1200
_ENCODE = msgspec.json.Encoder().encode
_FOR_LINES = 0.2  # of the budget, for what is known of tools beside the demonstrations
_NAME, _DESCRIPTION = 80, 160  # characters; the note is to be short


def render(
    template: WarmTemplate,
    *,
    tools: Definitions | None = None,
    renderer: Renderer = "messages",
    shape: Shape = "openai",
    budget_tokens: int = BUDGET,
    redactor: Redactor | None = None,
    counter: Counter = count,
) -> Rendering:
    """What to insert for a template; with `tools` only what those can do."""
    _check(renderer, shape)
    template = showable(template)
    redactor = redactor or _shipped()
    schemas: Schemas | None = schemas_of(tools) if tools is not None else None
    looked: list[str] = []

    def look(text: str) -> str:
        looked.append(neutralize(text))
        return looked[-1]

    make = partial(_made, template, schemas, renderer=renderer, shape=shape, budget=budget_tokens, counter=counter)
    rendering = make(look)
    # What was extracted is redacted already: one look at all of it together is ten times as fast as one at each text.
    if redactor.find("\n".join(looked)):
        rendering = make(lambda text: redactor.clean(neutralize(text)))
    return rendering


def _made(
    template: WarmTemplate,
    schemas: Schemas | None,
    clean: Callable[[str], str],
    *,
    renderer: Renderer,
    shape: Shape,
    budget: int,
    counter: Counter,
) -> Rendering:
    found = pieces_of(template.seed, clean, schemas)
    sessions = len(_sessions_in(template.seed))
    name, description = one_line(clean(template.name), _NAME), one_line(clean(template.description), _DESCRIPTION)
    layout = Layout(renderer, shape, note.About(name, description, max(1, sessions)), counter)
    fitter = _Fitter(layout, found, balance=sessions > 1)
    room = budget
    while True:
        fitted = fitter.fitted(room)
        dropped = (*found.dropped, *fitted.dropped)
        inserted = layout.build([entry.piece for entry in fitted.kept], dropped) if fitted.kept else []
        tokens = fitted.tokens if inserted else 0
        if counter is not count:  # the estimate finds no more in a whole than in its parts, others may
            tokens = max(tokens, layout.cost(inserted))
        if tokens <= budget or not inserted:
            break
        room -= tokens - budget
    parts = tuple(Part(entry.piece.kind, entry.piece.item, entry.tokens) for entry in fitted.kept)
    framing = Part("note", "", tokens - sum(part.tokens for part in parts))
    return Rendering(
        renderer=renderer,
        shape=shape,
        encoded=_ENCODE(inserted),
        parts=(framing, *parts) if parts else (),
        dropped=dropped,
        budget=budget,
        closing=shape == "anthropic" and bool(parts),
    )


def _check(renderer: str, shape: str) -> None:
    for what, given, known in (("renderer", renderer, get_args(Renderer)), ("shape", shape, get_args(Shape))):
        if given not in known:
            raise ConfigError(f"{given!r} is no {what} of messages: use one of {', '.join(known)}")


class _Fitter:
    """Fits pieces into a budget, each weighed once and only when it is asked for."""

    def __init__(self, layout: Layout, found: Pieces, *, balance: bool) -> None:
        self._layout = layout
        self._costs = layout.costs(found, balance=balance)
        self._balance = balance
        self._order = sorted(found.shown, key=lambda one: (one.rank, one.place))
        self._weighed: dict[int, Weighed] = {}

    def fitted(self, budget: int) -> Fitted:
        """What fits, demonstrations cut to their share of the budget."""
        examples = [one.made() for one in self._order if one.kind == "demonstration"]
        room = budget - self._costs.frame - self._costs.left_out
        room -= self._tokens((one for one in self._order if one.kind == "context"), budget)
        others = (one for one in self._order if one.kind not in ("context", "demonstration"))
        room -= self._tokens(others, int(budget * _FOR_LINES))
        trimmer = Trimmer(self._layout.weighed)
        cut = {entry.piece.place: entry for entry in trimmer.trimmed(examples, room)}
        return fit(
            self._order,
            budget,
            self._costs,
            weigh=lambda one: cut.get(one.place) or self._weigh(one),
            shorter=trimmer.shorter,
            balance=self._balance,
        )

    def _weigh(self, one: Waiting) -> Weighed:
        if (known := self._weighed.get(one.place)) is None:
            known = self._weighed[one.place] = self._layout.weighed(one.made())
        return known

    def _tokens(self, pieces: Iterable[Waiting], most: int) -> int:
        """What pieces take, as far as it matters."""
        tokens = 0
        for one in pieces:
            tokens += self._weigh(one).tokens
            if tokens >= most:
                return max(0, most)
        return tokens


@cache
def _shipped() -> Redactor:
    return Redactor()


def _sessions_in(seed: SessionSeed) -> set[str]:
    """The sessions whose words or calls could be shown."""
    kinds = (seed.contexts, seed.cards, seed.demonstrations, seed.recoveries, seed.patterns, seed.markers)
    return {source.session for items in kinds for item in items for source in item.sources}
