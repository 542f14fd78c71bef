"""FTP and gopher with libcurl: files, directory listings and menus become HTTP-like responses.

These protocols have no head, so one is generated: `200` with a media type, or the status that
corresponds to an error of the server (`404`, `401`, `503`). The archive stores the body as a
`resource` record, as WARC/1.1 recommends for FTP.

The modification time of a file (MDTM, RFC 3659 section 3) becomes Last-Modified, and a file that is
not newer than If-Modified-Since is not sent (304). A name without a slash that is a folder
redirects to the name with one (301).

The following are refused: line ends in a URL, which would be commands to the server; ports of other
services; data connections to another address than that of the control connection.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable, Sequence
from email.utils import formatdate, parsedate
from typing import Any

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.patterns import lazy_pattern
from lycosa.fetch.connect_to import ConnectOverride
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.transfer import PORT, Transfer
from lycosa.url.file_types import FTP_LISTING, GOPHER_MENU
from lycosa.url.schemes import DEFAULT_PORTS

_URL = lazy_pattern(r"(ftp|gopher)://([^\s/?#@\\]+)(/[!-~]*|)")
_FORBIDDEN = lazy_pattern(r"%0[0ad]", re.IGNORECASE)
_MAX_CONTROLS = 1_000
_MIN_FTP_PORT = 1024  # below it only 21
_GOPHER_TYPES = {
    "": GOPHER_MENU,
    "1": GOPHER_MENU,
    "7": GOPHER_MENU,
    "0": "text/plain",
    "h": "text/html",
    "g": "image/gif",
}
_GOPHER_ERROR = lazy_pattern(rb"3[^\t\r\n]*\t[^\t\r\n]*\t[^\t\r\n]*\t\d+[^\r\n]*\r?\n(?:\.\r?\n?)?")
"""A response with one item of type 3: not found (RFC 1436 section 3.8)."""

_ERROR_LENGTH = 2_000

# libcurl's result codes for responses of the server -> status
# (https://curl.se/libcurl/c/libcurl-errors.html)
_ANSWERS = {9: 404, 19: 404, 78: 404, 67: 401}
_FTP_REPLY = lazy_pattern(rb"([45]\d\d) ")
_FOLDER_REPLY = lazy_pattern(rb"director|folder|not a (?:plain|regular) file", re.IGNORECASE)
_REPLIES = {b"421": 503, b"450": 503, b"425": 503, b"426": 503, b"530": 401, b"550": 404}
_REASONS = {
    200: "OK",
    301: "Moved Permanently",
    304: "Not Modified",
    401: "Unauthorized",
    404: "Not Found",
    503: "Service Unavailable",
}


def split_file_url(url: str, guard: AddressGuard) -> re.Match[str] | None:
    """Return (scheme, authority, path) of an allowed ftp or gopher URL.

    Returns None for other URLs. `url` is normalised. A gopher request is a line of the link's own
    text, which any service would read (SMTP on 25, Redis on 6379): ports other than 70 are
    requested only for hosts and ports that the operator named.
    """
    match = _URL.fullmatch(url)
    if match is None or _FORBIDDEN.search(match[3]):
        return None
    scheme, authority = match[1], match[2]
    port = PORT.search(authority)
    if port is None:
        return match
    number = int(port[1]) if len(port[1]) < 6 else 0
    if not 0 < number < 65_536:
        return None
    if number == DEFAULT_PORTS[scheme] or (scheme == "ftp" and number >= _MIN_FTP_PORT):
        return match
    return match if scheme == "gopher" and guard.names(authority[: port.start()], number) else None


class FileTransfer(Transfer):
    """State of one request for a file, listing or menu.

    It is not reused: unlike pages, such requests rarely follow one another.
    """

    __slots__ = ("_control_size", "_controls", "_dialled_control")

    def __init__(
        self,
        curl: Any,
        guard: AddressGuard,
        overrides: Sequence[ConnectOverride],
        settings: FetchSettings,
        url: re.Match[str],
        controls: dict[str, str],
    ) -> None:
        """`controls`: authority -> address of its control connection.

        All transfers of a fetcher share it.
        """
        super().__init__(curl, guard, overrides, settings.max_header, settings.max_body, b"")
        self._controls = controls
        self._dialled_control = False
        self._control_size = 0
        curl.setopt(pycurl.HEADERFUNCTION, self._read_reply)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_FTP | pycurl.PROTO_GOPHER)
        curl.setopt(pycurl.HTTPHEADER, [])
        if url[1] == "ftp":
            curl.setopt(pycurl.USERNAME, "anonymous")
            # a contact, as in RFC 1635
            curl.setopt(pycurl.PASSWORD, settings.contact or "lycosa@")
            # data connections use the address of the control connection
            curl.setopt(pycurl.FTP_SKIP_PASV_IP, 1)
            curl.setopt(pycurl.FTP_FILEMETHOD, pycurl.FTPMETHOD_SINGLECWD)
            curl.setopt(pycurl.FTP_RESPONSE_TIMEOUT, max(settings.first_byte_timeout // 1000, 1))
            curl.setopt(pycurl.OPT_FILETIME, 1)

    def only_if_modified(self, fields: Sequence[tuple[str, str]]) -> None:
        """Apply the If-Modified-Since field of a request."""
        since = next(
            (parsedate(value) for name, value in fields if name.lower() == "if-modified-since"),
            None,
        )
        if since is not None and self.protocol == "ftp" and not self._is_folder():
            self.curl.setopt(pycurl.TIMECONDITION, pycurl.TIMECONDITION_IFMODSINCE)
            self.curl.setopt(pycurl.TIMEVALUE, timegm(since))

    def _read_reply(self, line: bytes) -> int | None:
        """Read a line of the control connection, up to the limit of the head.

        libcurl does not limit its length.
        """
        self.head.append(line)
        self._control_size += len(line)
        if self._control_size <= self.max_header:
            return None
        self.head_too_large = True
        return 0

    @property
    def protocol(self) -> str:
        return self.url[1]

    def permits(self, ip: str, port: int) -> bool:
        """Return whether to connect: by the guard, or for data to its address."""
        control = self._controls.get(self.url[2], "")
        if self._dialled_control:
            return ip == control
        if ip != control and not super().permits(ip, port):
            return False
        # A known address: this is a data connection for a reused control connection, or that was
        # closed and is opened again.
        self._dialled_control = ip != control
        if len(self._controls) >= _MAX_CONTROLS:
            self._controls.clear()
        self._controls[self.url[2]] = ip
        return True

    def request_head(self) -> bytes:
        return b""

    def final_head(self) -> bytes:
        """Return the head of a response, complete or in progress."""
        if self.protocol == "gopher":
            failed = self.size <= _ERROR_LENGTH and _GOPHER_ERROR.fullmatch(b"".join(self.body))
            return _head(404 if failed else 200, Content_Type=self._media_type())
        if self.curl.getinfo(pycurl.CONDITION_UNMET):
            return _head(304)
        changed_at = self.curl.getinfo(pycurl.INFO_FILETIME)
        return _head(
            200,
            Content_Type=self._media_type(),
            Last_Modified=formatdate(changed_at, usegmt=True) if changed_at > 0 else "",
        )

    def refusal(self, code: int) -> bytes | None:
        """Return the head for a refusal by the server; None: the transfer failed."""
        reply = _FTP_REPLY.match(self.head[-1]) if self.head else None
        status = _ANSWERS.get(code)
        if reply is not None and (
            status is not None or code in _REPLY_CODES or (code == 28 and reply[1] == b"421")
        ):
            status = _REPLIES.get(reply[1], status)
        if status == 404 and self._may_be_folder():
            return _head(301, Location=f"./{self.url[3].rpartition('/')[2]}/")
        return None if status is None else _head(status)

    def _is_unwanted(self, unwanted: Callable[[str], bool]) -> bool:
        """Return whether to end the transfer because of the file's name.

        The length is not available in this callback of libcurl.
        """
        return unwanted(self._media_type())

    def _is_folder(self) -> bool:
        return self.url[3] in ("", "/") or self.url[3].endswith("/")

    def _may_be_folder(self) -> bool:
        """Return whether a missing file may be a folder, by the reply or by its name."""
        if self.protocol != "ftp" or self._is_folder():
            return False
        return (
            any(_FOLDER_REPLY.search(line) for line in self.head[-3:])
            or "." not in self.url[3].rpartition("/")[2]
        )

    def _media_type(self) -> str:
        path = self.url[3]
        if self.url[1] == "ftp":
            return FTP_LISTING if self._is_folder() else _type_of(path)
        kind = path[1:2]
        return _GOPHER_TYPES.get(kind) or _type_of(path)


# invalid replies and refused commands: the last reply decides
_REPLY_CODES = frozenset({8, 12, 13, 14, 17, 30})
"""After 421, at any command, libcurl returns 28 (timeout) without waiting."""


def _type_of(path: str) -> str:
    """Return the media type of a file name; compressed files are detected by their bytes."""
    import mimetypes

    kind, coding = mimetypes.MimeTypes().guess_type(path)
    return "application/octet-stream" if kind is None or coding else kind


def _head(status: int, **fields: str) -> bytes:
    lines = "".join(
        f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items() if value
    )
    return f"HTTP/1.1 {status} {_REASONS[status]}\r\n{lines}\r\n".encode()
