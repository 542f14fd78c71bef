"""Read archived versions of pages again, to compare them with later ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, VisitKind
from lycosa.crawl.processing.page_reader import ParseFunction
from lycosa.http.decode import parse_head


class ArchivedPlace(NamedTuple):
    """The columns of `visits` that name a record. `file` is "" without one."""

    file: str
    offset: int
    length: int
    truncated: str


def archived_exchange(
    url: str, path: str, offset: int, length: int, *, with_rendered: bool = False
) -> Exchange | None:
    """Return the response of a WARC record; None if it is a revisit, or has no HTTP header.

    Raises:
        ArchiveError: the record is damaged.
        FileNotFoundError: the file does not exist.
    """
    response = read_response(path, offset, length)
    if not response.head or response.headers.get("warc-type") == "revisit":
        return None
    return Exchange(
        url,
        VisitKind.PAGE,
        started_at=0,
        duration_ms=0,
        response_head=response.head,
        body=response.body,
        status=response.status,
        rendered=read_rendered(path, offset + length) if with_rendered else b"",
    )


def archived_text(
    url: str,
    place: ArchivedPlace,
    parse: ParseFunction,
    locate: Callable[[str], str],
    *,
    with_rendered: bool,
) -> str | None:
    """Return the text of an archived version of a page; None if it cannot be read any more.

    `locate` returns the path of a WARC file.
    """
    file, offset, length, truncated = place
    if not file:
        return None
    try:
        exchange = archived_exchange(url, locate(file), offset, length, with_rendered=with_rendered)
    except (ArchiveError, FileNotFoundError):
        return None
    if exchange is None:
        return None
    exchange = replace(exchange, truncated="" if truncated == "decoded" else truncated)
    page = parse(exchange, parse_head(exchange.response_head)).page
    return None if page is None else page.text
