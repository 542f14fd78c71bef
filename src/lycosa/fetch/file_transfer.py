"""ftp:// and gopher:// over the same libcurl: a file, a directory listing or a menu becomes an answer like any other.

These protocols have no head, so one is made up that says what is known: `200` and a media type, or what a refusal of the server comes
to (`404`, `401`, `503`). The archive stores the body as a `resource` record, as WARC/1.1 section 6.4 has it for FTP.

What a page could abuse is closed: a line end in a URL (it would be a command of its own to whatever listens there), ports that belong to
other services, and data connections to another address than the one that was allowed for the control connection.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from typing import Any

import pycurl

from lycosa.core.config import FetchSettings
from lycosa.fetch.connect_to import Detour
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.transfer import Transfer

FTP_LISTING = "text/ftp-dir-listing"
GOPHER_MENU = "application/gopher-menu"

_URL = re.compile(r"(ftp|gopher)://([^\s/?#@\\]+)(/[!-~]*|)")
_FORBIDDEN = re.compile(r"%0[0ad]", re.IGNORECASE)
_PORT = re.compile(r":(\d+)$")
_DEFAULT_PORTS = {"ftp": 21, "gopher": 70}
_MOST_CONTROLS = 1_000
_LEAST_PORT = 1024  # below it only the protocol's own: 25, 6379's neighbours and the like are not ours to talk to
_GOPHER_TYPES = {"": GOPHER_MENU, "1": GOPHER_MENU, "7": GOPHER_MENU, "0": "text/plain", "h": "text/html", "g": "image/gif"}
_TYPES = mimetypes.MimeTypes()

# libcurl's results that are an answer of the server (https://curl.se/libcurl/c/libcurl-errors.html), as the status that they come to.
_ANSWERS = {9: 404, 19: 404, 78: 404, 67: 401}
_FTP_REPLY = re.compile(rb"([45]\d\d) ")
_REPLIES = {b"421": 503, b"450": 503, b"425": 503, b"426": 503, b"530": 401, b"550": 404}
_REASONS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


def split_file_url(url: str) -> re.Match[str] | None:
    """(scheme, authority, path) of a normalised ftp or gopher URL that may be asked for; None for anything else."""
    match = _URL.fullmatch(url)
    if match is None or _FORBIDDEN.search(match[3]):
        return None
    port = _PORT.search(match[2])
    number = int(port[1]) if port and len(port[1]) < 6 else _DEFAULT_PORTS[match[1]] if port is None else 0
    return match if number == _DEFAULT_PORTS[match[1]] or _LEAST_PORT <= number < 65_536 else None


class FileTransfer(Transfer):
    """One file, listing or menu under way. Made anew for each: unlike pages they seldom follow one another."""

    __slots__ = ("_controls", "_dialled_control")

    def __init__(
        self,
        curl: Any,
        guard: AddressGuard,
        detours: Sequence[Detour],
        settings: FetchSettings,
        url: re.Match[str],
        controls: dict[str, str],
    ) -> None:
        """`controls`: authority -> the address of its control connection, kept by the fetcher over its transfers."""
        super().__init__(curl, guard, detours, settings.max_header, settings.max_body, b"")
        self.url = url
        self._controls = controls
        self._dialled_control = False
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_FTP | pycurl.PROTO_GOPHER)
        curl.setopt(pycurl.HTTPHEADER, [])
        if url[1] == "ftp":
            curl.setopt(pycurl.USERNAME, "anonymous")
            curl.setopt(pycurl.PASSWORD, settings.contact or "lycosa@")  # as RFC 1635 wants: whom to ask
            curl.setopt(pycurl.FTP_SKIP_PASV_IP, 1)  # the data comes from where the control connection leads
            curl.setopt(pycurl.FTP_FILEMETHOD, pycurl.FTPMETHOD_SINGLECWD)
            curl.setopt(pycurl.FTP_RESPONSE_TIMEOUT, max(settings.first_byte_timeout // 1000, 1))

    @property
    def protocol(self) -> str:
        assert self.url is not None
        return self.url[1]

    def permits(self, ip: str, port: int) -> bool:
        """The control connection as every other; those for data to the same address alone."""
        assert self.url is not None
        control = self._controls.get(self.url[2], "")
        if self._dialled_control:
            return ip == control
        if ip != control and not super().permits(ip, port):
            return False
        # Known from before: libcurl goes on with that connection, and this is for data; or it was closed, and dials it anew.
        self._dialled_control = ip != control
        if len(self._controls) >= _MOST_CONTROLS:
            self._controls.clear()
        self._controls[self.url[2]] = ip
        return True

    def host_and_port(self) -> tuple[str, int]:
        assert self.url is not None
        authority = self.url[2]
        match = _PORT.search(authority)
        return (authority, _DEFAULT_PORTS[self.url[1]]) if match is None else (authority[: match.start()], int(match[1]))

    def request_head(self) -> bytes:
        return b""

    def final_head(self) -> bytes:
        """The head of an answer that is under way, or whole."""
        return _head(200, self._media_type())

    def refusal(self, code: int) -> bytes | None:
        """The head that a libcurl result stands for, if the server said so; None: it is a failure."""
        reply = _FTP_REPLY.match(self.head[-1]) if self.head else None
        status = _ANSWERS.get(code)
        if reply is not None and (status is not None or code in _REPLY_CODES):
            status = _REPLIES.get(reply[1], status)
        return None if status is None else _head(status, "")

    def _media_type(self) -> str:
        assert self.url is not None
        path = self.url[3]
        if self.url[1] == "ftp":
            return FTP_LISTING if path in ("", "/") or path.endswith("/") else _TYPES.guess_type(path)[0] or "application/octet-stream"
        kind = path[1:2]
        return _GOPHER_TYPES.get(kind) or _TYPES.guess_type(path)[0] or "application/octet-stream"


_REPLY_CODES = frozenset({8, 12, 13, 14, 17, 30})  # weird replies and refused commands: what the server said last tells more


def _head(status: int, media_type: str) -> bytes:
    fields = f"Content-Type: {media_type}\r\n" if media_type else ""
    return f"HTTP/1.1 {status} {_REASONS[status]}\r\n{fields}\r\n".encode()
