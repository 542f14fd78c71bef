"""A walk from a URL for several workers.

The driver walks the stored links, and the workers fetch the URLs that the walk reaches.

`run/walk-ID/00000003.parquet` contains the URLs that a part of the walk has reached, rows of all
partitions. `head.json` contains the number of such files, and the log entry up to which all links
were walked. Each worker reads the rows of its partitions, and reports that it is idle up to that
entry at most. So a crawl ends only when the walk has ended, and a new owner of partitions begins
with the URLs that were reached in them.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.records import UrlId
from lycosa.crawl.admission.link_gate import AdmissionListener, LinkGate
from lycosa.crawl.session.session import CrawlSession
from lycosa.crawl.session.walking import Reached, Walk, WalkStart, nearest_links
from lycosa.crawl.state.task import Job
from lycosa.frontier.scheduler.reach import Keys, Reach
from lycosa.frontier.seen import SeenUrls
from lycosa.store.coordination.owner import FOLDER as RUN
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.scope import Admission

_PREFIX = "walk-"
_HEAD = "head.json"
_ROWS = 50_000  # of a file; some 20 MB of memory
_EVERY_MS = 500
_SHARE = 2  # the pause after a walk is this multiple of its duration
_SCHEMA = pl.Schema(
    {
        "partition": pl.Int64(),
        "host_key": pl.UInt64(),
        "url_key": pl.UInt64(),
        "url": pl.String(),
        "host": pl.String(),
        "distance": pl.Int64(),
        "depth": pl.Int64(),
        "referrer": pl.String(),
    }
)


@dataclass(slots=True, frozen=True)
class WalkOrder:
    """The walk that restricts a worker.

    Picklable. `folder`: where the walk from `start` is written; "" if all unvisited URLs are
    admitted, so that no walk is needed.
    """

    collection: str
    start: WalkStart
    folder: str = ""


def join_walk(session: CrawlSession, order: WalkOrder) -> None:
    """Restrict a worker's session to a walk. Call it before the session loads."""
    walk = Walk(session, order.collection, order.start)
    if order.folder:
        session.follow_walk(_Follower(session, walk, order.folder).take)


class _Follower:
    """The part of the walk that a worker has read."""

    def __init__(self, session: CrawlSession, walk: Walk, folder: str) -> None:
        self._storage = session.workspace.storage
        self._held = sorted(session.claim.partitions)
        self._walk = walk
        self._folder = folder
        self._applied = self._entry = 0

    def take(self) -> int:
        """Apply new files.

        Return the log entry up to which links were walked, at first 0.
        """
        try:
            head = self._storage.read(f"{self._folder}/{_HEAD}")
            if head is None:
                return 0
            note = json.loads(head)
            self._walk.take(
                row
                for number in range(self._applied, note["files"])
                for row in self._rows(number + 1)
            )
        except OSError:  # storage is unavailable: retried at the next call
            return self._entry
        self._applied, self._entry = note["files"], note["entry"]
        return self._entry

    def _rows(self, number: int) -> Iterator[Reached]:
        rows = pl.read_parquet(io.BytesIO(self._storage.read(_file(self._folder, number)) or b""))
        for partition, host_key, url_key, url, host, distance, depth, referrer in rows.filter(
            pl.col("partition").is_in(self._held)
        ).iter_rows():
            yield Reached(UrlId(url, host, host_key, url_key, partition), distance, depth, referrer)


class _ReachedBy(NamedTuple):
    """The link by which a URL was reached.

    `source`: the key of the page with the link; None: the URL is the start.
    """

    id: UrlId
    source: int | None
    redirect: bool
    referrer: str


