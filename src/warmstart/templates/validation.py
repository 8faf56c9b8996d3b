"""What a template must satisfy before it is stored, shared or shown to an agent.

Every text is checked by `text.untrusted`, whoever wrote it, and must hold no secret. Anything from a tool or a file has
a fixed form: a result is a shape (`ok, 34 lines`), a file is a plain path. The calls of an imported template must be
known to be safe; those of our own sessions were checked at extraction, where it is known what the user typed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from warmstart.errors import InvalidTemplate
from warmstart.profile.calls import SHELLS
from warmstart.redact import redact
from warmstart.templates.commands import is_project_file
from warmstart.templates.item import Item, ToolCallExample
from warmstart.templates.safety import is_plain_mistake, is_safe_call, is_safe_example, is_safe_rule, is_safe_text
from warmstart.templates.template import WarmTemplate
from warmstart.templates.tools import Definitions, argument_problem, schemas_of
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_controls, find_injection

MAX_NAME, MAX_DESCRIPTION, MAX_TAG = 120, 2_000, 40  # characters
MAX_TEXT, MAX_ID = 16_000, 200  # characters of an item or of a call's arguments, and of a session's or message's id
MAX_TAGS, MAX_ITEMS, MAX_CALLS = 20, 200, 50  # per template, per kind, per item
IMPORTED = "imported from "  # prefix of the origin of an imported template

_ID = re.compile(r"(?:warm_\d{8}_\d{6}(?:_\d{1,6})?)?")
_FINGERPRINT = re.compile(r"[0-9a-f]{0,64}")
_TOOL_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}", re.ASCII)
_SHAPE = re.compile(
    r"(?:ok(?:, (?:no output|\d{1,9} lines?|a list of \d{1,9}|an object with \d{1,9} fields?))?|\d{1,9} passed|error)?"
)
_TEXTS = ("instruction", "context", "correction", "decision", "habit", "open")
_NEEDS_CALLS = {"trap": 2, "example": 1}


class Problem(NamedTuple):
    """A problem and where it is."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(template: WarmTemplate, *, tools: Definitions | None = None) -> None:
    """Raise `InvalidTemplate`, with a line per problem, if there are any."""
    if problems_found := problems(template, tools=tools):
        raise InvalidTemplate(f"the template {_short(template.name)!r} is not valid", tuple(map(str, problems_found)))


def problems(template: WarmTemplate, *, tools: Definitions | None = None) -> list[Problem]:
    """All problems of a template, in order. With `tools`, calls must fit their schemas."""
    all_problems = [*_head_problems(template)]
    schemas = schemas_of(tools) if tools is not None else {}
    numbers: Counter[str] = Counter()
    for item in template.seed.items:
        numbers[item.kind] += 1
        where = f"{item.kind} {numbers[item.kind]}"
        if numbers[item.kind] <= MAX_ITEMS:
            all_problems += (Problem(where, what) for what in _item_problems(item, template))
            for call in item.calls[-1:] if item.kind == "trap" else [call for call in item.calls if call.success]:
                if (schema := schemas.get(call.tool_name)) and (what := argument_problem(schema, call.arguments)):
                    all_problems.append(Problem(where, f"the arguments {what}"))
        elif numbers[item.kind] == MAX_ITEMS + 1:
            all_problems.append(Problem(item.kind, f"more than {MAX_ITEMS} items"))
    return list(dict.fromkeys(all_problems))


def without_problems(template: WarmTemplate) -> tuple[Item, ...]:
    """The valid items of a template."""
    return tuple(item for item in template.seed.items if not any(_item_problems(item, template)))


def _head_problems(template: WarmTemplate) -> Iterator[Problem]:
    if not _ID.fullmatch(template.id):
        yield Problem("id", f"{_short(template.id)!r} is not an id; one looks like 'warm_20260310_142530'")
    yield from (Problem("name", what) for what in _line_problems(template.name, MAX_NAME))
    yield from (Problem("description", what) for what in _text_problems(template.description, MAX_DESCRIPTION))
    for name in ("project", "agent", "origin", "described_by"):
        if value := getattr(template, name):
            yield from (Problem(name, what) for what in _line_problems(value, MAX_DESCRIPTION))
    if len(template.tags) > MAX_TAGS:
        yield Problem("tags", f"has {len(template.tags):,}, more than {MAX_TAGS}")
    yield from (Problem("tags", what) for tag in template.tags[:MAX_TAGS] for what in _line_problems(tag, MAX_TAG))
    for tool, mark in template.tools.items():
        if not _is_tool_name(tool):
            yield Problem("tools", f"{_short(tool)!r} is not a valid tool name")
        if not _FINGERPRINT.fullmatch(mark):
            yield Problem("tools", f"{_short(mark)!r} is not a schema fingerprint")
    yield from (Problem("sources", what) for what in _id_problems(template.sources))
    if not template.seed.items:
        yield Problem("items", "there are none")


