"""The state of one worker's crawl, composed of its URL store, host registry and commit buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

from lycosa.archive.warc.writer import crawl_info
from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.crawl.admission.link_gate import LinkGate
from lycosa.crawl.admission.remote_links import RemoteLinks
from lycosa.crawl.admission.url_filter import ExclusionCheck, HostTraps, UrlFilter
from lycosa.crawl.policy.page_budgets import PageBudgets
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.state.assignment import Assignment, CrawlData, recrawl_rules
from lycosa.crawl.state.batch import CommitBuffer
from lycosa.crawl.state.events import CrawlListener
from lycosa.crawl.state.held_partitions import HeldPartitions
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.crawl.state.url_store import HostRegistry, UrlStore, is_in_flight, recorded_depth
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.delay import DelayRules
from lycosa.frontier.scheduler.agenda import Agenda, Pending
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import CollectionOrder
from lycosa.frontier.scheduler.scheduler import Scheduler, SchedulerLimits
from lycosa.frontier.scheduler.strategy import STRATEGIES
from lycosa.frontier.seen import SeenUrls
from lycosa.hooks.plugins import Plugins
from lycosa.store.log.claim import Claim
from lycosa.store.log.state import LogState
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.scope import Admission

_RESENT_SHARE = 4
"""Number of sendings of a link to a remote partition within `max_age`."""


@dataclass(slots=True, frozen=True)
class CrawlPlace:
    """The environment of a crawl: held partitions, exclusions, plug-ins."""

    domains: Domains
    held_partitions: HeldPartitions
    excluded: ExclusionCheck | None = None
    plugins: Plugins = field(default_factory=Plugins)


class CrawlState(CrawlListener):
    """The state of one worker's crawl. Not thread-safe."""

    def __init__(
        self,
        claim: Claim,
        config: Config,
        jobs: Sequence[Job],
        clock: Clock,
        place: CrawlPlace,
        folder: str | None = None,
    ) -> None:
        """`folder`: for unnamed files with data that may not fit into memory.

        None: such data is in memory.
        """
        names = ", ".join(job.collection.name for job in jobs)
        self.config = config
        self.jobs = tuple(jobs)
        self.clock = clock
        self.domains = place.domains
        self.held_partitions = place.held_partitions
        self.identifier = Identifier(place.domains, place.held_partitions.total)
        self.plugins = place.plugins
        self.excluded = place.excluded or ExclusionCheck(None, place.domains)
        self.traps = HostTraps()
        self.robots = RobotsCache(config.fetch.user_agent)
        data = CrawlData(clock, Progress(clock.monotonic_ms()))
        self.progress = data.progress
        self.prerequisites = data.prerequisites
        self.in_flight = data.in_flight
        self.assignments = data.assignments
        self.listeners = data.listeners
        self.refused_origins: set[str] = set()  # the address guard refused to connect to them
        self.failed_logins: set[tuple[str, str]] = set()  # (collection, origin)
        self.buffer = buffer = CommitBuffer(
            claim, crawl_info(config.fetch.user_agent, config.fetch.contact, names), data.listeners
        )
        self.scheduler = _make_scheduler(claim, config, jobs, data, buffer, HostDirectory(folder))
        self.frontier = self.scheduler.frontier
        self.budgets = PageBudgets(
            [job.collection for job in jobs],
            lambda: self.scheduler.parked.row_readers,
            buffer.pending_urls,
        )
        self.hosts = HostRegistry(
            buffer, self.scheduler, self.robots, self.traps, self.identifier, clock
        )
        self.urls = UrlStore(
            data, buffer, self.hosts, self.scheduler, self.budgets, config.fetch.max_redirects
        )
        for job in jobs:
            self.assignments[job.collection.name] = self._assignment(job, folder)
        self.listeners.append(self)

    def drop_prerequisites(self, origin: str) -> None:
        """Remove the waiting requests for an origin's robots.txt or login."""
        others = [task for task in self.prerequisites if task.origin != origin]
        self.prerequisites.clear()
        self.prerequisites.extend(others)

    def before_commit(self) -> None:
        """Add the numbers of refused links to the batch."""
        for assignment in self.assignments.values():
            for reason, number in assignment.gate.take_refused().items():
                self.buffer.batch.counters[f"refused.{reason}"] += number
                self.progress.refused[reason] += number

    def count_suspect(self, assignment: Assignment) -> None:
        """Count a suspected trap that is fetched."""
        assignment.count_suspect()
        self.buffer.batch.counters[f"suspects.{assignment.name}"] += 1

    def log_advanced(self, state: LogState) -> None:
        """Refresh the tables to the latest entry of the log."""
        self.scheduler.log_advanced(state)

    def close(self) -> None:
        """Close the files of keys and hosts, and leave unparsed documents for replay."""
        self.buffer.unparsed.abandon()
        self.scheduler.parked.directory.close()
        for assignment in self.assignments.values():
            assignment.seen.close()

    def _assignment(self, job: Job, folder: str | None) -> Assignment:
        name = job.collection.name
        seen = SeenUrls(folder)
        screen = UrlFilter(
            job.collection,
            self.excluded,
            self.clock,
            documents=self.config.crawl.documents > 0,
            plugins=self.plugins,
        )
        remote_links = None
        if self.held_partitions.held is not None:
            again_ms = (
                job.collection.max_age // _RESENT_SHARE
                if job.collection.recrawled_on_link
                else None
            )
            remote_links = RemoteLinks(
                name,
                self.held_partitions.held,
                put=lambda row: self.buffer.batch.add_remote_url(row),
                screen=screen.text,
                again_ms=again_ms,
            )
        gate = LinkGate(
            job.collection,
            Admission(
                job.collection,
                job.seeds,
                self.domains,
                other_schemes=self.config.fetch.other_schemes,
            ),
            self.identifier,
            seen,
            self.urls,
            screen=screen,
            remote_links=remote_links,
        )
        return Assignment(
            job.collection, gate, seen, DelayRules.of(job.collection, job.collection.backoff)
        )


def _make_scheduler(
    claim: Claim,
    config: Config,
    jobs: Sequence[Job],
    data: CrawlData,
    buffer: CommitBuffer,
    directory: HostDirectory,
) -> Scheduler:
    collections = [job.collection for job in jobs]
    agenda = Agenda(
        {
            job.collection.name: recrawl_rules(job.collection, job.once_since_ms)
            for job in jobs
            if not job.collection.paused
        },
        data.clock,
    )
    pending = Pending(
        buffer.pending_urls,
        buffer.pending_host,
        partial(is_in_flight, data.in_flight),
        buffer.pending_url,
    )
    orders = {
        each.name: CollectionOrder(
            STRATEGIES[each.strategy], each.priority, each.recrawl != "never"
        )
        for each in collections
    }
    frontier = Frontier(
        Clocks(ClockRules.strictest(collections), data.clock.monotonic_ms()),
        orders,
        due_since=agenda.due_since,
        row_of_collection=partial(pending.due_in_collection, agenda),
    )
    succeeds = any(
        each.number != claim.entry and not each.partitions.isdisjoint(claim.partitions)
        for each in claim.state.claims.values()
    )
    limits = SchedulerLimits(
        active_hosts=config.crawl.active_hosts,
        waiting_urls=config.crawl.waiting_urls,
        least_pause_ms=max((each.delay for each in collections), default=0),
        succeeds=succeeds,
    )
    depth = partial(recorded_depth, data.assignments)
    return Scheduler(frontier, directory, agenda, limits, data.clock, pending, depth)
