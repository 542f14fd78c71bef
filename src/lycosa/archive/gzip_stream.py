"""Reads archives of other programs.

Plain, gzip (one member per record, or one for all) or zstd, read from front to end.

Memory is bounded: it has a window of the decompressed bytes, and the part of a record that the
reader requests.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import zstandard
from isal import isal_zlib

from lycosa.core.errors import ArchiveError

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

    def __init__(self, source: io.BufferedReader, name: str) -> None:
        self.name = name
        self.position = 0
        self._source = source

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

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            if self._inflater is None:
                # tapes padded with zeros
                start = (self._rest or self._source.read1(_PIECE)).lstrip(b"\0")
                self._rest = b""
                if not start:
                    if self._source.peek(1):
                        continue
                    return 0
                self._rest, self._inflater = start, isal_zlib.decompressobj(31)
            piece = self._inflater.unconsumed_tail or self._rest or self._source.read1(_PIECE)
            if not piece:
                raise EOFError("it ends inside a gzip member")
            self._rest = b""
            data = self._inflater.decompress(piece, len(buffer))
            if self._inflater.eof:
                self._rest, self._inflater = self._inflater.unused_data, None
            if data:
                buffer[: len(data)] = data
                return len(data)


def inflated(source: io.BufferedReader, name: str) -> Inflated:
    """Return the plain bytes of a file.

    The compression is detected from the first bytes.

    Raises:
        ArchiveError: the zstd dictionary cannot be used.
    """
    start = source.peek(4)[:4]
    if start[:2] == _GZIP:
        return Inflated(io.BufferedReader(_Members(source), _WINDOW), name)
    if start in (_ZSTD, _DICTIONARY):
        return Inflated(io.BufferedReader(_unzstd(source, name), _WINDOW), name)
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
