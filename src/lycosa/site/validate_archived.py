"""The validator over the archive: a URL's newest answer that is archived whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from lycosa.archive.warc.reader import read_response
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.records import KINDS_WITHOUT_ROWS, Exchange, VisitKind
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.encoding import label_in_header
from lycosa.site.validate import HtmlFault, html_faults
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.url.keys import url_key
from lycosa.url.normalise import normalise, typed_url

_OTHERS = [kind.value for kind in KINDS_WITHOUT_ROWS]
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(slots=True, frozen=True)
class Validated:
    """A document and its faults. `fetched_at` None: a file."""

    source: str
    fetched_at: datetime | None
    bytes: int
    faults: list[HtmlFault]


def validate_archived(root: str, config: Config, url: str) -> Validated:
    """Check what was fetched last.

    Raises:
        UsageError: nothing is archived of the URL, or it is no HTML; html5lib is not installed.
        WorkError: the record cannot be read, or the document is too large.
    """
    address = normalise(typed_url(url))
    workspace = Workspace.open(root)
    rows = read_live(root, lambda tables: _records(tables, address))
    for row in rows.iter_rows(named=True):
        response = read_response(
            workspace.path(row["warc_file"]), row["warc_offset"], row["warc_length"]
        )
        if not response.head or response.headers.get("warc-type") == "revisit":
            continue
        headers = parse_head(response.head)
        content_type = headers.get("content-type") or ""
        if (kind := content_type.partition(";")[0].strip().lower()) and kind not in _HTML:
            raise UsageError(f"{address} is {kind}, not HTML")
        exchange = Exchange(
            address,
            VisitKind.PAGE,
            0,
            0,
            response_head=response.head,
            body=response.body,
            status=response.status,
        )
        decoded = decode_with(exchange, headers, config.fetch.max_decoded)
        if decoded.error:
            raise WorkError(f"{address}: the archived body cannot be decoded ({decoded.error})")
        faults = html_faults(decoded.payload, label_in_header(content_type) or None)
        return Validated(address, row["fetched_at"], len(decoded.payload), faults)
    raise UsageError(f"{address} is not in the archive: crawl it first")


def _records(tables: LiveTables, url: str) -> pl.DataFrame:
    """Its good answers, the newest first."""
    here = (pl.col("url_key") == pl.lit(url_key(url), pl.UInt64)) & (pl.col("url") == url)
    whole = (
        pl.col("http_status").is_between(200, 299)
        & ~pl.col("kind").is_in(_OTHERS)
        & (pl.col("warc_file") != "")
    )
    visits = tables.scan("visits").filter(here & whole)
    return (
        visits.select("fetched_at", "warc_file", "warc_offset", "warc_length")
        .sort("fetched_at", descending=True)
        .collect()
    )
