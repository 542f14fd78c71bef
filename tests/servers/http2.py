"""Reading what a client says over HTTP/2, as far as tests that answer wrongly need it."""

from __future__ import annotations

_PREFACE = 24
_FRAME_HEAD = 9
_HEADERS = 1


def has_request(heard: bytes) -> bool:
    """Whether, after the preface, a HEADERS frame has begun (RFC 9113 sections 3.4 and 4.1)."""
    place = _PREFACE
    while place + _FRAME_HEAD <= len(heard):
        if heard[place + 3] == _HEADERS:
            return True
        place += _FRAME_HEAD + int.from_bytes(heard[place : place + 3], "big")
    return False
