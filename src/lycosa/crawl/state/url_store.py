"""The hosts and URLs of a crawl: changes of rows, and queueing of URLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from lycosa.core.clock import Clock
from lycosa.core.errors import Exclusion
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlId, UrlRow, UrlState, VisitKind, operation_key
from lycosa.crawl.admission.link_gate import AdmissionListener
from lycosa.crawl.admission.url_filter import PUT_OFF_MS, HostTraps
from lycosa.crawl.policy.page_budgets import PageBudgets
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.state.assignment import Assignment, CrawlData
from lycosa.crawl.state.batch import CommitBuffer
from lycosa.crawl.state.task import Task
from lycosa.fetch.robots_txt import robots_url
from lycosa.frontier.politeness.delay import DOMAIN_CAP_MS
from lycosa.frontier.recrawl.change_rate import ClaimTrust, claim_weight, silence_weight
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.frontier.scheduler.scheduler import Scheduler
from lycosa.url.keys import Identifier
from lycosa.url.scope import url_origin


class HostRegistry:
    """Activates hosts, and adds their changed rows to the buffer."""

    def __init__(
        self,
        buffer: CommitBuffer,
        scheduler: Scheduler,
        robots: RobotsCache,
        traps: HostTraps,
        identifier: Identifier,
        clock: Clock,
    ) -> None:
        self._buffer = buffer
        self._frontier = scheduler.frontier
        self._scheduler = scheduler
        self._robots = robots
        self._traps = traps
        self._identifier = identifier
        self._clock = clock

    def queue(self, identity: UrlId) -> HostQueue:
        """Activate and return the host of a URL. An unknown host is added."""
        queue = self._frontier.hosts.get(identity.host_key) or self._scheduler.open(
            identity.host_key
        )
        return queue or self._scheduler.parked.new_host(self.add(identity))

    def add(self, identity: UrlId) -> HostRow:
        """Create and return the row of an unknown host."""
        domain = self._identifier.domains.registrable(identity.host)
        row = HostRow(
            identity.host, identity.partition, identity.host_key, domain, self._clock.now_ms()
        )
        self._buffer.batch.change_host(row)
        return row

    def has_current_robots(self, origin: str, host_key: int, now_ms: int) -> bool:
        return self._robots.load_current(self.row(host_key).robots, origin, now_ms)

    def row(self, host_key: int) -> HostRow:
        """Return the row of an active host."""
        return self._frontier.hosts[host_key].row

    def crawl_delay_ms(self, origin: str, host: HostRow) -> int:
        """Return the origin's Crawl-delay, from the host's row if it is not cached."""
        if not self._robots.holds(origin):
            for entry in host.robots:
                if entry.origin == origin:
                    self._robots.load(entry)
        return self._robots.crawl_delay_ms(origin)

    def robots_task(self, origin: str) -> Task:
        return Task(self._identifier.identify(robots_url(origin)), (), origin, VisitKind.ROBOTS)

    def count_trap(self, row: UrlRow, rule: str) -> None:
        """Count a URL that a trap rule has deferred."""
        host = self.queue(row.id).row
        self._traps.count(host, rule)
        self._buffer.batch.change_host(host)


def claim_trust(host: HostRow) -> ClaimTrust:
    """Return how often the claims of the host's sitemaps and feeds were right."""
    return ClaimTrust(host.claims_right, host.claims_wrong, host.claims_missed)


NOTABLE_CLAIM = 0.05
"""Change of the weight of a sitemap or feed entry that writes its row."""

MIN_CLAIM = 0.15
"""Share of a host's right claims from which a claim makes a page due.

The policy `fresh` weighs each claim instead.
"""


