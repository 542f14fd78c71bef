"""Reads archives of other programs.

Plain, gzip (one member per record, or one for all) or zstd, read from front to end. A record with
a wrong length is left out if the next one starts a gzip member.

Memory is bounded: it has a window of the decompressed bytes, and the part of a record that the
reader requests.
"""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import zstandard
from isal import isal_zlib

from lycosa.archive.warc.members import parse_fields
from lycosa.core.errors import ArchiveError

FIELDS_LIMIT = 1 << 16
"""Maximum size of the WARC fields of a record, or of the line of an ARC record."""

LENGTH = re.compile(r"[0-9]{1,18}")
_MAX_FIELDS = 500
_METADATA_LIMIT = 1 << 24

_WINDOW = 1 << 18
_PIECE = 1 << 14  # compressed bytes at once: the most that damage in them may lose
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_DICTIONARY = (
    # a skippable frame with a dictionary:
    # https://iipc.github.io/warc-specifications/specifications/warc-zstd/
    b"\x5d\x2a\x4d\x18"
)
_DICTIONARY_LIMIT = 1 << 24
_ZSTD_WINDOW = 1 << 27
# isal's type stub does not declare it as a class
_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]
_BROKEN = (EOFError, OSError, _IsalError, zstandard.ZstdError)


class Inflated:
    """The plain bytes of one archive. `name` is for messages, `position` counts plain bytes.

    Raises (all methods):
        ArchiveError: the file is damaged, or cannot be read; it names the file and the place.
    """

    def __init__(self, source: io.RawIOBase | io.BufferedReader, name: str) -> None:
        self.name = name
        self.position = 0
        self._members = source if isinstance(source, _Members) else None
        self._source = _buffered(source)

    def line(self, limit: int) -> bytes:
        """Return the bytes up to and including the next line end; b"" at the end of the file."""
        data = self._call(lambda: self._source.readline(limit + 1))
        if len(data) > limit:
            raise ArchiveError(
                f"{self.name}: the line at uncompressed offset {self.position} is "
                f"longer than {limit} bytes"
            )
        self.position += len(data)
        return data

    def exactly(self, count: int) -> bytes:
        """Return `count` bytes."""
        data = self._call(lambda: self._source.read(count))
        self.position += len(data)
        if len(data) < count:
            raise ArchiveError(
                f"{self.name} ends inside a record, at uncompressed offset {self.position}"
            )
        return data

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        while count > 0:
            count -= len(self.exactly(min(count, _WINDOW)))

    def peek(self) -> bytes:
        """Return some of the next bytes; b"" at the end."""
        return self._call(lambda: self._source.peek(64))

    def ends_record(self) -> bool:
        """Skip empty lines; return whether a WARC record ends here (section 4: with two)."""
        lines = 0
        while self.peek()[:1] in (b"\r", b"\n"):
            if self.line(FIELDS_LIMIT).strip():
                return False
            lines += 1
        return lines > 1 or b"WARC/".startswith(self.peek()[:5])

    def next_member(self, start: int) -> bool:
        """Continue at the first gzip member after a plain offset.

        Only at one whose start is known: in damaged data, anything could look like a member.
        """
        if self._members is None:
            return False
        position = self._members.restart(start)
        if position is None:
            return False
        self._source.detach()  # else it closes the file
        self.position, self._source = position, _buffered(self._members)
        return True

    def _call(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except _BROKEN as error:
            what = getattr(error, "strerror", None) or str(error) or "it ends too early"
            raise ArchiveError(
                f"{self.name} is damaged after uncompressed offset {self.position}: {what}"
            ) from None


class _Members(io.RawIOBase):
    """gzip members one after the other.

    Unlike `gzip.GzipFile`, it returns the bytes before damaged ones first, and no byte of a small
    member with a wrong checksum.
    """

    def __init__(self, source: io.BufferedReader) -> None:
        self._source = source
        self._inflater: Any = None
        self._rest = b""
        self._compressed = self._plain = 0  # bytes read from the source, and returned
        # plain and compressed offsets of members; the window has less than a thousand
        self._starts: deque[tuple[int, int]] = deque(maxlen=4_096)

    def restart(self, after: int) -> int | None:
        """Continue at the first member after a plain offset; return its plain offset.

        None: there is none, or the members before it are damaged.
        """
        scratch = memoryview(bytearray(_WINDOW))
        try:
            while not self._starts or self._starts[-1][0] <= after:
                if not self.readinto(scratch):
                    return None
        except _BROKEN:
            return None
        plain, compressed = next(each for each in self._starts if each[0] > after)
        self._source.seek(compressed)
        self._plain, self._compressed = plain, compressed
        self._inflater, self._rest = None, b""
        self._starts.clear()
        return plain

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            if self._inflater is None:
                # tapes padded with zeros
                start = (self._rest or self._read()).lstrip(b"\0")
                self._rest = b""
                if not start:
                    if self._source.peek(1):
                        continue
                    return 0
                self._starts.append((self._plain, self._compressed - len(start)))
                self._rest, self._inflater = start, isal_zlib.decompressobj(31)
            piece = self._inflater.unconsumed_tail or self._rest or self._read()
            if not piece:
                raise EOFError("it ends inside a gzip member")
            self._rest = b""
            data = self._inflater.decompress(piece, len(buffer))
            if self._inflater.eof:
                self._rest, self._inflater = self._inflater.unused_data, None
            if data:
                buffer[: len(data)] = data
                self._plain += len(data)
                return len(data)

    def _read(self) -> bytes:
        piece = self._source.read1(_PIECE)
        self._compressed += len(piece)
        return piece


def _buffered(source: io.RawIOBase | io.BufferedReader) -> io.BufferedReader:
    return source if isinstance(source, io.BufferedReader) else io.BufferedReader(source, _WINDOW)


def inflated(source: io.BufferedReader, name: str) -> Inflated:
    """Return the plain bytes of a file.

    The compression is detected from the first bytes.

    Raises:
        ArchiveError: the zstd dictionary cannot be used.
    """
    start = source.peek(4)[:4]
    if start[:2] == _GZIP:
        return Inflated(_Members(source), name)
    if start in (_ZSTD, _DICTIONARY):
        return Inflated(_unzstd(source, name), name)
    return Inflated(source, name)


@contextmanager
def opened(path: Path) -> Iterator[Inflated]:
    """Open a file on disk.

    Raises:
        ArchiveError: it cannot be opened, or its zstd dictionary cannot be used.
    """
    try:
        source = open(path, "rb")  # noqa: SIM115  # only opening it may fail here
    except OSError as error:
        raise ArchiveError(f"{path} cannot be opened: {error.strerror}") from None
    with source:
        yield inflated(source, os.fspath(path))


def _unzstd(source: io.BufferedReader, name: str) -> io.RawIOBase:
    dictionary = None
    if source.peek(4)[:4] == _DICTIONARY:
        source.read(4)
        size = int.from_bytes(source.read(4), "little")
        if size > _DICTIONARY_LIMIT:
            raise ArchiveError(
                f"{name}: the zstd dictionary has {size} bytes, and at most "
                f"{_DICTIONARY_LIMIT} are allowed"
            )
        data = source.read(size)
        try:
            if data[:4] == _ZSTD:
                data = zstandard.ZstdDecompressor().decompress(
                    data, max_output_size=_DICTIONARY_LIMIT
                )
            dictionary = zstandard.ZstdCompressionDict(data)
        except zstandard.ZstdError as error:
            raise ArchiveError(f"{name}: its zstd dictionary cannot be used: {error}") from None
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=_ZSTD_WINDOW)
    return cast("io.RawIOBase", decompressor.stream_reader(source, read_across_frames=True))


