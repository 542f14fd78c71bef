"""From events to notices: one for each outage, few when much is down at once, and one when it is up
again.

Every target has an outbox, whose cursor says what the target was told: it is kept or lost together
with the notices themselves, so a kill at any moment neither loses a notice nor makes a second one
of the same outage under another id.

- What is confirmed within `GATHER_MS` of the first goes into one notice; while the last one is
  younger than `BUSY_MS`, within a minute. It never waits longer than the interval of its checks.
- Further pages of a host that is down join its outage without a notice of their own, for one round
  of its checks.
- A host is told to be up again when all of its pages are, or `PARTLY_MS` after the first of them
  was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from lycosa.config.monitor import Monitor
from lycosa.core.units import format_duration, format_time
from lycosa.notify.transports import Fact, Kind, Notice
from lycosa.uptime.outages import Event, Found, Offline, Outage, authority

GATHER_MS, GATHER_BUSY_MS = 10_000, 60_000
BUSY_MS = 300_000
PARTLY_MS = 120_000
_MAX_NAMED = 50
_DAY_MS = 86_400_000


class Box(Protocol):
    """What the desk needs of an outbox (`lycosa.notify.outbox.Outbox`)."""

    @property
    def cursor(self) -> str: ...

    def put(self, notices: Sequence[Notice], cursor: str | None = None) -> None: ...


@dataclass(slots=True)
class _Target:
    """`told`: key of an outage -> id of the notice that speaks for it; `hosts`: when a host's
    notice left.
    """

    box: Box
    told: dict[str, str] = field(default_factory=dict)
    offline: int = 0
    certificates: dict[str, int] = field(default_factory=dict)  # by host: the end that was told
    hosts: dict[str, int] = field(default_factory=dict)
    down: dict[str, Outage] = field(default_factory=dict)  # to be told
    up: dict[str, Outage] = field(default_factory=dict)  # likewise
    down_at: int = 0  # when the first of them came
    up_at: int = 0
    left_at: int = -BUSY_MS
    waiting: list[Notice] = field(default_factory=list)  # storage did not take them

    def cursor(self) -> str:
        return json.dumps(
            {"told": self.told, "offline": self.offline, "certificates": self.certificates},
            ensure_ascii=False,
        )


class Desk:
    """Writes notices. `box_of` gives a target's outbox; times are ms since 1970."""

    def __init__(self, box_of: Callable[[str], Box]) -> None:
        self._box_of = box_of
        self._monitors: Mapping[str, Monitor] = {}
        self._targets: dict[str, _Target] = {}

    def watch(self, monitors: Mapping[str, Monitor]) -> None:
        """These are the monitors from now on, by URL. Outages of others are forgotten, without a
        word.
        """
        self._monitors = monitors
        for name in {
            each for monitor in monitors.values() for each in monitor.notify
        } - self._targets.keys():
            self._targets[name] = self._open(self._box_of(name))
        for target in self._targets.values():
            target.told = {
                key: notice
                for key, notice in target.told.items()
                if key.partition("|")[2] in monitors
            }
            for waiting in (target.down, target.up):
                for key in [each for each in waiting if waiting[each].url not in monitors]:
                    del waiting[key]

    def told(self) -> set[str]:
        """Keys of the outages that somebody was told of."""
        return {key for target in self._targets.values() for key in target.told}

    def offline_since(self) -> int:
        """Since when our network was said to be down; 0: it was not."""
        return max((target.offline for target in self._targets.values()), default=0)

    def take(self, events: Iterable[Event], now_ms: int) -> None:
        """Events, as they come."""
        for event in events:
            if isinstance(event, Offline):
                for target in self._targets.values():
                    self._tell_offline(target, event)
            else:
                monitor = self._monitors.get(event.url)
                for name in monitor.notify if monitor is not None else ():
                    self._note(self._targets[name], event, now_ms)

    def see(self, found: Found, now_ms: int) -> None:
        """A check saw a certificate: warn if it ends soon, once."""
        monitor = self._monitors.get(found.url)
        until = found.certificate_until
        if (
            monitor is None
            or until is None
            or not monitor.certificate
            or until - now_ms > monitor.certificate
        ):
            return
        host = authority(found.url)
        for name in monitor.notify:
            target = self._targets[name]
            if target.certificates.get(host) == until:
                continue
            target.certificates[host] = until
            days = max(0, (until - now_ms) // _DAY_MS)
            text = (
                f"the certificate of {host} expires in {days} "
                f"{'day' if days == 1 else 'days'}, on {_date(until)}"
            )
            facts: dict[str, Fact] = {"ends": format_time(until), "days": days}
            self._put(
                target,
                [
                    _notice(
                        "certificate",
                        f"{until}|{host}",
                        monitor.label,
                        found.url,
                        now_ms,
                        text,
                        facts,
                    )
                ],
            )

    def tick(self, now_ms: int) -> None:
        """Let go what has been gathered: call it about once a second."""
        for target in self._targets.values():
            every = min(
                (
                    self._monitors[each.url].every
                    for each in (*target.down.values(), *target.up.values())
                ),
                default=GATHER_MS,
            )
            gather = min(GATHER_BUSY_MS if now_ms - target.left_at < BUSY_MS else GATHER_MS, every)
            notices: list[Notice] = []
            if target.down and now_ms - target.down_at >= gather:
                notices.append(self._down_notice(target, now_ms))
            if target.up and now_ms - target.up_at >= gather:
                again = self._up_again(target, now_ms)
                if again:
                    notices.append(self._up_notice(target, again, now_ms))
            if notices or target.waiting:
                self._put(target, notices)
                target.left_at = now_ms

    def set_back(self, by_ms: int) -> None:
        """The clock was set back: what waits to be told waits no longer for it."""
        for target in self._targets.values():
            target.down_at -= by_ms
            target.up_at -= by_ms
            target.left_at -= by_ms
            target.hosts = {host: at - by_ms for host, at in target.hosts.items()}

    # -- gathering
    # ------------------------------------------------------------

    def _note(self, target: _Target, outage: Outage, now_ms: int) -> None:
        key = outage.key
        if outage.until:
            if target.down.pop(key, None) is None and key in target.told:
                target.up_at = target.up_at if target.up else now_ms
                target.up[key] = outage
            return
        if key in target.told:
            return
        left_at = target.hosts.get(outage.host)
        if left_at is not None and now_ms - left_at <= self._round_ms(outage.host):
            speaker = next(
                (
                    notice
                    for other, notice in target.told.items()
                    if authority(other.partition("|")[2]) == outage.host
                ),
                "",
            )
            if speaker:
                target.told[key] = speaker
                self._put(target, [])
                return
        target.down_at = target.down_at if target.down else now_ms
        target.down[key] = outage

    def _round_ms(self, host: str) -> int:
        """How long it takes until all pages of a host were looked at."""
        return max(
            (2 * each.every for url, each in self._monitors.items() if authority(url) == host),
            default=0,
        )

    def _up_again(self, target: _Target, now_ms: int) -> list[Outage]:
        """What is to be told now of what is up again: by hosts, whole ones if possible."""
        still = {authority(key.partition("|")[2]) for key in target.told if key not in target.up}
        partly = now_ms - target.up_at >= PARTLY_MS
        return [outage for outage in target.up.values() if partly or outage.host not in still]

    # -- writing
    # ------------------------------------------------------------

    def _down_notice(self, target: _Target, now_ms: int) -> Notice:
        outages = sorted(target.down.values(), key=lambda each: (each.since, each.url))
        first = outages[0]
        hosts = list(dict.fromkeys(each.host for each in outages))
        what = (
            self._monitors[first.url].label
            if len(outages) == 1
            else _several(hosts, len(outages), self._watched(first.host), " so far")
        )
        text = (
            f"{what} {'has' if len(hosts) == 1 else 'have'} been down since "
            f"{format_time(first.since)}: {_reasons(outages)}"
        )
        notice = _notice(
            "down", first.key, what, first.url, now_ms, text, _facts(outages, first.since)
        )
        target.told |= dict.fromkeys(target.down, notice.id)
        target.hosts |= dict.fromkeys(hosts, now_ms)
        target.down.clear()
        return notice

    def _up_notice(self, target: _Target, outages: list[Outage], now_ms: int) -> Notice:
        outages = sorted(outages, key=lambda each: (each.since, each.url))
        first, until = outages[0], max(each.until for each in outages)
        hosts = list(dict.fromkeys(each.host for each in outages))
        what = (
            self._monitors[first.url].label
            if len(outages) == 1
            else _several(hosts, len(outages), self._watched(first.host))
        )
        for outage in outages:
            del target.told[outage.key], target.up[outage.key]
        target.up_at = now_ms
        left = sorted(
            key.partition("|")[2]
            for key in target.told
            if authority(key.partition("|")[2]) in hosts
        )
        text = (
            f"{what} {'has' if len(hosts) == 1 else 'have'} been up again since "
            f"{format_time(until)}, after {_length(until - first.since)}"
        )
        text += f" ({_reasons(outages)})" + (f"; still down: {_list(left)}" if left else "")
        return _notice(
            "up",
            first.key,
            what,
            first.url,
            now_ms,
            text,
            _facts(outages, first.since) | {"until": format_time(until)},
        )

    def _tell_offline(self, target: _Target, event: Offline) -> None:
        key = f"{event.since}|network"
        if not event.until:
            if target.offline == event.since:
                return
            target.offline = event.since
            text = (
                f"no monitored URL has responded since {format_time(event.since)}: the network "
                "of this machine seems to be down"
            )
            facts: dict[str, Fact] = {"since": format_time(event.since), "monitors": event.monitors}
            self._put(
                target,
                [_notice("offline", key, "network of this machine", "", event.since, text, facts)],
            )
        elif target.offline == event.since:
            target.offline = 0
            length = _length(event.until - event.since)
            text = (
                "the network of this machine has been up again since "
                f"{format_time(event.until)}, after {length}"
            )
            facts = {"since": format_time(event.since), "until": format_time(event.until)}
            self._put(
                target,
                [_notice("online", key, "network of this machine", "", event.until, text, facts)],
            )

    def _watched(self, host: str) -> int:
        return sum(authority(url) == host for url in self._monitors)

    def _put(self, target: _Target, notices: list[Notice]) -> None:
        """Hand notices over, with what is told by them; what storage does not take now is tried
        again at the next tick.
        """
        notices = [*target.waiting, *notices]
        try:
            target.box.put(notices, target.cursor())
            target.waiting = []
        except OSError:  # a full disk: it is looked after elsewhere
            target.waiting = notices

    @staticmethod
    def _open(box: Box) -> _Target:
        try:
            kept = json.loads(box.cursor) if box.cursor else {}
            return _Target(
                box,
                dict(kept.get("told", {})),
                int(kept.get("offline", 0)),
                dict(kept.get("certificates", {})),
            )
        except (ValueError, TypeError, AttributeError):
            # of another version: what goes on is told again
            return _Target(box)


def _notice(
    kind: Kind, key: str, name: str, url: str, at_ms: int, text: str, facts: Mapping[str, Fact]
) -> Notice:
    """A notice; the same kind of event with the same key has the same id."""
    return Notice(
        f"{kind}-{sha256(key.encode()).hexdigest()[:20]}",
        kind,
        name,
        url,
        datetime.fromtimestamp(at_ms / 1000, UTC),
        text,
        facts,
    )


def _facts(outages: Sequence[Outage], since: int) -> dict[str, Fact]:
    urls = [each.url for each in outages]
    causes = dict.fromkeys(each.cause for each in outages)
    named = " ".join(urls[:_MAX_NAMED])  # facts are flat
    return {
        "since": format_time(since),
        "cause": ", ".join(causes),
        "monitors": len(urls),
        "urls": named,
    }


def _several(hosts: Sequence[str], pages: int, watched: int, qualified: str = "") -> str:
    if len(hosts) == 1:
        return (
            hosts[0]
            if pages == watched
            else f"{hosts[0]} ({pages} of {watched} monitors{qualified})"
        )
    return f"{len(hosts)} sites ({_list(hosts)}; {pages} monitors)"


def _reasons(outages: Sequence[Outage]) -> str:
    by_reason: dict[str, list[str]] = {}
    for each in outages:
        by_reason.setdefault(f"{each.cause}, {each.text}", []).append(each.url)
    return "; ".join(
        reason if len(by_reason) == len(outages) == 1 else f"{reason}: {_list(urls)}"
        for reason, urls in by_reason.items()
    )


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _date(at_ms: int) -> str:
    return format_time(at_ms)[:10]


def _length(duration_ms: int) -> str:
    return format_duration(max(1_000, round(duration_ms, -3)))
