"""A crawl of the six sites fetches exactly the URLs that the independent walk over their files
finds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers.sites import ServedSites

CRAWL_LIMIT_S = 300.0
LYCOSA = Path(sys.executable).parent / "lycosa"


@pytest.fixture(scope="module")
def workspace(served: ServedSites, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One crawl of all six sites, by the command that a user types."""
    path = tmp_path_factory.mktemp("crawl") / "workspace"
    _lycosa(
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


def _lycosa(workspace: Path, *arguments: str) -> object:
    """Run a command and read its JSON."""
    result = subprocess.run(
        [str(LYCOSA), "-w", str(workspace), *arguments],
        capture_output=True,
        text=True,
        timeout=CRAWL_LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, (
        f"lycosa {arguments[0]} ended with {result.returncode}: {result.stderr[-3000:]}"
    )
    document: object = json.loads(result.stdout)
    return document


def _visits(workspace: Path) -> list[tuple[str, int]]:
    """(url, status) of every exchange for a page."""
    rows = _lycosa(
        workspace, "sql", "SELECT url, http_status FROM visits WHERE kind = 'page'", "--json"
    )
    assert isinstance(rows, list)
    return [(row["url"], row["http_status"]) for row in rows]


def test_fetches_exactly_the_urls_of_the_walk_and_each_once(
    workspace: Path, expected: dict[str, int]
) -> None:
    visits = _visits(workspace)
    missing = sorted(expected.keys() - dict(visits).keys())
    surplus = sorted(dict(visits).keys() - expected.keys())
    assert (missing, surplus) == ([], []), f"{len(missing)} missing, {len(surplus)} too many"
    assert Counter(visits) == Counter(expected.items())  # the statuses


def test_nginx_saw_what_the_visits_say(
    workspace: Path, served: ServedSites, expected: dict[str, int]
) -> None:
    """What stands in the table is what went over the wire: nothing fetched and forgotten, nothing
    made up.
    """
    wire = {
        request.url: request.status
        for request in served.server.requests()
        if request.agent.startswith("lycosa")
    }
    robots = {url for url in wire if url.endswith("/robots.txt")}
    assert robots == {f"{origin}/robots.txt" for origin in served.roots()}
    assert (
        {url: status for url, status in wire.items() if url not in robots}
        == dict(_visits(workspace))
        == expected
    )
