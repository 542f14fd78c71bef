"""Serve the six sites, once for all tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.sites import ServedSites, require_sites, serve_sites
from tests.shared import created_once
from tests.sites.walk import expected_urls

PORT = ":PORT/"


@pytest.fixture(scope="session")
def served() -> Iterator[ServedSites]:
    with serve_sites(require_sites()) as sites:
        yield sites


@pytest.fixture(scope="session")
def expected(served: ServedSites, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """URL -> status of all fetches that a crawl of the six sites must make."""
    port = f":{served.server.port}/"

    def write(path: Path) -> None:
        statuses = expected_urls(served.roots(), served.seeds()).items()
        path.write_text(
            json.dumps({url.replace(port, PORT, 1): status for url, status in statuses})
        )

    cache = created_once(tmp_path_factory, "walked.json", write)  # the walk takes 8 s
    return {
        url.replace(PORT, port, 1): status for url, status in json.loads(cache.read_text()).items()
    }
