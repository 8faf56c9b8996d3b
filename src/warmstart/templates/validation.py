"""What a template has to hold before it may be kept, shared or shown to an agent: each thing that it breaks, by name.

Texts are judged by where they come from. What a tool, a file or an error said is no instruction (`trust.suspicious`);
what a person said may well be one, but it may not cut a conversation into other parts (`trust.cuts_in`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from warmstart.errors import InvalidTemplate
from warmstart.redact import redact
from warmstart.templates.allowlist import is_safe, says_safely
from warmstart.templates.items import is_edit, items_of
from warmstart.templates.schemas import argument_problem
from warmstart.templates.texts import texts_in
from warmstart.templates.tools import Definitions, schemas_of
from warmstart.templates.trust import cuts_in, is_tool_name, suspicious
from warmstart.templates.values import SessionSeed, Sources, ToolCard, WarmTemplate
from warmstart.text.untrusted import find_controls, find_invisible
from warmstart.tokens import count

LONGEST_NAME = 120  # characters
LONGEST_DESCRIPTION = 2_000
LONGEST_TAG = 40
MOST_TAGS = 20
LONGEST_TEXT = 16_000  # characters of one text of an item
LONGEST_ID = 200  # characters of the id of a session or a message
MOST_ITEMS = 200  # of one kind
MOST_SOURCES = 1_000
MOST_TOOLS = 500
LARGEST = 500_000  # characters of all texts together
RISKS = ("destructive", "network")

_ID = re.compile(r"(?:warm_\d{8}_\d{6}(?:_\d{1,6})?)?")
_MARK = re.compile(r"[0-9a-f]{0,64}")
_FAILED = re.compile(
    r"^Traceback \(most recent call last\)|^\s{0,8}(?:[A-Za-z_][\w.]{0,60}(?:Error|Exception)|[Ee]rror|ERROR|FATAL"
    r"|fatal): "
    r"|\b[Ee]xit(?:ed)?(?: with)?(?: (?:code|status))?[:=]? (?:code |status )?-?[1-9]\d{0,4}\b|<tool_use_error>",
    re.MULTILINE,
)


class Problem(NamedTuple):
    """What is wrong, and where."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(template: WarmTemplate, *, tools: Definitions | None = None, budget_tokens: int | None = None) -> None:
    """Raise `InvalidTemplate` with a line for each problem, if there is one."""
    if found := problems(template, tools=tools, budget_tokens=budget_tokens):
        many = "a problem" if len(found) == 1 else f"{len(found)} problems"
        raise InvalidTemplate(f"the template {_short(template.name)!r} has {many}", tuple(map(str, found)))


def problems(
    template: WarmTemplate, *, tools: Definitions | None = None, budget_tokens: int | None = None
) -> list[Problem]:
    """Everything that is wrong with a template, in its order."""
    try:
        msgspec.convert(msgspec.to_builtins(template), WarmTemplate)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        return [Problem("template", f"a value is of the wrong kind ({error})")]
    found = [*_head(template), *_sizes(template)]
    schemas = schemas_of(tools) if tools is not None else {}
    looked = _Looked(template, schemas)
    for where, part, kind in _parts(template.seed):
        found += looked.at(where, part, kind)
    if budget_tokens is not None:
        found += _budget(template.seed, budget_tokens)
    return list(dict.fromkeys(found))


# -- the template


def _head(template: WarmTemplate) -> Iterator[Problem]:
    if not _ID.fullmatch(template.id):
        yield Problem("id", f"{_short(template.id)!r} is no id; one looks like 'warm_20260310_142530'")
    if not template.name.strip():
        yield Problem("name", "is empty")
    yield from _line("name", template.name, LONGEST_NAME)
    yield from _said("description", template.description, LONGEST_DESCRIPTION)
    yield from _tags(template.tags)
    for name in ("project", "agent", "origin", "described_by"):
        yield from _line(name, getattr(template, name), LONGEST_DESCRIPTION)
    for name in ("version", "used", "successes", "failures"):
        if getattr(template, name) < 0:
            yield Problem(name, "is below 0")
    yield from _tools(template)
    yield from _ids("sources", template.sources)


def _tags(tags: tuple[str, ...]) -> Iterator[Problem]:
    if len(tags) > MOST_TAGS:
        yield Problem("tags", f"are {len(tags)}, more than {MOST_TAGS}")
    for tag in tags[:MOST_TAGS]:
        yield from _line("tags", tag, LONGEST_TAG)
        if not tag.strip():
            yield Problem("tags", "one is empty")


def _tools(template: WarmTemplate) -> Iterator[Problem]:
    for kind in template.allowed:
        if kind not in RISKS:
            yield Problem("allowed", f"{_short(kind)!r} is none of {', '.join(map(repr, RISKS))}")
    if len(template.tools) > MOST_TOOLS:
        yield Problem("tools", f"are {len(template.tools)}, more than {MOST_TOOLS}")
    for tool, mark in list(template.tools.items())[:MOST_TOOLS]:
        if not is_tool_name(tool):
            yield Problem("tools", f"{_short(tool)!r} is no name of a tool")
        if not _MARK.fullmatch(mark):
            yield Problem("tools", f"{_short(mark)!r} is no fingerprint of a schema")


