"""Test exports by day of old documents, and of 100,000 pages."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from bench.commands import build, run, validate
from bench.harness import timed

from tests.crawl.kills import run_json
from tests.crawl.sessions import LaterClock, collection, work
from tests.page.document_files import pdf
from tests.servers.nginx import Server, nginx

_DAY_MS = 86_400_000


def test_older_versions_of_a_document_are_read_from_the_archive(tmp_path: Path) -> None:
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    root.mkdir()
    versions = {3: b"They hunt at night.", 0: b"They sleep by day."}
    with nginx([Server("127.0.0.1", root)]) as served:
        job = (
            collection("default", recrawl="age", max_age="1d"),
            [f"http://127.0.0.1:{served.port}/news.pdf"],
        )
        for days_ago, words in versions.items():
            (root / "news.pdf").write_bytes(pdf(words))
            work(workspace, [job], clock=LaterClock(-days_ago * _DAY_MS))
    report: dict[str, object] = {
        **run_json(workspace, "export", "xml", str(tmp_path / "library"), "--json")
    }
    assert (report["unreadable"], report["documents"]) == (0, 2)
    written = "".join(path.read_text() for path in sorted((tmp_path / "library").rglob("*.xml")))
    assert re.findall(r"They \w+ \w+ \w+", written) == [
        words.decode().rstrip(".") for words in versions.values()
    ]


PAGES = 100_000
MAX_COST = 3.5  # CPU of the export to that of lxml for validating its files; measured 2.0 to 2.6
MAX_MB = 600
MAX_GROWTH = 1.35  # of peak memory, from 25,000 to 100,000 pages


@pytest.mark.prove
def test_speed_and_memory_with_100_000_pages(tmp_path: Path) -> None:
    peaks = []
    for name, pages in (("quarter", PAGES // 4), ("whole", PAGES)):
        workspace = build(tmp_path / name, pages)
        out = tmp_path / f"{name}-out"
        export_s, _, peak_mb = run(tmp_path, "-w", workspace.root, "export", "xml", str(out), "-q")
        valid, _, validation_ms = timed(functools.partial(validate, out))
        assert valid == pages
        assert 1000 * export_s <= MAX_COST * validation_ms
        peaks.append(peak_mb)
    assert peaks[1] <= MAX_MB
    assert peaks[1] <= MAX_GROWTH * peaks[0]
