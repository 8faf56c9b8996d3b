"""What is known about using each tool: arguments that worked, what the calls had in common, and which fix met an error.

Only calls that worked are looked at, and of those with the same shape one is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from warmstart.profile import shell
from warmstart.profile.tools import SHELLS, agent_tools, command_in
from warmstart.profile.values import Profile
from warmstart.templates.extraction.conventions import conventions
from warmstart.templates.extraction.likeness import shape_of
from warmstart.templates.extraction.placeholders import CannotShow
from warmstart.templates.extraction.places import Places
from warmstart.templates.extraction.recovering import Mended, mended, usual
from warmstart.templates.extraction.walk import Taken, Walk
from warmstart.templates.extraction.worked import Fitting, worked
from warmstart.templates.trust import is_tool_name
from warmstart.templates.values import Exemplar, Fix, ToolCard
from warmstart.text.shell import parse_commands

MOST = 12  # tools
EXEMPLARS = 3  # of a tool
FIXES = 5
LONGEST = 600  # characters of an exemplar; where every call is longer, none is an example that one reads
# They only go on with something that another call began.
_HANDLES = frozenset(
    (
        *("write_stdin", "read_bash", "write_bash", "stop_bash", "list_bash", "BashOutput", "KillShell", "KillBash"),
        *("TaskOutput", "TaskStop", "read_powershell", "write_powershell", "stop_powershell", "read_background_output"),
    )
)
_ASIDE = re.compile(r"(?:/(?:home|Users)/[^/\s\"]+|/root|~)/\.|/tmp/")  # none of the project's files
_LATEST = 4  # calls of a shape that are looked at
_SOURCES = 8  # of one item


def cards(walk: Walk, places: Places, profile: Profile) -> tuple[ToolCard, ...]:
    """A card for each tool that worked, the most used first."""
    made: dict[str, list[Taken]] = {}
    planning = agent_tools().get(
        walk.session.agent, {}
    )  # how an agent keeps its own list of things to do teaches nothing
    for step in walk.taken:
        if planning.get(step.call.name) != "other" and step.call.name not in _HANDLES and worked(step):
            made.setdefault(step.call.name, []).append(step)
    remedies: dict[str, list[Mended]] = {}
    for each in mended(walk, profile):
        remedies.setdefault(each.failed.call.name, []).append(each)
    fits = Fitting(walk.session.project)
    tools = sorted(filter(is_tool_name, made), key=lambda tool: (-len(made[tool]), tool))[:MOST]
    found = (
        ToolCard(
            tool=tool,
            exemplars=_exemplars(tool, made[tool], places, fits),
            conventions=conventions(tool, made[tool], places, fits),
            fixes=_fixes(remedies.get(tool, ()), places),
        )
        for tool in tools
    )
    return tuple(card for card in found if card.sources)


# -- exemplars


def _exemplars(tool: str, steps: Sequence[Taken], places: Places, fits: Fitting) -> tuple[Exemplar, ...]:
    """Of the most typical shapes the latest call each; of equally typical ones the latest first."""
    groups: dict[str, list[Taken]] = {}
    for step in steps:
        if len(step.call.arguments) <= LONGEST:
            groups.setdefault(shape_of(tool, step.call.arguments), []).append(step)
    ranked = sorted(groups.values(), key=lambda group: (-_worth(tool, group), -group[-1].place))
    found: dict[str, Exemplar] = {}
    for group in ranked:
        if len(found) == EXEMPLARS:
            break
        latest = group[: -_LATEST - 1 : -1]
        fitting = next(filter(fits, latest), None)
        if fitting and (text := _shown(tool, fitting.call.arguments, places)):
            sources = dict.fromkeys((fitting.source, *(step.source for step in latest)))
            found.setdefault(text, Exemplar(arguments=text, sources=tuple(sources)))
    return tuple(found.values())


def _shown(tool: str, arguments: str, places: Places) -> str:
    try:
        return places.arguments(tool, arguments)
    except CannotShow:
        return ""


def _worth(tool: str, group: Sequence[Taken]) -> float:
    """How often a shape was used; of a shell, what tests and builds is worth more than a look at a file."""
    weight = 0.05 if _ASIDE.search(group[-1].call.arguments) else 1.0
    if tool in SHELLS:
        text = command_in(group[-1].call.arguments)
        kind = shell.kind_of(text)
        weight *= 3.0 if any(map(shell.check_of, parse_commands(text))) else 1.0 if kind == "code" else 0.3
    return weight * len(group)


# -- fixes


def _fixes(remedies: Sequence[Mended], places: Places) -> tuple[Fix, ...]:
    groups: dict[str, list[Mended]] = {}
    for each in remedies:
        groups.setdefault(each.error, []).append(each)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), -item[1][-1].failed.place))
    return tuple(
        Fix(
            error=places.text(error),
            change=usual(group).change,
            count=Counter(each.change for each in group)[usual(group).change],
            sources=tuple(dict.fromkeys(source for each in group for source in each.sources))[:_SOURCES],
        )
        for error, group in ranked[:FIXES]
    )
