"""Call examples: how the calls of a session were made, as demonstrations for the next one.

Every kind of tool counts: shells, files, searches, patches, the web, MCP, an application's own functions. What a call
shows of its arguments is decided in `arguments`; of its result only the shape is shown. An error that was recovered
from is one example with two calls: the failing form and the one that worked. Tools that only plan or hold the state of
the session are never examples, and calls that only look around are taken only if there is nothing better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache

from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import count_words
from warmstart.profile.output import unwrap
from warmstart.profile.rules import load_table
from warmstart.profile.tools import known_tools
from warmstart.profile.values import AnnotatedStep
from warmstart.templates.arguments import PLACEHOLDER, Shown, Values, decode, family_of
from warmstart.templates.commands import is_plain_path, is_project_file
from warmstart.templates.item import MAX_EXAMPLES, NO_REQUEST, Item, Refused, ToolCallExample
from warmstart.templates.rules import subject_of
from warmstart.templates.safety import is_verb, is_vocabulary
from warmstart.templates.session_view import PLAN, SessionView
from warmstart.text.shell import SILENT, Command, parse_commands
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection

_MIN_EXAMPLES = 3  # with fewer, calls that only look around or show no value are taken too
_MAX_TEXT = 160  # characters of a request
_MAX_GREETING = 3  # words
_MAX_ERROR = 80  # characters
_MAX_COMPARED = 400  # characters of a command
_MIN_LIKENESS = 0.6  # of a command that failed to the one that worked instead
_UNKNOWN_ERROR = "it failed"

# What an example teaches, in the order in which examples are chosen.
RECOVERY = "recovery"  # an error and what worked instead
ACT = "act"  # a call that runs, sends or fetches something
EDIT = "edit"  # a change to a file
FIND = "find"  # a search, or a look with telling options
LOOK = "look"  # a look around: `ls`, reading one file
FORM = "form"  # the names of the arguments only
AGAIN = "again"  # a call like one before
_PURPOSES = (RECOVERY, ACT, EDIT, FIND, LOOK, FORM, AGAIN)

_MCP_TOOL = re.compile(r"mcp__[\w-]+?__([a-z]+)(?:[A-Z][a-z]+){0,3}(?:[_-][a-z]+){0,4}")
_APP_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+){0,5}")
_PATCHED = re.compile(r"File: ([^\n\\]+)")
_QUOTED = re.compile(  # up to the end of the text if the quotation is not closed
    "|".join(rf"{start}[^{ends}\n]{{12,400}}(?:[{ends}]|$)" for start, ends in ('""', "“”", "«»", ("„", "“”"), "``"))
)
_PASSED = re.compile(r"\b(\d+) (?:tests? )?passed\b")
_MODULE = re.compile(r"python[\d.]* -m (?=\w)")
_LOOKS = SILENT.union(
    ("ls", "pwd", "cat", "head", "tail", "less", "more", "nl"),
    ("bat", "which", "wc", "file", "stat", "sed", "tree", "date"),
)
_SEARCHES = frozenset(("grep", "rg", "find", "fd"))
_GIT_LOOKS = frozenset(f"git {name}" for name in ("status", "branch", "remote", "rev-parse"))
_FOLDER_TOOLS = frozenset(("list_directory", "list_dir", "list", "ls", "LS"))
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def extract_examples(view: SessionView) -> Iterator[Item | Refused]:
    """The examples of a session, each once, and the successful calls that give none."""
    values, requests = Values(view), _requests(view)
    items: dict[object, Item] = {}
    repeated: list[Item] = []
    for step in view.steps:
        found = _recovery(step, values, view) if step.recovery else _success(step, values, view, requests)
        if isinstance(found, Refused):
            yield found
        elif found is not None:
            known = items.get(identity(found))
            items[identity(found)] = _again(known, found) if known else found
            if known and len(repeated) < _MIN_EXAMPLES:
                repeated.append(replace(found, tool=AGAIN))
    yield from items.values()
    yield from repeated[: max(0, _MIN_EXAMPLES - len(items))]


def identity(item: Item) -> object:
    """What makes two examples the same: the error, or the call whatever the numbers in it."""
    if item.tool == RECOVERY:
        return item.calls[0].tool_name, item.text.lower(), family_of(command_in(item.calls[0].arguments))
    own = item.sources if item.tool == AGAIN else ()
    calls = []
    for call in item.calls:
        fields = sorted(fields_of(call.arguments).items()) or call.arguments  # clients order them differently
        calls.append((call.tool_name, re.sub(r"_?\d+", "", str(fields))))
    return own, tuple(calls)


def _again(known: Item, item: Item) -> Item:
    return replace(known, count=known.count + 1, worked=known.worked + 1, last_seen=item.last_seen)


def _success(step: AnnotatedStep, values: Values, view: SessionView, requests: dict[int, str]) -> Item | Refused | None:
    """The example of a call that worked."""
    if step.outcome != "ok" or not step.call.name:
        return None
    if why := _refusal(step, view):
        return Refused(step.call.name, step.turn, why)
    values.restart()
    shown = values.show(step)
    if shown is None:
        return Refused(step.call.name, step.turn, "the name of an argument is a value")
    purpose = _purpose(step, view)
    if not shown.has_values and purpose != LOOK:
        purpose = FORM
    call = ToolCallExample(step.call.name, shown.arguments, _result_shape(step), True, step.turn)
    text = requests.get(step.turn) or NO_REQUEST
    return view.item("example", text, step, tool=purpose, calls=(call,), worked=1)


def _recovery(failed: AnnotatedStep, values: Values, view: SessionView) -> Item | None:
    """A failed call and the one that worked."""
    recovery = failed.recovery
    worked = view.step_at(recovery.succeeded) if recovery else None
    if worked is None or _refusal(failed, view):
        return None
    values.restart()
    right = values.show(worked)
    values.restart()
    before = values.show(failed, right=right.arguments) if right else None
    after = values.show(worked)  # again, so that placeholders are numbered in this order
    error = _error(failed, values, view)
    if before is None or after is None or not _is_telling(failed, worked, before, after, error, view):
        return None
    calls = (
        ToolCallExample(failed.call.name, before.arguments, "error", False, failed.turn),
        ToolCallExample(worked.call.name, after.arguments, _result_shape(worked), True, worked.turn),
    )
    sources = (*view.source(failed.message_id), *view.source(worked.message_id))
    return view.item("example", error, failed, worked, tool=RECOVERY, calls=calls, worked=1, sources=sources)


def _is_telling(
    failed: AnnotatedStep, worked: AnnotatedStep, before: Shown, after: Shown, error: str, view: SessionView
) -> bool:
    """Whether a recovery shows what to do instead. A shell's next command may be about something else."""
    if _unnumbered(before.arguments) == _unnumbered(after.arguments):
        has_other_path = path_in(failed.call.arguments) != path_in(worked.call.arguments)
        return (has_other_path or not view.is_host) and error != _UNKNOWN_ERROR
    if failed.call.name not in SHELLS:
        return True
    has_other_options = fields_of(before.arguments).keys() != fields_of(after.arguments).keys()
    old, new = command_in(failed.call.arguments), command_in(worked.call.arguments)
    if PLACEHOLDER.fullmatch(command_in(before.arguments)):
        return False
    common = _families(old) & _families(new)
    if not common or not (after.has_values or has_other_options):
        return False
    if any(family.split()[0] not in _LOOKS | _SEARCHES for family in common):
        return True
    return SequenceMatcher(None, old[:_MAX_COMPARED], new[:_MAX_COMPARED], autojunk=False).ratio() > _MIN_LIKENESS


