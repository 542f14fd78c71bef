"""The synthetic web without sockets, in simulated time: months pass in minutes.

`SimulatedFetcher` replaces `lycosa.fetch.client.CurlFetcher` and returns the exchanges that the
latter would return for the same responses.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch.failure import REPEATED_TEXT
from lycosa.http.fields import default_fields, field_lines, head_end
from lycosa.processes.threads import StopFlag
from tests.servers.synthetic.answer import Answer, Fault, body_bytes, head_bytes
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.web import Web
from tests.waiting import ManualClock

_URL = re.compile(r"(https?)://([^\s/?#@\\]+)([/?][!\"$-~]*|)")
ADDRESS = "127.0.16.1"
"""The address of all hosts, as with a `WebServer` that has one address."""

_IDLE_MS = 60_000  # maximum time for which a connection is idle

_CUT_CHUNKS = "transfer closed with outstanding read data remaining"
_NO_ANSWER = {
    Fault.UNRESOLVED: (FetchError.DNS, "Could not resolve host"),
    Fault.REFUSED: (FetchError.CONNECT_REFUSED, "Could not connect to server"),
    Fault.RESET: (FetchError.RESET, "Recv failure: Connection reset by peer"),
    Fault.CLOSE: (FetchError.EMPTY_REPLY, "Empty reply from server"),
}


class SimulatedClock(ManualClock):
    """A clock that only `sleep` moves; the fetcher sleeps while it waits."""

    def sleep(self, milliseconds: int) -> None:
        self.advance(max(milliseconds, 0))


@dataclass(slots=True)
class _Running:
    """An exchange that ends at `ends_at`, and its log entry."""

    exchange: Exchange
    ends_at: int
    connection: int
    logged: LogEntry | None


class SimulatedFetcher:
    """Start requests and return exchanges in the order of their simulated ends.

    It has the methods of `CurlFetcher`.
    """

    def __init__(
        self,
        web: Web,
        clock: SimulatedClock,
        settings: FetchSettings | None = None,
        *,
        pace: float = 1.0,
        record: Callable[[LogEntry], None] | None = None,
    ) -> None:
        """
        Args:
            settings: the limits and fields of requests; by default the default settings.
            pace: factor of latencies and transfer times.
            record: called with each log entry; by default entries are appended to `log`.
        """
        self._web = web
        self._pace = pace
        self._clock = clock
        self._settings = settings or FetchSettings()
        self._fields = default_fields(self._settings)
        self._order = count()
        self._running: list[tuple[int, int, _Running]] = []  # heap by the time of the end
        self._finished: list[Exchange] = []
        self._connections = count(1)
        self._idle: dict[str, list[tuple[int, int]]] = {}  # host -> (since, connection id)
        self.log: list[LogEntry] = []
        self._record = record or self.log.append

    @property
    def active(self) -> int:
        return len(self._running) + len(self._finished)

    def start(self, request: Request) -> None:
        """Compute an exchange; `wait` returns it at its simulated end."""
        now = self._clock.now_ms()
        match = _URL.fullmatch(request.url)
        if match is None:
            is_http = request.url.startswith(("http://", "https://"))
            exchange = Exchange(request.url, request.kind, now, 0, token=request.token)
            error = FetchError.INTERNAL if is_http else FetchError.UNSUPPORTED_SCHEME
            exchange.fail(error.value, "not a normalised http or https URL")
            self._finished.append(exchange)
            return
        fields = [*self._fields, *field_lines(request.headers)]
        headers = {
            name.lower(): value.strip()
            for name, value in (line.decode().split(":", 1) for line in fields)
        }
        answer = self._web.answer(request.url, headers, now)
        target = match[3] if match[3].startswith("/") else f"/{match[3]}"
        exchange, duration = self._exchange(request, answer, now)
        exchange.duration_ms = duration
        host = match[2].partition(":")[0]
        connection = 0
        logged = None
        if exchange.error not in (FetchError.DNS, FetchError.CONNECT_REFUSED):
            exchange.request_head = f"GET {target} HTTP/1.1\r\nHost: {match[2]}\r\n".encode(
                "ascii"
            ) + head_end(fields)
            exchange.ip = ADDRESS
            connection, is_reused = self._connect(host, now)
            if is_reused and exchange.error in (FetchError.RESET, FetchError.EMPTY_REPLY):
                exchange.error, exchange.error_text = FetchError.RESET.value, REPEATED_TEXT
            ended = now + duration
            logged = LogEntry(
                host, target, now, ended, exchange.status, connection, answer.retry_after_ms(ended)
            )
        running = _Running(exchange, now + duration, connection, logged)
        heapq.heappush(self._running, (running.ends_at, next(self._order), running))

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """Move the clock to the next end, or by `timeout_ms`, and return the ended exchanges.

        Return immediately if no exchange is active.
        """
        if not self._finished and self._running:
            now = self._clock.now_ms()
            self._clock.sleep(min(self._running[0][0] - now, timeout_ms))
            now = self._clock.now_ms()
            while self._running and self._running[0][0] <= now:
                self._end(heapq.heappop(self._running)[2])
        finished, self._finished = self._finished, []
        return finished

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Move the clock, unless `wake` is set."""
        if not wake.is_set():
            self._clock.sleep(timeout_ms)

    def stop(self) -> None:
        """Interrupt all active exchanges; the next `wait` returns them as `interrupted`."""
        now = self._clock.now_ms()
        for _, _, running in sorted(self._running, key=lambda each: each[1]):
            exchange = running.exchange
            if exchange.status and now < exchange.started_at + exchange.first_byte_ms:
                exchange.response_head, exchange.protocol = b"", ""
                exchange.status = exchange.first_byte_ms = 0
            received = _received_bytes(exchange, running.ends_at, now)
            exchange.body = exchange.body[:received] if exchange.response_head else b""
            exchange.error = FetchError.INTERRUPTED.value
            exchange.error_text = "the fetch was stopped"
            exchange.truncated = "disconnect" if exchange.response_head else ""
            exchange.duration_ms = now - exchange.started_at
            if running.logged is not None:
                running.logged = running.logged._replace(answered_at_ms=now, status=exchange.status)
            self._end(running)
        self._running.clear()

    def close(self) -> None:
        """Discard all exchanges; active ones are logged with their status and end now."""
        self.stop()
        self._finished.clear()
        self._idle.clear()

    def __enter__(self) -> SimulatedFetcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _end(self, running: _Running) -> None:
        self._finished.append(running.exchange)
        logged = running.logged
        if logged is not None:
            self._record(logged)
            if not running.exchange.error and not running.exchange.truncated:
                self._idle.setdefault(logged.host, []).append(
                    (logged.answered_at_ms, running.connection)
                )

    def _connect(self, host: str, now: int) -> tuple[int, bool]:
        """Return the id of a connection, and whether it is an idle one of that host."""
        idle = [each for each in self._idle.pop(host, []) if now - each[0] < _IDLE_MS]
        if not idle:
            return next(self._connections), False
        if idle[:-1]:
            self._idle[host] = idle[:-1]
        return idle[-1][1], True

    def _exchange(self, request: Request, answer: Answer, now: int) -> tuple[Exchange, int]:
        """Apply the client's limits to a response.

        Return the exchange, without address and request head, and its duration.
        """
        limits = self._settings
        latency = round(answer.latency_ms * self._pace)
        transfer = round(answer.transfer_ms * self._pace)
        exchange = Exchange(request.url, request.kind, now, 0, token=request.token)
        if answer.fault in _NO_ANSWER:
            error, text = _NO_ANSWER[answer.fault]
            exchange.error, exchange.error_text = error.value, text
            return exchange, latency
        first_byte_limit = min(limits.first_byte_timeout, limits.total_timeout)
        if answer.fault is Fault.HANG or latency >= first_byte_limit:
            total = limits.total_timeout <= limits.first_byte_timeout
            exchange.error = (FetchError.TIMEOUT if total else FetchError.FIRST_BYTE_TIMEOUT).value
            exchange.error_text = f"no answer after {first_byte_limit} ms"
            return exchange, first_byte_limit
        exchange.response_head = head_bytes(answer)
        exchange.status = answer.status
        exchange.protocol = "http/1.1"
        exchange.first_byte_ms = latency
        body = body_bytes(answer)
        if answer.fault is Fault.STALL or (
            transfer >= limits.slow_time and len(body) * 1000 < limits.slow_speed * transfer
        ):
            if answer.fault is not Fault.STALL:
                body = body[: len(body) * limits.slow_time // transfer]
            exchange.error, exchange.truncated = FetchError.TOO_SLOW.value, "time"
            speed = 0 if answer.fault is Fault.STALL else len(body) * 1000 // limits.slow_time
            exchange.error_text = f"{speed} bytes a second"
            transfer = limits.slow_time
        elif answer.fault is Fault.CUT:
            exchange.error, exchange.truncated = FetchError.INCOMPLETE.value, "disconnect"
            missing = len(answer.body) - len(body)
            chunked = answer.header("Transfer-Encoding")
            exchange.error_text = (
                f"end of response with {missing} bytes missing" if not chunked else _CUT_CHUNKS
            )
            transfer //= 2
        if latency + transfer >= limits.total_timeout:
            left = limits.total_timeout - latency
            body = body[: len(body) * left // transfer]
            exchange.error, exchange.truncated = FetchError.TIMEOUT.value, "time"
            exchange.error_text = f"not finished after {limits.total_timeout} ms"
            transfer = left
        if len(body) > limits.max_body:
            transfer = transfer * limits.max_body // len(body)
            body = body[: limits.max_body]
            exchange.error = exchange.error_text = ""
            exchange.truncated = "length"
        exchange.body = body
        return exchange, latency + transfer


def _received_bytes(exchange: Exchange, ends_at: int, now: int) -> int:
    """Return how many bytes of the body have been received by now."""
    begins = exchange.started_at + exchange.first_byte_ms
    return len(exchange.body) * max(now - begins, 0) // max(ends_at - begins, 1)
