"""Messages between the crawl and the processes that parse documents.

Requests are pickled: the crawl is trusted. Replies are JSON, validated field by field: a child
under the control of a hostile file can send any bytes, which must not run code here.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, ValidationError

from lycosa.core.dataclass import dataclass
from lycosa.core.records import Page

MAX_REPLY = 128 * 2**20
"""Maximum size of a reply: the longest stored text as JSON, and its links."""

CLOCK_SHARE = 5
"""Wall-clock limit of a document as a multiple of its CPU limit: the machine has other work."""

READY = b"ready"


class BadReply(Exception):
    """A reply that is not a page."""


@dataclass(slots=True, frozen=True)
class DocumentLimits:
    """Limits for parsing documents.

    `processes`: number of processes; 0: no document is parsed. `timeout_ms`: CPU time; the limit of
    wall-clock time is `CLOCK_SHARE` times that.
    """

    processes: int = 2
    timeout_ms: int = 20_000
    memory: int = 2**30  # bytes of address space
    max_decoded: int = 40 * 2**20
    product_token: str = "lycosa"


class _Reply(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    page: Page | None
    error: str
    truncated: bool


def encode_reply(page: Page | None, error: str, truncated: bool) -> bytes:
    """Encode a page, or the error if there is none."""
    return json.dumps(
        {"page": None if page is None else asdict(page), "error": error, "truncated": truncated}
    ).encode()


def decode_reply(data: bytes) -> tuple[Page | None, str, bool]:
    """Decode a reply of `encode_reply`.

    Raises:
        BadReply: the data has another form, or a field has a value that the tables cannot store.
    """
    try:
        reply = _Reply.model_validate_json(data)
    except ValidationError as error:
        raise BadReply(str(error)) from None
    page = reply.page
    if page is not None and not (
        all(0 <= number < 2**64 for number in (page.size, page.text_digest, page.simhash))
        and all(abs(number or 0) < 2**53 for number in _dates_and_counts(page))
    ):
        raise BadReply("a number is out of range")
    if page is not None and page.items:
        raise BadReply("a document has no items")
    return page, reply.error, reply.truncated


def _dates_and_counts(page: Page) -> tuple[int | None, ...]:
    declared = page.metadata
    return (
        page.published_at,
        declared.published_at,
        declared.modified_at,
        declared.rating_count,
    )
