"""Detects traps by page content: groups of URLs that continue without new text.

Each URL pattern (`lycosa.frontier.traps.shapes`) of a host is a group with a credit. A page with
new text adds to the credit, one without reduces it; at zero the group is stopped. A group stays
open while about one page in three has new text. Without any, it is stopped after about six fetches,
or two to four times as many if the URL has no sign of a trap (query, date, ID, deep path). Rare
probes can open it again.

Text is new if no page of the host had this title, description or headings; not in queries of
several parameters, whose titles are combinations too. Text is known if it nearly equals that of
another page of the group, or that of any page of the host if the URL has a number or a query, or if
it combines known lines. A narrow group with enough new text stays open when a wider group is
stopped. Repeated text in its first page costs wider groups little: mirrors in one folder stay open.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from xxhash import xxh3_64_intdigest

from lycosa.core.dataclass import dataclass
from lycosa.core.messages import Message
from lycosa.frontier.traps.shapes import NEAR, Shape, shape_of, titled_as_missing
from lycosa.frontier.traps.trap_group import (
    COST,
    COST_FIRST,
    COST_NUMBERED,
    COST_PLAIN,
    COST_SURE,
    PROVEN,
    RICH,
    START,
    START_DOUBTED,
    START_WIDE,
    PageText,
    PrefixRule,
    TrapGroup,
    only_words,
)
from lycosa.url import traps as lexical

MAX_GROUPS = 128
"""Groups per host; one that is neither stopped nor proven is dropped first."""

PROBE_AFTER = 32
"""URLs of the host, fetched or refused, after which a stopped group is probed; doubled then."""

PROBE_RICH_AFTER = 16
"""The same for a group that had much new text before."""

MAX_PROBES = 6
_DEEP = 4  # slashes of a path beyond which a page without new text costs its folders twice
_TITLES = 5  # near-identical pages with a title of "not found" that make a group one of soft 404s
# slots: how many texts of a host are remembered, two bytes each
_FEWEST_DIGESTS, _MAX_DIGESTS = 64, 4_096
_MAX_LINE_TABLES = 8
_MAX_STORED = 32
_STOPPED: Final = "stopped:"

_EXPLAINED: Final = {
    PrefixRule.NEAR_IDENTICAL: Message(
        "trap_near_identical", "the latest pages with this URL pattern are nearly identical"
    ),
    PrefixRule.SAME_TEXT: Message(
        "trap_same_text",
        "the latest pages with this URL pattern only repeat text from other pages of the host",
    ),
    PrefixRule.SOFT_404: Message(
        "trap_soft_404",
        'the latest pages with this URL pattern are soft 404s: a "not found" '
        "text with a success status",
    ),
    PrefixRule.FACETS: Message(
        "trap_facets", "the latest combinations of these query parameters contained no new text"
    ),
    PrefixRule.EMPTY_CALENDAR: Message(
        "trap_empty_calendar", "the latest dates of this calendar contained no new text"
    ),
}


def clause(rule: str) -> str:
    """Return the translatable clause that describes a rule, lexical or of this module; "" if the
    rule is unknown.
    """
    if rule in set(PrefixRule):
        return _EXPLAINED[PrefixRule(rule)]
    return lexical.explain(lexical.TrapRule(rule)) if rule in set(lexical.TrapRule) else ""


def explain(rule: str) -> str:
    """Return the description as a sentence: "The path has more than 16 segments."."""
    text = clause(rule)
    return f"{text[0].upper()}{text[1:]}." if text else ""


@dataclass(slots=True, frozen=True)
class ObservedPage:
    """The features of a page that the detector uses.

    `text_length`: characters of the visible text. `summary`: description and headings; pages with a
    title or summary of their own are new even if their texts are equal or empty, for example
    records and tables of numbers. `text`: the visible text; without it, facets and
    calendars that combine lines of other pages are not detected.
    """

    simhash: int
    text_digest: int
    text_length: int
    status: int = 200
    title: str = ""
    summary: str = ""
    text: str = ""


_RECORD: Final = re.compile(r"\?[^=&]*=[^&]*\d[^&]*$")
"""A query of one parameter with a number. In other queries titles are no evidence: they combine
like the parameters.
"""


@dataclass(slots=True)
class HostTrapDetector:
    """The groups of one host: 0.5 KB at first, at most 200 KB. May be dropped at any time."""

    groups: dict[str, TrapGroup] = field(default_factory=dict)  # the last used one last
    # rule -> number of URLs that were not fetched
    refused: Counter[str] = field(default_factory=Counter)
    requests: int = 0  # observed pages and refused URLs
    pages: int = 0  # observed
    # a group was stopped, now or earlier: while none was, nothing is refused
    has_stopped: bool = False
    digests: array[int] = field(default_factory=lambda: array("H", bytes(2 * _FEWEST_DIGESTS)))

    def refuses(self, path: str) -> str:
        """Return the rule by which an unvisited URL may not be fetched now, or "". Changes no
        state; pass refusals to `count`.

        Args:
            path: with the query, as in the normalised URL.
        """
        if not self.has_stopped:
            return ""
        for name in shape_of(path).groups:
            group = self.groups.get(name)
            if group is None:
                continue
            if group.is_stopped:
                wait = (PROBE_RICH_AFTER if group.novel > RICH else PROBE_AFTER) << group.probes
                waits = group.probes >= MAX_PROBES or self.requests - group.stopped_at < wait
                return group.rule if waits else ""
            if group.is_proven:
                return ""
        return ""

    def count(self, rule: str) -> None:
        """Count a URL that was refused by a rule, lexical ones included. The intervals of probes
        depend on it.
        """
        self.refused[rule] += 1
        self.requests += 1

    def observe(self, path: str, seen: ObservedPage) -> str:
        """Apply the first visit of a page (a later visit would match its own text).

        Return the rule by which the page has no new text; "" if it has. Responses with another
        status than 200 are ignored.
        """
        if seen.status != 200:
            return ""
        self.pages += 1
        self.requests += 1
        shape = shape_of(path)
        about = only_words(f"{seen.title}\n{seen.summary}")
        repeated = self._remember(
            seen.text_digest ^ xxh3_64_intdigest(about.encode("utf-8", "surrogatepass"))
        )
        if path == "/":
            return ""  # the front page is never a trap, even if other URLs return the same text
        named = (
            bool(about)
            and (not shape.query or _RECORD.search(path) is not None)
            and self._is_new_name(about)
        )
        rule = ""
        if repeated and shape.numbered:
            rule = PrefixRule.SAME_TEXT
        elif (
            (shape.query or shape.dated)
            and seen.text
            and self._contains_lines(shape, f"{about}\n{seen.text}")
            and not named
        ):
            rule = PrefixRule.EMPTY_CALENDAR if shape.dated else PrefixRule.FACETS
        page = PageText(seen.simhash, seen.text_length, seen.text)
        own, first = "", False  # the rule in the narrowest group; whether this is its first page
        for place, name in enumerate(shape.groups):
            group = self._group(name, shape)
            if place == 0:
                first = not group.novel + group.repeated
            matched_rule = rule or own
            if not matched_rule and (place == 0 or first) and self._is_near(group, page):
                missing = titled_as_missing(seen.title)
                matched_rule = _near_rule(shape, group, missing) if missing or not named else ""
            if place == 0:
                own = matched_rule
            if matched_rule:
                cost = _cost(path, shape, seen, matched_rule)
                if name.endswith("/"):
                    cost = cost if own else min(cost, COST_FIRST)
                    cost *= 2 if path.count("/") > _DEEP else 1
                missing = titled_as_missing(seen.title)
                group.add_repeated(matched_rule, cost, self.requests, missing)
                self.has_stopped = self.has_stopped or group.is_stopped
            else:
                group.add_novel(page)
        return own

    def _group(self, name: str, shape: Shape) -> TrapGroup:
        """Return the group, and mark it as the most recently used."""
        group = self.groups.pop(name, None)
        if group is None:
            doubted = any(
                other.is_doubted for other in filter(None, map(self.groups.get, shape.groups))
            )
            group = TrapGroup(
                START_DOUBTED if doubted else START_WIDE if name.endswith("/") else START
            )
            if len(self.groups) >= MAX_GROUPS:
                # Neither stopped nor proven. Attributes instead of properties: if nearly all groups
                # are proven, all are scanned for each page.
                candidates = (
                    name
                    for name, each in self.groups.items()
                    if each.novel < PROVEN and each.stopped_at < 0
                )
                del self.groups[next(candidates, "") or next(iter(self.groups))]
        self.groups[name] = group
        return group

    def _contains_lines(self, shape: Shape, text: str) -> bool:
        """Compare with the lines of all combinations of parameters, or of all dates."""
        common = next((name for name in shape.groups if name.endswith("?")), shape.groups[0])
        return self._compare_lines(self._group(common, shape), text) is True

    def _is_near(self, group: TrapGroup, page: PageText) -> bool:
        """Return whether a page nearly equals another of the group. The first page of a group is
        compared by simhash only, others by lines too.
        """
        nearest = group.nearest(page)
        line_comparison = (
            self._compare_lines(group, page.text) if nearest < 64 and page.text else None
        )
        return nearest <= NEAR if line_comparison is None else line_comparison

    def _compare_lines(self, group: TrapGroup, text: str) -> bool | None:
        if group.lines is None:
            others = [other for other in self.groups.values() if other.lines is not None]
            if len(others) >= _MAX_LINE_TABLES:
                others[0].lines = None  # the least recently used
        return group.contains_lines(text)

    def _is_new_name(self, about: str) -> bool:
        """Return whether no page of the host had this title, description and headings, ignoring
        numbers.
        """
        return not self._remember(xxh3_64_intdigest(about.encode("utf-8", "surrogatepass")))

    def _remember(self, text_digest: int) -> bool:
        """Return whether a page of the host had this text, and store it. A hash table without
        collision handling: an overwritten text counts as new again.
        """
        table = self.digests
        if self.pages * 2 > len(table) < _MAX_DIGESTS:
            # every entry is in both halves, so also at its new index
            self.digests = table = table * 2
        place, check = text_digest % len(table), text_digest >> 48 or 1
        if table[place] == check:
            return True
        table[place] = check
        return False

    def counters(self) -> dict[str, int]:
        """Return the state to be stored: refusals by rule, and the page counts of the last 32
        stopped groups as `stopped:RULE:GROUP`.
        """
        stopped = {
            f"{_STOPPED}{group.rule}:{name}": group.repeated + group.novel
            for name, group in self.groups.items()
            if group.is_stopped
        }
        return dict(self.refused) | dict(list(stopped.items())[-_MAX_STORED:])

    @classmethod
    def from_counters(cls, counters: Mapping[str, int]) -> HostTrapDetector:
        """Restore the state that `counters` returned. Stopped groups are probed from the start."""
        groups = cls()
        for name, count in counters.items():
            if name.startswith(_STOPPED):
                rule, _, group = name.removeprefix(_STOPPED).partition(":")
                groups.restore(group, rule, count)
            else:
                groups.refused[name] = count
        return groups

    def restore(self, group: str, rule: str, pages: int) -> None:
        """Add a group that was stopped earlier."""
        self.groups[group] = TrapGroup(0, repeated=pages, rule=rule, stopped_at=0)
        self.has_stopped = True


def _cost(path: str, shape: Shape, seen: ObservedPage, rule: str) -> float:
    """Return the credit that a page without new text costs: more if its URL looks like a trap."""
    if shape.dated or rule == PrefixRule.SOFT_404:
        return COST_SURE
    looks_endless = shape.query or "{id}" in shape.groups[0]
    if looks_endless or path.count("/") > _DEEP or titled_as_missing(seen.title):
        return COST
    return COST_NUMBERED if shape.numbered and seen.text_length else COST_PLAIN


def _near_rule(shape: Shape, group: TrapGroup, titled_missing: bool) -> str:
    if titled_missing and group.titled_missing >= _TITLES - 1:
        return PrefixRule.SOFT_404
    if shape.dated:
        return PrefixRule.EMPTY_CALENDAR
    return PrefixRule.FACETS if shape.query else PrefixRule.NEAR_IDENTICAL