def _sizes(template: WarmTemplate) -> Iterator[Problem]:
    seed = template.seed
    for name in seed.__slots__:
        if len(getattr(seed, name)) > MOST_ITEMS:
            yield Problem(name, f"are {len(getattr(seed, name))}, more than {MOST_ITEMS}")
    texts = [*texts_in(seed), template.name, template.description]
    if (size := sum(map(len, texts))) > LARGEST:
        yield Problem("seed", f"has {size:,} characters, more than {LARGEST:,}")
    if not any(getattr(seed, name) for name in seed.__slots__ if name not in ("tasks", "notes")):
        yield Problem("seed", "holds nothing")


def _budget(seed: SessionSeed, budget: int) -> Iterator[Problem]:
    """An item that is larger than the whole budget could never be shown."""
    numbers: dict[str, int] = {}
    for placed in items_of(seed):
        numbers[placed.kind] = numbers.get(placed.kind, 0) + 1
        parts: Iterable[Any] = [placed.item]
        if isinstance(placed.item, ToolCard):
            parts = (*placed.item.exemplars, *placed.item.conventions, *placed.item.fixes)
        for part in parts:
            if (tokens := sum(map(count, texts_in(part)))) > budget:
                where = f"{placed.kind} {numbers[placed.kind]}"
                yield Problem(where, f"has about {tokens:,} tokens, more than the budget of {budget:,}")


# -- what is in it


def _parts(seed: SessionSeed) -> Iterator[tuple[str, Any, str]]:
    """Every part of a seed that says something of its own: where it is, itself, and what kind of thing it is."""
    for place, context in enumerate(seed.contexts, 1):
        yield f"context {place}", context, "context"
    for card in seed.cards:
        name = f"card {_short(card.tool)!r}"
        yield name, card, "card"
        for kind, some in (("exemplar", card.exemplars), ("convention", card.conventions), ("fix", card.fixes)):
            for place, part in enumerate(some, 1):
                yield f"{name}, {kind} {place}", (card.tool, part), kind
    for kind in ("demonstration", "recovery", "pattern", "marker", "task", "note"):
        for place, part in enumerate(getattr(seed, "recoveries" if kind == "recovery" else f"{kind}s"), 1):
            yield f"{kind} {place}", part, kind


