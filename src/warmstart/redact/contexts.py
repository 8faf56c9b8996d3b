"""Secrets that only their surroundings give away: key blocks, URLs, headers, command lines, and named values.

Each function looks at one place in a text, where one of its anchors stands, and yields what it finds there. It reads a
bounded stretch around the place, so that the whole text is read in time proportional to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from warmstart.redact.values import entropy, is_placeholder, is_uuid


class Span(NamedTuple):
    """Where a secret stands and what kind it is."""

    start: int
    end: int
    kind: str


_ESCAPE = re.compile(r"[nrtbf]|u[0-9a-fA-F]{4}")


def after_escape(text: str, start: int) -> int:
    r"""Where a word starts whose first letters may belong to an escape before it: `\npassword` in JSON."""
    if start and text[start - 1] == "\\":
        escape = _ESCAPE.match(text, start)
        return escape.end() if escape else start
    return start


# -- private keys

_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{1,50}-----")
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=\r\n]|\\[nrt]){0,20000}")
_KEY_PIECE = re.compile(r"(?<![A-Za-z0-9+/\\])[A-Za-z0-9+/]{40,}={0,2}")
_QUOTE = re.compile(r"[\"'`{}]")
_KEY_MAX = 20_000


def private_key(text: str, at: int) -> Iterator[Span]:
    """A private key block, with its markers; without its end if the text was cut before it."""
    begin = _BEGIN.match(text, at)
    if begin is None:
        return
    limit = min(begin.end() + _KEY_MAX, len(text))
    another = text.find("-----BEGIN", begin.end(), limit)
    end = _KEY_END.search(text, begin.end(), limit if another < 0 else another)
    if end is not None:
        stop, body = end.end(), text[begin.end() : end.start()]
    else:
        found = _KEY_BODY.match(text, begin.end(), limit if another < 0 else another)
        stop = found.end() if found else begin.end()
        body = text[begin.end() : stop]
    letters = re.sub(r"\\[nrt]|[^A-Za-z0-9+/]", "", body)
    if len(letters) < 50 or len(set(letters)) <= 10:
        return
    if _QUOTE.search(body):
        # A key put together from quoted pieces, or two strings of which one only begins a key: what is between stays.
        yield from (Span(*piece.span(), "private-key") for piece in _KEY_PIECE.finditer(text, begin.end(), stop))
    else:
        yield Span(at, stop, "private-key")


# -- URLs

_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{1,30})://"
    r"(?:(?P<user>[^\s/?#:@\"'`<>\\|]{0,120}):(?P<password>[^\s/?#\"'`<>\\|]{1,200})|(?P<token>[^\s/?#:@\"'`<>\\|]{20,200}))"
    r"@(?P<host>[^\s/?#\"'`<>\\|@,;)\]}]{1,200})"
)
_REST = re.compile(r"[^\s\"'`<>\\|;)\]}]{0,500}")
_SCHEME_BACK = 31
_WEB = {"http", "https", "ftp", "ftps", "sftp", "ssh", "git", "git+https", "git+http", "svn", "ws", "wss", "socks5"}
_TEMPLATE = re.compile(r"[${}<>%*\[\]]|x{3}|X{3}|\.\.\.")


def url_credentials(text: str, at: int) -> Iterator[Span]:
    """A URL that carries a name and a password, or a token; `at` is the place of its `://`."""
    start = at
    while start > 0 and at - start < _SCHEME_BACK and (text[start - 1].isalnum() or text[start - 1] in "+.-"):
        start -= 1
    while start < at and not ("a" <= text[start].lower() <= "z"):
        start += 1
    start = after_escape(text, start)
    found = _URL.match(text, start)
    if found is None or found.start("scheme") + len(found["scheme"]) != at:
        return
    password, token = found["password"], found["token"]
    if password is not None:
        if _is_no_password(password, found["user"], found["scheme"]):
            return
    elif not _looks_random(token) or is_placeholder(token):
        return
    if found["scheme"].lower() in _WEB:
        yield Span(start, found.end(), "url-credentials")
    else:
        rest = _REST.match(text, found.end())
        yield Span(start, rest.end() if rest else found.end(), "connection-string")


def _is_no_password(password: str, user: str, scheme: str) -> bool:
    """A template, the word itself, or a name that stands for nothing (`postgres:postgres`)."""
    lower = password.lower()
    if _TEMPLATE.search(password) or _TEMPLATE.search(user):
        return True
    if lower in (user.lower(), scheme.lower()) or len(set(lower)) == 1 or len(lower) < 4:
        return True
    return lower.replace("_", "").isalpha() and any(word in lower for word in ("password", "passwd", "pwd", "secret"))


# -- headers and command lines

_AUTHORIZATION = re.compile(
    r"authorization(?:\\{0,4}[\"'])?\s{0,3}[:=]\s{0,3}(?:\\{0,4}[\"'`])?"
    r"(?:(?:bearer|basic|token|digest|apikey|api-key|negotiate|key)\s{1,3})?(?P<secret>[A-Za-z0-9_~+/.=|-]{8,4000})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"bearer\s{1,3}(?P<secret>[A-Za-z0-9_~+/.=-]{16,4000})", re.IGNORECASE)
_COOKIE = re.compile(
    r"cookie(?:\\{0,4}[\"'])?\s{0,2}:\s{0,2}(?:\\{0,4}[\"'])?(?P<pairs>(?:(?!cookie)[^\r\n\"'\\]){8,4000})",
    re.IGNORECASE,
)
_PAIR = re.compile(r"[^\s;=]{1,80}=(?P<secret>[^\s;,]{12,4000})")
_USER = re.compile(
    r"(?:-u|--user|--proxy-user)(?:\s{1,3}|=)[\"']?(?P<user>[^\s:\"'$`{]{1,100})[\"']?:[\"']?(?P<secret>[^\s\"'$`{]{3,200})"
)


def authorization(text: str, at: int) -> Iterator[Span]:
    """The credential of an Authorization header."""
    found = _AUTHORIZATION.match(text, at)
    if found and not is_placeholder(found["secret"]) and (_looks_random(found["secret"]) or is_uuid(found["secret"])):
        yield Span(*found.span("secret"), "authorization")


def bearer(text: str, at: int) -> Iterator[Span]:
    """A bearer token, wherever it is quoted."""
    found = _BEARER.match(text, at)
    if found and not is_placeholder(found["secret"]) and _looks_random(found["secret"]):
        yield Span(*found.span("secret"), "authorization")


def cookie(text: str, at: int) -> Iterator[Span]:
    """The values in a Cookie header that look random."""
    found = _COOKIE.match(text, at)
    if found:
        for pair in _PAIR.finditer(text, *found.span("pairs")):
            if _looks_random(pair["secret"]) and not is_placeholder(pair["secret"]):
                yield Span(*pair.span("secret"), "cookie")


def user_option(text: str, at: int) -> Iterator[Span]:
    """The password in `curl --user name:password`."""
    found = _USER.match(text, at)
    if found is None or "curl" not in text[max(0, at - 300) : at] or found["secret"].isdigit():
        return
    if not is_placeholder(found["secret"]) and len(set(found["secret"])) > 3:
        yield Span(*found.span("secret"), "password")


# -- named values

_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,40}$")
_ASSIGNED = re.compile(
    r"(?P<suffix>[A-Za-z0-9_.-]{0,40})"
    r"(?P<close>(?:\\{0,4}[\"'`])?\]?)"
    r"(?P<operator>[ \t]{0,12}(?::=|=>|==?|:|>)[ \t]{0,12}|,[ \t]{0,3}(?=\\{0,4}[\"'])|[ \t]{1,3}(?=\S))"
    r"(?P<open>(?:\\{0,4}[\"'`])?)"
    r"(?P<value>[^\s\"'`\\<>]{6,400})"
)
_PASSWORDS = ("password", "passwd", "passphrase", "pwd")
_SUFFIXES = re.compile(
    r"(?:[_.-]?(?:key|value|prod|production|dev|staging|test|live|base64|b64|v?\d{1,2}|token|secret))?"
)
_GLUED = re.compile(r"(?:auth|access|refresh|api|bearer|id|session|bot|user|client|db|my|app|[^a-z])$", re.IGNORECASE)
_NOT_SECRET = re.compile(
    r"(?:^|[_.-])(?:public|pub|csrf|xsrf|max|min|num|count|total|next|prev|previous|page|continuation|input|output|"
    r"prompt|completion|cached?|reasoning|start|end|stop|pad|eos|bos|special|primary|foreign|partition|sort|cursor|"
    r"idempotency|cancellation|id)(?:[_.-]|$)"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*[;,.:]*")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\].*|[\w./-]+\.[a-z]{1,5}[:;,]?|https?:.*|s3:.*|arn:.*|[\w.-]+@[\w.-]+")
_HEX = re.compile(r"(?:sha\d{1,3}[-:~])?[0-9a-f]{32,128}", re.IGNORECASE)
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,3}[\w.+-]*")


def named_value(text: str, at: int, word: str) -> Iterator[Span]:
    """A value that is assigned to a name like `password`, `api_key` or `client_secret`, if it looks like a secret."""
    found = _ASSIGNED.match(text, at + len(word))
    if found is None or not _SUFFIXES.fullmatch(found["suffix"].lower()):
        return
    prefix = _PREFIX.search(text[max(0, at - 40) : at])
    before = text[after_escape(text, at - len(prefix.group())) : at] if prefix else ""
    # `webtoken` is a word of its own, `auth_token` and `authToken` are not.
    if before and word not in _PASSWORDS and text[at].islower() and not _GLUED.search(before):
        return
    name = before + text[at : at + len(word)] + found["suffix"]
    operator, value = found["operator"], found["value"]
    left = text[at - len(before) - 1 : at - len(before)] if at > len(before) else ""
    if left == "/" or (operator.isspace() and not name.startswith("--")) or (operator[0] == "," and left not in "\"'"):
        return
    quoted = bool(found["open"].strip("\\"))
    if not quoted:
        # A quoted name with a bare value is a number or a constant in JSON, and must stay one.
        if found["close"].strip("\\"):
            return
        stops = "&,;(){}[]|" if left in tuple("?&") else ",;(){}[]|"
        value = value[: min((place for place in map(value.find, stops) if place >= 0), default=len(value))]
    # A value with the same assignment in it is code or prose, and a long row of such is not worth a second look.
    if (
        (word in value.lower() and ("=" in value or ":" in value))
        or _NOT_SECRET.search(_snake(name))
        or not _is_secret_value(value, word, operator, quoted)
    ):
        return
    start = found.start("value")
    yield Span(start, start + len(value), "password" if word in _PASSWORDS else "secret")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_secret_value(value: str, word: str, operator: str, quoted: bool) -> bool:
    if is_placeholder(value) or is_uuid(value) or _PATH.fullmatch(value) or _VERSION.fullmatch(value):
        return False
    if word in _PASSWORDS:
        return _is_password(value, operator, quoted)
    if len(value) < 12 or not _looks_random(value):
        return False
    if _HEX.fullmatch(value):
        return word != "token"
    if operator.startswith(","):
        quoted = False
    if quoted or not _CODE.fullmatch(value):
        return True
    return any(entropy(part) >= 3.6 and sum(c.isdigit() for c in part) >= 2 for part in value.split("."))


def _is_password(value: str, operator: str, quoted: bool) -> bool:
    """Passwords are short and made by people: letters with digits or signs, and not a name of something."""
    if len(value) < 8 or value.isdigit():
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    signs = any(not c.isalnum() and c not in "_.-:/" for c in value)
    if not (mixed or signs):
        return False
    if quoted:
        return True
    if operator.strip() and operator.strip() != operator and not signs and not operator.startswith(":"):
        return False  # `password = value1` is code; NAME=value and --name value are not
    return not _CODE.fullmatch(value) or sum(c.isdigit() for c in value) >= 2


def _looks_random(value: str) -> bool:
    """Whether a value is of letters and digits mixed, too irregular to be words."""
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not letters:
        return False
    if digits == 0:
        upper = sum(c.isupper() for c in value)
        return len(value) >= 24 and 3 <= upper <= letters - 3 and entropy(value) >= 4.0 and "-" not in value
    return entropy(value) >= (3.0 if len(value) >= 20 else 2.8)
