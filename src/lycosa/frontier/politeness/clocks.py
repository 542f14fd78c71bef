"""Clocks of hosts, registrable domains and addresses: when a host may be fetched from.

Invariants
- A host has at most `connections_per_host` fetches in flight, and none starts before the pause
  after its last fetch is over.
- At most `domain_connections` places of a registrable domain are occupied at a time
  (`DomainClock`).
- All hosts of one address together have at most `address_connections` fetches in flight.
- With `burst` N above 1, a host that permits it is fetched from up to N times without a pause, then
  paused for the sum of the N pauses. The average rate is the same and the connection is reused. Its
  place in the domain stays taken for the whole time.
- After a change of owner every host and every place counts as fetched at the claim (`restore`).

Times are integer milliseconds of the monotonic clock. Every call is O(1). Idle clocks whose pause
is over are removed: a host without a clock may be fetched from.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import field

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass
from lycosa.frontier.politeness.delay import DOMAIN_CAP_MS
from lycosa.http.fields import RETRY_AFTER_CAP_MS

_TIDY_FROM = 4_096

BUSY = 2**62
"""Instead of a time: until a fetch that is under way has ended."""


@dataclass(slots=True)
class DomainClock:
    """The clock of a registrable domain: a number of places.

    A fetch occupies a place until its pause has ended. So a site with a thousand subdomains, often
    one machine, gets at most that many concurrent fetches, whatever the pauses of its hosts are. In
    a server log: at the start of any fetch, fewer than `places` others of the domain are in flight
    or ended less than their pause ago. Domains with public registration of names, such as
    blogspot.com or github.io, are public suffixes: each name below them is a separate domain.

    `not_before`: no place is free before. `pausing_places`: when each pausing place is free again,
    ascending.
    """

    not_before: int = 0
    in_flight: int = 0
    pausing_places: list[int] = field(default_factory=list)

    def ready_at(self, places: int) -> int:
        """Return the earliest time of a free slot."""
        spare = places - 1 - self.in_flight
        if spare < 0:
            return BUSY
        used = len(self.pausing_places) - spare
        return max(self.not_before, self.pausing_places[used - 1]) if used > 0 else self.not_before

    def started(self) -> None:
        """Start a fetch."""
        self.in_flight += 1

    def ended(self) -> None:
        """End a fetch that was made or skipped."""
        self.in_flight -= 1

    def delay_until(self, at: int) -> None:
        """Request nothing of the domain before that time."""
        self.not_before = max(self.not_before, at)

    def paused_until(self) -> int:
        """Return the end of the last pause."""
        return max(self.not_before, self.pausing_places[-1] if self.pausing_places else 0)

    def pause_place(self, until: int, places: int) -> None:
        """Occupy a place during a pause.

        Beyond the limit, the first to be free is dropped.
        """
        insort(self.pausing_places, until)
        if len(self.pausing_places) > places:
            del self.pausing_places[0]

    def in_use(self, now: int) -> bool:
        """Return whether the clock still restricts anything."""
        return bool(self.in_flight or self.paused_until() > now)


def monotonic_from(at_ms: int, now_ms: int, monotonic_ms: int) -> int:
    """Convert a stored date to monotonic time, at most the longest pause from now."""
    return monotonic_ms + min(max(at_ms - now_ms, 0), RETRY_AFTER_CAP_MS)


@dataclass(slots=True, frozen=True)
class ClockRules:
    """Limits of concurrent fetches. `address_connections` 0: no limit."""

    connections_per_host: int = 1
    domain_connections: int = 2
    address_connections: int = 0
    burst: int = 1

    @staticmethod
    def strictest(collections: Iterable[Collection]) -> ClockRules:
        """Return the strictest limits of several collections, which may share hosts."""
        every = list(collections)
        return ClockRules(
            min((collection.connections_per_host for collection in every), default=1),
            min((collection.domain_connections for collection in every), default=2),
            min(
                (
                    collection.address_connections
                    for collection in every
                    if collection.address_connections
                ),
                default=0,
            ),
            min((collection.burst for collection in every), default=1),
        )


@dataclass(slots=True)
class HostClock:
    """The clock of a host.

    `ready_at`: time of the next fetch; `paced_at`: the same without back-off and Retry-After, for
    availability checks. In a burst: its fetches, the pause that is accrued_ms, and until when.
    """

    ready_at: int = 0
    paced_at: int = 0
    in_flight: int = 0
    burst: int = 0
    accrued_ms: int = 0
    pause_ends_at: int = 0

    def started(self, now: int) -> None:
        """Start a fetch. A burst ends when its pause is over."""
        if self.burst and self.pause_ends_at <= now:
            self.burst = self.accrued_ms = 0
        self.in_flight += 1

    def ended(self) -> None:
        """End a fetch that was made or skipped."""
        if self.in_flight == 0:
            raise ValueError("a fetch ended that was not started")
        self.in_flight -= 1

    def pause(
        self, now: int, pause: int, place_pause: int, *, may_burst: bool, max_burst: int
    ) -> int:
        """Pause after a fetch. Return how long its place in the domain is taken.

        `place_pause`: the same without bursts.
        """
        self.paced_at = now + place_pause
        if max_burst > 1 and (may_burst or self.accrued_ms):
            self.burst += 1
            self.accrued_ms += pause
            self.pause_ends_at = now + self.accrued_ms
            place_pause = max(place_pause, self.accrued_ms)
            if may_burst and self.burst < max_burst:
                pause = 0
            else:
                pause, self.burst, self.accrued_ms = self.accrued_ms, 0, 0
        self.delay_until(now + pause)
        return place_pause

    def delay_until(self, at: int) -> None:
        """Request nothing before that time."""
        self.ready_at = max(self.ready_at, at)


class Clocks:
    """The clocks of one worker. Not thread-safe."""

    def __init__(self, rules: ClockRules, claimed_at: int = 0) -> None:
        """`claimed_at`: when the partitions were claimed; `restore` assumes fetches until then."""
        self._rules = rules
        # one host may use all the connections that its own limit allows
        self.places = max(rules.domain_connections, rules.connections_per_host)
        self._claimed_at = claimed_at
        self._hosts: dict[int, HostClock] = {}
        self._domains: dict[str, DomainClock] = {}
        self._addresses: dict[str, int] = {}  # fetches under way
        self._address_limit = rules.address_connections
        self._tidy_at = _TIDY_FROM

    def __len__(self) -> int:
        """Return how many clocks are in memory."""
        return len(self._hosts) + len(self._domains)

    def share(self, among: int) -> None:
        """Divide the limit of addresses among that many workers; each has at least one fetch."""
        limit = self._rules.address_connections
        self._address_limit = max(1, limit // among) if limit else 0

    def ready_at(self, host_key: int, domain: str, address: str = "") -> int:
        """Return when a host may be fetched from; BUSY if a fetch must end first. Hot path.

        Args:
            domain: the registrable domain of the host.
            address: its last IP address; "" if unknown.
        """
        host = self._hosts.get(host_key)
        ready_at = 0
        if host is not None:
            if host.in_flight >= self._rules.connections_per_host:
                return BUSY
            ready_at = host.ready_at
        if self.crowded(address):
            return BUSY
        return max(ready_at, self._place_at(host, domain))

    def crowded(self, address: str) -> bool:
        """Return whether an address has reached its limit of fetches in flight."""
        limit = self._address_limit
        return limit > 0 and address != "" and self._addresses.get(address, 0) >= limit

    def check_at(self, host_key: int, domain: str) -> int:
        """Return when an availability check may start; BUSY if a fetch must end first.

        It needs an idle host whose usual pause is over, and a place of the domain that has no fetch
        in flight. A check ignores back-off, to notice when the host is well again, and pauses of
        the domain's places; it takes a place afterwards.
        """
        host, place = self._hosts.get(host_key), self._domains.get(domain)
        if (host is not None and host.in_flight) or (
            place is not None and place.in_flight >= self.places
        ):
            return BUSY
        return host.paced_at if host is not None else 0

    def started(self, host_key: int, domain: str, now: int, address: str = "") -> None:
        """Record the start of a fetch of any kind, robots.txt and redirects included."""
        self._tidy_if_grown(now)
        host, place = self._host(host_key), self._domain(domain)
        if host.burst and host.pause_ends_at in place.pausing_places:
            place.pausing_places.remove(host.pause_ends_at)
        host.started(now)
        place.started()
        if address:
            self._addresses[address] = self._addresses.get(address, 0) + 1

    def finished(
        self,
        host_key: int,
        domain: str,
        now: int,
        pause: int,
        *,
        address: str = "",
        domain_pause: int | None = None,
        may_burst: bool = False,
    ) -> None:
        """Record the end of a fetch.

        Args:
            pause: pause of the host (`politeness.pause_ms`).
            address: as given to `started`.
            domain_pause: how long its slot in the domain is occupied
                (`politeness.domain_pause_ms`); None: as `pause`.
            may_burst: nothing failed, and the site requested no pause.
        """
        host, place = self._hosts[host_key], self._domains[domain]
        self._left(host, place, address)
        place_pause = pause if domain_pause is None else domain_pause
        place_pause = host.pause(
            now, pause, place_pause, may_burst=may_burst, max_burst=self._rules.burst
        )
        place.pause_place(now + place_pause, self.places)

    def undone(self, host_key: int, domain: str, address: str = "") -> None:
        """Undo `started`: nothing was sent."""
        host, place = self._hosts[host_key], self._domains[domain]
        self._left(host, place, address)
        if host.burst:
            place.pause_place(host.pause_ends_at, self.places)

    def delay(self, host_key: int, now: int, until: int) -> None:
        """Pause the host until `until`."""
        self._tidy_if_grown(now)
        self._host(host_key).delay_until(until)

    def delay_domain(self, domain: str, now: int, until: int) -> None:
        """Pause all hosts of the domain until `until` (`politeness.domain_wide_pause_ms`)."""
        self._tidy_if_grown(now)
        self._domain(domain).delay_until(until)

    def restore(
        self,
        host_key: int,
        domain: str,
        pause: int,
        *,
        not_before: int,
        now_ms: int,
        monotonic_ms: int,
    ) -> None:
        """Register a stored host: it counts as fetched at the claim of this worker, and
        `not_before` applies.

        The former owner may have fetched from it until then without recording it, so all slots of
        its domain count as occupied. `pause`: after its last fetch, without back-off and
        Retry-After; `not_before`: a date, or 0.
        """
        ready_at = max(self._claimed_at + pause, monotonic_from(not_before, now_ms, monotonic_ms))
        if ready_at > monotonic_ms:
            self.delay(host_key, monotonic_ms, ready_at)
        self.restore_pause(domain, pause, monotonic_ms=monotonic_ms)

    def restore_pause(self, domain: str, pause: int, *, monotonic_ms: int) -> None:
        """Register the pause of a host of the domain that may have been fetched at our claim."""
        places_at = self._claimed_at + min(pause, DOMAIN_CAP_MS)
        if places_at > monotonic_ms:
            self.delay_domain(domain, monotonic_ms, places_at)

    def restore_domain(
        self, domain: str, *, not_before: int, now_ms: int, monotonic_ms: int
    ) -> None:
        """Register a stored domain; `not_before`: the date that `domain_paused_until` returned."""
        self.delay_domain(domain, monotonic_ms, monotonic_from(not_before, now_ms, monotonic_ms))

    def domain_paused_until(self, domain: str) -> int:
        """Return when all pauses of the domain are over, to be stored as a date."""
        place = self._domains.get(domain)
        return place.paused_until() if place is not None else 0

    def remove(self, host_key: int) -> int:
        """Remove an idle host. Return the end of its pause, for the caller to store; or 0."""
        host = self._hosts.get(host_key)
        if host is None:
            return 0
        if host.in_flight:
            raise ValueError("a host with a fetch under way cannot be forgotten")
        del self._hosts[host_key]
        return max(host.ready_at, host.pause_ends_at)

    def is_fetching(self, host_key: int) -> bool:
        """Return whether a fetch is in flight, including availability checks of parked hosts."""
        host = self._hosts.get(host_key)
        return host is not None and host.in_flight > 0

    def host_ready_at(self, host_key: int) -> int:
        """Return when the host may be fetched from by its own clock; BUSY at its limit."""
        host = self._hosts.get(host_key)
        if host is None:
            return 0
        return BUSY if host.in_flight >= self._rules.connections_per_host else host.ready_at

    def domain_ready_at(self, domain: str) -> int:
        """Return when a host of the domain may be fetched from by the clock of the domain."""
        place = self._domains.get(domain)
        return place.ready_at(self.places) if place is not None else 0

    def remove_expired(self, now: int) -> None:
        """Remove idle clocks. Called automatically when their number has doubled."""
        self._hosts = {
            key: host
            for key, host in self._hosts.items()
            if host.in_flight or max(host.ready_at, host.pause_ends_at) > now
        }
        self._domains = {name: place for name, place in self._domains.items() if place.in_use(now)}
        self._tidy_at = max(_TIDY_FROM, 2 * len(self))

    def _left(self, host: HostClock, place: DomainClock, address: str) -> None:
        host.ended()
        place.ended()
        if address:
            left = self._addresses[address] - 1
            if left:
                self._addresses[address] = left
            else:
                del self._addresses[address]

    def _place_at(self, host: HostClock | None, domain: str) -> int:
        """Return when the domain has a free place. In a burst the host already occupies one."""
        place = self._domains.get(domain)
        if place is None:
            return 0
        if host is not None and host.burst and host.pause_ends_at in place.pausing_places:
            return place.not_before
        return place.ready_at(self.places)

    def _tidy_if_grown(self, now: int) -> None:
        if len(self._hosts) + len(self._domains) >= self._tidy_at:
            self.remove_expired(now)

    def _host(self, host_key: int) -> HostClock:
        host = self._hosts.get(host_key)
        if host is None:
            host = self._hosts[host_key] = HostClock()
        return host

    def _domain(self, domain: str) -> DomainClock:
        place = self._domains.get(domain)
        if place is None:
            place = self._domains[domain] = DomainClock()
        return place
