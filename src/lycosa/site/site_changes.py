"""What changed in a workspace: `lycosa.site.changes` with what it needs to read the archive."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from lycosa.config.settings import Config
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.fetch.robots_txt import product_token
from lycosa.site.changes import PageChange, changes
from lycosa.store.tables.live import read_live
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import site_name


def changes_of(
    root: str, config: Config, since: datetime, site: str = "", *, differences: bool = True
) -> list[PageChange]:
    """New, gone and changed pages since a time, of a site or of all.

    Raises:
        UsageError: the site is none.
        WorkError: table files were deleted repeatedly while they were read.
    """
    name = site_name(site) if site else None
    locate = Workspace.open(root).path
    with closing(DocumentPool(document_limits(config))) as documents:
        reader = Reader(config.fetch.max_decoded, product_token(config.fetch.user_agent), documents)
        return read_live(
            root,
            lambda tables: list(
                changes(tables, since, reader, locate, name, differences=differences)
            ),
        )
