"""A whole crawl of a server that misbehaves in every known way: each endpoint is a counted outcome,
nobody else waits.
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
    """URL -> what each of its exchanges came to."""
    seen: dict[str, list[str]] = {}
    for row in crawled.rows("visits"):
        seen.setdefault(str(row["url"]), []).append(str(row["error"] or row["http_status"]))
    return seen


@pytest.mark.proves("limits-outcome", "limits-time")
def test_every_endpoint_is_a_counted_outcome_and_the_good_host_does_not_wait(
    server: HostileServer, run: RunCrawl
) -> None:
    assert len(ENDPOINTS) >= 40
    home, good = f"{server.origin()}/", f"{server.origin('good')}/"
    # A busy answer with a long Retry-After rests the whole host, as it should; those have a test of
    # their own.
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
            assert outcomes[url], f"{endpoint.name} left no visit"
        assert row["state"] != UrlState.KNOWN or row["reason"], (
            f"{endpoint.name} waits without a reason"
        )
    vocabulary = {error.value for error in FetchError}
    assert {str(row["error"]) for row in crawled.rows("visits")} - {""} <= vocabulary
    received = [request for request in server.requests("good") if request.path != "/robots.txt"]
    assert len({request.path for request in received}) == GOOD_PAGES + 1
    whole = [request.at_ms for request in (*server.requests("hostile"), *received)]
    good_took = max(request.at_ms for request in received) - min(
        request.at_ms for request in received
    )
    assert good_took < (max(whole) - min(whole)) / 2  # it ends long before the hostile host does
    assert +crawled.progress.states == Counter(str(row["state"]) for row in rows.values())
    crawled.assert_sound()


def test_a_busy_host_is_left_alone_for_as_long_as_it_says(
    server: HostileServer, run: RunCrawl
) -> None:
    busy = [endpoint.name for endpoint in ENDPOINTS if endpoint.name.startswith("busy-")]
    assert len(busy) >= 3
    for name in busy:
        crawled = run(server.url(name), settings=(*QUICK, "crawl.patience=0"), depth=0)
        row = next(row for row in crawled.rows("urls") if row["url"] == server.url(name))
        assert row["state"] == UrlState.KNOWN
        # "": an earlier one's Retry-After still holds for the host
        assert row["reason"] in {"http_429", "http_503", ""}
    assert any(row["reason"] for row in crawled.rows("urls"))
