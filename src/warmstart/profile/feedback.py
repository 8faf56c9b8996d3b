"""What a person writes: corrections, approval, complaints, standing instructions, style and language.

All of it is weak evidence, read from surface words: a label for people to check, never a fact about them. Only the
person's own words count; what an agent put into the message (tags, a plan to implement) and what was pasted (code,
quotes) is removed first. Every step is linear in the length of the text, because a pasted message may hold half a
megabyte. The phrases are in `tables/phrases.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from statistics import median
from typing import NamedTuple

from warmstart.profile.rules import fill, load_table
from warmstart.profile.values import Feedback, WritingStyle
from warmstart.sessions.values import Message

MAX_INSTRUCTIONS = 20
MAX_TERSE = 3  # words
_MAX_TEXT = 4_000  # characters of a message that are read
_MAX_INSTRUCTION = 200  # characters
_OPENING = 400  # characters in which a message shows what it does
SENTENCES = 3  # a person corrects first and explains afterwards
_MAX_CLOSING = 40  # words: a longer message is a new request
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_BULLET = re.compile(r"[\s>]*(?:[-*•+]|\d{1,2}[.)])?\s*(?:\*\*)?")

# -- the person's own words

_TAG = re.compile(r"<([A-Za-z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_MAX_UNCLOSED = 40  # tags that are never closed, before the rest is taken as text
_PLAN = "Implement the following plan:"  # Claude Code writes the accepted plan as the person's message
_QUOTED = re.compile(r"^[ \t]*>[^\n]*\n?", re.MULTILINE)


def is_request(message: Message) -> bool:
    """Whether a message is a request of the person, with which a turn begins."""
    return message.role == "user" and bool(message.text) and not (message.injected or message.compaction_summary)


def own_words(message: Message) -> str:
    """The person's own words in a message: empty if a machine wrote it, and without what was pasted."""
    if message.role != "user" or message.injected or message.compaction_summary or message.sidechain:
        return ""
    return _without_pasted(message.text) if message.text else ""


@lru_cache(maxsize=128)
def _without_pasted(text: str) -> str:
    if text.startswith(_PLAN):
        return _PLAN
    for fence in ("```", '"""'):
        if fence in text:
            text = " ".join(text.split(fence)[::2])
    if "<" in text:
        text = _without_tags(text)
    text = text[: 4 * _MAX_TEXT]
    if ">" in text:
        text = _QUOTED.sub("", text)
    return text.strip()[:_MAX_TEXT].replace("’", "'")


def _without_tags(text: str) -> str:
    """The text without `<tag>…</tag>` blocks; the end of a tag that is never closed is searched once only."""
    parts: list[str] = []
    unclosed: set[str] = set()
    place = 0
    for tag in _TAG.finditer(text):
        if tag.start() < place or tag[1] in unclosed:
            continue
        closing = f"</{tag[1]}>"
        end = text.find(closing, tag.end())
        if end < 0:
            unclosed.add(tag[1])
            if len(unclosed) > _MAX_UNCLOSED:
                break
            continue
        parts.append(text[place : tag.start()])
        place = end + len(closing)
    return " ".join((*parts, text[place:])) if place else text


# -- what a sentence does


@cache
def _phrases(name: str, before: str = "", after: str = "", flags: int = 0) -> re.Pattern[str]:
    """The alternatives of a list as one pattern between `before` and `after`."""
    table = load_table("phrases")
    rows = table[name]
    pattern = rows if isinstance(rows, str) else "|".join(rows)
    return re.compile(fill(f"{before}(?:{pattern}){after}", table["fragments"]), flags)


@lru_cache(maxsize=512)
def corrects(text: str, *, answers: bool = False) -> bool:
    """Whether a message clearly corrects the agent. A `no` that answers a question corrects only if the rest does."""
    opening = text[:_OPENING].lower()
    sentences = SENTENCE.split(opening, SENTENCES)[:SENTENCES]
    if (
        not answers
        and _phrases("no", "{fillers}").match(opening)
        and not _phrases("polite_no", r"(?:no|nope|nah)\b[\s,.!-]*").match(opening)
        and not sentences[0].endswith(("?", "？"))
    ):
        return True
    if _phrases("correction_start", "{fillers}").match(opening):
        return True
    if not any(word in opening for word in load_table("phrases")["correction_words"]):
        return False
    start = _phrases("task_description").sub("", " ".join(sentences))
    return bool(_phrases("correction", r"\b").search(start) or _phrases("correction_anywhere").search(start))


def agrees(text: str) -> bool:
    """Whether a message opens with thanks, praise or a go-ahead."""
    return bool(_phrases("agreement", "{fillers}").match(text[:_OPENING].lower()))


def approves(text: str) -> bool:
    """Whether a closing message clearly says that the work is good."""
    opening = text[:_OPENING].lower()
    return (
        bool(_phrases("approval", "{fillers}").match(opening))
        and not _phrases("reservation").search(opening)
        and count_words(text) <= _MAX_CLOSING
    )


def complains(text: str) -> bool:
    """Whether a closing message clearly says that the work is not good."""
    opening = text[:_OPENING].lower()
    return bool(_phrases("complaint").search(opening)) and "?" not in opening and count_words(text) <= _MAX_CLOSING


def is_direct(text: str) -> bool:
    """Whether a message states what to do: neither its opening nor its end asks or hedges."""
    opening = SENTENCE.split(text[:_OPENING].lower(), maxsplit=1)[0]
    ends = ("?", "？")
    return not (opening.endswith(ends) or text.endswith(ends) or _phrases("question", "{greetings}").match(opening))


