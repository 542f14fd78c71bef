"""`explain`: everything that is known of one URL, and why it was or was not fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from lycosa.core.config import Collection, Config
from lycosa.fetch.robots import Robots, product_token, robots_verdict
from lycosa.store.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission, url_origin

_MOST = 10
_VISIT = (
    *("fetched_at", "http_status", "error", "attempt", "duration_ms", "protocol", "ip", "content_type", "content_length"),
    *("redirect_to", "truncated", "warc_file", "warc_offset"),
)
_PAGE = (
    *("title", "language", "language_score", "charset", "published_at", "canonical", "may_index", "may_follow"),
    *("redirect_from", "faults", "size"),
)
_Entry = tuple[Collection, tuple[str, ...]]


def explain_url(root: str, config: Config, url: str) -> Mapping[str, object]:
    """Identity, state, scope, robots, host clock, visits, page, referrers and duplicates of a URL.

    Raises:
        UrlError: it cannot be parsed as a URL at all.
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    tables = LiveTables(workspace, state)
    plain = normalise(url if "://" in url else f"http://{url}")
    collections = {name: _collection(settings) for name, settings in state.settings.items()}
    candidates = {plain, *(Rules(collection).apply(plain) for collection, _ in collections.values())}
    identifier = Identifier(workspace.domains, workspace.partitions)
    rows = tables.scan("urls").filter(pl.col("url").is_in(list(candidates))).collect()
    known = rows["url"][0] if rows.height else plain
    identity = identifier.identify(known)
    here = (pl.col("host_key") == pl.lit(identity.host_key, pl.UInt64)) & (pl.col("url_key") == pl.lit(identity.url_key, pl.UInt64))
    host = tables.scan("hosts").filter(pl.col("host") == identity.host).collect()
    page = tables.scan("pages").filter(here).collect()
    links = tables.scan("links").filter(pl.col("target") == known).sort("found_at")
    visits = tables.scan("visits").filter(here & (pl.col("url") == known)).sort("fetched_at")
    referrers = links.select("source", "anchor", "kind", "rel", "found_at").collect()
    return {
        "url": known,
        "given": url,
        "host": identity.host,
        "partition": identity.partition,
        "url_key": f"{identity.url_key:016x}",
        "collections": [
            _in_collection(row, collections.get(str(row["collection"])), workspace.domains)
            for row in rows.drop("partition", "host_key", "url_key").to_dicts()
        ]
        or [_unknown(name, entry, known, workspace.domains) for name, entry in collections.items()],
        "robots": _robots(host, known, config.fetch.user_agent),
        "host_clock": host.select("delay", "not_before", "last_visit_at", "latency", "fails", "known", "visited", "pages").to_dicts(),
        "visits": visits.select(_VISIT).tail(_MOST).collect().to_dicts(),
        "page": page.select(_PAGE).to_dicts(),
        "referrers": {"total": referrers.height, "first": referrers.head(_MOST).to_dicts()},
        "same_text": _same_text(tables, page, known),
    }


def _collection(settings: Mapping[str, Any]) -> _Entry:
    """A collection and its seeds as the log recorded them."""
    seeds = tuple(settings.get("seeds", ()))
    fields = {name: value for name, value in settings.items() if name in Collection.model_fields}
    return Collection.model_validate(fields), seeds


def _in_collection(row: dict[str, Any], entry: _Entry | None, domains: Domains) -> dict[str, object]:
    return {**row, "why": _why(row), **_scope(row["url"], entry, domains)}


def _unknown(name: str, entry: _Entry, url: str, domains: Domains) -> dict[str, object]:
    return {
        "collection": name,
        "state": None,
        "why": "never admitted: no link to it was followed, or it was refused",
        **_scope(url, entry, domains),
    }


def _scope(url: str, entry: _Entry | None, domains: Domains) -> dict[str, object]:
    if entry is None:
        return {}
    collection, seeds = entry
    depth = "no limit" if collection.depth is None else str(collection.depth)
    return {"scope_says": Admission(collection, seeds, domains).explain(url), "depth_limit": depth}


_WHY = {
    "known": "known, waits to be fetched",
    "visited": "fetched and understood",
    "gone": "the server says that it is not there",
    "excluded": "admitted once, then stopped",
}


def _why(row: Mapping[str, Any]) -> str:
    reason = row["reason"]
    if row["state"] == "known" and reason:
        return f"the last attempt failed ({reason}); it is due again at not_before"
    return _WHY[row["state"]] + (f": {reason}" if reason else "")


def _robots(host: pl.DataFrame, url: str, user_agent: str) -> dict[str, object]:
    origin = url_origin(url)
    entries = [entry for row in host["robots"].to_list() for entry in row or () if entry["origin"] == origin] if host.height else []
    if not entries:
        return {"origin": origin, "says": "not known: robots.txt has not been fetched"}
    entry = entries[-1]
    verdict = robots_verdict(entry["status"], "" if entry["status"] else "no answer")
    facts = {"origin": origin, "status": entry["status"], "fetched_at": entry["fetched_at"], "expires_at": entry["expires_at"]}
    if verdict != "parse":
        says = "everything is allowed: there is no robots.txt" if verdict == "allow_all" else "nothing is allowed: robots.txt cannot be had"
        return {**facts, "says": says}
    robots = Robots(entry["body"], user_agent)
    allowed = robots.allowed(url)
    return {
        **facts,
        "token": product_token(user_agent),
        "says": "allowed" if allowed else "not allowed",
        "by": robots.line(url),
        "crawl_delay_ms": robots.crawl_delay_ms(),
    }


def _same_text(tables: LiveTables, page: pl.DataFrame, url: str) -> list[str]:
    if not page.height or not page["text"][0]:
        return []
    same = tables.scan("pages").filter((pl.col("text_digest") == page["text_digest"][0]) & (pl.col("url") != url))
    return sorted(same.select("url").head(_MOST).collect()["url"].to_list())
