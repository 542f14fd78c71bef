"""The indexer: follows the log, turns what commits brought into a new index generation.

What it has read is one number, the log entry in generation.json. An update takes the rows of later
entries, wherever merges have put them: `pages` rows become documents, in place of what their URL
had; then every URL whose live row of `urls` is gone or excluded loses its document. Reading a row
twice changes nothing. An exclusion makes the index anew: nothing of what was excluded stays in it.
A kill leaves the last published generation.

What links say of a page (prior, anchors, whether it is a copy) comes from the newest generation of
`graph`; when there is a newer one, pages of which it says something else are read again.

A URL in several collections is one document that names them all.

With `index.shards.shards` above one there is such an index for each group of partitions, and each
follows the log for itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl
import polars.selectors as cs

from lycosa.config.settings import IndexSettings
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import OwnedError, WorkspaceError
from lycosa.core.records import UrlState
from lycosa.core.units import format_time
from lycosa.graph.generation import LinkSignals, link_news
from lycosa.graph.generation import newest as newest_graph
from lycosa.index import generation as generations
from lycosa.index.builder import IndexBuilder
from lycosa.index.generation import Generation, GenerationInfo
from lycosa.index.page_signals import ENTRY, Surroundings
from lycosa.index.schema import IndexedPage, analysis_versions, outside
from lycosa.index.shards.shards import WHOLE, Shard, adopt, highest_number, layout, shards_of
from lycosa.index.suggest import suggest
from lycosa.store.log.log import EntriesGone
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables, in_partitions
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import Analysis
from lycosa.url.scope import hostname

BATCH_BYTES = 12 * 2**20  # rows read at once
BATCH_ROWS = 500
OBJECT_ROWS = 50  # of them held as Python objects
# rows of pages that are looked at together, so that their links are in memory at once: some 40 MB
PART_ROWS = 100_000
AGAIN_ROWS = 5_000  # pages that are looked for together to be read again
KEPT_OPEN = 8  # shards whose working folders and writers stay open between updates
_REMOVED = [UrlState.GONE.value, UrlState.EXCLUDED.value]
_TABLES = ("pages", "urls")
_PAGE_COLUMNS = [
    "url_key", "url", "collection", "fetched_at", "title", "headline", "description", "headings",
    "main_text", "text", "language", "published_at", "may_index", "text_digest", "language_share",
]  # fmt: skip
_ENTRY = len(_PAGE_COLUMNS)  # the entry's place in a row


@dataclass(slots=True, frozen=True)
class IndexReport:
    """What an update did. `generation` is the newest one then, 0 if there is none; `documents` are
    those it holds.
    """

    generation: int
    log_entry: int
    documents: int
    put: int = 0
    removed: int = 0
    rebuilt: str = ""  # why the index was built from nothing; "" if it was carried on
    duration_ms: float = 0.0

    @property
    def changed(self) -> bool:
        return bool(self.put or self.removed or self.rebuilt)


class Indexer:
    """The indexers of all shards, one after the other. Keep it between updates: opening costs more
    than a small update. `between` is called after the index and after its suggestions were made,
    each of which leaves memory behind.

    Raises:
        WorkspaceError: there is no workspace, or its log or index is damaged.
        UsageError: `korean` asks for a package that is not installed.
    """

    def __init__(
        self,
        root: str,
        settings: IndexSettings | None = None,
        clock: Clock | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> None:
        self._shards: list[ShardIndexer] = []  # first, for `__del__`
        count = (settings or IndexSettings()).shards
        self._shards = [
            ShardIndexer(root, shard, settings, clock, between) for shard in shards_of(count)
        ]

    def __enter__(self) -> Indexer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def update(self, *, suggestions: bool = True) -> IndexReport:
        """Read the log on and publish what is new as generations; nothing is published if nothing
        is new. Without `suggestions` their file is carried over as it is: while pages pour in, it
        would be made again and again.

        Raises:
            OwnedError: another process is indexing this workspace.
            WorkspaceError: the log is damaged, or a file that it names cannot be read.
        """
        return self._all(lambda shard: shard.update(suggestions=suggestions))

    def rebuild(self) -> IndexReport:
        """Build the index from the tables alone. Raises what `update` raises."""
        return self._all(ShardIndexer.rebuild)

    def close(self) -> None:
        """Stop the threads, remove the working folders, let another indexer in. A later update
        starts anew.
        """
        for shard in self._shards:
            shard.close()

    def _all(self, work: Callable[[ShardIndexer], IndexReport]) -> IndexReport:
        if len(self._shards) == 1:
            return work(self._shards[0])
        reports = []
        for number, shard in enumerate(self._shards):
            reports.append(work(shard))
            if number >= KEPT_OPEN:
                shard.close()
        return combined_report(reports)


class ShardIndexer:
    """One indexer for a shard at a time (a lock sees to it). Picklable it is not; `index_shard` is
    what another process runs.

    Raises:
        WorkspaceError: there is no workspace, or its log or index is damaged.
        UsageError: `korean` asks for a package that is not installed.
    """

    def __init__(
        self,
        root: str,
        shard: Shard = WHOLE,
        settings: IndexSettings | None = None,
        clock: Clock | None = None,
        between: Callable[[], object] = lambda: None,
    ) -> None:
        self._locks: list[int] = []
        self._builder: IndexBuilder | None = None
        self._workspace = Workspace.open(root)
        self._storage = self._workspace.storage
        self.shard = shard
        self._line = shard.line
        self._partitions = shard.partitions(self._workspace.partitions)
        self._settings = settings or IndexSettings()
        self._analysis = Analysis((self._settings.korean,))
        self._versions = analysis_versions(self._analysis)
        self._clock = clock or SystemClock()
        self._between = between
        self._state = LogState(self._workspace.log)
        self._current: Generation | None = None
        self._collections: set[str] = set()
        self._dirty = False

    def __del__(self) -> None:
        """An indexer that nobody closed must not keep the next one in this process out."""
        self.close()

    def update(self, *, suggestions: bool = True) -> IndexReport:
        """Read the log on and publish what is new as a generation; nothing is published if nothing
        is new. `suggestions` as of `Indexer`.

        Raises:
            OwnedError: another process is indexing this workspace.
            WorkspaceError: the log is damaged, or a file that it names cannot be read.
        """
        return self._update(rebuild="", suggestions=suggestions)

    def rebuild(self) -> IndexReport:
        """Build the index from the tables alone. Raises what `update` raises."""
        return self._update(rebuild="requested")

    def close(self) -> None:
        """Stop the threads, remove the working folder, let another indexer in. A later update
        starts anew.
        """
        builder, self._builder, self._current = self._builder, None, None
        try:
            if builder is not None:
                builder.close()
        finally:
            while self._locks:
                os.close(self._locks.pop())

    def _update(self, rebuild: str, *, suggestions: bool = True) -> IndexReport:
        started = time.perf_counter()
        self._take_lock()
        try:
            self._state.refresh()
        except EntriesGone:
            # we were away for so long that the log was shortened: begin at its snapshot
            self._state = self._workspace.state()
        if not rebuild:
            rebuild = (
                self._reason_to_rebuild()
                if self._builder is None
                else ("the last update failed" if self._dirty else "")
            )
        if (
            not rebuild
            and self._current is not None
            and self._excluded_since(self._current.info.log_entry)
        ):
            rebuild = "exclusions were added"
        current = None if rebuild else self._current
        after = current.info.log_entry if current else 0
        ranked = self._ranked()
        resting = not suggestions or (
            current is not None
            and not suggest.is_due(current.path, self._clock.now_ms(), current.info.log_entry)
        )
        if (
            current is not None
            and resting
            and not self._news(after)
            and ranked in (0, current.info.graph)
        ):
            if layout(self._storage) != self.shard.count:
                # a kill came between the last shard and this
                adopt(self._storage, self.shard.count)
            self._remove_excluded(current)
            return self._report(current, started)
        builder = self._builder
        if builder is None or current is None:
            builder = self._start(current)
        self._dirty = True
        put, removed, ranked = self._read(builder, after, current.info.graph if current else 0)
        self._current = self._publish(builder, ranked, current, suggestions=suggestions)
        self._remove_excluded(self._current)
        adopt(self._storage, self.shard.count)
        self._dirty = False
        return self._report(self._current, started, put, removed, rebuild)

    def _take_lock(self) -> None:
        """The shard's lock for us alone; the whole index's together with other shards' indexers,
        never with one of a whole index.
        """
        if self._locks:
            return
        root = self._workspace.root
        # its name is on disk before anything is published in it
        generations.workshop(self._storage, self._line)
        whole = Path(self._storage.lock_path(f"{generations.FOLDER}/{generations.LOCK}"))
        wanted = [(whole, fcntl.LOCK_EX)]
        if self.shard.count > 1:
            wanted = [
                (whole, fcntl.LOCK_SH),
                (Path(self._storage.lock_path(f"{self._line}/{generations.LOCK}")), fcntl.LOCK_EX),
            ]
        for path, kind in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._locks.append(lock)
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                while self._locks:
                    os.close(self._locks.pop())
                raise OwnedError(
                    f"another process is indexing {root}: a running crawl updates the index "
                    "itself; "
                    f"otherwise wait for the other `lycosa index`"
                ) from None
        generations.remove_leftovers(self._storage, self._line)

    def _reason_to_rebuild(self) -> str:
        """Why the newest generation cannot be carried on; "" if it can (it is then `_current`)."""
        try:
            self._current = generations.newest(self._storage, self._line)
        except WorkspaceError as error:
            self._current = None
            return str(error)
        if self._current is None:
            return "no index existed"
        info = self._current.info
        if info.analyzers != self._versions:
            return "it was built with other analyzers or fields"
        if info.log_entry > self._state.head:
            return "it contains entries that are missing in the log"
        entry = self._workspace.log.read(info.log_entry) if info.log_entry else None
        if entry is not None and entry.attempt != info.attempt:
            return "it was built from another log"
        return ""

    def _start(self, base: Generation | None) -> IndexBuilder:
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.close()
        self._builder = IndexBuilder(
            generations.workshop(self._storage, self._line),
            base.path if base else None,
            heap_bytes=self._settings.heap,
            threads=self._settings.threads,
            analysis=self._analysis,
        )
        self._collections = set(base.info.collections) if base else set()
        return self._builder

    def _ranked(self) -> int:
        """The generation of the graph that may be read; 0: none. One that is older than an
        exclusion may hold what excluded pages said.
        """
        found = newest_graph(self._workspace)
        if found is None:
            return 0
        info, _ = found
        return 0 if self._excluded_since(info.log_entry) else info.generation

    def _excluded_since(self, after: int) -> bool:
        return any(entry > after for entry in self._state.exclusions.rules.values())

    def _remove_excluded(self, newest: Generation) -> None:
        """Remove the older generations if one of them was made before the last exclusion: it holds
        excluded text.
        """
        excluded = max(self._state.exclusions.rules.values(), default=0)
        older = (
            [
                number
                for number in generations.numbers(self._storage, self._line)
                if number < newest.number
            ]
            if excluded
            else []
        )
        for number in older:
            try:
                found = generations.load(self._storage, number, self._line)
            except WorkspaceError:
                found = None
            if found is None or found.info.log_entry < excluded:
                generations.remove_older(self._storage, newest.number, self._line)
                return

    def _news(self, after: int) -> bool:
        """Whether live files hold rows that came after an entry."""
        return any(
            file.entry > after and file.rows
            for name in _TABLES
            for file in self._state.files.get(name, [])
        )

    def _read(self, builder: IndexBuilder, after: int, ranked: int) -> tuple[int, int, int]:
        """Take in what came after an entry, and what links say since a generation of the graph.
        Returns how many documents were put and removed, and that generation now.
        """
        tables = LiveTables(self._workspace, self._state)
        with _reading():
            usable = self._ranked()
            news = (
                link_news(self._workspace, self._partitions)
                if self._partitions and usable
                else None
            )
            again = set[int]()
            if news is not None and after and news.generation != ranked:
                again.update(news.pages(since=ranked, columns=["url_key"])["url_key"])
            if 2 * len(again) > builder.documents:
                after, again = 0, set()  # most pages: they are read as they stand
            put, removed = self._read_pages(builder, tables, after, news)
            builder.commit()
            removed += self._remove_gone(builder, tables, after, again)
            put_again, removed_again = self._read_again(builder, tables, sorted(again), news)
        builder.commit()
        return (
            put + put_again,
            removed + removed_again,
            news.generation if news is not None else usable,
        )

    def _read_pages(
        self, builder: IndexBuilder, tables: LiveTables, after: int, news: LinkSignals | None
    ) -> tuple[int, int]:
        put = removed = 0
        for names in tables.changes("pages", after, ["collection"], partitions=self._only):
            # all of them first: rows of a URL may stand in several frames
            self._collections.update(names["collection"].unique())
        for partitions in self._parts(after):
            around = Surroundings(tables, after, partitions, news)
            repeated = _repeated(tables, after, partitions)
            for frame in tables.changes(
                "pages", after, _PAGE_COLUMNS, memory_bytes=BATCH_BYTES, partitions=partitions
            ):
                # Files are sorted by key, so the rows of one URL stand together within a frame.
                for url_key, group in itertools.groupby(_rows(frame), key=itemgetter(0)):
                    rows = list(group)
                    row = max(rows, key=itemgetter(_ENTRY, 3)) if len(rows) > 1 else rows[0]
                    collections = {other[2] for other in rows}
                    if row[12] and len(self._collections) > 1:
                        collections.update(builder.collections(url_key) or ())
                    if self._put(builder, row, collections, around, first=url_key not in repeated):
                        put += 1
                    else:
                        removed += 1
                if len(self._collections) > 1:
                    # so that the next frame's rows find these documents' collections
                    builder.commit()
        return put, removed

    def _put(
        self,
        builder: IndexBuilder,
        row: tuple[Any, ...],
        collections: set[str],
        around: Surroundings,
        *,
        first: bool = False,
    ) -> bool:
        """Index a page, or remove it if it may not be in the index, or is in no collection by
        itself. Whether it is there now. `first` as of `IndexBuilder.put`.
        """
        url_key = row[0]
        left = collections - around.copied_in(url_key)
        if not row[12] or not left:
            builder.remove(url_key, first=first)
            return False
        builder.put(_page(row, sorted(left), around), first=first)
        return True

    def _read_again(
        self,
        builder: IndexBuilder,
        tables: LiveTables,
        url_keys: list[int],
        news: LinkSignals | None,
    ) -> tuple[int, int]:
        """Index these pages anew as the tables hold them now."""
        put = removed = 0
        for start in range(0, len(url_keys), AGAIN_ROWS):
            keys = pl.Series("url_key", url_keys[start : start + AGAIN_ROWS], dtype=pl.UInt64)
            around = Surroundings(tables, 0, self._only, news, keys)
            gone = set(_gone(tables, keys, self._only))
            rows = (
                self._inside(tables.all_rows("pages"))
                .filter(pl.col("url_key").is_in(keys.implode()))
                .select(*_PAGE_COLUMNS, ENTRY)
            )
            live = (
                rows.unique(["collection", "url_key"], keep="last", maintain_order=True)
                .sort("url_key", maintain_order=True)
                .collect()
            )
            for url_key, group in itertools.groupby(_rows(live), key=itemgetter(0)):
                found = [row for row in group if (url_key, row[2]) not in gone]
                if found and self._put(
                    builder,
                    max(found, key=itemgetter(_ENTRY, 3)),
                    {row[2] for row in found},
                    around,
                ):
                    put += 1
                else:
                    builder.remove(url_key)
                    removed += 1
        return put, removed

    def _remove_gone(
        self, builder: IndexBuilder, tables: LiveTables, after: int, again: set[int]
    ) -> int:
        """Remove the documents of URLs that are gone; those that another collection still has are
        added to `again`.
        """
        removed = 0
        for url_key, group in itertools.groupby(
            _gone(tables, _gone_since(tables, after, self._only), self._only), key=itemgetter(0)
        ):
            gone = {collection for _, collection in group}
            if len(self._collections) > 1 and set(builder.collections(url_key) or ()) - gone:
                again.add(url_key)
                continue
            builder.remove(url_key)
            removed += 1
        return removed

    def _parts(self, after: int) -> list[range | None]:
        """The partitions to read one after the other, so that what belongs to their pages fits into
        memory.
        """
        rows = sum(file.rows for file in self._state.files.get("pages", []) if file.entry > after)
        count = min(-(-rows // PART_ROWS), len(self._partitions))
        if count <= 1:
            return [self._only]
        first, whole = self._partitions.start, len(self._partitions)
        return [
            range(first + number * whole // count, first + (number + 1) * whole // count)
            for number in range(count)
        ]

    def _inside(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows if self._only is None else rows.filter(in_partitions(self._only))

    def _publish(
        self, builder: IndexBuilder, ranked: int, before: Generation | None, *, suggestions: bool
    ) -> Generation:
        documents, languages, collections = builder.counts()
        published = generations.numbers(self._storage, self._line)
        head = self._state.head
        entry = self._workspace.log.read(head) if head else None
        info = GenerationInfo(
            generation=(published[-1] if published else highest_number(self._storage)) + 1,
            log_entry=head,
            attempt=entry.attempt if entry else "",
            documents=documents,
            analyzers=self._versions,
            languages=languages,
            collections=collections,
            created_at=format_time(self._clock.now_ms()),
            shard=self.shard.number,
            shards=self.shard.count,
            graph=ranked,
        )
        build = builder.link()
        self._between()
        if suggestions:
            self._suggest(build, before, ranked)
            self._between()
        elif before is not None:
            suggest.carry_over(before.path, build)
        return generations.publish(self._storage, build, info, self._line)

    def _suggest(self, build: Path, before: Generation | None, ranked: int) -> None:
        """Put the suggestions into a generation that is about to be published."""
        tables = LiveTables(self._workspace, self._state)

        news = link_news(self._workspace, self._partitions) if self._partitions and ranked else None

        def said(keys: pl.Series) -> pl.DataFrame | None:
            return (
                None if news is None else news.pages(keys, columns=["url_key", "prior", "anchors"])
            )

        def gone() -> pl.Series:
            found = _gone(tables, _gone_since(tables, 0, self._only), self._only)
            return pl.Series("url_key", [url_key for url_key, _ in found], dtype=pl.UInt64).unique()

        task = suggest.SuggestTask(tables, self._only, self._clock.now_ms(), gone, said)
        with _reading():
            suggest.place(task, build, before.path if before is not None else None)

    @property
    def _only(self) -> range | None:
        """The partitions to read; None: all of them."""
        return None if self.shard.count == 1 else self._partitions

    def _report(
        self, current: Generation, started: float, put: int = 0, removed: int = 0, rebuilt: str = ""
    ) -> IndexReport:
        took = (time.perf_counter() - started) * 1000
        return IndexReport(
            current.number,
            current.info.log_entry,
            current.info.documents,
            put,
            removed,
            rebuilt,
            took,
        )


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Tables are read here. Raises WorkspaceError for what they cannot give."""
    try:
        yield
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"a table file of the log is missing: {error}; run `lycosa check`"
        ) from None
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(f"the tables cannot be read: {error}; run `lycosa check`") from None


