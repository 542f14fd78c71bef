"""Concurrent exchanges over libcurl: HTTP/1.1 and HTTP/2, byte for byte, within limits.

libcurl enforces the time to connect; all other limits are applied here (`_sweep`), because libcurl
cannot distinguish a late first byte from a slow body.

libcurl follows no redirects, stores no cookies, and uses no proxy, .netrc or HSTS list: each hop is
a separate request of the caller. Connections are reused only for the same scheme, host and port (no
HTTP/2 coalescing), so an address that the guard allowed for one host is not used for another.
"""

from __future__ import annotations

import re
from typing import Any

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch import failure
from lycosa.fetch.connect_to import find_override, parse_connect_to
from lycosa.fetch.driver import Driver, monotonic_ms
from lycosa.fetch.file_transfer import FileTransfer, split_file_url
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.handle import find_ca_bundle, new_handle
from lycosa.fetch.resolver import Endpoint, Resolution, Resolver, is_name
from lycosa.fetch.transfer import Transfer, split_url
from lycosa.http.fields import default_fields, field_lines, head_end, redacted_fields, with_fields
from lycosa.processes.threads import StopFlag

# CURL_HTTP_VERSION_*
_PROTOCOLS = {1: "http/1.0", 2: "http/1.1", 3: "h2", 4: "h2", 5: "h2", 30: "h3"}
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(?!000)(\d{3})(?!\d)", re.IGNORECASE)
# the received part is not stored as a response
_NO_HEAD = frozenset((FetchError.HEADERS_TOO_LARGE, FetchError.BAD_HTTP))
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_MAX_SWEEP_MS = 250
# name resolution may take longer than the request, so there are more look-ups than connections
_LOOK_UPS_A_CONNECTION, _MAX_LOOK_UPS = 2, 512
_MIN_SWEEP_MS = 10
# longer times between two calls of `wait` do not count for limits; parsing a page takes a tenth
_AWAY_MS = 1_000


