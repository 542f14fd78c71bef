"""Webs for tests of clusters. Responses do not change, so all complete crawls are equal."""

from __future__ import annotations

import json

from tests.crawl.synthetic_crawls import BACKOFF_MS, ServedWeb, politeness_rules
from tests.servers.synthetic.politeness import Rules
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.web import Web

DELAY_MS, COURTESY, DOMAIN_CONNECTIONS = 200, 0.0, 4
HOLD_MS, REASSIGN_MS = 1_500, 3_000

STABLE_FEATURES = (
    *("static=1.0", "size_exponent=0.5", "subdomains=0.15", "latency_ms=10"),
    *("redirects=0.05", "duplicates=0.04", "gone=0.03", "forbidden=0.03", "assets=0.05"),
    *("robots_missing=0.12", "robots_closed=0.03", "robots_named=0.15"),
    *("sitemaps=0.4", "feeds=0.3", "compressed=0.2", "chunked=0.15"),
)
"""Features of a web with repeatable responses and without long delays."""

SETTINGS = {
    "crawl.patience": "3s",
    "crawl.commit_pages": "200",
    "crawl.commit_interval": "1s",
    "cluster.ping_interval": "200ms",
    "cluster.hold": f"{HOLD_MS}ms",
    "cluster.reassign": f"{REASSIGN_MS}ms",
    "fetch.connections": "200",
    "fetch.retry_wait": "1s",
    "run.restarts": "100",
    "collection.scope": "any",
    "collection.traps": "false",  # trap detection depends on the order of pages
    "collection.delay": f"{DELAY_MS}ms",
    "collection.courtesy_factor": str(COURTESY),
    "collection.backoff": f"{BACKOFF_MS}ms",
    "collection.connections": "200",
    "collection.domain_connections": str(DOMAIN_CONNECTIONS),
    "collection.address_connections": "256",
}


def options(seed: int, hosts: int, pages: int) -> tuple[str, ...]:
    """Arguments for `tests.crawl.synthetic_crawls.served_web`."""
    features = [part for feature in STABLE_FEATURES for part in ("--set", feature)]
    return ("--calm", "--seed", str(seed), "--hosts", str(hosts), "--pages", str(pages), *features)


def overrides(served: ServedWeb, **changes: str) -> list[str]:
    """Return `--set` options for a crawl of this web; `changes` are collection settings."""
    settings = (
        SETTINGS
        | {"fetch.connect_to": json.dumps(served.connect_to)}
        | {f"collection.{key}": text for key, text in changes.items()}
    )
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def rules(web: Web, unseen: frozenset[LogEntry]) -> Rules:
    """Return the politeness rules that every crawl with these settings must follow."""
    return politeness_rules(
        web, unseen, delay_ms=DELAY_MS, courtesy_factor=COURTESY, domain_slots=DOMAIN_CONNECTIONS
    )