def _families(text: str) -> set[str]:
    parsed = (" ".join((command.program, *command.words)) for command in parse_commands(text))
    families = (family_of(_MODULE.sub("", command)) for command in parsed)
    return set(filter(None, families))


def _unnumbered(arguments: str) -> str:
    """Arguments without the numbers of placeholders."""
    return re.sub(r"_\d+(?=\}\})", "", arguments)


def _refusal(step: AnnotatedStep, view: SessionView) -> str:
    """Why a call cannot be an example; empty if it can."""
    name = step.call.name
    if step.role == "note":
        return "it plans, or holds the state of the session"
    by_server = _MCP_TOOL.fullmatch(name)
    known = name in known_tools() or (by_server and is_verb(by_server[1]))
    if not known and (view.is_host or not _APP_TOOL.fullmatch(name)):
        return "its name is not one of the agent's tools or of an MCP server"
    if find_injection(re.sub(r"[_.-]+", " ", name)):
        return "its name reads like an order"
    return ""


def _purpose(step: AnnotatedStep, view: SessionView) -> str:
    """What a call that worked teaches."""
    name = step.call.name
    if not view.is_host:
        return FIND if step.role in ("read", "look") else ACT
    if name in SHELLS:
        if step.role not in ("look", "read"):
            return ACT
        commands = parse_commands(command_in(step.call.arguments))
        return LOOK if all(map(_only_looks, commands)) else FIND
    if step.role not in ("look", "read"):
        return EDIT if step.role == "edit" else ACT
    return LOOK if name in _FOLDER_TOOLS or _only_reads(step) else FIND