def standing_instructions(text: str) -> list[str]:
    """The sentences that tell the agent how to work from now on, not what to do at once; word for word."""
    lower = text.lower()
    if not any(word in lower for word in load_table("phrases")["instruction_words"]):
        return []
    sentences = (
        _BULLET.sub("", sentence, count=1).strip().strip('"').removesuffix("**") for sentence in SENTENCE.split(text)
    )
    return [sentence for sentence in sentences if _is_instruction(sentence)]


def _is_instruction(sentence: str) -> bool:
    lower = sentence.lower()
    starts = _phrases("instruction", "{lead_in}").match(lower)
    if not 8 <= len(sentence) <= _MAX_INSTRUCTION:
        # A sentence in a script without spaces says as much in fewer characters, and so does `use uv`.
        short = 4 <= len(sentence) < 8 and (not sentence.isascii() or lower.startswith("use "))
        return short and bool(starts)
    if not (starts or _phrases("instruction_everywhere").search(lower)):
        return False
    return not _phrases("momentary", flags=re.IGNORECASE).search(sentence)


# -- style over a session


class _Said(NamedTuple):
    """A message of the person, and whether it answers a question."""

    text: str
    answers: bool


def _messages(messages: Sequence[Message]) -> Iterator[_Said]:
    asked = False
    for message in messages:
        if message.role == "tool":
            continue
        if message.role == "assistant":
            if message.text and not message.sidechain:
                asked = message.text[-40:].rstrip(" \n*_)").endswith(("?", "？"))
        elif text := own_words(message):
            yield _Said(text, asked)
            asked = False


def count_corrections(messages: Sequence[Message]) -> int:
    """How many messages after the first correct the agent; rather too few than too many."""
    return sum(corrects(text, answers=answers) for text, answers in list(_messages(messages))[1:])


def writing_style(messages: Sequence[Message]) -> WritingStyle:
    """How the person writes in a session."""
    said = list(_messages(messages))
    if not said:
        return WritingStyle()
    texts = [text for text, _ in said]
    return WritingStyle(
        messages=len(said),
        length=float(median(map(count_words, texts))),
        directness=sum(map(is_direct, texts)) / len(texts),
        language=detect_language(" ".join(texts)),
        feedback=dict(Counter(map(_feedback, said[1:]))),
        instructions=_instructions(texts),
    )


def _feedback(said: _Said) -> Feedback:
    if corrects(said.text, answers=said.answers):
        return "corrective"
    if agrees(said.text):
        return "approving"
    return "terse" if count_words(said.text) <= MAX_TERSE else "plain"


def _instructions(texts: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in texts:
        for sentence in standing_instructions(text):
            found.setdefault(sentence.lower().rstrip(".!"), sentence)
    return tuple(found.values())[:MAX_INSTRUCTIONS]


# -- language: by script and by the most common words. No library of the field is light enough for a hook.

MIN_WORDS = 20  # with fewer there is no guess
_MIN_SHARE = 0.1  # of the words must be common words of the language
_MIN_LEAD = 1.3  # times as many as of the next language
_FOREIGN = re.compile(r"[\u0370-\u1fff\u3040-\ud7af]")  # letters of any script but the Latin one
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")  # kana, Han, Thai
# The first script with a fifth of all letters decides; a neighbour in the same script is recognised by letters that the
# other language does not have: Japanese by kana, Ukrainian and Persian by a few letters of their own.
_SCRIPTS: tuple[tuple[str, str, str, str], ...] = (
    ("ko", "\uac00-\ud7af", "", ""),
    ("zh", "\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff", "ja", "\u3040-\u30ff"),
    ("ru", "\u0400-\u04ff", "uk", "іїєґІЇЄҐ"),
    ("ar", "\u0600-\u06ff", "fa", "پچژگ"),
    ("hi", "\u0900-\u097f", "", ""),
    ("he", "\u0590-\u05ff", "", ""),
    ("el", "\u0370-\u03ff", "", ""),
    ("th", "\u0e00-\u0e7f", "", ""),
)
_MIN_NEIGHBOUR = 0.02  # of the letters


def count_words(text: str) -> int:
    """How many words a text has; where a script puts no spaces between words, two characters count as one."""
    spaceless = len(_SPACELESS.findall(text)) if not text.isascii() else 0
    if not spaceless:
        return len(text.split())
    return len(_SPACELESS.sub(" ", text).split()) + (spaceless + 1) // 2


def detect_language(text: str) -> str:
    """The ISO 639-1 code of the language, empty if the text is too short or no language stands out."""
    text = text[:_MAX_TEXT]
    if count_words(text) < MIN_WORDS:
        return ""
    return _language_by_script(text) or _language_by_words(text)


def _language_by_script(text: str) -> str:
    if text.isascii() or len(_FOREIGN.findall(text)) < len(text) / 20:
        return ""
    letters = sum(map(str.isalpha, text))
    for language, script, neighbour, own in _SCRIPTS:
        if len(re.findall(f"[{script}]", text)) >= letters / 5:
            others = len(re.findall(f"[{own}]", text)) if own else 0
            return neighbour if others >= max(1, _MIN_NEIGHBOUR * letters) else language
    return ""


@cache
def _common_words() -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in load_table("phrases")["languages"].items()}


def _language_by_words(text: str) -> str:
    words = Counter(text.lower().split())
    known = words.keys()
    scores = sorted((sum(words[word] for word in common & known), name) for name, common in _common_words().items())
    (second, _), (best, language) = scores[-2:]
    return language if best >= _MIN_SHARE * words.total() and best >= _MIN_LEAD * second else ""
