"""The words of what is remembered, for all databases alike.

Letters and digits make words; a name like `pref_python`, `camelCase` or `python3` is found as a whole and by its parts.
Capitals, accents and English endings do not count. Chinese, Japanese and Korean, which write no spaces, are divided
into pairs of neighbouring signs.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable
from threading import Lock

_LONGEST = 64  # letters of a word that count
_MOST = 2000  # words of a text that count
_KNOWN = 100_000  # of them that are remembered
_STEMMED = 30  # letters of a word that may have an English ending

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_ASCII = re.compile("[A-Za-z0-9]+").findall
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IS_CJK = re.compile(f"[{_CJK}]").match

# What a question has and an answer need not have.
_QUESTION = """
a about after all also am an and any are as at be been before being but by can could did do does doing each for from get
give had has have he her here him his how i if in into is it its just let me my no not of on or our ours out over please
said say she should so some such tell than that the their them then there these they this those to too under up us used
was we were what when where which while who whom whose why will with would yes you your yours s t ll ve re d m don doesn
didn isn aren know remember again
"""
STOPWORDS = frozenset(_QUESTION.split())


def _divided(token: str) -> list[str]:
    """The words that something between spaces stands for, in small letters and with their endings."""
    if _IS_CJK(token):
        return [token[place : place + 2] for place in range(len(token) - 1)] or [token]
    words = [token.lower()[:_LONGEST]]
    if token.isascii() and not (token.islower() and token.isalpha()):
        parts = _PARTS.findall(token)
        if len(parts) > 1:
            words += [part.lower()[:_LONGEST] for part in parts if len(part) > 1 or part.isdigit()]
    return words


def _plain(text: str) -> str:
    """Without accents, and with signs of double width as the usual ones."""
    return "".join(
        sign if _IS_CJK(sign) else "".join(part for part in unicodedata.normalize("NFKD", sign) if _counts(part))
        for sign in unicodedata.normalize("NFKC", text)
    )


def _counts(part: str) -> bool:
    return not unicodedata.combining(part)


class Divider:
    """Divides texts into words and takes English endings off, by Porter's rules, by asking FTS5 in memory."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._known: dict[str, tuple[str, ...]] = {}
        self._lock = Lock()

    def stems(self, text: str) -> list[str]:
        """The words of a text in order."""
        return self.stems_of((text,))[0]

    def stems_of(self, texts: Iterable[str]) -> list[list[str]]:
        """The words of each text in order; of many texts at once, which is quicker than one by one."""
        divided = [_tokens(text) for text in texts]
        while True:
            known = self._known
            try:
                return [[stem for token in tokens for stem in known[token]] for tokens in divided]
            except KeyError:
                self._learn({token for tokens in divided for token in tokens})

    def _learn(self, tokens: set[str]) -> None:
        with self._lock:
            known = self._known
            if len(known) + len(tokens) > _KNOWN:
                known = {}
            divided = {token: _divided(token) for token in tokens if token not in known}
            words = {word for some in divided.values() for word in some}
            ending = [word for word in words if len(word) <= _STEMMED and word.isascii() and word.isalpha()]
            stems = {word: word for word in words}
            stems.update(zip(ending, self._stemmed(ending), strict=True))
            known.update((token, tuple(stems[word] for word in some)) for token, some in divided.items())
            self._known = known

    def _stemmed(self, words: list[str]) -> list[str]:
        if not words:
            return []
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.execute(
                "CREATE VIRTUAL TABLE one USING fts5 (body, content = '', tokenize = 'porter ascii')"
            )
            self._connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (one, instance)")
        run = self._connection.execute
        run("INSERT INTO one (rowid, body) VALUES (1, ?)", (" ".join(words),))
        found = [row[0] for row in run("SELECT term FROM terms ORDER BY offset")]
        run("INSERT INTO one (one) VALUES ('delete-all')")
        return found


def _tokens(text: str) -> list[str]:
    found = _ASCII(text) if text.isascii() else _TOKEN.findall(_plain(text))
    return found[:_MOST]


_DIVIDER = Divider()
stems = _DIVIDER.stems
stems_of = _DIVIDER.stems_of


def asked(text: str) -> list[tuple[str, ...]]:
    """The words of a question that matter, each once and with its parts; all words where none matters."""
    tokens = _tokens(text)
    telling = [token for token in tokens if token.lower() not in STOPWORDS] or tokens
    words: list[tuple[str, ...]] = []
    for token in dict.fromkeys(telling):
        found = tuple(stems(token))
        words += [(pair,) for pair in found] if _IS_CJK(token) else [found]
    return list({word[0]: word for word in reversed(words)}.values())[::-1]


def is_sentence(text: str) -> bool:
    """Whether it has words that only a sentence needs."""
    return any(token.lower() in STOPWORDS for token in _tokens(text))