class _Looked:
    """Looks at one part after the other, knowing the template that they are of."""

    def __init__(self, template: WarmTemplate, schemas: Mapping[str, Mapping[str, Any] | None]) -> None:
        self._sources = frozenset(template.sources)
        self._tools = template.tools
        self._project = template.project
        self._schemas = schemas

    def at(self, where: str, part: Any, kind: str) -> Iterator[Problem]:
        """What is wrong with a part."""
        look = getattr(self, f"_{kind}")
        owned = part[1] if isinstance(part, tuple) and kind in ("exemplar", "convention", "fix") else part
        yield from look(where, part)
        if kind != "card":
            yield from self._of_texts(where, owned)
            yield from self._of_sources(where, owned, kind)
        if (
            getattr(owned, "count", 1) is not None
            and kind in ("convention", "fix", "recovery", "marker")
            and owned.count < 1
        ):
            yield Problem(where, "was never seen: its count is below 1")

    def _of_texts(self, where: str, part: Any) -> Iterator[Problem]:
        for text in texts_in(part):
            if len(text) > LONGEST_TEXT:
                yield Problem(where, f"has a text of {len(text):,} characters, more than {LONGEST_TEXT:,}")
                continue
            if bad := find_controls(text):
                yield Problem(where, f"has the control character {bad[0]!r}")
            for secret in redact(text).findings:
                yield Problem(where, f"has a secret ({secret.kind})")

    def _of_sources(self, where: str, part: Any, kind: str) -> Iterator[Problem]:
        if kind == "note":
            yield from _ids(where, part.sessions)
            return
        sources: Sources = (part.source,) if kind == "task" else part.sources
        if not sources:
            yield Problem(where, "names no session that it came from")
        if len(sources) > MOST_SOURCES:
            yield Problem(where, f"names {len(sources):,} sources, more than {MOST_SOURCES:,}")
            return
        yield from _ids(where, [each for source in sources for each in source])
        for source in sources:
            if source.session not in self._sources and not is_edit(source):
                yield Problem(
                    where, f"came from the session {_short(source.session)!r}, which the template does not name"
                )

    def _outside(self, where: str, what: str, text: str) -> Iterator[Problem]:
        if len(text) <= LONGEST_TEXT and (why := suspicious(text)):
            yield Problem(where, f"the {what} {why}")

    def _inside(self, where: str, what: str, text: str) -> Iterator[Problem]:
        if len(text) <= LONGEST_TEXT and (why := cuts_in(text)):
            yield Problem(where, f"the {what} {why}")

    def _call(
        self, where: str, tool: str, arguments: str, what: str = "arguments", *, worked: bool = True
    ) -> Iterator[Problem]:
        """What is wrong with a call that is shown; one that failed may break the schema, which is why it failed."""
        wrong = [*self._tool(where, tool)]
        if len(arguments) <= LONGEST_TEXT:
            wrong += self._outside(where, what, arguments)
            problem: str | None = _not_arguments(arguments)
            if not problem and worked and (schema := self._schemas.get(tool)) is not None:
                problem = argument_problem(schema, arguments)
            if problem:
                wrong.append(Problem(where, f"the {what} {problem}"))
            if not wrong and not is_safe(tool, arguments, project=self._project):
                wrong.append(Problem(where, f"the call of {_short(tool)!r} is not known to be safe"))
        yield from wrong

    def _tool(self, where: str, tool: str) -> Iterator[Problem]:
        if not tool:
            yield Problem(where, "names no tool")
        elif tool not in self._tools:
            yield Problem(where, f"the tool {_short(tool)!r} is none of the template's")

    def _quoted(self, where: str, tool: str, text: str) -> Iterator[Problem]:
        if not says_safely(tool, text[:LONGEST_TEXT]):
            yield Problem(where, "it tells of a command that is not known to be safe")

    # one for each kind of part

    def _context(self, where: str, part: Any) -> Iterator[Problem]:
        if not part.text.strip():
            yield Problem(where, "is empty")
        yield from self._inside(where, "text", part.text)

    def _card(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._tool(where, part.tool)
        if not (part.exemplars or part.conventions or part.fixes):
            yield Problem(where, "is empty")
        for name in ("exemplars", "conventions", "fixes"):
            if len(getattr(part, name)) > MOST_ITEMS:
                yield Problem(where, f"has more than {MOST_ITEMS} {name}")

    def _exemplar(self, where: str, part: Any) -> Iterator[Problem]:
        tool, exemplar = part
        yield from self._call(where, tool, exemplar.arguments)

    def _convention(self, where: str, part: Any) -> Iterator[Problem]:
        tool, convention = part
        yield from self._outside(where, "text", convention.text)
        yield from self._quoted(where, tool, convention.text)

    def _fix(self, where: str, part: Any) -> Iterator[Problem]:
        tool, fix = part
        yield from self._outside(where, "error", fix.error)
        yield from self._outside(where, "change", fix.change)
        yield from self._quoted(where, tool, fix.change)

    def _demonstration(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._inside(where, "task", part.task)
        yield from self._outside(where, "evidence", part.evidence)
        if not part.acts:
            yield Problem(where, "has no calls")
        if len(part.acts) > MOST_ITEMS:
            yield Problem(where, f"has more than {MOST_ITEMS} calls")
            return
        for place, act in enumerate(part.acts, 1):
            here = f"{where}, call {place}"
            yield from self._call(here, act.tool, act.arguments)
            yield from self._outside(here, "result", act.result)
            if not act.result.strip():
                yield Problem(here, "has no result")
            elif len(act.result) <= LONGEST_TEXT and _FAILED.search(act.result):
                yield Problem(here, "the result says that it failed")

    def _recovery(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._call(where, part.tool, part.failed, "arguments that failed", worked=False)
        yield from self._call(where, part.tool, part.worked, "arguments that worked")
        yield from self._outside(where, "error", part.error)
        yield from self._outside(where, "change", part.change)
        yield from self._quoted(where, part.tool, part.change)

    def _pattern(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._inside(where, "text", part.text)

    def _marker(self, where: str, part: Any) -> Iterator[Problem]:
        if not part.value.strip():
            yield Problem(where, "is empty")
        yield from self._outside(where, "value", part.value)

    def _task(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._inside(where, "text", part.text)

    def _note(self, where: str, part: Any) -> Iterator[Problem]:
        yield from self._inside(where, "text", part.text)


# -- texts


def _line(where: str, text: str, longest: int) -> Iterator[Problem]:
    """What is wrong with a text that has to be one line."""
    if "\n" in text or "\r" in text or "\t" in text:
        yield Problem(where, "is more than one line")
    yield from _said(where, text, longest)


def _said(where: str, text: str, longest: int) -> Iterator[Problem]:
    if len(text) > longest:
        yield Problem(where, f"has {len(text):,} characters, more than {longest:,}")
        return
    if bad := find_controls(text):
        yield Problem(where, f"has the control character {bad[0]!r}")
    if why := cuts_in(text):
        yield Problem(where, why)
    for secret in redact(text).findings:
        yield Problem(where, f"has a secret ({secret.kind})")


def _ids(where: str, ids: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with the ids of sessions and messages, which nobody reads."""
    for each in dict.fromkeys(ids):
        if len(each) > LONGEST_ID or find_controls(each) or find_invisible(each) or cuts_in(each):
            yield Problem(where, f"{_short(each)!r} is no id")


def _not_arguments(arguments: str) -> str:
    """Why a text cannot be the arguments of a call: a JSON object, or plain text for a tool that takes such."""
    if arguments.lstrip()[:1] not in ("{", "["):
        return ""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return "are not JSON"
    return "" if isinstance(value, dict) else "are not a JSON object"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
