"""What each turn of a session did: the request, and the files and commands until the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warmstart.profile.feedback import agrees, is_request, own_words
from warmstart.sessions.marks import is_ours
from warmstart.sessions.values import Message
from warmstart.templates.item import Turn
from warmstart.templates.safety import is_known
from warmstart.templates.session_view import SessionView
from warmstart.text.truncate import one_line
from warmstart.text.untrusted import find_injection

_MAX_ASKED = 90  # characters
_MAX_APPROVAL = 3  # words
_MAX_FILES, _MAX_COMMANDS = 12, 4
_PLAN = "Implement the following plan:"  # Claude Code writes the accepted plan as the person's message


def extract_turns(view: SessionView, messages: Sequence[Message], clean: Callable[[str], str]) -> tuple[Turn, ...]:
    """The turns of a session. An approval continues the turn before it."""
    turn_of, requests = {}, {}  # by the number of a request; the first message of each turn
    number = turn = 0
    for message in messages:
        if is_request(message):
            number += 1
            words = own_words(message)
            if not turn or not (is_ours(message) or (len(words.split()) <= _MAX_APPROVAL and agrees(words))):
                turn = number
                requests[turn] = message
            turn_of[number] = turn
    files: dict[tuple[int, str], dict[str, None]] = {}
    for step, role, path in view.files:
        files.setdefault((turn_of.get(step.turn, 0), role), {})[path] = None
    ran: dict[int, dict[str, None]] = {}
    for shell in view.shells:
        for command in shell.commands if shell.passed is not False else ():
            known = command.purpose != "other" and is_known(command.text, view.typed)
            if known and view.is_clean_command(command.text, shell.step.position):
                ran.setdefault(turn_of.get(shell.step.turn, 0), {})[command.text] = None
    found = []
    for turn, message in requests.items():
        changed = list(files.get((turn, "edit"), ()))
        read = [path for path in files.get((turn, "read"), ()) if path not in changed]
        found.append(
            Turn(
                message=message.native_id,
                at=message.timestamp.timestamp() if message.timestamp else None,
                asked=_asked(message, clean),
                changed=tuple(map(clean, changed[:_MAX_FILES])),
                read=tuple(map(clean, read[:_MAX_FILES])),
                ran=tuple(map(clean, list(ran.get(turn, ()))[:_MAX_COMMANDS])),
            )
        )
    return tuple(found)


def _asked(message: Message, clean: Callable[[str], str]) -> str:
    """The request on one line, in the user's own words or the title of their plan."""
    text = own_words(message)
    if text == _PLAN:
        text = message.text.removeprefix(_PLAN).strip(" #\n").partition("\n")[0]
    text = one_line(clean(text), _MAX_ASKED)
    return "" if find_injection(text) else text
