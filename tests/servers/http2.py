"""Detect a client's request on an HTTP/2 connection."""

from __future__ import annotations

_PREFACE_BYTES = 24
_FRAME_HEAD_BYTES = 9
_HEADERS = 1


def has_request(data: bytes) -> bool:
    """Return whether the data contains the start of a HEADERS frame.

    `data` begins with the connection preface (RFC 9113 sections 3.4 and 4.1).
    """
    offset = _PREFACE_BYTES
    while offset + _FRAME_HEAD_BYTES <= len(data):
        if data[offset + 3] == _HEADERS:
            return True
        offset += _FRAME_HEAD_BYTES + int.from_bytes(data[offset : offset + 3], "big")
    return False
