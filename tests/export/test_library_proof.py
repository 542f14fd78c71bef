"""100,000 pages through the XML library: valid, fast enough by CPU time, and in memory that does
not grow with them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.commands import build, run, validate

PAGES = 100_000
MIN_RATE = 2_000  # pages a second of CPU
MAX_MB = 600
MAX_GROWTH = 1.35  # of memory, from a quarter of the pages to all


@pytest.mark.prove
def test_a_hundred_thousand_pages(tmp_path: Path) -> None:
    peaks = []
    for name, pages in (("quarter", PAGES // 4), ("whole", PAGES)):
        workspace = build(tmp_path / name, pages)
        cpu_s, _, peak_mb = run(
            tmp_path, "-w", workspace.root, "export", "xml", str(tmp_path / f"{name}-out"), "-q"
        )
        assert validate(tmp_path / f"{name}-out") == pages
        assert pages / cpu_s >= MIN_RATE
        peaks.append(peak_mb)
    assert peaks[1] <= MAX_MB
    assert peaks[1] <= MAX_GROWTH * peaks[0]
