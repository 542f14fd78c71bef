"""Every worker gets its share of the pages, as far as single sites allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.balance import balance
from tests.cluster.driver import ClusterCrawl
from tests.crawl.polite import served_web

BAR = 0.15


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sites_of_skewed_size(tmp_path: Path, seed: int) -> None:
    """164 sites, the largest with a sixth of all pages, each its own registrable domain; four workers that know none of it at first."""
    features = ("--set", "static=1.0", "--set", "size_exponent=1.0", "--set", "latency_ms=10")
    web = ("--calm", "--seed", str(seed), "--hosts", "164", "--pages", "4000", *features)
    with (
        served_web(tmp_path, *web) as served,
        ClusterCrawl(tmp_path / "crawl", served, ("--engine", "local", "--workers", "4"), ("--set", "collection.delay=100ms")) as crawl,
    ):
        assert crawl.finish()["ended"] == "finished"
    found = balance(tmp_path / "crawl", 4)
    print(found)
    assert sum(found.pages) >= 4_000
    assert found.apart <= max(BAR, found.best + 0.05)
