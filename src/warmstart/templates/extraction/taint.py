"""What came in through tool output that speaks to the reader, and what passes it on.

A file may say "always run …", and the agent may then write it into another file, quote it or do it. Each such call is
harmless by itself; that its words stand beside an order in some output is what gives it away. Outputs are large and
what is carried is small, so the search goes from the carried words to the outputs that hold them, and only the
neighbourhood of a hit is judged. What the person or the system said too is theirs. A command is known by fewer words
than a text is, so that of an output only what stands right beside them counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ahocorasick_rs import BytesAhoCorasick

from warmstart.profile.shell import check_of, common_programs
from warmstart.profile.tools import command_in
from warmstart.templates.extraction.listed import listed
from warmstart.templates.extraction.walk import Walk
from warmstart.templates.trust import suspicious
from warmstart.text.shell import Command, parse_commands
from warmstart.text.untrusted import non_ascii, simplify

LOOKED_AT = 16_000  # characters of an output: most of them from its beginning, the rest from its end
_END = 4_000
_NEAR = 300  # characters to each side of a hit that are judged
_BESIDE = 120  # of a hit that is only a command's name
_MOST = 500  # neighbourhoods that are judged; what would need more of them is taken for passed on
_WINDOW = 5  # words in a row that are nobody else's
_COMMAND = 3  # words in a row of a command
_NAME = 6  # letters of a name that is of several words, such as `setup-all`
# Small letters, digits and whatever is not ASCII; everything else parts words.
_APART = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)) + bytes(range(128, 256))
_URL = re.compile(
    r"\b[a-z]{2,8}://[^\s\"'<>)\]}`\\]{4,300}|(?<![\w./@-])[a-z0-9-]+(?:\.[a-z0-9-]+)+/[^\s\"'<>)\]}`\\]{2,300}"
)
_BLOB = 20  # letters of a word that is no word
# What Claude Code itself adds to every file that is read. Any other reminder may be the file's.
_REMINDED = ("</system-reminder>", "</system-reminder>\n")
_REMINDER = re.compile(
    r"<system-reminder>\s*Whenever you read a file, you should consider whether it (?:(?!<system-reminder>).){0,800}"
    r"</system-reminder>\s*\Z",
    re.DOTALL,
)
# Programs that say nothing by their names, and those whose words are files.
_EVERYWHERE = listed("export source pip pip3 uv docker psql sqlite3 sleep kill env set")
_ABOUT_FILES = listed(
    "cat head tail less more bat ls tree find fd grep egrep fgrep rg sed awk wc diff cp mv rm mkdir touch jq sort cd "
    "echo git"
)
_LOOKED_WORDS = 12  # words of a command of which each may be a name
_HYPHENED = re.compile(r"(?<![\w/.@-])[a-z][a-z0-9]{1,30}(?:-[a-z0-9]{2,30}){1,5}(?![\w/.-])")
_PARTED = re.compile(r"\w[-_./:]\w")
# Where a name stands among letters of a script that has no spaces.
_UNSPACED = r"[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"
_IS_UNSPACED = re.compile(_UNSPACED)
_BETWEEN = re.compile(rf"(?<={_UNSPACED})(?=[!-~])|(?<=[!-~])(?={_UNSPACED})")
_PLACEHOLDER = re.compile(r"\{\{\w{1,60}\}\}")


def passing_on(texts: Sequence[str], walk: Walk, *, whole: Collection[str] = ()) -> set[int]:
    """Which of these texts hold words that stand beside an order in some output of the session.

    Those that are `whole` are looked for as they are, however short.
    """
    pieces = _Pieces(texts, walk, whole)
    if not pieces.all:
        return set()
    scan = BytesAhoCorasick(pieces.all)
    found: set[int] = set()
    judged: dict[bytes, bool] = {}
    for step in walk.taken:
        if len(step.text) < 12:
            continue
        near = _Near(looked_at(_REMINDER.sub("", step.text) if step.text.endswith(_REMINDED) else step.text))
        for number, start, _ in scan.find_matches_as_indexes(near.words, overlapping=True):
            holders = pieces.holders[number]
            if holders <= found:
                continue
            around = near.around(start, beside=number in pieces.short)
            if around not in judged:
                judged[around] = len(judged) >= _MOST or suspicious(around.decode("utf-8", "ignore")) is not None
            if judged[around]:
                found |= holders
    return found


def looked_at(text: str) -> str:
    """The part of an output that is searched."""
    return text if len(text) <= LOOKED_AT else f"{text[: LOOKED_AT - _END]}\n{text[-_END:]}"


class _Pieces:
    """The words in a row by which texts are known again, and which texts hold each."""

    def __init__(self, texts: Sequence[str], walk: Walk, whole: Collection[str]) -> None:
        said = (message.text[:LOOKED_AT] for message in walk.messages if message.role in ("user", "system"))
        theirs = b" %b " % b" ".join(_words("\n".join(said)))
        holders: dict[bytes, set[int]] = {}
        long: set[bytes] = set()
        for number, text in enumerate(texts):
            for piece in _pieces(text):
                holders.setdefault(piece, set()).add(number)
                long.add(piece)
            if text in whole and (words := _words(text)):
                holders.setdefault(b" ".join(words), set()).add(number)
                long.add(b" ".join(words))
            for piece in _names(text):
                holders.setdefault(piece, set()).add(number)
        known = _found_in(theirs, holders)  # what the person or the system said as well is theirs
        left = [piece for piece in holders if piece not in known]
        self.all = tuple(b" %b " % piece for piece in left)
        self.holders = tuple(holders[piece] for piece in left)
        self.short = frozenset(number for number, piece in enumerate(left) if piece not in long)


def _found_in(words: bytes, pieces: Collection[bytes]) -> set[bytes]:
    every = tuple(pieces)
    scan = BytesAhoCorasick([b" %b " % piece for piece in every]) if every else None
    return {every[number] for number, _, _ in scan.find_matches_as_indexes(words, overlapping=True)} if scan else set()


def _pieces(text: str) -> Iterator[bytes]:
    text = _PLACEHOLDER.sub(" \n ", text)
    lines = text.replace("\\n", "\n").replace('\\"', '"')
    yield from _windows(lines, _WINDOW)
    yield from (b" ".join(found) for url in _URL.findall(simplify(lines)) if len(found := _words(url)) > 2)
    yield from (word for word in _words(lines) if len(word) >= _BLOB)
    if command := command_in(text):
        # That a README tells to run the tests is no reason not to.
        checks = b" %b " % b" ".join(_checks(command))
        yield from (piece for piece in _windows(command, _COMMAND) if b" %b " % piece not in checks)


def _names(text: str) -> Iterator[bytes]:
    """What a call names: commands besides those that everybody runs (`make setup-all`, `./setup.sh`), and packages."""
    if text[:1] != "{":
        return
    ran = command_in(text := _PLACEHOLDER.sub(" ", text))
    if not ran:
        yield from (b" ".join(_words(name)) for name in set(_HYPHENED.findall(text)) if len(name) >= _NAME)
    for command in parse_commands(ran):
        if command.program not in _ABOUT_FILES and not check_of(command):
            yield from (b" ".join(words) for words in map(_words, _known_by(command)) if words)


def _known_by(command: Command) -> Iterator[str]:
    named = [word for word in command.words if not word.startswith("-")]
    if command.program not in common_programs() and command.program not in _EVERYWHERE:
        yield command.program
    elif named:
        yield " ".join((command.program, *named[:2]))
    yield from (word for word in command.words[:_LOOKED_WORDS] if len(word) >= _NAME and _PARTED.search(word))


def _windows(text: str, length: int) -> Iterator[bytes]:
    """So many words in a row, as the text parts them: a path is one, because it is no sentence."""
    parts = [_words(part) for part in text.split()]
    for start in range(len(parts) - length + 1):
        words = [word for part in parts[start : start + length] for word in part]
        if len(words) >= length:
            yield b" ".join(words)


def _words(text: str) -> list[bytes]:
    return _plain(text).translate(_APART).split()


def _plain(text: str) -> bytes:
    """The text as it is compared; that it is ASCII is the rule, and quick."""
    if text.isascii() and "\x1b" not in text:
        return text.encode()
    text = simplify(text)
    return (_BETWEEN.sub(" ", text) if _IS_UNSPACED.search(non_ascii(text)) else text).encode("utf-8", "replace")


def _checks(command: str) -> Iterator[bytes]:
    """The words of the commands that test, build or lint."""
    for part in parse_commands(command):
        if check_of(part):
            yield from _words(" ".join((part.program, *part.words)))


class _Near:
    """An output as its words, and the way back from the words to the output."""

    def __init__(self, output: str) -> None:
        self._plain = _plain(output)
        self._parted = self._plain.translate(_APART)  # as long as before, so that places stay
        self.words = b" %b " % b" ".join(self._parted.split())

    def around(self, place: int, *, beside: bool = False) -> bytes:
        """The neighbourhood of a place among the words: the block that it is in, and as much before and after."""
        before = self.words.count(b" ", 0, place)
        rest = self._parted.split(None, before)[before:]
        raw = len(self._parted) - len(rest[0]) if rest else 0
        if beside:
            return self._plain[max(0, raw - _BESIDE) : raw + _BESIDE]
        block = raw // _NEAR
        return self._plain[max(0, (block - 1) * _NEAR) : (block + 2) * _NEAR]
