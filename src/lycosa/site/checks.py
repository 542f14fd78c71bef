"""The checks of a site's report: links, redirects, duplicates, hreflang, folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
from xxhash import xxh3_64_intdigest

from lycosa.core.records import LinkKind
from lycosa.site.facts import MAX_HOPS, SiteFacts, redirects
from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteName

_RESOURCES = [
    kind.value for kind in (LinkKind.IMAGE, LinkKind.REQUISITE, LinkKind.IFRAME, LinkKind.FRAME)
]
_NO_TEXT = [0, xxh3_64_intdigest(b"")]


@dataclass(slots=True, frozen=True)
class BrokenLink:
    """A link whose target has an error response.

    `answer`: `http_404`, `timeout`, `gone`. `end`: the end of the target's redirects, to which
    `answer` then belongs; "" if it does not redirect.
    """

    target: str
    answer: str
    end: str
    source: str
    anchor: str
    kind: str


@dataclass(slots=True, frozen=True)
class MixedContent:
    """An http resource in an https page.

    Browsers show images (not `active`), and refuse scripts, styles and frames.
    """

    source: str
    target: str
    kind: str
    active: bool


@dataclass(slots=True, frozen=True)
class RedirectChain:
    """A chain of redirects, from the first URL to its end; a loop ends with a URL seen before.

    `end`: `ok`, `unknown` (the last URL was not fetched), `loop`, `too_long`, or the error of the
    last URL.
    """

    urls: tuple[str, ...]
    hops: int
    end: str


@dataclass(slots=True, frozen=True)
class DuplicateContent:
    """Pages with the same text, none of which names another URL as canonical."""

    title: str
    urls: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class MissingReturnLink:
    """A page whose declared translation does not declare it in return (hreflang).

    `reason`: `no_return`, or the error of the target (`http_404`).
    """

    source: str
    language: str
    target: str
    reason: str


@dataclass(slots=True, frozen=True)
class Folder:
    """A folder of URL paths; `level` 0 is the root of the site.

    `pages`, `bytes` and `broken` (URLs with an error) include subfolders, `own_pages` does not.
    """

    path: str
    level: int
    pages: int
    own_pages: int
    bytes: int
    broken: int


def broken_links(tables: LiveTables, facts: SiteFacts) -> list[BrokenLink]:
    """List the broken links in the site's pages, by target. URLs never fetched are not broken."""
    targets = (
        facts.links.filter(pl.col("kind") != LinkKind.REDIRECT.value).select(hash="target").unique()
    )
    ends = targets.with_columns(
        end=pl.Series(redirects(facts.answers).ends(targets["hash"].to_numpy()), dtype=pl.UInt64)
    )
    errors = facts.answers.filter(pl.col("verdict") != "").select(
        "verdict", end="hash", end_url="url"
    )
    broken = ends.join(errors.unique("end"), on="end")
    if not broken.height:
        return []
    # The last links of a gone page are stored, but no reader sees them.
    dead = facts.nodes.filter((pl.col("verdict") != "") | ~pl.col("is_page")).select(source="url")
    # A filter is pushed down to the files, a join is not: only these links are ever in memory.
    links = tables.scan("links").filter(
        facts.name.rows("source")
        & (pl.col("kind") != LinkKind.REDIRECT.value)
        & pl.col("target").hash().is_in(broken["hash"].implode())
    )
    end = pl.when(pl.col("end") == pl.col("hash")).then(pl.lit("")).otherwise(pl.col("end_url"))
    rows = (
        links.select("target", "source", "anchor", "kind", hash=pl.col("target").hash())
        .join(broken.lazy(), on="hash")
        .join(dead.lazy(), on="source", how="anti")
        .select("target", "verdict", end.alias("end"), "source", "anchor", "kind")
        .unique()
        .sort("target", "source", "anchor", "kind")
    )
    return [BrokenLink(*row) for row in rows.collect().iter_rows()]


def mixed_content(tables: LiveTables, name: SiteName) -> list[MixedContent]:
    """List the http images, scripts, styles and frames in https pages."""
    links = tables.scan("links").filter(
        name.rows("source")
        & pl.col("source").str.starts_with("https://")
        & pl.col("target").str.starts_with("http://")
        & pl.col("kind").is_in(_RESOURCES)
    )
    rows = links.select("source", "target", "kind", active=pl.col("kind") != LinkKind.IMAGE.value)
    return [
        MixedContent(*row)
        for row in rows.unique().sort("source", "target", "kind").collect().iter_rows()
    ]


