"""The URLs of a site with their newest responses, and the links between them.

Strings are in memory for the URLs of the site only; links are pairs of 64-bit hashes, 17 bytes a
link. A link to a redirect counts for its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.errors import FetchError
from lycosa.core.records import KINDS_WITHOUT_ROWS, LinkKind, UrlState, VisitKind
from lycosa.graph.link_graph import Keys, Lookup, Places, RedirectMap
from lycosa.store.tables.live import LiveTables
from lycosa.url.site_name import SiteName

NAVIGATED = tuple(
    kind.value
    for kind in (LinkKind.A, LinkKind.AREA, LinkKind.FRAME, LinkKind.IFRAME, LinkKind.REFRESH)
)
"""Kinds of links that readers follow."""

MAX_HOPS = 20  # of redirects that are followed
_NO_ROWS = [kind.value for kind in KINDS_WITHOUT_ROWS if kind is not VisitKind.REQUISITE]
_OURS = [
    FetchError.ADDRESS_REFUSED.value,
    FetchError.INTERRUPTED.value,
    FetchError.UNSUPPORTED_SCHEME.value,
]
_KINDS = pl.Enum([kind.value for kind in LinkKind])
_SLICE = 200_000  # links that are looked up together
# combines two hashes; collisions are negligible
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)
_ANSWER = {
    "hash": pl.UInt64(),
    "url": pl.String(),
    "verdict": pl.String(),
    "redirect_to": pl.String(),
}


@dataclass(slots=True, frozen=True)
class SiteLinks:
    """Distinct links as pairs of positions in `SiteFacts.nodes`; -1: another site."""

    source: Places
    target: Places


@dataclass(slots=True, frozen=True)
class SiteFacts:
    """The data of a site.

    `nodes`: one row a URL, by URL: url, hash, state, reason, referrer, depth, is_home, is_page,
    title, language, size, text_digest, canonical, faults, http_status, error, duration_ms,
    content_length, content_type, fetched_at, redirect_to, verdict (why it has no good answer:
    `http_404`, `timeout`, `gone`; "" if it has one, or none yet). `answers`: hash, url, verdict,
    redirect_to of the site's URLs and of all that they link to. `links`: source, target, kind, of
    every stored link from the site or to it, as hashes. `navigation`: what a reader can follow,
    through redirects.
    """

    name: SiteName
    nodes: pl.DataFrame
    answers: pl.DataFrame
    links: pl.DataFrame
    navigation: SiteLinks

    def ends_of(self, places: Places) -> Places:
        """Return the nodes at the ends of the redirects of nodes, without those of other sites."""
        hashes: Keys = self.nodes["hash"].to_numpy()
        ends = Lookup(hashes).find(redirects(self.answers).ends(hashes[places]))
        return ends[ends >= 0]


def site_facts(tables: LiveTables, name: SiteName) -> SiteFacts:
    """Collect the data. Raises what `LiveTables.ordered` raises."""
    links = _links(tables, name)
    nodes = _nodes(tables, name)
    own = nodes.select("hash", "url", "verdict", pl.col("redirect_to").fill_null(""))
    answers = newest_answers(tables, links.select(hash="target").unique(), own)
    verdicts = answers.select("hash", "verdict")
    nodes = (
        nodes.drop("verdict")
        .join(verdicts, on="hash", how="left", maintain_order="left")
        .with_columns(pl.col("verdict").fill_null(""))
    )
    return SiteFacts(name, nodes, answers, links, _navigation(nodes, links, redirects(answers)))


def redirects(answers: pl.DataFrame) -> RedirectMap:
    """Return where the URLs of these answers redirect to."""
    moved = answers.filter(pl.col("redirect_to") != "")
    return RedirectMap(
        moved["hash"].to_numpy(), moved["redirect_to"].hash().to_numpy(), max_hops=MAX_HOPS
    )


def _links(tables: LiveTables, name: SiteName) -> pl.DataFrame:
    from_here = name.rows("source")
    rows = tables.scan("links").filter(from_here | name.holds("target"))
    chosen = rows.select(
        pl.col("source").hash(), pl.col("target").hash(), pl.col("kind").cast(_KINDS, strict=False)
    )
    return chosen.unique().collect(engine="streaming")


def _nodes(tables: LiveTables, name: SiteName) -> pl.DataFrame:
    """Return a row for each URL: the most advanced state of its collections, newest page, visit."""
    here = name.rows()
    states = pl.Enum(
        [UrlState.EXCLUDED.value, UrlState.KNOWN.value, UrlState.GONE.value, UrlState.VISITED.value]
    )
    urls = tables.scan("urls").filter(here & (pl.col("operation") == ""))
    urls = urls.select(
        "url", pl.col("state").cast(states), "reason", "referrer", "depth", "visited_at"
    )
    states_of_urls = (
        urls.sort("state", "visited_at")
        .unique("url", keep="last")
        .with_columns(pl.col("state").cast(pl.String))
    )
    pages = tables.scan("pages").filter(here)
    pages = pages.select(
        "url",
        "title",
        "language",
        "size",
        "text_digest",
        "canonical",
        "faults",
        parsed_at="fetched_at",
    )
    newest_pages = pages.sort("parsed_at").unique("url", keep="last")
    columns = (
        "url",
        "http_status",
        "error",
        "duration_ms",
        "content_length",
        "content_type",
        "fetched_at",
        "redirect_to",
    )
    visits = tables.scan("visits").filter(here & ~pl.col("kind").is_in(_NO_ROWS)).select(columns)
    newest_visits = visits.sort("fetched_at", maintain_order=True).unique("url", keep="last")
    joined = states_of_urls.join(newest_pages, on="url", how="left").join(
        newest_visits, on="url", how="left"
    )
    nodes = joined.sort("url").collect().with_columns(hash=pl.col("url").hash(), verdict=_verdict())
    # The last text of a page that is gone or redirects is kept, but it is not a page. A page that
    # is due again is known.
    is_page = (
        pl.col("parsed_at").is_not_null()
        & pl.col("state").is_in([UrlState.VISITED.value, UrlState.KNOWN.value])
        & (pl.col("redirect_to").fill_null("") == "")
    )
    root = pl.col("url").str.contains(r"^[a-z]+://[^/?]*/?$")
    nodes = nodes.with_columns(is_page=is_page, is_home=root)
    if not nodes["is_home"].any():
        nodes = nodes.with_columns(is_home=pl.col("depth") == 0)
    return nodes


def _verdict() -> pl.Expr:
    """Return the error of a URL, by its newest visit, or its state if it was imported."""
    status, error = pl.col("http_status"), pl.col("error").fill_null("")
    return (
        pl.when(status.is_null() & (pl.col("state") == UrlState.GONE.value))
        .then(pl.coalesce(pl.when(pl.col("reason") != "").then(pl.col("reason")), pl.lit("gone")))
        .when(status.is_null() | error.is_in(_OURS))
        .then(pl.lit(""))
        .when(status >= 400)
        .then(pl.format("http_{}", status))
        .when((status == 0) | (error == FetchError.BAD_REDIRECT.value))
        .then(pl.coalesce(pl.when(error != "").then(error), pl.lit("no_answer")))
        .otherwise(pl.lit(""))
    )


def newest_answers(
    tables: LiveTables, urls: pl.DataFrame, known_answers: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return hash, url, verdict, redirect_to of the fetched URLs and of their redirect targets.

    Args:
        urls: hashes of URLs.
        known: answers that are known already; they come first and are not looked up again.
    """
    answers = [pl.DataFrame(schema=_ANSWER) if known_answers is None else known_answers]
    seen = answers[0].select("hash")
    for _ in range(MAX_HOPS):
        urls = urls.join(seen, on="hash", how="anti")
        if not urls.height:
            break
        more = _fetched(tables, urls)
        seen = pl.concat([seen, urls])
        answers.append(more)
        urls = more.filter(pl.col("redirect_to") != "").select(hash=pl.col("redirect_to").hash())
        urls = urls.unique()
    return pl.concat(answers)


