"""The JSON of metadata records, from which the visit and the exchange can be rebuilt exactly.

One object with two members: `visit` is the row of `visits`, `exchange` the fields that the row does
not have. Fields at their default, and fields of the exchange that equal the visit's, are omitted.
Bytes that could not be written as a request or response record (a response that is no HTTP message)
are included in BASE64.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, NamedTuple

from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, Visit

CONTENT_TYPE = "application/json"

# The location of a record is known only after it is written: the reader sets these fields.
_PLACE = ("record_id", "warc_file", "warc_offset", "warc_length")
_VISIT_FIELDS = tuple(item.name for item in fields(Visit) if item.name not in _PLACE)
_VISIT_DEFAULTS = tuple(
    object() if item.default is MISSING else item.default
    for item in fields(Visit)
    if item.name not in _PLACE
)
_visit_values = attrgetter(*_VISIT_FIELDS)

# Exchange field -> the field of the visit that usually has the same value
_SHARED = {
    "url": "url",
    "kind": "kind",
    "started_at": "fetched_at",
    "duration_ms": "duration_ms",
    "ip": "ip",
    "protocol": "protocol",
    "status": "http_status",
    "error": "error",
    "truncated": "truncated",
}
_shared_exchange = attrgetter(*_SHARED)
_shared_visit = attrgetter(*_SHARED.values())
_BYTES = ("request_head", "response_head", "body")

_START = b'{"visit":{'
# ASCII output escapes lone surrogates, which UTF-8 cannot encode
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


class Revisited(NamedTuple):
    """The earlier capture that a revisit record refers to. Always of the same URL."""

    url: str
    fetched_at: int
    record_id: str
    digest: str


class Wire(NamedTuple):
    """How the bytes of an exchange were put into records."""

    records: int  # how many records the exchange has, this one included
    # the original first line (latin-1, with its line end) where it was rewritten; else ""
    request_line: str
    status_line: str
    leftover: dict[str, bytes]  # the parts of `_BYTES` that are in no record


class ParsedMetadata(NamedTuple):
    """A metadata record, combined with the other records of its exchange."""

    exchange: Exchange
    visit: Visit
    revisit_of: Revisited | None
    records: int


def encode(exchange: Exchange, visit: Visit, wire: Wire, revisit_of: Revisited | None) -> bytes:
    """Return the block of the metadata record."""
    row = {
        name: value
        for name, value, default in zip(
            _VISIT_FIELDS, _visit_values(visit), _VISIT_DEFAULTS, strict=True
        )
        if value != default
    }
    rest: dict[str, Any] = {}
    shared, same = _shared_exchange(exchange), _shared_visit(visit)
    if shared != same:
        rest = {
            name: value
            for name, value, other in zip(_SHARED, shared, same, strict=True)
            if value != other
        }
    if exchange.error_text:
        rest["error_text"] = exchange.error_text
    if exchange.first_byte_ms:
        rest["first_byte_ms"] = exchange.first_byte_ms
    if exchange.connect_ms:
        rest["connect_ms"] = exchange.connect_ms
    if wire.request_line:
        rest["request_line"] = wire.request_line
    if wire.status_line:
        rest["status_line"] = wire.status_line
    for name, data in wire.leftover.items():
        rest[name] = b64encode(data).decode()
    document: dict[str, Any] = {"visit": row, "exchange": rest, "records": wire.records}
    if revisit_of is not None:
        document["revisit_of"] = revisit_of._asdict()
    return _encode(document).encode()


def decode(block: bytes, request_head: bytes, response_head: bytes, body: bytes) -> ParsedMetadata:
    """Parse a block that `encode` wrote.

    The bytes are those of the request and response records, empty where there is none.

    Raises:
        ArchiveError: the block does not have the format that `encode` writes.
    """
    try:
        document = json.loads(block)
        visit = Visit(**document["visit"])
        rest = document["exchange"]
        exchange = Exchange(
            url=rest.get("url", visit.url),
            kind=rest.get("kind", visit.kind),
            started_at=rest.get("started_at", visit.fetched_at),
            duration_ms=rest.get("duration_ms", visit.duration_ms),
            ip=rest.get("ip", visit.ip),
            protocol=rest.get("protocol", visit.protocol),
            request_head=original_head(request_head, rest.get("request_line", "")),
            response_head=original_head(response_head, rest.get("status_line", "")),
            body=body,
            status=rest.get("status", visit.http_status),
            error=rest.get("error", visit.error),
            error_text=rest.get("error_text", ""),
            truncated=rest.get("truncated", visit.truncated),
            first_byte_ms=rest.get("first_byte_ms", 0),
            connect_ms=rest.get("connect_ms", 0),
        )
        for name in _BYTES:
            if name in rest:
                setattr(exchange, name, b64decode(rest[name], validate=True))
        target = document.get("revisit_of")
        return ParsedMetadata(
            exchange, visit, None if target is None else Revisited(**target), document["records"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError(
            f"the metadata record was written by another program or version: {error!r}"
        ) from None


def is_ours(content_type: str, block: bytes) -> bool:
    """Return whether `encode` wrote a metadata record."""
    return content_type == CONTENT_TYPE and block.startswith(_START)


def original_head(head: bytes, first_line: str) -> bytes:
    """Return an archived head with its original first line, if that was rewritten."""
    return head if not first_line else first_line.encode("latin-1") + head[head.index(b"\n") + 1 :]
