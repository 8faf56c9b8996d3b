"""Whether a message is worth a look at earlier sessions. Most are not, and silence costs nothing.

`bench/preflight.py` measures these rules on messages that were labelled by hand.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from typing import Literal

    Verdict = Literal["fast path", "points to earlier work", "first message", "second message", "later message"]

_MAX_READ = 4_000  # characters of a message
_MAX_ORDER = 12  # words of a direct command

_APPROVAL = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|yup|y|sure|please|go|ahead|do|it|that|this|proceed|continue|thanks?|thank|you|great"
    r"|perfect|good|nice|cool|lgtm|looks|sounds|right|correct|fine|agreed|approved?|keep|going|no|nope|now|then|let's"
    r"|lets|just|so|and|both|\d{1,2}|[a-d]|option|its|it's|works|awesome|wow|hm+|ah|oh|retry|implement|first|second"
    r"|one)[\s,.!:)]*)+",
    re.IGNORECASE,
)
# A direct command: it says all there is to know, and the next step is a tool call.
_ORDER = re.compile(
    r"(?:(?:ok(?:ay)?|yes|great|now|then|and|please|can you|could you|let's|lets|also|just)[\s,.!]+)*"
    r"(?:commit|push|pull|merge(?! conflict)|rebase|stash|checkout|revert|undo|run|rerun|re-run|start|stop|restart"
    r"|install|deploy)\b[^?]*",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\b(?:git (?:status|log|diff)|status of (?:ci|the build)|is (?:ci|the build) (?:green|passing|red)|what time)\b",
    re.IGNORECASE,
)
# Another session is meant, wherever this is said.
_EARLIER = re.compile(
    r"\b(?:last (?:time|session|week|month|night)|yesterday|the other day|(?:previous|earlier|past) (?:session|chat)"
    r"|(?:days?|weeks?|months?) ago|until recently|(?:we|i|you|team) (?:recently|previously|explicitly|originally)"
    r"|recently (?:we|did|added|changed|removed)|(?:did|have|had)n't we|i thought we|remember (?:when|how|that)"
    r"|do you remember|as we did|like we did|(?:we|you|i) used to|we (?:decided|agreed|settled)"
    r"|where (?:we|i|you) (?:left off|stopped)|was there before|how did we (?:miss|do|fix|solve)"
    r"|when was (?:the|this|it) \w+"
    r"|we don't have \S+ any ?more|(?:our|the) (?:latest|last|recent) changes (?:to|that))\b",
    re.IGNORECASE,
)
# Said in the first message, these mean work of an earlier session; later they mean this one.
_PRODUCT = re.compile(
    r"\b(?:(?:changes?|updates?|commits?|outstanding|work|code|docs?)(?: \w+){0,3} (?:in|on|of) (?:this|the|my|our)"
    r"(?: local)? branch|this branch represents|(?:pr|review|bugbot|copilot|open) (?:comments?|feedback)"
    r"|got (?:this|some) feedback|feedback (?:on|for|to address)|(?:check|review|look)\b.{0,60}\bagain"
    r"|the (?:last|latest) (?:commit|change)|changelog|the other (?:bit|part|half)"
    r"|continue (?:where|with|the|on)|so far)\b",
    re.IGNORECASE,
)


def classify(message: str, number: int) -> Verdict:
    """What kind of message this is; `number` counts the messages of the session from 0."""
    text = message[:_MAX_READ].strip()
    words = text.split()
    if points_to_earlier_work(text, number):
        return "points to earlier work"
    is_short = len(words) <= _MAX_ORDER
    if not words or (is_short and (_APPROVAL.fullmatch(text) or _ORDER.fullmatch(text) or _NOW.search(text))):
        return "fast path"
    return ("first message", "second message")[number] if number < 2 else "later message"


def points_to_earlier_work(text: str, number: int) -> bool:
    """Whether a message refers to what only earlier sessions know."""
    return bool(_EARLIER.search(text) or (number == 0 and _PRODUCT.search(text[:600])))