@dataclass(slots=True)
class WarcRecord:
    """One WARC record. `headers` in lower case, the first of equal names counts; `whole`: nothing
    was cut off its block.
    """

    headers: dict[str, str]
    block: bytes
    whole: bool

    def uri(self, name: str) -> str:
        """Return the URI in a field, without the angle brackets that wget writes."""
        return self.headers.get(name, "").strip("<> ")


def warc_records(source: Inflated, limit: int) -> Iterator[WarcRecord]:
    """Yield the records of a WARC file. The block of a capture is cut to `limit` bytes.

    A record that does not end where its length says is left out, and reading continues at the next
    gzip member.

    Raises:
        ArchiveError: the file is damaged; after the last record that can be read.
    """
    damage: ArchiveError | None = None
    while True:
        start = source.position
        record = failure = None
        try:
            record = _record(source, limit)
            if record is None:
                break
            end = source.position
            if not source.ends_record():
                record = None
                failure = ArchiveError(
                    f"{source.name}: the record at uncompressed offset {start} has a wrong "
                    f"Content-Length: it does not end at {end}"
                )
        except ArchiveError as error:
            failure = error
        if record is not None:
            yield record
        if failure is not None:
            damage = damage or failure
            if not source.next_member(start):
                break
    if damage is not None:
        raise damage


def _record(source: Inflated, limit: int) -> WarcRecord | None:
    line = source.line(FIELDS_LIMIT)
    while line and not line.strip():
        line = source.line(FIELDS_LIMIT)
    if not line:
        return None
    if not line.startswith(b"WARC/"):
        raise ArchiveError(
            f"{source.name}: expected a WARC record at uncompressed offset "
            f"{source.position}, found {line[:32]!r}"
        )
    headers = _fields(source)
    length = headers.get("content-length", "")
    if not LENGTH.fullmatch(length):
        raise ArchiveError(
            f"{source.name}: the record at uncompressed offset "
            f"{source.position} has no Content-Length"
        )
    is_capture = headers.get("warc-type") in ("response", "resource", "revisit")
    shortest = min(int(length), limit if is_capture else _METADATA_LIMIT)
    block = source.exactly(shortest)
    source.skip(int(length) - shortest)
    return WarcRecord(headers, block, shortest == int(length))


def _fields(source: Inflated) -> dict[str, str]:
    lines: list[str] = []
    for _ in range(_MAX_FIELDS):
        line = source.line(FIELDS_LIMIT).decode("utf-8", "replace")
        if not line.strip():
            return parse_fields(lines)
        lines.append(line)
    raise ArchiveError(
        f"{source.name}: the record at uncompressed offset {source.position} has "
        f"more than {_MAX_FIELDS} header fields"
    )
