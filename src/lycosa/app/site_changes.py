"""What changed in a workspace: `lycosa.monitor.changes` with what it needs to read the archive."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from lycosa.app.site_report import read_live
from lycosa.core.config import Config
from lycosa.crawl.documents import Documents, document_limits
from lycosa.crawl.understand import Reader
from lycosa.fetch.robots import product_token
from lycosa.graph.site import site_name
from lycosa.monitor.changes import Change, changes
from lycosa.store.workspace import Workspace


def changes_of(root: str, config: Config, since: datetime, site: str = "", *, differences: bool = True) -> list[Change]:
    """New, gone and changed pages since a time, of a site or of all.

    Raises:
        UsageError: the site is none.
        WorkError: the tables' files went away again and again.
    """
    name = site_name(site) if site else None
    locate = Workspace.open(root).path
    with closing(Documents(document_limits(config))) as documents:
        reader = Reader(config.fetch.max_decoded, product_token(config.fetch.user_agent), documents)
        return read_live(root, lambda tables: list(changes(tables, since, reader, locate, name, differences=differences)))
