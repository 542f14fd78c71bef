"""The chunked transfer coding of HTTP/1.1 (RFC 9112 section 7.1), read leniently. Pure; never
raises.
"""

from __future__ import annotations

from typing import NamedTuple

_HEX = frozenset(b"0123456789abcdefABCDEF")
_MAX_DIGITS = 16  # 64 bits
_MAX_PARTS = 1024  # views that are joined later: each takes 184 bytes, even for a chunk of one


class Dechunked(NamedTuple):
    """`data` without the framing; `end`: length with the framing and trailers.

    `complete`: the last chunk was received. `broken`: the framing is invalid. Neither: the data is
    truncated.
    """

    data: bytes
    end: int
    complete: bool
    broken: bool


def dechunk(body: bytes) -> Dechunked:
    """Remove the framing; of a broken or cut body the data before the fault is returned."""
    view = memoryview(body)
    parts: list[memoryview] = []
    joined = bytearray()
    position, total = 0, len(body)

    def result(end: int, complete: bool, broken: bool) -> Dechunked:
        if joined:
            return Dechunked(bytes(joined + b"".join(parts)), end, complete, broken)
        return Dechunked(
            bytes(parts[0]) if len(parts) == 1 else b"".join(parts), end, complete, broken
        )

    while True:
        line_end = body.find(b"\n", position)
        if line_end < 0:
            rest = body[position:]
            return result(position, False, bool(rest.strip()) and chunk_size(rest) is None)
        size = chunk_size(body[position:line_end])
        if size is None:
            return result(position, False, True)
        start = line_end + 1
        if size == 0:
            end = _end_of_trailers(body, start)
            return result(end or total, end > 0, False)
        stop = start + size
        if len(parts) == _MAX_PARTS:
            joined += b"".join(parts)
            parts.clear()
        parts.append(view[start:stop])  # a slice past the end is the rest
        if stop > total:
            return result(total, False, False)
        if body.startswith(b"\r\n", stop):
            position = stop + 2
        elif body.startswith(b"\n", stop):
            position = stop + 1
        else:
            return result(min(stop, total), False, not b"\r\n".startswith(body[stop : stop + 2]))


def chunk_size(line: bytes) -> int | None:
    """Return the size in the first line of a chunk, None if it is invalid."""
    digits = line.partition(b";")[0].strip()
    if 0 < len(digits) <= _MAX_DIGITS and _HEX.issuperset(digits):
        return int(digits, 16)
    return None


def _end_of_trailers(body: bytes, start: int) -> int:
    """Return the end of the empty line after the last chunk; 0 if it is missing."""
    position = start
    while True:
        line_end = body.find(b"\n", position)
        if line_end < 0:
            return 0
        if not body[position:line_end].strip():
            return line_end + 1
        position = line_end + 1
