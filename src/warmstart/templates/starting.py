"""Start a session: choose a template, put it into the messages, and leave a row that says so.

A session that was started before gets the very same again, and no second row: hosts try again, and a prompt cache holds
only as long as the bytes do. What this raises are errors of ours; a host that must never break catches `WarmstartError`
and goes on with its own messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from warmstart.errors import TemplateNotFound
from warmstart.redact.redactor import Redactor
from warmstart.sessions.marks import is_marked
from warmstart.templates.bootstrapper import WarmSessionBootstrapper, holds_template, shape_of
from warmstart.templates.choosing.recording import record, started
from warmstart.templates.choosing.selection import Selector
from warmstart.templates.choosing.similarity import Searches
from warmstart.templates.choosing.states import retire_changed
from warmstart.templates.choosing.values import DEFAULT, Choice, Suggestion, Use
from warmstart.templates.rendering.rendering import BUDGET
from warmstart.templates.rendering.values import Renderer, Rendering
from warmstart.templates.store import SQLTemplateStore
from warmstart.templates.tools import Definitions
from warmstart.templates.values import WarmTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The messages that a session starts with, the choice behind them, and the row that tells of it.

    `rendering` is what was inserted, `None` for a cold start. Without a row `use_id` is 0.
    """

    messages: list[Any]
    choice: Choice
    use_id: int
    rendering: Rendering | None = None


class _Shown(NamedTuple):
    messages: list[Any]
    rendering: Rendering


class _Showing(NamedTuple):
    """How a template is shown to this session."""

    messages: Sequence[Mapping[str, Any]]
    tools: Definitions | None
    renderer: Renderer
    budget_tokens: int
    redactor: Redactor | None

    def of(self, template: WarmTemplate) -> _Shown | None:
        """The messages with the template; nothing where none of it can be shown."""
        bootstrapper = WarmSessionBootstrapper(
            template,
            tools=self.tools,
            renderer=self.renderer,
            budget_tokens=self.budget_tokens,
            shape=shape_of(self.messages),
            redactor=self.redactor,
        )
        rendering = bootstrapper.rendering_for(self.messages)
        return _Shown(bootstrapper.inject(self.messages), rendering) if rendering.parts else None


def start_warm(
    store: SQLTemplateStore,
    session_id: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    task: str | None = None,
    project: str = "",
    agent: str = "",
    tools: Definitions | None = None,
    renderer: Renderer = "messages",
    budget_tokens: int = BUDGET,
    holdout: float = DEFAULT.holdout,
    explore: float = DEFAULT.explore,
    seed: int | None = None,
    recall: Searches | None = None,
    selector: Selector | None = None,
    all_projects: bool = False,
    redactor: Redactor | None = None,
) -> Started:
    """The messages of a session with the template that fits its task, or as they are where it is to start cold.

    `session_id` is the agent's own id or ours, and decides the chances unless `seed` is given too. The task is the last
    user message unless it is named. A host that starts many sessions keeps one `selector`, which then brings its own
    `recall`, `holdout` and `explore`. The list that was given is not changed.
    """
    tools = None if tools is None else list(tools)
    showing = _Showing(messages, tools, renderer, budget_tokens, redactor)
    if known := started(store, session_id):
        return _again(store, known, showing)
    if holds_template(messages):
        held = Choice(arm="abstained", template=None, why="the conversation holds a template already", propensity=1.0)
        return Started(messages=list(messages), choice=held, use_id=0)
    asked = last_request(messages) if task is None else task
    if selector is None:
        selector = Selector(store, recall=recall, policy=DEFAULT._replace(holdout=holdout, explore=explore))
    choice = selector.choose(
        asked, project=project, agent=agent, tools=tools, session=session_id, seed=seed, all_projects=all_projects
    )
    choice, shown = _shown(store, choice, showing)
    use = record(
        store,
        choice,
        session=session_id,
        task=asked,
        project=project,
        agent=agent,
        tokens=shown.rendering.tokens if shown else 0,
        items=shown.rendering.items if shown else (),
    )
    if choice.changed:
        retire_changed(store, choice.changed, agent=agent)
    if (use.arm, use.template) != (choice.arm, choice.template.id if choice.template else ""):
        return _again(store, use, showing)  # another process was quicker
    return Started(
        messages=shown.messages if shown else list(messages),
        choice=choice,
        use_id=use.id,
        rendering=shown.rendering if shown else None,
    )


def last_request(messages: Iterable[Mapping[str, Any]]) -> str:
    """The text of the last user message; what Warmstart itself put in, and results of tools, are none."""
    found = ""
    for message in messages:
        if message.get("role") == "user":
            said = (text for text in _texts(message.get("content")) if not is_marked(text))
            found = "\n".join(said).strip() or found
    return found


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, Mapping) and isinstance(text := block.get("text"), str):
                yield text


def _shown(store: SQLTemplateStore, choice: Choice, showing: _Showing) -> tuple[Choice, _Shown | None]:
    if choice.arm != "warm" or choice.template is None:
        return choice, None
    shown = showing.of(store.get(choice.template.id, version=choice.template.version))
    if shown is None:
        name = choice.template.name
        why = (
            f"nothing of the template {name!r} fits into {showing.budget_tokens} tokens with the tools of this session"
        )
        return replace(choice, arm="abstained", template=None, why=why), None
    return choice, shown


def _again(store: SQLTemplateStore, use: Use, showing: _Showing) -> Started:
    """The same start as before; cold where what it started from was revoked or deleted since."""
    shown, template, why = None, None, use.why
    if use.template:
        try:
            template = store.get(use.template, version=use.version)
        except TemplateNotFound:
            why = "the template that this session started from is gone"
        if template is not None and use.arm == "warm":
            shown = showing.of(template)
    choice = Choice(
        arm=use.arm,
        template=_suggestion(template, use) if template else None,
        why=why,
        propensity=use.propensity,
        odds=_odds(use.policy.get("odds")),
    )
    return Started(
        messages=shown.messages if shown else list(showing.messages),
        choice=choice,
        use_id=use.id,
        rendering=shown.rendering if shown else None,
    )


def _suggestion(template: WarmTemplate, use: Use) -> Suggestion:
    return Suggestion(
        id=template.id,
        name=template.name,
        version=template.version,
        state=template.state,
        sure=_number(use.policy.get("sure")),
        similarity=_number(use.policy.get("similarity")),
        utility=0.0,
        why=use.why,
        description=template.description,
    )


def _odds(value: object) -> dict[str, float]:
    return {str(name): _number(share) for name, share in value.items()} if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
