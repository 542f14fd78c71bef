"""The worker on a large frontier: memory, disk and files, at 1 M and at 10 M known URLs. The
figures are bench/large.py's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

FETCHES = 200_000
MAX_MIB = 300e6 / 2**20
"""300 MB at the highest moment, while a commit is written. 329 MB were measured after 130,000
fetches of 10 M URLs.
"""


def crawl(folder: Path, urls: int, hosts: int) -> dict[str, Any]:
    figures = folder / f"{urls}.json"
    sizes = ["--urls", str(urls), "--hosts", str(hosts), "--fetches", str(FETCHES)]
    subprocess.run(
        [sys.executable, "-m", "bench.large", *sizes, "--json", str(figures)], check=True
    )
    results: dict[str, Any] = json.loads(figures.read_text())
    return results


@pytest.mark.prove
def test_memory_and_disk_do_not_depend_on_how_much_is_known(tmp_path: Path) -> None:
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
        resident = figures["resident_mib"][-12:]  # the caches of links have filled by then
        assert median(resident[6:]) <= 1.1 * median(resident[:6])
        assert figures["files"] <= 500
    assert median(large["resident_mib"][-12:]) <= 1.1 * median(small["resident_mib"][-12:])
