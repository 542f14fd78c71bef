"""`CrawlState`: shorter paths to URLs, parked hosts, aborted requests.

A shorter path changes the row if it is in memory. Otherwise the depths behind it are updated later.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from lycosa.config.settings import Collection, Config
from lycosa.core.records import UrlRow, UrlState, VisitKind
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.recovery.resume import load
from lycosa.crawl.state.crawl_state import CrawlPlace, CrawlState
from lycosa.crawl.state.held_partitions import HeldPartitions, HeldTables
from lycosa.crawl.state.task import Job, Task
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.export.library_pages import Fetched, commit
from tests.waiting import ManualClock


def state_of(folder: Path, **settings: object) -> CrawlState:
    workspace = Workspace.create(str(folder / "workspace"), 4)
    job = Job(Collection.model_validate({"delay": 0, **settings}), ("http://h/",))
    return CrawlState(
        workspace.claim("test"),
        Config(),
        [job],
        ManualClock(),
        CrawlPlace(workspace.domains, HeldPartitions(workspace.partitions)),
    )


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[CrawlState]:
    state = state_of(tmp_path, courtesy_factor=0.0)
    yield state
    state.close()


def admit(crawl: CrawlState, url: str, depth: int) -> UrlRow:
    assert not crawl.assignments["default"].gate.admit(url, depth, 0, Provenance("http://h/"))
    row = crawl.urls.find("default", crawl.identifier.identify(url))
    assert row is not None
    return row


def test_shorter_path_decreases_the_depth_of_a_queued_url_and_moves_it_forward(
    crawl: CrawlState,
) -> None:
    row = admit(crawl, "http://h/waits", 5)
    admit(crawl, "http://h/other", 3)
    assert admit(crawl, "http://h/waits", 2) is row
    assert (row.depth, crawl.frontier.next(crawl.clock.monotonic_ms())) == (2, (row,))
    assert not crawl.assignments["default"].depth_decreased
    admit(crawl, "http://h/waits", 4)  # a longer path changes nothing
    assert row.depth == 2


def test_shorter_path_decreases_the_depth_of_a_url_in_flight(crawl: CrawlState) -> None:
    row = admit(crawl, "http://h/x", 5)
    assert crawl.frontier.next(crawl.clock.monotonic_ms()) == (row,)
    crawl.in_flight[row.key] = (row,)
    admit(crawl, "http://h/x", 1)
    assert row.depth == 1
    assert not crawl.assignments["default"].depth_decreased


def test_shorter_path_to_a_visited_url_is_recorded_for_an_update(crawl: CrawlState) -> None:
    row = admit(crawl, "http://h/done", 5)
    assert crawl.frontier.next(crawl.clock.monotonic_ms()) == (row,)
    crawl.urls.settle(row, UrlState.VISITED)
    admit(crawl, "http://h/done", 2)
    assert crawl.assignments["default"].depth_decreased == {row.id.url_key: row.id.host_key}


def test_row_of_a_parked_host_counts_the_urls_known_at_its_write(
    crawl: CrawlState, tmp_path: Path
) -> None:
    """The counts of a host row include the URLs of the same commit."""

    def commit() -> list[str]:
        crawl.buffer.next_batch().commit()
        crawl.buffer.committed()
        report = verify(workspace)
        return [finding.what for finding in report.findings if finding.severity == "error"]

    workspace = Workspace.open(str(tmp_path / "workspace"))
    key = admit(crawl, "http://h/first", 1).id.host_key
    crawl.scheduler.parked.park(key)
    admit(crawl, "http://h/second", 1)  # the row of its host is in the batch
    assert (commit(), known_urls(workspace)) == ([], 2)
    admit(crawl, "http://h/third", 1)  # the row is not in the batch
    assert (commit(), known_urls(workspace)) == ([], 2)
    assert crawl.scheduler.parked.directory.waiting.sum() == 3
    load(crawl, LiveTables(workspace))  # like after a kill
    host = crawl.scheduler.open(key)
    assert host is not None
    assert host.row.known == 3
    crawl.buffer.batch.change_host(host.row)
    assert (commit(), known_urls(workspace)) == ([], 3)


def known_urls(workspace: Workspace) -> int:
    return int(
        LiveTables(workspace).scan("hosts").filter(pl.col("host") == "h").collect()["known"].item()
    )


def test_aborted_request_delays_the_next_one_of_its_host(crawl: CrawlState) -> None:
    """Also a robots.txt request that is aborted because a lease has ended."""
    row = admit(crawl, "http://h/page", 1)
    host = crawl.frontier.hosts[row.id.host_key].row
    host.delay_ms = 20_000
    now = crawl.clock.monotonic_ms()
    for task in (
        crawl.hosts.robots_task("http://h"),
        Task(row.id, (row,), "http://h", VisitKind.PAGE),
    ):
        if task.rows:
            crawl.frontier.active.remove(row.collection, row.id.host_key, row.key)
        crawl.frontier.start(row.id.host_key, now)
        crawl.urls.give_back(task, now)
        assert crawl.frontier.ready_at(row.id.host_key) == now + 20_000
        now += 30_000


def test_requested_page_is_fetched_before_due_pages(tmp_path: Path) -> None:
    """A page that a link or sitemap makes due comes after earlier ones."""
    crawl = state_of(tmp_path, recrawl="age", max_age="1m")
    clock = crawl.clock
    assert isinstance(clock, ManualClock)
    rows = [admit(crawl, f"http://h/{number}", number) for number in range(4)]
    for row in rows:
        assert crawl.frontier.active.remove("default", row.id.host_key, row.key) is row
        row.visited_at = clock.now_ms() + row.depth
        crawl.urls.settle(row, UrlState.VISITED)
    clock.advance(3_600_000)
    for row in rows[1:3]:
        crawl.scheduler.heads.wait_for(row)
    crawl.urls.make_due(rows[0], requested=False)
    crawl.urls.make_due(rows[3])
    now = clock.monotonic_ms()
    order = []
    while results := crawl.frontier.next(now):
        order.append(results[0].depth)
        crawl.frontier.finished(results[0].id.host_key, now, 0)
    assert order == [3, 1, 2, 0]
    crawl.close()


@pytest.mark.parametrize("table", ["urls", "links"])
def test_a_worker_reads_the_rows_of_its_partitions(tmp_path: Path, table: str) -> None:
    workspace = Workspace.create(str(tmp_path / "workspace"), 8)
    page = '<title>A</title><p>A page.<a href="/other">other</a>'
    fetched = [Fetched(f"http://{name}.example/", 1, page) for name in "abcdefghijkl"]
    commit(workspace, workspace.claim("test"), fetched, {})
    all_rows = LiveTables(workspace).scan(table).collect()
    for held in (frozenset({4, 5, 6}), frozenset({0, 7})):
        tables = HeldTables(workspace, workspace.state(), HeldPartitions(8, held))
        read = pl.concat(tables.batches(table))
        assert 0 < read.height < all_rows.height
        assert read.equals(all_rows.filter(pl.col("partition").is_in(held)))
