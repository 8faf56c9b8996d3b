"""What a reader needs of a call's result: the first and the last lines, and how many were left out."""

from __future__ import annotations

import json
import re

import msgspec

from warmstart.templates.extraction.placeholders import Placeholders
from warmstart.text.truncate import count_left_out, left_out, truncate

MOST = 300  # characters of a result
NOTHING = "(no output)"
_READ = 200_000  # characters of JSON that are read
_LINE = 140  # characters of a line
_SHORT = 86  # characters of a line where not all lines fit
_LINE_HEAD = 1_000  # characters in which lines show that they are numbered
_RAW_LINE = 2_000  # characters of a line that are looked at
_LIST = 2  # items of a list that are shown; deep inside only one
_KEYS = 14  # keys of an object that are shown; deep inside half of them
_HEAD, _TAIL = 3, 3  # lines

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
# How agents frame the output of a command.
_FRAME = re.compile(
    r"(?:Chunk ID: .*\n|Wall time: .*\n|Original token count: .*\n|Total output lines: .*\n"
    r"|(?:Process exited with code|Exit code:) 0\n|Output:\n)+"
)
_FRAME_END = re.compile(r"\n?<shellId: \S+ completed with exit code 0>\s*\Z|\n?<exited with exit code 0>\s*\Z")
_ASIDE = re.compile(r"^Shell cwd was reset to .*\n?|^<(?:/)?(?:output|stdout|stderr|result)>\n?", re.MULTILINE)
_SNIPPET = re.compile(r" ?Here's the result of running `cat -n`.*", re.DOTALL)
_LINE_NUMBER = re.compile(r"^ *\d+(?:→|\t|\.(?: |$))", re.MULTILINE)
_RULE = re.compile(r"[\s=\-_*#~.│─]*")


def shortened(text: str, places: Placeholders, *, numbered: bool = False) -> str:
    """The result as a demonstration shows it; `numbered` says that its lines may carry their numbers."""
    text = bare(text)
    data = _decoded(text)
    if data is not None:
        shown = json.dumps(places.data(_pruned(data, 0)), ensure_ascii=False)
        return truncate(shown, MOST)
    if numbered and all(map(_LINE_NUMBER.match, text[:_LINE_HEAD].splitlines()[:3])):
        text = _LINE_NUMBER.sub("", text[:_READ])
    return _lines(text, places) or NOTHING


def bare(text: str) -> str:
    """The output alone, without colours and without how the agent frames it."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text[:_READ])
    if "<system-reminder>" in text:
        text = _REMINDER.sub("", text)
    if framed := _FRAME.match(text):
        text = text[framed.end() :]
    if text.endswith((">", ">\n")):
        text = _FRAME_END.sub("", text)
    if "Here's the result" in text[:600]:
        text = _SNIPPET.sub("", text)
    return _ASIDE.sub("", text) if "Shell cwd" in text or text.startswith("<") else text


def _decoded(text: str) -> object:
    if text[:1] not in ("{", "[") or len(text) > _READ:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _pruned(value: object, depth: int) -> object:
    """The data with the first items of every list, and how many more there were."""
    if depth > 6:
        return "…"
    if isinstance(value, dict):
        shown = list(value.items())[: _KEYS if depth < 2 else _KEYS // 2]
        return {name: _pruned(part, depth + 1) for name, part in shown}
    if isinstance(value, list):
        most = _LIST if depth < 2 else 1
        some = [_pruned(part, depth + 1) for part in value[:most]]
        return [*some, f"… {len(value) - most} more"] if len(value) > most else some
    return value


def _lines(text: str, places: Placeholders) -> str:
    lines = [line for line in text.splitlines() if not _RULE.fullmatch(line[:400])]
    if len(lines) > _HEAD + _TAIL + 1:
        lines = [*lines[:_HEAD], left_out(len(lines) - _HEAD - _TAIL), *lines[-_TAIL:]]
    shown = [truncate(places.text(_whole(line)), _LINE).rstrip() for line in lines]
    return _fitted(shown)


def _whole(line: str) -> str:
    """The beginning of a very long line, up to the end of a word."""
    if len(line) <= _RAW_LINE:
        return line
    end = line.rfind(" ", 0, _RAW_LINE)
    return f"{line[: max(0, end)]} …"


def _fitted(lines: list[str]) -> str:
    """As many of the lines as fit, from both ends: the last ones say what came of it."""
    if sum(map(len, lines)) + len(lines) <= MOST or len(lines) < 4:
        return truncate("\n".join(lines), MOST)
    first, last = lines[:1], lines[-2:]
    count = sum(count_left_out(line) or 1 for line in lines[1:-2])
    return "\n".join(
        [*(truncate(line, _SHORT) for line in first), left_out(count), *(truncate(line, _SHORT) for line in last)]
    )
