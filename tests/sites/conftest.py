"""The six sites, served once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sites import ServedSites, require_sites, serve_sites
from tests.sites.walk import expected_urls


@pytest.fixture(scope="session")
def served() -> Iterator[ServedSites]:
    with serve_sites(require_sites()) as sites:
        yield sites


@pytest.fixture(scope="session")
def expected(served: ServedSites) -> dict[str, int]:
    """URL -> status: what the walk over the files says that a crawl of all six sites fetches."""
    return expected_urls(served.roots(), served.seeds())