def _only_looks(command: Command) -> bool:
    program, words = command.program, command.words
    if program == "git":
        options = [word for word in words if word.startswith("--") and "=" in word]
        return family_of(" ".join((program, *words))) in _GIT_LOOKS and not options
    return program in _LOOKS


def _only_reads(step: AnnotatedStep) -> bool:
    """Whether a call reads one file, and nothing else is asked of it."""
    fields = fields_of(step.call.arguments)
    return bool(path_in(step.call.arguments)) and not any(name in fields for name in ("pattern", "query", "regex"))


def _requests(view: SessionView) -> dict[int, str]:
    """The request of each turn on one line, without greeting, quotations and a customer's values.

    A turn whose message says little goes on with the request before it.
    """
    values = Values(view)
    turns = {step.message_id: step.turn for step in view.steps}
    said = {message.native_id: subject_of(message.text) if text == PLAN else text for message, text, _ in view.said}
    requests: dict[int, str] = {}
    request = ""
    for message in view.messages:
        line = one_line(values.hide(_request(said.get(message.native_id, ""))), _MAX_TEXT)
        if line and not find_injection(line):
            request = line
        if message.native_id in turns:
            requests.setdefault(turns[message.native_id], request)
    return requests


def _request(text: str) -> str:
    """The first line of a message if it says more than a greeting, with quotations removed."""
    line = subject_of(text.strip().partition("\n")[0])
    return _QUOTED.sub("…", line) if count_words(line) > _MAX_GREETING and not line.endswith(":") else ""


def _error(failed: AnnotatedStep, values: Values, view: SessionView) -> str:
    """The error in our own words; of a coding agent's tool only if no word of it came from elsewhere."""
    error = one_line(PLACEHOLDER.sub("…", values.hide(failed.signature)), _MAX_ERROR)
    words = re.findall(r"[^\W\d_]+", error.lower())
    is_ours = (not view.is_host and failed.kind != "research") or all(
        word in _error_words() or is_vocabulary(word) for word in words
    )
    return error if error and is_ours and not find_injection(error) else _UNKNOWN_ERROR


@cache
def _error_words() -> frozenset[str]:
    """The words of the table of error signatures."""
    return frozenset(re.findall(r"[a-z]+", str(load_table("signatures")).lower()))


def _result_shape(step: AnnotatedStep) -> str:
    """The shape of a result. Its text is never carried."""
    text = unwrap(step.result.text).text.strip() if step.result else ""
    if not text:
        return "ok, no output"
    if passed := _PASSED.search(text[-4_000:]):
        return f"{passed[1]} passed"
    data = decode(text)
    if isinstance(data, dict):
        return f"ok, an object with {len(data)} field{'s' * (len(data) != 1)}"
    if isinstance(data, list):
        return f"ok, a list of {len(data)}"
    lines = text.count("\n") + 1
    return f"ok, {lines} line{'s' * (lines != 1)}"


