"""Many exchanges at once over libcurl: HTTP/1.1 and HTTP/2, kept exactly as they came, within limits, never raising.

One epoll set drives libcurl (its socket interface), so neither the number of connections nor the highest file descriptor
matters as it would with select. libcurl watches the time to connect; all other limits are ours (`_sweep`), because it
cannot tell a late first byte from a slow body.

libcurl follows no redirects, keeps no cookies, and knows no proxy, no .netrc and no HSTS list: each hop is a request of
its own, judged by its caller. Connections are reused for the same scheme, host and port only; libcurl never lets another
host share one (no HTTP/2 coalescing), so an address that the guard allowed for one host serves no other.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pycurl

from lycosa.core.clock import Clock
from lycosa.core.config import FetchSettings
from lycosa.core.errors import ConfigError, FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch import failure
from lycosa.fetch.chunked import dechunk
from lycosa.fetch.connect_to import parse_connect_to
from lycosa.fetch.decode import parse_head
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.transfer import Transfer, split_url

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"

DNS_CACHE_S = 300
"""How long libcurl keeps an address; the guard sees every address at every connection, so age is no danger."""

_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where Linux systems keep the authorities they trust; the libcurl of the wheel was built for one of them only."""

_PROTOCOLS = {1: "http/1.0", 2: "http/1.1", 3: "h2", 4: "h2", 5: "h2", 30: "h3"}  # CURL_HTTP_VERSION_*
_HTTP = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
_BAD_FIELD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(?!000)(\d{3})(?!\d)", re.IGNORECASE)
_NO_HEAD = frozenset((FetchError.HEADERS_TOO_LARGE, FetchError.BAD_HTTP))  # what came is not worth keeping as an answer
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_SWEEP_MOST_MS = 250
_SWEEP_LEAST_MS = 10


