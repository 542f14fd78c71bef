"""Writes exchanges to a WARC file, which is the write-ahead log of the crawl and its archive.

Invariant: between two calls the file is warcinfo followed by complete exchanges. An exchange is
`response` (or `revisit`), `request` and `metadata` in this order, in one write to the kernel; it
counts once its metadata record is complete. The response is written first so that its offset, which
`visits` has, leads to the other two. Responses of FTP and gopher have no head: they are `resource`
records with the body alone, and the metadata record has the generated head.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lycosa.archive.warc import metadata
from lycosa.archive.warc.metadata import Revisited, Wire
from lycosa.archive.warc.record import (
    CONFORMS_TO,
    PROFILE_IDENTICAL,
    PROFILE_NOT_MODIFIED,
    RECORD_LIMIT_BYTES,
    RENDERED_TYPE,
    archived_request_head,
    archived_response_head,
    field_value,
    gzip_record,
    is_compressed,
    new_record_id,
    sha1_digest,
    warc_date,
)
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import WorkError
from lycosa.core.records import Exchange, Visit, VisitKind
from lycosa.core.version import VERSION
from lycosa.http.decode import content_type_of
from lycosa.processes.disk import sync_folder
from lycosa.url.schemes import WEB

_MEDIA_TYPE = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_TRUNCATED = frozenset({"length", "time", "disconnect", "unspecified"})  # WARC/1.1 section 5.13
# HTTP/1 heads contain their version
_SPOKEN = {name: f"WARC-Protocol: {name}\r\n" for name in ("h2", "h3", "ftp", "gopher")}


def crawl_info(user_agent: str, contact: str = "", collection: str = "") -> dict[str, str]:
    """Return the warcinfo fields of a crawl."""
    info = {"robots": "obey (RFC 9309)", "http-header-user-agent": user_agent}
    if contact:
        info["operator"] = contact
    if collection:
        info["isPartOf"] = collection
    return info


def payload_digest(exchange: Exchange) -> str:
    """Return `sha1:BASE32` of the body as transferred; "" without a response.

    Chunk framing is included. WARC/1.1 section 6.3.2 excludes it, but warcio, pywb and FastWARC all
    compute this digest over the bytes after the head and would report the file as damaged. So a
    page with other chunk borders than at the last visit is archived again, not as a revisit.
    """
    return sha1_digest(exchange.body) if exchange.response_head or exchange.body else ""


def warcinfo_record(record_id: str, at_ms: int, filename: str, info: Mapping[str, str]) -> bytes:
    """Return the first record of a file (WARC/1.1 section 6.2)."""
    described = {
        "software": f"Lycosa/{VERSION}",
        "format": "WARC File Format 1.1",
        "conformsTo": CONFORMS_TO,
        **info,
    }
    block = "".join(
        f"{name}: {' '.join(value.split())}\r\n" for name, value in described.items()
    ).encode()
    fields = (
        f"WARC-Type: warcinfo\r\nWARC-Record-ID: <{record_id}>\r\nWARC-Date: {warc_date(at_ms)}\r\n"
        f"WARC-Filename: {field_value(filename)}\r\nWARC-Block-Digest: {sha1_digest(block)}\r\n"
        "Content-Type: application/warc-fields\r\n"
    )
    return gzip_record(fields, block, b"", store_body=False)


class WarcWriter:
    """One new WARC file. Not thread-safe.

    `relative_path` is the value of `visits.warc_file` and WARC-Filename; `info` are further
    warcinfo fields (`crawl_info`). `new_id` and `clock` are for tests. `size` is the file's length
    in bytes. `record_types`: record id -> type of each exchange's first record that is not a
    response, for `write_cdxj`.

    Raises:
        WorkError: the file exists or cannot be made.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        relative_path: str,
        info: Mapping[str, str],
        new_id: Callable[[], str] = new_record_id,
        clock: Clock | None = None,
    ) -> None:
        self.path = Path(path)
        self.relative_path = relative_path
        self.size = 0
        self.record_types: dict[str, str] = {}
        self._new_id = new_id
        self._warcinfo_id = new_id()
        try:
            self._file = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise WorkError(f"{self.path} cannot be created: {error.strerror}") from error
        self._open = True
        self._torn = False
        try:
            self._write(
                warcinfo_record(
                    self._warcinfo_id, (clock or SystemClock()).now_ms(), relative_path, info
                )
            )
        except WorkError:
            self._open = False
            os.close(self._file)
            raise

    def append(
        self, exchange: Exchange, visit: Visit, *, revisit_of: Revisited | None = None
    ) -> None:
        """Write one exchange. Afterwards it survives the end of the process.

        Sets `digest`, `record_id`, `warc_file`, `warc_offset` and `warc_length` of the visit. A
        record id that is already set does not change: replay copies an exchange from an orphaned
        file, and recognises the copy by its id. With `revisit_of` the body is not written again,
        and the digest is that of the earlier capture.

        Raises:
            WorkError: the disk is full or fails (the file is truncated to its complete exchanges),
            or the body is larger than one record may be.
            ValueError: `revisit_of` has another URL or body, or the writer is closed.
        """
        if not self._open:
            raise ValueError(f"{self.path} is closed")
        if len(exchange.body) > RECORD_LIMIT_BYTES - (1 << 20):
            raise WorkError(
                f"{exchange.url}: a body of {len(exchange.body)} bytes is too large "
                "for one record; lower fetch.max_body"
            )
        if revisit_of is not None:
            _check_revisit(exchange, revisit_of)
        records = _ExchangeRecords(exchange, visit, self._warcinfo_id, self._new_id, revisit_of)
        parts = records.parts()
        offset = self.size
        self._write(b"".join(parts))
        visit.set_location(records.record_id, self.relative_path, offset, len(parts[0]))
        if records.record_type != "response":
            self.record_types[records.record_id] = records.record_type

    def close(self, sync: bool = True) -> None:
        """Close the file; with `sync`, also flush it and its folder to disk.

        Raises:
            WorkError: writing to the disk failed.
        """
        if not self._open:
            return
        self._open = False
        try:
            if sync:
                os.fsync(self._file)
                sync_folder(self.path.parent)
        except OSError as error:
            raise WorkError(
                f"{self.path} could not be written to the disk: {error.strerror}"
            ) from error
        finally:
            os.close(self._file)

    def _write(self, data: bytes) -> None:
        if self._torn:
            raise WorkError(
                f"{self.path} ends with an incomplete record that could not be "
                "removed: start a new file"
            )
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.write(self._file, view[done:])
        except OSError as error:
            self._cut_back()
            raise WorkError(
                f"{self.path}: {error.strerror} after {self.size} bytes; all earlier records are "
                "complete. "
                "Free space on the disk (or raise the limit) and run again"
            ) from error
        self.size += done

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._file, self.size)
        except OSError:
            self._torn = True  # readers skip an incomplete tail, but nothing may follow it


