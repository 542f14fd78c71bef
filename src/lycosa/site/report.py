"""What is to be known of a site: its pages, and one list for each thing that may be wrong with
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import polars as pl

from lycosa.core.records import UrlState
from lycosa.site.broken_links import BrokenLink, MixedContent, broken_links, mixed_content
from lycosa.site.duplicate_pages import Duplicates, Unanswered, duplicates, unanswered
from lycosa.site.pages_of_site import SiteFacts, depths, site_facts
from lycosa.site.redirect_chains import Chain, chains
from lycosa.site.sitemap_entries import Archive, ListedUrl, listed_urls
from lycosa.site.tree import Folder, tree
from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteName

_HTML = ("text/html", "application/xhtml+xml")


@dataclass(slots=True, frozen=True)
class Thresholds:
    """Limits from which a page is listed as slow (newest fetch) or large (decoded body)."""

    slow_ms: int = 1_000
    large_bytes: int = 1_000_000


@dataclass(slots=True, frozen=True)
class PageLine:
    """One page. `depth`: links from the home page, -1: none leads there. In-links and out-links:
    other pages, each once, through redirects; `_elsewhere`: of other sites. `size` in bytes,
    decoded; `duration_ms` of the newest fetch.
    """

    url: str
    title: str
    language: str
    depth: int
    in_links: int
    in_links_elsewhere: int
    out_links: int
    out_links_elsewhere: int
    size: int
    duration_ms: int | None
    fetched_at: datetime | None


@dataclass(slots=True, frozen=True)
class OrphanPage:
    """A URL that a sitemap or feed lists, and no link leads to. `state` as in the table `urls`."""

    url: str
    listed_in: str
    state: str


@dataclass(slots=True, frozen=True)
class DocumentProblem:
    """What the parser met in a page (`pages.faults`)."""

    fault: str
    url: str


@dataclass(slots=True, frozen=True)
class SiteReport:
    """A site. `urls` are those known of it, `waiting` those never fetched: while there are any,
    links to a page may be missing.

    `by_depth`: pages by links from `home`; -1: not reached by links. `slow` and `large`: the worst
    first.
    """

    site: str
    home: list[str]
    urls: int
    pages: int
    waiting: int
    bytes: int
    first_fetch: datetime | None
    last_fetch: datetime | None
    by_depth: Mapping[int, int]
    languages: Mapping[str, int]
    tree: list[Folder]
    broken: list[BrokenLink]
    orphans: list[OrphanPage]
    chains: list[Chain]
    duplicates: list[Duplicates]
    untitled: list[PageLine]
    slow: list[PageLine]
    large: list[PageLine]
    hreflang: list[Unanswered]
    mixed: list[MixedContent]
    faults: list[DocumentProblem]
    page_list: list[PageLine]
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Sections of plug-ins: title and lines."""


def site_report(
    tables: LiveTables, name: SiteName, archive: Archive, thresholds: Thresholds | None = None
) -> SiteReport:
    """Look a site through. Of the archive only its sitemaps are read.

    Raises:
        FileNotFoundError: a table's file went away (a merge replaced it long ago): call again.
    """
    limits = thresholds or Thresholds()
    facts = site_facts(tables, name)
    nodes = _counted(facts)
    pages = nodes.filter("is_page")
    is_html = pl.col("content_type").is_in(_HTML)
    language = (
        pages.group_by(pl.col("language")).len().sort(["len", "language"], descending=[True, False])
    )
    return SiteReport(
        site=str(name),
        home=nodes.filter("is_home")["url"].to_list(),
        urls=nodes.height,
        pages=pages.height,
        waiting=nodes.filter(
            (pl.col("state") == UrlState.KNOWN.value) & pl.col("http_status").is_null()
        ).height,
        bytes=int(pages["size"].sum()),
        first_fetch=_time(nodes["fetched_at"].min()),
        last_fetch=_time(nodes["fetched_at"].max()),
        by_depth=dict(pages.group_by("depth_here").len().sort("depth_here").iter_rows()),
        languages=dict(language.iter_rows()),
        tree=tree(nodes),
        broken=broken_links(tables, facts),
        orphans=_orphans(tables, listed_urls(tables, name, archive), nodes),
        chains=chains(facts),
        duplicates=duplicates(pages),
        untitled=_lines(pages.filter(is_html & (pl.col("title").str.strip_chars() == ""))),
        slow=_lines(
            pages.filter(pl.col("duration_ms") >= limits.slow_ms).sort(
                "duration_ms", descending=True
            )
        ),
        large=_lines(
            pages.filter(pl.col("size") >= limits.large_bytes).sort("size", descending=True)
        ),
        hreflang=unanswered(tables, facts),
        mixed=mixed_content(tables, name),
        faults=[
            DocumentProblem(*row)
            for row in pages.select("faults", "url")
            .explode("faults")
            .drop_nulls()
            .sort("faults", "url")
            .iter_rows()
        ],
        page_list=_lines(pages),
    )


def _counted(facts: SiteFacts) -> pl.DataFrame:
    """The nodes with their depth from the home page and their links; only pages are sources."""
    nodes, links = facts.nodes, facts.navigation
    count = nodes.height
    home = nodes["is_home"].to_numpy().nonzero()[0]
    # A home page that redirects begins where it leads.
    starts = np.unique(facts.ends_of(home)) if home.size else home.astype(np.int64)
    depth = depths(count, links, starts)
    inside = (links.source >= 0) & (links.target >= 0)
    into, out = links.target[links.target >= 0], links.source[links.source >= 0]
    in_here = np.bincount(links.target[inside], minlength=count)
    out_here = np.bincount(links.source[inside], minlength=count)
    return nodes.with_columns(
        depth_here=pl.Series(depth),
        in_links=pl.Series(in_here),
        in_links_elsewhere=pl.Series(np.bincount(into, minlength=count) - in_here),
        out_links=pl.Series(out_here),
        out_links_elsewhere=pl.Series(np.bincount(out, minlength=count) - out_here),
    )


def _orphans(tables: LiveTables, listed: ListedUrl, nodes: pl.DataFrame) -> list[OrphanPage]:
    """What redirects or is broken is told elsewhere; what was never fetched may be an orphan too.

    Of feeds, and of sitemaps that cannot be read, it counts whether they named the URL first.
    """
    lists = (
        tables.scan("urls")
        .filter(pl.col("operation").is_in(["sitemap", "feed"]))
        .select("url")
        .unique()
        .collect()["url"]
    )
    unread = set(lists) - listed.sitemaps
    nothing = (pl.col("in_links") == 0) & (pl.col("in_links_elsewhere") == 0) & ~pl.col("is_home")
    plain = (
        (pl.col("redirect_to").fill_null("") == "")
        & (pl.col("verdict") == "")
        & pl.col("state").is_in(["visited", "known"])
    )
    found = []
    for url, referrer, state in (
        nodes.filter(nothing & plain).select("url", "referrer", "state").iter_rows()
    ):
        by = listed.by_url.get(url) or (referrer if referrer in unread else "")
        if by:
            found.append(OrphanPage(url, by, state))
    return found


def _lines(rows: pl.DataFrame) -> list[PageLine]:
    columns = rows.select(
        "url",
        "title",
        "language",
        "depth_here",
        "in_links",
        "in_links_elsewhere",
        "out_links",
        "out_links_elsewhere",
        "size",
        "duration_ms",
        "fetched_at",
    )
    return [PageLine(*row) for row in columns.iter_rows()]


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
