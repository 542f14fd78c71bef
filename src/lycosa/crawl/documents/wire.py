"""What passes between the crawl and the processes that read documents. JSON and not pickles: a
child that a hostile file has taken over can send any bytes, and must not be able to run code here
with them.

A job is two memory files (a line that names URL and headers, then the answer's body; room for the
page) and the length of that line.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

from lycosa.core.records import Alternate, Exchange, Link, Page

T = TypeVar("T")

MAX_REPLY = 128 * 2**20
"""Bytes of a page on its way back: the longest text that is kept, in JSON's escapes, and its links.
"""

CLOCK_SHARE = 5
"""A document may take so much longer by the clock than by its CPU time: the machine has other work,
and reading waits for nothing.
"""

READY = b"r"
DONE = b"d"
_NAMES = frozenset(field.name for field in fields(Page))


class BadReply(Exception):
    """What came back is no page."""


@dataclass(slots=True, frozen=True)
class ParseRequest:
    """One answer to be read. Sizes in bytes."""

    url: str
    response_head: str  # latin-1
    truncated: str
    max_decoded: int
    product_token: str

    def encode(self) -> bytes:
        """The line that is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, line: bytes) -> ParseRequest:
        """The order of a line."""
        return cls(**json.loads(line))

    def exchange(self, body: bytes) -> Exchange:
        """As much of the exchange as reading needs."""
        return Exchange(
            self.url,
            "page",
            0,
            0,
            response_head=self.response_head.encode("latin-1"),
            body=body,
            status=200,
            truncated=self.truncated,
        )


def encode_reply(page: Page | None, error: str, truncated: bool) -> bytes:
    """A page, or why there is none, for the way back."""
    return json.dumps(
        {"page": None if page is None else asdict(page), "error": error, "truncated": truncated}
    ).encode()


def decode_reply(data: bytes) -> tuple[Page | None, str, bool]:
    """What `encode_reply` made.

    Raises:
        BadReply: it did not.
    """
    try:
        reply = json.loads(data)
        fields_ = reply["page"]
        page = None
        if fields_ is not None:
            if set(fields_) - _NAMES:
                raise BadReply("unknown fields")
            fields_["links"] = [_link(each) for each in fields_["links"]]
            fields_["alternates"] = [
                Alternate(_as(str, each[0]), _as(str, each[1])) for each in fields_["alternates"]
            ]
            for name in ("language_score", "language_share"):
                fields_[name] = float(fields_[name])
            page = Page(**fields_)
            _check(page)
        return page, _as(str, reply["error"]), _as(bool, reply["truncated"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadReply(str(error)) from None


def _link(each: list[object]) -> Link:
    target, anchor, rel, kind, position = each
    return Link(
        _as(str, target), _as(str, anchor), _as(str, rel), _as(str, kind), _as(int, position)
    )


def _check(page: Page) -> None:
    """Every field is of the type that the tables take."""
    for name in (
        "title",
        "headline",
        "description",
        "main_text",
        "text",
        "language",
        "declared_language",
        "page_type",
        "charset",
    ):
        _as(str, getattr(page, name)).encode()
    for name in ("size", "text_digest", "simhash"):
        if not 0 <= _as(int, getattr(page, name)) < 2**64:
            raise BadReply(name)
    for name in ("headings", "other_languages", "faults"):
        for each in _as(list, getattr(page, name)):
            _as(str, each)
    for name in ("published_at", "canonical"):
        if getattr(page, name) is not None:
            _as(int if name == "published_at" else str, getattr(page, name))
    _as(bool, page.may_index)
    _as(bool, page.may_follow)
    for reason, number in _as(dict, page.refused).items():
        _as(str, reason)
        _as(int, number)


def _as(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise BadReply(f"{value!r:.40} is not of type {kind.__name__}")
    return value


def write_all(descriptor: int, data: bytes) -> None:
    """Write to a memory file, however many calls that takes."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a memory file."""
    pieces = []
    position = 0
    while position < size:
        piece = os.pread(descriptor, size - position, position)
        if not piece:
            break
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)