class Walker:
    """Walks a collection's links after each commit. Not thread-safe."""

    def __init__(
        self, workspace: Workspace, job: Job, start: WalkStart, folder: str, *, other_schemes: bool
    ) -> None:
        self._storage = workspace.storage
        self._tables = LiveTables(workspace)
        self._collection = job.collection
        identifier = Identifier(workspace.domains, workspace.partitions)
        self._reach = Reach(start.depth, _do_not_wake)
        self._gate = LinkGate(
            job.collection,
            Admission(job.collection, job.seeds, workspace.domains, other_schemes=other_schemes),
            identifier,
            SeenUrls(),
            AdmissionListener(),
        )
        self._gate.restrict_to(self._reach)
        self._folder = folder
        self._sources: Keys = np.zeros(0, np.uint64)  # that have stored links, sorted
        self._walked = self._files = 0
        first = identifier.identify(start.url)
        self._reach.put(first.url_key, 0)
        # reached, or reached by a shorter path, since their links were last walked
        self._next = {first.url_key}
        self._reached_by = {first.url_key: _ReachedBy(first, None, False, "")}  # not written yet

    def step(self) -> None:
        """Walk the links committed since the last call, and publish the result.

        Raises the errors of `LiveTables`, and OSError.
        """
        state = self._tables.state
        state.refresh()
        head = state.head
        if head == self._walked:
            return
        self._take_sources()
        while self._next:
            sources, self._next = self._next, set()
            try:
                self._expand(np.fromiter(sources, np.uint64, len(sources)))
            except BaseException:
                self._next |= sources
                raise
        self._write()
        self._storage.replace(
            f"{self._folder}/{_HEAD}", json.dumps({"files": self._files, "entry": head}).encode()
        )
        self._walked = head

    def _take_sources(self) -> None:
        """Add the pages with newly committed links to the sources."""
        parts = [self._sources]
        for frame in self._tables.changes("links", self._walked, ("url_key",)):
            came = frame["url_key"].unique().to_numpy()
            parts.append(came)
            self._next.update(key for key in came.tolist() if self._reach.distance(key) is not None)
        self._sources = np.unique(np.concatenate(parts))

    def _expand(self, reached: Keys) -> None:
        """Walk the stored links of some URLs."""
        sources = reached[np.isin(reached, self._sources)]
        if not sources.size:
            return
        distances = [self._reach.distance(key) for key in sources.tolist()]
        levels = pl.DataFrame(
            {"url_key": sources, "distance": distances},
            schema={"url_key": pl.UInt64, "distance": pl.Int64},
        )
        for links in nearest_links(self._tables, self._collection, levels):
            for target, is_redirect, source_key, source in links.iter_rows():
                for identity in self._gate.extend(source_key, (target,), 0 if is_redirect else 1):
                    self._next.add(identity.url_key)
                    self._reached_by[identity.url_key] = _ReachedBy(
                        identity, source_key, is_redirect, source
                    )
            if len(self._reached_by) >= _ROWS:
                self._write()

    def _write(self) -> None:
        """Write a file of the URLs that were reached since the last one."""
        if not self._reached_by:
            return
        reached = list(self._reached_by.values())
        depths = self._depths({each.source for each in reached if each.source is not None})
        rows = [
            (
                each.id.partition,
                each.id.host_key,
                each.id.url_key,
                each.id.url,
                each.id.host,
                self._reach.distance(each.id.url_key),
                depths.get(each.source or 0, 0) + (each.source is not None and not each.redirect),
                each.referrer,
            )
            for each in reached
        ]
        content = io.BytesIO()
        pl.DataFrame(rows, schema=_SCHEMA, orient="row").write_parquet(content, compression="zstd")
        self._storage.replace(_file(self._folder, self._files + 1), content.getvalue())
        self._files += 1
        self._reached_by = {}

    def _depths(self, keys: set[int]) -> dict[int, int]:
        """Return URL key -> newest depth of the pages with these keys."""
        url_keys = pl.LazyFrame({"url_key": list(keys)}, schema={"url_key": pl.UInt64})
        rows = self._tables.all_rows("urls").filter(
            (pl.col("collection") == self._collection.name) & (pl.col("operation") == "")
        )
        newest = (
            rows.select("url_key", "depth")
            .join(url_keys, on="url_key", how="semi", maintain_order="left")
            .unique("url_key", keep="last", maintain_order=True)
        )
        return dict(newest.collect().iter_rows())


class WalkDriver:
    """Runs a `Walker` in a thread of the driver.

    Call `tick` often, and `close` in any case. `order`: the `WalkOrder` for the workers.
    """

    def __init__(
        self, workspace: Workspace, job: Job, start: WalkStart, config: Config, clock: Clock
    ) -> None:
        self._storage = workspace.storage
        self._clock = clock
        self.order = WalkOrder(job.collection.name, start)
        self._walker: Walker | None = None
        self._step: Future[None] | None = None
        self._began = self._next = 0
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="walk")
        self._remove()  # files of a driver that was killed
        if start.url:
            folder = f"{RUN}/{_PREFIX}{secrets.token_hex(8)}"
            self._storage.make_folder(folder)
            self.order = replace(self.order, folder=folder)
            self._walker = Walker(
                workspace, job, start, folder, other_schemes=config.fetch.other_schemes
            )

    def tick(self) -> None:
        """Start the next part if it is due.

        Raises permanent errors of the last part.
        """
        now = self._clock.monotonic_ms()
        if self._step is not None and self._step.done():
            step, self._step = self._step, None
            self._next = now + max(_EVERY_MS, _SHARE * (now - self._began))
            with suppress(OSError):  # storage is unavailable: retried
                step.result()
        if self._walker is not None and self._step is None and now >= self._next:
            self._began = now
            self._step = self._threads.submit(self._walker.step)

    def close(self) -> None:
        """Stop and remove the walk. May be called twice."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            for name in self._storage.names(RUN):
                if name.startswith(_PREFIX):
                    self._storage.folders.remove(f"{RUN}/{name}")


def _file(folder: str, number: int) -> str:
    return f"{folder}/{number:08d}.parquet"


def _do_not_wake(host_key: int) -> None:
    """Do nothing: the walker has no hosts."""
