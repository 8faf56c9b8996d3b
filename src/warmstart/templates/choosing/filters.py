"""Which templates may be chosen at all, and why the others may not: project, tools, agent, state and trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from warmstart.sessions.projects import repository_of
from warmstart.templates.rows import Summary
from warmstart.templates.tools import Definitions, fingerprint, schemas_of

Reason = Literal[
    "of another project",
    "quarantined",
    "not promoted",
    "retired",
    "of another agent",
    "without a tool of this session",
    "changed tool schema",
]


class ChangedTool(NamedTuple):
    """A template that shows how to call a tool whose arguments have another schema by now."""

    template: str
    tool: str


class Eligible(NamedTuple):
    """The templates that may be chosen, how many others there are by reason, and the tools that changed."""

    templates: tuple[Summary, ...]
    passed_over: Mapping[Reason, int]
    changed: tuple[ChangedTool, ...]


class Host(NamedTuple):
    """What is known of the session that is to start: `tools` are names and fingerprints, where tools were given."""

    project: str = ""
    agent: str = ""
    tools: tuple[tuple[str, str], ...] | None = None
    all_projects: bool = False


def host_of(
    *, project: str = "", agent: str = "", tools: Definitions | None = None, all_projects: bool = False
) -> Host:
    """The session that is to start, from what its host gives."""
    prints = None
    if tools is not None:
        prints = tuple((name, fingerprint(schema)) for name, schema in schemas_of(tools).items())
    return Host(project.rstrip("/") or project, agent, prints, all_projects)


def eligible(templates: Iterable[Summary], host: Host) -> Eligible:
    """Tell the templates that may be chosen from the others.

    Without a project only templates without one fit; a template of no project fits everywhere. Only what a person
    made active may be chosen.
    """
    given = None if host.tools is None else dict(host.tools)
    some: list[Summary] = []
    others: Counter[Reason] = Counter()
    changed: list[ChangedTool] = []
    for template in templates:
        reason = _reason(template, host, given)
        if reason is None:
            some.append(template)
            continue
        others[reason] += 1
        if reason == "changed tool schema":
            changed += (ChangedTool(template.id, tool) for tool in _changed(template.tools, given or {}))
    return Eligible(tuple(some), others, tuple(changed))


def _reason(template: Summary, host: Host, given: Mapping[str, str] | None) -> Reason | None:
    if not host.all_projects and template.project and not is_project(template.project, host.project):
        return "of another project"
    if template.state != "active":
        return "not promoted" if template.state == "candidate" else template.state
    if given is None:
        # Agents call their tools by different names: without knowing which there are, the agent decides.
        return "of another agent" if template.agent and host.agent and template.agent != host.agent else None
    if template.tools and given.keys().isdisjoint(template.tools):
        return "without a tool of this session"
    return "changed tool schema" if _changed(template.tools, given) else None


def is_project(path: str, given: str) -> bool:
    """Whether a project is meant by a whole path or the last part of one; of an import only that part is known."""
    path = repository_of(path)  # a template may be older than what is known of its project
    if "/" not in path:
        return path == given.rsplit("/", 1)[-1]
    return path == given or (bool(given) and not given.startswith("/") and path.endswith(f"/{given}"))


def _changed(known: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    return [tool for tool, mark in known.items() if mark and given.get(tool) and given[tool] != mark]
