"""Holding a call of `crawl` to one site: what else is due in the collection rests."""

from __future__ import annotations

import polars as pl

from lycosa.core.records import UrlRow
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.scheduler.reach import Unvisited
from lycosa.url.site_name import SiteScope


class OnlySite(Unvisited):
    """Every URL of a site that is due, operations and pages to be fetched again among them, and
    nothing else.
    """

    def __init__(self, site: SiteScope) -> None:
        self._site = site

    def admits(self, row: UrlRow) -> bool:
        return self._site.takes(row.id.url)

    def condition(self) -> pl.Expr:
        return self._site.holds()


def wake_site(crawl: CrawlState, site: SiteScope) -> None:
    """Let everything rest but the site's host. After the session has taken up what is stored."""
    crawl.scheduler.parked.clear_due()
    crawl.scheduler.reached(crawl.identifier.identify(site.start).host_key)
