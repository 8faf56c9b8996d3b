"""Secrets that need more than a pattern: key blocks, URLs, headers, tables, SQL dumps; and personal data.

Each function looks at the position of a keyword in a text, and yields what it finds there. It reads a bounded number of
characters around it, so that the time for a text is proportional to its length.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator

from warmstart.redact.rules import (
    PASSWORD_NAMES,
    PATTERNS,
    SECRET_NAMES,
    Find,
    Span,
    has_letters_and_digits,
    is_placeholder,
    is_random,
)

NOBODY = {"shared", "public", "default", "runner", "user", "root", "ubuntu", "linuxbrew", "app"}

_MAX_KEY = 20_000
_BASE64_CHARACTERS = string.ascii_letters + string.digits + "+/"
_SCHEME_CHARACTERS = string.ascii_letters + string.digits + "+.-"
_WEB = {"http", "https", "ftp", "ftps", "sftp", "ssh", "git", "git+https", "git+http", "svn", "ws", "wss", "socks5"}


def private_key(text: str, at: int) -> Iterator[Span]:
    """A private key block with its markers; the end marker may be cut off."""
    begin = PATTERNS.key_begin.match(text, at)
    if begin is None:
        return
    another = text.find("-----BEGIN", begin.end(), begin.end() + _MAX_KEY)
    limit = begin.end() + _MAX_KEY if another < 0 else another
    end = PATTERNS.key_end.search(text, begin.end(), limit)
    body = PATTERNS.key_body.match(text, begin.end(), limit)
    content = text[begin.end() : end.start() if end else body.end() if body else 0]
    stop = end.end() if end else begin.end() + len(content)
    letters = re.sub(r"\\[nrt]|[^A-Za-z0-9+/]", "", content)
    if len(letters) < 50 or len(set(letters)) <= 10:
        return
    if PATTERNS.quote.search(content):
        # A key in quoted pieces, or two strings of which one only begins a key: keep the text between them.
        pieces = PATTERNS.key_piece.finditer(text, begin.end(), stop)
        yield from (Span(*piece.span(), "private-key") for piece in pieces)
    else:
        yield Span(at, stop, "private-key")


def encoded_key(text: str, at: int) -> Iterator[Span]:
    """Base64 that contains the words PRIVATE KEY, or begins like a private key."""
    # A key begins with its header, or with some bytes of its length.
    start = _start_of(text, at, 64, _BASE64_CHARACTERS)
    run = PATTERNS.base64.match(text, start) if len(set(text[start : start + 400])) > 10 else None
    if run:
        yield Span(start, run.start() + len(run.group().rstrip()), "private-key")


def _start_of(text: str, at: int, limit: int, characters: str) -> int:
    """Where the run of these characters that ends at a position begins."""
    before = text[max(0, at - limit) : at]
    return at - len(before) + len(before.rstrip(characters))


def url_credentials(text: str, at: int) -> Iterator[Span]:
    """A URL with a user and a password, or a token; `at` is the position of its `://`."""
    start = _start_of(text, at, 32, _SCHEME_CHARACTERS)
    start += start > 0 and text[start - 1] == "\\"  # the first letter belongs to an escape
    found = PATTERNS.url.match(text, start)
    if found is None:
        return
    password, token = found["password"], found["token"]
    if not _is_password(password, found["user"], found["scheme"]) if password else not is_random(token):
        return
    if found["scheme"].lower() in _WEB:
        yield Span(start, found.end(), "url-credentials")
    elif rest := PATTERNS.rest.match(text, found.end()):
        yield Span(start, rest.end(), "connection-string")


def _is_password(password: str, user: str, scheme: str) -> bool:
    """Whether this is a real password: not a template, the word itself, or a default (`postgres:postgres`)."""
    lower = password.lower()
    if len(lower) < 4 or len(set(lower)) == 1 or lower in (user.lower(), scheme.lower()):
        return False
    return not any(map(PATTERNS.url_template.search, (password, user))) and not PATTERNS.word_itself.fullmatch(lower)


def _is_credential(value: str) -> bool:
    is_one = is_random(value) or sum(map(str.isdigit, value)) >= 2 or PATTERNS.uuid.fullmatch(value)
    return bool(is_one) and not is_placeholder(value)


def _match(pattern: str, kind: str, is_secret: Callable[[str], bool]) -> Find:
    """Return a function that matches a pattern at the keyword and checks its group `secret`."""

    def find(text: str, at: int) -> Iterator[Span]:
        found: re.Match[str] | None = getattr(PATTERNS, pattern).match(text, at)
        if found and is_secret(found["secret"]):
            yield Span(*found.span("secret"), kind)

    return find


authorization = _match("authorization", "authorization", _is_credential)
bearer = _match("bearer", "authorization", _is_credential)
phone = _match("phone", "phone", lambda number: 8 <= sum(map(str.isdigit, number)) <= 15)
home = _match("home", "user", lambda name: name.lower() not in NOBODY)


def cookie(text: str, at: int) -> Iterator[Span]:
    """The values in a Cookie header that look random."""
    found = PATTERNS.cookie.match(text, at)
    for pair in PATTERNS.pair.finditer(text, *found.span("pairs")) if found else ():
        if _is_credential(pair["secret"]):
            yield Span(*pair.span("secret"), "cookie")


def standard_input(text: str, at: int) -> Iterator[Span]:
    """A password that is piped into a command, as in `echo name:password | chpasswd`, or follows `<<<`."""
    found = PATTERNS.piped.search(text, max(0, at - 160), at) or PATTERNS.here.match(text, at)
    secret = found["secret"].rpartition(":")[2] if found else ""
    if found and len(secret) >= 4 and not is_placeholder(secret):
        yield Span(found.end("secret") - len(secret), found.end("secret"), "password")


def pgpass(text: str, at: int) -> Iterator[Span]:
    """The password in a line of .pgpass; `at` is the position of the colon after its host."""
    found = PATTERNS.pgpass.match(text, text.rfind("\n", max(0, at - 160), at) + 1)
    if found and found.start("secret") > at and not (found["secret"].islower() and found["secret"].isalpha()):
        yield Span(*found.span("secret"), "password")


def table_column(text: str, at: int) -> Iterator[Span]:
    """The cells below a heading such as `| password |` or `user,password`; `at` is the position of that word."""
    start, end = text.rfind("\n", max(0, at - 400), at) + 1, text.find("\n", at, at + 400)
    for separator in "|,;\t" if end > 0 else "":
        number, columns = text.count(separator, start, at), text.count(separator, start, end)
        if columns and PATTERNS.heading.fullmatch(text[start:end].split(separator)[number]):
            yield from _cells_below(text, end + 1, separator, number, columns)


def _cells_below(text: str, at: int, separator: str, number: int, columns: int) -> Iterator[Span]:
    for _ in range(200):
        end = text.find("\n", at) + 1 or len(text)
        cells = text[at:end].split(separator)
        if at == end or (len(cells) != columns + 1 and not PATTERNS.rule.fullmatch(text, at, end)):
            return
        if len(cells) == columns + 1:
            cell = cells[number].strip(" \t\r\n`\"'")
            is_secret = " " not in cell and (has_letters_and_digits(cell) or is_random(cell))
            if len(cell) >= 6 and is_secret and not is_placeholder(cell):
                place = at + sum(len(each) + 1 for each in cells[:number]) + cells[number].index(cell)
                yield Span(place, place + len(cell), "password")
        at = end


def sql_rows(text: str, at: int) -> Iterator[Span]:
    """The secret columns of `INSERT INTO users (name, password) VALUES (...)` and `COPY users (...) FROM stdin`."""
    insert = PATTERNS.sql_insert.match(text, at)
    found = insert or PATTERNS.sql_copy.match(text, at)
    wanted = _secret_columns(found["columns"]) if found else set()
    rows, cells = (PATTERNS.tuple, PATTERNS.field) if insert else (PATTERNS.row, PATTERNS.cell)
    end = found.end() if found else at
    while wanted and (row := rows.match(text, end)):
        end = row.end()
        for number, cell in enumerate(cells.finditer(text, *row.span("values"))):
            if number in wanted and len(cell["text"] or "") >= 4 and not is_placeholder(cell["text"]):
                yield Span(*cell.span("text"), "password")


def _secret_columns(columns: str) -> set[int]:
    names = [name.strip(" \t\n\"'`[]").lower() for name in columns.split(",")]
    words = (PASSWORD_NAMES | SECRET_NAMES) - {"pw", "pass"}
    return {number for number, name in enumerate(names) if any(word in name for word in words) and name[-2:] != "id"}


def email(text: str, at: int) -> Iterator[Span]:
    """An e-mail address; `at` is the position of its `@`."""
    domain = PATTERNS.domain.match(text, at)
    local = PATTERNS.local.search(text[max(0, at - 64) : at])
    if domain and local and not local.group().startswith("."):
        yield Span(at - len(local.group()), domain.end(), "email")
