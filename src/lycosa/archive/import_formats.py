"""Reads captures from archives of other programs: WARC, WACZ and ARC, all as `ImportedCapture`.

A torn or damaged file yields the captures that can be read, then an error with the offset.
"""

from __future__ import annotations

import io
import re
import uuid
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from lzma import LZMAError
from pathlib import Path
from typing import Any
from zlib import error as ZlibError

from lycosa.archive.gzip_stream import (
    FIELDS_LIMIT,
    LENGTH,
    Inflated,
    WarcRecord,
    inflated,
    opened,
    warc_records,
)
from lycosa.archive.warc import metadata
from lycosa.archive.warc.record import sha1_digest
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, Visit
from lycosa.http.chunked import dechunk

NAMESPACE = uuid.UUID("5c1f3a0e-2d0b-5d0c-9a33-6f0e8a4e5b21")
"""Namespace of the ids of records without one: derived from their content, so that a second import
recognises them.
"""

_REQUESTS_KEPT = 64  # requests before their responses
_REQUEST_LIMIT = 1 << 16
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LINE_END = re.compile(rb"\r?\n")
_CHUNKED = re.compile(rb"^transfer-encoding:(?=[^\r\n]*chunked)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"HTTP/([0-9.]+)[ \t]+(\d{3})", re.IGNORECASE)
_ZIP = b"PK\x03\x04"  # the end of a ZIP file may also be that of a WARC file with it as last body
# RuntimeError: encrypted, or a method unknown
_ZIP_FAULTS = (zipfile.BadZipFile, ZlibError, LZMAError, EOFError, RuntimeError, OSError)
_WARC_FILE = re.compile(r"(?:^|/)[^/]+\.warc(?:\.gz|\.zst)?$", re.IGNORECASE)


@dataclass(slots=True)
class ImportedCapture:
    """One archived response. `fetched_at` in milliseconds, 0 if unknown.

    `head` is an HTTP response head, normalised by `usable`. `revisit`: the capture that a revisit
    record refers to; each of its fields may be empty. `own`: the metadata of a record that this
    program wrote. `cut`: the body is truncated to the limit of the reader.
    """

    url: str
    fetched_at: int
    record_id: str
    head: bytes
    body: bytes
    request_head: bytes = b""
    ip: str = ""
    protocol: str = ""
    truncated: str = ""
    revisit: metadata.Revisited | None = None
    own: metadata.ParsedMetadata | None = None
    cut: bool = False

    @property
    def status(self) -> int:
        match = _STATUS.match(self.head)
        return int(match[2]) if match else 0

    @property
    def is_get(self) -> bool:
        """Whether the response is the resource: that to POST or HEAD is something else."""
        return not self.request_head or self.request_head.startswith(b"GET ")

    def exchange(self, url: str, kind: str) -> Exchange:
        """Return the exchange of the capture, with this normalised URL."""
        if self.own is not None:
            return replace(self.own.exchange, url=url, kind=kind, started_at=self.fetched_at)
        version = _STATUS.match(self.head)
        protocol = self.protocol or (
            f"http/{version[1].decode()}" if version and version[1] in (b"1.0", b"1.1") else ""
        )
        return Exchange(
            url, kind, self.fetched_at, 0, self.ip, protocol, self.request_head, self.head,
            self.body, self.status, truncated=self.truncated,
        )  # fmt: skip

    def add_request(self, head: bytes) -> None:
        """Set the head of the request."""
        self.request_head = head

    def add_own(self, own: metadata.ParsedMetadata) -> None:
        """Set the metadata of a record that this program wrote."""
        if self.cut:
            own.exchange.truncated = own.visit.truncated = self.truncated
        self.own = own

    def limit_date(self, latest: int) -> None:
        """Replace a date in the future."""
        self.fetched_at = min(self.fetched_at, latest)

    def complete(self, head: bytes, body: bytes) -> None:
        """Turn a revisit into a capture, with the body of the original and, if it has no head of
        its own, the original's.
        """
        self.head = self.head if self.status else head
        self.body, self.revisit, self.own = body, None, None

    @property
    def visit(self) -> Visit | None:
        """The visit as this program wrote it."""
        return self.own.visit if self.own is not None else None


def archives(path: Path) -> list[Path]:
    """Return the file at a path, or all archives below a folder, by name."""
    if not path.is_dir():
        return [path]
    return sorted(
        each
        for each in path.rglob("*")
        if each.is_file() and re.search(r"\.(?:w?arc(?:\.gz|\.zst)?|wacz)$", each.name.lower())
    )


def read_captures(path: Path, *, limit: int, others: Counter[str]) -> Iterator[ImportedCapture]:
    """Yield the captures of a WARC, WACZ or ARC file in its order.

    The format is detected from the content. A body is truncated to `limit` bytes. `others` counts
    the records that are not captures, by type.

    Raises:
        ArchiveError: the file has another format, or is damaged; captures before that are complete.
    """
    with opened(path) as source:
        if not source.peek().startswith(_ZIP):
            yield from _captures(source, limit, others)
            return
    yield from _wacz(path, limit, others)


def usable(head: bytes, body: bytes) -> bytes:
    """Normalise a response head: CRLF line ends and one empty line at the end.

    If the chunk framing was removed before the body was archived, Transfer-Encoding is renamed to
    X-Archive-Orig-Transfer-Encoding, as other programs do.
    """
    if not head.endswith(b"\r\n\r\n"):
        head = b"\r\n".join(line for line in _LINE_END.split(head) if line.strip()) + b"\r\n\r\n"
    if body and _CHUNKED.search(head):
        framed = dechunk(body)
        if framed.broken and not framed.data:
            head = _CHUNKED.sub(b"X-Archive-Orig-Transfer-Encoding:", head)
    return head


def made_up_head(content_type: str, size: int) -> bytes:
    """Return a generated head for a response archived without one."""
    kind = (
        "".join(character for character in content_type if " " <= character <= "~")
        or "application/octet-stream"
    )
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n".encode()


def split_message(block: bytes) -> tuple[bytes, bytes]:
    """Split an HTTP message into head and body, with CRLF or LF."""
    end = _HEAD_END.search(block)
    return (block, b"") if end is None else (block[: end.end()], block[end.end() :])


def made_up_id(*parts: object) -> str:
    """Return the id of a record without one."""
    return uuid.uuid5(NAMESPACE, "\n".join(map(str, parts))).urn


def _wacz(path: Path, limit: int, others: Counter[str]) -> Iterator[ImportedCapture]:
    """Yield the captures of the WARC files in a WACZ, which is a ZIP file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if _WARC_FILE.search(name)]
            if not names:
                raise ArchiveError(
                    f"{path} is a ZIP file but not a WACZ: it has no WARC file under archive/"
                )
            for name in sorted(names):
                with archive.open(name) as member:
                    plain: Any = io.BufferedReader(member, 1 << 18)
                    yield from _captures(inflated(plain, f"{path}!{name}"), limit, others)
    except _ZIP_FAULTS as error:
        raise ArchiveError(
            f"{path} is a damaged ZIP file: {str(error) or 'it ends too early'}"
        ) from None


def _captures(source: Inflated, limit: int, others: Counter[str]) -> Iterator[ImportedCapture]:
    start = source.peek().lstrip(b"\r\n")
    if start.startswith(b"WARC/"):
        yield from _warc(source, limit, others)
    elif start.startswith(b"filedesc:"):
        yield from _read_arc(source, limit, others)
    elif start or source.position:
        raise ArchiveError(
            f"{source.name} is not a WARC, WACZ or ARC file: it begins with {start[:16]!r}"
        )


def _warc(source: Inflated, limit: int, others: Counter[str]) -> Iterator[ImportedCapture]:
    """Yield captures. A request may precede its response (wget) or follow it; metadata records of
    this program follow both.
    """
    held: ImportedCapture | None = None
    requests: OrderedDict[str, bytes] = OrderedDict()
    is_ours = False
    try:
        for record in warc_records(source, limit):
            kind = record.headers.get("warc-type", "").lower()
            about = record.uri("warc-concurrent-to")
            if "warc-segment-number" in record.headers:  # WARC/1.1 section 7: mostly in other files
                others["segment of a record"] += 1
            elif kind in ("response", "revisit", "resource"):
                capture = _answer(kind, record, others)
                if capture is None:
                    continue
                if held is not None:
                    yield held
                held = capture
                capture.add_request(
                    requests.pop(capture.record_id, b"") or requests.pop(about, b"")
                )
            elif kind == "request":
                head = split_message(record.block[:_REQUEST_LIMIT])[0]
                if held is not None and about == held.record_id:
                    held.add_request(head)
                else:
                    requests[about or record.uri("warc-record-id")] = head
                    requests[record.uri("warc-record-id")] = head
                    while len(requests) > _REQUESTS_KEPT:
                        requests.popitem(last=False)
            elif (
                kind == "metadata"
                and held is not None
                and record.uri("warc-refers-to") == held.record_id
            ):
                if metadata.is_ours(record.headers.get("content-type", ""), record.block):
                    is_ours = True
                    held.add_own(
                        metadata.decode(record.block, held.request_head, held.head, held.body)
                    )
            elif kind not in ("warcinfo", "metadata"):
                others[kind or "without a type"] += 1
    except (ArchiveError, *_ZIP_FAULTS):
        # without its metadata record, the kind of a request of this program is unknown
        if held is not None and (held.own is not None or not is_ours):
            yield held
        raise
    if held is not None:
        yield held


def _answer(kind: str, record: WarcRecord, others: Counter[str]) -> ImportedCapture | None:
    url = record.uri("warc-target-uri")
    content_type = record.headers.get("content-type", "")
    if not url.lower().startswith(("http://", "https://", "ftp://", "gopher://")):
        others[f"{kind} of {url.partition(':')[0][:20] or 'nothing'}:"] += 1
        return None
    if kind == "resource" or (
        kind == "response"
        and not content_type.lower().startswith("application/http")
        and not _STATUS.match(record.block)
    ):
        body = record.block
        head = made_up_head(content_type, len(body))
    else:
        head, body = split_message(record.block)
        head = usable(head, body)
    fetched_at = parse_time(record.headers.get("warc-date", ""))
    truncated = record.headers.get("warc-truncated", "") if record.whole else "length"
    protocol = record.headers.get("warc-protocol", "")
    revisit = None
    if kind == "revisit":
        body = b""
        if not record.block and record.headers.get("warc-profile", "").endswith("not-modified"):
            head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
        revisit = metadata.Revisited(
            record.uri("warc-refers-to-target-uri"),
            parse_time(record.headers.get("warc-refers-to-date", "")),
            record.uri("warc-refers-to"),
            record.headers.get("warc-payload-digest", ""),
        )
    return ImportedCapture(
        url,
        fetched_at,
        record.uri("warc-record-id") or made_up_id(url, fetched_at, sha1_digest(record.block)),
        head,
        body,
        ip=record.headers.get("warc-ip-address", ""),
        protocol=protocol if protocol in ("h2", "h3", "ftp", "gopher") else "",
        truncated=truncated,
        revisit=revisit,
        cut=not record.whole,
    )


def parse_time(text: str) -> int:
    """Parse `2026-11-21T10:00:00.5Z` or `20261121100000`, or a prefix of one of them.

    Returns milliseconds since 1970 UTC; 0 for any other text.
    """
    try:
        if text.isascii() and text.isdigit():
            padded = text[:14] + "00000101000000"[len(text[:14]) :]
            at = datetime.strptime(padded, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        else:
            at = datetime.fromisoformat(f"{text}-01" if len(text) == 7 else text)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(round(at.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        return 0


def _read_arc(source: Inflated, limit: int, others: Counter[str]) -> Iterator[ImportedCapture]:
    """Yield the captures of an ARC 1.0 or 2.0 file.

    Each record is a line of fields, the last of which is the length of the block that follows:
    https://archive.org/web/researcher/ArcFileFormat.php.

    Raises:
        ArchiveError: a record does not start with such a line.
    """
    while line := source.line(FIELDS_LIMIT):
        if not line.strip():
            continue
        # From the right: URLs in old files contain spaces. Version 2 has ten fields, version 1
        # five; both end in the length.
        fields = line.decode("utf-8", "replace").split()
        if len(fields) < 5 or not LENGTH.fullmatch(fields[-1]):
            raise ArchiveError(
                f"{source.name}: expected an ARC record at uncompressed offset "
                f"{source.position}, found {line[:40]!r}"
            )
        tail = 10 if len(fields) >= 10 and re.fullmatch(r"\d{14}", fields[-8]) else 5
        url, ip, date, content_type = (
            " ".join(fields[: len(fields) - tail + 1]),
            *fields[len(fields) - tail + 1 : len(fields) - tail + 4],
        )
        length = int(fields[-1])
        block = source.exactly(min(length, limit))
        source.skip(length - len(block))
        if not url.lower().startswith(("http://", "https://")):
            if not url.startswith("filedesc:"):
                others[f"response of {url.partition(':')[0][:20]}:"] += 1
            continue
        if block.startswith(b"HTTP/"):
            head, body = split_message(block)
            head = usable(head, body)
        else:
            head, body = (
                made_up_head(content_type if "/" in content_type else "", len(block)),
                block,
            )
        at = parse_time(date)
        yield ImportedCapture(
            url, at, made_up_id(url, at, sha1_digest(block)), head, body,
            ip=ip if ip != "0.0.0.0" else "", truncated="length" if len(block) < length else "",
            cut=len(block) < length,
        )  # fmt: skip
