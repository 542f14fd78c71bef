"""Read responses from the archive for a report."""

from __future__ import annotations

import polars as pl

from lycosa.archive.warc.reader import read_rendered, read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, VisitKind
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteName

HTML_TYPES = ("text/html", "application/xhtml+xml")


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


def listed_urls(
    tables: LiveTables, name: SiteName, workspace: Workspace, max_decoded: int
) -> tuple[dict[str, str], set[str]]:
    """Read the newest complete version of each sitemap of a site that is still archived.

    Returns:
        The sitemap that lists each URL, and the sitemaps that were read.
    """
    visits = (
        tables.scan("visits")
        .filter(
            name.rows()
            & pl.col("http_status").is_between(200, 299)
            & (pl.col("kind") == VisitKind.SITEMAP.value)
            & (pl.col("warc_file") != "")
        )
        .sort("fetched_at", descending=True)
        .select("url", "warc_file", "warc_offset", "warc_length")
    )
    sitemap_of: dict[str, str] = {}
    sitemaps: set[str] = set()
    for url, file, offset, length in visits.collect().iter_rows():
        if url in sitemaps:
            continue
        try:
            exchange = archived_exchange(url, workspace.path(file), offset, length)
        except (ArchiveError, FileNotFoundError):
            continue
        if exchange is None:
            continue
        payload = decode_body(exchange, max_decoded).payload
        sitemaps.add(url)
        listed = read_sitemap(payload, url, content_type=content_type_of(exchange))
        for entry in listed.entries:
            sitemap_of.setdefault(entry.url, url)
    return sitemap_of, sitemaps
