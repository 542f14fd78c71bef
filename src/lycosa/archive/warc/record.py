"""WARC/1.1 records as bytes: header fields, digests, identifiers, gzip members. No I/O.

Every record is one gzip member of its own (WARC/1.1 annex D), so that a record can be read by its
offset alone.

An HTTP/2 or HTTP/3 message has no text form of its own. As readers expect (iipc/warc-specifications
issues 15 and 42), its head is written in HTTP/1.1 syntax and the field `WARC-Protocol` has the
protocol of the exchange.
"""

from __future__ import annotations

import hashlib
import re
import struct
import uuid
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus

from isal import isal_zlib

from lycosa.core.units import format_time

WARC_VERSION = "WARC/1.1"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
PROFILE_IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
PROFILE_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"

RENDERED_TYPE = "text/html; charset=utf-8"
"""Content-Type of a `conversion` record, a document rendered by a browser."""

RECORD_LIMIT_BYTES = 1 << 30
"""Maximum block size of a record. Writer and reader load whole records."""

# isal's level 2 is ten times as fast as zlib's 6 at 1.2 times the size (bench/network.py); small
# records differ little.
_LEVEL = 2
# deflate, no name, no time: equal input gives equal bytes
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_STORED_BLOCK = 65_535  # maximum size of a stored deflate block (RFC 1951 section 3.2.4)
_RECORD_END = b"\r\n\r\n"

_COMPRESSED = re.compile(
    rb"\ncontent-encoding:[ \t]*(?:gzip|x-gzip|br|deflate|zstd)"
    rb"|\ncontent-type:[ "
    rb"\t]*(?:image/(?:jpeg|png|gif|webp|avif)|video/|audio/|application/(?:zip|gzip|x-gzip)"
    rb"|font/woff2)",
    re.IGNORECASE,
)
_HTTP1_STATUS = re.compile(rb"HTTP/1\.[01] [0-9]{3}(?: [^\r\n]*)?\r\n")
_LATER_STATUS = re.compile(rb"HTTP/[23](?:\.0)? ([0-9]{3})[^\r\n]*\r\n")
_HTTP1_REQUEST = re.compile(rb"(?:GET|HEAD|POST|PUT|OPTIONS) [^\r\n]* HTTP/1\.[01]\r\n")
_OTHER_STATUS = re.compile(
    rb"HTTP/(1\.0)?[0-9.]*[ \t]+([0-9]{3})(?![0-9])[ \t]*(.*)", re.IGNORECASE
)
_LATER_REQUEST = re.compile(rb"((?:GET|HEAD|POST|PUT|OPTIONS) [^\r\n]* )HTTP/[23](?:\.0)?\r\n")
# warcio also strips non-ASCII spaces
_EMPTY_LINE = re.compile(rb"\n[\x00-\x09\x0b-\x20\x7f-\xff]*\n")
_LINE_END = re.compile(rb"\r?\n")
_BLANK = bytes({*range(0x21), *range(0x7F, 0x100)})
_UNSAFE = re.compile(r"[^!-~]")
_PAIRS = tuple(
    high + low
    for high in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    for low in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)
_sha1_words = struct.Struct(">QQI").unpack
_REASONS = {str(status.value).encode(): status.phrase.encode() for status in HTTPStatus}


def new_record_id() -> str:
    """Return a fresh `urn:uuid:` of version 4 (RFC 9562 section 5.4)."""
    return uuid.uuid4().urn


@lru_cache(maxsize=64)
def _seconds(at_s: int) -> str:
    return format_time(at_s * 1000)[:-1]


def warc_date(at_ms: int) -> str:
    """Format milliseconds since 1970 as `2026-11-21T10:26:18.123Z`.

    WARC/1.1 section 5.4 allows fractions.
    """
    seconds, rest = divmod(at_ms, 1000)
    return f"{_seconds(seconds)}.{rest:03d}Z"


def sha1_digest(data: bytes, more: bytes = b"") -> str:
    """Return `sha1:BASE32`, the format of WARC-Block-Digest."""
    digest = hashlib.sha1(data, usedforsecurity=False)
    if more:
        digest.update(more)
    a, b, c = _sha1_words(digest.digest())
    # pairs of letters, ten bits each: four times as fast as base64.b32encode
    pairs = _PAIRS
    return (
        f"sha1:{pairs[a >> 54]}{pairs[a >> 44 & 1023]}{pairs[a >> 34 & 1023]}"
        f"{pairs[a >> 24 & 1023]}{pairs[a >> 14 & 1023]}{pairs[a >> 4 & 1023]}"
        f"{pairs[(a & 15) << 6 | b >> 58]}{pairs[b >> 48 & 1023]}{pairs[b >> 38 & 1023]}"
        f"{pairs[b >> 28 & 1023]}{pairs[b >> 18 & 1023]}{pairs[b >> 8 & 1023]}"
        f"{pairs[(b & 255) << 2 | c >> 30]}{pairs[c >> 20 & 1023]}{pairs[c >> 10 & 1023]}"
        f"{pairs[c & 1023]}"
    )


