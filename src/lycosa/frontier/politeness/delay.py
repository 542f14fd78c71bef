"""How long a host is paused after a fetch, and by which rule.

The pause is the largest of the operator's settings (a minimum, and AltaVista Scooter's courtesy
factor times the time of the last transfer, both capped), the site's requests (Crawl-delay,
Retry-After), and the back-off after failures. While a host responds slower than usual
(`lycosa.frontier.politeness.latency`), the first three are multiplied. Requests of the site are
never capped. All pure; `lycosa.frontier.politeness.clocks` stores the pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from xxhash import xxh3_64_intdigest

from lycosa.config.settings import Collection
from lycosa.core.dataclass import dataclass

HOST_BACKOFF_MS = 60_000
"""The first back-off of a failing host."""

BACKOFF_CAP_MS = 86_400_000
"""A failing host is retried at least once a day."""

BACKOFF_JITTER = 0.25
"""Relative jitter of back-offs. Hosts that failed together (local outage) are not retried
together.
"""

DOMAIN_CAP_MS = 600_000
"""Maximum time for which a pause of one host also binds its registrable domain."""

FORGIVEN_FROM = 12
"""Maximum of the failure counter when it is halved: 60 s doubled 11 times exceeds the cap."""


class Reason(StrEnum):
    """The rules of a pause, as `explain` names them."""

    DELAY = "delay"
    COURTESY = "courtesy_factor"
    MAX_DELAY = "max_delay"  # courtesy_factor would be longer
    SLOW_DOWN = "slow_down"  # the response time of the host has increased
    CRAWL_DELAY = "crawl_delay"
    RETRY_AFTER = "retry_after"
    BACK_OFF = "back_off"


_PASSING = (Reason.BACK_OFF, Reason.RETRY_AFTER)


@dataclass(slots=True, frozen=True)
class DelayRules:
    """The politeness settings in milliseconds. `backoff_ms`: after the first failure."""

    delay_ms: int
    courtesy_factor: float
    max_delay_ms: int
    backoff_ms: int = HOST_BACKOFF_MS

    @staticmethod
    def of(collection: Collection, backoff_ms: int = HOST_BACKOFF_MS) -> DelayRules:
        return DelayRules(
            collection.delay, collection.courtesy_factor, collection.max_delay, backoff_ms
        )


def transfer_ms(duration_ms: int, connect_ms: int, *, sent: bool = True) -> int:
    """Return the time that the server needed for a fetch, for the courtesy factor.

    `Exchange.duration_ms` runs from the start to the last byte and `first_byte_ms` from the start
    to the first: both include name resolution, connecting and TLS, which can be slow for a fast
    host. `connect_ms` (libcurl's pretransfer time) is that part. A request that was not sent cost
    the server nothing.
    """
    return max(duration_ms - connect_ms, 0) if sent else 0


def reasons(
    pace: DelayRules,
    *,
    duration_ms: float,
    crawl_delay_ms: int = 0,
    retry_after_ms: int = 0,
    failures: int = 0,
    slow_down: float = 1.0,
    host_key: int | None = None,
) -> list[tuple[str, int]]:
    """Return all rules that require a pause, as (`Reason`, milliseconds), longest first: the first
    one is the pause. Empty: no pause.

    Args:
        duration_ms: how long the server took over the last fetch (`transfer_ms`).
        failures: the host's failures that are not forgiven (`failures_after`).
        slow_down: 1 to 8, from `lycosa.frontier.politeness.latency`.
        host_key: spreads the back-off; without it there is no jitter.
    """
    cap = pace.max_delay_ms
    courtesy = pace.courtesy_factor * duration_ms
    parts: list[tuple[str, float]] = []
    if retry_after_ms > 0:
        parts.append((Reason.RETRY_AFTER, retry_after_ms))
    if failures > 0:
        parts.append((Reason.BACK_OFF, backoff_ms(pace.backoff_ms, failures, host_key)))
    if crawl_delay_ms > 0:
        parts.append((Reason.CRAWL_DELAY, crawl_delay_ms))
    if pace.delay_ms > 0:
        parts.append((Reason.DELAY, pace.delay_ms))
    if courtesy > 0:
        parts.append((Reason.COURTESY, courtesy) if courtesy <= cap else (Reason.MAX_DELAY, cap))
    if slow_down > 1:
        parts.append(
            (Reason.SLOW_DOWN, min(max(pace.delay_ms, courtesy, crawl_delay_ms) * slow_down, cap))
        )
    parts_ms = [(name, whole) for name, milliseconds in parts if (whole := round(milliseconds)) > 0]
    return sorted(parts_ms, key=lambda part: -part[1]) if len(parts_ms) > 1 else parts_ms


def pause_ms(delays: Sequence[tuple[str, int]]) -> int:
    """Return the pause of the host after a fetch: the longest of its `reasons`."""
    return delays[0][1] if delays else 0


def usual_ms(delays: Sequence[tuple[str, int]]) -> int:
    """Return the pause without back-off and Retry-After: that between any two fetches."""
    for name, milliseconds in delays:
        if name not in _PASSING:
            return milliseconds
    return 0


def domain_pause_ms(delays: Sequence[tuple[str, int]]) -> int:
    """Return how long a fetch occupies its slot of the registrable domain afterwards.

    Failures of a host do not count: names without a server are common in large domains. A requested
    pause counts for at most `DOMAIN_CAP_MS`, so that one host in maintenance does not block a
    domain of thousands.
    """
    return min(usual_ms(delays), DOMAIN_CAP_MS)


def domain_wide_pause_ms(status: int, delays: Sequence[tuple[str, int]]) -> int:
    """Return the pause of the whole registrable domain: after 429 and 503 that of the host, at most
    `DOMAIN_CAP_MS`.

    Such limits more often apply to the whole domain than to one of its names.
    """
    return min(delays[0][1], DOMAIN_CAP_MS) if delays and status in (429, 503) else 0


def backoff_ms(first_ms: int, failures: int, host_key: int | None = None) -> int:
    """Return the back-off: `first_ms` after the first failure, then doubled, at most a day.

    With a `host_key`, jitter is added that depends on nothing but the key and the failure's number,
    so that a replay finds the same time again; the result stays between `first_ms` and a day.
    """
    if failures <= 0:
        return 0
    doubled = min(first_ms << min(failures - 1, 40), BACKOFF_CAP_MS)
    if host_key is None or first_ms >= BACKOFF_CAP_MS:
        return doubled
    shift = (
        xxh3_64_intdigest(host_key.to_bytes(8, "little") + failures.to_bytes(8, "little")) / 2**64
    )
    least = max(min(doubled, round(BACKOFF_CAP_MS / (1 + BACKOFF_JITTER))), first_ms)
    return min(round(least * (1 + BACKOFF_JITTER * shift)), BACKOFF_CAP_MS)


def failures_after(failures: int, failed: bool) -> int:
    """Return the failure counter of a host after a fetch: incremented, or halved.

    Halving forgives a single hiccup at once (1 -> 0), and a host that was down for days step by
    step: with 60 s to begin with, the pauses after it answers again are 32, 4 and 1 minutes, and
    then none.
    """
    return failures + 1 if failed else min(failures, FORGIVEN_FROM) // 2
