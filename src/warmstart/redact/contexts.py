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
    r"(?:(?P<user>[^\s/?#:\"'`<>\\|]{0,120}):(?P<password>[^\s/?#\"'`<>\\|]{1,200})|(?P<token>[^\s/?#:@\"'`<>\\|]{20,200}))"
    r"@(?P<host>[^\s/?#\"'`<>\\|@,;)\]}]{1,200})"
)
_REST = re.compile(r"[^\s\"'`<>\\|;)\]}]{0,500}")
_SCHEME_BACK = 31
_WEB = {"http", "https", "ftp", "ftps", "sftp", "ssh", "git", "git+https", "git+http", "svn", "ws", "wss", "socks5"}
_TEMPLATE = re.compile(r"[{}<>\[\]]|\$(?=[A-Za-z_(])|%(?![0-9A-Fa-f]{2})|\*{2}|x{3}|X{3}|\.\.\.")


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
    r"(?:[a-z][a-z0-9-]{1,20}\s{1,3})?(?P<secret>[A-Za-z0-9_~+/.=|-]{8,4000})",
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
    if found is None or is_placeholder(found["secret"]) or text.startswith("(", found.end()):
        return
    if _looks_random(found["secret"]) or is_uuid(found["secret"]):
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
    r"(?P<close>(?:\\{0,4}[\"'`])?\]?)(?:[ \t]?:?[ \t](?:string|str|String)(?=[ \t]?=))?"
    r"(?P<operator>[ \t]{0,12}(?::=|=>|[!=]==?|=|:|>)(?:[ \t]{0,12}|\r?\n[ \t]{0,12}(?=[\"'`]))"
    r"|[ \t]{0,2},[ \t]{0,12}(?=\\{0,4}[\"'])|[ \t]{1,3}(?:- |is )?(?=\S))"
    r"(?P<open>(?:\\{0,4}[\"'`])?)"
    r"(?P<value>[^\s\"'`\\<>]{1,400})"
)
_VALUE_MAX = 400
_NO_ASSIGNMENT = re.compile(r"[ \t]+(?:- |is )?")
# What is in quotes goes up to the closing quote, whatever signs it has; never past a double quote, for JSON's sake.
_QUOTED = {quote: re.compile(rf"(?:[^\s\"\\{quote}]|\\{{1,2}}[^\s\w\"'`\\]){{6,4000}}(?={quote})") for quote in "\"'`"}
_SPACED = {quote: re.compile(rf"[^\r\n\"\\{quote}]{{32,200}}(?={quote})") for quote in "\"'`"}
_REST_OF_VALUE = re.compile(r"[^\s\"'`\\<>,;(){}\[\]|&]{0,8000}")
_ELEMENT = re.compile(r"[^<\"]{0,400}(?=</)")
_WORD = re.compile(r"[^\s{}()\[\]<>,;\"'`\\]{16,400}")
_STATEMENT = re.compile(r"\b(?:login|user|role|machine|define)\b", re.IGNORECASE)
_NETRC = re.compile(r"\b(?:login|machine)\s+\S+\s+$")
_PASSWORDS = ("password", "passwd", "passphrase", "pwd", "pswd", "pass", "pw", "identified by")
_COMMON = ("key", "auth", "salt")  # words that name many other things, too
_SUFFIXES = re.compile(
    r"s?(?:[_.-]?(?:key|value|prod|production|dev|staging|test|live|base64|b64|v?\d{1,2}|token|secret))?"
)
_GLUED = re.compile(r"(?:auth|access|refresh|api|bearer|id|session|bot|user|client|db|my|app|[^a-z])$", re.IGNORECASE)
_NOT_SECRET = re.compile(
    r"(?:^|[_.-])(?:public|pub|csrf|xsrf|max|min|num|count|total|next|prev|previous|page|continuation|input|output|"
    r"prompt|completion|cached?|reasoning|start|end|stop|pad|eos|bos|special|primary|foreign|partition|sort|cursor|"
    r"idempotency|cancellation|id)(?:[_.-]|$)"
)
_NOT_KEY = re.compile(
    r"(?:^|[_.-])(?:cache|object|row|dict|map|lookup|group|hash|ssh|host|node|item|index|s3|file|bucket|dedupe?|event|"
    r"routing|message|image|storage|query|config|state|react|thread|gpg|pgp|signature|translation|sha\d*|md5)(?:[_.-]|$)"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*[;,.:]*")
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\].*|[\w./-]+\.[a-z]{1,5}[:;,]?|[a-z0-9+]{2,12}://.*|https?:.*|arn:.*|[\w.-]+@[\w.-]+"
)
_SNAKE = re.compile(r"[A-Za-z]{3,30}_[A-Za-z]{3,30}_[A-Za-z]{3}|_[a-z]{1,20}\d{1,4}_[a-z]{4,30}$")
_NO_PASSWORD = re.compile(  # a selector, a reference, a name; an algorithm or an encoding
    r"[#.&@]?[A-Za-z_-]+[:;,]?|(?:sha|md|aes|utf|base|rsa|bcrypt|argon|pbkdf|hmac|oauth|iso|latin|type)-?\d\w*",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]{4,}[-_./:][A-Za-z]{3,}|[(:/]{2}|\.\w{1,4}$")
_TOKEN = re.compile(r"(?:[A-Za-z0-9+/=_.~:@!|-]|%[0-9A-Fa-f]{2})+")
_HEX = re.compile(r"(?:sha\d{1,3}[-:~])?[0-9a-f]{32,128}", re.IGNORECASE)
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,3}[\w.+-]*")


