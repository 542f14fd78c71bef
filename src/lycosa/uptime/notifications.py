"""Combines events into notifications: few while much is down at once, none sent twice.

Each target has an outbox. Its cursor records the notified events and is stored together with the
notifications, so that a kill neither loses one nor sends one under two IDs.

- Outages confirmed within `GATHER_MS` are combined, or within `GATHER_BUSY_MS` if the last
  notification is younger than `BUSY_MS`. They never wait longer than the interval of a check.
- Further pages of a host that is down join its outage without a notification, for as long as it
  takes to check all of them twice.
- A host is notified as up when all of its pages are up, or `PARTLY_MS` after the first of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from lycosa.config.monitor import Monitor
from lycosa.core.clock import Clock
from lycosa.core.units import format_duration, format_time, number_of
from lycosa.notify.outbox import Outbox
from lycosa.notify.transports import Fact, Kind, Notice
from lycosa.uptime.outages import Event, NetworkOutage, Outage, authority, url_of_key
from lycosa.uptime.results import CheckResult

GATHER_MS, GATHER_BUSY_MS = 10_000, 60_000
BUSY_MS = 300_000
PARTLY_MS = 120_000
_MAX_NAMED = 50
_DAY_MS = 86_400_000


class OutageNotifier:
    """Writes notifications. `box_of` returns the outbox of a target."""

    def __init__(self, box_of: Callable[[str], Outbox], clock: Clock) -> None:
        self._box_of, self._clock = box_of, clock
        self._monitors: Mapping[str, Monitor] = {}
        self._targets: dict[str, _Target] = {}

    def watch(self, monitors: Mapping[str, Monitor]) -> None:
        """Set the monitors by URL. Outages of all others are dropped."""
        self._monitors = monitors
        for name in {each for monitor in monitors.values() for each in monitor.notify}:
            if name not in self._targets:
                self._targets[name] = _Target(self._box_of(name), self._clock)
        for target in self._targets.values():
            target.watch(monitors)

    def notified_keys(self) -> set[str]:
        """Return the keys of the outages that were notified and not yet their end."""
        return {key for target in self._targets.values() for key in target.notified}

    def offline_since(self) -> int:
        """Return the start of the notified outage of the local network, or 0."""
        return max((target.offline for target in self._targets.values()), default=0)

    def add(self, events: Iterable[Event]) -> None:
        """Add events in the order in which they happen."""
        for event in events:
            if isinstance(event, NetworkOutage):
                for target in self._targets.values():
                    target.add_network_outage(event)
            else:
                for target in self._targets_of(event.url):
                    target.add_outage(event)

    def add_certificate(self, result: CheckResult) -> None:
        """Warn once if the certificate of a checked host expires soon."""
        monitor, until = self._monitors.get(result.url), result.certificate_until
        if monitor is None or until is None or not monitor.certificate:
            return
        if until - self._clock.now_ms() <= monitor.certificate:
            for target in self._targets_of(result.url):
                target.add_certificate(monitor, until)

    def tick(self) -> None:
        """Send the gathered notifications. Call it about once a second."""
        for target in self._targets.values():
            target.tick()

    def _targets_of(self, url: str) -> list[_Target]:
        monitor = self._monitors.get(url)
        return [self._targets[name] for name in monitor.notify] if monitor is not None else []


class _Target:
    """The notifications of one target. `notified`: key of an outage -> ID of its notification.

    Intervals are measured by the monotonic clock.
    """

    def __init__(self, box: Outbox, clock: Clock) -> None:
        self._box, self._clock = box, clock
        self._monitors: Mapping[str, Monitor] = {}
        self.notified: dict[str, str] = {}
        self.offline = 0
        self._certificates: dict[str, int] = {}  # by host: the expiry that was notified
        self._sent_at: dict[str, int] = {}  # by host: when its last notification was sent
        self._down: dict[str, Outage] = {}  # not yet notified
        self._up: dict[str, Outage] = {}
        self._down_at = self._up_at = 0  # when the first of them was added
        self._last_at = -BUSY_MS
        self._unsaved: list[Notice] = []  # storage has failed
        try:
            state = json.loads(box.cursor) if box.cursor else {}
            self.notified = dict(state.get("notified", {}))
            self.offline = int(state.get("offline", 0))
            self._certificates = dict(state.get("certificates", {}))
        except (ValueError, TypeError, AttributeError):
            pass  # written by another version: ongoing outages are notified again

    def watch(self, monitors: Mapping[str, Monitor]) -> None:
        self._monitors = monitors
        self.notified = {
            key: notice for key, notice in self.notified.items() if url_of_key(key) in monitors
        }
        self._down = {key: each for key, each in self._down.items() if each.url in monitors}
        self._up = {key: each for key, each in self._up.items() if each.url in monitors}

    def add_outage(self, outage: Outage) -> None:
        key, now = outage.key, self._clock.monotonic_ms()
        if outage.until:
            if self._down.pop(key, None) is None and key in self.notified:
                self._up_at = self._up_at if self._up else now
                self._up[key] = outage
        elif key not in self.notified:
            notice = self._notice_to_join(outage.host, now)
            if notice:
                self.notified[key] = notice
                self._put([])
            else:
                self._down_at = self._down_at if self._down else now
                self._down[key] = outage

    def add_network_outage(self, event: NetworkOutage) -> None:
        if (self.offline == event.since) != bool(event.until):
            return  # it was notified before, or its start was not
        kind: Kind = "online" if event.until else "offline"
        self.offline = 0 if event.until else event.since
        facts: dict[str, Fact] = {"since": format_time(event.since), "monitors": event.monitors}
        facts |= {"until": format_time(event.until)} if event.until else {}
        at, name = event.until or event.since, "network of this machine"
        key = f"{event.since}|network"
        self._put([_notice(kind, key, (name, ""), at, event_text(event), facts)])

    def add_certificate(self, monitor: Monitor, until: int) -> None:
        host, now_ms = authority(monitor.url), self._clock.now_ms()
        if self._certificates.get(host) == until:
            return
        self._certificates[host] = until
        days = max(0, (until - now_ms) // _DAY_MS)
        text = (
            f"the certificate of {host} expires in {number_of(days, 'day')}, "
            f"on {format_time(until)[:10]}"
        )
        facts: dict[str, Fact] = {"ends": format_time(until), "days": days}
        about = (monitor.label, monitor.url)
        self._put([_notice("certificate", f"{until}|{host}", about, now_ms, text, facts)])

    def tick(self) -> None:
        now = self._clock.monotonic_ms()
        waiting = [*self._down.values(), *self._up.values()]
        every = min((self._monitors[each.url].every for each in waiting), default=GATHER_MS)
        busy = now - self._last_at < BUSY_MS
        gather = min(GATHER_BUSY_MS if busy else GATHER_MS, every)
        notices: list[Notice] = []
        if self._down and now - self._down_at >= gather:
            notices.append(self._down_notice(now))
        if self._up and now - self._up_at >= gather and (complete := self._recovered(now)):
            notices.append(self._up_notice(complete, now))
        if notices or self._unsaved:
            self._put(notices)
            self._last_at = now

    def _notice_to_join(self, host: str, now: int) -> str:
        """Return the ID of a recent notification about the host, or ""."""
        checked_twice = max(
            (2 * each.every for url, each in self._monitors.items() if authority(url) == host),
            default=0,
        )
        if now - self._sent_at.get(host, -checked_twice - 1) > checked_twice:
            return ""
        notices = (
            notice for key, notice in self.notified.items() if authority(url_of_key(key)) == host
        )
        return next(notices, "")

    def _recovered(self, now: int) -> list[Outage]:
        """Return the outages whose end is to be notified now: of whole hosts if possible."""
        down = {authority(url_of_key(key)) for key in self.notified if key not in self._up}
        partly = now - self._up_at >= PARTLY_MS
        return [outage for outage in self._up.values() if partly or outage.host not in down]

    def _down_notice(self, now: int) -> Notice:
        outages = sorted(self._down.values(), key=lambda each: (each.since, each.url))
        first, hosts = outages[0], dict.fromkeys(each.host for each in outages)
        name = self._name(outages, " so far")
        text = (
            f"{name} {'has' if len(hosts) == 1 else 'have'} been down since "
            f"{format_time(first.since)}: {_reasons(outages)}"
        )
        about = (name, first.url)
        notice = _notice("down", first.key, about, self._clock.now_ms(), text, _facts(outages))
        self.notified |= dict.fromkeys(self._down, notice.id)
        self._sent_at |= dict.fromkeys(hosts, now)
        self._down.clear()
        return notice

    def _up_notice(self, outages: list[Outage], now: int) -> Notice:
        outages = sorted(outages, key=lambda each: (each.since, each.url))
        first, until = outages[0], max(each.until for each in outages)
        hosts = {each.host for each in outages}
        name = self._name(outages)
        for outage in outages:
            del self.notified[outage.key], self._up[outage.key]
        self._up_at = now
        left = sorted(url for url in map(url_of_key, self.notified) if authority(url) in hosts)
        text = (
            f"{name} {'has' if len(hosts) == 1 else 'have'} been up again since "
            f"{format_time(until)}, after {format_length(until - first.since)} "
            f"({_reasons(outages)})" + (f"; still down: {_list(left)}" if left else "")
        )
        facts = {**_facts(outages), "until": format_time(until)}
        return _notice("up", first.key, (name, first.url), self._clock.now_ms(), text, facts)

    def _name(self, outages: Sequence[Outage], suffix: str = "") -> str:
        """Return the name of the monitor or host, or the number of hosts."""
        hosts = list(dict.fromkeys(each.host for each in outages))
        if len(outages) == 1:
            return self._monitors[outages[0].url].label
        if len(hosts) > 1:
            return f"{len(hosts)} sites ({_list(hosts)}; {len(outages)} monitors)"
        monitors = sum(authority(url) == hosts[0] for url in self._monitors)
        partly = f" ({len(outages)} of {monitors} monitors{suffix})"
        return hosts[0] + (partly if len(outages) != monitors else "")

    def _put(self, notices: list[Notice]) -> None:
        """Store notifications together with the cursor; try again later if storage fails."""
        state = {
            "notified": self.notified,
            "offline": self.offline,
            "certificates": self._certificates,
        }
        self._unsaved += notices
        try:
            self._box.put(self._unsaved, json.dumps(state, ensure_ascii=False))
            self._unsaved = []
        except OSError:
            pass  # for example a full disk, which pauses the crawl


def event_text(event: Event) -> str:
    """Return one line about an event."""
    since = format_time(event.since)
    subject = "the network of this machine" if isinstance(event, NetworkOutage) else event.url
    if event.until:
        return f"{subject} is up again after {format_length(event.until - event.since)}"
    reason = "" if isinstance(event, NetworkOutage) else f": {event.cause}, {event.text}"
    return f"{subject} has been down since {since}{reason}"


def format_length(duration_ms: int) -> str:
    """Format the duration of an outage in full seconds."""
    return format_duration(max(1_000, round(duration_ms, -3)))


def _notice(
    kind: Kind, key: str, about: tuple[str, str], at_ms: int, text: str, facts: Mapping[str, Fact]
) -> Notice:
    """Return a notification about a (name, URL). Kind and key determine its ID."""
    identity = f"{kind}-{sha256(key.encode()).hexdigest()[:20]}"
    return Notice(identity, kind, *about, datetime.fromtimestamp(at_ms / 1000, UTC), text, facts)


def _facts(outages: Sequence[Outage]) -> dict[str, Fact]:
    return {
        "since": format_time(outages[0].since),
        "cause": ", ".join(dict.fromkeys(each.cause for each in outages)),
        "monitors": len(outages),
        "urls": " ".join([each.url for each in outages][:_MAX_NAMED]),
    }


def _reasons(outages: Sequence[Outage]) -> str:
    by_reason: dict[str, list[str]] = {}
    for each in outages:
        by_reason.setdefault(f"{each.cause}, {each.text}", []).append(each.url)
    return "; ".join(
        reason if len(outages) == 1 else f"{reason}: {_list(urls)}"
        for reason, urls in by_reason.items()
    )


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