def field_value(text: str) -> str:
    """Return a text as a field value; characters that could end the line are percent-encoded."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass")),
        text,
    )


def archived_response_head(head: bytes) -> bytes | None:
    """Return the head for a response record; None if readers would not parse it as HTTP.

    HTTP/1 heads are unchanged. The status line of a later version becomes HTTP/1.1 with the
    standard reason phrase. Heads that warcio or fastwarc cannot parse would make every later record
    of the file unreadable for them. If clients accept such a head (lines that end with LF, other
    spaces in the status line), it is written in the form of RFC 9112; else it is None.
    """
    archived = _archived(head, _HTTP1_STATUS, _LATER_STATUS, _status_line)
    return archived or _archived(_repaired(head), _HTTP1_STATUS, _LATER_STATUS, _status_line)


def archived_request_head(head: bytes) -> bytes | None:
    """Return the head of a request as it is archived."""
    return _archived(head, _HTTP1_REQUEST, _LATER_REQUEST, lambda match: match[1] + b"HTTP/1.1\r\n")


def _archived(
    head: bytes,
    http1: re.Pattern[bytes],
    later: re.Pattern[bytes],
    rewrite: Callable[[re.Match[bytes]], bytes],
) -> bytes | None:
    end = _EMPTY_LINE.search(head)
    if end is None or end.end() != len(head) or not head.endswith(b"\r\n\r\n"):
        return None
    if http1.match(head):
        return head
    match = later.match(head)
    return None if match is None else rewrite(match) + head[match.end() :]


def _repaired(head: bytes) -> bytes:
    lines = [line for line in _LINE_END.split(head) if line.strip(_BLANK)]
    whole = head.endswith((b"\n\n", b"\n\r\n"))
    match = _OTHER_STATUS.fullmatch(lines[0]) if lines and whole else None
    if match is None:
        return b""
    status = b"HTTP/%s %s %s" % (match[1] or b"1.1", match[2], match[3].strip())
    return b"\r\n".join((status, *lines[1:])) + b"\r\n\r\n"


def _status_line(match: re.Match[bytes]) -> bytes:
    return b"HTTP/1.1 %s %s\r\n" % (match[1], _REASONS.get(match[1], b""))


def is_compressed(head: bytes) -> bool:
    """Return whether a response head declares a body that is compressed already."""
    return _COMPRESSED.search(head) is not None


def gzip_record(fields: str, head: bytes, body: bytes, *, store_body: bool) -> bytes:
    """Return a record as a gzip member. `fields` are the WARC fields without Content-Length, each
    with its CRLF.

    With `store_body` the fields and the head are compressed and the body follows in stored deflate
    blocks: a compressed body is not compressed again, and grows by 5 bytes per 64 KiB.
    """
    start = (
        f"{WARC_VERSION}\r\n{fields}Content-Length: {len(head) + len(body)}\r\n\r\n".encode() + head
    )
    if not store_body:
        return isal_zlib.compress(b"%s%s%s" % (start, body, _RECORD_END), _LEVEL, 31)
    compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, -15)
    # A sync flush ends at a byte, so whole stored blocks may follow (RFC 1951 section 3.2.4).
    parts = [_GZIP_HEADER, compressor.compress(start), compressor.flush(isal_zlib.Z_SYNC_FLUSH)]
    rest = body + _RECORD_END
    for at in range(0, len(rest), _STORED_BLOCK):
        block = rest[at : at + _STORED_BLOCK]
        final = at + _STORED_BLOCK >= len(rest)
        parts.append(
            b"%c%s%s"
            % (final, len(block).to_bytes(2, "little"), (len(block) ^ 0xFFFF).to_bytes(2, "little"))
        )
        parts.append(block)
    checksum = isal_zlib.crc32(rest, isal_zlib.crc32(start))
    parts.append(checksum.to_bytes(4, "little"))
    parts.append(((len(start) + len(rest)) & 0xFFFFFFFF).to_bytes(4, "little"))
    return b"".join(parts)
