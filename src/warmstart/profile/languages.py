"""Which language a text is in, and how many words it has: a guess by script and by the commonest words.

Enough to label how a person writes; no library of the field is light enough for a hook that starts on every turn.
"""

from __future__ import annotations

import re
from collections import Counter

FEWEST = 20  # words: with fewer there is no guess
_LONGEST = 4_000  # characters that are looked at
_SHARE = 0.1  # of the words must be common words of the language
_LEAD = 1.3  # and this many times as many as of the next language

_FOREIGN = re.compile(r"[\u0370-\u1fff\u3040-\ud7af]")  # letters of any script but the Latin one
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f]")  # kana, Han, Thai
# By script: the first whose letters are a fifth of all. Japanese goes before Chinese, Ukrainian before Russian.
_SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
# What tells a neighbour in the same script: letters that the other one does not have.
_NEIGHBOURS = {"zh": ("ja", re.compile(r"[\u3040-\u30ff]")), "ru": ("uk", re.compile(r"[іїєґІЇЄҐ]"))} | {
    "ar": ("fa", re.compile(r"[پچژگ]"))
}
_NEIGHBOUR = 0.02  # of the letters
_COMMON = {
    "en": "the to and of is in it that you for this on with not be are we can have what do should i my if but a",
    "de": "der die das und ist nicht ich du wir es ein eine mit auf für den zu im auch noch bitte soll kann wie wenn",
    "fr": "le la les et est pas je tu nous un une des pour dans que qui avec sur il ce du ne au plus peux",
    "es": "el la los y es no que de en un una para con por se lo del las pero como más está puedes esto me",
    "pt": "o os e é não que de em um uma para com por se do da no na mas como mais está você isso eu",
    "it": "il lo gli e è non che di un una per con si del della ma come più sono questo puoi nel anche mi le",
    "nl": "de het een en is niet ik je we van dat op te voor met maar ook nog kan deze er aan wat zijn",
    "pl": "nie to się w na i z jest że do jak ale co dla tak już czy po być przez jeszcze tego mi możesz",
    "sv": "och det att är en ett inte jag du vi som på för med av den men om kan så har ska när eller",
    "tr": "bir ve bu için de da ne mi ama gibi çok daha var yok değil olarak sonra ile ben sen biz şu lütfen",
}
_SETS = {language: frozenset(words.split()) for language, words in _COMMON.items()}


def words_in(text: str) -> int:
    """How many words a text has; where a script puts no spaces between words, two characters are one."""
    spaceless = len(_SPACELESS.findall(text)) if not text.isascii() else 0
    if not spaceless:
        return len(text.split())
    return len(_SPACELESS.sub(" ", text).split()) + (spaceless + 1) // 2


def language_of(text: str) -> str:
    """The ISO 639-1 code of the language, empty when the text is too short or no language stands out."""
    text = text[:_LONGEST]
    if words_in(text) < FEWEST:
        return ""
    return _by_script(text) or _by_words(text)


def _by_script(text: str) -> str:
    if text.isascii() or len(_FOREIGN.findall(text)) < len(text) / 20:
        return ""
    letters = sum(map(str.isalpha, text))
    for language, script in _SCRIPTS:
        neighbour, own = _NEIGHBOURS.get(language, ("", None))
        others = len(own.findall(text)) if own else 0
        if len(script.findall(text)) + (others if language == "zh" else 0) >= letters / 5:
            return neighbour if others >= max(1, _NEIGHBOUR * letters) else language
    return ""


def _by_words(text: str) -> str:
    words = Counter(text.lower().split())
    scores = sorted(
        ((sum(words[word] for word in common & words.keys()), name) for name, common in _SETS.items()), reverse=True
    )
    (best, language), (second, _) = scores[:2]
    return language if best >= _SHARE * words.total() and best >= _LEAD * second else ""
