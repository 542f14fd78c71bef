"""The report of a site: its pages, and a list for each kind of problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import numpy as np
import polars as pl

from lycosa.config.settings import Config
from lycosa.core.dataclass import doc, list_lengths
from lycosa.core.records import UrlState
from lycosa.hooks.plugins import installed_plugins
from lycosa.site.archived import HTML_TYPES, listed_urls
from lycosa.site.checks import (
    BrokenLink,
    DuplicateContent,
    Folder,
    MissingReturnLink,
    MixedContent,
    RedirectChain,
    broken_links,
    duplicate_content,
    folder_tree,
    missing_return_links,
    mixed_content,
    redirect_chains,
)
from lycosa.site.facts import SiteFacts, depths, site_facts
from lycosa.store.tables.live import LiveTables, read_live
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import SiteName, site_name, unknown_site


@dataclass(slots=True, frozen=True)
class Thresholds:
    """Limits from which a page is listed as slow (newest fetch) or large (decoded body)."""

    slow_ms: int = 1_000
    large_bytes: int = 1_000_000


@dataclass(slots=True, frozen=True)
class PageLine:
    """One page.

    `depth`: links from the home page, -1: not reachable. In-links and out-links count other pages
    once each, through redirects; `_elsewhere`: of other sites. `size` in bytes, decoded;
    `duration_ms` of the newest fetch.
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
    """A URL in a sitemap or feed without incoming links. `state` as in the table `urls`."""

    url: str
    listed_in: str
    state: str


@dataclass(slots=True, frozen=True)
class DocumentProblem:
    """An error that the parser met in a page (`pages.faults`)."""

    fault: str
    url: str


@dataclass(slots=True, frozen=True)
class SiteReport:
    """The report of a site.

    `urls`: all known URLs, `waiting`: those never fetched, whose links are missing. `by_depth`:
    pages by links from `home`, -1: not reachable. `slow` and `large`: the worst first.
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
    chains: list[RedirectChain]
    duplicates: list[DuplicateContent]
    untitled: list[PageLine]
    slow: list[PageLine]
    large: list[PageLine]
    hreflang: list[MissingReturnLink]
    mixed: list[MixedContent]
    faults: list[DocumentProblem]
    page_list: list[PageLine]
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Sections of plug-ins: title and lines."""
    totals: Mapping[str, int] = field(
        metadata=doc("Length of each complete list."), default_factory=dict
    )


def report_of(
    root: str, site: str, thresholds: Thresholds | None = None, config: Config | None = None
) -> SiteReport:
    """Return the report of a site, given by host name or URL.

    `config` limits the decompression of archived sitemaps.

    Raises:
        UsageError: the name is not that of a host, or there is no data about it.
        WorkError: table files were deleted repeatedly while they were read.
    """
    name = site_name(site)
    limits = thresholds or Thresholds()
    workspace, max_decoded = Workspace.open(root), (config or Config()).fetch.max_decoded

    def read(tables: LiveTables) -> SiteReport:
        return _report(tables, name, limits, listed_urls(tables, name, workspace, max_decoded))

    report = read_live(root, read)
    if not report.urls:
        raise unknown_site(name)
    sections = installed_plugins().merged("report_rendered", site=report.site, report=report)
    return replace(report, sections=sections, totals=list_lengths(report))


def _report(
    tables: LiveTables,
    name: SiteName,
    limits: Thresholds,
    listed: tuple[dict[str, str], set[str]],
) -> SiteReport:
    facts = site_facts(tables, name)
    nodes = _counted(facts)
    pages = nodes.filter("is_page")
    is_html = pl.col("content_type").is_in(HTML_TYPES)
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
        tree=folder_tree(nodes),
        broken=broken_links(tables, facts),
        orphans=_orphans(tables, listed, nodes),
        chains=redirect_chains(facts),
        duplicates=duplicate_content(pages),
        untitled=_lines(pages.filter(is_html & (pl.col("title").str.strip_chars() == ""))),
        slow=_lines(
            pages.filter(pl.col("duration_ms") >= limits.slow_ms).sort(
                "duration_ms", descending=True
            )
        ),
        large=_lines(
            pages.filter(pl.col("size") >= limits.large_bytes).sort("size", descending=True)
        ),
        hreflang=missing_return_links(tables, facts),
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
    """Return the nodes with their depth and numbers of links; only pages are sources."""
    nodes, links = facts.nodes, facts.navigation
    count = nodes.height
    home = nodes["is_home"].to_numpy().nonzero()[0]
    # The crawl of a home page that redirects starts at the target.
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


def _orphans(
    tables: LiveTables, listed: tuple[dict[str, str], set[str]], nodes: pl.DataFrame
) -> list[OrphanPage]:
    """List URLs without incoming links that a list names; redirects and broken URLs are not.

    For feeds, and sitemaps that cannot be read, only the URLs that they named first are known.
    """
    sitemap_of, sitemaps = listed
    lists = tables.scan("urls").filter(pl.col("operation").is_in(["sitemap", "feed"]))
    unread = set(lists.select("url").unique().collect()["url"]) - sitemaps
    unlinked = nodes.filter(
        (pl.col("in_links") == 0)
        & (pl.col("in_links_elsewhere") == 0)
        & ~pl.col("is_home")
        & (pl.col("redirect_to").fill_null("") == "")
        & (pl.col("verdict") == "")
        & pl.col("state").is_in([UrlState.VISITED.value, UrlState.KNOWN.value])
    )
    orphans = []
    for url, referrer, state in unlinked.select("url", "referrer", "state").iter_rows():
        listed_in = sitemap_of.get(url) or (referrer if referrer in unread else "")
        if listed_in:
            orphans.append(OrphanPage(url, listed_in, state))
    return orphans


def _lines(rows: pl.DataFrame) -> list[PageLine]:
    columns = rows.with_columns(depth="depth_here").select(each.name for each in fields(PageLine))
    return [PageLine(*row) for row in columns.iter_rows()]


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
