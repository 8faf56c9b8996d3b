"""Parse a query into its words, and the names in it that must be found literally."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from warmstart.text.clean import clean
from warmstart.text.names import Name, find_names, name_parts
from warmstart.text.words import STOPWORDS, root_word, tokenize

MAX_CHARACTERS = 20_000  # of a query
MAX_WORDS = 400

# Phrases that say how to answer, not what about.
HOW_TO_ANSWER = re.compile(
    r"""
    \b(?: (?:can|could|would|will)\ you\ (?:please\ )?
            (?:(?:walk|give|tell|remind|show)\ me|list|explain|summari[sz]e|suggest|recommend|describe)
        | (?:the\ )?order\ in\ which\ (?:I|we|you)\ \w+(?:\ up)?(?:\ different\ \w+)?
        | in\ order(?!\ to)
        | (?:summary|overview|recap)\ of
        | (?:across|during|from|in|over|throughout)\ (?:all\ (?:of\ )?)?(?:my|our)\ (?:\w+\ )?
            (?:chats?|conversations?|discussions?|sessions?)
        | (?:did|do|had|have|would)\ (?:I|we|you)
            \ (?:ask|bring\ up|discuss|mention|outline|recommend|say|suggest|tell)(?:ed)?
        | mention\ only(?:\ and\ only)?\ \w+\ items?
    )\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# What asks for passages in the order in which they were said.
_ORDER = re.compile(
    r"\border in which\b|\bin (?:what|which|chronological) order\b|\bin order\b(?! to)|\btimeline\b",
    re.IGNORECASE,
)
# Words of a question, besides the stopwords, that do not say what it is about.
_ASKING = """
    ask asked discuss discussed earlier first later like liked likes mention mentioned only prefer previously says talk
    talked told want wanted
"""
# Words in dates. Every date has one of them, or a year.
_DATES = """
    january february march april may june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec spring summer autumn fall winter monday tuesday wednesday thursday friday saturday sunday today
    tonight yesterday morning afternoon evening night day week weekend month year ago last past previous
"""
# Other words in a question about a time, such as `what happened two days ago`.
_TIMES = """
    one two three four five six seven eight nine ten eleven twelve couple happen talk discuss work
"""
_YEAR = re.compile(r"20\d\d")
_IGNORED = STOPWORDS | frozenset(_ASKING.split())


class Query(NamedTuple):
    """A parsed query: its words by stem. `content` are the stems that say what is asked for, without those for when."""

    text: str
    words: dict[str, str]
    names: tuple[Name, ...]
    content: set[str]
    may_have_date: bool
    asks_for_order: bool


def parse(text: str) -> Query:
    """Parse a query. Any text is valid, even if there is nothing to search for in it."""
    text = clean(text[:MAX_CHARACTERS])
    topic = HOW_TO_ANSWER.sub(" ", text)
    tokens = list(dict.fromkeys([*tokenize(topic), *name_parts(topic)]))
    if set(tokens) <= _IGNORED:
        tokens = list(dict.fromkeys([*tokenize(text), *name_parts(text)]))
    stems = {token: root_word(token) for token in tokens}
    may_have_date = not _roots(_DATES).isdisjoint(stems.values()) or any(map(_YEAR.fullmatch, tokens))
    tokens = [word for word in tokens if word not in _IGNORED] or tokens
    words = {stems[word]: word for word in tokens[:MAX_WORDS]}
    times = _roots(_DATES + _TIMES)
    content = {stem for stem, word in words.items() if stem not in times and not word.isdigit()}
    return Query(text, words, find_names(text), content, may_have_date, bool(_ORDER.search(text)))


@cache
def _roots(words: str) -> frozenset[str]:
    return frozenset(map(root_word, words.split()))
