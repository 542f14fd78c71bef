"""Parses response heads and decodes bodies to the payload. Pure; never raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange
from lycosa.http.chunked import dechunk
from lycosa.http.codings import CODINGS, looks_like_text

MAX_CODINGS = 3
"""Maximum number of content codings; real pages have one, rarely two by mistake."""

_HEADS = 32
"""Cached heads: each is parsed when the body begins and again when it has ended."""

_ASCII = bytes(range(128))
_FOLDED = frozenset(" \t")
_STATUS_LINE = re.compile(
    rb"\s*HTTP/(\d+(?:\.\d+)?)[ \t]+(\d{3})(?!\d)[ \t]*([^\r\n]*)", re.IGNORECASE
)

_USUAL_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?:;[^,]*)?", re.ASCII)
_LIST_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
_MEDIA_TYPE = re.compile(r'\s*"?([^\s;/"]+/[^\s;/"]+)"?[\s;]*(.*)', re.DOTALL)


class Headers:
    """The immutable fields of one head. Names are case-insensitive and keep their order;
    `status` is 0 without a status line.
    """

    __slots__ = ("_fields", "reason", "status")

    def __init__(self, status: int, reason: str, fields: dict[str, list[str]]) -> None:
        self.status = status
        self.reason = reason
        self._fields = fields

    def get(self, name: str) -> str | None:
        """Return the first value of a field."""
        values = self._fields.get(name.lower())
        return values[0] if values else None

    def get_all(self, name: str) -> list[str]:
        """Return all values of a field, one per line."""
        return list(self._fields.get(name.lower(), ()))

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield (lower-case name, value) of every line, grouped by name."""
        for name, values in self._fields.items():
            for value in values:
                yield name, value

    def tokens(self, name: str) -> list[str]:
        """Return the elements of a list-valued field in lower case (RFC 9110 section 5.6.1)."""
        values = self._fields.get(name)
        if not values:
            return []
        return [
            token
            for token in (part.strip().lower() for part in ",".join(values).split(","))
            if token
        ]


@lru_cache(_HEADS)
def parse_head(head: bytes) -> Headers:
    """Read a status line and fields (RFC 9112 sections 4 and 5), with LF or CRLF, folded lines and
    junk lines.

    Bytes are UTF-8 where they are valid UTF-8 and ISO 8859-1 where not; in Location such bytes are
    percent-encoded, as in browsers.
    There is at most one Content-Type. Hot path.
    """
    match = _STATUS_LINE.match(head)
    status = int(match[2]) if match else 0
    fields: dict[str, list[str]] = {}
    try:
        lines = head.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        lines = [_decode(line) for line in head.split(b"\n")]
    last: list[str] | None = None
    if match:
        del lines[0]
    for line in lines:
        # folded (RFC 9112 section 5.2): continues the previous line
        if line[:1] in _FOLDED and line.strip():
            if last is not None:
                last[-1] = f"{last[-1]} {_value(line)}".strip()
            continue
        name, colon, value = line.partition(":")
        if not colon:
            last = None
            continue
        value = value.strip()
        if "\r" in value:
            value = _value(value)
        name = name.strip().lower()
        last = fields.get(name)
        if last is None:
            fields[name] = last = [value]
        else:
            last.append(value)
    types = fields.get("content-type")
    if types and (len(types) > 1 or not _USUAL_TYPE.fullmatch(types[0])):
        fields["content-type"] = [_content_type(types)]
    return Headers(status, _decode(match[3]).strip() if match else "", fields)


def _content_type(values: list[str]) -> str:
    """Return one media type for several, or for one without a semicolon before its charset.

    As in browsers (Fetch, "extract a MIME type") the last valid one counts. One without parameters
    has those of an equal one before it.
    """
    last = parameters = ""
    for element in _LIST_ELEMENT.findall(",".join(values)):
        match = _MEDIA_TYPE.match(element)
        if match and match[1] != "*/*":
            name = match[1].lower()
            parameters = match[2].strip() or (parameters if name == last else "")
            last = name
    return f"{last}; {parameters}" if parameters else last or values[0]


def _value(text: str) -> str:
    stripped = text.strip()
    # a bare CR (RFC 9112 section 2.2)
    return stripped.replace("\r", " ") if "\r" in stripped else stripped


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        if line[:9].lower() == b"location:":
            return quote_from_bytes(line, _ASCII)
        return line.decode("latin-1")


def content_type_of(exchange: Exchange) -> str:
    """Return the value of Content-Type; "" without one."""
    return parse_head(exchange.response_head).get("content-type") or ""


class DecodedBody(NamedTuple):
    """`payload`: the body without framing and content codings. `error`: a FetchError value or "".
    `truncated`: it is incomplete.
    """

    payload: bytes
    error: str
    truncated: bool


def decode_body(exchange: Exchange, limit: int) -> DecodedBody:
    """Undo chunk framing and Content-Encoding (RFC 9110 section 8.4), giving at most `limit` bytes.

    The bytes decoded before an error are returned. Memory is bounded by the body plus a few times
    `limit`, regardless of the decompressed size. Plain text that is labelled with a coding is
    returned unchanged. Hot path.
    """
    headers = parse_head(exchange.response_head)
    data, error, truncated = exchange.body, "", exchange.truncated != ""
    transfer = headers.tokens("transfer-encoding")
    if "chunked" in transfer and data:
        framed = dechunk(data)
        if framed.data or framed.complete or not framed.broken:
            data = framed.data
            truncated = truncated or not framed.complete
        if not framed.complete and not exchange.truncated:
            error = FetchError.INCOMPLETE.value
    codings = [
        coding
        for coding in (*headers.tokens("content-encoding"), *transfer)
        if coding not in ("identity", "chunked")
    ]
    if len(codings) > MAX_CODINGS:
        return DecodedBody(b"", FetchError.BAD_ENCODING.value, True)
    for coding in reversed(codings):
        if not data:
            break
        decoder = CODINGS.get(coding)
        if decoder is None:
            if looks_like_text(data):
                continue  # a charset or a file name instead of a coding
            return DecodedBody(b"", FetchError.BAD_ENCODING.value, True)
        plain = decoder(data, limit)
        if plain.broken and not plain.data and looks_like_text(data):
            continue  # labelled, but never encoded
        data = plain.data
        if plain.broken or (plain.short and not truncated):
            error = error or FetchError.BAD_ENCODING.value
        truncated = truncated or plain.more or plain.short or plain.broken
    if len(data) > limit:
        return DecodedBody(data[:limit], error, True)
    return DecodedBody(data, error, truncated)
