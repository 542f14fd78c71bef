"""Decides when a worker commits, and writes batches in a thread.

Batches are written one at a time, in order, while fetching continues.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from lycosa.config.settings import CrawlSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import StorageError, WorkError
from lycosa.crawl.state.crawl_state import CrawlState

CHECKS_COMMIT_MS = 120_000
"""Commit interval of availability checks alone.

It is long because each commit writes files, and checks are safe in the open WARC before.
"""

# Interval at which URLs for other workers are committed. It is short at the start of a crawl, when
# those workers have no other URLs.
_MIN_TRANSFER_MS, _MAX_TRANSFER_MS = 1_000, 10_000
_IDLE_COMMIT_MS = 500  # delay of the commit when no URL is due: other workers may need the batch
# An idle worker commits only if no URL is due within this time. Otherwise the pauses of a single
# host would make WARC files of one page.
_IDLE_AHEAD_MS = 10_000


class Commits:
    """The commits of one worker, written in a thread. Not thread-safe."""

    def __init__(
        self,
        crawl: CrawlState,
        settings: CrawlSettings,
        clock: Clock,
        *,
        nothing_to_do: Callable[[int], bool] | None,
        committed: Callable[[int], None] | None,
    ) -> None:
        """`nothing_to_do`: nothing is in flight or due until a monotonic time.

        It is set only if other workers hold partitions. `committed` is called with the number of
        each log entry that is on disk.
        """
        self._crawl, self._settings, self._clock = crawl, settings, clock
        self._nothing_to_do, self._committed = nothing_to_do, committed
        self._transfer_interval_ms = _MIN_TRANSFER_MS
        self._last = clock.monotonic_ms()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self.under_way: Future[int] | None = None  # the commit that is being written

    def if_due(self) -> None:
        """Commit the batch if it is large or old enough.

        Raises the errors of `now`.
        """
        now = self._clock.monotonic_ms()
        if self.under_way is not None and self.under_way.done():
            self._await()
        batch, settings = self._crawl.buffer.batch, self._settings
        if batch.empty:
            return
        if (
            batch.exchanges >= settings.commit_pages
            or batch.text_bytes >= settings.commit_text
            or batch.url_rows + batch.remote_urls >= settings.commit_urls
            or now - self._last >= self._interval(now)
        ):
            self._begin()

    def now(self) -> None:
        """Commit the batch, and wait until it is on disk.

        Raises:
            WorkError: the disk is full or fails.
            ClaimLost: another worker holds the partitions; nothing was committed.
        """
        self._begin()
        self._await()

    def close(self) -> None:
        """Wait for a commit that is being written."""
        self._thread.shutdown(wait=True)

    def _interval(self, now: int) -> int:
        """Return the longest time (ms) that the batch may wait.

        It is short if other workers hold partitions: they wait for URLs in the batch, and the end
        of the crawl waits for the last commit.
        """
        interval = self._settings.commit_interval
        batch = self._crawl.buffer.batch
        if batch.only_checks:  # short at the start: users wait for the first checks
            return max(
                interval, min(CHECKS_COMMIT_MS, interval << min(self._crawl.progress.commits, 10))
            )
        if self._nothing_to_do is None:
            return interval
        if self._nothing_to_do(now + _IDLE_AHEAD_MS):
            return min(interval, _IDLE_COMMIT_MS)
        return (
            min(interval, self._transfer_interval_ms)
            if batch.remote_urls or batch.applied_due
            else interval
        )

    def _begin(self) -> None:
        """Cut the batch and start to write it, after the current commit."""
        self._await()
        batch = self._crawl.buffer.next_batch()
        if not batch.empty:
            self._last = self._clock.monotonic_ms()
            if batch.remote_urls or batch.applied_due:
                self._transfer_interval_ms = min(2 * self._transfer_interval_ms, _MAX_TRANSFER_MS)
            self.under_way = self._thread.submit(batch.commit)

    def _await(self) -> None:
        if self.under_way is None:
            return
        under_way, self.under_way = self.under_way, None
        try:
            entry = under_way.result()
        except OSError as error:
            remote = isinstance(error, StorageError)
            remedy = (
                "run again when the storage is available"
                if remote
                else "free disk space (or repair the disk) and run again"
            )
            raise (StorageError if remote else WorkError)(
                f"the results could not be committed: {error}; {remedy}: all fetched pages are in "
                "the archive and will be processed then; none is fetched twice"
            ) from error
        self._crawl.buffer.committed()
        self._crawl.progress.add_commit()
        if self._committed is not None:
            self._committed(entry)
