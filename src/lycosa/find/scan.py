"""Find the exact positions of texts in all stored pages.

The tables are read in parts; while one part is searched, the next one is read and decompressed.
Without folding, polars selects the texts that contain the bytes, and only those become Python
strings (bench/watch.py).
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import reduce
from operator import or_

import polars as pl

from lycosa.matching.matches import StoredMatch
from lycosa.matching.normalise import Folded, Folding, fold
from lycosa.matching.page_watcher import MAX_POSITIONS, context_of
from lycosa.matching.patterns import FEW, PatternSet
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import is_removed
from lycosa.url.site_name import SiteScope

_SIGNS = frozenset(r"\.+*?()|[]{}^$#&-~")
_SEVERAL = "".join(
    letter for letter in map(chr, range(0x80, 0x1_0000)) if len(letter.casefold()) > 1
)
_MAX_PREFIX = 200  # characters of a text in a regular expression, whose size is limited
_FOLDED_AT_ONCE = 30_000  # characters: their folded text fits into the processor's cache
_KEY = ("collection", "host_key", "url_key")
_COLUMNS = (*_KEY, "url", "fetched_at", "text")


class Scan:
    """One scan for some texts (`normalized_text`); `pages` and `bytes`: read so far. `complete`:
    all pages were read.
    """

    def __init__(
        self,
        tables: LiveTables,
        texts: Sequence[str],
        folding: Folding,
        *,
        site: SiteScope | None = None,
        collection: str = "",
    ) -> None:
        self._tables = tables
        self._texts = list(dict.fromkeys(texts))
        self._needles = PatternSet(self._texts, folding)
        self._folding = folding
        self._folded = [fold(text, folding).text for text in self._texts]
        self._site = site
        self._collection = collection
        self.pages = 0
        self.bytes = 0
        self.complete = False

    def run(self, until_s: float = math.inf) -> Iterator[StoredMatch]:
        """Yield each page that contains one of the texts, once per text, in the order of the
        tables. A page of several collections is returned once. No more pages are read after
        `until_s` (`time.monotonic`).
        """
        only = [pl.col("collection") == self._collection] if self._collection else []
        if self._site is not None:
            only.append(self._site.holds())
        gone = self._gone(only)
        seen: set[tuple[int, int]] = set()
        for frame in _ahead(
            self._tables.batches("pages", _COLUMNS, only=pl.all_horizontal(only) if only else None)
        ):
            if time.monotonic() > until_s:
                return
            live = (
                frame.join(gone, on=_KEY, how="anti", maintain_order="left")
                if gone.height
                else frame
            )
            self.pages += live.height
            self.bytes += int(live["text"].str.len_bytes().sum())
            for collection, host_key, url_key, url, fetched_at, text in self._candidates(
                live
            ).iter_rows():
                if (host_key, url_key) not in seen:
                    matches = list(self._matches(text, url, fetched_at, collection))
                    if matches:
                        seen.add((host_key, url_key))
                        yield from matches
        self.complete = True

    def _gone(self, only: Sequence[pl.Expr]) -> pl.DataFrame:
        """Return the pages that are gone, excluded or moved, whose last text is still stored."""
        return self._tables.scan("urls").filter(is_removed(), *only).select(_KEY).collect()

    def _candidates(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the pages that may contain a text."""
        if len(self._texts) > FEW:  # polars tests one text after the other, the automaton all
            return frame
        text = pl.col("text")
        if not self._folding:
            return frame.filter(
                reduce(or_, [text.str.contains(each, literal=True) for each in self._texts])
            )
        if self._folding == Folding(case=True):
            return frame.filter(text.str.contains(_any_case(self._folded)))
        # ASCII texts apart: only without other texts among them are they folded by one call
        plain = text.str.len_bytes() == text.str.len_chars()
        parts = [frame.filter(plain), frame.filter(~plain)]
        return pl.concat([part[sorted(self._held(part["text"].to_list()))] for part in parts])

    def _held(self, texts: Sequence[str]) -> Iterator[int]:
        """Yield the positions of texts that contain one of the patterns. Many texts are folded as
        one, which takes a fifth of the time.
        """
        first = 0
        while first < len(texts):
            starts, at, last = [], 0, first
            while last < len(texts) and at < _FOLDED_AT_ONCE:
                starts.append(at)
                at += len(texts[last]) + 1
                last += 1
            folded = fold("\0".join(texts[first:last]), self._folding)
            for number in {
                number for needle in self._folded for number in _pages_with(folded, needle, starts)
            }:
                yield first + number
            first = last

    def _matches(
        self, text: str, url: str, fetched_at: datetime, collection: str
    ) -> Iterator[StoredMatch]:
        for number, places in self._needles.find(text).items():
            needle = self._texts[number]
            context = context_of(text, places[0], len(needle))
            yield StoredMatch(
                url,
                "",
                needle,
                tuple(places[:MAX_POSITIONS]),
                len(places),
                fetched_at,
                collection,
                context,
            )


def _any_case(folded: Sequence[str]) -> str:
    """Return a regular expression that matches in every text that contains one of these in any
    case, and in some others. Rust's `(?i)` handles characters whose case is one character; texts
    with others are always candidates.
    """
    letters = (
        "".join(f"\\{letter}" if letter in _SIGNS else letter for letter in each[:_MAX_PREFIX])
        for each in folded
        if each
    )
    return "|".join([f"[{_SEVERAL}]", *(f"(?i:{each})" for each in letters)])


def _pages_with(folded: Folded, needle: str, starts: Sequence[int]) -> Iterator[int]:
    """Yield the pages that contain a folded text, of those joined into one folded text. `starts`:
    their positions before folding.
    """
    matches = folded.text.find(needle) if needle else -1
    while matches >= 0:
        number = bisect_right(starts, folded.place(matches)) - 1
        last = number + 1 == len(starts)
        following = len(folded.text) + 1 if last else folded.index(starts[number + 1])
        # a needle that contains the separator does not match across two pages
        if matches + len(needle) < following:
            yield number
        if last:
            return
        matches = folded.text.find(needle, following)


def _ahead(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the same frames; each is read while the previous one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="find") as pool:
        waiting = pool.submit(next, frames, None)
        while (frame := waiting.result()) is not None:
            waiting = pool.submit(next, frames, None)
            yield frame
