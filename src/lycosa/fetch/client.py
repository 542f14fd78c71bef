"""Many exchanges at once over libcurl: HTTP/1.1 and HTTP/2, kept exactly as they came, within
limits, never raising.

libcurl watches the time to connect; all other limits are ours (`_sweep`), because it cannot tell a
late first byte from a slow body.

libcurl follows no redirects, keeps no cookies, and knows no proxy, no .netrc and no HSTS list: each
hop is a request of its own, judged by its caller. Connections are reused for the same scheme, host
and port only; libcurl never lets another host share one (no HTTP/2 coalescing), so an address that
the guard allowed for one host serves no other.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch import failure
from lycosa.fetch.connect_to import find_detour, parse_connect_to
from lycosa.fetch.driver import Driver, monotonic_ms
from lycosa.fetch.file_transfer import FileTransfer, split_file_url
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.handle import authorities_file, new_handle
from lycosa.fetch.resolver import Names, Place, Resolution, is_name
from lycosa.fetch.transfer import Transfer, split_url
from lycosa.http.fields import default_fields, field_lines, head_end, redacted_fields, with_fields
from lycosa.processes.stopping import StopFlag

# CURL_HTTP_VERSION_*
_PROTOCOLS = {1: "http/1.0", 2: "http/1.1", 3: "h2", 4: "h2", 5: "h2", 30: "h3"}
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(?!000)(\d{3})(?!\d)", re.IGNORECASE)
# what came is not worth keeping as an answer
_NO_HEAD = frozenset((FetchError.HEADERS_TOO_LARGE, FetchError.BAD_HTTP))
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_SWEEP_MOST_MS = 250
# a silent name may take longer than the request that asked for it
_LOOK_UPS_A_CONNECTION, _MAX_LOOK_UPS = 2, 512
_SWEEP_LEAST_MS = 10
_AWAY_MS = 1_000  # between two calls of `wait`: a page is read in a tenth of that


class CurlFetcher:
    """Starts requests and hands back exchanges, whatever became of them. Not thread-safe."""

    _resolve_prefix = "+"  # as long as libcurl would keep what it found itself

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """
        Raises:
            ConfigError: `ca_file` is no file, `connect_to` is malformed, or a header setting holds
            control characters.
        """
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._detours = parse_connect_to(settings.connect_to)
        self._fields = default_fields(settings)
        self._head_end = head_end(self._fields)
        self._authorities = authorities_file(settings.ca_file)
        shortest = min(settings.first_byte_timeout, settings.total_timeout, settings.slow_time)
        self._sweep_ms = min(max(shortest // 10, _SWEEP_LEAST_MS), _SWEEP_MOST_MS)
        self._next_sweep = 0
        self._left_ms = 0  # when `wait` returned last
        self._running: dict[Any, Transfer] = {}  # by easy handle, oldest first
        self._finished: list[Exchange] = []
        self._closed = False
        self._free: list[Transfer] = []
        self._controls: dict[str, str] = {}  # of FTP servers: where their control connections lead
        self._driver = Driver(settings.connections)
        self._names = Names(min(_LOOK_UPS_A_CONNECTION * settings.connections, _MAX_LOOK_UPS))
        self._driver.heed(self._names.wakes)
        self._looking_up: dict[Place, list[Transfer]] = {}

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        return len(self._running) + len(self._finished)

    def start(self, request: Request) -> None:
        """Begin an exchange; what becomes of it comes from `wait`, even if it cannot be begun. Hot
        path.
        """
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
        """Begin by the look-up of the host's name, or hand the request over to libcurl at once."""
        self._running[transfer.curl] = transfer
        if self._must_be_looked_up(place := transfer.host_and_port()):
            self._look_up(transfer, place)
        else:
            self._driver.add(transfer.curl)

    def _must_be_looked_up(self, place: Place) -> bool:
        """Whether the request waits for its host's name; libcurl does so itself where another host
        stands in.
        """
        host, port = place
        return (
            is_name(host)
            and not self._names.knows(place)
            and (not self._detours or find_detour(self._detours, host, port) is None)
        )

    def _look_up(self, transfer: Transfer, place: Place) -> None:
        """Begin a request by the look-up of its host's name."""
        transfer.wait_for_name(place)
        others = self._looking_up.get(place)
        if others is None:
            others = self._looking_up[place] = []
            self._names.ask(place)
        others.append(transfer)

    def _looked_up(self, resolution: Resolution) -> None:
        """Hand the requests of a name over to libcurl, with its addresses."""
        host, port = resolution.place
        for transfer in self._looking_up.pop(resolution.place, ()):
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
        """The look-up took so much of the time there is to connect; 0: of the next request's none
        is spent.
        """
        transfer.curl.setopt(
            pycurl.CONNECTTIMEOUT_MS, max(self._settings.connect_timeout - spent_ms, 1)
        )

    def _prepare(self, transfer: Transfer) -> None:
        """The last word on a request before it goes out, for fetchers that want more of libcurl."""

    def _start_file(self, request: Request, url: re.Match[str]) -> None:
        curl = new_handle(self._settings, self._authorities)
        transfer = FileTransfer(
            curl, self._guard, self._detours, self._settings, url, self._controls
        )
        transfer.begin(request, url, self._clock.now_ms())
        transfer.only_if_modified(request.headers)
        curl.setopt(pycurl.URL, request.url)
        self._set_out(transfer)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`. Returns at once when
        nothing is under way.
        """
        now = monotonic_ms()
        deadline = now + timeout_ms
        if now - self._left_ms > _AWAY_MS:
            for transfer in self._running.values():
                transfer.excuse(now - self._left_ms, now)
        while True:
            if now >= self._next_sweep:
                self._sweep(now)
            patient = self._running and not self._finished
            self._driver.step(min(deadline, self._next_sweep) if patient else now)
            if self._looking_up:
                for resolution in self._names.take():
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
        """Let time pass while nothing is under way, until `wake` is set at the latest."""
        wake.wait(timeout_ms / 1000)

    def stop(self) -> None:
        """End everything under way; the exchanges come from the next `wait`, marked
        `interrupted`.
        """
        for transfer in list(self._running.values()):
            self._end(transfer, FetchError.INTERRUPTED, "the fetch was stopped", "disconnect")

    def close(self) -> None:
        """Drop everything and give connections and handles back. The fetcher cannot be used
        afterwards. May be called twice.
        """
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
        self._names.close()

    def __enter__(self) -> CurlFetcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- limits
    # ------------------------------------------------------------

    def _sweep(self, now: int) -> None:
        """End what takes too long: in all, until its first byte, or by dripping."""
        self._next_sweep = now + self._sweep_ms
        limits = self._settings
        for transfer in list(self._running.values()):
            elapsed = now - transfer.started_ms - transfer.excused_ms
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
                    and now - transfer.sent_ms - transfer.excused_ms >= limits.first_byte_timeout
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
                text or f"{transfer.head_size()} bytes of header",
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
            self._end(
                transfer,
                self._error_of(transfer, code, text),
                text or f"libcurl error {code}",
                "disconnect",
            )

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
        """Give back an exchange that failed, with what came of it: a head only if it was whole."""
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
        place = transfer.looking_up
        if place is not None and (others := self._looking_up.get(place)):
            others.remove(transfer)  # it has waited long enough; the look-up goes on
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
                if place is None
                else 0,
                connect_ms=max(transfer.sent_ms - transfer.started_ms, 0),
                token=transfer.request.token,
            )
        )
        del self._running[curl]
        if place is None:
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
        curl = new_handle(settings, self._authorities)
        curl.setopt(pycurl.HTTPHEADER, self._fields)
        return Transfer(
            curl, self._guard, self._detours, settings.max_header, settings.max_body, self._head_end
        )