# -- choosing


def choose_examples(items: Iterable[Item], limit: int = MAX_EXAMPLES) -> list[Item]:
    """The examples that teach most: recovered errors, then the calls that together show most of what sessions share.

    Calls that only look around are taken only to reach three examples of two tools. In a template of several sessions
    recovered errors leave room for the calls that recur.
    """
    ranked = sorted(items, key=_rank)
    sessions = {source.session for item in ranked for source in item.sources}
    recovered = [item for item in ranked if item.tool == RECOVERY]
    chosen = recovered[: limit if len(sessions) < 2 else limit // 5]
    telling = [item for item in ranked if item.tool in (ACT, EDIT, FIND, FORM) and not _is_form(item)]
    chosen += _cover(telling, chosen, limit - len(chosen))
    for item in [item for item in ranked if item not in chosen]:
        shown = {call.tool_name for one in chosen for call in one.calls}
        is_missing = limit and len(shown) < 2 and item.calls[0].tool_name not in shown
        if len(chosen) < min(_MIN_EXAMPLES, limit) or is_missing:
            chosen = [*chosen[: limit - 1], item]
    return sorted(chosen, key=_rank)


def _rank(item: Item) -> tuple[object, ...]:
    sessions = len({source.session for source in item.sources})
    last = item.last_seen.timestamp() if item.last_seen else 0.0
    return (_PURPOSES.index(item.tool), -sessions, -item.count, -last, item.calls[-1].arguments)


def _is_form(item: Item) -> bool:
    """Whether of a shell command nothing but the program is shown."""
    return item.tool == FORM and item.calls[-1].tool_name in SHELLS


def _cover(items: Sequence[Item], chosen: Sequence[Item], number: int) -> list[Item]:
    """So many items that show most: each in turn the one that adds what most sessions have."""
    shows = {place: _features(item) for place, item in enumerate(items)}
    sessions: dict[object, set[str]] = {}
    for place, item in enumerate(items):
        for feature in shows[place]:
            sessions.setdefault(feature, set()).update(source.session for source in item.sources)
    shown = {feature for item in chosen for feature in _features(item)}
    found: list[Item] = []
    while shows and len(found) < number:
        gains = {place: sum(len(sessions[one]) for one in own - shown) for place, own in shows.items()}
        best = max(gains, key=gains.__getitem__)  # the first, which ranks highest
        if not gains[best]:
            break
        found.append(items[best])
        shown |= shows.pop(best)
    return found


def _features(item: Item) -> frozenset[object]:
    """What an example shows: the tool, the form of the call, and the files and folders that it names.

    The form of a shell call is that of its commands, without the filters at the end of a pipe.
    """
    call = item.calls[-1]
    fields = fields_of(call.arguments)
    forms: list[object] = [tuple(sorted(fields))]
    words = [value for value in fields.values() if isinstance(value, str)]
    if call.tool_name in SHELLS:
        commands = parse_commands(PLACEHOLDER.sub("{{}}", command_in(call.arguments)))
        before = ("", *(command.then for command in commands))
        forms = [_form(command) for command, pipe in zip(commands, before, strict=False) if pipe != "|"]
        words = [word for command in commands for word in command.words]
    elif "*** Begin Patch" in call.arguments:
        words = _PATCHED.findall(call.arguments)
    paths = [word for word in words if is_project_file(word) or ("/" in word and is_plain_path(word))]
    return frozenset((call.tool_name, frozenset(forms), *paths))


def _form(command: Command) -> tuple[str, ...]:
    """The program, subcommand and options of a command."""
    options = sorted(word.partition("=")[0] for word in command.words if word.startswith("-"))
    return (family_of(" ".join((command.program, *command.words))), *options)
