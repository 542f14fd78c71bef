"""A worker with all its parts, from a claim to its release.

It is used by `crawl` and `run`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from lycosa.config.collection import ADMISSION_SETTINGS
from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.admission.inbox import Inbox
from lycosa.crawl.admission.received_links import ReceivedLinks
from lycosa.crawl.admission.url_filter import ExclusionCheck
from lycosa.crawl.fetch_pipeline import Fetcher
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.request_profiles import require_secrets
from lycosa.crawl.processing.page_reader import item_extractor
from lycosa.crawl.processing.response_processor import ResponseProcessor
from lycosa.crawl.recovery.replay import replay
from lycosa.crawl.recovery.resume import DepthWriter, load, reconsider, walk_links
from lycosa.crawl.recovery.stored_pages import StoredPages
from lycosa.crawl.recrawl.compute_schedule import Ranker
from lycosa.crawl.recrawl.schedule import RecrawlSchedule
from lycosa.crawl.session.single_fetch import fetching_of
from lycosa.crawl.state.crawl_state import CrawlPlace, CrawlState
from lycosa.crawl.state.held_partitions import HeldPartitions, HeldTables
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Worker, WorkerOptions
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard, named_pair
from lycosa.hooks.plugins import Plugins, installed_plugins
from lycosa.processes.platform import drop_code
from lycosa.store.log.claim import Claim
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables, plugin_columns
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import configured_file
from lycosa.url.normalise import normalise

CLAIMS_BEFORE_SANDBOX = 2
"""After this many claims in a row without a commit, replay parses in a child process
(docs/explanation/protocol.md).
"""

REPARSED = "reparsed"
"""Key in a collection's settings, set by `reparse`: links may be new."""

SINCE = "unchanged_since"
"""Key in a collection's settings with several workers: the log entry after which the settings last
changed. A worker that claims a partition last claimed before that entry walks its links again.
"""

_WALK_SHARE = 4  # pause before a walk over the stored links, as a multiple of the last walk's time
# for collections without a depth limit, where the depth decides little
_MAX_DECREASED = 100_000


@dataclass(slots=True)
class CrawlSession:
    """An open claim and its worker.

    Call `load`, then `worker.run()`, then `claim.release()`; `close` in any case.
    """

    workspace: Workspace
    claim: Claim
    crawl: CrawlState
    worker: Worker
    fetcher: Fetcher
    inbox: Inbox
    tables: LiveTables
    changed: tuple[str, ...]  # collections whose stored links are to be walked again
    schedule: RecrawlSchedule
    received_links: ReceivedLinks
    _walk_progress: Callable[[], int] | None = None
    _next_walk: int = 0  # monotonic

    def load(self) -> None:
        """Load committed rows, admit seeds and inbox, replay exchanges.

        Exchanges are archived but uncommitted if an earlier run was killed.

        Raises:
            UrlError: a seed cannot be used.
        """
        crawl = self.crawl
        load(crawl, self.tables)
        for name in self.changed:
            reconsider(crawl, self.tables, crawl.assignments[name])
        for job in crawl.jobs:
            crawl.urls.seed(job.collection.name, job.seeds)
        self.worker.processor.discovery.configured()
        self.inbox.admit()
        with self.schedule.counting_links():  # links that another worker found meanwhile are new
            self.received_links.apply(self.worker.commits.if_due)
        self._replay()
        self.inbox.apply()
        if self.changed:
            # so that replayed rows are in the tables for the walk
            self.worker.commits.now()
            for name in self.changed:
                walk_links(crawl, self.tables, crawl.assignments[name], every_link=True)
        drop_code()

    def follow(self) -> int:
        """Apply links from other workers.

        Returns the log entry up to which all are applied. While there is nothing else to do, also
        walk links again from pages with a decreased depth; in collections without a depth limit
        only if nothing is due within `crawl.patience`, because a walk reads all links. Called each
        second if other workers hold partitions. Raises the errors of `Worker.run`.
        """
        self.received_links.apply()
        self.received_links.record_positions()
        now = self.worker.clock.monotonic_ms()
        if now >= self._next_walk and self.worker.nothing_to_do(now):
            patience = self.crawl.config.crawl.patience
            self.walk_depth_decreased(limited_only=not self.worker.nothing_to_do(now + patience))
            self._next_walk = now + _WALK_SHARE * (self.worker.clock.monotonic_ms() - now)
        for assignment in self.crawl.assignments.values():
            if (
                assignment.collection.depth is None
                and len(assignment.depth_decreased) > _MAX_DECREASED
            ):
                assignment.depth_decreased.clear()
        read_to = self.received_links.read_to
        return read_to if self._walk_progress is None else min(read_to, self._walk_progress())

    def follow_walk(self, walk_progress: Callable[[], int]) -> None:
        """Restrict the session to a walk of the cluster's driver.

        `walk_progress` applies the URLs that the walk has reached, and returns the log entry up to
        which the driver walked.
        """
        self._walk_progress = walk_progress

    def walk_depth_decreased(self, *, limited_only: bool = False) -> bool:
        """Walk links again from pages with a decreased depth.

        Returns whether there were any. `limited_only`: in collections with a depth limit.
        """
        depth_decreased = [
            each
            for each in self.crawl.assignments.values()
            if each.depth_decreased and not (limited_only and each.collection.depth is None)
        ]
        if depth_decreased:
            self.worker.commits.now()
        for assignment in depth_decreased:
            walk_links(self.crawl, self.tables, assignment, every_link=False)
        return bool(depth_decreased)

    def close(self) -> None:
        """Close all parts. An open WARC remains for replay."""
        self.schedule.close()
        self.worker.close()
        self.fetcher.close()
        self.crawl.close()

    def _replay(self) -> None:
        orphans = self.claim.orphans()
        if not orphans:
            return
        processor = self.worker.processor
        in_a_child = self.claim.failed_before >= CLAIMS_BEFORE_SANDBOX
        with processor.parsing_in_a_child() if in_a_child else nullcontext():
            replay(
                processor,
                orphans,
                self.tables,
                self.workspace.path,
                self.worker.commits.if_due,
                LiveTables(self.workspace, self.claim.state),
            )


