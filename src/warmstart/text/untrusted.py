"""Untrusted text: invisible characters, role tokens, and prompt injection.

Tool output, web pages, files and other people's templates are data. `find_invisible` and `find_controls` find hidden
characters, `neutralize` makes a text safe to quote, and `find_injection` says why a text must not be carried: it
imitates another speaker, overrides instructions, runs what it downloads, or exfiltrates secrets. The rules are in
`untrusted.toml`.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path

from warmstart.text.scanner import Rule, Scanner, load_rules

REACH = 280  # bytes on either side of a keyword that a pattern sees; every repetition in the patterns is bounded

# Invisible characters. They have legitimate uses one at a time: joiners in emoji and in joining scripts, a variation
# selector after its character, a byte order mark at the start.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_HIDDEN}]")
_ALONE = re.compile(
    f"(?<![{_HIDDEN}\x00-\u02ff])[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef](?![{_HIDDEN}])"
    f"|(?<=[0-9#*\u00a9\u00ae])\ufe0f(?![{_HIDDEN}])"  # keycaps, and the two symbols that are also emoji
    "|(?<=\ufe0f)\u200d(?=[\u2600-\U0001fbff])"
    "|\\A\ufeff"
    "|\u2800++(?!\\S)|(?<=[\u2801-\u28ff])\u2800|\u2800(?=[\u2801-\u28ff])"  # Braille blanks in progress bars
)
_KEPT_OR_INVISIBLE = re.compile(f"({_ALONE.pattern})|[{_HIDDEN}]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ANSI = re.compile(r"\x1b\[[0-9;:]{0,40}[A-Za-z]|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)")
_CONCEALED = re.compile(r"\x1b\[(?:\d+;)*8(?:;\d+)*m")
_COMBINING = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]")
_ASCII = bytes(range(128))

# Characters that look like Latin letters or ASCII punctuation, and that Unicode normalization does not map to them.
_LOOKALIKES = (
    *("aаαɑᴀᎪæ", "bʙвьβ", "cсϲᴄᏟꮯ", "dԁᴅđð", "eеєεᴇᎬ", "fꜰƒ", "gɡɢցґ", "hһհʜнħ", "iіıɩιɪᎥꭵ", "jјϳȷᴊ", "kкκᴋ", "lӏʟłǀ"),
    *("mмᴍ", "nпոηɴ", "oоοօᴏøσœ", "pрρᴘþ", "qԛ", "rгɾʀᴦ", "sѕꜱꮪß", "tтτᴛŧ", "uυսᴜц", "vѵνᴠ", "wԝѡωᴡ", "xхχ", "yуүγʏ"),
    *("zᴢʐ", "-‐‑‒–—―−", "'ꞌʼ´‘’", '"“”«»', "|∣", ":∶꞉ː։", "/⁄∕"),
)
_BOXED = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # the first of the letters in boxes, circles and flags
_LATIN = {letter: row[0] for row in _LOOKALIKES for letter in row[1:]} | {
    chr(first + number): chr(97 + number) for first in _BOXED for number in range(26)
}
# Neither letters nor ASCII: arrows, boxes, bullets, ideographic punctuation.
_SYMBOLS = re.compile("[\u00a1-\u00bf\u2000-\u2bff\u3000-\u303f\ufe30-\ufe6f\U0001f000-\U0001ffff]")
_SEPARATE = bytes(code if chr(code).isalnum() or code > 127 else 32 for code in range(256))

_SPEAKERS = "system|user|assistant|human|developer|tool|function|model"
_BORDER = re.compile(
    r"(?P<ours>[\[<]\s*/?\s*(?=warmstart))"
    r"|<(?=[|｜]|<\s*/?SYS>|/?s>|(?:start|end)_of_turn)|\[(?=/?(?:INST|SYS)\])"  # <|im_start|> and its kin
    rf"|<(?=/?(?:antml:|{_SPEAKERS}|function_calls|invoke|parameter|instructions?|system-)[\w:-]*[\s/>])"
    r"|(?P<end>(?<=[|｜])>)",
    re.IGNORECASE,
)
_TURN = re.compile(r"^(?=(?:human|assistant|system|user)\s*:)", re.IGNORECASE | re.MULTILINE)


def find_invisible(text: str) -> str:
    """The invisible characters in a text, in order, except in their legitimate uses."""
    if text.isascii() or not _INVISIBLE.search(text):
        return ""
    return "".join(_INVISIBLE.findall(_ALONE.sub("", text)))


def find_controls(text: str) -> str:
    """The control characters of a text other than tabs and line breaks, in order."""
    return "".join(_CONTROL.findall(text))


def neutralize(text: str) -> str:
    """The text without invisible characters and without forged role markers.

    A marker (`<|im_start|>`, `</system>`, `Human:`) is broken up by a space: it stays readable but no longer works.
    Line breaks become plain ones.
    """
    # Most texts need nothing, and this check is ten times as fast.
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        text = _KEPT_OR_INVISIBLE.sub(r"\1", _LINE_BREAK.sub("\n", text))
    if "<" in text or "[" in text or ">" in text:
        text = _BORDER.sub(_break_border, text)
    return _TURN.sub(" ", text) if ":" in text else text


def _break_border(found: re.Match[str]) -> str:
    if found["ours"]:
        return "(" + found["ours"][1:]
    return " >" if found["end"] else found[0] + " "


# -- normalization, for matching rules


def simplify(text: str) -> str:
    """The text in lower case, normalized (NFKC), without colour codes and invisible characters."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text.isascii():
        return text.lower()
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return _replace(text, dict.fromkeys(_INVISIBLE.findall(non_ascii(text)), "")).lower()


