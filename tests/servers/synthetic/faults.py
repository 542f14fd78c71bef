"""What goes wrong when, and how long everything takes. Times are milliseconds since the plan's
epoch.
"""

from __future__ import annotations

from email.utils import formatdate

from tests.servers.synthetic.answer import Fault
from tests.servers.synthetic.draw import draw, unit
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
_RUSH = 4.0  # how much slower a rushing host is in its bad hours


def host_failure(plan: WebPlan, host: Host, at: int) -> tuple[int, str] | None:
    """(status, Retry-After) with which a host answers everything but robots.txt in this window;
    None when it works.
    """
    if host.failure not in ("failing", "limiting"):
        return None
    window = at // plan.window_ms
    if unit(plan.seed, "fails", host.number, window) >= plan.failing_share:
        return None
    style = draw(plan.seed, "failure", host.number, window)
    end = (window + 1) * plan.window_ms
    seconds = -(-(end - at) // 1000)
    if host.failure == "limiting":
        as_date = style % 2
        return 429, formatdate(
            (plan.epoch_ms + at) // 1000 + seconds, usegmt=True
        ) if as_date else str(seconds)
    status = _ERRORS[style % len(_ERRORS)]
    return status, str(seconds) if status == 503 and style // 4 % 2 else ""


def page_fault(plan: WebPlan, host: Host, path: str, at: int) -> Fault:
    """What happens to the connection of one request; another window, another luck."""
    fault = _PAGE_FAULTS.get(host.failure, Fault.NONE)
    if (
        fault
        and unit(plan.seed, "fault", host.number, path, at // plan.fault_window_ms)
        < plan.failing_share
    ):
        return fault
    return Fault.NONE


def latency_ms(plan: WebPlan, host: Host, path: str, at: int) -> int:
    """Time to the first byte."""
    latency = host.latency_ms * (0.6 + unit(plan.seed, "latency", host.number, path))
    if host.rushing and unit(plan.seed, "rush", host.number, at // _HOUR_MS) < plan.failing_share:
        latency *= _RUSH
    return round(latency)


def transfer_ms(host: Host, size: int) -> int:
    """Time from the first byte of a body to its last."""
    return round(size / host.bytes_per_ms)
