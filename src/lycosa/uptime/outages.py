"""Detects outages of monitored pages and of the local network. Pure: times are arguments.

- A page is down when `confirm` further checks, each on a new connection, failed like the first.
- Failures of the network may be local. Then monitors on other hosts (witnesses) are checked. If
  none of them has responded since the failures began, and they fail too, the local network is
  down. That is one event; the failed checks of the pages are discarded when a host responds again.
- Hosts with one address, or without an address with one registrable domain, are one witness.
- When a page is confirmed down or up, the other monitors of its host are checked soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer

from lycosa.config.monitor import Monitor
from lycosa.core.units import format_time
from lycosa.uptime.results import (
    NETWORK_CAUSES,
    UP,
    Cause,
    CheckResult,
    MonitorState,
    StateChange,
)

WITNESSES = 3
HOLD_MS = 30_000
"""Maximum time that a confirmed outage waits for the witnesses."""

_WITNESS_INTERVAL_MS = 1_000  # minimum time between two requests for witnesses
_WITNESS_FAILURES = 2  # failed checks of a witness that count against the local network


Timestamp = Annotated[
    int,
    PlainSerializer(
        lambda at_ms: format_time(at_ms) if at_ms else None,
        return_type=str | None,
        when_used="json",
    ),
]
"""ms since 1970, 0: none. In JSON: UTC, ISO 8601, or null."""


class ReportModel(BaseModel):
    """Base of the reports for the command line, the API and the pages."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Outage(ReportModel):
    """An outage of a page."""

    url: str
    since: Timestamp
    until: Timestamp = 0
    """Null: ongoing."""
    cause: str
    """dns, connect, tls, timeout, status or content."""
    text: str
    checks: int = 0
    """Number of failed checks."""
    offline: bool = False
    """The network of this machine was down."""

    @property
    def host(self) -> str:
        """Host and port."""
        return authority(self.url)

    @property
    def key(self) -> str:
        """The identity as text; `url_of_key` returns the URL."""
        return f"{self.since}|{self.url}"


@dataclass(slots=True, frozen=True)
class NetworkOutage:
    """An outage of the local network. `until` 0: ongoing; `monitors`: how many failed."""

    since: int
    until: int = 0
    monitors: int = 0


Event = Outage | NetworkOutage


@dataclass(slots=True)
class Reaction:
    """The consequences of a check: events, and delays after which URLs are to be checked."""

    events: list[Event] = field(default_factory=list)
    rechecks: dict[str, int] = field(default_factory=dict)

    def recheck(self, url: str, delay_ms: int) -> None:
        self.rechecks[url] = min(delay_ms, self.rechecks.get(url, delay_ms))


def authority(url: str) -> str:
    """Return host and port of a normalised URL."""
    return url.partition("://")[2].partition("/")[0]


def url_of_key(key: str) -> str:
    """Return the URL of an outage's key."""
    return key.partition("|")[2]