class _ExchangeRecords:
    """The records of one exchange, each compressed: `response`, `resource` or `revisit`, then
    `conversion` and `request`, then `metadata`. Sets the digest of the visit.
    """

    def __init__(
        self,
        exchange: Exchange,
        visit: Visit,
        warcinfo_id: str,
        new_id: Callable[[], str],
        revisit_of: Revisited | None,
    ) -> None:
        is_http = exchange.url.startswith(WEB)
        self._head = archived_response_head(exchange.response_head) if is_http else None
        self._is_resource = (
            not is_http
            and bool(exchange.response_head)
            and (exchange.status == 200 or revisit_of is not None)
        )
        if self._head is None and not self._is_resource:
            revisit_of = None
        # A check archives its result, not the payload: the visit already has the payload's digest.
        if visit.kind != VisitKind.CHECK:
            visit.set_digest(payload_digest(exchange) if revisit_of is None else revisit_of.digest)
        self.record_id = visit.record_id or new_id()
        self.record_type = "metadata"
        self._exchange = exchange
        self._visit = visit
        self._new_id = new_id
        self._revisit_of = revisit_of
        self._about = (
            f"WARC-Date: {warc_date(visit.fetched_at)}\r\nWARC-Warcinfo-ID: <{warcinfo_id}>\r\n"
            f"WARC-Target-URI: {field_value(exchange.url)}\r\n"
        )
        self._capture = f"{self._about}{_address(exchange)}{_SPOKEN.get(exchange.protocol, '')}"
        self._leftover: dict[str, bytes] = {}  # values that only the metadata record has
        self._status_line = self._request_line = ""

    def parts(self) -> list[bytes]:
        """Return the records in their order."""
        parts = [*self._responses(), *self._requests()]
        return [*parts, self._metadata(len(parts) + 1)]

    def _responses(self) -> Iterator[bytes]:
        exchange, revisit_of, head = self._exchange, self._revisit_of, self._head
        if self._is_resource:
            self._leftover["response_head"] = exchange.response_head
            self.record_type = "resource" if revisit_of is None else "revisit"
            yield _resource(self.record_id, self._capture, exchange, self._visit.digest, revisit_of)
        elif head is None:
            leftover = {"response_head": exchange.response_head, "body": exchange.body}
            self._leftover |= {name: data for name, data in leftover.items() if data}
        else:
            self._status_line = _replaced_line(exchange.response_head, head)
            if metadata.original_head(head, self._status_line) != exchange.response_head:
                self._leftover["response_head"] = exchange.response_head
            self.record_type = "response" if revisit_of is None else "revisit"
            yield _response(
                self.record_id, self._capture, exchange, self._visit.digest, head, revisit_of
            )
            if exchange.rendered:
                yield _conversion(self._new_id(), self.record_id, self._about, exchange.rendered)

    def _requests(self) -> Iterator[bytes]:
        sent = self._exchange.request_head
        head = archived_request_head(sent) if self._head is not None else None
        if head is None:
            if sent:
                self._leftover["request_head"] = sent
            return
        self._request_line = _replaced_line(sent, head)
        fields = (
            f"WARC-Type: request\r\nWARC-Record-ID: <{self._new_id()}>\r\n{self._capture}"
            f"WARC-Concurrent-To: <{self.record_id}>\r\n"
            f"WARC-Block-Digest: {sha1_digest(head)}\r\n"
            "Content-Type: application/http; msgtype=request\r\n"
        )
        yield gzip_record(fields, head, b"", store_body=False)

    def _metadata(self, records: int) -> bytes:
        wire = Wire(records, self._request_line, self._status_line, self._leftover)
        block = metadata.encode(self._exchange, self._visit, wire, self._revisit_of)
        if self.record_type == "metadata":
            links = f"WARC-Record-ID: <{self.record_id}>\r\n"
        else:
            links = (
                f"WARC-Record-ID: <{self._new_id()}>\r\nWARC-Refers-To: <{self.record_id}>\r\n"
                f"WARC-Concurrent-To: <{self.record_id}>\r\n"
            )
        fields = (
            f"WARC-Type: metadata\r\n{links}{self._about}"
            f"WARC-Block-Digest: {sha1_digest(block)}\r\nContent-Type: {metadata.CONTENT_TYPE}\r\n"
        )
        return gzip_record(fields, block, b"", store_body=False)


