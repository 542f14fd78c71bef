"""Several sessions that share the partitions of one workspace.

They run in this process, one iteration of each worker loop after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock
from lycosa.core.errors import ClaimLost
from lycosa.crawl.fetch_pipeline import Fetcher
from lycosa.crawl.membership import Lease
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.state.task import Job
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

PARTITIONS = 16
QUICK = (
    "crawl.patience=2s",
    "crawl.commit_pages=40",
    "crawl.commit_interval=20s",
    "fetch.retry_wait=1s",
)
_MAX_TURNS = 200_000

MakeFetcher = Callable[[str], Fetcher | None]


@dataclass
class WorkerGroup:
    """Sessions by worker name.

    `fetcher` returns the fetcher of a member, or None to use the network.
    """

    root: Path
    clock: Clock
    job: Job
    fetcher: MakeFetcher = lambda name: None
    settings: tuple[str, ...] = ()
    longest_wait_ms: int = 200
    members: dict[str, CrawlSession] = field(default_factory=dict)
    turns: int = 0
    pages: int = 0
    found_rows: int = 0

    def workspace(self) -> Workspace:
        return Workspace.open_or_create(str(self.root), PARTITIONS)

    def join(
        self,
        name: str,
        partitions: Iterable[int] | None,
        *,
        lease: Lease | None = None,
        granted: dict[str, int] | None = None,
    ) -> CrawlSession:
        """Add a member that claims and loads these partitions."""
        config = parse_config("", overrides=(*QUICK, *self.settings))
        session = open_session(
            self.workspace(),
            config,
            [self.job],
            SessionOptions(
                forever=partitions is not None,
                fetcher=self.fetcher(name),
                longest_wait_ms=self.longest_wait_ms,
                partitions=partitions,
                worker=name,
                lease=lease,
            ),
            command="test",
            clock=self.clock,
        )
        self.members[name] = session
        if granted is not None:
            session.worker.quota.grant(granted)
        session.load()
        return session

    def share(self, names: Sequence[str]) -> None:
        """Add these members and assign the partitions round-robin."""
        for number, name in enumerate(names):
            self.join(name, range(number, PARTITIONS, len(names)))

    def kill(self, name: str) -> frozenset[int]:
        """Remove a member as SIGKILL does and return its partitions.

        Uncommitted exchanges stay in its WARC.
        """
        session = self.members.pop(name)
        held = session.claim.partitions
        self._count(session)
        session.close()
        return held

    def leave(self, name: str) -> frozenset[int]:
        """Let a member commit, release its claim and end."""
        session = self.members.pop(name)
        session.worker.end("stopped")
        self._count(session)
        session.claim.release()
        session.close()
        return session.claim.partitions

    def turn(self) -> None:
        self.turns += 1
        for session in list(self.members.values()):
            session.worker.turn()
            session.inbox.apply()

    def ended(self) -> bool:
        """Return whether all members are idle at the head of the log."""
        snapshots = [session.worker.idleness for session in self.members.values()]
        heads = {each.head for each in snapshots if each.idle}
        return all(each.idle for each in snapshots) and heads == {self.workspace().state().head}

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Run turns until the condition holds, by default `ended`."""
        done = until or self.ended
        for _ in range(_MAX_TURNS):
            self.turn()
            if done():
                return
        raise AssertionError("the crawl does not end")

    def close(self) -> None:
        for name in list(self.members):
            with suppress(ClaimLost):
                self.leave(name)

    def _count(self, session: CrawlSession) -> None:
        self.pages += session.worker.progress.pages
        self.found_rows += session.received_links.rows

    def table(self, name: str) -> pl.DataFrame:
        return LiveTables(self.workspace()).scan(name).collect()

    def facts(self) -> dict[str, list[tuple[object, ...]]]:
        """Return table contents that do not depend on the schedule.

        Left out: times, the worker, and the page whose link was first.
        """
        urls = self.table("urls").select(
            "collection", "operation", "url", "depth", "state", "reason", "text_digest", "digest"
        )
        pages = self.table("pages").select(
            "collection", "url", "text_digest", "simhash", "language", "title"
        )
        links = self.table("links").select("source", "target", "anchor", "kind", "position")
        visits = (
            self.table("visits")
            .filter(pl.col("kind") != "robots")
            .select("collection", "url", "kind", "http_status", "digest")
        )
        return {
            "urls": sorted(urls.rows()),
            "pages": sorted(pages.rows()),
            "links": sorted(links.rows()),
            "visits": sorted(visits.rows()),
        }


def job(seeds: Iterable[str], **settings: object) -> Job:
    """Return a job for a synthetic web with a delay of one second."""
    quick = {
        "scope": "any",
        "delay": "1s",
        "courtesy_factor": 0.0,
        "backoff": "1s",
        "traps": False,
        "connections": 100,
    }
    return Job(Collection.model_validate({**quick, **settings}), tuple(seeds))