def fold_lookalikes(text: str) -> str:
    """The result of `simplify` with lookalikes replaced by Latin letters, without accents."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFKD", text):
        text = unicodedata.normalize("NFKD", text)
    letters = non_ascii(text)
    accents = dict.fromkeys(_COMBINING.findall(letters), "")
    return _replace(text, accents | {letter: _LATIN[letter] for letter in letters if letter in _LATIN})


def drop_symbols(text: str) -> str:
    """The text with a space for every symbol that is not ASCII."""
    return text if text.isascii() else _replace(text, dict.fromkeys(_SYMBOLS.findall(non_ascii(text)), " "))


def non_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, each once."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return "".join(dict.fromkeys(rest.decode("utf-8", "surrogatepass")))


def space_words(data: bytes) -> bytes:
    """The words of a text in UTF-8 separated by single spaces, without punctuation."""
    return b" ".join(data.translate(_SEPARATE, b"'").split())


def _replace(text: str, table: dict[str, str]) -> str:
    # A text has few different characters, and `str.replace` is very fast.
    for old, new in table.items():
        text = text.replace(old, new)
    return text


# -- injected instructions


@cache
def rules(table: str) -> tuple[Rule, ...]:
    """The rules of a table in `untrusted.toml`: `roles`, `fetches` or `orders`."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    found = load_rules(tables[table], tables["fragments"])
    return tuple(rule._replace(pattern=expand_words(rule.pattern)) for rule in found) if table == "orders" else found


def expand_words(pattern: str) -> str:
    """A pattern for whole words, in which `<n>` matches up to n words."""
    pattern = re.sub(r"<(\d)> ", r"(?:[^ ]{1,20} ){0,\1}", pattern)
    return rf"(?<![^ ])(?:{pattern})(?![^ ])"


@cache
def _scanners() -> tuple[Scanner, Scanner]:
    return Scanner((*rules("roles"), *rules("fetches")), REACH), Scanner(rules("orders"), REACH)


def find_hidden(text: str) -> str | None:
    """How a text hides something from its reader; `None` if it does not."""
    if find_invisible(text):
        return "has invisible characters"
    return "has a part that a terminal conceals" if "\x1b" in text and _CONCEALED.search(text) else None


def find_injection(text: str) -> str | None:
    """Why a text must not be carried, whoever wrote it; `None` if it may be.

    Users may give instructions, but not to ignore others, to run what is downloaded, or to exfiltrate secrets.
    """
    borders, orders = _scanners()
    folded = fold_lookalikes(simplify(text))
    return (
        find_hidden(text)
        or borders.first(folded.encode("utf-8", "replace"))
        or orders.first(space_words(drop_symbols(folded).encode("utf-8", "replace")))
    )
