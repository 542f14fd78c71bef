"""Reads WARC records from a file with one gzip member per record, in bounded memory.

A file of a killed process may end inside a record: that is not damage, and reading stops at the
last complete record. Bytes in the middle that cannot be inflated are damage. A later record of the
same file, identified by its WARC-Warcinfo-ID, distinguishes the two. A WARC that a server sent as a
body has another ID, so records inside a body are never read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from lycosa.archive.warc.record import RECORD_LIMIT_BYTES
from lycosa.core.errors import ArchiveError

_WINDOW = 1 << 17
_MAX_WINDOW = 1 << 24
_FIELDS_LIMIT = 1 << 20  # the WARC fields of one record; ours take under 1 KiB plus the URL
_GLANCE = 512  # enough for a member's header and the code tables of its first block
# A gzip header as writers make it (RFC 1952 section 2.3): deflate, at most a name and an extra
# field, a known system.
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00\x04\x08\x0c].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL)
_MEMBER_BYTES = 10
# isal's type stub does not declare it as a class
_InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]


class Record(NamedTuple):
    """One WARC record.

    `headers`: names in lower case; of equal names, the first one. `length`: compressed size in
    bytes.
    """

    offset: int
    length: int
    headers: dict[str, str]
    block: bytes

    @property
    def type(self) -> str:
        return self.headers.get("warc-type", "")

    def id(self, name: str = "warc-record-id") -> str:
        """Return a field that contains a URI, without angle brackets."""
        return self.headers.get(name, "").strip("<>")


class Damage(NamedTuple):
    """Unreadable bytes from `offset` to `end`, the next readable record or the end of the file."""

    offset: int
    end: int
    reason: str


class _Torn(Exception):
    """The file ends inside a member."""


class _Broken(Exception):
    """The bytes are not a gzip member with a WARC record."""


def read_records(
    path: str | Path, *, on_damage: Callable[[Damage], None] | None = None
) -> Iterator[Record]:
    """Yield the records of a WARC file in order. A torn tail is not an error.

    With `on_damage` reading continues after damaged bytes, and each damaged range, including a torn
    tail, is reported.

    Raises:
        ArchiveError: the file cannot be opened, is not a WARC of gzip members, or (without
        `on_damage`) is damaged in the middle; the message has the file and the offset.
    """
    with RecordFile(path) as source:
        offset = 0
        warcinfos: set[str] = set()
        while offset < source.size:
            try:
                record = source._record(offset)
            except (_Torn, _Broken) as error:
                following = source.next_record(offset + 1, warcinfos)
                damage = Damage(
                    offset,
                    source.size if following is None else following,
                    str(error) or "the file ends inside a record",
                )
                if on_damage is not None:
                    on_damage(damage)
                elif following is not None or (offset == 0 and isinstance(error, _Broken)):
                    raise ArchiveError(_describe(source, damage, following)) from None
                offset = damage.end
                continue
            warcinfos.add(
                record.id() if record.type == "warcinfo" else record.id("warc-warcinfo-id")
            )
            yield record
            offset += record.length


def read_record(path: str | Path, offset: int, length: int) -> Record:
    """Read the record at an offset; `length` is its compressed size, as in `visits` and CDXJ.

    Raises:
        ArchiveError: there is no complete record of that size; the message has the file and the
        offset.
    """
    with RecordFile(path, window_bytes=min(max(length, 1), _MAX_WINDOW)) as source:
        record = source.read(offset)
    if record.length != length:
        raise ArchiveError(
            f"{path}: the record at offset {offset} has {record.length} bytes, not "
            f"{length}; run `lycosa check`"
        )
    return record


def _describe(source: RecordFile, damage: Damage, following: int | None) -> str:
    if damage.offset == 0 and following is None:
        start = source.peek(0, 8)
        if start.startswith(b"WARC/"):
            return (
                f"{source.path} is an uncompressed WARC file: compress it first with "
                "`warcio recompress`"
            )
        return (
            f"{source.path} is not a WARC file (offset 0: {damage.reason}): specify a .warc.gz "
            "file with one gzip member per record"
        )
    return (
        f"{source.path} is damaged from offset {damage.offset} to {damage.end}: {damage.reason}. "
        "The records before and after this range can be read: run `lycosa check`, or restore the "
        "file from a backup"
    )


class RecordFile:
    """An open WARC file for reading records by offset. A context manager.

    Raises:
        ArchiveError: it cannot be opened.
    """

    def __init__(self, path: str | Path, *, window_bytes: int = _WINDOW) -> None:
        self.path = path
        self._window_bytes = window_bytes
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ArchiveError(f"{path} cannot be opened: {error.strerror}") from error
        self.size = os.fstat(self._file).st_size
        self._window, self._start = b"", 0

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self, offset: int) -> Record:
        """Read the record that starts at an offset.

        Raises:
            ArchiveError: it is not complete; the message has the file and the offset.
        """
        try:
            return self._record(offset)
        except (_Torn, _Broken) as error:
            raise ArchiveError(
                f"{self.path}: no complete WARC record at offset {offset}: "
                f"{str(error) or 'the file ends inside it'}; "
                "run `lycosa check` to find other damage"
            ) from None

    def peek(self, offset: int, count: int) -> bytes:
        """Return up to `count` raw bytes; fewer at the end of the file.

        Raises:
            ArchiveError: the disk fails.
        """
        parts = []
        while count > 0 and (piece := self._at(offset)[:count]):
            parts.append(bytes(piece))
            offset += len(piece)
            count -= len(piece)
        return b"".join(parts)

    def _at(self, offset: int) -> memoryview:
        """Return the bytes of the window from `offset` on; none at the end of the file."""
        inside = offset - self._start
        if not 0 <= inside < len(self._window):
            try:
                self._window, self._start, inside = (
                    os.pread(self._file, self._window_bytes, offset),
                    offset,
                    0,
                )
            except OSError as error:
                raise ArchiveError(
                    f"{self.path} cannot be read at offset {offset}: {error.strerror}"
                ) from error
        return memoryview(self._window)[inside:]

    def _record(self, offset: int) -> Record:
        """Read the record that starts at `offset`.

        Raises:
            _Torn, _Broken: there is no complete record.
        """
        inflater = isal_zlib.decompressobj(31)
        data, position, allowed = bytearray(), offset, _FIELDS_LIMIT
        headers: dict[str, str] | None = None
        block_start = 0
        while not inflater.eof:
            tail = inflater.unconsumed_tail
            piece = tail or self._at(position)
            if not piece:
                raise _Torn
            if not tail:
                position += len(piece)
            try:
                data += inflater.decompress(piece, allowed + 1 - len(data))
            except _InflateError as error:
                raise _Broken(f"not a gzip member ({error})") from None
            if headers is None:
                end = data.find(b"\r\n\r\n")
                if end >= 0:
                    headers, block_start = _record_fields(bytes(data[:end])), end + 4
                    allowed = block_start + _content_length(headers) + 4
            if len(data) > allowed:
                raise _Broken("a record longer than its Content-Length")
        if headers is None:
            raise _Broken("a gzip member without a WARC record")
        block_end = allowed - 4
        if len(data) != allowed or data[block_end:] != b"\r\n\r\n":
            raise _Broken("a record shorter than its Content-Length")
        return Record(
            offset,
            position - len(inflater.unused_data) - offset,
            headers,
            bytes(data[block_start:block_end]),
        )

    def next_record(self, offset: int, warcinfos: Set[str]) -> int | None:
        """Return the offset of the next complete record, or None.

        Only records with one of these warcinfo IDs count.
        """
        while offset < self.size:
            view = self._at(offset)
            match = _MEMBER.search(self._window, offset - self._start)
            if match is None:
                offset += max(len(view) - _MEMBER_BYTES + 1, 1)
                continue
            offset = self._start + match.start()
            if self._may_be_record(offset):
                try:
                    record = self._record(offset)
                except (_Torn, _Broken):
                    pass
                else:
                    if not warcinfos or record.id("warc-warcinfo-id") in warcinfos:
                        return offset
            offset += 1
        return None

    def _may_be_record(self, offset: int) -> bool:
        """Return whether a record may start at an offset. Fast.

        A body may contain the magic number millions of times.
        """
        try:
            return isal_zlib.decompressobj(31).decompress(self._at(offset)[:_GLANCE], 5) in (
                b"WARC/",
                b"",
            )
        except _InflateError:
            return False


def _record_fields(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "replace").split("\r\n")
    if not lines[0].startswith("WARC/"):
        raise _Broken("a gzip member without a WARC record")
    return parse_fields(lines[1:])


def parse_fields(lines: Iterable[str]) -> dict[str, str]:
    """Return header fields by lower-case name; of equal names, the first."""
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t") and name:  # folded (WARC/1.1 section 4)
            headers[name] += " " + line.strip()
            continue
        name, _, value = line.partition(":")
        name = name.strip().lower()
        headers.setdefault(name, value.strip())
    return headers


def _content_length(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit()):
        raise _Broken("a record without Content-Length")
    length = int(text) if len(text) < 19 else RECORD_LIMIT_BYTES + 1
    if length > RECORD_LIMIT_BYTES:
        raise _Broken(f"a record of {text[:30]} bytes; at most {RECORD_LIMIT_BYTES} are allowed")
    return length
