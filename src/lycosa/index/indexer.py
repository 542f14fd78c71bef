"""Keep the search index up to date with the log.

An update reads the rows of log entries after that of the newest generation (generation.json),
wherever compaction moved them, applies them (`index.update`) and publishes a new generation. An
exclusion rebuilds the index, so that nothing excluded remains in it. A kill leaves the last
published generation.

Link signals (prior, anchors, copies) come from the newest generation of `graph`. If it is newer
than the one of the index, the pages whose signals changed are read again.

With several shards (`index.shards.shards`) each group of partitions has its own index, which
follows the log independently.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl

from lycosa.config.settings import IndexSettings
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.core.units import format_time
from lycosa.graph.generation import LinkSignals, link_signals_of
from lycosa.graph.generation import newest as newest_graph
from lycosa.index import generation as generations
from lycosa.index.builder import IndexBuilder
from lycosa.index.generation import Generation, GenerationInfo, IndexLock
from lycosa.index.schema import analysis_versions
from lycosa.index.shards.shards import WHOLE, Shard, adopt, highest_number, layout, shards_of
from lycosa.index.suggest import refresh
from lycosa.index.update import IndexUpdate, removed_pages
from lycosa.store.log.state import LogState
from lycosa.store.storage.staging import remove_generations
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import Analysis

MAX_OPEN_SHARDS = 8  # shards with build folders and writers that stay open


@dataclass(slots=True, frozen=True)
class IndexReport:
    """Result of an update. `generation` is the newest one, 0 if there is none; `documents` are
    those of it; `rebuilt` is the reason of a rebuild, "" for an update.
    """

    generation: int
    log_entry: int
    documents: int
    put: int = 0
    removed: int = 0
    rebuilt: str = ""
    duration_ms: float = 0.0

    @property
    def changed(self) -> bool:
        return bool(self.put or self.removed or self.rebuilt)


class Indexer:
    """The indexers of all shards, run one by one.

    Reuse it for further updates: opening costs more than a small update. `release_memory` is called
    after the index and after its suggestions were written.

    Raises:
        WorkspaceError: there is no workspace, or its log or index is damaged.
        UsageError: `korean` needs a package that is not installed.
    """

    def __init__(
        self,
        root: str,
        settings: IndexSettings | None = None,
        clock: Clock | None = None,
        release_memory: Callable[[], object] = lambda: None,
    ) -> None:
        self._shards: list[ShardIndexer] = []  # first, for `__del__`
        count = (settings or IndexSettings()).shards
        self._shards = [
            ShardIndexer(root, shard, settings, clock, release_memory) for shard in shards_of(count)
        ]

    def __enter__(self) -> Indexer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, *, suggestions: bool = True, last: bool = False) -> IndexReport:
        """Index the new entries of the log; without new entries, publish nothing.

        Args:
            suggestions: renew their file if it is due. False while many pages arrive.
            last: no update follows soon. Wait for merges, and keep only the new generation.

        Raises:
            OwnedError: another process is indexing this workspace.
            WorkspaceError: the log is damaged, or a file that it names cannot be read.
        """
        return self._all(lambda shard: shard.update(suggestions=suggestions, last=last))

    def rebuild(self) -> IndexReport:
        """Build the index from the tables alone. Raises the same errors as `update`."""
        return self._all(ShardIndexer.rebuild)

    def close(self) -> None:
        """Stop the threads, remove the build folders, release the lock. `update` opens again."""
        for shard in self._shards:
            shard.close()

    def _all(self, work: Callable[[ShardIndexer], IndexReport]) -> IndexReport:
        if len(self._shards) == 1:
            return work(self._shards[0])
        reports = []
        for number, shard in enumerate(self._shards):
            reports.append(work(shard))
            if number >= MAX_OPEN_SHARDS:
                shard.close()
        return combined_report(reports)


class ShardIndexer:
    """The indexer of one shard. A lock admits one at a time. Other processes run `index_shard`.

    Raises:
        WorkspaceError: there is no workspace, or its log or index is damaged.
        UsageError: `korean` needs a package that is not installed.
    """

    def __init__(
        self,
        root: str,
        shard: Shard = WHOLE,
        settings: IndexSettings | None = None,
        clock: Clock | None = None,
        release_memory: Callable[[], object] = lambda: None,
    ) -> None:
        self._builder: IndexBuilder | None = None
        self._lock: IndexLock | None = None
        self._workspace = Workspace.open(root)
        self._storage = self._workspace.storage
        self.shard = shard
        self._line = shard.line
        self._partitions = shard.partitions(self._workspace.partitions)
        self._settings = settings or IndexSettings()
        self._analysis = Analysis((self._settings.korean,))
        self._versions = analysis_versions(self._analysis)
        self._clock = clock or SystemClock()
        self._release_memory = release_memory
        self._state = LogState(self._workspace.log)
        self._current: Generation | None = None
        self._collections: set[str] = set()
        self._failed = False
        self._lock = IndexLock(self._storage, self._line, whole=shard.count == 1)

    def __del__(self) -> None:
        """Release the lock, for the next indexer in this process."""
        self.close()

    def update(self, *, suggestions: bool = True, last: bool = False) -> IndexReport:
        """Index the new entries of the log. Arguments and errors as of `Indexer.update`."""
        started = self._open()
        base, reason = self._base()
        if base is not None and self._is_current(base, suggestions=suggestions):
            if layout(self._storage) != self.shard.count:  # killed before the last shard adopted
                adopt(self._storage, self.shard.count)
            self._remove_excluded(base)
            return self._report(base, started)
        return self._publish_from(base, started, reason, suggestions=suggestions, last=last)

    def rebuild(self) -> IndexReport:
        """Build the index from the tables alone. Raises the same errors as `update`."""
        return self._publish_from(None, self._open(), "requested", last=True)

    def close(self) -> None:
        """Stop the threads, remove the build folder, release the lock. `update` opens again."""
        builder, self._builder, self._current = self._builder, None, None
        try:
            if builder is not None:
                builder.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _open(self) -> float:
        """Take the lock and read the log. Return the time."""
        started = time.perf_counter()
        assert self._lock is not None
        self._lock.acquire(self._workspace.root)
        self._state.catch_up()
        return started

    def _base(self) -> tuple[Generation | None, str]:
        """Return the generation to continue from; None, and the reason, if there is none."""
        if self._failed:
            return None, "the last update failed"
        if self._builder is None:
            try:
                self._current = generations.newest(self._storage, self._line)
            except WorkspaceError as error:
                return None, str(error)
        if self._current is None:
            return None, "no index existed"
        info = self._current.info
        if info.analyzers != self._versions:
            return None, "it was built with other analyzers or fields"
        if info.log_entry > self._state.head:
            return None, "it contains entries that are missing in the log"
        if self._builder is None and info.log_entry:
            entry = self._workspace.log.read(info.log_entry)
            if entry is not None and entry.attempt != info.attempt:
                return None, "it was built from another log"
        if self._excluded_since(info.log_entry):
            return None, "exclusions were added"
        return self._current, ""

    def _is_current(self, base: Generation, *, suggestions: bool) -> bool:
        """Return whether an update would change nothing."""
        after = base.info.log_entry
        if self._state.has_rows_after(after, generations.TABLES):
            return False
        if self._graph() not in (0, base.info.graph):
            return False
        return not suggestions or not refresh.is_due(base.path, self._clock.now_ms(), after)

    def _publish_from(
        self,
        base: Generation | None,
        started: float,
        reason: str,
        *,
        suggestions: bool = True,
        last: bool = False,
    ) -> IndexReport:
        builder = self._builder
        if builder is None or base is None:
            builder = self._start(base)
        self._failed = True
        update, graph = self._apply(builder, base)
        if last:
            builder.finish_merges()
        self._current = self._publish(builder, graph, base, suggestions=suggestions)
        if last and self._storage.on_disk:  # on disk, readers open the new generation at once
            remove_generations(self._storage, self._line, self._current.number)
        self._remove_excluded(self._current)
        adopt(self._storage, self.shard.count)
        self._failed = False
        return self._report(self._current, started, update.put, update.removed, reason)

    def _start(self, base: Generation | None) -> IndexBuilder:
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.close()
        self._builder = IndexBuilder(
            generations.staging_folder(self._storage, self._line),
            base.path if base else None,
            heap_bytes=self._settings.heap,
            threads=self._settings.threads,
            analysis=self._analysis,
        )
        self._collections = set(base.info.collections) if base else set()
        return self._builder

    def _graph(self) -> int:
        """Return the generation of the graph to read; 0: none.

        One older than an exclusion may contain anchors of excluded pages.
        """
        newest = newest_graph(self._workspace)
        if newest is None:
            return 0
        info, _ = newest
        return 0 if self._excluded_since(info.log_entry) else info.generation

    def _excluded_since(self, after: int) -> bool:
        return any(entry > after for entry in self._state.exclusions.rules.values())

    def _remove_excluded(self, newest: Generation) -> None:
        """Remove older generations if one of them may contain excluded text."""
        excluded = max(self._state.exclusions.rules.values(), default=0)
        if not excluded:
            return
        for number in generations.numbers(self._storage, self._line):
            if number >= newest.number:
                return
            try:
                older = generations.load(self._storage, number, self._line)
            except WorkspaceError:
                older = None
            if older is None or older.info.log_entry < excluded:
                remove_generations(self._storage, self._line, newest.number)
                return

    def _apply(self, builder: IndexBuilder, base: Generation | None) -> tuple[IndexUpdate, int]:
        """Apply the changes since a generation. Return them, and the current graph generation."""
        graph, after = self._graph(), base.info.log_entry if base else 0
        changed = pl.Series("url_key", [], dtype=pl.UInt64)
        with _reading_tables():
            links = self._links(graph)
            if links is not None:
                graph = links.generation
                if base is not None and after and graph != base.info.graph:
                    changed = links.pages(since=base.info.graph, columns=["url_key"])["url_key"]
            if 2 * len(changed) > builder.documents:  # most pages: read all of them in order
                after, changed = 0, changed.clear()
            update = IndexUpdate(
                LiveTables(self._workspace, self._state),
                builder,
                self._partitions,
                links,
                self._collections,
                whole=self.shard.count == 1,
            )
            update.apply(after, changed)
        return update, graph

    def _links(self, graph: int) -> LinkSignals | None:
        return (
            link_signals_of(self._workspace, self._partitions)
            if graph and self._partitions
            else None
        )

    def _publish(
        self, builder: IndexBuilder, graph: int, before: Generation | None, *, suggestions: bool
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
            graph=graph,
        )
        build = builder.link()
        self._release_memory()
        now_ms = self._clock.now_ms()
        if suggestions and (before is None or refresh.is_due(before.path, now_ms, head)):
            self._suggest(build, graph, now_ms)
            self._release_memory()
        elif before is not None:
            refresh.keep(before.path, build)
        return generations.publish(self._storage, build, info, self._line)

    def _suggest(self, build: Path, graph: int, now_ms: int) -> None:
        """Write suggestions into a build folder."""
        tables = LiveTables(self._workspace, self._state)
        only = None if self.shard.count == 1 else self._partitions
        with _reading_tables():
            links = self._links(graph)
            removed = removed_pages(tables, 0, only)["url_key"].unique()
            refresh.write_file(build, tables, only, removed, links, now_ms)

    def _report(
        self, current: Generation, started: float, put: int = 0, removed: int = 0, reason: str = ""
    ) -> IndexReport:
        duration_ms = (time.perf_counter() - started) * 1000
        info = current.info
        return IndexReport(
            current.number, info.log_entry, info.documents, put, removed, reason, duration_ms
        )


@contextlib.contextmanager
def _reading_tables() -> Iterator[None]:
    """Convert errors of reading tables into WorkspaceError."""
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
    """Arguments to index one shard in another process: `Engine.map(index_shard, tasks_of(...))`."""

    root: str
    shard: Shard
    settings: IndexSettings
    rebuild: bool = False


def tasks_of(root: str, settings: IndexSettings, *, rebuild: bool = False) -> list[ShardTask]:
    """Return the tasks that update or rebuild all shards, in any order, on any machine."""
    return [ShardTask(root, shard, settings, rebuild) for shard in shards_of(settings.shards)]


def index_shard(task: ShardTask) -> IndexReport:
    """Update or rebuild one shard. Idempotent. Raises the same errors as `Indexer.update`."""
    indexer = ShardIndexer(task.root, task.shard, task.settings)
    try:
        return indexer.rebuild() if task.rebuild else indexer.update(last=True)
    finally:
        indexer.close()


def combined_report(reports: Sequence[IndexReport]) -> IndexReport:
    """Return the sums of shards' reports, and the log entry that all of them have read."""
    return IndexReport(
        generation=sum(report.generation for report in reports),
        log_entry=min(report.log_entry for report in reports),
        documents=sum(report.documents for report in reports),
        put=sum(report.put for report in reports),
        removed=sum(report.removed for report in reports),
        rebuilt="; ".join(dict.fromkeys(report.rebuilt for report in reports if report.rebuilt)),
        duration_ms=sum(report.duration_ms for report in reports),
    )
