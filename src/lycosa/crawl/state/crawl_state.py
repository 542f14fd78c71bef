"""The state of one worker's crawl, composed of its URL store, host registry and commit buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.records import UrlRow
from lycosa.crawl.admission.link_gate import LinkGate
from lycosa.crawl.admission.remote_links import RemoteLinks
from lycosa.crawl.admission.url_filter import ExclusionCheck, HostTraps, UrlFilter
from lycosa.crawl.policy.page_budgets import PageBudgets
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.state.assignment import Assignment, recrawl_rules
from lycosa.crawl.state.commit_buffer import CommitBuffer
from lycosa.crawl.state.events import CrawlEvents, CrawlListener
from lycosa.crawl.state.held_partitions import HeldPartitions
from lycosa.crawl.state.host_registry import HostRegistry
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job, Task
from lycosa.crawl.state.url_store import UrlStore, is_in_flight, recorded_depth
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.delay import DelayRules
from lycosa.frontier.scheduler.agenda import Agenda
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.pending import Pending
from lycosa.frontier.scheduler.queue import CollectionOrder
from lycosa.frontier.scheduler.scheduler import Scheduler, SchedulerLimits
from lycosa.frontier.scheduler.strategy import STRATEGIES
from lycosa.frontier.seen.seen_urls import SeenUrls
from lycosa.store.claim import Claim
from lycosa.store.state import LogState
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier

_RESENT_SHARE = 4
"""A link to a remote partition is sent again after this part of the age at which its page is
refetched.
"""


class CrawlState(CrawlListener):
    """What a worker knows of its crawl. Not for several threads at once.

    `prerequisites` holds what has to be fetched before the pages of its host (robots.txt, logins);
    `in_flight` the rows of URLs being fetched, by URL key.
    """

    def __init__(
        self,
        claim: Claim,
        config: Config,
        jobs: Sequence[Job],
        *,
        domains: Domains,
        partitions: int,
        clock: Clock,
        info: dict[str, str],
        folder: str | None = None,
        excluded: ExclusionCheck | None = None,
        held_partitions: HeldPartitions | None = None,
    ) -> None:
        """`folder`: where what would outgrow memory is kept, in files without names; None: in
        memory. `held_partitions`: the partitions of the claim; None: all there are.
        """
        collections = [job.collection for job in jobs]
        self.config = config
        self.jobs = tuple(jobs)
        self.clock = clock
        self.domains = domains
        self.identifier = Identifier(domains, partitions)
        self.held_partitions = held_partitions or HeldPartitions(partitions)
        self.excluded = excluded or ExclusionCheck(None, domains)
        self.traps = HostTraps()
        self.robots = RobotsCache(config.fetch.user_agent)
        self.progress = Progress(clock.monotonic_ms())
        self.prerequisites: deque[Task] = deque()
        self.in_flight: dict[int, tuple[UrlRow, ...]] = {}
        self.assignments: dict[str, Assignment] = {}
        self.refused_origins: set[str] = set()  # the address guard refused to connect to them
        self.events = CrawlEvents()
        self.buffer = CommitBuffer(claim, info, self.events)
        buffer = self.buffer
        agenda = Agenda(
            {each.name: recrawl_rules(each) for each in collections if not each.paused}, clock
        )
        pending = Pending(
            buffer.pending_urls,
            buffer.pending_host,
            partial(is_in_flight, self.in_flight),
            buffer.pending_in_collection,
        )
        self.frontier = Frontier(
            Clocks(ClockRules.strictest(collections), clock.monotonic_ms()),
            {
                each.name: CollectionOrder(
                    STRATEGIES[each.strategy], each.priority, each.recrawl != "never"
                )
                for each in collections
            },
            due_since=agenda.due_since,
            row_of_collection=partial(pending.due_in_collection, agenda),
        )
        self.scheduler = Scheduler(
            self.frontier,
            HostDirectory(folder),
            agenda,
            SchedulerLimits(
                active_hosts=config.crawl.active_hosts,
                waiting_urls=config.crawl.waiting_urls,
                least_pause_ms=max((each.delay for each in collections), default=0),
                succeeds=any(
                    each.number != claim.entry and not each.partitions.isdisjoint(claim.partitions)
                    for each in claim.state.claims.values()
                ),
            ),
            clock,
            pending,
            partial(recorded_depth, self.assignments),
        )
        self.budgets = PageBudgets(
            collections, lambda: self.scheduler.parked.row_readers, buffer.pending_urls
        )
        self.hosts = HostRegistry(
            buffer,
            self.frontier,
            self.scheduler,
            robots=self.robots,
            traps=self.traps,
            domains=domains,
            identifier=self.identifier,
            clock=clock,
        )
        self.urls = UrlStore(
            buffer,
            self.hosts,
            self.frontier,
            self.scheduler,
            assignments=self.assignments,
            in_flight=self.in_flight,
            prerequisites=self.prerequisites,
            budgets=self.budgets,
            progress=self.progress,
            events=self.events,
            clock=clock,
            max_redirects=config.fetch.max_redirects,
        )
        for job in jobs:
            self.assignments[job.collection.name] = self._assignment(job, folder)
        self.events.add(self)

    def before_commit(self) -> None:
        """Add the numbers of refused links to the batch."""
        for assignment in self.assignments.values():
            for reason, number in assignment.gate.take_refused().items():
                self.buffer.batch.counters[f"refused.{reason}"] += number
                self.progress.refused[reason] += number

    def log_advanced(self, state: LogState) -> None:
        """Read the tables as the log now has them."""
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
        listens = job.collection.recrawl == "age" and "on_link" in job.collection.recrawl_triggers
        screen = UrlFilter(
            job.collection, self.excluded, self.clock, documents=self.config.crawl.documents > 0
        )
        remote_links = None
        if self.held_partitions.held is not None:
            again_ms = job.collection.max_age // _RESENT_SHARE if listens else None
            remote_links = RemoteLinks(
                name,
                self.held_partitions.held,
                put=lambda row: self.buffer.batch.add_remote_url(row),
                screen=screen.text,
                again_ms=again_ms,
            )
        gate = LinkGate(
            job.collection,
            job.seeds,
            domains=self.domains,
            identifier=self.identifier,
            seen=seen,
            admitted=self.urls.admitted,
            on_depth_decreased=lambda identity, depth: self.urls.depth_decreased(
                name, identity, depth
            ),
            linked=(lambda identity, source: self.urls.linked(name, identity, source))
            if listens
            else None,
            screen=screen,
            remote_links=remote_links,
            other_schemes=self.config.fetch.other_schemes,
        )
        return Assignment(
            job.collection, gate, seen, DelayRules.of(job.collection, job.collection.backoff)
        )