def redirect_chains(facts: SiteFacts) -> list[RedirectChain]:
    """List chains of at least two redirects, and all loops; the longest first.

    A redirect that is the target of another one of the site is part of that one's chain. A loop
    that no other redirect leads to begins with the first of its URLs by name.
    """
    moved = dict(
        facts.answers.filter(pl.col("redirect_to") != "").select("url", "redirect_to").iter_rows()
    )
    own = facts.nodes.filter(pl.col("redirect_to").fill_null("") != "")["url"].to_list()
    unvisited = facts.nodes.filter(pl.col("http_status").is_null()).select("hash")
    visited = facts.answers.join(unvisited, on="hash", how="anti")
    verdicts = dict(visited.select("url", "verdict").iter_rows())
    targets = {moved[url] for url in own if url in moved and moved[url] != url}
    chains: list[RedirectChain] = []
    seen: set[str] = set()
    for url in sorted(own, key=lambda url: url in targets):  # stable: the starts of chains first
        if url not in seen:
            chain = _follow(url, moved, verdicts)
            seen.update(chain.urls)
            if chain.hops > 1 or chain.end == "loop":
                chains.append(chain)
    return sorted(chains, key=lambda chain: (-chain.hops, chain.urls))


def _follow(start: str, moved: Mapping[str, str], verdicts: Mapping[str, str]) -> RedirectChain:
    urls = [start]
    while urls[-1] in moved and len(urls) <= MAX_HOPS:
        target = moved[urls[-1]]
        urls.append(target)
        if target in urls[:-1]:
            return RedirectChain(tuple(urls), len(urls) - 1, "loop")
    end = verdicts.get(urls[-1], "unknown") or ("too_long" if urls[-1] in moved else "ok")
    return RedirectChain(tuple(urls), len(urls) - 1, end)


def duplicate_content(pages: pl.DataFrame) -> list[DuplicateContent]:
    """List groups of pages with the same text, the largest first.

    A page that names another URL as canonical is in no group.
    """
    own = pl.col("canonical").is_null() | (pl.col("canonical") == pl.col("url"))
    groups = (
        pages.filter(own & ~pl.col("text_digest").is_in(_NO_TEXT))
        .sort("url")
        .group_by("text_digest", maintain_order=True)
        .agg("url", pl.col("title").first(), size=pl.len(), first=pl.col("url").first())
        .filter(pl.col("size") > 1)
        .sort(["size", "first"], descending=[True, False])
    )
    return [
        DuplicateContent(title, tuple(urls))
        for title, urls in groups.select("title", "url").iter_rows()
    ]


def missing_return_links(tables: LiveTables, facts: SiteFacts) -> list[MissingReturnLink]:
    """List declared translations that do not declare the page; only fetched URLs count."""
    live = facts.nodes.filter("is_page").select("url")
    pairs = (
        tables.scan("pages")
        .filter(facts.name.rows() & (pl.col("alternates").list.len() > 0))
        .select("url", "fetched_at", "alternates")
        .sort("fetched_at")
        .unique("url", keep="last")
        .join(live.lazy(), on="url", how="semi")
        .explode("alternates")
        .unnest("alternates", separator=".")
        .select(source="url", language="alternates.language", target="alternates.url")
        .collect()
    )
    if not pairs.height:
        return []
    ends = redirects(facts.answers).ends(pairs["target"].hash().to_numpy())
    pairs = pairs.with_columns(
        end=pl.Series(ends, dtype=pl.UInt64), own=pl.col("source").hash()
    ).filter((pl.col("end") != pl.col("own")) & (pl.col("language") != "x-default"))
    back = pairs.select(own="end", end="own")
    states = facts.nodes.select("is_page", "verdict", end="hash")
    rows = (
        pairs.join(back, on=["own", "end"], how="anti")
        .unique(["source", "target"])
        .join(states, on="end")
        .filter(pl.col("is_page") | (pl.col("verdict") != ""))
        .with_columns(reason=pl.col("verdict").replace("", "no_return"))
        .select("source", "language", "target", "reason")
        .sort("source", "language", "target")
    )
    return [MissingReturnLink(*row) for row in rows.iter_rows()]


def folder_tree(nodes: pl.DataFrame) -> list[Folder]:
    """List all folders by path, each before its subfolders; schemes and ports are ignored.

    `nodes`: url, is_page, size, verdict. Memory: the folders, and one row a URL for each level.
    """
    path = pl.col("url").str.replace(r"^[a-z]+://[^/?]*", "").str.replace(r"[^/]*(\?.*)?$", "")
    rows = nodes.select(
        folder=pl.when(path == "").then(pl.lit("/")).otherwise(path),
        page=pl.col("is_page").cast(pl.Int64),
        bytes=pl.when("is_page").then(pl.col("size").fill_null(0)).otherwise(0),
        bad=(pl.col("verdict") != "").cast(pl.Int64),
    )
    own = rows.group_by("folder").agg(pl.col("page", "bytes", "bad").sum())
    sums: dict[str, list[int]] = {}
    for folder, pages, size, bad in own.iter_rows():
        above = folder
        while True:
            total = sums.setdefault(above, [0, 0, 0, 0])
            total[0] += pages
            total[2] += size
            total[3] += bad
            if above == "/":
                break
            above = parent_folder(above)
        sums[folder][1] += pages
    ordered = sorted(sums.items(), key=lambda item: item[0].split("/"))
    return [Folder(path, path.count("/") - 1, *total) for path, total in ordered]


def parent_folder(path: str) -> str:
    """Return the folder that contains a folder, `/` for the root."""
    return path[: path.rstrip("/").rfind("/") + 1] or "/"
