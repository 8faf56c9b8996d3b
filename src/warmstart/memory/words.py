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
_KNOWN = 50_000  # stems that are remembered
_STEMMED = 30  # letters of a word that may have an English ending

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IS_CJK = re.compile(f"[{_CJK}]").match
_ACCENTED = re.compile(r"[^\x00-\x7f]")

# What a question has and an answer need not have.
STOPWORDS = frozenset(
    "a about after all also am an and any are as at be been before being but by can could did do does doing each for "
    "from get give had has have he her here him his how i if in into is it its just let me my no not of on or our ours "
    "out over please said say she should so some such tell than that the their them then there these they this those "
    "to too under up us used was we were what when where which while who whom whose why will with would yes you your "
    "yours s t ll ve re d m don doesn didn isn aren know remember again".split()
)


def tokens(text: str) -> list[str]:
    """The words of a text in order, in small letters and with their endings."""
    found: list[str] = []
    for token in _TOKEN.findall(text if text.isascii() else _plain(text)):
        if _IS_CJK(token):
            found += [token[place : place + 2] for place in range(len(token) - 1)] or [token]
            continue
        found.append(token.lower()[:_LONGEST])
        if len(token) > 1 and not (token.islower() and token.isalpha()) and token.isascii():
            parts = _PARTS.findall(token)
            if len(parts) > 1:
                found += [part.lower()[:_LONGEST] for part in parts if len(part) > 1 or part.isdigit()]
        if len(found) > _MOST:
            break
    return found[:_MOST]


def _plain(text: str) -> str:
    """Without accents, and with signs of double width as the usual ones."""
    bare = "".join(
        sign if _IS_CJK(sign) else "".join(part for part in unicodedata.normalize("NFKD", sign) if _counts(part))
        for sign in unicodedata.normalize("NFKC", text)
    )
    return bare


def _counts(part: str) -> bool:
    return not unicodedata.combining(part)


class Stemmer:
    """Takes English endings off words by Porter's rules, by asking FTS5 in memory."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._known: dict[str, str] = {}
        self._lock = Lock()

    def stems(self, words: Iterable[str]) -> list[str]:
        """The words without their endings."""
        words = list(words)
        known = self._known
        try:
            return [known[word] for word in words]
        except KeyError:
            pass
        with self._lock:
            if len(known) > _KNOWN:
                known = self._known = {}
            new = list(dict.fromkeys(word for word in words if word not in known))
            ending = [word for word in new if len(word) <= _STEMMED and word.isascii() and word.isalpha()]
            known.update((word, word) for word in new)
            known.update(zip(ending, self._stemmed(ending), strict=True))
            return [known[word] for word in words]

    def _stemmed(self, words: list[str]) -> list[str]:
        if not words:
            return []
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.execute("CREATE VIRTUAL TABLE one USING fts5 (body, content = '', tokenize = 'porter ascii')")
            self._connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (one, instance)")
        run = self._connection.execute
        run("INSERT INTO one (rowid, body) VALUES (1, ?)", (" ".join(words),))
        found = [row[0] for row in run("SELECT term FROM terms ORDER BY offset")]
        run("INSERT INTO one (one) VALUES ('delete-all')")
        return found


_STEMMER = Stemmer()


def stems(text: str) -> list[str]:
    """The words of a text in order, without their endings."""
    return _STEMMER.stems(tokens(text))


def asked(text: str) -> list[str]:
    """The words of a question that matter, each once; all of them where none does."""
    words = tokens(text)
    telling = [word for word in words if word not in STOPWORDS] or words
    return list(dict.fromkeys(_STEMMER.stems(telling)))
