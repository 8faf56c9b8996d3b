"""What a reader of a text does not see: characters without a shape, and letters that only look like others.

Both are ways to write something past a person, or past a rule. `unseen` finds the first kind; `plain` and `folded` give
the text as it looks, to be compared with words.
"""

from __future__ import annotations

import re
import unicodedata

# Characters without a shape of their own. Where people need them they stand alone: joiners in emoji and in scripts
# that join, a selector after the sign that it selects for, a byte order mark before everything else.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY = re.compile(f"[{_HIDDEN}]")
_ALONE = re.compile(
    f"(?<![{_HIDDEN}\x00-\u02ff])[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef](?![{_HIDDEN}])"
    f"|(?<=[0-9#*\u00a9\u00ae])\ufe0f(?![{_HIDDEN}])"  # keycaps and the two signs that are emoji as well
    "|(?<=\ufe0f)\u200d(?=[\u2600-\U0001fbff])"
    "|\\A\ufeff"
    "|\u2800+(?![^\u2800\\s])|(?<=[\u2801-\u28ff])\u2800|\u2800(?=[\u2801-\u28ff])"  # Braille blanks in progress bars
)
_ASCII = bytes(range(128))
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}[A-Za-z]|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)")
_CONCEALED = re.compile(r"\x1b\[(?:\d+;)*8(?:;\d+)*m")
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]")

# Letters that look like those of the Latin alphabet and are not made into them by Unicode's own rules.
_LIKE = (
    *("aаαɑᴀᎪæ", "bʙвьβ", "cсϲᴄᏟꮯ", "dԁᴅđð", "eеєεᴇᎬ", "fꜰƒ", "gɡɢցґ", "hһհʜнħ", "iіıɩιɪᎥꭵ", "jјϳȷᴊ", "kкκᴋ", "lӏʟłǀ"),
    *("mмᴍ", "nпոηɴ", "oоοօᴏøσœ", "pрρᴘþ", "qԛ", "rгɾʀᴦ", "sѕꜱꮪß", "tтτᴛŧ", "uυսᴜц", "vѵνᴠ", "wԝѡωᴡ", "xхχ", "yуүγʏ"),
    *("zᴢʐ", "-‐‑‒–—―−", "'ꞌʼ´‘’", '"“”«»', "|∣", ":∶꞉ː։", "/⁄∕"),
)
_BOXED = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # where alphabets of letters in boxes, circles and flags begin
_TABLE = {sign: row[0] for row in _LIKE for sign in row[1:]} | {
    chr(first + number): chr(97 + number) for first in _BOXED for number in range(26)
}
# Signs that are neither letters nor written in ASCII: arrows, boxes, bullets, ideographic punctuation.
_SIGNS = re.compile("[\u00a1-\u00bf\u2000-\u2bff\u3000-\u303f\ufe30-\ufe6f\U0001f000-\U0001ffff]")


def unseen(text: str) -> str:
    """The characters of a text that nobody sees, in order; those that people need where they stand do not count."""
    if text.isascii() or not _ANY.search(text):
        return ""
    return "".join(_ANY.findall(_ALONE.sub("", text)))


def controls(text: str) -> str:
    """The control characters of a text other than tabs and ends of lines, in order."""
    return "".join(_CONTROL.findall(text))


def conceals(text: str) -> bool:
    """Whether a terminal would be told to hide a part of the text."""
    return "\x1b" in text and bool(_CONCEALED.search(text))


def plain(text: str) -> str:
    """A text in small letters as Unicode's own rules simplify it, without what nobody sees."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text.isascii():
        return text.lower()
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return _replaced(text, dict.fromkeys(_ANY.findall(strange(text)), "")).lower()


def folded(text: str) -> str:
    """What `plain` gave, in the Latin letters that it looks like, without accents."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFKD", text):
        text = unicodedata.normalize("NFKD", text)
    signs = strange(text)
    marks = dict.fromkeys(_MARKS.findall(signs), "")
    return _replaced(text, marks | {sign: _TABLE[sign] for sign in signs if sign in _TABLE})


def without_signs(text: str) -> str:
    """The text with a space for every sign that is not ASCII."""
    if text.isascii():
        return text
    return _replaced(text, dict.fromkeys(_SIGNS.findall(strange(text)), " "))


def strange(text: str) -> str:
    """The characters of a text that are not ASCII, each once."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return "".join(dict.fromkeys(rest.decode("utf-8", "surrogatepass")))


def _replaced(text: str, table: dict[str, str]) -> str:
    # A text has few different signs, and one replacement runs at the speed of memory.
    for sign, other in table.items():
        text = text.replace(sign, other)
    return text
