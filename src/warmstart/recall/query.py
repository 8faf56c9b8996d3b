"""Parse a query into its words, and the names in it that must be found literally."""

from __future__ import annotations

import re
from typing import NamedTuple

from warmstart.text.clean import clean
from warmstart.text.words import MAX_WORD, STOPWORDS, identifier_parts, split_words, stem_word, tokenize

MAX_CHARACTERS = 20_000  # of a query; only the beginning and the end of a longer one are read
MAX_WORDS = 400
MAX_NAMES = 4

_MAX_IDENTIFIER = 40  # letters; longer mixed-case words are data
_QUOTED = re.compile(r'`([^`\n]{3,120})`|"([^"\n]{3,120})"')
_TYPED = re.compile(r"[^\s\"'`“”‘’(),;<>\[\]{}|!?*…—]{3,200}")
_JOINED = re.compile(r"[^\W_][-._/\\:@+=~#$%&]+[^\W_]|^(?:--?|#|\.|/|~/|\$|@)[^\W_]")
_CODE = re.compile(r"^(?=.*[A-Z])[A-Z0-9_]{4,}$|^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_]{4,}$|_")
# Every text with a name in it matches this.
_MAY_BE_NAME = re.compile(r'["`\d_]|[A-Z]{4}|[-./\\:@+=~#$%&][^\W_]')
_MIXED_CASE = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[A-Z0-9]*[a-z]|[0-9][a-z]")
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


class Word(NamedTuple):
    """A word of a query, and its stem in the index."""

    word: str
    stem: str


class Name(NamedTuple):
    """Text to be found literally, in lower case, and the stems that find candidates in the index."""

    text: str
    stems: tuple[str, ...]


class Query(NamedTuple):
    """A parsed query. `content` are the stems that say what is asked for, without those that say when."""

    text: str
    words: tuple[Word, ...]
    names: tuple[Name, ...]
    content: set[str]
    may_have_date: bool


def parse(text: str) -> Query:
    """Parse a query. Any text is valid, even if there is nothing to search for in it."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS * 4 // 5]} {text[-MAX_CHARACTERS // 5 :]}"
    text = clean(text)
    topic = HOW_TO_ANSWER.sub(" ", text)
    tokens = list(dict.fromkeys([*tokenize(topic), *name_parts(topic)]))
    if set(tokens) <= _IGNORED:
        tokens = list(dict.fromkeys([*tokenize(text), *name_parts(text)]))
    stems = {token: stem_word(token) for token in tokens}
    dates = set(map(stem_word, _DATES.split()))
    may_have_date = not dates.isdisjoint(stems.values()) or any(map(_YEAR.fullmatch, tokens))
    tokens = [word for word in tokens if word not in _IGNORED] or tokens
    by_stem = {stems[word]: Word(word, stems[word]) for word in tokens}
    words = tuple(by_stem.values())[:MAX_WORDS]
    times = dates.union(map(stem_word, _TIMES.split()))
    content = {word.stem for word in words if word.stem not in times and not word.word.isdigit()}
    return Query(text, words, _find_names(text) if _MAY_BE_NAME.search(text) else (), content, may_have_date)


def name_parts(text: str) -> list[str]:
    """The parts of names such as `readConfigFile`."""
    if text.isascii() and not _MIXED_CASE.search(text):
        return []
    parts: list[str] = []
    for word in dict.fromkeys(split_words(text)):
        plain = word.islower() or word.isupper() or word.istitle() or word.isdigit()
        if not plain and len(word) <= _MAX_IDENTIFIER:
            parts += identifier_parts(word)
    return parts


def _find_names(text: str) -> tuple[Name, ...]:
    found: dict[str, Name] = {}
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    typed = [word.rstrip(".:,") if word[0] in "./" else word.strip(".:,/") for word in _TYPED.findall(text)]
    for candidate in [*quoted, *(word for word in typed if _JOINED.search(word) or _CODE.search(word))]:
        key = candidate.strip().lower()
        if key and key not in found:
            words = tokenize(candidate)
            if words and not all(word in STOPWORDS or len(word) >= MAX_WORD for word in words):
                found[key] = Name(key, tuple(map(stem_word, words[:20])))
        if len(found) >= MAX_NAMES:
            break
    return tuple(found.values())
