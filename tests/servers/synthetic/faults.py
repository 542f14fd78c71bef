"""Failures and latencies of hosts. Times are milliseconds since the plan's epoch."""

from __future__ import annotations

from email.utils import formatdate

from tests.servers.synthetic.answer import Fault
from tests.servers.synthetic.draw import draw, uniform
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.plan import WebPlan

_PAGE_FAULTS = {
    "resetting": Fault.RESET,
    "closing": Fault.CLOSE,
    "cutting": Fault.CUT,
    "hanging": Fault.HANG,
    "stalling": Fault.STALL,
}
_ERRORS = (500, 502, 503, 504)
_HOUR_MS = 3_600_000
_RUSH_FACTOR = 4.0  # of the latency, in the slow hours of a host


def host_failure(plan: WebPlan, host: Host, at: int) -> tuple[int, str] | None:
    """Return (status, Retry-After) of a host that fails in this window; None if it does not.

    It applies to all requests except those for robots.txt.
    """
    if host.failure not in ("failing", "limiting"):
        return None
    window = at // plan.window_ms
    if uniform(plan.seed, "fails", host.number, window) >= plan.failing_share:
        return None
    style = draw(plan.seed, "failure", host.number, window)
    end = (window + 1) * plan.window_ms
    seconds = -(-(end - at) // 1000)
    if host.failure == "limiting":
        date = formatdate((plan.epoch_ms + at) // 1000 + seconds, usegmt=True)
        return 429, date if style % 2 else str(seconds)
    status = _ERRORS[style % len(_ERRORS)]
    return status, str(seconds) if status == 503 and style // 4 % 2 else ""


def page_fault(plan: WebPlan, host: Host, path: str, at: int) -> Fault:
    """Return the network failure of a request, which depends on path and window."""
    fault = _PAGE_FAULTS.get(host.failure, Fault.NONE)
    window = at // plan.fault_window_ms
    if fault and uniform(plan.seed, "fault", host.number, path, window) < plan.failing_share:
        return fault
    return Fault.NONE


def latency_ms(plan: WebPlan, host: Host, path: str, at: int) -> int:
    """Return the time to the first byte."""
    latency = host.latency_ms * (0.6 + uniform(plan.seed, "latency", host.number, path))
    if (
        host.rushing
        and uniform(plan.seed, "rush", host.number, at // _HOUR_MS) < plan.failing_share
    ):
        latency *= _RUSH_FACTOR
    return round(latency)


def transfer_ms(host: Host, size: int) -> int:
    """Return the time from the first to the last byte of a body of `size` bytes."""
    return round(size / host.bytes_per_ms)
