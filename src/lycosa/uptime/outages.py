"""What checks mean together: which page is down, and when it is our own network that is. Pure:
checks in, events out; times are given.

- A page is down when `confirm` further checks, soon after one another and each on a connection of
  its own, failed like the first.
- While the failures are such as our own network's would be, other places are asked too (witnesses).
  A place is an address. If none of the others has answered since the failures began, and they fail
  as well, it is our network: one event, whatever the number of monitors; what failed meanwhile is
  counted anew when something answers again.
- When a page is confirmed down, or up again, the other monitors of its host are looked at soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lycosa.config.monitor import Monitor
from lycosa.uptime.state import Change, Standing
from lycosa.uptime.verdict import OF_NETWORK, UP, Cause

WITNESSES = 3
HOLD_MS = 30_000
"""So long an outage waits for what other places say, once it is confirmed."""

_ASK_EVERY_MS = 1_000  # witnesses are looked for so often at the most
_TWICE = 2  # so often must a place have failed to speak against our network


@dataclass(slots=True, frozen=True)
class Found:
    """What a check found. `at`: when it began, ms since 1970; `address`: that it dialled, "" if it
    dialled none.
    """

    url: str
    at: int
    verdict: str
    text: str = ""
    address: str = ""
    certificate_until: int | None = None


@dataclass(slots=True, frozen=True)
class Outage:
    """A page that is down since `since`, and if it is over, up to `until`. `url` and `since` name
    it for good.
    """

    url: str
    host: str
    since: int
    cause: str
    text: str
    until: int = 0

    @property
    def key(self) -> str:
        return f"{self.since}|{self.url}"


@dataclass(slots=True, frozen=True)
class Offline:
    """Our own network: nothing answered from `since` on, and if it is over, up to `until`."""

    since: int
    until: int = 0
    monitors: int = 0  # how many failed


Event = Outage | Offline


@dataclass(slots=True)
class Heard:
    """What follows: events, and URLs to be checked again so many milliseconds from now."""

    events: list[Event] = field(default_factory=list)
    soon: dict[str, int] = field(default_factory=dict)

    def look(self, url: str, wait_ms: int) -> None:
        self.soon[url] = min(wait_ms, self.soon.get(url, wait_ms))


def authority(url: str) -> str:
    """Host and port of a normalised URL, as they stand there."""
    return url.partition("://")[2].partition("/")[0]


class Watchman:
    """Knows how every monitored page stands. `domain_of` gives a URL's registrable domain."""

    def __init__(self, domain_of: Callable[[str], str]) -> None:
        self._domain_of = domain_of
        self._monitors: dict[str, Monitor] = {}
        self._by_host: dict[str, dict[str, None]] = {}
        self._addresses: dict[str, str] = {}  # by host, of its last answer
        # (at, place) of the latest answer of two different places, the later first
        self._answers: list[tuple[int, str]] = []
        self._held: dict[str, int] = {}  # confirmed, and waiting for witnesses since
        self._failing: dict[str, None] = {}  # not down, with failed checks
        self._online_at = 0  # when our network worked again
        self._asked_at = -_ASK_EVERY_MS
        self._next_witness = 0
        self.standings: dict[str, Standing] = {}
        self.offline_since = 0  # 0: our network works, as far as we know

    def watch(self, monitors: Mapping[str, Monitor]) -> None:
        """These are the monitors from now on, by their normalised URLs; what is known of those that
        stay is kept.
        """
        for url in self._monitors.keys() - monitors.keys():
            for known in (self.standings, self._held, self._failing):
                known.pop(url, None)
            self._by_host[authority(url)].pop(url, None)
        self._monitors = dict(monitors)
        for url in monitors:
            if url not in self.standings:
                self.standings[url] = Standing()
                self._by_host.setdefault(authority(url), {})[url] = None

    def restore(
        self,
        standings: Mapping[str, Standing],
        addresses: Mapping[str, str],
        told: Iterable[str],
        offline_since: int,
    ) -> list[Event]:
        """How things stood when somebody else stopped watching. `addresses`: by host; `told`: keys
        of outages that somebody was told of, `offline_since`: likewise. Returns outages of these
        that are over.

        What was down and nobody was told of is told when the next check fails too.
        """
        self._addresses |= {host: address for host, address in addresses.items() if address}
        for url, standing in standings.items():
            if url in self._monitors:
                self.standings[url] = standing
                if standing.down:
                    standing.down = False
                    standing.fails = max(standing.fails, self._monitors[url].confirm)
                self._answered(url, standing.well_at)
        self.offline_since = self.offline_since or offline_since
        over: list[Event] = []
        for key in told:
            since, _, url = key.partition("|")
            known = self.standings.get(url)
            if known is None:
                continue
            if known.fails:
                known.down, known.since = True, int(since)
            else:
                over.append(
                    self._outage(url, known, since=int(since), until=known.up_at or known.well_at)
                )
        self._failing = {
            url: None
            for url, standing in self.standings.items()
            if standing.fails and not standing.down
        }
        return over

    def hear(self, found: Found, now_ms: int) -> Heard:
        """Take in what a check found."""
        heard = Heard()
        monitor, standing = self._monitors.get(found.url), self.standings.get(found.url)
        if monitor is None or standing is None:
            return heard
        host = authority(found.url)
        if found.verdict in (UP, Cause.STATUS, Cause.CONTENT):
            if found.address:
                self._addresses[host] = found.address
            self._answered(found.url, found.at)
            self._back_online(found, heard)
        elif found.verdict in OF_NETWORK and found.at < self._online_at:
            # it began while our network was down, and says nothing of the page
            heard.look(found.url, 0)
            return heard
        before = standing.since
        change = standing.take(found.verdict, found.text, found.at, monitor.confirm)
        if change is Change.DOWN:
            standing.down = False  # until it is clear whose fault it is
            self._held.setdefault(found.url, now_ms)
        self._note_failing(found.url, standing)
        if change is Change.RECOVERS or (
            change is not Change.NONE and not standing.oks and self._is_worth_a_look()
        ):
            heard.look(found.url, monitor.confirm_after_ms)
        if change is Change.FAILED and found.verdict in OF_NETWORK:
            self._ask_witnesses(found.url, standing.since, now_ms, heard)
        elif change is Change.UP:
            heard.events.append(
                self._outage(found.url, standing, since=before, until=standing.up_at)
            )
            self._look_at_host(found.url, heard, down=True)
        self._settle(now_ms, heard)
        return heard

    def tick(self, now_ms: int) -> Heard:
        """Time has passed: call it about once a second."""
        heard = Heard()
        self._settle(now_ms, heard)
        return heard

    def set_back(self, by_ms: int) -> None:
        """The clock was set back: what is compared with later times is so much earlier. An outage
        that was told keeps its date.
        """
        self._answers = [(at - by_ms, place) for at, place in self._answers]
        self._held = {url: since - by_ms for url, since in self._held.items()}
        self._online_at -= by_ms
        self._asked_at -= by_ms
        for standing in self.standings.values():
            standing.well_at -= by_ms if standing.well_at else 0
            standing.up_at -= by_ms if standing.oks else 0
            if standing.fails and not standing.down:
                standing.since -= by_ms

    # -- whose fault it is
    # ------------------------------------------------------------

    def _settle(self, now_ms: int, heard: Heard) -> None:
        """Judge what is confirmed and not yet called down."""
        for url in [*self._held]:
            standing, monitor = self.standings[url], self._monitors[url]
            if standing.fails <= monitor.confirm:
                del self._held[url]  # it was well after all, or is counted anew
            elif (
                standing.cause not in OF_NETWORK
                or not self._others(url)
                or self._answer_elsewhere(url, standing.since)
            ):
                self._call_down(url, heard)
            elif self.offline_since:
                pass
            elif self._silence(url, standing.since):
                failing = [
                    each for each in self._failing if self.standings[each].cause in OF_NETWORK
                ]
                self.offline_since = min(self.standings[each].since for each in failing)
                heard.events.append(Offline(self.offline_since, monitors=len(failing)))
            elif now_ms - self._held[url] >= HOLD_MS:
                self._call_down(url, heard)
            else:
                self._ask_witnesses(url, standing.since, now_ms, heard)

    def _call_down(self, url: str, heard: Heard) -> None:
        del self._held[url]
        self._failing.pop(url, None)
        standing = self.standings[url]
        standing.down = True
        heard.events.append(self._outage(url, standing))
        self._look_at_host(url, heard, down=False)

    def _back_online(self, found: Found, heard: Heard) -> None:
        """Something answered."""
        if not self.offline_since:
            return
        heard.events.append(
            Offline(self.offline_since, max(found.at, self.offline_since), len(self._failing))
        )
        self.offline_since, self._online_at = 0, found.at
        for url in self._failing:
            self.standings[url].forget()
            heard.look(url, 0)
        self._failing.clear()
        self._held.clear()

    def _is_worth_a_look(self) -> bool:
        """Whether failed checks are repeated soon: not while it is our network, and others are
        asked anyway.
        """
        return not self.offline_since or len(self._failing) <= WITNESSES

    def _silence(self, url: str, since: int) -> bool:
        """Whether enough other places fail too, and none answered since."""
        wanted = min(WITNESSES, self._others(url))
        places = {
            self._place(each)
            for each in self._failing
            if self.standings[each].cause in OF_NETWORK
            and self.standings[each].fails >= min(_TWICE, 1 + self._monitors[each].confirm)
        } - {self._place(url)}
        return not self._answer_elsewhere(url, since) and len(places) >= wanted

    def _ask_witnesses(self, url: str, since: int, now_ms: int, heard: Heard) -> None:
        """Have some other places looked at, those first that were not asked the last time."""
        if self._answer_elsewhere(url, since) or now_ms - self._asked_at < _ASK_EVERY_MS:
            return
        self._asked_at = now_ms
        places = {self._place(url)} | {self._place(each) for each in self._failing}
        hosts = list(self._by_host)
        for step in range(len(hosts)):
            host = hosts[(self._next_witness + step) % len(hosts)]
            witness = next(
                (
                    each
                    for each in self._by_host[host]
                    if each not in self._failing and not self.standings[each].down
                ),
                None,
            )
            if witness is None or self._place(witness) in places:
                continue
            places.add(self._place(witness))
            heard.look(witness, 0)
            if len(heard.soon) > WITNESSES:
                self._next_witness = self._next_witness + step + 1
                return

    def _look_at_host(self, url: str, heard: Heard, *, down: bool) -> None:
        """Have the host's other monitors looked at that are (or are not) down."""
        for other in self._by_host[authority(url)]:
            if (
                other != url
                and self.standings[other].down == down
                and not self.standings[other].oks
            ):
                heard.look(other, 0)

    # -- what is known
    # ------------------------------------------------------------

    def _place(self, url: str) -> str:
        host = authority(url)
        return self._addresses.get(host) or self._domain_of(url)

    def _others(self, url: str) -> int:
        """How many places there are, besides that of a URL, where something is not down (counted up
        to `WITNESSES`).
        """
        places = {self._place(url)}
        for urls in self._by_host.values():
            alive = next((each for each in urls if not self.standings[each].down), None)
            if alive is not None:
                places.add(self._place(alive))
            if len(places) > WITNESSES:
                break
        return len(places) - 1

    def _answered(self, url: str, at: int) -> None:
        place = self._place(url)
        kept = [entry for entry in self._answers if entry[1] != place or entry[0] > at]
        if at and all(entry[1] != place for entry in kept):
            kept.append((at, place))
        self._answers = sorted(kept, reverse=True)[:2]

    def _answer_elsewhere(self, url: str, since: int) -> bool:
        place = self._place(url)
        return any(at >= since and other != place for at, other in self._answers)

    def _note_failing(self, url: str, standing: Standing) -> None:
        if standing.fails and not standing.down:
            self._failing[url] = None
        else:
            self._failing.pop(url, None)

    def _outage(self, url: str, standing: Standing, *, since: int = 0, until: int = 0) -> Outage:
        since = since or standing.since
        return Outage(
            url,
            authority(url),
            since,
            standing.cause,
            standing.text,
            max(until, since) if until else 0,
        )
