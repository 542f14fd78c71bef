"""Walking the stored links: what an older, narrower call left out, and what lies nearer than was
thought.

Nothing is fetched. Depths are relaxed as Bellman and Ford do: a URL whose depth fell is walked from
again, until nothing changes. Memory holds the links of one data file, and the keys of the URLs that
fell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl
import polars.selectors as cs

from lycosa.core.records import FOLLOWED_KINDS, LinkKind
from lycosa.crawl.admission.remote_links import Way
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.rows import url_record
from lycosa.url.scope import hostname

_LOWERED_AT_ONCE = 50_000


def find_again(
    crawl: CrawlState, tables: LiveTables, assignment: Assignment, *, every_link: bool
) -> int:
    """Admit what the stored links of the collection's known pages lead to, at the depth of today.
    Without `every_link` only from what fell (`Assignment.depth_decreased`). Returns how many
    admissions were made or confirmed.
    """
    lowered = dict(assignment.depth_decreased)
    sources: Mapping[int, int] | None = None if every_link else dict(assignment.depth_decreased)
    assignment.depth_decreased.clear()
    changed = 0
    while sources is None or sources:
        for links in _links(tables, assignment, sources):
            changed += _walk(crawl, assignment, links)
        sources = dict(assignment.depth_decreased)
        lowered.update(sources)
        assignment.depth_decreased.clear()
    _lower(crawl, tables, assignment, lowered)
    return changed


def _links(
    tables: LiveTables, assignment: Assignment, sources: Mapping[int, int] | None
) -> Iterator[pl.DataFrame]:
    """Stored links that a crawl follows (url_key, source, target, kind); those of pages that say
    nofollow are left out.
    """
    closed = tables.scan("pages").filter(~pl.col("may_follow")).select("url_key").collect()
    of_sources = (
        None
        if sources is None
        else pl.DataFrame({"url_key": list(sources)}, schema={"url_key": pl.UInt64})
    )
    for frame in tables.batches("links", ("url_key", "source", "target", "kind", "rel")):
        links = frame.filter(pl.col("kind").is_in([kind.value for kind in FOLLOWED_KINDS]))
        if assignment.collection.respect_nofollow:
            links = links.filter(~pl.col("rel").str.contains("nofollow", literal=True))
        if of_sources is not None:
            links = links.join(of_sources, on="url_key", how="semi")
        links = links.join(closed, on="url_key", how="anti").unique(
            ["source", "target", "kind"], maintain_order=True
        )
        if links.height:
            yield links


def _walk(crawl: CrawlState, assignment: Assignment, links: pl.DataFrame) -> int:
    sources = links.select("source").unique()["source"].to_list()
    depths = {source: _depth(crawl, assignment, source) for source in sources}
    source_depths = [(source, depth) for source, depth in depths.items() if depth is not None]
    frame = pl.DataFrame(
        source_depths, schema={"source": pl.String, "depth": pl.Int64}, orient="row"
    )
    best_depths = (
        links.join(frame, on="source")
        .with_columns(
            reached=pl.col("depth") + (pl.col("kind") != LinkKind.REDIRECT).cast(pl.Int64)
        )
        .group_by("target")
        .agg(pl.col("reached").min(), pl.col("source").sort_by("reached", "source").first())
        .sort("reached", "target")
    )
    now_ms = crawl.clock.now_ms()
    changed = 0
    for target, reached, source in best_depths.iter_rows():
        changed += not assignment.gate.admit(target, reached, now_ms, Way(source))
    return changed


def _depth(crawl: CrawlState, assignment: Assignment, url: str) -> int | None:
    try:
        return assignment.seen.depth(crawl.identifier.identify(url))
    except KeyError:
        return None


def _lower(
    crawl: CrawlState, tables: LiveTables, assignment: Assignment, lowered: Mapping[int, int]
) -> None:
    """Write down the new depth of stored rows."""
    keys = list(lowered)
    for start in range(0, len(keys), _LOWERED_AT_ONCE):
        part = pl.LazyFrame(
            {"url_key": keys[start : start + _LOWERED_AT_ONCE]}, schema={"url_key": pl.UInt64}
        )
        rows = tables.scan("urls").filter(
            (pl.col("collection") == assignment.name) & (pl.col("operation") == "")
        )
        for row in (
            rows.join(part, on="url_key", how="semi")
            .with_columns(cs.datetime().dt.epoch("ms"))
            .collect()
            .iter_rows()
        ):
            record = url_record(row, hostname(row[3]))
            here = crawl.urls.find(assignment.name, record.id) or record
            depth = assignment.seen.depth(record.id)
            if depth is not None:
                here.reduce_depth(depth)
            if here is not record or record.depth != row[6]:
                crawl.urls.change(here)
