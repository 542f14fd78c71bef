"""Test that a crawl of six sites fetches the URLs of the walk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crawl.kills import ask, lycosa
from tests.servers.sites import ServedSites


@pytest.fixture(scope="module")
def workspace(served: ServedSites, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One crawl of all six sites with the command line."""
    path = tmp_path_factory.mktemp("crawl") / "workspace"
    lycosa(
        path,
        "crawl",
        *served.seeds(),
        "--delay",
        "0",
        "--set",
        "collection.media_types=*",
        "--no-index",
        "--json",
        "--quiet",
    )
    return path


def test_crawl_fetches_exactly_the_urls_of_the_walk_once(
    workspace: Path, expected: dict[str, int]
) -> None:
    visits = ask(workspace, "SELECT url, http_status FROM visits WHERE kind = 'page'")
    urls = {row["url"] for row in visits}
    missing, surplus = sorted(expected.keys() - urls), sorted(map(str, urls - expected.keys()))
    assert (missing, surplus) == ([], []), f"{len(missing)} missing, {len(surplus)} too many"
    statuses = Counter((row["url"], row["http_status"]) for row in visits)
    assert statuses == Counter(expected.items())


def test_the_log_of_nginx_has_the_same_requests(
    workspace: Path, served: ServedSites, expected: dict[str, int]
) -> None:
    requested = {
        request.url: request.status
        for request in served.server.requests()
        if request.agent.startswith("lycosa")
    }
    robots = {url for url in requested if url.endswith("/robots.txt")}
    assert robots == {f"{origin}/robots.txt" for origin in served.roots()}
    assert {url: status for url, status in requested.items() if url not in robots} == expected
