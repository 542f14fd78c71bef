"""One URL pattern of a host: features of its pages, and the credit that new text earns."""

from __future__ import annotations

import re
from array import array
from dataclasses import field
from enum import StrEnum
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from lycosa.core.dataclass import dataclass
from lycosa.frontier.traps.shapes import NEAR

START = 6  # credit of a new group
START_WIDE = 18  # of a folder: it contains other groups, which may be mirrors of each other
START_AGAIN = 16  # of a group that a probe opens again
START_DOUBTED = 2  # of both within a group with mostly repeated text
# maximum credit, plus a quarter of the pages with new text: limits the pages of a trap that
# follows good pages
MOST = 40
GAIN = 4  # for a page with new text
COST = 2  # for a page without new text whose URL has a query, a date or a deep path
COST_NUMBERED = 1  # whose URL has only a number, like those of records
COST_PLAIN = 0.5  # whose URL has no sign of a trap, or that has no text
COST_FIRST = 1  # for a folder, by the first page of a group in it: index pages are similar
COST_SURE = 3  # for a page of a calendar, or a soft 404
PROVEN = 3  # pages with new text after which a narrow group is judged independently
RICH = 30  # pages with new text after which a stopped group gets more credit
_DOUBT = 2  # ratio of pages without new text to pages with, above which a group is doubted
_MAX_SEEN = 32  # last pages with new text that others are compared with
# maximum different bits of simhashes if the lines are compared too
_LOOSELY = 12
_SHORT = 200  # characters: simhashes of shorter texts are unreliable, only lines count
_LENGTHS = 0.1  # maximum relative difference of the lengths of nearly equal texts
_LINE_BITS = 65_536
_MAX_LINES = 8_000  # false positive rate of the Bloom filter is then 5 %
# minimum of new text: bytes, share of a short text, share of a long text
_MIN_NEW, _MIN_SHARE, _NEW_SHARE = 60, 0.15, 0.05
_NO_WORDS: Final = re.compile(r"[\d\W_]+")  # numbers, dates and times are ignored


class PrefixRule(StrEnum):
    """Why a group is stopped. Counted per host, with the rules of `lycosa.url.traps`."""

    NEAR_IDENTICAL = "near_identical"
    SAME_TEXT = "same_text"
    SOFT_404 = "soft_404"
    FACETS = "facets"
    EMPTY_CALENDAR = "empty_calendar"


def only_words(text: str) -> str:
    """Remove numbers, dates, times and punctuation from a text."""
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
    """One group: 300 bytes, up to 500 more for features of pages, 8 KB if lines are compared."""

    credit: float = START
    novel: int = 0  # pages with new text
    repeated: int = 0  # pages without
    titled_missing: int = 0  # of these, with a title of "not found"
    rule: str = ""  # of the last page without new text
    # URLs of the host that were checked when it was stopped or last probed; -1: open
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
        """Whether most pages had no new text, so that a new group within it gets little credit."""
        return self.repeated > _DOUBT * max(1, self.novel)

    def add_novel(self, page: PageText) -> None:
        """Count a page with new text. A stopped group is opened."""
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
        """Return the Hamming distance of the simhash to the nearest page of the group, 64 if none
        is near.

        Only texts of similar length are compared: wrongly extracted main texts are often the same
        footer. If the lines can be compared too, the limit is higher; for short texts there is
        none.
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

    def contains_lines(self, text: str) -> bool | None:
        """Return whether almost all lines of a text are known in the group; None: it has none yet.

        Numbers are ignored. The lines are in a Bloom filter with two bits per line, which is
        cleared when it is full.
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
