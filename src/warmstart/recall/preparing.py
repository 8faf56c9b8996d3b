"""How a text is made ready for the index, and a question in the same way.

The index divides text into words at everything that is no letter and no digit, and takes English endings off. Two
things it does not know: that `readConfigFile` is made of words, and that some scripts put no space between theirs. So
the parts of such a name are added behind a text, and a run of such a script becomes its letters and its pairs of
letters.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise

_WORDS = re.compile(r"[A-Za-z0-9]+").findall
_NAME_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_LONGEST_NAME = 40
# Thai, Lao, Tibetan, Burmese, Khmer, Hangul, Japanese and Chinese.
_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003134f"
)
_RUN = re.compile(f"[{_UNSPACED}]+")

# Taken out of a question before endings are taken off: `doing` is one of them, `doe` is not.
_STOPWORDS = """
    a an the and or but if then else of to in on at by for with from into onto about as is are was were be been being am
    do does did done doing have has had having will would shall should can could may might must not no nor so than too
    very just i you he she it we they me him her us them my your his its our their mine yours hers ours theirs this that
    these those there here what which who whom whose when where why how s t d ll re ve m don didn doesn isn aren wasn
    weren hasn haven hadn won wouldn couldn shouldn also any some such own same other each both all few more most only
    again further once during before after above below up down out off over under between through while because until
    tell told say said says ask asked mention mentioned talk talked discuss discussed remember like likes liked prefer
    want wanted first previously earlier later
"""
STOPWORDS = frozenset(_STOPWORDS.split())


def prepared(text: str) -> str:
    """A text as it is indexed."""
    if not text.isascii():
        text = _RUN.sub(_letters_and_pairs, text)
    parts = _name_parts(text)
    return f"{text} {' '.join(parts)}" if parts else text


def asked(text: str) -> str:
    """A question as its words are looked up: of a run that has pairs of letters, the pairs alone."""
    if not text.isascii():
        text = _RUN.sub(_pairs, text)
    parts = _name_parts(text)
    return f"{text} {' '.join(parts)}" if parts else text


def prepared_arguments(arguments: str) -> str:
    """The arguments of a call as they are indexed: JSON writes ends of lines, and sometimes letters, as escapes."""
    if "\\u" in arguments:
        with suppress(ValueError, RecursionError):
            arguments = json.dumps(json.loads(arguments), ensure_ascii=False)
    return prepared(arguments.replace("\\n", " ").replace("\\t", " ").replace("\\r", " "))


def _name_parts(text: str) -> list[str]:
    added: list[str] = []
    for name in set(_WORDS(text)):
        # A pattern that finds such names alone takes three times as long.
        if not (name.islower() or name.isupper() or name.istitle() or name.isdigit()) and len(name) <= _LONGEST_NAME:
            parts = [part for part in _NAME_PART.findall(name) if len(part) > 1]
            if len(parts) > 1:
                added += parts
    return added


def _letters_and_pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(run)} {' '.join(map(''.join, pairwise(run)))} "


def _pairs(found: re.Match[str]) -> str:
    run = found[0]
    return f" {' '.join(map(''.join, pairwise(run))) or run} "
