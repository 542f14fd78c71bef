"""Decodes content codings (RFC 9110 section 8.4.1, RFC 7932, RFC 8878) up to a size limit.

Pure; never raises. A decompression bomb costs no more than a page of the maximum size.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import brotli
import zstandard
from isal import igzip_lib, isal_zlib

# its stubs call the class an instance
_ISAL_ERROR: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_WINDOW = 8 * 2**20  # RFC 9659: receivers need not support more
_ZSTD_HEAD = 18  # bytes of a frame's head, at most
_ZSTD_SKIPPED = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18.{4}", re.DOTALL)
_ZSTD_REPEATED = 1  # a block that is one byte, many times
_FAULT_PIECE = 64  # bytes decoded at once to locate an error; the output of one piece may be lost
# Bytes that are fed at once after the first member of gzip: the rest of each piece is copied, and
# a body may have 500,000 members.
_LATER_MEMBERS = 16_384
_SAMPLE = 512
_TEXT_CONTROLS = frozenset(b"\t\n\f\r\x1b")  # escape: ISO 2022 charsets


class Plain(NamedTuple):
    """`data`: the decoded bytes. `more`: there are more than the limit. `short`: the input stopped
    early. `broken`: the input is invalid.
    """

    data: bytes
    more: bool = False
    short: bool = False
    broken: bool = False


def looks_like_text(data: bytes) -> bool:
    """Return whether the first bytes have no control characters, unlike compressed data."""
    return not any(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in data[:_SAMPLE])


def gunzip(data: bytes, limit: int) -> Plain:
    """Unpack gzip (RFC 1952), with several members.

    Bytes after the last member are ignored.
    """
    parts: list[bytes] = []
    left, start, piece = limit, 0, len(data)
    while data.startswith(_GZIP_MAGIC, start):
        member = isal_zlib.decompressobj(31)
        at, before, left_before = start, len(parts), left
        while at < len(data) and left >= 0 and not member.eof:
            fed = data[at : at + piece]
            try:
                part = member.decompress(fed, left + 1)
            except _ISAL_ERROR:
                part = _readable_prefix(
                    zlib.decompressobj(31).decompress, data[start:], left_before
                )
                return _cut(b"".join([*parts[:before], part]), limit, broken=True)
            at += len(fed)
            left -= len(part)
            parts.append(part)
        if left < 0:
            return _cut(b"".join(parts), limit)
        if not member.eof:
            return Plain(b"".join(parts), short=True)
        start, piece = at - len(member.unused_data), _LATER_MEMBERS
    if not parts:
        return Plain(b"", broken=True)
    return Plain(parts[0] if len(parts) == 1 else b"".join(parts))


def inflate(data: bytes, limit: int) -> Plain:
    """Decode `deflate`: zlib (RFC 1950) as specified, or the bare stream (RFC 1951) that many
    servers send.
    """
    zlib_header = (
        len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    )
    first, second = (15, -15) if zlib_header else (-15, 15)
    plain = _inflate(data, limit, first)
    if plain.broken and not plain.data:
        other = _inflate(data, limit, second)
        if other.data:
            return other
    return plain


def _inflate(data: bytes, limit: int, window: int) -> Plain:
    stream = zlib.decompressobj(window)
    try:
        part = stream.decompress(data, limit + 1)
    except zlib.error:
        return _cut(
            _readable_prefix(zlib.decompressobj(window).decompress, data, limit), limit, broken=True
        )
    if len(part) > limit:
        return _cut(part, limit)
    return Plain(part, short=not stream.eof)


def _readable_prefix(decode: Callable[[bytes, int], bytes], data: bytes, limit: int) -> bytes:
    """Return the decoded bytes before an error, by decoding a few bytes at a time.

    A call that raises loses its output.
    """
    decoded = bytearray()
    for start in range(0, len(data), _FAULT_PIECE):
        try:
            decoded += decode(data[start : start + _FAULT_PIECE], limit - len(decoded) + 1)
        except (zlib.error, brotli.error):
            break
        if len(decoded) > limit:
            break
    return bytes(decoded)


def unbrotli(data: bytes, limit: int) -> Plain:
    """Decode br (RFC 7932)."""
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    total, rest = 0, data
    try:
        while total <= limit:
            part = stream.process(rest, output_buffer_limit=limit - total + 1)
            rest = b""
            parts.append(part)
            total += len(part)
            if stream.is_finished() or stream.can_accept_more_data():
                break
    except brotli.error:
        decode = brotli.Decompressor().process
        prefix = b"".join(parts) or _readable_prefix(
            lambda piece, most: decode(piece, output_buffer_limit=most), data, limit
        )
        return _cut(prefix, limit, broken=True)
    if total > limit:
        return _cut(b"".join(parts), limit)
    return Plain(b"".join(parts), short=not stream.is_finished())


def unzstd(data: bytes, limit: int) -> Plain:
    """Decode zstd (RFC 8878), several frames; the window is limited as in RFC 9659."""
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(
        data, read_across_frames=True
    )
    decoded = bytearray()
    try:
        while len(decoded) <= limit:
            part = reader.read(min(limit - len(decoded) + 1, 2**18))
            if not part:
                break
            decoded += part
    except zstandard.ZstdError:
        return _cut(bytes(decoded), limit, broken=True)
    if len(decoded) > limit:
        return _cut(bytes(decoded), limit)
    return Plain(bytes(decoded), short=not _zstd_ends(data))


def _zstd_ends(data: bytes) -> bool:
    """Return whether the last frame is complete (RFC 8878 section 3.1), which the bounded reader
    does not report. Its content is not decoded.
    """
    at = 0
    while at < len(data):
        if _ZSTD_SKIPPED.match(data, at):
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        start = data[at : at + _ZSTD_HEAD]
        try:
            checksum = zstandard.get_frame_parameters(start).has_checksum
            at += zstandard.frame_header_size(start)
        except zstandard.ZstdError:
            return False
        last = 0
        while not last:
            block = int.from_bytes(data[at : at + 3], "little")
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            at += 3 + (1 if kind == _ZSTD_REPEATED else size)
            if at > len(data):
                return False
        at += 4 if checksum else 0
    return at == len(data)


def _cut(data: bytes, limit: int, *, broken: bool = False) -> Plain:
    more = len(data) > limit
    return Plain(data[:limit] if more else data, more=more, broken=broken and not more)


CODINGS: Mapping[str, Callable[[bytes, int], Plain]] = {
    "gzip": gunzip,
    "x-gzip": gunzip,
    "deflate": inflate,
    "br": unbrotli,
    "zstd": unzstd,
}
"""Decoders by the name in Content-Encoding."""