def _response(
    record_id: str,
    capture: str,
    exchange: Exchange,
    digest: str,
    head: bytes,
    revisit_of: Revisited | None,
) -> bytes:
    body = exchange.body if revisit_of is None else b""
    fields = [
        f"WARC-Type: {'response' if revisit_of is None else 'revisit'}\r\nWARC-Record-ID: "
        f"<{record_id}>\r\n{capture}"
        f"WARC-Block-Digest: {sha1_digest(head, body)}\r\n"
    ]
    if digest:
        fields.append(f"WARC-Payload-Digest: {digest}\r\n")
    fields.append(_of_payload(exchange, revisit_of))
    fields.append("Content-Type: application/http; msgtype=response\r\n")
    return gzip_record("".join(fields), head, body, store_body=is_compressed(head))


def _resource(
    record_id: str, capture: str, exchange: Exchange, digest: str, revisit_of: Revisited | None
) -> bytes:
    """Return the record of a file, listing or menu; a revisit has no block.

    WARC/1.1: `resource` records and the ftp scheme.
    """
    body = exchange.body if revisit_of is None else b""
    fields = (
        f"WARC-Type: {'resource' if revisit_of is None else 'revisit'}\r\nWARC-Record-ID: "
        f"<{record_id}>\r\n{capture}"
        f"WARC-Block-Digest: {sha1_digest(body)}\r\nWARC-Payload-Digest: "
        f"{digest}\r\n{_of_payload(exchange, revisit_of)}"
    )
    if revisit_of is None:
        content_type = content_type_of(exchange)
        if not _MEDIA_TYPE.fullmatch(content_type):
            content_type = "application/octet-stream"
        fields += f"Content-Type: {content_type}\r\n"
    return gzip_record(fields, b"", body, store_body=is_compressed(exchange.response_head))


def _of_payload(exchange: Exchange, revisit_of: Revisited | None) -> str:
    """Return the fields of a truncated payload, or of one that an earlier capture has."""
    fields = f"WARC-Truncated: {exchange.truncated}\r\n" if exchange.truncated in _TRUNCATED else ""
    if revisit_of is not None:
        profile = PROFILE_NOT_MODIFIED if exchange.status == 304 else PROFILE_IDENTICAL
        fields += (
            f"WARC-Profile: {profile}\r\nWARC-Refers-To: <{revisit_of.record_id}>\r\n"
            f"WARC-Refers-To-Target-URI: {field_value(revisit_of.url)}\r\nWARC-Refers-To-Date: "
            f"{warc_date(revisit_of.fetched_at)}\r\n"
        )
    return fields


def _conversion(own_id: str, record_id: str, about: str, rendered: bytes) -> bytes:
    """Return the `conversion` record of a document (WARC/1.1 section 6.7)."""
    fields = (
        f"WARC-Type: conversion\r\nWARC-Record-ID: <{own_id}>\r\n{about}WARC-Refers-To: "
        f"<{record_id}>\r\n"
        f"WARC-Block-Digest: {sha1_digest(rendered)}\r\nContent-Type: {RENDERED_TYPE}\r\n"
    )
    return gzip_record(fields, b"", rendered, store_body=False)


def _check_revisit(exchange: Exchange, revisit_of: Revisited) -> None:
    if revisit_of.url != exchange.url:
        raise ValueError(
            f"a revisit record of {exchange.url} cannot refer to {revisit_of.url}: "
            "both must have the same URL"
        )
    # A replayed revisit has no body: it was not archived with it.
    if exchange.status != 304 and exchange.body and payload_digest(exchange) != revisit_of.digest:
        raise ValueError(f"{exchange.url}: the body does not have the digest {revisit_of.digest}")


def _address(exchange: Exchange) -> str:
    return f"WARC-IP-Address: {field_value(exchange.ip)}\r\n" if exchange.ip else ""


def _replaced_line(original: bytes, archived: bytes) -> str:
    """Return the original's first line, if the archived head has another one."""
    return "" if archived == original else original[: original.index(b"\n") + 1].decode("latin-1")
