"""Serve the six sites, once for all tests of this folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator

import pytest

from tests.servers.sites import ServedSites, require_sites, serve_sites
from tests.sites.walk import expected_urls

PORT = ":PORT/"


@pytest.fixture(scope="session")
def served() -> Iterator[ServedSites]:
    with serve_sites(require_sites()) as sites:
        yield sites


@pytest.fixture(scope="session")
def expected(served: ServedSites, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """URL -> status of all fetches that a crawl of the six sites must make."""
    base = tmp_path_factory.getbasetemp()
    # The walk takes 8 s, so all pytest workers share its result.
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "walked.json"
    with cache.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache.exists():
            port = f":{served.server.port}/"
            statuses = expected_urls(served.roots(), served.seeds()).items()
            cache.write_text(
                json.dumps({url.replace(port, PORT, 1): status for url, status in statuses})
            )
    return {
        url.replace(PORT, f":{served.server.port}/", 1): status
        for url, status in json.loads(cache.read_text()).items()
    }
