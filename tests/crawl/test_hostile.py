"""A crawl of a server that misbehaves in every known way.

Each endpoint has a counted outcome, and no other host is delayed.
"""

from __future__ import annotations

from collections import Counter

import pytest

from lycosa.core.errors import FetchError
from lycosa.core.records import UrlState
from tests.crawl.conftest import Crawled, RunCrawl
from tests.servers.hostile import ENDPOINTS, GOOD_PAGES, HostileServer
from tests.servers.hostile import server as server

QUICK = (
    "fetch.connect_timeout=1s",
    "fetch.first_byte_timeout=700ms",
    "fetch.total_timeout=3s",
    "fetch.slow_time=1s",
    "fetch.slow_speed=2KiB",
    "fetch.retries=1",
    "fetch.retry_wait=50ms",
    "fetch.max_body=2MiB",
    "fetch.max_decoded=8MiB",
    "crawl.patience=3s",
)
BUSY = "/busy-"
CALM = [endpoint for endpoint in ENDPOINTS if not endpoint.name.startswith("busy-")]


def _outcomes(crawled: Crawled) -> dict[str, list[str]]:
    """Return URL -> error or status of each exchange."""
    seen: dict[str, list[str]] = {}
    for row in crawled.rows("visits"):
        seen.setdefault(str(row["url"]), []).append(str(row["error"] or row["http_status"]))
    return seen


@pytest.mark.proves("limits-outcome", "limits-time")
def test_every_endpoint_has_an_outcome_and_delays_no_other_host(
    server: HostileServer, run: RunCrawl
) -> None:
    assert len(ENDPOINTS) >= 40
    home, good = f"{server.origin()}/", f"{server.origin('good')}/"
    # The busy endpoints pause the host by Retry-After and have their own test.
    crawled = run(
        home,
        good,
        settings=QUICK,
        connections_per_host=8,
        depth=GOOD_PAGES + 2,
        delay="1ms",
        deny=[BUSY, r"/links/\d\d"],
        index=True,
    )
    assert crawled.progress.ended == "finished"
    outcomes = _outcomes(crawled)
    rows = {str(row["url"]): row for row in crawled.rows("urls")}
    for endpoint in CALM:
        url = server.url(endpoint.name)
        assert url in rows, f"{endpoint.name} was lost"
        row = rows[url]
        if row["state"] != UrlState.EXCLUDED:
            assert outcomes[url], f"{endpoint.name} has no visit"
        assert row["state"] != UrlState.KNOWN or row["reason"], (
            f"{endpoint.name} is queued without a reason"
        )
    vocabulary = {error.value for error in FetchError}
    assert {str(row["error"]) for row in crawled.rows("visits")} - {""} <= vocabulary
    received = [request for request in server.requests("good") if request.path != "/robots.txt"]
    assert len({request.path for request in received}) == GOOD_PAGES + 1
    all_times = [request.at_ms for request in (*server.requests("hostile"), *received)]
    good_took = max(request.at_ms for request in received) - min(
        request.at_ms for request in received
    )
    assert good_took < (max(all_times) - min(all_times)) / 2  # it ends long before the hostile host
    assert +crawled.progress.states == Counter(str(row["state"]) for row in rows.values())
    crawled.assert_sound()


def test_busy_host_is_paused_for_its_retry_after(server: HostileServer, run: RunCrawl) -> None:
    busy = [endpoint.name for endpoint in ENDPOINTS if endpoint.name.startswith("busy-")]
    assert len(busy) >= 3
    for name in busy:
        crawled = run(server.url(name), settings=(*QUICK, "crawl.patience=0"), depth=0)
        row = next(row for row in crawled.rows("urls") if row["url"] == server.url(name))
        assert row["state"] == UrlState.KNOWN
        # "": the Retry-After of an earlier endpoint still applies to the host
        assert row["reason"] in {"http_429", "http_503", ""}
    assert any(row["reason"] for row in crawled.rows("urls"))