@dataclass(slots=True, frozen=True)
class ShardTask:
    """What another process needs to index one shard; for `Engine.map(index_shard, tasks_of(root,
    settings))`.
    """

    root: str
    shard: Shard
    settings: IndexSettings
    rebuild: bool = False


def tasks_of(root: str, settings: IndexSettings, *, rebuild: bool = False) -> list[ShardTask]:
    """The tasks that bring all shards up to the log, or build them anew. They may run side by side,
    on any machine.
    """
    return [ShardTask(root, shard, settings, rebuild) for shard in shards_of(settings.shards)]


def index_shard(task: ShardTask) -> IndexReport:
    """Bring one shard up to the log. Twice does no harm. Raises what `Indexer.update` raises."""
    indexer = ShardIndexer(task.root, task.shard, task.settings)
    try:
        return indexer.rebuild() if task.rebuild else indexer.update()
    finally:
        indexer.close()


def combined_report(reports: Sequence[IndexReport]) -> IndexReport:
    """What the shards did together: sums, and the log entry that all of them have read."""
    return IndexReport(
        generation=sum(report.generation for report in reports),
        log_entry=min(report.log_entry for report in reports),
        documents=sum(report.documents for report in reports),
        put=sum(report.put for report in reports),
        removed=sum(report.removed for report in reports),
        rebuilt="; ".join(dict.fromkeys(report.rebuilt for report in reports if report.rebuilt)),
        duration_ms=sum(report.duration_ms for report in reports),
    )


