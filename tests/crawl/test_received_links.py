"""What an owner makes of found rows: of any kind, twice, of a collection that it does not work; and
when the log is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from lycosa.core.clock import ManualClock
from lycosa.core.records import Exchange, Request, UrlRow
from lycosa.crawl.admission.received_links import RECORD_INTERVAL_MS
from lycosa.crawl.admission.remote_links import Way
from lycosa.crawl.session.session import CrawlSession
from lycosa.store.compaction.compact import compact
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.rows import found_row
from lycosa.url.keys import Identifier
from tests.crawl.crew import PARTITIONS, Crew, job
from tests.servers.synthetic.simulated import SimulatedClock

HOST = "http://x.test"


class NoAnswers:
    """A fetcher that nobody answers."""

    active = 0

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def start(self, request: Request) -> None:
        raise AssertionError(f"nothing is to be fetched: {request.url}")

    def wait(self, timeout_ms: int) -> list[Exchange]:
        return []

    def sleep(self, timeout_ms: int, wake: object) -> None:
        self._clock.advance(timeout_ms)

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Owner:
    """A session that holds the partition of `HOST`, and fetches nothing; the rest is held by a
    claim that only commits found rows.
    """

    def __init__(self, root: Path) -> None:
        clock = SimulatedClock()
        self.crew = Crew(
            root, clock, job([f"{HOST}/"], depth=5), fetcher=lambda name: NoAnswers(clock)
        )
        self.workspace = self.crew.workspace()
        self.identifier = Identifier(self.workspace.domains, PARTITIONS)
        self.partition = self.identifier.identify(f"{HOST}/").partition
        self.other: Claim = self.workspace.claim(
            "other", set(range(PARTITIONS)) - {self.partition}, clock=clock
        )
        self.session: CrawlSession = self.crew.join("owner", {self.partition})
        self.session.worker.dispatcher.pause(True)

    def find(
        self,
        *paths: str,
        depth: int = 2,
        collection: str = "default",
        operation: str = "",
        way: Way | None = None,
    ) -> int:
        buffers, way = Buffers(), way or Way("http://b.test/", kind="a", first_seen_at=5)
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
        until = self.crew.clock.now_ms() + 1_000 * seconds
        while self.crew.clock.now_ms() < until:
            self.session.worker.turn()
            if (commit := self.session.worker.commits.under_way) is not None:
                commit.result()  # no simulated second passes while the disk is at work

    def urls(self) -> dict[str, tuple[int, str, str]]:
        return {
            str(url).removeprefix(HOST): (depth, state, reason)
            for url, depth, state, reason in self.crew.table("urls")
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
    owner.crew.kill("owner")


def test_rows_are_applied_and_committed_within_seconds_and_once_is_enough(owner: Owner) -> None:
    entry = owner.find("/a", "/b")
    owner.turn()
    assert owner.urls() == {"/": (0, "known", ""), "/a": (2, "known", ""), "/b": (2, "known", "")}
    assert owner.applied >= entry
    again = owner.find("/a", depth=4)
    owner.turn()
    assert owner.applied >= again
    assert owner.urls()["/a"] == (2, "known", "")
    owner.find("/a", depth=1)
    owner.turn()
    assert owner.urls()["/a"] == (1, "known", "")
    assert owner.crew.table("found").height == 0
    assert owner.crew.table("urls").filter(pl.col("url") == f"{HOST}/a")["first_seen_at"].dt.epoch(
        "ms"
    ).to_list() == [5]


def test_todays_limits_hold_for_what_others_send(owner: Owner) -> None:
    owner.find("/far", depth=6)
    owner.find("/hop", way=Way("http://b.test/", redirects=11, kind="redirect"))
    owner.find(
        "/map.xml",
        operation="sitemap",
        way=Way("http://b.test/robots.txt", kind="sitemap", priority=1.0),
    )
    owner.turn()
    urls = owner.urls()
    assert "/far" not in urls
    assert urls["/hop"][1:] == ("excluded", "redirect_limit")
    assert urls["/map.xml"][1] == "known"
    assert owner.session.worker.progress.refused["depth"] == 1


def test_rows_of_a_collection_that_is_not_worked_wait_for_one_that_works_it(owner: Owner) -> None:
    before = owner.find("/a")
    entry = owner.find("/b", collection="other")
    owner.find("/c")
    owner.turn()
    assert {"/a", "/c"} <= owner.urls().keys()
    assert before <= owner.applied < entry
    assert "other" in owner.crew.table("found")["collection"].to_list()


def test_others_entries_alone_make_no_commit_until_a_sweep_may_wait(owner: Owner) -> None:
    owner.find("/a")
    owner.turn()
    reply = owner.applied
    for _ in range(3):
        owner.other.commit(owner.other.next_folder(), {}, CommitContents(counters={"x": 1}))
    owner.turn(60)
    head = owner.workspace.state().head
    assert owner.applied == reply
    assert owner.session.worker.idle()[1] == head
    compact(owner.workspace, whole=True)
    owner.turn(RECORD_INTERVAL_MS // 1_000 + 10)
    assert owner.applied > head
    head = owner.workspace.state().head
    owner.turn(2 * RECORD_INTERVAL_MS // 1_000)
    assert owner.workspace.state().head == head
