"""The ledger: what a worker knows of its collections, hosts and URLs, and every change of it.

What an exchange means is read in `lycosa.crawl.absorb`; here is what may change and what has to happen with it: every changed
row goes into the batch, a URL stands in exactly one state, and what the tables cannot show yet is found in the batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lycosa.core.clock import Clock
from lycosa.core.config import Collection, Config
from lycosa.core.errors import Exclusion
from lycosa.core.records import HostRow, UrlId, UrlRow, UrlState, VisitKind, operation_key
from lycosa.crawl.abroad import Abroad
from lycosa.crawl.assignment import Assignment, recrawl_rules
from lycosa.crawl.batch import Batch
from lycosa.crawl.budgets import PageBudgets
from lycosa.crawl.links import LinkGate
from lycosa.crawl.progress import Progress
from lycosa.crawl.robots import RobotsKeeper, holds_now
from lycosa.crawl.screen import PUT_OFF_MS, Excluded, Screen, TrapKeeper
from lycosa.crawl.territory import Territory
from lycosa.crawl.unread import Unread
from lycosa.fetch.robots import robots_url
from lycosa.frontier.change_rate import ClaimTrust, claim_weight, silence_weight
from lycosa.frontier.clocks import ClockRules, Clocks
from lycosa.frontier.directory import HostDirectory
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.heads import Pending
from lycosa.frontier.known import KnownUrls
from lycosa.frontier.politeness import DOMAIN_CAP_MS, Pace
from lycosa.frontier.queue import HostQueue, Order
from lycosa.frontier.reserve import Reserve
from lycosa.frontier.strategy import STRATEGIES
from lycosa.store.claim import Claim
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier

NOTABLE_CLAIM = 0.05
"""A row is written when the weight of what lists say of it moved by more."""

LEAST_CLAIM = 0.15
"""Claims of a change make a page due while more than this share of the host's claims was right; but for `fresh`, which weighs each."""


_RESENT_SHARE = 4  # of the age at which a linked page is fetched again: so often its owner hears of the same link


@dataclass(slots=True)
class Task:
    """One fetch on its way. `rows` are the URL's rows, one a collection; empty for a robots.txt. `origin` is whose
    robots.txt it is about."""

    identity: UrlId
    rows: tuple[UrlRow, ...]
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0
    collection: str = ""  # whose it is, where there are no rows to say it (a log-in, a requisite)

    referrer: str = ""  # likewise: the page that it is for

    @property
    def key(self) -> int:
        """The key of its rows, which all are of one operation."""
        return self.rows[0].key if self.rows else 0


@dataclass(slots=True, frozen=True)
class Job:
    """A collection to be worked, with all its seeds, those of earlier calls included."""

    collection: Collection
    seeds: tuple[str, ...]


