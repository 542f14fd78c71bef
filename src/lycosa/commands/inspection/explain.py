"""`explain`: everything that is known of one URL, and why it was or was not fetched."""

from __future__ import annotations

from typing import Any

import polars as pl

from lycosa.commands.inspection.explain_host import clock_facts, robots_facts
from lycosa.commands.inspection.explain_state import row_facts, unknown_facts
from lycosa.commands.inspection.explain_verdict import StoredCrawl
from lycosa.commands.models import Inlinks, UrlExplanation
from lycosa.config.credentials import without_user
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.messages import Message
from lycosa.core.records import UrlId, VisitKind
from lycosa.crawl.admission.url_filter import ExclusionCheck
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import typed_url

_MAX_ROWS = 10
_VISIT = (
    *(
        "kind",
        "fetched_at",
        "http_status",
        "error",
        "attempt",
        "duration_ms",
        "protocol",
        "ip",
        "content_type",
        "content_length",
    ),
    *("changed", "redirect_to", "truncated", "warc_file", "warc_offset"),
)
_PAGE = (
    *(
        "title",
        "language",
        "language_score",
        "charset",
        "published_at",
        "canonical",
        "may_index",
        "may_follow",
    ),
    *("redirect_from", "faults", "size"),
)


def explain_url(root: str, config: Config, url: str, clock: Clock | None = None) -> UrlExplanation:
    """Explain the state of a URL.

    Raises:
        UrlError: it cannot be parsed as a URL at all.
        ConfigError: the exclusion list cannot be read.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    crawl = StoredCrawl(Workspace.open(root), config, typed_url(url), clock or SystemClock())
    tables, identity = crawl.tables, crawl.identity
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (
        pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64)
    )
    page = tables.scan("pages").filter(here).collect()
    referrers = crawl.links.select("source", "anchor", "kind", "rel", "found_at")
    visits = tables.scan("visits").filter(
        here & (pl.col("url") == crawl.url) & (pl.col("kind") != VisitKind.CHECK.value)
    )
    robots, collections, host_clock = _crawl_facts(crawl)
    return UrlExplanation(
        url=crawl.url,
        given=without_user(url),
        host=identity.host,
        partition=identity.partition,
        url_key=f"{identity.url_key:016x}",
        exclusion=_exclusion(identity, crawl.excluded, crawl.log),
        collections=collections,
        robots=robots,
        host_clock=host_clock,
        visits=visits.sort("fetched_at").select(_VISIT).tail(_MAX_ROWS).collect().to_dicts(),
        page=page.select(_PAGE).to_dicts(),
        referrers=Inlinks(referrers.height, referrers.head(_MAX_ROWS).to_dicts()),
        same_text=_same_text(tables, page, crawl.url),
    )


def _crawl_facts(
    crawl: StoredCrawl,
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """What robots.txt, the collections and the clock of the host decide about the URL."""
    identity, rows = crawl.identity, crawl.rows()
    host = crawl.tables.scan("hosts").filter(pl.col("host") == identity.host).collect()
    robots = robots_facts(host, crawl.url, crawl.config.fetch.user_agent)
    columns = crawl.frame.drop("partition", "host_key", "url_key").to_dicts()
    entries = [
        row_facts(crawl, row, own, robots) for row, own in zip(rows, columns, strict=True)
    ] or [unknown_facts(crawl, name, robots) for name in crawl.assignments]
    working = {row.collection for row in rows} or set(crawl.assignments)
    clocks = [
        clock_facts(
            row,
            crawl.domain_not_before(),
            _last_visit(crawl.tables, identity),
            [each.collection for name, each in crawl.assignments.items() if name in working],
            robots.get("crawl_delay_ms") or 0,
        )
        for row in host.to_dicts()
    ]
    return robots, entries, clocks


def _exclusion(identity: UrlId, excluded: ExclusionCheck, state: LogState) -> str:
    """The exclusion that holds for the URL: of the operator's file, or of the log; "" for none."""
    rule = excluded.rule(identity.url)
    if rule is not None:
        return Message("excluded_by_file", "crawl.exclusions: {rule}", rule=str(rule))
    if state.exclusions.excluded(identity.url, identity.host):
        rules = ", ".join(rule for rule in state.exclusions.rules if _names(rule, identity))
        return Message("excluded_by_rule", "lycosa exclude: {rules}", rules=rules)
    return ""


def _names(rule: str, identity: UrlId) -> bool:
    kind, _, value = rule.partition(":")
    host = identity.host.removesuffix(".")
    if kind == "prefix":
        return identity.url.partition("://")[2].startswith(value)
    return host == value or (kind == "domain" and host.endswith(f".{value}"))


def _last_visit(tables: LiveTables, identity: UrlId) -> dict[str, Any] | None:
    """The host's last exchange."""
    visits = tables.scan("visits").filter(
        pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)
    )
    rows = (
        visits.select("fetched_at", "duration_ms", "http_status")
        .sort("fetched_at")
        .tail(1)
        .collect()
    )
    return rows.row(0, named=True) if rows.height else None


def _same_text(tables: LiveTables, page: pl.DataFrame, url: str) -> list[str]:
    if not page.height or not page["text"][0]:
        return []
    same = tables.scan("pages").filter(
        (pl.col("text_digest") == page["text_digest"][0]) & (pl.col("url") != url)
    )
    return sorted(same.select("url").head(_MAX_ROWS).collect()["url"].to_list())
