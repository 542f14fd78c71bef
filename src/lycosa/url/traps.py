"""Trap rules by URL: unbounded URL spaces that can be recognised without fetching. Pure; rules that
need pages are in `lycosa.frontier.traps.detector`.

The rules avoid URLs that ordinary sites may have: dates need a month, numbers and short segments
may repeat, session IDs must look like one.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from enum import StrEnum
from typing import Final, Literal

from xxhash import xxh3_64_intdigest

from lycosa.config.settings import Collection
from lycosa.core.messages import Message
from lycosa.core.patterns import lazy_pattern
from lycosa.url.rules import Rules
from lycosa.url.schemes import path_start

MAX_SEGMENTS = 20
"""Path segments. Paths of hand-made sites have up to 12; Heritrix stops at the same number."""

MAX_PARAMETERS = 30
"""Query parameters. Long search forms send 20."""

MAX_SAME_NAME = 10
"""Times that one parameter may be given: a list of choices."""

YEARS_AHEAD = 2
_OLDEST_YEAR = 1990  # earlier dates at the end of a path or in a query are those of a calendar
_MAX_SAME_SEGMENT = 2
# of numbers and short names: /2011/11/11/11/ is a date with an hour, /pool/a/a/ a shelf
_MAX_SAME_SHORT = 5
_SHORT = 2
# a.php/b.html is path info; a third page in a path is a relative link that grows
_MAX_PAGE_SEGMENTS = 2
_MAX_SAME_PAIR = 2
_MAX_MARKS = 2  # `?` inside a query: a URL as a value has one
# /2031/05/ is a month only near today; farther off it is rather a number and a page of it
_YEARS_OF_PAIRS = 100


class TrapRule(StrEnum):
    """Trap rules. Counted per host by these names."""

    REPEATED_SEGMENTS = "repeated_segments"
    RELATIVE_LOOP = "relative_loop"
    MANY_SEGMENTS = "many_segments"
    SESSION_ID = "session_id"
    MANY_PARAMETERS = "many_parameters"
    REPEATED_PARAMETER = "repeated_parameter"
    QUERY_PERMUTATION = "query_permutation"  # reported by the caller, who has the signatures
    ESCAPE_LOOP = "escape_loop"
    CALENDAR = "calendar"


_EXPLAINED: Final = {
    TrapRule.REPEATED_SEGMENTS: Message(
        "trap_repeated_segments",
        "a path segment occurs more than {n} times, or a sequence of path segments repeats",
        n=_MAX_SAME_SEGMENT,
    ),
    TrapRule.RELATIVE_LOOP: Message(
        "trap_relative_loop", "the URL looks like relative links appended to one another"
    ),
    TrapRule.MANY_SEGMENTS: Message(
        "trap_many_segments", "the path has more than {n} segments", n=MAX_SEGMENTS
    ),
    TrapRule.SESSION_ID: Message(
        "trap_session_id", "the URL contains a session ID; the URL without it is used instead"
    ),
    TrapRule.MANY_PARAMETERS: Message(
        "trap_many_parameters", "the query has more than {n} parameters", n=MAX_PARAMETERS
    ),
    TrapRule.REPEATED_PARAMETER: Message(
        "trap_repeated_parameter",
        "a query parameter occurs more than {n} times with the same value, or more than {all} "
        "times in total",
        n=_MAX_SAME_PAIR,
        all=MAX_SAME_NAME,
    ),
    TrapRule.QUERY_PERMUTATION: Message(
        "trap_query_permutation",
        "a URL with the same query parameters in another order is already known",
    ),
    TrapRule.ESCAPE_LOOP: Message(
        "trap_escape_loop", "part of the URL is escaped three times or more"
    ),
    TrapRule.CALENDAR: Message(
        "trap_calendar",
        "a date more than {years} years ahead or before {oldest}: probably an endless calendar",
        years=YEARS_AHEAD,
        oldest=str(_OLDEST_YEAR),
    ),
}


def explain(rule: TrapRule) -> Message:
    """Return the explanation of a rule: one clause."""
    return _EXPLAINED[rule]


_PAGE_SEGMENT = lazy_pattern(
    r"\.(?:html?|xhtml|php\d?|aspx?|jspx?|cgi|cfm|do)(?=/|$)", re.IGNORECASE
)
_PATH_DATE = lazy_pattern(r"/([1-9]\d{3})([/-])(\d\d?)(?:\2(\d\d?))?(?=/|$)")
_CALENDAR_WORD = lazy_pattern(
    r"calend|kalend|event|agenda|archiv|schedul|diary|/cal/|/date/|/day/|/month/|/week/|/daily/"
    r"|/monthly/|termin",
    re.IGNORECASE,
)
_QUERY_FOUR_DIGITS = lazy_pattern(r"=[1-9]\d{3}")  # beginning of all forms of a date in a query
_QUERY_DATE = lazy_pattern(r"=([1-9]\d{3})-(\d\d?)(?:-(\d\d?))?(?=&|T|%|\+|$)")
_QUERY_DIGITS = lazy_pattern(
    r"(?:^|&)[a-z_\-.]*(?:date|day|month|cal|start|from|end|to|when|datum"
    r"|fecha)=([1-9]\d{3})(\d\d)(\d\d)?(?=&|T|$)",
    re.IGNORECASE,
)
_QUERY_YEAR = lazy_pattern(
    r"(?:^|&)[a-z_\-.]*(?:year|yr|jahr|annee|anno|ano)=([1-9]\d{3})(?=&|$)|(?:^"
    r"|&)y=([1-9]\d{3})(?=&|$)",
    re.IGNORECASE,
)
_QUERY_MONTH = lazy_pattern(
    r"(?:^|&)(?:[a-z_\-.]*(?:month|mon|monat|mois|mes|mese)|m|mo)=(\d\d?)(?=&|$)", re.IGNORECASE
)
_SESSION_HINT = lazy_pattern(r"sid|sess|cfid|cftoken|zenid", re.IGNORECASE)
_SESSION_FOLDER = lazy_pattern(
    r"/(?:sid|sess|session|session_?id)[-_=.:~]?[0-9a-f]{16,}(?=/|$)", re.IGNORECASE
)
_sessions = Rules(Collection(drop_session_ids=True))


def trap(url: str, today: date) -> TrapRule | Literal[""]:
    """Return the rule by which a normalised URL is a trap, "" for none. Hot path.

    `today`: the date to which dates of calendars are compared.
    """
    start = path_start(url)
    if start < 0:
        return ""
    mark = url.find("?", start)
    path = url[start:] if mark < 0 else url[start:mark]
    segments = path[1:].split("/")
    count = len(segments)
    if count > 2:
        if count > MAX_SEGMENTS + (not segments[-1]) and (
            count > 2 * MAX_SEGMENTS or "/http" not in path
        ):
            return (
                TrapRule.MANY_SEGMENTS
            )  # a path may contain another URL, with as many segments again
        if len(set(segments)) < count and _repeats(segments):
            return TrapRule.REPEATED_SEGMENTS
        if (
            path.count(".") > _MAX_PAGE_SEGMENTS
            and len(_PAGE_SEGMENT.findall(path)) > _MAX_PAGE_SEGMENTS
        ) or segments.count(url[url.index("//") + 2 : start]) > 1:
            return TrapRule.RELATIVE_LOOP
    if "%252525" in url or "amp;amp;amp;" in url or "amp%3Bamp%3Bamp%3B" in url:
        return TrapRule.ESCAPE_LOOP
    if ("/s" in path and _SESSION_FOLDER.search(path)) or (
        (";" in path or "/(" in path) and _sessions.apply(url) != url
    ):
        return TrapRule.SESSION_ID
    if (
        count > 1
        and (date_match := _PATH_DATE.search(path))
        and _path_calendar(path, date_match, today)
    ):
        return TrapRule.CALENDAR
    return _query_trap(url, url[mark + 1 :], today) if mark >= 0 else ""


def _query_trap(url: str, query: str, today: date) -> TrapRule | Literal[""]:
    parameters = query.split("&")
    if len(parameters) > MAX_PARAMETERS:
        return TrapRule.MANY_PARAMETERS
    if query.count("?") > _MAX_MARKS:
        return TrapRule.RELATIVE_LOOP
    if len(parameters) > _MAX_SAME_PAIR:
        if (
            len(set(parameters)) < len(parameters)
            and max(Counter(filter(None, parameters)).values(), default=0) > _MAX_SAME_PAIR
        ):
            return TrapRule.REPEATED_PARAMETER
        if len(parameters) > MAX_SAME_NAME:
            names = Counter(parameter.partition("=")[0] for parameter in parameters)
            if max(names.values()) > MAX_SAME_NAME:
                return TrapRule.REPEATED_PARAMETER
    if _SESSION_HINT.search(query) and _sessions.apply(url) != url:
        return TrapRule.SESSION_ID
    if _query_calendar(query, today):
        return TrapRule.CALENDAR
    return ""


def _repeats(segments: list[str]) -> bool:
    """Return whether a segment occurs too often, or a run of segments repeats (a/b/a/b; three times
    if the segments are short).
    """
    for segment, times in Counter(segments).items():
        if times > (_MAX_SAME_SEGMENT if _is_name(segment) else _MAX_SAME_SHORT):
            return True
    for length in range(2, len(segments) // 2 + 1):
        for begin in range(len(segments) - 2 * length + 1):
            middle, end = begin + length, begin + 2 * length
            run = segments[begin:middle]
            if run != segments[middle:end]:
                continue
            if sum(map(_is_name, run)) > 1 or (
                len(set(run)) > 1 and run == segments[end : end + length]
            ):
                return True
    return False


def _is_name(segment: str) -> bool:
    return len(segment) > _SHORT and not segment.isdigit()


def _path_calendar(path: str, match: re.Match[str], today: date) -> bool:
    """Return whether a date in a path is that of a calendar. /YYYY/MM/ counts only with a word for
    calendars and a date near today: /topic/1950/12/ may be page twelve of a topic.
    """
    year = int(match[1])
    if _OLDEST_YEAR <= year < today.year + YEARS_AHEAD:
        return False
    month, day = int(match[3]), match[4]
    if not _is_date(month, day):
        return False
    ends = match.end() >= len(path) - 1
    if day is None and (
        len(match[3]) < 2
        or abs(year - today.year) > _YEARS_OF_PAIRS
        or not _CALENDAR_WORD.search(path)
    ):
        return False
    return _is_ahead(year, month, today) or (year < _OLDEST_YEAR and ends)


def _query_calendar(query: str, today: date) -> bool:
    if not _QUERY_FOUR_DIGITS.search(query):
        return False
    for pattern in (_QUERY_DATE, _QUERY_DIGITS):
        for year, month, day in pattern.findall(query):
            if _is_date(int(month), day or None) and (
                _is_ahead(int(year), int(month), today) or int(year) < _OLDEST_YEAR
            ):
                return True
    months = _QUERY_MONTH.search(query)
    if months is None or not 0 <= int(months[1]) <= 12:  # some calendars count months from 0
        return False
    years = _QUERY_YEAR.search(query)
    if years is None:
        return False
    year = int(years[1] or years[2])
    return _is_ahead(year, int(months[1]), today) or year < _OLDEST_YEAR


def _is_date(month: int, day: str | None) -> bool:
    return 1 <= month <= 12 and (day is None or 1 <= int(day) <= 31)


def _is_ahead(year: int, month: int, today: date) -> bool:
    return (year, month) > (today.year + YEARS_AHEAD, today.month)


def without_session(url: str) -> str:
    """Return the URL without its session ID, to be fetched instead."""
    start = path_start(url)
    path, mark, query = url[max(start, 0) :].partition("?")
    return (
        _sessions.apply(f"{url[:start]}{_SESSION_FOLDER.sub('', path) or '/'}{mark}{query}")
        if start >= 0
        else url
    )


def query_signature(url: str) -> int:
    """Return a 64-bit key that is equal for all orders of the parameters of a query; 0 if there is
    only one order.

    Parameters of one name keep their order, and queries with a parameter without a value have none.
    """
    path, _, query = url.partition("?")
    if "&" not in query:
        return 0
    parameters = query.split("&")
    pairs = [parameter.partition("=") for parameter in parameters]
    if not all(sign for _, sign, _ in pairs):
        return 0
    pairs.sort(key=_name)
    return xxh3_64_intdigest(f"{path}?{'&'.join(map(''.join, pairs))}".encode())


def _name(pair: tuple[str, str, str]) -> str:
    return pair[0]
