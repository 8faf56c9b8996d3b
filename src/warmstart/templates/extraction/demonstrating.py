"""Few calls that show how a sub-task was done: what changed or checked something, and what had to be read for it.

Nothing that failed, did nothing or was seen before is shown, nothing that came from output which speaks to the reader,
and no call that is not known to be safe.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from warmstart.profile.shell import reads
from warmstart.profile.tools import SHELLS, command_in, fields_of, path_in
from warmstart.profile.values import Role
from warmstart.templates.extraction.listed import listed
from warmstart.templates.extraction.placeholders import Placeholders
from warmstart.templates.extraction.results import bare, shortened
from warmstart.templates.extraction.stretches import Stretch, is_task
from warmstart.templates.extraction.undoing import paths_of
from warmstart.templates.extraction.walk import Taken
from warmstart.templates.extraction.worked import JUDGED, may_show, worked
from warmstart.templates.trust import suspicious, without_reminder
from warmstart.templates.values import Act, Demonstration, Task
from warmstart.text.shell import parse_commands
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_invisible

ACTS = 8  # in a demonstration
TASK = 160  # characters
UNSAID = "Carry out the plan."  # what was asked for in words that are not the person's own
_LOOKED_AT = 20_000  # characters of a result in which an error is looked for
_LONG = 800  # characters of arguments of which little is shown
_END = 500  # characters of both ends of a result that are judged besides what is shown of it

_WORTH: dict[Role, float] = {"edit": 5, "check": 6, "run": 3, "read": 2, "look": 0.5, "note": 0}
_AGAIN: dict[Role, float] = {"check": 1.5, "read": 0.5, "run": 0.3}  # what a call is worth less after one like it
_LEAST, _FEW = 1.0, 3  # what a call has to be worth where there are a few better ones
_NEEDED = 4.0  # a read of what was changed afterwards
_ERROR = re.compile(
    r"^\s*(?:Traceback \(most recent call last\)|(?:[\w.]+\.)?\w*(?:Error|Exception)\b(?: \[[^\]]*\])?: "
    r"|error(?:\[\w+\])?: |fatal: |panic: |(?:\S{1,20} )?ERROR\b|FAILED\b|npm ERR!|.{0,80}: command not found"
    r"|.{0,80}No such file or directory)",
    re.MULTILINE,
)
_OF_ERRORS = ("rror", "xception", "raceback", "fatal", "panic", "ERR", "FAILED", "not found", "No such")
_EXIT = re.compile(
    r"\bexit(?:ed)?(?: with)?(?: (?:code|status))?[:=]? (?:code |status )?-?[1-9]\d{0,4}\b", re.IGNORECASE
)
_NOTHING = re.compile(
    r"\s*(?:nothing to commit|no changes? (?:made|to (?:make|apply|commit))|no files? (?:were )?(?:found|changed)"
    r"|no matches found|already up[ -]to[ -]date|file has not changed|no results?\b|\(no (?:output|content)\)\s*$)",
    re.IGNORECASE,
)
# What was still running says nothing yet.
_RUNNING = re.compile(r"running with session ID|running in (?:the )?background|started in background", re.IGNORECASE)
# Arguments that change nothing about what a call does.
_REMARKS = listed(
    "description justification timeout timeout_ms yield_time_ms max_output_tokens initial_wait explanation"
)
_GREETING = re.compile(
    r"(?:(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there| everyone| team)?[\s,.!:-]+)+", re.IGNORECASE
)

_LOGGED = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE)\b[\]:]?\s|>)"
)
_QUOTED = re.compile(r"[\"“«„][^\"“”«»„\n]{12,400}[\"”»]|`[^`\n]{12,400}`")


class _Choice(NamedTuple):
    step: Taken
    role: Role
    worth: float


def task_of(stretch: Stretch, places: Placeholders) -> Task | None:
    """What was asked for, in one line of the person's own words."""
    request = next((request for request in stretch.requests if is_task(request.text)), None)
    if request is None:
        return None
    hidden = set(find_invisible(request.text))
    said = "".join(letter for letter in request.text if letter not in hidden) if hidden else request.text
    said = _own(_GREETING.sub("", said.strip(), count=1) or said)
    return Task(one_line(places.text(said), TASK), request.source) if is_task(said) else None


def _own(text: str) -> str:
    """What the person said, without the lines of a log, and without words of others that give orders."""
    lines = [line for line in text.splitlines() if not _LOGGED.match(line)]
    return _QUOTED.sub(lambda found: found[0] if suspicious(found[0]) is None else "…", "\n".join(lines)).strip()


