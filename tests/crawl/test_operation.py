"""Rows of a search over a site (`find`) that wait for a page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.crawl.policy.operations import Operations


def test_a_row_that_ended_does_not_run_again_when_its_page_comes() -> None:
    settled: list[Any] = []
    crawl: Any = SimpleNamespace(
        config=SimpleNamespace(crawl=SimpleNamespace(patience=60_000)),
        clock=SimpleNamespace(now_ms=lambda: 0),
        urls=SimpleNamespace(
            change=lambda row: None, settle=lambda row, state, reason: settled.append(row)
        ),
        listeners=[],
        scheduler=SimpleNamespace(heads=SimpleNamespace(wait_for=lambda row: None)),
        frontier=SimpleNamespace(active=SimpleNamespace(remove=lambda *_: None)),
    )
    nothing: Any = None
    operations = Operations(crawl, nothing, nothing, {})
    row = UrlRow(UrlId("http://a.test/", "a.test", 2, 1, 0), "c", 0, operation="find:x")
    operations._wait(row, 1_000)
    operations._end(row, UrlState.VISITED)
    page: Any = SimpleNamespace(
        collection="c", id=row.id, operation="", state=UrlState.GONE, reason="gone"
    )
    operations.row_processed(page, nothing, None)
    assert settled == [row]
    assert not operations._waiting
