"""How long a host is left alone after a fetch.

The pause is the largest of what the operator set (a minimum, and AltaVista Scooter's courtesy factor times the time the
last transfer took, both capped), what the site asked for (Crawl-delay, Retry-After), and the back-off after failures.
What the site asked for is never capped.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from lycosa.core.config import Collection

BACKOFF_CAP_MS = 86_400_000
"""A failing host is asked at least once a day (the issue's upper bound of the back-off)."""

RETRY_AFTER_CAP_MS = 7 * 86_400_000
"""A Retry-After beyond a week is taken as a week: it is a mistake, or it is for the next schedule to decide."""


@dataclass(slots=True, frozen=True)
class Pace:
    """The operator's side of politeness, in milliseconds."""

    delay_ms: int
    courtesy_factor: float
    max_delay_ms: int
    backoff_ms: int

    @staticmethod
    def of(collection: Collection, backoff_ms: int) -> Pace:
        return Pace(collection.delay, collection.courtesy_factor, collection.max_delay, backoff_ms)


def pause_ms(pace: Pace, *, duration_ms: float, crawl_delay_ms: int = 0, retry_after_ms: int = 0, failures: int = 0) -> int:
    """The pause after a fetch that took `duration_ms`; `failures` counts the host's failures in a row."""
    ours = min(max(pace.delay_ms, pace.courtesy_factor * duration_ms), max(pace.max_delay_ms, pace.delay_ms))
    return round(max(ours, crawl_delay_ms, retry_after_ms, backoff_ms(pace.backoff_ms, failures)))


def backoff_ms(first_ms: int, failures: int) -> int:
    """Doubling: `first_ms` after the first failure, twice that after the second, at most a day."""
    if failures <= 0:
        return 0
    return min(first_ms << min(failures - 1, 40), BACKOFF_CAP_MS)


def retry_after_ms(value: str | None, now_ms: int) -> int:
    """A Retry-After header (RFC 9110 section 10.2.3: seconds or a date) as a wait in milliseconds; 0 for none or nonsense."""
    if not value:
        return 0
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1000, RETRY_AFTER_CAP_MS)
    try:
        at_ms = parsedate_to_datetime(text).timestamp() * 1000
    except (ValueError, TypeError, OverflowError):
        return 0
    return int(min(max(at_ms - now_ms, 0), RETRY_AFTER_CAP_MS))
