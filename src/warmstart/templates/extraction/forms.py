"""Values that are known by their shape alone: addresses, dates, amounts, hashes and ids, in any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from warmstart.templates.extraction.listed import listed

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)(?:[a-z]{1,6})?"
_KINDS = (
    "credit_card|gift_card|debit_card|certificate|paypal|order|user|customer|account|invoice|reservation|booking|ticket"
    "|payment|transaction|txn|item|product|session|voucher|member|employee|cus|pi|sub|req|msg|call|toolu|resp|acct"
)
_FORMS = re.compile(
    r"(?P<kept>\{\{\w{1,60}\}\}|\[redacted:[^\]\n]{1,80}\])"
    r"|(?P<url>\b(?:https?|wss?|ftp)://(?:\[redacted:[^\]\n]{1,80}\]|[^\s\"'<>)\]}`\\]){3,2000})"
    r"|(?P<email>[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}\b)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<datetime>\b(?:19|20)\d\d-[01]\d-[0-3]\d[T ][0-2]\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<date>\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-3]?\d[./][0-3]?\d[./](?:19|20)\d\d\b"
    rf"|\b{_MONTH}\.? {{1,2}}[0-3]?\d(?:st|nd|rd|th)?\b(?!:)(?:,? (?:19|20)\d\d\b)?"
    rf"|\b[0-3]?\d(?:st|nd|rd|th)? (?:of )?{_MONTH}\b(?:,? (?:19|20)\d\d\b)?)"
    r"|(?P<time>(?<![\w:.\-])[0-2]?\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\+\d)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?![\w:]))"
    r"|(?P<amount>[$€£]\s?\d[\d,]*(?:\.\d+)?\b|\b\d[\d,]*(?:\.\d+)? ?(?:USD|EUR|GBP|dollars|euros)\b)"
    r"|(?P<ip>(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w.]))"
    rf"|(?P<kind>\b(?P<prefix>{_KINDS})_(?=[A-Za-z]*\d)[A-Za-z0-9]{{4,64}}\b)"
    r"|(?P<order_id>(?<!\w)#[A-Z]{0,3}\d{5,}\b)"
    r"|(?P<phone>(?<![\w+.-])\+[1-9]\d{0,2}(?:[ .()-]{0,2}\d{2,4}){2,5}\b"
    r"|(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}\b)"
    r"|(?P<home>(?:/Users/|/home/)(?!\{\{)[A-Za-z0-9][\w.-]{0,40}|\\Users\\[A-Za-z0-9][\w.-]{0,40})"
    r"|(?P<hash>\b(?=[0-9a-f]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b)"
    r"|(?P<last_four>(?:(?<=ending in )|(?<=ending with )|(?<=ends in )|(?<=ends with )|(?<=last four digits ))\d{4}\b)"
    r"|(?P<number>(?<![\w.#])\d{7,}(?![\w]|\.\d))"
)
_NOBODY = listed("shared public default runner user root ubuntu linuxbrew app")
_URL_ID = re.compile(r"(?<=[/=])(?:\d{4,}|(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{10,}|[0-9a-f]{7,64})(?=[/?&#.]|$)")
_QUERY = re.compile(r"(?<==)[^&#]{6,}")
_HOST = re.compile(r"\w+://(?:[^/?#@]*@)?([^/:?#]*)")
_LOCAL = listed("localhost 127.0.0.1 0.0.0.0 [")


def forms(text: str, is_named: Callable[[str], bool] = lambda host: True) -> Iterator[tuple[int, int, str, str]]:
    """What is known by its shape: start, end, type, and the value by which it is counted; `kept` stays as it is.

    Of an address whose host `is_named` does not know, nothing stays.
    """
    for found in _FORMS.finditer(text):
        name = found.lastgroup or ""
        if name == "prefix" or found["kind"]:
            yield *found.span("kind"), _of_kind(found["prefix"]), found["kind"].lower()
        elif name == "url":
            if _is_foreign(found[0], is_named):
                yield *found.span(), "url", found[0].lower()
            else:
                yield from _in_url(found.start(), found[0])
        elif name == "home":
            user = re.split(r"[/\\]", found[0])[-1]
            if user.lower() not in _NOBODY:
                yield found.end() - len(user), found.end(), "user", user.lower()
        else:
            yield *found.span(), name, found[0].lower()


def _is_foreign(url: str, is_named: Callable[[str], bool]) -> bool:
    host = found[1].lower() if (found := _HOST.match(url)) else ""
    return host not in _LOCAL and not is_named(host.removeprefix("www."))


def _of_kind(prefix: str) -> str:
    return f"{prefix}_id"


def _in_url(start: int, url: str) -> Iterator[tuple[int, int, str, str]]:
    """The ids and tokens in an address; nothing else in it is looked at."""
    path = url.find("/", 8)
    query = url.find("?", 8)
    for found in _URL_ID.finditer(url, path if path > 0 else len(url), query if query > 0 else len(url)):
        yield start + found.start(), start + found.end(), "id", found[0].lower()
    if query > 0:
        for found in _QUERY.finditer(url, query):
            yield start + found.start(), start + found.end(), "value", found[0].lower()
