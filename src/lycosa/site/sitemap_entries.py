"""What the sitemaps of a site list, read from the archive: the tables keep only who named a URL
first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from lycosa.archive.warc.reader import read_response
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, VisitKind
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.feeds.sitemap import read_sitemap
from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteName


@dataclass(slots=True, frozen=True)
class Archive:
    """How records are read: `locate` gives the absolute path of a workspace's file, `max_decoded`
    bounds what is unpacked.
    """

    locate: Callable[[str], str]
    max_decoded: int


@dataclass(slots=True, frozen=True)
class ListedUrl:
    """`by_url`: URL -> the sitemap that lists it; `sitemaps`: those that were read."""

    by_url: dict[str, str] = field(default_factory=dict)
    sitemaps: set[str] = field(default_factory=set)


def listed_urls(tables: LiveTables, name: SiteName, archive: Archive) -> ListedUrl:
    """Of each sitemap on the site's host the newest one that is archived whole; what cannot be read
    any more is left out.
    """
    whole = (
        pl.col("http_status").is_between(200, 299)
        & (pl.col("kind") == VisitKind.SITEMAP.value)
        & (pl.col("warc_file") != "")
    )
    visits = (
        tables.scan("visits")
        .filter(name.rows() & whole)
        .select("url", "fetched_at", "warc_file", "warc_offset", "warc_length")
    )
    listed = ListedUrl()
    for url, _, file, offset, length in (
        visits.sort("fetched_at", descending=True).collect().iter_rows()
    ):
        if url in listed.sitemaps:
            continue
        try:
            path = archive.locate(file)
            if not Path(path).exists():
                continue
            response = read_response(path, offset, length)
        except (ArchiveError, FileNotFoundError):
            continue
        if not response.head or response.headers.get("warc-type") == "revisit":
            continue
        headers = parse_head(response.head)
        exchange = Exchange(
            url,
            VisitKind.SITEMAP,
            0,
            0,
            response_head=response.head,
            body=response.body,
            status=response.status,
        )
        payload = decode_with(exchange, headers, archive.max_decoded).payload
        listed.sitemaps.add(url)
        for entry in read_sitemap(
            payload, url, content_type=headers.get("content-type") or ""
        ).entries:
            listed.by_url.setdefault(entry.url, url)
    return listed