class OutageDetector:
    """Tracks the state of all monitors. `domain_of` returns the registrable domain of a URL."""

    def __init__(self, domain_of: Callable[[str], str]) -> None:
        self._domain_of = domain_of
        self._monitors: dict[str, Monitor] = {}
        self._by_host: dict[str, list[str]] = {}
        self._addresses: dict[str, str] = {}  # by host, of its last response
        # (time, site) of the latest response of two different sites, the later first
        self._responses: list[tuple[int, str]] = []
        self._held: dict[str, int] = {}  # confirmed -> waiting for witnesses since
        self._failing: dict[str, None] = {}
        self._online_at = 0  # end of the last outage of the local network
        self._witnesses_at = -_WITNESS_INTERVAL_MS
        self._next_witness = 0
        self.states: dict[str, MonitorState] = {}
        self.offline_since = 0

    def watch(self, monitors: Mapping[str, Monitor]) -> None:
        """Set the monitors, by normalised URL. The state of those that remain is kept."""
        self._monitors = dict(monitors)
        self.states = {url: self.states.get(url) or MonitorState() for url in monitors}
        self._held = {url: at for url, at in self._held.items() if url in monitors}
        self._failing = {url: None for url in self._failing if url in monitors}
        self._by_host = {}
        for url in monitors:
            self._by_host.setdefault(authority(url), []).append(url)

    def restore(
        self,
        states: Mapping[str, MonitorState],
        addresses: Mapping[str, str],
        notified: Iterable[str],
        offline_since: int,
    ) -> list[Event]:
        """Continue from the state of an earlier process; return outages that ended since then.

        `addresses`: by host; `notified`: keys of the outages that were notified. An outage that
        was not notified is declared when the next check fails.
        """
        self._addresses |= {host: address for host, address in addresses.items() if address}
        for url, state in states.items():
            if url in self._monitors:
                self.states[url] = state
                state.suspend(self._monitors[url].confirm)
                self._note_response(url, state.last_up_at)
        self.offline_since = self.offline_since or offline_since
        ended: list[Event] = []
        for key in notified:
            monitor_state = self.states.get(url_of_key(key))
            since = int(key.partition("|")[0])
            if monitor_state is not None and monitor_state.failures:
                monitor_state.down, monitor_state.since = True, since
            elif monitor_state is not None:
                until = monitor_state.up_at or monitor_state.last_up_at
                ended.append(_outage(url_of_key(key), monitor_state, since, until))
        self._failing = {url: None for url, state in self.states.items() if state.is_failing}
        return ended

    def add(self, result: CheckResult, now_ms: int) -> Reaction:
        """Apply the result of a check."""
        reaction = Reaction()
        url = result.url
        monitor, state = self._monitors.get(url), self.states.get(url)
        if monitor is None or state is None:
            return reaction
        if result.verdict in (UP, Cause.STATUS, Cause.CONTENT):
            if result.address:
                self._addresses[authority(url)] = result.address
            self._note_response(url, result.at)
            self._end_offline(result, reaction)
        elif result.verdict in NETWORK_CAUSES and result.at < self._online_at:
            # it began while the local network was down
            reaction.recheck(url, 0)
            return reaction
        before = state.since
        change = state.add(result.verdict, result.text, result.at, monitor.confirm)
        if change is StateChange.DOWN:
            state.down = False  # until it is clear that it is not the local network
            self._held.setdefault(url, now_ms)
        if state.is_failing:
            self._failing[url] = None
        else:
            self._failing.pop(url, None)
        # while the local network is down, only a few pages are checked again soon
        repeat = not self.offline_since or len(self._failing) <= WITNESSES
        if change is StateChange.RECOVERS or (state.is_failing and repeat):
            reaction.recheck(url, monitor.confirm_after_ms)
        if change is StateChange.FAILED and result.verdict in NETWORK_CAUSES:
            self._request_witnesses(url, now_ms, reaction)
        elif change is StateChange.UP:
            reaction.events.append(_outage(url, state, before, state.up_at))
            self._recheck_host(url, reaction, down=True)
        self._decide(now_ms, reaction)
        return reaction

    def tick(self, now_ms: int) -> Reaction:
        """Apply the passage of time. Call it about once a second."""
        reaction = Reaction()
        self._decide(now_ms, reaction)
        return reaction

    def set_back(self, by_ms: int) -> None:
        """Correct all times after the clock was set back."""
        self._responses = [(at - by_ms, site) for at, site in self._responses]
        self._held = {url: since - by_ms for url, since in self._held.items()}
        self._online_at -= by_ms
        self._witnesses_at -= by_ms
        for state in self.states.values():
            state.set_back(by_ms)

    def _decide(self, now_ms: int, reaction: Reaction) -> None:
        """Declare confirmed outages of pages, or one of the local network."""
        for url in [*self._held]:
            state = self.states[url]
            if state.failures <= self._monitors[url].confirm:
                del self._held[url]  # a check succeeded, or the failures were discarded
            elif (
                state.cause not in NETWORK_CAUSES
                or not self._other_sites(url)
                or self._other_responds(url)
            ):
                self._declare_down(url, reaction)
            elif self.offline_since:
                continue
            elif self._others_fail(url):
                failing = [each for each in self._failing if self._may_be_local(each)]
                self.offline_since = min(self.states[each].since for each in failing)
                reaction.events.append(NetworkOutage(self.offline_since, monitors=len(failing)))
            elif now_ms - self._held[url] >= HOLD_MS:
                self._declare_down(url, reaction)
            else:
                self._request_witnesses(url, now_ms, reaction)

    def _declare_down(self, url: str, reaction: Reaction) -> None:
        del self._held[url]
        self._failing.pop(url, None)
        state = self.states[url]
        state.down = True
        reaction.events.append(_outage(url, state, state.since))
        self._recheck_host(url, reaction, down=False)

    def _end_offline(self, result: CheckResult, reaction: Reaction) -> None:
        if not self.offline_since:
            return
        until = max(result.at, self.offline_since)
        reaction.events.append(NetworkOutage(self.offline_since, until, len(self._failing)))
        self.offline_since, self._online_at = 0, result.at
        for url in self._failing:
            self.states[url].forget_failures()
            reaction.recheck(url, 0)
        self._failing.clear()
        self._held.clear()

    def _request_witnesses(self, url: str, now_ms: int, reaction: Reaction) -> None:
        """Check a few pages of other sites, in rotation."""
        if self._other_responds(url) or now_ms - self._witnesses_at < _WITNESS_INTERVAL_MS:
            return
        self._witnesses_at = now_ms
        sites = {self._site(url), *map(self._site, self._failing)}
        hosts = list(self._by_host)
        for step in range(len(hosts)):
            urls = self._by_host[hosts[(self._next_witness + step) % len(hosts)]]
            witness = next((each for each in urls if not self.states[each].failures), None)
            if witness is None or self._site(witness) in sites:
                continue
            sites.add(self._site(witness))
            reaction.recheck(witness, 0)
            if len(reaction.rechecks) > WITNESSES:
                self._next_witness += step + 1
                return

    def _recheck_host(self, url: str, reaction: Reaction, *, down: bool) -> None:
        """Check the other monitors of a host that are (not) down."""
        for other in self._by_host[authority(url)]:
            state = self.states[other]
            if other != url and state.down == down and not state.successes:
                reaction.recheck(other, 0)

    def _site(self, url: str) -> str:
        """Return the group that fails together: the address of the host, or its domain."""
        return self._addresses.get(authority(url)) or self._domain_of(url)

    def _other_sites(self, url: str) -> int:
        """Return the number of other sites that are not down, at most `WITNESSES`."""
        sites = {self._site(url)}
        for urls in self._by_host.values():
            if any(not self.states[each].down for each in urls):
                sites.add(self._site(urls[0]))
            if len(sites) > WITNESSES:
                break
        return len(sites) - 1

    def _others_fail(self, url: str) -> bool:
        """Return whether enough other sites fail too."""
        failing = {
            self._site(each)
            for each in self._failing
            if self._may_be_local(each)
            and self.states[each].failures
            >= min(_WITNESS_FAILURES, 1 + self._monitors[each].confirm)
        }
        return len(failing - {self._site(url)}) >= min(WITNESSES, self._other_sites(url))

    def _may_be_local(self, url: str) -> bool:
        return self.states[url].cause in NETWORK_CAUSES

    def _note_response(self, url: str, at: int) -> None:
        site = self._site(url)
        latest = max([at, *(time for time, each in self._responses if each == site)])
        others = [entry for entry in self._responses if entry[1] != site]
        self._responses = sorted([*others, (latest, site)], reverse=True)[:2]

    def _other_responds(self, url: str) -> bool:
        """Return whether another site has responded since this page failed first."""
        since, site = self.states[url].since, self._site(url)
        return any(at >= since and other != site for at, other in self._responses)


def _outage(url: str, state: MonitorState, since: int, until: int = 0) -> Outage:
    return Outage(
        url=url,
        since=since,
        until=max(until, since) if until else 0,
        cause=state.cause,
        text=state.text,
    )