class Ledger:
    """Frontier, reserve, robots, rows and counters of one worker. Not for several threads at once.

    `urgent` holds what has to be fetched before the pages of its host (robots files); `batch` is what the next commit will
    hold, `cut` what the commit that is being written holds; `in_flight` the rows of URLs being fetched, by URL key.
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
        excluded: Excluded | None = None,
        territory: Territory | None = None,
    ) -> None:
        """`folder`: where what would outgrow memory is kept, in files without names; None: in memory. `territory`: the partitions
        of the claim; None: all there are."""
        settings = config.crawl
        collections = [job.collection for job in jobs]
        orders = {each.name: Order(STRATEGIES[each.strategy], each.priority, each.recrawl != "never") for each in collections}
        self.config = config
        self.territory = territory or Territory(partitions)
        self._folder = folder
        self.clock = clock
        self.domains = domains
        self.identifier = Identifier(domains, partitions)
        self.frontier = Frontier(Clocks(ClockRules.strictest(collections), clock.monotonic_ms()), orders)
        self.reserve = Reserve(
            self.frontier,
            HostDirectory(folder),
            rules={each.name: recrawl_rules(each) for each in collections if not each.paused},
            active_hosts=settings.active_hosts,
            waiting_urls=settings.waiting_urls,
            least_pause_ms=max((each.delay for each in collections), default=0),
            succeeds=any(
                each.number != claim.entry and not each.partitions.isdisjoint(claim.partitions) for each in claim.state.claims.values()
            ),
            clock=clock,
            pending=Pending(self.pending_urls, self.pending_host, self.pending_beside),
            depth=self._known_depth,
            in_flight=self._is_in_flight,
        )
        self.excluded = excluded or Excluded(None, domains)
        self.traps = TrapKeeper()
        self.robots = RobotsKeeper(config.fetch.user_agent)
        self.progress = Progress(clock.monotonic_ms())
        self.batch = Batch(claim, info)
        self.cut: Batch | None = None
        self.unread = Unread(claim, info)
        self.cuts = 0  # how many batches were cut
        self.urgent: deque[Task] = deque()
        self.in_flight: dict[int, tuple[UrlRow, ...]] = {}
        self.budgets = PageBudgets(collections, lambda: self.reserve.shelves, self.pending_urls)
        self.refused_origins: set[str] = set()  # the guard does not let us dial them
        self.unfinished: Callable[[], bool] = lambda: False  # asked before a crawl ends: whether something may still become due
        self.linked: Callable[[str, UrlId], None] | None = None  # told of links to known URLs, where they may make them due
        self.before_cut: Callable[[], None] = lambda: None  # what belongs into the batch and is not there yet goes in
        self.applied: Callable[[], dict[int, int]] = dict  # up to which entry found rows are applied, by partition, for the next commit
        self._claim = claim
        self.claim_number, self.claimed_partitions = claim.entry, claim.partitions
        self._info = info
        self.jobs = tuple(jobs)
        self.assignments = {job.collection.name: self._assignment(job) for job in jobs}

    def _assignment(self, job: Job) -> Assignment:
        name = job.collection.name
        known = KnownUrls(self._folder)
        listens = job.collection.recrawl == "age" and "on_link" in job.collection.recrawl_triggers
        screen = Screen(job.collection, self.excluded, self.clock, documents=self.config.crawl.documents > 0)
        abroad = None
        if self.territory.held is not None:
            again_ms = job.collection.max_age // _RESENT_SHARE if listens else None
            abroad = Abroad(name, self.territory.held, put=lambda row: self.batch.add_found(row), screen=screen.text, again_ms=again_ms)
        gate = LinkGate(
            job.collection,
            job.seeds,
            domains=self.domains,
            identifier=self.identifier,
            known=known,
            admitted=self._url_admitted,
            risen=lambda identity, depth: self._url_rose(name, identity, depth),
            linked=(lambda identity, source: self._url_linked(name, identity, source)) if listens else None,
            screen=screen,
            abroad=abroad,
            other_schemes=self.config.fetch.other_schemes,
        )
        return Assignment(job.collection, gate, known, Pace.of(job.collection, job.collection.backoff))

    # -- batches ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the files back that hold keys and hosts, and leave unread documents for replay. Nothing may be asked afterwards."""
        self.unread.abandon()
        self.reserve.directory.close()
        for assignment in self.assignments.values():
            assignment.known.close()

    def next_batch(self) -> Batch:
        """Close the books of the current batch, rows as they are now, and begin another. Returns the one that was cut.

        Call `committed` when its commit is written.
        """
        self.before_cut()
        batch = self.batch
        for assignment in self.assignments.values():
            for reason, number in assignment.gate.take_refused().items():
                batch.counters[f"refused.{reason}"] += number
                self.progress.refused[reason] += number
        if not batch.empty:
            self.batch = Batch(self._claim, self._info)
            self.cut = batch
            self.cuts += 1
            self.unread.seal()
            batch.applied = self.applied()
            batch.cut()
        return batch

    def committed(self) -> None:
        """The batch that was cut last stands in the tables: they show it from now on."""
        self.cut = None
        self.unread.committed(self.cuts)
        self.reserve.refresh(self._claim.state)

    def follow_log(self) -> None:
        """Read on in the log, while no commit is being written: an idle worker must know of merges before what they replaced is
        deleted.

        Raises:
            ClaimLost: somebody else holds the partitions.
        """
        before = self._claim.state.head
        self._claim.check()
        if self._claim.state.head != before:
            self.reserve.refresh(self._claim.state)

    def pending_urls(self, host_key: int) -> Iterator[UrlRow]:
        """The rows of a host's URLs that the tables do not show yet; of two versions the newer comes last."""
        if self.cut is not None:
            yield from self.cut.urls_of(host_key)
        yield from self.batch.urls_of(host_key)

    def pending_beside(self, row: UrlRow, collection: str) -> UrlRow | None:
        """The row that a URL has in another collection, if the tables do not show it yet."""
        for batch in (self.batch, self.cut):
            other = batch.url(row.id.host_key, collection, row.operation, row.id.url_key) if batch is not None else None
            if other is not None:
                return other
        return None

    def pending_host(self, host_key: int) -> HostRow | None:
        """The row of a host, if the tables do not show it yet."""
        row = self.batch.host(host_key)
        return row if row is not None or self.cut is None else self.cut.host(host_key)

    # -- hosts --------------------------------------------------------------------------------------------------------

    def host(self, identity: UrlId) -> HostQueue:
        """The host of a URL, made active; a host that was not known is known from now on."""
        queue = self.frontier.hosts.get(identity.host_key) or self.reserve.open(identity.host_key)
        return queue or self.reserve.new_host(self._new_host(identity))

    def _new_host(self, identity: UrlId) -> HostRow:
        domain = self.domains.registrable(identity.host)
        row = HostRow(identity.host, identity.partition, identity.host_key, domain, self.clock.now_ms())
        self.batch.change_host(row)
        return row

    # -- URLs ---------------------------------------------------------------------------------------------------------

    def change(self, row: UrlRow) -> None:
        """The next commit holds this row."""
        self.batch.change_url(row)

    def settle(self, row: UrlRow, state: UrlState, reason: str = "") -> None:
        """A URL of an active host changes its state; it no longer waits, unless its new state makes it due again."""
        if row.state != state:
            self.progress.states[row.state] -= 1
            self.progress.states[state] += 1
            host = self.host(row.id).row
            host.visited += (state is UrlState.VISITED) - (row.state == UrlState.VISITED)
            host.known += (state is UrlState.KNOWN) - (row.state == UrlState.KNOWN)
            self.batch.change_host(host)
        if state in (UrlState.GONE, UrlState.EXCLUDED):
            # Its document leaves the index, so if it comes back it must come whole.
            row.etag = row.last_modified = row.digest = row.record_id = ""
        row.state = state
        row.reason = reason
        row.state_at = self.clock.now_ms()
        self.batch.change_url(row)

    def reopen(self, row: UrlRow) -> None:
        """An excluded URL is admitted again."""
        self.settle(row, UrlState.KNOWN)
        self.reserve.wait_for(row)

    def exclude(self, row: UrlRow, reason: str) -> None:
        """A URL is stopped, wherever it waits."""
        self.frontier.remove(row.collection, row.id.host_key, row.key)
        self.settle(row, UrlState.EXCLUDED, reason)

    def stop_redirects(self, row: UrlRow) -> None:
        """The hop after the last one that is allowed is known, so that it can be explained, and stopped."""
        if row.state == UrlState.KNOWN and row.redirects > self.config.fetch.max_redirects:
            self.exclude(row, Exclusion.REDIRECT_LIMIT)

    def find(self, collection: str, identity: UrlId, operation: str = "") -> UrlRow | None:
        """The row of a URL, if it is at hand: in a head, in flight, or in a batch. Not what only the tables hold."""
        key = operation_key(identity.url_key, operation)
        row = self.frontier.waiting(collection, identity.host_key, key)
        if row is not None:
            return row
        for flying in self.in_flight.get(key, ()):
            if flying.collection == collection:
                return flying
        for batch in (self.batch, self.cut):
            row = batch.url(identity.host_key, collection, operation, identity.url_key) if batch is not None else None
            if row is not None:
                return row
        return None

    def put_off(self, row: UrlRow, reason: str) -> None:
        """A URL is not fetched now; it stays known, with the reason, and is looked at again in some days."""
        row.reason = reason
        row.not_before = self.clock.now_ms() + PUT_OFF_MS
        self.batch.change_url(row)
        self.reserve.wait_for(row)

    def count_page(self, row: UrlRow) -> None:
        """The collection has a page that it did not hold."""
        host = self.host(row.id).row
        host.pages += 1
        self.batch.counters[f"pages.{row.collection}"] += 1
        self.assignments[row.collection].pages += 1
        self.assignments[row.collection].added += 1
        self.budgets.count(row, host)

    def give_back(self, task: Task, now: int) -> None:
        """We interrupted it: the URL waits again, nothing is recorded, the host still counts as fetched."""
        if not task.rows:
            self.urgent.append(task)  # its host is held until there is an answer
        else:
            self.in_flight.pop(task.key, None)
        for row in task.rows:
            self.frontier.add(row)
        key = task.identity.host_key
        pause = self.reserve.usual_pause_ms(self.frontier.hosts[key].row)
        self.frontier.finished(key, now, pause, domain_pause=min(pause, DOMAIN_CAP_MS))

    def used(self, orphan: str) -> None:
        """The next commit names an orphaned WARC whose exchanges have all been absorbed."""
        self.batch.orphans_used.append(orphan)

    # -- robots -------------------------------------------------------------------------------------------------------

    def robots_known(self, origin: str, host_key: int, now_ms: int) -> bool:
        if self.robots.known(origin, now_ms):
            return True
        for entry in self.frontier.hosts[host_key].row.robots:
            if entry.origin == origin and holds_now(entry, now_ms):
                self.robots.load(entry)
                return True
        return False

    def crawl_delay_ms(self, origin: str, host: HostRow) -> int:
        """What the origin's robots.txt asks for. It stands in the host's row when it is not at hand: after a resume, or pushed out."""
        if not self.robots.holds(origin):
            for entry in host.robots:
                if entry.origin == origin:
                    self.robots.load(entry)
        return self.robots.crawl_delay_ms(origin)

    def robots_task(self, origin: str) -> Task:
        return Task(self.identifier.identify(robots_url(origin)), (), origin, VisitKind.ROBOTS)

    def admit(self, row: UrlRow) -> None:
        """A row that was not known stands from now on."""
        self._url_admitted(row)

    def claimed(self, collection: str, claims: Mapping[UrlId, int]) -> None:
        """Sitemaps or feeds say when known pages changed last: those that changed since their visit are due, or with `fresh` come
        the earlier, the more often the host's claims were right; a host that always says so is not listened to."""
        assignment = self.assignments[collection]
        if assignment.collection.recrawl == "never" or not claims:
            return
        missing = []
        for identity, changed_at in claims.items():
            row = self.find(collection, identity)
            if row is None:
                missing.append(identity)
            elif row.state == UrlState.VISITED:
                self._heed(row, changed_at)
        for row in self.reserve.stored(missing):
            if (row.collection, row.operation, row.state) == (collection, "", UrlState.VISITED):
                self._heed(row, claims.get(row.id, 0))

    def _heed(self, row: UrlRow, changed_at: int) -> None:
        """A list names a visited page, and says when it changed last."""
        claimed = row.visited_at < changed_at
        trust = self.trust(self.host(row.id).row)
        claim = claim_weight(trust) if claimed else row.claim
        if self.assignments[row.collection].collection.recrawl != "fresh":
            if claimed and claim > LEAST_CLAIM:
                row.claim = claim
                self.make_due(row, asked=False)
            elif claim != row.claim:
                row.claim = claim  # its next visit tells whether the host has learned to say the truth
                self.change(row)
            return
        silence = silence_weight(trust)
        if abs(claim - row.claim) > NOTABLE_CLAIM or abs(silence - row.silence) > NOTABLE_CLAIM:
            row.claim, row.silence = claim, silence
            self.reschedule(row)

    def trust(self, host: HostRow) -> ClaimTrust:
        """How often the host's lists proved right."""
        return ClaimTrust(host.claims_right, host.claims_wrong, host.claims_missed)

    def reschedule(self, row: UrlRow) -> None:
        """When a URL is due again may have changed: it is written, and waits where it now belongs."""
        self.change(row)
        if row.state != UrlState.KNOWN and not self._is_in_flight(row):
            self.reserve.move(row)

    def make_due(self, row: UrlRow, *, asked: bool = True) -> None:
        """A URL is to be fetched now, whatever its schedule says. One that is being fetched already is left alone. `asked`: somebody
        wants it, so of the pages that come again it is the first; else it is due from now on, like those whose time has come."""
        if self._is_in_flight(row):
            return
        self.host(row.id)
        self.settle(row, UrlState.KNOWN)
        row.not_before = 0 if asked else self.clock.now_ms()
        self.reserve.wait_for(row)

    # -- what the gates report ----------------------------------------------------------------------------------------

    def _url_admitted(self, row: UrlRow) -> None:
        self.progress.states[UrlState.KNOWN] += 1
        self.batch.change_url(row)
        key = row.id.host_key
        queue = self.frontier.hosts.get(key)
        if queue is None:
            if self.reserve.knows(key):
                self.reserve.note(key)
                resting = self.batch.host(key)
                if resting is not None:  # else its row counts this URL when it is written again: a read and a row for each is too much
                    resting.known += 1
                return
            if self.reserve.full:  # every place is taken: the host is known, and rests
                host = self._new_host(row.id)
                host.known = 1
                self.reserve.rest(host)
                return
            queue = self.host(row.id)
        queue.row.known += 1
        self.batch.change_host(queue.row)
        if self.reserve.only is None or self.reserve.only.admits(row):
            self.frontier.offer(row, self.reserve.room)

    def _url_linked(self, collection: str, identity: UrlId, source: str) -> None:
        if self.linked is not None and source:  # a seed that is named again is no link
            self.linked(collection, identity)

    def _url_rose(self, collection: str, identity: UrlId, depth: int) -> None:
        """A known URL lies at less depth than was thought."""
        row = self.find(collection, identity)
        if row is not None:
            row.depth = depth
            self.batch.change_url(row)
            if row.state == UrlState.KNOWN:
                if not row.not_before and self.frontier.waiting(collection, identity.host_key, identity.url_key) is not None:
                    self.frontier.add(row)
                return
            if row.key in self.in_flight:
                return
        self.assignments[collection].fallen[identity.url_key] = identity.host_key

    def _known_depth(self, row: UrlRow) -> int:
        try:
            depth = self.assignments[row.collection].known.depth(row.id)
        except KeyError:
            return row.depth
        return row.depth if depth is None else depth

    def _is_in_flight(self, row: UrlRow) -> bool:
        return any(flying.collection == row.collection for flying in self.in_flight.get(row.key, ()))

    def seed(self, name: str, seeds: Iterable[str]) -> None:
        """Admit what the operator named.

        Raises:
            UrlError: a seed cannot be used.
        """
        gate = self.assignments[name].gate
        for seed in seeds:
            gate.seed(seed, self.clock.now_ms())