@dataclass(slots=True, frozen=True)
class SessionOptions(WorkerOptions):
    """Options of a session.

    The default is one worker, which ends when nothing is due. `partitions`: None claims all.
    Otherwise other workers may hold the rest: the worker sends them the URLs that it discovers
    there, and reads those that they send; it runs `forever`, because the end of the crawl depends
    on all workers (`Worker.idle`). `worker`: its name in the log. `lease`: the worker fetches only
    while the lease is valid, and adds at most the granted pages. `plugins`: replace the features
    and installed plug-ins. `mark`: see `ResponseProcessor`. `fetcher`: replaces the fetcher
    of the settings.
    """

    fetcher: Fetcher | None = None
    partitions: Iterable[int] | None = None
    worker: str = ""
    plugins: Plugins | None = None
    mark: Callable[[str], None] = lambda _: None


def open_session(
    workspace: Workspace,
    config: Config,
    jobs: Sequence[Job],
    options: SessionOptions = SessionOptions(),
    *,
    command: str,
    clock: Clock,
) -> CrawlSession:
    """Claim partitions for these collections, and build the worker. Nothing is fetched yet.

    Raises:
        ConfigError: the exclusion list cannot be read, or a fetch setting is wrong; nothing was
        claimed.
        UsageError: the workspace does not have one of the partitions, or a plug-in has columns
        with wrong names.
    """
    plugins = options.plugins or installed_plugins()
    plugin_columns(plugins)
    workspace.storage.files.limit_cache(config.store.cache)
    state = workspace.state()
    held = None if options.partitions is None else frozenset(options.partitions)
    settings = _settings_of(jobs, state, shared=held is not None)
    file = configured_file(config.crawl.exclusions, clock)
    if any(job.collection.render != "never" for job in jobs):
        from lycosa.fetch.browser.process import find_browser

        find_browser(config.render.browser, sandbox=config.render.sandbox)
    require_secrets((job.collection for job in jobs), os.environ)
    fetcher = options.fetcher or _curl_fetcher(config, jobs, clock, shared=held is not None)
    claim = workspace.claim(
        options.worker or f"{command}-{os.getpid()}", held, settings=settings, clock=clock
    )
    crawl = CrawlState(
        claim,
        config,
        jobs,
        clock,
        CrawlPlace(
            workspace.domains,
            HeldPartitions(
                workspace.partitions,
                held if held is not None and len(held) < workspace.partitions else None,
            ),
            ExclusionCheck(file, workspace.domains, claim.state),
            plugins,
        ),
        workspace.storage.scratch_dir(),
    )
    return _compose(workspace, claim, crawl, fetcher, options, _changed(state, claim, settings))


def _curl_fetcher(
    config: Config, jobs: Sequence[Job], clock: Clock, *, shared: bool
) -> CurlFetcher:
    """Return the fetcher of a worker.

    `shared`: other workers may get its partitions. After that, the kernel must not send a request
    of this worker again, for example when a broken network works again.
    """
    every_seed = [
        normalise(seed) for job in jobs for seed in (*job.seeds, *job.collection.feed_urls)
    ]
    return CurlFetcher(
        fetching_of(every_seed, config.fetch),
        AddressGuard(named_pair(seed) for seed in every_seed),
        clock,
        unacknowledged_ms=(config.cluster.reassign - config.cluster.hold) if shared else 0,
    )