def _item_problems(item: Item, template: WarmTemplate) -> Iterator[str]:
    yield from _text_problems(item.text, MAX_TEXT)
    if not item.text.strip():
        yield "is empty"
    if item.kind == "trap":
        yield from _line_problems(item.tool, MAX_TEXT)
    elif not re.fullmatch("[a-z_]{0,20}", item.tool):
        yield f"{_short(item.tool)!r} is not a valid purpose"
    naive = any(time and time.tzinfo is None for time in (item.first_seen, item.last_seen))
    if naive or item.count < 1 or min(item.worked, item.failed) < 0:
        yield "has a time without a time zone" if naive else "has an impossible count"
    if not item.sources:
        yield "names no source session"
    yield from _id_problems(part for source in item.sources for part in source)
    for source in item.sources:
        if source.session not in template.sources and not source.is_edit:
            yield f"came from session {_short(source.session)!r}, which is not a source of the template"
    if item.kind == "file" and not is_project_file(item.text):
        yield f"{_short(item.text)!r} is not a path in a project"
    if not _NEEDS_CALLS.get(item.kind, 0) <= len(item.calls) <= MAX_CALLS:
        yield f"has too {'many' if item.calls else 'few'} calls"
    else:
        for call in item.calls:
            yield from _call_problems(call)
    if template.origin.startswith(IMPORTED):
        yield from _foreign_problems(item, template.project)


def _call_problems(call: ToolCallExample) -> Iterator[str]:
    if not _is_tool_name(call.tool_name):
        yield f"{_short(call.tool_name)!r} is not a valid tool name"
    for what in _text_problems(call.arguments, MAX_TEXT):
        yield f"a call {what}"
    if call.tool_name not in SHELLS or call.arguments.startswith("{"):
        try:
            msgspec.json.decode(call.arguments or "{}", type=dict)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            yield "the arguments of a call are not a JSON object"
    if not _SHAPE.fullmatch(call.result):
        yield f"the result {_short(call.result)!r} is not a shape such as 'ok, 34 lines' or '12 passed'"


def _foreign_problems(item: Item, project: str) -> Iterator[str]:
    """The extra rules for an item of an imported template."""
    if not _is_safe(item, project):
        yield "a call is not known to be safe"
    if item.kind == "trap":
        mistake = item.calls[0] if item.calls else ToolCallExample("", "")
        is_named = mistake.arguments.startswith(item.tool) or item.tool == mistake.tool_name
        if not is_safe_text(item.text) or not is_named:
            yield "the mistake is not known to be safe"
    if item.kind in _TEXTS and not is_safe_rule(item.text):
        yield "it names a host or a command that is not known to be safe"


def _is_safe(item: Item, project: str) -> bool:
    if item.kind == "command":
        return is_safe_call(ToolCallExample("shell", item.text), project)
    if item.kind == "example":
        return all(map(is_safe_example, item.calls))
    if item.kind == "trap":
        mistake, *fixes = item.calls
        is_plain = not mistake.arguments or is_plain_mistake(mistake.arguments) or is_safe_call(mistake, project)
        return is_plain and all(is_safe_call(call, project) for call in fixes)
    return all(is_safe_call(call, project) for call in item.calls)


def _line_problems(text: str, limit: int) -> Iterator[str]:
    """The problems of a text that has to be a single line."""
    if not text.strip():
        yield "is empty"
    if "\n" in text or "\r" in text or "\t" in text:
        yield "has more than one line"
    yield from _text_problems(text, limit)


def _text_problems(text: str, limit: int) -> Iterator[str]:
    if len(text) > limit:
        yield f"has {len(text):,} characters, more than {limit:,}"
        return
    if controls := find_controls(text):
        yield f"has the control character {controls[0]!r}"
    if why := find_injection(text):
        yield why
    for secret in redact(text).findings:
        yield f"has a secret ({secret.kind})"


def _is_tool_name(name: str) -> bool:
    words = re.sub(r"[_:./-]+", " ", name)
    return bool(_TOOL_NAME.fullmatch(name)) and not find_injection(words) and words.count(" ") < 12


def _id_problems(ids: Iterable[str]) -> Iterator[str]:
    """The problems of session and message ids, which nobody reads."""
    for each in dict.fromkeys(ids):
        if len(each) > MAX_ID or not each.isprintable() or find_injection(each):
            yield f"{_short(each)!r} is not an id"


def _short(text: str) -> str:
    return one_line(text, 60)
