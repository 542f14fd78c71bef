"""Detects that the response time of a host has increased.

The host or its network is overloaded then, and its pause is extended.

It compares two moving means of the time to the first byte, without connecting: a fast one, and a
slow one as the usual value. Both are of logarithms, so that a response of ten times the duration
has the same weight as one of a tenth.
"""

from __future__ import annotations

from math import exp, log, sqrt

from lycosa.core.dataclass import dataclass

MAX_SLOW_DOWN = 8.0
"""Maximum factor of the pause."""

SLOW_FROM = 2.0
"""Ratio of the recent to the usual mean from which a host is slow."""

NOISE_MS = 50.0
"""Increases below this are ignored: routes and the event loop vary as much."""

RECENT_WEIGHT = 1 / 8
USUAL_WEIGHT = 1 / 128  # the usual mean adapts to a permanently slow host in some hundred fetches
LEARNING = 32
"""First samples, which have equal weights in the usual mean: no host is slow until then."""

_UNKNOWN_SPREAD = 0.7  # after a restart; of 100 ms, most samples then lie between 50 and 200
# a sample counts as at most 4 times the recent mean, to limit the effect of outliers
_STEP = log(4.0)
_NOISE = 3 * 1.25 * sqrt(RECENT_WEIGHT / (2 - RECENT_WEIGHT))
# Three standard deviations of the recent mean, for samples that vary by their mean absolute
# deviation (1.25 of it are one standard deviation of a normal distribution).


@dataclass(slots=True, frozen=True)
class LatencyTracker:
    """Means of log(ms) of a host, their spread, and the number of samples (at most LEARNING)."""

    recent: float = 0.0
    usual: float = 0.0
    spread: float = 0.0
    samples: int = 0

    @property
    def recent_ms(self) -> float:
        return exp(self.recent) if self.samples else 0.0

    @property
    def usual_ms(self) -> float:
        """The value to store, for `initial_latency`."""
        return exp(self.usual) if self.samples else 0.0


def initial_latency(usual_ms: float) -> LatencyTracker:
    """Restore the means of a host after a restart; 0: no stored mean."""
    if usual_ms <= 0:
        return LatencyTracker()
    mean = log(max(usual_ms, 1.0))
    return LatencyTracker(mean, mean, _UNKNOWN_SPREAD, LEARNING)


def observe(latency: LatencyTracker, first_byte_ms: float) -> LatencyTracker:
    """Add a response: milliseconds from the request to its first byte.

    After a time-out: the time limit.
    """
    sample = log(max(first_byte_ms, 1.0))
    if not latency.samples:
        return LatencyTracker(sample, sample, 0.0, 1)
    samples = min(latency.samples + 1, LEARNING)
    sample = min(max(sample, latency.recent - _STEP), latency.recent + _STEP)
    slow = 1 / samples if samples < LEARNING else USUAL_WEIGHT
    return LatencyTracker(
        latency.recent + max(1 / samples, RECENT_WEIGHT) * (sample - latency.recent),
        latency.usual + slow * (sample - latency.usual),
        latency.spread + slow * (abs(sample - latency.usual) - latency.spread),
        samples,
    )


def slow_down(latency: LatencyTracker) -> float:
    """Return the factor of the pause, 1 to MAX_SLOW_DOWN: recent by usual response time.

    1 unless the recent mean is above SLOW_FROM times the usual one, by more than NOISE_MS, and by
    more than its samples vary anyway. It falls again with the recent mean.
    """
    rise = latency.recent - latency.usual
    if (
        rise <= max(log(SLOW_FROM), _NOISE * latency.spread)
        or latency.recent_ms - latency.usual_ms <= NOISE_MS
    ):
        return 1.0
    return min(exp(rise), MAX_SLOW_DOWN)