class CurlFetcher:
    """Starts requests and hands back exchanges, whatever became of them. Not thread-safe."""

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """
        Raises:
            ConfigError: `ca_file` cannot be read, `connect_to` is malformed, or a header setting holds control characters.
        """
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._detours = parse_connect_to(settings.connect_to)
        self._fields = _default_fields(settings)
        self._head_end = _head_end(self._fields)
        self._ca_file = _ca_file(settings.ca_file)
        shortest = min(settings.first_byte_timeout, settings.total_timeout, settings.slow_time)
        self._sweep_ms = min(max(shortest // 10, _SWEEP_LEAST_MS), _SWEEP_MOST_MS)
        self._next_sweep = 0
        self._running: dict[Any, Transfer] = {}  # by easy handle, oldest first
        self._finished: list[Exchange] = []
        self._free: list[Transfer] = []
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}  # what epoll watches for each descriptor; 0: libcurl does not care now
        self._timer_due: int | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAXCONNECTS, settings.connections)

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        return len(self._running) + len(self._finished)

    def start(self, request: Request) -> None:
        """Begin an exchange; what becomes of it comes from `wait`, even if it cannot be begun. Hot path."""
        url = split_url(request.url)
        if url is None:
            known = request.url.startswith(("http://", "https://"))
            self._not_started(
                request, FetchError.INTERNAL if known else FetchError.UNSUPPORTED_SCHEME, "not a normalised http or https URL"
            )
            return
        transfer = self._free.pop() if self._free else self._new_transfer()
        curl = transfer.curl
        transfer.request = request
        transfer.url = url
        if request.headers:
            fields = [*self._fields, *_fields(request.headers)]
            curl.setopt(pycurl.HTTPHEADER, fields)
            transfer.fields = _head_end(fields)
            transfer.custom_headers = True
        elif transfer.custom_headers:
            curl.setopt(pycurl.HTTPHEADER, self._fields)
            transfer.fields = self._head_end
            transfer.custom_headers = False
        transfer.started_at = self._clock.now_ms()
        transfer.started_ms = _monotonic_ms()
        curl.setopt(pycurl.URL, request.url)
        self._running[curl] = transfer
        self._multi.add_handle(curl)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`. Returns at once when nothing is under way."""
        deadline = _monotonic_ms() + timeout_ms
        while True:
            now = _monotonic_ms()
            if self._timer_due is not None and now >= self._timer_due:
                self._timer_due = None
                self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            if now >= self._next_sweep:
                self._sweep(now)
            self._collect()
            if self._finished or not self._running or now > deadline:
                break
            until = min(deadline, self._next_sweep, deadline if self._timer_due is None else self._timer_due)
            self._drive(max(0, until - now) / 1000)
            self._collect()
            if self._finished or now >= deadline:
                break
        finished, self._finished = self._finished, []
        return finished

    def stop(self) -> None:
        """End everything under way; the exchanges come from the next `wait`, marked `interrupted`."""
        for transfer in list(self._running.values()):
            self._end(transfer, FetchError.INTERRUPTED, "the fetch was stopped", "disconnect")

    def close(self) -> None:
        """Drop everything and give connections and handles back. The fetcher cannot be used afterwards."""
        for transfer in self._running.values():
            self._multi.remove_handle(transfer.curl)
            transfer.curl.close()
        for transfer in self._free:
            transfer.curl.close()
        self._running.clear()
        self._free.clear()
        self._finished.clear()
        self._multi.close()
        self._epoll.close()

    def __enter__(self) -> CurlFetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- driving libcurl ----------------------------------------------------------------------------------------------

    def _drive(self, timeout_s: float) -> None:
        for descriptor, events in self._epoll.poll(timeout_s):
            if not self._watched.get(descriptor):
                self._forget(descriptor)
                continue
            action = pycurl.CSELECT_IN if events & select.EPOLLIN else 0
            if events & select.EPOLLOUT:
                action |= pycurl.CSELECT_OUT
            if events & (select.EPOLLERR | select.EPOLLHUP):
                action |= pycurl.CSELECT_ERR
            self._multi.socket_action(descriptor, action)

    def _watch(self, what: int, descriptor: int, multi: object, data: object) -> None:
        """libcurl says which events of a socket it waits for (callback).

        "None" leaves epoll as it is: mostly the connection is used again at once. If an event comes meanwhile, or the
        number names another socket by then, it is put right there.
        """
        if what == pycurl.POLL_REMOVE:
            self._watched[descriptor] = 0
            return
        mask = (select.EPOLLIN if what & pycurl.POLL_IN else 0) | (select.EPOLLOUT if what & pycurl.POLL_OUT else 0)
        self._watched[descriptor] = mask
        try:
            self._epoll.modify(descriptor, mask)
        except FileNotFoundError:
            self._epoll.register(descriptor, mask)

    def _forget(self, descriptor: int) -> None:
        self._watched.pop(descriptor, None)
        with suppress(OSError):  # closed meanwhile: the kernel has forgotten it already
            self._epoll.unregister(descriptor)

    def _set_timer(self, timeout_ms: int) -> None:
        """libcurl says when it wants to be called (callback); -1: not."""
        self._timer_due = None if timeout_ms < 0 else _monotonic_ms() + timeout_ms

    def _collect(self) -> None:
        while True:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._succeeded(self._running[curl])
            for curl, code, text in failed:
                self._failed(self._running[curl], code, text)
            if not left:
                return

    def _sweep(self, now: int) -> None:
        """End what takes too long: in all, until its first byte, or by dripping."""
        self._next_sweep = now + self._sweep_ms
        limits = self._settings
        for transfer in list(self._running.values()):
            elapsed = now - transfer.started_ms
            size = transfer.size + transfer.head_size() if transfer.head else 0
            if elapsed >= limits.total_timeout:
                self._end(transfer, FetchError.TIMEOUT, f"not finished after {elapsed} ms", "time")
            elif size == 0 and elapsed >= limits.first_byte_timeout:
                sent_us = transfer.curl.getinfo(pycurl.PRETRANSFER_TIME_T)  # 0: still connecting, or waiting for a connection
                if sent_us > 0 and elapsed - sent_us // 1000 >= limits.first_byte_timeout:
                    self._end(transfer, FetchError.FIRST_BYTE_TIMEOUT, f"no answer after {elapsed} ms", "")
            elif size and transfer.mark_size == 0:
                transfer.mark_at, transfer.mark_size = now, size
            elif size and now - transfer.mark_at >= limits.slow_time:
                speed = (size - transfer.mark_size) * 1000 // (now - transfer.mark_at)
                if speed < limits.slow_speed:
                    self._end(transfer, FetchError.TOO_SLOW, f"{speed} bytes a second", "time")
                else:
                    transfer.mark_at, transfer.mark_size = now, size

    # -- from transfer to exchange ------------------------------------------------------------------------------------

    def _succeeded(self, transfer: Transfer) -> None:
        head = transfer.final_head()
        if len(head) > self._settings.max_header:
            self._end(transfer, FetchError.HEADERS_TOO_LARGE, f"{len(head)} bytes of header", "")
        elif _STATUS.match(head):
            if transfer.body and not transfer.body[-1].endswith(_LAST_CHUNK) and b"chunked" in head.lower():
                _cut_after_chunks(transfer, head)
            self._finish(transfer, head, "", "", "")
        elif head or not transfer.head:
            self._end(transfer, FetchError.BAD_HTTP, "no status line that means anything", "")
        else:
            self._end(transfer, FetchError.INCOMPLETE, "the connection was closed within the headers", "")

    def _failed(self, transfer: Transfer, code: int, text: str) -> None:
        if transfer.head_too_large or transfer.head_size() > self._settings.max_header:
            self._end(transfer, FetchError.HEADERS_TOO_LARGE, text or f"{transfer.head_size()} bytes of header", "")
        elif transfer.cut:
            self._finish(transfer, transfer.final_head(), "", "", "length")
        else:
            self._end(transfer, self._why(transfer, code, text), text or f"libcurl error {code}", "disconnect")

    def _why(self, transfer: Transfer, code: int, text: str) -> FetchError:
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
            if _broken_chunk(transfer):
                return FetchError.INCOMPLETE
        return failure.curl_error(code)

    def _end(self, transfer: Transfer, error: FetchError, text: str, truncated: str) -> None:
        """Give back an exchange that failed, with what came of it: a head only if it was whole."""
        head = b"" if error in _NO_HEAD else transfer.final_head()
        if not _STATUS.match(head):
            head = b""
        self._finish(transfer, head, error.value, text, truncated if head else "")

    def _finish(self, transfer: Transfer, head: bytes, error: str, text: str, truncated: str) -> None:
        curl = transfer.curl
        match = _STATUS.match(head)
        body = transfer.body
        sent = not error or curl.getinfo(pycurl.REQUEST_SIZE) > 0
        self._finished.append(
            Exchange(
                url=transfer.request.url,
                kind=transfer.request.kind,
                started_at=transfer.started_at,
                duration_ms=_monotonic_ms() - transfer.started_ms,
                ip=curl.getinfo(pycurl.PRIMARY_IP) if sent else transfer.refused,
                protocol=_PROTOCOLS.get(curl.getinfo(pycurl.INFO_HTTP_VERSION), "") if sent else "",
                request_head=transfer.request_head() if sent else b"",
                response_head=head,
                body=(body[0] if len(body) == 1 else b"".join(body)) if head else b"",
                status=int(match[1]) if match else 0,
                error=error,
                error_text=text,
                truncated=truncated,
                first_byte_ms=curl.getinfo(pycurl.STARTTRANSFER_TIME_T) // 1000,
                token=transfer.request.token,
            )
        )
        del self._running[curl]
        self._multi.remove_handle(curl)
        transfer.reset()
        self._free.append(transfer)

    def _not_started(self, request: Request, error: FetchError, text: str) -> None:
        at = self._clock.now_ms()
        self._finished.append(Exchange(request.url, request.kind, at, 0, error=error.value, error_text=text, token=request.token))

    def _new_transfer(self) -> Transfer:
        """An easy handle with everything that never changes set once."""
        settings = self._settings
        transfer = Transfer(self._guard, self._detours, settings.max_header, settings.max_body)
        transfer.fields = self._head_end
        curl = transfer.curl
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, _HTTP)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
        curl.setopt(pycurl.PROXY, "")  # an empty proxy keeps libcurl from the environment's
        curl.setopt(pycurl.NOPROXY, "*")
        curl.setopt(pycurl.HTTP09_ALLOWED, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.HTTP_CONTENT_DECODING, 0)
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.PIPEWAIT, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, settings.connect_timeout)
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, DNS_CACHE_S)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1 if settings.verify_tls else 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2 if settings.verify_tls else 0)
        if self._ca_file:
            curl.setopt(pycurl.CAINFO, self._ca_file)
        if settings.connect_to:
            curl.setopt(pycurl.CONNECT_TO, list(settings.connect_to))
        curl.setopt(pycurl.HTTPHEADER, self._fields)
        curl.setopt(pycurl.HEADERFUNCTION, transfer.head.append)
        curl.setopt(pycurl.WRITEFUNCTION, transfer.write)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, transfer.open_socket)
        return transfer


def _cut_after_chunks(transfer: Transfer, head: bytes) -> None:
    """Drop what came after the last chunk: libcurl, told not to decode, hands on all that it read."""
    if "chunked" in parse_head(head).tokens("transfer-encoding"):
        body = b"".join(transfer.body)
        transfer.body[:] = [body[: dechunk(body).end]]


def _monotonic_ms() -> int:
    """Waiting on sockets is real time, whatever clock dates the exchanges."""
    return time.monotonic_ns() // 1_000_000


def _broken_chunk(transfer: Transfer) -> bool:
    if not transfer.body or "chunked" not in parse_head(transfer.final_head()).tokens("transfer-encoding"):
        return False
    return dechunk(b"".join(transfer.body)).broken


def _default_fields(settings: FetchSettings) -> list[bytes]:
    agent = f"{settings.user_agent} (+{settings.contact})" if settings.contact else settings.user_agent
    fields = [("User-Agent", agent), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING)]
    if settings.accept_language:
        fields.append(("Accept-Language", settings.accept_language))
    lines = _fields(fields)
    if len(lines) != len(fields):
        raise ConfigError("fetch.user_agent, fetch.contact and fetch.accept_language may not hold line ends or control characters")
    return lines


def _fields(headers: Sequence[tuple[str, str]]) -> list[bytes]:
    """Header lines; values that a server gave us (an ETag) may hold anything, so what cannot be a field is left out."""
    return [
        f"{name}: {value.strip()}".encode("utf-8", "replace")
        for name, value in headers
        if value.strip() and not _BAD_FIELD.search(name + value)
    ]


def _head_end(fields: Sequence[bytes]) -> bytes:
    return b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def _ca_file(configured: str) -> str:
    """The file of authorities to trust; "" leaves it to libcurl."""
    if configured:
        if not Path(configured).is_file():
            raise ConfigError(f"fetch.ca_file: {configured} is not a file")
        return configured
    return next((path for path in _CERTIFICATE_FILES if Path(path).is_file()), "")