def named_value(text: str, at: int, word: str) -> Iterator[Span]:
    """A value that is assigned to a name like `password`, `api_key` or `client_secret`, if it looks like a secret."""
    found = _ASSIGNED.match(text, at + len(word))
    if found is None:
        return
    prefix = _PREFIX.search(text[max(0, at - 40) : at])
    before = text[after_escape(text, at - len(prefix.group())) : at] if prefix else ""
    name = before + text[at : at + len(word)] + found["suffix"]
    left = text[at - len(before) - 1 : at - len(before)] if at > len(before) else ""
    operator, start = found["operator"], found.start("value")
    if left == "/" or (operator.lstrip().startswith(",") and left not in tuple("\"'")):
        return
    if not _names_secret(name, len(before), word, found["suffix"].lower()):
        return
    kind = "password" if word in _PASSWORDS else "secret"
    if operator.strip() == ">" and not found["open"] and (words := _words_of_element(text, start)):
        yield from (Span(*each, kind) for each in words)
        return
    value = _in_quotes(text, start, found) if found["open"] else _bare(text, start, found, left, kind)
    # A value with the same assignment in it is code or prose, and a long row of such is not worth a second look.
    if word in value.lower() and ("=" in value or ":" in value):
        return
    if _NO_ASSIGNMENT.fullmatch(operator):
        # Only what can be nothing else, and passwords in commands, statements and sentences.
        stated = kind == "password" and _is_stated(text[max(0, at - 120) : at], word, found, value)
        if not (stated or name.startswith("-") or _is_random(value, 20)):
            return
    if _is_secret_value(value, word, name, operator, bool(found["open"])):
        # What was too long to be read at once is read to its end.
        rest = _REST_OF_VALUE.match(text, start + len(value)) if len(value) == _VALUE_MAX else None
        yield Span(start, rest.end() if rest else start + len(value), kind)


def _names_secret(name: str, at: int, word: str, suffix: str) -> bool:
    """Whether a name, in which this word stands at this place, is one of a secret."""
    if not _SUFFIXES.fullmatch(suffix) and (word, suffix) != ("secret", "_id"):
        return False
    # `webtoken` and `bypass` are words of their own, `auth_token`, `authToken` and `db_pass` are not.
    whole = word in _COMMON or (word in _PASSWORDS and len(word) > 4)
    if at and not whole and name[at].islower() and not _GLUED.search(name[:at]):
        return False
    snake = _snake(name)
    return not _NOT_SECRET.search(snake) and not (word in _COMMON and _NOT_KEY.search(snake))


def _words_of_element(text: str, start: int) -> list[tuple[int, int]]:
    """The words that look random in an XML element of several words."""
    element = _ELEMENT.match(text, start)
    if element is None or " " not in element.group():
        return []
    words = _WORD.finditer(text, *element.span())
    found = [each for each in words if is_uuid(each.group()) or _is_random(each.group(), 16)]
    return [(after_escape(text, each.start()), each.end()) for each in found]


def _bare(text: str, start: int, found: re.Match[str], left: str, kind: str) -> str:
    """A value without quotes; nothing if it is code."""
    # A quoted name with a bare value is a number or a constant in JSON, and must stay one.
    if found["close"].strip("\\"):
        return ""
    value = found["value"]
    stops = "&,;(){}[]|" if left in tuple("?&") else ",;(){}[]|"
    value = value[: min((place for place in map(value.find, stops) if place >= 0), default=len(value))]
    if kind == "secret" and value.endswith((".", ":")) and not value.endswith(".."):
        value = value[:-1]
    if text.startswith("(", start + len(value)) and _CODE.fullmatch(value):
        return ""
    return value


