"""What kind of thing a question asks for: a number, a version, a date, a path, a command, an address, a name.

A sentence that holds such a thing may be the answer; one that only repeats the question is not.
"""

from __future__ import annotations

import re

NUMBER = r"\d[\d,.]*\d|\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand)\b"
_DATE = (
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b(?: \d{1,2})?"
    r"|\b20\d\d\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:yesterday|today|tomorrow|tonight|ago)\b"
    r"|\b(?:last|next) (?:week|weekend|month|year|night|spring|summer|autumn|fall|winter)\b|\b\d{1,2}:\d\d\b"
)
_PATH = r"(?:[\w.~-]*/)+[\w.-]+|\b[\w-]+\.[a-z]{1,5}\b"
_COMMAND = r"`[^`\n]+`|(?:^|\s)\$ \S|\s--?[a-z][\w-]*"
# Four digits or more, but no year and no count; fewer only right after "port".
_PORT = (
    r"\bports?\W{1,3}(?:\w+\W){0,2}\d{2,5}\b"
    r"|(?<![\w./-])(?!(?:19|20)\d\d\b)\d{4,5}(?![\w-])(?! (?:bytes|characters|chars|lines|ms|tokens)\b)"
)
# What a question says, what it asks for, and a question with an answer. The first row that fits decides.
ROWS = (
    (r"\b(?:which|what)\b.{0,20}\bports?\b", _PORT, "which port is it", "it is on 5433"),
    (r"\b(?:which|what)\b.{0,20}\bversions?\b", r"\bv?\d+(?:\.\d+)+|\bv\d+\b|\b[a-z]+ \d+(?:\.\d+)*\b",
     "which version", "v2"),
    (r"\bhow (?:many|much|long|often|old|big|large|far|fast)\b", NUMBER, "how many tests are there", "there are 12"),
    (r"\b(?:what|which)\b.{0,20}\b(?:number|amount|price|cost|score|limit|size|percentage|rate|budget|timeout)\b",
     NUMBER, "what is the rate limit", "it allows 1,200 calls"),
    (r"^when\b|\b(?:what|which) (?:date|day|month|year|time)\b|\bdeadline\b", _DATE, "when was it", "on 7 May"),
    (r"\b(?:url|link|website|endpoint)\b", r"https?://\S+|(?:\s|^)/\w+", "what is the link", "https://example.org"),
    (r"^where\b|\b(?:which|what)\b.{0,20}\b(?:file|files|path|folder|directory|module)\b", _PATH,
     "which file is it in", "see src/tides.py"),
    (r"\b(?:which|what)\b.{0,20}\b(?:command|script|flag|option)s?\b", _COMMAND, "which command was it", "run `make`"),
    (r"^how (?:do|did|can|to|should|is|are)\b.{0,12}\b(?:run|start|build|test|install|deploy|lint|release|execute)\b",
     _COMMAND, "how do we run the tests", "use `make test`"),
    (r"^who\b|\bwhose\b|\bname of\b|\bcalled\b", r"(?-i:(?<=[a-z,] )[A-Z][a-z]+)|`[^`\n]+`",
     "who said so", "it was Ann"),
)  # fmt: skip


def answer_pattern(question: str) -> re.Pattern[str] | None:
    """What the kind of thing that a question asks for looks like; `None` if it asks for no such thing."""
    lower = question.strip().lower()
    for asked, answer, *_ in ROWS:
        if re.search(asked, lower):
            return re.compile(answer, re.IGNORECASE)
    return None
