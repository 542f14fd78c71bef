"""Read responses from the archive for a report."""

from __future__ import annotations

import polars as pl

from lycosa.core.errors import ArchiveError
from lycosa.core.records import VisitKind
from lycosa.crawl.processing.archived_texts import archived_exchange
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteName

HTML_TYPES = ("text/html", "application/xhtml+xml")


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