def _in_quotes(text: str, start: int, found: re.Match[str]) -> str:
    """A value in quotes; up to the closing quote if it could be one secret, otherwise its first word."""
    quote, value = found["open"], found["value"]
    if value[0] in ",;:)}]+=|":  # the quote was a closing one
        return ""
    if len(quote) == 1:
        whole = _QUOTED[quote].match(text, start) or _SPACED[quote].match(text, start)
        if whole and (" " not in whole.group() or _is_noise(whole.group())):
            return whole.group()
    return value


def _is_stated(before: str, word: str, found: re.Match[str], value: str) -> bool:
    """Whether `password VALUE` or `password is VALUE` says a password, after this text."""
    if found["operator"].endswith("is "):
        return len(value) >= 8 and bool(re.search(r"[a-z].*\d|\d.*[a-z]", value) and re.search(r"[A-Z\W]", value[:-1]))
    return word == "identified by" or bool(_STATEMENT.search(before) if found["open"] else _NETRC.search(before))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _is_secret_value(value: str, word: str, name: str, operator: str, quoted: bool) -> bool:
    if len(value) < 6 or (name.lower().endswith(word + "s") and not _is_random(value, 20)):
        return False
    if _is_noise(value):
        return True
    code = _CODE.fullmatch(value) and (not quoted or operator.lstrip().startswith(",")) and not _is_mixed(value)
    if is_placeholder(value) or _VERSION.fullmatch(value) or (_PATH.fullmatch(value) and not _is_base64(value)):
        return False
    if word not in (*_PASSWORDS, "secret") and not _TOKEN.fullmatch(value):
        return False
    if word in _COMMON:
        return value.count("-") < 2 and _is_random(value, 20) and not code
    if is_uuid(value):
        return "client" not in name.lower() or word != "token"  # of Amazon, and made by the caller
    if word in _PASSWORDS:
        return _is_password(value, operator, quoted)
    return len(value) >= 12 and _looks_random(value) and (not code or bool(_HEX.fullmatch(value)))


def _is_noise(value: str) -> bool:
    """Whether a value is of letters, digits and many signs, as generated keys and salts are."""
    signs = sum(not c.isalnum() and c not in " _.-/" for c in value)
    return len(value) >= 32 and signs * 6 >= len(value) > value.count(" ") * 10 and entropy(value) >= 4.2


def _is_mixed(value: str) -> bool:
    """Whether a name has a part that no one would write."""
    return any(
        sum(c.isdigit() for c in part) >= 2 and entropy(part) >= 3.6 and not _SNAKE.search(part)
        for part in value.split(".")
    )


def _is_random(value: str, length: int) -> bool:
    """Whether a value can hardly be anything but a secret, wherever it stands."""
    if len(value) < length or is_placeholder(value) or is_uuid(value) or _PATH.fullmatch(value):
        return False
    digits = sum(c.isdigit() for c in value)
    return digits >= 3 and sum(c.isalpha() for c in value) >= 3 and entropy(value) >= 3.0 and not _WORDS.search(value)


def _is_base64(value: str) -> bool:
    """Whether a value with slashes is a key in base64 and no path."""
    if not re.fullmatch(r"[A-Za-z0-9+/]{40,}={0,2}", value) or entropy(value) < 4.3:
        return False
    return any(len(part) >= 10 and re.search(r"[a-z]\d|\d[a-z]", part) for part in re.split(r"[+/]", value))


def _is_password(value: str, operator: str, quoted: bool) -> bool:
    """Passwords are short and made by people: letters with digits or signs, and not a name of something."""
    if value.isdigit() or not any(c.isalnum() for c in value) or _NO_PASSWORD.fullmatch(value):
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    signs = any(not c.isalnum() and c not in "_.-:/" for c in value)
    if not (mixed or signs) or (len(value) < 8 and not mixed):
        return False
    if quoted:
        return True
    if operator.strip() and operator.strip() != operator and not signs and not operator.startswith(":"):
        return False  # `password = value1` is code; NAME=value and --name value are not
    if operator == ":" and re.search(r"[A-Za-z]\d[A-Za-z]", value):
        return True  # in notes; code has a space there
    return not _CODE.fullmatch(value) or sum(c.isdigit() for c in value) >= 2


def _looks_random(value: str) -> bool:
    """Whether a value is of letters and digits mixed, too irregular to be words."""
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not letters:
        return False
    if digits == 0:
        upper = sum(c.isupper() for c in value)
        # In camel case a word has more than three letters.
        jumbled = len(re.findall(r"[A-Z](?=[^A-Z]|$)|[A-Z]{3}", value)) * 4 > letters and upper * 3 > letters
        return (
            len(value) >= (16 if jumbled else 24)
            and 3 <= upper <= letters - 3
            and entropy(value) >= (3.2 if jumbled else 4.0)
            and "-" not in value
        )
    return entropy(value) >= (3.0 if len(value) >= 20 else 2.8)
