"""The webs that clusters crawl in tests: the same answers at any time, so that any two crawls to
the end must come to the same.
"""

from __future__ import annotations

import json

from tests.crawl.polite import BACKOFF_MS, ServedWeb, promises
from tests.servers.synthetic.politeness import Rules
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.web import Web

DELAY_MS, COURTESY, PLACES = 200, 0.0, 4
HOLD_MS, REASSIGN_MS = 1_500, 3_000

STEADY = (
    *("static=1.0", "size_exponent=0.5", "subdomains=0.15", "latency_ms=10"),
    *("redirects=0.05", "duplicates=0.04", "gone=0.03", "forbidden=0.03", "assets=0.05"),
    *("robots_missing=0.12", "robots_closed=0.03", "robots_named=0.15"),
    *("sitemaps=0.4", "feeds=0.3", "compressed=0.2", "chunked=0.15"),
)
"""Features of a web that answers a question in the same way whenever it is asked, and lets a crawl
end soon (no long pauses).
"""

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
    "collection.traps": "false",  # what looks like one depends on the order in which pages come
    "collection.delay": f"{DELAY_MS}ms",
    "collection.courtesy_factor": str(COURTESY),
    "collection.backoff": f"{BACKOFF_MS}ms",
    "collection.connections": "200",
    "collection.domain_connections": str(PLACES),
    "collection.address_connections": "256",
}


def options(seed: int, hosts: int, pages: int) -> tuple[str, ...]:
    """Arguments for `tests.crawl.polite.served_web`."""
    features = [part for feature in STEADY for part in ("--set", feature)]
    return ("--calm", "--seed", str(seed), "--hosts", str(hosts), "--pages", str(pages), *features)


def overrides(served: ServedWeb, **changes: str) -> list[str]:
    """Options `--set` for a crawl of this web; `changes` are settings of the collection."""
    settings = (
        SETTINGS
        | {"fetch.connect_to": json.dumps(served.connect_to)}
        | {f"collection.{key}": text for key, text in changes.items()}
    )
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def rules(web: Web, unseen: frozenset[Logged]) -> Rules:
    """What every crawl with these settings promises, whoever carries it out."""
    return promises(web, unseen, delay_ms=DELAY_MS, courtesy_factor=COURTESY, domain_places=PLACES)
