"""Rate limits: a token bucket for each address or name.

The number of buckets is bounded.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lycosa.core.messages import Message
from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import error_response

MAX_ADDRESSES = 10_000
"""Maximum number of addresses in memory. The one without a request for the longest time is removed
first, and starts again with a full bucket.
"""


class RateLimiter:
    """Buckets that fill by `a_second` up to `burst`. Threads may share it. A rate of 0
    disables the limit.
    """

    def __init__(
        self, a_second: float, burst: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._a_second = a_second
        self._burst = burst
        self._now = now
        self._lock = threading.Lock()
        # remaining requests, time of the last one
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> int:
        """Count one request. Return 0 if it may pass, else the whole seconds until one may."""
        with self._lock:
            left = self._left(who)
            wait_s = self._wait(left)
            self._buckets[who] = (left if wait_s else left - 1, self._now())
            self._buckets.move_to_end(who)
            if len(self._buckets) > MAX_ADDRESSES:
                self._buckets.popitem(last=False)
            return wait_s

    def wait(self, who: str) -> int:
        """Return the same as `take`, without counting a request."""
        with self._lock:
            return self._wait(self._left(who))

    def _left(self, who: str) -> float:
        now = self._now()
        left, since = self._buckets.get(who, (self._burst, now))
        return min(self._burst, left + (now - since) * self._a_second)

    def _wait(self, left: float) -> int:
        return 0 if left >= 1 or self._a_second == 0 else math.ceil((1 - left) / self._a_second)


class RateLimitMiddleware:
    """ASGI middleware: 429 with Retry-After for a client with more than `rate` requests per second,
    in bursts of up to four seconds.

    Loopback, the operator, is not limited. (For clients of a trusted proxy see
    `lycosa.serve.web.proxies`.)
    """

    def __init__(self, app: ASGIApp, rate: int) -> None:
        self._app = app
        self._rates = RateLimiter(rate, 4 * rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            address = network_of((scope.get("client") or ("",))[0])
            if not is_loopback(address) and (wait_s := self._rates.take(address)):
                answer = error_response(
                    Request(scope),
                    429,
                    message("Too many requests"),
                    Message("retry_after", "Try again in {seconds} s.", seconds=wait_s),
                    headers={"Retry-After": str(wait_s)},
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def network_of(address: str) -> str:
    """Return the network that counts as one client: an IPv4 address, or a /64 network of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.is_loopback:
        return str(parsed)
    return str(
        parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False).network_address
    )


def is_loopback(address: str) -> bool:
    """Return whether the address is a loopback address; empty (a UNIX socket, a test) counts as
    one.
    """
    return address in ("", "::1") or address.startswith("127.")
