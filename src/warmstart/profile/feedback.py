"""What the user writes: corrections, approval, complaints, standing instructions, style and language.

All of it is weak evidence from surface patterns: a label for people to check, never a fact about them. Only the user's
own words count; what an agent added to the message (tags, a plan to implement) and what was pasted (code, quotes) is
removed first. The phrases are in `tables/phrases.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from warmstart.profile.rules import load_table, pattern, word_set
from warmstart.profile.values import Feedback, WritingStyle
from warmstart.sessions.values import Message
from warmstart.text.own_words import SENTENCE, without_pasted

MAX_TERSE = 3  # words
_MAX_TEXT = 4_000  # characters of a message that are read
_MAX_INSTRUCTIONS = 20
_MAX_INSTRUCTION = 200  # characters
_OPENING = 400  # characters at the start of a message that are classified
_SENTENCES = 3  # people correct first and explain afterwards
_MAX_CLOSING = 40  # words: a longer message is a new request
_QUESTION_MARKS = ("?", "？")
_BULLET = re.compile(r"[\s>]*(?:[-*•+]|\d{1,2}[.)])?\s*(?:\*\*)?")

# -- the user's own words


def is_request(message: Message) -> bool:
    """Whether a message is a request by the user, which begins a turn."""
    return message.role == "user" and bool(message.text) and not (message.injected or message.compaction_summary)


def own_words(message: Message) -> str:
    """The user's own words in a message, without pasted text; empty if a machine wrote it."""
    if message.role != "user" or message.injected or message.compaction_summary or message.sidechain:
        return ""
    return _without_pasted(message.text) if message.text else ""


@lru_cache(maxsize=128)
def _without_pasted(text: str) -> str:
    return without_pasted(text, _MAX_TEXT).replace("’", "'")


# -- classifying sentences


@lru_cache(maxsize=512)
def corrects(text: str, *, answers: bool = False) -> bool:
    """Whether a message clearly corrects the agent. If it `answers` a question, a leading `no` does not count."""
    opening = text[:_OPENING].lower()
    sentences = SENTENCE.split(opening, _SENTENCES)[:_SENTENCES]
    if (
        not answers
        and pattern("phrases", "no", "{fillers}").match(opening)
        and not pattern("phrases", "polite_no", r"(?:no|nope|nah)\b[\s,.!-]*").match(opening)
        and not sentences[0].endswith(_QUESTION_MARKS)
    ):
        return True
    if pattern("phrases", "correction_start", "{fillers}").match(opening):
        return True
    if not any(word in opening for word in load_table("phrases")["correction_words"]):
        return False
    start = pattern("phrases", "task_description").sub("", " ".join(sentences))
    return bool(
        pattern("phrases", "correction", r"\b").search(start) or pattern("phrases", "correction_anywhere").search(start)
    )


def agrees(text: str) -> bool:
    """Whether a message opens with thanks, praise or a go-ahead."""
    return bool(pattern("phrases", "agreement", "{fillers}").match(text[:_OPENING].lower()))


def approves(text: str) -> bool:
    """Whether a closing message clearly says that the work is good."""
    opening = text[:_OPENING].lower()
    return (
        bool(pattern("phrases", "approval", "{fillers}").match(opening))
        and not pattern("phrases", "reservation").search(opening)
        and count_words(text) <= _MAX_CLOSING
    )


def complains(text: str) -> bool:
    """Whether a closing message clearly says that the work is not good."""
    opening = text[:_OPENING].lower()
    return (
        bool(pattern("phrases", "complaint").search(opening))
        and "?" not in opening
        and count_words(text) <= _MAX_CLOSING
    )


def standing_instructions(text: str) -> list[str]:
    """The sentences, verbatim, that tell the agent how to work from now on, not what to do next."""
    lower = text.lower()
    if not any(word in lower for word in load_table("phrases")["instruction_words"]):
        return []
    sentences = (
        _BULLET.sub("", sentence, count=1).strip().strip('"').removesuffix("**") for sentence in SENTENCE.split(text)
    )
    return [sentence for sentence in sentences if _is_instruction(sentence)]


