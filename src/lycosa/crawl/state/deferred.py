"""What the end of a crawl leaves for later, and why: read from the tables after the last commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import polars as pl

from lycosa.core.records import UrlState
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.store.tables.live import LiveTables


def left_for_later(
    crawl: CrawlState, tables: LiveTables, collections: Iterable[str]
) -> Counter[str]:
    """How many known URLs wait, by reason: the last failure, `robots_unreachable`, `host_paused`,
    `not_reached`.
    """
    waiting = (
        tables.scan("urls")
        .filter((pl.col("state") == UrlState.KNOWN) & pl.col("collection").is_in(list(collections)))
        .with_columns(origin=pl.col("url").str.extract(r"^([a-z]+://[^/]+)"))
        .group_by("host_key", "origin", "reason")
        .len()
        .collect()
    )
    now, now_ms = crawl.clock.monotonic_ms(), crawl.clock.now_ms()
    patience = crawl.config.crawl.patience
    later: Counter[str] = Counter()
    for host_key, origin, reason, number in waiting.iter_rows():
        if (
            not reason
            and crawl.robots.is_current(origin, now_ms)
            and not crawl.robots.reachable(origin)
        ):
            reason = "robots_unreachable"
        if (
            not reason
            and host_key in crawl.frontier.hosts
            and crawl.frontier.clocks.host_ready_at(host_key) > now + patience
        ):
            reason = "host_paused"
        later[reason or "not_reached"] += number
    return later
