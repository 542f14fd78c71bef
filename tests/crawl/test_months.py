"""Long crawls: memory and disk space do not grow without bound.

Months on a changing web in simulated time, and 10 million known URLs (bench/large.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

from lycosa.frontier.recrawl.change_rate import DAY_MS
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.months import Months, live
from tests.servers.synthetic.plan import WebPlan

BURST_SHARE = 600_000 / DAY_MS


def assert_within_budget(months: Months, budget: int) -> None:
    """Check the fetches per day against the budget and the saved burst."""
    assert max(months.refetches) <= budget * (1 + BURST_SHARE) + 2


def assert_sound(root: Path) -> None:
    report = verify(Workspace.open(str(root)), deep=True)
    assert report.ok, [finding.what for finding in report.findings]


@pytest.mark.proves("limits-recrawl")
def test_simulated_crawl_of_three_days_stays_within_its_budget(tmp_path: Path) -> None:
    """Crawl for two days, then for another one after a day without a crawl."""
    plan = WebPlan(hosts=8, pages=60, seed=3)
    live(tmp_path, plan, days=2, fetches_per_day=50)
    months = live(tmp_path, plan, days=1, fetches_per_day=50, from_day=3)
    assert months.pages >= 55
    assert_within_budget(months, 50)
    assert months.refetches[2] <= 3  # the first run ended some minutes after midnight
    assert min(months.refetches[1], months.refetches[3]) >= 0.5 * 50
    assert 0 < sum(months.changed) < sum(months.refetches)
    tables = LiveTables(Workspace.open(str(tmp_path)))
    visited = (
        tables.scan("urls")
        .filter((pl.col("state") == "visited") & (pl.col("operation") == ""))
        .collect()
    )
    assert (visited["importance"] > 0).all()
    assert visited.filter(pl.col("checks") > 0)["change_rate"].n_unique() > 10
    assert months.fresh(4) > months.uniform * 0.8  # change rates are uncertain in the first days
    assert (
        tables.scan("pages").select(pl.struct("url").is_duplicated().any()).collect().item()
        is False
    )
    assert_sound(tmp_path)


@pytest.mark.proves("limits-memory", "limits-recrawl")
@pytest.mark.prove
def test_simulated_crawl_of_sixty_days(tmp_path: Path) -> None:
    """600 pages, 300 fetches per day."""
    months = live(tmp_path, WebPlan(hosts=30, pages=600), days=60, fetches_per_day=300)
    print(months.table())
    assert months.pages >= 540
    assert_within_budget(months, 300)
    assert sum(months.refetches[10:]) >= 0.9 * 300 * 50
    tenth, last = months.days[9], months.days[59]
    assert last.resident_mb <= 1.1 * tenth.resident_mb
    # a visit's row is less than half a kilobyte
    assert last.tables_mb <= 1.5 * tenth.tables_mb + sum(months.refetches) * 0.0005
    text_mb = months.days[0].archive_mb / months.pages  # per page, with headers
    grown = last.archive_mb - months.days[0].archive_mb
    # the records of a revisit: at most 2.5 kB
    assert grown <= 1.3 * text_mb * sum(months.changed) + 0.0025 * sum(months.refetches)
    assert months.fresh(30) > months.uniform
    assert months.fresh(30) >= 0.9 * months.optimum
    assert_sound(tmp_path)


FETCHES = 200_000
MAX_MIB = 300e6 / 2**20
"""Peak memory while a commit is written: 300 MB."""


def crawl(folder: Path, urls: int, hosts: int) -> dict[str, Any]:
    figures = folder / f"{urls}.json"
    sizes = ["--urls", str(urls), "--hosts", str(hosts), "--fetches", str(FETCHES)]
    subprocess.run(
        [sys.executable, "-m", "bench.large", *sizes, "--json", str(figures)], check=True
    )
    results: dict[str, Any] = json.loads(figures.read_text())
    return results


@pytest.mark.proves("limits-memory")
@pytest.mark.prove
def test_memory_and_disk_do_not_grow_with_the_number_of_known_urls(tmp_path: Path) -> None:
    small, large = crawl(tmp_path, 1_000_000, 100_000), crawl(tmp_path, 10_000_000, 1_000_000)
    for figures in (small, large):
        assert figures["pages"] == FETCHES
        assert figures["peak_mib"] < MAX_MIB
        assert figures["bytes_a_url"] <= 60
        assert figures["resume_s"] < 10
        assert (
            sum(
                figures["shares"].get(part, 0.0)
                for part in ("commit", "cut", "refresh", "refill", "merge")
            )
            < 0.05
        )
        resident = figures["resident_mib"][-12:]  # the link caches are full by then
        assert median(resident[6:]) <= 1.1 * median(resident[:6])
        assert figures["files"] <= 500
    assert median(large["resident_mib"][-12:]) <= 1.1 * median(small["resident_mib"][-12:])
