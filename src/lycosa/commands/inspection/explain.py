"""`explain`: everything that is known of one URL, and why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from lycosa.commands.inspection.explain_host import clock_facts, robots_facts
from lycosa.commands.inspection.explain_state import known_collection, row_facts, unknown_facts
from lycosa.config.credentials import without_user
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.messages import Message
from lycosa.core.records import UrlId, VisitKind
from lycosa.crawl.admission.url_filter import ExclusionCheck
from lycosa.crawl.session.pausing import pause_text, paused
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.exclusions import ExclusionFile
from lycosa.url.keys import Identifier, host_key
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.rules import Rules

_MOST = 10
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


def explain_url(
    root: str, config: Config, url: str, clock: Clock | None = None
) -> Mapping[str, object]:
    """Identity, state, schedule, scope, exclusion, robots, host clock, visits, page, referrers and
    duplicates of a URL.

    Raises:
        UrlError: it cannot be parsed as a URL at all.
        ConfigError: the exclusion list cannot be read.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    clock = clock or SystemClock()
    workspace = Workspace.open(root)
    domains = workspace.domains
    state = workspace.state()
    tables = LiveTables(workspace, state)
    plain = normalise(typed_url(url))
    settings = state.settings
    candidates = {
        plain,
        *(Rules(known_collection(each, 0).collection).apply(plain) for each in settings.values()),
    }
    rows = tables.scan("urls").filter(pl.col("url").is_in(list(candidates))).collect()
    known_url = str(rows["url"][0]) if rows.height else plain
    identity = Identifier(domains, workspace.partitions).identify(known_url)
    domain = domains.registrable(identity.host)
    collections = {
        name: known_collection(
            each, state.counters[f"pages.{name}"], *_held_pages(tables, name, identity, domain)
        )
        for name, each in settings.items()
    }
    file = ExclusionFile(Path(config.crawl.exclusions), clock) if config.crawl.exclusions else None
    excluded = ExclusionCheck(file, domains, state)
    others = config.fetch.other_schemes
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (
        pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64)
    )
    page = tables.scan("pages").filter(here).collect()
    referrers = (
        tables.scan("links")
        .filter(pl.col("target") == known_url)
        .sort("found_at")
        .select("source", "anchor", "kind", "rel", "found_at")
    )
    links = referrers.collect()
    host = tables.scan("hosts").filter(pl.col("host") == identity.host).collect()
    robots = robots_facts(host, known_url, config.fetch.user_agent)
    resting = [
        *host.to_dicts(),
        *([row] if (row := _domain_row(tables, domain)) is not None else []),
    ]
    rests = [each["not_before"] for each in resting if each["not_before"] is not None]
    pauses = paused(workspace.storage)
    entries = [
        row_facts(
            row,
            collections.get(str(row["collection"])),
            domains,
            other_schemes=others,
            rank_interval_ms=config.run.rank_interval,
            host_rests_until=max((round(each.timestamp() * 1000) for each in rests), default=0),
            robots=robots,
            paused=pause_text(pauses[row["collection"]]) if row["collection"] in pauses else "",
            now_ms=clock.now_ms(),
        )
        for row in rows.drop("partition", "host_key", "url_key").to_dicts()
    ]
    working = [
        collections[name].collection
        for name in collections
        if not rows.height or name in set(rows["collection"])
    ]
    return {
        "url": known_url,
        "given": without_user(url),
        "host": identity.host,
        "partition": identity.partition,
        "url_key": f"{identity.url_key:016x}",
        "exclusion": _exclusion(identity, excluded, state),
        "collections": entries
        or [
            unknown_facts(
                name,
                known,
                known_url,
                tables,
                excluded,
                domains,
                clock,
                other_schemes=others,
                documents=config.crawl.documents > 0,
                robots=robots,
            )
            for name, known in collections.items()
        ],
        "robots": robots,
        "host_clock": [
            clock_facts(
                row,
                _domain_row(tables, domain),
                _last_visit(tables, identity),
                working,
                robots.get("crawl_delay_ms") or 0,
            )
            for row in host.to_dicts()
        ],
        "visits": tables.scan("visits")
        .filter(here & (pl.col("url") == known_url) & (pl.col("kind") != VisitKind.CHECK.value))
        .sort("fetched_at")
        .select(_VISIT)
        .tail(_MOST)
        .collect()
        .to_dicts(),
        "page": page.select(_PAGE).to_dicts(),
        "referrers": {"total": links.height, "first": links.head(_MOST).to_dicts()},
        "same_text": _same_text(tables, page, known_url),
    }


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


def _domain_row(tables: LiveTables, domain: str) -> dict[str, Any] | None:
    """The row that holds a registrable domain's own rest, if there is one."""
    key = pl.lit(host_key(domain), pl.UInt64)
    rows = (
        tables.scan("hosts")
        .filter((pl.col("host") == "") & (pl.col("host_key") == key))
        .select("not_before")
        .collect()
    )
    return rows.row(0, named=True) if rows.height else None


def _held_pages(
    tables: LiveTables, collection: str, identity: UrlId, domain: str
) -> tuple[int, int]:
    """Pages that a collection holds of the URL's host, and of all hosts of its registrable domain:
    what budgets count.
    """
    hosts = (
        tables.scan("hosts")
        .filter((pl.col("host") != "") & (pl.col("registrable_domain") == domain))
        .select("host_key")
    )
    held = (
        (pl.col("collection") == collection)
        & (pl.col("operation") == "")
        & (pl.col("text_digest").fill_null(0) != 0)
    )
    pages = (
        tables.scan("urls")
        .filter(held)
        .join(hosts, on="host_key", how="semi")
        .group_by("host_key")
        .len()
        .collect()
    )
    by_host = dict(pages.iter_rows())
    return by_host.get(identity.host_key, 0), sum(by_host.values())


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
    return sorted(same.select("url").head(_MOST).collect()["url"].to_list())
