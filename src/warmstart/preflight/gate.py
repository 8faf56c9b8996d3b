"""Whether a message is worth searching earlier sessions for. Most are not, and silence costs nothing.

`bench/preflight.py` evaluates these rules on hand-labelled messages.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from typing import Literal

    Verdict = Literal["fast path", "points to earlier work", "first message", "later message"]

_MAX_READ = 4_000  # characters of a message
_MAX_ORDER = 12  # words of a direct command

# A message made only of these words is an answer. As a regex, they would take forever on a long number.
_ANSWERS = """
    ok okay yes yep yeah yup y sure please go ahead do it that this proceed continue thanks thank you great perfect good
    nice cool lgtm looks sounds right correct fine agreed approve approved keep going no nope now then let's lets just
    so and both a b c d option its it's works awesome wow hm hmm ah oh retry implement first second one done sorry all
    hi hello hey there
"""
_APPROVAL = frozenset(_ANSWERS.split())
_SEPARATORS = re.compile(r"[\s,.!:)(-]+")
# Compiling a pattern takes a large part of a hook's time, so each is compiled on first use, and expects lower case.
# A direct command: it needs no context, and the next step is a tool call. Looked for only in a short message.
_ORDER = (
    r"(?:(?:ok(?:ay)?|yes|yeah|great|now|then|and|please|can (?:you|we)|could (?:you|we)|let's|lets|also|just|sorry)"
    r"[\s,.!]+)*"
    r"(?:(?:commit|push|pull|merge(?! conflict)|rebase|stash|checkout|check out|revert|undo|run|rerun|re-run|start|stop"
    r"|restart|install|deploy|exit|quit|summari[sz]e|(?:switch|update|merge) (?:to|from|with))\b[^?]*"
    r"|(?:delete|remove|drop|rename|move) (?:it|this|that|them|these|those)\b[^?]*"
    r"|(?:create|make|open|write|update|give me)\b[^?]{0,30}\b(?:commit|pr|pull request|branch)\b[^?]*)\??"
    r"|(?s:.*)\b(?:git (?:status|log|diff)|status of (?:ci|the build)|is (?:ci|the build) (?:green|passing|red)"
    r"|what time)\b(?s:.*)"
)
# These refer to another session, wherever they occur.
_EARLIER = (
    r"\b(?:last (?:time|session|week|month|night)|yesterday|the other day|(?:previous|earlier|past) (?:session|chat)"
    r"|(?:days?|weeks?|months?) ago|until recently|(?:we|i|you|team) (?:recently|previously|explicitly|originally)"
    r"|recently (?:we|did|added|changed|removed)|(?:did|have|had)n't we|i thought we|remember (?:when|how|that)"
    r"|do you remember|as we did|like we did|(?:we|you|i) used to|we (?:decided|agreed|settled)"
    r"|where (?:we|i|you) (?:left off|stopped)|was there before|how did we (?:miss|do|fix|solve)"
    r"|when was (?:the|this|it) \w+"
    r"|what was the .{3,80} again|(?:our|the) (?:latest|last|recent) changes (?:to|that))\b"
)
# In the first message these refer to an earlier session; later they refer to the current one.
_PRODUCT = (
    r"\b(?:(?:changes?|updates?|commits?|outstanding|work|code|docs?)(?: \w+){0,3} (?:in|on|of) (?:this|the|my|our)"
    r"(?: local)? branch|(?:added|changed|done|made) (?:in|on) (?:this|the|our) branch|in this branch we|any ?more"
    r"|(?:pr|review|bugbot|copilot|open) (?:comments?|feedback)"
    r"|got (?:this|some) feedback|feedback (?:on|for|to address)|(?:check|review|look)\b.{0,60}\bagain"
    r"|the (?:last|latest) (?:commit|change)|changelog|the other (?:bit|part|half)"
    r"|continue (?:where|with|the|on)|so far)\b"
)


def classify(message: str, number: int) -> Verdict:
    """What kind of message this is; `number` counts the messages of the session from 0."""
    text = message[:_MAX_READ].strip().lower()
    words = text.split()
    is_short = len(words) <= _MAX_ORDER
    if not words or (is_short and _approves(text)):
        return "fast path"
    if points_to_earlier_work(text, number):
        return "points to earlier work"
    if is_short and re.fullmatch(_ORDER, text):
        return "fast path"
    return "later message" if number else "first message"


def points_to_earlier_work(text: str, number: int) -> bool:
    """Whether a message, in lower case, refers to something that only earlier sessions know."""
    return bool(re.search(_EARLIER, text) or (not number and re.search(_PRODUCT, text[:600])))


def _approves(text: str) -> bool:
    words = _SEPARATORS.split(text.strip(" ,.!:()-"))
    return all(word in _APPROVAL or (word.isdigit() and len(word) < 4) for word in words)
