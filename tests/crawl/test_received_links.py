"""Links to remote partitions: sending them, and applying them as the owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from lycosa.core.records import Exchange, Request, UrlId, UrlRow
from lycosa.crawl.admission import remote_links
from lycosa.crawl.admission.received_links import RECORD_INTERVAL_MS
from lycosa.crawl.admission.remote_links import INBOX_LINK, Provenance, RemoteLinks
from lycosa.crawl.admission.url_filter import FilterResult
from lycosa.crawl.session.session import CrawlSession
from lycosa.frontier.rows.row_positions import within
from lycosa.store.compaction.compact import compact
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.rows import Row, found_row
from lycosa.url.keys import Identifier
from tests.crawl.worker_group import PARTITIONS, WorkerGroup, job
from tests.servers.synthetic.simulated import SimulatedClock
from tests.waiting import ManualClock

HOST = "http://x.test"


class IdleFetcher:
    """A fetcher that fails on any request."""

    active = 0

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def start(self, request: Request) -> None:
        raise AssertionError(f"unexpected request: {request.url}")

    def wait(self, timeout_ms: int) -> list[Exchange]:
        return []

    def sleep(self, timeout_ms: int, wake: object) -> None:
        self._clock.advance(timeout_ms)

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Owner:
    """A session that owns the partition of `HOST` and fetches nothing.

    Another claim owns the other partitions and commits found rows.
    """

    def __init__(self, root: Path, depth: int | None = 5) -> None:
        self.clock = clock = SimulatedClock()
        self.group = WorkerGroup(
            root, clock, job([f"{HOST}/"], depth=depth), fetcher=lambda name: IdleFetcher(clock)
        )
        self.workspace = self.group.workspace()
        self.identifier = Identifier(self.workspace.domains, PARTITIONS)
        self.partition = self.identifier.identify(f"{HOST}/").partition
        self.other: Claim = self.workspace.claim(
            "other", set(range(PARTITIONS)) - {self.partition}, clock=clock
        )
        self.session: CrawlSession = self.group.join("owner", {self.partition})
        self.session.worker.dispatcher.pause(True)

    def find(
        self,
        *paths: str,
        depth: int = 2,
        collection: str = "default",
        operation: str = "",
        way: Provenance | None = None,
    ) -> int:
        buffers, way = Buffers(), way or Provenance("http://b.test/", kind="a", first_seen_at=5)
        for path in paths:
            row = UrlRow(
                self.identifier.identify(HOST + path),
                collection,
                depth,
                operation,
                first_seen_at=way.first_seen_at,
            )
            row.redirects, row.priority = way.redirects, way.priority
            buffers.found.add(
                found_row(
                    row, source=way.referrer, anchor="", kind=way.kind, modified_at=way.modified_at
                )
            )
        return self.other.commit(self.other.next_folder(), buffers.mapping())

    def turn(self, seconds: int = 5) -> None:
        until = self.group.clock.now_ms() + 1_000 * seconds
        while self.group.clock.now_ms() < until:
            self.session.worker.turn()
            if (commit := self.session.worker.commits.under_way) is not None:
                commit.result()  # no simulated time passes during a commit

    def urls(self) -> dict[str, tuple[int, str, str]]:
        return {
            str(url).removeprefix(HOST): (depth, state, reason)
            for url, depth, state, reason in self.group.table("urls")
            .select("url", "depth", "state", "reason")
            .iter_rows()
        }

    @property
    def applied(self) -> int:
        return self.workspace.state().applied.get(self.partition, 0)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "w")
    yield owner
    owner.group.kill("owner")


def test_rows_are_applied_and_committed_within_seconds_and_only_once(owner: Owner) -> None:
    entry = owner.find("/a", "/b")
    owner.turn()
    assert owner.urls() == {"/": (0, "known", ""), "/a": (2, "known", ""), "/b": (2, "known", "")}
    assert owner.applied >= entry
    longer_path = owner.find("/a", depth=4)
    owner.turn()
    assert owner.applied >= longer_path
    assert owner.urls()["/a"] == (2, "known", "")
    owner.find("/a", depth=1)
    owner.turn()
    assert (owner.urls()["/a"], owner.group.table("found").height) == ((1, "known", ""), 0)
    assert owner.group.table("urls").filter(pl.col("url") == f"{HOST}/a")["first_seen_at"].dt.epoch(
        "ms"
    ).to_list() == [5]


def test_current_limits_apply_to_received_links(owner: Owner) -> None:
    owner.find("/far", depth=6)
    owner.find("/hop", way=Provenance("http://b.test/", redirects=11, kind="redirect"))
    owner.find(
        "/map.xml",
        operation="sitemap",
        way=Provenance("http://b.test/robots.txt", kind="sitemap", priority=1.0),
    )
    owner.turn()
    urls = owner.urls()
    assert "/far" not in urls
    assert (urls["/hop"][1:], urls["/map.xml"][1]) == (("excluded", "redirect_limit"), "known")
    assert owner.session.worker.progress.refused["depth"] == 1


@pytest.mark.parametrize(("depth", "walks_before_a_request"), [(None, False), (5, True)])
def test_without_a_depth_limit_links_are_walked_again_only_if_nothing_is_due_soon(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    depth: int | None,
    walks_before_a_request: bool,
) -> None:
    """A walk reads all stored links. At each pause between requests it took a fifth of the CPU."""
    owner = Owner(tmp_path / "w", depth)
    session, clock = owner.session, owner.clock
    assignment = session.crawl.assignments["default"]
    patience = session.crawl.config.crawl.patience
    due = clock.monotonic_ms() + patience // 2
    monkeypatch.setattr(type(session.worker), "nothing_to_do", lambda self, until: until < due)
    assignment.depth_decreased[1] = 2
    session.follow()
    assert bool(assignment.depth_decreased) != walks_before_a_request
    due = clock.monotonic_ms() + 2 * patience
    clock.advance(1_000)
    session.follow()
    assert not assignment.depth_decreased
    owner.group.kill("owner")


def test_rows_of_a_collection_that_is_not_crawled_remain_unapplied(owner: Owner) -> None:
    before = owner.find("/a")
    entry = owner.find("/b", collection="other")
    owner.find("/c")
    owner.turn()
    assert {"/a", "/c"} <= owner.urls().keys()
    assert before <= owner.applied < entry
    assert "other" in owner.group.table("found")["collection"].to_list()


def test_entries_of_other_workers_cause_no_commit_except_for_vacuum(owner: Owner) -> None:
    """A commit of the applied position lets vacuum delete log entries."""
    owner.find("/a")
    owner.turn()
    applied = owner.applied
    for _ in range(3):
        owner.other.commit(owner.other.next_folder(), {}, CommitContents(counters={"x": 1}))
    owner.turn(60)
    head = owner.workspace.state().head
    assert (owner.applied, owner.session.worker.idleness.head) == (applied, head)
    compact(owner.workspace, whole=True)
    owner.turn(RECORD_INTERVAL_MS // 1_000 + 10)
    assert owner.applied > head
    head = owner.workspace.state().head
    owner.turn(2 * RECORD_INTERVAL_MS // 1_000)
    assert owner.workspace.state().head == head


URL = UrlId("http://a.test/x", "a.test", 1, 2, 3)
LINK = Provenance("http://b.test/", kind="a", anchor="x")


def remote_links_to(rows: list[Row], again_ms: int | None = None) -> RemoteLinks:
    """Return `RemoteLinks` that append their rows to a list."""
    return RemoteLinks(
        "c",
        frozenset({0, 1}),
        put=rows.append,
        screen=lambda url: FilterResult(),
        again_ms=again_ms,
    )


def test_repeated_link_is_sent_once_and_a_shorter_path_again() -> None:
    rows: list[Row] = []
    links = remote_links_to(rows)
    assert links.send(URL, 5, 1_000, LINK)
    assert not links.send(URL, 5, 2_000, LINK)
    assert not links.send(URL, 7, 3_000, LINK)
    assert len(rows) == 1
    assert not links.send(URL, 4, 4_000, LINK)
    assert not links.send(URL, 5, 5_000, LINK)
    assert [row[9] for row in rows] == [5, 4]
    assert links.was_sent(URL)
    assert not links.was_sent(URL, "feed")  # a feed has a separate row
    assert links.send(URL, 5, 6_000, LINK, "feed")


def test_newer_modification_dates_and_submissions_are_sent() -> None:
    rows: list[Row] = []
    links = remote_links_to(rows)
    links.send(URL, 1, 1_000, LINK._replace(modified_at=500))
    links.send(URL, 1, 2_000, LINK._replace(modified_at=400))
    links.send(URL, 1, 3_000, LINK._replace(modified_at=600))
    assert [row[-1] for row in rows] == [500, 600]
    for at in (4_000, 5_000):
        links.send(URL, 1, at, Provenance(kind=INBOX_LINK, first_seen_at=77))
    assert [row[-2] for row in rows[2:]] == [77, 77]


def test_links_that_make_pages_due_are_sent_again_after_an_interval() -> None:
    rows: list[Row] = []
    links = remote_links_to(rows, again_ms=10_000)
    for at in (0, 5_000, 10_000, 15_000, 20_000):
        links.send(URL, 1, at, LINK)
    assert [row[-2] for row in rows] == [0, 10_000, 20_000]


def test_memory_of_sent_links_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_links, "_REMEMBERED", 10)
    rows: list[Row] = []
    links = remote_links_to(rows)
    for key in range(100):
        links.send(URL._replace(url_key=key), 1, key, LINK)
    assert sum(links.was_sent(URL._replace(url_key=key)) for key in range(100)) <= 20
    assert links.was_sent(URL._replace(url_key=99))


def test_ranges_are_restricted_to_the_claimed_partitions() -> None:
    shift = 52
    ranges = [(0, 5 << shift), (5 << shift, 1 << 64)]
    assert within(ranges, {2, 3, 7}) == [(2 << shift, 4 << shift), (7 << shift, 8 << shift)]
    assert within(ranges, {4, 5}) == [(4 << shift, 5 << shift), (5 << shift, 6 << shift)]
    assert (within(ranges, range(4096)), within(ranges, ())) == (ranges, [])