def _is_instruction(sentence: str) -> bool:
    lower = sentence.lower()
    starts = pattern("phrases", "instruction", "{lead_in}").match(lower)
    if not 8 <= len(sentence) <= _MAX_INSTRUCTION:
        # In scripts without spaces a few characters are a sentence, and so is `use uv`.
        short = 4 <= len(sentence) < 8 and (not sentence.isascii() or lower.startswith("use "))
        return short and bool(starts)
    if not (starts or pattern("phrases", "instruction_everywhere").search(lower)):
        return False
    return not pattern("phrases", "momentary", flags=re.IGNORECASE).search(sentence)


# -- style over a session


def writing_style(messages: Sequence[Message]) -> WritingStyle:
    """How the user writes in a session."""
    texts: list[str] = []
    feedback: Counter[Feedback] = Counter()
    asked = False
    for message in messages:
        if message.role == "assistant" and message.text and not message.sidechain:
            asked = message.text[-40:].rstrip(" \n*_)").endswith(_QUESTION_MARKS)
        elif text := own_words(message):
            if texts:
                feedback[_feedback(text, answers=asked)] += 1
            texts.append(text)
            asked = False
    if not texts:
        return WritingStyle()
    instructions: dict[str, str] = {}
    for sentence in (sentence for text in texts for sentence in standing_instructions(text)):
        instructions.setdefault(sentence.lower().rstrip(".!"), sentence)
    return WritingStyle(
        messages=len(texts),
        length=float(median(map(count_words, texts))),
        directness=sum(map(_is_direct, texts)) / len(texts),
        language=_detect_language(" ".join(texts)[:_MAX_TEXT]),
        feedback=dict(feedback),
        instructions=tuple(instructions.values())[:_MAX_INSTRUCTIONS],
    )


def _feedback(text: str, *, answers: bool) -> Feedback:
    if corrects(text, answers=answers):
        return "corrective"
    if agrees(text):
        return "approving"
    return "terse" if count_words(text) <= MAX_TERSE else "plain"


def _is_direct(text: str) -> bool:
    """Whether a message says what to do: neither its first sentence nor its end asks or hedges."""
    opening = SENTENCE.split(text[:_OPENING].lower(), maxsplit=1)[0]
    asks = opening.endswith(_QUESTION_MARKS) or text.endswith(_QUESTION_MARKS)
    return not (asks or pattern("phrases", "question", "{greetings}").match(opening))


# -- language, by script and most common words: language detection libraries are too heavy for a hook

_MIN_WORDS = 20  # with fewer words there is no guess
_MIN_SHARE = 0.1  # of the words must be common words of the language
_MIN_LEAD = 1.3  # times as many as for the next language
_FOREIGN = re.compile(r"[\u0370-\u1fff\u3040-\ud7af]")  # letters of any script but the Latin one
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")  # kana, Han, Thai
_MIN_OWN_LETTERS = 0.02  # of the letters


def count_words(text: str) -> int:
    """The number of words in a text; in scripts without spaces, two characters count as a word."""
    spaceless = len(_SPACELESS.findall(text))
    return len(_SPACELESS.sub(" ", text).split()) + (spaceless + 1) // 2


def _detect_language(text: str) -> str:
    """The ISO 639-1 code of the language; empty if the text is too short or no language stands out."""
    if count_words(text) < _MIN_WORDS:
        return ""
    table = load_table("phrases")
    if len(_FOREIGN.findall(text)) >= len(text) / 20:
        letters = sum(map(str.isalpha, text))
        for language, script, own in table["scripts"]:
            in_script, in_own = (len(re.findall(f"[{some}]", text)) for some in (script, own))
            if in_script >= letters / 5 and in_own >= max(1, _MIN_OWN_LETTERS * letters):
                return str(language)
    words = Counter(text.lower().split())
    scores = sorted(
        (sum(words[word] for word in word_set("phrases", "languages", name)), name) for name in table["languages"]
    )
    (second, _), (best, language) = scores[-2:]
    return language if best >= _MIN_SHARE * words.total() and best >= _MIN_LEAD * second else ""
