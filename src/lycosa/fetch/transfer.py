"""One transfer on one easy handle: collects head and body within the limits.

Handles are reused from a free list, so the callbacks are bound once. libcurl calls `head.append` (a
C function) for every header line and `write` for every piece of body.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pycurl

from lycosa.core.records import Request
from lycosa.fetch.connect_to import ConnectOverride, find_override
from lycosa.fetch.driver import monotonic_ms
from lycosa.fetch.guard import AddressGuard
from lycosa.http.chunked import dechunk
from lycosa.http.decode import parse_head
from lycosa.url.schemes import DEFAULT_PORTS

_URL = re.compile(r"(https?)://([^\s/?#@\\]+)([/?][!\"$-~]*|)")
"""A normalised URL: no userinfo, no fragment, printable ASCII."""

PORT = re.compile(r":(\d+)$")
_NO_REQUEST = Request("")
_NO_URL = next(_URL.finditer("http://unset"))
_NO_HEAD = 0, b""
_SMALL = 256  # bytes; a piece of HTTP/2 may have two bytes, as an object that takes fifty
_MAX_SMALL = 1_024  # maximum number of small pieces before they are joined


class _BorrowedSocket(socket.socket):
    """A socket that closes without a warning when it is dropped.

    pycurl duplicates its descriptor.
    """

    def __del__(self) -> None:
        self.close()


class Transfer:
    """State of one request in progress."""

    __slots__ = (
        "body",
        "curl",
        "custom_headers",
        "cut",
        "dialled",
        "excluded_ms",
        "fields",
        "final",
        "guard",
        "has_addresses",
        "head",
        "head_too_large",
        "looked_up_ms",
        "looking_up",
        "mark_at",
        "mark_size",
        "max_body",
        "max_header",
        "overrides",
        "posted",
        "refused",
        "repeated",
        "request",
        "sent_ms",
        "size",
        "small",
        "started_at",
        "started_ms",
        "unacknowledged_ms",
        "unwanted",
        "url",
    )

    def __init__(
        self,
        curl: Any,
        guard: AddressGuard,
        overrides: Sequence[ConnectOverride],
        max_header: int,
        max_body: int,
        fields: bytes,
        unacknowledged_ms: int = 0,
    ) -> None:
        """`fields`: bytes of the sent header fields, with the empty line.

        `unacknowledged_ms`: see `CurlFetcher`.
        """
        self.curl = curl
        self.guard = guard
        self.overrides = overrides
        self.max_header = max_header
        self.max_body = max_body
        self.head: list[bytes] = []
        self.body: list[bytes] = []
        # cached final head, and the number of head lines for which it is valid
        self.final: tuple[int, bytes] = _NO_HEAD
        self.url = _NO_URL
        self.fields = fields
        self.unacknowledged_ms = unacknowledged_ms
        self.custom_headers = False
        self.posted = False  # whether the handle sends a form
        self.has_addresses = False  # whether libcurl has addresses and a limit for this request
        self.looking_up: tuple[str, int] | None = None  # endpoint that is being resolved
        self.reset()
        curl.setopt(pycurl.HEADERFUNCTION, self.head.append)
        curl.setopt(pycurl.WRITEFUNCTION, self.write)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self.open_socket)
        curl.setopt(pycurl.PREREQFUNCTION, self.may_send)

    def begin(self, request: Request, url: re.Match[str], at_ms: int) -> None:
        """Set the request. `at_ms`: the current time since 1970."""
        self.request = request
        self.url = url
        self.started_at = at_ms
        self.started_ms = monotonic_ms()
        self.posted = request.form is not None

    def set_fields(self, fields: list[bytes], recorded: bytes, *, custom: bool) -> None:
        """Send these header fields. `recorded`: their archived form."""
        self.curl.setopt(pycurl.HTTPHEADER, fields)
        self.fields = recorded
        self.custom_headers = custom

    def wait_for_name(self, endpoint: tuple[str, int]) -> None:
        """Record that the host name is being resolved."""
        self.looking_up = endpoint

    def use_addresses(self, entry: str) -> int:
        """Pass the host's addresses to libcurl; return the resolution time (ms).

        `entry`: in the form of libcurl's option RESOLVE.
        """
        self.looking_up = None
        self.looked_up_ms = max(monotonic_ms() - self.started_ms, 1)
        self.curl.setopt(pycurl.RESOLVE, [entry])
        self.has_addresses = True
        return self.looked_up_ms

    def forget_addresses(self) -> None:
        """Undo `use_addresses` for the next request."""
        self.curl.unsetopt(pycurl.RESOLVE)
        self.has_addresses = False

    def reset(self) -> None:
        """Prepare for the next request.

        `head` remains the same list: its `append` is libcurl's callback.
        """
        # an idle handle must not keep the token of its last request alive
        self.request = _NO_REQUEST
        self.head.clear()
        self.final = _NO_HEAD
        self.body.clear()
        self.size = 0
        self.small = 0  # number of pieces since the last join
        self.cut = False
        self.unwanted = False
        self.head_too_large = False
        self.refused = ""
        self.dialled = False
        self.looking_up = None
        self.looked_up_ms = 0  # duration of name resolution; 0: there was none
        self.sent_ms = 0
        self.repeated = False
        self.started_at = 0
        self.started_ms = 0
        self.excluded_ms = 0  # time without calls of `wait`, which limits do not count
        self.mark_at = 0
        self.mark_size = 0

    # -- callbacks of libcurl
    # ------------------------------------------------------------

    def exclude_time(self, away_ms: int, now: int) -> None:
        """Exclude `away_ms` from the time limits.

        In that time `wait` was not called, for example during a commit. Recorded times do not
        change.
        """
        self.excluded_ms += min(away_ms, now - self.started_ms)
        self.mark_at = min(self.mark_at + away_ms, now)

    def write(self, data: bytes) -> int | None:
        """Receive a part of the body. Hot path.

        Returning 0 ends the transfer; None accepts all bytes.
        """
        if not self.body and self.head_size() > self.max_header:
            self.head_too_large = True
            return 0
        if (
            not self.body
            and self.request.unwanted is not None
            and self._is_unwanted(self.request.unwanted)
        ):
            self.unwanted = True
            return 0
        length = len(data)
        size = self.size + length
        if size > self.max_body:
            self.body.append(data[: self.max_body - self.size])
            self.size = self.max_body
            self.cut = True
            return 0
        self.size = size
        self.body.append(data)
        if length < _SMALL:
            self.small += 1
            if self.small == _MAX_SMALL:
                self.small = 0
                self.body[-_MAX_SMALL:] = [b"".join(self.body[-_MAX_SMALL:])]
        return None

    def may_send(self, *_ends: object) -> int:
        """Record that the request is about to be sent, once. Hot path.

        If a reused connection ends before the first byte, libcurl repeats the request on a new one
        (allowed by RFC 9112 section 9.3.1). The server may have received the first request, and
        would get two without a pause.

        The server's time starts here. libcurl measures its pretransfer time after sending, which on
        a busy machine is later than the arrival at the server.
        """
        if self.sent_ms:
            self.repeated = True
            return int(pycurl.PREREQFUNC_ABORT)
        self.sent_ms = monotonic_ms()
        return _SEND

    def open_socket(self, purpose: int, address: Any) -> Any:
        """Check an address before libcurl connects to it. Return a socket, or none."""
        ip, port = address.addr[0], address.addr[1]
        ip = ip.decode() if isinstance(ip, bytes) else ip
        if not self.permits(ip, port):
            self.refused = ip
            return pycurl.SOCKET_BAD
        self.dialled = True
        connection = _BorrowedSocket(address.family, address.socktype, address.protocol)
        if self.unacknowledged_ms and (option := getattr(socket, "TCP_USER_TIMEOUT", 0)):
            connection.setsockopt(socket.IPPROTO_TCP, option, self.unacknowledged_ms)
        return connection

    def _is_unwanted(self, unwanted: Callable[[str], bool]) -> bool:
        """Return whether to end the transfer because of its media type.

        Small bodies are received: ending the transfer would close the connection.
        """
        headers = parse_head(self.final_head())
        length = headers.get("content-length") or ""
        if not 200 <= headers.status < 300 or (length.isdigit() and int(length) <= _SMALL_BYTES):
            return False
        return unwanted(headers.get("content-type") or "")

    # -- questions
    # ------------------------------------------------------------

    def permits(self, ip: str, port: int) -> bool:
        host, port_of_url = self.host_and_port()
        override = find_override(self.overrides, host, port_of_url)
        if override is None:
            return self.guard.permits(ip, port, host)
        return override.names_a_host or self.guard.permits(ip, port_of_url, host)

    def host_and_port(self) -> tuple[str, int]:
        """Return the host (IPv6 in brackets) and port of the URL."""
        authority = self.url[2]
        match = PORT.search(authority)
        if match is None:
            return authority, DEFAULT_PORTS[self.url[1]]
        return authority[: match.start()], int(match[1])

    def head_size(self) -> int:
        return sum(map(len, self.head))

    def target(self) -> str:
        """Return path and query exactly as in the URL.

        They are passed to libcurl separately, because it would rewrite percent-escapes.
        """
        path = self.url[3]
        return path if path[:1] == "/" else "/" + path

    def request_head(self) -> bytes:
        """Return request line and header fields in HTTP/1.1 syntax.

        They have no secrets: neither a form nor its length is archived.
        """
        return (
            f"{'POST' if self.posted else 'GET'} {self.target()} HTTP/1.1\r\nHost: "
            f"{self.url[2]}\r\n".encode("ascii")
            + self.fields
        )

    def final_head(self) -> bytes:
        """Return the head without interim responses and trailers, or b"".

        Returns b"" if it is incomplete. Interim responses: RFC 9110 section 15.2. The result is
        cached, because it is read at the start and the end of the body.
        """
        if self.final[0] != len(self.head):
            self.final = len(self.head), self._final_head()
        return self.final[1]

    def cut_after_chunks(self, head: bytes) -> None:
        """Remove bytes after the last chunk.

        libcurl returns them if it does not decode.
        """
        if "chunked" in parse_head(head).tokens("transfer-encoding"):
            body = b"".join(self.body)
            self.body[:] = [body[: dechunk(body).end]]

    def has_broken_chunk(self) -> bool:
        """Return whether the chunk framing of the body is invalid."""
        chunked = "chunked" in parse_head(self.final_head()).tokens("transfer-encoding")
        return bool(self.body) and chunked and dechunk(b"".join(self.body)).broken

    def _final_head(self) -> bytes:
        lines = self.head
        ends = [index for index, line in enumerate(lines) if line in _EMPTY_LINES]
        if len(ends) == 1 and ends[0] == len(lines) - 1 and not _INTERIM.match(lines[0]):
            return b"".join(lines)
        start = 0
        for end in ends:
            if lines[start][:5].upper() == b"HTTP/" and not _INTERIM.match(lines[start]):
                return b"".join(lines[start : end + 1])
            start = end + 1
        return b""


_SEND = int(pycurl.PREREQFUNC_OK)
_SMALL_BYTES = 64 * 1024
_EMPTY_LINES = frozenset((b"\r\n", b"\n"))
_INTERIM = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+1(?!01)\d\d(?!\d)", re.IGNORECASE)


def split_url(url: str) -> re.Match[str] | None:
    """Return (scheme, authority, path and query) of a normalised http(s) URL.

    Returns None for any other text.
    """
    return _URL.fullmatch(url)
