"""Code that is given back is gone from memory, and runs all the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import polars as pl
import pytest

from lycosa.app.memory import give_back_code


def _of_files_kb() -> int:
    found = re.search(r"^RssFile:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux only")
def test_code_that_is_given_back_comes_again_when_it_runs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"key": [3, 1, 2], "text": ["c", "a", "b"]})

    def work() -> list[str]:
        frame.sort("key").write_parquet(tmp_path / "x.parquet")
        return pl.scan_parquet(tmp_path / "x.parquet").filter(pl.col("key") > 1).collect()["text"].to_list()

    assert work() == ["b", "c"]
    before = _of_files_kb()
    give_back_code()
    assert _of_files_kb() < before - 4_000
    assert work() == ["b", "c"]