def _rows(frame: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Rows, the entry last; times as milliseconds. Few are Python objects at a time."""
    for batch in frame.iter_slices(BATCH_ROWS):
        yield from batch.with_columns(cs.datetime().dt.epoch("ms")).iter_rows(
            buffer_size=OBJECT_ROWS
        )


def _repeated(tables: LiveTables, after: int, partitions: range | None) -> set[int]:
    """The keys of which several rows of pages came after an entry."""
    parts = [
        frame["url_key"]
        for frame in tables.changes("pages", after, ("url_key",), partitions=partitions)
    ]
    keys = pl.concat(parts) if parts else pl.Series("url_key", [], dtype=pl.UInt64)
    return set(keys.filter(keys.is_duplicated()).to_list())


def _gone_since(tables: LiveTables, after: int, partitions: range | None) -> pl.Series:
    """The keys of URLs of which a row that came after an entry says gone or excluded."""
    columns = ("url_key", "collection", "operation", "state")
    parts = [
        frame.filter((pl.col("operation") == "") & pl.col("state").is_in(_REMOVED))
        for frame in tables.changes("urls", after, columns, partitions=partitions)
    ]
    return (
        pl.concat(parts)["url_key"].unique() if parts else pl.Series("url_key", [], dtype=pl.UInt64)
    )


def _gone(
    tables: LiveTables, candidates: pl.Series, partitions: range | None
) -> list[tuple[int, str]]:
    """(url_key, collection), sorted, of those of these URLs whose live row says gone or
    excluded.
    """
    if candidates.is_empty():
        return []
    every = tables.all_rows("urls")
    if partitions is not None:
        every = every.filter(in_partitions(partitions))
    rows = every.filter(pl.col("url_key").is_in(candidates.implode()) & (pl.col("operation") == ""))
    last = (
        rows.select("url_key", "collection", "state", "entry")
        .sort("entry", maintain_order=True)
        .unique(subset=["url_key", "collection"], keep="last", maintain_order=True)
        .filter(pl.col("state").is_in(_REMOVED))
        .select("url_key", "collection")
        .sort("url_key", "collection")
        .collect()
    )
    return list(last.iter_rows())


def _page(row: tuple[Any, ...], collections: list[str], around: Surroundings) -> IndexedPage:
    (
        url_key,
        url,
        _,
        fetched_at,
        title,
        headline,
        description,
        headings,
        main_text,
        text,
        language,
        published_at,
        _,
        digest,
        share,
        _,
    ) = row
    return IndexedPage(
        url=url,
        host=hostname(url),
        url_key=url_key,
        collections=collections,
        title=title or headline,
        description=description,
        headings=headings,
        body=main_text,
        full=outside(text, main_text),
        language=language,
        fetched_at=fetched_at,
        published_at=published_at,
        type=around.type(url_key, url),
        links=around.links(url_key),
        anchors=around.anchors(url_key),
        prior=around.prior(url_key),
        group=around.group(url_key, digest) or text_group(text, digest),
        language_share=1.0 if share is None else share,  # tables written before this column
    )


def text_group(text: str, digest: int) -> int:
    """What pages with the same text share; 0 for one without text. (A table made before the digest
    was a column has 0.)
    """
    return digest - 2**63 if text and digest else 0
