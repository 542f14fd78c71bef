"""The account of one group of addresses: what its pages said, and the credit that new text
earns.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from lycosa.frontier.traps.shapes import NEAR

START = 6  # credit of a new group
START_WIDE = 18  # of a folder's: it holds others, and mirrors of one another may lie side by side
START_AGAIN = 16  # of a group that a probe opens again
START_DOUBTED = 2  # of either, within a group that repeats itself
# so that an honest past does not pay for much of a trap; a quarter of the pages with new text more
MOST = 40
GAIN = 4  # for a page with new text
COST = 2  # for a page without, where the URL looks like a trap's too: a query, a date, a deep path
COST_NUMBERED = 1  # ... whose URL only holds a number: pages of records do as well
COST_PLAIN = 0.5  # ... whose URL shows nothing, or that has no text
COST_FIRST = 1  # for a folder, of the first page of a group in it: indexes of folders look alike
COST_SURE = 3  # ... whose address looks like a calendar's, or that is a soft 404
PROVEN = 3  # pages with new text after which a narrow group is judged independently
RICH = 30  # pages with new text after which a stopped group is given back more credit
_DOUBT = 2  # times as many pages without new text as with: a group that repeats itself
_MAX_SEEN = 32  # pages of a group that others are compared with, the last ones with new text
# bits in which simhashes of short texts differ that differ in a number; lines decide then
_LOOSELY = 12
_SHORT = 200  # characters: a simhash of less says little, lines decide
_LENGTHS = 0.1  # share by which the lengths of nearly equal texts differ at most
_LINE_BITS = 65_536
_MAX_LINES = 8_000  # one in twenty new lines is then taken for known
# bytes, and shares of a short and a long text: less is no new text
_MIN_NEW, _MIN_SHARE, _NEW_SHARE = 60, 0.15, 0.05
_NO_WORDS: Final = re.compile(r"[\d\W_]+")  # numbers, dates and times make no new text


class PrefixRule(StrEnum):
    """Why a group of addresses is stopped. Closed; counted per host by these names beside those of
    `lycosa.url.traps`.
    """

    NEAR_IDENTICAL = "near_identical"
    SAME_TEXT = "same_text"
    SOFT_404 = "soft_404"
    FACETS = "facets"
    EMPTY_CALENDAR = "empty_calendar"


def only_words(text: str) -> str:
    """A text without numbers, dates, times and punctuation."""
    return _NO_WORDS.sub(" ", text).strip()


class PageText(NamedTuple):
    """Features of a page that are compared.

    Simhash, characters of its text, the text ("" if it is not available).
    """

    simhash: int
    length: int
    text: str


@dataclass(slots=True)
class TrapGroup:
    """One group: about 300 bytes, up to 500 more for what it saw, and 8 KB where lines are
    compared.
    """

    credit: float = START
    novel: int = 0  # pages with new text
    repeated: int = 0  # pages without
    titled_missing: int = 0  # of these, with a title of "not found"
    rule: str = ""  # of the last page without new text
    # addresses of the host asked about when it was stopped or last probed; -1: open
    stopped_at: int = -1
    probes: int = 0
    # simhashes of the last pages with new text
    seen: array[int] = field(default_factory=lambda: array("Q"))
    lengths: array[int] = field(default_factory=lambda: array("Q"))  # of their texts
    lines: bytearray | None = None
    line_count: int = 0

    @property
    def is_stopped(self) -> bool:
        return self.stopped_at >= 0

    @property
    def is_proven(self) -> bool:
        return self.novel >= PROVEN

    @property
    def is_doubted(self) -> bool:
        """Whether it repeats itself, so that a new group within it gets little credit."""
        return self.repeated > _DOUBT * max(1, self.novel)

    def add_novel(self, page: PageText) -> None:
        """Book a page with new text; a stopped group is open again."""
        self.novel += 1
        most = MOST + self.novel // 4
        if self.is_stopped:
            self.credit = most if self.novel > RICH else START_AGAIN
        else:
            self.credit = min(most, self.credit + GAIN)
        self.stopped_at, self.probes = -1, 0
        if len(self.seen) == _MAX_SEEN:
            del self.seen[0], self.lengths[0]
        self.seen.append(page.simhash)
        self.lengths.append(page.length)

    def add_repeated(
        self, rule: str, cost: float, pages: int, titled_missing: bool = False
    ) -> None:
        """Count a page without new text. `pages`: URLs of the host that were checked so far."""
        self.repeated += 1
        self.titled_missing += titled_missing
        self.rule = rule
        self.credit -= cost
        if self.is_stopped:
            self.probes += 1
            self.stopped_at = pages
        elif self.credit <= 0:
            self.stopped_at = pages

    def nearest(self, page: PageText) -> int:
        """In how many bits of 64 the simhash differs from that of the nearest page of the group; 64
        where that says too much.

        Only texts of nearly the same length are compared, since a main text that was taken wrongly
        is often the same footer. Where the text is available, so that lines can be compared, more
        bits may differ; of a short text, any number.
        """
        shortest, longest, limit = page.length * (1 - _LENGTHS), page.length / (1 - _LENGTHS), NEAR
        if page.text:
            limit = _LOOSELY
            if page.length < _SHORT:
                shortest, longest, limit = 0, _SHORT, 63
        distances = list(map(int.bit_count, map(page.simhash.__xor__, self.seen)))
        if min(distances, default=64) > limit:
            return 64  # most pages, whatever their lengths
        fitting = [
            apart
            for apart, length in zip(distances, self.lengths, strict=True)
            if shortest <= length <= longest
        ]
        nearest = min(fitting, default=64)
        return nearest if nearest <= limit else 64

    def knows_lines(self, text: str) -> bool | None:
        """Whether hardly any of a text is in lines that are new to the group.

        Numbers are ignored. None where the group had no lines yet.

        The lines are remembered in a Bloom filter with two bits a line, which begins anew when it
        is full.
        """
        first = self.lines is None
        if self.lines is None or self.line_count > _MAX_LINES:
            self.lines, self.line_count = bytearray(_LINE_BITS // 8), 0
        bits = self.lines
        new = 0
        for line in text.split("\n"):
            words = _NO_WORDS.sub(" ", line).encode("utf-8", "surrogatepass")
            hashed = xxh3_64_intdigest(words)
            one, other = hashed % _LINE_BITS, (hashed >> 32) % _LINE_BITS
            mask, other_mask = 1 << (one & 7), 1 << (other & 7)
            if not (bits[one >> 3] & mask and bits[other >> 3] & other_mask):
                bits[one >> 3] |= mask
                bits[other >> 3] |= other_mask
                self.line_count += 1
                new += len(words)
        size = len(text.encode("utf-8", "surrogatepass"))
        return None if first else new < max(min(_MIN_NEW, _MIN_SHARE * size), _NEW_SHARE * size)