class CurlFetcher:
    """Starts requests and returns all exchanges. Not thread-safe."""

    _resolve_prefix = "+"  # the entry expires like libcurl's own entries

    def __init__(
        self, settings: FetchSettings, guard: AddressGuard, clock: Clock, unacknowledged_ms: int = 0
    ) -> None:
        """`unacknowledged_ms`: time without acknowledgements for a disconnect.

        Only on Linux, and even if this side has closed the connection; 0: the system's default.

        Raises:
            ConfigError: `ca_file` is not a file, `connect_to` is malformed, or a header setting
            contains control characters.
        """
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._unacknowledged_ms = unacknowledged_ms
        self._overrides = parse_connect_to(settings.connect_to)
        self._fields = default_fields(settings)
        self._head_end = head_end(self._fields)
        self._ca_bundle = find_ca_bundle(settings.ca_file)
        shortest = min(settings.first_byte_timeout, settings.total_timeout, settings.slow_time)
        self._sweep_ms = min(max(shortest // 10, _MIN_SWEEP_MS), _MAX_SWEEP_MS)
        self._next_sweep = 0
        self._left_ms = 0  # time of the last return of `wait`
        self._running: dict[Any, Transfer] = {}  # by easy handle, oldest first
        self._finished: list[Exchange] = []
        self._closed = False
        self._free: list[Transfer] = []
        self._controls: dict[str, str] = {}  # FTP authority -> address of its control connection
        self._driver = Driver(settings.connections)
        self._resolver = Resolver(min(_LOOK_UPS_A_CONNECTION * settings.connections, _MAX_LOOK_UPS))
        self._driver.watch_descriptor(self._resolver.wakes)
        self._looking_up: dict[Endpoint, list[Transfer]] = {}

    @property
    def active(self) -> int:
        """The number of exchanges that were started and not yet returned."""
        return len(self._running) + len(self._finished)

    def start(self, request: Request) -> None:
        """Start an exchange; `wait` returns it, even if it failed here. Hot path."""
        url = split_url(request.url)
        if (
            url is None
            and self._settings.other_schemes
            and (file_url := split_file_url(request.url, self._guard)) is not None
        ):
            self._start_file(request, file_url)
            return
        if url is None:
            if request.url.startswith(("http://", "https://")):
                self._not_started(request, FetchError.INTERNAL, "not a normalised URL")
            elif self._settings.other_schemes and request.url.startswith(("ftp://", "gopher://")):
                self._not_started(
                    request,
                    FetchError.ADDRESS_REFUSED,
                    "the port is not one of FTP or gopher, or the path is not allowed",
                )
            else:
                self._not_started(
                    request, FetchError.UNSUPPORTED_SCHEME, "not an http or https URL"
                )
            return
        transfer = self._free.pop() if self._free else self._new_transfer()
        curl = transfer.curl
        if request.form is not None:
            curl.setopt(pycurl.POSTFIELDS, request.form)
        elif transfer.posted:
            curl.setopt(pycurl.HTTPGET, 1)
        transfer.begin(request, url, self._clock.now_ms())
        if request.headers:
            fields = with_fields(self._fields, field_lines(request.headers))
            recorded = redacted_fields(request.headers)
            shown = fields
            if recorded is not request.headers:
                shown = with_fields(self._fields, field_lines(recorded))
            transfer.set_fields(fields, head_end(shown), custom=True)
        elif transfer.custom_headers:
            transfer.set_fields(self._fields, self._head_end, custom=False)
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.REQUEST_TARGET, transfer.target())
        self._prepare(transfer)
        self._set_out(transfer)

    def _set_out(self, transfer: Transfer) -> None:
        """Look up the name of the host first, or pass the request to libcurl."""
        self._running[transfer.curl] = transfer
        if self._must_be_looked_up(endpoint := transfer.host_and_port()):
            self._look_up(transfer, endpoint)
        else:
            self._driver.add(transfer.curl)

    def _must_be_looked_up(self, endpoint: Endpoint) -> bool:
        """Return whether the name of the host must be resolved here.

        libcurl resolves overridden hosts.
        """
        host, port = endpoint
        return (
            is_name(host)
            and not self._resolver.knows(endpoint)
            and (not self._overrides or find_override(self._overrides, host, port) is None)
        )

    def _look_up(self, transfer: Transfer, endpoint: Endpoint) -> None:
        """Resolve the host of a request before it is sent."""
        transfer.wait_for_name(endpoint)
        others = self._looking_up.get(endpoint)
        if others is None:
            others = self._looking_up[endpoint] = []
            self._resolver.ask(endpoint)
        others.append(transfer)

    def _looked_up(self, resolution: Resolution) -> None:
        """Pass the requests of a host to libcurl, with the addresses of the host."""
        host, port = resolution.endpoint
        for transfer in self._looking_up.pop(resolution.endpoint, ()):
            if not resolution.addresses:
                error = FetchError.NAME_UNKNOWN if resolution.unknown else FetchError.DNS
                self._end(transfer, error, f"Could not resolve host: {host} ({resolution.why})", "")
                continue
            listed = ",".join(
                f"[{address}]" if ":" in address else address for address in resolution.addresses
            )
            entry = f"{self._resolve_prefix}{host}:{port}:{listed}"
            self._limit(transfer, transfer.use_addresses(entry))
            self._driver.add(transfer.curl)

    def _longest_look_up_ms(self, transfer: Transfer) -> int:
        return self._settings.connect_timeout

    def _limit(self, transfer: Transfer, spent_ms: int) -> None:
        """Limit the time to connect, minus that of name resolution."""
        transfer.curl.setopt(
            pycurl.CONNECTTIMEOUT_MS, max(self._settings.connect_timeout - spent_ms, 1)
        )

    def _prepare(self, transfer: Transfer) -> None:
        """Set further options of a request, in subclasses."""

    def _start_file(self, request: Request, url: re.Match[str]) -> None:
        curl = new_handle(self._settings, self._ca_bundle)
        transfer = FileTransfer(
            curl, self._guard, self._overrides, self._settings, url, self._controls
        )
        transfer.begin(request, url, self._clock.now_ms())
        transfer.only_if_modified(request.headers)
        curl.setopt(pycurl.URL, request.url)
        self._set_out(transfer)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """Return finished exchanges; wait at most `timeout_ms` for the first one.

        Returns immediately if nothing is in progress.
        """
        now = monotonic_ms()
        deadline = now + timeout_ms
        if now - self._left_ms > _AWAY_MS:
            for transfer in self._running.values():
                transfer.exclude_time(now - self._left_ms, now)
        while True:
            if now >= self._next_sweep:
                self._sweep(now)
            patient = self._running and not self._finished
            self._driver.step(min(deadline, self._next_sweep) if patient else now)
            if self._looking_up:
                for resolution in self._resolver.take():
                    self._looked_up(resolution)
            for curl, code, text in self._driver.done():
                transfer = self._running[curl]
                if code:
                    self._failed(transfer, code, text)
                else:
                    self._succeeded(transfer)
            now = monotonic_ms()
            if self._finished or not self._running or now >= deadline:
                break
        self._left_ms = now
        finished, self._finished = self._finished, []
        return finished

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Sleep while nothing is in progress, at most until `wake` is set."""
        wake.wait(timeout_ms / 1000)

    def stop(self) -> None:
        """End all exchanges; the next `wait` returns them, marked `interrupted`."""
        for transfer in list(self._running.values()):
            self._end(transfer, FetchError.INTERRUPTED, "the fetch was stopped", "disconnect")

    def close(self) -> None:
        """Drop all exchanges and close connections and handles. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for transfer in self._running.values():
            if transfer.looking_up is None:
                self._driver.remove(transfer.curl)
        for transfer in (*self._running.values(), *self._free):
            transfer.curl.close()
        self._running.clear()
        self._free.clear()
        self._finished.clear()
        self._driver.close()
        self._resolver.close()

    def __enter__(self) -> CurlFetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- limits
    # ------------------------------------------------------------

    def _sweep(self, now: int) -> None:
        """End exchanges that take too long in total, to the first byte, or per byte."""
        self._next_sweep = now + self._sweep_ms
        limits = self._settings
        for transfer in list(self._running.values()):
            elapsed = now - transfer.started_ms - transfer.excluded_ms
            size = transfer.size + transfer.head_size() if transfer.head else 0
            if transfer.looking_up is not None and elapsed >= self._longest_look_up_ms(transfer):
                self._end(
                    transfer,
                    FetchError.CONNECT_TIMEOUT,
                    f"the name was not resolved within {elapsed} ms",
                    "",
                )
            elif elapsed >= limits.total_timeout:
                self._end(transfer, FetchError.TIMEOUT, f"not finished after {elapsed} ms", "time")
            elif size == 0 and elapsed >= limits.first_byte_timeout:
                # Not sent: still connecting, or waiting for a connection.
                if (
                    transfer.sent_ms
                    and now - transfer.sent_ms - transfer.excluded_ms >= limits.first_byte_timeout
                ):
                    self._end(
                        transfer, FetchError.FIRST_BYTE_TIMEOUT, f"no answer after {elapsed} ms", ""
                    )
            elif size and transfer.mark_size == 0:
                transfer.mark_at, transfer.mark_size = now, size
            elif size and now - transfer.mark_at >= limits.slow_time:
                speed = (size - transfer.mark_size) * 1000 // (now - transfer.mark_at)
                if speed < limits.slow_speed:
                    self._end(transfer, FetchError.TOO_SLOW, f"{speed} bytes a second", "time")
                else:
                    transfer.mark_at, transfer.mark_size = now, size

    # -- from transfer to exchange
    # ------------------------------------------------------------

    def _succeeded(self, transfer: Transfer) -> None:
        head = transfer.final_head()
        if len(head) > self._settings.max_header:
            self._end(transfer, FetchError.HEADERS_TOO_LARGE, f"{len(head)} bytes of header", "")
        elif _STATUS.match(head):
            if (
                transfer.body
                and not transfer.body[-1].endswith(_LAST_CHUNK)
                and b"chunked" in head.lower()
            ):
                transfer.cut_after_chunks(head)
            self._finish(transfer, head, "", "", "")
        elif head or not transfer.head:
            self._end(transfer, FetchError.BAD_HTTP, "no valid status line", "")
        else:
            self._end(
                transfer, FetchError.INCOMPLETE, "the connection was closed within the headers", ""
            )

    def _failed(self, transfer: Transfer, code: int, text: str) -> None:
        if transfer.head_too_large or transfer.head_size() > self._settings.max_header:
            self._end(
                transfer,
                FetchError.HEADERS_TOO_LARGE,
                f"{transfer.head_size()} bytes of header",
                "",
            )
        elif transfer.repeated:
            self._end(transfer, FetchError.RESET, failure.REPEATED_TEXT, "")
        elif transfer.unwanted:
            self._finish(transfer, transfer.final_head(), "", "", "unspecified")
        elif transfer.cut:
            self._finish(transfer, transfer.final_head(), "", "", "length")
        elif isinstance(transfer, FileTransfer) and (head := transfer.refusal(code)) is not None:
            self._finish(transfer, head, "", text, "")
        else:
            error = self._error_of(transfer, code, text)
            if error is FetchError.ADDRESS_REFUSED:  # libcurl only reports that it cannot connect
                text = "the address is not public, and no seed or fetch.connect_to names its host"
            self._end(transfer, error, text or f"libcurl error {code}", "disconnect")

    def _error_of(self, transfer: Transfer, code: int, text: str) -> FetchError:
        curl = transfer.curl
        if code == failure.COULDNT_CONNECT:
            if transfer.refused and not transfer.dialled:
                return FetchError.ADDRESS_REFUSED
            return failure.connect_error(curl.getinfo(pycurl.OS_ERRNO))
        if code == failure.UNSUPPORTED_PROTOCOL and curl.getinfo(pycurl.PRETRANSFER_TIME_T) > 0:
            return FetchError.BAD_HTTP  # HTTP/0.9
        if code == failure.RECEIVE_ERROR:
            if text.startswith(failure.TOO_LARGE_TEXT):
                return FetchError.HEADERS_TOO_LARGE
            if failure.TLS_EOF_TEXT in text:
                return FetchError.INCOMPLETE if transfer.head else FetchError.EMPTY_REPLY
            if transfer.has_broken_chunk():
                return FetchError.INCOMPLETE
        return failure.curl_error(code)

    def _end(self, transfer: Transfer, error: FetchError, text: str, truncated: str) -> None:
        """Finish an exchange that failed. It has a head only if that is complete."""
        head = b"" if error in _NO_HEAD else transfer.final_head()
        if not _STATUS.match(head) or (isinstance(transfer, FileTransfer) and not transfer.body):
            head = b""
        self._finish(transfer, head, error.value, text, truncated if head else "")

    def _finish(
        self, transfer: Transfer, head: bytes, error: str, text: str, truncated: str
    ) -> None:
        curl = transfer.curl
        match = _STATUS.match(head)
        body = transfer.body
        sent = not error or transfer.sent_ms > 0
        is_file = isinstance(transfer, FileTransfer)
        endpoint = transfer.looking_up
        if endpoint is not None and (others := self._looking_up.get(endpoint)):
            others.remove(transfer)  # the name is still being resolved
        protocol = (
            transfer.protocol
            if isinstance(transfer, FileTransfer)
            else _PROTOCOLS.get(curl.getinfo(pycurl.INFO_HTTP_VERSION), "")
        )
        self._finished.append(
            Exchange(
                url=transfer.request.url,
                kind=transfer.request.kind,
                started_at=transfer.started_at,
                duration_ms=monotonic_ms() - transfer.started_ms,
                ip=curl.getinfo(pycurl.PRIMARY_IP) if sent else transfer.refused,
                protocol=protocol if sent else "",
                request_head=transfer.request_head() if sent else b"",
                response_head=head,
                body=(body[0] if len(body) == 1 else b"".join(body)) if head else b"",
                status=int(match[1]) if match else 0,
                error=error,
                error_text=text,
                truncated=truncated,
                first_byte_ms=curl.getinfo(pycurl.STARTTRANSFER_TIME_T) // 1000
                if endpoint is None
                else 0,
                connect_ms=max(transfer.sent_ms - transfer.started_ms, 0),
                token=transfer.request.token,
            )
        )
        del self._running[curl]
        if endpoint is None:
            self._driver.remove(curl)
        if is_file:
            curl.close()
            return
        if transfer.has_addresses:
            transfer.forget_addresses()
            self._limit(transfer, 0)
        transfer.reset()
        self._free.append(transfer)

    def _not_started(self, request: Request, error: FetchError, text: str) -> None:
        at = self._clock.now_ms()
        self._finished.append(
            Exchange(
                request.url,
                request.kind,
                at,
                0,
                error=error.value,
                error_text=text,
                token=request.token,
            )
        )

    def _new_transfer(self) -> Transfer:
        settings = self._settings
        curl = new_handle(settings, self._ca_bundle)
        curl.setopt(pycurl.HTTPHEADER, self._fields)
        return Transfer(
            curl,
            self._guard,
            self._overrides,
            settings.max_header,
            settings.max_body,
            self._head_end,
            self._unacknowledged_ms,
        )