def _compose(
    workspace: Workspace,
    claim: Claim,
    crawl: CrawlState,
    fetcher: Fetcher,
    options: SessionOptions,
    changed: tuple[str, ...],
) -> CrawlSession:
    """Build the worker and the other parts of a session."""
    storage, clock = workspace.storage, crawl.clock
    shared = options.partitions is not None
    schedule = _recrawl_schedule(workspace, crawl, options.worker if shared else None)
    matcher = next(iter(crawl.plugins.call("page_matcher", storage=storage, clock=clock)), None)

    discovery = Discovery(crawl)
    types = crawl.plugins.merged("operation_types", storage=storage)
    operations = Operations(crawl, discovery, StoredPages(workspace), types)
    processor = ResponseProcessor(
        crawl,
        discovery,
        page_matcher=matcher,
        mark=options.mark,
        extractor=item_extractor(crawl.plugins, (job.collection for job in crawl.jobs)),
    )
    worker = Worker(
        crawl,
        processor,
        operations,
        fetcher,
        clock,
        _worker_options(
            options,
            workspace,
            crawl,
            (lambda: session.follow()) if shared else None,
        ),
    )
    worker.ticks.append(schedule.tick)
    if matcher is not None:
        worker.ticks.append(matcher.refresh)
    tables = HeldTables(workspace, claim.state, crawl.held_partitions)
    inbox = Inbox(claim, storage, crawl, operations)
    received_links = ReceivedLinks(crawl, discovery, inbox, claim, storage)
    crawl.listeners += (received_links, DepthWriter(crawl, tables))
    session = CrawlSession(
        workspace,
        claim,
        crawl,
        worker,
        fetcher,
        inbox,
        tables,
        changed,
        schedule,
        received_links,
    )
    return session


def _recrawl_schedule(
    workspace: Workspace, crawl: CrawlState, worker: str | None
) -> RecrawlSchedule:
    """Return the schedule of refetches.

    `worker`: the worker's name if other workers hold partitions, else None.
    """
    interval = crawl.config.run.rank_interval
    return RecrawlSchedule(crawl, Ranker(workspace, crawl.clock, worker, interval // 2), interval)


def _worker_options(
    options: SessionOptions,
    workspace: Workspace,
    crawl: CrawlState,
    follow: Callable[[], int] | None,
) -> WorkerOptions:
    """Return worker options with the session's calls at commits."""

    def committed(entry: int) -> None:
        drop_code()
        crawl.plugins.call("commit_done", entry=entry, location=workspace.root)
        if options.committed is not None:
            options.committed(entry)

    return replace(
        options,
        committed=committed,
        forever=options.forever or options.partitions is not None,
        follow=follow,
    )


def _settings_of(
    jobs: Iterable[Job], state: LogState, *, shared: bool
) -> dict[str, dict[str, Any]]:
    """Return the settings and seeds of each collection, for the claim.

    `shared`: other workers hold partitions; then `SINCE` is included.
    """
    settings: dict[str, dict[str, Any]] = {}
    for job in jobs:
        chosen = settings[job.collection.name] = {
            **job.collection.model_dump(mode="json"),
            "seeds": list(job.seeds),
        }
        if shared:
            before = state.settings.get(job.collection.name)
            same = before is not None and not _shape_differs(before, chosen)
            chosen[SINCE] = before.get(SINCE, 0) if before is not None and same else state.head
    return settings


def _changed(
    state: LogState, claim: Claim, settings: Mapping[str, dict[str, Any]]
) -> tuple[str, ...]:
    """Return the collections with stored links to be walked again.

    `state`: the state of the log before the claim.
    """
    claimed = _last_claims(state)
    oldest = min(
        (claimed[partition] for partition in claim.partitions if partition in claimed),
        default=claim.entry,
    )
    before = state.settings
    return tuple(
        name
        for name, chosen in settings.items()
        if name in before
        and (needs_link_walk(before[name], chosen) or oldest <= chosen.get(SINCE, 0))
    )


def needs_link_walk(before: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Return whether stored links may have targets that were not admitted.

    They may if the options differ or pages were parsed again. With a depth limit they always may: a
    stopped call may have reduced the depth of a page before it walked its links.
    """
    return settings["depth"] is not None or _shape_differs(before, settings)


def _shape_differs(before: dict[str, Any], settings: dict[str, Any]) -> bool:
    return REPARSED in before or any(before.get(key) != settings[key] for key in ADMISSION_SETTINGS)


def _last_claims(state: LogState) -> dict[int, int]:
    """Return the latest claim of each partition that was ever claimed."""
    claims = sorted(state.claims.values(), key=lambda claim: claim.number)
    return {partition: claim.number for claim in claims for partition in claim.partitions}