def _fetched(tables: LiveTables, urls: pl.DataFrame) -> pl.DataFrame:
    visits = tables.scan("visits").filter(~pl.col("kind").is_in(_NO_ROWS))
    newest = (
        visits.select(
            "url", "http_status", "error", "redirect_to", "fetched_at", hash=pl.col("url").hash()
        )
        .join(urls.lazy(), on="hash", how="semi")
        .sort("fetched_at", maintain_order=True)
        .unique("hash", keep="last")
    )
    gone = (
        tables.scan("urls")
        .filter((pl.col("operation") == "") & (pl.col("state") == UrlState.GONE.value))
        .select("url", "state", "reason", hash=pl.col("url").hash())
        .join(urls.lazy(), on="hash", how="semi")
        .unique("hash")
    )
    rows = newest.join(gone, on=["hash", "url"], how="full", coalesce=True)
    return rows.select(
        "hash", "url", _verdict().alias("verdict"), pl.col("redirect_to").fill_null("")
    ).collect()


def _navigation(nodes: pl.DataFrame, links: pl.DataFrame, moved: RedirectMap) -> SiteLinks:
    """Return the distinct links from or to pages of the site that readers follow."""
    lookup = Lookup(nodes["hash"].to_numpy())
    followed = links.filter(
        pl.col("kind").is_in(pl.Series(NAVIGATED, dtype=_KINDS).implode())
    ).select("source", "target")
    sources, targets, pairs = (
        [np.zeros(0, np.int32)],
        [np.zeros(0, np.int32)],
        [np.zeros(0, np.uint64)],
    )
    for part in followed.iter_slices(_SLICE):
        from_hash: Keys = part["source"].to_numpy()
        ends = moved.ends(part["target"].to_numpy())
        source, target = lookup.find(from_hash), lookup.find(ends)
        mine = ((source >= 0) | (target >= 0)) & (source != target)
        sources.append(source[mine].astype(np.int32))
        targets.append(target[mine].astype(np.int32))
        pairs.append((from_hash * _ODD + ends)[mine])
    _, first = np.unique(np.concatenate(pairs), return_index=True)
    return SiteLinks(
        np.concatenate(sources)[first].astype(np.int64),
        np.concatenate(targets)[first].astype(np.int64),
    )


def depths(count: int, links: SiteLinks, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the distance of each node from the nearest start, by breadth-first search; or -1."""
    inside = (links.source >= 0) & (links.target >= 0)
    order = np.argsort(links.source[inside], kind="stable")
    targets = links.target[inside][order]
    first = np.searchsorted(links.source[inside][order], np.arange(count + 1))
    depth = np.full(count, -1, np.int32)
    front = starts
    depth[front] = 0
    level = 0
    while front.size:
        level += 1
        sizes = first[front + 1] - first[front]
        # positions of all links of the front
        offsets = np.repeat(
            first[front] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes
        ) + np.arange(int(sizes.sum()))
        reached = np.unique(targets[offsets])
        front = reached[depth[reached] < 0]
        depth[front] = level
    return depth
