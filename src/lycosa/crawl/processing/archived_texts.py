"""Read archived versions of pages again, to compare them with later ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange
from lycosa.crawl.processing.page_reader import ParseFunction


class ArchivedPlace(NamedTuple):
    """The columns of `visits` that name a record. `file` is "" without one."""

    file: str
    offset: int
    length: int
    truncated: str


def archived_exchange(
    url: str,
    path: str,
    offset: int,
    length: int,
    *,
    truncated: str = "",
    with_rendered: bool = False,
) -> Exchange | None:
    """Return the response of a WARC record; None if it is a revisit, or has no HTTP header.

    `truncated`: as its visit states it.

    Raises:
        ArchiveError: the record is damaged.
        FileNotFoundError: the file does not exist.
    """
    response = read_response(path, offset, length)
    if not response.head or response.headers.get("warc-type") == "revisit":
        return None
    rendered = read_rendered(path, offset + length) if with_rendered else b""
    return response.exchange(url, truncated=truncated, rendered=rendered)


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
        exchange = archived_exchange(
            url, locate(file), offset, length, truncated=truncated, with_rendered=with_rendered
        )
    except (ArchiveError, FileNotFoundError):
        return None
    if exchange is None:
        return None
    page = parse(exchange).page
    return None if page is None else page.text
