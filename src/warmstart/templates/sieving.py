"""What breaks a rule is left out of a template that is being made, and a note says so.

A session is not lost for one item: the rest of what it gives is as good as before. A template that comes from elsewhere
is another matter: that is refused.
"""

from __future__ import annotations

from dataclasses import replace

from warmstart.templates.allowlist import SILENT
from warmstart.templates.items import Placed, kept, sessions_of
from warmstart.templates.tools import Definitions
from warmstart.templates.validation import Problem, problems
from warmstart.templates.values import Demonstration, Item, Kind, Note, SessionSeed, Task, ToolCard, WarmTemplate

_NOTES = 12


def sieved(template: WarmTemplate, *, tools: Definitions | None = None) -> WarmTemplate:
    """The template without the items that break a rule."""
    known = tuple(tools) if tools is not None else None
    spoken = tuple(map(_spoken, template.seed.demonstrations))
    template = replace(template, seed=replace(template.seed, demonstrations=spoken))
    if not problems(template, tools=known):
        return template
    sieve = _Sieve(template, known)
    seed = replace(template.seed, cards=tuple(map(sieve.card, template.seed.cards)))
    seed = kept(seed, lambda placed: bool(placed.item.sources) and sieve.is_sound(placed))
    seed = replace(seed, tasks=tuple(filter(sieve.is_fine, seed.tasks)))
    return replace(template, seed=replace(seed, notes=(*seed.notes, *sieve.notes[:_NOTES])))


def _spoken(demonstration: Demonstration) -> Demonstration:
    """The demonstration with a word for results that have none: many programs say nothing when all is well."""
    acts = (act if act.result.strip() else act._replace(result=SILENT) for act in demonstration.acts)
    return replace(demonstration, acts=tuple(acts))


class _Sieve:
    """Looks at items one by one, as if each were all that a template has."""

    def __init__(self, template: WarmTemplate, tools: Definitions | None) -> None:
        self._template = template
        self._tools = tools
        self._else = set(self._problems(SessionSeed()))  # what is wrong whatever the items are
        self.notes: list[Note] = []

    def is_sound(self, placed: Placed) -> bool:
        return self._is_sound(placed.kind, placed.item)

    def is_fine(self, task: Task) -> bool:
        return self._first(SessionSeed(tasks=(task,))) is None

    def card(self, card: ToolCard) -> ToolCard:
        """The card without the parts that break a rule."""
        if self._wrong("card", card) is None:
            return card
        return replace(
            card,
            exemplars=tuple(part for part in card.exemplars if self._has(card, exemplars=(part,))),
            conventions=tuple(part for part in card.conventions if self._has(card, conventions=(part,))),
            fixes=tuple(part for part in card.fixes if self._has(card, fixes=(part,))),
        )

    def _has(self, card: ToolCard, **parts: object) -> bool:
        return self._is_sound("card", replace(ToolCard(tool=card.tool), **parts))  # type: ignore[arg-type]

    def _is_sound(self, kind: Kind, item: Item) -> bool:
        wrong = self._wrong(kind, item)
        if wrong is not None:
            self.notes.append(Note(f"a {kind} was left out: {wrong.what}", sessions_of(item)))
        return wrong is None

    def _wrong(self, kind: Kind, item: Item) -> Problem | None:
        name = "recoveries" if kind == "recovery" else f"{kind}s"
        return self._first(SessionSeed(**{name: (item,)}))  # type: ignore[arg-type]

    def _first(self, alone: SessionSeed) -> Problem | None:
        return next((each for each in self._problems(alone) if each not in self._else), None)

    def _problems(self, seed: SessionSeed) -> list[Problem]:
        return problems(replace(self._template, seed=seed), tools=self._tools)
