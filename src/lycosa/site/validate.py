"""Validate HTML: the parse errors of the HTML standard (section 13.2) with line and column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.records import KINDS_WITHOUT_ROWS
from lycosa.crawl.processing.archived_texts import archived_exchange
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.encoding import label_in_header
from lycosa.site.archived import HTML_TYPES
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.url.keys import url_key
from lycosa.url.normalise import normalise, typed_url

try:
    import html5lib
    from html5lib.constants import E as MESSAGES
except ImportError:  # of the extra `validate`
    html5lib = None

MAX_BYTES = 8 * 2**20
"""Maximum size of a document; about 6 s of CPU time."""
_NO_PAGES = [kind.value for kind in KINDS_WITHOUT_ROWS]


@dataclass(slots=True, frozen=True)
class HtmlFault:
    """One parse error. `line` counts from 1; `column`: characters of the line read so far."""

    line: int
    column: int
    code: str
    message: str


def html_faults(document: bytes, charset: str | None = None) -> list[HtmlFault]:
    """Return the parse errors of a document in the order of the parser.

    `charset`: from the HTTP header; None: as declared in the document.

    Raises:
        UsageError: html5lib is not installed.
        WorkError: the document is larger than `MAX_BYTES`.
    """
    if html5lib is None:
        raise UsageError(
            "validation needs html5lib, which is not installed: pip install 'lycosa[validate]'"
        )
    if len(document) > MAX_BYTES:
        raise WorkError(
            f"the document has {len(document):,} bytes, more than can be validated "
            f"({MAX_BYTES:,} bytes)"
        )
    parser = html5lib.HTMLParser(strict=False)
    parser.parse(document, transport_encoding=charset)
    return [
        HtmlFault(
            line,
            column,
            code,
            MESSAGES.get(code, code) % values if values else MESSAGES.get(code, code),
        )
        for (line, column), code, values in parser.errors
    ]


@dataclass(slots=True, frozen=True)
class Validated:
    """A document and its parse errors. `fetched_at` None: a file."""

    source: str
    fetched_at: datetime | None
    bytes: int
    faults: list[HtmlFault]


def validate_archived(root: str, config: Config, url: str) -> Validated:
    """Validate the newest archived response of a URL.

    Raises:
        UsageError: the URL is not archived, or not HTML; html5lib is not installed.
        WorkError: the record cannot be read, or the document is too large.
    """
    address = normalise(typed_url(url))
    workspace = Workspace.open(root)
    rows = read_live(root, lambda tables: _records(tables, address))
    for row in rows.iter_rows(named=True):
        exchange = archived_exchange(
            address, workspace.path(row["warc_file"]), row["warc_offset"], row["warc_length"]
        )
        if exchange is None:
            continue
        content_type = content_type_of(exchange)
        if (kind := content_type.partition(";")[0].strip().lower()) and kind not in HTML_TYPES:
            raise UsageError(f"{address} is {kind}, not HTML")
        decoded = decode_body(exchange, config.fetch.max_decoded)
        if decoded.error:
            raise WorkError(f"{address}: the archived body cannot be decoded ({decoded.error})")
        faults = html_faults(decoded.payload, label_in_header(content_type) or None)
        return Validated(address, row["fetched_at"], len(decoded.payload), faults)
    raise UsageError(f"{address} is not in the archive: crawl it first")


def _records(tables: LiveTables, url: str) -> pl.DataFrame:
    """Return the archived successful responses, the newest first."""
    here = (pl.col("url_key") == pl.lit(url_key(url), pl.UInt64)) & (pl.col("url") == url)
    whole = (
        pl.col("http_status").is_between(200, 299)
        & ~pl.col("kind").is_in(_NO_PAGES)
        & (pl.col("warc_file") != "")
    )
    visits = tables.scan("visits").filter(here & whole)
    return (
        visits.select("fetched_at", "warc_file", "warc_offset", "warc_length")
        .sort("fetched_at", descending=True)
        .collect()
    )
