"""The dates in a query, as spans of days.

Absolute: `on 7 May 2023`, `May 7, 2023`, `in March`, `2026-09-01`, `summer 2025`, `in 2024`. Relative to today:
`yesterday`, `last week`, `three days ago`, `this month`, `last Monday`. A month without a year means that month in
every year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from math import exp
from typing import NamedTuple

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = {name: number for number, name in enumerate(_MONTHS, 1)}
_SHORT = {name[:3]: number for name, number in _MONTH.items() if name not in ("may", "march")} | {"sept": 9}
_SEASON = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_DAYS_AGO = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}
_NUMBER = {word: number for number, word in enumerate(_NUMBERS, 1)} | {"a": 1, "an": 1, "couple": 2, "few": 3}

# Patterns are compiled on first use: compiling these takes as long as a search, and few queries have a date.
# Names are matched as ASCII: otherwise a long s would match an s, and the name would not be in the tables above.
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\b"
_ISO = r"\b(20\d\d)-(\d\d)(?:-(\d\d))?\b"
_NAMED = rf"(?i)\b(?:{_DAY}(?: of)? )?((?a:{'|'.join([*_MONTHS, *_SHORT])}))\b\.?(?:,? {_DAY}(?!\d))?(?:,? (20\d\d)\b)?"
_SEASONS = r"(?i)\b((?a:spring|summer|autumn|fall|winter))(?: of)?(?: (20\d\d)\b)?"
_YEAR = r"\b(20[012]\d)\b"
_BEFORE_A_MONTH = r"(?i)\b(?:in|of|since|until|during|last|by|early|late|mid)[ -]$"
_RELATIVE = (
    rf"(?i)\b(?:((?a:today|tonight|this morning|this afternoon|{'|'.join(_DAYS_AGO)}))"
    rf"|(last|this|past|previous) (week|month|year|weekend|{'|'.join(_WEEKDAYS)})"
    rf"|(\d{{1,3}}|a couple of|a few|an?|{'|'.join(_NUMBER)}) (day|week|month|year)s? ago)\b"
)

# Days after and before a span within which closeness falls to 1/e: people talk about events afterwards, rarely before.
_AFTER, _BEFORE = 7.0, 2.0
_REACH = 4.7  # e^-4.7 is a hundredth


class Span(NamedTuple):
    """The days from the first to the last, inclusive."""

    first: date
    last: date

    @property
    def reach(self) -> Span:
        """The days that are close enough to matter."""
        return Span(_shift(self.first, -round(_REACH * _BEFORE)), _shift(self.last, round(_REACH * _AFTER)))

    @property
    def days(self) -> Iterator[date]:
        for number in range(self.first.toordinal(), self.last.toordinal() + 1):
            yield date.fromordinal(number)

    def closeness(self, day: date) -> float:
        """1 within the span, falling towards 0 with distance in days."""
        if day < self.first:
            return exp(-(self.first - day).days / _BEFORE)
        return exp(-max(0, (day - self.last).days) / _AFTER)


def find_spans(text: str, today: date, years: range) -> list[Span]:
    """The spans that a text mentions; a month without a year means that month in each of `years`."""
    return list(dict.fromkeys([*_absolute(text, years), *_relative(text, today)]))


def _absolute(text: str, years: range) -> Iterator[Span]:
    any_found = False
    for found in re.finditer(_ISO, text):
        any_found = True
        yield from _month_or_day(range(int(found[1]), int(found[1]) + 1), int(found[2]), int(found[3] or 0))
    for found in re.finditer(_NAMED, text):
        if _is_month(text, found):
            any_found = True
            name = found[2].lower()
            month = _MONTH.get(name) or _SHORT[name]
            yield from _month_or_day(_years(found[4], years), month, int(found[1] or found[3] or 0))
    if any_found:
        return
    for found in re.finditer(_SEASONS, text):
        if found[1].lower() != "fall" or found[2]:
            any_found = True
            month = _SEASON[found[1].lower()]
            for year in _years(found[2], years):
                yield Span(date(year, month, 1), _end_of_month(year + (month > 10), (month + 1) % 12 + 1))
    if not any_found:
        for found in re.finditer(_YEAR, text):
            yield Span(date(int(found[1]), 1, 1), date(int(found[1]), 12, 31))


def _is_month(text: str, found: re.Match[str]) -> bool:
    """`may` and `march` are also verbs."""
    name = found[2]
    if name.lower() not in ("may", "march"):
        return True
    if not name[0].isupper():
        return False
    stated = found[1] or found[3] or found[4]
    return name.lower() == "march" or bool(stated or re.search(_BEFORE_A_MONTH, text[: found.start()]))


def _years(stated: str | None, years: range) -> range:
    return range(int(stated), int(stated) + 1) if stated else years


def _month_or_day(years: range, month: int, day: int) -> Iterator[Span]:
    for year in years:
        try:
            first = date(year, month, day or 1)
        except ValueError:  # 2026-13, or 30 February
            continue
        yield Span(first, first if day else _end_of_month(year, month))


def _end_of_month(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)


def _relative(text: str, today: date) -> Iterator[Span]:
    for found in re.finditer(_RELATIVE, text):
        day, which, unit, number, ago = found.groups()
        if day:
            yield _days_ago(today, _DAYS_AGO.get(day.lower(), 0))
        elif which:
            yield _last_or_this(today, unit.lower(), this=which.lower() == "this")
        else:
            yield _ago(today, _count(number.lower()), ago.lower())


def _last_or_this(today: date, unit: str, *, this: bool) -> Span:
    monday = today - timedelta(days=today.weekday())
    if unit in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(unit)) % 7
        return _days_ago(today, back if this or back else 7)
    if unit == "week":
        return Span(monday, today) if this else Span(monday - timedelta(days=7), monday - timedelta(days=1))
    if unit == "weekend":
        return Span(monday - timedelta(days=2), monday - timedelta(days=1))
    if unit == "month":
        first = today.replace(day=1)
        before = first - timedelta(days=1)
        return Span(first, today) if this else Span(before.replace(day=1), before)
    year = today.year - (not this)
    return Span(date(year, 1, 1), date(year, 12, 31))


def _ago(today: date, count: int, unit: str) -> Span:
    """`three weeks ago` is vague: the larger the unit, the longer the span."""
    days, slack = {"day": (1, 0), "week": (7, 3), "month": (30, 15), "year": (365, 180)}[unit]
    return Span(_shift(today, -count * days - slack), _shift(today, -count * days + slack))


def _count(number: str) -> int:
    if number.isdigit():
        return int(number)
    return next((_NUMBER[word] for word in reversed(number.split()) if word in _NUMBER), 1)


def _days_ago(today: date, days: int) -> Span:
    day = _shift(today, -days)
    return Span(day, day)


def _shift(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return date.max if days > 0 else date.min