class Demonstrator:
    """Makes demonstrations of stretches of sessions in `project`."""

    def __init__(self, places: Placeholders, *, project: str = "") -> None:
        self._places = places
        self._project = project

    def demonstrations(self, stretches: Sequence[Stretch], most: int) -> tuple[Demonstration, ...]:
        """The best of the stretches, best first; a call that one of them shows is not shown by the next."""
        chosen = [(stretch, _choices(stretch.steps)) for stretch in stretches]
        ranked = sorted((pair for pair in chosen if pair[1]), key=lambda pair: (-_worth(*pair), pair[0].steps[0].place))
        shown: list[Demonstration] = []
        seen: set[str] = set()
        for stretch, choices in ranked:
            if len(shown) >= most:
                break
            acts = self._acts(choices, seen)
            # A sub-task of which others showed all but one step already shows nothing new.
            if acts and (len(acts) > 1 or len(choices) < 3):
                shown.append(self._made(stretch, acts))
                seen |= acts.keys()
        return tuple(shown)

    def _made(self, stretch: Stretch, acts: Mapping[str, tuple[Taken, Act]]) -> Demonstration:
        task = task_of(stretch, self._places)
        in_order = sorted(acts.values(), key=lambda pair: pair[0].place)
        sources = [*(request.source for request in stretch.requests[:1]), *(step.source for step, _ in in_order)]
        return Demonstration(
            task=task.text if task else UNSAID,
            acts=tuple(act for _, act in in_order),
            evidence=self._places.text(stretch.evidence) if suspicious(stretch.evidence) is None else "a check passed",
            sources=tuple(dict.fromkeys(sources)),
        )

    def _acts(self, choices: Sequence[_Choice], seen: Collection[str]) -> dict[str, tuple[Taken, Act]]:
        """The best calls that can be shown and were not yet, by what they do."""
        left = sorted(choices, key=lambda choice: (-choice.worth, choice.step.place))
        acts: dict[str, tuple[Taken, Act]] = {}
        while left and len(acts) < ACTS:
            best, left = left[: ACTS - len(acts)], left[ACTS - len(acts) :]
            for step, role, _ in sorted(best, key=lambda choice: choice.step.place):  # placeholders count in this order
                act = self._act(step, role)
                if act is not None and (signature := _signature(act)) not in seen:
                    acts.setdefault(signature, (step, act))
        return acts

    def _act(self, step: Taken, role: Role) -> Act | None:
        """The call as it is shown; `None` where it cannot be shown without showing too much."""
        if not may_show(step.call.name, step.call.arguments, self._project):
            return None
        arguments = self._places.arguments(step.call.name, step.call.arguments)
        if not arguments or '"{{command}}"' in arguments:
            return None
        if len(step.call.arguments) > JUDGED and suspicious(arguments) is not None:
            return None
        result = shortened(step.text, self._places, numbered=role in ("read", "change"))
        if (
            _tells_error(result)
            or _EXIT.search(result)
            or suspicious(_judged(without_reminder(step.text), result)) is not None
        ):
            return None
        return Act(step.call.name, arguments, result)


def _tells_error(text: str) -> bool:
    # Most results have none of these words, and without one there is no error.
    return any(word in text for word in _OF_ERRORS) and _ERROR.search(text) is not None


def _judged(text: str, shown: str) -> str:
    """A short result as it was; of a long one both ends, and what is shown of it."""
    return text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}\n{shown}"


def _choices(steps: Sequence[Taken]) -> list[_Choice]:
    """The calls of a stretch that are worth showing, in their order."""
    good = [step for step in steps if _is_good(step)]
    changed = _changed(good)
    choices: list[_Choice] = []
    often: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for step in reversed(good):  # of the same calls the last is the one that counted
        role = step.role
        if (signature := _raw_signature(step)) in seen:
            continue
        seen.add(signature)
        about = (role, (path_in(step.call.arguments) or step.call.name) if role != "check" else "")
        often[about] = often.get(about, 0) + 1
        worth = _NEEDED if role == "read" and _is_needed(step, changed) else _WORTH[role]
        if len(step.call.arguments) > _LONG:
            worth -= 0.5  # most of it would be left out
        choices.append(_Choice(step, role, worth - _AGAIN.get(role, 0.4) * (often[about] - 1)))
    telling = [choice for choice in choices if choice.role != "look"] or choices
    better = [choice for choice in telling if choice.worth >= _LEAST]
    return (better if len(better) >= _FEW else telling)[::-1]


def _is_good(step: Taken) -> bool:
    role = step.role
    if role == "note" or not worked(step) or _is_idle(step, role):
        return False
    return role in ("read", "look") or not _tells_error(step.text[:_LOOKED_AT])


def _worth(stretch: Stretch, choices: Sequence[_Choice]) -> float:
    roles = {choice.role for choice in choices}
    return stretch.strength * 2 + 2 * ("edit" in roles) + 2 * ("check" in roles) + 0.5 * min(len(choices), 6)


def _is_idle(step: Taken, role: Role) -> bool:
    """Whether a call did nothing: an edit that leaves all as it was, a search that found nothing."""
    if role in ("read", "look") and not step.text.strip():
        return True
    # The exit code is the last program's: a test whose output was filtered away said nothing.
    if role == "check" and "|" in command_in(step.call.arguments) and not bare(step.text).strip():
        return True
    if _NOTHING.match(step.text[:200]) or _RUNNING.search(step.text[:400]):
        return True
    fields = fields_of(step.call.arguments)
    pairs = (("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"))
    return any(old in fields and fields.get(old) == fields.get(new) for old, new in pairs)


def _changed(steps: Sequence[Taken]) -> dict[str, int]:
    """The files that were changed, each with the place of the last change."""
    return {path: step.place for step in steps if step.role == "edit" for path in paths_of(step)}


def _is_needed(step: Taken, changed: Mapping[str, int]) -> bool:
    return any(changed.get(path, -1) > step.place for path in _read(step))


def _read(step: Taken) -> Iterator[str]:
    if path := path_in(step.call.arguments):
        yield path
    elif step.call.name in SHELLS:
        for command in parse_commands(command_in(step.call.arguments)):
            yield from reads(command)


def _raw_signature(step: Taken) -> str:
    fields = fields_of(step.call.arguments)
    if _REMARKS.isdisjoint(fields):
        return f"{step.call.name}\0{step.call.arguments}"
    telling = {name: part for name, part in fields.items() if name not in _REMARKS}
    return f"{step.call.name}\0{json.dumps(telling, sort_keys=True)}"


def _signature(act: Act) -> str:
    """What a call does, whatever it says about itself, so that the same one is shown once."""
    fields = {name: part for name, part in fields_of(act.arguments).items() if name not in _REMARKS}
    plain = re.sub(r"_\d+(?=\}\})", "", json.dumps(fields, sort_keys=True))
    return f"{act.tool}\0{' '.join(plain.split())}"