class UrlStore(AdmissionListener):
    """The URLs of a crawl. Each is in exactly one state.

    Each changed row is added to the buffer.
    """

    def __init__(
        self,
        data: CrawlData,
        buffer: CommitBuffer,
        hosts: HostRegistry,
        scheduler: Scheduler,
        budgets: PageBudgets,
        max_redirects: int,
    ) -> None:
        self._assignments = data.assignments
        self._in_flight = data.in_flight
        self._prerequisites = data.prerequisites
        self._progress = data.progress
        self._listeners = data.listeners
        self._clock = data.clock
        self._buffer = buffer
        self._hosts = hosts
        self._frontier = scheduler.frontier
        self._scheduler = scheduler
        self._budgets = budgets
        self._max_redirects = max_redirects

    def change(self, row: UrlRow) -> None:
        """Add a row to the next commit."""
        self._buffer.batch.change_url(row)

    def settle(self, row: UrlRow, state: UrlState, reason: str = "") -> None:
        """Change the state of a URL of an active host.

        The URL is queued only if the new state makes it due.
        """
        if row.state != state:
            self._progress.states[row.state] -= 1
            self._progress.states[state] += 1
            host = self._hosts.queue(row.id).row
            host.change_state(row.state, state)
            self._buffer.batch.change_host(host)
        row.change_state(state, reason, self._clock.now_ms())
        self._buffer.batch.change_url(row)

    def reopen(self, row: UrlRow) -> None:
        """Admit an excluded URL again."""
        self.settle(row, UrlState.KNOWN)
        self._scheduler.heads.wait_for(row)

    def exclude(self, row: UrlRow, reason: str) -> None:
        """Exclude a URL, and remove it from all queues."""
        self._frontier.active.remove(row.collection, row.id.host_key, row.key)
        self.settle(row, UrlState.EXCLUDED, reason)

    def stop_redirects(self, row: UrlRow) -> None:
        """Exclude a URL beyond the limit of redirects.

        Its row remains for `lycosa explain`.
        """
        if row.state == UrlState.KNOWN and row.redirects > self._max_redirects:
            self.exclude(row, Exclusion.REDIRECT_LIMIT)

    def find(self, collection: str, identity: UrlId, operation: str = "") -> UrlRow | None:
        """Return the row of a URL in memory: in a head, in flight, or in a batch.

        Returns None if the row is only in the tables.
        """
        key = operation_key(identity.url_key, operation)
        row = self._frontier.active.waiting(collection, identity.host_key, key)
        if row is not None:
            return row
        for task_row in self._in_flight.get(key, ()):
            if task_row.collection == collection:
                return task_row
        return self._buffer.pending_url(identity, collection, operation)

    def find_all(
        self, collection: str, identities: Iterable[UrlId], operation: str = ""
    ) -> list[UrlRow]:
        """Return the current rows of URLs, from memory or the tables.

        Reading a thousand rows from the tables takes little longer than reading one.
        """
        rows, missing = [], []
        for identity in identities:
            row = self.find(collection, identity, operation)
            if row is None:
                missing.append(identity)
            else:
                rows.append(row)
        stored = self._scheduler.heads.stored(missing)
        rows += [
            row for row in stored if (row.collection, row.operation) == (collection, operation)
        ]
        return rows

    def current(
        self, collection: str, identity: UrlId, stored: UrlRow | None, operation: str = ""
    ) -> UrlRow | None:
        """Return the current row of a URL. `stored`: its row in the tables, if it was read."""
        row = self.find(collection, identity, operation) or stored
        # it may have been admitted and committed since the tables were read
        return row or next(iter(self.find_all(collection, [identity], operation)), None)

    def postpone(self, row: UrlRow, reason: str) -> None:
        """Defer a URL for some days. It keeps its state, and the reason of a fetched URL."""
        keeps_reason = row.reason and row.state != UrlState.KNOWN
        row.defer_until(self._clock.now_ms() + PUT_OFF_MS, None if keeps_reason else reason)
        self._buffer.batch.change_url(row)
        self._scheduler.heads.wait_for(row)

    def count_page(self, row: UrlRow) -> None:
        """Count a page that is new in its collection."""
        host = self._hosts.queue(row.id).row
        host.add_page()
        self._buffer.batch.counters[f"pages.{row.collection}"] += 1
        self._assignments[row.collection].count_page()
        self._budgets.count(row, host)

    def give_back(self, task: Task, now: int) -> None:
        """Requeue a URL after its fetch was interrupted.

        Nothing is recorded; the host still counts as fetched.
        """
        if not task.rows:
            self._prerequisites.append(task)  # its host is reserved until the response
        else:
            self._in_flight.pop(task.key, None)
        for row in task.rows:
            self._frontier.add(row)
        key = task.identity.host_key
        pause = self._scheduler.parked.usual_pause_ms(self._frontier.hosts[key].row)
        self._frontier.finished(key, now, pause, domain_pause=min(pause, DOMAIN_CAP_MS))

    def apply_claims(self, collection: str, claims: Mapping[UrlId, int]) -> None:
        """Apply dates of last change from sitemaps or feeds.

        Pages that changed since their visit become due. With `fresh` they become due earlier, by
        the share of right claims of the host. Claims of a host are ignored if most were wrong.
        """
        assignment = self._assignments[collection]
        if assignment.collection.recrawl == "never" or not claims:
            return
        for row in self.find_all(collection, claims):
            if row.state == UrlState.VISITED:
                self._apply_claim(row, claims.get(row.id, 0))

    def _apply_claim(self, row: UrlRow, changed_at: int) -> None:
        """Apply the date of last change of a visited page."""
        claimed = row.visited_at < changed_at
        trust = claim_trust(self._hosts.queue(row.id).row)
        claim = claim_weight(trust) if claimed else row.claim
        if self._assignments[row.collection].collection.recrawl != "fresh":
            if claimed and claim > MIN_CLAIM:
                row.weigh_claims(claim)
                self.make_due(row, requested=False)
            elif claim != row.claim:
                # its next visit shows whether the host's claims have become right
                row.weigh_claims(claim)
                self.change(row)
            return
        silence = silence_weight(trust)
        if abs(claim - row.claim) > NOTABLE_CLAIM or abs(silence - row.silence) > NOTABLE_CLAIM:
            row.weigh_claims(claim, silence)
            self.reschedule(row)

    def reschedule(self, row: UrlRow) -> None:
        """Write and queue a URL after a change that may affect its next visit."""
        self.change(row)
        if row.state != UrlState.KNOWN and not is_in_flight(self._in_flight, row):
            self._scheduler.move(row)

    def make_due(self, row: UrlRow, *, requested: bool = True) -> None:
        """Make a URL due now, unless it is being fetched.

        `requested`: a user requested it, so it precedes other revisits; otherwise it is ordered
        by the current time, like other revisits that are due.
        """
        if is_in_flight(self._in_flight, row):
            return
        self._hosts.queue(row.id)
        self.settle(row, UrlState.KNOWN)
        row.defer_until(0 if requested else self._clock.now_ms())
        self._scheduler.heads.wait_for(row)

    def admitted(self, rows: Sequence[UrlRow]) -> None:
        self._progress.states[UrlState.KNOWN] += len(rows)
        for host_key, of_host in groupby(rows, attrgetter("id.host_key")):
            self._admitted_of_host(host_key, list(of_host))

    def _admitted_of_host(self, host_key: int, rows: list[UrlRow]) -> None:
        scheduler, batch = self._scheduler, self._buffer.batch
        batch.change_urls(host_key, rows)
        queue = self._frontier.hosts.get(host_key)
        if queue is None:
            if scheduler.parked.urls_added(host_key, len(rows)):
                host = batch.host(host_key)
                # Otherwise they are counted when the row is next written; reading it now is slow.
                if host is not None:
                    host.add_urls(len(rows))
                return
            if scheduler.full:  # no further host can be active: it is parked
                host = self._hosts.add(rows[0].id)
                host.add_urls(len(rows))
                scheduler.parked.add(host)
                return
            queue = self._hosts.queue(rows[0].id)
        queue.row.add_urls(len(rows))
        batch.change_host(queue.row)
        only = scheduler.agenda.only
        if only is not None:
            rows = [row for row in rows if only.admits(row)]
        if rows:
            self._frontier.offer(rows, scheduler.heads.urls_per_host)

    def depth_decreased(self, collection: str, identity: UrlId, depth: int) -> None:
        """Apply a shorter path to a known URL."""
        row = self.find(collection, identity)
        if row is not None:
            row.reduce_depth(depth)
            self._buffer.batch.change_url(row)
            if row.state == UrlState.KNOWN:
                if (
                    not row.not_before
                    and self._frontier.active.waiting(
                        collection, identity.host_key, identity.url_key
                    )
                    is not None
                ):
                    self._frontier.add(row)
                return
            if row.key in self._in_flight:
                return
        assignment = self._assignments[collection]
        assignment.depth_decreased[identity.url_key] = identity.host_key
        if row is None and assignment.collection.depth is not None:
            assignment.unstored_depths.add(identity.url_key)

    def linked(self, collection: str, identity: UrlId, source: str) -> None:
        if source:  # a repeated seed is not a link
            for listener in self._listeners:
                listener.seen_url_linked(collection, identity)

    def seed(self, name: str, seeds: Iterable[str]) -> None:
        """Admit the seeds of a collection.

        Raises:
            UrlError: a seed cannot be used.
        """
        gate = self._assignments[name].gate
        for seed in seeds:
            identity = gate.seed(seed, self._clock.now_ms())
            if self._has_unvisited(identity.host_key):
                self._progress.seed_origins.add(url_origin(identity.url))

    def _has_unvisited(self, host_key: int) -> bool:
        queue = self._frontier.hosts.get(host_key)
        if queue is not None:
            return queue.row.known > 0
        directory = self._scheduler.parked.directory
        slot = directory.slot(host_key)
        return slot is not None and int(directory.waiting[slot]) > 0


def recorded_depth(assignments: Mapping[str, Assignment], row: UrlRow) -> int:
    """Return the least depth of a URL in its collection."""
    depth = assignments[row.collection].depth_of(row.id)
    return row.depth if depth is None else depth


def is_in_flight(in_flight: Mapping[int, tuple[UrlRow, ...]], row: UrlRow) -> bool:
    """Return whether the URL is being fetched for its collection."""
    return any(task_row.collection == row.collection for task_row in in_flight.get(row.key, ()))
