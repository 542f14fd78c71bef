"""`find`: the exact positions of a text.

It searches stored pages, or a site that is crawled for it. The tables are read in parts; while one
part is searched, the next one is read and decompressed. Without folding, polars selects the texts
that contain the bytes, and only those become Python strings (bench/watch.py).

For a crawl, an order is written (`lycosa.matching.orders`) and put into the inbox as an operation,
which links inherit; the process that crawls in the workspace executes it. Its results are rows of
`matches`.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

import polars as pl

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.core.records import UrlState
from lycosa.core.units import format_time
from lycosa.crawl.admission.inbox import submission
from lycosa.crawl.session.submission import submit
from lycosa.matching.matches import StoredMatch, matches_in
from lycosa.matching.normalise import Folded, Folding, fold, folding_of
from lycosa.matching.orders import OrderScope, SearchOrder, new_order, remove_order, write_order
from lycosa.matching.page_watcher import MAX_POSITIONS, context_of
from lycosa.matching.patterns import FEW, PatternSet, normalized_text
from lycosa.matching.plugin import FIND
from lycosa.store.log.claim import INBOX
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import is_removed
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteScope


def find_stored(
    root: str,
    texts: Sequence[str],
    ignored: Sequence[str] = (),
    *,
    site: str = "",
    collection: str = "",
) -> Scan:
    """Return a scan of the stored pages for texts; `run` it.

    Raises:
        UsageError: no text to find, or no site.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    patterns = [normalized_text(text) for text in texts]
    if not all(patterns) or not patterns:
        raise UsageError("nothing to search for: specify a text that is not empty")
    tables = LiveTables(Workspace.open(root))
    return Scan(
        tables,
        patterns,
        folding_of(ignored),
        site=SiteScope.of(site) if site else None,
        collection=collection,
    )


@dataclass(slots=True, frozen=True)
class Ordered:
    """A submitted request in the inbox. `running`: whether a process that handles it is running."""

    order: SearchOrder
    collection: str
    file: str
    running: bool


def order_in_site(
    root: str,
    texts: Sequence[str],
    ignored: Sequence[str],
    site: SiteScope,
    collection: str,
    max_age_ms: int,
) -> Ordered:
    """Submit a search of a site from its start, independent of the collection's scope. Creates the
    workspace if there is none.

    Raises:
        UsageError: no text to find.
    """
    workspace = Workspace.open_or_create(root)
    order = new_order(
        workspace,
        "find",
        texts,
        folding_of(ignored),
        OrderScope([collection], site.start, max_age_ms),
    )
    write_order(workspace.storage, order)
    workspace.storage.make_folder(INBOX)
    file = f"{order.created_at:013d}-{order.id}.json"
    content = submission(
        collection, [site.start], format_time(order.created_at), f"{FIND}:{order.id}"
    )
    workspace.storage.create(f"{INBOX}/{file}", content)
    return Ordered(order, collection, file, workspace.owner() is not None)


def submit_find(
    root: str,
    config: Config,
    urls: Sequence[str],
    texts: Sequence[str],
    ignored: Sequence[str],
    collection: str,
    max_age_ms: int,
) -> Ordered:
    """Submit URLs with a find: these pages, and all pages that they lead to within the collection's
    scope, are searched.

    Raises the same errors as `submit`.
    """
    workspace = Workspace.open(root)
    order = new_order(
        workspace, "find", texts, folding_of(ignored), OrderScope(max_age_ms=max_age_ms)
    )
    write_order(workspace.storage, order)
    try:
        submitted = submit(root, config, urls, collection, operation=f"{FIND}:{order.id}")
    except BaseException:
        remove_order(workspace.storage, order.id)
        raise
    return Ordered(order, submitted.collection, submitted.file, submitted.owner is not None)


class FindResults:
    """The results of an order, read as they are committed."""

    def __init__(self, root: str, ordered: Ordered) -> None:
        self._workspace = Workspace.open(root)
        self._ordered = ordered
        self._state: LogState = self._workspace.state()
        self._tables = LiveTables(self._workspace, self._state)
        self._read_to = ordered.order.since

    def fresh(self) -> Iterator[StoredMatch]:
        """Yield the results since the last call."""
        self._state.refresh()
        head = self._state.head
        if head > self._read_to:
            yield from matches_in(
                self._tables.changes("matches", self._read_to), self._ordered.order.id
            )
        self._read_to = head

    def left(self) -> int | None:
        """Return the approximate number of remaining pages.

        None: the order is not started yet.

        Reads a table's column.
        """
        storage = self._workspace.storage
        if storage.size(f"{INBOX}/{self._ordered.file}") is not None:
            return None
        self._state.refresh()
        operation = pl.col("operation") == f"{FIND}:{self._ordered.order.id}"
        queued = (
            self._tables.scan("urls")
            .filter(operation & (pl.col("state") == UrlState.KNOWN.value))
            .select(pl.len())
        )
        discovered = self._tables.scan("found").filter(operation).select(pl.len())
        return int(queued.collect().item()) + int(discovered.collect().item())


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
