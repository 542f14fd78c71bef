"""Traps that show by what their pages say: groups of addresses that go on and on without new text.

Each group of addresses (`lycosa.frontier.traps.shapes`) of a host has a credit. A page with new
text adds to it, one without takes from it; at zero the group is stopped. So a group stays open as
long as about one page in three says something new, and costs about six fetches if none does (two to
four times as many where the URL shows no sign of a trap: query, date, id, deep path), after which a
rare probe may open it again. A title, description or heading that no page of the host had before
counts as new text, except in queries of several parameters, whose titles combine as well. Text
counts as known where it is nearly that of another page of the group, that of any page of the host
if the address holds a number or a query, or old lines put together anew. A narrow group that has
proved itself stays open when a wider one around it is stopped, and a page that is new in a narrow
group with others is no fault of the wider ones: mirrors under one folder stay open.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

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
"""Groups remembered of a host; the least telling goes first."""

PROBE_AFTER = 32
"""Addresses of the host, fetched or refused, after which a stopped group is tried again; doubled
each time.
"""

PROBE_RICH_AFTER = 16
"""... where the group had much new text before."""

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
    """What a rule says, lexical or of this module, for people: one clause (a `Message`); "" for a
    name that is none.
    """
    if rule in set(PrefixRule):
        return _EXPLAINED[PrefixRule(rule)]
    return lexical.explain(lexical.TrapRule(rule)) if rule in set(lexical.TrapRule) else ""


def explain(rule: str) -> str:
    """The same as a sentence: "The path has more than 16 segments."."""
    text = clause(rule)
    return f"{text[0].upper()}{text[1:]}." if text else ""


class Allowance(NamedTuple):
    """Whether an address may be fetched. `share`: of the host's fetches that its group may have, 1
    for no limit, 0 for none.
    """

    admit: bool
    rule: str = ""
    group: str = ""
    share: float = 1.0


@dataclass(slots=True, frozen=True)
class ObservedPage:
    """What the detector learns from.

    `text_length`: characters of the visible text. `summary`: description and headings; pages with a
    title or summary of their own are new even where their texts are equal or empty, as records and
    tables of figures are. `text`: the visible text; without it facets and calendars that combine
    lines of other pages are not detected.
    """

    simhash: int
    text_digest: int
    text_length: int
    status: int = 200
    title: str = ""
    summary: str = ""
    text: str = ""


_RECORD: Final = re.compile(r"\?[^=&]*=[^&]*\d[^&]*$")
"""A query of one parameter with a number. Of other queries titles are no evidence: they are put
together as the parameters are.
"""

_OPEN: Final = Allowance(True)


@dataclass(slots=True)
class PrefixBook:
    """What is known of one host's groups: half a KB at first, 200 KB at most; dropped at will, it
    is learned again.
    """

    groups: dict[str, TrapGroup] = field(default_factory=dict)  # the last used one last
    # rule -> addresses that were not fetched
    refused: Counter[str] = field(default_factory=Counter)
    requests: int = 0  # pages observed, and addresses refused
    pages: int = 0  # observed
    # a group was stopped, now or earlier: while none was, nothing is refused
    has_stopped: bool = False
    digests: array[int] = field(default_factory=lambda: array("H", bytes(2 * _FEWEST_DIGESTS)))

    def allowance(self, path: str) -> Allowance:
        """Whether an address that was never visited may be fetched now. Changes nothing; `count`
        what is refused.

        Args:
            path: with the query, as in the normalised URL.
        """
        if not self.has_stopped:
            return _OPEN
        for name in shape_of(path).groups:
            group = self.groups.get(name)
            if group is None:
                continue
            if group.is_stopped:
                if group.probes >= MAX_PROBES:
                    return Allowance(False, group.rule, name, 0.0)
                wait = (PROBE_RICH_AFTER if group.novel > RICH else PROBE_AFTER) << group.probes
                return Allowance(
                    self.requests - group.stopped_at >= wait, group.rule, name, 1 / wait
                )
            if group.is_proven:
                return _OPEN
        return _OPEN

    def count(self, rule: str) -> None:
        """Count an address that was not fetched because of a rule, lexical ones included; probes
        are counted against these too.
        """
        self.refused[rule] += 1
        self.requests += 1

    def observe(self, path: str, seen: ObservedPage) -> str:
        """Learn from the first visit of a page (a later visit would find its own text).

        Return the rule that says that the page has no new text; "" if it has. Other statuses than
        200 teach nothing.
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
            return ""  # the front page is never a trap, whatever else the host answers with it
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
            and self._knows_lines(shape, f"{about}\n{seen.text}")
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
        """The group, now the last used one."""
        group = self.groups.pop(name, None)
        if group is None:
            doubted = any(
                other.is_doubted for other in filter(None, map(self.groups.get, shape.groups))
            )
            group = TrapGroup(
                START_DOUBTED if doubted else START_WIDE if name.endswith("/") else START
            )
            if len(self.groups) >= MAX_GROUPS:
                # Neither stopped nor proven, without asking the properties: where nearly all are
                # proven, all are looked at for each page.
                useless = (
                    name
                    for name, each in self.groups.items()
                    if each.novel < PROVEN and each.stopped_at < 0
                )
                del self.groups[next(useless, "") or next(iter(self.groups))]
        self.groups[name] = group
        return group

    def _knows_lines(self, shape: Shape, text: str) -> bool:
        """By the lines of all combinations of parameters together, or of all dates."""
        common = next((name for name in shape.groups if name.endswith("?")), shape.groups[0])
        return self._compare_lines(self._group(common, shape), text) is True

    def _is_near(self, group: TrapGroup, page: PageText) -> bool:
        """Whether a page says nearly what another of the group said. The first such page is judged
        without lines, others by them.
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
        return group.knows_lines(text)

    def _is_new_name(self, about: str) -> bool:
        """Whether no page of the host had this title, description and headings, numbers apart."""
        return not self._remember(xxh3_64_intdigest(about.encode("utf-8", "surrogatepass")))

    def _remember(self, text_digest: int) -> bool:
        """Whether a page of the host had this text. A table with one place a text: what it forgets
        only counts as new again.
        """
        table = self.digests
        if self.pages * 2 > len(table) < _MAX_DIGESTS:
            # every text is in both halves, so also in its new place
            self.digests = table = table * 2
        place, check = text_digest % len(table), text_digest >> 48 or 1
        if table[place] == check:
            return True
        table[place] = check
        return False

    def counters(self) -> dict[str, int]:
        """What is worth storing: refusals by rule, and of each stopped group its pages as
        `stopped:RULE:GROUP` (the last 32).
        """
        stopped = {
            f"{_STOPPED}{group.rule}:{name}": group.repeated + group.novel
            for name, group in self.groups.items()
            if group.is_stopped
        }
        return dict(self.refused) | dict(list(stopped.items())[-_MAX_STORED:])

    @classmethod
    def from_counters(cls, counters: Mapping[str, int]) -> PrefixBook:
        """A book that begins with what `counters` gave: a stopped group is stopped, and probed
        anew.
        """
        book = cls()
        for name, count in counters.items():
            if name.startswith(_STOPPED):
                rule, _, group = name.removeprefix(_STOPPED).partition(":")
                book.restore(group, rule, count)
            else:
                book.refused[name] = count
        return book

    def restore(self, group: str, rule: str, pages: int) -> None:
        """Add a group that was stopped earlier."""
        self.groups[group] = TrapGroup(0, repeated=pages, rule=rule, stopped_at=0)
        self.has_stopped = True


def _cost(path: str, shape: Shape, seen: ObservedPage, rule: str) -> float:
    """Return what a page without new text costs its group; most if its URL looks like a trap."""
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
